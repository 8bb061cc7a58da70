"""The augmented forward kernel, which does what the plain one does and saves the frames that the backward kernel reads.

Two forms of the same walk over the flow form: `augmented` writes the frames into the arena; `counting` only adds up how
many bytes each thread will write. A counting kernel has no stores where what it decides by is not written by the kernel
itself; otherwise it must run on memory that is put back afterwards (`Counting.is_pure`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.compiler.adjoint_activity import ArrayKey, array_key, roots
from engine.compiler.adjoint_flow import Block, Flow, blocks_of, results_of
from engine.compiler.adjoint_frames import Frame, number_of, rounds_of
from engine.compiler.ir import Function, Op, Region, scalar_type
from engine.compiler.simplify import simplify
from engine.compiler.slices import without_idle
from engine.compiler.types import LocalArray, Type, bool_, int32, int64, pointer, void


def augmented(flow: Flow, frames: Mapping[Block, Frame], first: int, stride: int | None) -> Function:
    """The forward kernel with frames; its arena is parameter `first`, the offsets of the threads in it the next one.

    With a `stride` all threads write so many bytes, at their index times that.
    """
    return _Forward(flow, frames, first, stride).run("augmented")


def counting(
    flow: Flow, frames: Mapping[Block, Frame], first: int, written: frozenset[ArrayKey]
) -> tuple[Function, bool]:
    """The kernel that stores each thread's bytes into parameter `first` (int64), and whether it writes nothing else."""
    pure = _Forward(flow, frames, first, None, count_only=True, effects=False).run("counting")
    pure = simplify(pure, fma=False)
    pure.body = without_idle(pure.body)
    reads = {array_key(p) for op in pure.body.walk() if op.kind == "load" for p in roots(op.operands[0])}
    if reads & written:
        return simplify(_Forward(flow, frames, first, None, count_only=True).run("counting"), fma=False), False
    return pure, True


