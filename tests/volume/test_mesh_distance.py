"""Volumes of meshes: distances against the mesh itself, signs where nothing is stored, holes, empty meshes."""

import numpy as np
import pytest

import engine
from engine.errors import ArgumentError
from engine.volume import layout as at
from engine.volume.check import read_grid
from engine.volume.mesh_distance import store_whole_cells
from tests.geom import mesh_oracle

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
                  [0, 6, 4], [1, 5, 7], [1, 7, 3]], np.int32)  # fmt: skip


@engine.kernel
def look(volume: engine.uint64, places: engine.array(dtype=engine.vec3), value: engine.array(dtype=float)):
    i = engine.tid()
    uvw = engine.volume_world_to_index(volume, places[i])
    value[i] = engine.volume_sample_f(volume, uvw, engine.Volume.CLOSEST)


def values_at(volume, places):
    value = engine.full(len(places), 777.0, dtype=float, device=volume.device)
    at_places = engine.array(places.astype(np.float32), dtype=engine.vec3, device=volume.device)
    engine.launch(look, len(places), inputs=[volume.id, at_places, value], device=volume.device)
    return value.numpy()


def cube_distance(p, size):
    """Signed distance to the box 0 … size."""
    q = np.abs(p - size / 2) - size / 2
    return np.linalg.norm(np.maximum(q, 0.0), axis=1) + np.minimum(q.max(axis=1), 0.0)


@pytest.mark.parametrize("sign", ["rays", "winding"])
def test_a_box_in_and_around_its_band(device, sign):
    size, voxel = 12.0, 0.3
    mesh = engine.Mesh(CUBE * size, FACES, support_winding_number=sign == "winding", device=device)
    volume = engine.volume.mesh_to_volume(mesh, voxel, band=2.0, sign=sign)
    grid = read_grid(volume.array().numpy())
    assert grid.kind.name == "float" and 0 < volume.get_tile_count() < 7**3 - 1
    rng = np.random.default_rng(2)
    voxels = np.concatenate([rng.integers(-10, 50, (20000, 3)), rng.integers(-3000, 3000, (100, 3))])
    expected = np.clip(cube_distance(voxels * voxel, size), -2 * voxel, 2 * voxel)
    found = values_at(volume, voxels * voxel)
    assert found == pytest.approx(expected, abs=1e-4)
    assert (found[:20000] == np.float32(-2 * voxel)).sum() > 1000  # inside, beyond the band


def test_whole_blocks_have_a_value_without_voxels(device):
    """Of 8³ voxels in a lower node, of 128³ in an upper node; other cells and the background stay."""
    tile = np.zeros((1, 3), np.int32)
    volume = engine.Volume.allocate_by_tiles(engine.array(tile, dtype=int, device=device), 1.0, 2.0, device=device)
    cells = np.array([[8, 0, 0], [128, 256, 0], [0, 0, 0], [9000, 0, 0]], np.int32)  # a leaf and no node: not written
    inputs = [volume.id, engine.array(cells, dtype=engine.vec3i, device=device), -3.0]
    engine.launch(store_whole_cells, len(cells), inputs=inputs, device=device)
    places = np.array([[8, 0, 0], [15, 7, 7], [128, 256, 0], [255, 383, 127], [7, 7, 7], [16, 0, 0], [256, 256, 0],
                       [9000, 0, 0]])  # fmt: skip
    assert values_at(volume, places).tolist() == [-3, -3, -3, -3, 2, 2, 2, 2]


def test_tiles_are_only_where_the_band_is():
    volume = engine.volume.mesh_to_volume(engine.Mesh(CUBE * 8.0, FACES), 0.1, band=3.0)
    stored = volume.array().numpy()
    grid, spot = read_grid(stored), at.layout(at.KINDS[1])
    leaves = stored[grid.first_leaf :].reshape(-1, spot.leaf)[:, spot.leaf_values :].copy().view(np.float32)
    assert (np.abs(leaves) < np.float32(0.3)).any(axis=1).mean() > 0.5


def test_a_mesh_with_a_hole_has_an_inside_by_its_winding_number():
    open_box = engine.Mesh(CUBE, FACES[2:], support_winding_number=True)
    volume = engine.volume.mesh_to_volume(open_box, 0.05, band=3.0, sign="winding")
    deep = np.array([[0.85, 0.5, 0.5], [0.7, 0.5, 0.4], [0.95, 0.3, 0.8]])
    assert (values_at(volume, deep) < 0).all()
    assert (values_at(volume, deep + [0.35, 0, 0]) > 0).all()


def test_what_is_empty_or_refused():
    empty = engine.Mesh(np.zeros((0, 3), np.float32), np.zeros(0, np.int32))
    volume = engine.volume.mesh_to_volume(empty, 0.1)
    assert volume.get_tile_count() == 0 and values_at(volume, np.zeros((1, 3)))[0] == pytest.approx(0.3)
    broken = engine.Mesh(np.array([[np.nan, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32), np.array([0, 1, 2], np.int32))
    assert engine.volume.mesh_to_volume(broken, 0.1).get_tile_count() == 0
    cube = engine.Mesh(CUBE, FACES)
    for voxel, band, sign in ((0.0, 3, "rays"), (-1, 3, "rays"), (np.nan, 3, "rays"), (1, 0, "rays"), (1, 3, "normal"),
                              (1e-9, 3, "rays")):  # fmt: skip
        with pytest.raises(ArgumentError):
            engine.volume.mesh_to_volume(cube, voxel, band=band, sign=sign)


@pytest.mark.parametrize("move", [0.0, 300.0])
@pytest.mark.parametrize("name", ["spiky", "torus"])
def test_each_voxel_has_the_distance_and_side_that_the_mesh_says(name, move):
    """Voxels of a row take over their neighbour's side and bound; each asked by itself says the same."""
    v, f = mesh_oracle.CLOSED[name]
    mesh = engine.Mesh(v + np.float32(move), f)
    voxel, band = np.float32(0.11), 2.5
    volume = engine.volume.mesh_to_volume(mesh, voxel, band=band)
    voxels = volume.get_voxels().numpy()
    places = voxels.astype(np.float32) * voxel
    near = mesh.closest(places, max_dist=band * voxel)
    distance = np.where(near.face >= 0, near.distance, np.float32(band * voxel))
    expected = np.where(mesh.contains(places), -distance, distance)
    np.testing.assert_allclose(values_at(volume, places), expected, rtol=1e-6, atol=1e-6)
