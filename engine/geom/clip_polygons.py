"""Contact points of two facing polygons: both are seen along the normal, one is clipped by the other's sides.

Sutherland & Hodgman 1974 in the plane across the normal; every corner carries its height along the normal and a label,
so that a point's feature says which sides crossed there.
"""

from engine.compiler import lang as k

MAX_POINTS = 32  # of the subject while it is clipped: its corners and one for each clip side

# Faces steeper than this against the normal (cosine) are not clipped.
STEEPEST = 0.05

# Segments with a smaller squared sine between them touch along a stretch.
PARALLEL_SINE_SQ = 0.01

# Corners this far outside still count as inside, m.
CLIP_SLACK = 0.0005


@k.struct
class View:
    """Axes across (x, y) and along (n) the contact normal."""

    x: k.vec3
    y: k.vec3
    n: k.vec3


@k.func
def view_along(n: k.vec3) -> View:
    view = View()
    view.n = n
    a = k.vec3(1.0, 0.0, 0.0)
    if abs(n.x) > 0.6:
        a = k.vec3(0.0, 1.0, 0.0)
    view.x = k.normalize(k.cross(a, n))
    view.y = k.cross(n, view.x)
    return view


@k.func
def seen(view: View, p: k.vec3) -> k.vec3:
    return k.vec3(k.dot(view.x, p), k.dot(view.y, p), k.dot(view.n, p))


@k.func
def height_plane(poly, count):
    """(gx, gy, h) of the plane of a seen polygon: height = gx x + gy y + h; and whether it is not too steep."""
    a = poly[0]
    normal = k.vec3(0.0)
    for i in range(1, count - 1):
        normal = normal + k.cross(poly[i] - a, poly[i + 1] - a)
    size = k.length(normal)
    if abs(normal.z) <= STEEPEST * size:
        return k.vec3(0.0, 0.0, a.z), False
    gx = -normal.x / normal.z
    gy = -normal.y / normal.z
    return k.vec3(gx, gy, a.z - gx * a.x - gy * a.y), True


@k.func
def clip_side(src, src_label, count, dst, dst_label, ox, oy, nx, ny, closed, label) -> int:
    """Keeps the part of src where (x − ox) nx + (y − oy) ny ≤ 0; the new side gets `label`. closed = 0: a segment."""
    n = 0
    for i in range(count):
        p = src[i]
        q = src[(i + 1) % count]
        dp = (p.x - ox) * nx + (p.y - oy) * ny - CLIP_SLACK
        dq = (q.x - ox) * nx + (q.y - oy) * ny - CLIP_SLACK
        if dp <= 0.0 and n < MAX_POINTS:
            dst[n] = p
            dst_label[n] = src_label[i]
            n += 1
        crossed = (dp > 0.0) != (dq > 0.0)
        if crossed and (closed == 1 or i == 0) and n < MAX_POINTS:
            t = dp / (dp - dq)
            dst[n] = p + (q - p) * t
            # leaving: the next side is the new one; entering: the old side goes on. The high byte tells the crossing.
            side = src_label[i] & 255
            dst_label[n] = (label | ((side + 1) << 8)) if dp <= 0.0 else (side | ((label + 1) << 8))
            n += 1
    return n


@k.func
def clip_by_polygon(subject, label, count, clip, clip_count, turn) -> int:
    """Clips the subject (polygon, or segment if count = 2) by a convex polygon; turn = 1: that one is seen
    counter-clockwise, −1: clockwise. Result in subject and label."""
    spare = k.zeros(shape=32, dtype=k.vec3)
    spare_label = k.zeros(shape=32, dtype=int)
    closed = 1 if count > 2 else 0
    n = count
    for e in range(clip_count):
        a = clip[e]
        b = clip[(e + 1) % clip_count]
        nx = (b.y - a.y) * turn
        ny = (a.x - b.x) * turn
        size = k.sqrt(nx * nx + ny * ny)
        if size > 1.0e-9:
            n = clip_side(subject, label, n, spare, spare_label, a.x, a.y, nx / size, ny / size, closed, 32 + e)
            for i in range(n):
                subject[i] = spare[i]
                label[i] = spare_label[i]
    return n


@k.func
def clip_by_segment(subject, label, a: k.vec3, b: k.vec3) -> int:
    """Clips the segment `subject` to the stretch beside segment ab if they are nearly parallel; else 0 points."""
    spare = k.zeros(shape=32, dtype=k.vec3)
    spare_label = k.zeros(shape=32, dtype=int)
    dx = b.x - a.x
    dy = b.y - a.y
    ex = subject[1].x - subject[0].x
    ey = subject[1].y - subject[0].y
    dd = dx * dx + dy * dy
    sine = dx * ey - dy * ex
    if sine * sine > PARALLEL_SINE_SQ * dd * (ex * ex + ey * ey) or dd < 1.0e-12:
        return 0
    size = k.sqrt(dd)
    n = clip_side(subject, label, 2, spare, spare_label, a.x, a.y, -dx / size, -dy / size, 0, 32)
    n = clip_side(spare, spare_label, n, subject, label, b.x, b.y, dx / size, dy / size, 0, 33)
    return n


@k.func
def height_on_segment(a: k.vec3, b: k.vec3, p: k.vec3) -> float:
    """Height of segment ab beside p."""
    dx = b.x - a.x
    dy = b.y - a.y
    t = ((p.x - a.x) * dx + (p.y - a.y) * dy) / max(dx * dx + dy * dy, 1.0e-12)
    return a.z + k.clamp(t, 0.0, 1.0) * (b.z - a.z)


@k.func
def polygon_contacts(view: View, pa, na, pb, nb, ra, rb, least, reach, pos, sep, feat) -> int:
    """Contact points of facing polygons pa (outward along +n) and pb (outward along −n), both seen in `view` from one
    origin. ra, rb: how much a ball widens them. least: the smallest separation that can be (the slack of clipping on a
    steep face would show a smaller one). Writes points within reach, in world axes; returns how many."""
    label = k.zeros(shape=32, dtype=int)
    for i in range(MAX_POINTS):
        label[i] = i
    count = 0
    by_a = na >= 3 or (na == 2 and nb == 2)  # a clips b; else b clips a
    plane = k.vec3(0.0)
    if na >= 3 and nb >= 2:
        plane, flat = height_plane(pa, na)
        if flat:
            count = clip_by_polygon(pb, label, nb, pa, na, 1.0)
    elif na == 2 and nb >= 3:
        plane, flat = height_plane(pb, nb)
        if flat:
            count = clip_by_polygon(pa, label, na, pb, nb, -1.0)
    elif na == 2 and nb == 2:
        count = clip_by_segment(pb, label, pa[0], pa[1])
    n = 0
    for i in range(count):
        p = pa[i]
        if by_a:
            p = pb[i]
        other = plane.x * p.x + plane.y * p.y + plane.z
        if na == 2 and nb == 2:
            other = height_on_segment(pa[0], pa[1], p)
        low = (other if by_a else p.z) + ra
        high = (p.z if by_a else other) - rb
        gap = max(high - low, least)
        if gap <= reach:
            pos[n] = view.x * p.x + view.y * p.y + view.n * (0.5 * (low + high))
            sep[n] = gap
            feat[n] = 1 + label[i]
            n += 1
    return n