class _Forward:
    def __init__(self, flow: Flow, frames: Mapping[Block, Frame], first: int, stride: int | None,
                 count_only: bool = False, effects: bool = True):  # fmt: skip
        self.flow, self.frames, self.first = flow, frames, first
        self.stride, self.count_only, self.effects = stride, count_only, effects
        self.bases: dict[Frame, Op] = {}  # of nests: where the frame of the first round goes
        self.counted: dict[Op, tuple[Op, Op]] = {}  # loop of a nest → start, number of rounds
        self.values: dict[Op, Op] = {p: p for p in flow.fn.params}
        self.params = list(flow.fn.params)
        self.slots: list[Op] = []
        self.consts: dict[tuple[str, str], Op] = {}
        self.kept: dict[Op, Op] = {}  # value saved from inside an if → slot that carries it to the frame
        self.out: list[Op] = []
        self.top = self.slot(int64, "tape")
        for frame in frames.values():
            for v in frame.saved:
                if flow.home[v] is not frame.block and not isinstance(v.type, LocalArray):
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
        elif self.stride is None:
            start = self.emit("load", int64, offsets, wide, self.const(int64, 8), attrs=attrs)
        else:
            start = self.emit("mul", int64, wide, self.const(int64, self.stride))
        self.emit("set", void, self.top, start)
        self.block(self.flow.root)
        if self.count_only:
            total = self.emit("get", int64, self.top)
            self.emit("store", void, data, wide, self.const(int64, 8), total, attrs=attrs)
        used = [data, *([offsets] if self.stride is None and not self.count_only else [])]
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
        frame = self.frames.get(block)
        for tile in frame.saved if frame else ():  # those of inner blocks are wanted at the end of this one, too
            if tile.kind == "local" and self.flow.home[tile] is not block:
                self.values[tile] = self.emit("local", tile.type, attrs=tile.attrs, loc=tile.loc)
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
        if op.kind == "index" or op.kind == "local" and op in self.values:
            return  # made by its loop, or at the start of the frame that it is saved in
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

    def saves(self, body: Block) -> bool:
        """Whether rounds of a loop push frames: then one has to follow the other."""
        return any(f.saved and not f.rounds and b.within(body) for b, f in self.frames.items())

    def make_room(self, nest: Op) -> None:
        """Puts room for what all rounds of a nest save on the stack."""
        frames = [f for f in self.frames.values() if f.saved and f.rounds[:1] == (nest,)]
        if not frames:
            return
        loops = dict.fromkeys(loop for f in frames for loop in f.rounds)
        bounds = [(self.values[loop.operands[0]], self.values[loop.operands[1]]) for loop in loops]
        for loop, (start, _), n in zip(loops, bounds, rounds_of(bounds, self.emit), strict=True):
            self.counted[loop] = start, n
        base = self.emit("get", int64, self.top)
        for f in frames:
            self.bases[f] = base
            total = self.const(int64, f.size)
            for loop in f.rounds:
                total = self.emit("mul", int64, total, self.counted[loop][1])
            base = self.emit("add", int64, base, total)
        self.emit("set", void, self.top, base)

    def base(self, frame: Frame) -> Op:
        """Where the frame of this round goes."""
        if not frame.rounds:
            return self.emit("get", int64, self.top)
        indices = [self.values[blocks_of(loop)[0].ops[0]] for loop in frame.rounds]
        starts, counts = zip(*[self.counted[loop] for loop in frame.rounds], strict=True)
        number = number_of(indices, starts, counts, self.emit)
        shift = self.emit("mul", int64, number, self.const(int64, frame.size))
        return self.emit("add", int64, self.bases[frame], shift)

    def push(self, block: Block) -> None:
        """Writes the frame that ends here."""
        frame = self.frames.get(block)
        if frame is None or not frame.saved:
            return
        if frame.rounds and self.count_only:
            return
        base = self.base(frame)
        for v, offset in frame.saved.items() if not self.count_only else ():
            if isinstance(v.type, LocalArray):
                self.push_tile(self.values[v], v.type, base, offset)
                continue
            value = self.emit("get", v.type, self.kept[v]) if v in self.kept else self.values[v]
            attrs = {"ndim": 1, "offset": offset, "array": "arena", "layout": "aos"}
            self.emit("store", void, self.arena, base, self.const(int64, 1), value, attrs=attrs)
        if not frame.rounds:
            self.emit("set", void, self.top, self.emit("add", int64, base, self.const(int64, frame.size)))

    def push_tile(self, tile: Op, t: LocalArray, base: Op, offset: int) -> None:
        """Writes all elements of a tile, side by side."""
        bounds = tuple([self.const(int32, n) for n in (0, t.size, 1)])
        width = scalar_type(tile).size
        outer, self.out = self.out, []
        index = self.emit("index", int32)
        wide = self.emit("cast", int64, index)
        value = self.emit("local_load", t.dtype, tile, index)
        attrs = {"ndim": 2, "offset": offset, "array": "arena", "layout": "aos"}
        steps = (self.const(int64, 1), self.const(int64, width))
        self.emit("store", void, self.arena, base, wide, *steps, value, attrs=attrs)
        region, self.out = Region(self.out), outer
        self.out.append(Op("for", void, bounds, {"each": 0}, (region,), tile.loc))

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
        self.make_room(op)
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
        if "each" in op.attrs and not self.saves(body):
            attrs["each"] = op.attrs["each"]
        if op.operands:
            operands = tuple([self.values[v] for v in op.operands])
            self.out.append(Op("for", void, operands, attrs, (region,), op.loc))
        else:
            condition = Region([Op("condition", void, (self.const(bool_, True),))])
            self.out.append(Op("while", void, (), attrs, (condition, region), op.loc))
        for result, slot in zip(results_of(op), slots, strict=True):
            self.define(result, self.emit("get", result.type, slot))
