"""Races of two threads of a launch: accesses to one element of which one is a plain write.

Two symbolic threads run the same code (the reduction of GPUVerify, Betts et al. 2012): the second one's private values
are renamed, and a pair of accesses is free of races when both paths and equal places exclude each other. Arrays of
different names are taken to be different memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.compiler.audit import terms
from engine.compiler.audit.execute import Access, Executor
from engine.compiler.audit.terms import Atom, Condition, both, either

OTHER = "′"
PAIRS = 400  # of accesses, for one kernel


class Race(NamedTuple):
    """Conditions under which two threads race."""

    conditions: tuple[Condition, ...]
    what: str
    file: str
    line: int
    other_line: int


def races(run: Executor) -> Iterator[Race]:
    """The pairs of accesses that might race."""
    by_array: dict[str, dict[Access, None]] = {}
    for access in run.accesses:
        by_array.setdefault(access.array, {})[access] = None
    left = PAIRS
    memo: dict[Atom, Atom] = {}
    for accesses in by_array.values():
        rows = list(accesses)
        for k, one in enumerate(rows):
            for other in rows[k:]:
                if _harmless(one, other):
                    continue
                left -= 1
                if left < 0:
                    yield Race((), f"races beyond the first {PAIRS} pairs of accesses", one.file, one.line, other.line)
                    return
                yield _race(run, one, other, memo)


def _harmless(a: Access, b: Access) -> bool:
    if "store" not in (a.kind, b.kind):  # an atomic's order with reads and other atomics is the kernel's business
        return True
    apart = a.part[0] + a.part[1] <= b.part[0] or b.part[0] + b.part[1] <= a.part[0]
    return apart or len(a.place) != len(b.place)


def _race(run: Executor, a: Access, b: Access, memo: dict[Atom, Atom]) -> Race:
    path, place = run.atoms.renamed((b.path, b.place), OTHER, memo)
    same = [terms.equal(terms.of(t), terms.of(run.atoms.renamed(t, OTHER, memo))) for t in run.threads]
    different = either(*map(terms.negated, same))
    meet = both(*[terms.equal(x, y) for x, y in zip(a.place, place, strict=True)])
    kind = " and ".join(sorted({a.kind, b.kind}, reverse=True))
    what = f"race on {a.array}: two threads may {kind.replace('load', 'read')} one element"
    # the meeting stands last: what shares no values with it does not matter
    return Race((*a.path, *path, different, meet), what, a.file, a.line, b.line)
