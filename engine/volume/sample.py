"""Reading and writing volumes in kernels: voxels by number, samples between them, and the way from index to world.

A handle is the address of a `Grid` in the device's memory: the uint64 that kernels get. Voxel (i, j, l) is centred at
the place (i, j, l) of index space. What has no voxel has the background's value.
"""

# mypy: disable-error-code="attr-defined, operator, no-redef, valid-type, misc"
# (references to values, and overloads, mean something to the kernel compiler only)

from typing import Any

from engine.compiler import lang as k
from engine.compiler import types
from engine.compiler.types import AnyScalar
from engine.compiler.values import value_class
from engine.context import array
from engine.volume.layout import (
    BY_LEAF,
    LEAF_CODES,
    LEAF_MASK,
    LEAF_MINIMUM,
    LEAF_QUANTUM,
    LOWER_CHILDREN,
    PLAIN,
    UPPER_CHILDREN,
)

CLOSEST, LINEAR = 0, 1


@k.struct
class Grid:
    """What stands behind a handle. Offsets are bytes from the start of `words`, or of a node."""

    words: k.array(dtype=k.uint64)  # the whole grid
    root: k.int64
    background: k.int64
    first_tile: k.int64
    first_leaf: k.int64
    tiles: int
    tile: int  # size
    tile_value: int
    stride: int  # of the tables
    upper_table: int
    lower_table: int
    leaf_values: int
    leaf: int  # size
    value: int  # size
    log_bits: int  # of the code of a voxel, see `layout`
    kind: int
    dense: int  # 1 for indices of all voxels of a leaf
    voxels: int  # numbers of voxels: 512 of each leaf, the active ones of an index grid
    to_world: k.mat33
    to_index: k.mat33
    origin: k.vec3
    to_world_d: k.mat33d
    to_index_d: k.mat33d
    origin_d: k.vec3d


@k.func
def grid_of(handle: k.uint64) -> Grid:
    grids = array(ptr=handle, shape=1, dtype=Grid)
    return grids[0]


@k.func
def code_of(dtype: Any) -> int:
    """The type of grid that holds such values."""
    code = -1
    if dtype == k.float32:
        code = 1
    elif dtype == k.float64:
        code = 2
    elif dtype == k.int16:
        code = 3
    elif dtype == k.int32:
        code = 4
    elif dtype == k.int64:
        code = 5
    elif dtype == k.vec3:
        code = 6
    elif dtype == k.vec3d:
        code = 7
    elif dtype == k.float16:
        code = 9
    elif dtype == k.uint32:
        code = 10
    elif dtype == k.vec4:
        code = 17
    elif dtype == k.vec4d:
        code = 18
    elif dtype == k.vec3ub:
        code = 24
    elif dtype == k.vec3us:
        code = 25
    elif dtype == k.uint8:
        code = 26
    return code


@k.func
def holds(g: Grid, dtype: Any) -> bool:
    """Whether the values of a grid are read as these: quantised floats as float32, bits and masks as bool."""
    found = g.kind == code_of(dtype)
    if dtype == k.float32:
        found = found or (g.kind >= 13 and g.kind <= 16)
    elif dtype == k.bool_:
        found = g.kind == 8 or g.kind == 11
    return found


# --- down the tree ----------------------------------------------------------------------------------------------------


@k.func
def word(g: Grid, at: k.int64) -> k.uint64:
    return g.words[int(at >> k.int64(3))]


@k.func
def has_bit(g: Grid, mask: k.int64, n: int) -> bool:
    return ((word(g, mask + k.int64((n >> 6) << 3)) >> k.uint64(n & 63)) & k.uint64(1)) != k.uint64(0)


@k.func
def root_tile(g: Grid, i: int, j: int, l: int) -> k.int64:
    """The tile of the root that holds a voxel; −1 without."""
    key = k.uint64(k.uint32(i) >> k.uint32(12)) << k.uint64(42)
    key = key | (k.uint64(k.uint32(j) >> k.uint32(12)) << k.uint64(21))
    key = key | k.uint64(k.uint32(l) >> k.uint32(12))
    at = g.first_tile
    found = k.int64(-1)
    t = 0
    while t < g.tiles:
        if word(g, at) == key:
            found = at
            t = g.tiles
        at += k.int64(g.tile)
        t += 1
    return found


