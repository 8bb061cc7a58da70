"""Signed distance of points from collision shapes (host side, float64): negative inside.

Exact for spheres, capsules, boxes, cylinders, planes. Of cones and hulls it is that from the nearest face's plane:
exact inside, and never more than the true distance outside. Of ellipsoids it is the first-order estimate (value over
gradient), exact on the surface.
"""

from __future__ import annotations

import numpy as np

from engine.geom.hull import Hull
from engine.geom.pose import Floats
from engine.geom.shapes import ShapeType


def signed_distance(kind: ShapeType, scale: Floats, hull: Hull | None, points: Floats) -> Floats:
    """(n,) m, of points (n, 3) in the frame of the shape. Raises ValueError for shapes without an inside."""
    a, b, _ = (float(s) for s in scale)
    x, y, z = points.T
    ring = np.hypot(x, y)
    match kind:
        case ShapeType.SPHERE:
            return np.asarray(np.linalg.norm(points, axis=1) - a)
        case ShapeType.CAPSULE:
            return np.asarray(np.hypot(ring, np.maximum(np.abs(z) - b, 0.0)) - a)
        case ShapeType.BOX:
            return _from_sides(np.abs(points) - scale)
        case ShapeType.CYLINDER:
            return _from_sides(np.stack([ring - a, np.abs(z) - b], axis=1))
        case ShapeType.CONE:
            side = np.array([2.0 * b, a]) / np.hypot(2.0 * b, a)  # outward normal (ring, z) of the flank
            return np.asarray(np.maximum(-b - z, ring * side[0] + (z - b) * side[1]))
        case ShapeType.ELLIPSOID:
            value = np.linalg.norm(points / scale, axis=1)
            gradient = np.linalg.norm(points / scale**2, axis=1)
            inner = value * (value - 1.0) / np.maximum(gradient, 1e-300)
            return np.where(gradient > 0.0, inner, -float(scale.min()))
        case ShapeType.HULL:
            assert hull is not None
            return np.asarray((points @ hull.planes[:, :3].T - hull.planes[:, 3]).max(axis=1))
        case ShapeType.PLANE:
            return z.copy()
    raise ValueError(f"a shape of type {kind.name} has no inside")


def _from_sides(out: Floats) -> Floats:
    """Distance from a body that is a product of intervals and discs, by how far out each factor is."""
    return np.asarray(np.linalg.norm(np.maximum(out, 0.0), axis=1) + np.minimum(out.max(axis=1), 0.0))
