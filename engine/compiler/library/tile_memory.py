"""Tiles from and to arrays, a loop nest for each number of dimensions.

The bounds of the loops are cut at the edges of the array, so that the loops themselves test nothing. With
`checked=False` they run over the whole tile.
"""

from engine.compiler.library.intrinsics import tile_element_atomic_add
from engine.compiler.library.primitives import maximum, minimum
from engine.compiler.library.registry import library_function
from engine.compiler.types import int32


@library_function
def first_inside(offset: int32, extent: int32, checked):
    """The first index of a tile at `offset` that lies inside an array dimension of this extent."""
    if checked:
        return maximum(-offset, 0)
    return int32(0)


@library_function
def end_inside(offset: int32, extent: int32, length: int32, checked):
    """One more than the last."""
    if checked:
        return minimum(extent - offset, length)
    return length


@library_function
def is_inside(i: int32, extent: int32):
    return i >= 0 and i < extent


@library_function
def load_1d(a, t, i0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        t[i] = a[i0 + i]


@library_function
def load_2d(a, t, i0: int32, j0: int32, checked):
    first = first_inside(j0, a.shape[1], checked)
    end = end_inside(j0, a.shape[1], int32(t.shape[1]), checked)
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        for j in range(first, end):
            t[i, j] = a[i0 + i, j0 + j]


@library_function
def load_3d(a, t, i0: int32, j0: int32, k0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        load_2d(a[i0 + i], t[i], j0, k0, checked)


@library_function
def load_4d(a, t, i0: int32, j0: int32, k0: int32, l0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        load_3d(a[i0 + i], t[i], j0, k0, l0, checked)


@library_function
def store_1d(a, t, i0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        a[i0 + i] = t[i]


@library_function
def store_2d(a, t, i0: int32, j0: int32, checked):
    first = first_inside(j0, a.shape[1], checked)
    end = end_inside(j0, a.shape[1], int32(t.shape[1]), checked)
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        for j in range(first, end):
            a[i0 + i, j0 + j] = t[i, j]


@library_function
def store_3d(a, t, i0: int32, j0: int32, k0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        store_2d(a[i0 + i], t[i], j0, k0, checked)


@library_function
def store_4d(a, t, i0: int32, j0: int32, k0: int32, l0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        store_3d(a[i0 + i], t[i], j0, k0, l0, checked)


@library_function
def add_1d(a, t, old, i0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        old[i] = tile_element_atomic_add(a, i0 + i, t[i])


@library_function
def add_2d(a, t, old, i0: int32, j0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        add_1d(a[i0 + i], t[i], old[i], j0, checked)


@library_function
def add_3d(a, t, old, i0: int32, j0: int32, k0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        add_2d(a[i0 + i], t[i], old[i], j0, k0, checked)


@library_function
def add_4d(a, t, old, i0: int32, j0: int32, k0: int32, l0: int32, checked):
    for i in range(first_inside(i0, a.shape[0], checked), end_inside(i0, a.shape[0], int32(t.shape[0]), checked)):
        add_3d(a[i0 + i], t[i], old[i], j0, k0, l0, checked)


LOADS = {1: load_1d, 2: load_2d, 3: load_3d, 4: load_4d}
STORES = {1: store_1d, 2: store_2d, 3: store_3d, 4: store_4d}
ADDITIONS = {1: add_1d, 2: add_2d, 3: add_3d, 4: add_4d}
