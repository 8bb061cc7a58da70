"""How fast the emulated GPU translates and runs kernels, without and with all checks of a trace.

    python -m benchmarks.emulator [--repeat 3]

Three kernels as GPUs run them: saxpy (memory), neighbours (a loop over a list of neighbours, half of the lanes idle)
and descend (each thread walks down a tree by its own way). One core, processor time; the median of the repetitions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import engine
from engine.compiler.ptx_parser import parse
from engine.compiler.target_warp32 import link_warp, translate
from engine.config import config

N = 1 << 17


@engine.kernel
def saxpy(x: engine.array(dtype=float), y: engine.array(dtype=float), a: float):
    i = engine.tid()
    y[i] = a * x[i] + y[i]


@engine.kernel
def neighbours(x: engine.array(dtype=engine.vec3), first: engine.array(dtype=int), near: engine.array(dtype=int),
               rho: engine.array(dtype=float), h: float):  # fmt: skip
    i = engine.tid()
    total = 0.0
    for k in range(first[i], first[i + 1]):
        d = engine.length(x[i] - x[near[k]]) / h
        if d < 1.0:
            total += (1.0 - d) * (1.0 - d) * (1.0 + 2.0 * d)
    rho[i] = total


@engine.kernel
def descend(value: engine.array(dtype=float), left: engine.array(dtype=int), right: engine.array(dtype=int),
            key: engine.array(dtype=float), leaf: engine.array(dtype=int)):  # fmt: skip
    i = engine.tid()
    node = 0
    while left[node] >= 0:
        if key[i] < value[node]:
            node = left[node]
        else:
            node = right[node]
    leaf[i] = node


def cases() -> dict[str, tuple[Any, list[Any]]]:
    """Name → kernel and arguments."""
    rng = np.random.default_rng(1)

    def on(values: Any, dtype: Any) -> Any:
        return engine.array(values, dtype=dtype, device="emu")

    counts = rng.integers(10, 40, N)
    first = np.concatenate([[0], np.cumsum(counts)])
    near = (np.repeat(np.arange(N), counts) + rng.integers(-50, 50, first[-1])) % N
    depth = 12
    nodes = np.arange((1 << depth + 1) - 1)
    inner = nodes < (1 << depth) - 1
    left, right = np.where(inner, 2 * nodes + 1, -1), np.where(inner, 2 * nodes + 2, -1)
    level = np.floor(np.log2(nodes + 1)).astype(int)
    value = (2 * (nodes + 1 - (1 << level)) + 1) / (1 << level + 1)
    return {
        "saxpy": (saxpy, [on(rng.random(N), float), on(rng.random(N), float), 2.0]),
        "neighbours": (neighbours, [on(rng.random((N, 3)), engine.vec3), on(first, int), on(near, int),
                                    engine.zeros(N, device="emu"), 0.6]),
        "descend": (descend, [on(value, float), on(left, int), on(right, int), on(rng.random(N), float),
                              engine.zeros(N, dtype=int, device="emu")]),
    }  # fmt: skip


def measured(work: Callable[[], None], repeat: int) -> float:
    """Seconds of the processor, the median."""
    times = []
    for _ in range(repeat):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def compiled(ptx: str) -> tuple[int, float, float]:
    """Instructions of a kernel, and the seconds that its translation and its linking take, its forms being known."""
    times = []
    for _ in range(3):
        began = time.process_time()
        with config.scope(kernel_cache=False):
            (code,) = translate(ptx).kernels.values()
            between = time.process_time()
            link_warp(code)
        times.append((between - began, time.process_time() - between))
    (entry,) = parse(ptx).functions.values()
    return sum(not isinstance(item, str) for item in entry.body), *map(min, zip(*times, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    counters = engine.get_device("emu").driver.counters
    print(f"{'kernel':12} {'instructions':>12} {'translate':>10} {'compile':>8} {'plain':>10} {'all checks':>11} lanes")
    for name, (kernel, args) in cases().items():
        engine.launch(kernel, 32, args, device="emu")
        length, translating, compiling = compiled(kernel.code)

        def run(kernel: Any = kernel, args: list[Any] = args) -> None:
            engine.launch(kernel, N, args, device="emu")

        run()
        before, warps = counters.thread_instructions, counters.warp_instructions
        run()
        instructions, warps = counters.thread_instructions - before, counters.warp_instructions - warps
        plain = instructions / measured(run, repeat) / 1e9
        with engine.debug.trace() as report:
            traced = instructions / measured(run, repeat) / 1e9
        assert not report.findings, report.findings
        lanes = instructions / 32 / warps
        print(f"{name:12} {length:12} {1e3 * translating:7.0f} ms {1e3 * compiling:5.0f} ms {plain:6.2f} G/s "
              f"{traced:7.3f} G/s {100 * lanes:4.0f} %")  # fmt: skip


if __name__ == "__main__":
    main()
