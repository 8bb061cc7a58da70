"""Matrices: products, parts, determinant, inverse, eigenvectors of symmetric ones."""

from engine.compiler.library.constructors import matrix_from_cols, matrix_from_rows
from engine.compiler.library.linear import cross, dot3
from engine.compiler.library.patterns import Mat, Mat22, Mat33, Mat44, OtherMat, RealMat33, Vec, Vec3
from engine.compiler.library.primitives import absolute, copysign, sqrt
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.values import matrix, vector

# --- products -----------------------------------------------------------------------------------------------------


@builtin("mul_mat_vec")
def mul_mat_vec(m: Mat, v: Vec):
    """m v."""
    rows, dtype = len(m), type(m[0, 0])
    out = vector(rows, dtype)()
    for i in range(len(m)):
        s = m[i, 0] * v[0]
        for j in range(1, len(v)):
            s = s + m[i, j] * v[j]
        out[i] = s
    return out


@builtin("mul_vec_mat")
def mul_vec_mat(v: Vec, m: Mat):
    """vᵀ m."""
    out = type(m[0])()
    for j in range(len(m[0])):
        s = v[0] * m[0, j]
        for i in range(1, len(v)):
            s = s + v[i] * m[i, j]
        out[j] = s
    return out


@builtin("mul_mat_mat")
def mul_mat_mat(a: Mat, b: OtherMat):
    """a b."""
    rows, cols, dtype = len(a), len(b[0]), type(a[0, 0])
    out = matrix((rows, cols), dtype)()
    for i in range(len(a)):
        for j in range(len(b[0])):
            s = a[i, 0] * b[0, j]
            for r in range(1, len(a[0])):
                s = s + a[i, r] * b[r, j]
            out[i, j] = s
    return out


@builtin("ddot")
def ddot(a: Mat, b: Mat):
    """Sum of the products by component."""
    s = a[0, 0] * b[0, 0]
    for i in range(len(a)):
        for j in range(len(a[0])):
            if i + j > 0:
                s = s + a[i, j] * b[i, j]
    return s


@builtin("cw_mul")
def cw_mul_mat(a: Mat, b: Mat):
    out = type(a)()
    for i in range(len(a)):
        for j in range(len(a[0])):
            out[i, j] = a[i, j] * b[i, j]
    return out


@builtin("cw_div")
def cw_div_mat(a: Mat, b: Mat):
    out = type(a)()
    for i in range(len(a)):
        for j in range(len(a[0])):
            out[i, j] = a[i, j] / b[i, j]
    return out


# --- parts and construction ---------------------------------------------------------------------------------------


@builtin("transpose")
def transpose(a: Mat):
    """Rows become columns."""
    rows, cols, dtype = len(a[0]), len(a), type(a[0, 0])
    out = matrix((rows, cols), dtype)()
    for i in range(len(a)):
        for j in range(len(a[0])):
            out[j, i] = a[i, j]
    return out


@builtin("diag")
def diag(vec: Vec):
    """Diagonal matrix."""
    n, dtype = len(vec), type(vec[0])
    out = matrix((n, n), dtype)()
    for i in range(len(vec)):
        out[i, i] = vec[i]
    return out


@builtin("get_diag")
def get_diag(mat: Mat):
    """The diagonal of a square matrix as a vector."""
    out = type(mat[0])()
    for i in range(len(mat)):
        out[i] = mat[i, i]
    return out


@builtin("trace")
def trace(a: Mat):
    """Sum of the diagonal of a square matrix."""
    s = a[0, 0]
    for i in range(1, len(a)):
        s = s + a[i, i]
    return s


@builtin("skew")
def skew(vec: Vec3):
    """The matrix S with S x = vec × x."""
    z = type(vec[0])(0)
    return matrix_from_rows(type(vec)(z, -vec.z, vec.y), type(vec)(vec.z, z, -vec.x), type(vec)(-vec.y, vec.x, z))


# --- determinant and inverse --------------------------------------------------------------------------------------


@builtin("determinant")
def determinant2(a: Mat22):
    """Determinant of a 2 × 2, 3 × 3 or 4 × 4 matrix."""
    return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]


@builtin("determinant")
def determinant3(a: Mat33):
    return dot3(a[0], cross(a[1], a[2]))


@library_function
def minors(a, b):
    """The six 2 × 2 determinants of columns (01, 02, 03, 12, 13, 23) of two rows of four."""
    return (
        a[0] * b[1] - b[0] * a[1],
        a[0] * b[2] - b[0] * a[2],
        a[0] * b[3] - b[0] * a[3],
        a[1] * b[2] - b[1] * a[2],
        a[1] * b[3] - b[1] * a[3],
        a[2] * b[3] - b[2] * a[3],
    )


@builtin("determinant")
def determinant4(a: Mat44):
    s0, s1, s2, s3, s4, s5 = minors(a[0], a[1])
    c0, c1, c2, c3, c4, c5 = minors(a[2], a[3])
    return s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0


