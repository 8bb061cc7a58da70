"""Exact mass properties of solids: closed forms, closed meshes, composition, principal axes (NumPy, float64)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import pi

import numpy as np

from engine.geom.pose import Floats, quat_from_matrix, quat_to_matrix

# Relative slack of the triangle inequality: authored moments are rounded to a few digits.
TRIANGLE_SLACK = 1e-4


@dataclass(frozen=True)
class MassProperties:
    """mass (kg), com (3,) m, inertia (3, 3) kg·m² about com; com and inertia in the axes of one frame."""

    mass: float
    com: Floats
    inertia: Floats

    def moved(self, pose: Floats) -> MassProperties:
        """The same solid seen from the frame in which its own frame has `pose`: R I Rᵀ, com rotated and shifted."""
        r = quat_to_matrix(pose[3:])
        return MassProperties(self.mass, pose[:3] + r @ self.com, symmetric(r @ self.inertia @ r.T))

    def about(self, point: Floats) -> Floats:
        """Inertia (3, 3) about another point of the same frame (parallel-axis theorem)."""
        return self.inertia + self.mass * point_inertia(np.asarray(point, float) - self.com)

    def with_mass(self, mass: float) -> MassProperties:
        """The same shape at another uniform density, so that it weighs `mass`."""
        return MassProperties(mass, self.com, self.inertia * (mass / self.mass))


NOTHING = MassProperties(0.0, np.zeros(3), np.zeros((3, 3)))


def combined(parts: Iterable[MassProperties]) -> MassProperties:
    """Mass properties of several solids in one frame; overlaps count twice. No mass at all gives NOTHING."""
    solids = [p for p in parts if p.mass != 0.0]
    mass = sum(p.mass for p in solids)
    if mass == 0.0:
        return NOTHING
    com = sum((p.mass * p.com for p in solids), np.zeros(3)) / mass
    return MassProperties(mass, com, sum((p.about(com) for p in solids), np.zeros((3, 3))))


# -- closed forms, origin and axes as in shapes.py (axis of revolution z) ----------------------------------------------


def sphere(density: float, radius: float) -> MassProperties:
    """Solid ball of `radius` m and `density` kg/m³."""
    return ellipsoid(density, radius, radius, radius)


def ellipsoid(density: float, a: float, b: float, c: float) -> MassProperties:
    """Solid ellipsoid with semi-axes a, b, c m."""
    m = density * 4 / 3 * pi * a * b * c
    return _diagonal(m, m / 5 * (b * b + c * c), m / 5 * (a * a + c * c), m / 5 * (a * a + b * b))


def box(density: float, hx: float, hy: float, hz: float) -> MassProperties:
    """Solid cuboid with half extents hx, hy, hz m."""
    m = density * 8 * hx * hy * hz
    return _diagonal(m, m / 3 * (hy * hy + hz * hz), m / 3 * (hx * hx + hz * hz), m / 3 * (hx * hx + hy * hy))


def cylinder(density: float, radius: float, half_height: float) -> MassProperties:
    """Solid cylinder of `radius` and z from −half_height to half_height."""
    m = density * pi * radius**2 * 2 * half_height
    across = m * (radius**2 / 4 + half_height**2 / 3)
    return _diagonal(m, across, across, m * radius**2 / 2)


def capsule(density: float, radius: float, half_height: float) -> MassProperties:
    """Cylinder of half_height with a half ball on each end (the caps are not counted in half_height)."""
    rod = cylinder(density, radius, half_height)
    caps = density * 4 / 3 * pi * radius**3
    # Two half balls, each with its centre of mass 3r/8 beyond the end of the rod; 2/5 − (3/8)² = 83/320.
    across = caps * (83 / 320 * radius**2 + (half_height + 3 / 8 * radius) ** 2)
    return MassProperties(
        rod.mass + caps, np.zeros(3), rod.inertia + np.diag([across, across, caps * 2 / 5 * radius**2])
    )


def cone(density: float, radius: float, half_height: float) -> MassProperties:
    """Solid cone: base of `radius` at z = −half_height, tip at z = half_height."""
    h = 2 * half_height
    m = density * pi * radius**2 * h / 3
    across = m * 3 / 80 * (4 * radius**2 + h * h)
    solid = _diagonal(m, across, across, m * 3 / 10 * radius**2)
    return MassProperties(m, np.array([0.0, 0.0, h / 4 - half_height]), solid.inertia)


def mesh(density: float, vertices: Floats, triangles: np.ndarray) -> MassProperties:
    """Solid inside a closed triangle mesh: vertices (n, 3) m, triangles (m, 3) counter-clockwise from outside.

    Sums signed tetrahedra (Eberly, "Polyhedral Mass Properties", after Mirtich 1996). A mesh that is
    inside out gives negative mass. Only the sum over a *closed* mesh means anything: see `open_edges`.
    """
    vertices = np.asarray(vertices, float)
    corners = vertices[np.asarray(triangles)]
    origin = vertices.mean(axis=0)  # near the solid: far from the frame's origin the sums would cancel
    a, b, c = (corners[:, i] - origin for i in range(3))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    total = float(volume.sum())
    if total == 0.0:
        return NOTHING
    s = a + b + c
    com = volume @ s / (4 * total)
    # ∫ x xᵀ over a tetrahedron with one corner at the origin = V/20 (Σ v vᵀ + s sᵀ).
    second = sum(np.einsum("i,ij,ik->jk", volume, v, v) for v in (a, b, c, s)) / 20
    second = second - total * np.outer(com, com)
    inertia = np.trace(second) * np.eye(3) - second
    return MassProperties(density * total, com + origin, symmetric(density * inertia))


def open_edges(triangles: np.ndarray) -> int:
    """Number of directed edges without exactly one opposite partner: 0 for a closed, consistently wound mesh."""
    t = np.asarray(triangles, np.int64)
    n = int(t.max(initial=0)) + 1
    start, end = t[:, [0, 1, 2]].ravel(), t[:, [1, 2, 0]].ravel()
    forward, n_forward = np.unique(start * n + end, return_counts=True)
    backward = np.unique(end * n + start)
    return int((n_forward != 1).sum() + np.setdiff1d(forward, backward).size)


# -- principal axes and validity -----------------------------------------------------------------------------------


def principal(inertia: Floats) -> tuple[Floats, Floats]:
    """(moments (3,) ascending, unit quaternion xyzw): inertia = R diag(moments) Rᵀ with R of the quaternion."""
    moments, axes = np.linalg.eigh(symmetric(np.asarray(inertia, float)))
    if np.linalg.det(axes) < 0:
        axes[:, 2] = -axes[:, 2]
    return moments, quat_from_matrix(axes)


def from_principal(moments: Floats, quat: Floats) -> Floats:
    """Inertia (3, 3) with `moments` about the axes of the rotation `quat`: R diag(moments) Rᵀ."""
    r = quat_to_matrix(np.asarray(quat, float))
    return symmetric(r @ np.diag(np.asarray(moments, float)) @ r.T)


def inertia_problem(inertia: Floats) -> str | None:
    """Why no body of positive mass and extent can have this inertia, or None if one can."""
    i = np.asarray(inertia, float)
    if i.shape != (3, 3):
        return f"inertia has shape {i.shape}, not (3, 3)"
    if not np.isfinite(i).all():
        return "inertia is not finite"
    if np.abs(i - i.T).max() > 1e-5 * np.abs(i).max():
        return "inertia is not symmetric"
    moments, _ = principal(i)
    text = ", ".join(f"{m:.6g}" for m in moments)
    if moments[0] <= 0.0:
        return f"principal moments of inertia must be positive, got {text}"
    if moments[2] > (moments[0] + moments[1]) * (1 + TRIANGLE_SLACK):
        return f"principal moments of inertia {text} violate the triangle inequality"
    return None


def point_inertia(r: Floats) -> Floats:
    """Inertia (3, 3) of 1 kg at r about the origin: |r|² 1 − r rᵀ."""
    return (r @ r) * np.eye(3) - np.outer(r, r)


def symmetric(m: Floats) -> Floats:
    """m with rounding's asymmetry removed."""
    return (m + m.T) / 2


def _diagonal(mass: float, ixx: float, iyy: float, izz: float) -> MassProperties:
    return MassProperties(mass, np.zeros(3), np.diag([ixx, iyy, izz]))
