"""The way back through independent loops: several nests of independent loops, where rounds add to the same adjoints.

What is read in several rounds has its adjoint added to in all of them. Each such sum becomes a nest of its own, in
which the loops that say *where* is added are shared out, and the others run inside; the values are computed again:

    for i each:                          for j each: for i: w.adjoint[j] += x[i] · g[i, j]
        for j each:               →      for i each: for j: x.adjoint[i] += w[j] · g[i, j]
            y[i, j] = x[i] · w[j]        for i each: for j each: g[i, j] = 0

A sum into one place (the adjoint of a number that all rounds use) first gathers the terms of the innermost rounds in a
tile, whose upper half is then folded onto the lower one until one element is left. The order of additions depends on
the program alone, as on the way forth. What reads an adjoint goes before what changes it (Hascoët, Naumann & Pascual,
2005, call it the order of the adjoint's data dependences); where that has no order, the rounds follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.compiler.adjoint_sums import Sum, affine, apart, independent_loops, most_rounds, rounds_of
from engine.compiler.cooperate_memory import root_of
from engine.compiler.cooperate_nests import UNKNOWN, is_known_before
from engine.compiler.ir import Op, Region, scalar_type
from engine.compiler.slices import Slices
from engine.compiler.types import LocalArray, Type, int32, int64, void

WIDE = 64  # rounds that are worth to be shared out
STAGED = 1 << 15  # bytes for the terms of a sum

Clones = Callable[[Op, Op, bool], None]  # op, its copy, whether rounds that differ may touch the same memory there


def split(nest: Op, sums: Sequence[Sum], written: set[Op], note: Clones) -> list[Op]:
    """The nests that take the place of `nest`, the way back through an independent loop.

    `written`: the loads on the way forth of what the same round writes, which no other round reads. Where the rounds
    cannot be told apart it is the loop itself, as a plain one.
    """
    made = _Split(nest, sums, written, note).run()
    if made is not None:
        return made
    for op in (nest, *nest.regions[0].walk()):
        if "each" in op.attrs:
            op.attrs = {k: v for k, v in op.attrs.items() if k != "each"}
    return [nest]


@dataclass(eq=False)
class _Part:
    """Sums into one array (or value) in one loop; without a target: all other effects."""

    target: Op | None
    path: tuple[Op, ...]
    sums: list[Sum]
    ends: list[Op]  # its effects
    needed: set[Op]
    reads: set[Op]  # loads whose memory another part may change


class _Split:
    def __init__(self, nest: Op, sums: Sequence[Sum], written: set[Op], note: Clones):
        self.nest, self.written, self.note = nest, written, note
        self.ops = Slices(nest.regions[0].ops)
        self.place, self.inside = self.ops.place, set(self.ops.place)
        self.sums = {s.end: s for s in sums if s.end in self.inside and s.target not in self.inside}
        self.depth = max(len(self.shared(op)) for op in self.inside)
        self.effects = [op for op in self.place if self.is_effect(op)]

    # what is there

    def parent(self, op: Op) -> Op:
        """The op that one stands in."""
        return self.ops.parents[op] or self.nest

    def around(self, op: Op) -> list[Op]:
        """The ops around one, the nest first."""
        found = []
        while op is not self.nest:
            op = self.parent(op)
            found.append(op)
        return found[::-1]

    def path(self, op: Op) -> tuple[Op, ...]:
        return tuple([x for x in self.around(op) if x.kind == "for"])

    def shared(self, op: Op) -> list[Op]:
        return [loop for loop in self.path(op) if "each" in loop.attrs]

    def is_effect(self, op: Op) -> bool:
        if op.kind == "set":
            return op in self.sums
        return op.kind in ("store", "atomic") or op.kind == "local_store" and op.operands[0] not in self.inside

    def memory(self, op: Op) -> Op | None:
        """What an op reads or writes beside its round's own: an array, a value's slot, or `nest` for all that the
        launch has in memory (any two arrays may be the same)."""
        if op.kind in ("store", "atomic"):
            return self.nest
        if op.kind == "load":
            return self.nest if root_of(op.operands[0]) in self.stored else None
        if op.kind in ("local_load", "local_store"):
            return op.operands[0] if op.operands[0] not in self.inside else None
        return op.operands[0] if op in self.sums else None

    def is_free(self, target: Op, sums: Sequence[Sum]) -> bool:
        """Whether rounds that differ add to different elements."""
        if not isinstance(target.type, LocalArray) or any(len(self.shared(s.end)) < self.depth for s in sums):
            return False
        rest = [s for s in sums if s.read not in self.written]
        paths = {self.path(s.end) for s in rest}
        indices = [affine(s.index, self.inside) for s in rest if s.index is not None]
        if len(paths) != 1 or None in indices:
            return not rest
        (path,) = paths
        return apart([i for i in indices if i is not None], self.shared(rest[0].end), path)

    # the parts

    def run(self) -> list[Op] | None:
        kinds = {op.kind for op in self.inside}
        self.stored = {root_of(op.operands[0]) for op in self.effects if op.kind in ("store", "atomic")}
        if kinds & {"while", "print", "fault", "custom", "local_pointer"} or any(
                root is None or root.kind != "param" for root in self.stored):  # fmt: skip
            return None
        parts = self.parts()
        order = self.ordered(parts) if parts is not None else None
        if order is None:
            return None
        out: list[Op] = []
        for part in order:
            _Writer(self, part, out).write()
        return out

    def parts(self) -> list[_Part] | None:
        targets: dict[Op, list[Sum]] = {}
        for s in self.sums.values():
            targets.setdefault(s.target, []).append(s)
        summed = [target for target, sums in targets.items() if not self.is_free(target, sums)]
        groups: dict[tuple[Op, tuple[Op, ...]], list[Sum]] = {}
        for target in summed:
            for s in targets[target]:
                groups.setdefault((target, self.path(s.end)), []).append(s)
        rest = [op for op in self.effects if op not in self.sums or self.sums[op].target not in summed]
        if any(self.memory(op) in summed for op in rest):
            return None
        parts = [
            self.part(target, path, sums, [v for s in sums for v in (s.part, *([s.index] if s.index else []))])
            for (target, path), sums in groups.items()
        ]
        return [*parts, self.part(None, (), [], rest)] if rest else parts

    def part(self, target: Op | None, path: tuple[Op, ...], sums: list[Sum], wanted: list[Op]) -> _Part:
        ends = [s.end for s in sums] if target is not None else wanted
        needed = self.ops.needed([*wanted, *(self.parent(op) for op in ends)], self.is_effect)
        own = {self.sums[op].before for op in ends if op in self.sums}
        reads = {op for op in needed if op.kind in ("load", "local_load") and op not in own and self.memory(op)}
        return _Part(target, path, sums, ends, needed, reads)

    def ordered(self, parts: list[_Part]) -> list[_Part] | None:
        """The parts with those that read an adjoint before those that change it; None where they cannot be."""
        changes = [{self.memory(op) for op in part.ends} for part in parts]
        for k, part in enumerate(parts):
            others = set().union(*(c for n, c in enumerate(changes) if n != k or part.target is not None))
            if any(self.memory(op) in others and not self.reads_first(op) for op in part.reads):
                return None
        left, order = list(range(len(parts))), []
        while left:
            free = [k for k in left if not any(
                n != k and any(self.memory(op) in changes[k] for op in parts[n].reads) for n in left)]  # fmt: skip
            if not free:
                return None
            order.append(parts[free[0]])
            left.remove(free[0])
        return order

    def reads_first(self, load: Op) -> bool:
        """Whether a load comes before everything in its round that changes such memory."""
        changes = [op for op in self.effects if self.memory(op) is self.memory(load)]
        loops = [loop for loop in self.path(load) if "each" not in loop.attrs]
        return all(self.place[op] > self.place[load] and not set(loops) & set(self.path(op)) for op in changes)


class _Writer:
    """Writes one part as a nest."""

    def __init__(self, split: _Split, part: _Part, out: list[Op]):
        self.split, self.part, self.out = split, part, out
        self.values: dict[Op, Op] = {}
        self.sums = {s.end: s for s in part.sums}
        self.ends = set(part.ends)
        self.staged: Op | None = None  # the tile of the terms, and where in it that of the current round goes
        self.round: Op = split.nest
        self.loc = split.nest.loc

    def write(self) -> None:
        nest, part = self.split.nest, self.part
        if part.target is None:
            self.copy(nest, keep=True)
            return
        indices = [affine(s.index, self.split.inside) for s in part.sums if s.index is not None]
        if not self.can_be_turned():
            self.copy(nest, keep=False)
        elif loops := independent_loops(indices, part.path) if indices else []:
            self.turned(loops)
        elif not self.gather():
            self.copy(nest, keep=False)

    def can_be_turned(self) -> bool:
        """Whether the loops may run in any order: each directly in the other, nothing carried from round to round."""
        split, path = self.split, self.part.path
        if any(split.parent(b) is not a for a, b in zip(path, path[1:], strict=False)):
            return False
        if any(not is_known_before(v, split.inside) for loop in path for v in loop.operands) or not all(
                _counts_on(loop) for loop in path):  # fmt: skip
            return False
        homes: dict[Op, set[int]] = {}
        for op in self.part.needed:
            place = op if op.kind == "local" else op.operands[0] if op.operands else op
            if op.kind in ("get", "set", "local") or op.kind.startswith("local_") and place in split.inside:
                homes.setdefault(place, set()).add(sum(loop in path for loop in split.path(op)))
        return all(len(depths) == 1 for depths in homes.values())

    # emission

    def emit(self, kind: str, t: Type, *operands: Op, **attrs: object) -> Op:
        self.out.append(op := Op(kind, t, operands, attrs, (), self.loc))
        return op

    def const(self, value: int, t: Type = int32) -> Op:
        return self.emit("const", t, value=value)

    def value(self, v: Op) -> Op:
        return self.values.get(v, v)

    def before(self, v: Op) -> Op:
        """A value that is the same in all rounds, computed in front of the nest."""
        if v not in self.split.inside or v in self.values:
            return self.value(v)
        made = Op(v.kind, v.type, tuple([self.before(x) for x in v.operands]), v.attrs, (), v.loc)
        self.out.append(made)
        self.values[v] = made
        return made

    def copy(self, op: Op, keep: bool) -> None:
        """A copy of an op with what is needed in it; `keep`: with its loops shared out as they are."""
        if op in self.sums:
            self.add(self.sums[op])
            return
        if op is not self.split.nest and op not in self.part.needed and op not in self.ends and op.kind != "index":
            return
        attrs = op.attrs if keep else {k: v for k, v in op.attrs.items() if k != "each"}
        new = self.values[op] = Op(op.kind, op.type, tuple([self.value(v) for v in op.operands]), attrs, (), op.loc)
        regions = []
        for region in op.regions:
            outer, self.out = self.out, []
            for inner in region.ops:
                self.copy(inner, keep)
            regions.append(Region(self.out))
            self.out = outer
        new.regions = tuple(regions)
        self.out.append(new)
        if op.kind in ("load", "store", "atomic"):
            self.split.note(op, new, keep and not self.is_apart(op))

    def is_apart(self, op: Op) -> bool:
        """Whether rounds that differ touch different elements of an array of the launch, one dimension by itself."""
        split = self.split
        root = root_of(op.operands[0])
        same = [x for x in split.effects if x.kind in ("store", "atomic") and root_of(x.operands[0]) is root]
        n = op.attrs["ndim"]
        places = {x.operands[: 1 + 2 * n] for x in same}
        if len(places) > 1 or root is not op.operands[0]:
            return False
        wanted = {loop.regions[0].ops[0] for loop in split.shared(op) if most_rounds(loop) > 1}
        for v in op.operands[1 : 1 + n]:
            index = affine(v, split.inside)
            if index is not None and len(index.loops) == 1:
                wanted -= index.loops.keys()
        return not wanted

    def turned(self, loops: Sequence[Op]) -> None:
        """The nest with some of its loops shared out, and the others within them."""
        rest = [loop for loop in self.part.path if loop not in loops]
        bounds = {loop: tuple([self.before(v) for v in loop.operands]) for loop in (*loops, *rest)}
        ends = {loop: self.emit("cast", int32, self.emit("add", int64, bounds[loop][0], self.const(1, int64)))
                for loop in loops if loop.operands[0].type is int64}  # fmt: skip
        zero, one = self.const(0), self.const(1)
        bodies: list[tuple[Op, list[Op]]] = []
        digits = []
        for depth, loop in enumerate((*loops, *rest)):
            outer, self.out = self.out, []
            old = loop.regions[0].ops[0]
            if loop in ends:  # it counted down
                op = Op("for", void, (zero, ends[loop], one), {"each": depth}, (), loop.loc)
                digits.append(self.emit("index", int32))
                self.values[old] = self.emit("cast", int64, digits[-1])
            else:
                op = Op("for", void, bounds[loop], {"each": depth} if loop in loops else {}, (), loop.loc)
                self.values[old] = index = self.emit("index", old.type)
                digits.append(self.emit("sub", old.type, index, bounds[loop][0]))
            bodies.append((op, outer))
        if self.staged is not None:
            self.round = digits[0]
            for loop, digit in zip(loops[1:], digits[1:], strict=False):
                row = self.emit("mul", int32, self.round, self.const(most_rounds(loop)))
                self.round = self.emit("add", int32, row, digit)
        self.inline(self.part.path[0], 0)
        for op, outer in reversed(bodies):
            op.regions = (Region(self.out),)
            self.out = outer
            self.out.append(op)

    def inline(self, loop: Op, depth: int) -> None:
        """The body of a loop of the path, with the next one's in its place."""
        path = self.part.path
        for op in loop.regions[0].ops[1:]:
            if depth + 1 < len(path) and op is path[depth + 1]:
                self.inline(op, depth + 1)
            else:
                self.copy(op, keep=False)

    def add(self, s: Sum) -> None:
        """adjoint += part"""
        t = s.part.type
        if self.staged is not None:
            before = self.emit("local_load", t, self.staged, self.round)
            self.emit("local_store", void, self.staged, self.round, self.emit("add", t, before, self.value(s.part)))
        elif s.index is None:
            before = self.emit("get", t, s.target)
            self.emit("set", void, s.target, self.emit("add", t, before, self.value(s.part)))
        else:
            index = self.value(s.index)
            before = self.emit("local_load", t, s.target, index)
            self.emit("local_store", void, s.target, index, self.emit("add", t, before, self.value(s.part)))

    # sums into one place

    def gather(self) -> bool:
        """The terms in a tile, then their sum; False where it is not one place, or not worth it."""
        first, *others = self.part.sums
        if any(s.index is not first.index for s in others) or (
                first.index is not None and not is_known_before(first.index, self.split.inside)):  # fmt: skip
            return False
        t = first.part.type
        loops: list[Op] = []
        for loop in reversed(self.part.path):
            loops.insert(0, loop)
            if rounds_of(loops) >= WIDE:
                break
        count = rounds_of(loops)
        if not WIDE <= count < UNKNOWN or count * scalar_type(first.part).size > STAGED:
            return False
        self.staged = self.emit("local", LocalArray(t, (count,)), tile=True)
        self.turned(loops)
        n = count
        while n > 1:
            half = (n + 1) // 2
            self.fold(t, n - half, half)
            n = half
        index = self.const(0)
        total = self.emit("local_load", t, self.staged, index)
        self.staged = None
        if first.index is not None:
            self.values[first.index] = self.before(first.index)
        self.values[first.part] = total
        self.add(first)
        return True

    def fold(self, t: Type, rounds: int, half: int) -> None:
        """The elements from `half` on are added to the first ones."""
        tile = self.staged
        assert tile is not None
        bounds = (self.const(0), self.const(rounds), self.const(1))
        distance = self.const(half)
        outer, self.out = self.out, []
        index = self.emit("index", int32)
        low = self.emit("local_load", t, tile, index)
        high = self.emit("local_load", t, tile, self.emit("add", int32, index, distance))
        self.emit("local_store", void, tile, index, self.emit("add", t, low, high))
        region, self.out = Region(self.out), outer
        self.out.append(Op("for", void, bounds, {"each": 0}, (region,), self.loc))


def _counts_on(loop: Op) -> bool:
    """Whether a loop goes up by one, or down by one to 0."""
    start, stop, step = loop.operands
    if step.kind != "const" or loop.attrs.get("exit") is not None:
        return False
    down = step.attrs["value"] == -1 and stop.kind == "const" and stop.attrs["value"] == -1
    return start.type is int32 and step.attrs["value"] == 1 or start.type is int64 and down
