"""Joint coordinates and velocities of given body poses (host, float64): where a scene's joints are at the start."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.geom.pose import Floats, pose_inverse, pose_multiply, pose_point, quat_inverse, quat_rotate
from engine.state.schema import JointType


def joint_coordinates(m: Mapping[str, np.ndarray]) -> tuple[Floats, Floats]:
    """(joint_q (ncoord,), joint_qd (ndof,)) of the body poses and velocities among Model fields `m`, by field name.

    Angles about one axis are in (−π, π]. A D6 with two or three angular axes has the components of the rotation vector
    along them. A ball's quaternion has w ≥ 0.
    """
    frame_p, frame_c = _world_frames(m)
    relative = pose_multiply(pose_inverse(frame_p), frame_c)
    joint = np.repeat(np.arange(len(frame_p)), m["joint_lin_count"] + m["joint_ang_count"])  # of each dof
    place = np.arange(len(joint)) - m["joint_qd_start"][joint]  # of the dof within its joint
    linear = place < m["joint_lin_count"][joint]
    return _positions(m, relative, joint, place, linear), _velocities(m, frame_p, frame_c, joint, linear)


def _world_frames(m: Mapping[str, np.ndarray]) -> tuple[Floats, Floats]:
    """World poses (njoint, 7) of the joint frames of parent and child."""
    bodies = np.vstack([m["body_q"].reshape(-1, 7), [0, 0, 0, 0, 0, 0, 1]])  # index −1 is the world
    return (
        pose_multiply(bodies[m["joint_parent"]], m["joint_xform_p"].reshape(-1, 7)),
        pose_multiply(bodies[m["joint_child"]], m["joint_xform_c"].reshape(-1, 7)),
    )


def _positions(
    m: Mapping[str, np.ndarray], relative: Floats, joint: np.ndarray, place: np.ndarray, linear: np.ndarray
) -> Floats:
    kind, axis = m["joint_type"], m["joint_axis"].reshape(-1, 3)
    alone = m["joint_ang_count"][joint] == 1
    along = _dot(axis, relative[joint, :3])
    about = np.where(alone, angle_about(axis, relative[joint, 3:]), _dot(axis, rotation_vector(relative[joint, 3:])))
    value = np.where(linear, along, about)
    far = kind[joint] == JointType.DISTANCE
    value[far] = np.linalg.norm(relative[joint[far], :3], axis=-1)
    q = np.zeros(int(np.where(kind == JointType.BALL, 4, m["joint_lin_count"] + m["joint_ang_count"]).sum()))
    plain = kind[joint] != JointType.BALL
    q[(m["joint_q_start"][joint] + place)[plain]] = value[plain]
    balls = np.flatnonzero(kind == JointType.BALL)
    sign = np.where(relative[balls, 6:] < 0, -1.0, 1.0)
    q[m["joint_q_start"][balls][:, None] + np.arange(4)] = sign * relative[balls, 3:]
    return q


def _velocities(
    m: Mapping[str, np.ndarray], frame_p: Floats, frame_c: Floats, joint: np.ndarray, linear: np.ndarray
) -> Floats:
    anchor = frame_c[:, :3]  # both velocities are taken where the child's joint frame is now
    v, w = np.zeros_like(anchor), np.zeros_like(anchor)
    bodies = np.vstack([m["body_q"].reshape(-1, 7), [0, 0, 0, 0, 0, 0, 1]])
    twists = np.vstack([m["body_qd"].reshape(-1, 6), np.zeros(6)])
    coms = np.vstack([m["body_com"].reshape(-1, 3), np.zeros(3)])
    for sign, body in ((1.0, m["joint_child"]), (-1.0, m["joint_parent"])):
        arm = anchor - pose_point(bodies[body], coms[body])
        v += sign * (twists[body, :3] + np.cross(twists[body, 3:], arm))
        w += sign * twists[body, 3:]
    to_joint = quat_inverse(frame_p[:, 3:])
    v, w = quat_rotate(to_joint, v), quat_rotate(to_joint, w)
    axis = m["joint_axis"].reshape(-1, 3)
    qd = np.where(linear, _dot(axis, v[joint]), _dot(axis, w[joint]))
    far = m["joint_type"][joint] == JointType.DISTANCE
    arm = quat_rotate(to_joint, anchor - frame_p[:, :3])[joint[far]]
    length = np.linalg.norm(arm, axis=-1)
    qd[far] = _dot(arm, v[joint[far]]) / np.where(length > 0.0, length, 1.0)
    return qd


def angle_about(axis: Floats, q: Floats) -> Floats:
    """Angles (…,) in (−π, π] of the twists of quaternions q (…, 4) about unit axes (…, 3)."""
    angle = 2.0 * np.arctan2(_dot(axis, q[..., :3]), q[..., 3])
    return angle - 2 * np.pi * np.ceil((angle - np.pi) / (2 * np.pi))


def rotation_vector(q: Floats) -> Floats:
    """Axis times angle (…, 3), angle in [0, π], of unit quaternions (…, 4)."""
    q = np.where(q[..., 3:] < 0, -q, q)
    sine = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, q[..., 3:])
    return q[..., :3] * np.where(sine < 1e-12, 2.0, angle / np.where(sine < 1e-12, 1.0, sine))


def _dot(a: Floats, b: Floats) -> Floats:
    return (a * b).sum(axis=-1)
