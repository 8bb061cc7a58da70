"""The kernels of `kernels.py` for Taichi, on its CPU back end, over NumPy arrays that it takes without a copy."""

import numpy as np
import taichi as ti
from kernel_cases import CELLS, NPARTICLE, RADIUS, SIDE, TERMS, Inputs, Runner

Array = ti.types.ndarray()
Vectors = ti.types.ndarray(dtype=ti.types.vector(3, ti.f32))
Matrices = ti.types.ndarray(dtype=ti.types.matrix(3, 3, ti.f32))


@ti.kernel
def copy(x: Array, y: Array):
    for i in range(x.shape[0]):
        y[i] = x[i]


@ti.kernel
def sine(x: Array, y: Array):
    for i in range(x.shape[0]):
        y[i] = ti.sin(x[i])


@ti.kernel
def mixed(x: Array, y: Array):
    for i in range(x.shape[0]):
        v = x[i]
        y[i] = ti.sin(v) * ti.exp(v) + ti.sqrt(ti.abs(v))


@ti.kernel
def saxpy(a: ti.f32, x: Array, y: Array):
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]


@ti.kernel
def saxpy_2d(a: ti.f32, x: Array, y: Array):
    for i, j in ti.ndrange(x.shape[0], x.shape[1]):
        y[i, j] = a * x[i, j] + y[i, j]


@ti.kernel
def horner(x: Array, y: Array):
    for i in range(x.shape[0]):
        v, s = x[i], ti.f32(0.1)
        for _ in range(TERMS):
            s = s * v + 0.3
        y[i] = s


@ti.kernel
def vectors(a: Vectors, b: Vectors, c: Vectors):
    for i in range(a.shape[0]):
        c[i] = a[i].cross(b[i]).normalized() + a[i]


@ti.kernel
def matrices(a: Matrices, b: Matrices, c: Matrices):
    for i in range(a.shape[0]):
        c[i] = a[i] @ b[i]


@ti.kernel
def neighbours(x: Vectors, start: Array, h: ti.f32, out: Array):
    for i in range(x.shape[0]):
        p = x[i]
        cx, cy, cz = int(p[0] * CELLS), int(p[1] * CELLS), int(p[2] * CELLS)
        s = 0.0
        for ox in range(max(cx - 1, 0), min(cx + 2, CELLS)):
            for oy in range(max(cy - 1, 0), min(cy + 2, CELLS)):
                row = (ox * CELLS + oy) * CELLS
                for j in range(start[row + max(cz - 1, 0)], start[row + min(cz + 2, CELLS)]):
                    d = p - x[j]
                    r2 = d.dot(d)
                    if r2 < h * h:
                        w = h * h - r2
                        s += w * w * w
        out[i] = s


def runners(given: Inputs, threads: int) -> dict[str, Runner]:
    """By case, on `threads` threads."""
    ti.init(arch=ti.cpu, cpu_max_num_threads=threads, fast_math=False, default_fp=ti.f32, log_level=ti.ERROR)

    def runner(kernel, *args):
        return Runner(lambda: kernel(*args), lambda: args[-1])

    x, y = given.x, given.y
    square = x.reshape(SIDE, SIDE)
    return {
        "copy": runner(copy, x, y.copy()),
        "saxpy 1-d": runner(saxpy, 0.5, x, y.copy()),
        "saxpy 2-d": runner(saxpy_2d, 0.5, square, y.reshape(SIDE, SIDE).copy()),
        "vec3": runner(vectors, given.a3, given.b3, given.a3.copy()),
        "mat33 * mat33": runner(matrices, given.a33, given.b33, given.a33.copy()),
        "sin": runner(sine, x, y.copy()),
        "sin*exp+sqrt": runner(mixed, x, y.copy()),
        "Horner": runner(horner, x, y.copy()),
        "neighbours": runner(neighbours, given.particles, given.start, RADIUS, np.zeros(NPARTICLE, np.float32)),
    }
