"""Where a slice of an array begins and how many elements it has; negative bounds count from the end, as in Python."""

from __future__ import annotations

from engine.compiler.library.primitives import maximum, minimum
from engine.compiler.library.registry import library_function
from engine.compiler.types import int32 as int32  # annotations below


@library_function
def slice_bound(extent: int, bound: int, step: int) -> int:
    """`bound` as a position in 0 … extent, or in -1 … extent - 1 when the slice runs backwards."""
    low, high = 0, extent
    if step < 0:
        low, high = -1, extent - 1
    if bound < 0:
        return maximum(bound + extent, low)
    return minimum(bound, high)


@library_function
def slice_first(extent: int, step: int) -> int:
    """Where a slice without a start begins."""
    return extent - 1 if step < 0 else 0


@library_function
def slice_end(extent: int, step: int) -> int:
    """Where a slice without an end stops."""
    return -1 if step < 0 else extent


@library_function
def slice_count(start: int, stop: int, step: int) -> int:
    """How many elements lie from start to stop; none for a step of zero."""
    assert step != 0, "a slice has a step of zero"
    if step > 0:
        return maximum((stop - start + step - 1) // step, 0)
    if step < 0:
        return maximum((start - stop - step - 1) // (-step), 0)
    return 0
