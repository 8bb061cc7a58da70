"""Quaternions (x, y, z, w) as rotations."""

from engine.compiler.library.constructors import matrix_from_rows
from engine.compiler.library.linear import cross, dot3, dot_quat, length, normalize, normalize_quat
from engine.compiler.library.patterns import Quat, RealMat33, RealMat44, RealVec3
from engine.compiler.library.primitives import absolute, select, select_max, sqrt
from engine.compiler.library.registry import builtin, library_function, name_of
from engine.compiler.types import AnyFloat, float32, float64, int32
from engine.compiler.values import quaternion, vector

sincos, asin, atan2, sinc_and_cos = (name_of(name) for name in ("sincos", "asin", "atan2", "sinc_and_cos"))

# --- construction -------------------------------------------------------------------------------------------------


@builtin("quat_identity")
def quat_identity(dtype=float):
    """No rotation."""
    return quaternion(dtype)(0.0, 0.0, 0.0, 1.0)


@library_function
def quat_of(v, w):
    """The quaternion with imaginary part v and real part w."""
    dtype = type(w)
    return quaternion(dtype)(v.x, v.y, v.z, w)


@library_function
def imaginary(q):
    """The imaginary part as a vector."""
    dtype = type(q.w)
    return vector(3, dtype)(q.x, q.y, q.z)


@builtin("quat_from_axis_angle")
def quat_from_axis_angle(axis: RealVec3, angle: AnyFloat):
    """Rotation by `angle` (radians) about a unit axis."""
    s, c = sincos(angle * 0.5)
    return quat_of(axis * s, c)


