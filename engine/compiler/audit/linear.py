"""Proofs without a solver: a conjunction of linear inequalities over the integers that has no solution.

Fourier–Motzkin elimination over the rationals, with inequalities divided by the gcd of their coefficients and rounded
(Pugh, "The Omega test", 1991). It refutes only what is certain, and gives up beyond its budget.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import gcd

from engine.compiler.audit.terms import Affine, Atom, Condition

CASES = 48  # of disjunctions
ROWS = 240  # inequalities alive
Row = tuple[tuple[tuple[int, int], ...], int]  # ((atom number, coefficient), …), constant: the sum is <= 0


def contradictory(conditions: Sequence[Condition], seconds: float = 1.0) -> bool:
    """Whether the conditions certainly exclude each other; False when `seconds` do not suffice to tell."""
    left, end = CASES, time.perf_counter() + min(seconds, 1.0)
    for rows, truths in _cases(list(conditions), [], {}):
        left -= 1
        if left < 0 or time.perf_counter() > end:
            return False
        if truths is not None and not _no_solution(rows):
            return False
    return True


def _cases(
    todo: list[Condition], rows: list[Affine], truths: dict[Atom, bool]
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
    elif _no_solution(rows):
        yield rows, None
    else:
        first = min(choices, key=len)
        rest = [c for c in choices if c is not first]
        for option in first[1:]:
            yield from _cases([option, *rest], rows, truths)


def _no_solution(given: Sequence[Affine]) -> bool:
    rows: set[Row] = set()
    atoms: dict[int, Atom] = {}
    for a in given:
        atoms.update((atom.number, atom) for atom, _ in a.parts)
        if _add(rows, {atom.number: c for atom, c in a.parts}, a.const):
            return True
    for key, atom in atoms.items():
        _add(rows, {key: 1}, -atom.hi)
        _add(rows, {key: -1}, atom.lo)
    while rows:
        counts: dict[int, list[int]] = {}
        for parts, _ in rows:
            for key, c in parts:
                counts.setdefault(key, [0, 0])[c > 0] += 1
        victim = min(counts, key=lambda k: counts[k][0] * counts[k][1])
        with_it = [row for row in rows if any(key == victim for key, _ in row[0])]
        rows -= set(with_it)
        uppers = [(dict(p), b) for p, b in with_it if dict(p)[victim] > 0]
        lowers = [(dict(p), b) for p, b in with_it if dict(p)[victim] < 0]
        for up, up_const in uppers:
            for low, low_const in lowers:
                x, y = -low[victim], up[victim]
                sums = {k: x * c for k, c in up.items()}
                for k, c in low.items():
                    sums[k] = sums.get(k, 0) + y * c
                if _add(rows, sums, x * up_const + y * low_const):
                    return True
        if len(rows) > ROWS:
            return False
    return False


def _add(rows: set[Row], sums: dict[int, int], const: int) -> bool:
    """Adds an inequality in lowest terms; whether it is a contradiction."""
    parts = tuple(sorted((k, c) for k, c in sums.items() if c))
    if not parts:
        return const > 0
    divisor = gcd(*[c for _, c in parts])
    rows.add((tuple((k, c // divisor) for k, c in parts), -(-const // divisor)))
    return False
