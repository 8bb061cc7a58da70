"""Adjoints that rounds of an independent loop add to, and which rounds may add to the same element.

An index is looked at as a sum: coefficients of the loops' variables, what is the same in all rounds, a constant. Two
rounds meet in an element where the differences of their variables, each smaller than the loop's number of rounds, make
up for the difference of the constants; that is searched for, the largest coefficient first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from engine.compiler.cooperate_nests import UNKNOWN, at_most, is_known_before, is_positive
from engine.compiler.ir import Op
from engine.compiler.types import Scalar

MOST_LOOPS = 6  # of those around a sum: subsets of them are tried


@dataclass(eq=False)
class Sum:
    """adjoint += part, as the way back says it: the adjoint of an element of a tile, or of a value (then no index)."""

    target: Op  # local array, or slot
    index: Op | None
    part: Op
    before: Op
    end: Op  # the op that writes the sum
    read: Op | None  # the load on the way forth


@dataclass(frozen=True)
class Affine:
    """constant + Σ coefficient · loop variable + Σ coefficient · what does not change in the nest."""

    loops: dict[Op, int]
    rest: dict[Op, int]
    constant: int


def affine(v: Op, inside: set[Op]) -> Affine | None:
    """An index as a sum; None where it is none. `inside`: the ops of the nest."""
    match v.kind:
        case "const":
            return Affine({}, {}, int(v.attrs["value"]))
        case "index" if v in inside:
            return Affine({v: 1}, {}, 0)
        case "cast" if all(isinstance(t, Scalar) and t.is_int for t in (v.type, v.operands[0].type)):
            return affine(v.operands[0], inside)
        case "add" | "sub" if v in inside:
            a, b = (affine(x, inside) for x in v.operands)
            return None if a is None or b is None else _plus(a, b, 1 if v.kind == "add" else -1)
        case "mul" if v in inside:
            a, b = (affine(x, inside) for x in v.operands)
            if a is not None and b is not None and not (a.loops or a.rest):
                a, b = b, a
            if a is not None and b is not None and not (b.loops or b.rest):
                return _plus(Affine({}, {}, 0), a, b.constant)
    return Affine({}, {v: 1}, 0) if is_known_before(v, inside) else None


def _plus(a: Affine, b: Affine, factor: int) -> Affine:
    total = [{k: n for k in {**x, **y} if (n := x.get(k, 0) + factor * y.get(k, 0))}
             for x, y in ((a.loops, b.loops), (a.rest, b.rest))]  # fmt: skip
    return Affine(total[0], total[1], a.constant + factor * b.constant)


def most_rounds(loop: Op) -> int:
    """How many rounds a loop has, at most; UNKNOWN where that cannot be seen."""
    start, stop, step = loop.operands
    down = step.kind == "const" and step.attrs["value"] == -1
    if down and stop.kind == "const" and start.kind == "const":
        return max(int(start.attrs["value"] - stop.attrs["value"]), 0)
    end = at_most(stop)
    if down or end is None or not is_positive(start):
        return UNKNOWN
    return max(end - (int(start.attrs["value"]) if start.kind == "const" else 0), 0)


def apart(indices: Sequence[Affine], loops: Sequence[Op], path: Sequence[Op]) -> bool:
    """Whether rounds that differ in the variables of `loops` surely touch different elements, at any of the indices.

    `path` are all the loops around, whose other variables may have any value.
    """
    variables = {loop.regions[0].ops[0]: most_rounds(loop) for loop in path}
    chosen = {loop.regions[0].ops[0] for loop in loops}
    first = indices[0]
    if any(i.loops != first.loops or i.rest != first.rest for i in indices):
        return False
    if any(v not in variables for v in first.loops) or any(v not in first.loops for v in chosen if variables[v] > 1):
        return False
    order = sorted(((c, variables[v], v in chosen) for v, c in first.loops.items()), key=lambda row: -abs(row[0]))
    constants = sorted({i.constant for i in indices})
    differences = {b - a for a, b in itertools.product(constants, repeat=2)}
    return len(differences) <= 100 and not any(_meet(order, d, False) for d in differences)


def _meet(order: Sequence[tuple[int, int, bool]], difference: int, differs: bool) -> bool:
    """Whether Σ coefficient · Δ = difference has a solution with |Δ| < rounds and, of a chosen variable, Δ ≠ 0."""
    if not order:
        return difference == 0 and differs
    (c, rounds, chosen), *rest = order
    if rounds >= UNKNOWN and rest:
        return True
    reach = sum(abs(k) * (n - 1) for k, n, _ in rest)
    low, high = sorted(((difference - reach) / c, (difference + reach) / c))
    first, last = max(-int(-low // 1), 1 - rounds), min(int(high // 1), rounds - 1)
    if last - first > 64:
        return True
    return any(_meet(rest, difference - c * d, differs or chosen and d != 0) for d in range(first, last + 1))


def independent_loops(indices: Sequence[Affine | None], path: Sequence[Op]) -> list[Op]:
    """Loops around a sum that may be shared out, as many rounds as possible, so that no two threads meet."""
    known = [i for i in indices if i is not None]
    used = {v for i in known for v in i.loops}
    candidates = [loop for loop in path if loop.regions[0].ops[0] in used]
    if len(known) < len(indices) or len(candidates) > MOST_LOOPS:
        return []
    best: list[Op] = []
    for n in range(len(candidates), 0, -1):
        for loops in itertools.combinations(candidates, n):
            if apart(known, loops, path) and rounds_of(loops) > rounds_of(best):
                best = list(loops)
        if best:
            break
    return best


def rounds_of(loops: Sequence[Op]) -> int:
    """The rounds of loops within each other, at most."""
    total = 1
    for loop in loops:
        total = min(total * most_rounds(loop), UNKNOWN)
    return total

