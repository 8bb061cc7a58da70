"""Decompositions of 2 × 2 and 3 × 3 matrices: singular values, QR, eigenvectors. U and V are rotations.

Singular values come from one-sided Jacobi rotations (Hestenes 1958; Demmel and Veselić 1992 show that they keep even
small singular values accurate): columns of A are turned until they are orthogonal, which makes them the columns of U Σ.
"""

import numpy as np

from engine.compiler.library.constructors import matrix_from_cols, static
from engine.compiler.library.linear import cross, dot
from engine.compiler.library.matrices import eig3
from engine.compiler.library.patterns import RealMat33, RealVec3
from engine.compiler.library.primitives import absolute, copysign, select_max, sqrt
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import AnyFloat, Generic
from engine.compiler.values import vector

RealMat22 = Generic("matrix", AnyFloat, (2, 2), "Mat22")
RealVec2 = Generic("vector", AnyFloat, (2,), "Vec2")

SWEEPS = 12  # quadratic convergence needs 5 or 6


def squared_epsilon(dtype) -> float:
    """The square of the spacing of numbers at 1."""
    return float(np.finfo(np.dtype(dtype)).eps) ** 2


@library_function
def turn_columns(bp, bq, vp, vq):
    """One rotation of two columns of B = A V that makes them orthogonal, the same for V, and whether it was needed."""
    dtype = type(bp[0])
    a, b, g = dot(bp, bp), dot(bq, bq), dot(bp, bq)
    needed = g * g > a * b * static(squared_epsilon(dtype))
    if needed:
        z = (b - a) / (g + g)
        t = copysign(1.0 / (absolute(z) + sqrt(z * z + 1.0)), z)
        c = 1.0 / sqrt(t * t + 1.0)
        s = t * c
        kept = bp
        bp = bp * c - bq * s
        bq = kept * s + bq * c
        kept = vp
        vp = vp * c - vq * s
        vq = kept * s + vq * c
    return bp, bq, vp, vq, needed


@library_function
def longer_first(bp, bq, vp, vq):
    """Exchanges two columns where the second is longer; the sign of one keeps V a rotation."""
    if dot(bq, bq) > dot(bp, bp):
        kept = bp
        bp = bq
        bq = -kept
        kept = vp
        vp = vq
        vq = -kept
    return bp, bq, vp, vq


@library_function
def largest(m):
    """The largest absolute component of a matrix; 1 for the zero matrix."""
    out = absolute(m[0, 0])
    for i in range(len(m)):
        for j in range(len(m[0])):
            out = select_max(absolute(m[i, j]), out)
    return out if out > 0.0 else out + 1.0


@library_function
def perpendicular(u):
    """A unit vector at a right angle to the unit vector u, along the axis that u has least of."""
    x, y, z = absolute(u[0]), absolute(u[1]), absolute(u[2])
    e = type(u)()
    one = type(u[0])(1.0)
    if x <= y and x <= z:
        e[0] = one
    elif y <= z:
        e[1] = one
    else:
        e[2] = one
    w = cross(u, e)
    return w / sqrt(dot(w, w))


@library_function
def frame_of(b0, b1):
    """The rotation whose first column is along b0 and whose second is as far as possible along b1, b0 ≥ b1 ≥ 0 long."""
    dtype = type(b0[0])
    u0 = type(b0)()
    u0[0] = dtype(1.0)
    length = sqrt(dot(b0, b0))
    if length > 0.0:
        u0 = b0 / length
    u1 = b1 - u0 * dot(u0, b1)
    length = sqrt(dot(u1, u1))
    if length > 0.0:
        u1 = u1 / length
        u1 = u1 - u0 * dot(u0, u1)  # again: the first time leaves a rounding error of the size of b1
        length = sqrt(dot(u1, u1))
    if length > 0.5:
        u1 = u1 / length
    else:
        u1 = perpendicular(u0)
    return u0, u1, cross(u0, u1)


