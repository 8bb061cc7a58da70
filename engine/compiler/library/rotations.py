"""Quaternions (x, y, z, w), rigid transforms and spatial vectors."""

from typing import Any

from engine.compiler.library.constructors import matrix_from_rows
from engine.compiler.library.linear import cross, dot, dot3
from engine.compiler.library.primitives import select_max, sqrt
from engine.compiler.library.registry import builtin, name_of
from engine.compiler.types import float32, float64
from engine.compiler.values import matrix, quaternion, transformation, vector
from engine.compiler.values.names import quat, quatd, spatial_vector, transform, transformd, vec3, vec3d

Quat: Any = quaternion(dtype=Any)
Transform: Any = transformation(dtype=Any)
Vec3: Any = vector(length=3, dtype=Any)
Mat33: Any = matrix(shape=(3, 3), dtype=Any)
sin, cos, atan2 = name_of("sin"), name_of("cos"), name_of("atan2")

# --- quaternions --------------------------------------------------------------------------------------------------


@builtin("quat_identity")
def quat_identity():
    """No rotation."""
    return quat(0.0, 0.0, 0.0, 1.0)


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
def quat_inverse(q: Quat):
    """The inverse of a unit quaternion: its conjugate."""
    return type(q)(-q.x, -q.y, -q.z, q.w)


@builtin("quat_rotate")
def quat_rotate(q: Quat, v: Vec3):
    """v rotated by the unit quaternion q."""
    u = type(v)(q.x, q.y, q.z)
    t = cross(u, v)
    t = t + t
    return v + t * q.w + cross(u, t)


@builtin("quat_rotate_inv")
def quat_rotate_inv(q: Quat, v: Vec3):
    """v rotated by the inverse of the unit quaternion q."""
    u = type(v)(q.x, q.y, q.z)
    t = cross(v, u)
    t = t + t
    return v + t * q.w + cross(t, u)


@builtin("quat_to_matrix")
def quat_to_matrix(q: quat):
    """The rotation matrix of a unit quaternion."""
    return matrix_from_rows(
        vec3(1.0 - 2.0 * (q.y * q.y + q.z * q.z), 2.0 * (q.x * q.y - q.w * q.z), 2.0 * (q.x * q.z + q.w * q.y)),
        vec3(2.0 * (q.x * q.y + q.w * q.z), 1.0 - 2.0 * (q.x * q.x + q.z * q.z), 2.0 * (q.y * q.z - q.w * q.x)),
        vec3(2.0 * (q.x * q.z - q.w * q.y), 2.0 * (q.y * q.z + q.w * q.x), 1.0 - 2.0 * (q.x * q.x + q.y * q.y)),
    )


@builtin("quat_to_matrix")
def quat_to_matrix_f64(q: quatd):
    """The rotation matrix of a unit quaternion."""
    return matrix_from_rows(
        vec3d(1.0 - 2.0 * (q.y * q.y + q.z * q.z), 2.0 * (q.x * q.y - q.w * q.z), 2.0 * (q.x * q.z + q.w * q.y)),
        vec3d(2.0 * (q.x * q.y + q.w * q.z), 1.0 - 2.0 * (q.x * q.x + q.z * q.z), 2.0 * (q.y * q.z - q.w * q.x)),
        vec3d(2.0 * (q.x * q.z - q.w * q.y), 2.0 * (q.y * q.z + q.w * q.x), 1.0 - 2.0 * (q.x * q.x + q.y * q.y)),
    )


@builtin("quat_from_matrix")
def quat_from_matrix(m: Mat33):
    """The unit quaternion of a rotation matrix (Shepperd 1978: the largest component comes from the diagonal)."""
    t = m[0, 0] + m[1, 1] + m[2, 2]
    x, y, z, w = t - t, t - t, t - t, t - t
    if t >= m[0, 0] and t >= m[1, 1] and t >= m[2, 2]:
        s = sqrt(select_max(1.0 + t, 0.0)) * 2.0
        w = 0.25 * s
        x = (m[2, 1] - m[1, 2]) / s
        y = (m[0, 2] - m[2, 0]) / s
        z = (m[1, 0] - m[0, 1]) / s
    elif m[0, 0] >= m[1, 1] and m[0, 0] >= m[2, 2]:
        s = sqrt(select_max(1.0 + m[0, 0] - m[1, 1] - m[2, 2], 0.0)) * 2.0
        x = 0.25 * s
        w = (m[2, 1] - m[1, 2]) / s
        y = (m[0, 1] + m[1, 0]) / s
        z = (m[0, 2] + m[2, 0]) / s
    elif m[1, 1] >= m[2, 2]:
        s = sqrt(select_max(1.0 + m[1, 1] - m[0, 0] - m[2, 2], 0.0)) * 2.0
        y = 0.25 * s
        w = (m[0, 2] - m[2, 0]) / s
        x = (m[0, 1] + m[1, 0]) / s
        z = (m[1, 2] + m[2, 1]) / s
    else:
        s = sqrt(select_max(1.0 + m[2, 2] - m[0, 0] - m[1, 1], 0.0)) * 2.0
        z = 0.25 * s
        w = (m[1, 0] - m[0, 1]) / s
        x = (m[0, 2] + m[2, 0]) / s
        y = (m[1, 2] + m[2, 1]) / s
    return quat(x, y, z, w)


