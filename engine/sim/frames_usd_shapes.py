"""A model built in Python as USD gprims: one Xform per body under /World, one gprim per visible shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.geom.pose import Floats
from engine.geom.shapes import ShapeType
from engine.state.schema import WORLD_BODY, ShapeFlag

PLANE_EXTENT = 100.0  # m, of an infinite plane
STATIC_COLOUR = (0.55, 0.55, 0.58)
COLOURS = ((0.85, 0.33, 0.24), (0.95, 0.68, 0.25), (0.36, 0.62, 0.40), (0.25, 0.52, 0.78), (0.53, 0.40, 0.70))


def author_model(stage: Any, model: Any) -> list[str]:
    """Authors prims for all bodies and shapes of a model; returns the path of each body's prim."""
    from pxr import UsdGeom

    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/World").GetPrim())
    taken: set[str] = set()
    paths = [_free_path("/World", str(label), taken) for label in model.body_label]
    for path in paths:
        UsdGeom.Xform.Define(stage, path)
    columns = {name: np.array(getattr(model, name).numpy()) for name in _SHAPE_COLUMNS}
    for i, label in enumerate(model.shape_label):
        if not int(columns["shape_flags"][i]) & ShapeFlag.VISIBLE:
            continue
        body = int(columns["shape_body"][i])
        parent = "/World" if body == WORLD_BODY else paths[body]
        prim = _author_shape(stage, _free_path(parent, str(label).rsplit("/", 1)[-1], taken), model, columns, i)
        prim.CreateDisplayColorAttr([STATIC_COLOUR if body == WORLD_BODY else COLOURS[body % len(COLOURS)]])
    return paths


_SHAPE_COLUMNS = ("shape_type", "shape_body", "shape_xform", "shape_scale", "shape_flags", "shape_hull")


def _free_path(parent: str, label: str, taken: set[str]) -> str:
    """A prim path below `parent` made from a label, not used yet."""
    from pxr import Tf

    name = Tf.MakeValidIdentifier(label.strip("/")) or "_"
    path, count = f"{parent}/{name}", 1
    while path in taken:
        count += 1
        path = f"{parent}/{name}_{count}"
    taken.add(path)
    return path


def _author_shape(stage: Any, path: str, model: Any, columns: dict[str, Any], i: int) -> Any:
    """One gprim with its pose in the body."""
    from pxr import Gf, UsdGeom

    kind, (a, b, c) = ShapeType(int(columns["shape_type"][i])), (float(s) for s in columns["shape_scale"][i])
    stretch = (1.0, 1.0, 1.0)
    match kind:
        case ShapeType.BOX:
            prim, stretch = UsdGeom.Cube.Define(stage, path), (a, b, c)
        case ShapeType.SPHERE | ShapeType.ELLIPSOID:
            prim = UsdGeom.Sphere.Define(stage, path)
            prim.CreateRadiusAttr(1.0)
            stretch = (a, b, c) if kind == ShapeType.ELLIPSOID else (a, a, a)
        case ShapeType.CAPSULE | ShapeType.CYLINDER | ShapeType.CONE:
            define = {ShapeType.CAPSULE: UsdGeom.Capsule, ShapeType.CYLINDER: UsdGeom.Cylinder}
            prim = define.get(kind, UsdGeom.Cone).Define(stage, path)
            prim.CreateRadiusAttr(a)
            prim.CreateHeightAttr(2 * b)
        case ShapeType.PLANE:
            prim = UsdGeom.Plane.Define(stage, path)
            prim.CreateWidthAttr(2 * a or PLANE_EXTENT)
            prim.CreateLengthAttr(2 * b or PLANE_EXTENT)
        case _:
            prim = _author_hull(stage, path, model, int(columns["shape_hull"][i]))
    x, y, z, qx, qy, qz, qw = (float(v) for v in columns["shape_xform"][i])
    prim.AddTranslateOp().Set(Gf.Vec3d(x, y, z))
    prim.AddOrientOp().Set(Gf.Quatf(qw, qx, qy, qz))
    if stretch != (1.0, 1.0, 1.0):
        prim.AddScaleOp().Set(Gf.Vec3f(*stretch))
    _author_extent(prim)
    return prim


def _author_hull(stage: Any, path: str, model: Any, hull: int) -> Any:
    """A convex hull as a Mesh."""
    from pxr import UsdGeom, Vt

    vertices: Floats = _slice(model, "hull_vertex", "hull_vertex_start", "hull_vertex_count", hull)
    counts = _slice(model, "hull_face_index_count", "hull_face_start", "hull_face_count", hull)
    first = int(_slice(model, "hull_face_index_start", "hull_face_start", "hull_face_count", hull)[0])
    corners = model.hull_index.numpy()[first : first + int(counts.sum())]
    mesh = UsdGeom.Mesh.Define(stage, path)
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(vertices, np.float32)))
    mesh.CreateFaceVertexCountsAttr([int(n) for n in counts])
    mesh.CreateFaceVertexIndicesAttr([int(n) for n in corners])
    mesh.CreateSubdivisionSchemeAttr("none")
    return mesh


def _slice(model: Any, name: str, start: str, count: str, hull: int) -> Any:
    """The elements of a concatenated field that belong to one hull."""
    first, number = int(getattr(model, start).numpy()[hull]), int(getattr(model, count).numpy()[hull])
    return getattr(model, name).numpy()[first : first + number]


def _author_extent(prim: Any) -> None:
    """The bounds attribute, as USD computes it from the prim's own attributes."""
    from pxr import Usd, UsdGeom

    extent = UsdGeom.Boundable.ComputeExtentFromPlugins(prim, Usd.TimeCode.Default())
    if extent:
        prim.CreateExtentAttr(extent)
