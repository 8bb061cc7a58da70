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
from engine.volume.check import Bytes, Grid, read_grid

FILE_MAGICS = (b"NanoVDB0", b"NanoVDB2")
CODECS = ("none", "zip", "blosc")
HEAD, RECORD = struct.Struct("<8sIHH"), 176


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
    """The headers of all grids that lie one after the other."""
    found = []
    while True:
        found.append(read_grid(data, in_file=True))
        data = data[found[-1].size :]
        if len(data) == 0:
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
    if CODECS[codec] == "blosc":
        raise ArgumentError("the NanoVDB file is compressed with Blosc: save it with ZIP, or without compression")
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
    if len(plain) != size:
        raise ArgumentError(f"the NanoVDB file is damaged: a grid of {size} bytes has {len(plain)}")
    return np.frombuffer(plain, np.uint8)


def write_file(path: str | Path, data: Bytes, codec: str = "none") -> None:
    """Writes grids that lie one after the other. Raises ArgumentError: codec unknown or Blosc, not a whole file."""
    if codec not in CODECS:
        raise ArgumentError(f"codec must be one of {', '.join(CODECS)}, got {codec!r}")
    if codec == "blosc":
        raise ArgumentError("Blosc compression is not supported: use zip")
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
