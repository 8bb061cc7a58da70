"""Spheres and capsules against each other and spheres against boxes: closest points in closed form."""

from engine.compiler import lang as k
from engine.geom.manifold import store_manifold, store_nothing
from engine.geom.placed import Placed, contact_reach
from engine.geom.shapes import ShapeType
from engine.state.model import Contacts

CAPSULE = int(ShapeType.CAPSULE)
BOX = int(ShapeType.BOX)

# Capsules whose axes enclose an angle with a smaller squared sine than this (about 6°) touch in two points.
PARALLEL_SINE_SQ = 0.01

# Centres closer than this, m, have no direction between them.
COINCIDENT = 1.0e-9


@k.func
def any_perpendicular(d: k.vec3) -> k.vec3:
    """Some unit vector perpendicular to d; +z for d = 0."""
    a = k.vec3(d.y, -d.x, 0.0)
    if abs(d.z) > abs(d.x) and abs(d.z) > abs(d.y):
        a = k.vec3(0.0, d.z, -d.y)
    len_sq = k.dot(a, a)
    if len_sq < 1.0e-30:
        return k.vec3(0.0, 0.0, 1.0)
    return a / k.sqrt(len_sq)


@k.func
def core(shape: Placed) -> k.vec3:
    """Half the core segment of a sphere (zero) or capsule, world axes."""
    if shape.kind == CAPSULE:
        return k.vec3(shape.rot[0, 2], shape.rot[1, 2], shape.rot[2, 2]) * shape.size.y
    return k.vec3(0.0)


@k.func
def closest_on_segments(da: k.vec3, rel: k.vec3, db: k.vec3):
    """Parameters x, y in [−1, 1] of the closest points x da and rel + y db (Ericson 2005, 5.1.9)."""
    aa = k.dot(da, da)
    bb = k.dot(db, db)
    ab = k.dot(da, db)
    ar = k.dot(da, rel)
    br = k.dot(db, rel)
    x = 0.0
    y = 0.0
    den = aa * bb - ab * ab
    if den > 1.0e-6 * aa * bb:
        x = k.clamp((ar * bb - br * ab) / den, -1.0, 1.0)
    if bb > 0.0:
        y = (ab * x - br) / bb
        if y < -1.0 or y > 1.0:
            y = k.clamp(y, -1.0, 1.0)
            if aa > 0.0:
                x = k.clamp((ar + ab * y) / aa, -1.0, 1.0)
    elif aa > 0.0:
        x = k.clamp(ar / aa, -1.0, 1.0)
    return x, y


@k.func
def add_point(pos, sep, feat, n, reach, qa: k.vec3, qb: k.vec3, normal: k.vec3, ra, rb, feature):
    """Appends the contact of core points qa, qb with radii ra, rb along the normal."""
    gap = k.dot(qb - qa, normal) - ra - rb
    if gap <= reach:
        pos[n] = qa + normal * (ra + 0.5 * gap)
        sep[n] = gap
        feat[n] = feature
        n += 1
    return n


