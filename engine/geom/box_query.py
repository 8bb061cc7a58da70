"""Queries that go through what they touch one after the other: boxes, rays, spheres, capsules against a hierarchy.

    query = bvh_query_aabb(id, lower, upper)
    while bvh_query_next(query, index): …      or      for index in query: …

A query keeps the node where it stands and which of the node's children it still has to see; going up it tests the
parent's boxes again. It needs no stack, so that a thread may have many queries at once, of any depth.
"""


from engine.compiler import lang as k
from engine.context import array
from engine.geom.bvh import Tree, in_group, tree_of
from engine.geom.bvh_build import EMPTY, LEAF, LEAF_WORDS, NODE_ROWS, NODE_WORDS, leaf_of, leaf_size, vec8, vec_leaf

NOTHING, AABB, RAY, SPHERE, CAPSULE, TRIANGLES_IN_SPHERE, BEYOND = 0, 1, 2, 3, 4, 5, 6
TINY = 1.0e-18
SLACK = 2.0**-21  # relative to the numbers that the distance to a slab is the difference of
FAR_AWAY = 3.0e38


@k.struct
class BvhQuery:
    """Where a traversal stands. a, b: lower and upper corner; origin and inverse direction; centre."""

    id: k.uint64
    kind: int
    a: k.vec3
    b: k.vec3
    radius: float
    max_t: float
    root: int  # −1, or the group that is asked for
    node: int
    todo: k.uint32  # children of the node that are still to be seen
    leaf: int
    ready: k.uint32  # primitives of the leaf that are touched and still to be returned


@k.func
def axis_gap(lower, upper, x):
    """How far x is outside of lower … upper along an axis, by component; 0 inside."""
    return k.select_max(k.select_max(lower - x, x - upper), x - x)


@k.func
def axis_reach(lower, upper, x):
    """How far x is from the farther end of lower … upper along an axis, by component."""
    return k.select_max(upper - x, x - lower)


@k.func
def slab(lower, upper, origin: float, inverse: float, radius: float):
    """(entry, exit) of a ray between lower − radius and upper + radius by component, widened by rounding errors."""
    by, at = type(lower)(inverse), type(lower)(-origin * inverse)
    grown = type(lower)(radius)
    first, second = k.fma(lower - grown, by, at), k.fma(upper + grown, by, at)
    slack = type(lower)((k.abs(origin) + radius) * k.abs(inverse) * SLACK)
    return k.select_min(first, second) - slack, k.select_max(first, second) + slack


@k.func
def touched(q: BvhQuery, max_t: float, lx, ly, lz, ux, uy, uz) -> k.uint32:
    """Which of several boxes the query touches, one bit each."""
    ax, ay, az = type(lx)(q.a[0]), type(lx)(q.a[1]), type(lx)(q.a[2])
    bx, by, bz = type(lx)(q.b[0]), type(lx)(q.b[1]), type(lx)(q.b[2])
    out = k.uint32(0)
    if q.kind == AABB:
        out = k.bit_mask(k.less_equal(lx, bx)) & k.bit_mask(k.less_equal(ly, by)) & k.bit_mask(k.less_equal(lz, bz))
        out = out & k.bit_mask(k.less_equal(ax, ux)) & k.bit_mask(k.less_equal(ay, uy))
        out = out & k.bit_mask(k.less_equal(az, uz))
    elif q.kind == SPHERE or q.kind == TRIANGLES_IN_SPHERE:
        x, y, z = axis_gap(lx, ux, ax), axis_gap(ly, uy, ay), axis_gap(lz, uz, az)
        squared = k.cw_mul(x, x) + k.cw_mul(y, y) + k.cw_mul(z, z)
        out = k.bit_mask(k.less_equal(squared, type(lx)(q.radius * q.radius)))
    elif q.kind == BEYOND:
        x, y, z = axis_reach(lx, ux, ax), axis_reach(ly, uy, ay), axis_reach(lz, uz, az)
        squared = k.cw_mul(x, x) + k.cw_mul(y, y) + k.cw_mul(z, z)
        out = k.bit_mask(k.less_equal(type(lx)(q.radius * q.radius), squared * (1.0 + SLACK)))
    elif q.kind == RAY or q.kind == CAPSULE:
        nx, fx = slab(lx, ux, q.a[0], q.b[0], q.radius)
        ny, fy = slab(ly, uy, q.a[1], q.b[1], q.radius)
        nz, fz = slab(lz, uz, q.a[2], q.b[2], q.radius)
        near = k.select_max(k.select_max(nx, ny), k.select_max(nz, type(lx)(0.0)))
        far = k.select_min(k.select_min(fx, fy), k.select_min(fz, type(lx)(max_t)))
        out = k.bit_mask(k.less_equal(near, far * (1.0 + SLACK)))
    return out


