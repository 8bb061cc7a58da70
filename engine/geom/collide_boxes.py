"""Box against box: separating axes (Gottschalk 1996), then face clipping or the crossing of two edges.

Two kernels, one after the other: the axes are the same work for all pairs, which lanes do side by side; the clipping
goes its own way for each of the pairs that are left.

Work is done in the frame of one box, so that places far from the world's origin lose no digits. Features are named by
what meets on each box, whichever box is the reference: corner 0 … 7 (sign bits xyz), edge 8 … 19 (8 + 4·axis + signs of
the next two axes), face 20 … 25 (20 + 2·axis + sign); feature id = name on shape 0 | name on shape 1 << 8.
"""

from engine.compiler import lang as k
from engine.geom.manifold import reduce_points, store_manifold, store_nothing
from engine.geom.placed import Placed, contact_reach
from engine.state.model import Contacts

# A later axis must beat an earlier one by this much, m (or 5 % of the smallest half extent): keeps features stable.
AXIS_BIAS = 0.0025

# Corners this far outside the reference face count as inside, m: equal boxes stacked flush keep four corner points.
FACE_SLACK = 0.002

# Rounding of the numerator of an edge axis, relative to the sizes in it.
EDGE_ROUNDING = 6.0e-7

NONE = -3.0e38


@k.struct
class Axis:
    """The axis of largest separation so far: 0–2 faces of a, 3–5 faces of b, 6 + 3 i + j edge i of a × edge j of b."""

    index: int
    sep: float


@k.struct
class Choice:  # 16 bytes
    """What the axes of two boxes say."""

    axis: int  # to make contact about, as in Axis; −1: the boxes are apart
    edge: int  # the edge axis for where the face has no points; −1: none
    sep: float  # along that edge axis


@k.struct
class Side:
    """One box of a face contact, seen in the reference box's axes u, v (across the face) and n (out of it)."""

    u: k.vec3  # u of each own axis
    v: k.vec3
    n: k.vec3


@k.func
def column(m: k.mat33, j) -> k.vec3:
    return k.vec3(m[0, j], m[1, j], m[2, j])


@k.func
def edge_axis(best: Axis, index, bound, t1, t2, c1, c2, a1, a2, b1, b2, e1, e2, rounding) -> Axis:
    """Axis a_i × b_j, with a_i's next two axes 1, 2: t of the centre offset, c of b_j, a half extents of a;
    b half extents of b next to j, e what of a_i they carry. Skipped where it cannot beat `bound`."""
    num = abs(t2 * c1 - t1 * c2) - (a1 * abs(c2) + a2 * abs(c1)) - (b1 * abs(e2) + b2 * abs(e1)) - rounding
    if num > 0.0 or (num > bound and num > best.sep):  # the length is at most 1: it only lowers a negative num
        len_sq = c1 * c1 + c2 * c2
        if len_sq > 1.0e-6:
            sep = num / k.sqrt(len_sq)
            if sep > best.sep:
                best.sep = sep
                best.index = index
    return best


@k.func
def best_edge_axis(c: k.mat33, t: k.vec3, ha: k.vec3, hb: k.vec3, bound) -> Axis:
    """The edge × edge axis of largest separation above `bound` (index −1 if none). c = AᵀB, t = Aᵀ(centre b − a)."""
    best = Axis()
    best.index = -1
    best.sep = NONE
    r = EDGE_ROUNDING * (abs(t.x) + abs(t.y) + abs(t.z) + ha.x + ha.y + ha.z + hb.x + hb.y + hb.z)
    for j in range(3):
        j1 = (j + 1) % 3
        j2 = (j + 2) % 3
        cx = c[0, j]
        cy = c[1, j]
        cz = c[2, j]
        b1 = hb[j1]
        b2 = hb[j2]
        best = edge_axis(best, 6 + j, bound, t.y, t.z, cy, cz, ha.y, ha.z, b1, b2, c[0, j1], c[0, j2], r)
        best = edge_axis(best, 9 + j, bound, t.z, t.x, cz, cx, ha.z, ha.x, b1, b2, c[1, j1], c[1, j2], r)
        best = edge_axis(best, 12 + j, bound, t.x, t.y, cx, cy, ha.x, ha.y, b1, b2, c[2, j1], c[2, j2], r)
    return best


