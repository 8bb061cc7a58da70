"""The soft step's joint constraints: each type is locked axes plus a row of limits, drive and friction per dof.

The joint frames of parent (0) and child (1) meet at the child's anchor. With d the offset of the anchors and θ the
rotation of the child's frame against the parent's:

    linear axes   P (v₁ + ω₁×r₁ − v₀ − ω₀×(r₀ + d)) = 0,  P takes the free axes out    (d → 0 by the soft constraint)
    angular axes  P (ω₁ − ω₀) = 0                                                      (θ → 0 the same way)
    each dof      friction, drive and limits along its axis, one row each

Both bodies get their impulse at the same point, so that angular momentum is kept to the last bit of rounding. Rows are
made from the poses of the moment: in every substep, before and after the motion. Velocities along a locked axis are
solved together (3×3), so a joint that holds one body is solved exactly.

The drive is an implicit spring, force = ke (target − q) + kd (target velocity − q̇) taken at the end of the substep: it
is stable at any stiffness and holds its static sag exactly. Reference: Catto, "Soft Constraints", GDC 2011.
"""

from typing import Any

from engine.compiler import lang as k
from engine.context import make_table
from engine.sim.coloring import slots_of
from engine.sim.solver_soft_step_bodies import (
    BodyFrame,
    BodyInertia,
    BodyMotion,
    BodyVelocity,
    inertia_matrix,
    inertia_times,
    solve33,
)
from engine.state.model import Model
from engine.state.schema import UNLIMITED, DriveMode, JointType
from engine.state.tables import Control, State

BALL = int(JointType.BALL)
DISTANCE = int(JointType.DISTANCE)
FREE = int(JointType.FREE)
ACCELERATION = int(DriveMode.ACCELERATION)
PI = 3.141592653589793
LIMITED = 0.5 * UNLIMITED  # limits beyond this do not exist

JointRows: Any = make_table(
    "JointRows",
    [
        ("target_speed", k.float32, "ndof"),  # what the drive pulls the dof's velocity to in this substep
        ("softness", k.float32, "ndof"),  # of the drive's row, 1/kg or 1/(kg·m²); 0 = no drive
        ("acts", k.int32, "ndof"),  # 1: has a drive, a limit or friction
    ],
)


@k.struct
class JointPoses:
    """Where a joint is now."""

    body0: int
    body1: int
    q0: k.quat  # joint frame of the parent, world
    q1: k.quat  # joint frame of the child, world
    d: k.vec3  # from the parent's anchor to the child's, m
    r0: k.vec3  # child's anchor from the parent's centre of mass
    r1: k.vec3  # child's anchor from the child's centre of mass


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


