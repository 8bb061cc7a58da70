"""The closest point of a triangle mesh, in kernels, with the sign by ray, parity, normal or winding number."""


from engine.compiler import lang as k
from engine.context import array
from engine.geom.box_query import axis_gap, lowest
from engine.geom.bvh import Tree, tree_of
from engine.geom.bvh_build import (
    EMPTY,
    LEAF,
    LEAF_WORDS,
    NODE_ROWS,
    NODE_WORDS,
    STACK,
    leaf_of,
    leaf_size,
    vec8,
    vec_leaf,
)
from engine.geom.ray_query import COUNT, corner, face_normal, first_bits, leaf_corner, nearest_child, next_bit, trace

vec3d = k.vec3d

NEARER_BY = 2.0**-20
NEARER = 1.0 - NEARER_BY  # a box may be this much nearer than computed
LARGE = 3.0e38
SMALLEST = 1.0e-37  # nothing is divided by less
FLAT = 1.0e-12  # a triangle whose squared area is less than this, in terms of its edges, is three edges
SLENDER = 1.0e-6  # less than this, and float32 does not know where in the triangle a point is
DOUBT = 2.0**-16  # of float32 distances: relative to the distance, and to the farthest corner

# directions along which a sign is sought, of no meaning but that few meshes have edges in them
RAYS = ((0.73950, 0.53871, 0.40362), (-0.36213, 0.82531, 0.43322), (0.21871, -0.40417, 0.88815))


@k.struct
class MeshQueryPoint:
    """What a closest-point query found: u and v are the weights of the triangle's first two corners; sign −1 inside."""

    result: bool
    sign: float
    face: int
    u: float
    v: float


# --- the closest point ------------------------------------------------------------------------------------------------


@k.func
def on_segment(p: vec3d, a: vec3d, b: vec3d) -> k.float64:
    """Where on a … b the point closest to p lies, 0 to 1."""
    ab = b - a
    length2 = k.dot(ab, ab)
    s = k.float64(0.0)
    if length2 > k.float64(0.0):
        s = k.clamp(k.dot(p - a, ab) / length2, k.float64(0.0), k.float64(1.0))
    return s


@k.func
def nearest_edge(p: vec3d, a: vec3d, b: vec3d, c: vec3d) -> vec3d:
    """Weights of the corners at the closest point of the three edges."""
    one = k.float64(1.0)
    s, t, r = on_segment(p, a, b), on_segment(p, b, c), on_segment(p, c, a)
    best = k.length_sq(p - (a + (b - a) * s))
    out = vec3d(one - s, s, k.float64(0.0))
    other = k.length_sq(p - (b + (c - b) * t))
    if other < best:
        best = other
        out = vec3d(k.float64(0.0), one - t, t)
    if k.length_sq(p - (c + (a - c) * r)) < best:
        out = vec3d(r, k.float64(0.0), one - r)
    return out


@k.func
def closest_weights(p: vec3d, a: vec3d, b: vec3d, c: vec3d) -> vec3d:
    """Weights of the corners at the point of a triangle that is closest to p; 0 exactly on edges and corners.

    Ericson 2005, "Real-Time Collision Detection", 5.1.5, in float64; flat triangles are their edges.
    """
    zero, one = k.float64(0.0), k.float64(1.0)
    ab, ac, ap = b - a, c - a, p - a
    normal = k.cross(ab, ac)
    out = vec3d(zero, zero, one)
    if k.length_sq(normal) <= k.float64(FLAT) * k.length_sq(ab) * k.length_sq(ac):
        out = nearest_edge(p, a, b, c)
    else:
        d1, d2 = k.dot(ab, ap), k.dot(ac, ap)
        d3, d4 = d1 - k.dot(ab, ab), d2 - k.dot(ac, ab)
        d5, d6 = d1 - k.dot(ab, ac), d2 - k.dot(ac, ac)
        va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
        if d1 <= zero and d2 <= zero:
            out = vec3d(one, zero, zero)
        elif d3 >= zero and d4 <= d3:
            out = vec3d(zero, one, zero)
        elif d6 >= zero and d5 <= d6:
            out = vec3d(zero, zero, one)
        elif vc <= zero and d1 >= zero and d3 <= zero:
            s = d1 / (d1 - d3)
            out = vec3d(one - s, s, zero)
        elif vb <= zero and d2 >= zero and d6 <= zero:
            s = d2 / (d2 - d6)
            out = vec3d(one - s, zero, s)
        elif va <= zero and d4 >= d3 and d5 >= d6:
            s = (d4 - d3) / ((d4 - d3) + (d5 - d6))
            out = vec3d(zero, one - s, s)
        else:
            share = one / (va + vb + vc)
            out = vec3d(one - vb * share - vc * share, vb * share, vc * share)
    return out


