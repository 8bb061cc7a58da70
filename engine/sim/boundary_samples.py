"""Points on the surfaces of solids that keep fluids out (host side): where they lie and which volume each stands for.

Akinci et al. 2012, "Versatile rigid-fluid coupling": one layer of points at the fluid's spacing, of volume γ / Σ W
over the points of the same body. It pushes with the pressure of the particle alone, so γ is above 1, where it holds
back what the fluid's own pressure drives on, and the layer lies so deep that a lattice on the surface has its density
at rest.
"""

from __future__ import annotations

import numpy as np

from engine.compiler import lang as k
from engine.context import array, launch, zeros
from engine.geom.pose import Floats, quat_to_matrix
from engine.kernels.hash_grid import HashGrid, hash_grid_query, hash_grid_query_next
from engine.sim.cubic_spline import weight

GAMMA = 1.4
DEPTH = 1.36  # radii


def box_layer(lower: Floats, upper: Floats, spacing: float) -> Floats:
    """(n, 3) points on the six faces of a box, at most `spacing` apart, edges and corners once."""
    cells = np.maximum(1, np.ceil((upper - lower) / spacing - 1e-4)).astype(int)
    axes = [np.linspace(lower[a], upper[a], cells[a] + 1) for a in range(3)]
    index = np.stack(np.meshgrid(*(np.arange(c + 1) for c in cells), indexing="ij"), axis=-1).reshape(-1, 3)
    surface = ((index == 0) | (index == cells)).any(axis=1)
    return np.stack([axes[a][index[surface, a]] for a in range(3)], axis=1)


def solid_box_layer(half: Floats, radius: float) -> Floats:
    """Points of a solid box about its centre; a side thinner than a particle has its points in the middle."""
    inner = np.maximum(half - DEPTH * radius, 0.0)
    return np.unique(box_layer(-inner, inner, 2.0 * radius).round(9), axis=0)


def sphere_layer(size: float, radius: float) -> Floats:
    """Points of a solid ball on a Fibonacci spiral, as many as its surface has places."""
    inner = max(size - DEPTH * radius, 0.0)
    n = max(1, round(4.0 * np.pi * inner**2 / (2.0 * radius) ** 2))
    place = np.arange(n) + 0.5
    z, turn = 1.0 - 2.0 * place / n, np.pi * (1.0 + 5.0**0.5) * place
    ring = np.sqrt(1.0 - z * z)
    return inner * np.stack([ring * np.cos(turn), ring * np.sin(turn), z], axis=1)


def plane_layer(pose: Floats, lower: Floats, upper: Floats, radius: float) -> Floats:
    """Points of a half space below the plane of `pose` (z up), where it passes through a box (world)."""
    turn = quat_to_matrix(pose[3:])
    centre = (lower + upper) / 2.0
    away = turn.T @ (centre - pose[:3])
    reach = np.linalg.norm(upper - lower) / 2.0
    n = int(np.ceil(reach / (2.0 * radius)))
    steps = 2.0 * radius * np.arange(-n, n + 1)
    x, y = np.meshgrid(away[0] + steps, away[1] + steps, indexing="ij")
    local = np.stack([x.ravel(), y.ravel(), np.full(x.size, -DEPTH * radius)], axis=1)
    points = local @ turn.T + pose[:3]
    margin = 4.0 * radius
    return points[((points >= lower - margin) & (points <= upper + margin)).all(axis=1)]


@k.kernel
def weigh_points(grid: k.uint64, points: k.array(dtype=k.vec3), support: float, total: k.array(dtype=float)):
    i = k.tid()
    query = hash_grid_query(grid, points[i], support)
    j = 0
    sum = 0.0
    while hash_grid_query_next(query, j):
        gap = points[j] - points[i]
        gap_sq = k.dot(gap, gap)
        if gap_sq < support * support:
            sum += weight(gap_sq, support)
    total[i] = sum


def volumes(points: Floats, radius: float) -> Floats:
    """(n,) m³ that the points of one body stand for."""
    support = 4.0 * radius
    placed = array(points, dtype=k.vec3, device="cpu")
    total = zeros(len(points), dtype=float, device="cpu")
    grid = HashGrid(64, 64, 64, device="cpu")
    grid.build(placed, support)
    launch(weigh_points, len(points), inputs=[grid.id, placed, support, total], device="cpu")
    return GAMMA / total.numpy().astype(float)
