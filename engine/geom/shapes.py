"""Collision shapes: their types, size parameters, bounds and mass properties (host side, float64).

| type        | shape_scale                   | frame                                            |
|-------------|-------------------------------|--------------------------------------------------|
| SPHERE      | radius, 0, 0                  | centre                                           |
| CAPSULE     | radius, half height, 0        | axis z, half height without the caps             |
| BOX         | half extents                  | centre                                           |
| CYLINDER    | radius, half height, 0        | axis z, centre                                   |
| CONE        | radius, half height, 0        | axis z, base at −half height, tip at +half height |
| ELLIPSOID   | semi-axes                     | centre                                           |
| HULL        | 1, 1, 1                       | vertices in hull_vertex, scale already applied   |
| PLANE       | half width, half length, 0    | normal +z; 0 = infinite; solid below             |
| MESH        | 1, 1, 1                       | not collided yet: the builder makes a HULL of it |
| HEIGHTFIELD | –                             | not yet                                          |
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from engine.geom import inertia
from engine.geom.hull import Hull
from engine.geom.pose import Floats, quat_to_matrix

# Half extent that stands for "infinite" in bounds: finite, so that sums and differences never make a NaN.
INFINITE = 1.0e10


class ShapeType(IntEnum):
    """Values of shape_type. The order is that of pair functions: type 0 ≤ type 1."""

    SPHERE = 0
    CAPSULE = 1
    BOX = 2
    CYLINDER = 3
    CONE = 4
    ELLIPSOID = 5
    HULL = 6
    PLANE = 7
    MESH = 8
    HEIGHTFIELD = 9


# How many leading numbers of shape_scale must be positive.
SIZE_COUNT = {
    ShapeType.SPHERE: 1,
    ShapeType.CAPSULE: 2,
    ShapeType.BOX: 3,
    ShapeType.CYLINDER: 2,
    ShapeType.CONE: 2,
    ShapeType.ELLIPSOID: 3,
    ShapeType.HULL: 3,
    ShapeType.PLANE: 0,
}


def mass_properties(kind: ShapeType, scale: Floats, density: float, hull: Hull | None = None) -> inertia.MassProperties:
    """Of the solid shape in its own frame. Planes have no mass."""
    a, b, c = (float(s) for s in scale)
    match kind:
        case ShapeType.SPHERE:
            return inertia.sphere(density, a)
        case ShapeType.CAPSULE:
            return inertia.capsule(density, a, b)
        case ShapeType.BOX:
            return inertia.box(density, a, b, c)
        case ShapeType.CYLINDER:
            return inertia.cylinder(density, a, b)
        case ShapeType.CONE:
            return inertia.cone(density, a, b)
        case ShapeType.ELLIPSOID:
            return inertia.ellipsoid(density, a, b, c)
        case ShapeType.HULL:
            assert hull is not None
            return hull.mass_properties(density)
        case ShapeType.PLANE:
            return inertia.NOTHING
    raise ValueError(f"no mass properties for {kind!r}")


def bounding_radius(kind: ShapeType, scale: Floats, hull: Hull | None = None) -> float:
    """Radius of the smallest sphere about the shape's origin that holds it, m; INFINITE for infinite planes."""
    a, b, c = (float(s) for s in scale)
    match kind:
        case ShapeType.SPHERE:
            return a
        case ShapeType.CAPSULE:
            return a + b
        case ShapeType.BOX:
            return float(np.sqrt(a * a + b * b + c * c))
        case ShapeType.CYLINDER | ShapeType.CONE:
            return float(np.hypot(a, b))
        case ShapeType.ELLIPSOID:
            return max(a, b, c)
        case ShapeType.HULL:
            assert hull is not None
            return float(np.linalg.norm(hull.vertices, axis=1).max())
        case ShapeType.PLANE:
            return float(np.hypot(a, b)) if a > 0.0 and b > 0.0 else INFINITE
    raise ValueError(f"no bounds for {kind!r}")


def aabb(kind: ShapeType, scale: Floats, pose: Floats, hull: Hull | None = None) -> tuple[Floats, Floats]:
    """(lower (3,), upper (3,)) corners of the smallest axis-aligned box around the shape at `pose`."""
    r, p = quat_to_matrix(pose[3:]), pose[:3]
    if kind == ShapeType.HULL:
        assert hull is not None
        corners = hull.vertices @ r.T + p
        return corners.min(axis=0), corners.max(axis=0)
    if kind == ShapeType.CONE:
        tip, base = p + r[:, 2] * scale[1], p - r[:, 2] * scale[1]
        disc = scale[0] * _disc_extent(r)
        return np.minimum(tip, base - disc), np.maximum(tip, base + disc)
    half = _half_extent(kind, scale, r)
    return p - half, p + half


def _half_extent(kind: ShapeType, scale: Floats, r: Floats) -> Floats:
    """Half size (3,) of the bounds of a shape that is symmetric about its origin."""
    match kind:
        case ShapeType.SPHERE:
            return np.full(3, scale[0])
        case ShapeType.CAPSULE:
            return np.abs(r[:, 2]) * scale[1] + scale[0]
        case ShapeType.BOX:
            return np.abs(r) @ scale
        case ShapeType.CYLINDER:
            return np.abs(r[:, 2]) * scale[1] + scale[0] * _disc_extent(r)
        case ShapeType.ELLIPSOID:
            return np.sqrt((r * r) @ (scale * scale))
        case ShapeType.PLANE:
            finite = scale[0] > 0.0 and scale[1] > 0.0
            return np.abs(r) @ np.array([scale[0], scale[1], 0.0]) if finite else np.full(3, INFINITE)
    raise ValueError(f"no bounds for {kind!r}")


def _disc_extent(r: Floats) -> Floats:
    """Half size of the bounds of a unit disc across the z axis of r."""
    return np.hypot(r[:, 0], r[:, 1])
