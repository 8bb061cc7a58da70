"""Graphs: captured launches that run again without Python between them.

A graph is a tree of steps in the order of the capture (launches, conditions, loops). What replays it is made from that
at the first replay: `graph_native` for the cpu, `graph_driver` for GPUs. When a table moves its memory or a parameter
is set, the steps concerned are `stale` and looked at again before the next replay.

    [launch a, If(c, [launch b], [launch d]), launch e]
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import numpy as np

from engine.context import gradients, recording
from engine.context.device import Device
from engine.context.graph_steps import CapturedLaunch, If, Stamp, While, copied, launches_in
from engine.context.threads import pool
from engine.errors import TapeError

_graphs: weakref.WeakSet[Graph] = weakref.WeakSet()


class Graph:
    """Captured work, as `capture_end` returns it; `capture_launch` runs it again.

    `launches` are its launches in the order of the capture, copies and fills included: `graph.launches[0].set_param(
    "scale", 3.0)` holds from the next replay on. The graph keeps alive what its launches use.
    """

    def __init__(self, device: Device, steps: list[Any], stale: list[Any], nstamp: int = 0):
        self.device, self.steps, self.stale = device, steps, stale
        self.launches = list(launches_in(steps))
        self._stamps = np.zeros(nstamp, np.int64)
        self._replay: Any = None  # made at the first launch
        self._walks = 0
        self._lock = threading.Lock()
        _graphs.add(self)

    def launch(self) -> None:
        """Run everything once; inside a capture: become a part of the new graph.

        Raises TapeError while a tape records: gradients do not go through graphs.
        """
        if recording.captures and (capture := recording.current()) is not None:
            capture.steps += copied(self.steps, capture.stale)
            return
        watcher = gradients.watcher
        if watcher is not None:
            if watcher.is_recording():
                raise TapeError("a tape cannot record a graph: launch its kernels one by one under the tape")
            for one in self.launches:
                one.show_to(watcher)
        if recording.replay is not None:
            recording.replay(self)
            return
        with self._lock:
            if self._replay is None:
                self._replay = self._made()
            elif self.stale:
                self._replay.refresh()
            if self._replay.checked:  # so that an error comes from the launch that it belongs to
                self._walk()
            else:
                self._replay.run()

    def _made(self) -> Any:
        """What replays this graph on its device."""
        if self.device.is_cpu:
            from engine.context.graph_native import NativeReplay

            return NativeReplay(self)
        from engine.context.graph_driver import DriverReplay

        return DriverReplay(self)

    @property
    def entered(self) -> bool:
        """Whether other workers were ever called, or are now."""
        return self._replay is not None and bool(self._replay.entered)

    @property
    def stamps(self) -> np.ndarray:
        """(n,) times that the last replay noted, ns; waits for it."""
        if self._replay is not None and self._replay.notes_times:
            self._replay.read_times(self._stamps)
        return self._stamps

    @property
    def stamps_at(self) -> int:
        """Address of the times in the host's memory."""
        return int(self._stamps.ctypes.data)

    @property
    def replayed_by(self) -> str:
        """What replays it and where its conditions are read, in words; made at the first replay."""
        return "" if self._replay is None else str(self._replay)

    def _walk(self) -> None:
        """Replay one launch after the other; the conditions are read on the host."""
        for one in self.each():
            one.run()
        self._walks += 1

    def each(self) -> Iterator[CapturedLaunch]:
        """The launches of one replay in order. Run each before the next is asked for: conditions are read then."""
        yield from self._each(self.steps)

    def _each(self, steps: list[Any]) -> Iterator[CapturedLaunch]:
        for step in steps:
            if isinstance(step, If):
                yield from self._each(step.then if step.condition.holds() else step.otherwise)
            elif isinstance(step, While):
                while step.condition.holds():
                    yield from self._each(step.body)
            elif isinstance(step, Stamp):
                self._stamps[step.index] = perf_counter_ns()
            else:
                yield step

    @property
    def replays(self) -> int:
        """How often it was run."""
        return self._walks + (self._replay.replays if self._replay is not None else 0)

    @property
    def helpers(self) -> int:
        """How often, in the last replay, another worker than the caller came and ran a part."""
        return int(self._replay.helpers) if self._replay is not None else 0


def _after_fork_in_child() -> None:
    for graph in list(_graphs):
        graph._lock = threading.Lock()  # a thread that does not exist here may have held it
        if graph.entered:  # perhaps in that thread, for the first time, at this moment
            pool.leave_runtime()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
