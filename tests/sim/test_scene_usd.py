"""The USD importer up to the scene records: units, frames, shapes, masses, materials, filters."""

from __future__ import annotations

from math import pi
from pathlib import Path

import numpy as np
import pytest

from engine.geom.pose import pose_multiply, quat_to_matrix
from engine.geom.shapes import ShapeType
from engine.sim.scene_records import SceneRecords, SceneShape
from engine.state.schema import WORLD_BODY
from tests.sim.usd_text import COLLIDER, MASSIVE, RIGID, ops, parse


def shape(records: SceneRecords, name: str) -> SceneShape:
    return next(s for s in records.shapes if s.label.endswith(f"/{name}"))


# -- units and gravity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authored", "unit", "up", "expected"),
    [
        ("", 1.0, "Z", (0, 0, -9.81)),
        ("", 0.01, "Y", (0, -9.81, 0)),
        ("def PhysicsScene \"s\" {}", 0.01, "Y", (0, -9.81, 0)),
        ("def PhysicsScene \"s\" { float physics:gravityMagnitude = 162 }", 0.01, "Z", (0, 0, -1.62)),
        ("def PhysicsScene \"s\" { float physics:gravityMagnitude = 0 }", 1.0, "Z", (0, 0, 0)),
        ("def PhysicsScene \"s\" { vector3f physics:gravityDirection = (2, 0, 0) }", 1.0, "Z", (9.81, 0, 0)),
    ],
)  # fmt: skip
def test_gravity(tmp_path: Path, authored: str, unit: float, up: str, expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(parse(tmp_path, authored, unit, up=up).gravity, expected, rtol=1e-6)


def test_everything_is_in_si_units(tmp_path: Path) -> None:
    body = f"""def Cube "box" ({MASSIVE})
    {{
        double size = 20
        float physics:density = 0.002
        vector3f physics:velocity = (100, 0, 0)
        vector3f physics:angularVelocity = (0, 180, 0)
        {ops(translate="(0, 50, 0)")}
    }}"""
    records = parse(tmp_path, body, unit=0.01, kilograms=0.5, up="Y")
    box = records.bodies[0]
    np.testing.assert_allclose(box.pose[:3], [0, 0.5, 0])
    np.testing.assert_allclose(box.velocity, [1, 0, 0])
    np.testing.assert_allclose(box.angular_velocity, [0, pi, 0], rtol=1e-6)
    np.testing.assert_allclose(records.shapes[0].scale, [0.1, 0.1, 0.1])
    # 0.002 units of 0.5 kg per cubic centimetre: 1000 kg/m³.
    np.testing.assert_allclose(box.mass, 8.0, rtol=1e-6)
    np.testing.assert_allclose(box.inertia, np.eye(3) * 8.0 * 0.2**2 / 6, rtol=1e-6)
    assert (records.up_axis, records.fps) == ("y", 60.0)


def test_default_density_is_1000_kg_per_cubic_metre_in_any_unit(tmp_path: Path) -> None:
    body = f'def Cube "box" ({RIGID}) {{ double size = 100 }}'
    np.testing.assert_allclose(parse(tmp_path, body, unit=0.01, kilograms=0.001).bodies[0].mass, 1000)


def test_velocity_is_in_the_space_of_the_parent(tmp_path: Path) -> None:
    body = f"""def Xform "turned"
    {{
        {ops(rotateXYZ="(0, 0, 90)", scale="(2, 2, 2)")}
        def Cube "box" ({RIGID})
        {{
            vector3f physics:velocity = (1, 0, 0)
            vector3f physics:angularVelocity = (90, 0, 0)
            {ops(rotateXYZ="(10, 20, 30)")}
        }}
    }}"""
    box = parse(tmp_path, body).bodies[0]
    np.testing.assert_allclose(box.velocity, [0, 2, 0], atol=1e-6)
    np.testing.assert_allclose(box.angular_velocity, [0, pi / 2, 0], atol=1e-6)


# -- bodies and shapes -------------------------------------------------------------------------------------------------


def test_nested_and_scaled_frames_put_shapes_where_usd_has_them(tmp_path: Path) -> None:
    from pxr import Usd, UsdGeom

    body = f"""def Xform "outer"
    {{
        {ops(translate="(1, 2, 3)", rotateXYZ="(20, 30, 40)", scale="(2, 2, 2)")}
        def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
        {{
            {ops(translate="(1, 0, -1)", orient="(0.5, 0.5, -0.5, 0.5)", scale="(1, -1.5, 3)")}
            def Sphere "marker" ({COLLIDER}) {{ {ops(translate="(0.3, 0.2, 0.1)", scale="(3, 2, 1)")} }}
        }}
    }}"""
    records = parse(tmp_path, body)
    stage = Usd.Stage.Open(str(tmp_path / "scene.usda"))
    matrix = UsdGeom.XformCache().GetLocalToWorldTransform(stage.GetPrimAtPath("/W/outer/body/marker"))
    world = pose_multiply(records.bodies[0].pose, records.shapes[0].pose)
    np.testing.assert_allclose(world[:3], matrix.ExtractTranslation(), atol=1e-6)
    np.testing.assert_allclose(np.linalg.det(quat_to_matrix(world[3:])), 1.0, atol=1e-9)


@pytest.mark.parametrize("axis", "XYZ")
@pytest.mark.parametrize("kind", ["Capsule", "Cylinder"])
def test_axis_of_capsules_and_cylinders(tmp_path: Path, kind: str, axis: str) -> None:
    body = f"""def {kind} "tube" ({RIGID}) {{
        uniform token axis = "{axis}"
        double radius = 0.5
        double height = 4
        {ops(scale="(2, 2, 2)")}
    }}"""
    tube = parse(tmp_path, body).shapes[0]
    assert tube.type == ShapeType[kind.upper()]
    np.testing.assert_allclose(tube.scale, [1, 4, 0])
    np.testing.assert_allclose(quat_to_matrix(tube.pose[3:])[:, 2], np.eye(3)["XYZ".index(axis)], atol=1e-9)


def test_uneven_scale_goes_along_and_across_the_axis(tmp_path: Path) -> None:
    body = f"""def Cylinder "tube" ({RIGID}) {{
        uniform token axis = "Y"
        {ops(scale="(2, 5, 2)")}
    }}"""
    tube = parse(tmp_path, body).shapes[0]
    assert tube.type == ShapeType.CYLINDER
    np.testing.assert_allclose(tube.scale, [2, 5, 0])


@pytest.mark.parametrize("scale", ["(-1, 0.5, -1.5)", "(-1, 0.5, 1.5)", "(-1, -0.5, -1.5)"])
def test_negative_scale_is_a_size(tmp_path: Path, scale: str) -> None:
    cube = f'def Cube "box" ({COLLIDER}) {{ double size = 1\n {ops(scale=scale)} }}'
    body = f'def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{ {cube} }}'
    np.testing.assert_allclose(parse(tmp_path, body).shapes[0].scale, [0.5, 0.25, 0.75])


def test_sheared_cube_is_its_exact_hull(tmp_path: Path) -> None:
    body = f"""def Xform "stretched"
    {{
        {ops(scale="(2, 1, 1)")}
        def Cube "box" ({RIGID}) {{ {ops(rotateXYZ="(0, 0, 45)")} }}
    }}"""
    records = parse(tmp_path, body)
    assert records.shapes[0].type == ShapeType.HULL and len(records.shapes[0].hull.vertices) == 8
    np.testing.assert_allclose(records.bodies[0].mass, 16000, rtol=1e-5)
    corners = records.shapes[0].hull.vertices @ quat_to_matrix(records.bodies[0].pose[3:]).T
    np.testing.assert_allclose(np.abs(corners).max(axis=0), [2 * 2**0.5, 2**0.5, 1], rtol=1e-5)


def test_mirrored_body_keeps_the_frame_of_its_author(tmp_path: Path) -> None:
    body = f'def Cube "box" ({RIGID}) {{ {ops(rotateXYZ="(0, 0, 30)", scale="(-1, 2, 1)")} }}'
    turn = quat_to_matrix(parse(tmp_path, body).bodies[0].pose[3:])
    np.testing.assert_allclose(turn[:, 0], [np.cos(pi / 6), np.sin(pi / 6), 0], atol=1e-6)


def test_plane_is_infinite_and_faces_along_its_axis(tmp_path: Path) -> None:
    body = f'def Plane "floor" ({COLLIDER}) {{ uniform token axis = "Y"\n {ops(rotateXYZ="(0, 0, 90)")} }}'
    floor = parse(tmp_path, body).shapes[0]
    assert floor.type == ShapeType.PLANE and not floor.scale.any()
    np.testing.assert_allclose(quat_to_matrix(floor.pose[3:])[:, 2], [-1, 0, 0], atol=1e-6)


def test_kinematic_and_disabled_bodies(tmp_path: Path) -> None:
    body = f"""def Cube "pushed" ({RIGID}) {{ bool physics:kinematicEnabled = 1 }}
    def Cube "off" ({RIGID}) {{ bool physics:rigidBodyEnabled = 0 }}
    def Cube "ghost" ({RIGID}) {{ bool physics:collisionEnabled = 0 }}"""
    records = parse(tmp_path, body)
    assert [(b.label, b.kinematic) for b in records.bodies] == [("/W/pushed", True), ("/W/ghost", False)]
    assert shape(records, "off").body == WORLD_BODY
    assert not shape(records, "ghost").collides and records.bodies[1].mass > 0


def test_instances_are_bodies_of_their_own(tmp_path: Path) -> None:
    body = f"""def Xform "a" (
        instanceable = true
        prepend references = </W/proto>
    ) {{ {ops(translate="(5, 0, 0)")} }}
    def Xform "b" (
        instanceable = true
        prepend references = </W/proto>
    ) {{}}
    class Xform "proto" {{ def Sphere "ball" ({RIGID}) {{}} }}"""
    records = parse(tmp_path, body)
    assert [b.label for b in records.bodies] == ["/W/a/ball", "/W/b/ball"]
    np.testing.assert_allclose(records.bodies[0].pose[:3], [5, 0, 0])


# -- masses ------------------------------------------------------------------------------------------------------------


MASS_CASES = {
    "nothing": ("", "", "", ""),
    "mass": ("float physics:mass = 2", "", "", ""),
    "density": ("float physics:density = 2", "", "", ""),
    "density beats the material's": ("float physics:density = 2", "", "", "float physics:density = 3"),
    "collider's density beats the body's": ("float physics:density = 2", "", "float physics:density = 4", ""),
    "a prim between counts for nothing": ("", "float physics:density = 2", "", "float physics:density = 3"),
    "material": ("", "", "", "float physics:density = 3"),
    "collider's mass": ("float physics:density = 9", "", "float physics:mass = 2", ""),
    "body's mass beats the collider's": ("float physics:mass = 9", "", "float physics:mass = 2", ""),
    "centre": ("float physics:mass = 2\n point3f physics:centerOfMass = (0, 1, 0)", "", "", ""),
    "inertia": ("float physics:mass = 2\n float3 physics:diagonalInertia = (2, 2, 3)", "", "", ""),
    "collider's inertia": ("", "", "float physics:mass = 2\n float3 physics:diagonalInertia = (2, 2, 3)", ""),
    "collider's centre": ("", "", "float physics:mass = 2\n point3f physics:centerOfMass = (0, 1, 0)", ""),
}


@pytest.mark.parametrize("case", MASS_CASES)
def test_mass_properties_are_those_of_usd(tmp_path: Path, case: str) -> None:
    """Against UsdPhysics.RigidBodyAPI.ComputeMassProperties (single precision)."""
    from pxr import Gf, Usd, UsdPhysics

    on_body, between, on_collider, material = MASS_CASES[case]
    body = f"""def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {{
        {on_body}
        def Xform "between" (prepend apiSchemas = ["PhysicsMassAPI"])
        {{
            {between}
            def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI", "MaterialBindingAPI"])
            {{
                rel material:binding:physics = </W/stuff>
                {on_collider}
                {ops(translate="(1, 0, 0)")}
            }}
        }}
    }}
    def Material "stuff" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {{ {material} }}"""
    mine = parse(tmp_path, body).bodies[0]

    def information(_prim: object, *_: object) -> object:
        unit = UsdPhysics.RigidBodyAPI.MassInformation()
        unit.volume, unit.inertia, unit.centerOfMass = 8.0, Gf.Matrix3f(16 / 3), Gf.Vec3f(0)
        unit.localPos, unit.localRot = Gf.Vec3f(1, 0, 0), Gf.Quatf(1)
        return unit

    stage = Usd.Stage.Open(str(tmp_path / "scene.usda"))
    api = UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath("/W/body"))
    mass, moments, com, _axes = api.ComputeMassProperties(information)
    np.testing.assert_allclose(mine.mass, mass, rtol=1e-6)
    np.testing.assert_allclose(mine.com, com, atol=1e-6)
    np.testing.assert_allclose(np.linalg.eigvalsh(mine.inertia), sorted(moments), rtol=1e-5)


