"""Kernels that are right; without their lines marked `# guard`, each of them can fail."""

import engine as wp


@wp.func
def at(x: wp.array(dtype=float), i: int):
    return x[i]


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i < x.shape[0] and i < y.shape[0]:  # guard
        y[i] = a * x[i] + y[i]


@wp.kernel
def early(x: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    if i >= x.shape[0]:  # guard
        return
    x[i] = x[i] + wp.vec3(1.0, 2.0, 3.0)


@wp.kernel
def stencil(u: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0 and i < u.shape[0] - 1 and i < out.shape[0]:  # guard
        out[i] = u[i - 1] - 2.0 * u[i] + u[i + 1]


@wp.kernel
def transpose(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i < a.shape[0] and j < a.shape[1] and j < b.shape[0] and i < b.shape[1]:  # guard
        b[j, i] = a[i, j]


@wp.kernel
def row_sums(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if i < a.shape[0] and i < out.shape[0]:  # guard
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j]
        out[i] = s


@wp.kernel
def windows(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if i >= out.shape[0]:
        return
    for k in range(-2, 3):
        j = i + k
        if j >= 0 and j < x.shape[0]:  # guard
            out[i] += x[j]


@wp.kernel
def histogram(keys: wp.array(dtype=int), bins: wp.array(dtype=int)):
    i = wp.tid()
    if i < keys.shape[0]:  # guard
        if bins.shape[0] > 0:
            b = keys[i]
            if b >= 0 and b < bins.shape[0]:
                wp.atomic_add(bins, b, 1)


@wp.kernel
def reverse(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    n = wp.min(x.shape[0], out.shape[0])
    if i >= n:  # guard
        return
    out[n - 1 - i] = x[i]


@wp.kernel
def called(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if i < x.shape[0]:  # guard
        if i < out.shape[0]:
            out[i] = at(x, i)


@wp.kernel
def wheel(x: wp.array(dtype=int), out: wp.array(dtype=int), n: int):
    i = wp.tid()
    if i >= out.shape[0]:
        return
    if n <= 0 or n > x.shape[0]:  # guard
        return
    out[i] = x[i % n]
