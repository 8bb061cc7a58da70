"""The soft step's private rows of the bodies: filled from the state, integrated in substeps, written back.

Constraints read and write the bodies at random indices, so what they need of a body is packed into 32-byte rows that
one cache line holds two of. Row `nbody` is the world: it never moves, has no mass, and spares the constraints a branch.

    begin      State → rows, checks the numbers
    accelerate rows.velocity: gravity, forces, gyroscopic torque       (each substep, first)
    move       rows.motion, rows.frame.q: position and orientation     (each substep, after the solve)
    finish     rows → State, clears body_f, checks the numbers
"""

from typing import Any, NamedTuple

from engine.compiler import lang as k
from engine.state.model import Model
from engine.state.tables import State

# Sum of h·ω² terms below which the series for sin and cos of half the angle are exact to the last bit of a float32.
SMALL_HALF_ANGLE_SQUARED = 0.25


@k.struct
class BodyVelocity:  # 32 bytes
    v: k.vec3  # of the centre of mass, m/s, world
    w: k.vec3  # angular, rad/s, world


@k.struct
class BodyMotion:  # 32 bytes; since the start of the frame, so that no digits are lost far from the origin
    p: k.vec3  # of the centre of mass, m, world
    r: k.vec3  # sum of the rotation vectors of the substeps, rad, world


@k.struct
class BodyFrame:  # 32 bytes
    q: k.quat  # orientation now
    c: k.vec3  # centre of mass at the start of the frame, m, world
    inv_mass: float  # 1/kg; 0: kinematic or the world


@k.struct
class BodyInertia:  # 32 bytes; inverse inertia about the centre of mass, world axes, 1/(kg·m²)
    xx: float
    yy: float
    zz: float
    xy: float
    xz: float
    yz: float


class BodyRows(NamedTuple):
    """The arrays of these rows, of all bodies and the world."""

    velocity: Any
    motion: Any
    frame: Any
    inertia: Any


@k.func
def inertia_times(i: BodyInertia, a: k.vec3) -> k.vec3:
    """Inverse inertia times a."""
    return k.vec3(
        i.xx * a.x + i.xy * a.y + i.xz * a.z,
        i.xy * a.x + i.yy * a.y + i.yz * a.z,
        i.xz * a.x + i.yz * a.y + i.zz * a.z,
    )


@k.func
def inertia_matrix(i: BodyInertia) -> k.mat33:
    return k.mat33(i.xx, i.xy, i.xz, i.xy, i.yy, i.yz, i.xz, i.yz, i.zz)


@k.func
def world_inertia(q: k.quat, body: k.mat33) -> BodyInertia:
    """R B Rᵀ of a symmetric B given in body axes."""
    x = k.quat_rotate(q, k.vec3(1.0, 0.0, 0.0))
    y = k.quat_rotate(q, k.vec3(0.0, 1.0, 0.0))
    z = k.quat_rotate(q, k.vec3(0.0, 0.0, 1.0))
    # columns of R B
    a = x * body[0, 0] + y * body[1, 0] + z * body[2, 0]
    b = x * body[0, 1] + y * body[1, 1] + z * body[2, 1]
    c = x * body[0, 2] + y * body[1, 2] + z * body[2, 2]
    out = BodyInertia()
    out.xx = a.x * x.x + b.x * y.x + c.x * z.x
    out.yy = a.y * x.y + b.y * y.y + c.y * z.y
    out.zz = a.z * x.z + b.z * y.z + c.z * z.z
    out.xy = a.x * x.y + b.x * y.y + c.x * z.y
    out.xz = a.x * x.z + b.x * y.z + c.x * z.z
    out.yz = a.y * x.z + b.y * y.z + c.y * z.z
    return out


@k.func
def solve33(m, b):
    """x of m x = b by Cramer's rule, in the precision of the arguments; 0 where m is singular."""
    vec = type(b)
    c0 = vec(m[0, 0], m[1, 0], m[2, 0])
    c1 = vec(m[0, 1], m[1, 1], m[2, 1])
    c2 = vec(m[0, 2], m[1, 2], m[2, 2])
    c12 = k.cross(c1, c2)
    det = k.dot(c0, c12)
    x = vec(k.dot(b, c12), k.dot(c0, k.cross(b, c2)), k.dot(c0, k.cross(c1, b)))
    if det != 0.0:
        return x / det
    return x * 0.0