@k.func
def find(g: Grid, i: int, j: int, l: int):
    """(leaf of a voxel or −1, where its value is if there is no leaf)."""
    leaf = k.int64(-1)
    value = g.background
    tile = root_tile(g, i, j, l)
    if tile >= k.int64(0):
        value = tile + k.int64(g.tile_value)
        child = k.int64(word(g, tile + k.int64(8)))
        if child != k.int64(0):
            upper = g.root + child
            n = (((i & 4095) >> 7) << 10) | (((j & 4095) >> 7) << 5) | ((l & 4095) >> 7)
            value = upper + k.int64(g.upper_table + g.stride * n)
            if has_bit(g, upper + k.int64(UPPER_CHILDREN), n):
                lower = upper + k.int64(word(g, value))
                m = (((i & 127) >> 3) << 8) | (((j & 127) >> 3) << 4) | ((l & 127) >> 3)
                value = lower + k.int64(g.lower_table + g.stride * m)
                if has_bit(g, lower + k.int64(LOWER_CHILDREN), m):
                    leaf = lower + k.int64(word(g, value))
    return leaf, value


@k.func
def in_leaf(i: int, j: int, l: int) -> int:
    return ((i & 7) << 6) | ((j & 7) << 3) | (l & 7)


@k.func
def read(g: Grid, at: k.int64, dtype: Any):
    values = array(ptr=g.words.ptr + k.uint64(at), shape=1, dtype=dtype)
    return values[0]


@k.func
def decoded(g: Grid, leaf: k.int64, n: int) -> float:
    """The value of a leaf's voxel that is stored as a code of 1 to 16 bits, in steps between two values of the leaf."""
    log_bits = k.uint64(g.log_bits)
    if g.log_bits == BY_LEAF:
        log_bits = word(g, leaf + k.int64(8)) >> k.uint64(61)
    place = k.uint64(n) << log_bits
    code = word(g, leaf + k.int64(LEAF_CODES) + k.int64(place >> k.uint64(6) << k.uint64(3)))
    code = (code >> (place & k.uint64(63))) & ((k.uint64(1) << (k.uint64(1) << log_bits)) - k.uint64(1))
    least, step = read(g, leaf + k.int64(LEAF_MINIMUM), k.float32), read(g, leaf + k.int64(LEAF_QUANTUM), k.float32)
    return float(code) * step + least


@k.func
def read_at(g: Grid, leaf: k.int64, at: k.int64, n: int, dtype: Any):
    """The value of voxel n of a leaf; that at a place above, if `leaf` is −1."""
    value = dtype(0)
    if dtype == k.bool_:
        if leaf >= k.int64(0):
            value = has_bit(g, leaf + k.int64(g.leaf_values), n)
        else:
            value = read(g, at, k.uint8) != k.uint8(0)
    elif dtype == k.float32 and leaf >= k.int64(0) and g.log_bits != PLAIN:
        value = decoded(g, leaf, n)
    else:
        if leaf >= k.int64(0):
            at = leaf + k.int64(g.leaf_values + g.value * n)
        value = read(g, at, dtype)
    return value


@k.func
def read_voxel(g: Grid, i: int, j: int, l: int, dtype: Any):
    leaf, at = find(g, i, j, l)
    return read_at(g, leaf, at, in_leaf(i, j, l), dtype)


@k.func
def number_in_leaf(g: Grid, leaf: k.int64, n: int) -> int:
    """The number of a leaf's voxel; −1 for inactive ones of an index grid."""
    number = -1
    if g.log_bits == BY_LEAF:
        number = -1  # leaves that differ in size are not counted
    elif g.kind < 19 or g.kind > 22:
        number = int((leaf - g.first_leaf) / k.int64(g.leaf)) * 512 + n
    elif g.dense == 1:
        number = int(word(g, leaf + k.int64(g.leaf_values))) + n - 1
    elif has_bit(g, leaf + k.int64(LEAF_MASK), n):
        number = int(word(g, leaf + k.int64(g.leaf_values))) - 1
        row = n >> 6
        below = (k.uint64(1) << k.uint64(n & 63)) - k.uint64(1)
        number += int(k.popcount(word(g, leaf + k.int64(LEAF_MASK + 8 * row)) & below))
        if row > 0:
            sums = word(g, leaf + k.int64(g.leaf_values + 8))
            number += int((sums >> k.uint64(9 * (row - 1))) & k.uint64(511))
    return number


