"""Cells of a grid for the search of neighbours: the cell of a place, and what lies in the 27 cells around one."""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

from engine.compiler import lang as k

GROUP = 16  # particles whose neighbours lie interleaved


@k.struct
class Place:  # 16 bytes
    x: k.vec3  # m
    volume: float  # of the particle at rest, or that a point of a solid stands for, m³


@k.func
def cell_of(x: k.vec3, lower: k.vec3, per_metre: float, dims: k.vec3i) -> int:
    """The cell of a place, clamped to the grid."""
    r = (x - lower) * per_metre
    cx = k.clamp(int(r.x), 0, dims[0] - 1)
    cy = k.clamp(int(r.y), 0, dims[1] - 1)
    cz = k.clamp(int(r.z), 0, dims[2] - 1)
    return cx + dims[0] * (cy + dims[1] * cz)


@k.func
def cell_or_none(x: k.vec3, lower: k.vec3, per_metre: float, dims: k.vec3i) -> int:
    """The cell of a place; of one outside the grid, which no particle can reach, the number of cells."""
    r = (x - lower) * per_metre
    near = r.x >= 0.0 and r.y >= 0.0 and r.z >= 0.0
    near = near and r.x < float(dims[0]) and r.y < float(dims[1]) and r.z < float(dims[2])
    return cell_of(x, lower, per_metre, dims) if near else dims[0] * dims[1] * dims[2]


@k.func
def add_near(
    place: k.array(dtype=Place, layout="rows"),
    first: int,
    starts: k.array(dtype=int),
    x: k.vec3,
    lower: k.vec3,
    per_metre: float,
    dims: k.vec3i,
    support: float,
    but: int,
    neighbour: k.array(dtype=int, ndim=3),
    group: int,
    lane: int,
    found: int,
    capacity: int,
) -> int:
    """Lists the places within the support of `x`, other than `but`, of those sorted by cell from `first` on.

    Returns how many the list then has, with those that there was no room for.
    """
    r = (x - lower) * per_metre
    # a place far outside the grid: clamped before it becomes integers
    cx = int(k.clamp(r.x, -2.0, float(dims[0]) + 2.0) + 2.0) - 2
    cy = int(k.clamp(r.y, -2.0, float(dims[1]) + 2.0) + 2.0) - 2
    cz = int(k.clamp(r.z, -2.0, float(dims[2]) + 2.0) + 2.0) - 2
    near = support * support
    left = max(cx - 1, 0)
    right = min(cx + 1, dims[0] - 1) + 1
    if left < right:
        for z in range(max(cz - 1, 0), min(cz + 2, dims[2])):
            for y in range(max(cy - 1, 0), min(cy + 2, dims[1])):
                row = dims[0] * (y + dims[1] * z)
                for j in range(starts[row + left], starts[row + right]):
                    gap = place[first + j].x - x
                    if k.dot(gap, gap) < near and first + j != but:
                        if found < capacity:
                            neighbour[group, found, lane] = first + j
                        found += 1
    return found
