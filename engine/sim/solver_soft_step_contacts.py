"""The soft step's contact constraints: one row per manifold in solve order, prepared once per frame.

A row holds what stays constant over the frame: the lever products j = r × n of its points with both bodies, effective
masses, friction at the centre of the manifold (two tangents as one block, and a twist about the normal). Separations
follow the bodies to first order, as in temporal Gauss-Seidel: s = s₀ + n·(Δp₁ − Δp₀) + j₁·Δr₁ − j₀·Δr₀, with Δ since
the start of the frame; for a rolling sphere that is exact.

The soft constraint (Catto, "Soft Constraints", GDC 2011, and Solver2D, 2024) replaces the position error s < 0 by a
damped spring that is integrated implicitly: λ = −m (v + b·s)·c − d·λ_total with the coefficients of `softness`.
"Relax" repeats the solve without the spring, so that the velocity that pushed bodies apart does not stay in them.
"""

from typing import Any

from engine.compiler import lang as k
from engine.context import make_table
from engine.sim.coloring import slots_of
from engine.sim.solver_soft_step_bodies import BodyFrame, BodyInertia, BodyMotion, BodyVelocity, inertia_times
from engine.state.model import Model
from engine.state.tables import Contacts

MAX_POINTS = 4


# One row per manifold (nrow), four points per row (npoint = 4 nrow): point p of row i is element 4 i + p.
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
        ("center_mass", k.float32, "nrow"),  # effective, kg, of all points moving alike; 0: some do not touch
        ("center_separation", k.float32, "nrow"),  # mean of the points', m
        ("friction_mass", k.vec3, "nrow"),  # inverse of the 2×2 tangent block: 11, 22, 12
        ("twist_mass", k.float32, "nrow"),
        ("friction", k.vec2, "nrow"),  # impulses along the tangents, N·s
        ("twist", k.float32, "nrow"),  # impulse about the normal, N·m·s
        ("rolling", k.vec2, "nrow"),  # impulses about the tangents, N·m·s; starts from 0 in every frame
        ("total_friction", k.vec2, "nrow"),  # over the frame
        ("j0", k.vec3, "npoint"),  # r₀ × n
        ("j1", k.vec3, "npoint"),  # r₁ × n
        ("separation", k.float32, "npoint"),  # at the start of the frame, m
        ("mass", k.float32, "npoint"),  # effective, kg
        ("lever", k.float32, "npoint"),  # distance from the manifold centre, m
        ("impulse", k.float32, "npoint"),  # N·s
        ("total_impulse", k.float32, "npoint"),  # over the frame
        ("approach", k.float32, "npoint"),  # normal velocity at the start of the frame, m/s
    ],
)


@k.requires(lambda contacts, count: 1 <= contacts.pair_count.shape[0] and 1 <= count.shape[0])
@k.kernel
def count_pairs(contacts: Contacts, count: k.array(dtype=k.int32)):
    count[0] = contacts.pair_count[0]


@k.requires(lambda tid, contacts, key: tid < key.shape[0] and tid < contacts.pair_shape0.shape[0])
@k.kernel
def mark_pairs(m: Model, contacts: Contacts, inv_mass: k.array(dtype=k.float32), key: k.array(dtype=k.int32)):
    """key = 0 for pairs that make a constraint, −1 for the others."""
    p = k.tid()
    key[p] = -1
    if contacts.manifold_count[p] > 0:
        a = contacts.pair_shape0[p]
        b = contacts.pair_shape1[p]
        sensor = (m.shape_flags[a] | m.shape_flags[b]) & 4
        mobility = 0.0
        if m.shape_body[a] >= 0:
            mobility += inv_mass[m.shape_body[a]]
        if m.shape_body[b] >= 0:
            mobility += inv_mass[m.shape_body[b]]
        if sensor == 0 and mobility > 0.0:
            key[p] = 0
    if key[p] < 0:
        contacts.manifold_color[p] = -1


@k.requires(lambda tid, m, contacts, order, body0, body1, color: tid < order.shape[0] and 0 <= order[tid]
    and order[tid] < contacts.pair_shape0.shape[0] and 0 <= contacts.pair_shape0[order[tid]]
    and contacts.pair_shape0[order[tid]] < m.shape_type.shape[0] and 0 <= contacts.pair_shape1[order[tid]]
    and contacts.pair_shape1[order[tid]] < m.shape_type.shape[0] and tid < body0.shape[0] and tid < body1.shape[0]
    and tid < color.shape[0])  # fmt: skip
