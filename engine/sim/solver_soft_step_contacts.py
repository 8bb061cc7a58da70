"""The soft step's contact constraints: manifolds are listed, their rows solved colour by colour, impulses stored.

The soft constraint (Catto, "Soft Constraints", GDC 2011, and Solver2D, 2024) replaces the position error s < 0 by a
damped spring that is integrated implicitly: λ = −m (v + b·s)·c − d·λ_total with the coefficients of `softness`.
"Relax" repeats the solve without the spring, so that the velocity that pushed bodies apart does not stay in them.
"""

from engine.compiler import lang as k
from engine.sim.coloring import slots_of
from engine.sim.solver_soft_step_bodies import BodyInertia, BodyMotion, BodyVelocity
from engine.sim.solver_soft_step_contact_rows import (
    MAX_POINTS,
    ContactRows,
    Impulse,
    Pressing,
    Relative,
    answered,
    load_row_bodies,
    normal_speed,
    point_of,
    pressed,
    pressing,
    relative,
    store_row_bodies,
    strike,
    tangent_mass,
    total_of,
)
from engine.state.model import Model
from engine.state.tables import Contacts


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
        k.assume(a >= 0 and a < m.shape_body.shape[0] and b >= 0 and b < m.shape_body.shape[0])
        k.assume(m.shape_body[a] < inv_mass.shape[0] and m.shape_body[b] < inv_mass.shape[0])
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
    k.assume(a < inv_mass.shape[0] and b < inv_mass.shape[0])
    if a >= 0 and inv_mass[a] == 0.0:
        a = -1
    if b >= 0 and inv_mass[b] == 0.0:
        b = -1
    body0[i] = a
    body1[i] = b
    color[i] = contacts.manifold_color[p]


@k.func
def warm_start_row(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    i: int,
):
    """Applies the impulses of the last substep."""
    b = load_row_bodies(velocity, inertia, rows.body0[i], rows.body1[i], rows.inv_mass0[i], rows.inv_mass1[i])
    impulse = Impulse()
    impulse.push = k.vec3(0.0, rows.friction[i].x, rows.friction[i].y)
    impulse.turn = k.vec3(rows.twist[i], rows.rolling[i].x, rows.rolling[i].y)
    for q in range(MAX_POINTS):
        j = point_of(rows, i, q)
        normal = rows.impulse[j]
        place = rows.place[j]
        impulse.push.x = impulse.push.x + normal
        impulse.turn.y = impulse.turn.y + place.y * normal
        impulse.turn.z = impulse.turn.z - place.x * normal
    store_row_bodies(rows, velocity, i, strike(rows, i, b, impulse))


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
    first, count = slots_of(start, size, color, k.tid())
    for turn in range(count):
        i = first + turn
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
def resist_rolling(rows: ContactRows, i: int, motion: Relative, impulse: Impulse, load: float) -> Impulse:
    """Adds rolling friction to the impulse: a turn across the normal of at most mu_rolling·load."""
    if rows.mu_rolling[i] > 0.0:
        after = answered(rows, i, motion, impulse)
        mass = tangent_mass(rows.angular[i])
        old = rows.rolling[i]
        new = block_impulse(old, mass, after.w.y, after.w.z, rows.mu_rolling[i] * load)
        rows.rolling[i] = new
        impulse.turn = impulse.turn + k.vec3(0.0, new.x - old.x, new.y - old.y)
    return impulse


@k.func
def rub(rows: ContactRows, i: int, motion: Relative, normal: k.vec4) -> Impulse:
    """Friction of row i under these normal impulses: twist about n, the tangents inside a circle of μ·load, rolling."""
    load = 0.0
    grip = 0.0
    for q in range(MAX_POINTS):
        load += normal[q]
        grip += normal[q] * k.length(rows.place[point_of(rows, i, q)])
    mu = rows.mu[i]

    old_twist = rows.twist[i]
    most = mu * grip + rows.mu_torsional[i] * load
    twist = old_twist - rows.twist_mass[i] * motion.w.x
    twist = k.select_max(-most, k.select_min(twist, most))
    rows.twist[i] = twist
    turn = twist - old_twist

    old = rows.friction[i]
    mixed = rows.mixed[i]
    vt = motion.v.y + mixed[0, 1] * turn
    vu = motion.v.z + mixed[0, 2] * turn
    new = block_impulse(old, rows.friction_mass[i], vt, vu, mu * load)
    rows.friction[i] = new
    impulse = Impulse()
    impulse.push = k.vec3(0.0, new.x - old.x, new.y - old.y)
    impulse.turn = k.vec3(turn, 0.0, 0.0)
    return resist_rolling(rows, i, motion, impulse, load)


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
def normal_impulses(rows: ContactRows, i: int) -> k.vec4:
    """Of the points of row i; 0 for those that it does not have."""
    out = k.vec4()
    for q in range(MAX_POINTS):
        out[q] = rows.impulse[point_of(rows, i, q)]
    return out


