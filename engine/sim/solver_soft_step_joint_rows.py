"""Rows of a joint: what an impulse along an axis does to its two bodies, and the effective masses of its axes.

A joint whose anchors are held together in all directions is *pinned*. Its angular rows then carry along a linear
impulse that keeps the anchors' relative velocity, so that one visit solves the anchors and the rotation together. With
J = (L, A) for both, block elimination gives S = A M⁻¹ Aᵀ − (L M⁻¹ Aᵀ)ᵀ G, where G = (L M⁻¹ Lᵀ)⁻¹ L M⁻¹ Aᵀ. Without it
a drive would work against the inertia about the centre of mass, not about the anchor, and light links with long arms
would swing up.
"""

from engine.compiler import lang as k
from engine.sim.solver_soft_step_bodies import (
    BodyFrame,
    BodyInertia,
    BodyVelocity,
    inertia_matrix,
    inertia_times,
    solve33,
)
from engine.sim.solver_soft_step_joint_axes import JointPoses

LEVER_SHARE = 8.0


@k.struct
class JointBodies:
    """The two bodies of a joint while it is being solved."""

    v0: k.vec3
    w0: k.vec3
    v1: k.vec3
    w1: k.vec3
    inv_mass0: float
    inv_mass1: float
    i0: BodyInertia
    i1: BodyInertia


@k.struct
class Axis:
    """Jacobian of one row: velocity = linear·(v₁ − v₀) + angular₁·ω₁ − angular₀·ω₀."""

    linear: k.vec3
    angular0: k.vec3
    angular1: k.vec3


@k.struct
class Row:
    """A row to be solved: what it measures, what a unit impulse of it pushes, and its inverse effective mass."""

    sense: Axis
    push: Axis
    carried: k.vec3  # the part of the push that belongs to the anchors
    inverse_mass: float


@k.struct
class Turning:
    """How the bodies of a joint turn against each other: inverse inertia, and the anchor impulse that goes along."""

    inverse: k.mat33d  # S
    carried: k.mat33  # −G; 0 where the joint is not pinned


@k.func
def load_bodies(
    poses: JointPoses,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
) -> JointBodies:
    out = JointBodies()
    out.v0 = velocity[poses.body0].v
    out.w0 = velocity[poses.body0].w
    out.v1 = velocity[poses.body1].v
    out.w1 = velocity[poses.body1].w
    out.inv_mass0 = frame[poses.body0].inv_mass
    out.inv_mass1 = frame[poses.body1].inv_mass
    out.i0 = inertia[poses.body0]
    out.i1 = inertia[poses.body1]
    return out


@k.func
def store_bodies(poses: JointPoses, bodies: JointBodies, velocity: k.array(dtype=BodyVelocity, layout="rows")):
    if bodies.inv_mass0 > 0.0:
        velocity[poses.body0].v = bodies.v0
        velocity[poses.body0].w = bodies.w0
    if bodies.inv_mass1 > 0.0:
        velocity[poses.body1].v = bodies.v1
        velocity[poses.body1].w = bodies.w1


@k.func
def push(bodies: JointBodies, linear: k.vec3, angular0: k.vec3, angular1: k.vec3) -> JointBodies:
    """Velocities after the impulse `linear` and angular impulses on body 1, and their opposites on body 0."""
    bodies.v0 = bodies.v0 - linear * bodies.inv_mass0
    bodies.w0 = bodies.w0 - inertia_times(bodies.i0, angular0)
    bodies.v1 = bodies.v1 + linear * bodies.inv_mass1
    bodies.w1 = bodies.w1 + inertia_times(bodies.i1, angular1)
    return bodies


@k.func
def push_along(bodies: JointBodies, axis: Axis, impulse: float) -> JointBodies:
    return push(bodies, axis.linear * impulse, axis.angular0 * impulse, axis.angular1 * impulse)


@k.func
def speed_along(bodies: JointBodies, axis: Axis) -> float:
    return k.dot(axis.linear, bodies.v1 - bodies.v0) + k.dot(axis.angular1, bodies.w1) - k.dot(axis.angular0, bodies.w0)


@k.func
def inverse_mass_along(bodies: JointBodies, axis: Axis) -> float:
    return (
        (bodies.inv_mass0 + bodies.inv_mass1) * k.dot(axis.linear, axis.linear)
        + k.dot(axis.angular0, inertia_times(bodies.i0, axis.angular0))
        + k.dot(axis.angular1, inertia_times(bodies.i1, axis.angular1))
    )


