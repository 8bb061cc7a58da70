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
from engine.sim.solver_soft_step_bodies import BodyFrame, BodyInertia, BodyMotion, BodyVelocity
from engine.sim.solver_soft_step_joint_axes import (
    DISTANCE,
    JointPoses,
    angular_dof,
    joint_poses,
    linear_dof,
    locked_angular,
    locked_linear,
    previous_coordinate,
)
from engine.sim.solver_soft_step_joint_rows import (
    JointBodies,
    Row,
    Turning,
    anchor_give,
    anchor_mass,
    angular_axis,
    angular_row,
    clamp_to,
    free_turning,
    full_solve,
    harmonic_mean,
    limit_impulse,
    linear_axis,
    linear_row,
    load_bodies,
    narrowed,
    pinned_turning,
    projected_solve,
    push,
    push_along,
    softened,
    speed_along,
    store_bodies,
)
from engine.state.model import Model
from engine.state.schema import UNLIMITED, DriveMode, JointType
from engine.state.tables import Control, State

BALL = int(JointType.BALL)
FREE = int(JointType.FREE)
ACCELERATION = int(DriveMode.ACCELERATION)
LIMITED = 0.5 * UNLIMITED  # limits beyond this do not exist

JointRows: Any = make_table(
    "JointRows",
    [
        ("target_speed", k.float32, "ndof"),  # what the drive pulls the dof's velocity to in this substep
        ("softness", k.float32, "ndof"),  # of the drive's row, 1/kg or 1/(kg·m²); 0 = no drive
        ("acts", k.int32, "ndof"),  # 1: has a drive, a limit or friction
        ("turns", k.int32, "njoint"),  # 1: has rows about angular axes
    ],
)


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
def push_row(s: State, bodies: JointBodies, joint: int, row: Row, impulse: float) -> JointBodies:
    """Velocities after an impulse of a row; what the anchors carry of it is counted as theirs."""
    s.joint_impulse_linear[joint] = s.joint_impulse_linear[joint] + row.carried * impulse
    return push_along(bodies, row.push, impulse)


@k.func
def solve_dof(
    m: Model,
    s: State,
    c: Control,
    rows: JointRows,
    bodies: JointBodies,
    row: Row,
    joint: int,
    dof: int,
    q: float,
    h: float,
    soft: k.vec4,
    use_bias: bool,
) -> JointBodies:
    """Friction, drive and limits of one dof at coordinate q."""
    inverse_mass = row.inverse_mass
    if inverse_mass > 0.0:
        friction = m.joint_friction[dof]
        if friction > 0.0:
            old = s.joint_impulse_friction[dof]
            new = clamp_to(old - speed_along(bodies, row.sense) / inverse_mass, -h * friction, h * friction)
            s.joint_impulse_friction[dof] = new
            bodies = push_row(s, bodies, joint, row, new - old)
        if use_bias:
            drive_row(m, c, rows, dof, q, inverse_mass, h)
        gamma = rows.softness[dof]
        if gamma > 0.0:
            old = s.joint_impulse_drive[dof]
            speed = speed_along(bodies, row.sense) - rows.target_speed[dof]
            most = h * m.joint_effort_limit[dof]
            new = clamp_to(old - (speed + gamma * old) / (inverse_mass + gamma), -most, most)
            s.joint_impulse_drive[dof] = new
            bodies = push_row(s, bodies, joint, row, new - old)
        ke = m.joint_limit_ke[dof]
        kd = m.joint_limit_kd[dof]
        lower = m.joint_limit_lower[dof]
        if lower > -LIMITED:
            old = s.joint_impulse_lower[dof]
            speed = speed_along(bodies, row.sense)
            new = limit_impulse(q - lower, speed, old, inverse_mass, ke, kd, h, soft, use_bias)
            s.joint_impulse_lower[dof] = new
            bodies = push_row(s, bodies, joint, row, new - old)
        upper = m.joint_limit_upper[dof]
        if upper < LIMITED:
            old = s.joint_impulse_upper[dof]
            speed = -speed_along(bodies, row.sense)
            new = -limit_impulse(upper - q, speed, -old, inverse_mass, ke, kd, h, soft, use_bias)
            s.joint_impulse_upper[dof] = new
            bodies = push_row(s, bodies, joint, row, new - old)
    return bodies


@k.func
def solve_cone(
    m: Model,
    s: State,
    poses: JointPoses,
    turning: Turning,
    bodies: JointBodies,
    joint: int,
    h: float,
    soft: k.vec4,
    use_bias: bool,
) -> JointBodies:
    """The swing limit of a ball joint: the angle between the frames' z axes stays below joint_cone_upper."""
    z0 = k.quat_rotate(poses.q0, k.vec3(0.0, 0.0, 1.0))
    z1 = k.quat_rotate(poses.q1, k.vec3(0.0, 0.0, 1.0))
    across = k.cross(z0, z1)
    sine = k.length(across)
    if sine > 1.0e-6:
        row = angular_row(poses, turning, across * (-1.0 / sine))
        if row.inverse_mass > 0.0:
            gap = m.joint_cone_upper[joint] - k.atan2(sine, k.dot(z0, z1))
            old = s.joint_impulse_cone[joint]
            speed = speed_along(bodies, row.sense)
            new = limit_impulse(gap, speed, old, row.inverse_mass, 0.0, 0.0, h, soft, use_bias)
            s.joint_impulse_cone[joint] = new
            bodies = push_row(s, bodies, joint, row, new - old)
    return bodies