@k.func
def sign_bit(x) -> int:
    return 1 if x > 0.0 else 0


@k.func
def edge_name(axis, sign1, sign2) -> int:
    """Edge along `axis` at the signs (bits) of the next two axes."""
    return 8 + 4 * axis + sign1 + 2 * sign2


@k.func
def pair_feature(swapped, reference, incident) -> int:
    return incident | (reference << 8) if swapped else reference | (incident << 8)


@k.func
def add_point(pos, sep, feat, n, reach, u, v, height, feature):
    """Appends a point (u, v) at `height` over the reference face if it is within reach."""
    if height <= reach and n < 12:
        pos[n] = k.vec3(u, v, height)
        sep[n] = height
        feat[n] = feature
        n += 1
    return n


@k.func
def clip_slab(t0, t1, side0, side1, x, dx, half, side):
    """Narrows [t0, t1] to where |x + t dx| ≤ half; side0/1 = the face side (side: − , side + 1: +) that cut there."""
    if abs(dx) < 1.0e-9:
        if abs(x) > half:
            t1 = t0 - 1.0
    else:
        inv = 1.0 / dx
        enter = (-half - x) * inv
        leave = (half - x) * inv
        first = side
        second = side + 1
        if enter > leave:
            swap = enter
            enter = leave
            leave = swap
            first = side + 1
            second = side
        if enter > t0:
            t0 = enter
            side0 = first
        if leave < t1:
            t1 = leave
            side1 = second
    return t0, t1, side0, side1


@k.func
def face_contact(pos, sep, feat, side: Side, center: k.vec3, hr: k.vec3, hi: k.vec3, axis, sign_n, swapped, reach):
    """Points of the incident box over the reference face: pos = (u, v, height) in the face's axes.

    side, center: incident box (axes, centre over the middle of the face). hr: half extents of the reference box along
    (u, v, n); axis: its n; sign_n: 1 if the face is on the + side. hi: half extents of the incident box.
    """
    n = 0
    # the incident face: the one most against n
    j = 0
    if abs(side.n.y) > abs(side.n.x):
        j = 1
    if abs(side.n.z) > abs(side.n[j]):
        j = 2
    k1 = (j + 1) % 3
    k2 = (j + 2) % 3
    bit_j = 1 - sign_bit(side.n[j])
    out = hi[j] if bit_j == 1 else -hi[j]
    c = center + k.vec3(side.u[j], side.v[j], side.n[j]) * out
    d = k.vec3(side.u[k1], side.v[k1], side.n[k1]) * hi[k1]
    e = k.vec3(side.u[k2], side.v[k2], side.n[k2]) * hi[k2]
    hu = hr.x
    hv = hr.y
    slack_u = hu + min(FACE_SLACK, 0.02 * hu)
    slack_v = hv + min(FACE_SLACK, 0.02 * hv)
    face = 20 + 2 * axis + sign_n
    axis_u = (axis + 1) % 3
    axis_v = (axis + 2) % 3
    clear = abs(c.x) + abs(d.x) + abs(e.x) <= slack_u and abs(c.y) + abs(d.y) + abs(e.y) <= slack_v

    if clear:
        # the whole incident face lies over the reference face
        for i in range(4):
            q = c + d * (1.0 if i & 1 == 1 else -1.0) + e * (1.0 if i & 2 == 2 else -1.0)
            corner = (bit_j << j) | ((i & 1) << k1) | ((i >> 1) << k2)
            n = add_point(pos, sep, feat, n, reach, q.x, q.y, q.z, pair_feature(swapped, face, corner))
        return n

    # edges of the incident face: along d at either side (these bring its corners), then along e
    i = 0
    while i < 4:  # a `for` would be unrolled: four times the code
        bit = i & 1
        with_ends = i < 2
        across = e if with_ends else d
        along = d if with_ends else e
        o = c + across * (2.0 * float(bit) - 1.0)
        corner = (bit_j << j) | (bit << k2)
        name = edge_name(k1, bit, bit_j) if with_ends else edge_name(k2, bit_j, bit)
        n = clip_edge(
            pos, sep, feat, n, o, along, slack_u, slack_v, with_ends, name, corner, corner | (1 << k1),
            face, axis, sign_n, swapped, reach,
        )  # fmt: skip
        i += 1

    # corners of the reference face inside the incident one
    det = d.x * e.y - d.y * e.x
    if abs(det) > 1.0e-12:
        inv = 1.0 / det
        i = 0
        while i < 4:
            su = i & 1
            sv = i >> 1
            u = hu if su == 1 else -hu
            v = hv if sv == 1 else -hv
            pu = u - c.x
            pv = v - c.y
            alpha = (pu * e.y - pv * e.x) * inv
            beta = (d.x * pv - d.y * pu) * inv
            if abs(alpha) < 1.0 and abs(beta) < 1.0:
                height = c.z + alpha * d.z + beta * e.z
                corner = (sign_n << axis) | (su << axis_u) | (sv << axis_v)
                feature = pair_feature(swapped, corner, 20 + 2 * j + bit_j)
                n = add_point(pos, sep, feat, n, reach, u, v, height, feature)
            i += 1
    return n


