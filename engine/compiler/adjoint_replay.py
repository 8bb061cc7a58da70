"""Results of ifs computed again on the way back, where everything that they need can be had without the tape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.adjoint_flow import Block, blocks_of
from engine.compiler.ir import Op, Region
from engine.compiler.types import void

if TYPE_CHECKING:
    from engine.compiler.adjoint import Reverse


class Replay:
    """Emits ifs again, outside of the block lists; values from outside of them come from the reverse pass."""

    def __init__(self, reverse: Reverse, home: Block):
        self.reverse, self.home = reverse, home
        self.known: dict[Op, Op] = {}

    def result(self, v: Op, out: list[Op]) -> Op:
        owner, k = v.attrs["of"], v.attrs["index"]
        slot = self.reverse.new_slot(v.type, "again")
        if owner.kind == "custom":
            value = self.value(blocks_of(owner)[0].yields[k], out)
            out.append(Op("set", void, (slot, value)))
        else:
            condition = self.value(owner.operands[0], out)
            regions = []
            for block in blocks_of(owner):
                inner: list[Op] = []
                before = dict(self.known)
                value = self.value(block.yields[k], inner)
                self.known = before
                regions.append(Region([*inner, Op("set", void, (slot, value))]))
            out.append(Op("if", void, (condition,), None, tuple(regions), owner.loc))
        got = Op("get", v.type, (slot,))
        out.append(got)
        return got

    def value(self, v: Op, out: list[Op]) -> Op:
        reverse = self.reverse
        home = reverse.flow.home.get(v)
        if v.kind in ("const", "param") or home is None or home is self.home or not home.within(self.home):
            return reverse.value(v)
        if v in self.known:
            return self.known[v]
        if v.kind == "result":
            made = self.result(v, out)
        else:
            operands = tuple([self.value(x, out) for x in v.operands])
            made = Op(v.kind, v.type, operands, v.attrs, (), v.loc)
            out.append(made)
        self.known[v] = made
        return made
