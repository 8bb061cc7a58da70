"""What closest-point queries know of a node's children besides boxes: two parallel planes with all corners between.

    slabs   32 words for each node: normal x[8] y[8], least n · x [8], most n · x [8]     (n: a unit vector, z ≥ 0)

A box around a tilted piece of a smooth surface is as thick as the piece is wide, a slab as thick as the piece is bent:
from afar, boxes leave hundreds of pieces that might be nearest, slabs a few. A node's slab is found from the slabs and
boxes of its children, so that a refit goes through the triangles once.
"""


from engine.compiler import lang as k
from engine.context import array
from engine.geom.bvh import least, node_box, write_box
from engine.geom.bvh_build import EMPTY, LEAF, LEAF_WORDS, NODE_ROWS, NODE_WORDS, WIDTH, leaf_of, vec8, vec_leaf
from engine.geom.point_query import across, product

SLAB_WORDS = 4 * WIDTH
ROUNDING = 2.0**-20  # of the largest coordinate
WIDEST = 3.0e38


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
def of_leaf(ax, ay, az, bx, by, bz, cx, cy, cz):
    """(normal, least, most) of a leaf's triangles."""
    nx, ny, nz = across(bx - ax, by - ay, bz - az, cx - ax, cy - ay, cz - az)
    zero = vec_leaf(0.0)
    area2 = product(nx, ny, nz, nx, ny, nz)
    some = k.less(zero, area2 - area2 + area2)  # which have an area, and it is finite
    nx, ny, nz = k.where(some, nx, zero), k.where(some, ny, zero), k.where(some, nz, zero)
    side = product(nx, ny, nz, vec_leaf(nx[0]), vec_leaf(ny[0]), vec_leaf(nz[0]))  # they are turned to the first one's
    weight = k.where(k.less_equal(zero, side), vec_leaf(1.0), vec_leaf(-1.0))
    normal = rising(k.vec3(k.dot(nx, weight), k.dot(ny, weight), k.dot(nz, weight)))
    x, y, z = vec_leaf(normal[0]), vec_leaf(normal[1]), vec_leaf(normal[2])
    a, b, c = product(ax, ay, az, x, y, z), product(bx, by, bz, x, y, z), product(cx, cy, cz, x, y, z)
    return normal, least_of(a, b, c, WIDEST), -least_of(-a, -b, -c, WIDEST)


@k.func
def least_of(a, b, c, most: float) -> float:
    """The least of all components that are numbers, at most `most`."""
    return least(k.select_min(c, k.select_min(b, k.select_min(a, vec_leaf(most)))))


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


@k.kernel(shape="thread", enable_backward=False)
def list_corners(leaves: k.array(dtype=float), indices: k.array(dtype=int), corners: k.array(dtype=int)):
    """The points of each leaf's triangles, first corners first; places without a triangle repeat the first one."""
    leaf = k.tid()
    at = LEAF_WORDS * leaf + 9 * LEAF
    for s in range(LEAF):
        triangle = k.bitcast(leaves[at + s], k.int32)
        if triangle < 0:
            triangle = k.bitcast(leaves[at], k.int32)
        for which in range(3):
            corners[3 * LEAF * leaf + LEAF * which + s] = indices[3 * triangle + which] if triangle >= 0 else 0


@k.func
def gather(points: k.array(dtype=k.vec3), corners: k.array(dtype=int), at: int):
    """x, y and z of the points whose numbers begin at `at`."""
    x, y, z = vec_leaf(), vec_leaf(), vec_leaf()
    for s in range(LEAF):
        p = points[corners[at + s]]
        x[s], y[s], z[s] = p[0], p[1], p[2]
    return x, y, z


@k.kernel(shape="thread", enable_backward=False)
def fit_triangles(
    points: k.array(dtype=k.vec3),
    corners: k.array(dtype=int),
    slabs: k.array(dtype=float),
    nodes: k.array(dtype=float),
    leaves: k.array(dtype=float),
    start: int,
):
    """Boxes and slabs of a level of nodes, a thread for each child, from the level below; and the corners in leaves."""
    t = k.tid()
    i, slot = start + t // WIDTH, t % WIDTH
    at = NODE_WORDS * i + slot
    child = k.bitcast(nodes[at + 6 * WIDTH], k.int32)
    lower, upper = k.vec3(k.inf), k.vec3(-k.inf)
    normal = k.vec3(0.0, 0.0, 1.0)
    low, high = float(-WIDEST), float(WIDEST)
    if child >= 0:
        lower, upper = node_box(nodes, child)
        normal, low, high = of_node(nodes, slabs, child)
    elif child != EMPTY:
        rows = array(ptr=leaves.ptr, shape=len(leaves) // LEAF, dtype=vec_leaf)
        leaf = leaf_of(child)
        r = LEAF_WORDS // LEAF * leaf
        ax, ay, az = gather(points, corners, 3 * LEAF * leaf)
        bx, by, bz = gather(points, corners, 3 * LEAF * leaf + LEAF)
        cx, cy, cz = gather(points, corners, 3 * LEAF * leaf + 2 * LEAF)
        rows[r], rows[r + 1], rows[r + 2] = ax, ay, az
        rows[r + 3], rows[r + 4], rows[r + 5] = bx, by, bz
        rows[r + 6], rows[r + 7], rows[r + 8] = cx, cy, cz
        lower = k.vec3(least_of(ax, bx, cx, k.inf), least_of(ay, by, cy, k.inf), least_of(az, bz, cz, k.inf))
        upper = -k.vec3(least_of(-ax, -bx, -cx, k.inf), least_of(-ay, -by, -cy, k.inf), least_of(-az, -bz, -cz, k.inf))
        normal, low, high = of_leaf(ax, ay, az, bx, by, bz, cx, cy, cz)
    write_box(nodes, at, lower, upper)
    largest = 0.0
    for axis in range(3):
        largest = k.select_max(k.select_max(k.abs(lower[axis]), k.abs(upper[axis])), largest)
    slabs[SLAB_WORDS * i + slot] = normal[0]
    slabs[SLAB_WORDS * i + 8 + slot] = normal[1]
    slabs[SLAB_WORDS * i + 16 + slot] = low - largest * ROUNDING
    slabs[SLAB_WORDS * i + 24 + slot] = high + largest * ROUNDING
