"""Launches: run a kernel over a grid now, or record it to be run again.

Flow of `launch(kernel, dim, inputs)`: the kernel's `Launcher` for this device (compiled, loaded, with its packer) →
pack the arguments into a launch block → the program runs it. Only when packing refuses an argument, or a generic kernel
meets new types, are the arguments looked at one by one (`arguments.check`): that finds the launcher, or the error.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, overload

from engine.compiler import types
from engine.compiler.scalarize import dense_stride
from engine.config import config
from engine.context import arguments, gradients, recording
from engine.context import array_views as views
from engine.context.array import array
from engine.context.device import Device, get_device
from engine.context.packer import REFUSALS, make_packer
from engine.context.table import Table
from engine.errors import CaptureError, LaunchError

MAX_THREADS = 2**31 - 1
MAX_BLOCK = 1024


class Helpers(int):
    """Threads of a block that share the work of one thread (`launch_tiled`); 1 for a kernel without work to share."""


@dataclass(frozen=True)
class Indirect:
    """A grid whose size is read on the device when it starts: element 0 of `count`, at most `capacity`."""

    count: array
    capacity: int


def indirect(count: array, capacity: int) -> Indirect:
    """`dim=indirect(count, capacity)`: run as many threads as element 0 of the int32 array `count` says at that moment.

    A count beyond `capacity` runs `capacity` threads, a negative one none. Raises TypeError unless `count` is a
    non-empty int32 array.
    """
    if not isinstance(count, array) or count.element != types.int32 or not count.size:
        raise TypeError(f"indirect needs a non-empty int32 array, got {count!r}")
    return Indirect(count, int(capacity))


class Grid:
    """A checked `dim`: extents (filled up with 1), threads or capacity, and the array that holds the count, or None."""

    __slots__ = ("counter", "extents", "size")

    def __init__(self, extents: tuple[int, int, int, int], size: int, counter: array | None):
        self.extents, self.size, self.counter = extents, size, counter

    @property
    def count(self) -> int:
        """Address of the count, 0 where there is none; read at every packing, since memory may move."""
        return self.counter.ptr if self.counter is not None else 0


class Launcher:
    """One kernel, compiled for some argument types and loaded on one device."""

    __slots__ = ("compiled", "device", "pack", "program", "revision", "run")

    def __init__(self, kernel: Any, arg_types: tuple[types.Type, ...], args: Sequence[Any], dense: tuple[int, ...],
                 device: Device):  # fmt: skip
        self.revision = config.revision
        self.device = device
        self.compiled, self.program = device.load(kernel, arg_types, dense)
        self.run = self.program.run
        exact = [
            type(arg) if isinstance(wanted, types.Generic) and not isinstance(kind, types.Array | types.Table) else None
            for (_, wanted), kind, arg in zip(kernel.params, arg_types, args, strict=True)
        ]
        self.pack = make_packer(arg_types, exact, dense, self.compiled.abi.slots, device, self.program.entry,
                                self.program.record)  # fmt: skip

    def threads(self, block_dim: int) -> int:
        """Threads of a block of the launch."""
        return 1 if block_dim.__class__ is Helpers and not self.compiled.sharing else block_dim


@overload
def launch(kernel: Any, dim: Any, inputs: Sequence[Any] = ..., outputs: Sequence[Any] = ...,
           adj_inputs: Sequence[Any] = ..., adj_outputs: Sequence[Any] = ..., device: Any = ..., stream: Any = ...,
           adjoint: bool = ..., record_tape: bool = ..., *, record_cmd: Literal[True], max_blocks: int = ...,
           block_dim: int = ...) -> Launch: ...  # fmt: skip
@overload
def launch(kernel: Any, dim: Any, inputs: Sequence[Any] = ..., outputs: Sequence[Any] = ...,
           adj_inputs: Sequence[Any] = ..., adj_outputs: Sequence[Any] = ..., device: Any = ..., stream: Any = ...,
           adjoint: bool = ..., record_tape: bool = ..., record_cmd: bool = ..., max_blocks: int = ...,
           block_dim: int = ...) -> Launch | None: ...  # fmt: skip
def launch(kernel: Any, dim: Any, inputs: Sequence[Any] = (), outputs: Sequence[Any] = (),
           adj_inputs: Sequence[Any] = (), adj_outputs: Sequence[Any] = (), device: Any = None, stream: Any = None,
           adjoint: bool = False, record_tape: bool = True, record_cmd: bool = False, max_blocks: int = 0,
           block_dim: int = 256) -> Launch | None:  # fmt: skip
    """Run `kernel` with one thread for each point of a grid.

    dim: number of threads, a tuple of 1 to 4 extents, or `indirect(count, capacity)`; 0 runs nothing.
    inputs, outputs: the kernel's arguments in order; the split is for the reader. device: where to run, None = default.
    stream: order among other work of the device. block_dim: threads of a block.
    record_cmd: run nothing, return a `Launch` to be run again and again.
    adjoint: run the kernel's backward pass instead; adj_inputs and adj_outputs are then the gradients of inputs and
    outputs, None for arguments that have none. record_tape=False hides the launch from the tape that records.

    Raises LaunchError naming the argument for a wrong device, dtype, ndim, layout or count of arguments, an integer
    outside the parameter's range, or 2**31 threads and more.
    """
    if stream is not None:
        if stream.queue is not None:
            with stream.device.using(stream.queue):
                return launch(kernel, dim, inputs, outputs, adj_inputs, adj_outputs, device or stream.device, None,
                              adjoint, record_tape, record_cmd, max_blocks, block_dim)  # fmt: skip
        device = device or stream.device
    if recording.captures and not record_cmd and (capture := recording.current()) is not None:
        if adjoint:
            raise CaptureError("launch(adjoint=True)", "backward passes are not captured")
        capture.launch(kernel, dim, [*inputs, *outputs], device, block_dim)
        return None
    if adjoint and record_cmd:
        recorded = Launch(kernel, device, dim, [*inputs, *outputs], block_dim, adjoint=True)
        for position, value in enumerate([*adj_inputs, *adj_outputs]):
            recorded.set_param(position, value, adjoint=True)
        return recorded
    if adjoint or gradients.watcher is not None:
        taken = _gradient_launch(kernel, dim, inputs, outputs, adj_inputs, adj_outputs, device, adjoint, record_tape,
                                 record_cmd, block_dim)  # fmt: skip
        if taken:
            return None
    launcher = kernel.launchers.get(device)
    if (dim.__class__ is int and 0 < dim <= MAX_THREADS and launcher is not None
            and launcher.revision == config.revision and not record_cmd and block_dim == 256):  # fmt: skip
        try:
            block = launcher.pack(dim, 0, dim, 1, 1, 1, [*inputs, *outputs])
        except REFUSALS:
            pass  # looked at below, one argument at a time
        else:
            launcher.run(block, dim)
            return None
    if record_cmd:
        return Launch(kernel, device, dim, [*inputs, *outputs], block_dim)
    launch_unseen(kernel, dim, [*inputs, *outputs], device, block_dim)
    return None


def _gradient_launch(kernel: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[Any], adj_inputs: Sequence[Any],
                     adj_outputs: Sequence[Any], device: Any, adjoint: bool, record_tape: bool,
                     record_cmd: bool, block_dim: int) -> bool:  # fmt: skip
    """What tapes make of a launch; whether it is done with that."""
    args = [*inputs, *outputs]
    if any(arg is None for arg in args):
        args = arguments.with_missing(kernel, args, get_device(device))
    if adjoint:
        if gradients.backward is None:
            importlib.import_module("engine.context.backward")  # the differentiator, which most programs never need
        gradients.backward.launch_adjoint(kernel, dim, args, [*adj_inputs, *adj_outputs], device, block_dim)
        return True
    return not record_cmd and bool(gradients.watcher.observe(kernel, dim, args, device, record_tape, block_dim))


def launch_unseen(kernel: Any, dim: Any, args: list[Any], device: Any, block_dim: int) -> None:
    """The launch of any grid and any arguments, right or wrong."""
    _check_block(kernel.name, block_dim)
    grid = checked_grid(kernel.name, dim, get_device(device))
    launcher, block, _ = pack_any(kernel, grid, args, device, block_dim)
    if grid.counter is not None:
        launcher.program.bind(block, grid.size, grid.count)()
    elif grid.size:
        launcher.run(block, grid.size)


class Launch:
    """A launch whose arguments are packed: `launch()` runs it again without looking at them.

    It keeps its arguments alive. When a table among them (or the table of a field among them) moves its memory, it
    packs again by itself. New elements of an array are seen, its memory stays; use `set_param` for another array.

    `Launch(kernel, device)` begins without arguments: values are zero until they are set, arrays have to be set before
    it runs. adjoint: run the kernel's backward pass; gradients that are not set are those of the arrays.
    """

    __slots__ = (
        "__weakref__", "_adjoint_args", "_args", "_block_dim", "_device_key", "_dim", "_grid", "_run", "adjoint",
        "device", "kernel",
    )  # fmt: skip

    def __init__(self, kernel: Any, device: Any = None, dim: Any = 0, args: Sequence[Any] | None = None,
                 block_dim: int = 256, adjoint: bool = False):  # fmt: skip
        _check_block(kernel.name, block_dim)
        self.kernel, self.device, self._device_key = kernel, get_device(device), device
        self._block_dim = block_dim
        self._args = arguments.unset(kernel.params) if args is None else list(args)
        self.adjoint, self._adjoint_args = adjoint, [None] * len(self._args)
        self._dim, self._grid = dim, checked_grid(kernel.name, dim, self.device)
        self._changed()

    def launch(self, stream: Any = None) -> None:
        """Run it. A tape that records sees it as any other launch. Raises LaunchError for an array that was not set."""
        if stream is not None and stream.queue is not None:
            with stream.device.using(stream.queue):
                self.launch()
            return
        if recording.captures and (capture := recording.current()) is not None:
            if self.adjoint:
                raise CaptureError("Launch.launch", "backward passes are not captured")
            capture.launch(self.kernel, self._dim, self._args, self._device_key, self._block_dim)
            return
        if self.adjoint:
            given = zip(self._args, self._adjoint_args, strict=True)
            adjoints = [getattr(arg, "grad", None) if adjoint is None else adjoint for arg, adjoint in given]
            gradients.backward.launch_adjoint(self.kernel, self._dim, self._args, adjoints, self._device_key,
                                               self._block_dim)
            return
        watcher = gradients.watcher
        if watcher is None or not watcher.observe(self.kernel, self._dim, self._args, self._device_key, True,
                                                  self._block_dim):
            self._run()

    def set_dim(self, dim: Any) -> None:
        """Change the grid."""
        self._dim, self._grid = dim, checked_grid(self.kernel.name, dim, self.device)
        self._changed()

    def set_param(self, param: str | int, value: Any, adjoint: bool = False) -> None:
        """Change one argument (or its gradient), by name or position.

        Raises LaunchError for an unknown one or an unfit value; the arguments are then those from before.
        """
        names = [name for name, _ in self.kernel.params]
        position = names.index(param) if param in names else param
        if not isinstance(position, int) or not -len(names) <= position < len(names):
            raise LaunchError(self.kernel.name, str(param), f"a parameter ({', '.join(names)})", "no such parameter")
        if adjoint:
            self._adjoint_args[position] = value
            return
        before = self._args[position]
        self._args[position] = value
        try:
            if value is None and before is not None:
                self._pack()  # what was set cannot be taken away again
            self._changed()
        except LaunchError:
            self._args[position] = before
            raise

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """`set_param` by position."""
        self.set_param(index, value, adjoint)

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """`set_param` by name."""
        self.set_param(name, value, adjoint)

    def set_param_at_index_from_ctype(self, index: int, value: Any, adjoint: bool = False) -> None:
        """`set_param` by position; a ctypes number gives its value."""
        self.set_param(index, getattr(value, "value", value), adjoint)

    def set_param_by_name_from_ctype(self, name: str, value: Any, adjoint: bool = False) -> None:
        """`set_param` by name; a ctypes number gives its value."""
        self.set_param(name, getattr(value, "value", value), adjoint)

    def set_params(self, args: Sequence[Any]) -> None:
        """Change all arguments."""
        before, self._args = self._args, list(args)
        try:
            self._changed()
        except LaunchError:
            self._args = before
            raise

    def invalidate(self) -> None:
        """The memory of an argument moved: pack again before the next run."""
        self._run = self._pack_and_run

    def _pack_and_run(self) -> None:
        self._pack()
        self._run()

    def _changed(self) -> None:
        """Pack now, so that an unfit argument is refused where it was given; later, while one is still missing."""
        if self.adjoint or any(arg is None for arg in self._args):
            self._run = self._pack_and_run
            return
        self._pack()
        self._follow_tables()

    def _pack(self) -> None:
        grid = self._grid
        launcher, block, self._args = pack_any(self.kernel, grid, self._args, self._device_key, self._block_dim)
        self._run = launcher.program.bind(block, grid.size, grid.count)

    def _follow_tables(self) -> None:
        for arg in (*self._args, self._grid.counter):
            owner = arg.table() if isinstance(arg, array) and arg.table is not None else arg
            if isinstance(owner, Table):
                owner.dependents.add(self)


def pack_any(kernel: Any, grid: Grid, args: list[Any], key: Any,
             block_dim: int) -> tuple[Launcher, bytes, list[Any]]:  # fmt: skip
    """The launcher for arguments of any kind, the launch block, and the arguments as they were understood.

    `key` is the device as the caller wrote it; the next launch that writes it alike tries this launcher first.
    """
    launcher = kernel.launchers.get(key)
    if launcher is not None and launcher.revision == config.revision:
        try:
            threads = launcher.threads(block_dim)
            return launcher, launcher.pack(grid.size, grid.count, *grid.extents, args, threads), args
        except REFUSALS:
            pass
    device = get_device(key)
    if any(arg is None for arg in args):
        args = arguments.with_missing(kernel, args, device)
    understood, kinds = arguments.check(kernel.name, kernel.params, args, device)
    launcher = find_launcher(kernel, tuple(kinds), understood, device)
    kernel.launchers[key] = launcher
    try:
        threads = launcher.threads(block_dim)
        return launcher, launcher.pack(grid.size, grid.count, *grid.extents, understood, threads), understood
    except REFUSALS as error:
        raise LaunchError(kernel.name, "inputs", "arguments that fit their parameters", str(error)) from error


def find_launcher(kernel: Any, kinds: tuple[types.Type, ...], args: Sequence[Any], device: Device) -> Launcher:
    """The kernel's launcher for these types, compiled when it is new."""
    dense = tuple(i for i, (kind, arg) in enumerate(zip(kinds, args, strict=True)) if is_dense(kind, arg))
    key = (device.name, config.revision, kinds, dense, tuple(map(_python_class, args)))
    launcher = kernel.launchers.get(key)
    if launcher is None:
        launcher = kernel.launchers[key] = Launcher(kernel, kinds, args, dense, device)
    return launcher


