"""Proofs without a solver: a conjunction of linear inequalities over the integers that has no solution.

Fourier–Motzkin elimination over the rationals, with inequalities divided by the gcd of their coefficients and rounded
(Pugh, "The Omega test", 1991). It refutes only what is certain, and gives up beyond its budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from engine.compiler.audit.terms import Affine, Atom, Condition

CASES = 48  # of disjunctions
ROWS = 240  # inequalities alive
STEPS = 10_000  # inequalities added, for one question
Parts = tuple[tuple[int, int], ...]  # (atom number, coefficient), …


class Effort:
    """Inequalities that may still be added: a measure of work that is the same on every machine."""

    def __init__(self, steps: int = STEPS):
        self.left = steps


def contradictory(conditions: Sequence[Condition], effort: Effort | None = None) -> bool:
    """Whether the conditions certainly exclude each other; False when the effort does not suffice to tell."""
    effort, left = effort or Effort(), CASES
    for rows, truths in _cases(list(conditions), [], {}, effort):
        left -= 1
        if left < 0 or effort.left <= 0:
            return False
        if truths is not None and not _no_solution(rows, effort):
            return False
    return True


def _cases(
    todo: list[Condition], rows: list[Affine], truths: dict[Atom, bool], effort: Effort
) -> Iterator[tuple[list[Affine], dict[Atom, bool] | None]]:
    """Each way to satisfy the conditions, as inequalities and truth values (None: a contradiction)."""
    todo, rows, truths = list(todo), list(rows), dict(truths)
    choices: list[Condition] = []
    while todo:
        one = todo.pop()
        if one[0] == "and":
            todo += one[1:]
        elif one[0] == "le":
            rows.append(one[1])
        elif one[0] == "or":
            choices.append(one)
        elif truths.setdefault(one[1], one[2]) != one[2]:
            yield rows, None
            return
    if not choices:
        yield rows, truths
    elif _no_solution(rows, effort):
        yield rows, None
    else:
        first = min(choices, key=len)
        rest = [c for c in choices if c is not first]
        for option in first[1:]:
            yield from _cases([option, *rest], rows, truths, effort)


class _Rows:
    """Inequalities, the tightest one for each left side: Σ coefficient · atom + constant <= 0."""

    def __init__(self, effort: Effort) -> None:
        self.consts: dict[Parts, int] = {}
        self.effort = effort

    def add(self, sums: dict[int, int], const: int) -> bool:
        """Adds an inequality in lowest terms; whether it is a contradiction, alone or with its opposite."""
        self.effort.left -= 1
        parts = tuple(sorted((k, c) for k, c in sums.items() if c))
        if not parts:
            return const > 0
        divisor = gcd(*[c for _, c in parts])
        if divisor > 1:
            parts, const = tuple((k, c // divisor) for k, c in parts), -(-const // divisor)
        known = self.consts.get(parts)
        if known is not None and known >= const:
            return False
        self.consts[parts] = const
        opposite = self.consts.get(tuple((k, -c) for k, c in parts))
        return opposite is not None and opposite + const > 0

    def equality(self) -> tuple[Parts, int, int] | None:
        """An equation with an atom of coefficient 1 or -1: its parts, its constant and that atom."""
        for parts, const in self.consts.items():
            if self.consts.get(tuple((k, -c) for k, c in parts)) == -const:
                for key, c in parts:
                    if c in (1, -1):
                        return parts, const, key
        return None

    def substitute(self, parts: Parts, const: int, key: int) -> bool:
        """Puts what an equation says of an atom into the others; whether they contradict each other then."""
        sign = dict(parts)[key]
        for row in [row for row in self.consts if any(k == key for k, _ in row)]:
            b, sums = self.consts.pop(row), dict(row)
            factor = -sign * sums[key]  # row + factor · equation is free of the atom
            for k, c in parts:
                sums[k] = sums.get(k, 0) + factor * c
            if self.add(sums, b + factor * const):
                return True
        return False

    def eliminate(self) -> bool:
        """Combines away the atom that costs least; whether a contradiction came out."""
        uses: dict[int, list[int]] = {}
        for row in self.consts:
            for key, c in row:
                uses.setdefault(key, [0, 0])[c > 0] += 1
        victim = min(uses, key=lambda k: uses[k][0] * uses[k][1])
        sides: tuple[list[Any], list[Any]] = [], []
        for row in [row for row in self.consts if any(key == victim for key, _ in row)]:
            sums, const = dict(row), self.consts.pop(row)
            sides[sums[victim] > 0].append((sums, const))
        for low, low_const in sides[0]:
            for up, up_const in sides[1]:
                x, y = -low[victim], up[victim]
                sums = {k: x * c for k, c in up.items()}
                for k, c in low.items():
                    sums[k] = sums.get(k, 0) + y * c
                if self.add(sums, x * up_const + y * low_const):
                    return True
        return False


def _no_solution(given: Sequence[Affine], effort: Effort) -> bool:
    rows = _Rows(effort)
    atoms: dict[int, Atom] = {}
    for a in given:
        atoms.update((atom.number, atom) for atom, _ in a.parts)
        if rows.add({atom.number: c for atom, c in a.parts}, a.const):
            return True
    for key, atom in atoms.items():
        if rows.add({key: 1}, -atom.hi) or rows.add({key: -1}, atom.lo):
            return True
    while (equation := rows.equality()) is not None:
        if rows.substitute(*equation):
            return True
        if effort.left <= 0:
            return False
    while rows.consts:
        if rows.eliminate():
            return True
        if len(rows.consts) > ROWS or effort.left <= 0:
            return False
    return False
