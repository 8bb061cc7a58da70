"""Marching cubes: the surface of a field as a closed mesh with one vertex on each cut edge of the grid.

    count what each node's edges and cell make ─► prefix sums ─► vertices ─► triangles

Every thread knows where its results go, so meshes are the same on every device and with any number of threads.
"""

from __future__ import annotations

from typing import Any

from engine.compiler import lang as k
from engine.context import array, launch
from engine.errors import ArgumentError
from engine.geom.cube_cases import CASE_STARTS, CORNERS, EDGES, TRIANGLE_EDGES
from engine.geom.iso_surface import IsoSurfaceBase, bounds, check_field, crossing, deprecated, places

NOT_GIVEN: Any = object()


def _owner(edge: int) -> int:
    """Which node of a cell an edge starts from, and its axis: x | y << 1 | z << 2 | axis << 3."""
    (a, b) = (CORNERS[c] for c in EDGES[edge])
    axis = next(d for d in range(3) if a[d] != b[d])
    return a[0] | a[1] << 1 | a[2] << 2 | axis << 3


@k.func
def cut_edges(field: k.array(dtype=float, ndim=3), threshold: float, i: int, j: int, l: int) -> int:
    """Which of the edges from a node along x, y, z are cut, one bit each."""
    inside = field[i, j, l] < threshold
    cuts = 0
    if i + 1 < field.shape[0] and (field[i + 1, j, l] < threshold) != inside:
        cuts = 1
    if j + 1 < field.shape[1] and (field[i, j + 1, l] < threshold) != inside:
        cuts = cuts | 2
    if l + 1 < field.shape[2] and (field[i, j, l + 1] < threshold) != inside:
        cuts = cuts | 4
    return cuts


@k.func
def case_of(field: k.array(dtype=float, ndim=3), threshold: float, i: int, j: int, l: int) -> int:
    """Which corners of a cell are inside, one bit each; 0 beyond the last cell."""
    case = 0
    if i + 1 < field.shape[0] and j + 1 < field.shape[1] and l + 1 < field.shape[2]:
        for c in range(8):
            if field[i + CORNERS[c][0], j + CORNERS[c][1], l + CORNERS[c][2]] < threshold:
                case = case | (1 << c)
    return case


@k.kernel
def count_cuts(
    field: k.array(dtype=float, ndim=3),
    threshold: float,
    starts: k.array(dtype=int),
    vertices: k.array(dtype=int),
    corners: k.array(dtype=int),
):
    i, j, l = k.tid()
    n = (i * field.shape[1] + j) * field.shape[2] + l
    vertices[n] = int(k.popcount(k.uint32(cut_edges(field, threshold, i, j, l))))
    case = case_of(field, threshold, i, j, l)
    corners[n] = starts[case + 1] - starts[case]


@k.kernel
def write_vertices(
    field: k.array(dtype=float, ndim=3),
    threshold: float,
    first: k.array(dtype=int),
    lower: k.vec3,
    step: k.vec3,
    vertices: k.array(dtype=k.vec3),
):
    i, j, l = k.tid()
    cuts = cut_edges(field, threshold, i, j, l)
    at = first[(i * field.shape[1] + j) * field.shape[2] + l]
    here = field[i, j, l]
    place = k.vec3(float(i), float(j), float(l))
    if cuts & 1 != 0:
        t = crossing(here, field[i + 1, j, l], threshold)
        vertices[at] = lower + k.cw_mul(step, place + k.vec3(t, 0.0, 0.0))
        at += 1
    if cuts & 2 != 0:
        t = crossing(here, field[i, j + 1, l], threshold)
        vertices[at] = lower + k.cw_mul(step, place + k.vec3(0.0, t, 0.0))
        at += 1
    if cuts & 4 != 0:
        t = crossing(here, field[i, j, l + 1], threshold)
        vertices[at] = lower + k.cw_mul(step, place + k.vec3(0.0, 0.0, t))


