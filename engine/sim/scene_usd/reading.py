"""What the readers of one stage share: the stage, its units and time, world frames, and the records made so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.pose import Floats, quat_to_matrix
from engine.sim.scene_records import Material, SceneRecords, SceneReport
from engine.sim.scene_usd.frames import IDENTITY, Frame, prim_frame
from engine.sim.scene_usd.stage import Units
from engine.state.schema import WORLD_BODY


@dataclass
class Reading:
    """One stage being read. Prims are looked up by path text."""

    stage: Any  # Usd.Stage
    path: str
    units: Units
    cache: Any  # UsdGeom.XformCache at the start time
    records: SceneRecords
    body_index: dict[str, int] = field(default_factory=dict)  # prim path -> index in records.bodies
    body_frames: list[Frame] = field(default_factory=list)  # world frame of each body, with its stretch
    shape_index: dict[str, list[int]] = field(default_factory=dict)  # prim path -> indices in records.shapes
    frames: dict[str, Frame] = field(default_factory=dict)  # prim path -> world frame, as they are asked for
    materials: dict[str, Material] = field(default_factory=dict)  # prim path -> what it says

    @property
    def time(self) -> Any:
        """Usd.TimeCode at which attributes are read."""
        return self.cache.GetTime()

    @property
    def report(self) -> SceneReport:
        """Where to note what is not taken over."""
        return self.records.report

    def error(self, prim: Any, reason: str) -> SceneError:
        """An error at a prim (or a prim path) of this file."""
        return SceneError(self.path, str(prim.GetPath()) if hasattr(prim, "GetPath") else str(prim), reason)

    def frame(self, prim: Any) -> Frame:
        """World frame of a prim, m."""
        path = str(prim.GetPath())
        if path not in self.frames:
            self.frames[path] = prim_frame(self.cache, prim, self.units.length, self.path)
        return self.frames[path]

    def parent_frame(self, prim: Any) -> Frame:
        """The world frame in which the prim's own xform is given, m."""
        from pxr import UsdGeom

        if UsdGeom.Xformable(prim).GetResetXformStack():
            return Frame(np.eye(3), np.eye(3) * self.units.length, np.zeros(3))
        return self.frame(prim.GetParent())

    def body_of(self, prim: Any) -> int:
        """Index of the moving body that carries a prim, WORLD_BODY if none does."""
        from pxr import UsdPhysics

        while prim and not prim.IsPseudoRoot():
            if prim.HasAPI(UsdPhysics.RigidBodyAPI):
                return self.body_index.get(str(prim.GetPath()), WORLD_BODY)
            prim = prim.GetParent()
        return WORLD_BODY

    def body_frame(self, body: int) -> Frame:
        """World frame of a body by index."""
        return IDENTITY if body == WORLD_BODY else self.body_frames[body]

    def value(self, attribute: Any, size: int = 1) -> Any:
        """An attribute at the start time: a float, or an array (size,). Raises SceneError unless it is finite."""
        raw = attribute.Get(self.time)
        try:
            number = float(raw) if size == 1 else np.array(raw, float).reshape(size)
        except (TypeError, ValueError):
            wanted = "a number" if size == 1 else f"{size} numbers"
            raise self.error(attribute.GetPrim(), f"{attribute.GetName()} is {raw!r}, not {wanted}") from None
        if not np.isfinite(number).all():
            raise self.error(attribute.GetPrim(), f"{attribute.GetName()} is {raw}, not a finite number")
        return number

    def positive(self, attribute: Any) -> float:
        """A float attribute that must be > 0."""
        number = float(self.value(attribute))
        if number <= 0.0:
            raise self.error(attribute.GetPrim(), f"{attribute.GetName()} is {number:g}, must be positive")
        return number

    def rotation(self, attribute: Any) -> Floats:
        """A quaternion attribute as a rotation matrix (3, 3); normalised. Raises SceneError for zero or NaN."""
        raw = attribute.Get(self.time)
        q = np.array([*raw.GetImaginary(), raw.GetReal()], float)
        length = np.linalg.norm(q)
        if not (np.isfinite(length) and length > 1e-9):
            raise self.error(attribute.GetPrim(), f"{attribute.GetName()} is {raw}, not a rotation")
        return quat_to_matrix(q / length)
