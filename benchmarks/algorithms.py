"""The launched algorithms (sort, scan, sum, compaction, histogram) beside NumPy, and Warp where it is installed.

    python benchmarks/algorithms.py [--sizes 1000000 10000000] [--threads 1 2] [--rounds N] [--json] [--csv FILE]

Medians over interleaved rounds, by the clock and of processor time. With one thread, processor time is compared, which
other processes disturb less; with more, the clock. NumPy and Warp's cpu have one thread. NumPy's row for the sort of
pairs is `argsort(kind="stable")` alone, without moving keys and values along.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import engine
from engine.config import config
from engine.kernels import segments

BINS = 256
Action = tuple[Callable[[], Any], Callable[[], Any]]  # (what comes before, what is timed)


def nothing() -> None:
    pass


class Data:
    """The input of one size; always the same."""

    def __init__(self, n: int):
        rng = np.random.default_rng(0)
        self.n = n
        self.keys = rng.integers(-(2**31), 2**31, n, dtype=np.int32)
        self.wide = rng.integers(0, 2**63, n, dtype=np.int64)
        self.floats = rng.normal(size=n).astype(np.float32)
        self.marks = (self.keys & 1).astype(np.int32)
        self.places = np.arange(n, dtype=np.int32)


def numpy_actions(data: Data) -> dict[str, Action]:
    return {
        "sort pairs, int32 keys": (nothing, lambda: np.argsort(data.keys, kind="stable")),
        "sort pairs, float32 keys": (nothing, lambda: np.argsort(data.floats, kind="stable")),
        "sort pairs, int64 keys": (nothing, lambda: np.argsort(data.wide, kind="stable")),
        "scan, int32": (nothing, lambda: np.cumsum(data.marks, dtype=np.int32)),
        "scan, float32": (nothing, lambda: np.cumsum(data.floats)),
        "sum, float32": (nothing, lambda: np.sum(data.floats)),
        "compaction": (nothing, lambda: np.flatnonzero(data.marks)),
        "histogram": (nothing, lambda: np.histogram(data.floats, BINS, (-4.0, 4.0))),
    }


def shared_actions(package: Any, data: Data) -> dict[str, Action]:
    """What this engine and Warp have under the same names."""
    n, cpu = data.n, {"device": "cpu"}

    def array(values: np.ndarray) -> Any:
        return package.array(values, **cpu)

    def sort(values: np.ndarray) -> Action:
        keys, order = array(np.append(values, values)), array(np.append(data.places, data.places))
        window, order_window = keys.numpy(), order.numpy()

        def before() -> None:
            window[:n], order_window[:n] = values, data.places

        return before, lambda: package.utils.radix_sort_pairs(keys, order, n)

    marks, floats = array(data.marks), array(data.floats)
    sums, float_sums = package.empty_like(marks), package.empty_like(floats)
    total = package.zeros(1, dtype=package.float32, **cpu)
    return {
        "sort pairs, int32 keys": sort(data.keys),
        "sort pairs, float32 keys": sort(data.floats),
        "sort pairs, int64 keys": sort(data.wide),
        "scan, int32": (nothing, lambda: package.utils.array_scan(marks, sums)),
        "scan, float32": (nothing, lambda: package.utils.array_scan(floats, float_sums)),
        "sum, float32": (nothing, lambda: package.utils.array_sum(floats, out=total)),
    }


def own_actions(data: Data) -> dict[str, Action]:
    marks, positions = engine.array(data.marks, device="cpu"), engine.zeros(data.n, dtype=int, device="cpu")
    floats, count = engine.array(data.floats, device="cpu"), engine.zeros(1, dtype=int, device="cpu")
    counts = engine.zeros(BINS, dtype=int, device="cpu")
    return {
        **shared_actions(engine, data),
        "compaction": (nothing, lambda: segments.compact(marks, positions, count, data.n)),
        "histogram": (nothing, lambda: engine.utils.histogram(floats, counts, -4.0, 4.0)),
    }


def measure(n: int, threads: list[int], rounds: int) -> list[dict[str, Any]]:
    """A row for each algorithm and engine."""
    data = Data(n)
    tables = {("numpy", 1): numpy_actions(data)}
    own = own_actions(data)
    for number in threads:
        tables["weft", number] = own
    try:
        import warp

        warp.config.quiet = True
        tables["warp", 1] = shared_actions(warp, data)
    except ImportError:
        pass
    times: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for turn in range(rounds + 1):
        for row in own:
            for (who, number), table in tables.items():
                if row not in table:
                    continue
                before, action = table[row]
                with config.scope(threads=number):
                    before()
                    began, began_cpu = time.perf_counter(), time.process_time()
                    action()
                    spent = time.perf_counter() - began, time.process_time() - began_cpu
                if turn:  # the first round compiles
                    times.setdefault((row, who, number), []).append(spent)
    return [
        {"algorithm": row, "n": n, "engine": who, "threads": number,
         "ms": 1e3 * statistics.median(clock for clock, _ in found),
         "cpu_ms": 1e3 * statistics.median(cpu for _, cpu in found)}
        for (row, who, number), found in times.items()
    ]  # fmt: skip


def show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        same = (r for r in rows if (r["algorithm"], r["n"]) == (row["algorithm"], row["n"]))
        base = next(r for r in same if r["engine"] == "numpy")
        compared = "cpu_ms" if row["threads"] == 1 else "ms"
        print(f"{row['algorithm']:26}{row['n']:>11}  {row['engine']:5} {row['threads']} threads {row['ms']:10.2f} ms "
              f"{row['cpu_ms']:10.2f} cpu {base[compared] / row[compared]:6.1f} times as fast as NumPy")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--csv")
    given = parser.parse_args()
    rows = [row for n in given.sizes for row in measure(n, given.threads, given.rounds)]
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows)
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
