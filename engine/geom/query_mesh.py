"""`Mesh`: a triangle mesh that kernels can ask for rays, points and boxes; the same questions from NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compiler import lang as k
from engine.context import array, empty, launch, recording
from engine.errors import ArgumentError
from engine.geom import mesh_moments
from engine.geom.all_hits import AllIntersections, all_hits
from engine.geom.bvh import (
    Hierarchy,
    Tree,
    bvh_get_group_root,
    check_array,
    check_constructor,
    record_triangles,
    tree_of,
)
from engine.geom.bvh_build import NODE_WORDS, WIDTH
from engine.geom.mesh_slabs import SLAB_WORDS, fit_mesh, list_all_corners
from engine.geom.point_order import curve_order
from engine.geom.point_query import closest, sign_by_rays, winding_number
from engine.geom.ray_query import ANY, CLOSEST, corner, face_normal, trace

# --- reading a mesh in kernels ----------------------------------------------------------------------------------------


@k.func
def mesh_get(id: k.uint64) -> Tree:
    """The arrays of a mesh: points, velocities, indices."""
    return tree_of(id)


@k.func
def mesh_get_group_root(id: k.uint64, group: int) -> int:
    """What rays and boxes take as `root` to find the triangles of this group only."""
    return bvh_get_group_root(id, group)


@k.func
def mesh_get_point(id: k.uint64, index: int) -> k.vec3:
    """The position of corner `index`, of 3 · faces."""
    tree = tree_of(id)
    return tree.points[tree.indices[index]]


@k.func
def mesh_get_velocity(id: k.uint64, index: int) -> k.vec3:
    """The velocity of corner `index`; 0 for a mesh without velocities."""
    tree = tree_of(id)
    out = k.vec3()
    if len(tree.velocities) > 0:
        out = tree.velocities[tree.indices[index]]
    return out


@k.func
def mesh_get_index(id: k.uint64, index: int) -> int:
    """The point that corner `index`, of 3 · faces, is."""
    return tree_of(id).indices[index]


@k.func
def mesh_eval_position(id: k.uint64, face: int, bary_u: float, bary_v: float) -> k.vec3:
    """The point of a triangle with these weights of its first two corners."""
    tree = tree_of(id)
    a, b, c = corner(tree, face, 0), corner(tree, face, 1), corner(tree, face, 2)
    return bary_u * a + bary_v * b + (1.0 - bary_u - bary_v) * c


@k.func
def mesh_eval_velocity(id: k.uint64, face: int, bary_u: float, bary_v: float) -> k.vec3:
    """The velocity there; 0 for a mesh without velocities."""
    a, b = mesh_get_velocity(id, 3 * face), mesh_get_velocity(id, 3 * face + 1)
    c = mesh_get_velocity(id, 3 * face + 2)
    return bary_u * a + bary_v * b + (1.0 - bary_u - bary_v) * c


@k.func
def mesh_eval_face_normal(id: k.uint64, face: int) -> k.vec3:
    """The unit normal of a triangle, toward where its corners run counter-clockwise."""
    return face_normal(tree_of(id), face)


# --- many questions at once -------------------------------------------------------------------------------------------


@k.requires(lambda tid, origins, directions, t, face, weights: tid < origins.shape[0] and tid < directions.shape[0]
    and tid < t.shape[0] and tid < face.shape[0] and tid < weights.shape[0])  # fmt: skip
@k.kernel
def intersect_all(
    mesh: k.uint64,
    origins: k.array(dtype=k.vec3),
    directions: k.array(dtype=k.vec3),
    max_t: float,
    t: k.array(dtype=float),
    face: k.array(dtype=int),
    weights: k.array(dtype=k.vec2),
):
    i = k.tid()
    found, near, u, v, _side, number, _at = trace(tree_of(mesh), origins[i], directions[i], max_t, CLOSEST)
    t[i] = near if found > 0 else k.inf
    face[i] = number
    weights[i] = k.vec2(u, v)


@k.requires(lambda tid, origins, directions, hit: tid < origins.shape[0] and tid < directions.shape[0]
    and tid < hit.shape[0])  # fmt: skip
@k.kernel
def occlude_all(
    mesh: k.uint64,
    origins: k.array(dtype=k.vec3),
    directions: k.array(dtype=k.vec3),
    max_t: float,
    hit: k.array(dtype=k.uint8),
):
    i = k.tid()
    found, _t, _u, _v, _side, _face, _at = trace(tree_of(mesh), origins[i], directions[i], max_t, ANY)
    hit[i] = k.uint8(found)


@k.requires(lambda tid, order, points, nearest, distance, face: tid < order.shape[0] and 0 <= order[tid]
    and order[tid] < points.shape[0] and order[tid] < face.shape[0] and order[tid] < nearest.shape[0]
    and order[tid] < distance.shape[0])  # fmt: skip
@k.kernel
def closest_all(
    mesh: k.uint64,
    order: k.array(dtype=int),
    points: k.array(dtype=k.vec3),
    max_dist: float,
    nearest: k.array(dtype=k.vec3),
    distance: k.array(dtype=float),
    face: k.array(dtype=int),
):
    i = order[k.tid()]
    tree = tree_of(mesh)
    number, w = closest(tree, points[i], max_dist)
    face[i] = number
    at = k.vec3(k.nan)
    far = float(k.inf)
    if number >= 0:
        a, b, c = corner(tree, number, 0), corner(tree, number, 1), corner(tree, number, 2)
        exact = k.vec3d(a) * w[0] + k.vec3d(b) * w[1] + k.vec3d(c) * w[2]
        at = k.vec3(exact)
        far = float(k.length(exact - k.vec3d(points[i])))
    nearest[i] = at
    distance[i] = far


@k.kernel
def contain_all(
    mesh: k.uint64,
    order: k.array(dtype=int),
    points: k.array(dtype=k.vec3),
    by_winding: int,
    inside: k.array(dtype=k.uint8),
):
    i = order[k.tid()]
    tree = tree_of(mesh)
    if by_winding == 1:
        inside[i] = k.uint8(winding_number(tree, points[i], 2.0) > 0.5)
    else:
        inside[i] = k.uint8(sign_by_rays(tree, points[i], False) < 0.0)


@dataclass(frozen=True)
class Intersections:
    """What each of n rays met."""

    t: NDArray[np.float32]  # (n,) in lengths of the direction; inf where nothing is met
    face: NDArray[np.int32]  # (n,) −1 where nothing is met
    weights: NDArray[np.float32]  # (n, 2) of the triangle's first two corners


@dataclass(frozen=True)
class Closest:
    """The point of the mesh that is nearest to each of n points; NaN, inf and −1 where none is near."""

    point: NDArray[np.float32]  # (n, 3)
    distance: NDArray[np.float32]  # (n,)
    face: NDArray[np.int32]  # (n,)


class Mesh:
    """A triangle mesh with a hierarchy for the `mesh_query_*` functions: `.id` is what kernels take as a uint64.

    points: array of vec3 (n,), indices: array of int32 (3 m,), velocities: array of vec3 (n,), all of which are kept:
    write to `points` and call `refit`, to `indices` and call `rebuild`. NumPy arrays are copied. Triangles with corners
    that are not finite are left out, `skipped` counts them. `support_winding_number` makes
    `mesh_query_point_sign_winding_number` fast.
    groups: array of int32, one for each triangle, which is copied: `mesh_get_group_root` makes rays and boxes find one
    group only. bvh_constructor: "sah" (the default) or "lbvh", built in less than half of the time and about as fast to
    ask; "median" is taken as "sah", and `bvh_leaf_size` is ignored. Raises ArgumentError for unfit arrays and for
    indices out of range. Coordinates shall be below 1e18.
    """

    def __init__(
        self,
        points: Any,
        indices: Any,
        velocities: Any = None,
        support_winding_number: bool = False,
        groups: Any = None,
        bvh_constructor: str | None = None,
        bvh_leaf_size: int | None = None,
        device: Any = None,
    ):
        if not isinstance(points, array):
            points = _vectors(points, "points", device)
        if not isinstance(indices, array):
            indices = array(_indices(indices), dtype=int, device=device)
        check_array("points", points, k.vec3)
        check_array("indices", indices, k.int32, points.device)
        if velocities is not None:
            velocities = velocities if isinstance(velocities, array) else _vectors(velocities, "velocities", device)
            check_array("velocities", velocities, k.vec3, points.device)
            if len(velocities) != len(points):
                raise ArgumentError(f"{len(velocities)} velocities for {len(points)} points")
        check_constructor(bvh_constructor, bvh_leaf_size)
        self._points, self.indices, self._velocities = points, indices, velocities
        self.device = points.device
        self._tree = Hierarchy(self.device, len(indices) // 3)
        self._tree.take_groups(groups)
        self.support_winding_number = support_winding_number
        self._constructor = bvh_constructor
        self.rebuild()

    def __del__(self) -> None:
        if hasattr(self, "_tree"):  # which there is not where the arguments were refused
            self._tree.release()

    @property
    def id(self) -> int:
        """The handle: an address, which stays the same for the life of the object."""
        return self._tree.handle.ptr

    @property
    def points(self) -> Any:
        """Positions; assigning an array of the same length refits."""
        return self._points

    @points.setter
    def points(self, points: Any) -> None:
        check_array("points", points, k.vec3, self.device)
        if len(points) != len(self._points):
            raise ArgumentError(f"the new points are {len(points)}, the old ones {len(self._points)}")
        self._points = points
        self._point_at()
        self.refit()

    @property
    def velocities(self) -> Any:
        """Velocities, or None; an array of the same length may be assigned."""
        return self._velocities

    @velocities.setter
    def velocities(self, velocities: Any) -> None:
        check_array("velocities", velocities, k.vec3, self.device)
        if len(velocities) != len(self._points):
            raise ArgumentError(f"{len(velocities)} velocities for {len(self._points)} points")
        self._velocities = velocities
        self._point_at()

    @property
    def skipped(self) -> int:
        """Triangles that are left out since a corner was not finite at the last build."""
        return self._tree.skipped

    @property
    def nbytes(self) -> int:
        """Bytes of the hierarchy."""
        return self._tree.nbytes

    def _fields(self) -> dict[str, Any]:
        return {"points": self._points, "indices": self.indices, "velocities": self._velocities}

    def _point_at(self) -> None:
        self._tree.fields = self._fields()
        self._tree.point_at()

    def rebuild(self) -> None:
        """Build anew from the present points and indices: after large motion, queries get faster by it.

        Raises ArgumentError for indices out of range.
        """
        _check_indices(self.indices, len(self._points))
        tree = self._tree
        tree.moments = tree.slabs = None
        tree.corners = empty(0, dtype=int, device=self.device)
        tree.rebuild(record_triangles, [self._points, self.indices], self._fields(), self._constructor)
        nodes = len(tree.nodes) // NODE_WORDS
        tree.slabs = empty(SLAB_WORDS * nodes, dtype=float, device=self.device)
        if self.support_winding_number:
            tree.moments = empty(NODE_WORDS * nodes, dtype=float, device=self.device)
            self._areas = empty(WIDTH * nodes, dtype=float, device=self.device)
        tree.point_at()
        self._fit()

    def refit(self) -> None:
        """The points have moved."""
        if len(self._tree.corners) == 0 and recording.current() is None:
            list_all_corners(self._tree, self._points, self.indices)
        self._fit()

    def _fit(self) -> None:
        fit_mesh(self._tree, self._points, self.indices)
        if self.support_winding_number:
            mesh_moments.fit(self._tree, self._tree.moments, self._areas)

    # questions from NumPy

    def intersect(self, origins: Any, directions: Any, max_t: float = np.inf) -> Intersections:
        """The first triangle that each ray meets. origins, directions (n, 3); directions may have any length but 0."""
        o, d = self._rays(origins, directions)
        n = len(o)
        t, face = empty(n, dtype=float, device=self.device), empty(n, dtype=int, device=self.device)
        weights = empty(n, dtype=k.vec2, device=self.device)
        launch(intersect_all, n, inputs=[self.id, o, d, float(max_t), t, face, weights], device=self.device)
        return Intersections(t.numpy(), face.numpy(), weights.numpy())

    def intersect_all(self, origins: Any, directions: Any, max_t: float = np.inf) -> AllIntersections:
        """Every triangle that each ray goes through, 0 ≤ t ≤ max_t, ray by ray and nearest first.

        At an edge or a corner those count that a ray a little aside would meet: none twice, and an even number for rays
        through a closed mesh from outside.
        """
        o, d = self._rays(origins, directions)
        return all_hits(self.id, o, d, float(max_t), self.device)

    def occluded(self, origins: Any, directions: Any, max_t: float = np.inf) -> NDArray[np.bool_]:
        """Whether each ray meets anything with 0 ≤ t ≤ max_t."""
        o, d = self._rays(origins, directions)
        hit = empty(len(o), dtype=k.uint8, device=self.device)
        launch(occlude_all, len(o), inputs=[self.id, o, d, float(max_t), hit], device=self.device)
        return hit.numpy() != 0

    def closest(self, points: Any, max_dist: float = np.inf) -> Closest:
        """The nearest point of the mesh for each of points (n, 3) that is less than max_dist away."""
        p = _vectors(points, "points", self.device)
        n = len(p)
        nearest, face = empty(n, dtype=k.vec3, device=self.device), empty(n, dtype=int, device=self.device)
        distance = empty(n, dtype=float, device=self.device)
        inputs = [self.id, self._order(p), p, float(max_dist), nearest, distance, face]
        launch(closest_all, n, inputs=inputs, device=self.device)
        return Closest(nearest.numpy(), distance.numpy(), face.numpy())

    def contains(self, points: Any) -> NDArray[np.bool_]:
        """Whether each of points (n, 3) is inside: by winding number if the mesh supports it, else by rays."""
        p = _vectors(points, "points", self.device)
        inside = empty(len(p), dtype=k.uint8, device=self.device)
        inputs = [self.id, self._order(p), p, int(self.support_winding_number), inside]
        launch(contain_all, len(p), inputs=inputs, device=self.device)
        return inside.numpy() != 0

    def _order(self, points: Any) -> Any:
        """Neighbours one after the other: they go through the same nodes."""
        return curve_order(points, *self._tree.bounds.numpy())

    def _rays(self, origins: Any, directions: Any) -> tuple[Any, Any]:
        o, d = _vectors(origins, "origins", self.device), _vectors(directions, "directions", self.device)
        if len(o) != len(d):
            raise ArgumentError(f"{len(o)} origins for {len(d)} directions")
        return o, d


def _vectors(values: Any, name: str, device: Any) -> Any:
    """(n, 3) numbers as an array of vec3. Raises ArgumentError for other shapes."""
    if isinstance(values, array):
        check_array(name, values, k.vec3, device)
        return values
    v = np.asarray(values, np.float32)
    if v.ndim != 2 or v.shape[1] != 3:
        raise ArgumentError(f"{name} must have shape (n, 3), got {v.shape}")
    return array(np.ascontiguousarray(v), dtype=k.vec3, device=device)


def _indices(values: Any) -> NDArray[np.int32]:
    """Whole numbers (m, 3) or (3 m,) as int32."""
    v = np.asarray(values)
    if v.size and not np.issubdtype(v.dtype, np.integer):
        raise ArgumentError(f"indices must be whole numbers, got {v.dtype}")
    if v.size and (v.min() < -(2**31) or v.max() >= 2**31):
        raise ArgumentError("indices do not fit into 32 bits")
    return np.ascontiguousarray(v.reshape(-1), np.int32)


def _check_indices(indices: Any, points: int) -> None:
    """Raises ArgumentError unless there are three for each triangle, all below the number of points."""
    if len(indices) % 3:
        raise ArgumentError(f"{len(indices)} indices are not three for each triangle")
    values = indices.numpy()
    if len(values) and (values.min() < 0 or values.max() >= points):
        wrong = int(values.min() if values.min() < 0 else values.max())
        raise ArgumentError(f"index {wrong} is out of range 0 … {points - 1}")
