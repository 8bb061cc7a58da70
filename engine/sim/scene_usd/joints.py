"""Joint prims → SceneJoints: frames, limits, drives in SI and radians; D6 joints.

Angles are degrees in USD and stiffness, damping and limits of angular drives are per degree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import degrees, inf, isfinite, radians
from typing import Any

import numpy as np

from engine.geom.pose import Floats
from engine.sim.scene_records import Drive, Freedom, SceneJoint
from engine.sim.scene_usd.frames import Frame
from engine.sim.scene_usd.reading import Reading
from engine.sim.scene_usd.shapes import AXIS_TURN
from engine.state.schema import WORLD_BODY, JointType

AXES = {"X": np.array([1.0, 0.0, 0.0]), "Y": np.array([0.0, 1.0, 0.0]), "Z": np.array([0.0, 0.0, 1.0])}
NO_LIMITS = (-inf, inf)
NO_FORCE_LIMIT = 1e30  # from here on a float32 maxForce means none
LINEAR = ("TransX", "TransY", "TransZ")
ANGULAR = ("RotX", "RotY", "RotZ")


@dataclass(frozen=True)
class _Side:
    """One end of a joint: the moving body (or WORLD_BODY), the joint frame in it, and the prim that the joint names."""

    body: int
    frame: Frame
    prim: Any  # None: the world itself

    @property
    def pose(self) -> Floats:
        return self.frame.pose


def read_joint(reading: Reading, prim: Any, desc: Any) -> None:
    """Adds the record of one joint prim; `desc` is USD's parsed description of it."""
    sides = _side(reading, prim, 0), _side(reading, prim, 1)
    if sides[0].prim is None and sides[1].prim is None:
        raise reading.error(prim, "joint names neither body0 nor body1")
    if sides[0].body == sides[1].body:
        _between_fixed(reading, prim, sides[0].body)
        return
    _report_breaking(reading, prim, desc)
    reader = READERS.get(str(desc.type).rsplit(".", 1)[-1])
    if reader is None:
        reading.report.add(f"joint {prim.GetTypeName()}", prim.GetPath(), "not supported yet, left out")
        return
    made = reader(reading, prim, desc, *sides)
    if made is None:
        return
    made.enabled, made.collides = bool(desc.jointEnabled), bool(desc.collisionEnabled)
    reading.records.joints.append(made)
    if made.enabled and not made.collides:
        _filter_static_side(reading, sides)


def _side(reading: Reading, prim: Any, number: int) -> _Side:
    """Body, joint frame and target prim of side 0 or 1. Raises SceneError if the target does not exist."""
    from pxr import UsdPhysics

    joint = UsdPhysics.Joint(prim)
    relation = (joint.GetBody0Rel(), joint.GetBody1Rel())[number]
    position = reading.value((joint.GetLocalPos0Attr(), joint.GetLocalPos1Attr())[number], 3)
    rotation = reading.rotation((joint.GetLocalRot0Attr(), joint.GetLocalRot1Attr())[number])
    targets = relation.GetForwardedTargets()
    if not targets:
        return _Side(WORLD_BODY, Frame(rotation, np.eye(3), position * reading.units.length), None)
    target = reading.stage.GetPrimAtPath(targets[0].GetPrimPath())
    if not target:
        raise reading.error(prim, f"body{number} refers to {targets[0]}, which does not exist")
    if len(targets) > 1:
        reading.report.add(f"several targets of body{number}", prim.GetPath(), "the first one is used")
    body = reading.body_of(target)
    outer = reading.frame(target)
    world = Frame(outer.rotation @ rotation, np.eye(3), outer.point(position))
    return _Side(body, world.inside(reading.body_frame(body)), target)


def _between_fixed(reading: Reading, prim: Any, body: int) -> None:
    """A joint whose ends are one body, or both do not move: it can do nothing."""
    what = "two static prims" if body == WORLD_BODY else "a body and itself"
    reading.report.add(f"joint between {what}", prim.GetPath(), "has no effect, left out")