@k.func
def clip_edge(
    pos, sep, feat, n, o, d, hu, hv, with_ends, edge, end0, end1, face, axis, sign_n, swapped, reach
):  # fmt: skip
    """The part of the incident edge o ± d over the reference face; its ends count only with_ends."""
    t0, t1, side0, side1 = clip_slab(-1.0, 1.0, -1, -1, o.x, d.x, hu, 0)
    t0, t1, side0, side1 = clip_slab(t0, t1, side0, side1, o.y, d.y, hv, 2)
    if t0 < t1:
        if side0 >= 0 or with_ends:
            q = o + d * t0
            feature = pair_feature(swapped, face, end0)
            if side0 >= 0:
                feature = pair_feature(swapped, side_edge(side0, axis, sign_n), edge)
            n = add_point(pos, sep, feat, n, reach, q.x, q.y, q.z, feature)
        if side1 >= 0 or with_ends:
            q = o + d * t1
            feature = pair_feature(swapped, face, end1)
            if side1 >= 0:
                feature = pair_feature(swapped, side_edge(side1, axis, sign_n), edge)
            n = add_point(pos, sep, feat, n, reach, q.x, q.y, q.z, feature)
    return n


@k.func
def side_edge(side, axis, sign_n) -> int:
    """Name of the edge of the reference face that bounds it at side −u, +u, −v, +v (0 … 3)."""
    if side < 2:
        return edge_name((axis + 2) % 3, sign_n, side & 1)
    return edge_name((axis + 1) % 3, side & 1, sign_n)


@k.func
def edge_contact(pos, sep, feat, a: Placed, b: Placed, rel: k.vec3, choice: Choice) -> k.vec3:
    """One point midway between the two crossing edges; returns the normal from a to b."""
    i = (choice.edge - 6) // 3
    j = (choice.edge - 6) % 3
    da = column(a.rot, i)
    db = column(b.rot, j)
    normal = k.normalize(k.cross(da, db))
    if k.dot(normal, rel) < 0.0:
        normal = -normal
    pa = k.vec3(0.0)
    pb = rel
    for m in range(3):
        axis_a = column(a.rot, m)
        axis_b = column(b.rot, m)
        if m != i:
            pa = pa + axis_a * (a.size[m] if k.dot(axis_a, normal) > 0.0 else -a.size[m])
        if m != j:
            pb = pb - axis_b * (b.size[m] if k.dot(axis_b, normal) > 0.0 else -b.size[m])
    # closest points of the two lines pa + x da, pb + y db
    d = pb - pa
    cosine = k.dot(da, db)
    along_a = k.dot(d, da)
    along_b = k.dot(d, db)
    inv = 1.0 / max(1.0 - cosine * cosine, 1.0e-6)
    x = k.clamp((along_a - cosine * along_b) * inv, -a.size[i], a.size[i])
    y = k.clamp((cosine * along_a - along_b) * inv, -b.size[j], b.size[j])
    qa = pa + da * x
    qb = pb + db * y
    pos[0] = (qa + qb) * 0.5
    sep[0] = choice.sep
    i1 = column(a.rot, (i + 1) % 3)
    i2 = column(a.rot, (i + 2) % 3)
    j1 = column(b.rot, (j + 1) % 3)
    j2 = column(b.rot, (j + 2) % 3)
    name_a = edge_name(i, sign_bit(k.dot(i1, normal)), sign_bit(k.dot(i2, normal)))
    name_b = edge_name(j, 1 - sign_bit(k.dot(j1, normal)), 1 - sign_bit(k.dot(j2, normal)))
    feat[0] = name_a | (name_b << 8)
    return normal