@k.func
def product(ax, ay, az, bx, by, bz):
    """Dot products, by component."""
    return k.fma(ax, bx, k.fma(ay, by, k.cw_mul(az, bz)))


@k.func
def across(ax, ay, az, bx, by, bz):
    """Cross products, by component."""
    x = k.cw_mul(ay, bz) - k.cw_mul(az, by)
    y = k.cw_mul(az, bx) - k.cw_mul(ax, bz)
    z = k.cw_mul(ax, by) - k.cw_mul(ay, bx)
    return x, y, z


@k.func
def to_segment(ax, ay, az, ex, ey, ez):
    """Squared distances of the origin to the segments a … a + e, by component."""
    length2 = k.select_max(product(ex, ey, ez, ex, ey, ez), vec_leaf(SMALLEST))
    s = k.cw_div(product(ax, ay, az, ex, ey, ez), length2)
    s = k.select_min(k.select_max(s, vec_leaf(-1.0)), vec_leaf(0.0))
    x, y, z = ax - k.cw_mul(s, ex), ay - k.cw_mul(s, ey), az - k.cw_mul(s, ez)
    return product(x, y, z, x, y, z)


@k.func
def least_distances(leaves: k.array(dtype=vec_leaf), at: int, point: k.vec3):
    """Squared distances that the point has at least from a leaf's triangles, whose rows begin at `at`.

    In float32, all at once, and less what rounding may have added: the nearest triangle is among those that are
    not too far by this. NaN for huge triangles, and for those that are none.
    """
    px, py, pz = vec_leaf(point[0]), vec_leaf(point[1]), vec_leaf(point[2])
    ax, ay, az = leaves[at] - px, leaves[at + 1] - py, leaves[at + 2] - pz
    bx, by, bz = leaves[at + 3] - px, leaves[at + 4] - py, leaves[at + 5] - pz
    cx, cy, cz = leaves[at + 6] - px, leaves[at + 7] - py, leaves[at + 8] - pz
    ux, uy, uz = leaves[at + 3] - leaves[at], leaves[at + 4] - leaves[at + 1], leaves[at + 5] - leaves[at + 2]
    vx, vy, vz = leaves[at + 6] - leaves[at], leaves[at + 7] - leaves[at + 1], leaves[at + 8] - leaves[at + 2]
    wx, wy, wz = leaves[at + 6] - leaves[at + 3], leaves[at + 7] - leaves[at + 4], leaves[at + 8] - leaves[at + 5]
    edges = k.select_min(to_segment(ax, ay, az, ux, uy, uz), to_segment(ax, ay, az, vx, vy, vz))
    edges = k.select_min(edges, to_segment(bx, by, bz, wx, wy, wz))
    nx, ny, nz = across(ux, uy, uz, vx, vy, vz)
    area = product(nx, ny, nz, nx, ny, nz)
    # weights of the third and the second corner at the foot of the point, times `area`
    x, y, z = across(ax, ay, az, ux, uy, uz)
    third = product(x, y, z, nx, ny, nz)
    x, y, z = across(vx, vy, vz, ax, ay, az)
    second = product(x, y, z, nx, ny, nz)
    within = k.select_min(k.select_min(third, second), area - third - second)
    height = product(ax, ay, az, nx, ny, nz)
    plane = k.cw_div(k.cw_mul(height, height), k.select_max(area, vec_leaf(SMALLEST)))
    out = k.where(k.less_equal(vec_leaf(0.0), within), plane, edges)
    slender = k.cw_mul(product(ux, uy, uz, ux, uy, uz), product(vx, vy, vz, vx, vy, vz)) * SLENDER
    out = k.where(k.less_equal(area, slender), k.cw_mul(area, vec_leaf(0.0)), out)
    farthest = k.select_max(product(ax, ay, az, ax, ay, az), product(bx, by, bz, bx, by, bz))
    farthest = k.select_max(farthest, product(cx, cy, cz, cx, cy, cz))
    return k.fma(out, vec_leaf(1.0 - 4.0 * DOUBT), farthest * -DOUBT)


