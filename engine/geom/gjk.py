"""Distance of two convex cores: GJK (Gilbert, Johnson, Keerthi 1988; closest points after Ericson 2005).

Everything happens in D = B − A, the set of all differences: the cores overlap where the origin lies in D.
"""

from engine.compiler import lang as k
from engine.geom.convex import Convex, support
from engine.state.model import Model

MAX_STEPS = 32

# Closer than this part (squared) of the size of D, the direction of v is noise: the case goes to EPA as a touch.
TOUCH_SQ = 1.0e-8

# Result kinds: farther apart than the limit, a distance with its closest points, or an overlap (or touch) for EPA.
APART = 0
NEAR = 1
OVERLAP = 2


@k.struct
class Closest:
    kind: int
    count: int  # corners of the simplex left in the arrays
    v: k.vec3  # from A to B: the point of D closest to the origin
    on_a: k.vec3  # the closest point of A's core


@k.func
def edge_weight(a: k.vec3, ab: k.vec3) -> float:
    """t of the point a + t ab, 0 ≤ t ≤ 1, closest to the origin."""
    return k.clamp(-k.dot(a, ab) / max(k.dot(ab, ab), 1.0e-30), 0.0, 1.0)


@k.func
def triangle_weights(a: k.vec3, b: k.vec3, c: k.vec3) -> k.vec3:
    """Barycentric weights of the point of triangle abc closest to the origin.

    The nearest of the edges' closest points and the foot in the plane: unlike a decision by regions (Ericson 2005,
    5.1.5) rounding can only choose between points that are equally near.
    """
    ab = b - a
    ac = c - a
    bc = c - b
    t = edge_weight(a, ab)
    p = a + ab * t
    best = k.dot(p, p)
    u = k.vec3(1.0 - t, t, 0.0)
    t = edge_weight(a, ac)
    p = a + ac * t
    dist = k.dot(p, p)
    if dist < best:
        best = dist
        u = k.vec3(1.0 - t, 0.0, t)
    t = edge_weight(b, bc)
    p = b + bc * t
    dist = k.dot(p, p)
    if dist < best:
        best = dist
        u = k.vec3(0.0, 1.0 - t, t)
    normal = k.cross(ab, ac)
    wa = k.dot(normal, k.cross(b, c))
    wb = k.dot(normal, k.cross(c, a))
    wc = k.dot(normal, k.cross(a, b))
    if wa > 0.0 and wb > 0.0 and wc > 0.0:
        inv = 1.0 / (wa + wb + wc)
        foot = k.vec3(wa * inv, wb * inv, wc * inv)
        p = a * foot.x + b * foot.y + c * foot.z
        if k.dot(p, p) < best:
            u = foot
    return u


@k.func
def shrink_simplex(w, on_a, weight, n) -> int:
    """Moves to the front the corners of the part of the simplex closest to the origin and sets their weights; returns
    how many there are, 4 if the origin is inside."""
    w0 = 1.0
    w1 = 0.0
    w2 = 0.0
    i0 = 0
    i1 = 0
    i2 = 0
    if n == 2:
        ab = w[1] - w[0]
        w1 = k.clamp(-k.dot(w[0], ab) / max(k.dot(ab, ab), 1.0e-30), 0.0, 1.0)
        w0 = 1.0 - w1
        i1 = 1
    elif n >= 3:
        faces = 4 if n == 4 else 1
        best = 3.0e38
        inside = n == 4
        for f in range(faces):
            # (0 1 2), (0 1 3), (0 2 3), (1 2 3)
            j0 = 1 if f == 3 else 0
            j1 = 1 if f < 2 else 2
            j2 = 2 if f == 0 else 3
            a = w[j0]
            b = w[j1]
            c = w[j2]
            outside = True
            if n == 4:
                normal = k.cross(b - a, c - a)
                outside = k.dot(normal, w[3 - f] - a) * -k.dot(normal, a) <= 0.0
            if outside:
                inside = False
                u = triangle_weights(a, b, c)
                p = a * u.x + b * u.y + c * u.z
                dist = k.dot(p, p)
                if dist < best:
                    best = dist
                    w0 = u.x
                    w1 = u.y
                    w2 = u.z
                    i0 = j0
                    i1 = j1
                    i2 = j2
        if inside:
            return 4
    kept = 0
    # indices ascend, so that nothing is overwritten before it is moved
    if w0 > 0.0:
        w[kept] = w[i0]
        on_a[kept] = on_a[i0]
        weight[kept] = w0
        kept += 1
    if w1 > 0.0:
        w[kept] = w[i1]
        on_a[kept] = on_a[i1]
        weight[kept] = w1
        kept += 1
    if w2 > 0.0:
        w[kept] = w[i2]
        on_a[kept] = on_a[i2]
        weight[kept] = w2
        kept += 1
    return kept


@k.func
def closest(m: Model, a: Convex, b: Convex, rel: k.vec3, guess: k.vec3, limit, w, on_a) -> Closest:
    """Closest points of two cores. rel: origin of b − origin of a. guess: a first direction from a to b. limit: no
    answer is needed for larger distances. w, on_a: arrays of 4 that keep the simplex for EPA."""
    out = Closest()
    out.kind = NEAR
    weight = k.zeros(shape=4, dtype=float)
    v = guess
    vv = 3.0e38
    size_sq = 0.0
    n = 0
    for _step in range(MAX_STEPS):
        pa = support(m, a, v)
        p = support(m, b, -v) + rel - pa
        vp = k.dot(v, p)
        if vp > 0.0 and vp * vp > limit * limit * k.dot(v, v):
            out.kind = APART
            break
        known = False
        for i in range(n):
            if w[i] == p:
                known = True
        if known or (n > 0 and vv - vp <= 1.0e-6 * vv):
            break
        size_sq = max(size_sq, k.dot(p, p))
        w[n] = p
        on_a[n] = pa
        n = shrink_simplex(w, on_a, weight, n + 1)
        if n == 4:
            out.kind = OVERLAP
            break
        best = k.vec3(0.0)
        best_a = k.vec3(0.0)
        for i in range(n):
            best = best + w[i] * weight[i]
            best_a = best_a + on_a[i] * weight[i]
        new = k.dot(best, best)
        if new <= TOUCH_SQ * size_sq:
            out.kind = OVERLAP
            break
        if new >= vv:  # rounding of a flat simplex: the last one was the answer
            break
        vv = new
        v = best
        out.v = best
        out.on_a = best_a
    out.count = n
    return out
