"""What closest-point queries know of a node's children besides boxes: two parallel planes with all corners between.

    slabs   32 words for each node: normal x[8] y[8], least n · x [8], most n · x [8]     (n: a unit vector, z ≥ 0)

A box around a tilted piece of a smooth surface is as thick as the piece is wide, a slab as thick as the piece is bent:
from afar, boxes leave hundreds of pieces that might be nearest, slabs a few. A node's slab is found from the slabs and
boxes of its children, so that a refit goes through the triangles once.
"""


from typing import Any

from engine.compiler import lang as k
from engine.context import array, empty, launch
from engine.geom.bvh import Hierarchy, least, node_box, write_box
from engine.geom.bvh_build import (
    CHILDREN,
    EMPTY,
    LEAF,
    LEAF_WORDS,
    NODE_ROWS,
    NODE_WORDS,
    PLACES,
    WIDTH,
    leaf_of,
    leaf_size,
    vec8,
    vec_leaf,
)
from engine.geom.point_query import product

SLAB_WORDS = 4 * WIDTH
ROUNDING = 2.0**-20  # of the largest coordinate
WIDEST = 3.0e38
AHEAD = 16  # triangles whose points are asked for before they are needed


@k.func
def rising(normal: k.vec3) -> k.vec3:
    """The unit vector along a line, with z ≥ 0 as √(1 − x² − y²), just as queries compute it; (0, 0, 1) for none."""
    length = k.length(normal)
    x, y = 0.0, 0.0
    if length > 0.0 and k.isfinite(length):
        turned = -1.0 if normal[2] < 0.0 else 1.0
        x, y = turned * normal[0] / length, turned * normal[1] / length
    return k.vec3(x, y, k.sqrt(k.max(k.fma(-x, x, k.fma(-y, y, 1.0)), 0.0)))


@k.func
def least_of(a, b, c) -> float:
    """The least of all components that are numbers, at most `WIDEST`."""
    return least(k.select_min(c, k.select_min(b, k.select_min(a, vec_leaf(WIDEST)))))


