"""The emulated GPUs of this process: their memory, the contexts of threads, and what is handed on to all calls."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.context.emulator import grid, trace
from engine.context.emulator.calls import real
from engine.context.emulator.memory import Memory
from engine.context.emulator.status import DriverFailure

TOTAL_MEMORY = 16 << 30  # bytes; the host's memory is taken only as it is allocated


@dataclass(eq=False)
class Gpu:
    """One GPU. `number` is its ordinal; `arch` is 10 times the compute capability."""

    number: int
    arch: int
    memory: Memory = field(default_factory=lambda: Memory(TOTAL_MEMORY))
    own_trace: trace.Trace | None = None  # of a device whose launches are always traced
    streams: dict[int, Any] = field(default_factory=dict)  # handle 0, 1, 2 → stream
    peers: set[int] = field(default_factory=set)  # GPUs whose memory it was allowed to reach


class Machine:
    """GPUs of the architectures `sm_<arch>`, and the contexts that make one of them current in a thread."""

    def __init__(self, *archs: int):
        self.gpus: list[Gpu] = []
        for arch in archs or (80,):
            self.add_gpu(arch)
        self.counters = grid.Counters()
        self.last_text = ""  # what `cuGetErrorString` adds
        self.catcher: Callable[[grid.Run], None] | None = None  # gets launches instead of running them
        self.lock = threading.RLock()
        self._handles = itertools.count(1)
        self._threads = threading.local()
        self._made_contexts: dict[int, Gpu] = {}  # besides the primary ones, whose handles are ordinals + 1

    def add_gpu(self, arch: int) -> int:
        """One more GPU: its ordinal."""
        self.gpus.append(Gpu(len(self.gpus), arch))
        return len(self.gpus) - 1

    @property
    def _contexts(self) -> list[Any]:
        """The stack of contexts of this thread; the last one is current."""
        if not hasattr(self._threads, "contexts"):
            self._threads.contexts = [real.CUcontext(0)]
        found: list[Any] = self._threads.contexts
        return found

    @property
    def gpu(self) -> Gpu:
        """The GPU of the current context; the first one where there is no context."""
        current = int(self._contexts[-1])
        return self.gpu_of_context(current) if current else self.gpus[0]

    @property
    def memory(self) -> Memory:
        """The memory of the current GPU."""
        return self.gpu.memory

    @property
    def arch(self) -> int:
        """10 times the compute capability of the current GPU."""
        return self.gpu.arch

    def memory_at(self, address: int) -> Memory:
        """The memory that an address lies in: all GPUs share one range of addresses."""
        for gpu in self.gpus:
            if gpu.memory.find(address) is not None:
                return gpu.memory
        return self.memory

    def gpu_of_context(self, context: Any) -> Gpu:
        """The GPU of a context; 0 is the current one."""
        number = int(context or 0)
        if not number:
            return self.gpu
        if number in self._made_contexts:
            return self._made_contexts[number]
        if number > len(self.gpus):
            raise DriverFailure("CUDA_ERROR_INVALID_CONTEXT", "there is no such context")
        return self.gpus[number - 1]

    @staticmethod
    def report_of(gpu: Gpu) -> trace.Trace | None:
        """The trace that launches on a GPU belong to now: of a `with` block, else the GPU's own."""
        return trace.active if trace.active is not None else gpu.own_trace
