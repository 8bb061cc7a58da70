"""A debugger for kernels: a launch on the emulated GPU that stops at lines of Python, goes on, and goes back.

The kernel is compiled once more with a comment in its PTX for each assignment of a name (`emit_ptx`); here each becomes
a register that a stop can read. A stop is a return of the warp's code, from which it goes on; going back restores the
memory of the device and runs again to the step before, since a launch has one order.
"""

from __future__ import annotations

import ctypes
import linecache
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.compiler.emit_ptx import OBSERVED_MARK
from engine.compiler.kernel import Kernel
from engine.compiler.ptx_parser import SIZES
from engine.compiler.warp_layout import LANES, NO_FAULT, STOPPED, WARP
from engine.config import config
from engine.context.device import get_device
from engine.context.emulator.status import DriverFailure
from engine.context.launch import launch_unseen
from engine.errors import DeviceError

Condition = str | Callable[[dict[str, Any]], Any] | None
NEVER = (1 << 63) - 1
_DTYPES = {
    "bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "bfloat16": "u2", "float32": "f4", "float64": "f8",
}  # fmt: skip
_MARK = re.compile(rf"//\s*{re.escape(OBSERVED_MARK)} (\S+) (\w+) ([^;]+);")


class Stepper:
    """A launch that stops at lines: made by `engine.debug.step`, before it stands at the first line of the first warp.

    A step is a line that a warp of 32 threads comes to, or the part of the warp that takes this way; `position` counts
    them from 1. Warps run one after the other, from barrier to barrier. All values are arrays with one row for each
    of the 32 lanes of the warp that has stopped. Bad accesses raise DeviceError, as in a launch.
    """

    def __init__(self, kernel: Kernel, dim: Any, inputs: Sequence[Any], outputs: Sequence[Any], device: Any,
                 block_dim: int):  # fmt: skip
        from engine.context.emulator import grid, loading

        driver = emulated_driver(device)
        self._driver, self._memory = driver, driver.memory
        args = [*inputs, *outputs]
        launch = caught(_observed(kernel), dim, args, device, block_dim)
        text, self._names = _with_registers(launch.function.module.translation.text)
        module = loading.load(text, driver.arch, self._memory)
        weakref.finalize(self, loading.unload, module, self._memory).atexit = False
        head = kernel.func.source.first_line, kernel.func.source.tree.body[0].lineno
        function = module.functions[launch.function.name].in_form("loop-aware", head)
        self._module, self._code = module, function.code
        self._entry = module.translation.module.functions[function.name]
        self._run = grid.Run(self._memory, function, launch.grid, launch.block, launch.dynamic, launch.params)
        self._own_file = self._code.own_file
        self._launch = launch, args  # what the parameters point to stays for as long as this does
        self._kept = self._memory.snapshot()
        self._flags = np.zeros(len(self._code.stops) + 1, np.uint8)
        self._conditions: dict[int, Any] = {}  # line → compiled condition, a function, or None
        self._hook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64)(self._on_stop)
        self.position = 0
        self.finished = False
        self.name = kernel.name
        self._begin(1)

    # where it stands

    @property
    def file(self) -> str:
        """The file of the line."""
        return self._module.source_of(self._code.stops[self._place])[0]

    @property
    def line(self) -> int:
        """The line that is next for the lanes that are `active`; 0 when the launch is finished."""
        return 0 if self.finished else self._code.stops[self._place][1]

    @property
    def source(self) -> str:
        """The text of the line."""
        return "" if self.finished else linecache.getline(self.file, self.line).strip()

    @property
    def block(self) -> tuple[int, int, int]:
        """Index of the block of threads in the grid."""
        return self._run.place_of(self._run.context()["block"])

    @property
    def warp(self) -> int:
        """Number of the warp in its block."""
        return int(ctypes.c_uint32.from_address(self._warp + WARP["index"]).value)

    @property
    def threads(self) -> np.ndarray:
        """(32,) numbers of the warp's threads in the grid; with `engine.tid()` of one dimension they are its values."""
        first = self._run.context()["block"] * self._run.threads + self.warp * LANES
        return first + np.arange(LANES)

    @property
    def active(self) -> np.ndarray:
        """(32,) the lanes that come to the line."""
        return (self._mask >> np.arange(LANES) & 1).astype(bool)

    @property
    def variables(self) -> dict[str, np.ma.MaskedArray]:
        """What names hold: (32,) arrays, (32, n) for vectors; masked where a lane has no value yet.

        Those of a function that the kernel calls are `function.name`, and hold what its last call gave them.
        """
        parts: dict[str, np.ma.MaskedArray] = {}
        for number, (name, kind) in enumerate(self._names):
            held = self._register(f"%py_{number}")
            dtype = np.dtype(_DTYPES[kind])
            if kind == "bool":
                values = held.astype(bool)
            else:  # small numbers are in the low bytes of their registers
                low = held.view(np.uint8).reshape(LANES, -1)[:, : dtype.itemsize]
                values = np.ascontiguousarray(low).view(dtype)[:, 0]
            parts[name] = np.ma.masked_array(values, ~self._register(f"%has_{number}"))
        return _whole(parts)

    @property
    def registers(self) -> dict[str, np.ndarray]:
        """`variables`, and the bits of each PTX register that was written at some stop: (32,) unsigned numbers."""
        found: dict[str, np.ndarray] = dict(self.variables)
        own = {name: self._register(name) for name in self._code.registers if not name.startswith(("%py_", "%has_"))}
        return {**found, **own}

    def __repr__(self) -> str:
        if self.finished:
            return f"<{self.name}: finished after {self.position} steps>"
        lanes = int(self.active.sum())
        return f"<{self.name}, line {self.line}, {lanes} lanes of warp {self.warp}, block {self.block}: {self.source}>"

    def _register(self, name: str) -> np.ndarray:
        """(32,) a register of the warp, from its file."""
        at = self._code.registers.get(name)
        size = SIZES[self._entry.type_of(name) or "pred"]
        if at is None:  # the code never writes it
            return np.zeros(LANES, f"u{size}" if size else bool)
        if not size:
            bits = ctypes.c_uint32.from_address(self._warp + at).value
            return (bits >> np.arange(LANES) & 1).astype(bool)
        return np.frombuffer(ctypes.string_at(self._warp + at, size * LANES), f"u{size}").copy()

    # going on

    def breakpoint(self, line: int, condition: Condition = None) -> None:
        """Lets `run` stop at a line of the kernel's file, where the condition holds for a lane.

        condition: an expression of Python over the names of the kernel and of what it calls (`function.name`), `thread`
        (number in the grid) and `lane`, or a function that gets them as a dict; a lane where a name has no value yet
        does not count. A second one for the same line takes the place of the first. Raises ValueError for a line that
        has no code.
        """
        places = [place for place, loc in enumerate(self._code.stops) if loc == (self._own_file, line)]
        if not places:
            lines = sorted({loc[1] for loc in self._code.stops if loc[0] == self._own_file})
            raise ValueError(f"line {line} of {self.name} has no code; lines that have: {', '.join(map(str, lines))}")
        compiled = compile(condition, "<condition>", "eval") if isinstance(condition, str) else condition
        self._conditions[line] = compiled
        self._flags[places] = 1

    def clear(self, line: int | None = None) -> None:
        """Takes the breakpoint of a line away, or all of them."""
        for one in [line] if line is not None else list(self._conditions):
            self._conditions.pop(one, None)
            for place, loc in enumerate(self._code.stops):
                if loc == (self._own_file, one):
                    self._flags[place] = 0

    def run(self) -> bool:
        """Goes on to the next breakpoint; False when the launch came to its end."""
        return self._go_on(NEVER, breaks=True)

    def step(self, count: int = 1) -> bool:
        """Goes on by some steps; False when the launch came to its end before."""
        if count < 1:
            raise ValueError(f"a number of steps is at least 1, got {count}")
        return self._go_on(self.position + count, breaks=False)

    def back(self, count: int = 1) -> bool:
        """Goes back by some steps, with the memory of the device as it was then; False if there were not as many."""
        if count < 1:
            raise ValueError(f"a number of steps is at least 1, got {count}")
        goal = self.position - count + (1 if self.finished else 0)
        self._memory.restore(self._kept)
        self._begin(max(goal, 1))
        return goal >= 1

    def _begin(self, goal: int) -> None:
        """From the start to a step."""
        self.finished, self.position = False, 0
        hook = ctypes.cast(self._hook, ctypes.c_void_p).value or 0
        self._run.begin(step_goal=goal, step_flags=self._flags.ctypes.data, step_hook=hook)
        self._breaks, self._goal = False, goal
        self._continue()

    def _go_on(self, goal: int, breaks: bool) -> bool:
        if self.finished:
            return False
        self._breaks, self._goal = breaks, goal
        self._run.set(fault=NO_FAULT, step_goal=goal)
        self._continue()
        return not self.finished

    def _continue(self) -> None:
        from engine.context.emulator import grid

        self._error: Exception | None = None
        with self._driver.lock:
            after = self._run.go()
        if after["fault"] == STOPPED:
            if self._error is not None:
                raise self._error
            return
        self.finished = True
        self.position = after["steps"]
        grid.show_printed(self._run, after)
        if after["fault"] != NO_FAULT:
            raise device_error(self._driver, grid.failure(self._run, after))

    def _on_stop(self, warp: int, mask: int, place: int) -> int:
        """A warp is at a line that was asked for: whether to stop. Machine code is the caller, so nothing is raised."""
        self._warp, self._mask, self._place = warp, mask, place
        self.position = self._run.context()["steps"]
        try:
            return int(self.position >= self._goal or self._breaks and self._is_break())
        except Exception as error:
            self._error = error
            return 1

    def _is_break(self) -> bool:
        loc = self._code.stops[self._place]
        if loc[0] != self._own_file or loc[1] not in self._conditions:
            return False
        condition = self._conditions[loc[1]]
        if condition is None:
            return True
        columns, threads = self.variables, self.threads
        for lane in np.flatnonzero(self.active):
            masked = {name: np.ma.getmaskarray(values)[lane] for name, values in columns.items()}
            names = {name: values[lane] for name, values in columns.items() if not masked[name].any()}
            names |= {"thread": int(threads[lane]), "lane": int(lane)}
            try:
                known = names if callable(condition) else _by_function(names, columns)
                holds = condition(known) if callable(condition) else eval(condition, {"np": np}, known)
            except (NameError, AttributeError) as error:
                function = getattr(getattr(error, "obj", None), "function", "")
                if f"{function}{error.name}" not in columns:
                    raise
                continue
            if holds:
                return True
        return False


