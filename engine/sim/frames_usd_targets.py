"""Which prim shows which body, and how a body's world pose becomes the prim's own local transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.pose import Floats, quat_from_matrix
from engine.sim.scene_usd.frames import IDENTITY, SCALE_SLACK, Frame, prim_frame


@dataclass(frozen=True)
class Target:
    """A prim and the constant part of its transform. Columns are images of axes; lengths in the stretch are metres.

    The prim's world matrix is rotation(t) · stretch. The space that its ops are authored in is parent_matrix, turned and
    shifted by the pose of parent_body.
    """

    body: int
    path: str
    stretch: Floats  # (3, 3) stage units → m, in the body frame
    parent_body: int  # body whose motion the parent space follows, −1 = none
    parent_matrix: Floats  # (3, 3) parent space → m, in the frame of parent_body (or the world)
    parent_origin: Floats  # (3,) m
    scale: Floats | None  # (3,) of the scale op; None: the local transform needs a matrix op
    resets: bool  # the prim ignores the transforms above it

    def local(self, origin: Floats, rotation: Floats, parent: tuple[Floats, Floats] | None) -> tuple[Floats, Floats]:
        """(matrix (3, 3), origin (3,)) in the parent's space and units, from the body's world pose, m."""
        matrix, shift = rotation @ self.stretch, origin
        if parent is not None:
            pose, turn = parent
            matrix, shift = turn.T @ matrix, turn.T @ (shift - pose[:3])
        return (
            np.linalg.solve(self.parent_matrix, matrix),
            np.linalg.solve(self.parent_matrix, shift - self.parent_origin),
        )

    def rotation_of(self, matrix: Floats) -> Floats:
        """Quaternion (4,) xyzw of a local matrix that is a rotation times `scale`."""
        assert self.scale is not None
        return quat_from_matrix(matrix / self.scale)


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
    return Target(index[label], label, stretch, index.get(above, -1), outer.matrix, outer.origin, scale, resets)


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
