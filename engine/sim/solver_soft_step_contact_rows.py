"""The rows of the soft step's contact constraints: what a row holds, its own coordinates, how it is prepared.

A row is solved in coordinates of its own: how body 1 moves against body 0 at the manifold's centre, as velocity and
spin along its axes n, t, u. Six numbers are read from the bodies, all points and the friction act on them by the 6×6
matrix that says what impulses do to them (constant over the frame), and the sum of the impulses is given to the bodies
at the end. A point at x t + y u from the centre has the normal velocity v_n + y w_t − x w_u: two numbers place it.

Separations follow the bodies to first order, as in temporal Gauss-Seidel: s = s₀ plus the same expression of the
motions since the start of the frame; for a rolling sphere that is exact.
"""

from typing import Any

from engine.compiler import lang as k
from engine.compiler.values import vector
from engine.context import make_table
from engine.sim.solver_soft_step_bodies import BodyFrame, BodyInertia, BodyVelocity, inertia_matrix, inertia_times
from engine.state.model import Model
from engine.state.tables import Contacts

MAX_POINTS = 4

Symmetric: Any = vector(length=6, dtype=k.float32)  # 3×3: 11, 22, 33, 12, 13, 23, of the axes n, t, u

# One row per manifold (nrow), four points per row (npoint = 4 nrow): point q of row i is element q nrow + i, so that
# rows that are solved side by side have their points side by side.
ContactRows: Any = make_table(
    "ContactRows",
    [
        ("pair", k.int32, "nrow"),  # in Contacts
        ("body0", k.int32, "nrow"),  # row of the body, nbody = the world
        ("body1", k.int32, "nrow"),
        ("points", k.int32, "nrow"),  # how many
        ("normal", k.vec3, "nrow"),  # from 0 to 1
        ("tangent", k.vec3, "nrow"),  # the first; the second is normal × tangent
        ("inv_mass0", k.float32, "nrow"),  # 1/kg
        ("inv_mass1", k.float32, "nrow"),
        ("mu", k.float32, "nrow"),
        ("mu_torsional", k.float32, "nrow"),  # m
        ("mu_rolling", k.float32, "nrow"),  # m
        ("restitution", k.float32, "nrow"),
        ("r0", k.vec3, "nrow"),  # manifold centre from the centre of mass, m
        ("r1", k.vec3, "nrow"),
        ("linear", Symmetric, "nrow"),  # velocity of the centre by an impulse there, 1/kg
        ("mixed", k.mat33, "nrow"),  # spin (row) by an impulse at the centre (column); turned over, velocity by a turn
        ("angular", Symmetric, "nrow"),  # spin by an angular impulse
        ("center_mass", k.float32, "nrow"),  # effective, kg, of all points moving alike; 0: some do not touch
        ("center_separation", k.float32, "nrow"),  # mean of the points', m
        ("friction_mass", k.vec3, "nrow"),  # inverse of the 2×2 tangent block: 11, 22, 12
        ("twist_mass", k.float32, "nrow"),
        ("friction", k.vec2, "nrow"),  # impulses along the tangents, N·s
        ("twist", k.float32, "nrow"),  # impulse about the normal, N·m·s
        ("rolling", k.vec2, "nrow"),  # impulses about the tangents, N·m·s; starts from 0 in every frame
        ("total_friction", k.vec2, "nrow"),  # over the frame
        ("place", k.vec2, "npoint"),  # from the manifold centre, along the tangents, m; 0 where there is no point
        ("separation", k.float32, "npoint"),  # at the start of the frame, m
        ("mass", k.float32, "npoint"),  # effective, kg
        ("impulse", k.float32, "npoint"),  # N·s; 0 where there is no point
        ("total_impulse", k.float32, "npoint"),  # over the frame
        ("approach", k.float32, "npoint"),  # normal velocity at the start of the frame, m/s
    ],
)


@k.func
def point_of(rows: ContactRows, i: int, q: int) -> int:
    """Where point q of row i is."""
    return q * rows.pair.shape[0] + i


@k.func
def tangent_of(n: k.vec3) -> k.vec3:
    """A unit vector perpendicular to n, by the world axis that n has least of."""
    t = k.vec3(0.0, -n.z, n.y)
    if k.abs(n.x) > k.abs(n.y) or k.abs(n.x) > k.abs(n.z):
        if k.abs(n.y) <= k.abs(n.z):
            t = k.vec3(n.z, 0.0, -n.x)
        else:
            t = k.vec3(-n.y, n.x, 0.0)
    return t * (1.0 / k.sqrt(k.dot(t, t)))


