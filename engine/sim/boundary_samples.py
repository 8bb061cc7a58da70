"""Points on the surfaces of solids that keep fluids out (host side): where they lie and which volume each stands for.

Akinci et al. 2012, "Versatile rigid-fluid coupling": one layer of points at the fluid's spacing, of volume γ / Σ W
over the points of the same body. A particle on the surface must find two things there: the weight of the half space of
fluid that the layer stands for, and twice its slope, as points push with the particle's own pressure alone. One kernel
gives both only at the edge of the support. The nearer to it, the better: 1.8 radii deep the slope is 0.87 of what it
should be, and the pressure of the layer beside a wall 1.16 times too large (1.36 radii: 0.64 and 1.56 times). Points
that push twice as hard as they weigh (Band et al. 2018) give the right pressure, but do work: a tank at rest sloshes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.compiler import lang as k
from engine.context import array, launch, zeros
from engine.geom.pose import Floats, quat_to_matrix
from engine.kernels.hash_grid import HashGrid, hash_grid_query, hash_grid_query_next
from engine.sim.cubic_spline import weight

GAMMA = 4.15
DEPTH = 1.8  # radii
MOST_CANDIDATES = 5e7


def box_layer(lower: Floats, upper: Floats, spacing: float, open_axes: Sequence[int] = ()) -> Floats:
    """(n, 3) points on the six faces of a box, at most `spacing` apart, edges and corners once.

    open_axes: those that repeat themselves; they have no faces, and nothing on the upper end.
    """
    cells = np.maximum(1, np.ceil((upper - lower) / spacing - 1e-4)).astype(int)
    axes = [np.linspace(lower[a], upper[a], cells[a] + 1) for a in range(3)]
    counts = [cells[a] + (a not in open_axes) for a in range(3)]
    index = np.stack(np.meshgrid(*(np.arange(c) for c in counts), indexing="ij"), axis=-1).reshape(-1, 3)
    faced = [a for a in range(3) if a not in open_axes]
    surface = ((index == 0) | (index == cells))[:, faced].any(axis=1)
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


def cylinder_layer(size: float, half: float, radius: float) -> Floats:
    """Points of a solid cylinder about z: rings on its mantle and, concentric, on its ends."""
    ring, top = max(size - DEPTH * radius, 0.0), max(half - DEPTH * radius, 0.0)
    floors = np.linspace(-top, top, _steps(2.0 * top, radius) + 1) if top > 0.0 else np.zeros(1)
    discs = list(np.linspace(0.0, ring, _steps(ring, radius) + 1)[:-1]) if ring > 0.0 else []
    ends = [-top, top] if top > 0.0 else [0.0]
    rings = [(ring, z) for z in floors] + [(r, z) for z in ends for r in discs]
    return np.vstack([_ring(r, z, radius) for r, z in rings])


def capsule_layer(size: float, half: float, radius: float) -> Floats:
    """Points of a solid capsule about z: rings along its outline."""
    ring = max(size - DEPTH * radius, 0.0)
    arc = np.pi / 2.0 * np.linspace(0.0, 1.0, _steps(np.pi / 2.0 * ring, radius) + 1)
    straight = np.linspace(-half, half, _steps(2.0 * half, radius) + 1)[1:-1]
    cap = [(ring * np.cos(t), half + ring * np.sin(t)) for t in arc]
    rings = [(r, z) for r, z in cap] + [(ring, z) for z in straight] + [(r, -z) for r, z in cap]
    return np.unique(np.vstack([_ring(r, z, radius) for r, z in rings]).round(9), axis=0)


def _steps(length: float, radius: float) -> int:
    return max(1, int(np.ceil(length / (2.0 * radius) - 1e-4)))


def _ring(size: float, z: float, radius: float) -> Floats:
    """Points around z, as many as there is room for."""
    n = max(1, round(2.0 * np.pi * size / (2.0 * radius)))
    turn = 2.0 * np.pi * np.arange(n) / n
    return np.stack([size * np.cos(turn), size * np.sin(turn), np.full(n, z)], axis=1)


def level_layer(distance: Callable[[Floats], Floats], half: Floats, radius: float) -> Floats:
    """Points of any solid within ±half of its frame's origin, by its signed distance.

    Places of a fine lattice slide onto the surface DEPTH below, or as deep as the solid allows, and are then thinned
    out to the fluid's spacing. Raises ValueError where the lattice would be too large.
    """
    fine = 0.5 * radius
    count = np.ceil(half / fine).astype(int)
    if np.prod(2.0 * count + 1.0) > MOST_CANDIDATES:
        raise ValueError(f"is too large for points {2.0 * radius:g} m apart")
    axes = [fine * np.arange(-c, c + 1) for c in count]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    inside = distance(x)
    level = max(-DEPTH * radius, 0.95 * float(inside.min(initial=0.0)))
    x = x[np.abs(inside - level) <= fine]
    for _ in range(4):  # Newton's method along the gradient
        away = distance(x) - level
        slope_ = np.stack([distance(x + step) - distance(x - step) for step in 1e-4 * radius * np.eye(3)], axis=1)
        slope_ /= 2e-4 * radius
        x = x - slope_ * (away / np.maximum((slope_**2).sum(axis=1), 0.25))[:, None]
    x = x[np.abs(distance(x) - level) < 0.05 * radius]
    return x[_thinned(x, 1.7 * radius)]


def _thinned(x: Floats, gap: float) -> list[int]:
    """Indices of points at least `gap` apart: from one end to the other, each that is far enough from those before."""
    kept: dict[tuple[int, int, int], list[int]] = {}  # by cell
    cells = np.floor(x / gap).astype(int).tolist()
    reach = [(i, j, m) for i in (-1, 0, 1) for j in (-1, 0, 1) for m in (-1, 0, 1)]
    for n in np.lexsort(np.round(x / (0.25 * gap)).T).tolist():
        a, b, c = cells[n]
        near = [other for i, j, m in reach for other in kept.get((a + i, b + j, c + m), ())]
        if not near or ((x[near] - x[n]) ** 2).sum(axis=1).min() >= gap * gap:
            kept.setdefault((a, b, c), []).append(n)
    return [n for cell in kept.values() for n in cell]


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


@k.requires(lambda tid, points, total: tid < points.shape[0] and tid < total.shape[0])
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


def volumes(points: Floats, radius: float, lower: Floats | None = None, period: Floats | None = None) -> Floats:
    """(n,) m³ that the points of one body stand for; period: (3,) m after which each axis repeats itself from `lower`
    on, 0 for never."""
    n = len(points)
    if not n:
        return np.zeros(0)
    support = 4.0 * radius
    for a in range(3):
        if lower is not None and period is not None and period[a] > 0.0:
            step = np.eye(3)[a] * period[a]
            low, high = points[:, a] < lower[a] + support, points[:, a] > lower[a] + period[a] - support
            points = np.vstack([points, points[low] + step, points[high] - step])
    placed = array(points, dtype=k.vec3, device="cpu")
    total = zeros(n, dtype=float, device="cpu")
    grid = HashGrid(64, 64, 64, device="cpu")
    grid.build(placed, support)
    launch(weigh_points, n, inputs=[grid.id, placed, support, total], device="cpu")
    return GAMMA / total.numpy().astype(float)
