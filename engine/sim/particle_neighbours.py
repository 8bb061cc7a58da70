"""Neighbours of fluid particles: sorts the particles by cell, and lists for each those within the support radius.

    bounds ─► cell of each particle ─► radix sort ─► State in the new order ─► first place of each cell
           ─► one sweep over 27 cells makes the list that all other sweeps of the step use

The points of solids follow the particles in `place`, sorted alike, so that one list holds both: an index j < nparticle
is a particle. Particles are taken in groups of 16: neighbour k of particle 16 g + lane is `neighbour[g, k, lane]`, so
that the threads of a group read side by side, and the next k comes next in memory. (`neighbour[k, i]` costs 2.3 times
as much with 91 000 particles: as many places in memory as neighbours, which no prefetcher follows.)
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import empty, launch, zeros
from engine.kernels.hash_grid import find_starts
from engine.kernels.reduce import Bounds
from engine.kernels.sort import RadixSort
from engine.sim.cubic_spline import slope
from engine.state.model import Model
from engine.state.tables import State

GROUP = 16  # particles whose neighbours lie interleaved
CAPACITY = 44  # neighbours of a particle that there is room for at first; a lattice at rest has 32
CELLS_PER_PARTICLE = 8  # at most, when the fluid is spread out: cells then grow


@k.struct
class Place:  # 16 bytes
    x: k.vec3  # m
    volume: float  # of the particle at rest, or that a point of a solid stands for, m³


@k.struct
class Motion:  # 16 bytes
    v: k.vec3  # velocity in m/s, or acceleration in m/s²
    drag: float  # dynamic viscosity of a particle, Pa·s


@k.func
def drag_strength(gap: k.vec3, moving: k.vec3, support: float) -> float:
    """Of a viscosity of 1 Pa·s between two places `gap` apart that move against each other: times gap and the volume it
    is a force per volume (Monaghan 2005, in the form of Weiler et al. 2018).
    """
    gap_sq = k.dot(gap, gap)
    return 10.0 * slope(gap_sq, support) * k.dot(moving, gap) / (gap_sq + 0.01 * support * support)


@k.func
def cell_of(x: k.vec3, lower: k.vec3, per_metre: float, dims: k.vec3i) -> int:
    """The cell of a place, clamped to the grid."""
    r = (x - lower) * per_metre
    cx = k.clamp(int(r.x), 0, dims[0] - 1)
    cy = k.clamp(int(r.y), 0, dims[1] - 1)
    cz = k.clamp(int(r.z), 0, dims[2] - 1)
    return cx + dims[0] * (cy + dims[1] * cz)


@k.requires(lambda tid, s, x: tid < s.particle_q.shape[0] and tid < x.shape[0])
@k.kernel
def read_positions(s: State, x: k.array(dtype=k.vec3)):
    i = k.tid()
    x[i] = s.particle_q[i]


@k.requires(lambda tid, s, cells, order: tid < s.particle_q.shape[0] and tid < cells.shape[0]
    and tid < order.shape[0])  # fmt: skip
@k.kernel
def find_particle_cells(
    s: State, lower: k.vec3, per_metre: float, dims: k.vec3i, cells: k.array(dtype=k.uint32), order: k.array(dtype=int)
):
    i = k.tid()
    cells[i] = k.uint32(cell_of(s.particle_q[i], lower, per_metre, dims))
    order[i] = i


@k.requires(lambda tid, m, placed, cells, order: tid < m.boundary_q.shape[0] and tid < placed.shape[0]
    and tid < cells.shape[0] and tid < order.shape[0])  # fmt: skip
@k.kernel
def place_boundary(
    m: Model,
    pose: k.array(dtype=k.transform),
    lower: k.vec3,
    per_metre: float,
    dims: k.vec3i,
    placed: k.array(dtype=k.vec3),
    cells: k.array(dtype=k.uint32),
    order: k.array(dtype=int),
):
    """Points of solids in the world; those that no particle can reach come behind the last cell."""
    i = k.tid()
    x = m.boundary_q[i]
    body = m.boundary_body[i]
    k.assume(body < pose.shape[0] and body < m.body_com.shape[0])
    if body >= 0:
        x = k.transform_point(pose[body], x - m.body_com[body])
    placed[i] = x
    r = (x - lower) * per_metre
    near = r.x >= 0.0 and r.y >= 0.0 and r.z >= 0.0
    near = near and r.x < float(dims[0]) and r.y < float(dims[1]) and r.z < float(dims[2])
    cell = cell_of(x, lower, per_metre, dims)
    cells[i] = k.uint32(cell if near else dims[0] * dims[1] * dims[2])
    order[i] = i


@k.requires(lambda tid, s, order, t: tid < order.shape[0] and 0 <= order[tid] and order[tid] < s.particle_q.shape[0]
    and tid < t.particle_q.shape[0])  # fmt: skip
@k.kernel
def move_particles(s: State, order: k.array(dtype=int), t: State):
    """t = s in another order."""
    i = k.tid()
    j = order[i]
    t.particle_q[i] = s.particle_q[j]
    t.particle_qd[i] = s.particle_qd[j]
    t.particle_fluid[i] = s.particle_fluid[j]
    t.particle_id[i] = s.particle_id[j]
    t.particle_pressure[i] = s.particle_pressure[j]
    t.particle_pressure_rate[i] = s.particle_pressure_rate[j]


@k.requires(lambda tid, t, s, place: tid < t.particle_q.shape[0] and tid < s.particle_q.shape[0]
    and tid < place.shape[0])  # fmt: skip
@k.kernel
def store_particles(t: State, s: State, volume: float, place: k.array(dtype=Place, layout="rows")):
    i = k.tid()
    s.particle_q[i] = t.particle_q[i]
    s.particle_qd[i] = t.particle_qd[i]
    s.particle_fluid[i] = t.particle_fluid[i]
    s.particle_id[i] = t.particle_id[i]
    s.particle_pressure[i] = t.particle_pressure[i]
    s.particle_pressure_rate[i] = t.particle_pressure_rate[i]
    place[i] = Place(t.particle_q[i], volume)


@k.requires(lambda tid, m, placed, order: tid < order.shape[0] and 0 <= order[tid]
    and order[tid] < m.boundary_q.shape[0] and order[tid] < placed.shape[0])  # fmt: skip
@k.kernel
def store_boundary(
    m: Model,
    placed: k.array(dtype=k.vec3),
    order: k.array(dtype=int),
    place: k.array(dtype=Place, layout="rows"),
    slot: k.array(dtype=int),
    nparticle: int,
):
    """Points in the order of the cells; slot: where each went."""
    i = k.tid()
    j = order[i]
    place[nparticle + i] = Place(placed[j], m.boundary_volume[j])
    slot[j] = i


@k.kernel(shape="lanes")
def list_neighbours(
    place: k.array(dtype=Place, layout="rows"),
    starts: k.array(dtype=int),
    boundary_starts: k.array(dtype=int),
    lower: k.vec3,
    per_metre: float,
    dims: k.vec3i,
    support: float,
    nparticle: int,
    neighbour: k.array(dtype=int, ndim=3),
    count: k.array(dtype=int),
    capacity: int,
):
    """Particles first, then points of solids. `count` also counts those that there was no room for."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= nparticle:
        return
    x = place[i].x
    near = support * support
    cell = cell_of(x, lower, per_metre, dims)
    cx = cell % dims[0]
    cy = cell // dims[0] % dims[1]
    cz = cell // (dims[0] * dims[1])
    left = max(cx - 1, 0)
    right = min(cx + 1, dims[0] - 1) + 1
    found = 0
    for z in range(max(cz - 1, 0), min(cz + 2, dims[2])):
        for y in range(max(cy - 1, 0), min(cy + 2, dims[1])):
            row = dims[0] * (y + dims[1] * z)
            for j in range(starts[row + left], starts[row + right]):
                gap = place[j].x - x
                if k.dot(gap, gap) < near and j != i:
                    if found < capacity:
                        neighbour[group, found, lane] = j
                    found += 1
    for z in range(max(cz - 1, 0), min(cz + 2, dims[2])):
        for y in range(max(cy - 1, 0), min(cy + 2, dims[1])):
            row = dims[0] * (y + dims[1] * z)
            for j in range(boundary_starts[row + left], boundary_starts[row + right]):
                gap = place[nparticle + j].x - x
                if k.dot(gap, gap) < near:
                    if found < capacity:
                        neighbour[group, found, lane] = nparticle + j
                    found += 1
    count[i] = found


