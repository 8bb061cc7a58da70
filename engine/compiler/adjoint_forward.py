"""The augmented forward kernel, which does what the plain one does and saves the frames that the backward kernel reads.

Two forms of the same walk over the flow form: `augmented` writes the frames into the arena; `counting` only adds up how
many bytes each thread will write. A counting kernel has no stores where what it decides by is not written by the kernel
itself; otherwise it must run on memory that is put back afterwards (`Counting.is_pure`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.compiler.adjoint import Frame
from engine.compiler.adjoint_activity import ArrayKey, array_key, roots
from engine.compiler.adjoint_flow import Block, Flow, blocks_of, results_of
from engine.compiler.ir import Function, Op, Region
from engine.compiler.simplify import simplify
from engine.compiler.types import Type, bool_, int32, int64, pointer, void


def augmented(flow: Flow, frames: Mapping[Block, Frame], first: int, counts: bool) -> Function:
    """The forward kernel with frames; its arena is parameter `first`, the offsets of the threads in it the next one.

    Without `counts` all threads write one frame, at their index times its size.
    """
    return _Forward(flow, frames, first, counts).run("augmented")


def counting(
    flow: Flow, frames: Mapping[Block, Frame], first: int, written: frozenset[ArrayKey]
) -> tuple[Function, bool]:
    """The kernel that stores each thread's bytes into parameter `first` (int64), and whether it writes nothing else."""
    pure = _Forward(flow, frames, first, True, count_only=True, effects=False).run("counting")
    pure = simplify(pure, fma=False)
    reads = {array_key(p) for op in pure.body.walk() if op.kind == "load" for p in roots(op.operands[0])}
    if reads & written:
        return simplify(_Forward(flow, frames, first, True, count_only=True).run("counting"), fma=False), False
    return pure, True