@k.func
def joint_poses(
    m: Model,
    frame: k.array(dtype=BodyFrame, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    joint: int,
) -> JointPoses:
    out = JointPoses()
    a = m.joint_parent[joint]
    b = m.joint_child[joint]
    com0 = k.vec3(0.0, 0.0, 0.0)
    com1 = k.vec3(0.0, 0.0, 0.0)
    if a >= 0:
        com0 = m.body_com[a]
    else:
        a = m.nbody
    if b >= 0:
        com1 = m.body_com[b]
    else:
        b = m.nbody
    x0 = m.joint_xform_p[joint]
    x1 = m.joint_xform_c[joint]
    qa = frame[a].q
    qb = frame[b].q
    arm0 = k.quat_rotate(qa, x0.p - com0)
    arm1 = k.quat_rotate(qb, x1.p - com1)
    out.body0 = a
    out.body1 = b
    out.q0 = qa * x0.q
    out.q1 = qb * x1.q
    out.d = (frame[b].c - frame[a].c) + (motion[b].p - motion[a].p) + (arm1 - arm0)
    out.r0 = arm0 + out.d
    out.r1 = arm1
    return out


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


# -- coordinates ------------------------------------------------------------------------------------------------------


@k.func
def distance_direction(d: k.vec3) -> k.vec3:
    """Unit vector along d; z where the anchors coincide."""
    length = k.length(d)
    if length > 1.0e-9:
        return d * (1.0 / length)
    return k.vec3(0.0, 0.0, 1.0)


@k.func
def unwrapped(angle: float, previous: float) -> float:
    """The angle plus whole turns that is nearest to the previous one, so that a joint counts its turns."""
    return angle + 2.0 * PI * k.floor((previous - angle) * (0.5 / PI) + 0.5)


@k.func
def rotation_vector(q: k.quat) -> k.vec3:
    """Axis times angle (at most π) of a unit quaternion."""
    v = k.vec3(q.x, q.y, q.z)
    w = q.w
    if w < 0.0:
        v = -v
        w = -w
    s = k.length(v)
    if s < 1.0e-6:
        return v * 2.0
    return v * (2.0 * k.atan2(s, w) / s)


@k.func
def angular_dof(m: Model, poses: JointPoses, joint: int, n: int, previous: float):
    """(coordinate, world axis) of angular dof n of a joint.

    One dof: the twist about its axis. Two: a universal joint, the first axis fixed in the parent and the second in the
    child. Three: components of the rotation vector in the parent's joint frame.
    """
    first = m.joint_qd_start[joint] + m.joint_lin_count[joint]
    axis = m.joint_axis[first + n]
    q = k.quat_inverse(poses.q0) * poses.q1
    count = m.joint_ang_count[joint]
    coordinate = 0.0
    e = k.quat_rotate(poses.q0, axis)
    if count == 1:
        half = k.atan2(q.x * axis.x + q.y * axis.y + q.z * axis.z, q.w)
        coordinate = unwrapped(2.0 * half, previous)
    elif count == 2:
        other = m.joint_axis[first + 1 - n]
        if n == 0:
            seen = k.quat_rotate(q, other)
            coordinate = unwrapped(k.atan2(k.dot(k.cross(other, seen), axis), k.dot(other, seen)), previous)
        else:
            e = k.quat_rotate(poses.q1, axis)
            seen = k.quat_rotate_inv(q, other)
            coordinate = unwrapped(-k.atan2(k.dot(k.cross(other, seen), axis), k.dot(other, seen)), previous)
    else:
        coordinate = k.dot(rotation_vector(q), axis)
    return coordinate, e


@k.func
def linear_dof(m: Model, poses: JointPoses, joint: int, n: int):
    """(coordinate, world axis) of linear dof n of a joint."""
    e = distance_direction(poses.d)
    if m.joint_type[joint] != DISTANCE:
        e = k.quat_rotate(poses.q0, m.joint_axis[m.joint_qd_start[joint] + n])
    return k.dot(poses.d, e), e


# -- rows -------------------------------------------------------------------------------------------------------------


@k.func
def drive_row(m: Model, c: Control, rows: JointRows, dof: int, q: float, inverse_mass: float, h: float):
    """Prepares the drive of a dof for this substep from its coordinate q at the start of it."""
    ke = m.joint_target_ke[dof]
    kd = m.joint_target_kd[dof]
    if m.joint_drive_mode[dof] == ACCELERATION and inverse_mass > 0.0:
        ke = ke / inverse_mass
        kd = kd / inverse_mass
    total = h * (h * ke + kd)
    if total > 0.0:
        gamma = 1.0 / total
        rows.softness[dof] = gamma
        rows.target_speed[dof] = gamma * h * (ke * (c.joint_target_pos[dof] - q) + kd * c.joint_target_vel[dof])
    else:
        rows.softness[dof] = 0.0
        rows.target_speed[dof] = 0.0


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


@k.func
def solve_dof(
    m: Model,
    s: State,
    c: Control,
    rows: JointRows,
    bodies: JointBodies,
    axis: Axis,
    dof: int,
    q: float,
    h: float,
    soft: k.vec4,
    use_bias: bool,
) -> JointBodies:
    """Friction, drive and limits of one dof at coordinate q."""
    inverse_mass = inverse_mass_along(bodies, axis)
    if inverse_mass > 0.0:
        friction = m.joint_friction[dof]
        if friction > 0.0:
            old = s.joint_impulse_friction[dof]
            new = clamp_to(old - speed_along(bodies, axis) / inverse_mass, -h * friction, h * friction)
            s.joint_impulse_friction[dof] = new
            bodies = push_along(bodies, axis, new - old)
        if use_bias:
            drive_row(m, c, rows, dof, q, inverse_mass, h)
        gamma = rows.softness[dof]
        if gamma > 0.0:
            old = s.joint_impulse_drive[dof]
            wanted = old - (speed_along(bodies, axis) - rows.target_speed[dof] + gamma * old) / (inverse_mass + gamma)
            most = h * m.joint_effort_limit[dof]
            new = clamp_to(wanted, -most, most)
            s.joint_impulse_drive[dof] = new
            bodies = push_along(bodies, axis, new - old)
        ke = m.joint_limit_ke[dof]
        kd = m.joint_limit_kd[dof]
        lower = m.joint_limit_lower[dof]
        if lower > -LIMITED:
            old = s.joint_impulse_lower[dof]
            speed = speed_along(bodies, axis)
            new = limit_impulse(q - lower, speed, old, inverse_mass, ke, kd, h, soft, use_bias)
            s.joint_impulse_lower[dof] = new
            bodies = push_along(bodies, axis, new - old)
        upper = m.joint_limit_upper[dof]
        if upper < LIMITED:
            old = s.joint_impulse_upper[dof]
            speed = -speed_along(bodies, axis)
            new = -limit_impulse(upper - q, speed, -old, inverse_mass, ke, kd, h, soft, use_bias)
            s.joint_impulse_upper[dof] = new
            bodies = push_along(bodies, axis, new - old)
    return bodies


@k.func
def solve_cone(
    m: Model, s: State, poses: JointPoses, bodies: JointBodies, joint: int, h: float, soft: k.vec4, use_bias: bool
) -> JointBodies:
    """The swing limit of a ball joint: the angle between the frames' z axes stays below joint_cone_upper."""
    most = m.joint_cone_upper[joint]
    if most < LIMITED:
        z0 = k.quat_rotate(poses.q0, k.vec3(0.0, 0.0, 1.0))
        z1 = k.quat_rotate(poses.q1, k.vec3(0.0, 0.0, 1.0))
        across = k.cross(z0, z1)
        sine = k.length(across)
        if sine > 1.0e-6:
            axis = angular_axis(across * (-1.0 / sine))
            inverse_mass = inverse_mass_along(bodies, axis)
            if inverse_mass > 0.0:
                gap = most - k.atan2(sine, k.dot(z0, z1))
                old = s.joint_impulse_cone[joint]
                speed = speed_along(bodies, axis)
                new = limit_impulse(gap, speed, old, inverse_mass, 0.0, 0.0, h, soft, use_bias)
                s.joint_impulse_cone[joint] = new
                bodies = push_along(bodies, axis, new - old)
    return bodies


@k.func
def without(p: k.mat33, e: k.vec3) -> k.mat33:
    """The projector p with the direction e taken out, too."""
    return p - k.outer(e, e)


@k.func
def locked_linear(m: Model, poses: JointPoses, joint: int) -> k.mat33:
    """Projector onto the directions in which the anchors may not part; not for DISTANCE."""
    p = k.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    for n in range(m.joint_lin_count[joint]):
        p = without(p, k.quat_rotate(poses.q0, m.joint_axis[m.joint_qd_start[joint] + n]))
    return p


@k.func
def locked_angular(m: Model, poses: JointPoses, joint: int):
    """(projector, error): the axes about which the frames may not turn, and the rotation vector to be undone.

    For joints with at most two angular dofs.
    """
    p = k.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    error = k.vec3(0.0, 0.0, 0.0)
    count = m.joint_ang_count[joint]
    first = m.joint_qd_start[joint] + m.joint_lin_count[joint]
    if count == 0:
        q = k.quat_inverse(poses.q0) * poses.q1
        sign = 2.0
        if q.w < 0.0:
            sign = -2.0
        error = k.quat_rotate(poses.q0, k.vec3(q.x, q.y, q.z) * sign)
    elif count == 1:
        e0 = k.quat_rotate(poses.q0, m.joint_axis[first])
        p = without(p, e0)
        error = k.cross(e0, k.quat_rotate(poses.q1, m.joint_axis[first]))
    else:
        e0 = k.quat_rotate(poses.q0, m.joint_axis[first])
        e1 = k.quat_rotate(poses.q1, m.joint_axis[first + 1])
        n = k.normalize(k.cross(e0, e1))
        p = k.outer(n, n)
        error = n * (-k.dot(e0, e1))
    return p, error


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
def solve_locked(
    m: Model, s: State, poses: JointPoses, bodies: JointBodies, joint: int, soft: k.vec4, use_bias: bool
) -> JointBodies:
    """The locked axes: angular ones first, so that the anchors have the last word."""
    rate = 0.0
    mass_scale = 1.0
    impulse_scale = 0.0
    if use_bias:
        rate = soft.x
        mass_scale = soft.y
        impulse_scale = soft.z
    if m.joint_type[joint] != DISTANCE and m.joint_ang_count[joint] < 3:
        p, error = locked_angular(m, poses, joint)
        mass = widened(inertia_matrix(bodies.i0) + inertia_matrix(bodies.i1))
        old = p @ s.joint_impulse_angular[joint]
        change = projected_solve(p, mass, bodies.w1 - bodies.w0 + error * rate)
        change = change * -mass_scale - old * impulse_scale
        s.joint_impulse_angular[joint] = old + change
        bodies = push(bodies, k.vec3(0.0, 0.0, 0.0), change, change)
    free = m.joint_lin_count[joint]
    if m.joint_type[joint] != DISTANCE and free < 3:
        slip = (bodies.v1 + k.cross(bodies.w1, poses.r1)) - (bodies.v0 + k.cross(bodies.w0, poses.r0))
        wanted = slip + poses.d * rate
        mass = anchor_mass(bodies, poses)
        old = s.joint_impulse_linear[joint]
        change = k.vec3(0.0, 0.0, 0.0)
        if free == 0:
            change = full_solve(mass, wanted)
        else:
            p = locked_linear(m, poses, joint)
            old = p @ old
            change = projected_solve(p, mass, wanted)
        change = change * -mass_scale - old * impulse_scale
        s.joint_impulse_linear[joint] = old + change
        bodies = push(bodies, change, k.cross(poses.r0, change), k.cross(poses.r1, change))
    return bodies


@k.func
def previous_coordinate(m: Model, s: State, joint: int, n: int) -> float:
    """Last value of angular coordinate n where it is an angle that counts turns."""
    if m.joint_ang_count[joint] < 3:
        return s.joint_q[m.joint_q_start[joint] + m.joint_lin_count[joint] + n]
    return 0.0


@k.func
def solve_joint(
    m: Model,
    s: State,
    c: Control,
    rows: JointRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    joint: int,
    h: float,
    soft: k.vec4,
    use_bias: bool,
):
    """One Gauss-Seidel visit: the dofs, then the locked axes."""
    if m.joint_enabled[joint] != 0 and m.joint_type[joint] != FREE:
        poses = joint_poses(m, frame, motion, joint)
        bodies = load_bodies(poses, velocity, frame, inertia)
        dof = m.joint_qd_start[joint]
        for n in range(m.joint_lin_count[joint]):
            if rows.acts[dof + n] != 0:
                q, e = linear_dof(m, poses, joint, n)
                bodies = solve_dof(m, s, c, rows, bodies, linear_axis(poses, e), dof + n, q, h, soft, use_bias)
        dof += m.joint_lin_count[joint]
        for n in range(m.joint_ang_count[joint]):
            if rows.acts[dof + n] != 0:
                q, e = angular_dof(m, poses, joint, n, previous_coordinate(m, s, joint, n))
                bodies = solve_dof(m, s, c, rows, bodies, angular_axis(e), dof + n, q, h, soft, use_bias)
        bodies = solve_cone(m, s, poses, bodies, joint, h, soft, use_bias)
        bodies = solve_locked(m, s, poses, bodies, joint, soft, use_bias)
        store_bodies(poses, bodies, velocity)


@k.kernel
def solve_joints(
    m: Model,
    s: State,
    c: Control,
    rows: JointRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    order: k.array(dtype=k.int32),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    color: int,
    h: float,
    soft: k.vec4,
):
    first, end = slots_of(start, size, color, k.tid())
    for i in range(first, end):
        solve_joint(m, s, c, rows, velocity, motion, frame, inertia, order[i], h, soft, True)


@k.kernel
def relax_joints(
    m: Model,
    s: State,
    c: Control,
    rows: JointRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    order: k.array(dtype=k.int32),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    color: int,
    h: float,
    soft: k.vec4,
):
    first, end = slots_of(start, size, color, k.tid())
    for i in range(first, end):
        solve_joint(m, s, c, rows, velocity, motion, frame, inertia, order[i], h, soft, False)


@k.func
def dof_impulse(s: State, dof: int) -> float:
    """What friction, drive and limits of a dof apply together."""
    return (
        s.joint_impulse_friction[dof]
        + s.joint_impulse_drive[dof]
        + s.joint_impulse_lower[dof]
        + s.joint_impulse_upper[dof]
    )


@k.func
def warm_start_joint(
    m: Model,
    s: State,
    c: Control,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    joint: int,
    h: float,
):
    """Applies the impulses of the last substep and the efforts joint_f."""
    if m.joint_enabled[joint] != 0 and m.joint_type[joint] != FREE:
        poses = joint_poses(m, frame, motion, joint)
        bodies = load_bodies(poses, velocity, frame, inertia)
        linear = s.joint_impulse_linear[joint]
        turn = s.joint_impulse_angular[joint]
        bodies = push(bodies, linear, k.cross(poses.r0, linear) + turn, k.cross(poses.r1, linear) + turn)
        dof = m.joint_qd_start[joint]
        for n in range(m.joint_lin_count[joint]):
            impulse = dof_impulse(s, dof + n) + h * c.joint_f[dof + n]
            if impulse != 0.0:
                q, e = linear_dof(m, poses, joint, n)
                bodies = push_along(bodies, linear_axis(poses, e), impulse)
        dof += m.joint_lin_count[joint]
        for n in range(m.joint_ang_count[joint]):
            impulse = dof_impulse(s, dof + n) + h * c.joint_f[dof + n]
            if impulse != 0.0:
                q, e = angular_dof(m, poses, joint, n, 0.0)
                bodies = push_along(bodies, angular_axis(e), impulse)
        cone = s.joint_impulse_cone[joint]
        if cone > 0.0:
            z0 = k.quat_rotate(poses.q0, k.vec3(0.0, 0.0, 1.0))
            z1 = k.quat_rotate(poses.q1, k.vec3(0.0, 0.0, 1.0))
            across = k.cross(z0, z1)
            sine = k.length(across)
            if sine > 1.0e-6:
                bodies = push_along(bodies, angular_axis(across * (-1.0 / sine)), cone)
        store_bodies(poses, bodies, velocity)


@k.kernel
def warm_start_joints(
    m: Model,
    s: State,
    c: Control,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    order: k.array(dtype=k.int32),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    color: int,
    h: float,
):
    first, end = slots_of(start, size, color, k.tid())
    for i in range(first, end):
        warm_start_joint(m, s, c, velocity, motion, frame, inertia, order[i], h)


@k.kernel
def measure_joints(
    m: Model,
    s: State,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
):
    """joint_q and joint_qd from the bodies' poses and velocities."""
    joint = k.tid()
    if m.joint_type[joint] != FREE:
        poses = joint_poses(m, frame, motion, joint)
        bodies = load_bodies(poses, velocity, frame, inertia)
        coordinate = m.joint_q_start[joint]
        dof = m.joint_qd_start[joint]
        lin = m.joint_lin_count[joint]
        ang = m.joint_ang_count[joint]
        for n in range(lin):
            q, e = linear_dof(m, poses, joint, n)
            s.joint_q[coordinate + n] = q
            s.joint_qd[dof + n] = speed_along(bodies, linear_axis(poses, e))
        for n in range(ang):
            q, e = angular_dof(m, poses, joint, n, previous_coordinate(m, s, joint, n))
            if m.joint_type[joint] != BALL:
                s.joint_q[coordinate + lin + n] = q
            s.joint_qd[dof + lin + n] = speed_along(bodies, angular_axis(e))
        if m.joint_type[joint] == BALL:
            r = k.quat_inverse(poses.q0) * poses.q1
            s.joint_q[coordinate + lin] = r.x
            s.joint_q[coordinate + lin + 1] = r.y
            s.joint_q[coordinate + lin + 2] = r.z
            s.joint_q[coordinate + lin + 3] = r.w