@builtin("quat_rpy")
def quat_rpy(roll: AnyFloat, pitch: AnyFloat, yaw: AnyFloat):
    """Rotation by roll about x, then pitch about y, then yaw about z (fixed axes, radians)."""
    sr, cr = sincos(roll * 0.5)
    sp, cp = sincos(pitch * 0.5)
    sy, cy = sincos(yaw * 0.5)
    dtype = type(roll)
    return quaternion(dtype)(
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


@builtin("quat_from_matrix")
def quat_from_matrix(mat: RealMat33):
    """The unit quaternion of a rotation matrix (Shepperd 1978: the largest component comes from the diagonal)."""
    dtype = type(mat[0, 0])
    t = mat[0, 0] + mat[1, 1] + mat[2, 2]
    q = quaternion(dtype)()
    if t >= mat[0, 0] and t >= mat[1, 1] and t >= mat[2, 2]:
        s = sqrt(select_max(1.0 + t, 0.0)) * 2.0
        q = type(q)((mat[2, 1] - mat[1, 2]) / s, (mat[0, 2] - mat[2, 0]) / s, (mat[1, 0] - mat[0, 1]) / s, 0.25 * s)
    elif mat[0, 0] >= mat[1, 1] and mat[0, 0] >= mat[2, 2]:
        s = sqrt(select_max(1.0 + mat[0, 0] - mat[1, 1] - mat[2, 2], 0.0)) * 2.0
        q = type(q)(0.25 * s, (mat[0, 1] + mat[1, 0]) / s, (mat[0, 2] + mat[2, 0]) / s, (mat[2, 1] - mat[1, 2]) / s)
    elif mat[1, 1] >= mat[2, 2]:
        s = sqrt(select_max(1.0 + mat[1, 1] - mat[0, 0] - mat[2, 2], 0.0)) * 2.0
        q = type(q)((mat[0, 1] + mat[1, 0]) / s, 0.25 * s, (mat[1, 2] + mat[2, 1]) / s, (mat[0, 2] - mat[2, 0]) / s)
    else:
        s = sqrt(select_max(1.0 + mat[2, 2] - mat[0, 0] - mat[1, 1], 0.0)) * 2.0
        q = type(q)((mat[0, 2] + mat[2, 0]) / s, (mat[1, 2] + mat[2, 1]) / s, 0.25 * s, (mat[1, 0] - mat[0, 1]) / s)
    return normalize_quat(q)


@builtin("quat_from_matrix")
def quat_from_matrix44(mat: RealMat44):
    dtype = type(mat[0, 0])
    vec = vector(3, dtype)
    x = vec(mat[0, 0], mat[0, 1], mat[0, 2])
    y = vec(mat[1, 0], mat[1, 1], mat[1, 2])
    z = vec(mat[2, 0], mat[2, 1], mat[2, 2])
    return quat_from_matrix(matrix_from_rows(x, y, z))


@builtin("quat_from_euler")
def quat_from_euler(e: RealVec3, i: int32, j: int32, k: int32):
    """Rotation about axis i, then j, then k (fixed axes, each one once), by the components of e of these axes."""
    dtype = type(e.x)
    si, ci = sincos(e[i] * 0.5)
    sj, cj = sincos(e[j] * 0.5)
    sk, ck = sincos(e[k] * 0.5)
    turn = select((j - i + 3) % 3 == 1, dtype(1.0), dtype(-1.0))  # the sign of the permutation
    q = quaternion(dtype)()
    q[i] = si * cj * ck - turn * (ci * sj * sk)
    q[j] = ci * sj * ck + turn * (si * cj * sk)
    q[k] = ci * cj * sk - turn * (si * sj * ck)
    q[3] = ci * cj * ck + turn * (si * sj * sk)
    return q


@builtin("quat_between_vectors")
def quat_between_vectors(a: RealVec3, b: RealVec3):
    """The shortest rotation that takes the direction of a to that of b; any half turn where they are opposite."""
    na, nb = normalize(a), normalize(b)
    w = 1.0 + dot3(na, nb)
    axis = cross(na, nb)
    if w < 1.0e-6:
        one, zero = type(w)(1.0), type(w)(0.0)
        side = type(a)(one, zero, zero) if absolute(na.x) < 0.9 else type(a)(zero, one, zero)
        axis = cross(na, side)
        w = type(w)(0.0)
    return normalize_quat(quat_of(axis, w))


# --- algebra ------------------------------------------------------------------------------------------------------


@builtin("mul_quat_quat")
def mul_quat_quat(a: Quat, b: Quat):
    """The rotation b, then a (Hamilton product)."""
    return type(a)(
        a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        a.w * b.y + a.y * b.w + a.z * b.x - a.x * b.z,
        a.w * b.z + a.z * b.w + a.x * b.y - a.y * b.x,
        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
    )


@builtin("quat_inverse")
def quat_inverse(quat: Quat):
    """The inverse of a unit quaternion: its conjugate."""
    return type(quat)(-quat.x, -quat.y, -quat.z, quat.w)


@builtin("quat_rotate")
def quat_rotate(quat: Quat, vec: RealVec3):
    """vec rotated by the unit quaternion."""
    u = type(vec)(quat.x, quat.y, quat.z)
    t = cross(u, vec)
    t = t + t
    return vec + t * quat.w + cross(u, t)


@builtin("quat_rotate_inv")
def quat_rotate_inv(quat: Quat, vec: RealVec3):
    """vec rotated by the inverse of the unit quaternion."""
    u = type(vec)(quat.x, quat.y, quat.z)
    t = cross(vec, u)
    t = t + t
    return vec + t * quat.w + cross(t, u)


@builtin("quat_to_matrix")
def quat_to_matrix(quat: Quat):
    """The rotation matrix of a unit quaternion: column i is where axis i goes."""
    dtype = type(quat.w)
    vec = vector(3, dtype)
    x, y, z, w = quat.x, quat.y, quat.z, quat.w
    return matrix_from_rows(
        vec(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        vec(2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        vec(2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


@builtin("quat_to_axis_angle")
def quat_to_axis_angle(quat: Quat):
    """(unit axis, angle in radians from 0 to pi), or into the arguments after quat; the axis of no rotation is zero."""
    v = imaginary(quat)
    axis = normalize(v)
    if quat.w < 0.0:
        axis = -axis
    return axis, 2.0 * atan2(length(v), absolute(quat.w))


@builtin("quat_to_axis_angle", updates=(1, 2))
def quat_to_axis_angle_into(quat: Quat, axis: RealVec3, angle: AnyFloat):
    axis, angle = quat_to_axis_angle(quat)
    return axis, angle


@builtin("quat_to_rpy")
def quat_to_rpy(q: Quat):
    """(roll, pitch, yaw) with q = quat_rpy(roll, pitch, yaw), |pitch| <= pi/2, as a vector."""
    dtype = type(q.w)
    one = type(q.w)(1.0)
    s = 2.0 * (q.w * q.y - q.z * q.x)
    pitch = asin(select(absolute(s) > 1.0, select(s > 0.0, one, -one), s))
    roll = atan2(2.0 * (q.w * q.x + q.y * q.z), 1.0 - 2.0 * (q.x * q.x + q.y * q.y))
    yaw = atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
    return vector(3, dtype)(roll, pitch, yaw)


@builtin("quat_to_euler")
def quat_to_euler(q: Quat, i: int32, j: int32, k: int32):
    """The angles e with q = quat_from_euler(e, i, j, k), |e[j]| <= pi/2 (Bernardes and Viollet 2022)."""
    dtype = type(q.w)
    turn = select((j - i + 3) % 3 == 1, dtype(1.0), dtype(-1.0))
    a, b = q[3] - q[j], q[i] + turn * q[k]
    c, d = q[j] + q[3], turn * q[k] - q[i]
    plus, minus = atan2(b, a), atan2(d, c)
    e = vector(3, dtype)()
    e[i] = within_half_turn(plus - minus)
    e[j] = 2.0 * atan2(sqrt(c * c + d * d), sqrt(a * a + b * b)) - 1.5707963267948966
    e[k] = turn * within_half_turn(plus + minus)
    return e


@library_function
def within_half_turn(angle):
    """An angle from -2 pi to 2 pi as one from -pi to pi."""
    whole = 6.283185307179586
    return select(angle > 0.5 * whole, angle - whole, select(angle < -0.5 * whole, angle + whole, angle))


@builtin("quat_twist")
def quat_twist(axis: RealVec3, q: Quat):
    """The part of q that turns about the unit axis: q = swing * twist, the swing about an axis at right angles."""
    d = dot3(axis, imaginary(q))
    return normalize_quat(quat_of(axis * d, q.w))


@builtin("quat_twist_angle")
def quat_twist_angle(axis: RealVec3, q: Quat):
    """The angle of quat_twist, from 0 to 2 pi."""
    return 2.0 * atan2(absolute(dot3(axis, imaginary(q))), q.w)


@builtin("quat_twist_angle_signed")
def quat_twist_angle_signed(axis: RealVec3, q: Quat):
    """The angle of quat_twist about the axis, from -2 pi to 2 pi."""
    return 2.0 * atan2(dot3(axis, imaginary(q)), q.w)


@builtin("quat_slerp")
def quat_slerp(a: Quat, b: Quat, t: AnyFloat):
    """The rotation at fraction t of the shorter way from a to b, at constant speed."""
    d = dot_quat(a, b)
    sign = select(d < 0.0, type(d)(-1.0), type(d)(1.0))
    near = b * sign
    # the angle from its sine and cosine together: acos(d) would lose half the digits near 0
    gap = near - a
    rest = near + a
    angle = 2.0 * atan2(sqrt(dot_quat(gap, gap)), sqrt(dot_quat(rest, rest)))
    if angle < 1.0e-3:
        return normalize_quat(a * (1.0 - t) + near * t)
    s0, _ = sincos((1.0 - t) * angle)
    s1, _ = sincos(t * angle)
    s, _ = sincos(angle)
    return (a * s0 + near * s1) / s


# --- exponential map ----------------------------------------------------------------------------------------------


@builtin("sinc_and_cos")
def sinc_and_cos_f32(square: float32):
    """(sin(a) / a, cos(a)) for square = a**2: a series below a = 0.1."""
    s = 1.0 - square * (0.16666667 - square * (0.008333334 - square * 0.0001984127))
    c = 1.0 - square * (0.5 - square * (0.041666668 - square * 0.0013888889))
    if square > 0.01:
        a = sqrt(square)
        sine, cosine = sincos(a)
        s, c = sine / a, cosine
    return s, c


@builtin("sinc_and_cos")
def sinc_and_cos_f64(square: float64):
    s = 1.0 - square * (1.0 / 6.0 - square * (1.0 / 120.0 - square * (1.0 / 5040.0 - square * (1.0 / 362880.0))))
    c = 1.0 - square * (0.5 - square * (1.0 / 24.0 - square * (1.0 / 720.0 - square * (1.0 / 40320.0))))
    if square > 0.0001:
        a = sqrt(square)
        sine, cosine = sincos(a)
        s, c = sine / a, cosine
    return s, c


@builtin("quat_exp")
def quat_exp(rotation: RealVec3):
    """The rotation by |rotation| radians about its direction (exponential map of a rotation vector)."""
    half = rotation * 0.5
    s, c = sinc_and_cos(dot3(half, half))
    return quat_of(half * s, c)


@builtin("quat_log")
def quat_log(q: Quat):
    """The rotation vector of q, of length 0 to pi: axis times angle, the inverse of quat_exp."""
    v = imaginary(q)
    n = sqrt(dot3(v, v))
    sign = select(q.w < 0.0, type(n)(-1.0), type(n)(1.0))
    factor = select(n > 1.0e-6, 2.0 * atan2(n, sign * q.w) / n, 2.0 / (sign * q.w))
    return v * (sign * factor)


@builtin("quat_integrate")
def quat_integrate(q: Quat, w: RealVec3, dt: AnyFloat):
    """q turned for the time dt by the world angular velocity w (exponential map), normalised."""
    return normalize_quat(mul_quat_quat(quat_exp(w * dt), q))
