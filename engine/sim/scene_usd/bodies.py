"""Rigid body prims → SceneBodys: pose, start velocity, kinematic and disabled bodies."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.sim.scene_records import SceneBody
from engine.sim.scene_usd.reading import Reading


def read_body(reading: Reading, prim: Any) -> None:
    """Adds the record of one prim with RigidBodyAPI, without its mass. A disabled body adds nothing: it is static."""
    from pxr import UsdPhysics

    api = UsdPhysics.RigidBodyAPI(prim)
    if not api.GetRigidBodyEnabledAttr().Get(reading.time):
        return
    frame = reading.frame(prim)
    kinematic = bool(api.GetKinematicEnabledAttr().Get(reading.time))
    label = str(prim.GetPath())
    velocity, angular = _start_velocity(reading, prim, api)
    reading.body_index[label] = len(reading.records.bodies)
    reading.body_frames.append(frame)
    reading.records.bodies.append(
        SceneBody(label, frame.pose, velocity=velocity, angular_velocity=angular, kinematic=kinematic)
    )
    if _is_animated(prim):
        what = "kinematic body" if kinematic else "rigid body"
        reading.report.add(f"animated {what}", label, "only the start pose is used")
    if api.GetStartsAsleepAttr().Get(reading.time):
        reading.report.add("physics:startsAsleep", label, "the body starts awake")


def _start_velocity(reading: Reading, prim: Any, api: Any) -> tuple[np.ndarray, np.ndarray]:
    """World velocity (m/s) and angular velocity (rad/s). Authored in the space of the prim's xform: the parent's."""
    velocity = reading.value(api.GetVelocityAttr(), 3)
    angular = np.radians(reading.value(api.GetAngularVelocityAttr(), 3))
    if not (velocity.any() or angular.any()):
        return velocity, angular
    parent = reading.parent_frame(prim)
    return parent.matrix @ velocity, parent.rotation @ angular


def _is_animated(prim: Any) -> bool:
    """True if the prim or one of its parents moves by time samples."""
    from pxr import UsdGeom

    while prim and not prim.IsPseudoRoot():
        xformable = UsdGeom.Xformable(prim)
        if xformable and xformable.TransformMightBeTimeVarying():
            return True
        prim = prim.GetParent()
    return False