def _filter_static_side(reading: Reading, sides: tuple[_Side, _Side]) -> None:
    """Joined prims do not collide. The builder sees to it between bodies; this is for a static collider and a body."""
    for static, moving in (sides, sides[::-1]):
        if static.body == WORLD_BODY and static.prim is not None and moving.body != WORLD_BODY:
            prefix = str(static.prim.GetPath())
            below = [
                i for p, ids in reading.shape_index.items() if p == prefix or p.startswith(prefix + "/") for i in ids
            ]
            still = [i for i in below if reading.records.shapes[i].body == WORLD_BODY]
            carried = [i for i, s in enumerate(reading.records.shapes) if s.body == moving.body]
            reading.records.filters.update((min(a, b), max(a, b)) for a in still for b in carried)


def _report_breaking(reading: Reading, prim: Any, desc: Any) -> None:
    """Break force and torque, unless they are infinite."""
    for name, value in (("physics:breakForce", desc.breakForce), ("physics:breakTorque", desc.breakTorque)):
        if isfinite(value) and value < NO_FORCE_LIMIT:
            reading.report.add(name, prim.GetPath(), "not supported yet, the joint does not break")


# -- one reader per kind ---------------------------------------------------------------------------------------------


def _joint(prim: Any, kind: JointType, a: _Side, b: _Side, **values: Any) -> SceneJoint:
    return SceneJoint(str(prim.GetPath()), kind, a.body, b.body, a.pose, b.pose, **values)


def _fixed(_reading: Reading, prim: Any, _desc: Any, a: _Side, b: _Side) -> SceneJoint:
    return _joint(prim, JointType.FIXED, a, b)


def _revolute(reading: Reading, prim: Any, desc: Any, a: _Side, b: _Side) -> SceneJoint:
    limits = _limits(desc.limit, radians(1.0)) if desc.limit.enabled else NO_LIMITS
    drive = _angular_drive(reading, prim, desc.drive)
    return _joint(prim, JointType.REVOLUTE, a, b, axis=AXES[_token(desc.axis)], limits=limits, drive=drive)


def _prismatic(reading: Reading, prim: Any, desc: Any, a: _Side, b: _Side) -> SceneJoint:
    limits = _limits(desc.limit, reading.units.length) if desc.limit.enabled else NO_LIMITS
    drive = _linear_drive(reading, prim, desc.drive)
    return _joint(prim, JointType.PRISMATIC, a, b, axis=AXES[_token(desc.axis)], limits=limits, drive=drive)


def _spherical(reading: Reading, prim: Any, desc: Any, a: _Side, b: _Side) -> SceneJoint:
    """A ball joint. The cone of UsdPhysics is about `axis`, that of the records about z: both frames are turned."""
    turn = AXIS_TURN[_token(desc.axis)]
    cones = (
        [radians(c) if c >= 0 else inf for c in (desc.limit.lower, desc.limit.upper)]
        if desc.limit.enabled
        else [inf, inf]
    )
    if cones[0] != cones[1]:
        reading.report.add("elliptic cone limit", prim.GetPath(), "the smaller angle is used all around")
    for api in ("rotX", "rotY", "rotZ", "angular"):
        if f"PhysicsDriveAPI:{api}" in prim.GetAppliedSchemas():
            reading.report.add("drive of a ball joint", prim.GetPath(), "not supported yet, ignored")
    return _joint(prim, JointType.BALL, _turned(a, turn), _turned(b, turn), limits=(-inf, min(cones)))


def _distance(reading: Reading, prim: Any, desc: Any, a: _Side, b: _Side) -> SceneJoint:
    lower = desc.limit.lower * reading.units.length if desc.minEnabled else 0.0
    upper = desc.limit.upper * reading.units.length if desc.maxEnabled else inf
    if lower > upper:
        raise reading.error(prim, f"minDistance {desc.limit.lower:g} is greater than maxDistance {desc.limit.upper:g}")
    return _joint(prim, JointType.DISTANCE, a, b, limits=(lower, upper))


