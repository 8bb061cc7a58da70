"""Fluids in USD frames: one Points prim each, with points, velocities, ids, widths, in the prim's space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import Error
from engine.geom.pose import Floats

COLOUR = (0.25, 0.52, 0.78)


@dataclass(frozen=True)
class Cloud:
    """Where one fluid goes. back: world → prim, per row vector."""

    path: str
    fluid: int
    points: Any  # paths of the sampled attributes
    velocities: Any
    ids: Any
    extent: Any
    back: Floats  # (3, 3)
    origin: Floats  # (3,) m


class PointClouds:
    """Samples of all fluids of a model; `write` adds one for a state. Particles come in the order of their ids."""

    def __init__(self, stage: Any, layer: Any, model: Any, source: str | None, time: float):
        self._layer = layer
        labels = getattr(model, "fluid_label", ())
        self.radius = float(model.particle_radius.numpy()[0]) if labels else 0.0
        new = source is None
        self.clouds = [self._author(stage, str(label), i, new, time) for i, label in enumerate(labels)]

    def _author(self, stage: Any, label: str, fluid: int, new: bool, time: float) -> Cloud:
        from pxr import Gf, Sdf, Tf, Usd, UsdGeom

        from engine.sim.scene_usd.frames import prim_frame

        path = f"/World/{Tf.MakeValidIdentifier(label)}" if new else label
        unit = UsdGeom.GetStageMetersPerUnit(stage)
        if new:
            UsdGeom.Points.Define(stage, path).CreateDisplayColorAttr([Gf.Vec3f(*COLOUR)])
        prim = stage.GetPrimAtPath(path)
        if not prim or not prim.IsA(UsdGeom.Points):
            raise Error(f"{path}: the scene has no Points prim of this name for the fluid")
        frame = prim_frame(UsdGeom.XformCache(Usd.TimeCode(time)), prim, unit, str(path))
        over = Sdf.CreatePrimInLayer(self._layer, path)
        kinds = Sdf.ValueTypeNames
        wanted = {"points": kinds.Point3fArray, "velocities": kinds.Vector3fArray, "ids": kinds.Int64Array,
                  "extent": kinds.Float3Array}  # fmt: skip
        made = {name: Sdf.AttributeSpec(over, name, kind).path for name, kind in wanted.items()}
        size = float(np.cbrt(abs(np.linalg.det(frame.matrix))))  # metres per unit of the prim
        widths = Sdf.AttributeSpec(over, "widths", kinds.FloatArray)
        widths.default = [2.0 * self.radius / size]
        widths.SetInfo("interpolation", "constant")
        back = np.asarray(np.linalg.inv(frame.matrix).T, np.float64)
        attributes = made["points"], made["velocities"], made["ids"], made["extent"]
        return Cloud(str(path), fluid, *attributes, back, frame.origin)

    def write(self, state: Any, time: float) -> None:
        """One sample of each fluid at a time code."""
        from pxr import Vt

        if not self.clouds:
            return
        ids, fluids = state.particle_id.numpy(), state.particle_fluid.numpy()
        order = np.argsort(ids)
        for cloud in self.clouds:
            mine = order[fluids[order] == cloud.fluid]
            x = ((state.particle_q.numpy()[mine] - cloud.origin) @ cloud.back).astype(np.float32)
            v = (state.particle_qd.numpy()[mine] @ cloud.back).astype(np.float32)
            sample = self._layer.SetTimeSample
            sample(cloud.points, time, Vt.Vec3fArray.FromNumpy(x))
            sample(cloud.velocities, time, Vt.Vec3fArray.FromNumpy(v))
            sample(cloud.ids, time, Vt.Int64Array.FromNumpy(ids[mine].astype(np.int64)))
            if len(x):
                reach = self.radius * np.abs(cloud.back).sum(axis=0)
                bounds = np.stack([x.min(axis=0) - reach, x.max(axis=0) + reach]).astype(np.float32)
                sample(cloud.extent, time, Vt.Vec3fArray.FromNumpy(bounds))
