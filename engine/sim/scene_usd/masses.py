"""MassAPI → mass properties of bodies, by the precedence rules of UsdPhysics.

mass of the body, else the sum over its colliders; a collider has its own mass, else density × volume with its own
density, else the body's, the material's, 1000 kg/m³. Prims between body and collider do not count. Centre of mass and
inertia: authored, else from the colliders, scaled to the body's mass and taken about its centre of mass.
(https://openusd.org/release/api/usd_physics_page_front.html, "Mass Properties"; checked against
UsdPhysics.RigidBodyAPI.ComputeMassProperties.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.geom import inertia, shapes
from engine.geom.inertia import NOTHING, MassProperties
from engine.geom.pose import Floats
from engine.sim.scene_records import DEFAULT_DENSITY, SceneBody, SceneShape
from engine.sim.scene_usd.frames import Frame
from engine.sim.scene_usd.reading import Reading


def read_masses(reading: Reading) -> None:
    """Fills mass, com and inertia of every body record; all shapes must have been read."""
    carried: list[list[SceneShape]] = [[] for _ in reading.records.bodies]
    for shape in reading.records.shapes:
        if shape.body >= 0:
            carried[shape.body].append(shape)
    for body, frame, shapes_of_body in zip(reading.records.bodies, reading.body_frames, carried, strict=True):
        _read_body_mass(reading, body, frame, shapes_of_body)


def _read_body_mass(reading: Reading, body: SceneBody, frame: Frame, carried: list[SceneShape]) -> None:
    """Mass properties of one body."""
    prim = reading.stage.GetPrimAtPath(body.label)
    authored = _authored(reading, prim)
    total = inertia.combined(_solid_of(reading, prim, frame, s) for s in carried)
    mass = authored.mass if authored.mass > 0 else total.mass
    if mass == 0.0:
        mass = 1.0
        reading.report.add("body without mass and colliders", body.label, "weighs 1 kg")
    if total.mass == 0.0:
        total = _ball(mass)
        if authored.moments is None and not body.kinematic:
            reading.report.add(
                "body without inertia and colliders", body.label, "inertia of a ball of 1000 kg/m³ is used"
            )
    total = total.with_mass(mass)
    body.mass = mass
    body.com = total.com if authored.com is None else frame.stretch @ authored.com
    body.inertia = total.about(body.com) if authored.moments is None else authored.inertia()


def _ball(mass: float) -> MassProperties:
    """A ball of DEFAULT_DENSITY about the origin."""
    return inertia.sphere(DEFAULT_DENSITY, float((mass / DEFAULT_DENSITY * 3 / (4 * np.pi)) ** (1 / 3)))


class _Authored:
    """What one MassAPI says. 0 or None: not given. com in the prim's space and stage units, the rest SI."""

    def __init__(self, mass: float, density: float, com: Floats | None, moments: Floats | None, axes: Floats):
        self.mass, self.density, self.com, self.moments, self.axes = mass, density, com, moments, axes

    def inertia(self) -> Floats:
        """(3, 3) kg·m² in the prim's axes."""
        assert self.moments is not None
        return inertia.symmetric(self.axes @ np.diag(self.moments) @ self.axes.T)


def _authored(reading: Reading, prim: Any) -> _Authored:
    """Reads a prim's MassAPI. Raises SceneError for NaN and negative values."""
    from pxr import UsdPhysics

    if not prim.HasAPI(UsdPhysics.MassAPI):
        return _Authored(0.0, 0.0, None, None, np.eye(3))
    api = UsdPhysics.MassAPI(prim)
    mass, density = float(reading.value(api.GetMassAttr())), float(reading.value(api.GetDensityAttr()))
    moments = reading.value(api.GetDiagonalInertiaAttr(), 3)
    for name, number in (("mass", mass), ("density", density), ("diagonalInertia", float(moments.min()))):
        if number < 0:
            raise reading.error(prim, f"physics:{name} is {number:g}, must not be negative")
    axes = api.GetPrincipalAxesAttr()
    raw = axes.Get(reading.time)
    turned = raw is not None and raw.GetLength() > 0
    return _Authored(
        mass * reading.units.mass,
        density * reading.units.density,
        _authored_com(reading, api.GetCenterOfMassAttr()),
        moments * reading.units.inertia if moments.any() else None,
        reading.rotation(axes) if turned else np.eye(3),
    )


def _authored_com(reading: Reading, attribute: Any) -> Floats | None:
    """The centre of mass in stage units; the schema's fallback of −infinity means: not given."""
    raw = np.array(attribute.Get(reading.time), float)
    if np.isneginf(raw).any():
        return None
    return np.asarray(reading.value(attribute, 3))


def _solid_of(reading: Reading, body_prim: Any, body_frame: Frame, shape: SceneShape) -> MassProperties:
    """Mass properties of one collider in the body frame."""
    prim = reading.stage.GetPrimAtPath(shape.label)
    solid = _unit_solid(shape)
    # The body's own mass and inertia are the body's, also where the collider is the same prim.
    own = _authored(reading, prim) if prim != body_prim else _Authored(0.0, 0.0, None, None, np.eye(3))
    density = own.density or _authored(reading, body_prim).density or shape.material.density or DEFAULT_DENSITY
    if own.mass > 0 and solid.mass == 0.0:
        solid = _ball(own.mass)
    if solid.mass == 0.0:
        return NOTHING
    solid = solid.with_mass(own.mass if own.mass > 0 else solid.mass * density).moved(shape.pose)
    if own.com is None and own.moments is None:
        return solid
    frame = reading.frame(prim).inside(body_frame)
    com = solid.com if own.com is None else frame.point(own.com)
    about_com = solid.about(com) if own.moments is None else frame.rotation @ own.inertia() @ frame.rotation.T
    return MassProperties(solid.mass, com, about_com)


def _unit_solid(shape: SceneShape) -> MassProperties:
    """Mass properties at 1 kg/m³ in the shape frame."""
    return shapes.mass_properties(shape.type, shape.scale, 1.0, shape.hull)