@k.func
def safe_inverse(a: float) -> float:
    if a > 0.0:
        return 1.0 / a
    return 0.0


@k.struct
class RowBodies:
    """The two bodies of a row while it is being solved."""

    v0: k.vec3
    w0: k.vec3
    v1: k.vec3
    w1: k.vec3
    inv_mass0: float
    inv_mass1: float
    i0: BodyInertia
    i1: BodyInertia


@k.func
def load_row_bodies(
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    body0: int,
    body1: int,
    inv_mass0: float,
    inv_mass1: float,
) -> RowBodies:
    b = RowBodies()
    b.v0 = velocity[body0].v
    b.w0 = velocity[body0].w
    b.v1 = velocity[body1].v
    b.w1 = velocity[body1].w
    b.i0 = inertia[body0]
    b.i1 = inertia[body1]
    b.inv_mass0 = inv_mass0
    b.inv_mass1 = inv_mass1
    return b


@k.func
def store_row_bodies(rows: ContactRows, velocity: k.array(dtype=BodyVelocity, layout="rows"), i: int, b: RowBodies):
    """The velocities of the bodies that move; others may be written by nobody, as rows of one colour share them."""
    if b.inv_mass0 > 0.0:
        velocity[rows.body0[i]].v = b.v0
        velocity[rows.body0[i]].w = b.w0
    if b.inv_mass1 > 0.0:
        velocity[rows.body1[i]].v = b.v1
        velocity[rows.body1[i]].w = b.w1


@k.struct
class Relative:
    """How body 1 moves against body 0 at the centre of a row, along n, t, u: velocity and spin, or way and rotation."""

    v: k.vec3
    w: k.vec3


@k.struct
class Impulse:
    """On body 1 at the centre of a row, along n, t, u, and about it; body 0 gets the opposite."""

    push: k.vec3
    turn: k.vec3


@k.func
def relative(rows: ContactRows, i: int, v0: k.vec3, w0: k.vec3, v1: k.vec3, w1: k.vec3) -> Relative:
    n = rows.normal[i]
    t = rows.tangent[i]
    u = k.cross(n, t)
    slip = (v1 - v0) + (k.cross(w1, rows.r1[i]) - k.cross(w0, rows.r0[i]))
    spin = w1 - w0
    out = Relative()
    out.v = k.vec3(k.dot(slip, n), k.dot(slip, t), k.dot(slip, u))
    out.w = k.vec3(k.dot(spin, n), k.dot(spin, t), k.dot(spin, u))
    return out


@k.func
def symmetric_times(a: Symmetric, x: k.vec3) -> k.vec3:
    return k.vec3(
        a[0] * x.x + a[3] * x.y + a[4] * x.z, a[3] * x.x + a[1] * x.y + a[5] * x.z, a[4] * x.x + a[5] * x.y + a[2] * x.z
    )


@k.func
def tangent_mass(a: Symmetric) -> k.vec3:
    """Inverse of the 2×2 block of t and u (11, 22, 12); 0 for one that is singular."""
    inv_det = safe_inverse(a[1] * a[2] - a[5] * a[5])
    return k.vec3(a[2] * inv_det, a[1] * inv_det, -a[5] * inv_det)


@k.func
def answered(rows: ContactRows, i: int, motion: Relative, impulse: Impulse) -> Relative:
    """The relative motion after an impulse."""
    mixed = rows.mixed[i]
    linear = symmetric_times(rows.linear[i], impulse.push) + impulse.turn @ mixed
    angular = symmetric_times(rows.angular[i], impulse.turn) + mixed @ impulse.push
    motion.v = motion.v + linear
    motion.w = motion.w + angular
    return motion


@k.func
def strike(rows: ContactRows, i: int, b: RowBodies, impulse: Impulse) -> RowBodies:
    """The bodies after an impulse."""
    n = rows.normal[i]
    t = rows.tangent[i]
    u = k.cross(n, t)
    push = n * impulse.push.x + t * impulse.push.y + u * impulse.push.z
    turn = n * impulse.turn.x + t * impulse.turn.y + u * impulse.turn.z
    b.v0 = b.v0 - push * b.inv_mass0
    b.w0 = b.w0 - inertia_times(b.i0, k.cross(rows.r0[i], push) + turn)
    b.v1 = b.v1 + push * b.inv_mass1
    b.w1 = b.w1 + inertia_times(b.i1, k.cross(rows.r1[i], push) + turn)
    return b