@k.func
def solve_anchor(
    m: Model, s: State, poses: JointPoses, bodies: JointBodies, joint: int, mass: k.mat33d, soft: k.vec4, use_bias: bool
) -> JointBodies:
    """Holds the anchors together along the locked linear axes; mass: anchor_mass."""
    slip = (bodies.v1 + k.cross(bodies.w1, poses.r1)) - (bodies.v0 + k.cross(bodies.w0, poses.r0))
    old = s.joint_impulse_linear[joint]
    free = m.joint_lin_count[joint]
    p = locked_linear(m, poses, joint)
    if free > 0:
        old = p @ old
    wanted = slip
    if use_bias:
        give = anchor_give(mass, bodies.inv_mass0 + bodies.inv_mass1, soft.w)
        wanted = slip + poses.d * soft.x + narrowed(give) @ old
        mass = mass + give
    change = k.vec3(0.0, 0.0, 0.0)
    if free == 0:
        change = -full_solve(mass, wanted)
    else:
        change = -projected_solve(p, mass, wanted)
    s.joint_impulse_linear[joint] = old + change
    return push(bodies, change, k.cross(poses.r0, change), k.cross(poses.r1, change))


@k.func
def solve_rotation(
    m: Model,
    s: State,
    poses: JointPoses,
    turning: Turning,
    bodies: JointBodies,
    joint: int,
    soft: k.vec4,
    use_bias: bool,
) -> JointBodies:
    """Keeps the frames parallel about the locked angular axes."""
    p, error = locked_angular(m, poses, joint)
    old = p @ s.joint_impulse_angular[joint]
    rate = 0.0
    give = 0.0
    if use_bias:
        rate = soft.x
        give = soft.w * harmonic_mean(turning.inverse)
    slip = bodies.w1 - bodies.w0
    change = -projected_solve(p, softened(turning.inverse, give), slip + error * rate + old * give)
    s.joint_impulse_angular[joint] = old + change
    carried = turning.carried @ change
    s.joint_impulse_linear[joint] = s.joint_impulse_linear[joint] + carried
    return push(bodies, carried, change + k.cross(poses.r0, carried), change + k.cross(poses.r1, carried))


@k.func
def solve_turning(
    m: Model,
    s: State,
    c: Control,
    rows: JointRows,
    poses: JointPoses,
    turning: Turning,
    bodies: JointBodies,
    joint: int,
    h: float,
    soft: k.vec4,
    use_bias: bool,
) -> JointBodies:
    """Everything about the rotation: angular dofs, cone, locked angular axes."""
    first = m.joint_qd_start[joint] + m.joint_lin_count[joint]
    for n in range(m.joint_ang_count[joint]):
        if rows.acts[first + n] != 0:
            q, e = angular_dof(m, poses, joint, n, previous_coordinate(m, s, joint, n))
            row = angular_row(poses, turning, e)
            bodies = solve_dof(m, s, c, rows, bodies, row, joint, first + n, q, h, soft, use_bias)
    if m.joint_cone_upper[joint] < LIMITED:
        bodies = solve_cone(m, s, poses, turning, bodies, joint, h, soft, use_bias)
    if m.joint_type[joint] != DISTANCE and m.joint_ang_count[joint] < 3:
        bodies = solve_rotation(m, s, poses, turning, bodies, joint, soft, use_bias)
    return bodies


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
    """One Gauss-Seidel visit. A pinned joint's anchors come first, and its rotation then leaves them in peace."""
    if m.joint_enabled[joint] != 0 and m.joint_type[joint] != FREE:
        poses = joint_poses(m, frame, motion, joint)
        bodies = load_bodies(poses, velocity, frame, inertia)
        free = m.joint_lin_count[joint]
        if free == 0:
            mass = anchor_mass(bodies, poses)
            bodies = solve_anchor(m, s, poses, bodies, joint, mass, soft, use_bias)
            if rows.turns[joint] != 0:
                turning = pinned_turning(bodies, poses, k.inverse(mass))
                bodies = solve_turning(m, s, c, rows, poses, turning, bodies, joint, h, soft, use_bias)
        else:
            first = m.joint_qd_start[joint]
            for n in range(free):
                if rows.acts[first + n] != 0:
                    q, e = linear_dof(m, poses, joint, n)
                    row = linear_row(bodies, poses, e)
                    bodies = solve_dof(m, s, c, rows, bodies, row, joint, first + n, q, h, soft, use_bias)
            if rows.turns[joint] != 0:
                turning = free_turning(bodies)
                bodies = solve_turning(m, s, c, rows, poses, turning, bodies, joint, h, soft, use_bias)
            if m.joint_type[joint] != DISTANCE and free < 3:
                bodies = solve_anchor(m, s, poses, bodies, joint, anchor_mass(bodies, poses), soft, use_bias)
        store_bodies(poses, bodies, velocity)


@k.requires(lambda start, color: 0 <= color and color < start.shape[0])
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
    first, count = slots_of(start, size, color, k.tid())
    for turn in range(count):
        i = first + turn
        solve_joint(m, s, c, rows, velocity, motion, frame, inertia, order[i], h, soft, True)


@k.requires(lambda start, color: 0 <= color and color < start.shape[0])
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
    first, count = slots_of(start, size, color, k.tid())
    for turn in range(count):
        i = first + turn
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


@k.requires(lambda start, color: 0 <= color and color < start.shape[0])
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
    first, count = slots_of(start, size, color, k.tid())
    for turn in range(count):
        i = first + turn
        warm_start_joint(m, s, c, velocity, motion, frame, inertia, order[i], h)


@k.requires(lambda tid, m: tid < m.joint_type.shape[0])
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
