"""Rays against triangle meshes in kernels: closest hit, any hit, number of crossings; watertight.

A node's 8 boxes are tested at once, and a leaf's triangles: Woop, Benthin, Wald 2013, "Watertight Ray/Triangle
Intersection". Corners are moved to the ray's origin and sheared so that the ray is the z axis; a triangle is hit where
the three edge functions have one sign. In float32 without fused operations an edge function has the right sign or is
zero, and triangles that share an edge get the same number, negated; what is left as possible is decided in float64,
where products of float32 are exact, hence every sign. A ray that meets an edge or a corner exactly hits for the closest
and any queries; for counts the ray is thought moved aside by (e, e²) with e → 0 (Edelsbrunner, Mücke 1990, "Simulation
of simplicity"), so that of the triangles around an edge or corner as many are crossed as nearby: parity is exact.

The slabs are widened by more than all rounding errors of box test and shear, so that no box of a hit is missed.
"""


from engine.compiler import lang as k
from engine.context import array
from engine.geom.box_query import lowest
from engine.geom.bvh import Tree, in_group, tree_of
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

CLOSEST, ANY, COUNT = 0, 1, 2
TINY = 1.0e-18  # of the largest component: a direction's smaller components are taken as this
LARGE = 3.0e38
SLACK = 2.0**-20  # of the largest coordinate difference: what rounding moves a corner and a slab's distance by is less
FAR = 1.0 + 2.0**-21  # relative error of a hit's distance


@k.struct
class Ray:
    """A ray prepared for traversal. Axes: kz is the largest component of the direction, kx and ky follow in a cycle."""

    kx: int
    ky: int
    kz: int
    origin: k.vec3  # along kx, ky, kz
    shear: k.vec2  # of x and y by z
    scale: float  # size of the largest component of the direction, with its sign: z / scale is the ray's parameter
    inverse: k.vec3  # of the direction whose largest component is 1, along x, y, z
    near: k.vec3  # what x · inverse is moved by for the near side of slabs, and for the far side
    far: k.vec3
    usable: bool


@k.struct
class MeshQueryRay:
    """A closest hit. u, v: weights of the triangle's first two corners; sign: 1 from outside, −1 from behind."""

    result: bool
    sign: float
    face: int
    t: float
    u: float
    v: float
    normal: k.vec3


@k.func
def reach_of(tree: Tree, origin: k.vec3) -> float:
    """The largest difference of a coordinate between the origin and anything in the tree."""
    bounds = array(ptr=tree.bounds.ptr, shape=2, dtype=k.vec3)
    reach = 0.0
    for end in range(2):
        away = bounds[end] - origin
        for axis in range(3):
            reach = k.select_max(k.abs(away[axis]), reach)
    return reach


@k.func
def make_ray(tree: Tree, origin: k.vec3, direction: k.vec3) -> Ray:
    """`usable` is false for a direction that is zero, and for numbers that are not finite."""
    r = Ray()
    size = k.vec3(k.abs(direction[0]), k.abs(direction[1]), k.abs(direction[2]))
    most = size[0]
    r.kx, r.ky, r.kz = 1, 2, 0
    along = k.vec3(direction[1], direction[2], direction[0])
    r.origin = k.vec3(origin[1], origin[2], origin[0])
    if size[1] > most:
        most = size[1]
        r.kx, r.ky, r.kz = 2, 0, 1
        along = k.vec3(direction[2], direction[0], direction[1])
        r.origin = k.vec3(origin[2], origin[0], origin[1])
    if size[2] > most:
        most = size[2]
        r.kx, r.ky, r.kz = 0, 1, 2
        along = direction
        r.origin = origin
    r.usable = most > 0.0 and k.isfinite(direction[0] + direction[1] + direction[2])
    r.usable = r.usable and k.isfinite(origin[0] + origin[1] + origin[2])
    r.shear = k.vec2(along[0] / along[2], along[1] / along[2])
    r.scale = along[2]
    reach = reach_of(tree, origin)
    for axis in range(3):
        d = direction[axis] / most
        if k.abs(d) < TINY:
            d = k.copysign(TINY, d)
        inverse = 1.0 / d
        at = -origin[axis] * inverse
        slack = (reach + k.abs(origin[axis])) * k.abs(inverse) * SLACK
        r.inverse[axis] = inverse
        r.near[axis] = at - slack
        r.far[axis] = at + slack
    return r


@k.func
def unfused(a, b):
    """a · b, which no sum takes over: a fused edge function would not be the negative of its neighbour's."""
    return k.fma(a, b, vec_leaf(0.0))


