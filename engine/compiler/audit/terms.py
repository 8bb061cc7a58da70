"""Integers as affine forms over atoms, and conditions over them: what the audit knows about a kernel's values."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

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
    path: tuple[Condition, ...] = ()  # of a "wrap": what is known where it was computed

    @cached_property
    def atoms(self) -> frozenset[Atom]:
        """This atom, those that it is made of, and so on."""
        return _inside(self.args) | {self}

    @cached_property
    def mask(self) -> int:
        """A bit for the number of each of `atoms`."""
        return _mask_of(self.args) | 1 << self.number

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

    @cached_property
    def atoms(self) -> frozenset[Atom]:
        return _inside(tuple(atom for atom, _ in self.parts))

    @cached_property
    def mask(self) -> int:
        """The atoms in it, as `Atom.mask`."""
        return _mask_of(tuple(atom for atom, _ in self.parts))

    @cached_property
    def range(self) -> Range:
        lo = hi = self.const
        for atom, c in self.parts:
            lo += c * (atom.lo if c > 0 else atom.hi)
            hi += c * (atom.hi if c > 0 else atom.lo)
        return lo, hi

    def fits(self, limits: Range) -> bool:
        lo, hi = self.range
        return limits[0] <= lo and hi <= limits[1]


class Condition:
    """("le", affine) is affine <= 0; ("is", atom, truth); ("and", …) and ("or", …) are made of conditions.

    Each is made once (`condition`), so that they are compared and hashed by identity: paths share most of theirs.
    """

    def __init__(self, parts: tuple[Any, ...]):
        self.parts = parts

    def __getitem__(self, at: Any) -> Any:
        return self.parts[at]

    def __len__(self) -> int:
        return len(self.parts)

    @cached_property
    def atoms(self) -> frozenset[Atom]:
        return _inside(self.parts)

    @cached_property
    def mask(self) -> int:
        """The atoms in it, as `Atom.mask`."""
        return _mask_of(self.parts)

    @cached_property
    def negation(self) -> Condition:
        match self[0]:
            case "le":
                return condition("le", self[1].times(-1).plus(1))
            case "is":
                return condition("is", self[1], not self[2])
            case "and":
                return either(*map(negated, self[1:]))
        return both(*map(negated, self[1:]))


_conditions: WeakValueDictionary[tuple[Any, ...], Condition] = WeakValueDictionary()


def condition(*parts: Any) -> Condition:
    """The one condition of these parts."""
    found = _conditions.get(parts)
    if found is None:
        found = _conditions[parts] = Condition(parts)
    return found


def _mask_of(thing: Any) -> int:
    if isinstance(thing, Atom | Affine | Condition):
        return thing.mask
    total = 0
    if isinstance(thing, tuple):
        for part in thing:
            total |= _mask_of(part)
    return total


TRUE = condition("and")
FALSE = condition("or")


def at_most(a: Affine, b: Affine) -> Condition:
    """a <= b, decided where the ranges decide it."""
    lo, hi = (a - b).range
    return TRUE if hi <= 0 else FALSE if lo > 0 else condition("le", a - b)


def below(a: Affine, b: Affine) -> Condition:
    return at_most(a.plus(1), b)


def equal(a: Affine, b: Affine) -> Condition:
    return both(at_most(a, b), at_most(b, a))


def both(*conditions: Condition) -> Condition:
    return _join("and", FALSE, conditions)


def either(*conditions: Condition) -> Condition:
    return _join("or", TRUE, conditions)


def _join(kind: str, absorbing: Condition, conditions: tuple[Condition, ...]) -> Condition:
    flat: dict[Condition, None] = {}
    for one in conditions:
        if one is absorbing:
            return one
        flat.update(dict.fromkeys(one[1:] if one[0] == kind else (one,)))
    return next(iter(flat)) if len(flat) == 1 else condition(kind, *flat)


def negated(c: Condition) -> Condition:
    return c.negation


def atoms_of(thing: Any, kinds: Container[str] | None = None) -> list[Atom]:
    """All atoms (of some kinds) in an affine form, an atom, a condition or a tuple of these, and in other atoms."""
    found = [atom for atom in _inside(thing) if kinds is None or atom.kind in kinds]
    return sorted(found, key=attrgetter("number"))


def _inside(thing: Any) -> frozenset[Atom]:
    if isinstance(thing, Atom | Affine | Condition):
        return thing.atoms
    return frozenset().union(*map(_inside, thing)) if isinstance(thing, tuple) else frozenset()


class Atoms:
    """Makes atoms, one for each meaning."""

    def __init__(self) -> None:
        self._known: dict[Any, Atom] = {}

    def make(
        self, kind: str, args: tuple[Any, ...], limits: Range, private: bool | None = None,
        path: tuple[Condition, ...] = (),
    ) -> Atom:  # fmt: skip
        """The atom of this kind and arguments; `private` follows from the arguments if it is not given."""
        key = (kind, args, path)
        found = self._known.get(key)
        if found is None:
            if private is None:
                private = any(atom.private for atom in _inside(args))
            found = self._known[key] = Atom(len(self._known), kind, args, *limits, private, path)
        return found

    def unknown(self, what: str, limits: Range) -> Atom:
        """A new value of which only the range is known."""
        return self.make("unknown", (what, len(self._known)), limits, private=True)

    def renamed(self, thing: Any, suffix: str, memo: dict[Any, Any]) -> Any:
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
                path = self.renamed(thing.path, suffix, memo)
                memo[thing] = self.make(thing.kind, args, (thing.lo, thing.hi), True, path)
            return memo[thing]
        if isinstance(thing, Condition):
            if thing not in memo:
                memo[thing] = condition(*[self.renamed(part, suffix, memo) for part in thing.parts])
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
