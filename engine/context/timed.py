"""The choice between the two shapes of CPU code by the clock: `shape="timed"` of a kernel, or of the configuration.

The first launches that take long enough run one shape and the other in turn, which no result can show: both give the
same bits. After some of each the faster one stays, and the cache remembers it for later runs of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from engine.compiler.cache import KernelCache, digest
from engine.context.program_cpu import CpuProgram

WARM_UP, SAMPLES = 1, 3  # launches of each shape that do not count, and that do
WORTH = 20_000  # nanoseconds: shorter launches say little, and count only after MANY
MANY = 64


class TimedProgram(CpuProgram):
    """The programs of both shapes, by shape, until one has won; then that one.

    Blocks are packed for the first of them: another one's entry is put into a copy.
    """

    def __init__(self, programs: dict[str, CpuProgram], decided: Callable[[str, dict[str, float]], Any]):
        self.programs, self._decided = programs, decided
        first = next(iter(programs.values()))
        self.entry, self.cost, self.launches = first.entry, first.cost, 0
        self.winner: CpuProgram | None = None
        self._times: dict[str, list[float]] = {shape: [] for shape in programs}  # nanoseconds per thread

    def run(self, block: bytes, size: int) -> None:
        """One launch, against the clock until there is a winner."""
        if self.winner is not None:
            self.winner.run(self._packed(self.winner, block), size)
            return
        shapes = list(self.programs)
        shape = shapes[self.launches % len(shapes)]
        self.launches += 1
        program = self.programs[shape]
        packed = self._packed(program, block)
        start = perf_counter_ns()
        program.run(packed, size)
        elapsed = perf_counter_ns() - start
        if elapsed >= WORTH or self.launches > MANY:
            self._times[shape].append(elapsed / size)
            if min(map(len, self._times.values())) == WARM_UP + SAMPLES:
                self._decide()

    def bind(self, block: bytes, size: int, count: int) -> Callable[[], None]:
        if count:
            return self._bind_indirect(block, size, count)
        return lambda: self.run(block, size) if size else None

    def _packed(self, program: CpuProgram, block: bytes) -> bytes:
        return block if program.entry == self.entry else program.entry.to_bytes(8, "little") + block[8:]

    def _decide(self) -> None:
        costs = {shape: float(np.median(times[WARM_UP:])) for shape, times in self._times.items()}
        shape = min(costs, key=lambda name: costs[name])
        self.winner, self.cost = self.programs[shape], costs[shape]
        self._decided(shape, costs)


def load_timed(
    kernel: Any, arg_types: tuple[Any, ...], dense: tuple[int, ...], native: Any
) -> tuple[Any, CpuProgram] | None:
    """A kernel whose shape the clock chooses: (compiled, program). What an earlier run found out holds on.

    None for a kernel with checks: they are there to find errors, not to be fast.
    """
    made = {shape: kernel.compile(arg_types, native, dense, shape) for shape in ("lanes", "thread")}
    if made["thread"].checks:
        return None
    programs = {shape: CpuProgram(compiled.address, native) for shape, compiled in made.items()}
    cache, key = KernelCache(), digest("timed", *[compiled.key for compiled in made.values()])

    def decided(shape: str, costs: dict[str, float]) -> Any:
        figures = ", ".join(f"{name} {cost:.3g} ns" for name, cost in costs.items())
        winner = kernel.compile(arg_types, native, dense, shape)  # is now the one compiled last
        winner.stages.measured = (f"timed, per thread of the grid: {figures}",)
        return winner

    def remember(shape: str, costs: dict[str, float]) -> None:
        cache.put(key, {"shape": shape, "costs": costs}, b"")
        decided(shape, costs)

    entry = cache.get(key)
    if entry is not None:
        shape = entry[0]["shape"]
        return decided(shape, entry[0]["costs"]), programs[shape]
    if made["lanes"].shape == "thread":  # there is no other code for it
        return made["thread"], programs["thread"]
    return made["lanes"], TimedProgram(programs, remember)
