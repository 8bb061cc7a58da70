"""The kernels that `kernels.py` measures: inputs, this engine's code and NumPy's, and the memory each must move."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import engine

N = 1 << 22
SIDE = 1 << 11
NVEC = 1 << 20
NPARTICLE, CELLS = 100_000, 24
RADIUS = 1.0 / CELLS  # 30 neighbours among 195 candidates
TERMS = 16


@engine.kernel
def copy(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    y[i] = x[i]


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
    for _ in range(TERMS):
        s = s * v + 0.3
    y[i] = s


@engine.kernel
def vectors(a: engine.array(dtype=engine.vec3), b: engine.array(dtype=engine.vec3), c: engine.array(dtype=engine.vec3)):
    i = engine.tid()
    c[i] = engine.normalize(engine.cross(a[i], b[i])) + a[i]


@engine.kernel
def matrices(
    a: engine.array(dtype=engine.mat33), b: engine.array(dtype=engine.mat33), c: engine.array(dtype=engine.mat33)
):
    i = engine.tid()
    c[i] = a[i] * b[i]


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


@dataclass(frozen=True)
class Inputs:
    """What all engines are given."""

    x: np.ndarray  # (N,)
    y: np.ndarray  # (N,)
    a3: np.ndarray  # (NVEC, 3)
    b3: np.ndarray  # (NVEC, 3)
    a33: np.ndarray  # (NVEC, 3, 3)
    b33: np.ndarray  # (NVEC, 3, 3)
    particles: np.ndarray  # (NPARTICLE, 3), in the unit box, sorted by cell
    start: np.ndarray  # (CELLS**3 + 1,): first particle of each cell

    @classmethod
    def make(cls, side: int = SIDE, nvec: int = NVEC, nparticle: int = NPARTICLE) -> "Inputs":
        """Random inputs, the same each time; `side`² numbers are in x and y."""
        rng = np.random.default_rng(0)
        x, y = rng.uniform(-3.0, 3.0, (2, side * side)).astype(np.float32)
        a3, b3 = rng.uniform(-3.0, 3.0, (2, nvec, 3)).astype(np.float32)
        a33, b33 = rng.uniform(-3.0, 3.0, (2, nvec, 3, 3)).astype(np.float32)
        particles = rng.uniform(0.0, 1.0, (nparticle, 3)).astype(np.float32)
        cell = (particles * np.float32(CELLS)).astype(np.int32).clip(0, CELLS - 1)
        key = (cell[:, 0] * CELLS + cell[:, 1]) * CELLS + cell[:, 2]
        order = np.argsort(key, kind="stable")
        start = np.searchsorted(key[order], np.arange(CELLS**3 + 1)).astype(np.int32)
        return cls(x, y, a3, b3, a33, b33, particles[order], start)


@dataclass
class Runner:
    """One engine's way to run a case, and the array with its result."""

    run: Callable[[], Any]
    result: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A kernel of this engine, its grid and arguments (the last is the output)."""

    kernel: Any
    dim: Any
    args: list[Any]
    moved: int  # bytes that have to be read and written


def cases(given: Inputs) -> dict[str, Case]:
    """This engine's side of every case, by name."""

    n, nvec, nparticle = len(given.x), len(given.a3), len(given.particles)
    side = math.isqrt(n)

    def flat(values: np.ndarray) -> Any:
        return engine.array(values, dtype=float, device="cpu")

    def square(values: np.ndarray) -> Any:
        return engine.array(values.reshape(side, side), dtype=float, device="cpu")

    def elements(values: np.ndarray, dtype: Any) -> Any:
        return engine.array(values, dtype=dtype, device="cpu")

    vec, mat = engine.vec3, engine.mat33
    mats = [elements(v, mat) for v in (given.a33, given.b33, given.a33)]
    near = [elements(given.particles, vec), elements(given.start, int), RADIUS, flat(np.zeros(nparticle, np.float32))]
    return {
        "copy": Case(copy, n, [flat(given.x), flat(given.y)], 8 * n),
        "saxpy 1-d": Case(saxpy, n, [0.5, flat(given.x), flat(given.y)], 12 * n),
        "saxpy 2-d": Case(saxpy_2d, (side, side), [0.5, square(given.x), square(given.y)], 12 * n),
        "vec3": Case(vectors, nvec, [elements(v, vec) for v in (given.a3, given.b3, given.a3)], 36 * nvec),
        "mat33 * mat33": Case(matrices, nvec, mats, 108 * nvec),
        "sin": Case(sine, n, [flat(given.x), flat(given.y)], 8 * n),
        "sin*exp+sqrt": Case(mixed, n, [flat(given.x), flat(given.y)], 8 * n),
        "Horner": Case(horner, n, [flat(given.x), flat(given.y)], 8 * n),
        "neighbours": Case(neighbours, nparticle, near, 16 * nparticle),
    }  # fmt: skip


def numpy_runners(given: Inputs) -> dict[str, Runner]:
    """The same in NumPy, which has no words for the neighbour loop."""
    x, out, y = given.x, np.empty_like(given.x), given.y.copy()
    c3, c33 = np.empty_like(given.a3), np.empty_like(given.a33)
    half = np.float32(0.5)

    def saxpy() -> None:
        np.multiply(x, half, out=out)
        np.add(out, y, out=y)

    def mixed() -> None:
        np.add(np.sin(x) * np.exp(x), np.sqrt(np.abs(x)), out=out)

    def vectors() -> None:
        c = np.cross(given.a3, given.b3)
        np.add(c / np.linalg.norm(c, axis=1, keepdims=True), given.a3, out=c3)

    def horner() -> None:
        out.fill(0.1)
        for _ in range(TERMS):
            np.multiply(out, x, out=out)
            np.add(out, np.float32(0.3), out=out)

    return {
        "copy": Runner(lambda: np.copyto(out, x), lambda: out),
        "saxpy 1-d": Runner(saxpy, lambda: y),
        "vec3": Runner(vectors, lambda: c3),
        "mat33 * mat33": Runner(lambda: np.matmul(given.a33, given.b33, out=c33), lambda: c33),
        "sin": Runner(lambda: np.sin(x, out=out), lambda: out),
        "sin*exp+sqrt": Runner(mixed, lambda: out),
        "Horner": Runner(horner, lambda: out),
    }
