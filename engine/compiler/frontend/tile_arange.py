"""`tile_arange`: the numbers of a range, whose bounds are rounded to the type of the tile before they are counted."""

from __future__ import annotations

import math
from typing import Any

from engine.compiler import types
from engine.compiler.frontend import tile_elements as elements
from engine.compiler.frontend.context import Value, static_type
from engine.compiler.frontend.tile_calls import Call, tile_function
from engine.compiler.ir import Op

WIDEST = types.uint64.range[1]  # the largest integer that any type holds


@tile_function("tile_arange", "start stop step *", stop=None, step=1, dtype=None, storage="register")
def lower_arange(call: Call) -> Value:
    """start, start + step, … up to but not including stop; all known while compiling."""
    bounds = {name: call.known(name) for name in ("start", "stop", "step")}
    if bounds["stop"] is None:
        bounds["start"], bounds["stop"] = 0, bounds["start"]
    for name, v in bounds.items():
        if not isinstance(static_type(v), types.Scalar):
            raise call.error(f"'{name}' is a number, not {v!r}")
        bounds[name] = v.item() if hasattr(v, "item") else v
    is_float = any(isinstance(v, float) for v in bounds.values())
    dtype = call.dtype() if call.given_or_none("dtype") is not None else types.float32 if is_float else types.int32
    if not isinstance(dtype, types.Scalar) or dtype.kind == "b":
        raise call.ctx.error(call.node, f"tile_arange() requires a numeric scalar dtype, not {dtype!r}")
    first, last, by = (rounded(call, name, v, dtype) for name, v in bounds.items())
    if by == 0:
        raise call.error("the step cannot be zero")
    count = len(range(first, last, by)) if dtype.is_int else how_many(call, first, last, by, dtype)
    if count == 0:
        start, stop, step = bounds.values()
        raise call.error(f"a non-empty range is needed, but from {start!r} to {stop!r} by {step!r} there is nothing")
    return tile_of_range(call, first, by, count, dtype)


def tile_of_range(call: Call, first: Any, by: Any, count: int, dtype: types.Scalar) -> Op:
    ctx, node = call.ctx, call.node
    t = types.tile_of(dtype, (count,), call.storage())
    elements.check_size(ctx, t, node)
    start, step = ctx.const(first, dtype, node), ctx.const(by, dtype, node)

    def element(at: elements.At) -> Op:
        k = ctx.emit("cast", dtype, at(t), node=node)
        return ctx.emit("add", dtype, start, ctx.emit("mul", dtype, k, step, node=node), node=node)

    return elements.make(ctx, t.shape, [], node, element, t.storage)


def rounded(call: Call, name: str, value: Any, dtype: types.Scalar) -> Any:
    """A bound as a number of the tile's type, or an error that says why it is none."""
    if isinstance(value, int) and abs(value) > WIDEST:
        raise call.ctx.error(call.node, f"tile_arange() {name}={value} is too wide to use as an integer bound",
                             "write it as a float")  # fmt: skip
    if dtype.is_int:
        if not math.isfinite(value) or value != int(value):
            raise call.error(f"{name}={value!r} has a fractional part, but the tile holds {dtype!r}")
        low, high = dtype.range
        if not low <= value <= high:
            raise call.error(f"{name}={value!r} is out of range of {dtype!r} ({low} … {high})")
        return int(value)
    number = float(dtype(exactly(value) if isinstance(value, int) else value))
    if not math.isfinite(number):
        raise call.error(f"{name}={value!r} is out of range of {dtype!r}")
    return number


def exactly(value: int) -> float:
    """A whole number as a float64 that rounds to any narrower type as the number itself does: its tail becomes one bit.

    Rounding twice would turn what lies just below the middle of two numbers into the middle.
    """
    tail = max(abs(value).bit_length() - 52, 0)
    odd = 1 if abs(value) & ((1 << tail) - 1) else 0
    kept = ((abs(value) >> tail) | odd) << tail
    return math.copysign(float(kept), value)


def how_many(call: Call, first: float, last: float, by: float, dtype: types.Scalar) -> int:
    """The elements of a range of floats: the quotient rounded to the type, so that 0.3 / 0.1 counts as 3."""
    quotient = (last - first) / by if math.isfinite(last - first) else last / by - first / by
    if not math.isfinite(quotient):
        raise call.error(f"from {first!r} to {last!r} by {by!r} spans more elements than can be counted")
    count = math.ceil(float(dtype(quotient)))
    return max(count, 1) if quotient > 0 else 0
