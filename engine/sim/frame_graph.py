"""A part of a frame as a graph: captured when what it consists of has changed, else replayed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

from engine.config import config
from engine.context import Graph, ScopedCapture, get_device, gradients
from engine.sim.stats import CapturedStages, Span, StageClock

Stage = Callable[[str], AbstractContextManager[Any]]  # opens a timed scope


class FramePart:
    """Launches in a fixed order, which `work(stage)` makes, each stage in a scope of its own.

    `work` must not read on the host what its launches write: sizes and conditions are read by the device. The launches
    may change between frames only when `version` does.
    """

    def __init__(self, work: Callable[[Stage], None], device: Any):
        self._work, self._device = work, get_device(device)
        self._graph: Graph | None = None
        self._version: Hashable = None
        self._spans: list[Span] = []

    def run(self, clock: StageClock, version: Hashable) -> None:
        """Does the part, as a graph; one by one where graphs are switched off, or a tape records."""
        if not config.graphs or gradients.recording():
            self._work(clock)
            return
        if self._graph is None or self._version != version:
            stages = CapturedStages()
            with ScopedCapture(self._device) as capture:
                self._work(stages)
            self._graph, self._version, self._spans = capture.graph, version, stages.spans
            assert self._graph is not None
        self._graph.launch()
        clock.replayed(self._spans, self._graph.stamps)