@k.kernel
def list_bodies(
    m: Model,
    contacts: Contacts,
    inv_mass: k.array(dtype=k.float32),
    order: k.array(dtype=k.int32),
    body0: k.array(dtype=k.int32),
    body1: k.array(dtype=k.int32),
    color: k.array(dtype=k.int32),
):
    """The dynamic bodies of each constraint, −1 for those that do not react, and the colour that it had."""
    i = k.tid()
    p = order[i]
    a = m.shape_body[contacts.pair_shape0[p]]
    b = m.shape_body[contacts.pair_shape1[p]]
    if a >= 0 and inv_mass[a] == 0.0:
        a = -1
    if b >= 0 and inv_mass[b] == 0.0:
        b = -1
    body0[i] = a
    body1[i] = b
    color[i] = contacts.manifold_color[p]


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
) -> RowBodies:
    """All but the masses."""
    b = RowBodies()
    b.v0 = velocity[body0].v
    b.w0 = velocity[body0].w
    b.v1 = velocity[body1].v
    b.w1 = velocity[body1].w
    b.i0 = inertia[body0]
    b.i1 = inertia[body1]
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


@k.func
def mass_along(b: RowBodies, j0: k.vec3, j1: k.vec3) -> float:
    """Effective mass against a unit push with the lever products j0, j1."""
    return safe_inverse(
        (b.inv_mass0 + b.inv_mass1) + k.dot(j0, inertia_times(b.i0, j0)) + k.dot(j1, inertia_times(b.i1, j1))
    )


@k.func
def prepare_points(
    contacts: Contacts, p: int, rows: ContactRows, i: int, b: RowBodies, c0: k.vec3, c1: k.vec3, center: k.vec3
):
    """Points of row i from those of pair p; c0, c1: centres of mass, center: of the manifold."""
    n = rows.normal[i]
    for q in range(rows.points[i]):
        x = contacts.point_position[4 * p + q]
        j0 = k.cross(x - c0, n)
        j1 = k.cross(x - c1, n)
        j = 4 * i + q
        rows.j0[j] = j0
        rows.j1[j] = j1
        rows.separation[j] = contacts.point_separation[4 * p + q]
        rows.mass[j] = mass_along(b, j0, j1)
        rows.lever[j] = k.length(x - center)
        rows.impulse[j] = contacts.point_impulse[4 * p + q]
        rows.total_impulse[j] = 0.0
        rows.approach[j] = k.dot(b.v1 - b.v0, n) + k.dot(j1, b.w1) - k.dot(j0, b.w0)


@k.func
def prepare_center(contacts: Contacts, p: int, rows: ContactRows, i: int, b: RowBodies, r0: k.vec3, r1: k.vec3):
    """Friction and common load of row i; r0, r1: the manifold's centre from the centres of mass."""
    n = rows.normal[i]
    t = rows.tangent[i]
    u = k.cross(n, t)
    count = rows.points[i]
    rows.r0[i] = r0
    rows.r1[i] = r1

    apart = 0.0
    mean = 0.0
    for q in range(count):
        apart = k.select_max(apart, contacts.point_separation[4 * p + q])
        mean += contacts.point_separation[4 * p + q]
    rows.center_separation[i] = mean / float(count)
    rows.center_mass[i] = 0.0
    if apart == 0.0 and count > 1:
        rows.center_mass[i] = mass_along(b, k.cross(r0, n), k.cross(r1, n))

    t0 = k.cross(r0, t)
    t1 = k.cross(r1, t)
    u0 = k.cross(r0, u)
    u1 = k.cross(r1, u)
    total = b.inv_mass0 + b.inv_mass1
    k11 = total + k.dot(t0, inertia_times(b.i0, t0)) + k.dot(t1, inertia_times(b.i1, t1))
    k22 = total + k.dot(u0, inertia_times(b.i0, u0)) + k.dot(u1, inertia_times(b.i1, u1))
    k12 = k.dot(t0, inertia_times(b.i0, u0)) + k.dot(t1, inertia_times(b.i1, u1))
    inv_det = safe_inverse(k11 * k22 - k12 * k12)
    rows.friction_mass[i] = k.vec3(k22 * inv_det, k11 * inv_det, -k12 * inv_det)
    rows.twist_mass[i] = safe_inverse(k.dot(n, inertia_times(b.i0, n)) + k.dot(n, inertia_times(b.i1, n)))
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
    b = load_row_bodies(velocity, inertia, body0, body1)
    b.inv_mass0 = frame[body0].inv_mass
    b.inv_mass1 = frame[body1].inv_mass

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
    prepare_points(contacts, p, rows, i, b, c0, c1, center)
    prepare_center(contacts, p, rows, i, b, center - c0, center - c1)