def is_dense(kind: types.Type, arg: Any) -> bool:
    """Whether an argument is an array without gaps along its last dimension, which is then a constant of the code."""
    return isinstance(kind, types.Array) and arg.strides[-1] == dense_stride(kind)


def _python_class(arg: Any) -> type | None:
    return None if isinstance(arg, array | Table) else type(arg)


def launch_tiled(kernel: Any, dim: Any, inputs: Sequence[Any] = (), *args: Any, block_dim: int = 256,
                 **options: Any) -> Launch | None:  # fmt: skip
    """Run `kernel` with one block of threads for each point of a grid, so that each block works on tiles of its own.

    dim: number of blocks, or a tuple of 1 to 3 extents. `tid()` gives the indices of the block and then that of the
    thread in its block, which is 0: to the kernel a block is one thread, and `block_dim()` is 1. On a GPU `block_dim`
    threads share its work. All other arguments and the errors are those of `launch`.
    """
    extents = (dim,) if isinstance(dim, int) else tuple(dim) if isinstance(dim, tuple | list) else None
    if extents is None or not 1 <= len(extents) <= 3:
        raise LaunchError(kernel.name, "dim", "the number of blocks, or 1 to 3 extents", repr(dim))
    return launch(kernel, (*extents, 1), inputs, *args, block_dim=Helpers(block_dim), **options)


