"""Devices by name: what a device offers to arrays and launches, the registry of devices, and the default one.

A device is one file with three parts: its memory (`alloc`, `window`), its programs (`load`: compiled kernel → something
that runs a packed launch) and the device itself (`synchronize`). `device_cpu` is the model.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from engine.compiler import types
from engine.config import config
from engine.context.memory import Block
from engine.errors import DeviceError


class Program(Protocol):
    """A compiled kernel that is loaded on a device. `block` is what `packer` makes of a launch's arguments."""

    entry: int  # what the launch block's header calls the kernel by
    record: int  # address of its fault record, 0 for a kernel without checks

    @property
    def cost(self) -> float:
        """Nanoseconds that a thread takes, as far as known."""

    def run(self, block: bytes, size: int) -> None:
        """Run `size` > 0 threads now."""

    def bind(self, block: bytes, size: int, count: int) -> Callable[[], None]:
        """What runs `size` threads each time, or as many as the int32 at address `count` then says, if fewer."""


class Device(Protocol):
    """What the rest of the engine needs of a device."""

    name: str  # "cpu", "cuda:0", "emu"
    is_cpu: bool  # host code may touch its memory
    is_cuda: bool

    def alloc(self, nbytes: int, zeroed: bool) -> Block:
        """Memory on a 64-byte border."""

    def window(
        self, block: Block, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
    ) -> np.ndarray:
        """The memory as NumPy sees it: without a copy on the host, else a copy."""

    def store(self, block: Block, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype,
              values: Any, part: Any = ...) -> None:  # fmt: skip
        """Set the elements `part` (a NumPy index) of what `window` shows."""

    def write(self, target: Any, values: Any) -> bool:
        """`target[...] = values`, arrays or NumPy values, where the device does it itself; False where it does not."""

    def load(self, kernel: Any, arg_types: tuple[types.Type, ...], dense: tuple[int, ...]) -> tuple[Any, Program]:
        """Compile `kernel` for these argument types and gapless arrays: (compiled kernel, program)."""

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""

    def mark(self) -> Any:
        """A mark behind the work given so far, with the time at which the device comes to it; does not wait."""

    def reached(self, mark: Any) -> bool:
        """Whether the work before the mark is done."""

    def wait(self, mark: Any) -> None:
        """Wait until the work before the mark is done."""

    def elapsed_ns(self, first: Any, second: Any) -> int:
        """Nanoseconds between two marks; waits for both."""


_factories: dict[str, Callable[[], Device]] = {}
_families: dict[str, Callable[[str], Device]] = {}
ALIASES = {"cpu:fast": "cpu", "cpu:precise": "emu", "cpu:trace": "emu:trace"}
_devices: dict[str, Device] = {}


def register_device(name: str, factory: Callable[[], Device]) -> None:
    """Make `name` known; `factory` is called at the first use."""
    _factories[name] = factory


def register_family(kind: str, open_one: Callable[[str], Device]) -> None:
    """Make `kind` and "kind:anything" known; `open_one` is called with the whole name at its first use.

    It raises DeviceError for a device that is not there. `get_devices` lists what was opened.
    """
    _families[kind] = open_one


def get_device(device: str | Device | None = None) -> Device:
    """The device of this name; None is the default one. Raises DeviceError for one that is unknown or unavailable."""
    if device is None:
        return default_device()
    if not isinstance(device, str):
        return device
    found = _devices.get(device)
    return found if found is not None else _open(device)


def _open(name: str) -> Device:
    name = ALIASES.get(name, name)
    kind = name.partition(":")[0]
    if name in _devices:
        return _devices[name]
    if name in _factories:
        return _devices.setdefault(name, _factories[name]())
    if kind in _families:
        opened = _families[kind](name)
        return _devices.setdefault(opened.name, opened)
    known = sorted([*_factories, *_families])
    near = difflib.get_close_matches(name, known, n=1)
    suggestion = f"; did you mean '{near[0]}'?" if near else ""
    raise DeviceError(f"unknown device '{name}'; known devices: {', '.join(known)}{suggestion}")


def default_device() -> Device:
    """The device used where none is named: `config.device`, else the cpu."""
    return get_device(config.device or "cpu")


def get_devices() -> list[Device]:
    """The cpu, and every other device that was used so far."""
    for name in _factories:
        get_device(name)
    return list(_devices.values())