@k.func
def face_manifold(pos, sep, feat, a: Placed, b: Placed, rel: k.vec3, index, reach):
    """Clips against face axis `index` and moves the chosen points to world axes; returns (count, normal)."""
    c = k.transpose(a.rot) @ b.rot
    swapped = index >= 3
    axis = index - 3 if swapped else index
    axis_u = (axis + 1) % 3
    axis_v = (axis + 2) % 3
    ref = b.rot if swapped else a.rot
    hr = b.size if swapped else a.size
    hi = a.size if swapped else b.size
    t = -(rel @ b.rot) if swapped else rel @ a.rot
    away = 1.0 if t[axis] > 0.0 else -1.0
    side = Side()
    if swapped:
        side.u = column(c, axis_u)
        side.v = column(c, axis_v)
        side.n = column(c, axis) * away
    else:
        side.u = k.vec3(c[axis_u, 0], c[axis_u, 1], c[axis_u, 2])
        side.v = k.vec3(c[axis_v, 0], c[axis_v, 1], c[axis_v, 2])
        side.n = k.vec3(c[axis, 0], c[axis, 1], c[axis, 2]) * away
    center = k.vec3(t[axis_u], t[axis_v], t[axis] * away - hr[axis])
    half = k.vec3(hr[axis_u], hr[axis_v], hr[axis])
    n = face_contact(pos, sep, feat, side, center, half, hi, axis, sign_bit(away), swapped, reach)
    n = reduce_points(pos, sep, feat, n, k.vec3(0.0, 0.0, 1.0))
    u = column(ref, axis_u)
    v = column(ref, axis_v)
    normal = column(ref, axis) * away
    origin = normal * hr[axis]
    if swapped:
        origin = origin + rel
    for i in range(n):
        q = pos[i]
        pos[i] = origin + u * q.x + v * q.y + normal * (0.5 * q.z)
    if swapped:
        normal = -normal
    return n, normal


