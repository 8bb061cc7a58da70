"""Neighbours of fluid particles: sorts the particles by cell, and lists for each those within the support radius.

    bounds ─► cell of each particle ─► radix sort ─► State in the new order ─► first place of each cell
           ─► one sweep over 27 cells makes the list that all other sweeps of the step use

Images of the particles beyond periodic faces and the points of solids (with their images) follow the particles in
`place`, sorted alike, so that one list holds all: an index j < nfluid is a particle or its image.

    place: particles 0 … nparticle │ their images … nfluid │ points of solids and their images … nplace

Particles are taken in groups of 8 that follow each other in the order of the cells, with one list for each group: what
is within the support of any of the 8. `neighbour[g, n]` is then one place for all of a vector of lanes, broadcast and
not gathered; that more than half of the pairs are too far apart, and add 0, costs less (docs/decisions.md).
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import copy, empty, launch, zeros
from engine.kernels.hash_grid import find_starts
from engine.kernels.reduce import Bounds
from engine.kernels.sort import RadixSort
from engine.sim.cubic_spline import bend, slope_scale
from engine.sim.particle_cells import GROUP, Cluster, Place, add_near, cell_of, cell_or_none, groups_of, join
from engine.sim.particle_images import Images, is_periodic, refresh_numbers, refresh_rows, wrapped
from engine.state.model import Model
from engine.state.tables import State

SOFT = 1.0e-4  # of the support squared; 0.01 (Monaghan) takes 3 % of the viscosity of a lattice
CAPACITY = 104  # neighbours of a group that there is room for at first; a lattice at rest has 70 to 95
CELLS_PER_PARTICLE = 8  # at most, when the fluid is spread out: cells then grow


@k.struct
class Motion:  # 16 bytes
    v: k.vec3  # velocity in m/s, or acceleration in m/s²
    drag: float  # dynamic viscosity of a particle, Pa·s


@k.func
def drag_shape(gap: k.vec3, moving: k.vec3, support: float) -> float:
    """Of a viscosity of 1 Pa·s between two places `gap` apart that move against each other: times gap, the volume and
    `drag_scale` it is a force per volume (Monaghan 2005, in the form of Weiler et al. 2018).
    """
    gap_sq = k.dot(gap, gap)
    return bend(gap_sq, support) * k.dot(moving, gap) / (gap_sq + SOFT * support * support)


@k.func
def drag_scale(support: float) -> float:
    return 10.0 * slope_scale(support)


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
    and tid < cells.shape[0] and tid < order.shape[0] and 1 <= m.domain_lower.shape[0]
    and 1 <= m.domain_period.shape[0])  # fmt: skip
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
    """Points of solids in the world, between periodic faces; those that no particle can reach come last."""
    i = k.tid()
    x = m.boundary_q[i]
    body = m.boundary_body[i]
    k.assume(body < pose.shape[0] and body < m.body_com.shape[0])
    if body >= 0:
        x = k.transform_point(pose[body], x - m.body_com[body])
    x = wrapped(x, m.domain_lower[0], m.domain_period[0])
    placed[i] = x
    cells[i] = k.uint32(cell_or_none(x, lower, per_metre, dims))
    order[i] = i


@k.requires(lambda tid, gone, cells, order: tid < gone.shape[0] and tid < cells.shape[0] and tid < order.shape[0])
@k.kernel
def order_by_flag(gone: k.array(dtype=int), cells: k.array(dtype=k.uint32), order: k.array(dtype=int)):
    i = k.tid()
    cells[i] = k.uint32(gone[i])
    order[i] = i


@k.requires(lambda tid, s, order, t: tid < order.shape[0] and 0 <= order[tid] and order[tid] < s.particle_q.shape[0]
    and tid < t.particle_q.shape[0])  # fmt: skip
@k.kernel(shape="thread")
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
    t.particle_density[i] = s.particle_density[j]


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
    s.particle_density[i] = t.particle_density[i]
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
    first: int,
):
    """Points in the order of the cells; slot: where each went."""
    i = k.tid()
    j = order[i]
    place[first + i] = Place(placed[j], m.boundary_volume[j])
    slot[j] = i


@k.kernel
def store_particle_images(
    image: k.array(dtype=k.vec3),
    origin: k.array(dtype=int),
    order: k.array(dtype=int),
    volume: float,
    place: k.array(dtype=Place, layout="rows"),
    first: int,
    source: k.array(dtype=int),
):
    """Images of particles in the order of the cells; source: the rows that theirs repeat."""
    i = k.tid()
    j = order[i]
    place[first + i] = Place(image[j], volume)
    source[i] = origin[j]


@k.kernel
def store_boundary_images(
    m: Model,
    image: k.array(dtype=k.vec3),
    origin: k.array(dtype=int),
    order: k.array(dtype=int),
    slot: k.array(dtype=int),
    place: k.array(dtype=Place, layout="rows"),
    points: int,
    first: int,
    source: k.array(dtype=int),
):
    """The same for images of points of solids, which lie at places `points` and on."""
    i = k.tid()
    j = order[i]
    place[first + i] = Place(image[j], m.boundary_volume[origin[j]])
    source[i] = points + slot[origin[j]]


@k.kernel(shape="thread")
def list_neighbours(
    place: k.array(dtype=Place, layout="rows"),
    starts: k.array(dtype=int),
    image_starts: k.array(dtype=int),
    boundary_starts: k.array(dtype=int),
    boundary_image_starts: k.array(dtype=int),
    lower: k.vec3,
    per_metre: float,
    dims: k.vec3i,
    reach: float,
    nparticle: int,
    points: int,
    point_images: int,
    periodic: int,
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    capacity: int,
):
    """The places near each group, row of cells by row. `count` also counts those that there was no room for."""
    group = k.tid()
    cluster = Cluster()
    for n in range(GROUP):
        cluster = join(cluster, n, place[min(group * GROUP + n, nparticle - 1)].x, lower, per_metre)
    found = add_near(cluster, place, 0, starts, 1, points, boundary_starts, dims, reach, neighbour, group, 0, capacity)
    if periodic == 1:
        found = add_near(cluster, place, nparticle, image_starts, 1, point_images, boundary_image_starts, dims, reach,
                         neighbour, group, found, capacity)  # fmt: skip
    count[group] = found


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

    `velocity` has the rows of `place` and is the solver's, and so are `scratch`, a vec3 for each particle, and
    `spare`, a State that only sorting needs, between updates. Bodies have their points where `pose` says. Lists hold
    what is within `reach`, at least the support.
    """

    def __init__(self, model: Model, state: State, support: float, volume: float, reach: float):
        self.model, self.state = model, state
        self.support, self.volume, self.reach = support, volume, reach
        n, nb, device = state.count["nparticle"], model.count["nboundary"], model.device
        self.nboundary, self.device = nb, device
        self.spare = State({}, device)
        self.placed = zeros(nb, dtype=k.vec3, device=device)  # the points of solids, in the order of the model
        self.slot = zeros(nb, dtype=int, device=device)  # the place of each is place[nfluid + slot]
        self.pose = zeros(model.count["nbody"], dtype=k.transform, device=device)  # (centre of mass, orientation)
        periodic = is_periodic(model)
        self.images = Images(model, reach, max(n, 1)) if periodic else None  # of the particles
        self._point_images = Images(model, reach, max(nb, 1)) if periodic else None
        self.starts, self.image_starts, self._boundary_starts, self._boundary_image_starts = (
            zeros(1, dtype=int, device=device) for _ in range(4)
        )
        self.capacity, self.room, self.rows = CAPACITY, -1, 0
        self.fit()

    def fit(self) -> None:
        """Follows the number of particles; room for more of them grows by doubling."""
        self.nparticle = self.nfluid = n = self.state.count["nparticle"]
        if n > self.room:
            self._reserve_particles(n if self.room < 0 else 2 * n)
        if n + self.nboundary > self.rows:
            self._reserve_rows(self.room + self.nboundary)
        self.groups = groups_of(n)
        self.count = self._counts[: self.groups]
        self.spare.resize({"nparticle": n})

    def _reserve_particles(self, room: int) -> None:
        self.room, device = room, self.device
        both = max(room, self.nboundary, 1)
        self._counts = zeros(groups_of(room), dtype=int, device=device)
        self.spare.reserve({"nparticle": room})
        self.scratch = empty(room, dtype=k.vec3, device=device)
        self._bounds = Bounds(room, device)
        self._cells = empty(both, dtype=k.uint32, device=device)
        self._order = empty(both, dtype=int, device=device)
        self._sort = RadixSort(both, device, k.uint32)
        self._reserve_list(self.capacity)

    def _reserve_rows(self, rows: int) -> None:
        self.rows = rows  # of `place` and of every array that has a row for each place
        self.place = zeros(rows, dtype=Place, device=self.device, layout="rows")
        self.velocity = zeros(rows, dtype=Motion, device=self.device, layout="rows")
        self.source = zeros(rows, dtype=int, device=self.device)

    def _reserve_list(self, capacity: int) -> None:
        self.capacity = capacity
        self.list = zeros((groups_of(self.room), capacity), dtype=int, device=self.device)

    def update(self) -> None:
        """Sorts the particles of the state and lists their neighbours. Positions must be finite."""
        self.grid = grid = self._fit_grid()
        self._sort_particles(grid)
        self._find_images(grid)
        self._sort_boundary(grid)
        self.nplace = self.nfluid + self.nboundary + (0 if self._point_images is None else self._point_images.n)
        self._list(grid)
        most = self.largest(self.count)
        if most >= self.capacity:  # what comes after the last one that is near is written to the last place
            self._reserve_list(most + 4)
            self._list(grid)

    def remove(self, gone: Any, number: int) -> None:
        """Takes the particles out of the state for which `gone` (n,) is 1; the others keep their order."""
        n, s = self.nparticle, self.state
        self._launch(order_by_flag, n, gone, self._cells, self._order)
        self._sort.run(self._cells, self._order, n, 1)
        self._launch(move_particles, n, s, self._order, self.spare)
        self._launch(store_particles, n, self.spare, s, self.volume, self.place)
        s.resize({"nparticle": n - number})

    def refresh(self, rows: Any) -> None:
        """Gives the images of an array with rows like `place` what their sources hold."""
        if self.images is None:
            return
        points, point_images = self.images.n, self._point_images.n  # type: ignore[union-attr]
        copy_rows = refresh_numbers if rows.layout != "rows" else refresh_rows
        self._launch(copy_rows, points, rows, self.nparticle, self.source)
        if self._point_images is not None and point_images:
            first = self.nfluid + self.nboundary
            self._launch(copy_rows, point_images, rows, first, self.source[points:])

    def sweep(self, kernel: Any, *inputs: Any) -> None:
        """Launches a thread for each place of each group: what walks the lists."""
        self._launch(kernel, (self.groups, GROUP), *inputs)

    def _launch(self, kernel: Any, dim: Any, *inputs: Any) -> None:
        launch(kernel, dim, inputs=list(inputs), device=self.device)

    def _fit_grid(self) -> tuple[Any, float, Any]:
        """(lower corner, cells per metre, cells) of a grid around the particles and all that they may touch."""
        n = self.nparticle
        self._launch(read_positions, n, self.state, self.scratch)
        self._bounds.run(self.scratch, self.scratch, n)
        lower = np.array(self._bounds.lower.numpy()[0], float) - self.reach
        size = np.array(self._bounds.upper.numpy()[0], float) + self.reach - lower
        cell = self.reach * (1.0 + 1e-5)
        most = max(CELLS_PER_PARTICLE * n, 1 << 15)
        while np.prod(np.ceil(size / cell)) > most:
            cell *= 1.26
        dims = np.maximum(1, np.ceil(size / cell)).astype(int) * (2, 1, 1)
        return k.vec3(*lower), 1.0 / cell, k.vec3i(*(int(d) for d in dims))

    def _sort_particles(self, grid: tuple[Any, float, Any]) -> None:
        n, s = self.nparticle, self.state
        self._launch(find_particle_cells, n, s, *grid, self._cells, self._order)
        self._sort.run(self._cells, self._order, n, _cell_count(grid).bit_length())
        self._launch(move_particles, n, s, self._order, self.spare)
        self._launch(store_particles, n, self.spare, s, self.volume, self.place)
        self.starts = self._first_places(self.starts, self._cells, n, grid)

    def _find_images(self, grid: tuple[Any, float, Any]) -> None:
        """Images of the sorted particles."""
        if self.images is None:
            return
        n = self.nparticle
        self._launch(read_positions, n, self.state, self.scratch)
        images = self._sort_images(self.images, self.scratch, n, grid)
        self.nfluid = n + images.n
        self._fit_rows(self.nfluid + self.nboundary)
        inputs = [images.image, images.origin, images.order, self.volume, self.place, n, self.source]
        self._launch(store_particle_images, images.n, *inputs)
        self.image_starts = self._first_places(self.image_starts, images.cells, images.n, grid)

    def _sort_images(self, images: Images, x: Any, n: int, grid: tuple[Any, float, Any]) -> Images:
        images.find(x, n, grid)
        if images.n > len(self._sort.keys):
            self._sort = RadixSort(2 * images.n, self.device, k.uint32)
        self._sort.run(images.cells, images.order, images.n, _cell_count(grid).bit_length())
        return images

    def _fit_rows(self, rows: int) -> None:
        """Room for so many places; the particles' stay."""
        if rows > self.rows:
            place, source = self.place, self.source
            self._reserve_rows(rows + rows // 2)
            copy(self.place[: len(place)], place)
            copy(self.source[: len(source)], source)

    def _sort_boundary(self, grid: tuple[Any, float, Any]) -> None:
        n, m = self.nboundary, self.model
        self._launch(place_boundary, n, m, self.pose, *grid, self.placed, self._cells, self._order)
        self._sort.run(self._cells, self._order, n, _cell_count(grid).bit_length())
        self._launch(store_boundary, n, m, self.placed, self._order, self.place, self.slot, self.nfluid)
        self._boundary_starts = self._first_places(self._boundary_starts, self._cells, n, grid)
        if self._point_images is None or self.images is None:
            return
        images = self._sort_images(self._point_images, self.placed, n, grid)
        first = self.nfluid + n
        self._fit_rows(first + images.n)
        self._launch(
            store_boundary_images, images.n, m, images.image, images.origin, images.order, self.slot, self.place,
            self.nfluid, first, self.source[self.images.n :],
        )  # fmt: skip
        self._boundary_image_starts = self._first_places(self._boundary_image_starts, images.cells, images.n, grid)

    def _first_places(self, starts: Any, cells: Any, n: int, grid: tuple[Any, float, Any]) -> Any:
        ncell = _cell_count(grid)
        if len(starts) < ncell + 1:
            starts = zeros(ncell + ncell // 2 + 1, dtype=int, device=self.device)
        self._launch(find_starts, n + 1, cells, starts, n, ncell)
        return starts

    def _list(self, grid: tuple[Any, float, Any]) -> None:
        starts = self.starts, self.image_starts, self._boundary_starts, self._boundary_image_starts
        places = self.nparticle, self.nfluid, self.nfluid + self.nboundary, int(self.images is not None)
        self._launch(
            list_neighbours, self.groups, self.place, *starts, *grid, self.reach, *places, self.list,
            self.count, self.capacity,
        )  # fmt: skip

    def largest(self, count: Any) -> int:
        """The largest of an array of numbers of neighbours."""
        block, n = 4096, len(count)
        blocks = -(-n // block)
        tops = empty(blocks, dtype=int, device=self.device)
        self._launch(largest_of_block, blocks, count, tops, n, block)
        return int(tops.numpy().max())


def _cell_count(grid: tuple[Any, float, Any]) -> int:
    return math.prod(int(d) for d in grid[2])