@k.func
def number_at(g: Grid, leaf: k.int64, at: k.int64, n: int) -> int:
    """The number of voxel n of a leaf; of what is at a place above, if `leaf` is −1."""
    number = -1
    if leaf >= k.int64(0):
        number = number_in_leaf(g, leaf, n)
    elif g.kind >= 19 and g.kind <= 22:
        number = int(read(g, at, k.uint64)) - 1  # whole tiles may have a number; 0 is the background's
    return number


@k.func
def number_of(g: Grid, i: int, j: int, l: int) -> int:
    leaf, at = find(g, i, j, l)
    return number_at(g, leaf, at, in_leaf(i, j, l))


# --- samples ----------------------------------------------------------------------------------------------------------


@k.func
def reaches_beyond(i: int, j: int, l: int) -> int:
    """Along which axes a cell reaches into the next leaf: one bit each, as in the number of a corner."""
    return (4 if (i & 7) == 7 else 0) | (2 if (j & 7) == 7 else 0) | (1 if (l & 7) == 7 else 0)


@k.func
def find_corners(g: Grid, i: int, j: int, l: int, leaves: k.fixedarray(shape=8, dtype=k.int64),
                 places: k.fixedarray(shape=8, dtype=k.int64)):  # fmt: skip
    """`find` of the eight corners of a cell, of which the first is known; each leaf is looked for once."""
    beyond = reaches_beyond(i, j, l)
    corner = 1
    while corner < 8:
        first = corner & beyond  # the first corner in the same leaf
        leaves[corner], places[corner] = leaves[first], places[first]
        if first == corner:
            leaf, at = find(g, i + (corner >> 2), j + (corner >> 1 & 1), l + (corner & 1))
            leaves[corner], places[corner] = leaf, at
        corner += 1


@k.func
def read_cell(g: Grid, i: int, j: int, l: int, dtype: Any):
    """The values at the corners of the cell i … i + 1, j … j + 1, l … l + 1; the last axis runs fastest."""
    leaf, at = find(g, i, j, l)
    a, b, c, d = dtype(0), dtype(0), dtype(0), dtype(0)
    e, f, h, m = a, a, a, a
    if reaches_beyond(i, j, l) == 0 and leaf >= k.int64(0) and g.log_bits == PLAIN:
        at = leaf + k.int64(g.leaf_values + g.value * in_leaf(i, j, l))
        x, y, z = k.int64(64 * g.value), k.int64(8 * g.value), k.int64(g.value)
        a, b, c, d = read(g, at, dtype), read(g, at + z, dtype), read(g, at + y, dtype), read(g, at + y + z, dtype)
        at += x
        e, f, h, m = read(g, at, dtype), read(g, at + z, dtype), read(g, at + y, dtype), read(g, at + y + z, dtype)
    else:
        leaves, places = k.zeros(shape=8, dtype=k.int64), k.zeros(shape=8, dtype=k.int64)
        leaves[0], places[0] = leaf, at
        find_corners(g, i, j, l, leaves, places)
        values = k.zeros(shape=8, dtype=dtype)
        corner = 0
        while corner < 8:
            n = in_leaf(i + (corner >> 2), j + (corner >> 1 & 1), l + (corner & 1))
            values[corner] = read_at(g, leaves[corner], places[corner], n, dtype)
            corner += 1
        a, b, c, d = values[0], values[1], values[2], values[3]
        e, f, h, m = values[4], values[5], values[6], values[7]
    return a, b, c, d, e, f, h, m


@k.func
def picked(n: int, data: Any, background: Any):
    """What an array holds for the number of a voxel."""
    value = background
    if n >= 0 and n < len(data):
        value = data[n]
    return value


@k.func
def pick(g: Grid, i: int, j: int, l: int, data: Any, background: Any):
    return picked(number_of(g, i, j, l), data, background)


