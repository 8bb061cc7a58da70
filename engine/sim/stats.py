"""What the last step did: counts, the deepest contact, and the time of each stage."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from engine.timer import timer


@dataclass(frozen=True)
class Stats:
    """Of the last step. Penetration in m (0: nothing overlaps), timings in ms by stage, "step" being the whole."""

    frame: int
    bodies: int
    joints: int
    pairs: int  # whose bounds overlap
    manifolds: int  # that were solved
    contacts: int  # points of those
    colors: int  # of the contacts
    color_rounds: int
    substeps: int
    iterations: int
    largest_penetration: float
    timings: dict[str, float] = field(default_factory=dict)


class StageClock:
    """Times the stages of one step; the same stages are scopes of the engine's timer when that is on."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    def start(self) -> None:
        """Forgets the step before."""
        self.milliseconds = {}

    def __call__(self, name: str) -> AbstractContextManager[Any]:
        return _Stage(self.milliseconds, name)


class _Stage:
    """A stage that is running; a stage entered several times counts in one sum."""

    __slots__ = ("name", "scope", "started", "sums")

    def __init__(self, sums: dict[str, float], name: str):
        self.sums, self.name = sums, name

    def __enter__(self) -> None:
        self.scope = timer.scope(self.name)
        self.scope.__enter__()
        self.started = time.perf_counter_ns()

    def __exit__(self, *error: Any) -> None:
        span = (time.perf_counter_ns() - self.started) * 1e-6
        self.sums[self.name] = self.sums.get(self.name, 0.0) + span
        self.scope.__exit__(*error)