@k.requires(lambda tid, out: tid < out.shape[0])
@k.kernel
def largest_of_block(values: k.array(dtype=int), out: k.array(dtype=int), n: int, block: int):
    b = k.tid()
    top = values[b * block]
    for i in range(b * block + 1, min(b * block + block, n)):
        top = k.select_max(values[i], top)
    out[b] = top


class Neighbours:
    """Places and neighbours of a model's particles and points of solids; `update` makes them from the state.

    `velocity` has the rows of `place` and is the solver's. Bodies have their points where `pose` says.
    """

    def __init__(self, model: Model, state: State, support: float, volume: float):
        self.model, self.state = model, state
        self.support, self.volume = support, volume
        n, nb, device = model.count["nparticle"], model.count["nboundary"], model.device
        self.nparticle, self.nboundary, self.device = n, nb, device
        self.place = zeros(n + nb, dtype=Place, device=device, layout="rows")
        self.velocity = zeros(n + nb, dtype=Motion, device=device, layout="rows")
        self.count = zeros(n, dtype=int, device=device)
        self._sorted = State({"nparticle": n}, device)
        self._positions = empty(n, dtype=k.vec3, device=device)
        self._bounds = Bounds(n, device)
        self._cells = empty(max(n, nb, 1), dtype=k.uint32, device=device)
        self._order = empty(max(n, nb, 1), dtype=int, device=device)
        self._sort = RadixSort(max(n, nb), device, k.uint32)
        self.placed = zeros(nb, dtype=k.vec3, device=device)  # the points of solids, in the order of the model
        self.slot = zeros(nb, dtype=int, device=device)  # the place of each is place[nparticle + slot]
        self.pose = zeros(model.count["nbody"], dtype=k.transform, device=device)  # (centre of mass, orientation)
        self.starts, self._boundary_starts = (zeros(1, dtype=int, device=device) for _ in range(2))
        self._reserve(CAPACITY)

    def _reserve(self, capacity: int) -> None:
        self.capacity = capacity
        self.groups = -(-self.nparticle // GROUP)
        self.list = zeros((self.groups, capacity, GROUP), dtype=int, device=self.device)

    def update(self) -> None:
        """Sorts the particles of the state and lists their neighbours. Positions must be finite."""
        self.grid = grid = self._fit_grid()
        self._sort_particles(*grid)
        self._sort_boundary(*grid)
        self._list(*grid)
        most = self.largest(self.count)
        if most > self.capacity:
            self._reserve(most + 4)
            self._list(*grid)

    def _launch(self, kernel: Any, dim: Any, *inputs: Any) -> None:
        launch(kernel, dim, inputs=list(inputs), device=self.device)

    def _fit_grid(self) -> tuple[Any, float, Any]:
        """(lower corner, cells per metre, cells) of a grid around the particles and all that they may touch."""
        n = self.nparticle
        self._launch(read_positions, n, self.state, self._positions)
        self._bounds.run(self._positions, self._positions, n)
        lower = np.array(self._bounds.lower.numpy()[0], float) - self.support
        size = np.array(self._bounds.upper.numpy()[0], float) + self.support - lower
        cell = self.support * (1.0 + 1e-5)
        most = max(CELLS_PER_PARTICLE * n, 1 << 15)
        while np.prod(np.ceil(size / cell)) > most:
            cell *= 1.26
        dims = np.maximum(1, np.ceil(size / cell)).astype(int)
        return k.vec3(*lower), 1.0 / cell, k.vec3i(*(int(d) for d in dims))

    def _sort_particles(self, lower: Any, per_metre: float, dims: Any) -> None:
        n, s, ncell = self.nparticle, self.state, math.prod(int(d) for d in dims)
        self._launch(find_particle_cells, n, s, lower, per_metre, dims, self._cells, self._order)
        self._sort.run(self._cells, self._order, n, ncell.bit_length())
        self._launch(move_particles, n, s, self._order, self._sorted)
        self._launch(store_particles, n, self._sorted, s, self.volume, self.place)
        self.starts = self._first_places(self.starts, n, ncell)

    def _sort_boundary(self, lower: Any, per_metre: float, dims: Any) -> None:
        n, m, ncell = self.nboundary, self.model, math.prod(int(d) for d in dims)
        self._launch(place_boundary, n, m, self.pose, lower, per_metre, dims, self.placed, self._cells, self._order)
        self._sort.run(self._cells, self._order, n, ncell.bit_length())
        self._launch(store_boundary, n, m, self.placed, self._order, self.place, self.slot, self.nparticle)
        self._boundary_starts = self._first_places(self._boundary_starts, n, ncell)

    def _first_places(self, starts: Any, n: int, ncell: int) -> Any:
        if len(starts) < ncell + 1:
            starts = zeros(ncell + ncell // 2 + 1, dtype=int, device=self.device)
        self._launch(find_starts, n + 1, self._cells, starts, n, ncell)
        return starts

    def _list(self, lower: Any, per_metre: float, dims: Any) -> None:
        self._launch(
            list_neighbours, (self.groups, GROUP), self.place, self.starts, self._boundary_starts, lower, per_metre,
            dims, self.support, self.nparticle, self.list, self.count, self.capacity,
        )  # fmt: skip

    def largest(self, count: Any) -> int:
        """The largest of an array of numbers of neighbours."""
        block, n = 4096, len(count)
        blocks = -(-n // block)
        tops = empty(blocks, dtype=int, device=self.device)
        self._launch(largest_of_block, blocks, count, tops, n, block)
        return int(tops.numpy().max())