def _d6(reading: Reading, prim: Any, desc: Any, a: _Side, b: _Side) -> SceneJoint | None:
    """A joint with six limits: no free axis makes it fixed, one revolute or prismatic, three angles a ball."""
    limits = {_token(pair.first): pair.second for pair in desc.jointLimits if pair.second.enabled}
    drives = {_token(pair.first): pair.second for pair in desc.jointDrives if pair.second.enabled}
    # low > high is UsdPhysics' way to lock an axis; low = high = 0 does the same.
    locked = {axis for axis, limit in limits.items() if limit.lower > limit.upper or limit.lower == limit.upper == 0.0}
    free = [axis for axis in LINEAR + ANGULAR if axis not in locked]
    if not free:
        return _joint(prim, JointType.FIXED, a, b)
    bounded = [axis for axis in (*free, "Distance") if axis in limits or axis in drives]
    if len(free) == 1 and "Distance" not in limits:
        one = _freedom(reading, prim, free[0], limits.get(free[0]), drives.get(free[0]))
        kind = JointType.REVOLUTE if free[0] in ANGULAR else JointType.PRISMATIC
        return _joint(prim, kind, a, b, axis=one.axis, limits=one.limits, drive=one.drive)
    if free == list(ANGULAR) and not bounded:
        return _joint(prim, JointType.BALL, a, b)
    if free == list(LINEAR + ANGULAR) and not bounded:
        return None
    if "Distance" in limits or b.body == WORLD_BODY:
        what = "with a distance limit" if "Distance" in limits else "whose body1 is static"
        reading.report.add(f"D6 joint {what}", prim.GetPath(), "not supported yet, left out")
        return None
    linear, angular = (
        [_freedom(reading, prim, axis, limits.get(axis), drives.get(axis)) for axis in free if axis in group]
        for group in (LINEAR, ANGULAR)
    )
    return _joint(prim, JointType.D6, a, b, linear=linear, angular=angular)


def _freedom(reading: Reading, prim: Any, axis: str, limit: Any, drive: Any) -> Freedom:
    """A free axis of a D6 joint, with its limit and drive or None."""
    angular = axis in ANGULAR
    unit = radians(1.0) if angular else reading.units.length
    read_drive = _angular_drive if angular else _linear_drive
    made = read_drive(reading, prim, drive) if drive is not None else None
    return Freedom(AXES[axis[-1]], _limits(limit, unit) if limit is not None else NO_LIMITS, made)


READERS = {
    "FixedJoint": _fixed,
    "RevoluteJoint": _revolute,
    "PrismaticJoint": _prismatic,
    "SphericalJoint": _spherical,
    "DistanceJoint": _distance,
    "D6Joint": _d6,
}


# -- units -----------------------------------------------------------------------------------------------------------


def _token(value: Any) -> str:
    """The name of a USD enum value: "X", "RotY" …"""
    return str(value).rsplit(".", 1)[-1]


def _turned(side: _Side, turn: Floats) -> _Side:
    """The side with its joint frame turned in itself."""
    return replace(side, frame=replace(side.frame, rotation=side.frame.rotation @ turn))


def _limits(limit: Any, unit: float) -> tuple[float, float]:
    """(lower, upper) in SI; ±infinity stays."""
    return limit.lower * unit, limit.upper * unit


def _angular_drive(reading: Reading, prim: Any, drive: Any) -> Drive | None:
    """Stiffness and damping per degree → per radian; targets degrees → radians."""
    if not drive.enabled:
        return None
    # An acceleration drive has no mass in its units.
    per_radian = degrees(1.0) * (1.0 if drive.acceleration else reading.units.torque)
    return _drive(reading, prim, drive, per_radian, radians(1.0), reading.units.torque)


def _linear_drive(reading: Reading, prim: Any, drive: Any) -> Drive | None:
    """Stage units → SI."""
    if not drive.enabled:
        return None
    per_metre = 1.0 if drive.acceleration else reading.units.mass
    return _drive(reading, prim, drive, per_metre, reading.units.length, reading.units.force)


def _drive(reading: Reading, prim: Any, drive: Any, gain: float, target: float, effort: float) -> Drive:
    """A drive with its gains, targets and force limit scaled. Raises SceneError for NaN and negative values."""
    values = {"stiffness": drive.stiffness, "damping": drive.damping, "maxForce": drive.forceLimit}
    for name, value in values.items():
        if not value >= 0:
            raise reading.error(prim, f"{name} of the drive is {value:g}, must not be negative")
    if not (isfinite(drive.targetPosition) and isfinite(drive.targetVelocity)):
        raise reading.error(prim, "target of the drive is not finite")
    limit = inf if drive.forceLimit >= NO_FORCE_LIMIT else drive.forceLimit * effort
    return Drive(
        stiffness=drive.stiffness * gain,
        damping=drive.damping * gain,
        target_pos=drive.targetPosition * target,
        target_vel=drive.targetVelocity * target,
        max_effort=limit,
        acceleration=bool(drive.acceleration),
    )
