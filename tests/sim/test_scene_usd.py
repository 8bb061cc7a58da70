"""The USD importer up to the scene records: units, frames, masses, joints, filters, reports, bad input."""

from __future__ import annotations

import re
from math import inf, pi, radians
from pathlib import Path

import numpy as np
import pytest

from engine.errors import SceneError
from engine.geom.pose import pose_multiply, quat_to_matrix
from engine.geom.shapes import ShapeType
from engine.sim.scene_records import SceneJoint, SceneRecords, SceneShape, make_builder
from engine.sim.scene_usd import read
from engine.state.schema import WORLD_BODY, JointType

RIGID = 'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]'
MASSIVE = 'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]'
COLLIDER = 'prepend apiSchemas = ["PhysicsCollisionAPI"]'


def ops(**values: object) -> str:
    """xformOps in the given order: translate=, rotateXYZ=, orient=, scale=."""
    types = {"translate": "double3", "rotateXYZ": "float3", "orient": "quatf", "scale": "float3"}
    order = ", ".join(f'"xformOp:{name}"' for name in values)
    lines = [f"{types[name]} xformOp:{name} = {value}" for name, value in values.items()]
    return "\n".join([*lines, f"uniform token[] xformOpOrder = [{order}]"])


def parse(tmp_path: Path, body: str, unit: float = 1.0, kilograms: float = 1.0, up: str = "Z") -> SceneRecords:
    path = tmp_path / "scene.usda"
    head = f'(\n metersPerUnit = {unit}\n kilogramsPerUnit = {kilograms}\n upAxis = "{up}"\n defaultPrim = "W"\n)'
    lines = re.sub(r"[ \t]*}", "\n}", body)  # USD wants the end of a line after every value
    path.write_text(f'#usda 1.0\n{head}\ndef Xform "W"\n{{\n{lines}\n}}\n')
    return read(path)


def error_of(tmp_path: Path, body: str) -> str:
    """The message of the SceneError that reading and building raise, without the folder."""
    with pytest.raises(SceneError) as caught:
        make_builder(parse(tmp_path, body)).finalize()
    return str(caught.value).replace(f"{tmp_path}/", "")


def shape(records: SceneRecords, name: str) -> SceneShape:
    return next(s for s in records.shapes if s.label.endswith(f"/{name}"))


def joint(records: SceneRecords) -> SceneJoint:
    assert len(records.joints) == 1
    return records.joints[0]


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


# -- joints ------------------------------------------------------------------------------------------------------------

TWO = f"""def Cube "a" ({RIGID}) {{}}
def Cube "b" ({RIGID}) {{ {ops(translate="(4, 0, 0)")} }}
"""
ENDS = "rel physics:body0 = </W/a>\n rel physics:body1 = </W/b>\n"


def test_revolute_joint_in_degrees(tmp_path: Path) -> None:
    body = f"""{TWO} def PhysicsRevoluteJoint "j" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
    {{
        {ENDS}
        uniform token physics:axis = "Y"
        float physics:lowerLimit = -90
        float physics:upperLimit = 45
        float drive:angular:physics:stiffness = 2
        float drive:angular:physics:damping = 0.5
        float drive:angular:physics:targetPosition = 30
        float drive:angular:physics:targetVelocity = -60
        float drive:angular:physics:maxForce = 7
    }}"""
    j = joint(parse(tmp_path, body, unit=0.01, kilograms=2.0))
    torque = 2.0 * 0.01**2  # N·m of one stage unit
    assert j.type == JointType.REVOLUTE
    np.testing.assert_allclose(j.axis, [0, 1, 0])
    np.testing.assert_allclose(j.limits, [-pi / 2, pi / 4], rtol=1e-6)
    assert j.drive is not None and not j.drive.acceleration
    drive = (j.drive.stiffness, j.drive.damping, j.drive.target_pos, j.drive.target_vel, j.drive.max_effort)
    per_radian = 180 / pi * torque
    np.testing.assert_allclose(drive, [2 * per_radian, 0.5 * per_radian, pi / 6, -pi / 3, 7 * torque], rtol=1e-6)


def test_prismatic_joint_in_stage_units(tmp_path: Path) -> None:
    body = f"""{TWO} def PhysicsPrismaticJoint "j" (prepend apiSchemas = ["PhysicsDriveAPI:linear"])
    {{
        {ENDS}
        uniform token physics:axis = "Z"
        float physics:lowerLimit = -50
        float drive:linear:physics:stiffness = 3
        float drive:linear:physics:targetPosition = 20
        uniform token drive:linear:physics:type = "acceleration"
    }}"""
    j = joint(parse(tmp_path, body, unit=0.01, kilograms=2.0))
    assert j.type == JointType.PRISMATIC
    np.testing.assert_allclose(j.limits, [-0.5, inf])
    assert j.drive is not None and j.drive.acceleration and j.drive.max_effort == inf
    np.testing.assert_allclose((j.drive.stiffness, j.drive.target_pos), (3, 0.2), rtol=1e-6)


