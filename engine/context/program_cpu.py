"""A compiled kernel of the cpu device, ready to run: on the caller or on all workers, whichever its cost calls for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from engine.config import config
from engine.context.packer import HEADER_BYTES
from engine.context.threads import CHUNK_MULTIPLE, MAX_WORKERS, chunk_size, pool

# Called with ctypes' own conversion of one bytes object to its address, which is half the price of declared arguments.
_launch_type = ctypes.CFUNCTYPE(None)

# A grid whose work is less than this many nanoseconds runs on the caller: waking the workers costs about as much.
REGION_PAYS = 30_000
# Until a kernel was timed, a thread of it is taken to cost this many nanoseconds.
UNKNOWN_COST = 20.0
# A kernel on the caller is timed at its first two launches and then at every 32nd: two clock readings cost 80 ns.
_TIMED_FIRST, _TIMED_MASK = 2, 31
_CALL_COST, _REGION_COST = 600, 4_000  # nanoseconds that entering takes, not the kernel


class CpuProgram:
    """A compiled kernel in this process. Its cost per thread is measured to choose between the caller and the workers.

    The choice never shows in the results: what a thread computes does not depend on who runs it.
    """

    record = 0

    def __init__(self, entry: int, native: Any):
        self.entry = entry
        self.cost = UNKNOWN_COST  # nanoseconds per thread
        self.launches = 0
        self._call = _launch_type(native.launch_address)
        self._region = native.region_address

    def run(self, block: bytes, size: int) -> None:
        if size * self.cost < REGION_PAYS:
            self.launches = launches = self.launches + 1
            if launches & _TIMED_MASK and launches > _TIMED_FIRST:
                self._call(block)
            else:
                self._run_timed(block, size)
        elif size <= CHUNK_MULTIPLE or config.threads == 1:
            self._run_timed(block, size)
        else:
            self.run_region(block, size, config.threads)

    def _run_timed(self, block: bytes, size: int) -> None:
        start = perf_counter_ns()
        self._call(block)
        self._learn((perf_counter_ns() - start - _CALL_COST) / size)

    def run_region(self, block: bytes, size: int, workers: int) -> None:
        """Run `size` threads on up to `workers` threads, whatever it costs."""
        workers = min(workers, MAX_WORKERS, -(-size // chunk_size(size)))
        holder = ctypes.c_char_p(block)
        params = (ctypes.c_void_p.from_buffer(holder).value or 0) + HEADER_BYTES
        start = perf_counter_ns()
        pool.run(self._region, self.entry, params, size, workers)
        # downwards only: where the processors are busy elsewhere a region waits for its workers, and a kernel that
        # looks dear because it waited would be spread again and wait again
        self.cost = min(self.cost, max((perf_counter_ns() - start - _REGION_COST) * workers / size, 0.0))

    def _learn(self, cost: float) -> None:
        """Take over a measured cost; upwards only step by step, since a run that was interrupted looks expensive."""
        self.cost = min(max(cost, 0.0), 2.0 * self.cost + 1.0)

    def bind(self, block: bytes, size: int, count: int) -> Callable[[], None]:
        if count:
            return self._bind_indirect(block, size, count)
        if not size:
            return _nothing
        call, address, launches = self._call, ctypes.c_char_p(block), 0

        def run_again() -> None:
            nonlocal launches
            launches += 1
            if launches & _TIMED_MASK and size * self.cost < REGION_PAYS:
                call(address)
            else:
                self.run(block, size)

        return run_again

    def _bind_indirect(self, block: bytes, capacity: int, count: int) -> Callable[[], None]:
        counter, run = ctypes.c_int32.from_address(count), self.run

        def run_counted() -> None:
            size = min(counter.value, capacity)
            if size > 0:
                run(block, size)

        return run_counted


def _nothing() -> None:
    pass
