"""Runs what a gradient consists of: augmented forward launches with their arena, and backward launches.

`Plan` is one launch seen by the differentiator: which arrays its arguments are, which of them carry gradients, which
the launch overwrites. `forward()` runs it and keeps what the way back needs; `backward(gradients)` undoes it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.adjoint import Demand
from engine.compiler.adjoint_activity import ArrayKey
from engine.compiler.adjoint_program import DerivedKernel, Gradient, footprint, gradient
from engine.compiler.values import StructValue
from engine.config import config
from engine.context import arguments, gradients
from engine.context.array import array
from engine.context.array_indexed import indexedarray
from engine.context.device import get_device
from engine.context.launch import Indirect, is_dense, launch
from engine.errors import LaunchError


def arrays_of(
    value: Any, kind: types.Type | None, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], array]]:
    """The arrays in an argument, with the path to each: itself, or fields of a struct."""
    if isinstance(value, array | indexedarray):
        yield path, value if isinstance(value, array) else value.data
    elif isinstance(kind, types.Struct):
        for name, ftype in kind.fields:
            yield from arrays_of(getattr(value, name), ftype, (*path, name))


def stored_arrays(kept: Any) -> Iterator[array]:
    """The arrays among what a block of memory keeps alive (see `Block.kept`)."""
    if isinstance(kept, array):
        yield kept
        yield from stored_arrays(kept.block.kept)
    elif isinstance(kept, tuple | list):
        for item in kept:
            yield from stored_arrays(item)
    elif isinstance(kept, StructValue):
        for name, _ in type(kept).ir_type.fields:
            yield from stored_arrays(getattr(kept, name))


def with_arrays(value: Any, kind: types.Type, found: Mapping[tuple[Any, ...], Any], path: tuple[Any, ...] = ()) -> Any:
    """A copy of an argument with the arrays at some paths replaced."""
    if isinstance(value, array):
        return found.get(path, value)
    if isinstance(value, indexedarray):
        other = copy(value)
        other.data = found.get(path, value.data)
        return other
    if isinstance(kind, types.Struct) and isinstance(value, StructValue):
        fields = {name: with_arrays(getattr(value, name), t, found, (*path, name)) for name, t in kind.fields}
        return type(value)(**fields)
    return value


class Plan:
    """One launch of a kernel, and its gradient once `differentiate` was called."""

    def __init__(self, kernel: Any, dim: Any, args: Sequence[Any], device: Any, block_dim: int):
        self.kernel, self.dim, self.device, self.block_dim = kernel, dim, get_device(device), block_dim
        self.args, kinds = arguments.check(
            kernel.name, kernel.params, arguments.with_missing(kernel, list(args), self.device), self.device
        )
        self.kinds = tuple(kinds)
        self.dense = tuple(i for i, (t, v) in enumerate(zip(self.kinds, self.args, strict=True)) if is_dense(t, v))
        self.prints = footprint(kernel, self.kinds, self.dense)
        self.arrays: dict[ArrayKey, array] = {
            (i, path): a
            for i, (v, t) in enumerate(zip(self.args, self.kinds, strict=True))
            for path, a in arrays_of(v, t)
        }
        self.active: frozenset[ArrayKey] = frozenset()
        self.alone = False
        self.gradient: Gradient | None = None
        self.arena: array | None = None
        self.offsets: array | None = None

    def name_of(self, key: ArrayKey) -> str:
        return ".".join([self.kernel.params[key[0]][0], *map(str, key[1])])

    @property
    def written(self) -> list[array]:
        """Arrays that the launch writes."""
        return [self.arrays[k] for k in sorted(self.prints.writes, key=repr) if k in self.arrays]

    def differentiate(self, active: frozenset[ArrayKey]) -> Gradient:
        """Makes the gradient for these active arrays; CompileError for code, LaunchError for arguments without one."""
        self.active = active & self.prints.floats
        for i, kind in enumerate(self.kinds):
            if isinstance(kind, types.Table) and any(k[0] == i for k in self.prints.writes & self.prints.floats):
                name = self.kernel.params[i][0]
                raise LaunchError(self.kernel.name, name, "arrays, to pass gradients on", f"a table {kind!r}",
                                  "gradients do not go through tables: pass its fields as arrays")  # fmt: skip
        saved, shared = self._overlaps()
        self.alone = bool(config.deterministic) or config.threads == 1
        demand = Demand(self.active, saved & self.prints.reads, shared & self.active, self.alone)
        self.gradient = gradient(self.kernel, self.kinds, demand, self.dense)
        return self.gradient

    def _overlaps(self) -> tuple[frozenset[ArrayKey], frozenset[ArrayKey]]:
        """Arrays whose elements this launch overwrites, under whatever name; and arrays that share memory."""
        saved, shared = set(self.prints.writes), set()
        keys = list(self.arrays)
        for n, a in enumerate(keys):
            for b in keys[n + 1 :]:
                if gradients.overlap(self.arrays[a], self.arrays[b]):
                    if self.arrays[a].block is not self.arrays[b].block and {a, b} & self.active:
                        raise LaunchError(self.kernel.name, self.name_of(b), "memory of its own, or a view",
                                          f"the memory of '{self.name_of(a)}', taken over a second time",
                                          "make one array a view of the other")  # fmt: skip
                    shared |= {a, b}
                    if a in saved or b in saved:
                        saved |= {a, b}
        return frozenset(saved), frozenset(shared)

    @property
    def threads(self) -> int:
        """Threads of the grid, at most."""
        if isinstance(self.dim, Indirect):
            return self.dim.capacity
        return math.prod(self.dim) if isinstance(self.dim, tuple | list) else int(self.dim)

    # running

    def launch(self, kernel: Any, args: Sequence[Any], in_order: bool = False) -> None:
        """Runs a kernel on the plan's grid, unseen by tapes, which know of the plan. `in_order`: on one thread."""
        watcher, gradients.watcher = gradients.watcher, None
        try:
            with config.scope(threads=1) if in_order else nullcontext():
                launch(kernel, self.dim, args, device=self.device, block_dim=self.block_dim)
        finally:
            gradients.watcher = watcher

    def forward(self) -> None:
        """Runs the launch, and saves what the way back needs."""
        made = self.gradient
        assert made is not None
        if made.forward is None:
            self.launch(self.kernel, self.args)
            return
        total = self.threads * made.frame
        if made.count is not None:
            total = self._count(made.count, made.count_is_pure)
        if total > config.tape_limit:
            where = f"the loop at line {made.loop} saves"
            raise LaunchError(self.kernel.name, "dim", f"at most {config.tape_limit} bytes saved for the gradient",
                              f"{total} bytes for {self.threads} threads: {where} values of each iteration" if made.loop
                              else f"{total} bytes for {self.threads} threads: {made.frame} each",
                              "raise engine.config.tape_limit, or launch fewer threads at a time")  # fmt: skip
        self.arena = _take_arena(max(total, 1), self.device)
        offsets = self.offsets or _nothing(types.int64, self.device)
        self.launch(made.forward, [*self.args, self.arena, offsets], in_order=not made.count_is_pure)

    def release(self) -> None:
        """Gives the saved values up; their memory serves the next launch that saves as much."""
        if self.arena is not None:
            _spare[:] = [*_spare[1 - SPARE_ARENAS :], self.arena]
            self.arena = None

    def _count(self, kernel: DerivedKernel, pure: bool) -> int:
        """Fills `offsets` with where each thread's bytes begin; the bytes of all.

        How much a thread saves may depend on what others did before (a slot from an atomic): then counting and saving
        run in the same order, and the arrays get their values back in between.
        """
        counts = array.allocate(types.int64, self.threads, device=self.device)
        kept = [] if pure else [(a, a.numpy().copy()) for a in self.written]
        self.launch(kernel, [*self.args, counts], in_order=not pure)
        for a, before in kept:
            a.store(before)
        self.offsets = array.allocate(types.int64, self.threads + 1, device=self.device)
        ends = np.cumsum(counts.numpy())
        self.offsets.store(ends, slice(1, None))
        return int(ends[-1]) if len(ends) else 0

    def backward(self, gradient_of: Callable[[ArrayKey], array]) -> None:
        """Adds to the gradients of what the launch read, and consumes those of what it wrote."""
        made = self.gradient
        assert made is not None
        found = {key: gradient_of(key) for key in self.active}
        shadows = [
            with_arrays(v, t, {path: a for (k, path), a in found.items() if k == i})
            for i, (v, t) in enumerate(zip(self.args, self.kinds, strict=True))
        ]
        arena = self.arena or _nothing(types.uint8, self.device)
        args = [*self.args, *shadows, arena, self.offsets or _nothing(types.int64, self.device)]
        self.launch(made.backward, args, in_order=self.alone or bool(config.deterministic))


