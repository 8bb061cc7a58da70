"""Integers as affine forms over atoms, and conditions over them: what the audit knows about a kernel's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Range = tuple[int, int]


@dataclass(frozen=True, eq=False)  # identity: `Atoms` makes one for each meaning
class Atom:
    """An integer (or a truth value, of range 0 to 1) that is not a sum of others.

    kind: "extent", "dim", "argument", "thread" (known by name), "load" (contents of an array that nobody writes),
    "unknown" (floats, loops, memory that changes); "mul", "floordiv", "mod", "div", "min", "max" of two affine forms,
    "choice" (condition, a, b), "wrap" (what is left of an affine form in an integer type of that range).
    """

    number: int
    kind: str
    args: tuple[Any, ...]
    lo: int
    hi: int
    private: bool  # whether two threads may see different values

    def __repr__(self) -> str:
        return ".".join(map(str, self.args)) if self.kind in NAMED else f"{self.kind}{self.number}"


NAMED = ("extent", "dim", "argument", "thread")


@dataclass(frozen=True)
class Affine:
    """const + Σ coefficient · atom, exactly, without wrapping."""

    parts: tuple[tuple[Atom, int], ...] = ()
    const: int = 0

    def __add__(self, other: Affine) -> Affine:
        sums = dict(self.parts)
        for atom, by in other.parts:
            sums[atom] = sums.get(atom, 0) + by
        kept = sorted(((a, c) for a, c in sums.items() if c), key=lambda part: part[0].number)
        return Affine(tuple(kept), self.const + other.const)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.times(-1)

    def times(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(tuple((a, c * factor) for a, c in self.parts), self.const * factor)

    def plus(self, number: int) -> Affine:
        return Affine(self.parts, self.const + number)

    @property
    def is_const(self) -> bool:
        return not self.parts

    @property
    def range(self) -> Range:
        lo = hi = self.const
        for atom, c in self.parts:
            lo += c * (atom.lo if c > 0 else atom.hi)
            hi += c * (atom.hi if c > 0 else atom.lo)
        return lo, hi

    def fits(self, limits: Range) -> bool:
        lo, hi = self.range
        return limits[0] <= lo and hi <= limits[1]


# Conditions are tuples: ("le", affine) is affine <= 0, ("is", atom, truth), ("and", …) and ("or", …) of conditions.
Condition = tuple[Any, ...]
TRUE: Condition = ("and",)
FALSE: Condition = ("or",)


def at_most(a: Affine, b: Affine) -> Condition:
    """a <= b, decided where the ranges decide it."""
    lo, hi = (a - b).range
    return TRUE if hi <= 0 else FALSE if lo > 0 else ("le", a - b)


def below(a: Affine, b: Affine) -> Condition:
    return at_most(a.plus(1), b)


def equal(a: Affine, b: Affine) -> Condition:
    return both(at_most(a, b), at_most(b, a))


def both(*conditions: Condition) -> Condition:
    return _join("and", "or", conditions)


def either(*conditions: Condition) -> Condition:
    return _join("or", "and", conditions)


def _join(kind: str, absorbing: str, conditions: tuple[Condition, ...]) -> Condition:
    flat: dict[Condition, None] = {}
    for one in conditions:
        if one == (absorbing,):
            return one
        flat.update(dict.fromkeys(one[1:] if one[0] == kind else (one,)))
    return next(iter(flat)) if len(flat) == 1 else (kind, *flat)


def negated(condition: Condition) -> Condition:
    match condition[0]:
        case "le":
            return ("le", condition[1].times(-1).plus(1))
        case "is":
            return ("is", condition[1], not condition[2])
        case "and":
            return either(*map(negated, condition[1:]))
    return both(*map(negated, condition[1:]))


def atoms_of(thing: Any) -> Iterator[Atom]:
    """All atoms in an affine form, an atom or a condition, those inside other atoms too, each once."""
    seen: set[Atom] = set()
    walked: set[int] = set()  # parts that conditions share would be met once for each way to them
    pending = [thing]
    while pending:
        one = pending.pop()
        if id(one) in walked:
            continue
        walked.add(id(one))
        if isinstance(one, Affine):
            pending += [atom for atom, _ in one.parts]
        elif isinstance(one, Atom):
            if one not in seen:
                seen.add(one)
                yield one
                pending += one.args
        elif isinstance(one, tuple):
            pending += one


class Atoms:
    """Makes atoms, one for each meaning."""

    def __init__(self) -> None:
        self._known: dict[Any, Atom] = {}

    def make(self, kind: str, args: tuple[Any, ...], limits: Range, private: bool | None = None) -> Atom:
        """The atom of this kind and arguments; `private` follows from the arguments if it is not given."""
        key = (kind, args)
        found = self._known.get(key)
        if found is None:
            if private is None:
                private = any(atom.private for atom in atoms_of(args))
            found = self._known[key] = Atom(len(self._known), kind, args, *limits, private)
        return found

    def unknown(self, what: str, limits: Range) -> Atom:
        """A new value of which only the range is known."""
        return self.make("unknown", (what, len(self._known)), limits, private=True)

    def renamed(self, thing: Any, suffix: str, memo: dict[Atom, Atom]) -> Any:
        """What another thread sees in place of an affine form, a condition or a tuple of these."""
        if isinstance(thing, Affine):
            total = Affine((), thing.const)
            for atom, c in thing.parts:
                total += Affine(((self.renamed(atom, suffix, memo), c),))
            return total
        if isinstance(thing, Atom):
            if not thing.private:
                return thing
            if thing not in memo:
                renamed = tuple(self.renamed(arg, suffix, memo) for arg in thing.args)
                args = (*thing.args, suffix) if thing.kind in ("thread", "unknown") else renamed
                memo[thing] = self.make(thing.kind, args, (thing.lo, thing.hi), True)
            return memo[thing]
        if isinstance(thing, tuple):
            return tuple(self.renamed(part, suffix, memo) for part in thing)
        return thing


def of(atom: Atom) -> Affine:
    return Affine(((atom, 1),))


def number(value: int) -> Affine:
    return Affine((), value)


def evaluate(a: Affine, value: Callable[[Atom], int]) -> int:
    return a.const + sum(c * value(atom) for atom, c in a.parts)
