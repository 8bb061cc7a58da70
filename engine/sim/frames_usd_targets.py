"""Which prim shows which body, and how a body's world pose becomes the prim's own local transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.pose import Floats, quat_to_matrix
from engine.sim.scene_usd.frames import IDENTITY, SCALE_SLACK, Frame, prim_frame


@dataclass(frozen=True)
class Target:
    """A prim that shows a body. Columns of matrices are images of axes, world lengths are metres.

    The prim's world matrix is rotation(t) · stretch. Its ops are authored in the space `parent`, which moves along with
    parent_body.
    """

    body: int
    path: str
    stretch: Floats  # (3, 3) prim → body frame
    parent_body: int  # −1 = the world
    parent: Frame  # authored space → frame of parent_body
    scale: Floats | None  # (3,) of the scale op; None: the local transform needs a matrix op
    resets: bool  # the prim ignores the transforms above it


class Placement:
    """Local transforms of all targets at once, from the world poses of the bodies."""

    def __init__(self, targets: list[Target]):
        self._body = np.array([t.body for t in targets], np.int64)
        self._parent_body = np.array([t.parent_body for t in targets], np.int64)
        self._stretch = np.array([t.stretch for t in targets]).reshape(-1, 3, 3)
        self._back = np.array([np.linalg.inv(t.parent.matrix) for t in targets]).reshape(-1, 3, 3)
        self._back_turn = conjugate(np.array([t.parent.pose[3:] for t in targets]).reshape(-1, 4))
        self._origin = np.array([t.parent.origin for t in targets]).reshape(-1, 3)
        self._last = np.tile([0.0, 0.0, 0.0, 1.0], (len(targets), 1))

    def locate(self, poses: Floats) -> tuple[Floats, Floats]:
        """(origins (n, 3) in the units of the authored spaces, quaternions (n, 4) xyzw there) from poses (nbody, 7).

        Of the two quaternions of a rotation it is the one nearer to that of the last call.
        """
        around = np.append(poses, [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], axis=0)  # index −1 is the world
        back = conjugate(around[self._parent_body, 3:])
        shift = rotated(back, poses[self._body, :3] - around[self._parent_body, :3]) - self._origin
        turn = multiplied(self._back_turn, multiplied(back, poses[self._body, 3:]))
        turn = np.where((turn * self._last).sum(axis=1, keepdims=True) < 0, -turn, turn)
        self._last = turn
        return np.einsum("nij,nj->ni", self._back, shift), turn

    def matrix(self, i: int, poses: Floats) -> Floats:
        """(3, 3) local matrix of target i, where a rotation and a scale are not enough."""
        turn = quat_to_matrix(poses[self._body[i], 3:])
        if self._parent_body[i] >= 0:
            turn = quat_to_matrix(poses[self._parent_body[i], 3:]).T @ turn
        return self._back[i] @ turn @ self._stretch[i]


def conjugate(q: Floats) -> Floats:
    """Inverse rotations of unit quaternions (n, 4)."""
    return q * (-1.0, -1.0, -1.0, 1.0)


def multiplied(a: Floats, b: Floats) -> Floats:
    """Rotations b, then a; quaternions (n, 4)."""
    av, aw, bv, bw = a[:, :3], a[:, 3:], b[:, :3], b[:, 3:]
    vector = aw * bv + bw * av + np.cross(av, bv)
    return np.concatenate([vector, aw * bw - (av * bv).sum(axis=1, keepdims=True)], axis=1)


def rotated(q: Floats, v: Floats) -> Floats:
    """Vectors (n, 3) turned by quaternions (n, 4)."""
    t = 2.0 * np.cross(q[:, :3], v)
    return v + q[:, 3:] * t + np.cross(q[:, :3], t)


def targets_in_stage(stage: Any, labels: list[str], start: float) -> list[Target]:
    """A target for each body, whose label is the path of its prim. Raises SceneError if a prim is not there.

    Prims inside instances can be overridden only once the instance is dissolved: that is authored, too.
    """
    from pxr import Usd, UsdGeom

    _dissolve_instances(stage, labels)
    cache = UsdGeom.XformCache(Usd.TimeCode(start))
    length = float(UsdGeom.GetStageMetersPerUnit(stage))
    index = {label: i for i, label in enumerate(labels)}
    frames: dict[str, Frame] = {}
    for label in labels:
        prim = stage.GetPrimAtPath(label)
        if not prim:
            raise SceneError(stage.GetRootLayer().realPath, label, "body has no prim of this path")
        frames[label] = prim_frame(cache, prim, length, label)
    return [_target(cache, stage.GetPrimAtPath(label), index, frames, length) for label in labels]


def _dissolve_instances(stage: Any, labels: list[str]) -> None:
    for label in labels:
        while (prim := stage.GetPrimAtPath(label)) and (prim.IsInstanceProxy() or prim.IsInstance()):
            while prim and not prim.IsInstance():
                prim = prim.GetParent()
            stage.OverridePrim(prim.GetPath()).SetInstanceable(False)


def _target(cache: Any, prim: Any, index: dict[str, int], frames: dict[str, Frame], length: float) -> Target:
    """The target of one body prim."""
    from pxr import UsdGeom

    label = str(prim.GetPath())
    resets = bool(UsdGeom.Xformable(prim).GetResetXformStack()) or _parent_is_animated(prim, index)
    above = "" if resets else _body_above(prim, index)
    if resets:
        outer = Frame(np.eye(3), np.eye(3) * length, np.zeros(3))
    else:
        outer = prim_frame(cache, prim.GetParent(), length, label).inside(frames.get(above, IDENTITY))
    stretch = frames[label].stretch
    turns_stay_turns = _is_uniform(outer) and frames[label].scale() is not None
    scale = np.diag(stretch) / outer.stretch[0, 0] if turns_stay_turns else None
    return Target(index[label], label, stretch, index.get(above, -1), outer, scale, resets)


def _is_uniform(frame: Frame) -> bool:
    """True if a frame only rotates and scales evenly, so that rotations stay rotations in it."""
    scale = frame.scale()
    return scale is not None and bool((scale > 0).all()) and bool(np.ptp(scale) <= SCALE_SLACK * scale.max())


def _body_above(prim: Any, index: dict[str, int]) -> str:
    """Path of the nearest body among the prim's parents, "" without one."""
    from pxr import UsdGeom

    above = prim.GetParent()
    while above and not above.IsPseudoRoot():
        if str(above.GetPath()) in index:
            return str(above.GetPath())
        if UsdGeom.Xformable(above) and UsdGeom.Xformable(above).GetResetXformStack():
            return ""
        above = above.GetParent()
    return ""


def _parent_is_animated(prim: Any, index: dict[str, int]) -> bool:
    """True if a parent that is no body moves by time samples of its own."""
    from pxr import UsdGeom

    above = prim.GetParent()
    while above and not above.IsPseudoRoot():
        if str(above.GetPath()) in index:
            return False
        if UsdGeom.Xformable(above) and UsdGeom.Xformable(above).TransformMightBeTimeVarying():
            return True
        above = above.GetParent()
    return False
