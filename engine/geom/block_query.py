"""Queries that the threads of a block make together: each step gives every thread one number, as a tile.

    query = tile_bvh_query_aabb(id, lower, upper)
    while tile_query_valid(query):
        index = untile(tile_bvh_query_next(query))
        if index >= 0: …

All threads go the same way through the hierarchy, and of as many results as there are threads each keeps its own.
"""

# mypy: disable-error-code="attr-defined, name-defined"
# (references to structs mean something to the kernel compiler only)

from engine.compiler import lang as k
from engine.geom.box_query import FAR_AWAY, NOTHING, BvhQuery, bvh_query_aabb, bvh_query_next, bvh_query_ray
from engine.geom.mesh_overlap import mesh_query_aabb, mesh_query_next

BvhQueryTiled = MeshQueryAABBTiled = MeshQueryAABB = BvhQuery  # Warp's names for what is one type here


@k.func
def tile_query_valid(query: BvhQuery) -> bool:
    """Whether there may be more results; the last step may find none."""
    return query.kind != NOTHING


@k.func
def tile_bvh_query_aabb(id: k.uint64, low: k.vec3, high: k.vec3, root: int = -1) -> BvhQuery:
    """Boxes that touch the box low … high, for the threads of a block together; all give the same arguments."""
    return bvh_query_aabb(id, low, high, root)


@k.func
def tile_bvh_query_ray(id: k.uint64, start: k.vec3, dir: k.vec3, root: int = -1) -> BvhQuery:
    """Boxes that the ray start + t · dir, t ≥ 0, touches, for the threads of a block together."""
    return bvh_query_ray(id, start, dir, root)


@k.func
def tile_mesh_query_aabb(id: k.uint64, low: k.vec3, high: k.vec3) -> BvhQuery:
    """Triangles whose bounds touch the box low … high, for the threads of a block together."""
    return mesh_query_aabb(id, low, high)


@k.func
def tile_bvh_query_next(query: k.ref[BvhQuery], max_dist: float = FAR_AWAY):
    """A tile with the number of one more box for each thread, −1 where there is none. max_dist: of rays."""
    mine = k.int32(-1)
    for taker in range(k.block_dim()):
        index = k.int32(-1)
        bvh_query_next(query, index, max_dist)
        if taker == k.thread_id():
            mine = index
    return k.tile(mine)


@k.func
def tile_mesh_query_aabb_next(query: k.ref[BvhQuery]):
    """A tile with the number of one more triangle for each thread, −1 where there is none."""
    mine = k.int32(-1)
    for taker in range(k.block_dim()):
        index = k.int32(-1)
        mesh_query_next(query, index)
        if taker == k.thread_id():
            mine = index
    return k.tile(mine)


# Warp's older names
bvh_query_aabb_tiled, bvh_query_ray_tiled, bvh_query_next_tiled = (
    tile_bvh_query_aabb, tile_bvh_query_ray, tile_bvh_query_next,
)  # fmt: skip
mesh_query_aabb_tiled, mesh_query_aabb_next_tiled = tile_mesh_query_aabb, tile_mesh_query_aabb_next
