"""Vectors: products, lengths, smallest and largest components."""

from engine.compiler.library.patterns import OtherVec, Quat, RealVec, Vec, Vec2, Vec3
from engine.compiler.library.primitives import absolute, maximum, minimum, sqrt
from engine.compiler.library.registry import builtin
from engine.compiler.types import AnyFloat, AnyScalar
from engine.compiler.values import matrix

# --- products -----------------------------------------------------------------------------------------------------


@builtin("dot")
def dot3(a: Vec3, b: Vec3):
    """Scalar product of two vectors or quaternions."""
    return a.x * b.x + a.y * b.y + a.z * b.z


@builtin("dot")
def dot(a: Vec, b: Vec):
    s = a[0] * b[0]
    for i in range(1, len(a)):
        s = s + a[i] * b[i]
    return s


@builtin("dot")
def dot_quat(a: Quat, b: Quat):
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w


@builtin("cross")
def cross(a: Vec3, b: Vec3):
    """Vector product."""
    return type(a)(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@builtin("cross")
def cross2(a: Vec2, b: Vec2):
    """The z component of the product of two vectors in the plane."""
    return a.x * b.y - a.y * b.x


@builtin("outer")
def outer(a: Vec, b: OtherVec):
    """The matrix a bᵀ."""
    rows, cols, dtype = len(a), len(b), type(a[0])
    out = matrix((rows, cols), dtype)()
    for i in range(len(a)):
        for j in range(len(b)):
            out[i, j] = a[i] * b[j]
    return out


@builtin("cw_mul")
def cw_mul(a: Vec, b: Vec):
    """Product by component."""
    out = type(a)()
    for i in range(len(a)):
        out[i] = a[i] * b[i]
    return out


@builtin("cw_div")
def cw_div(a: Vec, b: Vec):
    """Quotient by component."""
    out = type(a)()
    for i in range(len(a)):
        out[i] = a[i] / b[i]
    return out


# --- lengths ------------------------------------------------------------------------------------------------------


@builtin("length_sq")
def length_sq(a: Vec):
    """Squared Euclidean length of a vector or quaternion."""
    return dot(a, a)


@builtin("length_sq")
def length_sq_quat(a: Quat):
    return dot_quat(a, a)


@builtin("length")
def length(a: Vec):
    """Euclidean length of a vector or quaternion."""
    return sqrt(dot(a, a))


@builtin("length")
def length_quat(a: Quat):
    return sqrt(dot_quat(a, a))


@builtin("normalize")
def normalize(a: Vec):
    """The vector or quaternion scaled to length 1; zero stays zero."""
    n = sqrt(dot(a, a))
    return a / n if n > 0.0 else type(a)()


@builtin("normalize")
def normalize_quat(a: Quat):
    n = sqrt(dot_quat(a, a))
    return a / n if n > 0.0 else type(a)()


@builtin("distance")
def distance(a: Vec, b: Vec):
    """Euclidean distance of two points."""
    return length(a - b)


@builtin("norm_l1")
def norm_l1(v: Vec):
    """The sum of the magnitudes of the components."""
    s = absolute(v[0])
    for i in range(1, len(v)):
        s = s + absolute(v[i])
    return s


@builtin("norm_l2")
def norm_l2(v: Vec):
    """Euclidean length."""
    return length(v)


@builtin("norm_huber")
def norm_huber(v: RealVec, delta: AnyFloat = 1.0):
    """Huber's loss of the length n: n**2 / 2 up to delta, then delta (n - delta / 2)."""
    square = dot(v, v)
    if square <= delta * delta:
        return 0.5 * square
    return delta * (sqrt(square) - 0.5 * delta)


@builtin("norm_pseudo_huber")
def norm_pseudo_huber(v: RealVec, delta: AnyFloat = 1.0):
    """The smooth length sqrt(delta**2 + n**2)."""
    return delta * sqrt(1.0 + dot(v, v) / (delta * delta))


@builtin("smooth_normalize")
def smooth_normalize(v: RealVec, delta: AnyFloat = 1.0):
    """v divided by norm_pseudo_huber(v, delta): smooth at zero."""
    return v / norm_pseudo_huber(v, delta)


# --- smallest and largest -----------------------------------------------------------------------------------------


@builtin("min")
def min_component(a: Vec):
    """The smallest of two or three numbers or of a vector's components; two vectors by component. NaN is ignored."""
    m = a[0]
    for i in range(1, len(a)):
        m = minimum(m, a[i])
    return m


@builtin("max")
def max_component(a: Vec):
    """The largest of two or three numbers or of a vector's components; two vectors by component. NaN is ignored."""
    m = a[0]
    for i in range(1, len(a)):
        m = maximum(m, a[i])
    return m


@builtin("min")
def min_by_component(a: Vec, b: Vec):
    out = type(a)()
    for i in range(len(a)):
        out[i] = minimum(a[i], b[i])
    return out


@builtin("max")
def max_by_component(a: Vec, b: Vec):
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


# --- classification -----------------------------------------------------------------------------------------------


@builtin("isfinite")
def isfinite_vec(a: Vec):
    all_finite = True
    for i in range(len(a)):
        all_finite = all_finite and a[i] - a[i] == 0.0
    return all_finite


@builtin("isnan")
def isnan_vec(a: Vec):
    any_nan = False
    for i in range(len(a)):
        any_nan = any_nan or a[i] != a[i]
    return any_nan
