"""What winding numbers need of each node's children: centre, area vector and radius of their triangles.

    moments   56 words for each node: centre x[8] y[8] z[8], area vector x[8] y[8] z[8], radius[8]
"""

from engine.compiler import lang as k
from engine.context import launch
from engine.geom.bvh import Hierarchy
from engine.geom.bvh_build import EMPTY, LEAF, LEAF_WORDS, NODE_WORDS, WIDTH, leaf_of, leaf_size
from engine.geom.ray_query import leaf_corner


@k.kernel(shape="thread", enable_backward=False)
def fit_moments(
    nodes: k.array(dtype=float),
    leaves: k.array(dtype=float),
    moments: k.array(dtype=float),
    areas: k.array(dtype=float),
    start: int,
):
    """One level of nodes, from the level below. areas (nodes · 8,): area of each child, the weight of its centre."""
    i = start + k.tid()
    for c in range(WIDTH):
        child = k.bitcast(nodes[NODE_WORDS * i + 48 + c], k.int32)
        center = k.vec3()
        normal = k.vec3()
        area = 0.0
        if child >= 0:
            for s in range(WIDTH):
                at = NODE_WORDS * child + s
                part = areas[WIDTH * child + s]
                area += part
                center += k.vec3(moments[at], moments[at + 8], moments[at + 16]) * part
                normal += k.vec3(moments[at + 24], moments[at + 32], moments[at + 40])
        elif child != EMPTY:
            for s in range(leaf_size(child)):
                at = LEAF_WORDS * leaf_of(child) + s
                x, y = leaf_corner(leaves, at), leaf_corner(leaves, at + 3 * LEAF)
                z = leaf_corner(leaves, at + 6 * LEAF)
                doubled = k.cross(y - x, z - x)
                part = k.length(doubled) * 0.5
                if k.isfinite(part):  # corners that are not finite since the last refit do not count
                    area += part
                    center += (x + y + z) * (part / 3.0)
                    normal += doubled * 0.5
        at = NODE_WORDS * i + c
        lower = k.vec3(nodes[at], nodes[at + 8], nodes[at + 16])
        upper = k.vec3(nodes[at + 24], nodes[at + 32], nodes[at + 40])
        middle = (lower + upper) * 0.5
        if area > 0.0:
            middle = center / area
        reach = k.max(middle - lower, upper - middle)  # to the furthest corner of the box
        for axis in range(3):
            moments[at + 8 * axis] = middle[axis]
            moments[at + 24 + 8 * axis] = normal[axis]
        moments[at + 48] = k.length(reach) if child != EMPTY else 0.0
        areas[WIDTH * i + c] = area


def fit(tree: Hierarchy, moments, areas) -> None:
    """The moments of all nodes, for the present corners."""
    for first, end in tree.levels_upward():
        arguments = [tree.nodes, tree.leaves, moments, areas, first]
        launch(fit_moments, end - first, inputs=arguments, device=tree.device)
