"""Triangle meshes on the host: checked arrays, and files read through trimesh."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.geom.inertia import open_edges
from engine.geom.pose import Floats


@dataclass(frozen=True)
class TriMesh:
    """vertices (n, 3) m, triangles (m, 3) int64, counter-clockwise from outside."""

    vertices: Floats
    triangles: NDArray[np.int64]

    @property
    def closed(self) -> bool:
        """True if every edge is shared by two triangles that run through it in opposite directions."""
        return open_edges(self.triangles) == 0


def make_mesh(vertices: object, triangles: object) -> TriMesh:
    """A mesh from array-likes. Raises ValueError: wrong shapes, numbers not finite, indices out of range."""
    v = np.asarray(vertices, np.float64)
    t = np.asarray(triangles)
    t = t.reshape(-1, 3) if t.ndim == 1 and t.size % 3 == 0 else t
    if v.ndim != 2 or v.shape[1] != 3:
        raise ValueError(f"mesh vertices have shape {v.shape}, not (n, 3)")
    if t.ndim != 2 or t.shape[1] != 3 or (t.size and not np.issubdtype(t.dtype, np.integer)):
        raise ValueError(f"mesh triangles have shape {t.shape} of {t.dtype}, not (m, 3) integers")
    if len(t) == 0:
        raise ValueError("mesh has no faces")
    if not np.isfinite(v).all():
        raise ValueError(f"mesh vertex {int(np.argmax(~np.isfinite(v).all(axis=1)))} is not finite")
    if t.min() < 0 or t.max() >= len(v):
        wrong = int(t.max() if t.max() >= len(v) else t.min())
        raise ValueError(f"mesh face index {wrong} is out of range 0 … {len(v) - 1}")
    return TriMesh(v, t.astype(np.int64))


def load_mesh(path: str | Path) -> TriMesh:
    """All triangles of an OBJ, STL, PLY, GLB … file as one mesh, in the file's own units; equal vertices are merged.

    Raises ValueError naming the file when it cannot be read or holds no triangles.
    """
    import trimesh

    try:
        # Without their materials, textured files load where no image library is installed.
        loaded = trimesh.load_mesh(str(path), process=True, skip_materials=True)
        return make_mesh(loaded.vertices, loaded.faces)
    except Exception as error:  # trimesh raises whatever the format's reader raises
        raise ValueError(f"{path}: cannot read a mesh: {error}") from error
