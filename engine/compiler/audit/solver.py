"""Decides whether conditions can hold together: by linear elimination, then, where z3 is installed, by z3.

z3 sees the same atoms with their exact meaning in integers; a wrapped sum is the sum less a multiple of 2³². Its
answers are proofs or models; past the limits of its work the answer is "unknown". Work is counted in steps, not in
seconds, so that what is proved does not depend on the machine, unless a kernel takes more than `SECONDS`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.audit import linear, terms
from engine.compiler.audit.terms import (
    FALSE,
    TRUE,
    Affine,
    Atom,
    Condition,
    atoms_of,
    both,
    either,
    negated,
    number,
    of,
)

STEPS = 40_000  # of z3 (its "rlimit"), for one question
MILLISECONDS = 5000  # of z3, for one question: far more than its steps take
ALL_STEPS = 250_000  # of z3, for one kernel: what is asked later it is not asked
LINEAR_STEPS = 60_000  # of linear elimination, for one kernel
SECONDS = 60.0  # of everything, for one kernel: what is asked later stays unknown
EVERYTHING = 1000
MADE = ("choice", "min", "max", "mod", "floordiv", "wrap")  # atoms of which `facts` says something
RINGS = (1, 2, EVERYTHING)  # how far from the question conditions are looked at, one after the other
SMALL = (5, 70, 3000)  # counterexamples with numbers up to these are looked for first


@functools.cache
def z3_or_none() -> Any:
    """z3, or None where the extra `audit` is not installed."""
    try:
        import z3
    except ImportError:
        return None
    return z3


@dataclass
class Answer:
    """Whether the conditions exclude each other ("no"), hold together for `model` ("yes"), or neither is known."""

    verdict: str
    model: dict[Atom, int] = field(default_factory=dict)
    by: str = ""


class Solver:
    """Answers questions about the atoms of one kernel."""

    def __init__(self) -> None:
        self.spent, self.linear_left = 0, LINEAR_STEPS
        self.end = time.perf_counter() + SECONDS
        self._fit: dict[Atom, bool] = {}
        self._facts: dict[Atom, list[Condition]] = {}
        self._known: dict[tuple[Condition, ...], Answer] = {}
        self._encoder: _Encoder | None = None

    def ask(self, conditions: Sequence[Condition]) -> Answer:
        """Whether the conditions can hold together."""
        key = tuple(dict.fromkeys(c for c in conditions if c is not TRUE))
        if key not in self._known:
            if time.perf_counter() > self.end:
                return Answer("unknown")
            self._known[key] = self._decide(key)
        return self._known[key]

    def _decide(self, conditions: tuple[Condition, ...]) -> Answer:
        if FALSE in conditions or self._excluded(conditions):
            return Answer("no", by="linear")
        z3 = z3_or_none()
        if z3 is None or self.spent > ALL_STEPS:
            return Answer("unknown")
        return self._by_z3(z3, conditions)

    def _excluded(self, conditions: Sequence[Condition]) -> bool:
        """Linear elimination: of what shares atoms with the last condition, then of what shares atoms with that, and
        so on. Few conditions mostly suffice, and what excludes itself stays so when others are added."""
        before = 0
        for steps in RINGS:
            wanted = self.relevant(conditions, steps)
            if len(wanted) == before:
                break
            before = len(wanted)
            facts = [fact for atom in atoms_of(tuple(wanted), MADE) for fact in self.facts(atom)]
            if self._contradictory([*wanted, *facts]):
                return True
        return False

    def _contradictory(self, conditions: Sequence[Condition]) -> bool:
        """Linear elimination, as long as this kernel's effort for it lasts."""
        given = min(self.linear_left, linear.STEPS)
        effort = linear.Effort(given)
        found = given > 0 and linear.contradictory(conditions, effort)
        self.linear_left -= given - effort.left
        return found

    def facts(self, atom: Atom) -> Sequence[Condition]:
        """What linear elimination may know of an atom that is made of others."""
        if atom not in self._facts:
            self._facts[atom] = []  # while it is being looked at
            self._facts[atom] = list(self._made_of(atom))
        return self._facts[atom]

    def _made_of(self, atom: Atom) -> Iterable[Condition]:
        me, args = of(atom), atom.args
        if atom.kind == "choice":
            condition, a, b = args
            yield either(both(condition, terms.equal(me, a)), both(negated(condition), terms.equal(me, b)))
        elif atom.kind in ("min", "max"):
            for arg in args:
                yield terms.at_most(me, arg) if atom.kind == "min" else terms.at_most(arg, me)
            yield either(*[terms.equal(me, arg) for arg in args])
        elif atom.kind in ("mod", "floordiv"):
            facts = both(*_division_facts(atom, me, *args))
            yield either(terms.at_most(args[1], number(0)), facts)
        elif atom.kind == "wrap" and self._fits(atom):
            yield terms.equal(me, args[0])

    def _fits(self, atom: Atom) -> bool:
        """Whether the ranges and what is known where it was computed exclude that a value wraps."""
        if atom not in self._fit:
            self._fit[atom] = False  # while it is being looked at
            if time.perf_counter() > self.end:
                return False
            exact = atom.args[0]
            sides = terms.below(exact, number(atom.lo)), terms.below(number(atom.hi), exact)
            self._fit[atom] = all(side is FALSE or self._excluded([*atom.path, side]) for side in sides)
        return self._fit[atom]

    def relevant(self, conditions: Sequence[Condition], steps: int = EVERYTHING) -> list[Condition]:
        """The last condition and those that share atoms with it, directly or by at most `steps` - 1 others."""
        *others, goal = conditions or (TRUE,)
        mine, chosen, pending = goal.mask, [goal], others
        for _ in range(steps):
            near = [c for c in pending if not c.mask or c.mask & mine]
            if not near:
                break
            chosen += near
            pending = [c for c in pending if c.mask and not c.mask & mine]
            for c in near:
                mine |= c.mask
        return chosen

    def _checked(self, solver: Any) -> Any:
        verdict = solver.check()
        self.spent = solver.statistics().get_key_value("rlimit count")  # of all questions in this context
        return verdict

    def _by_z3(self, z3: Any, conditions: tuple[Condition, ...]) -> Answer:
        if self._encoder is None:
            self._encoder = _Encoder(z3)
        encoder = self._encoder
        solver = z3.SimpleSolver(ctx=encoder.context)  # without the preprocessing that a few conditions do not repay
        solver.set("rlimit", STEPS)
        solver.set("timeout", MILLISECONDS)
        atoms: dict[Atom, Any] = {}
        for part in (self.relevant(conditions), conditions):  # a model has to be one of all conditions
            solver.add(*map(encoder.condition, part))
            for atom in atoms_of(tuple(part)):
                if atom not in atoms:
                    atoms[atom] = encoder.atom(atom)
                    solver.add(*encoder.definitions[atom])
            verdict = self._checked(solver)
            if verdict == z3.unsat:
                return Answer("no", by="z3")
            if verdict != z3.sat:
                return Answer("unknown")
        model = solver.model()
        is_run = not any(a.kind == "load" for a in atoms)  # as a launch, by whoever asks; the smaller the better
        named = [v for a, v in atoms.items() if a.kind in (*terms.NAMED, "load") and a.hi > 1]
        for limit in SMALL if is_run else ():
            solver.push()
            solver.add(*[v <= limit for v in named])
            if self._checked(solver) == z3.sat:
                model = solver.model()
                break
            solver.pop()
        values = {a: model.eval(v, model_completion=True) for a, v in atoms.items()}
        return Answer("yes", {a: v.as_long() for a, v in values.items()}, "z3")