@k.func
def possible(leaves: k.array(dtype=vec_leaf), at: int, ray: Ray) -> k.uint32:
    """Which of a leaf's triangles, whose rows begin at `at`, the ray's line may meet."""
    ox, oy, oz = vec_leaf(ray.origin[0]), vec_leaf(ray.origin[1]), vec_leaf(ray.origin[2])
    sx, sy = vec_leaf(-ray.shear[0]), vec_leaf(-ray.shear[1])
    x, y, z = at + ray.kx, at + ray.ky, at + ray.kz
    az, bz, cz = leaves[z] - oz, leaves[z + 3] - oz, leaves[z + 6] - oz
    ax, ay = k.fma(sx, az, leaves[x] - ox), k.fma(sy, az, leaves[y] - oy)
    bx, by = k.fma(sx, bz, leaves[x + 3] - ox), k.fma(sy, bz, leaves[y + 3] - oy)
    cx, cy = k.fma(sx, cz, leaves[x + 6] - ox), k.fma(sy, cz, leaves[y + 6] - oy)
    u = unfused(bx, cy) - unfused(by, cx)
    v = unfused(cx, ay) - unfused(cy, ax)
    w = unfused(ax, by) - unfused(ay, bx)
    least = k.select_min(k.select_min(u, v), w)
    most = k.select_max(k.select_max(u, v), w)
    return ~(k.bit_mask(k.less(least, vec_leaf(0.0))) & k.bit_mask(k.less(vec_leaf(0.0), most)))


@k.func
def aside(ax: k.float64, ay: k.float64, bx: k.float64, by: k.float64) -> k.float64:
    """The sign of the edge function ax · by − ay · bx of a ray that is moved by (e, e²), where the function is zero."""
    out = k.float64(0.0)
    if by != ay:
        out = k.float64(1.0) if by < ay else k.float64(-1.0)
    elif bx != ax:
        out = k.float64(1.0) if bx > ax else k.float64(-1.0)
    return out


@k.func
def hit_triangle(leaves: k.array(dtype=float), at: int, ray: Ray, owned: bool):
    """(hit, t, u, v, side) of the triangle whose first word is `at`. `owned`: of the triangles that meet where the ray
    goes through, those that count. side: the sign of the triangle's area seen along kz."""
    x, y, z = at + LEAF * ray.kx, at + LEAF * ray.ky, at + LEAF * ray.kz
    az, bz, cz = leaves[z] - ray.origin[2], leaves[z + 3 * LEAF] - ray.origin[2], leaves[z + 6 * LEAF] - ray.origin[2]
    sx, sy = -ray.shear[0], -ray.shear[1]
    ax = k.float64(k.fma(sx, az, leaves[x] - ray.origin[0]))
    ay = k.float64(k.fma(sy, az, leaves[y] - ray.origin[1]))
    bx = k.float64(k.fma(sx, bz, leaves[x + 3 * LEAF] - ray.origin[0]))
    by = k.float64(k.fma(sy, bz, leaves[y + 3 * LEAF] - ray.origin[1]))
    cx = k.float64(k.fma(sx, cz, leaves[x + 6 * LEAF] - ray.origin[0]))
    cy = k.float64(k.fma(sy, cz, leaves[y + 6 * LEAF] - ray.origin[1]))
    u = bx * cy - by * cx
    v = cx * ay - cy * ax
    w = ax * by - ay * bx
    zero = k.float64(0.0)
    su, sv, sw = u, v, w
    if owned:
        if u == zero:
            su = aside(bx, by, cx, cy)
        if v == zero:
            sv = aside(cx, cy, ax, ay)
        if w == zero:
            sw = aside(ax, ay, bx, by)
    area = u + v + w
    hit = (su >= zero and sv >= zero and sw >= zero) or (su <= zero and sv <= zero and sw <= zero)
    hit = hit and area != zero
    share = k.float64(1.0) / area
    t = (u * k.float64(az) + v * k.float64(bz) + w * k.float64(cz)) * share / k.float64(ray.scale)
    return hit, float(t), float(u * share), float(v * share), float(k.sign(area))


@k.func
def leaf_corner(leaves: k.array(dtype=float), at: int) -> k.vec3:
    """The corner whose x is word `at`."""
    return k.vec3(leaves[at], leaves[at + LEAF], leaves[at + 2 * LEAF])