@builtin("inverse")
def inverse2(a: Mat22):
    """Inverse of a 2 × 2, 3 × 3 or 4 × 4 matrix; the zero matrix where the determinant is zero."""
    d = determinant2(a)
    if d == 0.0:
        return type(a)()
    v = type(a[0])
    return matrix_from_rows(v(a[1, 1], -a[0, 1]) / d, v(-a[1, 0], a[0, 0]) / d)


@builtin("inverse")
def inverse3(a: Mat33):
    c0 = cross(a[1], a[2])
    c1 = cross(a[2], a[0])
    c2 = cross(a[0], a[1])
    d = dot3(a[0], c0)
    if d == 0.0:
        return type(a)()
    return matrix_from_cols(c0 / d, c1 / d, c2 / d)


@builtin("inverse")
def inverse4(a: Mat44):
    s0, s1, s2, s3, s4, s5 = minors(a[0], a[1])
    c0, c1, c2, c3, c4, c5 = minors(a[2], a[3])
    d = s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0
    if d == 0.0:
        return type(a)()
    v = type(a[0])
    r0 = v(
        a[1, 1] * c5 - a[1, 2] * c4 + a[1, 3] * c3,
        -a[0, 1] * c5 + a[0, 2] * c4 - a[0, 3] * c3,
        a[3, 1] * s5 - a[3, 2] * s4 + a[3, 3] * s3,
        -a[2, 1] * s5 + a[2, 2] * s4 - a[2, 3] * s3,
    )
    r1 = v(
        -a[1, 0] * c5 + a[1, 2] * c2 - a[1, 3] * c1,
        a[0, 0] * c5 - a[0, 2] * c2 + a[0, 3] * c1,
        -a[3, 0] * s5 + a[3, 2] * s2 - a[3, 3] * s1,
        a[2, 0] * s5 - a[2, 2] * s2 + a[2, 3] * s1,
    )
    r2 = v(
        a[1, 0] * c4 - a[1, 1] * c2 + a[1, 3] * c0,
        -a[0, 0] * c4 + a[0, 1] * c2 - a[0, 3] * c0,
        a[3, 0] * s4 - a[3, 1] * s2 + a[3, 3] * s0,
        -a[2, 0] * s4 + a[2, 1] * s2 - a[2, 3] * s0,
    )
    r3 = v(
        -a[1, 0] * c3 + a[1, 1] * c1 - a[1, 2] * c0,
        a[0, 0] * c3 - a[0, 1] * c1 + a[0, 2] * c0,
        -a[3, 0] * s3 + a[3, 1] * s1 - a[3, 2] * s0,
        a[2, 0] * s3 - a[2, 1] * s1 + a[2, 2] * s0,
    )
    return matrix_from_rows(r0 / d, r1 / d, r2 / d, r3 / d)


@builtin("inverse_approx")
def inverse_approx2(m: Mat22):
    """The inverse, as `inverse` gives it: Warp's divides less exactly where that is faster."""
    return inverse2(m)


@builtin("inverse_approx")
def inverse_approx3(m: Mat33):
    return inverse3(m)


@builtin("inverse_approx")
def inverse_approx4(m: Mat44):
    return inverse4(m)


# --- eigenvectors -------------------------------------------------------------------------------------------------


@library_function
def jacobi_turn(a, v, p: int, q: int):
    """One rotation that makes a[p, q] zero (Golub and Van Loan, "Matrix Computations", 8.5); v collects the turns."""
    off = a[p, q]
    if off != 0.0:
        theta = (a[q, q] - a[p, p]) / (off + off)
        t = copysign(1.0 / (absolute(theta) + sqrt(theta * theta + 1.0)), theta)
        c = 1.0 / sqrt(t * t + 1.0)
        s = t * c
        for k in range(3):
            kp, kq = a[k, p], a[k, q]
            a[k, p] = c * kp - s * kq
            a[k, q] = s * kp + c * kq
        for k in range(3):
            pk, qk = a[p, k], a[q, k]
            a[p, k] = c * pk - s * qk
            a[q, k] = s * pk + c * qk
            vp, vq = v[k, p], v[k, q]
            v[k, p] = c * vp - s * vq
            v[k, q] = s * vp + c * vq
    return a, v


@builtin("eig3")
def eig3(m: RealMat33):
    """(V, d) of a symmetric matrix: its eigenvectors as the columns of V and its eigenvalues, in no certain order."""
    a = type(m)(m)  # in Python scope, too, the argument stays as it is
    v = type(m)()
    for i in range(3):
        v[i, i] = type(m[0, 0])(1.0)
    for _ in range(10):
        if absolute(a[0, 1]) + absolute(a[0, 2]) + absolute(a[1, 2]) == 0.0:
            break
        a, v = jacobi_turn(a, v, 0, 1)
        a, v = jacobi_turn(a, v, 0, 2)
        a, v = jacobi_turn(a, v, 1, 2)
    return v, get_diag(a)