@k.func
def pick_cell(g: Grid, i: int, j: int, l: int, data: Any, background: Any):
    leaves, places = k.zeros(shape=8, dtype=k.int64), k.zeros(shape=8, dtype=k.int64)
    leaf, at = find(g, i, j, l)
    leaves[0], places[0] = leaf, at
    find_corners(g, i, j, l, leaves, places)
    n = k.zeros(shape=8, dtype=int)
    corner = 0
    while corner < 8:
        voxel = in_leaf(i + (corner >> 2), j + (corner >> 1 & 1), l + (corner & 1))
        n[corner] = number_at(g, leaves[corner], places[corner], voxel)
        corner += 1
    a, b = picked(n[0], data, background), picked(n[1], data, background)
    c, d = picked(n[2], data, background), picked(n[3], data, background)
    e, f = picked(n[4], data, background), picked(n[5], data, background)
    h, m = picked(n[6], data, background), picked(n[7], data, background)
    return a, b, c, d, e, f, h, m


def slope_type(given: Any, dtype: Any) -> Any:
    """The type of a derivative by place of values of type `dtype`. Raises TypeError where it is not the given one."""
    of, found = types.of_annotation(dtype), types.of_annotation(given)
    scalar, n = types.components(of) or (types.float32, 1)
    wanted: types.Type = types.Vector(scalar, 3) if of == scalar else types.Matrix(scalar, n, 3)
    if found != wanted:
        raise TypeError(f"Incompatible gradient type, expected {_exactly(wanted)}, got {_exactly(found)}")
    return value_class(wanted)


def _exactly(t: types.Type) -> str:
    """The name of a type; vectors and matrices of float32 have their letter, too, like the others."""
    plain = not isinstance(t, types.Scalar) and (types.components(t) or (t,))[0] == types.float32
    return f"{t!r}f" if plain else repr(t)


@k.func
def mix(a: k.bool_, b: k.bool_, t: float):
    return a if t < 0.5 else b


@k.func
def mix(a: AnyScalar, b: AnyScalar, t: float):  # noqa: F811
    return a + (b - a) * type(a)(t)


@k.func
def mix(a: Any, b: Any, t: float):  # noqa: F811
    return a + (b - a) * type(a[0])(t)


@k.func
def jacobian(x: AnyScalar, y: AnyScalar, z: AnyScalar):
    return k.vector(x, y, z)


@k.func
def jacobian(x: Any, y: Any, z: Any):  # noqa: F811
    return k.matrix_from_cols(x, y, z)


@k.func
def blend(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, h: Any, m: Any, t: k.vec3):
    """The value at t of a cell, linear along each axis."""
    near = mix(mix(a, b, t[2]), mix(c, d, t[2]), t[1])
    far = mix(mix(e, f, t[2]), mix(h, m, t[2]), t[1])
    return mix(near, far, t[0])


@k.func
def blend_slopes(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, h: Any, m: Any, t: k.vec3):
    """The derivative of `blend` by t: one column for each axis."""
    near = mix(mix(a, b, t[2]), mix(c, d, t[2]), t[1])
    far = mix(mix(e, f, t[2]), mix(h, m, t[2]), t[1])
    along_y = mix(mix(c, d, t[2]) - mix(a, b, t[2]), mix(h, m, t[2]) - mix(e, f, t[2]), t[0])
    along_z = mix(mix(b - a, d - c, t[1]), mix(f - e, m - h, t[1]), t[0])
    return jacobian(far - near, along_y, along_z)


@k.func
def cell_of(x: k.vec3):
    """(lowest corner of the cell around a place, place in it). Far out, all is background."""
    low = k.vec3(k.floor(x[0]), k.floor(x[1]), k.floor(x[2]))
    return k.vec3i(whole(low[0]), whole(low[1]), whole(low[2])), x - low


@k.func
def whole(x: float) -> int:
    return int(k.clamp(x, -2.0e9, 2.0e9))


# --- the functions of the language ------------------------------------------------------------------------------------


@k.func
def volume_lookup(id: k.uint64, i: int, j: int, l: int, dtype: Any):
    """The value of voxel (i, j, l); the background's where there is none; 0 if the volume holds another type."""
    value = dtype(0)
    if id != k.uint64(0):
        g = grid_of(id)
        if holds(g, dtype):
            value = read_voxel(g, i, j, l, dtype)
    return value


@k.func
def volume_lookup_f(id: k.uint64, i: int, j: int, l: int) -> float:
    """The value of voxel (i, j, l) of a float volume."""
    return volume_lookup(id, i, j, l, k.float32)


