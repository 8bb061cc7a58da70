"""Mesh colliders → SceneShapes, by their physics:approximation. All rigid shapes made from a mesh are convex."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.geom import hull, inertia
from engine.geom.pose import Floats
from engine.geom.shapes import ShapeType
from engine.sim.scene_records import SceneShape
from engine.sim.scene_usd.frames import Frame
from engine.sim.scene_usd.reading import Reading
from engine.state.schema import WORLD_BODY

CONVEX_SLACK = 0.01  # a mesh whose volume is that of its hull, up to this fraction, is convex
FLAT = 1e-4  # thickness over extent under which a mesh counts as flat
SLAB = 0.1  # thickness over extent of the slab that stands for a flat static mesh

HULLS = {"convexHull"}
AS_WRITTEN = {"none", "meshSimplification", "sdf"}


def mesh_shape(reading: Reading, prim: Any, frame: Frame, body: int, approximation: str) -> SceneShape | None:
    """The shape of one mesh collider. Raises SceneError for a mesh without faces or with bad numbers."""
    points, triangles = read_mesh(reading, prim, frame)
    label = str(prim.GetPath())
    if approximation == "boundingCube":
        return _bounding_cube(label, prim, body, frame, points)
    if approximation == "boundingSphere":
        centre = (points.min(axis=0) + points.max(axis=0)) / 2
        radius = float(np.linalg.norm(points - centre, axis=1).max())
        pose = np.concatenate([frame.pose[:3] + frame.rotation @ centre, frame.pose[3:]])
        return SceneShape(label, ShapeType.SPHERE, body, pose, np.array([radius, 0.0, 0.0]))
    if _is_flat(points):
        return _slab(reading, label, body, frame, points, triangles)
    made = hull_shape(reading, label, body, frame, points)
    if made is None or made.hull is None:
        return None
    if approximation not in HULLS and not _is_convex(made.hull, points, triangles):
        if body == WORLD_BODY and approximation in AS_WRITTEN:
            reading.report.add(
                f"triangle mesh collider ({approximation})", label, "not supported yet, does not collide"
            )
            return None
        reading.report.add(f"mesh approximation '{approximation}'", label, "its convex hull is used")
    return made


def hull_shape(reading: Reading, label: str, body: int, frame: Frame, points: Floats) -> SceneShape | None:
    """The hull of points (n, 3), metres in the rigid part of `frame`; None, and a finding, if they have none."""
    made = hull.convex_hull(points)
    if isinstance(made, hull.NoHull):
        reading.report.add("collider without a volume", label, f"does not collide ({made.reason})")
        return None
    if made.error > CONVEX_SLACK * float(np.ptp(points, axis=0).max()):
        reading.report.add("convex hull with many corners", label, f"reduced to {len(made.vertices)} corners")
    return SceneShape(label, ShapeType.HULL, body, frame.pose, hull=made)


def read_mesh(reading: Reading, prim: Any, frame: Frame) -> tuple[Floats, Any]:
    """(points (n, 3) in metres in the rigid part of `frame`, triangles (m, 3)), counter-clockwise from outside."""
    from pxr import UsdGeom

    mesh = UsdGeom.Mesh(prim)
    raw, counts, indices = (
        np.array(a.Get(reading.time) if a.Get(reading.time) is not None else [])
        for a in (mesh.GetPointsAttr(), mesh.GetFaceVertexCountsAttr(), mesh.GetFaceVertexIndicesAttr())
    )
    if len(counts) == 0 or len(raw) == 0:
        raise reading.error(prim, "mesh has no faces")
    if counts.min() < 3 or counts.sum() != len(indices):
        raise reading.error(
            prim, f"faceVertexCounts want {counts.sum()} corners of at least 3 a face, there are {len(indices)}"
        )
    if indices.min() < 0 or indices.max() >= len(raw):
        raise reading.error(
            prim, f"faceVertexIndices go from {indices.min()} to {indices.max()}, there are {len(raw)} points"
        )
    if not np.isfinite(raw).all():
        raise reading.error(prim, f"point {int(np.argmax(~np.isfinite(raw).all(axis=1)))} is not finite")
    triangles = _fans(counts, indices)
    mirrored = np.linalg.det(frame.stretch) < 0
    if (str(mesh.GetOrientationAttr().Get()) == "leftHanded") != mirrored:
        triangles = triangles[:, ::-1]
    points, corners = np.unique(triangles.ravel(), return_inverse=True)
    return raw[points].astype(float) @ frame.stretch.T, corners.reshape(-1, 3)


def _fans(counts: Any, indices: Any) -> Any:
    """Triangles (m, 3) of polygons, each split into a fan from its first corner."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    fans = [
        np.stack(
            [indices[starts[counts == n]], indices[starts[counts == n] + i], indices[starts[counts == n] + i + 1]],
            axis=1,
        )
        for n in np.unique(counts)
        for i in range(1, n - 1)
    ]
    return np.concatenate(fans).astype(np.int64)


def _bounding_cube(label: str, prim: Any, body: int, frame: Frame, points: Floats) -> SceneShape:
    """The box around the points, along the axes of the mesh."""
    lower, upper = points.min(axis=0), points.max(axis=0)
    half = np.maximum((upper - lower) / 2, FLAT * float((upper - lower).max()))
    pose = np.concatenate([frame.origin + frame.rotation @ ((lower + upper) / 2), frame.pose[3:]])
    return SceneShape(label, ShapeType.BOX, body, pose, half)


def _is_flat(points: Floats) -> bool:
    """True if the points lie in one plane."""
    widths = np.ptp((points - points.mean(axis=0)) @ _axes(points).T, axis=0)
    return bool(widths.min() <= FLAT * widths.max())


def _axes(points: Floats) -> Floats:
    """Principal directions as rows, the thinnest last."""
    return np.linalg.svd(points - points.mean(axis=0), full_matrices=True)[2] if len(points) >= 3 else np.eye(3)


def _is_convex(made: hull.Hull, points: Floats, triangles: Any) -> bool:
    """True if the mesh is closed and fills its hull."""
    if inertia.open_edges(triangles):
        return False
    volume = abs(inertia.mesh(1.0, points, triangles).mass)
    return bool(abs(made.mass_properties(1.0).mass - volume) <= CONVEX_SLACK * volume)


def _slab(reading: Reading, label: str, body: int, frame: Frame, points: Floats, triangles: Any) -> SceneShape | None:
    """A flat static mesh as the slab below it: away from its face, or on the side to which gravity pulls."""
    if body != WORLD_BODY:
        reading.report.add("flat mesh on a moving body", label, "does not collide")
        return None
    normal = _axes(points)[2]
    faces = np.cross(
        points[triangles[:, 1]] - points[triangles[:, 0]], points[triangles[:, 2]] - points[triangles[:, 0]]
    )
    up = -(frame.rotation.T @ reading.records.gravity)
    reference = up if abs(normal @ up) > 0.1 * np.linalg.norm(up) and up.any() else faces.sum(axis=0)
    normal = normal if normal @ reference >= 0 else -normal
    depth = SLAB * float(np.ptp(points, axis=0).max())
    reading.report.add("flat triangle mesh", label, "becomes the convex slab below it")
    return hull_shape(reading, label, body, frame, np.concatenate([points, points - normal * depth]))
