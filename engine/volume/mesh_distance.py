"""Meshes to volumes: signed distances in a narrow band around the surface, ± the band's width elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compiler import lang as k
from engine.context import array, empty, launch
from engine.errors import ArgumentError
from engine.geom.bvh import Tree, tree_of
from engine.geom.point_query import closest, sign_by_rays, winding_number
from engine.geom.query_mesh import Mesh
from engine.geom.ray_query import corner
from engine.volume import layout as at
from engine.volume.assemble import Ints, assemble
from engine.volume.sample import find, grid_of, volume_store
from engine.volume.sparse_volume import Volume

BLOCK, TILE = 128, 8  # voxels along a lower node and along a leaf
NEAR, ROUNDING = 1.001, 2.0**-21  # of voxels and of coordinates: more than rounding changes distances by


@k.func
def distance_to(tree: Tree, point: k.vec3, reach: float) -> float:
    """To the surface; `reach` where nothing is nearer than that."""
    face, w = closest(tree, point, reach)
    distance = reach
    if face >= 0:
        a, b, c = corner(tree, face, 0), corner(tree, face, 1), corner(tree, face, 2)
        nearest = k.vec3d(a) * w[0] + k.vec3d(b) * w[1] + k.vec3d(c) * w[2]
        distance = float(k.length(nearest - k.vec3d(point)))
    return distance


@k.func
def is_inside(tree: Tree, point: k.vec3, by_winding: int) -> bool:
    inside = False
    if by_winding == 1:
        inside = winding_number(tree, point, 2.0) > 0.5
    else:
        inside = sign_by_rays(tree, point, False) < 0.0
    return inside


@k.kernel
def measure_cells(mesh: k.uint64, by_winding: int, corners: k.array(dtype=k.vec3i), side: float, voxel: float,
                  reach: float, distance: k.array(dtype=float)):  # fmt: skip
    """At the centre of cells of side³ voxels."""
    i = k.tid()
    half = 0.5 * (side - 1.0)
    p = k.vec3(float(corners[i][0]) + half, float(corners[i][1]) + half, float(corners[i][2]) + half) * voxel
    tree = tree_of(mesh)
    far = distance_to(tree, p, reach)
    distance[i] = -far if is_inside(tree, p, by_winding) else far


@k.kernel
def measure_voxels(mesh: k.uint64, by_winding: int, volume: k.uint64, voxels: k.array(dtype=k.vec3i), voxel: float,
                   band: float):  # fmt: skip
    """A row of a tile. A voxel's distance is at most its neighbour's and a voxel; where the sum of both is more than a
    voxel, the surface has no room between them, and they are on one side. Winding numbers of meshes with holes change
    elsewhere, too: there each voxel is asked."""
    row = k.tid()
    tree = tree_of(mesh)
    inside = False
    before = band
    step = 0
    while step < TILE:
        v = voxels[TILE * row + step]
        p = k.vec3(float(v[0]), float(v[1]), float(v[2])) * voxel
        apart = voxel * NEAR + (k.abs(p[0]) + k.abs(p[1]) + k.abs(p[2])) * ROUNDING  # of neighbours, at most
        far = distance_to(tree, p, k.min(band, before + apart))
        if by_winding == 1 or step == 0 or before + far <= apart:
            inside = is_inside(tree, p, by_winding)
        volume_store(volume, v[0], v[1], v[2], -far if inside else far)
        before = far
        step += 1


@k.kernel
def store_whole_cells(volume: k.uint64, corners: k.array(dtype=k.vec3i), value: float):
    """Writes the value of cells without voxels of their own into the nodes above."""
    v = corners[k.tid()]
    g = grid_of(volume)
    leaf, place = find(g, v[0], v[1], v[2])
    if leaf < k.int64(0) and place != g.background:
        values = array(ptr=g.words.ptr + k.uint64(place), shape=1, dtype=k.float32)
        values[0] = value


def mesh_to_volume(mesh: Mesh, voxel_size: float, band: float = 3.0, sign: str = "rays") -> Volume:
    """The signed distance to a mesh, negative inside, as a float volume (a narrow-band level set).

    voxel_size: metres. band: voxels on both sides of the surface that have their distance, in metres; others hold
    ± band · voxel_size. sign: "rays" for closed meshes with their right side out, "winding" for those with holes.
    Raises ArgumentError for sizes that are not positive, and for meshes that need more voxels than there can be.
    """
    if not (math.isfinite(voxel_size) and voxel_size > 0.0 and math.isfinite(band) and band > 0.0):
        raise ArgumentError(f"voxel_size and band must be positive, got {voxel_size!r} and {band!r}")
    if sign not in ("rays", "winding"):
        raise ArgumentError(f'sign must be "rays" or "winding", got {sign!r}')
    reach = band * voxel_size
    measure = _Measure(mesh, voxel_size, band, int(sign == "winding"))
    blocks, whole_blocks = measure.split(_cover(mesh, voxel_size, band), BLOCK)
    tiles, whole_tiles = measure.split(_parts(blocks, BLOCK, TILE), TILE)
    data, _order = assemble(at.KINDS[1], tiles, None, np.float32(reach).tobytes(), np.eye(3) * voxel_size, np.zeros(3),
                            grid_class=at.LEVEL_SET)  # fmt: skip
    volume = Volume(array(data, dtype=k.uint8, device=mesh.device), copy=False)
    for cells in (whole_blocks, whole_tiles):
        if len(cells):
            inputs = [volume.id, _coordinates(cells, mesh.device), -reach]
            launch(store_whole_cells, len(cells), inputs=inputs, device=mesh.device)
    if len(tiles):
        voxels = _coordinates(volume.get_voxels().numpy(), mesh.device)
        inputs = [mesh.id, measure.by_winding, volume.id, voxels, voxel_size, reach]
        launch(measure_voxels, len(voxels) // TILE, inputs=inputs, device=mesh.device)
    return volume


class _Measure:
    """Which cells the band goes through, and which lie inside as a whole."""

    def __init__(self, mesh: Mesh, voxel_size: float, band: float, by_winding: int):
        self.mesh, self.voxel_size, self.band, self.by_winding = mesh, voxel_size, band, by_winding

    def split(self, cells: Ints, side: int) -> tuple[Ints, Ints]:
        """(cells near the surface, others inside) of cells of side³ voxels, by the distance at their centres."""
        device = self.mesh.device
        reach = self.voxel_size * (0.5 * math.sqrt(3.0) * side + self.band)
        distance = empty(len(cells), dtype=float, device=device)
        if len(cells):
            corners = _coordinates(cells, device)
            inputs = [self.mesh.id, self.by_winding, corners, float(side), self.voxel_size, reach, distance]
            launch(measure_cells, len(cells), inputs=inputs, device=device)
        far = distance.numpy()
        near = np.abs(far) < np.float32(reach)
        return cells[near], cells[~near & (far < 0.0)]


def _coordinates(cells: NDArray[Any], device: Any) -> Any:
    return array(cells.astype(np.int32), dtype=k.vec3i, device=device)


def _cover(mesh: Mesh, voxel_size: float, band: float) -> Ints:
    """Blocks that hold the mesh with its band."""
    points = mesh.points.numpy()[mesh.indices.numpy().reshape(-1, 3)]
    points = points[np.isfinite(points).all(axis=(1, 2))].reshape(-1, 3).astype(np.float64)
    if not len(points):
        return np.zeros((0, 3), np.int64)
    low = np.floor((points.min(axis=0) / voxel_size - band) / BLOCK)
    high = np.floor((points.max(axis=0) / voxel_size + band) / BLOCK)
    if max(np.abs(low).max(), np.abs(high).max()) * BLOCK > 2**30 or np.prod(high - low + 1) > 2**24:
        raise ArgumentError(f"a mesh of {np.ptp(points, axis=0)} m has too many voxels of {voxel_size} m")
    axes = [np.arange(int(a), int(b) + 1) * BLOCK for a, b in zip(low, high)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def _parts(cells: Ints, side: int, part: int) -> Ints:
    """The smaller cells that cells are made of."""
    steps = np.arange(0, side, part)
    inside = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    return (cells[:, None, :] + inside).reshape(-1, 3)
