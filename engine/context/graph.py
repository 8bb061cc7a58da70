"""Graphs: captured launches that run again in native code, without Python between them.

A graph is a tree of steps in the order of the capture (launches, conditions, loops), and a table of rows made from it
that `weft_replay` walks through (`compiler.emit_replay` draws it). The rows point to the launch blocks and to the
conditions; when a table moves its memory or a parameter is set, the rows concerned are written again before the next
replay.

    [launch a, If(c, [launch b], [launch d]), launch e]      0 RUN a   1 BRANCH c →4   2 RUN b   3 JUMP →5   4 RUN d   …
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.emit_replay import (
    BRANCH,
    CONTEXT_BYTES,
    CONTEXT_SLOTS,
    END,
    JUMP,
    NODE_SLOTS,
    OUT_OF_FUEL,
    RUN,
    STAMP,
)
from engine.config import config
from engine.context import arguments, gradients, recording
from engine.context.array import array
from engine.context.device import Device, get_device
from engine.context.graph_copies import copy_launch
from engine.context.launch import Launch, checked_grid, pack_any
from engine.context.memory import Block, host_block, host_window
from engine.context.packer import HEADER_BYTES
from engine.context.table import Table
from engine.context.team import Choice
from engine.context.threads import MAX_WORKERS, pool
from engine.errors import TapeError

ENTER_NS, OFFER_NS = 30_000.0, 6_000.0  # work of a grid that pays for waking workers, and for workers that are awake
_ROW_BYTES = 8 * len(NODE_SLOTS)
_COST = NODE_SLOTS.index("cost")
_replay_type = ctypes.CFUNCTYPE(ctypes.c_int64)

_graphs: weakref.WeakSet[Graph] = weakref.WeakSet()


class CapturedLaunch(Launch):
    """A launch inside a graph. `set_param`, `set_dim` and the rest of `Launch` change it for all later replays."""

    __slots__ = ("_stale", "block", "program")

    def __init__(self, stale: list[Any], kernel: Any, device: Any, dim: Any, args: Any, block_dim: int = 256):
        self._stale = stale  # of its graph: what has to be written to the rows again
        if any(arg is None for arg in args):
            args = arguments.with_missing(kernel, args, get_device(device))
        super().__init__(kernel, device, dim, args, block_dim)

    def copied(self, stale: list[Any]) -> CapturedLaunch:
        """The same launch for another graph."""
        return CapturedLaunch(stale, self.kernel, self._device_key, self._dim, self._args, self._block_dim)

    def _pack(self) -> None:
        grid = self._grid
        launcher, self.block, self._args = pack_any(self.kernel, grid, self._args, self._device_key, self._block_dim)
        self.program = launcher.program
        self._run = self.program.bind(self.block, grid.size, grid.count)
        self._stale.append(self)

    def invalidate(self) -> None:
        super().invalidate()
        self._stale.append(self)

    def row(self) -> tuple[int, ...]:
        """What stands in the graph's table for it, up to the count."""
        if self._run == self._pack_and_run:
            self._pack()
        params = ctypes.cast(ctypes.c_char_p(self.block), ctypes.c_void_p).value or 0
        return RUN, self.program.entry, params + HEADER_BYTES, self._grid.size, self._grid.count

    def run(self) -> None:
        """Run this one by itself."""
        self._run()

    def packed(self) -> tuple[Any, list[Any], int]:
        """(grid, arguments, threads of a block) as the next run takes them."""
        if self._run == self._pack_and_run:
            self._pack()
        return self._grid, self._args, self._block_dim

    def show_to(self, watcher: Any) -> None:
        """Tell the tapes that live what a replay writes."""
        watcher.observe(self.kernel, self._dim, self._args, self._device_key, False)


class CapturedCopy(CapturedLaunch):
    """A copy or fill inside a graph. When a table that takes part grows, so does the copy, as the call would."""

    __slots__ = ("_moved", "_source", "_target")

    def __init__(self, stale: list[Any], target: array, source: array | np.ndarray):
        self._target, self._source = target, source
        self._stale, self._moved = stale, False
        super().__init__(stale, *self._parts())

    def copied(self, stale: list[Any]) -> CapturedCopy:
        return CapturedCopy(stale, self._target, self._source)

    def _parts(self) -> tuple[Any, Any, Any, Any]:
        """(kernel, device, dim, arguments) for the memory as it lies now."""
        target, source = self._target, self._source
        view = target.places()
        if isinstance(source, array):
            if self._moved and source.shape != target.shape:
                raise ValueError(f"a captured copy needs equal shapes, now they are {target.shape} and {source.shape}")
            values, block = source.places(), source.block
        elif target.device.is_cpu:
            values, block = source, Block(source.ctypes.data, source.nbytes, source)
        else:
            values, block = _on_device(source, target.device)
        values = np.broadcast_to(values, view.shape)
        kernel, dim, args = copy_launch(view, target.block, values, block, target.device)
        return kernel, target.device, dim, args

    def invalidate(self) -> None:
        self._moved = True  # looked at before the next replay: the other side may still have to grow
        super().invalidate()

    def _pack(self) -> None:
        if self._moved:
            self.kernel, _, self._dim, self._args = self._parts()
            self._grid = checked_grid(self.kernel.name, self._dim, self.device)
            self._moved = False
        super()._pack()

    def _follow_tables(self) -> None:
        for one in (self._target, self._source):
            owner = one.table() if isinstance(one, array) and one.table is not None else None
            if owner is not None:
                owner.dependents.add(self)


