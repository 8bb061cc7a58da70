"""The USD importer: mesh colliders by their approximation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.geom.shapes import ShapeType
from engine.sim.scene_records import SceneRecords
from tests.sim.usd_text import CUBE, MESH, ops, parse

# The same with the top pushed in to the middle: not convex.
DENT = CUBE.replace("4,5,6,7,", "").replace("[4, 4, 4, 4, 4, 4]", "[4, 4, 4, 4, 4, 3, 3, 3, 3]").replace(
    "(0,1,1)]", "(0,1,1), (0.5,0.5,0.3)]").replace("3,0,4,7]", "3,0,4,7, 4,5,8, 5,6,8, 6,7,8, 7,4,8]")  # fmt: skip


def mesh(tmp_path: Path, data: str, approximation: str, rigid: bool = True, extra: str = "") -> SceneRecords:
    api = MESH.replace("= [", '= ["PhysicsRigidBodyAPI", ') if rigid else MESH
    token = f'uniform token physics:approximation = "{approximation}"' if approximation else ""
    return parse(tmp_path, f'def Mesh "m" ({api}) {{ {data} {token}\n {extra} }}')


@pytest.mark.parametrize("approximation", ["", "none", "convexHull", "convexDecomposition", "meshSimplification"])
@pytest.mark.parametrize("scale", ["(2, 2, 2)", "(2, 2, -2)"])
def test_convex_mesh_is_exact_whatever_the_approximation(tmp_path: Path, approximation: str, scale: str) -> None:
    records = mesh(tmp_path, CUBE, approximation, extra=ops(scale=scale))
    assert records.shapes[0].type == ShapeType.HULL and not list(records.report)
    np.testing.assert_allclose(records.bodies[0].mass, 8000, rtol=1e-5)
    np.testing.assert_allclose(np.abs(records.bodies[0].com), [1, 1, 1], rtol=1e-5)


def test_concave_mesh_becomes_its_hull_and_says_so(tmp_path: Path) -> None:
    records = mesh(tmp_path, DENT, "none")
    assert str(next(iter(records.report))) == "mesh approximation 'none': its convex hull is used (/W/m)"
    np.testing.assert_allclose(records.bodies[0].mass, 1000, rtol=1e-5)


def test_concave_static_mesh_is_left_out_and_says_so(tmp_path: Path) -> None:
    records = mesh(tmp_path, DENT, "none", rigid=False)
    assert not records.shapes and records.report.kinds() == {"triangle mesh collider (none)"}


def test_bounding_shapes(tmp_path: Path) -> None:
    box = mesh(tmp_path, CUBE, "boundingCube", extra=ops(scale="(2, 2, 4)")).shapes[0]
    assert box.type == ShapeType.BOX
    np.testing.assert_allclose(box.scale, [1, 1, 2])
    np.testing.assert_allclose(box.pose[:3], [1, 1, 2])
    ball = mesh(tmp_path, CUBE, "boundingSphere").shapes[0]
    assert ball.type == ShapeType.SPHERE and ball.scale[0] == pytest.approx(3**0.5 / 2)


@pytest.mark.parametrize("order", ["3, 2, 1, 0", "0, 1, 2, 3"])
def test_flat_static_mesh_is_a_slab_below_its_face(tmp_path: Path, order: str) -> None:
    quad = f"""point3f[] points = [(-5, 5, 2), (5, 5, 2), (5, -5, 2), (-5, -5, 2)]
    int[] faceVertexCounts = [4]
    int[] faceVertexIndices = [{order}]
    """
    records = mesh(tmp_path, quad, "none", rigid=False)
    heights = records.shapes[0].hull.vertices[:, 2]
    assert heights.max() == pytest.approx(2.0) and heights.min() == pytest.approx(1.0)
    assert records.report.kinds() == {"flat triangle mesh"}