def test_principal_axes_turn_the_inertia(tmp_path: Path) -> None:
    body = f"""def Cube "box" ({MASSIVE}) {{
        float physics:mass = 1
        float3 physics:diagonalInertia = (1, 2, 2.5)
        quatf physics:principalAxes = (0.7071067811865476, 0, 0, 0.7071067811865476)
    }}"""
    np.testing.assert_allclose(parse(tmp_path, body).bodies[0].inertia, np.diag([2, 1, 2.5]), atol=1e-6)


def test_centre_of_mass_is_scaled_with_the_body(tmp_path: Path) -> None:
    body = f'def Cube "box" ({MASSIVE}) {{ point3f physics:centerOfMass = (1, 1, 1)\n {ops(scale="(2, 3, 4)")} }}'
    np.testing.assert_allclose(parse(tmp_path, body).bodies[0].com, [2, 3, 4])


def test_body_without_anything_is_reported(tmp_path: Path) -> None:
    records = parse(tmp_path, 'def Xform "bare" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}')
    assert records.bodies[0].mass == 1.0
    assert "body without mass and colliders" in records.report.kinds()


# -- materials and filters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["", ', "MaterialBindingAPI"'])
def test_material_of_physics_purpose_and_of_parents(tmp_path: Path, api: str) -> None:
    body = f"""def Xform "group" (prepend apiSchemas = ["MaterialBindingAPI"])
    {{
        rel material:binding:physics = </W/rubber>
        def Cube "child" ({RIGID}) {{}}
    }}
    def Cube "own" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"{api}])
    {{
        rel material:binding = </W/rubber>
        rel material:binding:physics = </W/ice>
    }}
    def Cube "none" ({RIGID}) {{}}
    def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI"])
    {{
        float physics:staticFriction = 0.9
        float physics:dynamicFriction = 0.8
        float physics:restitution = 0.4
    }}
    def Material "ice" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {{ float physics:dynamicFriction = 0.05 }}"""
    records = parse(tmp_path, body)
    found = {s.label[3:]: (s.material.friction, s.material.restitution) for s in records.shapes}
    assert found["group/child"] == pytest.approx((0.8, 0.4))
    assert found["own"] == pytest.approx((0.05, 0.0))
    assert found["none"] == pytest.approx((0.5, 0.0))
    assert "physics:staticFriction" in records.report.kinds()


