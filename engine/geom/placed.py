"""Shapes in the world: pose rows that the narrow phase reads, motion over the frame, bounds against the fat boxes."""

from engine.compiler import lang as k
from engine.geom.shapes import ShapeType
from engine.state.model import Contacts, Model, State
from engine.state.schema import ShapeFlag

SPHERE = int(ShapeType.SPHERE)
CAPSULE = int(ShapeType.CAPSULE)
BOX = int(ShapeType.BOX)
CYLINDER = int(ShapeType.CYLINDER)
CONE = int(ShapeType.CONE)
HULL = int(ShapeType.HULL)
PLANE = int(ShapeType.PLANE)
COLLIDE = int(ShapeFlag.COLLIDE)

# Contacts are made ahead of a touch: each shape reaches out by this much, m, or a tenth of its radius if that is less
# (of two large shapes 4 × the linear slop of 5 mm, Box2D's choice), but by no less than gravity moves it in a frame.
REACH = 0.01
LEAST_REACH = 0.002

# Bounds reach along a body's path over one frame, but not farther than 4 radii or this distance, m.
SWEEP_LIMIT = 1.0


@k.struct
class Placed:  # 64 bytes, one cache line
    rot: k.mat33  # shape axes, world (columns)
    pos: k.vec3  # shape origin, world, m
    size: k.vec3  # shape_scale
    kind: int  # ShapeType; finite planes are flat boxes


@k.struct
class Bound:  # 32 bytes, constant: the shape lies in a box of the shape frame, widened by a ball
    center: k.vec3
    half: k.vec3
    radius: float
    fat: float  # width of the fat margin; < 0: not in the tree (infinite planes, shapes that do not collide)


@k.requires(lambda tid, m, bounds: tid < m.shape_type.shape[0] and tid < bounds.shape[0])
@k.kernel
def make_bounds(m: Model, bounds: k.array(dtype=Bound)):
    i = k.tid()
    kind = m.shape_type[i]
    size = m.shape_scale[i]
    b = Bound()
    b.fat = k.clamp(0.05 * m.shape_radius[i], 0.005, 0.1)
    if kind == SPHERE:
        b.radius = size.x
    elif kind == CAPSULE:
        b.half = k.vec3(0.0, 0.0, size.y)
        b.radius = size.x
    elif kind == CYLINDER or kind == CONE:
        b.half = k.vec3(size.x, size.x, size.y)
    elif kind == HULL:
        hull = m.shape_hull[i]
        k.assume(hull >= 0 and hull < m.hull_vertex_start.shape[0])
        start = m.hull_vertex_start[hull]
        count = m.hull_vertex_count[hull]
        k.assume(start >= 0 and count >= 0 and start <= m.hull_vertex.shape[0] - count)
        lo = k.vec3(3.0e38)
        hi = k.vec3(-3.0e38)
        for v in range(start, start + count):
            p = m.hull_vertex[v]
            lo = k.vec3(min(p.x, lo.x), min(p.y, lo.y), min(p.z, lo.z))
            hi = k.vec3(max(p.x, hi.x), max(p.y, hi.y), max(p.z, hi.z))
        b.center = (lo + hi) * 0.5
        b.half = (hi - lo) * 0.5
    elif kind == PLANE:
        b.half = k.vec3(size.x, size.y, 0.0)
        if size.x <= 0.0 or size.y <= 0.0:
            b.fat = -1.0
    else:
        b.half = size
    if m.shape_flags[i] & COLLIDE == 0:
        b.fat = -1.0
    bounds[i] = b


@k.func
def contact_reach(a: k.vec4, b: k.vec4) -> float:
    """Largest separation at which two shapes make contacts: their reach and what they approach in one frame.

    a, b: motion rows (shift of the origin over the frame; reach, rotation of the surface and shape_margin), m.
    """
    d = k.vec3(b.x - a.x, b.y - a.y, b.z - a.z)
    return k.length(d) + a.w + b.w


