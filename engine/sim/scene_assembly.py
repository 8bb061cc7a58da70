"""Brings together bodies whose joints start apart, so that a run does not begin with a snap.

The authored poses give the joint coordinates; from these the poses are computed again, outwards from the world (or the
first body of each group), as engines with reduced coordinates do. Groups whose joints fit already are not touched.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from engine.geom.pose import IDENTITY, Floats, pose_inverse, pose_multiply
from engine.sim.scene_records import SceneJoint, SceneRecords
from engine.state.schema import WORLD_BODY, JointType

LINEAR_SLACK = 1e-3  # m
ANGULAR_SLACK = 1e-2  # rad
HOLDING = (JointType.FIXED, JointType.REVOLUTE, JointType.PRISMATIC, JointType.BALL)


def assemble(records: SceneRecords) -> None:
    """Moves bodies of `records` where joints start apart, and reports each such joint."""
    joints = [joint for joint in records.joints if joint.enabled and joint.type in HOLDING]
    apart = [joint for joint in joints if not _fits(records, joint)]
    if not apart:
        return
    _rebuild(records, joints)
    for joint in apart:
        if _fits(records, joint):
            records.report.add("joint that starts apart", joint.label, "its bodies are brought together first")
        else:
            records.report.add("joint that starts apart", joint.label, "cannot be closed, its bodies will snap")


def _rebuild(records: SceneRecords, joints: list[SceneJoint]) -> None:
    """Poses of all bodies from the joint coordinates of the authored poses; only those behind a joint apart change."""
    authored = {WORLD_BODY: IDENTITY, **{i: body.pose for i, body in enumerate(records.bodies)}}
    at: dict[int, list[SceneJoint]] = defaultdict(list)
    for joint in joints:
        at[joint.parent].append(joint)
        at[joint.child].append(joint)
    held = [i for i, body in enumerate(records.bodies) if body.kinematic]
    seen = {WORLD_BODY, *held}
    moved: set[int] = set()
    for root in (WORLD_BODY, *held, *range(len(records.bodies))):
        frontier = [root] if root not in seen or root in (WORLD_BODY, *held) else []
        seen.add(root)
        while frontier:
            near = frontier.pop(0)
            for joint in at[near]:
                far = joint.child if joint.parent == near else joint.parent
                if far in seen:
                    continue
                seen.add(far)
                frontier.append(far)
                if near in moved or not _fits(records, joint):
                    moved.add(far)
                    records.bodies[far].pose = _placed(records, authored, joint, far)


def _placed(records: SceneRecords, authored: dict[int, Floats], joint: SceneJoint, far: int) -> Floats:
    """The pose of one end of a joint, given where the other end is now and the coordinate of the authored poses."""
    between = _allowed(joint, _between(joint, authored[joint.parent], authored[joint.child]))
    if far == joint.child:
        start, chain = _pose(records, joint.parent), (joint.parent_pose, between, pose_inverse(joint.child_pose))
    else:
        start = _pose(records, joint.child)
        chain = (joint.child_pose, pose_inverse(between), pose_inverse(joint.parent_pose))
    for step in chain:
        start = pose_multiply(start, step)
    return start


def _pose(records: SceneRecords, body: int) -> Floats:
    return IDENTITY if body == WORLD_BODY else records.bodies[body].pose


def _between(joint: SceneJoint, parent: Floats, child: Floats) -> Floats:
    """Pose of the child's joint frame in the parent's joint frame."""
    outer = pose_multiply(parent, joint.parent_pose)
    return pose_multiply(pose_inverse(outer), pose_multiply(child, joint.child_pose))


def _allowed(joint: SceneJoint, between: Floats) -> Floats:
    """The nearest relative pose that the joint allows (limits left aside)."""
    out = IDENTITY.copy()
    if joint.type == JointType.PRISMATIC:
        out[:3] = joint.axis * (joint.axis @ between[:3])
    elif joint.type == JointType.BALL:
        out[3:] = between[3:]
    elif joint.type == JointType.REVOLUTE:
        twist = np.append(joint.axis * (joint.axis @ between[3:6]), between[6])
        length = np.linalg.norm(twist)
        if length > 1e-9:
            out[3:] = twist / length
    return out


def _fits(records: SceneRecords, joint: SceneJoint) -> bool:
    """True if the bodies are where the joint allows them to be."""
    between = _between(joint, _pose(records, joint.parent), _pose(records, joint.child))
    off = pose_multiply(pose_inverse(_allowed(joint, between)), between)
    turn = 2.0 * np.arctan2(np.linalg.norm(off[3:6]), abs(off[6]))
    return bool(np.linalg.norm(off[:3]) <= LINEAR_SLACK and turn <= ANGULAR_SLACK)
