"""Contracts a*b+c to fma: the only step of `simplify` that changes a rounding.

The rule looks at the MIR alone, so that all targets and both code shapes agree. Where m is a product that has exactly
one use, the first line that fits holds:

    x + m → fma(m.a, m.b, x)        x - m → fma(-m.a, m.b, x)
    m + y → fma(m.a, m.b, y)        m - y → fma(m.a, m.b, -y)
"""

from __future__ import annotations

from engine.compiler.ir import Op, Region, sweep
from engine.compiler.types import Scalar


class Contraction:
    """Applies the rule of the file's header, in place."""

    def __init__(self, uses: dict[Op, int]):
        self.uses = uses
        self.absorbed: set[Op] = set()
        self.consts: list[Op] = []

    def run(self, body: Region) -> None:
        self.region(body)
        if self.absorbed:
            sweep(body, self.absorbed)
            body.ops[:0] = self.consts

    def region(self, region: Region) -> None:
        uses = self.uses
        out: list[Op] = []
        for op in region.ops:
            kind = op.kind
            if kind == "add" or kind == "sub":
                t: Scalar = op.type  # type: ignore[assignment]
                if t.kind == "f" and t.bits != 16:
                    x, y = op.operands
                    if y.kind == "mul" and uses[y] == 1:
                        a, b = y.operands
                        self.absorb(y)
                        op.kind, op.operands = "fma", (a if kind == "add" else self.negated(a, out), b, x)
                    elif x.kind == "mul" and uses[x] == 1:
                        self.absorb(x)
                        op.kind, op.operands = "fma", (*x.operands, y if kind == "add" else self.negated(y, out))
            for inner in op.regions:
                self.region(inner)
            out.append(op)
        region.ops = out

    def absorb(self, product: Op) -> None:
        """The product goes; its operands are used by the fma instead, so their counts stay."""
        self.uses[product] = 0
        self.absorbed.add(product)

    def negated(self, v: Op, out: list[Op]) -> Op:
        """-v, which takes over one use of v."""
        uses = self.uses
        if v.kind == "neg":
            uses[v] -= 1
            inner = v.operands[0]
            if uses[v]:
                uses[inner] += 1
            else:
                self.absorbed.add(v)
            return inner
        if v.kind == "const":
            uses[v] -= 1
            if not uses[v]:
                self.absorbed.add(v)
            op = Op("const", v.type, (), {"value": -v.attrs["value"]})
            self.consts.append(op)
        else:
            op = Op("neg", v.type, (v,), None, (), v.loc)
            out.append(op)
        uses[op] = 1
        return op
