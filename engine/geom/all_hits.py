"""Every triangle that a ray goes through, nearest first: counted, then listed and put in order, each ray by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compiler import lang as k
from engine.context import empty, launch
from engine.geom.box_query import bvh_query_next, bvh_query_ray
from engine.geom.bvh import LEAF_WORDS, tree_of
from engine.geom.bvh_build import LEAF
from engine.geom.ray_query import hit_triangle, make_ray
from engine.kernels.scan import scan


@dataclass(frozen=True)
class AllIntersections:
    """What rays went through: m hits, ray by ray, in the order of t."""

    ray: NDArray[np.int32]  # (m,)
    t: NDArray[np.float32]  # (m,) in lengths of the direction
    face: NDArray[np.int32]  # (m,)
    weights: NDArray[np.float32]  # (m, 2) of the triangle's first two corners


@k.func
def hit_of(mesh: k.uint64, origin: k.vec3, direction: k.vec3, leaf: int, face: int):
    """(hit, t, u, v) of a triangle of a leaf; at edges and corners, only of those triangles that count there."""
    tree = tree_of(mesh)
    ray = make_ray(tree, origin, direction)
    found, t_found, u_found, v_found = False, 0.0, 0.0, 0.0
    for lane in range(LEAF):
        at = LEAF_WORDS * leaf + lane
        if k.bitcast(tree.leaves[at + 9 * LEAF], k.int32) == face:
            hit, t, u, v, _side = hit_triangle(tree.leaves, at, ray, True)
            found, t_found, u_found, v_found = hit and ray.usable, t, u, v
    return found, t_found, u_found, v_found


@k.kernel(shape="thread")
def count_hits(
    mesh: k.uint64,
    origins: k.array(dtype=k.vec3),
    directions: k.array(dtype=k.vec3),
    max_t: float,
    count: k.array(dtype=int),
):
    i = k.tid()
    n = 0
    query = bvh_query_ray(mesh, origins[i], directions[i])
    face = k.int32(0)
    while bvh_query_next(query, face):
        hit, t, _u, _v = hit_of(mesh, origins[i], directions[i], query.leaf, face)
        if hit and t >= 0.0 and t <= max_t:
            n += 1
    count[i] = n


@k.kernel(shape="thread")
def list_hits(
    mesh: k.uint64,
    origins: k.array(dtype=k.vec3),
    directions: k.array(dtype=k.vec3),
    max_t: float,
    first: k.array(dtype=int),
    rays: k.array(dtype=int),
    ts: k.array(dtype=float),
    faces: k.array(dtype=int),
    weights: k.array(dtype=k.vec2),
):
    """Each new hit is moved down to its place; of hits at the same t the lower face comes first."""
    i = k.tid()
    end = first[i]
    query = bvh_query_ray(mesh, origins[i], directions[i])
    face = k.int32(0)
    while bvh_query_next(query, face):
        hit, t, u, v = hit_of(mesh, origins[i], directions[i], query.leaf, face)
        if hit and t >= 0.0 and t <= max_t:
            at = end
            while at > first[i] and (ts[at - 1] > t or (ts[at - 1] == t and faces[at - 1] > face)):
                ts[at], faces[at], weights[at] = ts[at - 1], faces[at - 1], weights[at - 1]
                at -= 1
            ts[at], faces[at], weights[at] = t, face, k.vec2(u, v)
            rays[end] = i
            end += 1


def all_hits(mesh: int, origins: Any, directions: Any, max_t: float, device: Any) -> AllIntersections:
    """Every hit of the rays with 0 ≤ t ≤ max_t. origins, directions: arrays of vec3 on `device`, equally long."""
    n = len(origins)
    count, first = empty(n, dtype=int, device=device), empty(n + 1, dtype=int, device=device)
    if n:
        launch(count_hits, n, inputs=[mesh, origins, directions, max_t, count], device=device)
    scan(count, first)
    m = int(first.numpy()[n])
    rays, faces = empty(m, dtype=int, device=device), empty(m, dtype=int, device=device)
    t, weights = empty(m, dtype=float, device=device), empty(m, dtype=k.vec2, device=device)
    if m:
        inputs = [mesh, origins, directions, max_t, first, rays, t, faces, weights]
        launch(list_hits, n, inputs=inputs, device=device)
    return AllIntersections(rays.numpy(), t.numpy(), faces.numpy(), weights.numpy())
