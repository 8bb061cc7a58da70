"""The memory of a block whose threads work on tiles together: where each array lies in it, and where threads wait.

An array needs its place from the first to the last op that touches it; arrays that are not needed at the same time
share one. Threads wait (`barrier`) before what touches memory that another thread may have touched since they last
waited, unless both only read. Accesses of one thread to one element are recognised by the way in which the index
follows from the number of the loop's round: a chain of elementwise operations needs no barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from engine.compiler.cooperate_nests import NestWriter
from engine.compiler.emit_ptx import padded
from engine.compiler.ir import Op, Region, scalar_type
from engine.compiler.ops import ELEMENTWISE
from engine.compiler.types import Pointer, void

ONE, ALL = "one", "all"  # who touches memory outside of shared loops: the one thread, or every thread the same
Nests = dict[Op, NestWriter]


def root_of(p: Op) -> Op | None:
    """What a pointer points into: a parameter, a local array, or None where that is not known."""
    while p.kind == "address":
        p = p.operands[0]
    if p.kind == "local_pointer":
        return p.operands[0]
    return p if p.kind == "param" else None


# --- places ---------------------------------------------------------------------------------------------------------


@dataclass
class _Life:
    first: int
    last: int
    loops: tuple[Op, ...]  # around the array itself


class _Lives:
    """When the arrays of a block are needed, as numbers of ops; what one thread does, or a shared loop, is one op."""

    def __init__(self, alone: set[Op], nests: Nests):
        self.alone, self.nests = alone, nests
        self.time = 0
        self.found: dict[Op, _Life] = {}
        self.ends: list[tuple[tuple[Op, ...], Op]] = []  # loop, array that is needed until it is over

    def region(self, region: Region, loops: tuple[Op, ...]) -> None:
        for op in region.ops:
            self.time += 1
            if op.kind == "local" and op.attrs.get("shared"):
                self.found[op] = _Life(self.time, self.time, loops)
            whole = op in self.alone or op in self.nests
            for inner in (op, *(x for r in op.regions for x in r.walk())) if whole else (op,):
                for v in inner.operands:
                    self.touch(v, loops)
            if op.regions and not whole:
                inside = (*loops, op) if op.kind != "if" else loops
                for below in op.regions:
                    self.region(below, inside)
                self.time += 1
                if op.kind != "if":
                    self.leave(inside)

    def touch(self, array: Op, loops: tuple[Op, ...]) -> None:
        life = self.found.get(array)
        if life is None:
            return
        life.last = self.time
        if len(loops) > len(life.loops):
            self.ends.append((loops[: len(life.loops) + 1], array))

    def leave(self, loops: tuple[Op, ...]) -> None:
        """What is touched in a loop and was there before it is needed until its last round is over."""
        for over, array in self.ends:
            if over == loops:
                self.found[array].last = self.time


def pack_memory(body: Region, alone: set[Op], nests: Nests) -> int:
    """Gives each shared array its place (attrs at); the bytes of all together."""
    lives = _Lives(alone, nests)
    lives.region(body, ())
    for array, life in lives.found.items():
        if array.attrs.get("exposed"):
            life.last = lives.time
    placed: list[tuple[Op, int]] = []
    total = 0
    for array, life in sorted(lives.found.items(), key=lambda item: item[1].first):
        at = 0
        living = [other for other, lives_until in placed if lives_until >= life.first]
        for other in sorted(living, key=_place):
            if at + padded(array) <= other.attrs["at"]:
                break
            at = other.attrs["at"] + padded(other)
        array.attrs = {**array.attrs, "at": at}
        placed.append((array, life.last))
        total = max(total, at + padded(array))
    return total


def _place(array: Op) -> int:
    at: int = array.attrs["at"]
    return at


# --- barriers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """A read or write of memory. `where`: an array of the block, a pointer parameter, or None: it may be anything."""

    where: Op | None
    writes: bool
    who: Any  # ONE, ALL, or in a shared loop how the element follows from the round; None: any thread any element


def add_barriers(body: Region, alone: set[Op], nests: Nests, unchanged: set[Op]) -> None:
    """Puts barriers where threads have to wait, in place."""
    barriers = _Barriers(alone, nests, unchanged)
    barriers.region(body, {})
    _insert(body, barriers.before)


def _insert(region: Region, before: set[Op]) -> None:
    out = []
    for op in region.ops:
        if op in before:
            out.append(Op("barrier", void, (), {"scope": "block"}, (), op.loc))
        for inner in op.regions:
            _insert(inner, before)
        out.append(op)
    region.ops = out


Pending = dict[Access, None]  # since the threads last waited


class _Barriers:
    def __init__(self, alone: set[Op], nests: Nests, unchanged: set[Op]):
        self.alone, self.nests, self.unchanged = alone, nests, unchanged
        self.before: set[Op] = set()

    def region(self, region: Region, pending: Pending) -> Pending:
        """Finds where to wait; what is pending at the end."""
        for op in region.ops:
            if op.regions and op not in self.alone and op not in self.nests:
                pending = self.structured(op, pending)
                continue
            found = list(self.accesses(op))
            if op in self.before or any(self.conflict(a, b) for a in found for b in pending):
                self.before.add(op)
                pending = {}
            if found:
                pending = {**pending, **dict.fromkeys(found)}
        return pending

    def structured(self, op: Op, pending: Pending) -> Pending:
        if op.kind == "if":
            return {k: None for region in op.regions for k in self.region(region, pending)}
        for _ in range(2):  # the second time with what the round before leaves pending
            once = pending
            for region in op.regions:
                once = self.region(region, once)
            after = once
            pending = {**pending, **once}
        return {**pending, **after}

    def accesses(self, op: Op) -> Iterator[Access]:
        if op in self.nests:
            way = _Way(self.nests[op])
            for inner in op.regions[1].walk():
                for access in self.access(inner, None):
                    yield replace(access, who=way.of(inner))
            return
        who = ONE if op in self.alone else ALL
        yield from self.access(op, who)
        for region in op.regions:
            for inner in region.walk():
                yield from self.access(inner, who)

    def access(self, op: Op, who: Any) -> Iterator[Access]:
        match op.kind:
            case "local_load" | "local_store":
                array = op.operands[0]
                if array.attrs.get("shared"):
                    yield Access(array, op.kind == "local_store", who)
            case "load" | "store" | "atomic":
                root = root_of(op.operands[0])
                private = root is not None and root.kind == "local" and not root.attrs.get("shared")
                if root not in self.unchanged and not private:
                    yield Access(root, op.kind != "load", who)

    def conflict(self, a: Access, b: Access) -> bool:
        if not (a.writes or b.writes) or not _overlap(a.where, b.where):
            return False
        return not _coincide(a.where, b.where) or a.who is None or a.who != b.who


def _overlap(a: Op | None, b: Op | None) -> bool:
    """Whether two places may be the same memory."""
    if a is b:
        return True
    if a is not None and b is not None and a.kind == b.kind == "local":
        return a.attrs["at"] < b.attrs["at"] + padded(b) and b.attrs["at"] < a.attrs["at"] + padded(a)
    of_block = a if a is not None and a.kind == "local" else b if b is not None and b.kind == "local" else None
    if of_block is None:
        return True  # arrays of a launch may lie in the same memory
    return (a is None or b is None) and bool(of_block.attrs.get("exposed"))


def _coincide(a: Op | None, b: Op | None) -> bool:
    """Whether elements of the same index are the same memory."""
    if a is None or b is None or a is b:
        return a is not None and a is b
    same_place = a.kind == b.kind == "local" and a.attrs["at"] == b.attrs["at"]
    return same_place and scalar_type(a).size == scalar_type(b).size


class _Way:
    """How elements that a shared loop touches follow from the number of the round, which says the thread."""

    def __init__(self, nest: NestWriter):
        self.digits = {digit: ("digit", k) for k, digit in enumerate(nest.digits)}
        self.counts = tuple(n.attrs["value"] if n.kind == "const" else None for n in nest.counts)

    def of(self, op: Op) -> Any:
        """Equal for accesses of which those to one element are made by one thread; None where that is not known.

        What is written in a loop is written in one round. So two loops with the same numbers of rounds whose indices
        are the same term go to an element in the same round, if one of them writes.
        """
        if op.kind in ("local_load", "local_store"):
            index = op.operands[1]
            if self.digits.get(index) == ("digit", 0) and len(self.counts) == 1:
                return "number"  # however many rounds there are
            values: tuple[Op, ...] = (index,)
        elif op.kind in ("load", "store", "atomic"):
            values = op.operands[: 1 + 2 * op.attrs["ndim"]]
        else:
            return None
        terms = tuple(map(self.term, values))
        return None if None in terms or None in self.counts else (self.counts, terms, op.attrs.get("offset"))

    def term(self, v: Op) -> Any:
        """A value as a term of digits and what is the same in the whole kernel; None for anything else."""
        if v in self.digits:
            return self.digits[v]
        if v.kind == "const":
            return ("const", v.attrs["value"])
        if v.kind in ("param", "tid"):
            return (v.kind, v if v.kind == "param" else (v.attrs["axis"], v.attrs["ndim"]))
        if v.kind not in ELEMENTWISE and v.kind not in ("cast", "address"):
            return None
        parts = tuple(map(self.term, v.operands))
        if None in parts:
            return None
        return (v.kind, repr(v.type) if not isinstance(v.type, Pointer) else "pointer", parts)