@k.struct
class Pressing:
    """Relative motion of a row as far as its points feel it, what impulses along n do to it, and their sum."""

    vn: float
    wt: float
    wu: float
    nn: float  # vn by an impulse
    nt: float  # wt by an impulse, vn by a turn about t
    nu: float
    tt: float  # wt by a turn about t
    uu: float
    tu: float
    push: float
    turn_t: float
    turn_u: float


@k.func
def pressing(rows: ContactRows, i: int, motion: Relative) -> Pressing:
    """Before the first impulse."""
    p = Pressing()
    p.vn = motion.v.x
    p.wt = motion.w.y
    p.wu = motion.w.z
    linear = rows.linear[i]
    mixed = rows.mixed[i]
    angular = rows.angular[i]
    p.nn = linear[0]
    p.nt = mixed[1, 0]
    p.nu = mixed[2, 0]
    p.tt = angular[1]
    p.uu = angular[2]
    p.tu = angular[5]
    return p


@k.func
def normal_speed(p: Pressing, place: k.vec2) -> float:
    """Of a point."""
    return p.vn + (p.wt * place.y - p.wu * place.x)


@k.func
def pressed(p: Pressing, place: k.vec2, impulse: float) -> Pressing:
    """After an impulse along n at a point."""
    turn_t = place.y * impulse
    turn_u = -place.x * impulse
    p.vn = p.vn + (p.nn * impulse + p.nt * turn_t + p.nu * turn_u)
    p.wt = p.wt + (p.nt * impulse + p.tt * turn_t + p.tu * turn_u)
    p.wu = p.wu + (p.nu * impulse + p.tu * turn_t + p.uu * turn_u)
    p.push = p.push + impulse
    p.turn_t = p.turn_t + turn_t
    p.turn_u = p.turn_u + turn_u
    return p


@k.func
def total_of(p: Pressing) -> Impulse:
    out = Impulse()
    out.push = k.vec3(p.push, 0.0, 0.0)
    out.turn = k.vec3(0.0, p.turn_t, p.turn_u)
    return out


@k.func
def respond(b: RowBodies, r0: k.vec3, r1: k.vec3, n: k.vec3, t: k.vec3, u: k.vec3):
    """(linear, mixed, angular) of a row with these axes, whose centre is at r0, r1 from the centres of mass."""
    mass = b.inv_mass0 + b.inv_mass1
    linear = Symmetric(mass, mass, mass, 0.0, 0.0, 0.0)
    mixed = k.mat33()
    angular = Symmetric()
    for side in k.static(range(2)):
        r = r0 if side == 0 else r1
        inertia = b.i0 if side == 0 else b.i1
        lever = k.matrix_from_cols(k.cross(r, n), k.cross(r, t), k.cross(r, u))
        axes = k.matrix_from_cols(n, t, u)
        spun = inertia_matrix(inertia) @ lever
        linear = linear + packed(k.transpose(lever) @ spun)
        mixed = mixed + k.transpose(axes) @ spun
        angular = angular + packed(k.transpose(axes) @ (inertia_matrix(inertia) @ axes))
    return linear, mixed, angular


@k.func
def packed(m: k.mat33) -> Symmetric:
    """A symmetric matrix without its lower half."""
    return Symmetric(m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2])


@k.func
def prepare_points(contacts: Contacts, p: int, rows: ContactRows, i: int, b: RowBodies, center: k.vec3):
    """Points of row i from those of pair p, once the row itself is there; center: of the manifold."""
    t = rows.tangent[i]
    u = k.cross(rows.normal[i], t)
    motion = pressing(rows, i, relative(rows, i, b.v0, b.w0, b.v1, b.w1))
    for q in range(rows.points[i], MAX_POINTS):
        j = point_of(rows, i, q)
        rows.place[j] = k.vec2(0.0, 0.0)
        rows.impulse[j] = 0.0
        rows.total_impulse[j] = 0.0
    for q in range(rows.points[i]):
        a = contacts.point_position[4 * p + q] - center
        place = k.vec2(k.dot(a, t), k.dot(a, u))
        unit = pressed(motion, place, 1.0)
        j = point_of(rows, i, q)
        rows.place[j] = place
        rows.separation[j] = contacts.point_separation[4 * p + q]
        rows.mass[j] = safe_inverse(normal_speed(unit, place) - normal_speed(motion, place))
        rows.impulse[j] = contacts.point_impulse[4 * p + q]
        rows.total_impulse[j] = 0.0
        rows.approach[j] = normal_speed(motion, place)