def collide(a: SceneShape, b: SceneShape) -> bool:
    return bool(a.category & b.mask) and bool(b.category & a.mask)


def test_collision_groups(tmp_path: Path) -> None:
    """a × b and c × c are filtered; "both" is in a and c."""

    def group(name: str, members: str, filtered: str) -> str:
        return f"""def PhysicsCollisionGroup "{name}" (prepend apiSchemas = ["CollectionAPI:colliders"])
        {{
            rel collection:colliders:includes = [{members}]
            rel physics:filteredGroups = [{filtered}]
        }}"""

    names = ("a1", "a2", "b1", "c1", "c2", "both", "free")
    cubes = "\n".join(f'def Cube "{n}" ({RIGID}) {{}}' for n in names)
    groups = "\n".join(
        [
            group("A", "</W/a1>, </W/a2>, </W/both>", "</W/B>"),
            group("B", "</W/b1>", ""),
            group("C", "</W/c1>, </W/c2>, </W/both>", "</W/C>"),
        ]
    )
    records = parse(tmp_path, f"{cubes}\n{groups}")
    shapes = {n: shape(records, n) for n in names}
    apart = {(a, b) for a in names for b in names if a < b and not collide(shapes[a], shapes[b])}
    assert apart == {("a1", "b1"), ("a2", "b1"), ("b1", "both"), ("c1", "c2"), ("both", "c1"), ("both", "c2")}