SPARE_ARENAS = 4  # kept for the next launches: a new one costs as much in page faults as in writing it
_spare: list[array] = []
_nothings: dict[tuple[Any, str], array] = {}


def _take_arena(size: int, device: Any) -> array:
    """Bytes to save values in: a spare arena that fits well, or new memory."""
    for a in _spare:
        if a.device is device and size <= a.size <= 2 * size:
            _spare[:] = [other for other in _spare if other is not a]
            return a
    return array.allocate(types.uint8, size, device=device, zeroed=False)


def _nothing(dtype: Any, device: Any) -> array:
    """What stands for an array that a kernel does not read."""
    key = (dtype, device.name)
    if key not in _nothings:
        _nothings[key] = array.allocate(dtype, 1, device=device)
    return _nothings[key]


def launch_adjoint(kernel: Any, dim: Any, args: list[Any], adjoints: list[Any], device: Any, block_dim: int) -> None:
    """The backward pass of one launch alone: `adjoints` are the gradients of the arguments, None where there is none.

    Without an adjoint, an array's own `grad` is taken where it has one. The kernel's arrays keep their values. Raises
    LaunchError for a gradient that is laid out unlike its array.
    """
    plan = Plan(kernel, dim, args, device, block_dim)
    given = {key: a.grad for key, a in plan.arrays.items() if a.grad is not None}
    for i, adjoint in enumerate(adjoints[: len(plan.args)]):
        for path, a in arrays_of(adjoint, plan.kinds[i]) if adjoint is not None else ():
            primal = plan.arrays.get((i, path))
            if primal is None or a.shape != primal.shape or a.strides != primal.strides or a.ir_type != primal.ir_type:
                raise LaunchError(kernel.name, f"{plan.name_of((i, path))}.grad", f"{primal!r}", f"{a!r}")
            given[i, path] = a
    made = plan.differentiate(frozenset(given))
    if made.forward is not None:
        kept = [(a, a.numpy().copy()) for a in plan.written]
        plan.forward()
        for a, before in kept:
            a.store(before)
    plan.backward(lambda key: given[key])


gradients.backward = sys.modules[__name__]
