"""Fluids in USD frames as surfaces: beside each Points prim a Mesh whose topology changes from frame to frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.sim.fluid_surface import fluid_surface
from engine.sim.frames_usd_points import COLOUR, Cloud

SUFFIX = "_surface"


class FluidSurfaces:
    """Samples of the surfaces of all fluids; `write` adds one for a state. The points are hidden."""

    def __init__(self, layer: Any, clouds: list[Cloud], radius: float, unit: float):
        """unit: metres per unit of the stage."""
        from pxr import Gf, Sdf, Vt

        self._layer, self._clouds, self._radius, self._unit = layer, clouds, radius, unit
        self._made: list[dict[str, Any]] = []
        kinds = Sdf.ValueTypeNames
        for cloud in clouds:
            points = Sdf.CreatePrimInLayer(layer, cloud.path)
            Sdf.AttributeSpec(points, "visibility", kinds.Token).default = "invisible"
            prim = Sdf.CreatePrimInLayer(layer, str(cloud.path) + SUFFIX)
            prim.specifier, prim.typeName = Sdf.SpecifierDef, "Mesh"
            order = Sdf.AttributeSpec(prim, "xformOpOrder", kinds.TokenArray, Sdf.VariabilityUniform)
            order.default = Vt.TokenArray(["!resetXformStack!"])  # vertices lie in the world
            wanted = {"points": kinds.Point3fArray, "faceVertexIndices": kinds.IntArray,
                      "faceVertexCounts": kinds.IntArray, "extent": kinds.Float3Array}  # fmt: skip
            self._made.append({name: Sdf.AttributeSpec(prim, name, kind).path for name, kind in wanted.items()})
            Sdf.AttributeSpec(prim, "subdivisionScheme", kinds.Token, Sdf.VariabilityUniform).default = "none"
            colour = Sdf.AttributeSpec(prim, "primvars:displayColor", kinds.Color3fArray)
            colour.default = Vt.Vec3fArray([Gf.Vec3f(*COLOUR)])

    def write(self, state: Any, time: float) -> None:
        """One sample of each surface at a time code."""
        from pxr import Vt

        fluids, places = state.particle_fluid.numpy(), state.particle_q.numpy()
        sample = self._layer.SetTimeSample
        for cloud, made in zip(self._clouds, self._made, strict=True):
            vertices, triangles = fluid_surface(places[fluids == cloud.fluid], self._radius)
            x = np.ascontiguousarray(vertices / self._unit, np.float32)
            sample(made["points"], time, Vt.Vec3fArray.FromNumpy(x))
            sample(made["faceVertexIndices"], time, Vt.IntArray.FromNumpy(np.ravel(triangles).astype(np.int32)))
            sample(made["faceVertexCounts"], time, Vt.IntArray.FromNumpy(np.full(len(triangles), 3, np.int32)))
            if len(x):
                bounds = np.stack([x.min(axis=0), x.max(axis=0)])
                sample(made["extent"], time, Vt.Vec3fArray.FromNumpy(bounds))