@k.func
def linear_axis(poses: JointPoses, e: k.vec3) -> Axis:
    """The row of the anchors' relative velocity along e."""
    out = Axis()
    out.linear = e
    out.angular0 = k.cross(poses.r0, e)
    out.angular1 = k.cross(poses.r1, e)
    return out


@k.func
def angular_axis(e: k.vec3) -> Axis:
    """The row of the relative angular velocity about e."""
    out = Axis()
    out.angular0 = e
    out.angular1 = e
    return out


@k.func
def widened(m: k.mat33) -> k.mat33d:
    """The same matrix in float64."""
    return k.mat33d(
        k.float64(m[0, 0]), k.float64(m[0, 1]), k.float64(m[0, 2]),
        k.float64(m[1, 0]), k.float64(m[1, 1]), k.float64(m[1, 2]),
        k.float64(m[2, 0]), k.float64(m[2, 1]), k.float64(m[2, 2]),
    )  # fmt: skip


@k.func
def full_solve(mass: k.mat33d, rhs: k.vec3) -> k.vec3:
    """x with mass x = rhs.

    In float64: a light body with a long arm (I ≪ m r²) makes the mass matrix worse than float32 can invert.
    """
    x = solve33(mass, k.vec3d(k.float64(rhs.x), k.float64(rhs.y), k.float64(rhs.z)))
    return k.vec3(k.float32(x.x), k.float32(x.y), k.float32(x.z))


@k.func
def projected_solve(p: k.mat33, mass: k.mat33d, rhs: k.vec3) -> k.vec3:
    """x in the range of the projector p with p mass x = p rhs."""
    wide = widened(p)
    scale = (mass[0, 0] + mass[1, 1] + mass[2, 2]) * k.float64(1.0 / 3.0)
    one = k.float64(1.0)
    system = wide @ mass @ wide
    for i in range(3):
        for j in range(3):
            system[i, j] = system[i, j] - wide[i, j] * scale
        system[i, i] = system[i, i] + one * scale
    return p @ full_solve(system, p @ rhs)


@k.func
def narrowed(m: k.mat33d) -> k.mat33:
    """The same matrix in float32."""
    out = k.mat33()
    for i in range(3):
        for j in range(3):
            out[i, j] = k.float32(m[i, j])
    return out


@k.func
def anchor_give(mass: k.mat33d, total: float, ratio: float) -> k.mat33d:
    """Velocity per impulse of the springs between the anchors: `ratio` times the inverse mass.

    total: Σ 1/m, the part of the inverse mass that does not come from the rotation. The part that does counts up to
    LEVER_SHARE times as much: that of a light body with a long arm would make the spring too soft to carry the body.
    """
    base = k.float64(total)
    turning = (mass[0, 0] + mass[1, 1] + mass[2, 2]) - base * k.float64(3.0)
    share = k.float64(1.0)
    if turning > base * k.float64(2.0 * LEVER_SHARE):
        share = base * k.float64(2.0 * LEVER_SHARE) / turning
    out = mass * share
    for i in range(3):
        out[i, i] = out[i, i] + base * (k.float64(1.0) - share)
    return out * k.float64(ratio)


@k.func
def softened(mass: k.mat33d, give: float) -> k.mat33d:
    """The inverse mass of axes with a spring in line: `give` is velocity per impulse, the same in all directions."""
    for i in range(3):
        mass[i, i] = mass[i, i] + k.float64(give)
    return mass


@k.func
def harmonic_mean(mass: k.mat33d) -> float:
    """Of the three eigenvalues of a symmetric matrix, 3 / tr(mass⁻¹); 0 where it is singular."""
    minors = (
        (mass[1, 1] * mass[2, 2] - mass[1, 2] * mass[2, 1])
        + (mass[0, 0] * mass[2, 2] - mass[0, 2] * mass[2, 0])
        + (mass[0, 0] * mass[1, 1] - mass[0, 1] * mass[1, 0])
    )
    if minors > k.float64(0.0):
        return k.float32(k.float64(3.0) * k.determinant(mass) / minors)
    return 0.0


