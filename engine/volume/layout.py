"""Where the parts of a NanoVDB grid lie in memory, by the type of its values.

A grid is one block of bytes, in a file as in memory:

    header 672 │ tree 64 │ root, its tiles │ upper nodes (32³ children) │ lower nodes (16³) │ leaves (8³ voxels) │ more

Every part starts at a multiple of 32 bytes, children are named by their distance in bytes from their parent. The layout
is that of NanoVDB (Museth 2021, "NanoVDB: a GPU-friendly and portable VDB data structure"), of major version 32; the
numbers follow from its structs by C's rules of alignment, which `layout` applies.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from engine.compiler import lang as k
from engine.compiler.values import names, vector

MAGICS = (b"NanoVDB0", b"NanoVDB1")  # of grids: until and since version 32.6
VERSION = 32 << 21 | 6 << 10
HEADER, TREE = 672, 64
ALIGNMENT = 32
LARGEST = 2**34  # bytes of a grid that kernels reach: they count words of 8

# of the header, in bytes from its start
CHECKSUM_AT, VERSION_AT, FLAGS_AT, INDEX_AT, COUNT_AT, SIZE_AT, NAME_AT, MAP_AT = 8, 16, 20, 24, 28, 32, 40, 296
WORLD_BOX_AT, VOXEL_SIZE_AT, CLASS_AT, TYPE_AT, BLIND_AT, BLIND_COUNT_AT, VALUES_AT = 560, 608, 632, 636, 640, 648, 656
NAME_SIZE = 256
HAS_BOX, BREADTH_FIRST = 1 << 1, 1 << 5
BLIND_SIZE, BLIND_NAME_AT = 288, 32
# of nodes
UPPER_VALUES, UPPER_CHILDREN, UPPER_COUNT = 32, 4128, 32768
LOWER_VALUES, LOWER_CHILDREN, LOWER_COUNT = 32, 544, 4096
LEAF_FLAGS, LEAF_MASK, LEAF_COUNT = 12, 16, 512
ROOT_TILES = 24  # how many there are

LEAF_MINIMUM, LEAF_QUANTUM, LEAF_CODES = 80, 84, 96  # of quantised floats: value = minimum + quantum · code

UNKNOWN_CLASS, LEVEL_SET, INDEX_CLASS = 0, 1, 8


@dataclass(frozen=True)
class Kind:
    """A type of grid."""

    code: int
    name: str
    value: int  # bytes of a value in root, tiles and statistics
    scalar: int  # bytes that it is aligned to
    statistic: int  # bytes of averages
    leaf: str = "values"  # what leaves hold
    dtype: Any = None  # of the kernel language; None: kernels cannot read the values


_vec3ub, _vec3us = vector(length=3, dtype=k.uint8), vector(length=3, dtype=k.uint16)
KINDS = {
    kind.code: kind
    for kind in (
        Kind(1, "float", 4, 4, 4, dtype=k.float32),
        Kind(2, "double", 8, 8, 8, dtype=k.float64),
        Kind(3, "int16", 2, 2, 4, dtype=k.int16),
        Kind(4, "int32", 4, 4, 4, dtype=k.int32),
        Kind(5, "int64", 8, 8, 8, dtype=k.int64),
        Kind(6, "Vec3f", 12, 4, 4, dtype=names.vec3),
        Kind(7, "Vec3d", 24, 8, 8, dtype=names.vec3d),
        Kind(8, "Mask", 1, 1, 1, "mask", dtype=k.bool_),
        Kind(9, "Half", 2, 2, 4, dtype=k.float16),
        Kind(10, "uint32", 4, 4, 4, dtype=k.uint32),
        Kind(11, "bool", 1, 1, 1, "bits", dtype=k.bool_),
        Kind(12, "RGBA8", 4, 4, 4),
        Kind(13, "Float4", 4, 4, 4, "4 bits", dtype=k.float32),
        Kind(14, "Float8", 4, 4, 4, "8 bits", dtype=k.float32),
        Kind(15, "Float16", 4, 4, 4, "16 bits", dtype=k.float32),
        Kind(16, "FloatN", 4, 4, 4, "n bits", dtype=k.float32),
        Kind(17, "Vec4f", 16, 4, 4, dtype=names.vec4),
        Kind(18, "Vec4d", 32, 8, 8, dtype=names.vec4d),
        Kind(19, "Index", 8, 8, 8, "index"),
        Kind(20, "OnIndex", 8, 8, 8, "index"),
        Kind(21, "IndexMask", 8, 8, 8, "index and mask"),
        Kind(22, "OnIndexMask", 8, 8, 8, "index and mask"),
        Kind(23, "PointIndex", 8, 8, 8, "16 bits"),
        Kind(24, "Vec3u8", 3, 1, 4, dtype=_vec3ub),
        Kind(25, "Vec3u16", 6, 2, 4, dtype=_vec3us),
        Kind(26, "uint8", 1, 1, 4, dtype=k.uint8),
    )
}
BOOL = 11
INDEX, ON_INDEX, INDEX_MASK, ON_INDEX_MASK = 19, 20, 21, 22
INDEX_KINDS = (INDEX, ON_INDEX, INDEX_MASK, ON_INDEX_MASK)
PLAIN, BY_LEAF, MASKED = 9, -1, -2  # in place of the logarithm of the bits of a code
LOG_BITS = {"values": PLAIN, "4 bits": 2, "8 bits": 3, "16 bits": 4, "n bits": BY_LEAF, "mask": MASKED, "bits": MASKED}
MOST_LOG_BITS = 4
_LEAF_VALUES = {"index": 80, "index and mask": 80, "bits": 80, "mask": LEAF_MASK}
_LEAF_SIZES = {"mask": 96, "bits": 160, "4 bits": 352, "8 bits": 608, "16 bits": 1120, "n bits": 0, "index": 96,
               "index and mask": 160}  # fmt: skip


def aligned(x: int, to: int) -> int:
    return -(-x // to) * to


@dataclass(frozen=True)
class Layout:
    """Offsets and sizes, bytes."""

    background: int  # of the root
    root: int  # size, without tiles
    tile_value: int
    tile: int  # size
    stride: int  # of the entries of upper and lower nodes
    upper_table: int
    upper: int  # size
    lower_table: int
    lower: int  # size
    leaf_values: int
    leaf: int  # size; 0 if leaves differ


@functools.cache
def layout(kind: Kind) -> Layout:
    """The layout of grids of a type."""

    def after_statistics(start: int) -> int:
        """Behind minimum, maximum, average and deviation, from `start`."""
        end = aligned(start, kind.scalar) + 2 * kind.value
        return aligned(aligned(end, kind.statistic) + 2 * kind.statistic, ALIGNMENT)

    background = aligned(28, kind.scalar)
    tile_value = aligned(20, kind.scalar)
    stride = max(8, aligned(kind.value, 8))
    upper_table, lower_table = after_statistics(8224), after_statistics(1056)
    values = _LEAF_VALUES.get(kind.leaf, after_statistics(80) if kind.leaf == "values" else LEAF_CODES)
    return Layout(
        background=background,
        root=after_statistics(background + kind.value),
        tile_value=tile_value,
        tile=aligned(tile_value + kind.value, 32),
        stride=stride,
        upper_table=upper_table,
        upper=upper_table + UPPER_COUNT * stride,
        lower_table=lower_table,
        lower=lower_table + LOWER_COUNT * stride,
        leaf_values=values,
        leaf=_LEAF_SIZES.get(kind.leaf, values + LEAF_COUNT * kind.value),
    )
