"""One launch under each order in which a GPU may run its lanes: what it costs, and whether it gives the same memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.compiler.warp_layout import LANES, NO_FAULT, SCHEDULES
from engine.context.emulator.grid import Run, failure, random_state
from engine.context.emulator.memory import Memory


@dataclass(frozen=True)
class Outcome:
    """What a launch did under a schedule. A kernel without races and float atomics leaves the `same` memory."""

    schedule: str  # "loop-aware", "ipdom" or "random"
    seed: int  # of the random one
    efficiency: float  # share of the lanes that took part in an instruction, on average
    warp_instructions: int
    same: bool  # the memory afterwards is that of the first schedule


def compare(launch: Run, seeds: Sequence[int] = (1, 2)) -> list[Outcome]:
    """The outcome under each schedule, the random one with each seed. Memory is afterwards as it was before.

    Raises DriverFailure for what stops the launch under one of them.
    """
    found: list[Outcome] = []
    before = launch.memory.snapshot()
    wanted = b""
    try:
        for schedule, seed in _orders(seeds):
            function = launch.function.in_form(schedule)
            one = Run(launch.memory, function, launch.grid, launch.block, launch.dynamic, launch.params)
            one.begin(random_state(seed, 0) if schedule == "random" else 0)
            after = one.go()
            if after["fault"] != NO_FAULT:
                raise failure(one, after)
            memory = _digest(launch.memory)
            wanted = wanted or memory
            warps = after["warp_instructions"]
            share = after["thread_instructions"] / (LANES * warps) if warps else 1.0
            found.append(Outcome(schedule, seed, share, warps, memory == wanted))
            launch.memory.restore(before)
    finally:
        launch.memory.restore(before)
    return found


def _orders(seeds: Sequence[int]) -> Iterator[tuple[str, int]]:
    for schedule in SCHEDULES:
        for seed in seeds if schedule == "random" else (0,):
            yield schedule, seed


def _digest(memory: Memory) -> bytes:
    """Tells contents of memory apart."""
    held = hashlib.blake2b()
    for _, data in memory.snapshot():
        held.update(data)
    return held.digest()
