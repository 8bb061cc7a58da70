"""Reports and repairs of meshes: each fault by itself, all of them together, files, and meshes of others."""

import itertools

import numpy as np
import pytest

import engine
from engine.geom import inspect_mesh, load_mesh, repair_mesh, save_mesh
from tests.geom import mesh_oracle

V, F = mesh_oracle.box()
V = V.astype(float)
CLEAN = inspect_mesh(V, F)
FAULTS = ("bad_indices", "not_finite", "unused", "repeated", "degenerate", "duplicate", "open_edges", "crowded_edges",
          "flipped_edges")  # fmt: skip


def faults(report):
    return {name: getattr(report, name) for name in FAULTS if getattr(report, name)}


def test_a_sound_mesh():
    assert CLEAN.sound and CLEAN.closed and not CLEAN.inside_out and faults(CLEAN) == {}
    assert (CLEAN.vertices, CLEAN.triangles, CLEAN.parts) == (8, 12, 1)
    assert CLEAN.volume == pytest.approx(1.0) and CLEAN.area == pytest.approx(6.0)
    assert str(CLEAN) == "8 vertices, 12 triangles, 1 part, closed, area 6 m², volume 1 m³"


def test_each_fault_by_itself():
    turned = F.copy()
    turned[0] = turned[0, ::-1]
    cases = [
        (V, F[1:], {"open_edges": 3}),
        (V, turned, {"flipped_edges": 3}),
        (V, np.vstack([F, F[:1]]), {"duplicate": 1, "crowded_edges": 3}),
        (V, np.vstack([F, [[0, 1, 8]], [[-1, 0, 1]]]), {"bad_indices": 2}),
        (np.vstack([V, [[9, 9, 9]], [[np.nan, 0, 0]]]), F, {"unused": 2}),
        (np.vstack([V, V[:2]]), np.where(F == 0, 8, F), {"repeated": 2, "unused": 2}),
        (np.vstack([V, [[np.inf, 0, 0]]]), np.vstack([F, [[0, 1, 8]]]), {"not_finite": 1}),
        (V, np.vstack([F, [[0, 0, 1]]]), {"degenerate": 1, "crowded_edges": 1}),
    ]
    for vertices, triangles, expected in cases:
        report = inspect_mesh(vertices, triangles)
        assert faults(report) == expected
        for name in expected:
            text = {"bad_indices": "out of range", "not_finite": "not finite", "open_edges": "with one triangle only"}
            assert text.get(name, "  ") in str(report)
        assert not report.sound or expected.keys() <= {"unused", "repeated"}


def test_inside_out_parts_and_nothing():
    assert inspect_mesh(V, F[:, ::-1]).inside_out and "inside out" in str(inspect_mesh(V, F[:, ::-1]))
    two = inspect_mesh(np.vstack([V, V + 5]), np.vstack([F, F + 8]))
    assert two.parts == 2 and two.sound and two.volume == pytest.approx(2.0)
    strip = np.arange(600)
    places = np.stack([strip, strip % 2, 0 * strip], axis=1)
    chain = inspect_mesh(places, np.stack([strip[:-2], strip[1:-1], strip[2:]], axis=1))
    assert chain.parts == 1 and chain.open_edges == 600
    nothing = inspect_mesh(np.zeros((0, 3)), np.zeros((0, 3), int))
    assert faults(nothing) == {} and not nothing.closed and nothing.parts == 0
    for v, f in ((V[:, :2], F), (V, F.astype(float)), (V, F[:, :2].ravel()[:5])):
        with pytest.raises(ValueError, match="a mesh is"):
            inspect_mesh(v, f)


def test_repairs_of_each_fault():
    turned = F.copy()
    turned[[0, 5, 7]] = turned[[0, 5, 7], ::-1]
    soup = V[F].reshape(-1, 3)
    broken = np.vstack([V, [[np.nan, 0, 0]]])
    for vertices, triangles in [
        (V, turned), (V, F[:, ::-1]), (V, F[1:]), (V, np.vstack([F, F[3:5], F[3:5, ::-1]])),
        (soup, np.arange(36).reshape(12, 3)), (broken, np.vstack([F, [[0, 1, 8]], [[0, 1, 99]], [[2, 2, 3]]])),
    ]:  # fmt: skip
        repair = repair_mesh(vertices, triangles)
        assert repair.after.sound and repair.after.volume == pytest.approx(1.0), repair
        assert repair.before == inspect_mesh(vertices, triangles)
        assert engine.Mesh(repair.mesh.vertices.astype(np.float32), repair.mesh.triangles).contains([[0, 0, 0]]).all()
    assert repair_mesh(V, F[1:], fill_holes=False).after.open_edges == 3
    with pytest.raises(ValueError):
        repair_mesh(V, F[:0])


@pytest.mark.parametrize("kind", ["obj", "stl", "ply", "glb", "off"])
def test_files_come_back(tmp_path, kind):
    path = tmp_path / f"mesh.{kind}"
    v, f = mesh_oracle.CLOSED["torus"]
    save_mesh(path, v, f)
    back = load_mesh(path)
    assert back.report().sound and len(back.triangles) == len(f)
    assert back.report().volume == pytest.approx(inspect_mesh(v, f).volume, rel=1e-6)


def test_what_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="cannot write a mesh as 'xyz9'"):
        save_mesh(tmp_path / "a.xyz9", V, F)
    with pytest.raises(ValueError, match="out of range"):
        save_mesh(tmp_path / "a.obj", V, F + 1)
    assert not list(tmp_path.iterdir())


def test_meshes_of_others(assets):
    """`busted.STL` and `wallhole.obj` are broken on purpose; a repair leaves no fault that it speaks of."""
    folder = assets / "meshes/trimesh/models"
    for name in ("busted.STL", "wallhole.obj", "not_convex.obj", "joined_tetrahedra.obj", "featuretype.STL"):
        mesh = load_mesh(folder / name)
        repair = repair_mesh(mesh.vertices, mesh.triangles)
        after = repair.after
        assert not (after.bad_indices or after.not_finite or after.duplicate or after.repeated or after.unused), repair
        assert after.open_edges <= repair.before.open_edges and after.flipped_edges <= repair.before.flipped_edges
    assert load_mesh(folder / "featuretype.STL").report().sound


def test_reports_agree_with_trimesh():
    import trimesh

    for v, f in itertools.islice(mesh_oracle.CLOSED.values(), 5):
        for triangles in (f, f[1:], np.vstack([f[:-1], f[-1:, ::-1]])):
            report, other = inspect_mesh(v, triangles), trimesh.Trimesh(v, triangles, process=False)
            assert report.closed == (other.is_watertight and other.is_winding_consistent)
            assert report.area == pytest.approx(other.area) and report.parts == other.body_count
