"""The way back through loops: rounds in the reverse order, or, of independent loops, again as independent ones.

A nest of independent loops stays one where its rounds leave no frames on the stack: they save nothing, or their frames
have places by the number of the round (`adjoint_frames`). `adjoint_nests` then splits it, so that no two rounds that
are run at a time add to one element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.compiler.adjoint_flow import Block, blocks_of, results_of
from engine.compiler.adjoint_frames import Frame, number_of, path_to, rounds_of
from engine.compiler.adjoint_kept import written_by_reader
from engine.compiler.adjoint_nests import split
from engine.compiler.adjoint_sums import Sum
from engine.compiler.ir import Op, Region
from engine.compiler.types import Scalar, Type, bool_, int32, int64, void

if TYPE_CHECKING:
    from engine.compiler.adjoint import Reverse


@dataclass(eq=False)
class Level:
    """One independent loop of the nest: the op on the way forth, its body, and the loop on the way back with its
    variable, in both forms: independent, or counting `counter` down from `last`."""

    op: Op
    body: Block
    loop: Op
    depth: int
    index: Op
    last: Op


class Loops:
    """Undoes the loops of a function."""

    def __init__(self, reverse: Reverse):
        self.reverse = reverse
        self.nest: Block | None = None  # the body of the outermost independent loop around the current op
        self.depth = 0  # how many of them there are around it
        self.levels: list[Level] = []  # those of the nest that are done
        self.sums: list[Sum] = []  # what the rounds of the nest add up
        self.bases: dict[Frame, list[Op]] = {}  # how the place of a frame follows from the round
        self.contended: set[Op] = set()  # accesses to gradients where threads of a block may meet

    def undo(self, op: Op) -> None:
        r = self.reverse
        (body,) = blocks_of(op)
        if not r.is_live(body):
            return
        results = results_of(op)
        carried = [k for k, phi in enumerate(body.params) if phi in r.activity or results[k] in r.activity]
        slots = {k: r.new_slot(body.params[k].type, "carried") for k in carried}
        for k in carried:
            g = r.adjoint(results[k]) if results[k] in r.activity else None
            r.emit("set", void, slots[k], g if g is not None else r.zero(slots[k].type))
        independent = not carried and body.stop is None and op.attrs.get("each") == self.depth
        independent = independent and op.operands[0].type is int32
        last = self.last(op, body)
        r.frames.new(body)
        index = Op("index", int32 if independent else int64)
        if independent:
            r.known[body.ops[0]] = index
        else:
            self.bind_index(op, body, index)
        self.rounds(body, slots, independent)
        r.loc = op.loc
        loop = Op("for", void, (), None, (), op.loc)
        r.rev[r.block].append(loop)
        if independent:
            self.levels.append(Level(op, body, loop, self.depth, index, last))
            if self.nest is None:
                self.close()
        else:
            self.in_order(loop, body, [index], last)
        for k in carried:
            r.add(body.inits[k], r.emit("get", slots[k].type, slots[k]))

    def rounds(self, body: Block, slots: dict[int, Op], independent: bool) -> None:
        """Undoes the body; `slots`: of the adjoints that go from round to round."""
        r, outer, nest = self.reverse, self.reverse.block, self.nest
        if independent and nest is None:
            self.nest = body
        self.depth += independent
        r.block = body
        incoming = [(k, r.emit("get", slot.type, slot)) for k, slot in slots.items()]
        for k, g in incoming:
            r.add(body.yields[k], g)
        r.reverse(body)
        for k, slot in slots.items():
            phi = body.params[k]
            before = r.adjoint(phi) if phi in r.activity else None
            r.emit("set", void, slot, before if before is not None else r.zero(phi.type))
        self.depth -= independent
        r.block, self.nest = outer, nest

    def in_order(self, loop: Op, body: Block, head: list[Op], last: Op) -> None:
        """Makes the loop one that counts down."""
        minus = self.reverse.const(int64, -1)
        loop.operands, loop.attrs = (last, minus, minus), {}
        loop.regions = (Region([*head, *self.reverse.code(body)]),)

    def last(self, op: Op, body: Block) -> Op:
        """How often the loop ran, less one, int64."""
        r = self.reverse
        if body.count is None and all(v.kind == "const" for v in op.operands):
            start, stop, step = (v.attrs["value"] for v in op.operands)
            return r.const(int64, len(range(start, stop, step)) - 1 if step else -1)
        return r.emit("add", int64, self.trips(op, body), r.const(int64, -1))

    def trips(self, op: Op, body: Block) -> Op:
        """How often the loop ran, int64."""
        r = self.reverse
        if body.count is not None:
            return r.emit("cast", int64, r.value(body.count))
        start, stop, step = (r.emit("cast", int64, r.value(v)) if v.type is not int64 else r.value(v)
                             for v in op.operands)  # fmt: skip
        zero, one = r.const(int64, 0), r.const(int64, 1)
        up = r.emit("gt", bool_, step, zero)
        span = r.emit("select", int64, up, r.emit("sub", int64, stop, start), r.emit("sub", int64, start, stop))
        width = r.emit("abs", int64, step)
        rounded = r.emit("sub", int64, r.emit("add", int64, span, width), one)
        whole = r.emit("div", int64, rounded, width)  # by a step of 0: no trips, as x / 0 = 0
        return r.emit("select", int64, r.emit("gt", bool_, span, zero), whole, zero)

    def bind_index(self, op: Op, body: Block, counter: Op) -> None:
        """The loop variable of iteration `counter`."""
        r = self.reverse
        if not op.operands:
            return
        index = body.ops[0]
        t: Scalar = index.type  # type: ignore[assignment]
        start, _, step = (r.value(v) for v in op.operands)
        k = counter if t is int64 else Op("cast", t, (counter,))
        scaled = Op("mul", t, (k, step))
        r.known[index] = Op("add", t, (start, scaled))
        r.heads[body] += [*([k] if k is not counter else []), scaled, r.known[index]]

    # independent loops

    def close(self) -> None:
        """The outermost loop of a nest is done: all of them get their form."""
        r, levels = self.reverse, self.levels
        self.levels = []
        nest = levels[-1]
        frames = r.frames.within(nest.body)
        if not self.have_places(frames, levels):
            for level in levels:
                k = Op("cast", int32, (counter := Op("index", int64),))
                level.index.kind, level.index.operands = "add", (r.value(level.op.operands[0]), k)
                self.in_order(level.loop, level.body, [counter, k, level.index], level.last)
            self.sums.clear()
            return
        loop = r.rev[r.block].pop()
        if frames:
            self.make_room(frames, {level.op: level for level in levels})
        for level in levels:
            level.loop.operands = tuple([r.value(v) for v in level.op.operands])
            level.loop.attrs = {"each": level.depth}
            level.loop.regions = (Region([level.index, *r.code(level.body)]),)
        r.rev[r.block] += split(loop, self.sums, written_by_reader(r.flow, nest.body), self.copied)
        self.sums.clear()

    def have_places(self, frames: list[Frame], levels: list[Level]) -> bool:
        """Whether what rounds save can lie where the number of the round says; fills in `rounds` of the frames."""
        home, nest = self.reverse.flow.home, levels[-1].body
        fitting = {level.op for level in levels
                   if all(v.kind == "const" or not home[v].within(nest) for v in level.op.operands)}  # fmt: skip
        paths = [tuple(path_to(f.block, nest)) for f in frames]
        if not all(fitting.issuperset(path) for path in paths):
            return False
        for f, path in zip(frames, paths, strict=True):
            f.rounds = path
        return True

    def make_room(self, frames: list[Frame], levels: dict[Op, Level]) -> None:
        """Takes the frames of all rounds from the stack."""
        r = self.reverse
        loops = dict.fromkeys(loop for f in frames for loop in f.rounds)
        bounds = [(r.value(loop.operands[0]), r.value(loop.operands[1])) for loop in loops]
        counts = dict(zip(loops, rounds_of(bounds, r.emit), strict=True))
        starts = dict(zip(loops, (start for start, _ in bounds), strict=True))
        top = r.emit("get", int64, r.top())
        sizes = []
        for f in frames:
            total = f.size_op
            for loop in f.rounds:
                total = r.emit("mul", int64, total, counts[loop])
            top = r.emit("sub", int64, top, total)
            sizes.append(total)
        r.emit("set", void, r.top(), top)
        for f, size in zip(frames, sizes, strict=True):
            ops = self.bases[f] = []

            def note(kind: str, t: Type, *operands: Op, into: list[Op] = ops) -> Op:
                into.append(op := Op(kind, t, operands))
                return op

            indices = [levels[loop].index for loop in f.rounds]
            number = number_of(indices, [starts[x] for x in f.rounds], [counts[x] for x in f.rounds], note)
            f.base.kind, f.base.operands = "add", (top, note("mul", int64, number, f.size_op))
            ops.append(f.base)
            top = r.emit("add", int64, top, size)

    def copied(self, op: Op, copy: Op, contended: bool) -> None:
        """An access was copied; `contended`: threads of a block may meet there."""
        r = self.reverse
        if op in r.accesses:
            r.accesses.append(copy)
            if contended:
                self.contended.add(copy)
        if op in r.written_by_users:
            r.written_by_users.add(copy)
