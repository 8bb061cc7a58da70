"""Brings together bodies whose joints start apart, so that a run does not begin with a snap.

The authored poses give the joint coordinates; from these the poses are computed again, outwards from the world (or the
first body of each group), as engines with reduced coordinates do. Groups whose joints fit already are not touched.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from engine.geom.pose import IDENTITY, Floats, pose_inverse, pose_multiply
from engine.sim.scene_records import SceneJoint, SceneRecords
from engine.state.schema import WORLD_BODY, JointType

LINEAR_SLACK = 1e-3  # m
ANGULAR_SLACK = 1e-2  # rad
HOLDING = (JointType.FIXED, JointType.REVOLUTE, JointType.PRISMATIC, JointType.BALL, JointType.D6)


def assemble(records: SceneRecords) -> None:
    """Moves bodies of `records` where joints start apart, and reports each such joint."""
    joints = [joint for joint in records.joints if joint.enabled and joint.type in HOLDING]
    apart = [joint for joint in joints if not _fits(records, joint)]
    if not apart:
        return
    were_apart = {id(joint) for joint in apart}
    _rebuild(records, joints, were_apart)
    for joint in joints:
        if not _fits(records, joint):
            records.report.add("joint that starts apart", joint.label, "cannot be closed, its bodies will snap")
        elif id(joint) in were_apart:
            records.report.add("joint that starts apart", joint.label, "its bodies are brought together first")


def _rebuild(records: SceneRecords, joints: list[SceneJoint], apart: set[int]) -> None:
    """Poses of the bodies behind joints that are apart, from the joint coordinates of the authored poses.

    A tree is grown from what is held. It takes a joint that is apart only when no other leads on, so that such a joint
    in a loop is the one that stays open, and what fits stays together.
    """
    authored = {WORLD_BODY: IDENTITY, **{i: body.pose for i, body in enumerate(records.bodies)}}
    at: dict[int, list[SceneJoint]] = defaultdict(list)
    for joint in joints:
        at[joint.parent].append(joint)
        at[joint.child].append(joint)
    held = [WORLD_BODY, *(i for i, body in enumerate(records.bodies) if body.kinematic)]
    seen: set[int] = set()
    moved: set[int] = set()
    for roots in (held, *([i] for i in range(len(records.bodies)))):
        waiting: deque[SceneJoint] = deque()
        for body in roots:
            if body not in seen:
                seen.add(body)
                _await(waiting, at[body], apart)
        while waiting:
            joint = waiting.popleft()
            ends = {joint.parent, joint.child} - seen
            if not ends:
                continue
            (far,) = ends
            seen.add(far)
            near = joint.parent if far == joint.child else joint.child
            if near in moved or id(joint) in apart:
                moved.add(far)
                records.bodies[far].pose = _placed(records, authored, joint, far)
            _await(waiting, at[far], apart)


def _await(waiting: deque[SceneJoint], joints: list[SceneJoint], apart: set[int]) -> None:
    """Queues joints, those that are apart behind all others."""
    for joint in joints:
        if id(joint) in apart:
            waiting.append(joint)
        else:
            waiting.appendleft(joint)


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
    """The nearest relative pose that the joint allows, limits left aside."""
    slides, turns = _free_axes(joint)
    out = IDENTITY.copy()
    for axis in slides:
        out[:3] += axis * (axis @ between[:3])
    if len(turns) == 1:
        twist = np.append(turns[0] * (turns[0] @ between[3:6]), between[6])
        length = np.linalg.norm(twist)
        out[3:] = twist / length if length > 1e-9 else out[3:]
    elif turns:  # of a universal joint only the position is looked at
        out[3:] = between[3:]
    return out


def _free_axes(joint: SceneJoint) -> tuple[list[Floats], list[Floats]]:
    """(axes of free translations, axes of free rotations) in the joint frame."""
    match joint.type:
        case JointType.REVOLUTE:
            return [], [joint.axis]
        case JointType.PRISMATIC:
            return [joint.axis], []
        case JointType.BALL:
            return [], list(np.eye(3))
        case JointType.D6:
            return [f.axis for f in joint.linear], [f.axis for f in joint.angular]
    return [], []


def _fits(records: SceneRecords, joint: SceneJoint) -> bool:
    """True if the bodies are where the joint allows them to be."""
    between = _between(joint, _pose(records, joint.parent), _pose(records, joint.child))
    off = pose_multiply(pose_inverse(_allowed(joint, between)), between)
    turn = 2.0 * np.arctan2(np.linalg.norm(off[3:6]), abs(off[6]))
    return bool(np.linalg.norm(off[:3]) <= LINEAR_SLACK and turn <= ANGULAR_SLACK)
