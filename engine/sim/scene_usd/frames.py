"""Local-to-world matrices taken apart into what a rigid body can carry (rotation, origin) and what it cannot (stretch).

Columns are images of axes: world = A · local + t, with A = rotation · stretch. USD writes the transpose of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.pose import Floats, quat_from_matrix

SHEAR_SLACK = 1e-5  # relative: single-precision xformOps leave this much
SCALE_SLACK = 1e-5
ROUNDING = 1e-12  # what double precision leaves


@dataclass(frozen=True)
class Frame:
    """x ↦ rotation · (stretch · x) + origin. rotation is proper; a mirror image is in stretch. Lengths in metres."""

    rotation: Floats  # (3, 3)
    stretch: Floats  # (3, 3) symmetric; diagonal unless the frame is sheared
    origin: Floats  # (3,) m; stretch maps stage units to metres

    @property
    def pose(self) -> Floats:
        """(7,) without the stretch."""
        return np.concatenate([self.origin, quat_from_matrix(self.rotation)])

    @property
    def matrix(self) -> Floats:
        """(3, 3) rotation · stretch."""
        return self.rotation @ self.stretch

    def point(self, local: Any) -> Floats:
        """Points (…, 3) of the prim, seen from outside, m."""
        return np.asarray(local, float) @ self.matrix.T + self.origin

    def scale(self) -> Floats | None:
        """The stretch's diagonal (3,), with signs, or None if the frame is sheared."""
        diagonal = np.diag(self.stretch)
        off = np.abs(self.stretch - np.diag(diagonal)).max()
        return diagonal.copy() if off <= SHEAR_SLACK * np.abs(diagonal).max() else None

    def inside(self, outer: Frame) -> Frame:
        """This frame seen from the rigid part (rotation, origin) of another."""
        turn = outer.rotation.T
        return Frame(turn @ self.rotation, self.stretch, turn @ (self.origin - outer.origin))


IDENTITY = Frame(np.eye(3), np.eye(3), np.zeros(3))


def split(matrix: Floats, origin: Floats, signs: Callable[[], Floats | None] = lambda: None) -> Frame:
    """Takes a 3×3 matrix apart. Without shear the columns are only normalised; with shear: polar decomposition.

    A mirroring matrix has no unique split. `signs` () → (3,) says which axes its author negated, None: all three.
    Raises ValueError for a singular matrix or numbers that are not finite.
    """
    if not (np.isfinite(matrix).all() and np.isfinite(origin).all()):
        raise ValueError("transform is not finite")
    lengths = np.linalg.norm(matrix, axis=0)
    if lengths.min() <= 1e-12 * max(lengths.max(), 1e-300):
        raise ValueError("transform has a scale of zero")
    mirrored = np.linalg.det(matrix) < 0
    unit = matrix / lengths
    gram = unit.T @ unit
    shear = float(np.abs(gram - np.eye(3)).max())
    if shear <= SHEAR_SLACK:
        flips = np.ones(3)
        if mirrored:
            wanted = signs()
            flips = wanted if wanted is not None and np.prod(wanted) < 0 else -flips
        rotation = unit * flips if shear <= ROUNDING else _orthonormal(unit * flips)
        return Frame(rotation, np.diag(lengths * flips), np.asarray(origin, float))
    u, s, vt = np.linalg.svd(matrix)
    if s[-1] <= 1e-12 * s[0]:
        raise ValueError("transform is singular")
    sign = -1.0 if mirrored else 1.0
    return Frame(sign * u @ vt, sign * vt.T @ np.diag(s) @ vt, np.asarray(origin, float))


def _orthonormal(m: Floats) -> Floats:
    """The rotation nearest to an almost orthonormal matrix."""
    u, _, vt = np.linalg.svd(m)
    return u @ vt


def prim_frame(cache: Any, prim: Any, length: float, path: str) -> Frame:
    """World frame of a prim, in metres, at the time of the UsdGeom.XformCache. Raises SceneError where singular."""
    matrix = np.array(cache.GetLocalToWorldTransform(prim)).T
    try:
        return split(matrix[:3, :3] * length, matrix[:3, 3] * length, lambda: _authored_signs(cache, prim))
    except ValueError as error:
        raise SceneError(path, str(prim.GetPath()), str(error)) from None


def _authored_signs(cache: Any, prim: Any) -> Floats | None:
    """Signs (3,) of the prim's own scale ops, or None without any."""
    from pxr import UsdGeom

    xformable = UsdGeom.Xformable(prim)
    scales = (
        [op for op in xformable.GetOrderedXformOps() if op.GetOpType() == UsdGeom.XformOp.TypeScale]
        if xformable
        else []
    )
    signs = np.ones(3)
    for op in scales:
        signs = signs * np.sign(np.array(op.Get(cache.GetTime()) or (1, 1, 1), float))
    return signs if scales else None
