"""Mesh arrays and files: what is accepted, what is refused and in which words; hulls of real meshes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engine.geom import inertia
from engine.geom.hull import Hull, convex_hull
from engine.geom.mesh import load_mesh, make_mesh

CUBE = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
FACES = convex_hull(CUBE).triangles()


def write_obj(path, vertices, faces, extra=""):
    lines = [extra, *(f"v {x} {y} {z}" for x, y, z in vertices), *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_becomes_a_closed_mesh(tmp_path):
    mesh = load_mesh(write_obj(tmp_path / "cube.obj", CUBE, FACES, "mtllib none.mtl\nusemtl x"))
    assert mesh.closed and len(mesh.vertices) == 8 and len(mesh.triangles) == 12
    assert inertia.mesh(1000.0, mesh.vertices, mesh.triangles).mass == pytest.approx(1000.0)


def test_split_corners_are_welded(tmp_path):
    """STL-like files repeat each corner: the mesh is closed all the same."""
    split = CUBE[FACES].reshape(-1, 3)
    mesh = load_mesh(write_obj(tmp_path / "soup.obj", split, np.arange(36).reshape(12, 3)))
    assert mesh.closed and len(mesh.vertices) == 8


@pytest.mark.parametrize(
    "vertices, triangles, text",
    [
        (CUBE, [], "mesh has no faces"),
        (CUBE[:, :2], FACES, "mesh vertices have shape (8, 2), not (n, 3)"),
        (CUBE, FACES.astype(float), "mesh triangles have shape (12, 3) of float64, not (m, 3) integers"),
        (CUBE, [[0, 1, 2, 3]], "mesh triangles have shape (1, 4) of int64, not (m, 3) integers"),
        (CUBE, [[0, 1, -1]], "mesh face index -1 is out of range 0 … 7"),
        (CUBE, [[0, 1, 8]], "mesh face index 8 is out of range 0 … 7"),
        (np.where(np.arange(24).reshape(8, 3) == 4, np.inf, CUBE), FACES, "mesh vertex 1 is not finite"),
    ],
)
def test_bad_arrays(vertices, triangles, text):
    with pytest.raises(ValueError) as error:
        make_mesh(vertices, triangles)
    assert str(error.value) == text


@pytest.mark.parametrize("name, content", [("a.obj", b""), ("a.stl", b"solid"), ("a.ply", b"\0" * 9), ("a.xyz9", b"1")])
def test_bad_files_are_named(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: cannot read a mesh: "):
        load_mesh(path)
    with pytest.raises(ValueError, match="gone.obj: cannot read a mesh: "):
        load_mesh(tmp_path / "gone.obj")


def test_hulls_of_real_meshes(assets):
    """Nothing lies farther outside than the hull says, and a reduced hull stays within 3 % of the extent."""
    names = [
        "20mm-xyz-cube.stl",
        "featuretype.STL",
        "octagonal_pocket.ply",
        "unit_sphere.STL",
        "busted.STL",
        "monkey.glb",
    ]
    for name in names:
        mesh = load_mesh(assets / "meshes" / "trimesh" / "models" / name)
        hull = convex_hull(mesh.vertices)
        assert isinstance(hull, Hull), name
        extent = np.ptp(mesh.vertices, axis=0).max()
        outside = (mesh.vertices @ hull.planes[:, :3].T - hull.planes[:, 3]).max()
        assert outside <= hull.error + 2e-5 * extent and hull.error < 0.03 * extent, name
        assert len(hull.vertices) - len(hull.edges) + len(hull.faces) == 2, name
