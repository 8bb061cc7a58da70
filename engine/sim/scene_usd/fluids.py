"""Points prims with attributes weft:fluid:* → fluids, and weft:domain:* of the PhysicsScene → the domain.

USD has no schema for fluids. These attributes say what a simulation needs (docs/fluids.md has the table); positions are
the prim's `points` and the lattices that fill `weft:fluid:blocks`, velocities its `velocities`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.geom.pose import Floats
from engine.sim.scene_records import SceneEmitter, SceneFluid
from engine.sim.scene_usd.reading import Reading

NAMESPACE = "weft:fluid:"
MOST_PARTICLES = 1 << 27


def read_domain(reading: Reading, scenes: list[Any]) -> None:
    """weft:domain:lower, weft:domain:upper (float3, stage units, world axes) of the first PhysicsScene, and options."""
    if not scenes:
        return
    method = scenes[0].GetAttribute("weft:fluid:method")
    if method and method.HasAuthoredValue():
        reading.records.fluid_options["method"] = str(method.Get(reading.time))
    corners = _rows(reading, scenes[0].GetAttribute("weft:domain:outflows")) * reading.units.length
    if len(corners) % 2:
        raise reading.error(scenes[0], "weft:domain:outflows takes pairs of corners, lower then upper")
    reading.records.outflows += [(low, high) for low, high in corners.reshape(-1, 2, 3)]
    lower, upper = (scenes[0].GetAttribute(f"weft:domain:{side}") for side in ("lower", "upper"))
    if lower and upper:
        low, high = (np.asarray(reading.value(side, 3)) * reading.units.length for side in (lower, upper))
        reading.records.domain = (low, high)
        for name in ("walls", "periodic"):
            option = scenes[0].GetAttribute(f"weft:domain:{name}")
            if option and option.HasAuthoredValue():
                reading.records.domain_options[name] = option.Get(reading.time)
    elif lower or upper:
        raise reading.error(scenes[0], "a domain takes both weft:domain:lower and weft:domain:upper")


def read_fluid(reading: Reading, prim: Any) -> None:
    """One Points prim that has an attribute of the namespace."""
    from pxr import UsdGeom

    points = UsdGeom.Points(prim)
    frame, length = reading.frame(prim), reading.units.length

    def number(name: str, otherwise: float, unit: float) -> float:
        attribute = prim.GetAttribute(NAMESPACE + name)
        return reading.value(attribute) * unit if attribute else otherwise

    radius = number("radius", 0.0, length) or _half_width(reading, points) * length
    if not radius > 0.0:
        raise reading.error(prim, "a fluid needs weft:fluid:radius or widths that are positive")
    given = _rows(reading, points.GetPointsAttr())
    blocks = _rows(reading, prim.GetAttribute(NAMESPACE + "blocks"))
    if len(blocks) % 2:
        raise reading.error(prim, "weft:fluid:blocks takes pairs of corners, lower then upper")
    pairs = blocks.reshape(-1, 2, 3)
    local = np.vstack([given, *(_lattice(reading, prim, low, high, radius / length) for low, high in pairs)])
    velocity = np.zeros_like(local)
    moving = _rows(reading, points.GetVelocitiesAttr())
    if len(moving) == len(given):
        velocity[: len(given)] = moving
    elif len(moving) == 1:
        velocity[:] = moving[0]
    elif len(moving):
        raise reading.error(prim, f"{len(moving)} velocities for {len(given)} points")
    reading.records.fluids.append(
        SceneFluid(
            str(prim.GetPath()),
            radius,
            frame.point(local),
            velocity @ frame.matrix.T,
            density=number("density", 1000.0, reading.units.density),
            viscosity=number("viscosity", 1e-6, length**2),
            wall_viscosity=number("wallViscosity", 0.0, length**2),
            surface_tension=number("surfaceTension", 0.0, reading.units.density * length**3),
            given=len(given),
        )
    )
    _read_emitters(reading, prim, frame, len(reading.records.fluids) - 1)


def _read_emitters(reading: Reading, prim: Any, frame: Any, fluid: int) -> None:
    """weft:fluid:emitter* of a fluid: arrays with one element for each nozzle, in the prim's space."""
    centers, velocities = (
        _rows(reading, prim.GetAttribute(f"{NAMESPACE}emitter{name}")) for name in ("Centers", "Velocities")
    )
    radii, times = (_flat(reading, prim, name) for name in ("emitterRadii", "emitterTimes"))
    count = len(centers)
    if not count == len(velocities) == len(radii) or len(times) not in (0, 2 * count):
        found = f"{count} centers, {len(velocities)} velocities, {len(radii)} radii, {len(times) // 2} times"
        raise reading.error(prim, f"weft:fluid:emitterCenters and its fellows do not fit: {found}")
    size = float(np.cbrt(abs(np.linalg.det(frame.matrix))))  # metres per unit of the prim
    for e in range(count):
        start, stop = times[2 * e : 2 * e + 2] if len(times) else (0.0, np.inf)
        center, velocity = frame.point(centers[e : e + 1])[0], frame.matrix @ velocities[e]
        reading.records.emitters.append(SceneEmitter(fluid, center, velocity, size * float(radii[e]), start, stop))


def _flat(reading: Reading, prim: Any, name: str) -> Floats:
    """The numbers of an array attribute; none where there is no such attribute."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get(reading.time) if attribute else None
    return np.zeros(0) if value is None else np.array(value, float).ravel()


def fluid_prims(stage: Any) -> list[Any]:
    """The Points prims that are fluids, in the stage's order."""
    from pxr import Usd, UsdGeom

    prims = Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies())
    return [p for p in prims if p.IsA(UsdGeom.Points) and p.GetAuthoredPropertiesInNamespace("weft:fluid")]


def _half_width(reading: Reading, points: Any) -> float:
    widths = points.GetWidthsAttr().Get(reading.time)
    return 0.5 * float(widths[0]) if widths else 0.0


def _rows(reading: Reading, attribute: Any) -> Floats:
    """(n, 3) of an array attribute, (0, 3) where there is none."""
    value = attribute.Get(reading.time) if attribute else None
    rows = np.zeros((0, 3)) if value is None else np.array(value, float).reshape(-1, 3)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise reading.error(attribute.GetPrim(), f"{attribute.GetName()}[{bad[0]}] is not finite: {rows[bad[0]]}")
    return rows


def _lattice(reading: Reading, prim: Any, low: Floats, high: Floats, radius: float) -> Floats:
    """Places of particles that fill a box, in the prim's space."""
    count = np.floor((high - low) / (2.0 * radius) + 1e-4)
    if not (high > low).all() or count.min() < 1:
        raise reading.error(prim, f"weft:fluid:blocks has no room for a particle: {low.tolist()} to {high.tolist()}")
    if count.prod() > MOST_PARTICLES:
        raise reading.error(prim, f"weft:fluid:blocks would hold {count.prod():.3g} particles")
    axes = [low[a] + radius * (1.0 + 2.0 * np.arange(int(count[a]))) for a in range(3)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
