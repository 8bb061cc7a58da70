"""Where a joint is: its frames, the coordinates and world axes of its dofs, the axes it locks and their errors."""

from engine.compiler import lang as k
from engine.sim.solver_soft_step_bodies import BodyFrame, BodyMotion
from engine.state.model import Model
from engine.state.schema import JointType
from engine.state.tables import State

DISTANCE = int(JointType.DISTANCE)
PI = 3.141592653589793


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
def previous_coordinate(m: Model, s: State, joint: int, n: int) -> float:
    """Last value of angular coordinate n where it is an angle that counts turns."""
    if m.joint_ang_count[joint] < 3:
        return s.joint_q[m.joint_q_start[joint] + m.joint_lin_count[joint] + n]
    return 0.0


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