@builtin("quat_from_axis_angle")
def quat_from_axis_angle(axis: vec3, angle: float32):
    """Rotation by `angle` (radians) about a unit axis."""
    s = sin(angle * 0.5)
    return quat(axis.x * s, axis.y * s, axis.z * s, cos(angle * 0.5))


@builtin("quat_from_axis_angle")
def quat_from_axis_angle_f64(axis: vec3d, angle: float64):
    """Rotation by `angle` (radians) about a unit axis."""
    s = sin(angle * 0.5)
    return quatd(axis.x * s, axis.y * s, axis.z * s, cos(angle * 0.5))


@builtin("quat_rpy")
def quat_rpy(roll: float32, pitch: float32, yaw: float32):
    """Rotation by roll about x, then pitch about y, then yaw about z (fixed axes, radians)."""
    x = quat_from_axis_angle(vec3(1.0, 0.0, 0.0), roll)
    y = quat_from_axis_angle(vec3(0.0, 1.0, 0.0), pitch)
    z = quat_from_axis_angle(vec3(0.0, 0.0, 1.0), yaw)
    return mul_quat_quat(z, mul_quat_quat(y, x))


@builtin("quat_to_axis_angle")
def quat_to_axis_angle(q: quat):
    """(unit axis, angle in radians from 0 to 2 pi); the axis of no rotation is zero."""
    v = vec3(q.x, q.y, q.z)
    n = sqrt(dot3(v, v))
    if n > 0.0:
        return v / n, 2.0 * atan2(n, q.w)
    return vec3(), 0.0


@builtin("quat_between_vectors")
def quat_between_vectors(a: vec3, b: vec3):
    """The shortest rotation that takes the direction of a to that of b; any half turn where they are opposite."""
    na, nb = a / sqrt(dot3(a, a)), b / sqrt(dot3(b, b))
    w = 1.0 + dot3(na, nb)
    axis = cross(na, nb)
    if w < 1.0e-6:
        side = vec3(1.0, 0.0, 0.0)
        if abs(na.x) > 0.9:
            side = vec3(0.0, 1.0, 0.0)
        axis = cross(na, side)
        w = 0.0
    n = sqrt(dot3(axis, axis) + w * w)
    return quat(axis.x / n, axis.y / n, axis.z / n, w / n)


@builtin("quat_slerp")
def quat_slerp(a: quat, b: quat, t: float32):
    """The rotation at fraction t of the shorter way from a to b, at constant speed."""
    d = dot(a, b)
    if d < 0.0:
        b = quat(-b.x, -b.y, -b.z, -b.w)
        d = -d
    if d > 0.9995:
        c = a * (1.0 - t) + b * t
        return c / sqrt(dot(c, c))
    angle = atan2(sqrt(select_max(1.0 - d * d, 0.0)), d)
    return (a * sin((1.0 - t) * angle) + b * sin(t * angle)) / sin(angle)


@builtin("quat_integrate")
def quat_integrate(q: quat, w: vec3, dt: float32):
    """q turned for the time dt by the world angular velocity w (exponential map), normalised."""
    half = w * (0.5 * dt)
    angle2 = dot3(half, half)
    s = 1.0 - angle2 * 0.16666667 + angle2 * angle2 * 0.008333333
    c = 1.0 - angle2 * 0.5 + angle2 * angle2 * 0.041666668
    if angle2 > 0.01:
        angle = sqrt(angle2)
        s = sin(angle) / angle
        c = cos(angle)
    r = mul_quat_quat(quat(half.x * s, half.y * s, half.z * s, c), q)
    return r / sqrt(dot(r, r))


# --- transforms ---------------------------------------------------------------------------------------------------


@builtin("transform_identity")
def transform_identity():
    """Neither translation nor rotation."""
    return transform(vec3(), quat(0.0, 0.0, 0.0, 1.0))


@builtin("transform_get_translation")
def transform_get_translation(t: Transform):
    """The translation p."""
    return t.p


@builtin("transform_get_rotation")
def transform_get_rotation(t: Transform):
    """The rotation q."""
    return t.q


@builtin("mul_transform_transform")
@builtin("transform_multiply")
def mul_transform_transform(a: Transform, b: Transform):
    """The transform b, then a."""
    return type(a)(a.p + quat_rotate(a.q, b.p), mul_quat_quat(a.q, b.q))


@builtin("transform_inverse")
def transform_inverse(t: Transform):
    """The inverse of a rigid transform."""
    q = quat_inverse(t.q)
    return type(t)(-quat_rotate(q, t.p), q)


@builtin("transform_point")
def transform_point(t: Transform, p: Vec3):
    """The point p rotated, then translated."""
    return t.p + quat_rotate(t.q, p)


@builtin("transform_vector")
def transform_vector(t: Transform, v: Vec3):
    """The direction v rotated."""
    return quat_rotate(t.q, v)


# --- spatial vectors ----------------------------------------------------------------------------------------------


@builtin("spatial_top")
def spatial_top(s: spatial_vector):
    """The linear half."""
    return vec3(s[0], s[1], s[2])


@builtin("spatial_bottom")
def spatial_bottom(s: spatial_vector):
    """The angular half."""
    return vec3(s[3], s[4], s[5])
