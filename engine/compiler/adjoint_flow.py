"""The form that gradients are made on: MIR in which values flow through ifs and loops instead of sitting in slots.

Structured SSA: a slot becomes the value that it holds at each point. What an `if` or a loop changes is a `result` of
it; what a loop carries from one iteration to the next is a `phi` of its body. Ops keep their meaning and location.

    if      operands condition; blocks then, else; result k is `yields[k]` of the branch that ran
    loop    operands start, stop, step (of a range) or none; one block whose phis begin as `inits` and become `yields`;
            result k is the last value of phi k; attrs each as in `for`. `stop` is the truth that ends the loop at its
            latch. A `while` is one whose body evaluates the condition, does the rest under an `if`, and stops when it
            was false.
    custom  a call of a function with a gradient of its own; one block that yields its results
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from engine.compiler.ir import Function, Op, Region
from engine.compiler.types import Pointer, Scalar, Type, bool_, int32
from engine.errors import InternalError


class Block:
    """A straight list of ops; `params` are the phis of a loop body, `owner` is the op that the block belongs to."""

    __slots__ = ("count", "inits", "ops", "owner", "params", "parent", "stop", "yields")

    def __init__(self, parent: Block | None = None):
        self.parent = parent
        self.owner: Op | None = None
        self.ops: list[Op] = []
        self.params: list[Op] = []
        self.inits: list[Op] = []
        self.yields: list[Op] = []
        self.stop: Op | None = None
        self.count: Op | None = None  # of a loop that stops by itself: the result that says how often it ran

    @property
    def is_loop(self) -> bool:
        return self.owner is not None and self.owner.kind == "loop"

    @property
    def frame(self) -> Block:
        """The innermost loop body around this block (or itself), else the whole function."""
        block = self
        while not block.is_loop and block.parent is not None:
            block = block.parent
        return block

    def within(self, outer: Block) -> bool:
        """Whether this is `outer` or lies inside it."""
        block: Block | None = self
        while block is not None:
            if block is outer:
                return True
            block = block.parent
        return False


class Flow:
    """A function in this form."""

    def __init__(self, fn: Function):
        self.fn = fn
        self.root = Block()
        self.home: dict[Op, Block] = {}  # the block that a value is made in

    def blocks(self) -> Iterator[Block]:
        """All blocks, outer before inner, in order."""
        return _blocks(self.root)

    def ops(self) -> Iterator[tuple[Block, Op]]:
        """All ops with their blocks, in the order of the program."""
        for block in self.blocks():
            for op in block.ops:
                yield block, op


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in blocks_of(op):
            yield from _blocks(inner)


def blocks_of(op: Op) -> tuple[Block, ...]:
    """The blocks inside an op."""
    found: tuple[Block, ...] = op.attrs.get("blocks", ())
    return found


def results_of(op: Op) -> list[Op]:
    """The results of an if, loop or custom op."""
    found: list[Op] = op.attrs.get("results", [])
    return found


def to_flow(fn: Function) -> Flow:
    """MIR of a kernel in structured SSA form. `fn` is not changed."""
    return _Builder(fn).run()


Env = dict[Op, Op]  # slot → the value that it holds


class _Builder:
    def __init__(self, fn: Function):
        self.flow = Flow(fn)
        self.block = self.flow.root
        self.values: dict[Op, Op] = {p: p for p in fn.params}
        self.env: Env = {}
        self.zeros: dict[Type, Op] = {}
        self.effects: dict[Op, dict[Op, None]] = {}

    def run(self) -> Flow:
        flow = self.flow
        for p in flow.fn.params:
            flow.home[p] = flow.root
        self.ops(flow.fn.body.ops)
        flow.root.ops[:0] = self.zeros.values()
        for zero in self.zeros.values():
            flow.home[zero] = flow.root
        return flow

    def emit(self, op: Op) -> Op:
        self.block.ops.append(op)
        self.flow.home[op] = self.block
        return op

    def made(
        self, kind: str, t: Type, block: Block, loc: Any = None, operands: tuple[Op, ...] = (), **attrs: Any
    ) -> Op:
        """A value that stands in no list of ops: a phi or a result."""
        op = Op(kind, t, operands, attrs, (), loc)
        self.flow.home[op] = block
        return op

    def zero(self, t: Type) -> Op:
        """What a slot holds that was never written; no program that type-checks reads it."""
        known = self.zeros.get(t)
        if known is None:
            if isinstance(t, Pointer):
                raise InternalError("a slot that holds an array was read where it may not have been written")
            value: Any = False if t is bool_ else 0.0 if t.is_float else 0  # type: ignore[attr-defined]
            known = self.zeros[t] = Op("const", t, (), {"value": value})
        return known

    def ops(self, ops: list[Op]) -> None:
        for op in ops:
            handler = _HANDLERS.get(op.kind)
            if handler is not None:
                handler(self, op)
            else:
                operands = tuple([self.values[v] for v in op.operands])
                self.values[op] = self.emit(Op(op.kind, op.type, operands, op.attrs, (), op.loc))

    # slots

    def slot(self, op: Op) -> None:
        self.values[op] = op
        self.flow.home[op] = self.block

    def is_visible(self, slot: Op, block: Block) -> bool:
        """Whether the slot was declared in `block` or around it."""
        return block.within(self.flow.home[slot])

    def get(self, op: Op) -> None:
        self.values[op] = self.held(op.operands[0])

    def held(self, slot: Op) -> Op:
        found = self.env.get(slot)
        return found if found is not None else self.zero(slot.type)

    def set(self, op: Op) -> None:
        self.env[op.operands[0]] = self.values[op.operands[1]]

    def written(self, op: Op) -> dict[Op, None]:
        """Slots written below a structured op, in order (a dict, for a fixed order)."""
        known = self.effects.get(op)
        if known is None:
            known = self.effects[op] = {}
            for region in op.regions:
                for inner in region.ops:
                    if inner.kind == "set":
                        known[inner.operands[0]] = None
                    elif inner.regions:
                        known.update(self.written(inner))
        return known

    # control flow

    def region(self, region: Region, block: Block, before: Env) -> Env:
        """Builds a region into `block`; the slots' values at its end."""
        outer, self.block, self.env = self.block, block, dict(before)
        self.ops(region.ops)
        after, self.block = self.env, outer
        return after

    def branch(self, op: Op) -> None:
        self.branches(op, self.values[op.operands[0]], op.regions)

    def branches(self, op: Op, condition: Op, regions: tuple[Region, ...]) -> Op:
        before, outer = self.env, self.block
        blocks = [Block(outer) for _ in regions]
        new = Op("if", op.type, (condition,), {"blocks": tuple(blocks), "results": []}, (), op.loc)
        after = []
        for region, block in zip(regions, blocks, strict=True):
            block.owner = new
            after.append(self.region(region, block, before))
        self.env = before
        for slot in dict.fromkeys(s for env in after for s in env if env[s] is not before.get(s)):
            if not self.is_visible(slot, outer) or (
                isinstance(slot.type, Pointer) and not all(slot in env for env in after)
            ):
                continue
            values = [env[slot] if slot in env else self.zero(slot.type) for env in after]
            if all(v is values[0] for v in values):
                self.env[slot] = values[0]
                continue
            for block, v in zip(blocks, values, strict=True):
                block.yields.append(v)
            self.env[slot] = self.result(new, slot, outer)
        self.emit(new)
        return new

    def result(self, owner: Op, slot: Op, block: Block) -> Op:
        results = owner.attrs["results"]
        op = self.made(
            "result", slot.type, block, owner.loc, of=owner, index=len(results), name=slot.attrs.get("name", "")
        )
        results.append(op)
        return op

    def custom(self, op: Op) -> None:
        """The body of a function with its own gradient runs once, so that it is a branch always taken."""
        operands = tuple([self.values[v] for v in op.operands])
        before, outer = self.env, self.block
        block = Block(outer)
        new = Op("custom", op.type, operands, {**op.attrs, "blocks": (block,), "results": []}, (), op.loc)
        block.owner = new
        after = self.region(op.regions[0], block, before)
        self.env = before
        for slot in (s for s in after if after[s] is not before.get(s) and self.is_visible(s, outer)):
            block.yields.append(after[slot])
            self.env[slot] = self.result(new, slot, outer)
        # None for a result that nobody reads, whose slot is gone
        new.attrs["outputs"] = [self.env.get(slot) if slot in self.flow.home else None for slot in op.attrs["outputs"]]
        self.emit(new)

    def loop(self, op: Op) -> None:
        operands = tuple([self.values[v] for v in op.operands])
        outer, before = self.block, self.env
        body = Block(outer)
        independent = {"each": op.attrs["each"]} if "each" in op.attrs else {}
        new = Op("loop", op.type, operands, {"blocks": (body,), "results": [], **independent}, (), op.loc)
        body.owner = new
        carried = [
            s for s in self.written(op)
            if s in self.flow.home and self.is_visible(s, outer) and (s in before or not isinstance(s.type, Pointer))
        ]  # fmt: skip
        inner = dict(before)
        for slot in carried:
            body.inits.append(before[slot] if slot in before else self.zero(slot.type))
            inner[slot] = self.made("phi", slot.type, body, op.loc, body=body, name=slot.attrs.get("name", ""))
            body.params.append(inner[slot])
        self.block, self.env = body, inner
        if op.kind == "for":
            self.ops(op.regions[0].ops)
            body.stop = self.held(op.attrs["exit"]) if op.attrs.get("exit") is not None else None
        else:
            body.stop = self.while_body(op)
        body.yields = [self.held(slot) for slot in carried]
        self.block, self.env = outer, before
        for slot in carried:
            self.env[slot] = self.result(new, slot, outer)
        if body.stop is not None:
            self.count_trips(new, body, outer)
        self.emit(new)

    def while_body(self, op: Op) -> Op:
        """Condition, then the rest under an `if`; gives the truth that ends the loop."""
        condition, rest = op.regions
        self.ops(condition.ops[:-1])
        holds = self.values[condition.ops[-1].operands[0]]
        self.branches(op, holds, (rest, Region([])))
        over = self.emit(Op("not", bool_, (holds,), None, (), op.loc))
        slot = op.attrs.get("exit")
        return over if slot is None else self.emit(Op("or", bool_, (over, self.held(slot)), None, (), op.loc))

    def count_trips(self, loop: Op, body: Block, outer: Block) -> None:
        """A loop that stops by itself carries the number of its iterations."""
        body.inits.append(self.zero(int32))
        phi = self.made("phi", int32, body, loop.loc, body=body, name="trips")
        body.params.append(phi)
        one = Op("const", int32, (), {"value": 1})
        body.ops += [one, Op("add", int32, (phi, one), None, (), loop.loc)]
        for op in body.ops[-2:]:
            self.flow.home[op] = body
        body.yields.append(body.ops[-1])
        results = loop.attrs["results"]
        body.count = self.made("result", int32, outer, loop.loc, of=loop, index=len(results), name="trips")
        results.append(body.count)


_B = _Builder
_HANDLERS: dict[str, Callable[[_Builder, Op], Any]] = {
    "slot": _B.slot, "get": _B.get, "set": _B.set, "if": _B.branch, "for": _B.loop, "while": _B.loop,
    "custom": _B.custom,
}  # fmt: skip


def is_float(t: Type) -> bool:
    """Whether values of this type have a derivative."""
    return isinstance(t, Scalar) and t.kind == "f"
