"""Reads the header of a NanoVDB grid, and makes sure that no reference of its tree leads out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ArgumentError
from engine.volume import layout as at
from engine.volume.layout import Kind, Layout, layout

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Blind:
    """Data of the file's author behind the tree: fVDB's features, for one."""

    name: str
    start: int  # in bytes from the grid's start
    value_size: int  # bytes
    count: int
    type_name: str


@dataclass(frozen=True)
class Grid:
    """A grid's header. Offsets are bytes from the grid's start."""

    kind: Kind
    name: str
    size: int
    index: int  # among the grids of its file
    grids: int
    matrix: NDArray[np.float64]  # (3, 3) index -> world
    translation: NDArray[np.float64]  # (3,)
    values: int  # of an index grid, the background's included
    leaves: int
    lowers: int
    uppers: int
    first_leaf: int
    first_lower: int
    first_upper: int
    root: int
    tiles: int
    blind: tuple[Blind, ...]

    @property
    def layout(self) -> Layout:
        return layout(self.kind)


class Unsupported(ArgumentError):
    """A grid of `size` bytes that may be sound, but cannot be used here."""

    def __init__(self, what: str, size: int):
        super().__init__(what)
        self.size = size


def wrong(what: str) -> ArgumentError:
    return ArgumentError(f"Invalid NanoVDB grid structure: {what}")


def read_grid(data: Bytes, in_file: bool = False) -> Grid:
    """The header of the grid at the start of `data`, after a check of the whole tree.

    Kernels follow the tree without looking: a grid that passes cannot lead them out of its bytes. Raises ArgumentError.
    `in_file` asks for what files must have on top: grids of whole 32 bytes.
    """
    if len(data) < at.HEADER + at.TREE:
        raise wrong(f"{len(data)} bytes are too few for a grid")
    if data[:8].tobytes() not in at.MAGICS:
        raise wrong("it does not start as a NanoVDB grid does")
    version = _number(data, at.VERSION_AT, "<u4")
    if version >> 21 != at.VERSION >> 21:
        raise ArgumentError(f"NanoVDB version {version >> 21} is not supported: version 32 is")
    size = _number(data, at.SIZE_AT, "<u8")
    if not at.HEADER + at.TREE <= size <= len(data):
        raise wrong(f"the grid says it has {size} bytes, {len(data)} are there")
    if size > at.LARGEST:
        raise ArgumentError(f"a grid of {size / 2**30:.0f} GiB is too large: {at.LARGEST >> 30} GiB are possible")
    if in_file and size % at.ALIGNMENT:
        raise wrong(f"a grid of {size} bytes, no multiple of {at.ALIGNMENT}")
    kind = at.KINDS.get(_number(data, at.TYPE_AT, "<u4"))
    if kind is None:
        raise wrong(f"values of type {_number(data, at.TYPE_AT, '<u4')} are unknown")
    if not _number(data, at.FLAGS_AT, "<u4") & at.BREADTH_FIRST:
        raise Unsupported("Unsupported NanoVDB tree layout: nodes are not in breadth-first order", size)
    grid = _header(data[:size], kind)
    _check_order(grid, _blind_start(data[:size]))
    _check_children(data[:size], grid, _blind_start(data[:size]))
    return grid


def _number(data: Bytes, offset: int, kind: str) -> int:
    return int(np.frombuffer(data[offset : offset + int(kind[2:])].tobytes(), kind)[0])


def _floats(data: Bytes, offset: int, count: int) -> NDArray[np.float64]:
    return np.frombuffer(data[offset : offset + 8 * count].tobytes(), "<f8")


def _name(data: Bytes, offset: int, what: str) -> str:
    raw = data[offset : offset + at.NAME_SIZE].tobytes()
    if b"\0" not in raw:
        raise wrong(f"the {what} has no end")
    return raw[: raw.index(b"\0")].decode("utf-8", "replace")


def _header(data: Bytes, kind: Kind) -> Grid:
    leaf, lower, upper, root = (_number(data, at.HEADER + 8 * n, "<u8") for n in range(4))
    leaves, lowers, uppers = (_number(data, at.HEADER + 32 + 4 * n, "<u4") for n in range(3))
    root += at.HEADER
    if root % 8 or root < at.HEADER + at.TREE or root + layout(kind).root > len(data):
        raise wrong("the root lies outside of the grid")
    return Grid(
        kind=kind,
        name=_name(data, at.NAME_AT, "grid's name"),
        size=len(data),
        index=_number(data, at.INDEX_AT, "<u4"),
        grids=_number(data, at.COUNT_AT, "<u4"),
        matrix=_floats(data, at.MAP_AT + 88, 9).reshape(3, 3),
        translation=_floats(data, at.MAP_AT + 88 + 144, 3),
        values=_number(data, at.VALUES_AT, "<u8"),
        leaves=leaves,
        lowers=lowers,
        uppers=uppers,
        first_leaf=leaf + at.HEADER,
        first_lower=lower + at.HEADER,
        first_upper=upper + at.HEADER,
        root=root,
        tiles=_number(data, root + at.ROOT_TILES, "<u4"),
        blind=_blind(data),
    )


def _blind_start(data: Bytes) -> int:
    """Where the tree has to end. Old files without blind data say 0."""
    start = _number(data, at.BLIND_AT, "<i8")
    return start if start > 0 else len(data)


def _blind(data: Bytes) -> tuple[Blind, ...]:
    start, count = _number(data, at.BLIND_AT, "<i8"), _number(data, at.BLIND_COUNT_AT, "<u4")
    if count and not (0 <= start and start + count * at.BLIND_SIZE <= len(data)):
        raise wrong(f"{count} records of blind data at byte {start} are outside of the grid")
    found = []
    for entry in range(start, start + count * at.BLIND_SIZE, at.BLIND_SIZE):
        first = entry + _number(data, entry, "<i8")
        values, value_size = _number(data, entry + 8, "<u8"), _number(data, entry + 16, "<u4")
        if not 0 <= first <= len(data) - values * value_size:
            raise wrong("blind data outside of the grid")
        kind = at.KINDS.get(_number(data, entry + 28, "<u4"))
        name = _name(data, entry + at.BLIND_NAME_AT, "name of blind data")
        found.append(Blind(name, first, value_size, values, kind.name if kind else "?"))
    return tuple(found)


def _check_order(grid: Grid, end: int) -> None:
    """Root, uppers, lowers, leaves lie one behind the other, each in full."""
    spot = layout(grid.kind)
    used = grid.root + spot.root + grid.tiles * spot.tile
    levels = (
        ("upper", grid.first_upper, grid.uppers, spot.upper),
        ("lower", grid.first_lower, grid.lowers, spot.lower),
        ("leaf", grid.first_leaf, grid.leaves, spot.leaf or 96),
    )
    for name, first, count, size in levels:
        if count == 0:
            continue
        if first < used or first % 8 or first + count * size > grid.size:
            raise wrong(f"the {name} nodes lie outside of the grid, or over others")
        used = first + count * size
    if used > end or end > grid.size:
        raise wrong("the tree is longer than the grid, or reaches into the blind data")


def _check_children(data: Bytes, grid: Grid, end: int) -> None:
    """Every reference leads to the start of a node of the level below."""
    spot = layout(grid.kind)
    if grid.tiles:
        first = grid.root + spot.root
        tiles = data[first : first + grid.tiles * spot.tile].reshape(grid.tiles, spot.tile)
        children = np.ascontiguousarray(tiles[:, 8:16]).view("<i8").reshape(-1)
        _check_level(grid.root + children[children != 0], grid.first_upper, grid.uppers, spot.upper)
    lowers = _children(data, grid.first_upper, grid.uppers, spot.upper, at.UPPER_CHILDREN, spot.upper_table,
                       spot.stride, at.UPPER_COUNT)  # fmt: skip
    _check_level(lowers, grid.first_lower, grid.lowers, spot.lower)
    leaves = _children(data, grid.first_lower, grid.lowers, spot.lower, at.LOWER_CHILDREN, spot.lower_table,
                       spot.stride, at.LOWER_COUNT)  # fmt: skip
    if spot.leaf:
        _check_level(leaves, grid.first_leaf, grid.leaves, spot.leaf)
    else:
        _check_uneven_leaves(data, grid, leaves, end)


def _children(data: Bytes, first: int, nodes: int, size: int, mask: int, table: int, stride: int,
              count: int) -> NDArray[np.int64]:  # fmt: skip
    """Where the children of a level's nodes lie."""
    if nodes == 0:
        return np.zeros(0, np.int64)
    rows = data[first : first + nodes * size].reshape(nodes, size)
    has = np.unpackbits(rows[:, mask : mask + count // 8], axis=1, bitorder="little").astype(bool)
    entries = rows[:, table : table + count * stride].reshape(nodes, count, stride)
    node, place = np.nonzero(has)
    references = np.ascontiguousarray(entries[node, place, :8]).view("<i8").reshape(-1)
    return first + node * size + references


def _check_level(children: NDArray[Any], first: int, count: int, size: int) -> None:
    inside = (children >= first) & (children < first + count * size) & ((children - first) % size == 0)
    if not inside.all():
        raise wrong("a child is no node")


def _check_uneven_leaves(data: Bytes, grid: Grid, leaves: NDArray[np.int64], end: int) -> None:
    """Leaves of FloatN have 2ⁿ bits for each voxel, n in the upper three bits of their flags."""
    start = grid.first_leaf
    starts = []
    for _ in range(grid.leaves):
        if start + 96 > grid.size:
            raise wrong("a leaf reaches beyond the grid")
        starts.append(start)
        log_bits = _number(data, start + at.LEAF_FLAGS, "<u4") >> 29
        if log_bits > at.MOST_LOG_BITS:
            raise wrong(f"a leaf has {1 << log_bits} bits for each voxel, more than {1 << at.MOST_LOG_BITS}")
        start += 96 + (64 << log_bits)
    if start > end or not np.isin(leaves, starts).all():
        raise wrong("a leaf reaches beyond the grid, or a child is no leaf")
