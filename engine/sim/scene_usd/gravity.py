"""PhysicsScene → gravity of the world in m/s²."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.geom.pose import Floats
from engine.sim.scene_records import EARTH_GRAVITY
from engine.sim.scene_usd.reading import Reading
from engine.sim.scene_usd.stage import up_axis


def read_gravity(reading: Reading, scenes: list[Any]) -> Floats:
    """Gravity (3,) of the first PhysicsScene prim; earth's, down the up axis, where it says nothing.

    The schema's fallbacks ask for that: direction (0, 0, 0) means down, a magnitude of −infinity (any negative number)
    earth's, "regardless of metersPerUnit".
    """
    from pxr import UsdPhysics

    down = np.array([0.0, -1.0, 0.0] if up_axis(reading.stage) == "y" else [0.0, 0.0, -1.0])
    if not scenes:
        return EARTH_GRAVITY * down
    if len(scenes) > 1:
        reading.report.add(
            "several PhysicsScenes", scenes[1].GetPath(), f"all bodies are simulated in {scenes[0].GetPath()}"
        )
    scene = UsdPhysics.Scene(scenes[0])
    direction = reading.value(scene.GetGravityDirectionAttr(), 3)
    magnitude = float(scene.GetGravityMagnitudeAttr().Get(reading.time))
    if np.isnan(magnitude) or magnitude == np.inf:
        raise reading.error(scenes[0], f"physics:gravityMagnitude is {magnitude}, not a finite number")
    length = float(np.linalg.norm(direction))
    strength = EARTH_GRAVITY if magnitude < 0 else magnitude * reading.units.length
    return strength * (direction / length if length > 0 else down)
