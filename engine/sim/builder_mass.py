"""Mass, centre of mass and inertia of every body, from its shapes and from what the user gave; all bodies at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import SceneError
from engine.geom import inertia
from engine.geom.pose import Floats, quat_to_matrix
from engine.geom.shapes import mass_properties

if TYPE_CHECKING:
    from engine.sim.builder import ModelBuilder
    from engine.sim.builder_records import ShapeRecord

DEFAULT_DENSITY = 1000.0  # kg/m³ of the ball that stands for a body with a mass, but no extent


@dataclass(frozen=True)
class BodyMasses:
    """mass (nbody,) kg, com (nbody, 3) m in the body frame, inertia (nbody, 3, 3) kg·m² about com in body axes."""

    mass: Floats
    com: Floats
    inertia: Floats


def body_masses(builder: ModelBuilder) -> BodyMasses:
    """Of all bodies. Raises SceneError naming the first dynamic body whose mass or inertia no body can have."""
    found = _from_shapes(builder)
    for i, body in enumerate(builder.bodies):
        if body.mass is not None or body.com is not None or body.inertia is not None:
            _override(builder, i, found)
    _check(builder, found)
    return found


def _from_shapes(builder: ModelBuilder) -> BodyMasses:
    """Sums over the shapes of each body (parallel-axis theorem; R I Rᵀ). Overlapping shapes count twice."""
    n = len(builder.bodies)
    shapes = [s for s in builder.shapes if s.body >= 0]
    body = np.array([s.body for s in shapes], np.int64)
    mass, com, tensor = _shape_masses(shapes)
    pose = np.array([s.pose for s in shapes]).reshape(-1, 7)
    r = quat_to_matrix(pose[:, 3:])
    com = pose[:, :3] + np.einsum("nij,nj->ni", r, com)
    tensor = r @ tensor @ np.swapaxes(r, 1, 2)
    total, centre, sums = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))
    np.add.at(total, body, mass)
    np.add.at(centre, body, mass[:, None] * com)
    centre /= np.where(total > 0.0, total, 1.0)[:, None]
    arm = com - centre[body]
    shift = np.einsum("ni,ni->n", arm, arm)[:, None, None] * np.eye(3) - arm[:, :, None] * arm[:, None, :]
    np.add.at(sums, body, tensor + mass[:, None, None] * shift)
    return BodyMasses(total, centre, (sums + np.swapaxes(sums, 1, 2)) / 2)


def _shape_masses(shapes: list[ShapeRecord]) -> tuple[Floats, Floats, Floats]:
    """mass (n,), com (n, 3), inertia (n, 3, 3) of shapes in their own frames; equal shapes are computed once."""
    units: dict[tuple[object, ...], inertia.MassProperties] = {}
    mass, com, tensor = np.zeros(len(shapes)), np.zeros((len(shapes), 3)), np.zeros((len(shapes), 3, 3))
    for i, s in enumerate(shapes):
        key = (s.kind, s.scale.tobytes(), id(s.hull), id(s.solid))
        unit = units.get(key)
        if unit is None:
            unit = units[key] = s.solid or mass_properties(s.kind, s.scale, 1.0, s.hull)
        if unit.mass == 0.0:
            continue
        mass[i] = s.options.density * unit.mass if s.options.mass is None else s.options.mass
        com[i], tensor[i] = unit.com, unit.inertia * (mass[i] / unit.mass)
    return mass, com, tensor


def _override(builder: ModelBuilder, i: int, found: BodyMasses) -> None:
    """Puts what the user gave in place of what the shapes give.

    A given mass scales the shapes' inertia; a given centre of mass moves the point that their inertia is about; a
    given inertia stands as it is.
    """
    body = builder.bodies[i]
    solid = inertia.MassProperties(found.mass[i], found.com[i].copy(), found.inertia[i].copy())
    mass = solid.mass if body.mass is None else body.mass
    if solid.mass == 0.0 and body.inertia is None and mass > 0.0:
        radius = (3 * mass / (4 * np.pi * DEFAULT_DENSITY)) ** (1 / 3)
        solid = inertia.sphere(DEFAULT_DENSITY, radius)
        if not body.kinematic:
            builder._warn_once(
                "point mass",
                f"{body.label}: mass without shapes and inertia; taken as a ball of {DEFAULT_DENSITY:g} kg/m³",
            )
        solid = inertia.MassProperties(solid.mass, solid.com if body.com is None else body.com, solid.inertia)
    if solid.mass > 0.0:
        solid = solid.with_mass(mass)
    found.mass[i] = mass
    found.com[i] = solid.com if body.com is None else body.com
    found.inertia[i] = solid.about(found.com[i]) if body.inertia is None else body.inertia


def _check(builder: ModelBuilder, found: BodyMasses) -> None:
    """Raises SceneError for the first dynamic body without a possible mass and inertia."""
    moments = np.linalg.eigvalsh(found.inertia) if len(found.mass) else np.zeros((0, 3))
    possible = (found.mass > 0.0) & (moments[:, 0] > 0.0)
    possible &= moments[:, 2] <= (moments[:, 0] + moments[:, 1]) * (1 + inertia.TRIANGLE_SLACK)
    possible &= _fits_float32(1.0 / np.where(found.mass > 0.0, found.mass, 1.0))
    possible &= _fits_float32(1.0 / np.where(moments[:, 0] > 0.0, moments[:, 0], 1.0))
    for i in np.flatnonzero(~possible):
        body = builder.bodies[int(i)]
        if body.kinematic:
            continue
        if found.mass[i] <= 0.0:
            reason = "a dynamic body needs mass: shapes with a density, or mass="
        else:
            reason = inertia.inertia_problem(found.inertia[i]) or "mass or inertia is too small for single precision"
        raise SceneError(builder.source, body.label, reason)


def _fits_float32(values: Floats) -> np.ndarray:
    return np.abs(values) < 1e38