@k.func
def warm_start_row(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    i: int,
):
    """Applies the impulses of the last substep."""
    a = rows.body0[i]
    b = rows.body1[i]
    inv_mass0 = rows.inv_mass0[i]
    inv_mass1 = rows.inv_mass1[i]
    n = rows.normal[i]
    t = rows.tangent[i]
    friction = rows.friction[i]
    push = t * friction.x + k.cross(n, t) * friction.y
    rolling = rows.rolling[i]
    turn = n * rows.twist[i] + t * rolling.x + k.cross(n, t) * rolling.y
    turn0 = k.cross(rows.r0[i], push) + turn
    turn1 = k.cross(rows.r1[i], push) + turn
    normal = 0.0
    for q in range(rows.points[i]):
        j = 4 * i + q
        impulse = rows.impulse[j]
        normal += impulse
        turn0 = turn0 + rows.j0[j] * impulse
        turn1 = turn1 + rows.j1[j] * impulse
    push = push + n * normal
    if inv_mass0 > 0.0:
        velocity[a].v = velocity[a].v - push * inv_mass0
        velocity[a].w = velocity[a].w - inertia_times(inertia[a], turn0)
    if inv_mass1 > 0.0:
        velocity[b].v = velocity[b].v + push * inv_mass1
        velocity[b].w = velocity[b].w + inertia_times(inertia[b], turn1)


@k.requires(lambda start, color: 0 <= color and color < start.shape[0])
@k.kernel
def warm_start_contacts(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    color: int,
):
    first, end = slots_of(start, size, color, k.tid())
    for i in range(first, end):
        warm_start_row(rows, velocity, inertia, i)


@k.func
def block_impulse(old: k.vec2, mass: k.vec3, vt: float, vu: float, limit: float) -> k.vec2:
    """New impulses of two rows with the inverse block `mass` (11, 22, 12) that stop vt and vu, inside a circle."""
    ft = old.x - (mass.x * vt + mass.z * vu)
    fu = old.y - (mass.z * vt + mass.y * vu)
    squared = ft * ft + fu * fu
    if squared > limit * limit:
        scale = limit / k.sqrt(squared)
        ft = ft * scale
        fu = fu * scale
    return k.vec2(ft, fu)


@k.func
def resist_rolling(rows: ContactRows, i: int, b: RowBodies, load: float) -> RowBodies:
    """Rolling friction: a torque across the normal of at most mu_rolling·load."""
    most = rows.mu_rolling[i] * load
    if rows.mu_rolling[i] > 0.0:
        t = rows.tangent[i]
        u = k.cross(rows.normal[i], t)
        k11 = k.dot(t, inertia_times(b.i0, t) + inertia_times(b.i1, t))
        k22 = k.dot(u, inertia_times(b.i0, u) + inertia_times(b.i1, u))
        k12 = k.dot(t, inertia_times(b.i0, u) + inertia_times(b.i1, u))
        inv_det = safe_inverse(k11 * k22 - k12 * k12)
        mass = k.vec3(k22 * inv_det, k11 * inv_det, -k12 * inv_det)
        old = rows.rolling[i]
        new = block_impulse(old, mass, k.dot(b.w1 - b.w0, t), k.dot(b.w1 - b.w0, u), most)
        rows.rolling[i] = new
        turn = t * (new.x - old.x) + u * (new.y - old.y)
        b.w0 = b.w0 - inertia_times(b.i0, turn)
        b.w1 = b.w1 + inertia_times(b.i1, turn)
    return b


@k.func
def rub(rows: ContactRows, i: int, b: RowBodies) -> RowBodies:
    """Friction of row i: twist about the normal, the tangent plane inside the circle of radius μ·load, rolling."""
    n = rows.normal[i]
    load = 0.0
    grip = 0.0
    for q in range(rows.points[i]):
        load += rows.impulse[4 * i + q]
        grip += rows.impulse[4 * i + q] * rows.lever[4 * i + q]
    mu = rows.mu[i]

    old_twist = rows.twist[i]
    most = mu * grip + rows.mu_torsional[i] * load
    twist = old_twist - rows.twist_mass[i] * k.dot(b.w1 - b.w0, n)
    twist = k.select_max(-most, k.select_min(twist, most))
    rows.twist[i] = twist
    w0 = b.w0 - inertia_times(b.i0, n) * (twist - old_twist)
    w1 = b.w1 + inertia_times(b.i1, n) * (twist - old_twist)

    t = rows.tangent[i]
    u = k.cross(n, t)
    r0 = rows.r0[i]
    r1 = rows.r1[i]
    slip = (b.v1 + k.cross(w1, r1)) - (b.v0 + k.cross(w0, r0))
    old = rows.friction[i]
    new = block_impulse(old, rows.friction_mass[i], k.dot(slip, t), k.dot(slip, u), mu * load)
    rows.friction[i] = new
    push = t * (new.x - old.x) + u * (new.y - old.y)
    b.v0 = b.v0 - push * b.inv_mass0
    b.w0 = w0 - inertia_times(b.i0, k.cross(r0, push))
    b.v1 = b.v1 + push * b.inv_mass1
    b.w1 = w1 + inertia_times(b.i1, k.cross(r1, push))
    return resist_rolling(rows, i, b, load)