@k.func
def prepare_center(contacts: Contacts, p: int, rows: ContactRows, i: int, b: RowBodies, r0: k.vec3, r1: k.vec3):
    """Friction and common load of row i; r0, r1: the manifold's centre from the centres of mass."""
    n = rows.normal[i]
    t = rows.tangent[i]
    u = k.cross(n, t)
    count = rows.points[i]
    linear, mixed, angular = respond(b, r0, r1, n, t, u)
    rows.r0[i] = r0
    rows.r1[i] = r1
    rows.linear[i] = linear
    rows.mixed[i] = mixed
    rows.angular[i] = angular

    apart = 0.0
    mean = 0.0
    for q in range(count):
        apart = k.select_max(apart, contacts.point_separation[4 * p + q])
        mean += contacts.point_separation[4 * p + q]
    rows.center_separation[i] = mean / float(count)
    rows.center_mass[i] = 0.0
    if apart == 0.0 and count > 1:
        rows.center_mass[i] = safe_inverse(linear[0])

    rows.friction_mass[i] = tangent_mass(linear)
    rows.twist_mass[i] = safe_inverse(angular[0])
    old = contacts.manifold_friction[p]
    rows.friction[i] = k.vec2(k.dot(old, t), k.dot(old, u))
    rows.twist[i] = contacts.manifold_twist[p]
    rows.rolling[i] = k.vec2(0.0, 0.0)
    rows.total_friction[i] = k.vec2(0.0, 0.0)


@k.func
def row_of(m: Model, body: int) -> int:
    """Row of a body; the world's is the last."""
    if body < 0:
        return m.nbody
    return body


@k.requires(lambda tid, m, contacts, pairs, order, color, rows: tid < order.shape[0] and 0 <= order[tid]
    and order[tid] < pairs.shape[0] and 0 <= pairs[order[tid]] and pairs[order[tid]] < contacts.pair_shape0.shape[0]
    and 0 <= contacts.pair_shape0[pairs[order[tid]]]
    and contacts.pair_shape0[pairs[order[tid]]] < m.shape_type.shape[0]
    and 0 <= contacts.pair_shape1[pairs[order[tid]]]
    and contacts.pair_shape1[pairs[order[tid]]] < m.shape_type.shape[0] and order[tid] < color.shape[0]
    and tid < rows.pair.shape[0])  # fmt: skip
@k.kernel
def prepare_contacts(
    m: Model,
    contacts: Contacts,
    pairs: k.array(dtype=k.int32),
    order: k.array(dtype=k.int32),
    color: k.array(dtype=k.int32),
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
):
    """Fills row i from the constraint that is i-th in solve order."""
    i = k.tid()
    p = pairs[order[i]]
    shape0 = contacts.pair_shape0[p]
    shape1 = contacts.pair_shape1[p]
    body0 = row_of(m, m.shape_body[shape0])
    body1 = row_of(m, m.shape_body[shape1])
    count = contacts.manifold_count[p]
    b = load_row_bodies(velocity, inertia, body0, body1, frame[body0].inv_mass, frame[body1].inv_mass)

    contacts.manifold_color[p] = color[order[i]]
    rows.pair[i] = p
    rows.body0[i] = body0
    rows.body1[i] = body1
    rows.points[i] = count
    rows.normal[i] = contacts.manifold_normal[p]
    rows.tangent[i] = tangent_of(contacts.manifold_normal[p])
    rows.inv_mass0[i] = b.inv_mass0
    rows.inv_mass1[i] = b.inv_mass1
    rows.mu[i] = 0.5 * (m.shape_mu[shape0] + m.shape_mu[shape1])
    rows.mu_torsional[i] = 0.5 * (m.shape_mu_torsional[shape0] + m.shape_mu_torsional[shape1])
    rows.mu_rolling[i] = 0.5 * (m.shape_mu_rolling[shape0] + m.shape_mu_rolling[shape1])
    rows.restitution[i] = 0.5 * (m.shape_restitution[shape0] + m.shape_restitution[shape1])

    center = k.vec3(0.0, 0.0, 0.0)
    for q in range(count):
        center = center + contacts.point_position[4 * p + q]
    center = center * (1.0 / float(count))
    c0 = frame[body0].c
    c1 = frame[body1].c
    prepare_center(contacts, p, rows, i, b, center - c0, center - c1)
    prepare_points(contacts, p, rows, i, b, center)
