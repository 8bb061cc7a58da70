"""Any two convex shapes: GJK for the distance, EPA for the depth, facing polygons for the manifold.

The normal of GJK or EPA is replaced by that of a face which separates as well: that is exact, and steady in time.
"""

from engine.compiler import lang as k
from engine.geom.clip_polygons import polygon_contacts, seen, view_along
from engine.geom.convex import SPHERE, Convex, convex_of, facing_normal, facing_polygon, support
from engine.geom.epa import penetrate
from engine.geom.gjk import APART, NEAR, closest
from engine.geom.manifold import reduce_points, store_manifold, store_nothing
from engine.geom.placed import Placed, contact_reach
from engine.state.model import Contacts, Model

# A face's normal is taken if it separates the cores by no more than this less than the best, m (or 0.5 % of a size).
FACE_BIAS = 0.0005

# Faces further from the found normal (cosine) are not tried.
FACE_COSINE = 0.95

# The clipped points must come this near to the found depth, m; else the deepest point is added.
DEPTH_TOLERANCE = 0.001

WITNESS = 0xFFFF  # feature of the deepest point where no polygon corner is near it


@k.struct
class Separation:
    kind: int  # of gjk: APART, else valid
    normal: k.vec3  # from a to b
    gap: float  # of the cores along the normal, < 0 overlapping
    on_a: k.vec3  # the point of a's core nearest to or deepest in b


@k.func
def gap_along(m: Model, a: Convex, b: Convex, rel: k.vec3, normal: k.vec3) -> float:
    return k.dot(normal, rel + support(m, b, -normal) - support(m, a, normal))


@k.func
def separate(m: Model, a: Convex, b: Convex, rel: k.vec3, limit, tolerance) -> Separation:
    """Distance or depth of the two cores."""
    out = Separation()
    w = k.zeros(shape=40, dtype=k.vec3)
    on_a = k.zeros(shape=40, dtype=k.vec3)
    guess = rel
    if k.dot(rel, rel) < 1.0e-12:
        guess = k.vec3(0.0, 0.0, 1.0)
    near = closest(m, a, b, rel, guess, limit, w, on_a)
    out.kind = near.kind
    if near.kind == NEAR:
        out.gap = k.length(near.v)
        out.normal = near.v / max(out.gap, 1.0e-12)
        out.on_a = near.on_a
    elif near.kind != APART:
        deep = penetrate(m, a, b, rel, w, on_a, near.count, tolerance)
        out.normal = deep.normal
        out.gap = -deep.depth
        out.on_a = deep.on_a
        if not deep.found:
            out.normal = k.normalize(guess)
            out.gap = 0.0
            out.on_a = support(m, a, out.normal)
    return out


@k.func
def snap_to_face(m: Model, a: Convex, b: Convex, rel: k.vec3, s: Separation, bias) -> Separation:
    """Replaces the normal by that of a face of a, else of b, which separates the cores as well."""
    best = s.gap
    for side in range(2):
        normal = facing_normal(m, a, s.normal)
        if side == 1:
            normal = -facing_normal(m, b, -s.normal)
        if k.dot(normal, s.normal) > FACE_COSINE:
            gap = gap_along(m, a, b, rel, normal)
            if gap >= best - bias:
                s.normal = normal
                s.gap = gap
                best = gap + 2.0 * bias  # the second face must be clearly better than the first
    return s


@k.func
def collide_convex_pair(m: Model, pos, sep, feat, a: Convex, b: Convex, rel: k.vec3, reach, size):
    """Manifold of two convex shapes: (count, normal from a to b); pos relative to a's origin. size: of the smaller."""
    radii = a.radius + b.radius
    s = separate(m, a, b, rel, reach + radii, 1.0e-5 * size)
    if s.kind == APART:
        return 0, s.normal
    s = snap_to_face(m, a, b, rel, s, min(FACE_BIAS, 0.005 * size))
    if s.gap - radii > reach:
        return 0, s.normal
    view = view_along(s.normal)
    pa = k.zeros(shape=32, dtype=k.vec3)
    pb = k.zeros(shape=32, dtype=k.vec3)
    na = facing_polygon(m, a, s.normal, pa)
    nb = facing_polygon(m, b, -s.normal, pb)
    for i in range(na):
        pa[i] = seen(view, pa[i])
    for i in range(nb):
        pb[i] = seen(view, pb[i] + rel)
    gap = s.gap - radii
    n = polygon_contacts(view, pa, na, pb, nb, a.radius, b.radius, gap, reach, pos, sep, feat)
    lowest = reach
    for i in range(n):
        lowest = min(lowest, sep[i])
    if n == 0 or lowest > gap + DEPTH_TOLERANCE:
        pos[n] = s.on_a + s.normal * (a.radius + 0.5 * gap)
        if b.kind == SPHERE:
            pos[n] = rel - s.normal * (b.radius + 0.5 * gap)
        sep[n] = gap
        feat[n] = WITNESS
        n += 1
    return reduce_points(pos, sep, feat, n, s.normal), s.normal


@k.requires(lambda family_start, family: 0 <= family and family < family_start.shape[0])
@k.kernel
def collide_convexes(
    m: Model,
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
    row_a = placed[s0]
    row_b = placed[s1]
    reach = contact_reach(motion[s0], motion[s1])
    size = min(m.shape_radius[s0], m.shape_radius[s1])
    pos = k.zeros(shape=40, dtype=k.vec3)
    sep = k.zeros(shape=40, dtype=float)
    feat = k.zeros(shape=40, dtype=int)
    a = convex_of(m, row_a, s0)
    b = convex_of(m, row_b, s1)
    n, normal = collide_convex_pair(m, pos, sep, feat, a, b, row_b.pos - row_a.pos, reach, size)
    if n == 0:
        store_nothing(c, p)
    else:
        store_manifold(c, p, row_a.pos, normal, pos, sep, feat, n)