def test_ball_joint_has_its_cone_about_its_axis(tmp_path: Path) -> None:
    body = f"""{TWO} def PhysicsSphericalJoint "j" {{
        {ENDS}
        uniform token physics:axis = "X"
        float physics:coneAngle0Limit = 60
        float physics:coneAngle1Limit = 60
    }}"""
    j = joint(parse(tmp_path, body))
    assert j.type == JointType.BALL and j.limits == pytest.approx((-inf, pi / 3))
    np.testing.assert_allclose(quat_to_matrix(j.parent_pose[3:])[:, 2], [1, 0, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("authored", "limits"),
    [
        ("float physics:minDistance = 10\n float physics:maxDistance = 50", (0.1, 0.5)),
        ("float physics:maxDistance = 50", (0.0, 0.5)),
        ("float physics:minDistance = 10", (0.1, inf)),
    ],
)
def test_distance_joint(tmp_path: Path, authored: str, limits: tuple[float, float]) -> None:
    body = f'{TWO} def PhysicsDistanceJoint "j" {{ {ENDS} {authored}\n }}'
    j = joint(parse(tmp_path, body, unit=0.01))
    assert j.type == JointType.DISTANCE and j.limits == pytest.approx(limits)


def test_joint_frames_follow_scaled_bodies_and_inner_prims(tmp_path: Path) -> None:
    body = f"""def Cube "a" ({RIGID}) {{
        {ops(translate="(0, 0, 1)", rotateXYZ="(0, 0, 90)", scale="(2, 3, 4)")}
        def Xform "grip" {{ {ops(translate="(1, 0, 0)", rotateXYZ="(0, 90, 0)")} }}
    }}
    def Cube "b" ({RIGID}) {{}}
    def PhysicsFixedJoint "j" {{
        rel physics:body0 = </W/a/grip>
        rel physics:body1 = </W/b>
        point3f physics:localPos0 = (0, 1, 0)
        point3f physics:localPos1 = (1, 2, 3)
    }}"""
    j = joint(parse(tmp_path, body))
    assert (j.parent, j.child) == (0, 1)
    np.testing.assert_allclose(j.parent_pose[:3], [2, 3, 0], atol=1e-5)
    np.testing.assert_allclose(j.child_pose[:3], [1, 2, 3], atol=1e-6)


def test_joint_to_the_world_and_to_a_static_prim(tmp_path: Path) -> None:
    body = f"""def Cube "post" ({COLLIDER}) {{ {ops(translate="(0, 5, 0)")} }}
    def Cube "a" ({RIGID}) {{}}
    def PhysicsFixedJoint "to_world" {{ rel physics:body1 = </W/a>\n point3f physics:localPos0 = (1, 2, 3) }}
    def PhysicsFixedJoint "to_post" {{
        rel physics:body0 = </W/a>
        rel physics:body1 = </W/post>
        point3f physics:localPos1 = (1, 0, 0)
    }}"""
    records = parse(tmp_path, body)
    world, post = records.joints
    assert (world.parent, world.child) == (WORLD_BODY, 0) and (post.parent, post.child) == (0, WORLD_BODY)
    np.testing.assert_allclose(world.parent_pose[:3], [1, 2, 3])
    np.testing.assert_allclose(post.child_pose[:3], [1, 5, 0])
    assert records.filters == {(0, 1)}  # what is joined does not collide, static or not
    make_builder(records)


def d6(tmp_path: Path, free: dict[str, tuple[float, float] | None], drive: str = "") -> SceneRecords:
    """A D6 joint: all axes locked but `free`, which have limits or None."""
    axes = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
    limited = [a for a in axes if free.get(a, 0) is not None]
    apis = [f'"PhysicsLimitAPI:{a}"' for a in limited] + ([f'"PhysicsDriveAPI:{drive}"'] if drive else [])
    bounds = {a: free.get(a) or (1, -1) for a in limited}
    lines = [
        f"float limit:{a}:physics:low = {lo}\n float limit:{a}:physics:high = {hi}" for a, (lo, hi) in bounds.items()
    ]
    if drive:
        lines.append(f"float drive:{drive}:physics:stiffness = 3")
    text = "\n".join(lines)
    return parse(
        tmp_path, f'{TWO} def PhysicsJoint "j" (prepend apiSchemas = [{", ".join(apis)}]) {{ {ENDS} {text}\n }}'
    )


def test_d6_joints_that_are_simpler_kinds(tmp_path: Path) -> None:
    assert joint(d6(tmp_path, {})).type == JointType.FIXED
    turn = joint(d6(tmp_path, {"rotY": (-30, 60)}, drive="rotY"))
    assert turn.type == JointType.REVOLUTE and turn.limits == pytest.approx((radians(-30), radians(60)))
    np.testing.assert_allclose(turn.axis, [0, 1, 0])
    assert turn.drive is not None and turn.drive.stiffness == pytest.approx(3 * 180 / pi)
    slide = joint(d6(tmp_path, {"transZ": None}))
    assert slide.type == JointType.PRISMATIC and slide.limits == (-inf, inf)
    assert joint(d6(tmp_path, {"rotX": None, "rotY": None, "rotZ": None})).type == JointType.BALL


def test_d6_joint_with_several_free_axes(tmp_path: Path) -> None:
    j = joint(d6(tmp_path, {"rotX": (-40, 50), "rotZ": None, "transZ": (-1, 2)}, drive="rotX"))
    assert j.type == JointType.D6
    np.testing.assert_allclose([f.axis for f in j.linear], [[0, 0, 1]])
    np.testing.assert_allclose([f.axis for f in j.angular], [[1, 0, 0], [0, 0, 1]])
    assert j.linear[0].limits == (-1, 2) and j.angular[1].limits == (-inf, inf)
    assert j.angular[0].limits == pytest.approx((radians(-40), radians(50)))
    assert j.angular[0].drive is not None and j.angular[1].drive is None


def test_d6_joint_that_is_not_supported_is_reported_with_its_prim(tmp_path: Path) -> None:
    body = f"""{TWO} def PhysicsJoint "j" (prepend apiSchemas = ["PhysicsLimitAPI:distance"]) {{
        {ENDS}
        float limit:distance:physics:low = 0
        float limit:distance:physics:high = 3
    }}"""
    records = parse(tmp_path, body)
    assert not records.joints
    assert [str(f) for f in records.report] == ["D6 joint with a distance limit: not supported yet, left out (/W/j)"]


def test_flags_of_joints(tmp_path: Path) -> None:
    body = f"""{TWO} def PhysicsFixedJoint "j" {{ {ENDS}
        bool physics:jointEnabled = 0
        bool physics:collisionEnabled = 1
        bool physics:excludeFromArticulation = 1
        float physics:breakForce = 10
    }}"""
    records = parse(tmp_path, body)
    assert not joint(records).enabled and joint(records).collides
    assert "physics:breakForce" in records.report.kinds()


@pytest.mark.parametrize("switch", ["", "bool physxArticulation:enabledSelfCollisions = 0"])
def test_self_collision_of_articulations(tmp_path: Path, switch: str) -> None:
    def hinge(name: str, a: str, b: str) -> str:
        return f"""def PhysicsRevoluteJoint "{name}"
        {{
            rel physics:body0 = </W/arm/{a}>
            rel physics:body1 = </W/arm/{b}>
        }}"""

    cubes = "\n".join(f'def Cube "{n}" ({RIGID}) {{}}' for n in "abc")
    body = f"""def Xform "arm" (prepend apiSchemas = ["PhysicsArticulationRootAPI"]) {{
        {switch}
        {cubes}
        {hinge("ab", "a", "b")}
        {hinge("bc", "b", "c")}
    }}
    def Cube "other" ({RIGID}) {{}}"""
    assert parse(tmp_path, body).filters == ({(0, 1), (0, 2), (1, 2)} if switch else set())


# -- meshes ------------------------------------------------------------------------------------------------------------

CUBE = """point3f[] points = [(0,0,0), (1,0,0), (1,1,0), (0,1,0), (0,0,1), (1,0,1), (1,1,1), (0,1,1)]
int[] faceVertexCounts = [4, 4, 4, 4, 4, 4]
int[] faceVertexIndices = [0,3,2,1, 4,5,6,7, 0,1,5,4, 1,2,6,5, 2,3,7,6, 3,0,4,7]
"""
# The same with the top pushed in to the middle: not convex.
DENT = CUBE.replace("4,5,6,7,", "").replace("[4, 4, 4, 4, 4, 4]", "[4, 4, 4, 4, 4, 3, 3, 3, 3]").replace(
    "(0,1,1)]", "(0,1,1), (0.5,0.5,0.3)]").replace("3,0,4,7]", "3,0,4,7, 4,5,8, 5,6,8, 6,7,8, 7,4,8]")  # fmt: skip
MESH = 'prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]'


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