@k.func
def slab_gap(slabs: k.array(dtype=vec8), at: int, px: vec8, py: vec8, pz: vec8, doubt: vec8) -> vec8:
    """How far a point is outside of the 8 slabs whose rows begin at `at`, less `doubt`; 0 inside. See `mesh_slabs`."""
    x, y = slabs[at], slabs[at + 1]
    z = k.sqrt(k.select_max(k.fma(-x, x, k.fma(-y, y, vec8(1.0))), vec8(0.0)))
    along = k.fma(x, px, k.fma(y, py, k.cw_mul(z, pz)))
    beside = k.select_max(slabs[at + 2] - along, along - slabs[at + 3])
    return k.select_max(beside - doubt, vec8(0.0))


@k.func
def fetch_children(rows: k.array(dtype=vec_leaf), boxes: k.array(dtype=vec8), slabs: k.array(dtype=vec8),
                   words: k.array(dtype=int), at: int, mask: k.uint32):  # fmt: skip
    """Asks for all cache lines, of two rows each, of those of a node's children that are in `mask`."""
    while mask != k.uint32(0):
        c, mask = next_bit(mask)
        child = words[at + c]
        if child < 0:
            for line in range(5):
                k.prefetch(rows, 10 * leaf_of(child) + 2 * line)
        else:
            for line in range(4):
                k.prefetch(boxes, NODE_ROWS * child + 2 * line)
            for line in range(2):
                k.prefetch(slabs, 4 * child + 2 * line)


