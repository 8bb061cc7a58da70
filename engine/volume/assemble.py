"""Builds the bytes of a NanoVDB grid: the tree over given tiles of 8³ voxels, its masks, background and header."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ArgumentError
from engine.volume import layout as at
from engine.volume.check import Bytes
from engine.volume.layout import Kind, layout

Ints = NDArray[np.int64]
FARTHEST = 2**31 - 4097  # voxels beyond have no number


def voxel_tiles(voxels: Ints) -> tuple[Ints, NDArray[np.uint64]]:
    """(tiles (n, 3) that hold the voxels (m, 3), mask (n, 8) of those voxels)."""
    tiles, place = np.unique(voxels >> 3, axis=0, return_inverse=True)
    bits = np.zeros((len(tiles), at.LEAF_COUNT), np.uint8)
    inside = voxels & 7
    bits[place.reshape(-1), inside[:, 0] << 6 | inside[:, 1] << 3 | inside[:, 2]] = 1
    return tiles << 3, np.packbits(bits, axis=1, bitorder="little").view("<u8")


def assemble(
    kind: Kind,
    tiles: Ints,
    masks: NDArray[np.uint64] | None,
    background: bytes,
    matrix: NDArray[np.float64],
    translation: NDArray[np.float64],
    name: str = "",
    grid_class: int = at.UNKNOWN_CLASS,
) -> tuple[Bytes, Ints]:
    """(bytes of the grid, which of the tiles each leaf is).

    tiles (n, 3): lowest voxel of each, no two alike. masks (n, 8) of the active voxels; None: all. background: bytes of
    the value that every voxel has. matrix (3, 3), translation (3,): index -> world.
    """
    spot = layout(kind)
    if len(tiles) and np.abs(tiles).max() > FARTHEST:
        raise ArgumentError("voxels are numbered within ± 2³¹")
    upper_of, lower_of, in_upper, in_lower, order = _places(tiles)
    tiles, uppers, lowers = tiles[order], _firsts(upper_of), _firsts(lower_of)
    nupper, nlower, nleaf = len(uppers), len(lowers), len(tiles)
    root = at.HEADER + at.TREE
    first_upper = root + spot.root + nupper * spot.tile
    first_lower = first_upper + nupper * spot.upper
    first_leaf = first_lower + nlower * spot.lower
    size = first_leaf + nleaf * spot.leaf
    if size > at.LARGEST:
        raise ArgumentError(f"the grid would take {size / 2**30:.0f} GiB")
    data = np.zeros(size, np.uint8)
    masks = np.full((nleaf, 8), -1, "<i8").view("<u8") if masks is None else masks[order]

    upper_nodes = data[first_upper:first_lower].reshape(nupper, spot.upper)
    lower_nodes = data[first_lower:first_leaf].reshape(nlower, spot.lower)
    leaves = data[first_leaf:].reshape(nleaf, spot.leaf)
    upper_rank, lower_rank = _ranks(upper_of), _ranks(lower_of)
    _fill_tables(upper_nodes, at.UPPER_CHILDREN, spot.upper_table, spot.stride, background, upper_rank[lowers],
                 in_upper[lowers], first_lower + spot.lower * np.arange(nlower), first_upper)  # fmt: skip
    _fill_tables(lower_nodes, at.LOWER_CHILDREN, spot.lower_table, spot.stride, background, lower_rank, in_lower,
                 first_leaf + spot.leaf * np.arange(nleaf), first_lower)  # fmt: skip
    _fill_leaves(leaves, kind, tiles, masks, background)
    _fill_boxes(upper_nodes, lower_nodes, leaves, uppers, lowers, tiles, masks)
    for t, leaf in enumerate(uppers):
        tile = data[root + spot.root + t * spot.tile :]
        tile[:8] = _bytes(_keys(tiles[leaf : leaf + 1])[0], "<u8")
        tile[8:16] = _bytes(first_upper + t * spot.upper - root, "<i8")
    data[root + at.ROOT_TILES : root + at.ROOT_TILES + 4] = _bytes(nupper, "<u4")
    data[root + spot.background : root + spot.background + len(background)] = np.frombuffer(background, np.uint8)
    data[root : root + 24] = _root_box(data, upper_nodes)
    active = int(np.unpackbits(masks.view(np.uint8)).sum())
    for n, offset in enumerate((first_leaf, first_lower, first_upper, root)):
        data[at.HEADER + 8 * n : at.HEADER + 8 * n + 8] = _bytes(offset - at.HEADER, "<u8")
    data[at.HEADER + 32 : at.HEADER + 44] = np.array([nleaf, nlower, nupper], "<u4").view(np.uint8)
    data[at.HEADER + 56 : at.HEADER + 64] = _bytes(active, "<u8")
    _fill_header(data, kind, active, matrix, translation, name, grid_class)
    return data, order


def _places(tiles: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """(key of upper node, number of lower node, place in the upper, in the lower, order) of tiles, breadth first."""
    i, j, k = (tiles & 4095).T
    in_upper = i >> 7 << 10 | j >> 7 << 5 | k >> 7
    in_lower = (i & 127) >> 3 << 8 | (j & 127) >> 3 << 4 | (k & 127) >> 3
    upper = _keys(tiles).astype(np.int64)
    order = np.lexsort([in_lower, in_upper, upper])
    upper, in_upper, in_lower = upper[order], in_upper[order], in_lower[order]
    changes = np.ones(len(tiles), bool)
    changes[1:] = (upper[1:] != upper[:-1]) | (in_upper[1:] != in_upper[:-1])
    return upper, np.cumsum(changes), in_upper, in_lower, order


def _keys(tiles: Ints) -> NDArray[np.uint64]:
    """Keys of the root's tiles: the upper 20 bits of the coordinates, side by side."""
    i, j, k = ((tiles & 0xFFFFFFFF) >> 12).astype(np.uint64).T
    return i << np.uint64(42) | j << np.uint64(21) | k


