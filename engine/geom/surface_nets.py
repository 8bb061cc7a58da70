"""Surface nets: the surface of a field with one vertex in each cell that it goes through, one quad for each cut edge.

Gibson 1998, "Constrained Elastic Surface Nets", without the relaxation: a vertex is the mean of its cell's crossings.
The meshes have better triangles than those of marching cubes, and as many quads as those have vertices.
"""

from __future__ import annotations

from typing import Any

from engine.compiler import lang as k
from engine.context import launch
from engine.errors import ArgumentError
from engine.geom.cube_cases import CORNERS, EDGES
from engine.geom.iso_surface import IsoSurfaceBase, bounds, check_field, crossing, places
from engine.geom.marching_cubes import case_of, cut_edges

TOPOLOGIES = {"triangle": 6, "quad": 4}  # indices for each cut edge


@k.func
def inner_cuts(field: k.array(dtype=float, ndim=3), threshold: float, i: int, j: int, l: int) -> int:
    """Which cut edges from a node have four cells around them: those that do not lie in the grid's border."""
    cuts = cut_edges(field, threshold, i, j, l)
    x = i > 0 and i + 1 < field.shape[0]
    y = j > 0 and j + 1 < field.shape[1]
    z = l > 0 and l + 1 < field.shape[2]
    kept = 0
    if y and z:
        kept = cuts & 1
    if x and z:
        kept = kept | (cuts & 2)
    if x and y:
        kept = kept | (cuts & 4)
    return kept


@k.kernel
def count_cells(
    field: k.array(dtype=float, ndim=3),
    threshold: float,
    per_edge: int,
    vertices: k.array(dtype=int),
    corners: k.array(dtype=int),
):
    i, j, l = k.tid()
    n = (i * field.shape[1] + j) * field.shape[2] + l
    case = case_of(field, threshold, i, j, l)
    vertices[n] = 1 if case != 0 and case != 255 else 0
    corners[n] = per_edge * int(k.popcount(k.uint32(inner_cuts(field, threshold, i, j, l))))


@k.kernel
def write_means(
    field: k.array(dtype=float, ndim=3),
    threshold: float,
    first: k.array(dtype=int),
    lower: k.vec3,
    step: k.vec3,
    vertices: k.array(dtype=k.vec3),
):
    """Vertices: the mean of the crossings of a cell's edges."""
    i, j, l = k.tid()
    case = case_of(field, threshold, i, j, l)
    if case != 0 and case != 255:
        total = k.vec3()
        count = 0.0
        for e in k.static(range(12)):
            a, b = k.static(CORNERS[EDGES[e][0]]), k.static(CORNERS[EDGES[e][1]])
            if (case >> k.static(EDGES[e][0]) & 1) != (case >> k.static(EDGES[e][1]) & 1):
                t = crossing(field[i + a[0], j + a[1], l + a[2]], field[i + b[0], j + b[1], l + b[2]], threshold)
                low = k.vec3(float(a[0]), float(a[1]), float(a[2]))
                total += low + (k.vec3(float(b[0]), float(b[1]), float(b[2])) - low) * t
                count += 1.0
        place = k.vec3(float(i), float(j), float(l)) + total / count
        vertices[first[(i * field.shape[1] + j) * field.shape[2] + l]] = lower + k.cw_mul(step, place)


@k.func
def write_face(indices: k.array(dtype=int), at: int, per_edge: int, turned: bool, a: int, b: int, c: int, d: int):
    """The quad a, b, c, d around an edge, or two triangles; turned round where the edge leaves the inside."""
    second, fourth = b, d
    if turned:
        second, fourth = d, b
    indices[at] = a
    indices[at + 1] = second
    indices[at + 2] = c
    if per_edge == 4:
        indices[at + 3] = fourth
    else:
        indices[at + 3] = a
        indices[at + 4] = c
        indices[at + 5] = fourth


@k.kernel
def write_faces(
    field: k.array(dtype=float, ndim=3),
    threshold: float,
    per_edge: int,
    first_vertex: k.array(dtype=int),
    first_corner: k.array(dtype=int),
    indices: k.array(dtype=int),
):
    i, j, l = k.tid()
    cuts = inner_cuts(field, threshold, i, j, l)
    along_y, along_x = field.shape[2], field.shape[1] * field.shape[2]
    n = i * along_x + j * along_y + l
    at = first_corner[n]
    v = first_vertex
    turned = not (field[i, j, l] < threshold)
    if cuts & 1 != 0:
        write_face(indices, at, per_edge, turned, v[n - along_y - 1], v[n - 1], v[n], v[n - along_y])
        at += per_edge
    if cuts & 2 != 0:
        write_face(indices, at, per_edge, turned, v[n - along_x - 1], v[n - along_x], v[n], v[n - 1])
        at += per_edge
    if cuts & 4 != 0:
        write_face(indices, at, per_edge, turned, v[n - along_x - along_y], v[n - along_y], v[n], v[n - along_x])


def extract(field: Any, threshold: float, lower: Any, step: Any, topology: str) -> tuple[Any, Any]:
    """(vertices, indices) of a checked field; tapes differentiate the vertices by the field."""
    device, per_edge = field.device, TOPOLOGIES[topology]
    first_vertex, first_corner, vertices, indices = places(field, count_cells, field, threshold, per_edge)
    if vertices.size:
        inputs = [field, threshold, first_vertex, lower, step, vertices]
        launch(write_means, field.shape, inputs=inputs, device=device)
    if indices.size:
        inputs = [field, threshold, per_edge, first_vertex, first_corner, indices]
        launch(write_faces, field.shape, inputs=inputs, device=device, record_tape=False)
    return vertices, indices


def _check_topology(topology: str) -> None:
    if topology not in TOPOLOGIES:
        raise ArgumentError(f"topology must be one of {', '.join(TOPOLOGIES)}, got {topology!r}")


class IsoSurfaceNets(IsoSurfaceBase):
    """Surfaces of fields by surface nets: `IsoSurfaceBase`. topology: "triangle", or "quad" for four indices a face.

    Where a cell's inside falls into two parts that touch at a face or an edge, both share the cell's vertex.
    """

    def __init__(self, nx: int, ny: int, nz: int, *, lower: Any = None, upper: Any = None, topology: str = "triangle"):
        _check_topology(topology)
        self.topology = topology
        super().__init__(nx, ny, nz, lower, upper)

    def _extract(self, field: Any, threshold: float, lower: Any, step: Any) -> tuple[Any, Any]:
        return extract(field, threshold, lower, step, self.topology)

    @staticmethod
    def extract(
        field: Any, threshold: float = 0.0, *, lower: Any = None, upper: Any = None, topology: str = "triangle"
    ) -> tuple[Any, Any]:
        """(vertices, indices) of the surface of one field. Raises ArgumentError for unfit fields."""
        check_field(field)
        _check_topology(topology)
        return extract(field, float(threshold), *bounds(field.shape, lower, upper), topology)


SurfaceNets = IsoSurfaceNets
