"""Runs launches on the cpu again in every form that their code can have, and compares all memory to the bit.

A form is a shape, a number of threads per vector, and a way to cut the grid:

    reference   what the configuration chooses, run as it always is
    forms       thread | lanes 4 | lanes 8 | lanes 16   ×   whole | pieces from the last to the first | n workers

Memory that the launch can reach is that of its arguments, for a kernel that takes addresses out of memory all there is.
Pieces in descending order are what an unlucky schedule of many workers can come to. Before each form the memory that
the launch can reach gets its old contents back, and at the end that of the reference. Kernels whose results depend on
the order of their threads are left out (`depends_on_order`), so are launches whose memory is not known.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import thread_time
from typing import Any
from unittest import mock

import numpy as np

from engine.compiler.ir import Function
from engine.compiler.kernel import Kernel
from engine.compiler.pipeline import Options, compile_kernel
from engine.compiler.shape import choose
from engine.compiler.target_host import host_target
from engine.compiler.types import Pointer
from engine.config import config
from engine.context import device_cpu, memory
from engine.context.packer import HEADER_BYTES
from engine.context.threads import CHUNK_MULTIPLE, chunk_size, pool

WIDTHS = (4, 8, 16)
LAUNCHES = 2  # of a kernel that are compared, of different sizes
BYTES = 64 << 20  # a launch that can reach more memory is not compared
SECONDS = 1.0  # of the processor; nor is one that takes longer
PIECES = 200  # of CHUNK_MULTIPLE threads; a larger grid is cut as usual

_range = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Form:
    """Width 1 is the thread shape. cut: "whole", "pieces", or a number of workers."""

    width: int
    cut: str | int


ALL = tuple(Form(w, c) for w in (1, *WIDTHS) for c in ("whole", "pieces", 2, 3, 4))


def some(name: str) -> tuple[Form, ...]:
    """A few forms of a kernel; over many kernels all come up."""
    number = zlib.crc32(name.encode())
    return (Form(1, ("whole", "pieces")[number % 2]), Form(WIDTHS[number % 3], ("whole", "pieces")[1 - number % 2]),
            Form(WIDTHS[number % 3], 2 + number % 3))  # fmt: skip


def depends_on_order(fn: Function) -> str:
    """Why the order of its threads shows in the results of a MIR kernel, "" where it does not."""
    used = {v for op in fn.body.walk() for v in op.operands}
    for op in fn.body.walk():
        if op.kind == "print":
            return "it prints"
        if op.kind == "atomic":
            if op.attrs["op"] in ("cas", "exch"):
                return f"atomic {op.attrs['op']}"
            if op.type.is_float and op.attrs["op"] not in ("min", "max"):
                return "atomic sum of floats"
            if op in used:
                return "it uses what an atomic found"
    return ""


def takes_addresses(fn: Function) -> bool:
    """Whether the kernel accesses memory other than that of its arguments."""
    return any(
        op.kind == "int_to_pointer" or op.kind in ("load", "local_load") and isinstance(op.type, Pointer)
        for op in fn.body.walk()
    )


class Oracle:
    """Compares launches while it is `installed`. `compared` and `left_out` (with the reason) tell of which kernels."""

    def __init__(self, forms: Any = some):
        self.forms = forms
        self.compared: Counter[str] = Counter()
        self.left_out: dict[str, str] = {}
        self.passed_over: dict[str, str] = {}  # kernels of which some launch was not compared, and the last reason
        self.widths: Counter[int] = Counter()
        self._blocks: weakref.WeakSet[memory.Block] = weakref.WeakSet()

    @contextmanager
    def installed(self) -> Iterator[Oracle]:
        """Arrays that were made before are not known, and launches with them are not compared."""
        load, init = device_cpu.CpuDevice.load, memory.Block.__init__

        def watched_load(device: Any, kernel: Any, arg_types: Any, dense: Any) -> tuple[Any, Any]:
            compiled, program = load(device, kernel, arg_types, dense)
            if type(program) is not device_cpu.CpuProgram:  # with checks, or against the clock
                return compiled, program
            if not isinstance(kernel, Kernel):  # gradients have one shape, and their sums depend on the order
                return compiled, program
            return compiled, Twins(self, program, compiled, kernel, arg_types, dense)

        def watched_init(block: memory.Block, ptr: int, nbytes: int, owner: Any) -> None:
            init(block, ptr, nbytes, owner)
            if owner is not None:
                self._blocks.add(block)

        with (
            mock.patch.object(device_cpu.CpuDevice, "load", watched_load),
            mock.patch.object(memory.Block, "__init__", watched_init),
            config.scope(graphs=False),
        ):
            yield self

    def memory_at(self, addresses: list[int], everywhere: bool) -> list[np.ndarray] | None:
        """The bytes of all blocks that these addresses lie in, or of all blocks; None where one lies in none."""
        blocks = list(self._blocks)
        found = {b.ptr: b for b in blocks} if everywhere else {}
        for address in addresses:
            inside = [b for b in blocks if b.ptr <= address <= b.ptr + b.nbytes]  # a view may have no elements
            if not inside:
                return None
            found.update((b.ptr, b) for b in inside)
        return [np.ctypeslib.as_array((ctypes.c_uint8 * b.nbytes).from_address(b.ptr)) for b in found.values()]


class Twins:
    """In the place of a `CpuProgram`: runs it, and compares what it did with what the other forms do."""

    record = 0

    def __init__(self, oracle: Oracle, program: Any, compiled: Any, kernel: Any, arg_types: Any, dense: Any):
        self.oracle, self.program, self.compiled = oracle, program, compiled
        self.entry, self.kernel, self.arg_types, self.dense = program.entry, kernel, arg_types, dense
        self.name = f"{kernel.module.name}.{kernel.key}"
        self.sizes: set[int] = set()
        self.codes: dict[int, int] | None = None  # address of the code, by width

    @property
    def cost(self) -> float:
        return float(self.program.cost)

    def run(self, block: bytes, size: int) -> None:
        if size in self.sizes or len(self.sizes) >= LAUNCHES or not self._prepared():
            self.program.run(block, size)
            return
        reachable = self.oracle.memory_at(self._addresses(block), takes_addresses(self.compiled.stages.plain))
        if reachable is None or sum(map(len, reachable)) > BYTES:
            self.oracle.passed_over[self.name] = "memory that is not known" if reachable is None else "much memory"
            self.program.run(block, size)
            return
        before = [part.copy() for part in reachable]
        began = thread_time()
        self.program.run(block, size)
        if thread_time() - began > SECONDS:
            self.oracle.passed_over[self.name] = "it takes long"
            return
        wanted = [part.copy() for part in reachable]
        self.sizes.add(size)
        for form in self.oracle.forms(self.name):
            if form.width not in self.codes:  # type: ignore[operator]
                continue
            for part, old in zip(reachable, before, strict=True):
                part[...] = old
            self._run_as(form, block, size)
            for part, good in zip(reachable, wanted, strict=True):
                assert same_bits(part, good), self._difference(form, size, part, good)
            self.oracle.widths[form.width] += 1
        for part, good in zip(reachable, wanted, strict=True):
            part[...] = good
        self.oracle.compared[self.name] += 1

    def bind(self, block: bytes, size: int, count: int) -> Any:
        if not count:
            return lambda: self.run(block, size) if size else None
        counter = ctypes.c_int32.from_address(count)

        def run_counted() -> None:
            threads = min(counter.value, size)
            if threads > 0:
                self.run(block, threads)

        return run_counted

    def _prepared(self) -> bool:
        """Compiles the forms; whether the kernel can be compared."""
        if self.codes is None:
            self.codes = {}
            fn = self.compiled.stages.plain
            reason = depends_on_order(fn)
            if reason:
                self.oracle.left_out[self.name] = reason
                return False
            options = Options.from_config(self.dense)
            hir = self.kernel.lower(self.arg_types)
            for width in {form.width for form in self.oracle.forms(self.name)}:
                shape = "lanes" if width > 1 else "thread"
                if choose(fn, shape, width).shape == shape:
                    made = compile_kernel(hir, host_target(), replace(options, shape=shape, lanes=width))
                    self.codes[width] = made.address
        return bool(self.codes)

    def _addresses(self, block: bytes) -> list[int]:
        slots = self.compiled.abi.slots
        at = [HEADER_BYTES + slot.offset for slot in slots if isinstance(slot.type, Pointer)]
        return [a for a in (int.from_bytes(block[k : k + 8], "little") for k in at) if a]

    def _run_as(self, form: Form, block: bytes, size: int) -> None:
        code = self.codes[form.width]  # type: ignore[index]
        native = host_target()
        holder = ctypes.c_char_p(block)
        params = (ctypes.c_void_p.from_buffer(holder).value or 0) + HEADER_BYTES
        if isinstance(form.cut, int):
            pool.run(native.region_address, code, params, size, form.cut)
            return
        chunk = size if form.cut == "whole" else chunk_size(size) if size > PIECES * CHUNK_MULTIPLE else CHUNK_MULTIPLE
        call = _range(native.call_address)
        for begin in reversed(range(0, size, chunk)):
            call(code, params, begin, min(begin + chunk, size))

    def _difference(self, form: Form, size: int, part: np.ndarray, good: np.ndarray) -> str:
        at = np.flatnonzero(part != good)
        return (f"{self.name}, {size} threads: {form} differs from the configured shape ({self.compiled.shape}) in "
                f"{len(at)} of {len(part)} bytes, first at byte {at[0]}")  # fmt: skip


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether bytes are equal, where what differs is not the same NaN in another form: that is nobody's promise."""
    if np.array_equal(a, b):
        return True
    for number in (np.float32, np.float64):
        n = len(a) // number().itemsize * number().itemsize
        x, y = a[:n].view(number), b[:n].view(number)
        nan = np.isnan(x) & np.isnan(y)
        whole = f"u{number().itemsize}"
        if np.array_equal(a[n:], b[n:]) and ((x.view(whole) == y.view(whole)) | nan).all():
            return True
    return False


def all_forms(name: str) -> tuple[Form, ...]:
    """Every form, of any kernel."""
    return ALL


def summary(oracle: Oracle) -> list[str]:
    """What was compared, as lines for people."""
    lines = [f"{len(oracle.compared)} kernels compared in {sum(oracle.widths.values())} forms of their code"]
    never = {name: why for name, why in oracle.passed_over.items() if name not in oracle.compared}
    reasons = sorted({**never, **oracle.left_out}.items(), key=lambda item: item[1])
    for reason, names in itertools.groupby(reasons, key=lambda item: item[1]):
        lines.append(f"left out, {reason}: {', '.join(name for name, _ in names)}")
    return lines