@k.func
def lift(
    rows: ContactRows, i: int, p: Pressing, normal: k.vec4, way: float, soft: k.vec4, inv_h: float, use_bias: bool
):
    """All points of row i as one, at their centre: carries the load without preferring the points visited first."""
    mass = rows.center_mass[i]
    if mass > 0.0:
        count = rows.points[i]
        load = 0.0
        least = normal[0]
        for q in range(MAX_POINTS):
            load += normal[q]
            least = k.select_min(least, k.where(q < count, normal[q], least))
        bias, mass_scale, impulse_scale = softened(rows.center_separation[i] + way, soft, inv_h, use_bias)
        change = (-mass * mass_scale * (p.vn + bias) - impulse_scale * load) / float(count)
        change = k.select_max(change, -least)
        for q in range(MAX_POINTS):
            normal[q] = k.where(q < count, normal[q] + change, normal[q])
        p = pressed(p, k.vec2(0.0, 0.0), change * float(count))
    return p, normal


@k.func
def press(
    rows: ContactRows,
    i: int,
    motion: Relative,
    normal: k.vec4,
    way: Relative,
    soft: k.vec4,
    inv_h: float,
    use_bias: bool,
):
    """(impulse, normal impulses) of the non-penetration of row i: its points together, then one after the other."""
    p, normal = lift(rows, i, pressing(rows, i, motion), normal, way.v.x, soft, inv_h, use_bias)
    since = pressing(rows, i, way)
    count = rows.points[i]
    for turn in range(MAX_POINTS):
        # the relaxation goes backwards, which evens out what the order of the points does to a symmetric load
        q = turn
        if not use_bias:
            q = MAX_POINTS - 1 - turn
        if q < count:
            j = point_of(rows, i, q)
            place = rows.place[j]
            bias, mass_scale, impulse_scale = softened(
                rows.separation[j] + normal_speed(since, place), soft, inv_h, use_bias
            )
            before = normal[q]
            speed = normal_speed(p, place) + bias
            after = k.select_max(before - rows.mass[j] * mass_scale * speed - impulse_scale * before, 0.0)
            normal[q] = after
            p = pressed(p, place, after - before)
    return total_of(p), normal


@k.func
def solve_row(
    rows: ContactRows,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion_of: k.array(dtype=BodyMotion, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    i: int,
    soft: k.vec4,
    soft_static: k.vec4,
    inv_h: float,
    use_bias: bool,
):
    """One Gauss-Seidel visit of row i; returns the normal impulses of its points.

    soft, soft_static: bias rate, mass scale, impulse scale, largest push-out velocity; the second for a contact with
    something that does not react. The soft solve ends with the points, as depth matters most there; the relaxation ends
    with the friction, so that what stays is within μ times the load that stays.
    """
    body0 = rows.body0[i]
    body1 = rows.body1[i]
    b = load_row_bodies(velocity, inertia, body0, body1, rows.inv_mass0[i], rows.inv_mass1[i])
    chosen = soft
    if b.inv_mass0 * b.inv_mass1 == 0.0:
        chosen = soft_static
    motion = relative(rows, i, b.v0, b.w0, b.v1, b.w1)
    way = relative(rows, i, motion_of[body0].p, motion_of[body0].r, motion_of[body1].p, motion_of[body1].r)
    normal = normal_impulses(rows, i)
    first = Impulse()
    second = Impulse()
    if use_bias:
        first = rub(rows, i, motion, normal)
        second, normal = press(rows, i, answered(rows, i, motion, first), normal, way, chosen, inv_h, use_bias)
    else:
        first, normal = press(rows, i, motion, normal, way, chosen, inv_h, use_bias)
        second = rub(rows, i, answered(rows, i, motion, first), normal)
    for q in range(MAX_POINTS):
        rows.impulse[point_of(rows, i, q)] = normal[q]
    both = Impulse()
    both.push = first.push + second.push
    both.turn = first.turn + second.turn
    store_row_bodies(rows, velocity, i, strike(rows, i, b, both))
    return normal


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
    first, count = slots_of(start, size, color, k.tid())
    for turn in range(count):
        i = first + turn
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
    first, count = slots_of(start, size, color, k.tid())
    for turn in range(count):
        i = first + turn
        # what is left after the relaxation is what the substep has applied
        normal = solve_row(rows, velocity, motion, inertia, i, soft, soft_static, inv_h, False)
        for q in range(MAX_POINTS):
            j = point_of(rows, i, q)
            rows.total_impulse[j] = rows.total_impulse[j] + normal[q]
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
        b = load_row_bodies(velocity, inertia, rows.body0[i], rows.body1[i], rows.inv_mass0[i], rows.inv_mass1[i])
        p = pressing(rows, i, relative(rows, i, b.v0, b.w0, b.v1, b.w1))
        for q in range(rows.points[i]):
            j = point_of(rows, i, q)
            approach = rows.approach[j]
            if approach < -threshold and rows.total_impulse[j] > 0.0:
                place = rows.place[j]
                before = rows.impulse[j]
                change = k.select_max(before - rows.mass[j] * (normal_speed(p, place) + e * approach), 0.0) - before
                rows.impulse[j] = 0.0  # the points part: nothing to start the next frame with
                rows.total_impulse[j] = rows.total_impulse[j] + change
                p = pressed(p, place, change)
        store_row_bodies(rows, velocity, i, strike(rows, i, b, total_of(p)))


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
    first, count = slots_of(start, size, color, k.tid())
    for turn in range(count):
        i = first + turn
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
        j = point_of(rows, i, q)
        contacts.point_impulse[4 * p + q] = rows.impulse[j]
        contacts.point_total_impulse[4 * p + q] = rows.total_impulse[j]
