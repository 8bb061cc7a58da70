"""Sums and other reductions of tiles, and scans: in one fixed order, whatever the device and the size of the block.

A reduction folds the upper half of a line of elements onto the lower half until one is left. A scan adds to each
element the one 1, 2, 4, … before it (Hillis and Steele, "Data parallel algorithms", 1986). Both orders depend on the
number of elements alone, and every step is a loop without dependences.
"""

from engine.compiler.library.intrinsics import (
    each,
    tile_element_dot,
    tile_element_sum,
    tile_empty,
    tile_first_of_lines,
    tile_lines,
    tile_map,
    tile_reshape,
)
from engine.compiler.library.primitives import maximum, minimum
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import int32


@library_function
def fold(op, b):
    """Combines the elements of b along its middle dimension; the results are at index 0 of it."""
    n = int32(b.shape[1])
    while n > 1:
        half = (n + 1) // 2
        upper = n - half
        for outer in each(int32(b.shape[0])):
            for i in each(upper):
                for inner in each(int32(b.shape[2])):
                    b[outer, i, inner] = op(b[outer, i, inner], b[outer, i + half, inner])
        n = half


@builtin("tile_reduce")
def tile_reduce(op, a, axis=None):
    """The elements of a tile combined by `op`, which must be associative: all of them, or along an axis.

    The result of all elements is a tile of shape (1,).
    """
    lines = tile_lines(a, axis)
    fold(op, lines)
    return tile_first_of_lines(lines, a, axis)


@builtin("tile_sum")
def tile_sum(a, axis=None):
    """The sum of the elements of a tile as a tile of shape (1,), or the sums along an axis."""
    return tile_reduce(tile_element_sum, a, axis)


@builtin("tile_max")
def tile_max(a):
    """The largest element of a tile, as a tile of shape (1,)."""
    return tile_reduce(maximum, a)


@builtin("tile_min")
def tile_min(a):
    """The smallest element of a tile, as a tile of shape (1,)."""
    return tile_reduce(minimum, a)


@library_function
def is_less(a, b):
    return a < b


@library_function
def is_greater(a, b):
    return a > b


@library_function
def position_of_best(better, a):
    """The position of the element that no other is better than, the first where there are several."""
    best = tile_lines(a, None)
    at = tile_empty(shape=(a.size,), dtype=int32)
    for i in each(int32(a.size)):
        at[i] = i
    n = int32(a.size)
    while n > 1:
        half = (n + 1) // 2
        for i in each(n - half):
            x, y = best[0, i, 0], best[0, i + half, 0]
            if better(y, x) or (at[i + half] < at[i] and not better(x, y)):
                best[0, i, 0] = y
                at[i] = at[i + half]
        n = half
    return at[0:1]


@builtin("tile_argmin")
def tile_argmin(a):
    """The position of the smallest element, counted row by row: the first of equal ones. A tile of shape (1,)."""
    return position_of_best(is_less, a)


@builtin("tile_argmax")
def tile_argmax(a):
    """The position of the largest element, counted row by row: the first of equal ones. A tile of shape (1,)."""
    return position_of_best(is_greater, a)


@library_function
def scan(op, a):
    """A tile of the shape of `a`: at each position all elements up to it, row by row, combined by `op`."""
    sums = tile_lines(a, None)
    before = tile_empty(shape=(1, a.size, 1), dtype=a.dtype)
    reach = int32(1)
    while reach < a.size:
        for i in each(int32(a.size)):
            before[0, i, 0] = sums[0, i, 0]
        for i in each(reach, int32(a.size)):
            sums[0, i, 0] = op(before[0, i - reach, 0], before[0, i, 0])
        reach = reach * 2
    return tile_reshape(sums, a.shape)


@builtin("tile_scan_inclusive")
def tile_scan_inclusive(a):
    """At each position the sum of the elements up to and including it."""
    return scan(tile_element_sum, a)


@builtin("tile_scan_exclusive")
def tile_scan_exclusive(a):
    """At each position the sum of the elements before it."""
    sums = tile_lines(scan(tile_element_sum, a), None)
    result = tile_empty(shape=(1, a.size, 1), dtype=a.dtype)
    for i in each(1, int32(a.size)):
        result[0, i, 0] = sums[0, i - 1, 0]
    return tile_reshape(result, a.shape)


@builtin("tile_scan_max_inclusive")
def tile_scan_max_inclusive(a):
    """At each position the largest element up to and including it."""
    return scan(maximum, a)


@builtin("tile_scan_min_inclusive")
def tile_scan_min_inclusive(a):
    """At each position the smallest element up to and including it."""
    return scan(minimum, a)


@builtin("tile_dot")
def tile_dot(a, b):
    """The sum of the products of all components of two tiles of one shape, as a tile of shape (1,)."""
    return tile_sum(tile_map(tile_element_dot, a, b))


@builtin("tile_axpy")
def tile_axpy(alpha, src, dest):
    """dest += alpha src."""
    dest += src * alpha
