"""Hash grid: points sorted by cell, and queries in kernels for the points in the cells around a place.

The lattice of cells is endless and repeats itself every (dim_x, dim_y, dim_z) cells, as in Teschner et al. 2003 with a
plain remainder in place of the hash, so that neighbouring cells along x lie side by side in memory:

    cell of each point ─► stable radix sort of (cell, point) ─► first place of each cell

In kernels a grid is one number, the address of its header of eight 64-bit words:

    cell starts | point ids | points | cells along x | along y | along z | cells per metre (float64) | groups

The points of cell c are ids[starts[c]] … ids[starts[c + 1] − 1], ascending; points with a NaN
lie behind the last cell, where no query looks.
"""

# mypy: disable-error-code="attr-defined, operator"
# (references to structs, and float64 operands, mean something to the kernel compiler only)

from __future__ import annotations

import math
from typing import Any

from engine.compiler import lang as k
from engine.compiler import types
from engine.context import array, copy, empty, launch, recording, zeros
from engine.errors import ArgumentError
from engine.kernels.sort import RadixSort

FARTHEST = 1.0e9  # cells beyond this index share one: what is farther away is still found, among others
SLACK = 1.0 + 1.0e-6  # distances that a kernel computes in float32 may come out too short by that much
HEADER = 8  # words
LARGEST = 1 << 30  # cells of a grid


@k.struct
class HashGridQuery:
    """Where a query stands: the block of cells that it covers, its place in them, and among the points of one."""

    grid: k.uint64
    first: k.vec3i
    span: k.vec3i
    row: k.int32  # of span.y · span.z rows of cells along x
    column: k.int32
    place: k.int32
    last: k.int32


@k.struct
class HashGridGroupQuery:
    """A query for the points of one group."""

    points: HashGridQuery
    group: k.int32


@k.func
def _cell_index(x: k.float64, per_metre: k.float64) -> k.int32:
    """The cell of a coordinate, along one axis."""
    return k.int32(k.clamp(k.floor(x * per_metre), k.float64(-FARTHEST), k.float64(FARTHEST)))


@k.func
def _cells_along(x: k.float64, reach: k.float64, per_metre: k.float64, dim: k.int32):
    """(first cell, how many) around a coordinate; never one twice."""
    first = _cell_index(x - reach, per_metre)
    last = _cell_index(x + reach, per_metre)
    return first, min(last - first + 1, dim)


@k.func
def _wrapped(x: k.vec3i, dims: k.vec3i) -> k.int32:
    return x[0] % dims[0] + dims[0] * (x[1] % dims[1] + dims[1] * (x[2] % dims[2]))


@k.func
def _words(grid: k.uint64):
    return array(ptr=grid, shape=HEADER, dtype=k.uint64)


@k.func
def _dims(grid: k.uint64) -> k.vec3i:
    words = _words(grid)
    return k.vec3i(k.int32(words[3]), k.int32(words[4]), k.int32(words[5]))


@k.func
def hash_grid_query(id: k.uint64, point: Any, max_dist: Any) -> HashGridQuery:
    """A query of grid `id` for the points of all cells that the sphere of radius max_dist about `point` may touch.

    It finds every point within max_dist, and others of these cells: the kernel compares distances. NaN finds nothing.
    """
    dims = _dims(id)
    per_metre = k.bitcast(_words(id)[6], k.float64)
    reach = k.float64(max_dist) * k.float64(SLACK)
    query = HashGridQuery()
    query.grid = id
    query.column = 0
    px = k.float64(point[0])
    py = k.float64(point[1])
    pz = k.float64(point[2])
    x, nx = _cells_along(px, reach, per_metre, dims[0])
    y, ny = _cells_along(py, reach, per_metre, dims[1])
    z, nz = _cells_along(pz, reach, per_metre, dims[2])
    query.first = k.vec3i(x, y, z)
    found = reach >= k.float64(0.0) and px == px and py == py and pz == pz
    query.span = k.vec3i(nx, ny, nz) if found else k.vec3i(0, 0, 0)
    return query


