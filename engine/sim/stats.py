"""What the last step did: counts, the deepest contact, and the time of each stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.context import capture_stamp
from engine.timer import timer

Span = tuple[str, int, int]  # name of a stage, its first and its last time stamp


@dataclass
class FluidStats:
    """Of the fluid in the last frame. Errors are averages relative to the density at rest, after the last solve."""

    particles: int
    steps: int = 0  # that the frame took
    time_step: float = 0.0  # of the last one, s
    iterations: int = 0  # of the constant-density solves, all steps together
    density_error: float = 0.0
    compression: float = 0.0  # mean of what densities are above that at rest, when the frame begins
    divergence_iterations: int = 0
    divergence_error: float = 0.0  # per step
    viscosity_iterations: int = 0  # of the implicit solves
    viscosity_error: float = 0.0  # residual of the last one, relative to the momentum
    unsolved: int = 0  # solves that reached the limit of iterations before the error was small enough
    emitted: int = 0  # particles that emitters added
    removed: int = 0  # particles that left an open domain, or entered an outflow
    clamped: int = 0  # particles that the domain's walls had to stop
    short_steps: int = 0  # steps for which the CFL condition asked for less than the shortest step


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
    fluid: FluidStats | None = None  # None: no particles
    timings: dict[str, float] = field(default_factory=dict)


class StageClock:
    """Times the stages of one step; the same stages are scopes of the engine's timer when that is on."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._replays: list[tuple[list[Span], np.ndarray]] = []  # not yet in the sums

    def start(self) -> None:
        """Forgets the step before."""
        self._sums = {}
        self._replays.clear()

    def __call__(self, name: str) -> AbstractContextManager[Any]:
        return _Stage(self._sums, name)

    def replayed(self, spans: list[Span], stamps: np.ndarray) -> None:
        """The stages of a graph that was run; `stamps` are its times in nanoseconds."""
        self._replays.append((spans, stamps.copy()))
        if timer.enabled:
            for name, first, last in spans:
                timer.add(name, int(stamps[first]), int(stamps[last] - stamps[first]))

    @property
    def milliseconds(self) -> dict[str, float]:
        """Of each stage; one that was entered several times counts in one sum."""
        for spans, stamps in self._replays:
            for name, first, last in spans:
                self._sums[name] = self._sums.get(name, 0.0) + int(stamps[last] - stamps[first]) * 1e-6
        self._replays.clear()
        return self._sums


class _Stage:
    """A stage that is running."""

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


class CapturedStages:
    """The stages of a frame that is being captured: each notes two time stamps in the graph."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        first = capture_stamp()
        yield
        self.spans.append((name, first, capture_stamp()))
