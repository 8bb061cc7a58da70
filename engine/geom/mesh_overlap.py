"""Triangles of a mesh that a box or a sphere touches, one after the other."""

# mypy: disable-error-code="attr-defined"
# (references to structs mean something to the kernel compiler only)

from engine.compiler import lang as k
from engine.geom.box_query import AABB, FAR_AWAY, TRIANGLES_IN_SPHERE, BvhQuery, begin_query, bvh_query_next
from engine.geom.bvh import Tree, tree_of
from engine.geom.point_query import closest_weights
from engine.geom.ray_query import corner


@k.func
def within(tree: Tree, face: int, center: k.vec3, radius: float) -> bool:
    """Whether a triangle comes as near to a point as this."""
    p = k.vec3d(center)
    a, b, c = k.vec3d(corner(tree, face, 0)), k.vec3d(corner(tree, face, 1)), k.vec3d(corner(tree, face, 2))
    w = closest_weights(p, a, b, c)
    return k.length_sq(a * w[0] + b * w[1] + c * w[2] - p) <= k.float64(radius) * k.float64(radius)


@k.func
def mesh_query_aabb(id: k.uint64, low: k.vec3, high: k.vec3) -> BvhQuery:
    """Triangles whose bounds touch the box low … high."""
    return begin_query(id, AABB, low, high, 0.0, -1)


@k.func
def mesh_query_sphere(id: k.uint64, center: k.vec3, radius: float) -> BvhQuery:
    """Triangles that are at most `radius` away from `center`: exactly, not by their bounds."""
    return begin_query(id, TRIANGLES_IN_SPHERE, center, k.vec3(), radius, -1)


@k.func
def mesh_query_next(query: k.ref[BvhQuery], index: k.ref[int]) -> bool:
    """Puts the number of the next triangle into `index`; false where there is none left."""
    candidate = k.int32(0)
    found = bvh_query_next(query, candidate, FAR_AWAY)
    if query.kind == TRIANGLES_IN_SPHERE:
        tree = tree_of(query.id)
        while found and not within(tree, candidate, query.a, query.radius):
            found = bvh_query_next(query, candidate, FAR_AWAY)
    if found:
        index = candidate  # noqa: F841
    return found


@k.func
def mesh_query_aabb_next(query: k.ref[BvhQuery], index: k.ref[int]) -> bool:
    """The same, under the name that it has for boxes."""
    return mesh_query_next(query, index)


@k.func
def mesh_get_bvh(id: k.uint64) -> k.uint64:
    """The hierarchy of a mesh for the `bvh_query_*` functions, whose results are triangles by their bounds."""
    return id


BvhQuery.advance = mesh_query_next  # for `for i in query`
