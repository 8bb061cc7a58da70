"""The surface of a fluid as a mesh: marching cubes of its smoothed relative density.

Nodes of a grid half a particle's diameter apart sum the kernels of the particles near them, and the surface is where
they find half of the density at rest; a particle without neighbours has none.
"""

from __future__ import annotations

import math

import numpy as np

from engine.compiler import lang as k
from engine.context import array, launch, zeros
from engine.errors import SimulationError
from engine.geom.marching_cubes import MarchingCubes
from engine.geom.pose import Floats
from engine.kernels.hash_grid import HashGrid, hash_grid_query, hash_grid_query_next
from engine.sim.cubic_spline import weight

LEVEL = 0.5  # of the density at rest
MOST_NODES = 1 << 27


@k.kernel
def sum_weights(
    grid: k.uint64,
    points: k.array(dtype=k.vec3),
    lower: k.vec3,
    step: float,
    support: float,
    volume: float,
    field: k.array(dtype=float, ndim=3),
):
    """Level less the relative density at each node: negative inside."""
    a, b, c = k.tid()
    x = lower + step * k.vec3(float(a), float(b), float(c))
    query = hash_grid_query(grid, x, support)
    j = 0
    sum = 0.0
    while hash_grid_query_next(query, j):
        gap = points[j] - x
        gap_sq = k.dot(gap, gap)
        if gap_sq < support * support:
            sum += weight(gap_sq, support)
    field[a, b, c] = LEVEL - volume * sum


def fluid_surface(places: Floats, radius: float, spacing: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(vertices (n, 3) m, triangles (m, 3)) around particles at `places` (n, 3), outward counter-clockwise.

    spacing: of the grid, m; None: the radius. Both are empty where there is no particle, or none has a neighbour.
    Raises SimulationError if the particles are so far apart that the grid would have more than 2²⁷ nodes.
    """
    empty = np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32)
    if not len(places):
        return empty
    support, step = 4.0 * radius, radius if spacing is None else spacing
    low = places.min(axis=0).astype(float) - support
    count = np.ceil((places.max(axis=0) + support - low) / step).astype(int) + 1
    if math.prod(int(c) for c in count) > MOST_NODES:
        raise SimulationError("the fluid", f"particle_q spread over {count.tolist()} nodes of a surface's grid", 0)
    points = array(np.ascontiguousarray(places, np.float32), dtype=k.vec3, device="cpu")
    grid = HashGrid(64, 64, 64, device="cpu")
    grid.build(points, support)
    field = zeros(tuple(int(c) for c in count), dtype=float, device="cpu")
    launch(
        sum_weights, field.shape, inputs=[grid.id, points, k.vec3(*low), step, support, (2.0 * radius) ** 3, field],
        device="cpu",
    )  # fmt: skip
    vertices, indices = MarchingCubes.extract(field, 0.0, lower=low, upper=low + step * (count - 1))
    if not len(indices):
        return empty
    return vertices.numpy().copy(), indices.numpy().reshape(-1, 3).copy()
