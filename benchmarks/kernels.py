"""Small kernels in both shapes of CPU code, beside NumPy, Warp, Numba and Taichi where they are installed.

    python benchmarks/kernels.py [--threads 1 2] [--rounds N] [--csv FILE] [--plot FILE.png] [NAME ...]

Each number of threads has a process of its own, in which all engines take turns; figures are medians over the rounds,
in milliseconds: of processor time for one thread, which other work on the machine hardly changes, and of wall time for
more threads, so let nothing else run then. Before that, every engine runs a case once: that compiles it,
and its result must be this engine's. Compiling is not part of a round and is shown by itself.

`of copy` is the share of the bandwidth that NumPy's copy reaches in the same process. NumPy has one thread, and so has
Warp on a CPU. A row says whether the two shapes agree to the bit.
"""

import argparse
import csv
import importlib.util
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from kernel_cases import Case, Inputs, Runner, cases, numpy_runners

import engine
from engine.config import config

SHAPES = ("thread", "lanes")
ENGINES = ("weft", "thread", "lanes", "numpy", "warp", "numba", "taichi")  # weft: the shape the cost model chooses


def peers(given: Inputs, threads: int) -> dict[str, dict[str, Runner]]:
    """The other engines' runners, by engine and case."""
    found = {"numpy": numpy_runners(given)}
    for name in ("warp", "numba", "taichi"):
        if importlib.util.find_spec(name):
            found[name] = importlib.import_module(f"kernel_{name}").runners(given, threads)
    return found


def shape_runner(case: Case, shape: str) -> Runner:
    """This engine in one shape; the launch is recorded, so that a change of the configuration costs nothing later."""
    args = [*case.args[:-1], engine.clone(case.args[-1])]
    with config.scope(shape=shape):
        command = engine.launch(case.kernel, case.dim, args, device="cpu", record_cmd=True)
    return Runner(command.launch, args[-1].numpy)


def measure(case: Case, others: dict[str, Runner], threads: int, rounds: int) -> dict[str, Any]:
    """One row: medians and best times by engine, seconds to compile, and whether the shapes agree."""
    runners, compiled = {}, {}
    for name, shape in (("thread", "thread"), ("lanes", "lanes"), ("weft", "auto")):
        began = time.process_time()
        runners[name] = shape_runner(case, shape)
        compiled[name] = time.process_time() - began
    runners.update(others)
    results = {}
    for name, runner in runners.items():
        runner.run()
        results[name] = runner.result().copy()
    for name in others:
        flat = results[name].reshape(results["weft"].shape)
        assert np.allclose(flat, results["weft"], rtol=2e-3, atol=2e-4), f"{name} computes something else"
    times: dict[str, list[float]] = {name: [] for name in runners}
    clock = time.process_time if threads == 1 else time.perf_counter
    for _ in range(rounds):
        for name, runner in runners.items():
            began = clock()
            runner.run()
            times[name].append(clock() - began)
    return {
        "ms": {name: statistics.median(seconds) * 1e3 for name, seconds in times.items()},
        "best": {name: min(seconds) * 1e3 for name, seconds in times.items()},
        "equal": results["thread"].tobytes() == results["lanes"].tobytes(),
        "compile_s": compiled,
        "moved": case.moved,
    }


def worker(names: list[str], threads: int, rounds: int) -> dict[str, Any]:
    """All rows with one number of threads; the copy comes first, as the measure of bandwidth."""
    given = Inputs.make()
    others = peers(given, threads)
    table = cases(given)
    rows = {}
    with config.scope(threads=threads, kernel_cache=False):
        for name in dict.fromkeys(["copy", *(names or table)]):
            fitting = {who: runners[name] for who, runners in others.items() if name in runners}
            rows[name] = measure(table[name], fitting, threads, rounds)
    return rows


def in_process(names: list[str], threads: int, rounds: int) -> dict[str, Any]:
    """`worker` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "rows.json")
        options = ["--worker", str(answer), "--threads", str(threads), "--rounds", str(rounds)]
        subprocess.run([sys.executable, __file__, *options, *names], check=True, stdout=sys.stderr)
        return json.loads(answer.read_text())


def show(rows: dict[str, Any], threads: int) -> None:
    present = [who for who in ENGINES if any(who in row["ms"] for row in rows.values())]
    head = "".join(f"{who:>9}" for who in present)
    print(f"\n{f'ms, median, threads={threads}':20}{head}{'x Warp':>8}{'of copy':>8}  bits    compile s")
    copied = rows["copy"]["moved"] / rows["copy"]["ms"]["numpy"]
    for name, row in rows.items():
        ms = row["ms"]
        figures = "".join(f"{ms.get(who, float('nan')):9.2f}" for who in present)
        gain = f"{ms['warp'] / ms['weft']:8.1f}" if "warp" in ms else f"{'':8}"
        share = row["moved"] / ms["weft"] / copied
        compiled = " ".join(f"{row['compile_s'][shape]:.2f}" for shape in SHAPES)
        print(f"{name:20}{figures}{gain}{share:8.0%}  {'equal ' if row['equal'] else 'DIFFER'}  {compiled}")


def plot(measured: dict[int, dict[str, Any]], file: str) -> None:
    """Bars of the time of every engine, relative to this one's, a panel for each number of threads."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(len(measured), 1, figsize=(10, 3.6 * len(measured)), squeeze=False)
    shown = [who for who in ENGINES if who not in SHAPES]
    for panel, (threads, rows) in zip(panels[:, 0], measured.items(), strict=True):
        for k, who in enumerate(shown):
            ratios = [row["ms"].get(who, float("nan")) / row["ms"]["weft"] for row in rows.values()]
            panel.bar(np.arange(len(rows)) + 0.16 * (k - 2), ratios, 0.16, label=who)
        panel.set_xticks(range(len(rows)), rows, fontsize=8)
        panel.set_yscale("log")
        panel.set_ylabel(f"time / ours, threads={threads}")
        panel.grid(axis="y", alpha=0.3)
    panels[0, 0].legend(ncols=len(shown), fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--csv")
    parser.add_argument("--plot")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: the extra 'plot' of the package")
    if given.worker:
        Path(given.worker).write_text(json.dumps(worker(given.names, given.threads[0], given.rounds)))
        return
    measured = {threads: in_process(given.names, threads, given.rounds) for threads in given.threads}
    for threads, rows in measured.items():
        show(rows, threads)
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["threads", "case", "engine", "median_ms", "best_ms", "times_as_fast_as_warp"])
            for threads, rows in measured.items():
                for name, row in rows.items():
                    warp = row["ms"].get("warp", math.nan)
                    out.writerows(
                        [threads, name, who, f"{ms:.4f}", f"{row['best'][who]:.4f}", f"{warp / ms:.2f}"]
                        for who, ms in row["ms"].items()
                    )
    if given.plot:
        plot(measured, given.plot)


if __name__ == "__main__":
    main()
