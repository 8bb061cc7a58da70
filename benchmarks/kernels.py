"""Small kernels in both shapes of CPU code, beside NumPy and other compilers that are installed: one run, one thread.

    python benchmarks/kernels.py [--rounds N] [--csv FILE] [NAME ...]

Figures are medians over interleaved rounds, in milliseconds of the calling thread's processor time: on a machine that
others use as well, wall time would measure them. Compiling is not part of a round and is shown by itself. A row says
whether the two shapes agree to the bit.
"""

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import engine
from engine.config import config

N = 1 << 22
SIDE = 1 << 11
NVEC = 1 << 20
NPARTICLE, CELLS, RADIUS = 100_000, 15, 1.0 / 15


@engine.kernel
def sine(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    y[i] = engine.sin(x[i])


@engine.kernel
def mixed(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    v = x[i]
    y[i] = engine.sin(v) * engine.exp(v) + engine.sqrt(engine.abs(v))


@engine.kernel
def saxpy(a: float, x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    y[i] = a * x[i] + y[i]


@engine.kernel
def saxpy_2d(a: float, x: engine.array2d(dtype=float), y: engine.array2d(dtype=float)):
    i, j = engine.tid()
    y[i, j] = a * x[i, j] + y[i, j]


@engine.kernel
def horner(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    v = x[i]
    s = 0.1
    for _ in range(16):
        s = s * v + 0.3
    y[i] = s


@engine.kernel
def vectors(a: engine.array(dtype=engine.vec3), b: engine.array(dtype=engine.vec3), c: engine.array(dtype=engine.vec3)):
    i = engine.tid()
    c[i] = engine.normalize(engine.cross(a[i], b[i])) + a[i]


@engine.kernel
def neighbours(
    x: engine.array(dtype=engine.vec3),
    start: engine.array(dtype=int),
    h: float,
    out: engine.array(dtype=float),
):
    """Cubic kernel sum over the particles of the 27 cells around; particles are sorted by cell, z fastest."""
    i = engine.tid()
    p = x[i]
    cx = int(p[0] * float(CELLS))
    cy = int(p[1] * float(CELLS))
    cz = int(p[2] * float(CELLS))
    s = 0.0
    for ox in range(engine.max(cx - 1, 0), engine.min(cx + 2, CELLS)):
        for oy in range(engine.max(cy - 1, 0), engine.min(cy + 2, CELLS)):
            row = (ox * CELLS + oy) * CELLS
            for j in range(start[row + engine.max(cz - 1, 0)], start[row + engine.min(cz + 2, CELLS)]):
                d = p - x[j]
                r2 = engine.dot(d, d)
                if r2 < h * h:
                    w = h * h - r2
                    s += w * w * w
    out[i] = s


def scattered(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Particles in the unit box sorted by cell, and the first particle of each cell."""
    x = rng.uniform(0.0, 1.0, (NPARTICLE, 3)).astype(np.float32)
    cell = (x * np.float32(CELLS)).astype(np.int32).clip(0, CELLS - 1)
    key = (cell[:, 0] * CELLS + cell[:, 1]) * CELLS + cell[:, 2]
    order = np.argsort(key, kind="stable")
    return x[order], np.searchsorted(key[order], np.arange(CELLS**3 + 1)).astype(np.int32)


@dataclass
class Case:
    """A kernel, its grid and arguments (the last is the output), and the same in NumPy."""

    kernel: Any
    dim: Any
    args: list[Any]
    numpy: Callable[[], Any] | None = None
    times: dict[str, list[float]] = field(default_factory=dict)
    compile_s: dict[str, float] = field(default_factory=dict)
    results: dict[str, bytes] = field(default_factory=dict)


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-3.0, 3.0, (2, N)).astype(np.float32)
    out, a = np.empty_like(x), np.float32(2.0)
    a3, b3 = rng.uniform(-3.0, 3.0, (2, NVEC, 3)).astype(np.float32)
    particles, start = scattered(rng)

    def flat(values: np.ndarray) -> Any:
        return engine.array(values, dtype=float, device="cpu")

    def square(values: np.ndarray) -> Any:
        return engine.array(values.reshape(SIDE, SIDE), dtype=float, device="cpu")

    def vec3(values: np.ndarray) -> Any:
        return engine.array(values, dtype=engine.vec3, device="cpu")

    def numpy_vectors() -> None:
        c = np.cross(a3, b3)
        np.add(c / np.linalg.norm(c, axis=1, keepdims=True), a3)

    def numpy_horner() -> None:
        s = np.full_like(x, 0.1)
        for _ in range(16):
            s *= x
            s += np.float32(0.3)

    return {
        "sin": Case(sine, N, [flat(x), flat(y)], lambda: np.sin(x, out=out)),
        "sin*exp+sqrt": Case(mixed, N, [flat(x), flat(y)], lambda: np.sin(x) * np.exp(x) + np.sqrt(np.abs(x))),
        "saxpy 1-d": Case(saxpy, N, [0.5, flat(x), flat(y)], lambda: np.add(a * x, y, out=out)),
        "saxpy 2-d": Case(saxpy_2d, (SIDE, SIDE), [0.5, square(x), square(y)], lambda: np.add(a * x, y, out=out)),
        "Horner, 16 terms": Case(horner, N, [flat(x), flat(y)], numpy_horner),
        "vec3, 1 M": Case(vectors, NVEC, [vec3(a3), vec3(b3), vec3(a3)], numpy_vectors),
        "neighbours, 100 k": Case(
            neighbours,
            NPARTICLE,
            [
                vec3(particles),
                engine.array(start, dtype=int, device="cpu"),
                RADIUS,
                engine.zeros(NPARTICLE, dtype=float, device="cpu"),
            ],
        ),
    }


SHAPES = ("thread", "lanes", "auto")


def run_case(case: Case, rounds: int) -> None:
    """Compiles the kernel in each shape, then times all in turn, `rounds` times."""
    runners: dict[str, Callable[[], Any]] = {}
    first = case.args[-1].numpy().copy()
    for shape in SHAPES:
        with config.scope(shape=shape):
            case.args[-1].assign(first)
            began = time.thread_time()
            engine.launch(case.kernel, case.dim, case.args, device="cpu", record_cmd=True)
            case.compile_s[shape] = time.thread_time() - began
            engine.launch(case.kernel, case.dim, case.args, device="cpu")
            case.results[shape] = case.args[-1].numpy().tobytes()

    def launched(shape: str) -> Callable[[], None]:
        return lambda: engine.launch(case.kernel, case.dim, case.args, device="cpu")

    for shape in SHAPES:
        runners[shape] = launched(shape)
    if case.numpy:
        runners["numpy"] = case.numpy
    for _ in range(rounds):
        for name, go in runners.items():
            with config.scope(shape=name if name in SHAPES else "auto"):
                if name in SHAPES:
                    engine.launch(case.kernel, case.dim, case.args, device="cpu")  # finds the code of this shape again
                began = time.thread_time()
                go()
                case.times.setdefault(name, []).append(time.thread_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--csv")
    given = parser.parse_args()
    table = cases()
    unknown = [name for name in given.names if name not in table]
    if unknown:
        sys.exit(f"no case '{unknown[0]}'; there are {', '.join(table)}")
    rows = []
    print(f"{'ms, median, 1 thread':22}{'thread':>9}{'lanes':>9}{'auto':>9}{'NumPy':>9}{'gain':>7}  bits   compile s")
    with config.scope(threads=1):
        for name in given.names or table:
            case = table[name]
            run_case(case, given.rounds)
            ms = {who: statistics.median(times) * 1e3 for who, times in case.times.items()}
            same = case.results["thread"] == case.results["lanes"]
            gain = ms["thread"] / ms["lanes"]
            figures = "".join(f"{ms.get(who, float('nan')):9.2f}" for who in (*SHAPES, "numpy"))
            compiled = " ".join(f"{case.compile_s[shape]:.2f}" for shape in ("thread", "lanes"))
            print(f"{name:22}{figures}{gain:6.1f}x  {'equal' if same else 'DIFFER'}  {compiled}")
            rows += [[name, who, f"{value:.4f}"] for who, value in ms.items()]
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            csv.writer(file).writerows([["case", "who", "ms"], *rows])


if __name__ == "__main__":
    main()
