"""What closest-point queries know of a node's children besides boxes: two parallel planes with all corners between.

    slabs   32 words for each node: normal x[8] y[8], least n · x [8], most n · x [8]     (n: a unit vector, z ≥ 0)

A box around a tilted piece of a smooth surface is as thick as the piece is wide, a slab as thick as the piece is bent:
from afar, boxes leave hundreds of pieces that might be nearest, slabs a few. A node's slab is found from the slabs and
boxes of its children, so that a refit goes through the triangles once.
"""

from typing import Any

from engine.compiler import lang as k
from engine.compiler.values import vector
from engine.context import array, launch
from engine.geom.bvh import LEAF_WORDS, NODE_WORDS, Hierarchy
from engine.geom.bvh_build import EMPTY, LEAF, WIDTH
from engine.geom.point_query import across, product

vec8: Any = vector(length=8, dtype=k.float32)
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
def of_leaf(leaves: k.array(dtype=float), leaf: int, count: int):
    """(normal, least, most) of a leaf's triangles."""
    rows = array(ptr=leaves.ptr, shape=len(leaves) // LEAF, dtype=k.vec4)
    r = LEAF_WORDS // LEAF * leaf
    ax, ay, az = rows[r], rows[r + 1], rows[r + 2]
    bx, by, bz = rows[r + 3], rows[r + 4], rows[r + 5]
    cx, cy, cz = rows[r + 6], rows[r + 7], rows[r + 8]
    nx, ny, nz = across(bx - ax, by - ay, bz - az, cx - ax, cy - ay, cz - az)
    sum = k.vec3()
    for s in range(LEAF):
        n = k.vec3(nx[s], ny[s], nz[s])
        if s < count and k.isfinite(n[0] + n[1] + n[2]):
            sum += n if k.dot(n, sum) >= 0.0 else -n
    normal = rising(sum)
    x, y, z = k.vec4(normal[0]), k.vec4(normal[1]), k.vec4(normal[2])
    a, b, c = product(ax, ay, az, x, y, z), product(bx, by, bz, x, y, z), product(cx, cy, cz, x, y, z)
    low = k.select_min(c, k.select_min(b, k.select_min(a, k.vec4(WIDEST))))  # what is no number does not count
    high = k.select_max(c, k.select_max(b, k.select_max(a, k.vec4(-WIDEST))))
    return normal, k.min(low), k.max(high)


@k.func
def of_node(nodes: k.array(dtype=float), slabs: k.array(dtype=float), node: int):
    """(normal, least, most) of all that a node holds: a child is a disc of its slab's thickness, as wide as its box."""
    boxes = array(ptr=nodes.ptr, shape=len(nodes) // WIDTH, dtype=vec8)
    planes = array(ptr=slabs.ptr, shape=len(slabs) // WIDTH, dtype=vec8)
    r, q = NODE_WORDS // WIDTH * node, SLAB_WORDS // WIDTH * node
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
    least = k.where(held, k.select_max(center - reach, along - box), vec8(WIDEST))
    most = k.where(held, k.select_min(center + reach, along + box), vec8(-WIDEST))
    return normal, k.min(least), k.max(most)


@k.kernel(shape="thread")
def fit_slabs(nodes: k.array(dtype=float), leaves: k.array(dtype=float), slabs: k.array(dtype=float), start: int):
    """One level of nodes, a thread for each child, from the level below."""
    n = k.tid()
    i, c = start + n // WIDTH, n % WIDTH
    at = NODE_WORDS * i + c
    child = k.bitcast(nodes[at + 48], k.int32)
    normal = k.vec3(0.0, 0.0, 1.0)
    least, most = float(-WIDEST), float(WIDEST)
    if child >= 0:
        normal, least, most = of_node(nodes, slabs, child)
    elif child != EMPTY:
        normal, least, most = of_leaf(leaves, ~child >> 2, (~child & 3) + 1)
    largest = 0.0
    for axis in range(3):
        largest = k.max(largest, k.max(k.abs(nodes[at + 8 * axis]), k.abs(nodes[at + 8 * axis + 24])))
    slabs[SLAB_WORDS * i + c] = normal[0]
    slabs[SLAB_WORDS * i + 8 + c] = normal[1]
    slabs[SLAB_WORDS * i + 16 + c] = least - largest * ROUNDING
    slabs[SLAB_WORDS * i + 24 + c] = most + largest * ROUNDING


def fit(tree: Hierarchy, slabs) -> None:
    """The slabs of all nodes, for the present corners."""
    for first, end in tree.levels_upward():
        launch(fit_slabs, WIDTH * (end - first), inputs=[tree.nodes, tree.leaves, slabs, first], device=tree.device)
