"""The derivative of each primitive: one row for every elementwise op, for `adjoint` to apply in reverse order.

A rule gets the adjoint g of the op's result and adds to the adjoints of its operands what the chain rule says. It asks
for the values of operands and result only where it uses them: what no rule asks for is not recomputed or saved. Where a
function has a kink the rule takes one side (min, max: the second operand on a tie; abs: 0 at 0); where it jumps
(floor, rint …) the derivative is that of the flat parts, 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from engine.compiler.ir import Op


class Step(Protocol):
    """One op on the way back."""

    g: Op  # adjoint of the result

    def needs(self, k: int) -> bool:
        """Whether anything depends on the adjoint of operand k."""

    def operand(self, k: int) -> Op:
        """The value of operand k."""

    def result(self) -> Op:
        """The value of the result."""

    def emit(self, kind: str, *operands: Op) -> Op:
        """A new op of the result's type (comparisons: bool)."""

    def number(self, value: float) -> Op:
        """A constant of the result's type."""

    def add(self, k: int, value: Op) -> None:
        """Adds `value` to the adjoint of operand k."""

    def add_product(self, k: int, a: Op, b: Op) -> None:
        """Adds a * b, contracted to an fma where that is allowed."""


Rule = Callable[[Any], None]


def _add(s: Step) -> None:
    s.add(0, s.g)
    s.add(1, s.g)


def _sub(s: Step) -> None:
    s.add(0, s.g)
    if s.needs(1):
        s.add(1, s.emit("neg", s.g))


def _mul(s: Step) -> None:
    for k in (0, 1):
        if s.needs(k):
            s.add_product(k, s.g, s.operand(1 - k))


def _div(s: Step) -> None:
    """d(a/b) = (da - r db) / b."""
    quotient = s.emit("div", s.g, s.operand(1))
    s.add(0, quotient)
    if s.needs(1):
        s.add_product(1, s.emit("neg", quotient), s.result())


def _neg(s: Step) -> None:
    s.add(0, s.emit("neg", s.g))


def _abs(s: Step) -> None:
    x, zero = s.operand(0), s.number(0.0)
    flat = s.emit("select", s.emit("eq", x, zero), zero, s.g)
    s.add(0, s.emit("select", s.emit("lt", x, zero), s.emit("neg", s.g), flat))


def _sqrt(s: Step) -> None:
    s.add(0, s.emit("div", s.emit("mul", s.g, s.number(0.5)), s.result()))


def _fma(s: Step) -> None:
    _mul(s)
    s.add(2, s.g)


def _copysign(s: Step) -> None:
    """|a| with the sign of b: the derivative is 1 where a has that sign, else -1; none by b."""
    one = s.number(1.0)
    same = s.emit("eq", s.emit("copysign", one, s.operand(0)), s.emit("copysign", one, s.result()))
    s.add(0, s.emit("select", same, s.g, s.emit("neg", s.g)))


def _choice(test: str, ignores_nan: bool) -> Rule:
    """The first operand where `test` holds between the operands, else the second."""

    def rule(s: Step) -> None:
        a, b = s.operand(0), s.operand(1)
        first = s.emit(test, a, b)
        if ignores_nan:
            first = s.emit("or", first, s.emit("ne", b, b))
        zero = s.number(0.0)
        if s.needs(0):
            s.add(0, s.emit("select", first, s.g, zero))
        if s.needs(1):
            s.add(1, s.emit("select", first, zero, s.g))

    return rule


def _flat(s: Step) -> None:
    """Derivative 0, or no derivative at all: results that are no floats."""


RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "neg": _neg, "abs": _abs, "sqrt": _sqrt, "fma": _fma,
    "copysign": _copysign, "min": _choice("lt", True), "max": _choice("gt", True),
    "select_min": _choice("lt", False), "select_max": _choice("gt", False),
    "floor": _flat, "ceil": _flat, "trunc": _flat, "rint": _flat,
    "floordiv": _flat, "mod": _flat, "and": _flat, "or": _flat, "xor": _flat, "not": _flat, "shl": _flat, "shr": _flat,
    "popcount": _flat, "clz": _flat, "eq": _flat, "ne": _flat, "lt": _flat, "le": _flat, "gt": _flat, "ge": _flat,
}  # fmt: skip


def is_flat(kind: str) -> bool:
    """Whether an op passes nothing back to its operands."""
    return RULES.get(kind) is _flat
