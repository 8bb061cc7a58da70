"""Independent loops of tiles shared by the threads of a block: which loops of a nest, and what a thread runs of them.

    for i each:              k = thread
        x = a[i]             while k < rows · columns:
        for j each:     →        i, j = k // columns, k % columns
            b[i, j] = x          x = a[i]
                                 b[i, j] = x
                                 k = k + threads

A nest need not be perfect: what stands around the inner loops is repeated for each of their rounds, so it must not
write to memory. The inner loops of one depth have to have the same bounds; `each` (see `library/intrinsics`) promises
that round j of one of them needs nothing but round j of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.compiler.ir import Op, Region, local_type
from engine.compiler.ops import ELEMENTWISE
from engine.compiler.types import Scalar, Type, bool_, int32, uint32, void

EFFECTS = frozenset({"store", "atomic", "print", "fault"})
UNKNOWN = 1 << 30
_COMPUTED = frozenset({*ELEMENTWISE, "cast", "select"})  # what may be computed before the nest instead of within


@dataclass(eq=False)
class Level:
    """The loops of one depth."""

    loops: list[Op]
    start: Op
    stop: Op


def is_shared(op: Op) -> bool:
    """Whether an op begins a nest whose rounds the threads of a block share."""
    if op.kind != "for" or op.attrs.get("each") != 0 or op.attrs.get("exit") is not None:
        return False
    step = op.operands[2]
    return op.operands[0].type is int32 and step.kind == "const" and step.attrs["value"] == 1


def levels_of(nest: Op) -> list[Level]:
    """The depths of a nest that are shared, the outermost first."""
    inside = set(nest.regions[0].walk())
    levels = [Level([nest], *nest.operands[:2])]
    while True:
        inner = [op for loop in levels[-1].loops for op in _next(loop.regions[0], len(levels))]
        if not inner or any(not _fits(op, inner[0], inside) for op in inner):
            return levels
        if any(_writes(loop.regions[0], inner) for loop in levels[-1].loops):
            return levels
        levels.append(Level(inner, *inner[0].operands[:2]))


def _next(region: Region, depth: int) -> Iterator[Op]:
    """The independent loops of this depth, but not those of nests within."""
    for op in region.ops:
        if "each" in op.attrs:
            if op.attrs["each"] == depth:
                yield op
        else:
            for inner in op.regions:
                yield from _next(inner, depth)


def _fits(op: Op, first: Op, inside: set[Op]) -> bool:
    start, stop, step = op.operands
    by_one = step.kind == "const" and step.attrs["value"] == 1 and op.attrs.get("exit") is None
    return by_one and op.operands == first.operands and all(is_known_before(v, inside) for v in (start, stop))


def is_known_before(v: Op, inside: set[Op]) -> bool:
    """Whether a value that is used within a nest can be computed before it."""
    return v not in inside or v.kind in _COMPUTED and all(is_known_before(x, inside) for x in v.operands)


def _writes(region: Region, leaving_out: Sequence[Op]) -> bool:
    """Whether anything but these loops writes to memory that outlives a round."""
    own = {op for op in region.walk() if op.kind == "local"}

    def writes(op: Op) -> bool:
        if op in leaving_out:
            return False
        if op.kind in EFFECTS or op.kind == "local_store" and op.operands[0] not in own:
            return True
        return any(writes(x) for inner in op.regions for x in inner.ops)

    return any(map(writes, region.ops))


def at_most(v: Op) -> int | None:
    """What an integer is at most, where that can be seen."""
    if v.kind == "const":
        return int(v.attrs["value"])
    if v.kind == "min":
        return min((n for n in map(at_most, v.operands) if n is not None), default=None)
    if v.kind == "max":
        known = [at_most(x) for x in v.operands]
        return None if None in known else max(n for n in known if n is not None)
    if v.kind == "sub" and is_positive(v.operands[1]):
        return at_most(v.operands[0])
    return None


def is_positive(v: Op) -> bool:
    """Whether an integer is surely 0 or more."""
    if v.kind == "const":
        return bool(v.attrs["value"] >= 0)
    return v.kind == "max" and any(map(is_positive, v.operands))


class NestWriter:
    """Writes one nest as the loop of a thread. `loop` is what it made, `digits` the indices of the levels in it."""

    def __init__(self, nest: Op, values: dict[Op, Op], thread: Op, threads: Op):
        self.levels = levels_of(nest)
        self.inside = set(nest.regions[0].walk())
        self.values = values  # old op → new op
        self.thread, self.threads = thread, threads
        self.nest, self.loc = nest, nest.loc
        self.out: list[Op] = []
        self.loops = {loop: depth for depth, level in enumerate(self.levels) for loop in level.loops}
        self.digits: list[Op] = []
        self.places: list[Op] = []  # what the loop variables are: start + digit
        self.counts: list[Op] = []

    def write(self) -> list[Op]:
        """The ops that take the place of the nest; the last one is the loop."""
        bounds = [(self.before(level.start), self.before(level.stop)) for level in self.levels]
        self.counts = [self.count(start, stop) for start, stop in bounds]
        total = self.counts[0]
        for n in self.counts[1:]:
            total = self.product(total, n)
        turn = self.variable("round", self.thread)
        steps = []
        if any(n.kind != "const" for n in self.counts[1:]):  # dividing by it is slow: digits are counted on
            slots = [self.variable("digit", digit) for digit in self.split(self.thread)]
            steps = list(zip(slots, self.split(self.threads), strict=True))
        head, self.out = self.out, []
        self.emit("condition", void, self.emit("lt", bool_, self.emit("get", int32, turn), total))
        condition, self.out = Region(self.out), []
        number = self.emit("get", int32, turn)
        self.digits = [self.emit("get", int32, slot) for slot, _ in steps] or self.split(number)
        for digit, (start, _) in zip(self.digits, bounds, strict=True):
            is_zero = start.kind == "const" and start.attrs["value"] == 0
            self.places.append(digit if is_zero else self.emit("add", int32, start, digit))
        self.rounds(self.nest, 0)
        self.emit("set", void, turn, self.emit("add", int32, number, self.threads))
        self.count_on(steps)
        body, self.out = Region(self.out), head
        self.out.append(Op("while", void, (), None, (condition, body), self.loc))
        return self.out

    @property
    def most_rounds(self) -> int:
        """How many rounds there may be: no more than elements of an array that each of them writes to."""
        rounds = math.prod(UNKNOWN if n is None else n for n in map(at_most, self.counts))
        written = {op.operands[0] for op in self.inside if op.kind == "local_store"} - self.inside
        return min([rounds, *(local_type(array).size for array in written)])

    # numbers

    def emit(self, kind: str, t: Type, *operands: Op, **attrs: object) -> Op:
        self.out.append(op := Op(kind, t, operands, attrs, (), self.loc))
        return op

    def const(self, value: int, t: Scalar = int32) -> Op:
        return self.emit("const", t, value=value)

    def before(self, v: Op) -> Op:
        """A bound, computed before the nest."""
        if v not in self.inside:
            return self.values[v]
        if v not in self.values:
            operands = tuple([self.before(x) for x in v.operands])
            self.out.append(made := Op(v.kind, v.type, operands, v.attrs, (), v.loc))
            return made
        return self.values[v]

    def count(self, start: Op, stop: Op) -> Op:
        if start.kind == stop.kind == "const":
            return self.const(max(stop.attrs["value"] - start.attrs["value"], 0))
        return self.emit("max", int32, self.emit("sub", int32, stop, start), self.const(0))

    def product(self, a: Op, b: Op) -> Op:
        if a.kind == b.kind == "const":
            return self.const(a.attrs["value"] * b.attrs["value"])
        return self.emit("mul", int32, a, b)

    def variable(self, name: str, value: Op) -> Op:
        slot = self.emit("slot", int32, name=name)
        self.emit("set", void, slot, value)
        return slot

    def count_on(self, steps: Sequence[tuple[Op, Op]]) -> None:
        """Adds to the digits, which lie in slots, those of the number of threads."""
        carry: Op | None = None
        for depth in range(len(steps) - 1, -1, -1):
            slot, step = steps[depth]
            digit = self.emit("add", int32, self.digits[depth], step)
            if carry is not None:
                digit = self.emit("add", int32, digit, carry)
            if depth:
                less = self.emit("sub", int32, digit, self.counts[depth])
                over = self.emit("ge", bool_, less, self.const(0))
                digit = self.emit("select", int32, over, less, digit)
                carry = self.emit("cast", int32, over)
            self.emit("set", void, slot, digit)

    def split(self, number: Op) -> list[Op]:
        """The digits of a round's number, the last level's fastest."""
        if len(self.counts) == 1:
            return [number]
        digits = []
        rest = self.emit("cast", uint32, number)
        for n in reversed(self.counts[1:]):
            if n.kind == "const" and n.attrs["value"] <= 1:
                digits.append(self.const(0))
                continue
            by = self.emit("cast", uint32, n)
            digits.append(self.emit("cast", int32, self.emit("mod", uint32, rest, by)))
            rest = self.emit("div", uint32, rest, by)
        digits.append(self.emit("cast", int32, rest))
        return digits[::-1]

    # the body

    def rounds(self, loop: Op, depth: int) -> None:
        """One round of a loop of the nest."""
        ops = loop.regions[0].ops
        self.values[ops[0]] = self.places[depth]
        self.ops(ops[1:])

    def ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if op in self.loops:
                self.rounds(op, self.loops[op])
                continue
            attrs = op.attrs
            if attrs.get("exit") is not None:
                attrs = {**attrs, "exit": self.values[attrs["exit"]]}
            operands = tuple([self.values[v] for v in op.operands])
            new = self.values[op] = Op(op.kind, op.type, operands, attrs, (), op.loc)
            regions = []
            for region in op.regions:
                outer, self.out = self.out, []
                self.ops(region.ops)
                regions.append(Region(self.out))
                self.out = outer
            new.regions = tuple(regions)
            self.out.append(new)