@k.func
def gyroscopic(w: k.vec3, inertia: k.mat33, h: float) -> k.vec3:
    """Change of the angular velocity in h seconds of free rotation; w, inertia and the result are in body axes.

    Euler's equations by the implicit midpoint rule, I (w₁ − w₀) + h wₘ × I wₘ = 0 with wₘ = (w₀ + w₁)/2. The rule keeps
    every quadratic invariant, so kinetic energy and |angular momentum| stay, and it is stable at any spin. (Catto,
    "Numerical Methods", GDC 2015, solves the implicit Euler form with one Newton step, which damps the rotation.)
    """
    l = inertia @ w
    torque = k.cross(w, l)
    out = w
    # a change below one part in 1e7 is lost in float32: spheres, cubes, bodies at rest
    if k.dot(torque, torque) * h * h > 1.0e-14 * k.dot(l, l):
        for _ in range(3):
            middle = (w + out) * 0.5
            lm = inertia @ middle
            residual = inertia @ (out - w) + k.cross(middle, lm) * h
            # derivative of the residual by w₁: I + h/2 ([wₘ]× I − [I wₘ]×)
            jacobian = inertia + (k.skew(middle) @ inertia - k.skew(lm)) * (0.5 * h)
            out = out - solve33(jacobian, residual)
        # Newton's iteration may miss where one substep turns by more than a radian: never let it make energy
        before = k.dot(w, l)
        after = k.dot(out, inertia @ out)
        if after > 1.0001 * before:  # more than rounding, whose one-sided removal would be a drift
            out = out * k.sqrt(before / after)
        if not after < 4.0 * before:
            out = w
    return out - w


@k.func
def rotated(q: k.quat, r: k.vec3) -> k.quat:
    """q turned by the rotation vector r (world axes): exp(r/2) q, normalised."""
    a2 = 0.25 * k.dot(r, r)
    s = 0.5
    c = 1.0
    if a2 < SMALL_HALF_ANGLE_SQUARED:
        s = 0.5 * (1.0 + a2 * (-1.0 / 6.0 + a2 * (1.0 / 120.0 + a2 * (-1.0 / 5040.0))))
        c = 1.0 + a2 * (-0.5 + a2 * (1.0 / 24.0 + a2 * (-1.0 / 720.0 + a2 * (1.0 / 40320.0))))
    else:
        a = k.sqrt(a2)
        s = 0.5 * k.sin(a) / a
        c = k.cos(a)
    p = k.quat(r.x * s, r.y * s, r.z * s, c) * q
    scale = 1.0 / k.sqrt(p.x * p.x + p.y * p.y + p.z * p.z + p.w * p.w)
    return k.quat(p.x * scale, p.y * scale, p.z * scale, p.w * scale)


@k.func
def is_bad(a: float) -> bool:
    """Whether a is infinite or not a number."""
    return a * 0.0 != 0.0


@k.requires(lambda tid, m, s, velocity, motion, frame, inertia, inv_mass, welded: tid < s.body_q.shape[0]
    and tid < welded.shape[0] and tid < velocity.shape[0] and tid < motion.shape[0] and tid < frame.shape[0]
    and tid < m.body_q.shape[0] and tid < inv_mass.shape[0] and tid < inertia.shape[0])  # fmt: skip