@builtin("svd3")
def svd3(A: RealMat33):
    """(U, σ, V) with A = U diag(σ) Vᵀ: rotations, |σ| descending; the last σ is negative where det A is."""
    scale = largest(A)
    m = A / scale
    dtype = type(m[0, 0])
    vec = static(vector(3, dtype))
    b0, b1, b2 = vec(m[0, 0], m[1, 0], m[2, 0]), vec(m[0, 1], m[1, 1], m[2, 1]), vec(m[0, 2], m[1, 2], m[2, 2])
    one, zero = dtype(1.0), dtype(0.0)
    v0, v1, v2 = vec(one, zero, zero), vec(zero, one, zero), vec(zero, zero, one)
    for _ in range(SWEEPS):
        b0, b1, v0, v1, first = turn_columns(b0, b1, v0, v1)
        b0, b2, v0, v2, second = turn_columns(b0, b2, v0, v2)
        b1, b2, v1, v2, third = turn_columns(b1, b2, v1, v2)
        if not (first or second or third):
            break
    b0, b1, v0, v1 = longer_first(b0, b1, v0, v1)
    b0, b2, v0, v2 = longer_first(b0, b2, v0, v2)
    b1, b2, v1, v2 = longer_first(b1, b2, v1, v2)
    v0, v1, v2 = frame_of(v0, v1)
    u0, u1, u2 = frame_of(b0, b1)
    sigma = vec(dot(u0, b0), dot(u1, b1), dot(u2, b2)) * scale
    return matrix_from_cols(u0, u1, u2), sigma, matrix_from_cols(v0, v1, v2)


@builtin("svd3", updates=(1, 2, 3))
def svd3_into(A: RealMat33, U: RealMat33, sigma: RealVec3, V: RealMat33):
    return svd3(A)


@builtin("svd2")
def svd2(A: RealMat22):
    """(U, σ, V) with A = U diag(σ) Vᵀ: rotations, |σ| descending; the last σ is negative where det A is."""
    scale = largest(A)
    m = A / scale
    dtype = type(m[0, 0])
    vec = static(vector(2, dtype))
    one, zero = dtype(1.0), dtype(0.0)
    b0, b1, v0, v1 = vec(m[0, 0], m[1, 0]), vec(m[0, 1], m[1, 1]), vec(one, zero), vec(zero, one)
    for _ in range(SWEEPS):
        b0, b1, v0, v1, needed = turn_columns(b0, b1, v0, v1)
        if not needed:
            break
    b0, b1, v0, v1 = longer_first(b0, b1, v0, v1)
    v0 = v0 / sqrt(dot(v0, v0))
    v1 = vec(-v0[1], v0[0])
    u0, length = vec(one, zero), sqrt(dot(b0, b0))
    if length > 0.0:
        u0 = b0 / length
    u1 = vec(-u0[1], u0[0])
    return matrix_from_cols(u0, u1), vec(dot(u0, b0), dot(u1, b1)) * scale, matrix_from_cols(v0, v1)


@builtin("svd2", updates=(1, 2, 3))
def svd2_into(A: RealMat22, U: RealMat22, sigma: RealVec2, V: RealMat22):
    return svd2(A)


@library_function
def givens(a, b):
    """(c, s) of the rotation that takes (a, b) to (r, 0) with r ≥ 0."""
    c, s = type(a)(1.0), type(a)(0.0)
    large = select_max(absolute(a), absolute(b))
    if large > 0.0:
        x, y = a / large, b / large
        r = sqrt(x * x + y * y)
        c, s = x / r, y / r
    return c, s


@library_function
def turn_rows(m, p: int, q: int, c, s):
    """Rows p and q of a matrix, turned."""
    for j in range(3):
        x, y = m[p, j], m[q, j]
        m[p, j] = c * x + s * y
        m[q, j] = c * y - s * x
    return m


@builtin("qr3")
def qr3(A: RealMat33):
    """(Q, R) with A = Q R: a rotation and an upper triangle, its first two diagonal entries not negative (Givens)."""
    r = type(A)(A)
    dtype = type(A[0, 0])
    qt = type(A)()
    for i in range(3):
        qt[i, i] = dtype(1.0)
    c, s = givens(r[0, 0], r[1, 0])
    r, qt = turn_rows(r, 0, 1, c, s), turn_rows(qt, 0, 1, c, s)
    c, s = givens(r[0, 0], r[2, 0])
    r, qt = turn_rows(r, 0, 2, c, s), turn_rows(qt, 0, 2, c, s)
    c, s = givens(r[1, 1], r[2, 1])
    r, qt = turn_rows(r, 1, 2, c, s), turn_rows(qt, 1, 2, c, s)
    zero = dtype(0.0)
    r[1, 0] = zero
    r[2, 0] = zero
    r[2, 1] = zero
    return matrix_from_cols(qt[0], qt[1], qt[2]), r


@builtin("qr3", updates=(1, 2))
def qr3_into(A: RealMat33, Q: RealMat33, R: RealMat33):
    return qr3(A)


@builtin("eig3", updates=(1, 2))
def eig3_into(A: RealMat33, Q: RealMat33, d: RealVec3):
    return eig3(A)