@k.func
def volume_lookup_v(id: k.uint64, i: int, j: int, l: int) -> k.vec3:
    """The value of voxel (i, j, l) of a vec3 volume."""
    return volume_lookup(id, i, j, l, k.vec3)


@k.func
def volume_lookup_i(id: k.uint64, i: int, j: int, l: int) -> int:
    """The value of voxel (i, j, l) of an int32 volume."""
    return volume_lookup(id, i, j, l, k.int32)


@k.func
def volume_lookup_index(id: k.uint64, i: int, j: int, l: int) -> int:
    """The number of voxel (i, j, l), as in `Volume.get_voxels`; −1 where there is none."""
    number = -1
    if id != k.uint64(0):
        number = number_of(grid_of(id), i, j, l)
    return number


@k.func
def volume_voxel_count(id: k.uint64) -> int:
    """How many voxels have numbers."""
    count = 0
    if id != k.uint64(0):
        count = grid_of(id).voxels
    return count


@k.func
def volume_store(id: k.uint64, i: int, j: int, l: int, value: Any):
    """Writes voxel (i, j, l), if the volume has it and holds values of this type; does nothing otherwise."""
    if id != k.uint64(0):
        g = grid_of(id)
        if g.kind == code_of(type(value)):
            leaf, _at = find(g, i, j, l)
            if leaf >= k.int64(0):
                at = leaf + k.int64(g.leaf_values + g.value * in_leaf(i, j, l))
                values = array(ptr=g.words.ptr + k.uint64(at), shape=1, dtype=type(value))
                values[0] = value


@k.func
def volume_store_f(id: k.uint64, i: int, j: int, l: int, value: float):
    """Writes voxel (i, j, l) of a float volume."""
    volume_store(id, i, j, l, value)


@k.func
def volume_store_v(id: k.uint64, i: int, j: int, l: int, value: k.vec3):
    """Writes voxel (i, j, l) of a vec3 volume."""
    volume_store(id, i, j, l, value)


@k.func
def volume_store_i(id: k.uint64, i: int, j: int, l: int, value: int):
    """Writes voxel (i, j, l) of an int32 volume."""
    volume_store(id, i, j, l, value)


@k.func
def volume_sample(id: k.uint64, uvw: k.vec3, sampling_mode: int, dtype: Any):
    """The value at uvw of index space: of the nearest voxel (`Volume.CLOSEST`), or linear between eight (`LINEAR`).

    bool, of grids of bits and masks, is that of a nearest voxel either way.
    """
    value = dtype(0)
    if id != k.uint64(0):
        g = grid_of(id)
        if holds(g, dtype):
            if sampling_mode == LINEAR:
                low, t = cell_of(uvw)
                a, b, c, d, e, f, h, m = read_cell(g, low[0], low[1], low[2], dtype)
                value = blend(a, b, c, d, e, f, h, m, t)
            else:
                value = read_voxel(g, whole(k.round(uvw[0])), whole(k.round(uvw[1])), whole(k.round(uvw[2])), dtype)
    return value


@k.func
def volume_sample_grad(id: k.uint64, uvw: k.vec3, sampling_mode: int, grad: k.ref[Any], dtype: Any):
    """`volume_sample`, and its derivative by uvw in `grad`: a vec3, or a matrix with a row for each component.

    0 for `Volume.CLOSEST`.
    """
    value = dtype(0)
    given = type(grad)
    grad = k.static(slope_type(given, dtype))()
    if id != k.uint64(0):
        g = grid_of(id)
        if holds(g, dtype):
            if sampling_mode == LINEAR:
                low, t = cell_of(uvw)
                a, b, c, d, e, f, h, m = read_cell(g, low[0], low[1], low[2], dtype)
                value = blend(a, b, c, d, e, f, h, m, t)
                grad = blend_slopes(a, b, c, d, e, f, h, m, t)
            else:
                value = read_voxel(g, whole(k.round(uvw[0])), whole(k.round(uvw[1])), whole(k.round(uvw[2])), dtype)
    return value


@k.func
def volume_sample_f(id: k.uint64, uvw: k.vec3, sampling_mode: int) -> float:
    """`volume_sample` of a float volume."""
    return volume_sample(id, uvw, sampling_mode, k.float32)


