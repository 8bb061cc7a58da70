"""The rules by which single ops simplify: folding of constants, and identities that hold to the bit (for `simplify`).

Floating point keeps IEEE: no x + 0, no x * 0, no reassociation; x + -0 and x * 1 are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from engine.compiler.ir import Op
from engine.compiler.ops import fold
from engine.compiler.types import Scalar, bfloat16, bool_


def fold_op(kind: str, op: Op, values: list[Any], source: Any) -> Any:
    """The op on constants as a Python number, or None where folding is left to run time.

    NumPy's warnings must be off: what they are about is what the op means.
    """
    if kind == "select":
        return values[1] if values[0] else values[2]
    if kind == "bitcast":
        if "bfloat16" in (source.name, op.type.name):  # type: ignore[attr-defined]
            return None
        return np.array(values[0], source.numpy).view(op.type.numpy).item()  # type: ignore[attr-defined]
    if kind == "bits":
        return sum(1 << k for k, value in enumerate(values) if value)
    if kind == "cast":
        return cast_constant(values[0], op.type)  # type: ignore[arg-type]
    if source.bits == 16 and source.is_float:
        return None
    if kind == "copysign" and values[1] != values[1]:
        return None  # the sign of a NaN is not part of the same bits: NumPy and the processor make different ones
    return fold(kind, source, values)


def cast_constant(value: Any, to: Scalar) -> Any:
    """`cast` of a Python number; None where NumPy would round twice (huge integers to float32)."""
    if to.kind == "b":
        return value != 0
    if to.is_float:
        if isinstance(value, int) and abs(value) >= 2**53:
            return None
        if to.bits == 16:  # through float32, as at run time
            narrow = np.float16 if to.name == "float16" else bfloat16
            return float(narrow(np.float32(value)))
        return to.numpy.type(value).item()
    low, high = to.range
    if isinstance(value, float):
        return (
            0
            if math.isnan(value)
            else int(max(low, min(high, value)))
            if math.isfinite(value)
            else (low, high)[value > 0]
        )
    value = int(value) & ((1 << to.bits) - 1)
    return value - (1 << to.bits) if value > high else value


# identities: each returns an existing value or None


class Constants(Protocol):
    """What a rule needs of the walk that applies it."""

    def const(self, t: Scalar, value: Any) -> Op:
        """The constant of this type and value."""


Rule = Callable[[Constants, Op, tuple[Op, ...]], "Op | None"]


def _constant(op: Op) -> Any:
    return op.attrs["value"] if op.kind == "const" else None


def _is_neutral(value: Any, t: Any, whole: Any, real: float) -> bool:
    """Whether a constant is the neutral element: `whole` for integers and truths, `real` (with its sign) for floats."""
    if value is None:
        return False
    if t.kind == "f":
        return value == real and math.copysign(1.0, value) == math.copysign(1.0, real)
    return value == whole


def _neutral(whole: Any, real: float) -> Rule:
    return lambda f, op, v: v[0] if _is_neutral(_constant(v[1]), op.type, whole, real) else None


def _multiply(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    value, t = _constant(v[1]), op.type
    if _is_neutral(value, t, 1, 1.0):
        return v[0]
    return v[1] if value == 0 and t.kind in "iu" else None  # type: ignore[attr-defined]


def _subtract(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    t: Scalar = op.type  # type: ignore[assignment]
    if v[0] is v[1] and t.is_int:
        return f.const(t, 0)
    return v[0] if _is_neutral(_constant(v[1]), t, 0, 0.0) else None


def _and(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    value, t = _constant(v[1]), op.type
    if v[0] is v[1] or value == _ones(t):
        return v[0]
    return v[1] if value == 0 else None


def _or(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    value, t = _constant(v[1]), op.type
    if v[0] is v[1] or value == 0:
        return v[0]
    return v[1] if value == _ones(t) else None


def _ones(t: Any) -> Any:
    return True if t.kind == "b" else -1 if t.kind == "i" else t.range[1]


def _involution(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0].operands[0] if v[0].kind == op.kind else None


def _equal(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0] if v[1].type is bool_ and _constant(v[1]) is True else None


def _unequal(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0] if v[1].type is bool_ and _constant(v[1]) is False else None


def _cast(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0] if v[0].type is op.type else None


def _select(f: Constants, op: Op, v: tuple[Op, ...]) -> Op | None:
    condition, a, b = v
    if condition.kind == "const":
        return a if condition.attrs["value"] else b
    if a is b:
        return a
    return condition if op.type is bool_ and _constant(a) is True and _constant(b) is False else None


IDENTITIES: dict[
    str, Rule] = { "add": _neutral(0, -0.0), "sub": _subtract, "mul": _multiply, "div": _neutral(1, 1.0),
    "floordiv": _neutral(1, 1.0), "and": _and, "or": _or, "xor": _neutral(0, 0.0), "shl": _neutral(0, 0.0),
    "shr": _neutral(0, 0.0), "neg": _involution, "not": _involution, "eq": _equal, "ne": _unequal, "cast": _cast,
    "bitcast": _cast, "select": _select,
}  # fmt: skip