@k.func
def slab_rows(tree: Tree, axis: int, inverse: float):
    """The rows of the near and the far sides of boxes along an axis, for a ray of this direction; element 8 · node."""
    lower = tree.nodes.ptr + k.uint64(32 * axis)
    upper = tree.nodes.ptr + k.uint64(32 * (axis + 3))
    n = len(tree.nodes) // 8
    ascends = inverse >= 0.0
    near = array(ptr=k.where(ascends, lower, upper), shape=n, dtype=vec8)
    far = array(ptr=k.where(ascends, upper, lower), shape=n, dtype=vec8)
    return near, far


@k.func
def first_bits(n: int) -> k.uint32:
    """A mask of n bits, 1 to 32."""
    return (k.uint32(2) << k.uint32(n - 1)) - k.uint32(1)


@k.func
def next_bit(mask: k.uint32):
    """(index of the lowest bit that is set, the mask without it)."""
    return lowest(mask), mask & (mask - k.uint32(1))


@k.func
def nearest_child(words: k.array(dtype=int), at: int, mask: k.uint32, near: vec8,
                  stack: k.fixedarray(shape=STACK, dtype=int), entry: k.fixedarray(shape=STACK, dtype=float),
                  top: int):  # fmt: skip
    """The nearest of a node's children that are in `mask`, EMPTY if none is, and the entries of the stack, where the
    others are put, the nearest last. at: the word of the first child; near: their distances."""
    node = EMPTY
    if mask != k.uint32(0):
        c, mask = next_bit(mask)
        node = words[at + c]
        if mask != k.uint32(0):
            distance = k.zeros(shape=8, dtype=float)
            for lane in range(8):
                distance[lane] = near[lane]
            least = distance[c]
            base = top
            while mask != k.uint32(0):
                c, mask = next_bit(mask)
                d = distance[c]
                child = words[at + c]
                if d < least:
                    d, least = least, d
                    child, node = node, child
                p = top
                while p > base and entry[k.max(p - 1, 0)] < d:
                    entry[p] = entry[p - 1]
                    stack[p] = stack[p - 1]
                    p -= 1
                entry[p] = d
                stack[p] = child
                top += 1
    return node, top