@k.func
def add_lever(mass: k.mat33d, i: BodyInertia, arm: k.vec3) -> k.mat33d:
    """mass − [r]× I⁻¹ [r]× with r = arm, i.e. plus [r]× I⁻¹ [r]×ᵀ."""
    r = k.vec3d(k.float64(arm.x), k.float64(arm.y), k.float64(arm.z))
    xy = k.float64(i.xy)
    xz = k.float64(i.xz)
    yz = k.float64(i.yz)
    # columns of [r]× I⁻¹
    m0 = k.cross(r, k.vec3d(k.float64(i.xx), xy, xz))
    m1 = k.cross(r, k.vec3d(xy, k.float64(i.yy), yz))
    m2 = k.cross(r, k.vec3d(xz, yz, k.float64(i.zz)))
    c0 = m2 * r.y - m1 * r.z
    c1 = m0 * r.z - m2 * r.x
    c2 = m1 * r.x - m0 * r.y
    return mass + k.mat33d(c0.x, c1.x, c2.x, c0.y, c1.y, c2.y, c0.z, c1.z, c2.z)


@k.func
def anchor_mass(bodies: JointBodies, poses: JointPoses) -> k.mat33d:
    """Inverse effective mass of the anchors' relative velocity."""
    total = k.float64(bodies.inv_mass0 + bodies.inv_mass1)
    zero = k.float64(0.0)
    mass = k.mat33d(total, zero, zero, zero, total, zero, zero, zero, total)
    return add_lever(add_lever(mass, bodies.i0, poses.r0), bodies.i1, poses.r1)


@k.func
def free_turning(bodies: JointBodies) -> Turning:
    """Of a joint that is not pinned."""
    out = Turning()
    out.inverse = widened(inertia_matrix(bodies.i0) + inertia_matrix(bodies.i1))
    return out


@k.func
def pinned_turning(bodies: JointBodies, poses: JointPoses, inverse_anchor: k.mat33d) -> Turning:
    """Of a pinned joint; inverse_anchor is the inverse of anchor_mass."""
    i0 = widened(inertia_matrix(bodies.i0))
    i1 = widened(inertia_matrix(bodies.i1))
    # L M⁻¹ Aᵀ: what a unit angular impulse does to the anchors' relative velocity
    slip = (widened(k.skew(poses.r1)) @ i1 + widened(k.skew(poses.r0)) @ i0) * k.float64(-1.0)
    g = inverse_anchor @ slip
    out = Turning()
    out.inverse = (i0 + i1) - k.transpose(slip) @ g
    for i in range(3):
        for j in range(3):
            out.carried[i, j] = -k.float32(g[i, j])
    return out


@k.func
def angular_row(poses: JointPoses, turning: Turning, e: k.vec3) -> Row:
    """The row of the relative rotation about e."""
    out = Row()
    out.sense = angular_axis(e)
    out.carried = turning.carried @ e
    out.push.linear = out.carried
    out.push.angular0 = e + k.cross(poses.r0, out.carried)
    out.push.angular1 = e + k.cross(poses.r1, out.carried)
    wide = k.vec3d(k.float64(e.x), k.float64(e.y), k.float64(e.z))
    out.inverse_mass = k.float32(k.dot(wide, turning.inverse @ wide))
    return out


@k.func
def linear_row(bodies: JointBodies, poses: JointPoses, e: k.vec3) -> Row:
    """The row of the anchors' relative motion along e, of a joint that is not pinned."""
    out = Row()
    out.sense = linear_axis(poses, e)
    out.push = out.sense
    out.inverse_mass = inverse_mass_along(bodies, out.sense)
    return out


@k.func
def clamp_to(a: float, least: float, most: float) -> float:
    return k.select_max(least, k.select_min(a, most))


@k.func
def limit_impulse(
    gap: float,
    speed: float,
    old: float,
    inverse_mass: float,
    ke: float,
    kd: float,
    h: float,
    soft: k.vec4,
    use_bias: bool,
) -> float:
    """New impulse (≥ 0) of a limit that is `gap` away (< 0: passed); `speed` is that of the gap."""
    bias = 0.0
    mass_scale = 1.0
    impulse_scale = 0.0
    gamma = 0.0
    if gap > 0.0:
        bias = gap / h
    elif ke > 0.0:
        gamma = 1.0 / (h * (h * ke + kd))
        bias = gap * ke * h * gamma
        impulse_scale = gamma / (inverse_mass + gamma)
    elif use_bias:
        bias = soft.x * gap
        mass_scale = soft.y
        impulse_scale = soft.z
    return k.select_max(old - mass_scale * (speed + bias) / (inverse_mass + gamma) - impulse_scale * old, 0.0)
