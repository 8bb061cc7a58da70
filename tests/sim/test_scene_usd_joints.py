"""The USD importer: joints, their frames, limits and drives."""

from __future__ import annotations

from math import inf, pi, radians
from pathlib import Path

import numpy as np
import pytest

from engine.geom.pose import quat_to_matrix
from engine.sim.scene_records import SceneJoint, SceneRecords, make_builder
from engine.state.schema import WORLD_BODY, JointType
from tests.sim.usd_text import COLLIDER, ENDS, RIGID, TWO, ops, parse


def joint(records: SceneRecords) -> SceneJoint:
    assert len(records.joints) == 1
    return records.joints[0]


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