@k.func
def trace(tree: Tree, origin: k.vec3, direction: k.vec3, max_t: float, mode: int, root: int = -1):
    """(hits, t, u, v, side, face, its first word in the leaves). `mode` is a constant: CLOSEST (at most 1 hit), ANY
    (stops at the first) or COUNT.

    root: −1, or what `bvh_get_group_root` gives for the group whose triangles count. side: how many triangles are met
    from outside, less those that are met from behind.
    """
    ray = make_ray(tree, origin, direction)
    words = array(ptr=tree.nodes.ptr, shape=len(tree.nodes), dtype=int)
    corners = array(ptr=tree.leaves.ptr, shape=len(tree.leaves), dtype=float)
    rows = array(ptr=tree.leaves.ptr, shape=len(tree.leaves) // LEAF, dtype=vec_leaf)
    near_x, far_x = slab_rows(tree, 0, ray.inverse[0])
    near_y, far_y = slab_rows(tree, 1, ray.inverse[1])
    near_z, far_z = slab_rows(tree, 2, ray.inverse[2])
    ix, iy, iz = vec8(ray.inverse[0]), vec8(ray.inverse[1]), vec8(ray.inverse[2])
    nx, ny, nz = vec8(ray.near[0]), vec8(ray.near[1]), vec8(ray.near[2])
    fx, fy, fz = vec8(ray.far[0]), vec8(ray.far[1]), vec8(ray.far[2])
    stack = k.zeros(shape=STACK, dtype=int)
    entry = k.zeros(shape=STACK, dtype=float)
    best = max_t
    length = k.abs(ray.scale)
    bound = k.min(max_t * length, LARGE)  # distances to boxes are along the direction whose largest component is 1
    found, face, place = 0, -1, 0
    hit_u, hit_v, side = 0.0, 0.0, 0.0
    top = 1 if ray.usable and max_t >= 0.0 and root >= -1 else 0
    while top > 0:
        top -= 1
        node = stack[top]
        if entry[top] <= bound:
            while node >= 0:
                at = NODE_ROWS * node
                x, y, z = k.fma(near_x[at], ix, nx), k.fma(near_y[at], iy, ny), k.fma(near_z[at], iz, nz)
                near = k.select_max(k.select_max(x, y), k.select_max(z, vec8(0.0)))
                x, y, z = k.fma(far_x[at], ix, fx), k.fma(far_y[at], iy, fy), k.fma(far_z[at], iz, fz)
                far = k.select_min(k.select_min(x, y), k.select_min(z, vec8(bound)))
                mask = k.bit_mask(k.less_equal(near, far))
                node, top = nearest_child(words, NODE_WORDS * node + 48, mask, near, stack, entry, top)
            if node != EMPTY:  # which only numbers out of range can lead to
                leaf = leaf_of(node)
                mask = possible(rows, 10 * leaf, ray) & first_bits(leaf_size(node))
                while mask != k.uint32(0):
                    c, mask = next_bit(mask)
                    at = LEAF_WORDS * leaf + c
                    hit, t, u, v, s = hit_triangle(corners, at, ray, mode == COUNT)
                    number = k.bitcast(corners[at + 9 * LEAF], k.int32)
                    if hit and t >= 0.0 and t <= best and in_group(tree, number, root):
                        if mode == CLOSEST:
                            if t < best or face < 0 or number < face:
                                best, hit_u, hit_v, side, face, place = t, u, v, s, number, at
                                bound = k.min(t * length * FAR, LARGE)
                            found = 1
                        else:
                            found += 1
                            side += s
                            if mode == ANY:
                                mask = k.uint32(0)
                                top = 0
    return found, best, hit_u, hit_v, -side * k.sign(ray.scale), face, place


# --- the functions of the language ------------------------------------------------------------------------------------


@k.func
def corner(tree: Tree, face: int, which: int) -> k.vec3:
    return tree.points[tree.indices[3 * face + which]]


@k.func
def face_normal(tree: Tree, face: int) -> k.vec3:
    """The unit normal of a triangle, toward where its corners run counter-clockwise; 0 where it has no area."""
    a = corner(tree, face, 0)
    return k.normalize(k.cross(corner(tree, face, 1) - a, corner(tree, face, 2) - a))


@k.func
def mesh_query_ray(id: k.uint64, start: k.vec3, dir: k.vec3, max_t: float, root: int = -1) -> MeshQueryRay:
    """The first triangle that start + t · dir meets with 0 ≤ t ≤ max_t; t counts lengths of `dir`, which may be any.

    `result` is false where there is none, for a `dir` of 0, and for numbers that are not finite. `root`: see
    `mesh_get_group_root`.
    """
    q = MeshQueryRay()
    if id != k.uint64(0):
        tree = tree_of(id)
        found, t, u, v, side, face, at = trace(tree, start, dir, max_t, CLOSEST, root)
        if found > 0:
            q.result = True
            q.t, q.u, q.v = t, u, v
            q.sign = side
            q.face = face
            leaves = array(ptr=tree.leaves.ptr, shape=len(tree.leaves), dtype=float)  # at hand, unlike the points
            a = leaf_corner(leaves, at)
            b, c = leaf_corner(leaves, at + 3 * LEAF), leaf_corner(leaves, at + 6 * LEAF)
            q.normal = k.normalize(k.cross(b - a, c - a))
    return q


@k.func  # type: ignore[no-redef]
def mesh_query_ray(  # noqa: F811
    id: k.uint64,
    start: k.vec3,
    dir: k.vec3,
    max_t: float,
    t: k.ref[float],
    bary_u: k.ref[float],
    bary_v: k.ref[float],
    sign: k.ref[float],
    normal: k.ref[k.vec3],
    face: k.ref[int],
    root: int = -1,
) -> bool:
    """The same with the answer in variables, which stay as they are where nothing is hit."""
    q = mesh_query_ray(id, start, dir, max_t, root)
    if q.result:
        t = q.t
        bary_u = q.u
        bary_v = q.v
        sign = q.sign
        normal = q.normal
        face = q.face
    return q.result


@k.func
def mesh_query_ray_anyhit(id: k.uint64, start: k.vec3, dir: k.vec3, max_t: float, root: int = -1) -> bool:
    """Whether start + t · dir meets a triangle with 0 ≤ t ≤ max_t."""
    found = 0
    if id != k.uint64(0):
        found, _t, _u, _v, _side, _face, _at = trace(tree_of(id), start, dir, max_t, ANY, root)
    return found > 0


@k.func
def mesh_query_ray_count_intersections(id: k.uint64, start: k.vec3, dir: k.vec3, root: int = -1) -> int:
    """How many triangles the ray goes through. Where it meets an edge or a corner exactly, those count that a ray a
    little aside would meet: for a closed mesh the count is even from outside and odd from inside."""
    found = 0
    if id != k.uint64(0):
        found, _t, _u, _v, _side, _face, _at = trace(tree_of(id), start, dir, k.inf, COUNT, root)
    return found