@k.requires(lambda bad: 1 <= bad.shape[0])
@k.kernel
def begin_bodies(
    m: Model,
    s: State,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    inv_mass: k.array(dtype=k.float32),
    welded: k.array(dtype=k.int32),
    bad: k.array(dtype=k.int32),
):
    """Fills the rows of the bodies; bad[0] becomes the lowest index of a body whose state is not finite.

    inv_mass: what the solver takes for 1/mass. welded: 1 for bodies that are fixed to the world and stand still.
    """
    i = k.tid()
    pose = s.body_q[i]
    qd = s.body_qd[i]
    f = s.body_f[i]
    p = pose.p
    q = k.normalize(pose.q)
    v = k.spatial_top(qd)
    w = k.spatial_bottom(qd)
    check = p.x + p.y + p.z + q.x + q.y + q.z + q.w + v.x + v.y + v.z + w.x + w.y + w.z
    for j in range(6):
        check += f[j]
    if is_bad(check):
        k.atomic_min(bad, 0, i)
    if welded[i] != 0:
        v = k.vec3(0.0, 0.0, 0.0)
        w = k.vec3(0.0, 0.0, 0.0)
    velocity[i].v = v
    velocity[i].w = w
    motion[i].p = k.vec3(0.0, 0.0, 0.0)
    motion[i].r = k.vec3(0.0, 0.0, 0.0)
    frame[i].q = q
    frame[i].c = p + k.quat_rotate(q, m.body_com[i])
    frame[i].inv_mass = inv_mass[i]
    inertia[i] = BodyInertia()
    if inv_mass[i] > 0.0:
        inertia[i] = world_inertia(q, m.body_inv_inertia[i])


@k.requires(lambda tid, frame: tid < frame.shape[0])
@k.kernel
def accelerate_bodies(
    m: Model,
    s: State,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    h: float,
):
    """Velocities after h seconds of gravity, applied force and torque, and free rotation; not of kinematic bodies."""
    i = k.tid()
    inv_mass = frame[i].inv_mass
    if inv_mass > 0.0:
        f = s.body_f[i]
        force = k.spatial_top(f)
        torque = k.spatial_bottom(f)
        gravity = m.gravity[0] * m.body_gravity_scale[i]
        velocity[i].v = velocity[i].v + (gravity + force * inv_mass) * h
        w = velocity[i].w
        if k.dot(w, w) > 0.0:
            # only the change goes through the rotation to body axes and back: its rounding would be a drift
            q = frame[i].q
            w = w + k.quat_rotate(q, gyroscopic(k.quat_rotate_inv(q, w), m.body_inertia[i], h))
        velocity[i].w = w + inertia_times(inertia[i], torque) * h


@k.requires(lambda tid, m, velocity, motion, frame, inertia: tid < velocity.shape[0] and tid < motion.shape[0]
    and tid < frame.shape[0] and tid < inertia.shape[0] and tid < m.body_q.shape[0])  # fmt: skip
@k.kernel
def move_bodies(
    m: Model,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    h: float,
    turn_inertia: int,
):
    """Poses after h seconds at the current velocities. Joints want the inertia of the moment: turn_inertia."""
    i = k.tid()
    v = velocity[i].v
    w = velocity[i].w
    motion[i].p = motion[i].p + v * h
    motion[i].r = motion[i].r + w * h
    q = rotated(frame[i].q, w * h)
    frame[i].q = q
    if turn_inertia != 0 and frame[i].inv_mass > 0.0:
        inertia[i] = world_inertia(q, m.body_inv_inertia[i])


@k.requires(lambda tid, m, s, velocity, motion, frame: tid < frame.shape[0] and tid < velocity.shape[0]
    and tid < motion.shape[0] and tid < m.body_q.shape[0] and tid < s.body_q.shape[0])  # fmt: skip
@k.requires(lambda bad: 1 <= bad.shape[0])
@k.kernel
def finish_bodies(
    m: Model,
    s: State,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    bad: k.array(dtype=k.int32),
):
    """Writes poses and velocities to the state and clears the applied forces; bad as in begin_bodies."""
    i = k.tid()
    q = frame[i].q
    v = velocity[i].v
    w = velocity[i].w
    p = (frame[i].c + motion[i].p) - k.quat_rotate(q, m.body_com[i])
    check = p.x + p.y + p.z + q.x + q.y + q.z + q.w + v.x + v.y + v.z + w.x + w.y + w.z
    if is_bad(check):
        k.atomic_min(bad, 0, i)
    s.body_q[i] = k.transform(p, q)
    s.body_qd[i] = k.spatial_vector(v, w)
    s.body_f[i] = k.spatial_vector()
