"""Kernels with checks: each launch has a fault record, and raises what it finds there when the kernel is done."""

from __future__ import annotations

import ctypes
import struct
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.compiler.faults import (
    CHECKS,
    FINDING,
    FIRST_COUNT,
    FIRST_DIVISION,
    FIRST_FAILURE,
    NO_THREAD,
    WORDS,
)
from engine.compiler.ir import Op
from engine.context.packer import HEADER_BYTES
from engine.errors import AssertError, BoundsError, CheckError, DivisionWarning, NotFiniteError

if TYPE_CHECKING:
    from engine.compiler.pipeline import Compiled  # needs LLVM, which only a launch does

_EXTENTS = struct.Struct("=4q")
_warned: dict[Any, Any] = {}  # what the warnings module keeps of the warnings that were shown


class FaultRecord:
    """The memory that `engine.compiler.faults` describes."""

    def __init__(self) -> None:
        self.words = (ctypes.c_int64 * WORDS)()
        self.address = ctypes.addressof(self.words)
        self.clear()

    def clear(self) -> None:
        """Forget what was found."""
        ctypes.memset(self.address, 0, ctypes.sizeof(self.words))
        self.words[FIRST_FAILURE] = self.words[FIRST_DIVISION] = NO_THREAD

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return self.words[FIRST_FAILURE] == NO_THREAD and self.words[FIRST_DIVISION] == NO_THREAD

    def count(self, check: str) -> int:
        """How often a check of this kind failed."""
        return int(self.words[FIRST_COUNT + CHECKS.index(check)])

    def finding(self, start: int) -> tuple[int, int, list[int]]:
        """Thread, site and numbers of the finding that begins at a word."""
        thread, site, *values = self.words[start : start + FINDING]
        return thread, site, values


class DeviceFaultRecord(FaultRecord):
    """A record in the memory of a device that the host cannot read; `is_clean` fetches it."""

    def __init__(self, device: Any):
        self._device = device
        self._block = device.alloc(8 * WORDS, zeroed=False)
        super().__init__()
        self.address = self._block.ptr

    def clear(self) -> None:
        self.address = ctypes.addressof(self.words)
        super().clear()
        self.address = self._block.ptr
        self._device.upload(self.address, bytes(self.words), 8 * WORDS)

    @property
    def is_clean(self) -> bool:
        ctypes.memmove(self.words, self._device.download(self.address, 8 * WORDS).tobytes(), 8 * WORDS)
        return super().is_clean


class CheckedProgram:
    """What a device made of a kernel with checks, and its record.

    Launches of it run one at a time, since they share the record.
    """

    def __init__(self, program: Any, compiled: Compiled, record: FaultRecord):
        self.program, self.compiled = program, compiled
        self.entry, self.record = program.entry, record.address
        self._record = record
        self._lock = threading.Lock()

    @property
    def cost(self) -> float:
        """Nanoseconds that a thread takes, as far as known."""
        return float(self.program.cost)

    def run(self, block: bytes, size: int) -> None:
        """Run now. Raises CheckError for the first check that failed; warns of divisions by zero."""
        self._watch(lambda: self.program.run(block, size), block)

    def bind(self, block: bytes, size: int, count: int) -> Callable[[], None]:
        """What runs it again, with the same checks each time."""
        bound = self.program.bind(block, size, count)
        return lambda: self._watch(bound, block)

    def _watch(self, run: Callable[[], None], block: bytes) -> None:
        with self._lock:
            self._record.clear()
            run()
            if self._record.is_clean:
                return
            extents = _EXTENTS.unpack_from(block, HEADER_BYTES)
            division, error = self._division(extents), self._failure(extents)
        if division is not None:
            place, message = division
            # as other warnings, it is shown once for each line by default
            warnings.warn_explicit(message, DivisionWarning, place.attrs["file"], _line(place), registry=_warned)
        if error is not None:
            raise error

    def _division(self, extents: tuple[int, ...]) -> tuple[Op, str] | None:
        """The first division by zero, and what to say of it."""
        thread, site, _ = self._record.finding(FIRST_DIVISION)
        if thread == NO_THREAD:
            return None
        op, times = self.compiled.sites[site], self._record.count("division")
        often = f"{times} times, first in thread" if times > 1 else "in thread"
        where = _shown(_index(thread, extents))
        return op, f"launch of '{self.compiled.name}': an integer divided by zero gave 0, {often} {where}"

    def _failure(self, extents: tuple[int, ...]) -> CheckError | None:
        thread, site, values = self._record.finding(FIRST_FAILURE)
        if thread == NO_THREAD:
            return None
        op = self.compiled.sites[site]
        failed = sum(self._record.count(check) for check in CHECKS if check != "division")
        common: dict[str, Any] = {
            "filename": op.attrs["file"], "lineno": _line(op), "thread": _index(thread, extents),
            "failed": failed,
        }  # fmt: skip
        return _ERRORS[op.attrs["check"]](self.compiled.name, op, values, common)


def _bounds(kernel: str, op: Op, values: list[int], common: dict[str, Any]) -> CheckError:
    index, extent = values[:2]
    if op.attrs["unsigned"]:
        index %= 2**64
    name, dim = op.attrs["array"], op.attrs["dim"]
    reason = f"index {index} is outside '{name}', whose extent along dimension {dim} is {extent}"
    return BoundsError(kernel, reason, argument=name, index=index, extent=extent, dim=dim, **common)


def _assert(kernel: str, op: Op, values: list[int], common: dict[str, Any]) -> CheckError:
    return AssertError(kernel, f"Assertion failed: {op.attrs['function']}: {op.attrs['text']}", **common)


def _finite(kernel: str, op: Op, values: list[int], common: dict[str, Any]) -> CheckError:
    *indices, bits = values[: len(op.operands)]
    (number,) = struct.unpack("=d", struct.pack("=q", bits))
    name = op.attrs["array"]
    reason = f"{number} is stored in '{name}[{', '.join(map(str, indices))}]'"
    return NotFiniteError(kernel, reason, argument=name, index=indices[0], **common)


_ERRORS: dict[str, Callable[[str, Op, list[int], dict[str, Any]], CheckError]] = {
    "bounds": _bounds, "assert": _assert, "finite": _finite,
}  # fmt: skip


def _line(op: Op) -> int:
    return op.loc.line if op.loc else 0


def _index(thread: int, extents: tuple[int, ...]) -> tuple[int, ...]:
    """The thread's index in the grid, which has as many dimensions as extents up to the last above 1."""
    ndim = max((d + 1 for d, extent in enumerate(extents) if extent > 1), default=1)
    index = []
    for extent in reversed(extents[1:ndim]):
        index.append(thread % extent)
        thread //= extent
    return (thread, *reversed(index))


def _shown(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else str(index)