def _check_block(kernel: str, block_dim: Any) -> None:
    if not isinstance(block_dim, int) or not 1 <= block_dim <= MAX_BLOCK:
        raise LaunchError(kernel, "block_dim", f"an integer from 1 to {MAX_BLOCK}", repr(block_dim))


def checked_grid(kernel: str, dim: Any, device: Device) -> Grid:
    """What a user gave as `dim`, checked."""
    counter = dim.count if isinstance(dim, Indirect) else None
    given = dim.capacity if isinstance(dim, Indirect) else dim
    if counter is not None and counter.device is not device:
        raise LaunchError(kernel, "dim", f"a count on device '{device.name}'", f"one on '{counter.device.name}'")
    try:
        extents = tuple(map(index, given)) if given.__class__ is tuple else views.integers(given)
    except TypeError:
        raise LaunchError(
            kernel, "dim", "an integer, 1 to 4 integers, or indirect(count, capacity)", repr(dim)
        ) from None
    if not 1 <= len(extents) <= 4 or min(extents) < 0:
        raise LaunchError(kernel, "dim", "1 to 4 extents that are not negative", repr(dim))
    size = math.prod(extents)
    if size > MAX_THREADS or max(extents) > MAX_THREADS:
        raise LaunchError(kernel, "dim", "fewer than 2**31 threads", f"{given} = {size}")
    d0, d1, d2, d3 = (*extents, 1, 1, 1)[:4]
    return Grid((d0, d1, d2, d3), size, counter)
