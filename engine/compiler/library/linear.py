"""Vectors and matrices: products, lengths, inverses, construction by rows and columns."""

from typing import Any

from engine.compiler.library.constructors import matrix_from_cols, matrix_from_rows
from engine.compiler.library.primitives import maximum, minimum, sqrt
from engine.compiler.library.registry import builtin
from engine.compiler.types import AnyFloat, AnyScalar
from engine.compiler.values import matrix, vector

Vec: Any = vector(length=Any, dtype=Any)
Vec2: Any = vector(length=2, dtype=Any)
Vec3: Any = vector(length=3, dtype=Any)
Mat: Any = matrix(shape=Any, dtype=Any)
Mat22: Any = matrix(shape=(2, 2), dtype=Any)
Mat33: Any = matrix(shape=(3, 3), dtype=Any)
Mat44: Any = matrix(shape=(4, 4), dtype=Any)

# --- vectors ------------------------------------------------------------------------------------------------------


@builtin("dot")
def dot3(a: Vec3, b: Vec3):
    """Scalar product."""
    return a.x * b.x + a.y * b.y + a.z * b.z


@builtin("dot")
def dot(a, b):
    """Scalar product of two vectors or quaternions."""
    s = a[0] * b[0]
    for i in range(1, len(a)):
        s = s + a[i] * b[i]
    return s


@builtin("cross")
def cross(a: Vec3, b: Vec3):
    """Vector product."""
    return type(a)(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@builtin("length_sq")
def length_sq(a):
    """Squared Euclidean length."""
    return dot(a, a)


@builtin("length")
def length(a):
    """Euclidean length."""
    return sqrt(dot(a, a))


@builtin("normalize")
def normalize(a):
    """The vector or quaternion scaled to length 1; zero stays zero."""
    n = sqrt(dot(a, a))
    if n > 0.0:
        return a / n
    return type(a)()


@builtin("distance")
def distance(a, b):
    """Euclidean distance of two points."""
    return length(a - b)


@builtin("cw_mul")
def cw_mul(a, b):
    """Product by component."""
    out = type(a)()
    for i in range(len(a)):
        out[i] = a[i] * b[i]
    return out


@builtin("cw_div")
def cw_div(a, b):
    """Quotient by component."""
    out = type(a)()
    for i in range(len(a)):
        out[i] = a[i] / b[i]
    return out


@builtin("min")
def min_component(a: Vec):
    """The smallest component."""
    m = a[0]
    for i in range(1, len(a)):
        m = minimum(m, a[i])
    return m


@builtin("max")
def max_component(a: Vec):
    """The largest component."""
    m = a[0]
    for i in range(1, len(a)):
        m = maximum(m, a[i])
    return m


@builtin("min")
def min_by_component(a: Vec, b: Vec):
    """The smaller of each component."""
    out = type(a)()
    for i in range(len(a)):
        out[i] = minimum(a[i], b[i])
    return out


@builtin("max")
def max_by_component(a: Vec, b: Vec):
    """The larger of each component."""
    out = type(a)()
    for i in range(len(a)):
        out[i] = maximum(a[i], b[i])
    return out


@builtin("min")
def min_scalar(a: AnyScalar, b: AnyScalar):
    return minimum(a, b)


@builtin("max")
def max_scalar(a: AnyScalar, b: AnyScalar):
    return maximum(a, b)


@builtin("min")
def min_of_three(a: AnyScalar, b: AnyScalar, c: AnyScalar):
    return minimum(minimum(a, b), c)


@builtin("max")
def max_of_three(a: AnyScalar, b: AnyScalar, c: AnyScalar):
    return maximum(maximum(a, b), c)


@builtin("argmin")
def argmin(a: Vec):
    """Index of the smallest component, the first of equals."""
    best = 0
    m = a[0]
    for i in range(1, len(a)):
        if a[i] < m:
            m = a[i]
            best = i
    return best


@builtin("argmax")
def argmax(a: Vec):
    """Index of the largest component, the first of equals."""
    best = 0
    m = a[0]
    for i in range(1, len(a)):
        if a[i] > m:
            m = a[i]
            best = i
    return best


# --- products with matrices ---------------------------------------------------------------------------------------


@builtin("mul_mat_vec")
def mul_mat33_vec3(m: Mat33, v: Vec3):
    """m v."""
    return type(v)(
        m[0, 0] * v.x + m[0, 1] * v.y + m[0, 2] * v.z,
        m[1, 0] * v.x + m[1, 1] * v.y + m[1, 2] * v.z,
        m[2, 0] * v.x + m[2, 1] * v.y + m[2, 2] * v.z,
    )


@builtin("mul_mat_vec")
def mul_square_vec(m: Mat, v: Vec):
    """m v for a square matrix."""
    out = type(m[0])()
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
def mul_mat_mat(a: Mat, b: Mat):
    """a b for square matrices of equal size."""
    out = type(a)()
    for i in range(len(a)):
        for j in range(len(b[0])):
            s = a[i, 0] * b[0, j]
            for r in range(1, len(b)):
                s = s + a[i, r] * b[r, j]
            out[i, j] = s
    return out


@builtin("outer")
def outer2(a: Vec2, b: Vec2):
    """a bᵀ."""
    return matrix_from_rows(b * a.x, b * a.y)


@builtin("outer")
def outer(a: Vec3, b: Vec3):
    """a bᵀ."""
    return matrix_from_rows(b * a.x, b * a.y, b * a.z)


# --- construction and parts ---------------------------------------------------------------------------------------


@builtin("transpose")
def transpose2(m: Mat22):
    """Rows become columns."""
    return matrix_from_cols(m[0], m[1])


@builtin("transpose")
def transpose3(m: Mat33):
    """Rows become columns."""
    return matrix_from_cols(m[0], m[1], m[2])


@builtin("transpose")
def transpose4(m: Mat44):
    """Rows become columns."""
    return matrix_from_cols(m[0], m[1], m[2], m[3])


@builtin("diag")
def diag2(d: Vec2):
    """Diagonal matrix."""
    z = d.x - d.x
    return matrix_from_rows(type(d)(d.x, z), type(d)(z, d.y))


@builtin("diag")
def diag(d: Vec3):
    """Diagonal matrix."""
    z = d.x - d.x
    return matrix_from_rows(type(d)(d.x, z, z), type(d)(z, d.y, z), type(d)(z, z, d.z))


@builtin("get_diag")
def get_diag(m: Mat):
    """The diagonal as a vector."""
    out = type(m[0])()
    for i in range(len(m)):
        out[i] = m[i, i]
    return out


@builtin("trace")
def trace(m: Mat):
    """Sum of the diagonal."""
    s = m[0, 0]
    for i in range(1, len(m)):
        s = s + m[i, i]
    return s


@builtin("skew")
def skew(v: Vec3):
    """The matrix S with S a = v × a."""
    z = v.x - v.x
    return matrix_from_rows(type(v)(z, -v.z, v.y), type(v)(v.z, z, -v.x), type(v)(-v.y, v.x, z))


# --- determinant and inverse --------------------------------------------------------------------------------------


@builtin("determinant")
def determinant2(m: Mat22):
    """Determinant."""
    return m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]


