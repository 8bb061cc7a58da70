"""Files of NanoVDB grids (.nvdb): header, one record for each grid, then the grids, plain or compressed.

    magic 8 │ version 4 │ grids 2 │ codec 2 ║ record 176, name … for each grid ║ grid, grid …
    (a file may hold several such segments)
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import ArgumentError
from engine.replace_file import replacing
from engine.volume import layout as at
from engine.volume.check import Bytes, Grid, Unsupported, read_grid

FILE_MAGICS = (b"NanoVDB0", b"NanoVDB2")
CODECS = ("none", "zip", "blosc")
HEAD, RECORD = struct.Struct("<8sIHH"), 176
BLOSC_PIECE, BLOSC_HEAD = 1 << 30, 16  # bytes of a grid that are packed at once, and in front of what they become


def read_file(source: Any) -> Bytes:
    """All grids of a file, one after the other. `source`: a path, bytes, or an open file. Raises ArgumentError."""
    if isinstance(source, str | Path):
        source = Path(source).read_bytes()
    raw = source.read() if hasattr(source, "read") else source
    try:
        data = memoryview(raw).cast("B")
    except TypeError:
        raise ArgumentError(f"a NanoVDB file is a path, bytes or an open file, not {type(raw).__name__}") from None
    if bytes(data[:8]) == at.MAGICS[1]:  # grids without a file around them
        grids = [np.frombuffer(data, np.uint8)]
    else:
        grids, place = [], 0
        while place < len(data) or not grids:
            place = _read_segment(data, place, grids)
    whole = np.concatenate(grids)
    check_all(whole)
    return whole


def check_all(data: Bytes) -> list[Grid]:
    """The headers of all grids that lie one after the other. What is damaged is said before what is not supported."""
    found: list[Grid] = []
    refused: Unsupported | None = None
    while len(data) or not (found or refused):
        try:
            found.append(read_grid(data, in_file=True))
            size = found[-1].size
        except Unsupported as error:
            refused, size = refused or error, error.size
        data = data[size:]
    if refused is not None:
        raise refused
    return found


def _read_segment(data: memoryview, place: int, grids: list[Bytes]) -> int:
    """Adds the grids of a segment; the place behind it."""
    if len(data) - place < HEAD.size:
        raise ArgumentError("the NanoVDB file is cut off")
    magic, version, count, codec = HEAD.unpack_from(data, place)
    if magic not in FILE_MAGICS:
        raise ArgumentError("this is no NanoVDB file")
    if version >> 21 != at.VERSION >> 21 or codec >= len(CODECS):
        raise ArgumentError(f"NanoVDB version {version >> 21}, codec {codec} is not supported")
    if count == 0:
        raise ArgumentError("the NanoVDB file holds no grids")
    place += HEAD.size
    sizes = []
    for _ in range(count):
        if len(data) - place < RECORD:
            raise ArgumentError("the NanoVDB file is cut off")
        sizes.append(struct.unpack_from("<QQ", data, place))
        place += RECORD + struct.unpack_from("<I", data, place + 136)[0]
    for size, stored in sizes:
        if len(data) - place < stored:
            raise ArgumentError("the NanoVDB file is cut off")
        grids.append(_unpacked(data[place : place + stored], size, CODECS[codec]))
        place += stored
    return place


def _unpacked(stored: memoryview, size: int, codec: str) -> Bytes:
    """One grid's bytes."""
    plain: Any = stored
    if codec == "zip":
        try:
            plain = zlib.decompressobj().decompress(stored[8:], size) if size else b""
        except (zlib.error, OverflowError) as error:
            raise ArgumentError(f"the NanoVDB file is damaged: {error}") from None
    elif codec == "blosc":
        plain = _blosc_unpacked(stored, size)
    if len(plain) != size:
        raise ArgumentError(f"the NanoVDB file is damaged: a grid of {size} bytes has {len(plain)}")
    return np.frombuffer(plain, np.uint8)


def _blosc() -> Any:
    """The compressor, a package of its own. Raises ArgumentError where it is not installed."""
    try:
        from numcodecs import blosc
    except ImportError:
        raise ArgumentError("Blosc compression takes the package numcodecs (pip install 'weft-engine[blosc]'); "
                            "ZIP, or none, do without") from None  # fmt: skip
    return blosc