@k.func
def of_node(nodes: k.array(dtype=float), slabs: k.array(dtype=float), node: int):
    """(normal, least, most) of all that a node holds: a child is a disc of its slab's thickness, as wide as its box."""
    boxes = array(ptr=nodes.ptr, shape=len(nodes) // WIDTH, dtype=vec8)
    planes = array(ptr=slabs.ptr, shape=len(slabs) // WIDTH, dtype=vec8)
    r, q = NODE_ROWS * node, SLAB_WORDS // WIDTH * node
    held = k.less_equal(boxes[r], boxes[r + 3])  # children that hold anything
    zero = vec8(0.0)
    lx, ly, lz = boxes[r], boxes[r + 1], boxes[r + 2]
    hx = k.where(held, (boxes[r + 3] - lx) * 0.5, zero)
    hy = k.where(held, (boxes[r + 4] - ly) * 0.5, zero)
    hz = k.where(held, (boxes[r + 5] - lz) * 0.5, zero)
    mx, my, mz = k.where(held, lx, zero) + hx, k.where(held, ly, zero) + hy, k.where(held, lz, zero) + hz
    size2 = product(hx, hy, hz, hx, hy, hz)
    nx, ny = planes[q], planes[q + 1]
    nz = k.sqrt(k.select_max(k.fma(-nx, nx, k.fma(-ny, ny, vec8(1.0))), zero))
    # the children's normals, turned to the side of the first one's, as long as their boxes are large
    side = product(nx, ny, nz, vec8(nx[0]), vec8(ny[0]), vec8(nz[0]))
    weight = k.where(k.less_equal(zero, side), size2, -size2)
    sum = k.vec3(k.dot(nx, weight), k.dot(ny, weight), k.dot(nz, weight))
    normal = k.vec3(0.0, 0.0, 1.0)
    if k.bit_mask(held) != k.uint32(0):
        normal = rising(sum)
    x, y, z = vec8(normal[0]), vec8(normal[1]), vec8(normal[2])
    turned = product(nx, ny, nz, x, y, z)
    along = product(mx, my, mz, x, y, z)
    below, above = k.where(held, planes[q + 2], zero), k.where(held, planes[q + 3], zero)
    center = k.fma(turned, (below + above) * 0.5 - product(mx, my, mz, nx, ny, nz), along)
    ex, ey, ez = k.fma(-turned, nx, x), k.fma(-turned, ny, y), k.fma(-turned, nz, z)
    reach = k.cw_mul(k.abs(turned), (above - below) * 0.5)
    reach = reach + k.sqrt(k.cw_mul(product(ex, ey, ez, ex, ey, ez), size2))
    box = product(k.abs(x), k.abs(y), k.abs(z), hx, hy, hz)
    low = k.where(held, k.select_max(center - reach, along - box), vec8(WIDEST))
    high = k.where(held, k.select_min(center + reach, along + box), vec8(-WIDEST))
    return normal, least(low), -least(-high)


@k.func
def triangle_at(leaves: k.array(dtype=float), leaf: int, s: int) -> int:
    """The number of a leaf's triangle; 0 where there is none, and of the last leaf beyond it."""
    last = len(leaves) // LEAF_WORDS - 1
    return k.max(k.bitcast(leaves[LEAF_WORDS * k.min(leaf, last) + 9 * LEAF + s], k.int32), 0)


@k.func
def point_at(points: k.array(dtype=k.vec3), indices: k.array(dtype=int), i: int) -> int:
    """The point that a corner is; any, where it went out of range after the build, which had looked."""
    return int(k.select_min(k.uint32(indices[i]), k.uint32(len(points) - 1)))


@k.kernel(shape="thread", enable_backward=False)
def list_corners(points: k.array(dtype=k.vec3), nodes: k.array(dtype=float), leaves: k.array(dtype=float),
                 indices: k.array(dtype=int), corners: k.array(dtype=int)):  # fmt: skip
    """The points of each leaf's triangles, a thread for each child; `PLACES` of a node says where a leaf's begin."""
    t = k.tid()
    at = NODE_WORDS * (t // WIDTH) + t % WIDTH
    child = k.bitcast(nodes[at + CHILDREN], k.int32)
    if child < 0 and child != EMPTY:
        place = k.bitcast(nodes[at + PLACES], k.int32)
        leaf = leaf_of(child)
        for s in range(leaf_size(child)):
            k.prefetch(indices, 3 * triangle_at(leaves, leaf + 2, s))
            triangle = triangle_at(leaves, leaf, s)
            for which in range(3):
                corners[3 * (place + s) + which] = point_at(points, indices, 3 * triangle + which)


@k.func
def lower_of(a: k.vec3, b: k.vec3) -> k.vec3:
    """By component; where a is no number, b's."""
    return k.vec3(k.select_min(a[0], b[0]), k.select_min(a[1], b[1]), k.select_min(a[2], b[2]))


@k.func
def upper_of(a: k.vec3, b: k.vec3) -> k.vec3:
    return k.vec3(k.select_max(a[0], b[0]), k.select_max(a[1], b[1]), k.select_max(a[2], b[2]))


@k.func
def put(words: k.array(dtype=float), at: int, p: k.vec3):
    """A corner whose x is word `at` of a leaf."""
    words[at], words[at + LEAF], words[at + 2 * LEAF] = p[0], p[1], p[2]


@k.func
def write_child(nodes: k.array(dtype=float), slabs: k.array(dtype=float), node: int, slot: int, lower: k.vec3,
                upper: k.vec3, normal: k.vec3, low: float, high: float):  # fmt: skip
    """Box and slab of a node's child."""
    write_box(nodes, NODE_WORDS * node + slot, lower, upper)
    largest = 0.0
    for axis in range(3):
        largest = k.select_max(k.select_max(k.abs(lower[axis]), k.abs(upper[axis])), largest)
    at = SLAB_WORDS * node + slot
    slabs[at], slabs[at + 8] = normal[0], normal[1]
    slabs[at + 16], slabs[at + 24] = low - largest * ROUNDING, high + largest * ROUNDING


@k.func
def corners_of(points: k.array(dtype=k.vec3), indices: k.array(dtype=int), corners: k.array(dtype=int),
               leaves: k.array(dtype=float), leaf: int, place: int, s: int):  # fmt: skip
    """The corners of a leaf's triangle, by the list if there is one; those of later triangles are asked for."""
    a, b, c = k.vec3(), k.vec3(), k.vec3()
    if len(corners) > 0:
        i = 3 * (place + s)
        later = k.min(i + 3 * AHEAD, len(corners) - 3)
        for which in range(3):
            k.prefetch(points, corners[later + which])
        a, b, c = points[corners[i]], points[corners[i + 1]], points[corners[i + 2]]
    else:
        k.prefetch(indices, 3 * triangle_at(leaves, leaf + 4, s))
        later = 3 * triangle_at(leaves, leaf + 2, s)
        for which in range(3):
            k.prefetch(points, indices[later + which])
        i = 3 * triangle_at(leaves, leaf, s)
        a, b = points[point_at(points, indices, i)], points[point_at(points, indices, i + 1)]
        c = points[point_at(points, indices, i + 2)]
    return a, b, c


@k.func
def fill_leaf(points: k.array(dtype=k.vec3), indices: k.array(dtype=int), corners: k.array(dtype=int),
              leaves: k.array(dtype=float), leaf: int, place: int, n: int):  # fmt: skip
    """Writes the corners of a leaf's n triangles and gives (lower, upper, normal) of them."""
    words = array(ptr=leaves.ptr + k.uint64(4) * k.uint64(LEAF_WORDS * leaf), shape=LEAF_WORDS, dtype=float)
    lower, upper = k.vec3(k.inf), k.vec3(-k.inf)
    first, sum = k.vec3(), k.vec3()
    for s in range(n):
        a, b, c = corners_of(points, indices, corners, leaves, leaf, place, s)
        put(words, s, a)
        put(words, s + 3 * LEAF, b)
        put(words, s + 6 * LEAF, c)
        lower = lower_of(a, lower_of(b, lower_of(c, lower)))
        upper = upper_of(a, upper_of(b, upper_of(c, upper)))
        normal = k.cross(b - a, c - a)
        if s == 0:
            first = normal
        sum += normal * k.copysign(1.0, k.dot(normal, first))  # turned to the first one's side
    for s in range(n, LEAF):
        for row in range(9):
            words[LEAF * row + s] = words[LEAF * row]
    return lower, upper, rising(sum)


@k.kernel(shape="thread", enable_backward=False)
def fit_leaves(
    points: k.array(dtype=k.vec3),
    indices: k.array(dtype=int),
    corners: k.array(dtype=int),
    nodes: k.array(dtype=float),
    slabs: k.array(dtype=float),
    leaves: k.array(dtype=float),
):
    """The corners in leaves, their boxes and slabs, a thread for each child; and those of places without a child."""
    rows = array(ptr=leaves.ptr, shape=len(leaves) // LEAF, dtype=vec_leaf)
    t = k.tid()
    node, slot = t // WIDTH, t % WIDTH
    at = NODE_WORDS * node + slot
    child = k.bitcast(nodes[at + CHILDREN], k.int32)
    if child < 0:
        lower, upper = k.vec3(k.inf), k.vec3(-k.inf)
        normal = k.vec3(0.0, 0.0, 1.0)
        low, high = float(-WIDEST), float(WIDEST)
        if child != EMPTY:
            leaf = leaf_of(child)
            place = k.bitcast(nodes[at + PLACES], k.int32)
            lower, upper, normal = fill_leaf(points, indices, corners, leaves, leaf, place, leaf_size(child))
            r = LEAF_WORDS // LEAF * leaf
            x, y, z = vec_leaf(normal[0]), vec_leaf(normal[1]), vec_leaf(normal[2])
            a = product(rows[r], rows[r + 1], rows[r + 2], x, y, z)
            b = product(rows[r + 3], rows[r + 4], rows[r + 5], x, y, z)
            c = product(rows[r + 6], rows[r + 7], rows[r + 8], x, y, z)
            low, high = least_of(a, b, c), -least_of(-a, -b, -c)
        write_child(nodes, slabs, node, slot, lower, upper, normal, low, high)


@k.kernel(shape="thread", enable_backward=False)
def fit_nodes(nodes: k.array(dtype=float), slabs: k.array(dtype=float), parents: k.array(dtype=int), start: int):
    """Boxes and slabs of a level of nodes, in their parents, from those of their children."""
    node = start + k.tid()
    lower, upper = node_box(nodes, node)
    normal, low, high = of_node(nodes, slabs, node)
    write_child(nodes, slabs, parents[node] // WIDTH, parents[node] % WIDTH, lower, upper, normal, low, high)


def fit_mesh(tree: Hierarchy, points: Any, indices: Any) -> None:
    """Corners, boxes and slabs of a mesh whose points have moved."""
    inputs = [points, indices, tree.corners, tree.nodes, tree.slabs, tree.leaves]
    launch(fit_leaves, WIDTH * tree.levels_upward()[0][1], inputs=inputs, device=tree.device)
    for first, end in tree.levels_upward()[:-1]:
        inputs = [tree.nodes, tree.slabs, tree.parents, first]
        launch(fit_nodes, end - first, inputs=inputs, device=tree.device)
    tree.fit_bounds()


def list_all_corners(tree: Hierarchy, points: Any, indices: Any) -> None:
    """What later refits read in a row; without it, `fit_mesh` looks for the points of each triangle."""
    tree.corners = empty(3 * (tree.count - tree.skipped), dtype=int, device=tree.device)
    inputs = [points, tree.nodes, tree.leaves, indices, tree.corners]
    launch(list_corners, len(tree.nodes) // WIDTH, inputs=inputs, device=tree.device)
