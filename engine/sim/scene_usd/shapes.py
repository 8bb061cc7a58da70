"""Collider prims → SceneShapes: analytic gprims with their scale folded in, whatever the transform above them.

A gprim whose transform would turn it into something else (a sphere stretched unevenly, a sheared cube) becomes the
convex hull of its transformed corners: exact for a cube, tessellated and reported for round shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.geom.pose import Floats, quat_from_matrix
from engine.geom.shapes import ShapeType
from engine.sim.scene_records import SceneShape
from engine.sim.scene_usd.frames import SCALE_SLACK, Frame
from engine.sim.scene_usd.materials import bound_material
from engine.sim.scene_usd.meshes import hull_shape, mesh_shape
from engine.sim.scene_usd.reading import Reading
from engine.sim.scene_usd.unsupported import applied_schemas
from engine.state.schema import WORLD_BODY

SEGMENTS = 12  # of a tessellated circle: a round shape under an odd scale stays below hull.MAX_VERTICES

# Rotations that take z to the axis that a gprim's `axis` token names.
AXIS_TURN = {
    "X": np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]),
    "Y": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
    "Z": np.eye(3),
}


def read_shape(reading: Reading, prim: Any, desc: Any) -> None:
    """Adds the records of one collider prim; `desc` is USD's parsed description of it."""
    if any("Deformable" in name for name in applied_schemas(prim)):
        return  # part of a deformable body, which is reported as a whole
    body = reading.body_of(prim)
    frame = reading.frame(prim).inside(reading.body_frame(body))
    reader = READERS.get(str(prim.GetTypeName()))
    if reader is None:
        reading.report.add(f"collider {prim.GetTypeName()}", prim.GetPath(), "not supported yet, does not collide")
        return
    made = reader(reading, prim, frame, body, desc)
    if made is None:
        return
    made.material = bound_material(reading, prim, desc)
    made.collides = bool(desc.collisionEnabled)
    reading.shape_index.setdefault(made.label, []).append(len(reading.records.shapes))
    reading.records.shapes.append(made)


def _record(
    prim: Any, kind: ShapeType, body: int, frame: Frame, scale: Floats, turn: Floats | None = None
) -> SceneShape:
    """An analytic shape at a frame, its z axis turned by `turn`."""
    rotation = frame.rotation if turn is None else frame.rotation @ turn
    pose = np.concatenate([frame.origin, quat_from_matrix(rotation)])
    return SceneShape(str(prim.GetPath()), kind, body, pose, np.asarray(scale, float))


def _hull(reading: Reading, prim: Any, body: int, frame: Frame, points: Floats) -> SceneShape | None:
    """The hull of points (n, 3) given in the prim's own frame and units."""
    return hull_shape(reading, str(prim.GetPath()), body, frame, points @ frame.stretch.T)


def _cube(reading: Reading, prim: Any, frame: Frame, body: int, _desc: Any) -> SceneShape | None:
    from pxr import UsdGeom

    half = reading.positive(UsdGeom.Cube(prim).GetSizeAttr()) / 2
    scale = frame.scale()
    if scale is None:
        corners = np.array([[x, y, z] for x in (-half, half) for y in (-half, half) for z in (-half, half)])
        return _hull(reading, prim, body, frame, corners)
    return _record(prim, ShapeType.BOX, body, frame, half * np.abs(scale))


def _sphere(reading: Reading, prim: Any, frame: Frame, body: int, _desc: Any) -> SceneShape | None:
    from pxr import UsdGeom

    radius = reading.positive(UsdGeom.Sphere(prim).GetRadiusAttr())
    scale = frame.scale()
    if scale is None or not _equal(*np.abs(scale)):
        reading.report.add("sphere with uneven scale", prim.GetPath(), "approximated by a convex hull")
        return _hull(reading, prim, body, frame, _round(radius, radius, 0.0, "Z"))
    return _record(prim, ShapeType.SPHERE, body, frame, np.array([radius * abs(scale[0]), 0.0, 0.0]))


def _capsule(reading: Reading, prim: Any, frame: Frame, body: int, _desc: Any) -> SceneShape | None:
    from pxr import UsdGeom

    bottom, top, half, axis = _tube_size(reading, prim, UsdGeom.Capsule, UsdGeom.Capsule_1)
    radial, axial = _tube_scale(frame, axis)
    if not _equal(bottom, top) or radial is None:
        reading.report.add("capsule with uneven radii", prim.GetPath(), "approximated by a convex hull")
        return _hull(reading, prim, body, frame, _round(bottom, top, half, axis))
    if not _equal(radial, axial):
        reading.report.add("capsule with uneven scale", prim.GetPath(), "its caps stay half balls")
    return _record(
        prim, ShapeType.CAPSULE, body, frame, np.array([bottom * radial, half * axial, 0.0]), AXIS_TURN[axis]
    )


