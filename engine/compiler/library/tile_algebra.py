"""Linear algebra of tiles. Every sum is added in one order, whatever the device and the block.

It is that of the summed index; in triangular systems that in which the unknowns are found.
"""

from engine.compiler.library.intrinsics import each
from engine.compiler.library.primitives import sqrt
from engine.compiler.library.registry import library_function
from engine.compiler.types import int32


@library_function
def real_product(x, y, wide):
    return wide(x) * wide(y)


@library_function
def complex_product(x, y, wide):
    """Vectors of two components as complex numbers."""
    return wide(x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])


@library_function
def multiply(a, b, sums, product, wide):
    """sums += a b. The innermost loop goes along rows; four terms at a time are added to a sum, in their order."""
    whole = int32(a.shape[1] // 4 * 4)
    for i in each(int32(a.shape[0])):
        for inner in range(0, whole, 4):
            x0, x1, x2, x3 = a[i, inner], a[i, inner + 1], a[i, inner + 2], a[i, inner + 3]
            for j in each(int32(b.shape[1])):
                s = sums[i, j] + product(x0, b[inner, j], wide)
                s = s + product(x1, b[inner + 1, j], wide)
                s = s + product(x2, b[inner + 2, j], wide)
                sums[i, j] = s + product(x3, b[inner + 3, j], wide)
        for inner in range(whole, int32(a.shape[1])):
            x = a[i, inner]
            for j in each(int32(b.shape[1])):
                sums[i, j] = sums[i, j] + product(x, b[inner, j], wide)


@library_function
def scale_and_add(sums, out, alpha, beta, narrow):
    """out = alpha sums + beta out; with beta = 0 it does not matter what out holds."""
    for i in each(int32(out.shape[0])):
        for j in each(int32(out.shape[1])):
            if beta == 0.0:
                out[i, j] = narrow(sums[i, j] * alpha)
            else:
                out[i, j] = narrow(sums[i, j] * alpha) + out[i, j] * beta


@library_function
def factorize(a):
    """The lower triangle of a becomes L with a = L Lᵀ, column by column; the part above the diagonal becomes zero.

    A matrix that is not positive definite gives NaN.
    """
    for j in range(int32(a.shape[0])):
        s = a[j, j]
        for inner in range(j):
            s = s - a[j, inner] * a[j, inner]
        pivot = sqrt(s)
        a[j, j] = pivot
        for i in each(j + 1, int32(a.shape[0])):
            t = a[i, j]
            for inner in range(j):
                t = t - a[i, inner] * a[j, inner]
            a[i, j] = t / pivot
            a[j, i] = a.dtype(0.0)


@library_function
def solve_lower(l, y):
    """y becomes the solution x of l x = y for the lower triangle of l; y has a column for each right-hand side.

    Each unknown that is found is taken out of all rows below.
    """
    n = int32(l.shape[0])
    for i in range(n):
        for j in each(int32(y.shape[1])):
            y[i, j] = y[i, j] / l[i, i]
        for below in each(i + 1, n):
            factor = l[below, i]
            for j in each(int32(y.shape[1])):
                y[below, j] = y[below, j] - factor * y[i, j]


@library_function
def solve_upper(u, y):
    """y becomes the solution x of u x = y for the upper triangle of u: from the last unknown to the first."""
    n = int32(u.shape[0])
    for back in range(n):
        i = n - 1 - back
        for j in each(int32(y.shape[1])):
            y[i, j] = y[i, j] / u[i, i]
        for above in each(i):
            factor = u[above, i]
            for j in each(int32(y.shape[1])):
                y[above, j] = y[above, j] - factor * y[i, j]


@library_function
def add_diagonal(a, d):
    """a plus the diagonal matrix of the elements of d, in place."""
    for i in each(int32(d.shape[0])):
        a[i, i] = a[i, i] + d[i]
