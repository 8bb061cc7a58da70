"""The kernels of `kernels.py` for Numba: parallel loops over NumPy arrays, IEEE arithmetic as everywhere here."""

import math

import numba
import numpy as np
from kernel_cases import CELLS, NPARTICLE, RADIUS, SIDE, TERMS, Inputs, Runner
from numba import njit, prange

SINGLE = np.float32


@njit(parallel=True)
def copy(x, y):
    for i in prange(x.size):
        y[i] = x[i]


@njit(parallel=True)
def sine(x, y):
    for i in prange(x.size):
        y[i] = math.sin(x[i])


@njit(parallel=True)
def mixed(x, y):
    for i in prange(x.size):
        v = x[i]
        y[i] = math.sin(v) * math.exp(v) + math.sqrt(abs(v))


@njit(parallel=True)
def saxpy(a, x, y):
    for i in prange(x.size):
        y[i] = a * x[i] + y[i]


@njit(parallel=True)
def saxpy_2d(a, x, y):
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = a * x[i, j] + y[i, j]


@njit(parallel=True)
def horner(x, y):
    for i in prange(x.size):
        v, s = x[i], SINGLE(0.1)
        for _ in range(TERMS):
            s = s * v + SINGLE(0.3)
        y[i] = s


@njit(parallel=True)
def vectors(a, b, c):
    for i in prange(a.shape[0]):
        x = a[i, 1] * b[i, 2] - a[i, 2] * b[i, 1]
        y = a[i, 2] * b[i, 0] - a[i, 0] * b[i, 2]
        z = a[i, 0] * b[i, 1] - a[i, 1] * b[i, 0]
        scale = SINGLE(1.0) / math.sqrt(x * x + y * y + z * z)
        c[i, 0], c[i, 1], c[i, 2] = x * scale + a[i, 0], y * scale + a[i, 1], z * scale + a[i, 2]


@njit(parallel=True)
def matrices(a, b, c):
    for i in prange(a.shape[0]):
        for row in range(3):
            for column in range(3):
                c[i, row, column] = (
                    a[i, row, 0] * b[i, 0, column] + a[i, row, 1] * b[i, 1, column] + a[i, row, 2] * b[i, 2, column]
                )


@njit(parallel=True)
def neighbours(x, start, h, out):
    for i in prange(x.shape[0]):
        p0, p1, p2 = x[i, 0], x[i, 1], x[i, 2]
        cx, cy, cz = int(p0 * SINGLE(CELLS)), int(p1 * SINGLE(CELLS)), int(p2 * SINGLE(CELLS))
        s = SINGLE(0.0)
        for ox in range(max(cx - 1, 0), min(cx + 2, CELLS)):
            for oy in range(max(cy - 1, 0), min(cy + 2, CELLS)):
                row = (ox * CELLS + oy) * CELLS
                for j in range(start[row + max(cz - 1, 0)], start[row + min(cz + 2, CELLS)]):
                    d0, d1, d2 = p0 - x[j, 0], p1 - x[j, 1], p2 - x[j, 2]
                    r2 = d0 * d0 + d1 * d1 + d2 * d2
                    if r2 < h * h:
                        w = h * h - r2
                        s += w * w * w
        out[i] = s


def runners(given: Inputs, threads: int) -> dict[str, Runner]:
    """By case, on `threads` threads."""
    numba.set_num_threads(threads)

    def runner(function, *args):
        return Runner(lambda: function(*args), lambda: args[-1])

    x, y = given.x, given.y
    square, half = x.reshape(SIDE, SIDE), SINGLE(0.5)
    return {
        "copy": runner(copy, x, y.copy()),
        "saxpy 1-d": runner(saxpy, half, x, y.copy()),
        "saxpy 2-d": runner(saxpy_2d, half, square, y.reshape(SIDE, SIDE).copy()),
        "vec3": runner(vectors, given.a3, given.b3, given.a3.copy()),
        "mat33 * mat33": runner(matrices, given.a33, given.b33, given.a33.copy()),
        "sin": runner(sine, x, y.copy()),
        "sin*exp+sqrt": runner(mixed, x, y.copy()),
        "Horner": runner(horner, x, y.copy()),
        "neighbours": runner(neighbours, given.particles, given.start, SINGLE(RADIUS), np.zeros(NPARTICLE, SINGLE)),
    }
