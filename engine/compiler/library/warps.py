"""Sums, extremes and bitwise combinations over the threads of a warp, in one fixed tree.

Lane l takes in lane l + 16, then l + 8, 4, 2, 1, where there is such a lane; lane 0 then has all of them and hands the
result out. The tree is the same on every device, and so are the bits of a sum of floats.
"""

from engine.compiler.library.intrinsics import lane_id, warp_lanes, warp_shuffle_down, warp_shuffle_idx
from engine.compiler.library.primitives import maximum, minimum, select
from engine.compiler.library.registry import builtin
from engine.compiler.types import AnyInt, AnyScalar


@builtin("warp_reduce_add")
def warp_reduce_add(value: AnyScalar):
    """The sum over the threads of the warp, for all of them."""
    total = value
    for step in range(5):
        delta = 16 >> step
        other = warp_shuffle_down(total, delta)
        total = select(lane_id() + delta < warp_lanes(), total + other, total)
    return warp_shuffle_idx(total, 0)


@builtin("warp_reduce_min")
def warp_reduce_min(value: AnyScalar):
    """The smallest value of the threads of the warp, for all of them; a NaN is ignored."""
    least = value
    for step in range(5):
        least = minimum(least, warp_shuffle_down(least, 16 >> step))
    return warp_shuffle_idx(least, 0)


@builtin("warp_reduce_max")
def warp_reduce_max(value: AnyScalar):
    """The largest value of the threads of the warp, for all of them; a NaN is ignored."""
    largest = value
    for step in range(5):
        largest = maximum(largest, warp_shuffle_down(largest, 16 >> step))
    return warp_shuffle_idx(largest, 0)


@builtin("warp_reduce_and")
def warp_reduce_and(value: AnyInt):
    """The bits that are set in the values of all threads of the warp."""
    bits = value
    for step in range(5):
        bits = bits & warp_shuffle_down(bits, 16 >> step)
    return warp_shuffle_idx(bits, 0)


@builtin("warp_reduce_or")
def warp_reduce_or(value: AnyInt):
    """The bits that are set in the value of some thread of the warp."""
    bits = value
    for step in range(5):
        bits = bits | warp_shuffle_down(bits, 16 >> step)
    return warp_shuffle_idx(bits, 0)


@builtin("warp_reduce_xor")
def warp_reduce_xor(value: AnyInt):
    """The bits that are set in the values of an odd number of threads of the warp."""
    bits = value
    for step in range(5):
        delta = 16 >> step
        other = warp_shuffle_down(bits, delta)
        bits = select(lane_id() + delta < warp_lanes(), bits ^ other, bits)
    return warp_shuffle_idx(bits, 0)