@k.func
def softened(s: float, soft: k.vec4, inv_h: float, use_bias: bool):
    """(bias velocity, mass scale, impulse scale) of a row at separation s."""
    bias = 0.0
    mass_scale = 1.0
    impulse_scale = 0.0
    if s > 0.0:
        bias = s * inv_h  # not touching yet: may close the gap within this substep
    elif use_bias:
        bias = k.select_max(soft.x * s, -soft.w)
        mass_scale = soft.y
        impulse_scale = soft.z
    return bias, mass_scale, impulse_scale


@k.func
def pushed(b: RowBodies, n: k.vec3, j0: k.vec3, j1: k.vec3, impulse: float) -> RowBodies:
    """Velocities after an impulse along n with the lever products j0, j1."""
    b.v0 = b.v0 - n * (impulse * b.inv_mass0)
    b.w0 = b.w0 - inertia_times(b.i0, j0) * impulse
    b.v1 = b.v1 + n * (impulse * b.inv_mass1)
    b.w1 = b.w1 + inertia_times(b.i1, j1) * impulse
    return b


@k.func
def lift(
    rows: ContactRows, i: int, b: RowBodies, m0: BodyMotion, m1: BodyMotion, soft: k.vec4, inv_h: float, use_bias: bool
) -> RowBodies:
    """All points of row i as one, at their centre: carries the load without preferring the points visited first."""
    mass = rows.center_mass[i]
    if mass > 0.0:
        n = rows.normal[i]
        r0 = rows.r0[i]
        r1 = rows.r1[i]
        j0 = k.cross(r0, n)
        j1 = k.cross(r1, n)
        count = rows.points[i]
        load = 0.0
        least = rows.impulse[4 * i]
        for q in range(count):
            load += rows.impulse[4 * i + q]
            least = k.select_min(least, rows.impulse[4 * i + q])
        s = rows.center_separation[i] + k.dot(m1.p - m0.p, n) + (k.dot(j1, m1.r) - k.dot(j0, m0.r))
        bias, mass_scale, impulse_scale = softened(s, soft, inv_h, use_bias)
        vn = k.dot(b.v1 - b.v0, n) + (k.dot(j1, b.w1) - k.dot(j0, b.w0))
        change = (-mass * mass_scale * (vn + bias) - impulse_scale * load) / float(count)
        change = k.select_max(change, -least)
        for q in range(count):
            rows.impulse[4 * i + q] = rows.impulse[4 * i + q] + change
        b = pushed(b, n, j0, j1, change * float(count))
    return b


@k.func
def press(
    rows: ContactRows, i: int, b: RowBodies, m0: BodyMotion, m1: BodyMotion, soft: k.vec4, inv_h: float, use_bias: bool
) -> RowBodies:
    """Non-penetration of the points of row i, one after the other."""
    n = rows.normal[i]
    shift = k.dot(m1.p - m0.p, n)
    count = rows.points[i]
    for turn in range(count):
        # the relaxation goes backwards, which evens out what the order of the points does to a symmetric load
        q = turn
        if not use_bias:
            q = count - 1 - turn
        j = 4 * i + q
        j0 = rows.j0[j]
        j1 = rows.j1[j]
        s = rows.separation[j] + shift + (k.dot(j1, m1.r) - k.dot(j0, m0.r))
        bias, mass_scale, impulse_scale = softened(s, soft, inv_h, use_bias)
        vn = k.dot(b.v1 - b.v0, n) + (k.dot(j1, b.w1) - k.dot(j0, b.w0))
        before = rows.impulse[j]
        after = k.select_max(before - rows.mass[j] * mass_scale * (vn + bias) - impulse_scale * before, 0.0)
        change = after - before
        rows.impulse[j] = after
        b = pushed(b, n, j0, j1, change)
    return b


