"""One elementwise op on the way back, as its rule sees it; and where adjoints of 0 must stay 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.adjoint_flow import Flow, blocks_of, results_of
from engine.compiler.ir import Op
from engine.compiler.ops import ELEMENTWISE
from engine.compiler.types import bool_

if TYPE_CHECKING:
    from engine.compiler.adjoint import Reverse


def find_masked(flow: Flow) -> set[Op]:
    """Values that a select (or min, max) may drop: their adjoint is then 0, and stays 0 whatever it is multiplied by.

    In `x / n if n > 0 else 0` the quotient's adjoint at n = 0 is 0, and 0 / 0 must not come of it.
    """
    found: set[Op] = set()
    for _, op in reversed(list(flow.ops())):
        if op.kind == "select":
            found.update(op.operands[1:])
        elif op.kind in ("min", "max", "select_min", "select_max") or op in found:
            found.update(op.operands)
        for k, result in enumerate(results_of(op)):
            if result in found:
                found.update(v for b in blocks_of(op) for v in (b.yields[k], *b.inits[k : k + 1]))
    return found


class ReverseStep:
    """What a rule sees of one op."""

    def __init__(self, reverse: Reverse, op: Op, g: Op):
        self.reverse, self.op, self.g = reverse, op, g
        self.none: Op | None = None  # whether the adjoint is 0, for values that may be masked
        if op in reverse.masked and op.kind in ("mul", "div", "sqrt", "fma"):
            self.none = self.emit("eq", g, self.number(0.0))

    def needs(self, k: int) -> bool:
        return self.op.operands[k] in self.reverse.activity

    def operand(self, k: int) -> Op:
        return self.reverse.value(self.op.operands[k])

    def result(self) -> Op:
        return self.reverse.value(self.op)

    def emit(self, kind: str, *operands: Op) -> Op:
        truth = kind in ELEMENTWISE and (ELEMENTWISE[kind].result == "bool" or operands[0].type is bool_)
        return self.reverse.emit(kind, bool_ if truth else self.op.type, *operands)

    def number(self, value: float) -> Op:
        return self.reverse.const(self.op.type, value)

    def add(self, k: int, value: Op) -> None:
        if self.none is not None and self.needs(k):
            value = self.emit("select", self.none, self.number(0.0), value)
        self.reverse.add(self.op.operands[k], value)

    def add_product(self, k: int, a: Op, b: Op) -> None:
        if self.none is not None:
            self.add(k, self.emit("mul", a, b))
        else:
            self.reverse.add_product(self.op.operands[k], a, b)