def _firsts(keys: Ints) -> Ints:
    """Where each run of equal keys starts."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)


def _ranks(keys: Ints) -> Ints:
    """The number of the run that each key is in."""
    return np.cumsum(np.append(0, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)


def _bytes(x: Any, kind: str) -> Bytes:
    return np.array([x], kind).view(np.uint8)


def _fill_tables(nodes: Bytes, mask: int, table: int, stride: int, background: bytes, parent: Ints, place: Ints,
                 child_at: Ints, first: int) -> None:  # fmt: skip
    """Masks of children, and the tables: distances to children, the background elsewhere."""
    count = (nodes.shape[1] - table) // stride
    bits = np.zeros((len(nodes), count), np.uint8)
    bits[parent, place] = 1
    nodes[:, mask : mask + count // 8] = np.packbits(bits, axis=1, bitorder="little")
    entries = nodes[:, table:].reshape(len(nodes), count, stride)
    entries[:, :, : len(background)] = np.frombuffer(background, np.uint8)
    distance = child_at - (first + parent * nodes.shape[1])
    entries[parent, place] = 0
    entries[parent, place, :8] = np.ascontiguousarray(distance.astype("<i8")).view(np.uint8).reshape(len(parent), 8)


def _fill_leaves(leaves: Bytes, kind: Kind, tiles: Ints, masks: NDArray[np.uint64], background: bytes) -> None:
    leaves[:, at.LEAF_MASK : at.LEAF_MASK + 64] = masks.astype("<u8").view(np.uint8).reshape(len(tiles), 64)
    if kind.code == at.ON_INDEX:
        counts = np.bitwise_count(masks).astype(np.int64)  # (n, 8)
        total = counts.sum(axis=1)
        starts = 1 + np.cumsum(total) - total
        before = np.cumsum(counts, axis=1)[:, :7].astype(np.uint64)
        packed = (before << (np.uint64(9) * np.arange(7, dtype=np.uint64))).sum(axis=1, dtype=np.uint64)
        leaves[:, 80:96] = np.stack([starts.astype(np.uint64), packed], axis=1).view(np.uint8).reshape(len(tiles), 16)
    elif kind.code == at.BOOL:
        first = layout(kind).leaf_values
        leaves[:, first : first + at.LEAF_COUNT // 8] = 255 if background[0] else 0
    else:
        spot = layout(kind)
        leaves[:, spot.leaf_values :] = np.tile(np.frombuffer(background, np.uint8), at.LEAF_COUNT)


def _fill_boxes(upper_nodes: Bytes, lower_nodes: Bytes, leaves: Bytes, uppers: Ints, lowers: Ints, tiles: Ints,
                masks: NDArray[np.uint64]) -> None:  # fmt: skip
    """Lowest and highest active voxel of each node."""
    if not len(tiles):
        return
    on = np.unpackbits(masks.astype("<u8").view(np.uint8), axis=1, bitorder="little").reshape(-1, 8, 8, 8)
    low, high = tiles.copy(), tiles.copy()
    for axis in range(3):
        used = np.asarray(on.any(axis=tuple({1, 2, 3} - {axis + 1})))
        low[:, axis] += np.argmax(used, axis=1)
        high[:, axis] += 7 - np.argmax(used[:, ::-1], axis=1)
    leaves[:, :12] = low.astype("<i4").view(np.uint8)
    leaves[:, 12:15] = high - low
    leaves[:, 15] = 2  # has a box
    for nodes, firsts in ((upper_nodes, uppers), (lower_nodes, lowers)):
        box = np.hstack([np.minimum.reduceat(low, firsts), np.maximum.reduceat(high, firsts)])
        nodes[:, :24] = box.astype("<i4").view(np.uint8)


def _root_box(data: Bytes, upper_nodes: Bytes) -> Bytes:
    if not len(upper_nodes):
        return np.array([2**31 - 1] * 3 + [-(2**31)] * 3, "<i4").view(np.uint8)
    boxes = np.ascontiguousarray(upper_nodes[:, :24]).view("<i4")
    return np.concatenate([boxes[:, :3].min(axis=0), boxes[:, 3:].max(axis=0)]).astype("<i4").view(np.uint8)


def _fill_header(data: Bytes, kind: Kind, active: int, matrix: NDArray[np.float64], translation: NDArray[np.float64],
                 name: str, grid_class: int) -> None:  # fmt: skip
    encoded = name.encode()[: at.NAME_SIZE - 1]
    root = at.HEADER + at.TREE
    box = data[root : root + 24].view("<i4").reshape(2, 3).astype(np.float64)
    corners = np.array([[box[x, 0], box[y, 1], box[z, 2]] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    world = corners @ matrix.T + translation
    fields: tuple[tuple[int, Any, Any], ...] = (
        (0, np.frombuffer(at.MAGICS[1], np.uint8), np.uint8),
        (at.CHECKSUM_AT, [2**64 - 1], "<u8"),  # none
        (at.VERSION_AT, [at.VERSION, at.BREADTH_FIRST | at.HAS_BOX, 0, 1], "<u4"),
        (at.SIZE_AT, [len(data)], "<u8"),
        (at.NAME_AT, np.frombuffer(encoded, np.uint8), np.uint8),
        (at.MAP_AT, [*matrix.flat, *np.linalg.inv(matrix).flat, *translation, 1.0], "<f4"),
        (at.MAP_AT + 88, [*matrix.flat, *np.linalg.inv(matrix).flat, *translation, 1.0], "<f8"),
        (at.WORLD_BOX_AT, [*world.min(axis=0), *world.max(axis=0)] if active else [0.0] * 6, "<f8"),
        (at.VOXEL_SIZE_AT, np.linalg.norm(matrix, axis=0), "<f8"),
        (at.CLASS_AT, [at.INDEX_CLASS if kind.code in at.INDEX_KINDS else grid_class, kind.code], "<u4"),
        (at.BLIND_AT, [len(data)], "<u8"),
        (at.VALUES_AT, [active + 1 if kind.code in at.INDEX_KINDS else 0], "<u8"),
    )
    for offset, values, dtype in fields:
        raw = np.asarray(values).astype(dtype).view(np.uint8)
        data[offset : offset + len(raw)] = raw