def _on_device(source: np.ndarray, device: Any) -> tuple[np.ndarray, Block]:
    """A copy of the host's values in the memory of a device: where it lies, and its block."""
    dense = np.ascontiguousarray(source)
    block = device.alloc(dense.nbytes, zeroed=False)
    if dense.nbytes:
        device.upload(block.ptr, dense.reshape(-1).view(np.uint8), dense.nbytes)
    return host_window(block, block.ptr, dense.shape, dense.strides, dense.dtype).reshape(source.shape), block


class Condition:
    """The int32 whose value decides, followed where the table that it is a field of moves."""

    def __init__(self, stale: list[Any], where: array):
        self._stale, self.where = stale, where
        owner = where.table() if where.table is not None else None
        if isinstance(owner, Table):
            owner.dependents.add(self)

    def invalidate(self) -> None:
        self._stale.append(self)

    def holds(self) -> bool:
        return bool(self.where.window().reshape(-1)[0])


@dataclass(eq=False)
class If:
    """`then` where the condition is not 0, else `otherwise`."""

    condition: Condition
    then: list[Any]
    otherwise: list[Any]


@dataclass(eq=False)
class While:
    """`body` as long as the condition is not 0."""

    condition: Condition
    body: list[Any]


@dataclass(eq=False)
class Stamp:
    """Writes the system's monotonic time, in nanoseconds, to the element `index` of the graph's `stamps`."""

    index: int


def launches_in(steps: list[Any]) -> Iterator[CapturedLaunch]:
    """All launches of a tree of steps, in the order of the capture."""
    for step in steps:
        if isinstance(step, If):
            yield from launches_in(step.then)
            yield from launches_in(step.otherwise)
        elif isinstance(step, While):
            yield from launches_in(step.body)
        elif isinstance(step, CapturedLaunch):
            yield step


def copied(steps: list[Any], stale: list[Any]) -> list[Any]:
    """The same steps for another graph. Time stamps stay behind: they belong to the graph that made them."""
    found: list[Any] = []
    for step in steps:
        if isinstance(step, If):
            condition = Condition(stale, step.condition.where)
            found.append(If(condition, copied(step.then, stale), copied(step.otherwise, stale)))
        elif isinstance(step, While):
            found.append(While(Condition(stale, step.condition.where), copied(step.body, stale)))
        elif isinstance(step, CapturedLaunch):
            found.append(step.copied(stale))
    return found