@k.kernel
def write_triangles(
    field: k.array(dtype=float, ndim=3),
    threshold: float,
    starts: k.array(dtype=int),
    edges: k.array(dtype=int),
    owners: k.array(dtype=int),
    first_vertex: k.array(dtype=int),
    first_corner: k.array(dtype=int),
    indices: k.array(dtype=int),
):
    i, j, l = k.tid()
    case = case_of(field, threshold, i, j, l)
    at = first_corner[(i * field.shape[1] + j) * field.shape[2] + l]
    for e in range(starts[case], starts[case + 1]):
        owner = owners[edges[e]]
        x, y, z = i + (owner & 1), j + (owner >> 1 & 1), l + (owner >> 2 & 1)
        before = cut_edges(field, threshold, x, y, z) & ((1 << (owner >> 3)) - 1)
        vertex = first_vertex[(x * field.shape[1] + y) * field.shape[2] + z]
        indices[at] = vertex + int(k.popcount(k.uint32(before)))
        at += 1


def extract(field: Any, threshold: float, lower: Any, step: Any) -> tuple[Any, Any]:
    """(vertices, indices) of a checked field; tapes differentiate the vertices by the field."""
    device = field.device
    starts, edges, owners = (array(table, dtype=int, device=device) for table in
                             (CASE_STARTS, TRIANGLE_EDGES, [_owner(e) for e in range(12)]))  # fmt: skip
    first_vertex, first_corner, vertices, indices = places(field, count_cuts, field, threshold, starts)
    if indices.size:
        inputs = [field, threshold, first_vertex, lower, step, vertices]
        launch(write_vertices, field.shape, inputs=inputs, device=device)
        inputs = [field, threshold, starts, edges, owners, first_vertex, first_corner, indices]
        launch(write_triangles, field.shape, inputs=inputs, device=device, record_tape=False)
    return vertices, indices


def _one_of(name: str, bound: Any, by_old_name: Any) -> Any:
    if by_old_name is NOT_GIVEN:
        return bound
    if bound is not None and by_old_name is not None:
        raise ArgumentError(f"Cannot specify both `{name}` and `domain_bounds_{name}_corner`")
    deprecated(f"argument `domain_bounds_{name}_corner` is", name, depth=4)
    return bound if by_old_name is None else by_old_name


class IsoSurfaceMarchingCubes(IsoSurfaceBase):
    """Surfaces of fields by marching cubes (Lorensen, Cline 1987), closed and without cracks: see `IsoSurfaceBase`.

        iso = IsoSurfaceMarchingCubes(64, 64, 64)
        iso.surface(field, threshold=0.0)
        mesh = Mesh(iso.verts, iso.indices)

    A surface that leaves the grid ends there. Nodes equal to the threshold count as outside; NaN is outside, too.
    """

    CUBE_CORNER_OFFSETS = CORNERS
    EDGE_TO_CORNERS = EDGES
    CASE_TO_TRI_RANGE = CASE_STARTS
    TRI_LOCAL_INDICES = TRIANGLE_EDGES

    def __init__(self, nx: int, ny: int, nz: int, lower: Any = None, upper: Any = None, *,
                 domain_bounds_lower_corner: Any = NOT_GIVEN, domain_bounds_upper_corner: Any = NOT_GIVEN):  # fmt: skip
        super().__init__(nx, ny, nz, _one_of("lower", lower, domain_bounds_lower_corner),
                         _one_of("upper", upper, domain_bounds_upper_corner))  # fmt: skip

    def _extract(self, field: Any, threshold: float, lower: Any, step: Any) -> tuple[Any, Any]:
        return extract(field, threshold, lower, step)

    @staticmethod
    def extract(field: Any, threshold: float = 0.0, *, lower: Any = None, upper: Any = None) -> tuple[Any, Any]:
        """(vertices, indices) of the surface of one field. Raises ArgumentError for unfit fields."""
        check_field(field)
        return extract(field, float(threshold), *bounds(field.shape, lower, upper))

    @staticmethod
    def extract_surface_marching_cubes(
        field: Any,
        threshold: float = 0.0,
        domain_bounds_lower_corner: Any = None,
        domain_bounds_upper_corner: Any = None,
    ) -> tuple[Any, Any]:
        """`extract` under Warp's older names."""
        deprecated("IsoSurfaceMarchingCubes.extract_surface_marching_cubes() is", "extract")
        return IsoSurfaceMarchingCubes.extract(
            field, threshold, lower=domain_bounds_lower_corner, upper=domain_bounds_upper_corner
        )


MarchingCubes = IsoSurfaceMarchingCubes
