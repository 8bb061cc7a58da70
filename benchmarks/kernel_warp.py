"""The kernels of `kernels.py` for NVIDIA Warp, on its CPU device, which runs a kernel on the calling thread."""

import warp as wp
from kernel_cases import CELLS, NPARTICLE, NVEC, RADIUS, SIDE, TERMS, Inputs, N, Runner


@wp.kernel
def copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def sine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def mixed(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    y[i] = wp.sin(v) * wp.exp(v) + wp.sqrt(wp.abs(v))


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def saxpy_2d(a: float, x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = a * x[i, j] + y[i, j]


@wp.kernel
def horner(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    s = float(0.1)  # noqa: UP018, in Warp a variable and not a constant
    for _ in range(TERMS):
        s = s * v + 0.3
    y[i] = s


@wp.kernel
def vectors(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), c: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    c[i] = wp.normalize(wp.cross(a[i], b[i])) + a[i]


@wp.kernel
def matrices(a: wp.array(dtype=wp.mat33), b: wp.array(dtype=wp.mat33), c: wp.array(dtype=wp.mat33)):
    i = wp.tid()
    c[i] = a[i] * b[i]


@wp.kernel
def neighbours(x: wp.array(dtype=wp.vec3), start: wp.array(dtype=int), h: float, out: wp.array(dtype=float)):
    i = wp.tid()
    p = x[i]
    cx = int(p[0] * float(CELLS))
    cy = int(p[1] * float(CELLS))
    cz = int(p[2] * float(CELLS))
    s = float(0.0)  # noqa: UP018
    for ox in range(wp.max(cx - 1, 0), wp.min(cx + 2, CELLS)):
        for oy in range(wp.max(cy - 1, 0), wp.min(cy + 2, CELLS)):
            row = (ox * CELLS + oy) * CELLS
            for j in range(start[row + wp.max(cz - 1, 0)], start[row + wp.min(cz + 2, CELLS)]):
                d = p - x[j]
                r2 = wp.dot(d, d)
                if r2 < h * h:
                    w = h * h - r2
                    s += w * w * w
    out[i] = s


def runners(given: Inputs, threads: int) -> dict[str, Runner]:
    """By case; Warp has one thread whatever `threads` says."""
    wp.config.quiet = True
    wp.init()

    def taken(values, dtype=float):
        return wp.array(values.copy(), dtype=dtype, device="cpu")

    def runner(kernel, dim, *args):
        command = wp.launch(kernel, dim, inputs=list(args), device="cpu", record_cmd=True)
        return Runner(command.launch, args[-1].numpy)

    x, square = taken(given.x), taken(given.x.reshape(SIDE, SIDE))
    a3, b3 = taken(given.a3, wp.vec3), taken(given.b3, wp.vec3)
    a33, b33 = taken(given.a33, wp.mat33), taken(given.b33, wp.mat33)
    near = taken(given.particles, wp.vec3), taken(given.start, int), RADIUS
    return {
        "copy": runner(copy, N, x, taken(given.y)),
        "saxpy 1-d": runner(saxpy, N, 0.5, x, taken(given.y)),
        "saxpy 2-d": runner(saxpy_2d, (SIDE, SIDE), 0.5, square, taken(given.y.reshape(SIDE, SIDE))),
        "vec3": runner(vectors, NVEC, a3, b3, taken(given.a3, wp.vec3)),
        "mat33 * mat33": runner(matrices, NVEC, a33, b33, taken(given.a33, wp.mat33)),
        "sin": runner(sine, N, x, taken(given.y)),
        "sin*exp+sqrt": runner(mixed, N, x, taken(given.y)),
        "Horner": runner(horner, N, x, taken(given.y)),
        "neighbours": runner(neighbours, NPARTICLE, *near, wp.zeros(NPARTICLE, dtype=float, device="cpu")),
    }