def _cylinder(reading: Reading, prim: Any, frame: Frame, body: int, _desc: Any) -> SceneShape | None:
    from pxr import UsdGeom

    bottom, top, half, axis = _tube_size(reading, prim, UsdGeom.Cylinder, UsdGeom.Cylinder_1)
    radial, axial = _tube_scale(frame, axis)
    if not _equal(bottom, top) or radial is None:
        reading.report.add("cylinder with uneven radii", prim.GetPath(), "approximated by a convex hull")
        return _hull(reading, prim, body, frame, _rings([(bottom, -half), (top, half)], axis))
    return _record(
        prim, ShapeType.CYLINDER, body, frame, np.array([bottom * radial, half * axial, 0.0]), AXIS_TURN[axis]
    )


def _cone(reading: Reading, prim: Any, frame: Frame, body: int, _desc: Any) -> SceneShape | None:
    from pxr import UsdGeom

    cone = UsdGeom.Cone(prim)
    radius, half = reading.positive(cone.GetRadiusAttr()), reading.positive(cone.GetHeightAttr()) / 2
    reading.report.add("cone", prim.GetPath(), "approximated by a convex hull")
    return _hull(
        reading, prim, body, frame, _rings([(radius, -half), (0.0, half)], str(cone.GetAxisAttr().Get(reading.time)))
    )


def _plane(reading: Reading, prim: Any, frame: Frame, body: int, _desc: Any) -> SceneShape | None:
    from pxr import UsdGeom

    if body != WORLD_BODY:
        reading.report.add("plane on a moving body", prim.GetPath(), "left out")
        return None
    turn = AXIS_TURN[str(UsdGeom.Plane(prim).GetAxisAttr().Get(reading.time))]
    # Normals go with the inverse transpose; only the direction of the local axis matters.
    normal = np.linalg.inv(frame.matrix).T @ turn[:, 2]
    return _record(prim, ShapeType.PLANE, body, _facing(frame, normal), np.zeros(3))


def _facing(frame: Frame, normal: Floats) -> Frame:
    """A frame at the same origin whose z axis is `normal`."""
    z = normal / np.linalg.norm(normal)
    x = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = x - (x @ z) * z
    x /= np.linalg.norm(x)
    return Frame(np.stack([x, np.cross(z, x), z], axis=1), np.eye(3), frame.origin)


def _mesh(reading: Reading, prim: Any, frame: Frame, body: int, desc: Any) -> SceneShape | None:
    return mesh_shape(reading, prim, frame, body, str(desc.approximation))


Reader = Callable[[Reading, Any, Frame, int, Any], SceneShape | None]
READERS: dict[str, Reader] = {
    "Cube": _cube,
    "Sphere": _sphere,
    "Capsule": _capsule,
    "Capsule_1": _capsule,
    "Cylinder": _cylinder,
    "Cylinder_1": _cylinder,
    "Cone": _cone,
    "Plane": _plane,
    "Mesh": _mesh,
}


def _tube_size(reading: Reading, prim: Any, plain: Any, tapered: Any) -> tuple[float, float, float, str]:
    """(bottom radius, top radius, half height, axis) of a capsule or cylinder of either schema version."""
    if str(prim.GetTypeName()).endswith("_1"):
        tube = tapered(prim)
        radii = reading.positive(tube.GetRadiusBottomAttr()), reading.positive(tube.GetRadiusTopAttr())
    else:
        tube = plain(prim)
        radii = (reading.positive(tube.GetRadiusAttr()),) * 2
    height = reading.value(tube.GetHeightAttr())
    if height < 0:
        raise reading.error(prim, f"height is {height:g}, must not be negative")
    return *radii, max(height / 2, 1e-6 * max(radii)), str(tube.GetAxisAttr().Get(reading.time))


def _tube_scale(frame: Frame, axis: str) -> tuple[float | None, float]:
    """(scale across the axis or None if it is not one number, scale along it)."""
    scale = frame.scale()
    if scale is None:
        return None, 1.0
    along = "XYZ".index(axis)
    a, b = np.abs(np.delete(scale, along))
    return (float(a) if _equal(a, b) else None), float(abs(scale[along]))


def _equal(*numbers: float) -> bool:
    """True if positive numbers agree up to the rounding of single-precision xformOps."""
    return max(numbers) - min(numbers) <= SCALE_SLACK * max(numbers)


def _rings(rings: list[tuple[float, float]], axis: str) -> Floats:
    """Points (n, 3) on circles (radius, height) about an axis; a radius of 0 is one point."""
    angles = 2 * np.pi * np.arange(SEGMENTS) / SEGMENTS
    circle = np.stack([np.cos(angles), np.sin(angles), np.zeros(SEGMENTS)], axis=1)
    points = [
        circle * radius + (0.0, 0.0, height) if radius > 0 else np.array([[0.0, 0.0, height]])
        for radius, height in rings
    ]
    return np.concatenate(points) @ AXIS_TURN[axis].T


def _round(bottom: float, top: float, half: float, axis: str) -> Floats:
    """Points (n, 3) of a capsule with two radii; half = 0 makes a sphere."""
    polar = np.radians([0.0, 45.0, 90.0])
    upper = [(top * float(np.cos(a)), half + top * float(np.sin(a))) for a in polar]
    lower = [(bottom * float(np.cos(a)), -half - bottom * float(np.sin(a))) for a in polar]
    rings = [(0.0 if radius < 1e-9 * max(top, bottom) else radius, height) for radius, height in upper + lower]
    return _rings(rings, axis)