@k.func
def solve_row(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    i: int,
    soft: k.vec4,
    soft_static: k.vec4,
    inv_h: float,
    use_bias: bool,
):
    """One Gauss-Seidel visit of row i.

    soft, soft_static: bias rate, mass scale, impulse scale, largest push-out velocity; the second for a contact with
    something that does not react. The soft solve ends with the points, as depth matters most there; the relaxation ends
    with the friction, so that what stays is within μ times the load that stays.
    """
    body0 = rows.body0[i]
    body1 = rows.body1[i]
    b = load_row_bodies(velocity, inertia, body0, body1)
    b.inv_mass0 = rows.inv_mass0[i]
    b.inv_mass1 = rows.inv_mass1[i]
    chosen = soft
    if b.inv_mass0 * b.inv_mass1 == 0.0:
        chosen = soft_static
    if use_bias:
        b = rub(rows, i, b)
    b = lift(rows, i, b, motion[body0], motion[body1], chosen, inv_h, use_bias)
    b = press(rows, i, b, motion[body0], motion[body1], chosen, inv_h, use_bias)
    if not use_bias:
        b = rub(rows, i, b)
    store_row_bodies(rows, velocity, i, b)


@k.requires(lambda start, color: 0 <= color and color < start.shape[0])
@k.kernel
def solve_contacts(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    color: int,
    soft: k.vec4,
    soft_static: k.vec4,
    inv_h: float,
):
    first, end = slots_of(start, size, color, k.tid())
    for i in range(first, end):
        solve_row(rows, velocity, motion, inertia, i, soft, soft_static, inv_h, True)


@k.requires(lambda start, color: 0 <= color and color < start.shape[0])
@k.kernel
def relax_contacts(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    color: int,
    soft: k.vec4,
    soft_static: k.vec4,
    inv_h: float,
):
    first, end = slots_of(start, size, color, k.tid())
    for i in range(first, end):
        solve_row(rows, velocity, motion, inertia, i, soft, soft_static, inv_h, False)
        # what is left after the relaxation is what the substep has applied
        for q in range(rows.points[i]):
            rows.total_impulse[4 * i + q] = rows.total_impulse[4 * i + q] + rows.impulse[4 * i + q]
        rows.total_friction[i] = rows.total_friction[i] + rows.friction[i]


@k.func
def bounce_row(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    i: int,
    threshold: float,
):
    """Gives the points of row i that were hit faster than the threshold their rebound velocity."""
    e = rows.restitution[i]
    if e > 0.0:
        n = rows.normal[i]
        b = load_row_bodies(velocity, inertia, rows.body0[i], rows.body1[i])
        b.inv_mass0 = rows.inv_mass0[i]
        b.inv_mass1 = rows.inv_mass1[i]
        for q in range(rows.points[i]):
            j = 4 * i + q
            approach = rows.approach[j]
            if approach < -threshold and rows.total_impulse[j] > 0.0:
                j0 = rows.j0[j]
                j1 = rows.j1[j]
                vn = k.dot(b.v1 - b.v0, n) + (k.dot(j1, b.w1) - k.dot(j0, b.w0))
                before = rows.impulse[j]
                change = k.select_max(before - rows.mass[j] * (vn + e * approach), 0.0) - before
                rows.impulse[j] = 0.0  # the points part: nothing to start the next frame with
                rows.total_impulse[j] = rows.total_impulse[j] + change
                b = pushed(b, n, j0, j1, change)
        store_row_bodies(rows, velocity, i, b)


@k.requires(lambda start, color: 0 <= color and color < start.shape[0])
@k.kernel
def bounce_contacts(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    color: int,
    threshold: float,
):
    first, end = slots_of(start, size, color, k.tid())
    for i in range(first, end):
        bounce_row(rows, velocity, inertia, i, threshold)


@k.requires(lambda tid, rows, contacts: tid < rows.pair.shape[0] and 0 <= rows.pair[tid]
    and rows.pair[tid] < contacts.pair_shape0.shape[0])  # fmt: skip
@k.kernel
def store_contacts(rows: ContactRows, contacts: Contacts):
    """Impulses back to the manifolds: the warm start of the next frame, and the totals for the user."""
    i = k.tid()
    p = rows.pair[i]
    t = rows.tangent[i]
    u = k.cross(rows.normal[i], t)
    f = rows.friction[i]
    total = rows.total_friction[i]
    contacts.manifold_friction[p] = t * f.x + u * f.y
    contacts.manifold_total_friction[p] = t * total.x + u * total.y
    contacts.manifold_twist[p] = rows.twist[i]
    for q in range(rows.points[i]):
        contacts.point_impulse[4 * p + q] = rows.impulse[4 * i + q]
        contacts.point_total_impulse[4 * p + q] = rows.total_impulse[4 * i + q]
