"""Sorting of tiles: a stable merge sort in which every element finds its place in the merged run by itself.

A pass joins runs of length w in pairs: the place of an element is its position in its run plus the number of elements
of the other run that come before it, found by bisection. Elements do not depend on each other within a pass.
"""

from engine.compiler.library.intrinsics import each, tile_empty
from engine.compiler.library.primitives import minimum
from engine.compiler.library.registry import library_function
from engine.compiler.types import int32


@library_function
def comes_before(a, b):
    """a < b, with NaN behind everything."""
    return a < b or (a == a and b != b)


@library_function
def count_before(keys, order, key, first: int32, end: int32, strictly: bool):
    """How many keys of the run from first to end come before `key`; not strictly: or are equal to it."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        other = keys[order[middle]]
        goes_first = comes_before(other, key) if strictly else not comes_before(key, other)
        if goes_first:
            low = middle + 1
        else:
            high = middle
    return low - first


@library_function
def order_of(keys):
    """The positions of the keys in ascending order."""
    n = int32(keys.shape[0])
    order = tile_empty(shape=keys.shape, dtype=int32)
    merged = tile_empty(shape=keys.shape, dtype=int32)
    for i in each(n):
        order[i] = i
    width = int32(1)
    while width < n:
        for i in each(n):
            run = i // width
            is_left = run % 2 == 0
            start = (run // 2) * 2 * width
            middle, end = minimum(start + width, n), minimum(start + 2 * width, n)
            first, last = middle, end
            if not is_left:
                first, last = start, middle
            other = count_before(keys, order, keys[order[i]], first, last, is_left)
            merged[start + (i - run * width) + other] = order[i]
        for i in each(n):
            order[i] = merged[i]
        width = width * 2
    return order


@library_function
def picked(values, order):
    """The values in that order."""
    result = tile_empty(shape=values.shape, dtype=values.dtype)
    for i in each(int32(values.shape[0])):
        result[i] = values[order[i]]
    return result