def test_inverted_and_merged_collision_groups(tmp_path: Path) -> None:
    """A collides with B only; B and C are one group; D filters a group that does not exist, and is unharmed."""

    def group(name: str, member: str, text: str) -> str:
        return f"""def PhysicsCollisionGroup "{name}" (prepend apiSchemas = ["CollectionAPI:colliders"])
        {{
            rel collection:colliders:includes = [</W/{member}1>, </W/{member}2>]
            {text}
        }}"""

    names = [f"{n}{i}" for n in "abcd" for i in (1, 2)]
    cubes = [f'def Cube "{n}" ({RIGID}) {{}}' for n in names]
    groups = [
        group("A", "a", "bool physics:invertFilteredGroups = 1\n rel physics:filteredGroups = </W/B>"),
        group("B", "b", 'string physics:mergeGroup = "m"'),
        group("C", "c", 'string physics:mergeGroup = "m"'),
        group("D", "d", "rel physics:filteredGroups = </W/nothing>"),
    ]
    records = parse(tmp_path, "\n".join(cubes + groups))
    shapes = {n: shape(records, n) for n in names}
    apart = {(a[0], b[0]) for a in names for b in names if a < b and not collide(shapes[a], shapes[b])}
    assert apart == {("a", "a"), ("a", "d")}
    assert "filtered group that does not exist" in records.report.kinds()


def test_filtered_pairs_of_bodies_colliders_and_groups(tmp_path: Path) -> None:
    def compound(name: str) -> str:
        return f"""def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsFilteredPairsAPI"])
        {{
            rel physics:filteredPairs = [</W/single>, </W/group>]
            def Cube "x" ({COLLIDER}) {{}}
            def Cube "y" ({COLLIDER}) {{}}
        }}"""

    body = f"""{compound("many")}
    def Cube "single" ({RIGID}) {{}}
    def Xform "group" {{ def Cube "inside" ({RIGID}) {{}} }}"""
    records = parse(tmp_path, body)
    index = {s.label: i for i, s in enumerate(records.shapes)}
    wanted = {(f"/W/many/{n}", other) for n in "xy" for other in ("/W/single", "/W/group/inside")}
    assert records.filters == {tuple(sorted((index[a], index[b]))) for a, b in wanted}
