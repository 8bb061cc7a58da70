"""Cells of a grid for the search of neighbours: the cell of a place, and what lies near any of a group of places.

Cells are as long as the support radius, half as long along x, and numbered along a path that turns back at the end of
each row and of each layer: places that follow each other in the order of the cells are then near each other, so that
groups of them are compact, and cells that follow each other along x have one range of places.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

from typing import Any

from engine.compiler import lang as k
from engine.compiler.values import vector

GROUP = 8  # places that share a list of what is near any of them
vec8: Any = vector(length=GROUP, dtype=k.float32)
FAR = 1.0e6


def groups_of(n: int) -> int:
    """How many groups n places make."""
    return -(-n // GROUP)


@k.struct
class Place:  # 16 bytes
    x: k.vec3  # m
    volume: float  # of the particle at rest, or that a point of a solid stands for, m³


@k.struct
class Cluster:
    """The places of a group: in metres, and in cells from the corner of the grid (along x in half cells)."""

    x: vec8
    y: vec8
    z: vec8
    cx: vec8
    cy: vec8
    cz: vec8


@k.func
def row_of_cells(y: int, z: int, dims: k.vec3i) -> int:
    """The number of a row along x; rows of odd numbers run backwards."""
    return z * dims[1] + (dims[1] - 1 - y if z & 1 == 1 else y)


@k.func
def cell_of(x: k.vec3, lower: k.vec3, per_metre: float, dims: k.vec3i) -> int:
    """The cell of a place, clamped to the grid."""
    r = (x - lower) * per_metre
    cx = k.clamp(int(2.0 * r.x), 0, dims[0] - 1)
    cy = k.clamp(int(r.y), 0, dims[1] - 1)
    cz = k.clamp(int(r.z), 0, dims[2] - 1)
    row = row_of_cells(cy, cz, dims)
    return row * dims[0] + (dims[0] - 1 - cx if row & 1 == 1 else cx)


@k.func
def cell_or_none(x: k.vec3, lower: k.vec3, per_metre: float, dims: k.vec3i) -> int:
    """The cell of a place; of one outside the grid, which no particle can reach, the number of cells."""
    r = (x - lower) * per_metre
    near = r.x >= 0.0 and r.y >= 0.0 and r.z >= 0.0
    near = near and 2.0 * r.x < float(dims[0]) and r.y < float(dims[1]) and r.z < float(dims[2])
    return cell_of(x, lower, per_metre, dims) if near else dims[0] * dims[1] * dims[2]


@k.func
def join(cluster: Cluster, n: int, x: k.vec3, lower: k.vec3, per_metre: float) -> Cluster:
    """The cluster with x as place n."""
    r = (x - lower) * per_metre
    cluster.x[n] = x.x
    cluster.y[n] = x.y
    cluster.z[n] = x.z
    cluster.cx[n] = k.clamp(2.0 * r.x, -FAR, FAR)
    cluster.cy[n] = k.clamp(r.y, -FAR, FAR)
    cluster.cz[n] = k.clamp(r.z, -FAR, FAR)
    return cluster


@k.func
def beside(at: vec8, cell: int) -> vec8:
    """How far along an axis each place is from a cell, in cells, squared."""
    gap = k.select_max(k.abs(at - vec8(float(cell) + 0.5)) - vec8(0.5), vec8(0.0))
    return k.cw_mul(gap, gap)


@k.func
def least_of(v: vec8) -> float:
    """The least of finite numbers: `k.min` also minds NaN and the sign of zeros, in ten times as many instructions."""
    a = k.select_min(k.select_min(v[0], v[1]), k.select_min(v[2], v[3]))
    return k.select_min(a, k.select_min(k.select_min(v[4], v[5]), k.select_min(v[6], v[7])))


@k.func
def most_of(v: vec8) -> float:
    return -least_of(-v)


@k.func
def add_range(
    cluster: Cluster,
    place: k.array(dtype=Place, layout="rows"),
    first: int,
    last: int,
    near: float,
    neighbour: k.array(dtype=int, ndim=2),
    group: int,
    found: int,
    capacity: int,
) -> int:
    """Lists those of the places first to last - 1 whose squared distance to any of the cluster is below `near`."""
    for j in range(first, last):
        x = place[j].x
        gx = cluster.x - vec8(x.x)
        gy = cluster.y - vec8(x.y)
        gz = cluster.z - vec8(x.z)
        gap = k.fma(gx, gx, k.fma(gy, gy, k.cw_mul(gz, gz)))
        neighbour[group, min(found, capacity - 1)] = j
        found += 1 if k.bit_mask(k.less(gap, vec8(near))) != k.uint32(0) else 0
    return found


@k.func
def add_near(
    cluster: Cluster,
    place: k.array(dtype=Place, layout="rows"),
    first: int,
    starts: k.array(dtype=int),
    others: int,
    other_first: int,
    other_starts: k.array(dtype=int),
    dims: k.vec3i,
    reach: float,
    neighbour: k.array(dtype=int, ndim=2),
    group: int,
    found: int,
    capacity: int,
) -> int:
    """Lists the places within `reach` of any in the cluster, of those sorted by cell from `first` on, and where
    `others` is 1 of those from `other_first` on as well.

    `reach` is the length of a cell at most. Returns how many the list then has, with those that there was no room for.
    Row by row, in the order of the cells: what is near one place comes in the same order whatever others are in its
    group.
    """
    a_cell = vec8(1.0001)  # squared, and a little more for the rounding of places in cells
    near = reach * reach
    for z in range(max(int(least_of(cluster.cz) - 1.0), 0), min(int(most_of(cluster.cz) + 1.0) + 1, dims[2])):
        left_of_z = a_cell - beside(cluster.cz, z)
        for y in range(max(int(least_of(cluster.cy) - 1.0), 0), min(int(most_of(cluster.cy) + 1.0) + 1, dims[1])):
            left = left_of_z - beside(cluster.cy, y)
            there = k.less(vec8(0.0), left)
            half = k.sqrt(k.select_max(left, vec8(0.0))) * 2.0
            low = k.select_max(least_of(k.where(there, cluster.cx - half, vec8(FAR))), 0.0)
            high = k.select_min(most_of(k.where(there, cluster.cx + half, vec8(-FAR))), float(dims[0]) - 0.5)
            if low <= high:
                row = row_of_cells(y, z, dims)
                begin = row * dims[0] + int(low)
                end = row * dims[0] + int(high) + 1
                if row & 1 == 1:
                    begin = (row + 1) * dims[0] - 1 - int(high)
                    end = (row + 1) * dims[0] - int(low)
                found = add_range(cluster, place, first + starts[begin], first + starts[end], near, neighbour, group,
                                  found, capacity)  # fmt: skip
                if others == 1:
                    found = add_range(cluster, place, other_first + other_starts[begin],
                                      other_first + other_starts[end], near, neighbour, group, found,
                                      capacity)  # fmt: skip
    return found