class _Names:
    """The names of a function in an expression: `function.name`."""

    def __init__(self, function: str):
        self.function = f"{function}."


def _by_function(names: dict[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Names for an expression of Python: those of functions are attributes of an object that is called as these."""
    found = {name: value for name, value in names.items() if "." not in name}
    for name in columns:
        function, dot, own = name.rpartition(".")
        if dot and isinstance(of := found.setdefault(function, _Names(function)), _Names) and name in names:
            setattr(of, own, names[name])
    return found


def emulated_driver(device: Any) -> Any:
    """The driver of an emulated GPU. Raises ValueError for another device."""
    home: Any = get_device(device)
    driver = getattr(home, "driver", None)
    if not hasattr(driver, "catcher"):
        raise ValueError(f"device '{home.name}' cannot be looked into; emulated GPUs ('emu', 'emu:sm_90') can")
    home.enter()  # what the driver then says of its memory and architecture is of this GPU
    return driver


def device_error(driver: Any, failure: DriverFailure) -> DeviceError:
    """What a launch would raise."""
    code = int(getattr(driver.CUresult, failure.status))
    return DeviceError("cuLaunchKernel", code, f"{failure.status}: {failure.text}")


def caught(kernel: Kernel, dim: Any, args: list[Any], device: Any, block_dim: int) -> Any:
    """A launch that is not run, in the order of the default schedule. Raises ValueError for one without threads."""
    driver = emulated_driver(device)
    memory, found = driver.memory, []

    def catch(launch: Any) -> None:
        if launch.function.code.params_size == 8:  # too many arguments to be passed; their copy goes with the launch
            address = int.from_bytes(launch.params, "little")
            size = memory.find(address).size
            copy = memory.allocate(size).begin
            ctypes.memmove(copy, address, size)
            launch.params = copy.to_bytes(8, "little")
            weakref.finalize(launch, memory.free, copy, ("device",)).atexit = False
        found.append(launch)

    driver.catcher = catch
    try:
        with config.scope(emu_schedule="loop-aware"):
            launch_unseen(kernel, dim, args, device, block_dim)
    finally:
        driver.catcher = None
    if not found:
        raise ValueError(f"a launch of {kernel.name} over {dim} has no threads")
    return found[0]


def _observed(kernel: Kernel) -> Kernel:
    """The kernel with its names in its PTX."""
    if kernel.edited_ptx:
        return kernel
    options = {**kernel.options, "observe": True, "lineinfo": True}
    return Kernel(kernel.fn, kernel.key, kernel.module, options, kernel.shape, kernel.fixed,
                  kernel.func.source.transformers, kernel.front_end)  # fmt: skip


def _with_registers(text: str) -> tuple[str, list[tuple[str, str]]]:
    """PTX in which each name of Python has a register, and the names with their types."""
    names: dict[tuple[str, str], int] = {}

    def assign(match: re.Match[str]) -> str:
        name, kind, register = match.groups()
        number = names.setdefault((name, kind), len(names))
        return f"mov.b{_bits(kind)} %py_{number}, {register}; setp.eq.b32 %has_{number}, 0, 0;"

    text = _MARK.sub(assign, text)
    declared = "".join(
        f"\n.reg .b{_bits(kind)} %py_{number}; .reg .pred %has_{number}; setp.ne.b32 %has_{number}, 0, 0;"
        for (_, kind), number in names.items()
    )
    head, brace, rest = text.partition("\n{")
    kinds = dict(reversed(names))  # a function that is called with several types: the first has the plain name
    shown = [(name if kinds[name] == kind else f"{name}:{kind}", kind) for name, kind in names]
    return head + brace + declared + rest, shown


def _bits(kind: str) -> int:
    """Of the register that the compiler puts a type into."""
    return max(8 * np.dtype(_DTYPES[kind]).itemsize, 32 if kind in ("bool", "int8", "uint8") else 16)


def _whole(parts: Mapping[str, np.ma.MaskedArray]) -> dict[str, np.ma.MaskedArray]:
    """Vectors and matrices in one array: their components are called name.0, name.1, …"""
    found: dict[str, Any] = {}
    for name, values in parts.items():
        whole, dot, index = name.rpartition(".")
        if dot and index.isdigit():
            found.setdefault(whole, []).append(values)
        else:
            found[name] = values
    return {name: np.ma.stack(v, axis=1) if isinstance(v, list) else v for name, v in found.items()}
