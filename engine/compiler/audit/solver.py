"""Decides whether conditions can hold together: by linear elimination, then, where z3 is installed, by z3.

z3 sees the same atoms with their exact meaning in integers; a wrapped sum is the sum less a multiple of 2³². Its
answers are proofs or models; past the time limit the answer is "unknown".
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.audit import terms
from engine.compiler.audit.linear import contradictory
from engine.compiler.audit.terms import TRUE, Affine, Atom, Condition, atoms_of, both, either, negated, number, of

MILLISECONDS = 700  # of z3, for one question
SECONDS = 8.0  # of z3, for one kernel
LINEAR_SECONDS = 10.0  # of linear elimination, for one kernel
KERNEL_SECONDS = 30.0  # of everything, for one kernel: what is asked later stays unknown
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
        self.spent = self.spent_linear = 0.0
        self.end = time.perf_counter() + KERNEL_SECONDS
        self._fit: dict[Atom, bool] = {}
        self._walked: dict[int, tuple[Condition, frozenset[Atom]]] = {}  # keeps what it knows alive
        self._known: dict[tuple[Condition, ...], Answer] = {}

    def ask(self, conditions: Sequence[Condition]) -> Answer:
        """Whether the conditions can hold together."""
        if time.perf_counter() > self.end:
            return Answer("unknown")
        key = tuple(dict.fromkeys(c for c in conditions if c != TRUE))
        if key not in self._known:
            self._known[key] = self._decide(key)
        return self._known[key]

    def _decide(self, conditions: tuple[Condition, ...]) -> Answer:
        wanted = self.relevant(conditions)
        facts = [fact for atom in atoms_of(tuple(wanted)) for fact in self.facts(atom)]
        if self._contradictory([*wanted, *facts]):
            return Answer("no", by="linear")
        z3 = z3_or_none()
        if z3 is None or self.spent > SECONDS:
            return Answer("unknown")
        start = time.perf_counter()
        try:
            return self._by_z3(z3, conditions)
        finally:
            self.spent += time.perf_counter() - start

    def _contradictory(self, conditions: Sequence[Condition]) -> bool:
        """Linear elimination, as long as this kernel's time for it lasts."""
        left = LINEAR_SECONDS - self.spent_linear
        if left <= 0:
            return False
        start = time.perf_counter()
        found = contradictory(conditions, left)
        self.spent_linear += time.perf_counter() - start
        return found

    def facts(self, atom: Atom) -> Iterable[Condition]:
        """What linear elimination may know of an atom that is made of others."""
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
            exact, path = atom.args[0], atom.args[1]
            sides = terms.below(exact, number(atom.lo)), terms.below(number(atom.hi), exact)
            wanted = [self.relevant([*path, side]) for side in sides]
            facts = [[f for a in atoms_of(tuple(rows)) for f in self.facts(a)] for rows in wanted]
            self._fit[atom] = all(map(self._contradictory, [a + b for a, b in zip(wanted, facts, strict=True)]))
        return self._fit[atom]

    def relevant(self, conditions: Sequence[Condition]) -> list[Condition]:
        """The conditions that share atoms, directly or by others, with the last one."""
        *others, goal = conditions or (TRUE,)
        mine, chosen = set(self._atoms(goal)), [goal]
        pending = [(self._atoms(c), c) for c in others]
        grown = True
        while grown:
            grown = False
            for row in list(pending):
                if not row[0] or not mine.isdisjoint(row[0]):
                    mine |= row[0]
                    chosen.append(row[1])
                    pending.remove(row)
                    grown = True
        return chosen

    def _atoms(self, condition: Condition) -> frozenset[Atom]:
        """The atoms of a condition; by identity, since to hash one is as much work as to walk it."""
        known = self._walked.get(id(condition))
        if known is None:
            known = self._walked[id(condition)] = condition, frozenset(atoms_of(condition))
        return known[1]

    def _by_z3(self, z3: Any, conditions: tuple[Condition, ...]) -> Answer:
        encoder = _Encoder(z3)
        solver = z3.Solver(ctx=encoder.context)
        solver.set("timeout", MILLISECONDS)
        for condition in conditions:
            solver.add(encoder.condition(condition))
        solver.add(*encoder.definitions)
        verdict = solver.check()
        if verdict == z3.unsat:
            return Answer("no", by="z3")
        if verdict != z3.sat:
            return Answer("unknown")
        model = solver.model()
        for limit in SMALL:
            solver.push()
            solver.add(*[v <= limit for a, v in encoder.known.items() if a.kind in (*terms.NAMED, "load") and a.hi > 1])
            if solver.check() == z3.sat:
                model = solver.model()
                break
            solver.pop()
        values = {a: model.eval(v, model_completion=True) for a, v in encoder.known.items()}
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
        self.definitions: list[Any] = []

    def condition(self, c: Condition) -> Any:
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
            self.definitions += [v >= atom.lo, v <= atom.hi]
            self.definitions += self._define(v, atom)
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
            case "load":  # its indices are part of the counterexample
                for index in atom.args[1]:
                    self.affine(index)
                return []
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
