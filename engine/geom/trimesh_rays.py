"""The rays of a `trimesh.Trimesh`, asked of the engine: `mesh.ray = engine.geom.TrimeshRays(mesh)`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.geom.all_hits import AllIntersections
from engine.geom.query_mesh import Mesh


class TrimeshRays:
    """What trimesh's own ray engines offer, for a mesh with `vertices` (n, 3) and `faces` (m, 3).

    Watertight: a ray through an edge or a corner counts the triangles that a ray a little aside would meet, so that
    crossings of closed meshes are even from outside. Float32. The mesh is copied at the first question; a mesh that is
    changed afterwards needs a new object.
    """

    def __init__(self, mesh: Any, device: Any = None):
        self.mesh, self._device = mesh, device
        self._built: Mesh | None = None

    @property
    def engine_mesh(self) -> Mesh:
        """The mesh with its hierarchy."""
        if self._built is None:
            vertices = np.asarray(self.mesh.vertices, np.float32)
            self._built = Mesh(vertices, np.asarray(self.mesh.faces, np.int32), device=self._device)
        return self._built

    def _hits(self, ray_origins: Any, ray_directions: Any, multiple_hits: bool) -> AllIntersections:
        if multiple_hits:
            return self.engine_mesh.intersect_all(ray_origins, ray_directions)
        hits = self.engine_mesh.intersect(ray_origins, ray_directions)
        ray = np.flatnonzero(hits.face >= 0).astype(np.int32)
        return AllIntersections(ray, hits.t[ray], hits.face[ray], hits.weights[ray])

    def intersects_id(
        self,
        ray_origins: Any,
        ray_directions: Any,
        return_locations: bool = False,
        multiple_hits: bool = True,
        max_hits: int | None = None,
        **_options: Any,
    ) -> tuple[NDArray[Any], ...]:
        """(triangle, ray) of each hit, nearest first; and its place, if asked for."""
        hits = self._hits(ray_origins, ray_directions, multiple_hits)
        keep: Any = slice(None)
        if max_hits is not None:
            starts = np.searchsorted(hits.ray, hits.ray)
            keep = np.arange(len(hits.ray)) - starts < max_hits
        face, ray = hits.face[keep], hits.ray[keep]
        if not return_locations:
            return face, ray
        o, d = np.asarray(ray_origins, np.float64)[ray], np.asarray(ray_directions, np.float64)[ray]
        return face, ray, o + d * hits.t[keep][:, None]

    def intersects_location(
        self, ray_origins: Any, ray_directions: Any, multiple_hits: bool = True, **options: Any
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """(place, ray, triangle) of each hit."""
        face, ray, place = self.intersects_id(ray_origins, ray_directions, True, multiple_hits, **options)
        return place, ray, face

    def intersects_first(self, ray_origins: Any, ray_directions: Any, **_options: Any) -> NDArray[np.int32]:
        """The first triangle that each ray meets; −1 for none."""
        return self.engine_mesh.intersect(ray_origins, ray_directions).face

    def intersects_any(self, ray_origins: Any, ray_directions: Any, **_options: Any) -> NDArray[np.bool_]:
        """Whether each ray meets anything."""
        return self.engine_mesh.occluded(ray_origins, ray_directions)

    def contains_points(self, points: Any) -> NDArray[np.bool_]:
        """Whether points are inside of a closed mesh whose triangles have their right side out."""
        return self.engine_mesh.contains(points)
