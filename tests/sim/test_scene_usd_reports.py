"""The USD importer: what is reported, and what is refused with the file and the prim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.errors import SceneError
from engine.sim.scene_records import make_builder
from engine.sim.scene_usd import read
from tests.sim.usd_text import COLLIDER, CUBE, ENDS, MASSIVE, MESH, RIGID, TWO, ops, parse


def error_of(tmp_path: Path, body: str) -> str:
    """The message of the SceneError that reading and building raise, without the folder."""
    with pytest.raises(SceneError) as caught:
        make_builder(parse(tmp_path, body)).finalize()
    return str(caught.value).replace(f"{tmp_path}/", "")


# -- what is not supported ---------------------------------------------------------------------------------------------


def test_everything_unknown_is_reported_once_per_kind_with_its_prim(tmp_path: Path) -> None:
    body = f"""def Cube "x" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "FooSolverAPI"])
    {{ float physxRigidBody:linearDamping = 3 }}
    def Cube "y" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "FooSolverAPI"]) {{}}
    def BarActuator "act" {{}}
    def TetMesh "jelly" {{}}
    def Cone "cone" ({COLLIDER}) {{}}
    def Xform "group" ({COLLIDER}) {{}}"""
    records = parse(tmp_path, body)
    told = [str(f) for f in records.report]
    assert "FooSolverAPI: not supported yet, ignored (/W/x and 1 more)" in told
    assert "physxRigidBody:*: attributes of another engine, ignored (/W/x)" in told
    assert "prim type BarActuator: unknown, ignored (/W/act)" in told
    assert "TetMesh: soft bodies are not supported yet (/W/jelly)" in told
    assert "cone: approximated by a convex hull (/W/cone)" in told
    assert any("CollisionAPI" in text and "/W/group" in text for text in told)


def test_prototypes_of_point_instancers_are_not_bodies(tmp_path: Path) -> None:
    body = f"""def PointInstancer "many"
    {{
        rel prototypes = </W/many/proto>
        int[] protoIndices = [0, 0]
        point3f[] positions = [(0, 0, 0), (5, 0, 0)]
        def Sphere "proto" ({RIGID}) {{}}
    }}"""
    records = parse(tmp_path, body)
    assert not records.bodies and not records.shapes
    assert [str(f) for f in records.report] == ["PointInstancer with physics: not supported yet, ignored (/W/many)"]


def test_a_plain_scene_has_nothing_to_report(tmp_path: Path) -> None:
    body = f"""def PhysicsScene "s" {{}}
    def Cube "x" ({RIGID}) {{ color3f[] primvars:displayColor = [(1, 0, 0)] }}
    def DistantLight "sun" {{}}
    def Camera "eye" {{}}"""
    assert not list(parse(tmp_path, body).report)


# -- bad input ---------------------------------------------------------------------------------------------------------


BAD = {
    "NaN mass": (
        f'def Cube "box" ({MASSIVE}) {{ float physics:mass = nan }}',
        "scene.usda: /W/box: physics:mass is nan, not a finite number",
    ),
    "negative mass": (
        f'def Cube "box" ({MASSIVE}) {{ float physics:mass = -2 }}',
        "scene.usda: /W/box: physics:mass is -2, must not be negative",
    ),
    "negative density": (
        f'def Cube "box" ({MASSIVE}) {{ float physics:density = -5 }}',
        "scene.usda: /W/box: physics:density is -5, must not be negative",
    ),
    "inertia": (
        f'def Cube "box" ({MASSIVE}) {{ float3 physics:diagonalInertia = (1, 1, 5)\n float physics:mass = 1 }}',
        "scene.usda: /W/box: principal moments of inertia 1, 1, 5 violate the triangle inequality",
    ),
    "no faces": (
        f'def Mesh "m" ({MESH}) {{ point3f[] points = [(0, 0, 0)] }}',
        "scene.usda: /W/m: mesh has no faces",
    ),
    "face index": (
        f'def Mesh "m" ({MESH}) {{ {CUBE.replace("0,3,2,1", "0,3,2,9")} }}',
        "scene.usda: /W/m: faceVertexIndices go from 0 to 9, there are 8 points",
    ),
    "NaN point": (
        f'def Mesh "m" ({MESH}) {{ {CUBE.replace("(1,0,0)", "(1,nan,0)")} }}',
        "scene.usda: /W/m: point 1 is not finite",
    ),
    "missing body": (
        f'{TWO} def PhysicsFixedJoint "j" {{ rel physics:body0 = </W/a>\n rel physics:body1 = </W/nobody> }}',
        "scene.usda: /W/j: body1 refers to /W/nobody, which does not exist",
    ),
    "no body": ('def PhysicsFixedJoint "j" {}', "scene.usda: /W/j: joint names neither body0 nor body1"),
    "radius": (
        f'def Sphere "s" ({RIGID}) {{ double radius = 0 }}',
        "scene.usda: /W/s: radius is 0, must be positive",
    ),
    "scale": (
        f'def Cube "c" ({RIGID}) {{ {ops(scale="(1, 0, 1)")} }}',
        "scene.usda: /W/c: transform has a scale of zero",
    ),
    "pose": (
        f'def Cube "c" ({RIGID}) {{ {ops(translate="(0, nan, 0)")} }}',
        "scene.usda: /W/c: transform is not finite",
    ),
    "type": (
        f'def Cube "box" ({MASSIVE}) {{ string physics:mass = "heavy" }}',
        "scene.usda: /W/box: physics:mass is 'heavy', not a number",
    ),
    "drive": (
        f"""{TWO} def PhysicsRevoluteJoint "j" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
        {{ {ENDS} float drive:angular:physics:stiffness = -1 }}""",
        "scene.usda: /W/j: stiffness of the drive is -1, must not be negative",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_values_name_the_file_and_the_prim(tmp_path: Path, case: str) -> None:
    body, message = BAD[case]
    assert error_of(tmp_path, body) == message


def test_bad_files(tmp_path: Path) -> None:
    good = tmp_path / "good.usda"
    good.write_text('#usda 1.0\ndef Xform "W" {\n def Cube "c" {}\n}\n')
    from pxr import Sdf

    Sdf.Layer.FindOrOpen(str(good)).Export(str(tmp_path / "good.usdc"))
    (tmp_path / "cut.usdc").write_bytes((tmp_path / "good.usdc").read_bytes()[:200])
    (tmp_path / "cut.usda").write_text(good.read_text()[:30])
    (tmp_path / "text.usda").write_text("hello\n")
    (tmp_path / "empty.usdc").write_bytes(b"")
    (tmp_path / "unit.usda").write_text("#usda 1.0\n(\n metersPerUnit = 0\n)\n")
    reasons = {
        "none.usda": "no such file",
        "cut.usda": "not a USD file, or damaged (.*)",
        "cut.usdc": "not a USD file, or damaged (.*)",
        "text.usda": "not a USD file, or damaged (.*)",
        "empty.usdc": "not a USD file, or damaged (.*)",
        "unit.usda": "metersPerUnit is 0, not a positive number",
    }
    for name, reason in reasons.items():
        with pytest.raises(SceneError) as caught:
            read(tmp_path / name)
        text = str(caught.value)
        assert re.fullmatch(re.escape(f"{tmp_path / name}: ") + reason.replace("(.*)", r"\(.*\)"), text), text
        assert "\n" not in text
