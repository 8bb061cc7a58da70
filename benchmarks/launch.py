"""What a launch costs beside the work: by number of arguments, recorded, and as a node of a graph; Warp beside it.

    python benchmarks/launch.py [--rounds N] [--csv FILE] [--plot FILE]

Figures are medians over interleaved rounds, in microseconds of the calling thread's processor time: on a machine that
others use as well, wall time would measure them. All grids have 16 threads, so that the work is next to nothing.
`--plot` needs matplotlib (`pip install weft-engine[plot]`); Warp is measured where warp-lang is installed.
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from typing import Any

import engine

N = 16
CALLS = 2000  # of a round
NODES = 1000  # of a graph
TARGETS = {"launch, 0 arguments": 1.5, "launch, 4 arguments": 3.0, "launch, 10 arguments": 5.0, "recorded launch": 1.0,
           "graph node": 0.2}  # fmt: skip


def actions(package: Any) -> dict[str, tuple[Callable[[], Any], int]]:
    """(what to call, how many launches that is) by row; `package` is this engine or Warp, whose names are the same."""
    p: Any = package
    floats: Any = p.array(dtype=float)

    @p.kernel
    def none():
        p.tid()

    @p.kernel
    def four(a: floats, b: floats, c: floats, d: floats):
        i = p.tid()
        d[i] = a[i] + b[i] + c[i]

    @p.kernel
    def ten(a: floats, b: floats, c: floats, d: floats, e: floats, s: float, t: float, j: int, k: int, v: p.vec3):
        i = p.tid()
        d[i] = a[i] + b[i] + c[i] + e[i] + s + t + float(j + k) + v[0]

    a, b, c, d, e = (p.zeros(N, dtype=float, device="cpu") for _ in range(5))
    some = [a, b, c, d]
    many = [*some, e, 1.0, 2.0, 3, 4, p.vec3(1.0, 2.0, 3.0)]
    recorded = p.launch(four, dim=N, inputs=some, device="cpu", record_cmd=True)
    p.launch(four, dim=N, inputs=some, device="cpu")
    with p.ScopedCapture(device="cpu") as capture:
        for _ in range(NODES):
            p.launch(four, dim=N, inputs=some, device="cpu")
    graph = capture.graph
    return {
        "launch, 0 arguments": (lambda: p.launch(none, dim=N, device="cpu"), 1),
        "launch, 4 arguments": (lambda: p.launch(four, dim=N, inputs=some, device="cpu"), 1),
        "launch, 10 arguments": (lambda: p.launch(ten, dim=N, inputs=many, device="cpu"), 1),
        "recorded launch": (recorded.launch, 1),
        "graph node": (lambda: p.capture_launch(graph), NODES),
    }


def microseconds(action: Callable[[], Any], launches: int) -> float:
    """Of one launch, over a round."""
    calls = max(1, CALLS // launches)
    began = time.thread_time_ns()
    for _ in range(calls):
        action()
    return (time.thread_time_ns() - began) / (1e3 * calls * launches)


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Medians by row and engine."""
    engines: dict[str, Any] = {"weft": engine}
    try:
        import warp

        warp.config.quiet = True
        engines["warp"] = warp
    except ImportError:
        print("warp-lang is not installed: no comparison")
    tables = {who: actions(package) for who, package in engines.items()}
    times: dict[str, dict[str, list[float]]] = {row: {who: [] for who in engines} for row in TARGETS}
    for turn in range(rounds + 1):
        for row in TARGETS:
            for who, table in tables.items():
                spent = microseconds(*table[row])
                if turn:  # the first round compiles
                    times[row][who].append(spent)
    return {row: {who: statistics.median(found) for who, found in by.items()} for row, by in times.items()}


def plot(rows: dict[str, dict[str, float]], file: str) -> None:
    """Bars of each engine beside the target, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4))
    who = list(next(iter(rows.values())))
    for at, name in enumerate(who):
        axes.bar([i + 0.3 * at for i in range(len(rows))], [row[name] for row in rows.values()], 0.3, label=name)
    for i, target in enumerate(TARGETS.values()):
        label = "target" if i == 0 else None
        axes.hlines(target, i - 0.2, i + 0.3 * len(who) - 0.1, color="black", linestyles="dashed", label=label)
    axes.set_xticks([i + 0.15 * (len(who) - 1) for i in range(len(rows))], list(rows), fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("microseconds")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--csv")
    parser.add_argument("--plot")
    given = parser.parse_args()
    rows = measure(given.rounds)
    print(f"{'us, median':22}{'weft':>8}{'warp':>8}{'target':>8}")
    for row, by in rows.items():
        print(f"{row:22}{by['weft']:8.3f}{by.get('warp', float('nan')):8.3f}{TARGETS[row]:8.1f}")
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            table = [[row, who, f"{value:.4f}"] for row, by in rows.items() for who, value in by.items()]
            csv.writer(file).writerows([["case", "who", "us"], *table])
    if given.plot:
        plot(rows, given.plot)


if __name__ == "__main__":
    main()