class _Forward:
    def __init__(self, flow: Flow, frames: Mapping[Block, Frame], first: int, counts: bool, count_only: bool = False,
                 effects: bool = True):  # fmt: skip
        self.flow, self.frames, self.first = flow, frames, first
        self.counts, self.count_only, self.effects = counts, count_only, effects
        self.values: dict[Op, Op] = {p: p for p in flow.fn.params}
        self.params = list(flow.fn.params)
        self.slots: list[Op] = []
        self.consts: dict[tuple[str, str], Op] = {}
        self.kept: dict[Op, Op] = {}  # value saved from inside an if → slot that carries it to the frame
        self.out: list[Op] = []
        self.top = self.slot(int64, "tape")
        for frame in frames.values():
            for v in frame.saved:
                if flow.home[v] is not frame.block:
                    self.kept[v] = self.slot(v.type, "saved")

    def run(self, suffix: str) -> Function:
        fn = self.flow.fn
        tid = self.emit("tid", int32, attrs={"axis": 0, "ndim": 1})
        wide = self.emit("cast", int64, tid)
        data = Op("param", pointer, (), {"index": self.first, "path": ("data",), "name": "arena"})
        offsets = Op("param", pointer, (), {"index": self.first + 1, "path": ("data",), "name": "offsets"})
        attrs = {"ndim": 1, "offset": 0, "array": "offsets", "layout": "aos"}
        self.arena = data
        if self.count_only:
            start = self.const(int64, 0)
        elif self.counts:
            start = self.emit("load", int64, offsets, wide, self.const(int64, 8), attrs=attrs)
        else:
            start = self.emit("mul", int64, wide, self.const(int64, self.frames[self.flow.root].size))
        self.emit("set", void, self.top, start)
        self.block(self.flow.root)
        if self.count_only:
            total = self.emit("get", int64, self.top)
            self.emit("store", void, data, wide, self.const(int64, 8), total, attrs=attrs)
        used = [data, *([offsets] if self.counts and not self.count_only else [])]
        ops = [*self.consts.values(), *self.slots, *self.out]
        return Function(f"{fn.name}_{suffix}", [*self.params, *used], Region(ops), void, fn.file, fn.line, True)

    # building blocks

    def emit(self, kind: str, t: Type, *operands: Op, attrs: dict[str, Any] | None = None, loc: Any = None) -> Op:
        op = Op(kind, t, operands, attrs, (), loc)
        self.out.append(op)
        return op

    def const(self, t: Type, value: Any) -> Op:
        key = (repr(t), repr(value))
        if key not in self.consts:
            self.consts[key] = Op("const", t, (), {"value": value})
        return self.consts[key]

    def slot(self, t: Type, name: str) -> Op:
        slot = Op("slot", t, (), {"name": name})
        self.slots.append(slot)
        return slot

    def define(self, op: Op, value: Op) -> None:
        self.values[op] = value
        if op in self.kept:
            self.emit("set", void, self.kept[op], value)

    # blocks

    def block(self, block: Block) -> None:
        for op in block.ops:
            match op.kind:
                case "if":
                    self.branch(op)
                case "loop":
                    self.loop(op)
                case "custom":
                    (inner,) = blocks_of(op)
                    self.block(inner)
                    for result, v in zip(results_of(op), inner.yields, strict=True):
                        self.define(result, self.values[v])
                case _:
                    self.plain(op)
        self.push(block)

    def plain(self, op: Op) -> None:
        if op.kind == "index":
            return  # made by its loop
        if op.kind in ("print", "fault") and self.count_only:
            return  # it is said once, by the launch itself
        operands = tuple([self.values[v] for v in op.operands])
        if not self.effects and op.kind in ("store", "atomic"):
            if op.kind == "atomic":  # its old value, if it is asked for, is a load from memory that the kernel writes
                place = operands[: 1 + 2 * op.attrs["ndim"]]
                attrs = {k: a for k, a in op.attrs.items() if k != "op"}
                self.define(op, self.emit("load", op.type, *place, attrs=attrs, loc=op.loc))
            return
        new = Op(op.kind, op.type, operands, op.attrs, (), op.loc)
        self.out.append(new)
        self.define(op, new)

    def push(self, block: Block) -> None:
        """Writes the frame that ends here."""
        frame = self.frames.get(block)
        if frame is None or not frame.saved:
            return
        base = self.emit("get", int64, self.top)
        for v, offset in frame.saved.items() if not self.count_only else ():
            value = self.emit("get", v.type, self.kept[v]) if v in self.kept else self.values[v]
            attrs = {"ndim": 1, "offset": offset, "array": "arena", "layout": "aos"}
            self.emit("store", void, self.arena, base, self.const(int64, 1), value, attrs=attrs)
        self.emit("set", void, self.top, self.emit("add", int64, base, self.const(int64, frame.size)))

    def branch(self, op: Op) -> None:
        results = results_of(op)
        slots = [self.slot(r.type, r.attrs.get("name", "")) for r in results]
        regions = []
        for block in blocks_of(op):
            outer, self.out = self.out, []
            self.block(block)
            for slot, v in zip(slots, block.yields, strict=True):
                self.emit("set", void, slot, self.values[v])
            regions.append(Region(self.out))
            self.out = outer
        self.out.append(Op("if", void, (self.values[op.operands[0]],), None, tuple(regions), op.loc))
        for result, slot in zip(results, slots, strict=True):
            self.define(result, self.emit("get", result.type, slot))

    def loop(self, op: Op) -> None:
        (body,) = blocks_of(op)
        slots = [self.slot(phi.type, phi.attrs.get("name", "")) for phi in body.params]
        for slot, init in zip(slots, body.inits, strict=True):
            self.emit("set", void, slot, self.values[init])
        over = self.slot(bool_, "exit") if body.stop is not None else None
        if over is not None:
            self.emit("set", void, over, self.const(bool_, False))
        outer, self.out = self.out, []
        if op.operands:
            index = body.ops[0]
            self.values[index] = self.emit("index", index.type)
            if index in self.kept:
                self.define(index, self.values[index])
        for phi, slot in zip(body.params, slots, strict=True):
            self.define(phi, self.emit("get", phi.type, slot))
        self.block(body)
        for slot, v in zip(slots, body.yields, strict=True):
            self.emit("set", void, slot, self.values[v])
        if over is not None:
            self.emit("set", void, over, self.values[body.stop])  # type: ignore[index]
        region, self.out = Region(self.out), outer
        attrs = {"exit": over} if over is not None else {}
        if op.operands:
            operands = tuple([self.values[v] for v in op.operands])
            self.out.append(Op("for", void, operands, attrs, (region,), op.loc))
        else:
            condition = Region([Op("condition", void, (self.const(bool_, True),))])
            self.out.append(Op("while", void, (), attrs, (condition, region), op.loc))
        for result, slot in zip(results_of(op), slots, strict=True):
            self.define(result, self.emit("get", result.type, slot))
