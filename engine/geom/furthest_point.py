"""The point of a triangle mesh that is furthest from a given one: always a corner."""

# mypy: disable-error-code="attr-defined"
# (references mean something to the kernel compiler only)

from engine.compiler import lang as k
from engine.geom.box_query import BEYOND, begin_query, bvh_query_next
from engine.geom.bvh import tree_of
from engine.geom.point_query import MeshQueryPoint
from engine.geom.ray_query import corner


@k.func
def mesh_query_furthest_point_no_sign(id: k.uint64, point: k.vec3, min_dist: float) -> MeshQueryPoint:
    """The point of the mesh that is furthest from `point`, and more than min_dist away from it; `sign` is 0.

    Of corners that are equally far, the first of the triangle with the lowest number is taken. Triangles without area
    count, those with a corner that is not finite do not.
    """
    q = MeshQueryPoint()
    p = k.vec3d(point)
    far = k.float64(min_dist) * k.float64(k.abs(min_dist))  # squared; what is no number is never exceeded
    query = begin_query(id, BEYOND, point, k.vec3(), k.max(min_dist, 0.0), -1)
    face = k.int32(0)
    while bvh_query_next(query, face):
        tree = tree_of(id)
        for c in range(3):
            squared = k.length_sq(k.vec3d(corner(tree, face, c)) - p)
            if squared > far or (squared == far and q.result and face < q.face):
                far = squared
                q.result = True
                q.face = face
                q.u = 1.0 if c == 0 else 0.0
                q.v = 1.0 if c == 1 else 0.0
                query.radius = float(k.sqrt(squared)) * (1.0 - 2.0**-22)  # boxes that reach less far are left out
    return q


@k.func  # type: ignore[no-redef]
def mesh_query_furthest_point_no_sign(  # noqa: F811
    id: k.uint64, point: k.vec3, min_dist: float, face: k.ref[int], bary_u: k.ref[float], bary_v: k.ref[float]
) -> bool:
    q = mesh_query_furthest_point_no_sign(id, point, min_dist)
    if q.result:
        face = q.face  # noqa: F841
        bary_u = q.u  # noqa: F841
        bary_v = q.v  # noqa: F841
    return q.result