class Graph:
    """Captured work, as `capture_end` returns it; `capture_launch` runs it again.

    `launches` are its launches in the order of the capture, copies and fills included: `graph.launches[0].set_param(
    "scale", 3.0)` holds from the next replay on. The graph keeps alive what its launches use.
    """

    def __init__(self, device: Device, steps: list[Any], stale: list[Any], nstamp: int = 0):
        self.device, self.steps, self._stale = device, steps, stale
        self.launches = list(launches_in(steps))
        self.stamps = np.zeros(nstamp, np.int64)  # times that the last replay noted, ns
        self._built, self._walks = False, 0
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
            if not self.device.is_cpu:
                self._walk()
                self._stale.clear()  # each launch has packed by itself what had changed
                return
            if not self._built:
                self._build()
            elif self._stale:
                self._refresh()
            if self._checked:  # so that an error comes from the launch that it belongs to
                self._walk()
                return
            if config.threads != self._threads or pool.generation != self._generation:
                self._choose_workers()
            several = self._workers > 1
            if several:
                self._context[CONTEXT_SLOTS["workers"]] = self._workers if self._choice.with_team() else 1
                began = perf_counter_ns()
            try:
                while self._call(self._context_address) == OUT_OF_FUEL:
                    pass  # here Python looks whether the user wants to interrupt
            finally:
                self._context[CONTEXT_SLOTS["row"]] = 0
                if several and not pool.entered:
                    pool.entered = self.entered
            if several:
                self._choice.took(perf_counter_ns() - began)

    @property
    def entered(self) -> bool:
        """Whether other workers were ever called, or are now."""
        return self._built and bool(self._context[CONTEXT_SLOTS["tickets"]])

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
                self.stamps[step.index] = perf_counter_ns()
            else:
                yield step

    @property
    def replays(self) -> int:
        """How often it was run."""
        return self._walks + (int(self._context[CONTEXT_SLOTS["replays"]]) if self._built else 0)

    @property
    def helpers(self) -> int:
        """How often, in the last replay, another worker than the caller came and ran a part."""
        return int(self._context[CONTEXT_SLOTS["helped"]]) if self._built else 0

    def _choose_workers(self) -> None:
        self._threads, self._generation = config.threads, pool.generation
        workers = min(self._threads, MAX_WORKERS)
        parallel = pool.parallel_address if workers > 1 else 0
        self._workers = workers if parallel else 1
        self._choice = Choice()
        self._context[CONTEXT_SLOTS["workers"]] = self._workers
        self._context[CONTEXT_SLOTS["parallel"]] = parallel

    # -- the rows ------------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        from engine.compiler.target_host import host_target  # needs LLVM

        self._call = _replay_type(host_target().replay_address)
        self._rows: list[tuple[int, ...]] = []
        self._places: dict[Any, int] = {}
        self._flatten(self.steps)
        self._rows.append(_row(END))
        self._stale.clear()
        block = host_block(CONTEXT_BYTES + _ROW_BYTES * len(self._rows), zeroed=True)
        shape = len(self._rows), len(NODE_SLOTS)
        self._table = host_window(block, block.ptr + CONTEXT_BYTES, shape, (_ROW_BYTES, 8), np.dtype(np.int64))
        self._table[...] = self._rows
        costs = self._table.view(np.float64)[:, _COST]
        for one in self.launches:
            costs[self._places[one]] = one.program.cost
        del self._rows
        context = host_window(block, block.ptr, (CONTEXT_BYTES // 8,), (8,), np.dtype(np.int64))
        self._context, limits = context, context.view(np.float64)
        context[CONTEXT_SLOTS["nodes"]] = block.ptr + CONTEXT_BYTES
        limits[CONTEXT_SLOTS["enter_ns"]], limits[CONTEXT_SLOTS["offer_ns"]] = ENTER_NS, OFFER_NS
        self._context_address = ctypes.c_void_p(block.ptr)
        self._threads = self._generation = -1
        self._look_for_checks()
        self._built = True

    def _flatten(self, steps: list[Any]) -> None:
        rows = self._rows
        for step in steps:
            if isinstance(step, If):
                branch = self._branch(step.condition)
                self._flatten(step.then)
                if step.otherwise:
                    jump = len(rows)
                    rows.append(_row(JUMP))
                    rows[branch] = (*rows[branch][:-1], len(rows))
                    self._flatten(step.otherwise)
                    rows[jump] = _row(JUMP, target=len(rows))
                else:
                    rows[branch] = (*rows[branch][:-1], len(rows))
            elif isinstance(step, While):
                branch = self._branch(step.condition)
                self._flatten(step.body)
                rows.append(_row(JUMP, target=branch))
                rows[branch] = (*rows[branch][:-1], len(rows))
            elif isinstance(step, Stamp):
                rows.append(_row(STAMP, count=self.stamps.ctypes.data + 8 * step.index))
            else:
                self._places[step] = len(rows)
                rows.append((*step.row(), 0, 0, 0))

    def _branch(self, condition: Condition) -> int:
        self._places[condition] = len(self._rows)
        self._rows.append(_row(BRANCH, count=condition.where.ptr))
        return len(self._rows) - 1

    def _refresh(self) -> None:
        """Write the rows again whose launch or condition has changed."""
        changed = list(self._stale)
        for step in changed:
            row = self._table[self._places[step]]
            if isinstance(step, Condition):
                row[NODE_SLOTS.index("count")] = step.where.ptr
            else:
                row[:_COST] = step.row()
        self._stale.clear()
        self._look_for_checks()

    def _look_for_checks(self) -> None:
        self._checked = any(one.program.record for one in self.launches)


def _row(kind: int, count: int = 0, target: int = 0) -> tuple[int, ...]:
    return kind, 0, 0, 0, count, 0, 0, target


def check_condition(call: str, condition: Any) -> array:
    """The array of a condition. Raises TypeError unless it is an int32 array of one element."""
    if not isinstance(condition, array) or condition.element != types.int32 or condition.size != 1:
        raise TypeError(f"{call} needs an int32 array of one element as its condition, got {condition!r}")
    return condition


def _after_fork_in_child() -> None:
    for graph in list(_graphs):
        graph._lock = threading.Lock()  # a thread that does not exist here may have held it
        if graph.entered:  # perhaps in that thread, for the first time, at this moment
            pool.leave_runtime()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
