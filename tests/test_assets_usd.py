"""Third-party USD scenes: what the importer finds against an independent index, and two seconds of each."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import SceneError
from engine.geom.pose import pose_multiply, pose_point, quat_to_matrix
from engine.geom.shapes import ShapeType, aabb
from engine.sim.load import load, read_scene
from engine.sim.scene_records import SceneRecords
from engine.state.schema import WORLD_BODY, JointType

SECONDS = 2.0


def index() -> list[dict[str, Any]]:
    """The USD entries of the index; none where the assets are not named, which the fixture then says."""
    folder = os.environ.get("ENGINE_ASSETS")
    path = Path(folder or ".") / "index.json"
    if not folder or not path.exists():
        return []
    scenes = json.loads(path.read_text())["scenes"]
    return [scene for scene in scenes if scene["path"].startswith("usd/")]


def entries(**wanted: Any) -> list[Any]:
    """Parameters: one scene each, by name; a single one that only asks for the assets where there is no index."""
    found = [s for s in index() if all(bool(s[key]) is value for key, value in wanted.items())]
    return [pytest.param(s, id=Path(s["path"]).stem) for s in found] or [pytest.param(None, id="no-index")]


# What each scene uses that is not supported: the kind that must be in its report.
UNSUPPORTED = {
    "mpm_sand": "NewtonPointsDeformableSimAPI",
    "mpm_two_prims": "NewtonPointsDeformableSimAPI",
    "deformables_mixed": "PhysicsVolumeDeformableSimAPI",
    "tetmesh_multi": "TetMesh",
    "tetmesh_simple": "TetMesh",
    "usdPhysicsDistanceJoint": "prim type DistancePhysicsJoint",  # as the file has it; the type is PhysicsDistanceJoint
    "actuator_test": "prim type NewtonActuator",
    "mjc_schema_import": "MjcEqualityConnectAPI",
    "humanoid_mjc": "prim type MjcActuator",
}
USD_JOINTS = {
    "PhysicsFixedJoint": JointType.FIXED,
    "PhysicsRevoluteJoint": JointType.REVOLUTE,
    "PhysicsPrismaticJoint": JointType.PRISMATIC,
    "PhysicsSphericalJoint": JointType.BALL,
}
DOF = {JointType.FIXED: 0, JointType.REVOLUTE: 1, JointType.PRISMATIC: 1, JointType.BALL: 3}


@pytest.mark.parametrize("entry", entries())
def test_records_agree_with_the_index(assets: Path, entry: dict[str, Any]) -> None:
    name = Path(entry["path"]).stem
    records = read_scene(assets / entry["path"])
    assert records.up_axis == entry["up_axis"].lower()
    assert len(records.bodies) == entry["bodies"]
    assert sum(body.kinematic for body in records.bodies) == entry["kinematic_bodies"]
    if entry["mass"] is not None:
        mass = sum(body.mass for body in records.bodies)
        assert mass == pytest.approx(entry["mass"], rel=1e-6)
    check_joints(records, entry)
    if name in UNSUPPORTED:
        assert UNSUPPORTED[name] in records.report.kinds()


def check_joints(records: SceneRecords, entry: dict[str, Any]) -> None:
    """Joints by kind, a D6 joint being what its free axes make it, and the number of degrees of freedom."""
    counted = Counter(joint.type for joint in records.joints)
    expected = Counter({USD_JOINTS[kind]: n for kind, n in entry["joints"].items() if kind in USD_JOINTS})
    d6 = entry["joints"].get("PhysicsJoint", 0)
    assert counted.total() == expected.total() + d6
    assert all(counted[kind] >= n for kind, n in expected.items())
    dof = {joint.label: DOF.get(joint.type, len(joint.linear) + len(joint.angular)) for joint in records.joints}
    assert dof == entry["joint_dofs"]


@pytest.mark.parametrize("entry", entries(bodies=False))
def test_scenes_without_bodies_say_so(assets: Path, entry: dict[str, Any]) -> None:
    with pytest.raises(SceneError, match="nothing to simulate"):
        load(assets / entry["path"], device="cpu")


# -- two seconds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", entries(bodies=True))
def test_two_seconds_are_sane(assets: Path, entry: dict[str, Any]) -> None:
    """Finite, nothing falls through what is below it, and energy does not grow where nothing drives the scene."""
    records = read_scene(assets / entry["path"])
    sim = load(assets / entry["path"], device="cpu", dt=1 / 120)
    floors = floors_of(records)
    starts_violated = "joint that starts apart" in sim.report.kinds() or starts_overlapping(assets, entry)
    start = energy(sim, records)
    highest = start
    for _ in range(round(SECONDS / sim.dt)):
        sim.step()
        highest = max(highest, energy(sim, records))
    poses = sim.state.body_q.numpy()
    assert np.isfinite(poses).all() and np.isfinite(sim.state.body_qd.numpy()).all()
    for i, floor in enumerate(floors):
        if floor is not None:
            assert_above(records, i, poses[i].astype(float), floor)
    if not is_driven(records) and not starts_violated:
        assert highest <= start + allowance(records)


def starts_overlapping(assets: Path, entry: dict[str, Any]) -> bool:
    """True if bodies are inside each other, or the ground, as the file has them: pushing them apart makes energy."""
    sim = load(assets / entry["path"], device="cpu", dt=1e-5)
    sim.step()
    return bool(sim.stats.largest_penetration > 0.001)


def is_driven(records: SceneRecords) -> bool:
    """True if a drive or a moving kinematic body can put energy in."""
    drives = [j.drive for j in records.joints if j.drive is not None]
    moving = [b for b in records.bodies if b.kinematic and (b.velocity.any() or b.angular_velocity.any())]
    return bool(moving) or any(d.stiffness or (d.damping and d.target_vel) for d in drives)


def energy(sim: Any, records: SceneRecords) -> float:
    """Kinetic and potential energy of all moving bodies, J."""
    total = 0.0
    for body, pose, twist in zip(records.bodies, sim.state.body_q.numpy(), sim.state.body_qd.numpy(), strict=True):
        if body.kinematic:
            continue
        v, w = twist[:3].astype(float), quat_to_matrix(pose[3:].astype(float)).T @ twist[3:].astype(float)
        com = pose_point(pose.astype(float), body.com)
        total += body.mass * (v @ v / 2 - records.gravity @ com) + w @ body.inertia @ w / 2
    return float(total)


def allowance(records: SceneRecords) -> float:
    """What positions may be pushed apart by contacts and joints that start violated: 1 cm of everybody's weight."""
    return 0.01 * sum(b.mass for b in records.bodies) * float(np.linalg.norm(records.gravity)) + 1e-6