def _blosc_unpacked(stored: memoryview, size: int) -> bytes:
    """Pieces, each behind its length in 8 bytes. What the decompressor trusts is compared with what is there."""
    blosc, plain, place = _blosc(), [], 0
    while size > 0:
        length = int.from_bytes(stored[place : place + 8], "little")
        piece = stored[place + 8 : place + 8 + length]
        place += 8 + length
        if len(piece) != length or length < BLOSC_HEAD:
            raise ArgumentError("the NanoVDB file is damaged: a piece is cut off")
        expected, _block, packed = struct.unpack_from("<III", piece, 4)
        if expected != min(size, BLOSC_PIECE) or packed != length:
            raise ArgumentError("the NanoVDB file is damaged: a piece says another size than it has")
        try:
            plain.append(blosc.decompress(piece))
        except (RuntimeError, ValueError) as error:
            raise ArgumentError(f"the NanoVDB file is damaged: {error}") from None
        size -= expected
    return b"".join(plain)


def _blosc_packed(plain: bytes) -> bytes:
    """As NanoVDB's own tools pack: LZ4 of shuffled words of 4 bytes."""
    pieces = (plain[at : at + BLOSC_PIECE] for at in range(0, len(plain), BLOSC_PIECE))
    words = (np.frombuffer(piece, np.uint8).view("<u4") for piece in pieces)
    packed = [_blosc().compress(w, b"lz4", 9, 1, 1 << 18) for w in words]
    return b"".join(struct.pack("<Q", len(p)) + p for p in packed)


def write_file(path: str | Path, data: Bytes, codec: str = "none") -> None:
    """Writes grids that lie one after the other. Raises ArgumentError: codec unknown, or missing; not a whole file."""
    if codec not in CODECS:
        raise ArgumentError(f"codec must be one of {', '.join(CODECS)}, got {codec!r}")
    found = check_all(data)
    if found[0].index != 0 or len(found) != found[0].grids:
        raise ArgumentError("a file is saved from its first grid, with all that follow")
    records, stored, place = bytearray(), [], 0
    for grid in found:
        plain = data[place : place + grid.size]
        place += grid.size
        if codec == "zip":
            packed = zlib.compress(plain.tobytes())
            stored.append(struct.pack("<Q", len(packed)) + packed)
        elif codec == "blosc":
            stored.append(_blosc_packed(plain.tobytes()))
        else:
            stored.append(plain.tobytes())
        records += _record(plain, grid, len(stored[-1]), CODECS.index(codec))
    version = int(data[at.VERSION_AT : at.VERSION_AT + 4].view("<u4")[0])
    magic = FILE_MAGICS[0] if data[:8].tobytes() == at.MAGICS[0] else FILE_MAGICS[1]
    head = HEAD.pack(magic, version, len(found), CODECS.index(codec))
    with replacing(path) as beside:
        beside.write_bytes(b"".join([head, bytes(records), *stored]))


def _record(plain: Bytes, grid: Grid, stored: int, codec: int) -> bytes:
    name = grid.name.encode() + b"\0"
    voxels = int(plain[at.HEADER + 56 : at.HEADER + 64].view("<u8")[0])
    grid_class = int(plain[at.CLASS_AT : at.CLASS_AT + 4].view("<u4")[0])
    head = struct.pack("<QQQQII", grid.size, stored, _name_key(name[:-1]), voxels, grid.kind.code, grid_class)
    boxes = plain[at.WORLD_BOX_AT : at.WORLD_BOX_AT + 48].tobytes() + plain[grid.root : grid.root + 24].tobytes()
    voxel = plain[at.VOXEL_SIZE_AT : at.VOXEL_SIZE_AT + 24].tobytes()
    nodes = struct.pack("<5I", len(name), grid.leaves, grid.lowers, grid.uppers, 1)
    tiles = plain[at.HEADER + 44 : at.HEADER + 56].tobytes()
    version = plain[at.VERSION_AT : at.VERSION_AT + 4].tobytes()
    return head + boxes + voxel + nodes + tiles + struct.pack("<HH", codec, 0) + version + name


def _name_key(name: bytes) -> int:
    """NanoVDB's hash of a name."""
    key = 0
    for c in name:
        key = (key * 67 + c + (key >> 56)) & (2**64 - 1)
    return key
