"""Packs the benchmarks for a GPU on another machine, and runs such a pack.

    python -m benchmarks.device pack FILE.zip [--arch sm_80] [--small]
    python -m benchmarks.device run FILE.zip [--out results.json] [--seconds 300] [--only TEXT]

The machine with the GPU needs the pack, Python, NumPy and cuda-bindings: `device_runner.py` in the pack is what `run`
does. Everything is recorded on the cpu, whose bits the GPU has to give.
"""

import argparse
import sys
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import engine
from benchmarks import device_runner
from benchmarks.device_pack import Writer, record_launch, recorded_frame
from benchmarks.kernel_cases import Inputs, cases
from engine.bench.measure import simulation
from engine.bench.recipes import RECIPES

MOST_BYTES = 40 << 20
ROWS = 1 << 16  # random rows of an input; then they repeat, so that large inputs make a small pack
FRAMES = {"pile1000": 90, "large_pyramid": 10, "many_pyramids": 10, "joint_grid": 10, "free_fall_100k": 3}  # before
SMALL = {"pile1000": (2, 40), "joint_grid": (4, 3), "free_fall_100k": (1, 1)}  # (size, frames before)


def inputs(small: bool) -> Inputs:
    """Inputs of the kernels: random for the first rows, which then repeat."""
    if small:
        return Inputs.make(side=16, nvec=64, nparticle=200)
    given = Inputs.make()
    repeated = {name: np.resize(rows[:ROWS], rows.shape) for name, rows in vars(given).items() if len(rows) > 2 * ROWS}
    return replace(given, **{name: rows for name, rows in repeated.items() if name not in ("particles", "start")})


def pack(path: Path, arch: str = "sm_80", small: bool = False, names: Container[str] | None = None) -> dict[str, Any]:
    """Write the pack of all kernels and scenes to a zip file or a folder; what was written, as counts and bytes.

    names: the kernels of `kernel_cases` and the scenes to take; None: all.
    """
    writer = Writer(arch)
    for name, case in cases(inputs(small)).items():
        if names is not None and name not in names:
            continue
        record_launch(writer, name, case.kernel, case.dim, case.args, case.moved)
    for name, recipe in RECIPES.items():
        if (small and name not in SMALL) or (names is not None and name not in names):
            continue
        size, frames = SMALL[name] if small else (recipe.size, FRAMES[name])
        sim = simulation(recipe.scene(size), "cpu")
        for _ in range(frames):
            sim.step()
        with recorded_frame(writer, name):
            sim.step()
    about = {"engine": engine.__version__, "arch": arch, "small": small}
    nbytes = writer.write(path, about)
    return {"kernels": len(writer.kernels), "runs": len(writer.runs), "bytes": nbytes, "left_out": writer.left_out}


def main(arguments: list[str] | None = None) -> int:
    """0: done and right; 1: the pack is too large, or a GPU's results are wrong; 2: no GPU, or a damaged pack."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["run"]:
        return device_runner.main(given[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("command", choices=["pack", "run"])
    parser.add_argument("path", type=Path, help="zip file, or folder")
    parser.add_argument("--arch", default="sm_80", help="architecture that the PTX is for")
    parser.add_argument("--small", action="store_true", help="a few small runs, for a test")
    options = parser.parse_args(given)
    written = pack(options.path, options.arch, options.small)
    print(f"{written['runs']} runs of {written['kernels']} kernels, {written['bytes'] / 2**20:.1f} MiB")
    for name, reason in written["left_out"].items():
        print(f"left out: {name}: {reason}")
    return 1 if written["bytes"] > MOST_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