@k.func
def sweep_of(shift: k.vec3, radius: float) -> k.vec3:
    """The shift over a frame, shortened to the sweep limit."""
    limit = max(4.0 * radius, SWEEP_LIMIT)
    dist = k.length(shift)
    if dist > limit:
        shift = shift * (limit / dist)
    return shift


@k.func
def contains(outer_lower: k.vec3, outer_upper: k.vec3, lower: k.vec3, upper: k.vec3) -> bool:
    return (
        lower.x >= outer_lower.x
        and lower.y >= outer_lower.y
        and lower.z >= outer_lower.z
        and upper.x <= outer_upper.x
        and upper.y <= outer_upper.y
        and upper.z <= outer_upper.z
    )


@k.requires(lambda tid, m, bounds, placed, motion, lower, upper: tid < m.shape_type.shape[0] and tid < placed.shape[0]
    and tid < motion.shape[0] and tid < bounds.shape[0] and tid < lower.shape[0] and tid < upper.shape[0])  # fmt: skip
@k.kernel
def place_shapes(
    m: Model,
    s: State,
    c: Contacts,
    bounds: k.array(dtype=Bound),
    placed: k.array(dtype=Placed),
    motion: k.array(dtype=k.vec4),
    lower: k.array(dtype=k.vec3),
    upper: k.array(dtype=k.vec3),
    left_box: k.array(dtype=int),
    dt: float,
):
    """Per shape: its row, its motion, its bounds now; left_box[0] = 1 if they leave some fat box."""
    i = k.tid()
    body = m.shape_body[i]
    k.assume(body < s.body_q.shape[0] and body < m.body_com.shape[0] and left_box.shape[0] > 0)
    k.assume(i < c.fat_lower.shape[0])
    local = m.shape_xform[i]
    size = m.shape_scale[i]
    kind = m.shape_type[i]
    radius = m.shape_radius[i]
    pos = k.transform_get_translation(local)
    q = k.transform_get_rotation(local)
    shift = k.vec3(0.0)
    turn = 0.0
    if body >= 0:
        pose = s.body_q[body]
        velocity = s.body_qd[body]
        w = k.spatial_bottom(velocity)
        bq = k.transform_get_rotation(pose)
        arm = k.quat_rotate(bq, pos)
        offset = arm - k.quat_rotate(bq, m.body_com[body])
        shift = (k.spatial_top(velocity) + k.cross(w, offset)) * dt
        turn = k.length(w) * radius * dt
        pos = k.transform_get_translation(pose) + arm
        q = bq * q
    rot = k.quat_to_matrix(q)
    row = Placed()
    row.rot = rot
    row.pos = pos
    row.size = size
    row.kind = kind
    if kind == PLANE and size.x > 0.0 and size.y > 0.0:
        row.kind = BOX
    placed[i] = row
    shift = sweep_of(shift, radius)
    reach = k.clamp(0.1 * radius, LEAST_REACH, REACH) + min(turn, 2.0 * radius) + m.shape_margin[i]
    motion[i] = k.vec4(shift.x, shift.y, shift.z, reach)

    bound = bounds[i]
    h = bound.half
    pad = bound.radius + reach
    half = k.vec3(
        abs(rot[0, 0]) * h.x + abs(rot[0, 1]) * h.y + abs(rot[0, 2]) * h.z + pad,
        abs(rot[1, 0]) * h.x + abs(rot[1, 1]) * h.y + abs(rot[1, 2]) * h.z + pad,
        abs(rot[2, 0]) * h.x + abs(rot[2, 1]) * h.y + abs(rot[2, 2]) * h.z + pad,
    )
    center = pos + rot * bound.center
    lo = center - half + k.vec3(min(shift.x, 0.0), min(shift.y, 0.0), min(shift.z, 0.0))
    hi = center + half + k.vec3(max(shift.x, 0.0), max(shift.y, 0.0), max(shift.z, 0.0))
    lower[i] = lo
    upper[i] = hi
    if bound.fat >= 0.0 and not contains(c.fat_lower[i], c.fat_upper[i], lo, hi):
        k.atomic_max(left_box, 0, 1)
