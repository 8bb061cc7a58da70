"""Tiles from and to arrays, a loop nest for each number of dimensions.

The bounds of the loops are cut at the edges of the array, so that the loops themselves test nothing. With
`checked=False` they run over the whole tile.
"""

from engine.compiler.library.intrinsics import each, tile_element_atomic_add
from engine.compiler.library.primitives import maximum, minimum
from engine.compiler.library.registry import library_function
from engine.compiler.types import int32


@library_function
def inside(offset: int32, extent: int32, length: int32, checked):
    """The first index of a tile at `offset` that lies inside an array dimension of this extent, and the end of them."""
    if checked:
        return maximum(-offset, 0), minimum(extent - offset, length)
    return int32(0), length


@library_function
def is_inside(i: int32, extent: int32):
    return i >= 0 and i < extent


@library_function
def load_1d(a, t, i0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    for i in each(i1, i2):
        t[i] = a[i0 + i]


@library_function
def load_2d(a, t, i0: int32, j0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            t[i, j] = a[i0 + i, j0 + j]


@library_function
def load_3d(a, t, i0: int32, j0: int32, k0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    k1, k2 = inside(k0, a.shape[2], int32(t.shape[2]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            for k in each(k1, k2):
                t[i, j, k] = a[i0 + i, j0 + j, k0 + k]


@library_function
def load_4d(a, t, i0: int32, j0: int32, k0: int32, l0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    k1, k2 = inside(k0, a.shape[2], int32(t.shape[2]), checked)
    l1, l2 = inside(l0, a.shape[3], int32(t.shape[3]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            for k in each(k1, k2):
                for l in each(l1, l2):
                    t[i, j, k, l] = a[i0 + i, j0 + j, k0 + k, l0 + l]


@library_function
def store_1d(a, t, i0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    for i in each(i1, i2):
        a[i0 + i] = t[i]


@library_function
def store_2d(a, t, i0: int32, j0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            a[i0 + i, j0 + j] = t[i, j]


@library_function
def store_3d(a, t, i0: int32, j0: int32, k0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    k1, k2 = inside(k0, a.shape[2], int32(t.shape[2]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            for k in each(k1, k2):
                a[i0 + i, j0 + j, k0 + k] = t[i, j, k]


@library_function
def store_4d(a, t, i0: int32, j0: int32, k0: int32, l0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    k1, k2 = inside(k0, a.shape[2], int32(t.shape[2]), checked)
    l1, l2 = inside(l0, a.shape[3], int32(t.shape[3]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            for k in each(k1, k2):
                for l in each(l1, l2):
                    a[i0 + i, j0 + j, k0 + k, l0 + l] = t[i, j, k, l]


@library_function
def add_1d(a, t, old, i0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    for i in each(i1, i2):
        old[i] = tile_element_atomic_add(a, i0 + i, t[i])


@library_function
def add_2d(a, t, old, i0: int32, j0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            old[i, j] = tile_element_atomic_add(a, i0 + i, j0 + j, t[i, j])


@library_function
def add_3d(a, t, old, i0: int32, j0: int32, k0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    k1, k2 = inside(k0, a.shape[2], int32(t.shape[2]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            for k in each(k1, k2):
                old[i, j, k] = tile_element_atomic_add(a, i0 + i, j0 + j, k0 + k, t[i, j, k])


@library_function
def add_4d(a, t, old, i0: int32, j0: int32, k0: int32, l0: int32, checked):
    i1, i2 = inside(i0, a.shape[0], int32(t.shape[0]), checked)
    j1, j2 = inside(j0, a.shape[1], int32(t.shape[1]), checked)
    k1, k2 = inside(k0, a.shape[2], int32(t.shape[2]), checked)
    l1, l2 = inside(l0, a.shape[3], int32(t.shape[3]), checked)
    for i in each(i1, i2):
        for j in each(j1, j2):
            for k in each(k1, k2):
                for l in each(l1, l2):
                    old[i, j, k, l] = tile_element_atomic_add(a, i0 + i, j0 + j, k0 + k, l0 + l, t[i, j, k, l])


LOADS = {1: load_1d, 2: load_2d, 3: load_3d, 4: load_4d}
STORES = {1: store_1d, 2: store_2d, 3: store_3d, 4: store_4d}
ADDITIONS = {1: add_1d, 2: add_2d, 3: add_3d, 4: add_4d}
