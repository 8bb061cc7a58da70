"""What a graph consists of: launches, copies, conditions, loops and time stamps, in the order of the capture."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.emit_replay import RUN
from engine.context import arguments
from engine.context.array import array
from engine.context.device import get_device
from engine.context.graph_copies import Words, copy_launch, one_run
from engine.context.launch import Launch, checked_grid, pack_any
from engine.context.memory import Block, host_window
from engine.context.packer import HEADER_BYTES
from engine.context.table import Table


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

    def for_driver(self) -> Any:
        """The launch as the driver of a GPU takes it."""
        if self._run == self._pack_and_run:
            self._pack()
        program: Any = self.program
        return program.packed(self.block, max(self._grid.size, 1))  # of an empty grid no thread does anything

    def words(self) -> Words | None:
        """What it copies or fills, where that is one run of bytes; None for a kernel."""
        return None

    def packed(self) -> tuple[Any, list[Any], int]:
        """(grid, arguments, threads of a block) as the next run takes them."""
        if self._run == self._pack_and_run:
            self._pack()
        return self._grid, self._args, self._block_dim

    def show_to(self, watcher: Any) -> None:
        """Tell the tapes that live what a replay writes."""
        watcher.observe(self.kernel, self._dim, self._args, self._device_key, False, self._block_dim)


class CapturedCopy(CapturedLaunch):
    """A copy or fill inside a graph. When a table that takes part grows, so does the copy, as the call would."""

    __slots__ = ("_moved", "_source", "_target", "_words")

    def __init__(self, stale: list[Any], target: array, source: array | np.ndarray):
        self._target, self._source = target, source
        self._stale, self._moved = stale, False
        super().__init__(stale, *self._parts())

    def copied(self, stale: list[Any]) -> CapturedCopy:
        return CapturedCopy(stale, self._target, self._source)

    def words(self) -> Words | None:
        if self._run == self._pack_and_run:
            self._pack()
        return self._words

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
        self._words = one_run(kernel, dim, args, source if isinstance(source, np.ndarray) else None)
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


def check_condition(call: str, condition: Any) -> array:
    """The array of a condition. Raises TypeError unless it is an int32 array of one element."""
    if not isinstance(condition, array) or condition.element != types.int32 or condition.size != 1:
        raise TypeError(f"{call} needs an int32 array of one element as its condition, got {condition!r}")
    return condition