@k.func
def choose_axis(a: Placed, b: Placed, reach, last) -> Choice:
    """The axis that two boxes meet along. last: that of the last step, kept unless another is better by the bias."""
    out = Choice()
    out.axis = -1
    out.edge = -1
    rel = b.pos - a.pos
    ha = a.size
    hb = b.size
    b0 = column(b.rot, 0)
    b1 = column(b.rot, 1)
    b2 = column(b.rot, 2)

    # faces of a
    x = column(a.rot, 0)
    tx = k.dot(x, rel)
    cx = k.vec3(k.dot(x, b0), k.dot(x, b1), k.dot(x, b2))
    face = abs(tx) - ha.x - (abs(cx.x) * hb.x + abs(cx.y) * hb.y + abs(cx.z) * hb.z)
    if face > reach:
        return out
    y = column(a.rot, 1)
    ty = k.dot(y, rel)
    cy = k.vec3(k.dot(y, b0), k.dot(y, b1), k.dot(y, b2))
    s = abs(ty) - ha.y - (abs(cy.x) * hb.x + abs(cy.y) * hb.y + abs(cy.z) * hb.z)
    index = 0
    if s > face:
        face = s
        index = 1
    z = column(a.rot, 2)
    tz = k.dot(z, rel)
    cz = k.vec3(k.dot(z, b0), k.dot(z, b1), k.dot(z, b2))
    s = abs(tz) - ha.z - (abs(cz.x) * hb.x + abs(cz.y) * hb.y + abs(cz.z) * hb.z)
    if s > face:
        face = s
        index = 2
    if face > reach:
        return out

    # faces of b
    tb = k.vec3(k.dot(b0, rel), k.dot(b1, rel), k.dot(b2, rel))
    face_b = abs(tb.x) - hb.x - (abs(cx.x) * ha.x + abs(cy.x) * ha.y + abs(cz.x) * ha.z)
    index_b = 3
    s = abs(tb.y) - hb.y - (abs(cx.y) * ha.x + abs(cy.y) * ha.y + abs(cz.y) * ha.z)
    if s > face_b:
        face_b = s
        index_b = 4
    s = abs(tb.z) - hb.z - (abs(cx.z) * ha.x + abs(cy.z) * ha.y + abs(cz.z) * ha.z)
    if s > face_b:
        face_b = s
        index_b = 5
    if face_b > reach:
        return out
    size = min(min(min(ha.x, ha.y), ha.z), min(min(hb.x, hb.y), hb.z))
    bias = min(AXIS_BIAS, 0.05 * size)
    b_wins = face_b > (face - bias if last >= 3 and last < 6 else face + bias)
    if b_wins:
        face = face_b
        index = index_b

    # edges
    edge = best_edge_axis(k.matrix_from_rows(cx, cy, cz), k.vec3(tx, ty, tz), ha, hb, face - bias)
    if edge.sep > reach:
        return out
    out.axis = index
    out.edge = edge.index
    out.sep = edge.sep
    if edge.index >= 0 and edge.sep > face + bias:
        out.axis = edge.index
    return out


@k.requires(lambda family_start, family: 0 <= family and family < family_start.shape[0])
@k.kernel
def separate_boxes(
    c: Contacts,
    placed: k.array(dtype=Placed),
    motion: k.array(dtype=k.vec4),
    family_pair: k.array(dtype=int),
    family_start: k.array(dtype=int),
    family: int,
    choice: k.array(dtype=Choice, layout="rows"),
):
    """Per pair of the family: its axis."""
    p = family_pair[family_start[family] + k.tid()]
    s0 = c.pair_shape0[p]
    s1 = c.pair_shape1[p]
    reach = contact_reach(motion[s0], motion[s1])
    choice[k.tid()] = choose_axis(placed[s0], placed[s1], reach, c.pair_axis[p])


@k.requires(lambda family_start, family: 0 <= family and family < family_start.shape[0])
@k.kernel
def collide_boxes(
    c: Contacts,
    placed: k.array(dtype=Placed),
    motion: k.array(dtype=k.vec4),
    family_pair: k.array(dtype=int),
    family_start: k.array(dtype=int),
    family: int,
    choice: k.array(dtype=Choice, layout="rows"),
):
    """The manifold of each pair about the axis that `separate_boxes` has chosen; points relative to the first box."""
    p = family_pair[family_start[family] + k.tid()]
    chosen = choice[k.tid()]
    if chosen.axis < 0:
        c.pair_axis[p] = -1
        store_nothing(c, p)
    else:
        s0 = c.pair_shape0[p]
        s1 = c.pair_shape1[p]
        a = placed[s0]
        b = placed[s1]
        rel = b.pos - a.pos
        pos = k.zeros(shape=12, dtype=k.vec3)
        sep = k.zeros(shape=12, dtype=float)
        feat = k.zeros(shape=12, dtype=int)
        axis = chosen.axis
        normal = k.vec3(0.0)
        n = 0
        if axis < 6:
            reach = contact_reach(motion[s0], motion[s1])
            n, normal = face_manifold(pos, sep, feat, a, b, rel, axis, reach)
        if n == 0 and chosen.edge >= 0:
            axis = chosen.edge
            normal = edge_contact(pos, sep, feat, a, b, rel, chosen)
            n = 1
        c.pair_axis[p] = axis
        if n == 0:
            store_nothing(c, p)
        else:
            store_manifold(c, p, a.pos, normal, pos, sep, feat, n)
