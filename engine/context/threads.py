"""Runs one grid on several CPU threads, through an OpenMP runtime that is already on the machine.

A *region* is one native function that every worker enters; it claims chunks of the grid with an atomic counter until
none is left. The chunks depend on the grid alone, never on the number of workers, so results cannot depend on it.

    caller ── GOMP_parallel(region, ctx, workers) ──┬─ worker 0: claim, run, claim, run, …
                                                    ├─ worker 1: claim, run, …
                                                    └─ all return: the grid is done

The context block shared by the workers is eight int64 (`REGION_SLOTS`): range function, parameters, grid size, chunk,
next (atomic), mask of the workers that ran a chunk (atomic), address of an int32 count or 0, worker tickets (atomic).

Where no OpenMP runtime is found, or in a child forked after a region ran (the runtime's threads do not survive a fork
and the next region would wait for them forever), the same region runs on a `concurrent.futures` pool.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any

from engine.compiler.emit_replay import CHUNK_MULTIPLE, CHUNKS_PER_GRID

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

REGION_SLOTS = ("range_fn", "params", "size", "chunk", "next", "workers", "count", "tickets")
MAX_WORKERS = 64  # bits in the mask of workers

_OPENMP_NAMES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so", "libomp.dylib")
# Spin this many rounds before sleeping: 0.5 us for back-to-back regions, and next to no idle burn. The runtime's own
# default burns a core for milliseconds, and "passive" costs 35-48 us a region.
_SPIN_COUNT = "2000"

_RegionContext = ctypes.c_int64 * len(REGION_SLOTS)
_region_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def chunk_size(size: int) -> int:
    """Threads per chunk for a grid of `size` threads; a function of the grid alone."""
    per_chunk = -(-size // CHUNKS_PER_GRID)
    return max(CHUNK_MULTIPLE, -(-per_chunk // CHUNK_MULTIPLE) * CHUNK_MULTIPLE)


class WorkerPool:
    """The way this process enters a region: an OpenMP runtime, or a Python pool where there is none."""

    def __init__(self) -> None:
        self.runtime_name = ""
        self.last_workers = 0  # how many workers ran a chunk in the last region, any thread's
        self.generation = 0  # counts changes of how regions are entered
        self._parallel: Any = None
        self._searched = False
        self.entered = False  # a region ran on the OpenMP runtime in this process
        self._pool: ThreadPoolExecutor | None = None
        self._pool_workers = 0
        self._lock = threading.Lock()

    def run(self, region: int, range_fn: int, params: int, size: int, workers: int, count: int = 0) -> None:
        """Run `range_fn` over [0, size), or [0, min(*count, size)) when `count` is the address of an int32.

        `region`, `range_fn`, `params` are addresses. Returns when the whole grid has run.
        """
        context = _RegionContext(range_fn, params, size, chunk_size(size), 0, 0, count, 0)
        if not self._searched:
            self._find_runtime()
        if self._parallel is not None:
            self.entered = True
            self._parallel(region, ctypes.addressof(context), workers, 0)
        else:
            self._run_on_pool(region, ctypes.addressof(context), workers)
        self.last_workers = (context[5] & (2**64 - 1)).bit_count()

    @property
    def parallel_address(self) -> int:
        """Address of `GOMP_parallel`, for native code that enters regions itself; 0 where there is none to be used.

        Whoever enters one sets `entered`.
        """
        if not self._searched:
            self._find_runtime()
        if self._parallel is None:
            return 0
        return ctypes.cast(self._parallel, ctypes.c_void_p).value or 0

    def describe(self) -> str:
        """One line for `engine doctor`: what runs the regions."""
        if not self._searched:
            self._find_runtime()
        if self._parallel is not None:
            return f"{self.runtime_name} (GOMP_parallel)"
        if self.entered:
            return "a Python thread pool (forked child)"
        return "a Python thread pool: no OpenMP runtime found; on Debian or Ubuntu, install the package libgomp1"

    def _find_runtime(self) -> None:
        with self._lock:
            if self._searched:
                return
            self._parallel, self.runtime_name = _load_openmp()
            self._searched = True

    def _run_on_pool(self, region: int, context: int, workers: int) -> None:
        with self._lock:
            if self._pool is None or self._pool_workers < workers - 1:
                if self._pool is not None:
                    self._pool.shutdown(wait=False)  # lets what others submitted finish
                from concurrent.futures import ThreadPoolExecutor  # loads logging: 9 ms

                self._pool = ThreadPoolExecutor(max(1, workers - 1), thread_name_prefix="engine-worker")
                self._pool_workers = workers - 1
            enter = _region_type(region)  # a ctypes call releases the interpreter lock
            others = [self._pool.submit(enter, context) for _ in range(workers - 1)]
        enter(context)
        for other in others:
            # One that has not started has nothing left to do, and waiting for it could wait for another launch.
            if not other.cancel():
                other.result()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()  # it may have been held by a thread that does not exist here
        self._pool, self._pool_workers = None, 0
        if self.entered:
            self.leave_runtime()

    def leave_runtime(self) -> None:
        """Use the Python pool from now on."""
        self._parallel, self._searched = None, True
        self.generation += 1


def _load_openmp() -> tuple[Any, str]:
    """GOMP_parallel of the first OpenMP runtime found and its library's name, or (None, "")."""
    before = os.environ.get("GOMP_SPINCOUNT")
    os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)  # the runtime reads it once, while it is being loaded
    try:
        for name in _OPENMP_NAMES:
            try:
                parallel = ctypes.CDLL(name).GOMP_parallel
            except (OSError, AttributeError):
                continue
            parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            parallel.restype = None
            return parallel, name
    finally:
        if before is None:
            del os.environ["GOMP_SPINCOUNT"]
    return None, ""


pool = WorkerPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool._after_fork_in_child)
