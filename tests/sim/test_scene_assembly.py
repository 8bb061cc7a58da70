"""Bodies whose joints start apart are brought together; others stay as they are written."""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any

import numpy as np
import pytest

from engine.geom.pose import IDENTITY, pose_inverse, pose_multiply
from engine.sim.scene_assembly import assemble
from engine.sim.scene_records import Freedom, SceneBody, SceneJoint, SceneRecords
from engine.state.schema import WORLD_BODY, JointType

X, Y = np.eye(3)[0], np.eye(3)[1]


def at(x: float, y: float, z: float, axis: Any = X, angle: float = 0.0) -> np.ndarray:
    return np.array([x, y, z, *(np.asarray(axis) * sin(angle / 2)), cos(angle / 2)])


def chain(kind: JointType, *poses: np.ndarray, **values: Any) -> SceneRecords:
    """Bodies one after the other, the first one held by the world at the origin, each 1 m along x from the last."""
    bodies = [SceneBody(f"body{i}", pose) for i, pose in enumerate(poses)]
    joints = [
        SceneJoint(f"joint{i}", kind, i - 1 if i else WORLD_BODY, i, at(float(i > 0), 0, 0), IDENTITY, **values)
        for i in range(len(poses))
    ]
    return SceneRecords("", bodies=bodies, joints=joints)


def relative(records: SceneRecords, i: int) -> np.ndarray:
    """Pose of body i in the joint frame that its parent has for it."""
    joint = records.joints[i]
    parent = IDENTITY if joint.parent == WORLD_BODY else records.bodies[joint.parent].pose
    outer = pose_multiply(parent, joint.parent_pose)
    return pose_multiply(pose_inverse(outer), records.bodies[i].pose)


def test_a_scene_that_fits_keeps_its_bits() -> None:
    poses = [at(0, 0, 0, Y, 0.3), at(cos(0.3), 0, -sin(0.3), Y, 0.9)]
    records = chain(JointType.REVOLUTE, *poses, axis=Y)
    before = [body.pose.copy() for body in records.bodies]
    assemble(records)
    assert all((a == body.pose).all() for a, body in zip(before, records.bodies, strict=True))
    assert not list(records.report)


def test_bodies_behind_a_joint_apart_follow() -> None:
    records = chain(JointType.REVOLUTE, at(0, 0, 0), at(1.5, 0.2, 0, Y, 0.4), at(2.5, 0.2, 0, Y, 1.0), axis=Y)
    assemble(records)
    for i, angle in enumerate((0.0, 0.4, 0.6)):
        np.testing.assert_allclose(relative(records, i), at(0, 0, 0, Y, angle), atol=1e-12)
    assert records.report.kinds() == {"joint that starts apart"}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (JointType.FIXED, {}, at(0, 0, 0)),
        (JointType.PRISMATIC, {"axis": X}, at(0.5, 0, 0)),
        (JointType.BALL, {}, at(0, 0, 0, Y, 0.4)),
        (JointType.D6, {"linear": [Freedom(Y)], "angular": [Freedom(Y)]}, at(0, 0.2, 0, Y, 0.4)),
        (JointType.D6, {"linear": [Freedom(X), Freedom(Y)]}, at(0.5, 0.2, 0)),
    ],
)
def test_free_axes_keep_what_is_written(kind: JointType, values: dict[str, Any], expected: np.ndarray) -> None:
    records = chain(kind, at(0, 0, 0), at(1.5, 0.2, 0.1, Y, 0.4), **values)
    assemble(records)
    np.testing.assert_allclose(relative(records, 1), expected, atol=1e-12)


def test_parent_moves_to_a_child_that_is_held() -> None:
    records = chain(JointType.FIXED, at(5, 0, 0), at(1, 0, 0))
    records.joints[0] = SceneJoint("held", JointType.FIXED, WORLD_BODY, 1, at(1, 0, 0), IDENTITY)
    assemble(records)
    np.testing.assert_allclose(records.bodies[1].pose, at(1, 0, 0))
    np.testing.assert_allclose(records.bodies[0].pose, at(0, 0, 0), atol=1e-12)


def test_loop_that_cannot_close_is_reported() -> None:
    records = chain(JointType.FIXED, at(0, 0, 0), at(1, 0, 0))
    records.joints.append(SceneJoint("loop", JointType.FIXED, WORLD_BODY, 1, at(3, 0, 0, X, pi / 2), IDENTITY))
    assemble(records)
    (finding,) = records.report
    assert str(finding) == "joint that starts apart: cannot be closed, its bodies will snap (loop)"