@k.func
def closest(tree: Tree, point: k.vec3, max_dist: float):
    """(face or −1, weights of its corners at the closest point that is less than max_dist away)."""
    boxes = array(ptr=tree.nodes.ptr, shape=len(tree.nodes) // 8, dtype=vec8)
    slabs = array(ptr=tree.slabs.ptr, shape=len(tree.slabs) // 8, dtype=vec8)
    rows = array(ptr=tree.leaves.ptr, shape=len(tree.leaves) // LEAF, dtype=vec_leaf)
    words = array(ptr=tree.nodes.ptr, shape=len(tree.nodes), dtype=int)
    px, py, pz = vec8(point[0]), vec8(point[1]), vec8(point[2])
    p = vec3d(k.float64(point[0]), k.float64(point[1]), k.float64(point[2]))
    doubt = vec8((k.abs(point[0]) + k.abs(point[1]) + k.abs(point[2])) * NEARER_BY)
    stack = k.zeros(shape=STACK, dtype=int)
    entry = k.zeros(shape=STACK, dtype=float)
    best = k.min(max_dist * max_dist, LARGE)
    exact = k.float64(best)
    face = -1
    weights = vec3d()
    top = 1 if max_dist > 0.0 and k.isfinite(point[0] + point[1] + point[2]) else 0
    while top > 0:
        top -= 1
        node = stack[top]
        if entry[top] <= best:
            while node >= 0:
                at = NODE_ROWS * node
                x = axis_gap(boxes[at], boxes[at + 3], px)
                y = axis_gap(boxes[at + 1], boxes[at + 4], py)
                z = axis_gap(boxes[at + 2], boxes[at + 5], pz)
                squared = k.fma(x, x, k.fma(y, y, k.cw_mul(z, z)))
                beside = slab_gap(slabs, 4 * node, px, py, pz, doubt)
                squared = k.select_max(squared, k.cw_mul(beside, beside)) * NEARER
                mask = k.bit_mask(k.less_equal(squared, vec8(best)))
                fetch_children(rows, boxes, slabs, words, NODE_WORDS * node + 48, mask)
                node, top = nearest_child(words, NODE_WORDS * node + 48, mask, squared, stack, entry, top)
            if node != EMPTY:
                leaf = leaf_of(node)
                at_least = least_distances(rows, 10 * leaf, point)
                too_far = k.bit_mask(k.less(vec_leaf(best), at_least))  # not what is no number, for want of range
                mask = first_bits(leaf_size(node)) & ~too_far
                while mask != k.uint32(0):
                    c, mask = next_bit(mask)
                    at = LEAF_WORDS * leaf + c
                    a = vec3d(leaf_corner(tree.leaves, at))
                    b = vec3d(leaf_corner(tree.leaves, at + 3 * LEAF))
                    third = vec3d(leaf_corner(tree.leaves, at + 6 * LEAF))
                    w = closest_weights(p, a, b, third)
                    far = k.length_sq(a * w[0] + b * w[1] + third * w[2] - p)
                    number = k.bitcast(tree.leaves[at + 9 * LEAF], k.int32)
                    if far < exact or (far == exact and face >= 0 and number < face):
                        exact = far
                        best = float(far) * (1.0 + 2.0**-20)
                        mask = mask & ~k.bit_mask(k.less(vec_leaf(best), at_least))
                        face = number
                        weights = w
    return face, weights


# --- signs ------------------------------------------------------------------------------------------------------------


@k.func
def sign_by_rays(tree: Tree, point: k.vec3, by_parity: bool) -> float:
    """−1 inside: where two of three rays leave more often than they enter, or cross an odd number of times. On a closed
    mesh they agree, so that the third is seldom asked."""
    votes, asked = 0, 0
    while asked < 2 or (asked == 2 and votes == 1):
        toward = k.vec3(RAYS[0][0], RAYS[0][1], RAYS[0][2])
        if asked == 1:
            toward = k.vec3(RAYS[1][0], RAYS[1][1], RAYS[1][2])
        elif asked == 2:
            toward = k.vec3(RAYS[2][0], RAYS[2][1], RAYS[2][2])
        crossed, _t, _u, _v, side, _face, _at = trace(tree, point, toward, k.inf, COUNT)
        inside = side < 0.0
        if by_parity:
            inside = crossed & 1 == 1
        if inside:
            votes += 1
        asked += 1
    return -1.0 if votes >= 2 else 1.0


@k.func
def same(a: k.vec3, b: k.vec3) -> bool:
    return a[0] == b[0] and a[1] == b[1] and a[2] == b[2]


@k.func
def angle_between(a: k.vec3, b: k.vec3) -> float:
    return k.atan2(k.length(k.cross(a, b)), k.dot(a, b))


@k.func
def share_of_normal(a: k.vec3, b: k.vec3, c: k.vec3, p: k.vec3, q: k.vec3) -> k.vec3:
    """What a triangle adds to the normal at its corner p, weighted by its angle; at its edge p, q, if they differ."""
    normal = k.normalize(k.cross(b - a, c - a))
    out = k.vec3()
    if same(p, q):
        if same(a, p):
            out = normal * angle_between(b - a, c - a)
        elif same(b, p):
            out = normal * angle_between(c - b, a - b)
        elif same(c, p):
            out = normal * angle_between(a - c, b - c)
    else:
        has_p = same(a, p) or same(b, p) or same(c, p)
        has_q = same(a, q) or same(b, q) or same(c, q)
        if has_p and has_q:
            out = normal
    return out


@k.func
def pseudonormal(tree: Tree, p: k.vec3, q: k.vec3) -> k.vec3:
    """The angle-weighted normal at a corner (p = q) or an edge, from all triangles with corners at these positions.

    Bærentzen, Aanæs 2005, "Signed Distance Computation Using the Angle Weighted Pseudonormal".
    """
    boxes = array(ptr=tree.nodes.ptr, shape=len(tree.nodes) // 8, dtype=vec8)
    x, y, z = vec8(p[0]), vec8(p[1]), vec8(p[2])
    stack = k.zeros(shape=STACK, dtype=int)
    normal = k.vec3()
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        if node >= 0:
            at = NODE_ROWS * node
            mask = k.bit_mask(k.less_equal(boxes[at], x)) & k.bit_mask(k.less_equal(x, boxes[at + 3]))
            mask = mask & k.bit_mask(k.less_equal(boxes[at + 1], y)) & k.bit_mask(k.less_equal(y, boxes[at + 4]))
            mask = mask & k.bit_mask(k.less_equal(boxes[at + 2], z)) & k.bit_mask(k.less_equal(z, boxes[at + 5]))
            while mask != k.uint32(0):
                stack[top] = k.bitcast(tree.nodes[NODE_WORDS * node + 48 + lowest(mask)], k.int32)
                mask = mask & (mask - k.uint32(1))
                top += 1
        elif node != EMPTY:
            for c in range(leaf_size(node)):
                at = LEAF_WORDS * leaf_of(node) + c
                a = leaf_corner(tree.leaves, at)
                b = leaf_corner(tree.leaves, at + 3 * LEAF)
                d = leaf_corner(tree.leaves, at + 6 * LEAF)
                normal += share_of_normal(a, b, d, p, q)
    return normal


@k.func
def sign_by_normal(tree: Tree, point: k.vec3, face: int, weights: vec3d) -> float:
    """−1 behind the surface at the closest point."""
    a, b, c = corner(tree, face, 0), corner(tree, face, 1), corner(tree, face, 2)
    zero = k.float64(0.0)
    u, v, w = weights[0] == zero, weights[1] == zero, weights[2] == zero
    normal = face_normal(tree, face)
    if u and v:
        normal = pseudonormal(tree, c, c)
    elif v and w:
        normal = pseudonormal(tree, a, a)
    elif w and u:
        normal = pseudonormal(tree, b, b)
    elif u:
        normal = pseudonormal(tree, b, c)
    elif v:
        normal = pseudonormal(tree, a, c)
    elif w:
        normal = pseudonormal(tree, a, b)
    nearest = vec3d(a) * weights[0] + vec3d(b) * weights[1] + vec3d(c) * weights[2]
    away = vec3d(point) - nearest
    return -1.0 if k.dot(away, vec3d(normal)) < zero else 1.0


@k.func
def solid_angle(a: k.vec3, b: k.vec3, c: k.vec3) -> float:
    """Of a triangle seen from the origin (van Oosterom, Strackee 1983), in 4 pi; positive seen from behind."""
    la, lb, lc = k.length(a), k.length(b), k.length(c)
    below = la * lb * lc + k.dot(a, b) * lc + k.dot(b, c) * la + k.dot(c, a) * lb
    return k.atan2(k.dot(a, k.cross(b, c)), below) / (2.0 * k.pi)


@k.func
def winding_number(tree: Tree, point: k.vec3, accuracy: float) -> float:
    """1 inside a closed mesh, 0 outside: a child that is further away than `accuracy` times its radius is a dipole.

    Barill and others 2018, "Fast Winding Numbers for Soups and Clouds". Without moments all triangles are summed.
    """
    stack = k.zeros(shape=STACK, dtype=int)
    total = 0.0
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        if node >= 0:
            for c in range(8):
                child = k.bitcast(tree.nodes[NODE_WORDS * node + 48 + c], k.int32)
                descend = child != EMPTY
                if descend and len(tree.moments) > 0:
                    at = NODE_WORDS * node + c
                    m = tree.moments
                    away = k.vec3(m[at], m[at + 8], m[at + 16]) - point
                    far = k.length(away)
                    if far > accuracy * m[at + 48]:
                        descend = False
                        area = k.vec3(m[at + 24], m[at + 32], m[at + 40])
                        total += k.dot(away, area) / (far * far * far * 4.0 * k.pi)
                if descend:
                    stack[top] = child
                    top += 1
        else:
            for c in range(leaf_size(node)):
                at = LEAF_WORDS * leaf_of(node) + c
                a = leaf_corner(tree.leaves, at)
                b = leaf_corner(tree.leaves, at + 3 * LEAF)
                d = leaf_corner(tree.leaves, at + 6 * LEAF)
                total += solid_angle(a - point, b - point, d - point)
    return total


# --- the functions of the language ------------------------------------------------------------------------------------


@k.func
def answer(tree: Tree, face: int, weights: vec3d) -> MeshQueryPoint:
    q = MeshQueryPoint()
    if face >= 0:
        q.result = True
        q.face = face
        q.u, q.v = float(weights[0]), float(weights[1])
    return q


@k.func
def mesh_query_point_no_sign(id: k.uint64, point: k.vec3, max_dist: float) -> MeshQueryPoint:
    """The closest point of the mesh that is less than max_dist away; `sign` is 0."""
    q = MeshQueryPoint()
    if id != k.uint64(0):
        tree = tree_of(id)
        face, weights = closest(tree, point, max_dist)
        q = answer(tree, face, weights)
    return q


@k.func
def mesh_query_point(id: k.uint64, point: k.vec3, max_dist: float) -> MeshQueryPoint:
    """The closest point; the sign is −1 where a ray leaves the mesh more often than it enters it, by most of three."""
    q = mesh_query_point_no_sign(id, point, max_dist)
    if q.result:
        q.sign = sign_by_rays(tree_of(id), point, False)
    return q


@k.func
def mesh_query_point_sign_parity(id: k.uint64, point: k.vec3, max_dist: float) -> MeshQueryPoint:
    """The closest point; the sign is −1 where a ray crosses the mesh an odd number of times: faces may be turned."""
    q = mesh_query_point_no_sign(id, point, max_dist)
    if q.result:
        q.sign = sign_by_rays(tree_of(id), point, True)
    return q


@k.func
def mesh_query_point_sign_normal(
    id: k.uint64, point: k.vec3, max_dist: float, epsilon: float = 1.0e-3
) -> MeshQueryPoint:
    """The closest point; the sign is that of the surface's normal there: right for closed meshes, quick for all.

    `epsilon` is ignored: the triangles around an edge or a corner are found by position.
    """
    q = MeshQueryPoint()
    if id != k.uint64(0):
        tree = tree_of(id)
        face, weights = closest(tree, point, max_dist)
        q = answer(tree, face, weights)
        if face >= 0:
            q.sign = sign_by_normal(tree, point, face, weights)
    return q


@k.func
def mesh_query_point_sign_winding_number(
    id: k.uint64, point: k.vec3, max_dist: float, accuracy: float = 2.0, threshold: float = 0.5
) -> MeshQueryPoint:
    """The closest point; the sign is −1 where the winding number exceeds `threshold`: right for meshes with holes, too.

    The mesh should be made with support_winding_number=True, or every triangle is looked at.
    """
    q = mesh_query_point_no_sign(id, point, max_dist)
    if q.result:
        q.sign = -1.0 if winding_number(tree_of(id), point, accuracy) > threshold else 1.0
    return q


# --- the same with the answer in variables, which stay as they are where nothing is near ------------------------------


@k.func
def tell(q: MeshQueryPoint, inside: k.ref[float], face: k.ref[int], bary_u: k.ref[float], bary_v: k.ref[float]) -> bool:
    if q.result:
        inside = q.sign
        face = q.face
        bary_u = q.u
        bary_v = q.v
    return q.result


@k.func  # type: ignore[no-redef]
def mesh_query_point_no_sign(  # noqa: F811
    id: k.uint64, point: k.vec3, max_dist: float, face: k.ref[int], bary_u: k.ref[float], bary_v: k.ref[float]
) -> bool:
    q = mesh_query_point_no_sign(id, point, max_dist)
    if q.result:
        face = q.face
        bary_u = q.u
        bary_v = q.v
    return q.result


@k.func  # type: ignore[no-redef]
def mesh_query_point(  # noqa: F811
    id: k.uint64,
    point: k.vec3,
    max_dist: float,
    inside: k.ref[float],
    face: k.ref[int],
    bary_u: k.ref[float],
    bary_v: k.ref[float],
) -> bool:
    q = mesh_query_point(id, point, max_dist)
    return tell(q, inside, face, bary_u, bary_v)


@k.func  # type: ignore[no-redef]
def mesh_query_point_sign_parity(  # noqa: F811
    id: k.uint64,
    point: k.vec3,
    max_dist: float,
    inside: k.ref[float],
    face: k.ref[int],
    bary_u: k.ref[float],
    bary_v: k.ref[float],
) -> bool:
    q = mesh_query_point_sign_parity(id, point, max_dist)
    return tell(q, inside, face, bary_u, bary_v)


@k.func  # type: ignore[no-redef]
def mesh_query_point_sign_normal(  # noqa: F811
    id: k.uint64,
    point: k.vec3,
    max_dist: float,
    inside: k.ref[float],
    face: k.ref[int],
    bary_u: k.ref[float],
    bary_v: k.ref[float],
    epsilon: float = 1.0e-3,
) -> bool:
    q = mesh_query_point_sign_normal(id, point, max_dist, epsilon)
    return tell(q, inside, face, bary_u, bary_v)


@k.func  # type: ignore[no-redef]
def mesh_query_point_sign_winding_number(  # noqa: F811
    id: k.uint64,
    point: k.vec3,
    max_dist: float,
    inside: k.ref[float],
    face: k.ref[int],
    bary_u: k.ref[float],
    bary_v: k.ref[float],
    accuracy: float = 2.0,
    threshold: float = 0.5,
) -> bool:
    q = mesh_query_point_sign_winding_number(id, point, max_dist, accuracy, threshold)
    return tell(q, inside, face, bary_u, bary_v)
