"""Searching in sorted arrays."""

from engine.compiler.library.registry import builtin
from engine.compiler.types import AnyScalar, Array, int32


@builtin("lower_bound")
def lower_bound(arr: Array(AnyScalar), value: AnyScalar):
    """The first position of an ascending array whose element is not below `value`; the last one where all are.

    `lower_bound(arr, begin, end, value)` looks at the elements from begin up to but not including end.
    """
    return lower_bound_within(arr, 0, len(arr), value)


@builtin("lower_bound")
def lower_bound_within(arr: Array(AnyScalar), arr_begin: int32, arr_end: int32, value: AnyScalar):
    low, high = arr_begin, arr_end - 1
    while low < high:
        middle = low + (high - low) // 2
        if arr[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