@k.func
def volume_sample_grad_f(id: k.uint64, uvw: k.vec3, sampling_mode: int, grad: k.ref[k.vec3]) -> float:
    """`volume_sample_grad` of a float volume."""
    return volume_sample_grad(id, uvw, sampling_mode, grad, k.float32)


@k.func
def volume_sample_v(id: k.uint64, uvw: k.vec3, sampling_mode: int) -> k.vec3:
    """`volume_sample` of a vec3 volume."""
    return volume_sample(id, uvw, sampling_mode, k.vec3)


@k.func
def volume_sample_i(id: k.uint64, uvw: k.vec3) -> int:
    """The value of the voxel of an int32 volume that is nearest to uvw of index space."""
    return volume_sample(id, uvw, CLOSEST, k.int32)


@k.func
def volume_sample_index(id: k.uint64, uvw: k.vec3, sampling_mode: int, voxel_data: Any, background: Any):
    """`volume_sample` of values in an array, one for each voxel's number; `background` where there is no voxel."""
    value = background
    if id != k.uint64(0):
        g = grid_of(id)
        if sampling_mode == LINEAR:
            low, t = cell_of(uvw)
            a, b, c, d, e, f, h, m = pick_cell(g, low[0], low[1], low[2], voxel_data, background)
            value = blend(a, b, c, d, e, f, h, m, t)
        else:
            i, j, l = whole(k.round(uvw[0])), whole(k.round(uvw[1])), whole(k.round(uvw[2]))
            value = pick(g, i, j, l, voxel_data, background)
    return value


@k.func
def volume_sample_grad_index(id: k.uint64, uvw: k.vec3, sampling_mode: int, voxel_data: Any, background: Any,
                             grad: k.ref[Any]):  # fmt: skip
    """`volume_sample_index`, and its derivative by uvw in `grad`, as of `volume_sample_grad`."""
    value = background
    given, dtype = type(grad), type(background)
    grad = k.static(slope_type(given, dtype))()
    if id != k.uint64(0):
        g = grid_of(id)
        if sampling_mode == LINEAR:
            low, t = cell_of(uvw)
            a, b, c, d, e, f, h, m = pick_cell(g, low[0], low[1], low[2], voxel_data, background)
            value = blend(a, b, c, d, e, f, h, m, t)
            grad = blend_slopes(a, b, c, d, e, f, h, m, t)
        else:
            i, j, l = whole(k.round(uvw[0])), whole(k.round(uvw[1])), whole(k.round(uvw[2]))
            value = pick(g, i, j, l, voxel_data, background)
    return value


@k.func
def volume_index_to_world(id: k.uint64, uvw: k.vec3) -> k.vec3:
    """Where a place of index space is in the world."""
    g = grid_of(id)
    return g.to_world * uvw + g.origin


@k.func
def volume_index_to_world(id: k.uint64, uvw: k.vec3d) -> k.vec3d:  # noqa: F811
    g = grid_of(id)
    return g.to_world_d * uvw + g.origin_d


@k.func
def volume_world_to_index(id: k.uint64, xyz: k.vec3) -> k.vec3:
    """Where a place of the world is in index space."""
    g = grid_of(id)
    return g.to_index * (xyz - g.origin)


@k.func
def volume_world_to_index(id: k.uint64, xyz: k.vec3d) -> k.vec3d:  # noqa: F811
    g = grid_of(id)
    return g.to_index_d * (xyz - g.origin_d)


@k.func
def volume_index_to_world_dir(id: k.uint64, uvw: k.vec3) -> k.vec3:
    """A direction of index space in the world."""
    return grid_of(id).to_world * uvw


@k.func
def volume_index_to_world_dir(id: k.uint64, uvw: k.vec3d) -> k.vec3d:  # noqa: F811
    return grid_of(id).to_world_d * uvw


@k.func
def volume_world_to_index_dir(id: k.uint64, xyz: k.vec3) -> k.vec3:
    """A direction of the world in index space."""
    return grid_of(id).to_index * xyz


@k.func
def volume_world_to_index_dir(id: k.uint64, xyz: k.vec3d) -> k.vec3d:  # noqa: F811
    return grid_of(id).to_index_d * xyz