def _division_facts(atom: Atom, me: Affine, x: Affine, y: Affine) -> Iterable[Condition]:
    """Of a quotient or remainder by a positive divisor."""
    if atom.kind == "mod":
        yield terms.at_most(number(0), me)
        yield terms.below(me, y)
        if x.range[0] >= 0:
            yield terms.at_most(me, x)
    elif y.is_const and y.const > 0:
        yield terms.at_most(me.times(y.const), x)
        yield terms.at_most(x, me.times(y.const).plus(y.const - 1))
    elif x.range[0] >= 0:
        yield terms.at_most(me, x)


class _Encoder:
    """Atoms and conditions as z3's."""

    def __init__(self, z3: Any):
        self.z3, self.context = z3, z3.Context()
        self.known: dict[Atom, Any] = {}
        self.definitions: dict[Atom, list[Any]] = {}
        self._conditions: dict[Condition, Any] = {}

    def condition(self, c: Condition) -> Any:
        if c not in self._conditions:
            self._conditions[c] = self._encoded(c)
        return self._conditions[c]

    def _encoded(self, c: Condition) -> Any:
        z3 = self.z3
        match c[0]:
            case "le":
                return self.affine(c[1]) <= 0
            case "is":
                return self.atom(c[1]) == int(c[2])
            case "and":
                return z3.And(*[z3.BoolVal(True, self.context), *map(self.condition, c[1:])])
        return z3.Or(*[z3.BoolVal(False, self.context), *map(self.condition, c[1:])])

    def affine(self, a: Affine) -> Any:
        total = self.z3.IntVal(a.const, self.context)
        for atom, c in a.parts:
            total = total + c * self.atom(atom)
        return total

    def atom(self, atom: Atom) -> Any:
        if atom not in self.known:
            v = self.known[atom] = self.z3.Int(f"{atom.kind}{atom.number}", self.context)
            self.definitions[atom] = [v >= atom.lo, v <= atom.hi, *self._define(v, atom)]
        return self.known[atom]

    def _define(self, v: Any, atom: Atom) -> list[Any]:
        z3 = self.z3
        match atom.kind:
            case "wrap":
                turns = z3.Int(f"turns{atom.number}", self.context)
                return [v == self.affine(atom.args[0]) - turns * (atom.hi - atom.lo + 1)]
            case "choice":
                condition, a, b = atom.args
                return [v == z3.If(self.condition(condition), self.affine(a), self.affine(b))]
            case "mul" | "min" | "max" | "floordiv" | "mod" | "div":
                x, y = map(self.affine, atom.args)
                if atom.kind == "mul":
                    return [v == x * y]
                if atom.kind in ("min", "max"):
                    return [v == (z3.If(x <= y, x, y) if atom.kind == "min" else z3.If(x >= y, x, y))]
                return self._divide(atom, v, x, y)
        return []

    def _divide(self, atom: Atom, v: Any, x: Any, y: Any) -> list[Any]:
        """Quotient and remainder that belong together; of a divisor of zero both are zero."""
        z3 = self.z3
        other = z3.Int(f"other{atom.number}", self.context)
        q, r = (other, v) if atom.kind == "mod" else (v, other)
        sign = x if atom.kind == "div" else y  # whose sign the remainder takes
        size = z3.If(y > 0, y, -y)
        fits = z3.If(sign >= 0, z3.And(0 <= r, r < size), z3.And(-size < r, r <= 0))
        return [z3.If(y == 0, z3.And(q == 0, r == 0), z3.And(x == q * y + r, fits))]