def floors_of(records: SceneRecords) -> list[tuple[np.ndarray, np.ndarray] | None]:
    """For each body the bounds of the highest static collider under its centre at the start, if there is one."""
    up = "xyz".index(records.up_axis)
    across = [i for i in range(3) if i != up]
    statics = [
        aabb(s.type, s.scale, s.pose, s.hull)
        for s in records.shapes
        if s.body == WORLD_BODY and s.collides and (s.type != ShapeType.PLANE or is_level(s.pose, up))
    ]
    planes = [s.pose[up] for s in records.shapes if s.type == ShapeType.PLANE and is_level(s.pose, up)]
    found: list[tuple[np.ndarray, np.ndarray] | None] = []
    for i, body in enumerate(records.bodies):
        carries = [s for s in records.shapes if s.body == i and s.collides]
        centre = pose_point(body.pose, body.com)
        below = [
            (low, high)
            for low, high in statics
            if high[up] <= centre[up]
            and (low[across] <= centre[across]).all()
            and (centre[across] <= high[across]).all()
        ]
        below += [(np.full(3, -1e9), np.full(3, height)) for height in planes if height <= centre[up]]
        found.append(max(below, key=lambda b: b[1][up]) if below and carries else None)
    return found


def is_level(pose: np.ndarray, up: int) -> bool:
    """True for a plane that faces up."""
    return bool(quat_to_matrix(pose[3:])[up, 2] > 0.999)


def assert_above(records: SceneRecords, i: int, pose: np.ndarray, floor: tuple[np.ndarray, np.ndarray]) -> None:
    """The body's shapes are not below the top of its floor, as long as it is over it."""
    up = "xyz".index(records.up_axis)
    across = [k for k in range(3) if k != up]
    low, high = floor
    centre = pose_point(pose, records.bodies[i].com)
    endless = high[across].min() <= low[across].max()
    if not endless and not ((low[across] <= centre[across]).all() and (centre[across] <= high[across]).all()):
        return
    for s in records.shapes:
        if s.body == i and s.collides:
            bounds = aabb(s.type, s.scale, pose_multiply(pose, s.pose), s.hull)
            size = float((bounds[1] - bounds[0])[up])
            assert bounds[0][up] > high[up] - 0.1 * size - 0.005, records.bodies[i].label