@k.func
def hash_grid_query_next(query: k.ref[HashGridQuery], index: k.ref[k.int32]) -> bool:
    """The next point of a query into `index`; False when there is none. Cell by cell, in each in ascending order."""
    if query.place >= query.last:
        words = _words(query.grid)
        dims = _dims(query.grid)
        ncell = dims[0] * dims[1] * dims[2]
        starts = array(ptr=words[0], shape=ncell + 2, dtype=k.int32)
        while query.place >= query.last and query.row < query.span[1] * query.span[2]:
            cell = query.first + k.vec3i(query.column, query.row % query.span[1], query.row // query.span[1])
            at = _wrapped(cell, dims)
            query.place = starts[at]
            query.last = starts[at + 1]
            query.column = query.column + 1
            if query.column >= query.span[0]:
                query.column = 0
                query.row = query.row + 1
    found = query.place < query.last
    if found:
        index = hash_grid_point_id(query.grid, query.place)  # noqa: F841
        query.place = query.place + 1
    return found


@k.func  # type: ignore[no-redef]
def hash_grid_query(id: k.uint64, point: Any, max_dist: Any, group: k.int32) -> HashGridGroupQuery:  # noqa: F811
    """The same for the points of one group only; of a grid that was built without groups all points."""
    query = HashGridGroupQuery()
    query.points = hash_grid_query(id, point, max_dist)
    query.group = group
    return query


@k.func  # type: ignore[no-redef]
def hash_grid_query_next(query: k.ref[HashGridGroupQuery], index: k.ref[k.int32]) -> bool:  # noqa: F811
    words = _words(query.points.grid)
    groups = array(ptr=words[7], shape=k.int32(words[2]), dtype=k.int32)
    candidate = k.int32(0)
    found = hash_grid_query_next(query.points, candidate)
    while found and words[7] != k.uint64(0) and groups[candidate] != query.group:
        found = hash_grid_query_next(query.points, candidate)
    if found:
        index = candidate  # noqa: F841
    return found


HashGridQuery.advance = HashGridGroupQuery.advance = hash_grid_query_next  # for `for i in query`
HashGridQuery.__class_getitem__ = classmethod(lambda query, _dtype: query)  # Warp has one for each kind of coordinates


@k.func
def hash_grid_point_id(id: k.uint64, index: k.int32) -> k.int32:
    """The point at place `index` of the order by cells: threads that take points in this order share cells."""
    words = _words(id)
    return array(ptr=words[1], shape=k.int32(words[2]), dtype=k.int32)[index]


@k.requires(lambda words: 8 <= words.shape[0])
@k.kernel
def _fill_header(
    words: k.array(dtype=k.uint64),
    starts: k.uint64,
    ids: k.uint64,
    groups: k.uint64,
    n: int,
    dims: k.vec3i,
    per_metre: k.float64,
):
    words[0] = starts
    words[1] = ids
    words[2] = k.uint64(n)
    for axis in range(3):
        words[3 + axis] = k.uint64(dims[axis])
    words[6] = k.bitcast(per_metre, k.uint64)
    words[7] = groups


@k.requires(lambda tid, points, cells, order: tid < points.shape[0] and tid < cells.shape[0] and tid < order.shape[0])
@k.requires(lambda dims: dims[0] >= 1 and dims[1] >= 1 and dims[2] >= 1)
@k.kernel
def _find_cells(
    points: k.array(dtype=Any),
    dims: k.vec3i,
    per_metre: k.float64,
    cells: k.array(dtype=k.uint32),
    order: k.array(dtype=k.int32),
):
    i = k.tid()
    x = k.float64(points[i][0])
    y = k.float64(points[i][1])
    z = k.float64(points[i][2])
    cell = k.vec3i(_cell_index(x, per_metre), _cell_index(y, per_metre), _cell_index(z, per_metre))
    known = x == x and y == y and z == z
    cells[i] = k.uint32(_wrapped(cell, dims) if known else dims[0] * dims[1] * dims[2])
    order[i] = i


@k.kernel
def find_starts(cells: k.array(dtype=k.uint32), starts: k.array(dtype=k.int32), n: int, ncell: int):
    """starts[c] = first place of ascending `cells` that is not below c, for c ≤ ncell: each thread fills one gap."""
    i = k.tid()
    after = k.int32(cells[i]) if i < n else ncell + 1
    before = -1
    if i > 0:
        before = k.int32(cells[i - 1])
    for c in range(before + 1, min(after, ncell) + 1):
        starts[c] = i


class HashGrid:
    """Finds the points within a distance, for points anywhere: a grid of cells that repeats itself in space.

        grid = HashGrid(128, 128, 128)
        grid.build(points, radius=0.1)
        launch(kernel, n, inputs=[grid.id, points, 0.1])

    dim_x, dim_y, dim_z: cells before the pattern repeats; many points in a lattice too small for them cost time, never
    results. dtype: float16, float32 or float64, the kind of coordinates. Attributes: `id`, what kernels take (it never
    changes), `skipped`, the points of the last build that had a NaN.
    Raises ArgumentError for cells that are not positive or too many.
    """

    def __init__(self, dim_x: int, dim_y: int, dim_z: int, device: Any = None, dtype: Any = k.float32):
        dims = tuple(int(d) for d in (dim_x, dim_y, dim_z))
        if min(dims) < 1 or math.prod(dims) > LARGEST:
            raise ArgumentError(
                f"the cell count exceeds supported limit: a hash grid has 1 to {LARGEST} cells, "
                f"not {dim_x} × {dim_y} × {dim_z}"
            )
        kind = types.of_annotation(dtype)
        if kind not in (types.float16, types.float32, types.float64):
            raise ArgumentError(f"dtype must be float16, float32 or float64, not {dtype!r}")
        self.dims, self.dtype = dims, kind
        self._ncell = math.prod(dims)
        self._header = zeros(HEADER, dtype=k.uint64, device=device)
        self.device = self._header.device
        self._starts = zeros(self._ncell + 2, dtype=k.int32, device=device)
        self._n = 0
        self._groups: Any = None
        self._per_metre = 1.0
        self._make_room(0)
        self._write_header()

    @property
    def id(self) -> int:
        """What the kernel functions take as the grid."""
        return self._header.ptr

    @property
    def skipped(self) -> int:
        """Points of the last build that no query finds, since a coordinate is not a number."""
        return self._n - int(self._starts.numpy()[self._ncell])

    def reserve(self, num_points: int, with_groups: bool = False) -> None:
        """Makes room for that many points, so that `build` need not; the points of the last build stay. Groups take no
        room. Raises ArgumentError below 0, CaptureError where a graph is captured, whose launches know the room.
        """
        if num_points < 0:
            raise ArgumentError(f"a grid cannot make room for {num_points} points")
        recording.refuse("HashGrid.reserve", "captured builds use the room that there is; reserve before capture")
        if num_points > self._capacity:
            ids = self._ids
            self._make_room(int(num_points))
            if self._n:
                copy(self._ids, ids, count=self._n)
                self._write_header()

    def _make_room(self, num_points: int) -> None:
        self._capacity = num_points
        self._cells = empty(max(1, self._capacity), dtype=k.uint32, device=self.device)
        self._ids = zeros(max(1, self._capacity), dtype=k.int32, device=self.device)
        self._sort = RadixSort(self._capacity, self.device, k.uint32)

    def build(self, points: Any, radius: float, groups: Any = None) -> None:
        """Sorts `points` (vec3, any shape) into cells of `radius` metres. Queries of other distances work, too.

        Cells as large as the usual distance are best: 27 of them hold all neighbours. groups: array of int32, one for
        each point, which queries can ask for; the grid keeps it. Raises ArgumentError for a radius that is not positive
        and finite, points of another kind, groups that do not fit, or another device.
        """
        if not (math.isfinite(radius) and radius > 0.0):
            raise ArgumentError(f"radius must be positive and finite, got {radius!r}")
        kind = types.Vector(self.dtype, 3)
        if not isinstance(points, array) or types.of_annotation(points.dtype) != kind:
            raise ArgumentError(f"points must be an array of {kind!r}, got {getattr(points, 'dtype', points)!r}")
        if points.device != self.device:
            raise ArgumentError(f"points are on {points.device}, the grid is on {self.device}")
        flat = points if points.ndim == 1 else points.contiguous().reshape(points.size)
        n = self._n = len(flat)
        if n > self._capacity:
            self._make_room(n)
        self._groups = self._checked_groups(groups, n)
        self._per_metre = 1.0 / float(radius)
        self._write_header()
        dims = k.vec3i(*self.dims)
        if n:
            inputs = [flat, dims, self._per_metre, self._cells, self._ids]
            launch(_find_cells, n, inputs=inputs, device=self.device)
        self._sort.run(self._cells, self._ids, n, max(1, self._ncell.bit_length()))
        launch(find_starts, n + 1, inputs=[self._cells, self._starts, n, self._ncell + 1], device=self.device)

    def _checked_groups(self, groups: Any, n: int) -> Any:
        if groups is None:
            return None
        if not isinstance(groups, array) or types.of_annotation(groups.dtype) != types.int32:
            raise ArgumentError(f"groups must be an array of int32, got {getattr(groups, 'dtype', groups)!r}")
        if groups.size != n or not groups.is_contiguous:
            raise ArgumentError(f"groups must be {n} numbers without gaps, one for each point, not {groups.shape}")
        if groups.device != self.device:
            raise ArgumentError(f"groups must live on the same device as the grid: {self.device}, not {groups.device}")
        return groups

    def _write_header(self) -> None:
        """By a launch, so that graphs record it, too."""
        ids = self._ids.ptr if self._n else 0
        groups = self._groups.ptr if self._n and self._groups is not None else 0
        inputs = [self._header, self._starts.ptr, ids, groups, self._n, k.vec3i(*self.dims), self._per_metre]
        launch(_fill_header, 1, inputs=inputs, device=self.device, record_tape=False)
