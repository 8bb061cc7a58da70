"""Contact manifolds: the choice of at most four points, and their match with the points of the last step."""

from engine.compiler import lang as k
from engine.state.model import Contacts

# Candidate points of one pair: (position relative to shape 0, separation, feature), in local arrays of this length.
MAX_CANDIDATES = 16

# A new point without an equal feature takes the impulse of an old point nearer than this, m.
MATCH_DISTANCE = 0.02


@k.func
def reduce_points(pos, sep, feat, n, normal):
    """Keeps the deepest point, the one farthest from it, and the widest on either side of the line between them
    (as Bullet and Box2D choose); moves them to the front in their order and returns how many there are."""
    kept = n
    if n > 4:
        i0 = 0
        for i in range(1, n):
            if sep[i] < sep[i0]:
                i0 = i
        i1 = i0
        far = 0.0
        p0 = pos[i0]
        for i in range(n):
            d = pos[i] - p0
            d = d - normal * k.dot(d, normal)
            dist = k.dot(d, d)
            if dist > far:
                far = dist
                i1 = i
        side = k.cross(normal, pos[i1] - p0)
        i2 = i0
        i3 = i0
        left = 1.0e-6 * far
        right = -left
        for i in range(n):
            area = k.dot(side, pos[i] - p0)
            if area > left:
                left = area
                i2 = i
            if area < right:
                right = area
                i3 = i
        kept = 0
        for i in range(n):
            if i == i0 or i == i1 or i == i2 or i == i3:
                pos[kept] = pos[i]
                sep[kept] = sep[i]
                feat[kept] = feat[i]
                kept += 1
    return kept


@k.func
def store_nothing(c: Contacts, p):
    """Pair p does not touch."""
    if c.manifold_count[p] != 0:
        c.manifold_count[p] = 0
        c.manifold_friction[p] = k.vec3(0.0)
        c.manifold_twist[p] = 0.0


@k.func
def match_nearest(c: Contacts, base, old, used, point):
    """Index of the unused old point within MATCH_DISTANCE of the world point, the nearest one; −1 = none."""
    found = -1
    best = MATCH_DISTANCE * MATCH_DISTANCE
    for i in range(old):
        if (used >> i) & 1 == 0:
            d = c.point_position[base + i] - point
            dist = k.dot(d, d)
            if dist < best:
                best = dist
                found = i
    return found


@k.func
def match_points(c: Contacts, p, origin, pos, feat, n, old):
    """Features and impulses of n new points: each takes the impulse of the old point with its feature or, failing that,
    of the nearest unused one."""
    base = 4 * p
    used = 0
    source = k.zeros(shape=4, dtype=int)
    impulse = k.zeros(shape=4, dtype=float)
    missing = 0
    for j in range(n):
        source[j] = -1
        f = k.uint32(feat[j])
        for i in range(old):
            if (used >> i) & 1 == 0 and c.point_feature[base + i] == f:
                source[j] = i
                used = used | (1 << i)
                break
        if source[j] < 0:
            missing += 1
    if missing > 0 and used != (1 << old) - 1:
        for j in range(n):
            if source[j] < 0:
                i = match_nearest(c, base, old, used, origin + pos[j])
                if i >= 0:
                    source[j] = i
                    used = used | (1 << i)
    for j in range(n):
        if source[j] >= 0:
            impulse[j] = c.point_impulse[base + source[j]]
    for j in range(n):
        c.point_feature[base + j] = k.uint32(feat[j])
        c.point_impulse[base + j] = impulse[j]


@k.func
def store_manifold(c: Contacts, p, origin, normal, pos, sep, feat, n):
    """Writes n ≤ 4 points of pair p, with the impulses of the last step's points that they continue.

    pos is relative to origin, world axes; normal points from shape 0 to shape 1.
    """
    base = 4 * p
    old = c.manifold_count[p]
    same = old == n
    for j in range(n):
        if c.point_feature[base + j] != k.uint32(feat[j]):
            same = False
    if not same:
        match_points(c, p, origin, pos, feat, n, old)
    for j in range(n):
        c.point_position[base + j] = origin + pos[j]
        c.point_separation[base + j] = sep[j]
    if old == 0:
        c.manifold_friction[p] = k.vec3(0.0)
        c.manifold_twist[p] = 0.0
    c.manifold_normal[p] = normal
    c.manifold_count[p] = n
