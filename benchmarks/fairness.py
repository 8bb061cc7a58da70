"""What a second engine process costs the first: a scene in one process, and in two at once, two threads each.

    python benchmarks/fairness.py [--scene pile1000] [--threads 2] [--frames 15] [--rounds 7] [--json] [--csv FILE]

On as many cores as threads, two processes share what one had alone: 2.0 times the time is ideal, and the target is 2.3.
More would mean that workers wait on a core that others could use. Each round times one process alone, the other alone
and both at once, so that what else the machine does falls on all alike; the figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time

SETTLE = 120  # frames before the first measurement: then frames cost about the same
TARGET = 2.3


def child(scene: str, threads: int) -> None:
    """Builds and settles the scene, then steps as many frames as each line of the input says; answers with seconds."""
    from engine.bench.measure import simulation
    from engine.bench.recipes import RECIPES
    from engine.config import config

    config.threads = threads
    recipe = RECIPES[scene]
    sim = simulation(recipe.scene(recipe.size), "cpu")
    for _ in range(SETTLE):
        sim.step()
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            sim.step()
        print(time.perf_counter() - began, time.process_time(), flush=True)


class Process:
    """A child that steps on demand."""

    def __init__(self, scene: str, threads: int):
        command = [sys.executable, __file__, "--child", "--scene", scene, "--threads", str(threads)]
        self.pipe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.spent = 0.0

    def answer(self) -> str:
        assert self.pipe.stdout is not None
        line = self.pipe.stdout.readline()
        if not line:
            raise SystemExit("the child process ended")
        return line

    def start(self, frames: int) -> None:
        assert self.pipe.stdin is not None
        print(frames, file=self.pipe.stdin, flush=True)

    def finish(self) -> tuple[float, float]:
        """(seconds, seconds of processor time) that the frames took."""
        seconds, spent = map(float, self.answer().split())
        before, self.spent = self.spent, spent
        return seconds, spent - before

    def close(self) -> None:
        assert self.pipe.stdin is not None
        self.pipe.stdin.close()
        self.pipe.wait()


def measure(scene: str, threads: int, frames: int, rounds: int) -> dict[str, float]:
    """Milliseconds of a frame, by the clock and of processor time, alone and with another; and how they compare."""
    pair = [Process(scene, threads) for _ in range(2)]
    for process in pair:
        process.answer()
    alone: list[tuple[float, float]] = []
    both: list[tuple[float, float]] = []
    for turn in range(rounds + 1):
        for process in pair:
            process.start(frames)
            found = process.finish()
            if turn:  # the first round only fills in the processor time from before
                alone.append(found)
        for process in pair:
            process.start(frames)
        found_both = [process.finish() for process in pair]
        if turn:
            both.append((max(s for s, _ in found_both), statistics.mean(cpu for _, cpu in found_both)))
    for process in pair:
        process.close()
    each = 1e3 / frames
    row = {
        "alone_ms": each * statistics.median(s for s, _ in alone),
        "both_ms": each * statistics.median(s for s, _ in both),
        "alone_cpu_ms": each * statistics.median(c for _, c in alone),
        "both_cpu_ms": each * statistics.median(c for _, c in both),
    }
    return {**row, "ratio": row["both_ms"] / row["alone_ms"], "cpu_ratio": row["both_cpu_ms"] / row["alone_cpu_ms"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scene", default="pile1000")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--frames", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--csv")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.scene, given.threads)
        return
    row = measure(given.scene, given.threads, given.frames, given.rounds)
    if given.json:
        print(json.dumps(row, indent=1))
    else:
        print(f"{given.scene}, {given.threads} threads: alone {row['alone_ms']:.2f} ms a frame "
              f"({row['alone_cpu_ms']:.2f} of processor time), two at once {row['both_ms']:.2f} "
              f"({row['both_cpu_ms']:.2f}): {row['ratio']:.2f} times, at most {TARGET} wanted")  # fmt: skip
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerow(row)


if __name__ == "__main__":
    main()