@k.func
def collide_capsules(pos, sep, feat, a: Placed, b: Placed, reach):
    """Two spheres or capsules: (count, normal)."""
    rel = b.pos - a.pos
    ra = a.size.x
    rb = b.size.x
    da = core(a)
    db = core(b)
    x, y = closest_on_segments(da, rel, db)
    qa = da * x
    qb = rel + db * y
    d = qb - qa
    dist = k.length(d)
    if dist - ra - rb > reach:
        return 0, d
    cross = k.cross(da, db)
    cross_sq = k.dot(cross, cross)
    aa = k.dot(da, da)
    bb = k.dot(db, db)
    normal = d / max(dist, COINCIDENT)
    if dist < COINCIDENT:
        normal = cross / k.sqrt(cross_sq) if cross_sq > 1.0e-12 * aa * bb else any_perpendicular(da + db)
    n = 0
    if aa * bb > 0.0 and cross_sq < PARALLEL_SINE_SQ * aa * bb:
        # ends of the stretch of a that lies beside b
        c = k.dot(da, rel) / aa
        h = abs(k.dot(da, db)) / aa
        x0 = k.clamp(c - h, -1.0, 1.0)
        x1 = k.clamp(c + h, -1.0, 1.0)
        if x1 - x0 > 1.0e-3:
            y0 = k.clamp(k.dot(db, da * x0 - rel) / bb, -1.0, 1.0)
            y1 = k.clamp(k.dot(db, da * x1 - rel) / bb, -1.0, 1.0)
            n = add_point(pos, sep, feat, n, reach, da * x0, rel + db * y0, normal, ra, rb, 2)
            n = add_point(pos, sep, feat, n, reach, da * x1, rel + db * y1, normal, ra, rb, 3)
    if n == 0:
        n = add_point(pos, sep, feat, n, reach, qa, qb, normal, ra, rb, 1)
    return n, normal


@k.func
def collide_sphere_box(pos, sep, feat, sphere: Placed, box: Placed, reach):
    """Sphere first: (count, normal from the sphere to the box); pos relative to the sphere."""
    rel = box.pos - sphere.pos
    inside = -(k.transpose(box.rot) * rel)  # the sphere's centre in the box's frame
    h = box.size
    q = k.vec3(k.clamp(inside.x, -h.x, h.x), k.clamp(inside.y, -h.y, h.y), k.clamp(inside.z, -h.z, h.z))
    d = q - inside
    dist = k.length(d)
    gap = dist - sphere.size.x
    if gap > reach:
        return 0, d
    normal = d / max(dist, COINCIDENT)
    if dist < COINCIDENT:
        # the centre is inside: out through the nearest face
        x = h.x - abs(inside.x)
        y = h.y - abs(inside.y)
        z = h.z - abs(inside.z)
        if x <= y and x <= z:
            normal = k.vec3(-1.0 if inside.x > 0.0 else 1.0, 0.0, 0.0)
            gap = -x - sphere.size.x
        elif y <= z:
            normal = k.vec3(0.0, -1.0 if inside.y > 0.0 else 1.0, 0.0)
            gap = -y - sphere.size.x
        else:
            normal = k.vec3(0.0, 0.0, -1.0 if inside.z > 0.0 else 1.0)
            gap = -z - sphere.size.x
    normal = box.rot * normal
    pos[0] = normal * (sphere.size.x + 0.5 * gap)
    sep[0] = gap
    feat[0] = 1
    return 1, normal


@k.requires(lambda family_start, family: 0 <= family and family < family_start.shape[0])
@k.kernel
def collide_rounds(
    c: Contacts,
    placed: k.array(dtype=Placed),
    motion: k.array(dtype=k.vec4),
    family_pair: k.array(dtype=int),
    family_start: k.array(dtype=int),
    family: int,
):
    p = family_pair[family_start[family] + k.tid()]
    s0 = c.pair_shape0[p]
    s1 = c.pair_shape1[p]
    reach = contact_reach(motion[s0], motion[s1])
    flipped = placed[s0].kind == BOX
    if flipped:
        s0 = c.pair_shape1[p]
        s1 = c.pair_shape0[p]
    a = placed[s0]
    b = placed[s1]
    pos = k.zeros(shape=4, dtype=k.vec3)
    sep = k.zeros(shape=4, dtype=float)
    feat = k.zeros(shape=4, dtype=int)
    n = 0
    normal = k.vec3(0.0)
    if b.kind == BOX:
        n, normal = collide_sphere_box(pos, sep, feat, a, b, reach)
    else:
        n, normal = collide_capsules(pos, sep, feat, a, b, reach)
    if n == 0:
        store_nothing(c, p)
    else:
        if flipped:
            normal = -normal
        store_manifold(c, p, a.pos, normal, pos, sep, feat, n)