@k.func
def touched_children(tree: Tree, q: BvhQuery, node: int, max_t: float) -> k.uint32:
    rows = array(ptr=tree.nodes.ptr, shape=len(tree.nodes) // 8, dtype=vec8)
    at = NODE_ROWS * node
    return touched(q, max_t, rows[at], rows[at + 1], rows[at + 2], rows[at + 3], rows[at + 4], rows[at + 5])


@k.func
def touched_primitives(tree: Tree, q: BvhQuery, leaf: int, count: int, max_t: float) -> k.uint32:
    """By the bounds of each primitive of a leaf."""
    rows = array(ptr=tree.leaves.ptr, shape=len(tree.leaves) // LEAF, dtype=vec_leaf)
    at = 10 * leaf
    lx, ux = k.select_min(k.select_min(rows[at], rows[at + 3]), rows[at + 6]), k.select_max(
        k.select_max(rows[at], rows[at + 3]), rows[at + 6])  # fmt: skip
    ly, uy = k.select_min(k.select_min(rows[at + 1], rows[at + 4]), rows[at + 7]), k.select_max(
        k.select_max(rows[at + 1], rows[at + 4]), rows[at + 7])  # fmt: skip
    lz, uz = k.select_min(k.select_min(rows[at + 2], rows[at + 5]), rows[at + 8]), k.select_max(
        k.select_max(rows[at + 2], rows[at + 5]), rows[at + 8])  # fmt: skip
    return touched(q, max_t, lx, ly, lz, ux, uy, uz) & ((k.uint32(1) << k.uint32(count)) - k.uint32(1))


@k.func
def begin_query(id: k.uint64, kind: int, a: k.vec3, b: k.vec3, radius: float, root: int) -> BvhQuery:
    """A query in front of its first result. Places that are not finite, and radii below 0 or NaN, touch nothing."""
    q = BvhQuery()
    q.id = id
    q.a, q.b = a, b
    q.radius = radius
    q.max_t = FAR_AWAY
    q.root = root
    usable = root >= -1 and id != k.uint64(0) and radius >= 0.0
    if usable and k.isfinite(a[0] + a[1] + a[2]) and k.isfinite(b[0] + b[1] + b[2]):
        q.kind = kind
        q.todo = touched_children(tree_of(id), q, 0, q.max_t)
    return q


@k.func
def lowest(bits: k.uint32) -> int:
    """The position of the lowest one bit."""
    return int(k.popcount(~bits & (bits - k.uint32(1))))


@k.func
def inverted(direction: k.vec3) -> k.vec3:
    """1 / direction by component; what is next to nothing counts as a tiny number, infinity is no number."""
    out = k.vec3()
    for axis in range(3):
        d = direction[axis]
        if k.abs(d) < TINY:
            d = k.copysign(TINY, d)
        out[axis] = 1.0 / d if k.isfinite(d) else k.nan
    return out


# --- the functions of the language ------------------------------------------------------------------------------------


@k.func
def bvh_query_aabb(id: k.uint64, low: k.vec3, high: k.vec3, root: int = -1) -> BvhQuery:
    """Boxes that touch the box low … high."""
    return begin_query(id, AABB, low, high, 0.0, root)


@k.func
def bvh_query_ray(id: k.uint64, start: k.vec3, dir: k.vec3, root: int = -1) -> BvhQuery:
    """Boxes that the ray start + t · dir, t ≥ 0, touches; with t ≤ max_dist of `bvh_query_next`."""
    return begin_query(id, RAY, start, inverted(dir), 0.0, root)


@k.func
def bvh_query_sphere(id: k.uint64, center: k.vec3, radius: float, root: int = -1) -> BvhQuery:
    """Boxes that touch the sphere."""
    return begin_query(id, SPHERE, center, k.vec3(), radius, root)


@k.func
def bvh_query_capsule(id: k.uint64, start: k.vec3, dir: k.vec3, radius: float, root: int = -1) -> BvhQuery:
    """Boxes that, made larger by `radius` on all sides, touch the ray start + t · dir: all that a capsule may touch."""
    return begin_query(id, CAPSULE, start, inverted(dir), radius, root)


@k.func
def bvh_query_next(query: k.ref[BvhQuery], index: k.ref[int], max_dist: float = FAR_AWAY) -> bool:
    """Puts the number of the next box into `index`; false where there is none left. max_dist: of rays and capsules."""
    found = False
    if query.kind != NOTHING:
        tree = tree_of(query.id)
        searching = True
        while searching:
            if query.ready != k.uint32(0):
                lane = lowest(query.ready)
                query.ready = query.ready & (query.ready - k.uint32(1))
                number = k.bitcast(tree.leaves[LEAF_WORDS * query.leaf + 9 * LEAF + lane], k.int32)
                if in_group(tree, number, query.root):
                    index = number
                    found = True
                    searching = False
            elif query.todo != k.uint32(0):
                c = lowest(query.todo)
                query.todo = query.todo & (query.todo - k.uint32(1))
                child = k.bitcast(tree.nodes[NODE_WORDS * query.node + 48 + c], k.int32)
                if child >= 0:
                    query.node = child
                    query.todo = touched_children(tree, query, child, max_dist)
                elif child != EMPTY:
                    query.leaf = leaf_of(child)
                    query.ready = touched_primitives(tree, query, query.leaf, leaf_size(child), max_dist)
            else:
                place = tree.parents[query.node]
                if place < 0:
                    query.kind = NOTHING
                    searching = False
                else:
                    query.node = place >> 3
                    seen = (k.uint32(2) << k.uint32(place & 7)) - k.uint32(1)
                    query.todo = touched_children(tree, query, query.node, max_dist) & ~seen
    return found


BvhQuery.advance = bvh_query_next  # for `for i in query`