@builtin("determinant")
def determinant3(m: Mat33):
    """Determinant, as the triple product of the rows."""
    return dot3(m[0], cross(m[1], m[2]))


@builtin("inverse")
def inverse2(m: Mat22):
    """Inverse; the zero matrix where the determinant is zero."""
    d = determinant2(m)
    if d == 0.0:
        return type(m)()
    v = type(m[0])
    return matrix_from_rows(v(m[1, 1], -m[0, 1]) / d, v(-m[1, 0], m[0, 0]) / d)


@builtin("inverse")
def inverse3(m: Mat33):
    """Inverse by the adjugate; the zero matrix where the determinant is zero."""
    c0 = cross(m[1], m[2])
    c1 = cross(m[2], m[0])
    c2 = cross(m[0], m[1])
    d = dot3(m[0], c0)
    if d == 0.0:
        return type(m)()
    return matrix_from_cols(c0 / d, c1 / d, c2 / d)


@builtin("inverse")
def inverse4(m: Mat44):
    """Inverse by 2 × 2 minors of the upper and lower half; the zero matrix where the determinant is zero."""
    s0 = m[0, 0] * m[1, 1] - m[1, 0] * m[0, 1]
    s1 = m[0, 0] * m[1, 2] - m[1, 0] * m[0, 2]
    s2 = m[0, 0] * m[1, 3] - m[1, 0] * m[0, 3]
    s3 = m[0, 1] * m[1, 2] - m[1, 1] * m[0, 2]
    s4 = m[0, 1] * m[1, 3] - m[1, 1] * m[0, 3]
    s5 = m[0, 2] * m[1, 3] - m[1, 2] * m[0, 3]
    c5 = m[2, 2] * m[3, 3] - m[3, 2] * m[2, 3]
    c4 = m[2, 1] * m[3, 3] - m[3, 1] * m[2, 3]
    c3 = m[2, 1] * m[3, 2] - m[3, 1] * m[2, 2]
    c2 = m[2, 0] * m[3, 3] - m[3, 0] * m[2, 3]
    c1 = m[2, 0] * m[3, 2] - m[3, 0] * m[2, 2]
    c0 = m[2, 0] * m[3, 1] - m[3, 0] * m[2, 1]
    d = s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0
    if d == 0.0:
        return type(m)()
    v = type(m[0])
    r0 = v(
        m[1, 1] * c5 - m[1, 2] * c4 + m[1, 3] * c3,
        -m[0, 1] * c5 + m[0, 2] * c4 - m[0, 3] * c3,
        m[3, 1] * s5 - m[3, 2] * s4 + m[3, 3] * s3,
        -m[2, 1] * s5 + m[2, 2] * s4 - m[2, 3] * s3,
    )
    r1 = v(
        -m[1, 0] * c5 + m[1, 2] * c2 - m[1, 3] * c1,
        m[0, 0] * c5 - m[0, 2] * c2 + m[0, 3] * c1,
        -m[3, 0] * s5 + m[3, 2] * s2 - m[3, 3] * s1,
        m[2, 0] * s5 - m[2, 2] * s2 + m[2, 3] * s1,
    )
    r2 = v(
        m[1, 0] * c4 - m[1, 1] * c2 + m[1, 3] * c0,
        -m[0, 0] * c4 + m[0, 1] * c2 - m[0, 3] * c0,
        m[3, 0] * s4 - m[3, 1] * s2 + m[3, 3] * s0,
        -m[2, 0] * s4 + m[2, 1] * s2 - m[2, 3] * s0,
    )
    r3 = v(
        -m[1, 0] * c3 + m[1, 1] * c1 - m[1, 2] * c0,
        m[0, 0] * c3 - m[0, 1] * c1 + m[0, 2] * c0,
        -m[3, 0] * s3 + m[3, 1] * s1 - m[3, 2] * s0,
        m[2, 0] * s3 - m[2, 1] * s1 + m[2, 2] * s0,
    )
    return matrix_from_rows(r0 / d, r1 / d, r2 / d, r3 / d)
