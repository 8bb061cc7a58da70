"""Rigid transforms and spatial vectors: six components, the linear half first, then the angular half."""

from engine.compiler.library.constructors import matrix_from_cols, matrix_from_rows
from engine.compiler.library.linear import cross, dot3, length_sq
from engine.compiler.library.patterns import Mat44, Quat, RealMat33, RealMat44, RealVec3, Spatial, Transform
from engine.compiler.library.primitives import sqrt
from engine.compiler.library.registry import builtin
from engine.compiler.library.rotations import (
    mul_quat_quat,
    quat_from_matrix,
    quat_inverse,
    quat_rotate,
    quat_rotate_inv,
    quat_to_matrix,
)
from engine.compiler.values import matrix, transformation, vector

# --- transforms ---------------------------------------------------------------------------------------------------


@builtin("transform_identity")
def transform_identity(dtype=float):
    """Neither translation nor rotation."""
    return transformation(dtype)(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@builtin("transform_get_translation")
def transform_get_translation(xform: Transform):
    """The translation p."""
    return xform.p


@builtin("transform_get_rotation")
def transform_get_rotation(xform: Transform):
    """The rotation q."""
    return xform.q


@builtin("transform_set_translation", updates=(0,))
def transform_set_translation(xform: Transform, p: RealVec3):
    """Makes p the translation of xform."""
    return (type(xform)(p, xform.q),)


@builtin("transform_set_rotation", updates=(0,))
def transform_set_rotation(xform: Transform, q: Quat):
    """Makes q the rotation of xform."""
    return (type(xform)(xform.p, q),)


@builtin("mul_transform_transform")
@builtin("transform_multiply")
def transform_multiply(a: Transform, b: Transform):
    """The transform b, then a."""
    return type(a)(a.p + quat_rotate(a.q, b.p), mul_quat_quat(a.q, b.q))


@builtin("transform_inverse")
def transform_inverse(xform: Transform):
    """The inverse of a rigid transform."""
    return type(xform)(-quat_rotate_inv(xform.q, xform.p), quat_inverse(xform.q))


@builtin("transform_point")
def transform_point(xform: Transform, point: RealVec3):
    """The point rotated, then translated."""
    return xform.p + quat_rotate(xform.q, point)


@builtin("transform_point")
def transform_point_by_matrix(mat: Mat44, point: RealVec3):
    """The point by a 4 × 4 matrix, without the division by the fourth coordinate."""
    return type(point)(
        mat[0, 0] * point.x + mat[0, 1] * point.y + mat[0, 2] * point.z + mat[0, 3],
        mat[1, 0] * point.x + mat[1, 1] * point.y + mat[1, 2] * point.z + mat[1, 3],
        mat[2, 0] * point.x + mat[2, 1] * point.y + mat[2, 2] * point.z + mat[2, 3],
    )


@builtin("transform_vector")
def transform_vector(xform: Transform, vec: RealVec3):
    """The direction vec rotated."""
    return quat_rotate(xform.q, vec)


@builtin("transform_vector")
def transform_vector_by_matrix(mat: Mat44, vec: RealVec3):
    return type(vec)(
        mat[0, 0] * vec.x + mat[0, 1] * vec.y + mat[0, 2] * vec.z,
        mat[1, 0] * vec.x + mat[1, 1] * vec.y + mat[1, 2] * vec.z,
        mat[2, 0] * vec.x + mat[2, 1] * vec.y + mat[2, 2] * vec.z,
    )


@builtin("transform_to_matrix")
def transform_to_matrix(t: Transform):
    """The 4 × 4 matrix of a rigid transform, for column vectors."""
    r, p = quat_to_matrix(t.q), t.p
    dtype = type(p.x)
    row = vector(4, dtype)
    return matrix_from_rows(
        row(r[0, 0], r[0, 1], r[0, 2], p.x),
        row(r[1, 0], r[1, 1], r[1, 2], p.y),
        row(r[2, 0], r[2, 1], r[2, 2], p.z),
        row(0.0, 0.0, 0.0, 1.0),
    )


@builtin("transform_from_matrix")
def transform_from_matrix(m: Mat44):
    """The rigid transform of a 4 × 4 matrix without scale or shear."""
    dtype = type(m[0, 0])
    vec = vector(3, dtype)
    rows = (vec(m[0, 0], m[0, 1], m[0, 2]), vec(m[1, 0], m[1, 1], m[1, 2]), vec(m[2, 0], m[2, 1], m[2, 2]))
    q = quat_from_matrix(matrix_from_rows(rows[0], rows[1], rows[2]))
    return transformation(dtype)(vec(m[0, 3], m[1, 3], m[2, 3]), q)


@builtin("transform_compose")
def transform_compose(position: RealVec3, rotation: Quat, scale: RealVec3):
    """The 4 × 4 matrix that scales along the axes, then rotates, then translates."""
    r = quat_to_matrix(rotation)
    dtype = type(position.x)
    row = vector(4, dtype)
    return matrix_from_rows(
        row(r[0, 0] * scale.x, r[0, 1] * scale.y, r[0, 2] * scale.z, position.x),
        row(r[1, 0] * scale.x, r[1, 1] * scale.y, r[1, 2] * scale.z, position.y),
        row(r[2, 0] * scale.x, r[2, 1] * scale.y, r[2, 2] * scale.z, position.z),
        row(0.0, 0.0, 0.0, 1.0),
    )


@builtin("transform_decompose")
def transform_decompose(m: RealMat44):
    """(position, rotation, scale) of a 4 × 4 matrix without shear; a mirrored one has a negative last scale."""
    dtype = type(m[0, 0])
    vec = vector(3, dtype)
    a, b, c = vec(m[0, 0], m[1, 0], m[2, 0]), vec(m[0, 1], m[1, 1], m[2, 1]), vec(m[0, 2], m[1, 2], m[2, 2])
    x, y, z = sqrt(length_sq(a)), sqrt(length_sq(b)), sqrt(length_sq(c))
    if dot3(cross(a, b), c) < 0.0:
        z = -z
    if x != 0.0:
        a = a / x
    if y != 0.0:
        b = b / y
    if z != 0.0:
        c = c / z
    q = quat_from_matrix(matrix_from_cols(a, b, c))
    return vec(m[0, 3], m[1, 3], m[2, 3]), q, vec(x, y, z)


# --- spatial vectors ----------------------------------------------------------------------------------------------


@builtin("spatial_top")
def spatial_top(svec: Spatial):
    """The first, linear half."""
    dtype = type(svec[0])
    return vector(3, dtype)(svec[0], svec[1], svec[2])


@builtin("spatial_bottom")
def spatial_bottom(svec: Spatial):
    """The second, angular half."""
    dtype = type(svec[0])
    return vector(3, dtype)(svec[3], svec[4], svec[5])


@builtin("spatial_dot")
def spatial_dot(a: Spatial, b: Spatial):
    """Power of a wrench and a twist."""
    return dot3(spatial_top(a), spatial_top(b)) + dot3(spatial_bottom(a), spatial_bottom(b))


@builtin("spatial_cross")
def spatial_cross(a: Spatial, b: Spatial):
    """Rate of change of the twist b fixed in a frame that moves with twist a (Featherstone 2008, 2.9)."""
    va, wa, vb, wb = spatial_top(a), spatial_bottom(a), spatial_top(b), spatial_bottom(b)
    return type(a)(cross(wa, vb) + cross(va, wb), cross(wa, wb))


@builtin("spatial_cross_dual")
def spatial_cross_dual(a: Spatial, b: Spatial):
    """Rate of change of the wrench b (force, torque) fixed in a frame that moves with twist a."""
    v, w, f, n = spatial_top(a), spatial_bottom(a), spatial_top(b), spatial_bottom(b)
    return type(a)(cross(w, f), cross(w, n) + cross(v, f))


@builtin("transform_twist")
def transform_twist(t: Transform, s: Spatial):
    """A twist (velocity at the origin, angular velocity) of the inner frame seen from the outer one."""
    w = quat_rotate(t.q, spatial_bottom(s))
    return type(s)(quat_rotate(t.q, spatial_top(s)) + cross(t.p, w), w)


@builtin("transform_wrench")
def transform_wrench(t: Transform, s: Spatial):
    """A wrench (force, torque about the origin) of the inner frame seen from the outer one."""
    f = quat_rotate(t.q, spatial_top(s))
    return type(s)(f, quat_rotate(t.q, spatial_bottom(s)) + cross(t.p, f))


@builtin("spatial_adjoint")
def spatial_adjoint(r: RealMat33, s: RealMat33):
    """The 6 × 6 matrix [[r, 0], [s, r]]; with s = skew(p) r it takes wrenches as transform_wrench does."""
    dtype = type(r[0, 0])
    out = matrix((6, 6), dtype)()
    for i in range(3):
        for j in range(3):
            out[i, j] = r[i, j]
            out[i + 3, j + 3] = r[i, j]
            out[i + 3, j] = s[i, j]
    return out


@builtin("velocity_at_point")
def velocity_at_point(twist: Spatial, r: RealVec3):
    """The velocity of a point at the offset r from where the twist (velocity, angular velocity) is taken."""
    return spatial_top(twist) + cross(spatial_bottom(twist), r)
