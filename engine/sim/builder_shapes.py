"""ModelBuilder's add_shape_*: size checks, axes, hulls of points and meshes."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom import inertia
from engine.geom.hull import MAX_VERTICES, Hull, NoHull, convex_hull
from engine.geom.mesh import TriMesh, make_mesh, welded
from engine.geom.pose import Floats, as_axis, as_pose, as_vector, pose_multiply, quat_between
from engine.geom.shapes import SIZE_COUNT, ShapeType
from engine.sim.builder_core import BuilderCore
from engine.sim.builder_records import ShapeRecord
from engine.state.schema import WORLD_BODY

Z = np.array([0.0, 0.0, 1.0])
UNIT = np.ones(3)


class ShapeMethods(BuilderCore):
    """Every method takes `body` (−1 = world: static), `xform` (pose in the body frame), `label` and the keywords of
    ShapeOptions (density, mu, restitution, group, mask …), and returns the shape's index. Lengths in m.

    Raises SceneError naming the body (of static shapes: the shape) for sizes that are not positive and finite.
    """

    def add_shape_sphere(
        self, body: int, xform: Any = None, radius: float = 1.0, *, label: str | None = None, **options: Any
    ) -> int:
        """A ball about the shape's origin."""
        return self._add_shape(ShapeType.SPHERE, body, xform, {"radius": radius}, label, options)

    def add_shape_box(
        self,
        body: int,
        xform: Any = None,
        hx: float = 0.5,
        hy: float = 0.5,
        hz: float = 0.5,
        *,
        label: str | None = None,
        **options: Any,
    ) -> int:
        """A cuboid with half extents hx, hy, hz."""
        return self._add_shape(ShapeType.BOX, body, xform, {"hx": hx, "hy": hy, "hz": hz}, label, options)

    def add_shape_capsule(
        self,
        body: int,
        xform: Any = None,
        radius: float = 1.0,
        half_height: float = 0.5,
        *,
        axis: Any = "z",
        label: str | None = None,
        **options: Any,
    ) -> int:
        """A cylinder of `half_height` along `axis` with a half ball on each end."""
        size = {"radius": radius, "half_height": half_height}
        return self._add_shape(ShapeType.CAPSULE, body, xform, size, label, options, axis)

    def add_shape_cylinder(
        self,
        body: int,
        xform: Any = None,
        radius: float = 1.0,
        half_height: float = 0.5,
        *,
        axis: Any = "z",
        label: str | None = None,
        **options: Any,
    ) -> int:
        """A cylinder along `axis`, centred."""
        size = {"radius": radius, "half_height": half_height}
        return self._add_shape(ShapeType.CYLINDER, body, xform, size, label, options, axis)

    def add_shape_cone(
        self,
        body: int,
        xform: Any = None,
        radius: float = 1.0,
        half_height: float = 0.5,
        *,
        axis: Any = "z",
        label: str | None = None,
        **options: Any,
    ) -> int:
        """A cone: base of `radius` at −half_height, tip at +half_height along `axis`."""
        size = {"radius": radius, "half_height": half_height}
        return self._add_shape(ShapeType.CONE, body, xform, size, label, options, axis)

    def add_shape_ellipsoid(
        self,
        body: int,
        xform: Any = None,
        a: float = 1.0,
        b: float = 0.75,
        c: float = 0.5,
        *,
        label: str | None = None,
        **options: Any,
    ) -> int:
        """An ellipsoid with semi-axes a, b, c."""
        return self._add_shape(ShapeType.ELLIPSOID, body, xform, {"a": a, "b": b, "c": c}, label, options)

    def add_shape_plane(
        self,
        body: int = WORLD_BODY,
        xform: Any = None,
        width: float = 0.0,
        length: float = 0.0,
        *,
        label: str | None = None,
        **options: Any,
    ) -> int:
        """A plane with normal +z of `xform`, solid below; `width`, `length` (full, along x and y), 0 = infinite.

        Only static and kinematic bodies can carry one.
        """
        size = {"width": width / 2, "length": length / 2}
        return self._add_shape(ShapeType.PLANE, body, xform, size, label, options)

    def add_ground_plane(self, height: float = 0.0, *, label: str | None = "ground", **options: Any) -> int:
        """A static infinite plane across the up axis at `height`."""
        pose = np.concatenate([self.up_vector * height, quat_between(Z, self.up_vector)])
        return self.add_shape_plane(WORLD_BODY, pose, label=label, **options)

    def add_shape_convex_hull(
        self,
        body: int,
        xform: Any = None,
        points: Any = None,
        *,
        hull: Hull | None = None,
        max_vertices: int = MAX_VERTICES,
        label: str | None = None,
        **options: Any,
    ) -> int:
        """The convex hull of points (n, 3) in the shape frame, or a ready `hull`; see geom.hull for the limits."""
        with self._errors_of(*self._shape_owner(body, label)):
            made = hull if hull is not None else self._hull_of(points, max_vertices)
        return self._add_shape(ShapeType.HULL, body, xform, {}, label, options, hull=made)

    def add_shape_mesh(
        self,
        body: int,
        xform: Any = None,
        vertices: Any = None,
        triangles: Any = None,
        *,
        mesh: TriMesh | None = None,
        max_vertices: int = MAX_VERTICES,
        label: str | None = None,
        **options: Any,
    ) -> int:
        """A triangle mesh: vertices (n, 3), triangles (m, 3), or a ready `mesh`.

        For now it collides as its convex hull (one warning per builder). Mass and inertia are exact for a closed mesh;
        of an open one they are the hull's, with a warning.
        """
        owner, what = self._shape_owner(body, label)
        with self._errors_of(owner, what):
            checked = welded(mesh or make_mesh(vertices, triangles))
            made = self._hull_of(checked.vertices[np.unique(checked.triangles)], max_vertices)
        name = label or owner
        self._warn_once("mesh", f"{name}: triangle meshes do not collide yet, their convex hulls do")
        solid = inertia.mesh(1.0, checked.vertices, checked.triangles) if checked.closed else None
        if solid is None and body != WORLD_BODY:
            self._warn_once("open mesh", f"{name}: open mesh: mass and inertia are those of its convex hull")
        if solid is not None and solid.mass < 0.0:  # inside out
            solid = inertia.MassProperties(-solid.mass, solid.com, -solid.inertia)
        if solid is not None and solid.mass < 1e-6 * made.mass_properties(1.0).mass:
            solid = None  # closed, but without a volume: a doubled sheet
        return self._add_shape(ShapeType.HULL, body, xform, {}, label, options, hull=made, solid=solid)

    def add_shape_heightfield(self, body: int, *_: Any, label: str | None = None, **__: Any) -> int:
        """Not supported yet: raises SceneError."""
        owner, what = self._shape_owner(body, label)
        reason = f"{what}: heightfields are not supported yet; use a mesh or boxes".lstrip(": ")
        raise SceneError(self.source, owner, reason)

    def add_shape_collision_filter_pair(self, shape_a: int, shape_b: int) -> None:
        """These two shapes never collide."""
        with self._errors_of("collision filter"):
            for shape in (shape_a, shape_b):
                if not 0 <= shape < len(self.shapes):
                    raise ValueError(f"shape {shape} does not exist ({len(self.shapes)} shapes)")
            if shape_a == shape_b:
                raise ValueError(f"shape {shape_a} cannot be paired with itself")
        self.filter_pairs.add((min(shape_a, shape_b), max(shape_a, shape_b)))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _add_shape(
        self,
        kind: ShapeType,
        body: int,
        xform: Any,
        size: dict[str, float],
        label: str | None,
        options: dict[str, Any],
        axis: Any = "z",
        hull: Hull | None = None,
        solid: inertia.MassProperties | None = None,
    ) -> int:
        with self._errors_of(*self._shape_owner(body, label)):
            body = self._check_body(body, "body")
            scale = UNIT if kind == ShapeType.HULL else _checked_size(kind, size)
            pose = as_pose(xform)
            if not (isinstance(axis, str) and axis == "z"):
                pose = pose_multiply(pose, np.append(np.zeros(3), quat_between(Z, as_axis(axis))))
            chosen = self._shape_options(options)
            if kind == ShapeType.PLANE and body != WORLD_BODY and not self.bodies[body].kinematic:
                raise ValueError("a plane has no mass: it must be static (body −1) or on a kinematic body")
        name = label or f"shape_{len(self.shapes)}"
        self.shapes.append(ShapeRecord(name, body, kind, pose, scale, chosen, hull, solid, self._world_of(body)))
        return len(self.shapes) - 1

    def _shape_owner(self, body: Any, label: str | None) -> tuple[str, str]:
        """(prim, what) of errors about the next shape: its body and itself; a static shape is named itself."""
        name = label or f"shape_{len(self.shapes)}"
        known = isinstance(body, (int, np.integer)) and 0 <= body < len(self.bodies)
        return (self.bodies[int(body)].label, f"shape '{name}'") if known else (name, "")

    def _hull_of(self, points: Any, max_vertices: int) -> Hull:
        """Hull of points, made once for equal points. Raises ValueError with the reason when there is none."""
        if points is None:
            raise ValueError("no points given")
        cloud = np.ascontiguousarray(points, np.float32)
        key = cloud.tobytes(), max_vertices
        made = self._hulls.get(key)
        if made is None:
            made = self._hulls[key] = convex_hull(cloud, max_vertices)
        if isinstance(made, NoHull):
            raise ValueError(f"no convex hull: {made.reason}")
        return made


def _checked_size(kind: ShapeType, size: dict[str, float]) -> Floats:
    """shape_scale (3,) from named sizes. Raises ValueError."""
    for i, (name, value) in enumerate(size.items()):
        if not isfinite(value):
            raise ValueError(f"{name} is not finite: {value}")
        if value < 0.0 or (value == 0.0 and i < SIZE_COUNT[kind]):
            raise ValueError(f"{name} must be positive, got {value:g}")
    return as_vector([*size.values(), 0.0, 0.0][:3])
