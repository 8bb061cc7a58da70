"""Triangle meshes on the host: checked arrays; files and repairs through trimesh."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.geom.inertia import open_edges
from engine.geom.mesh_report import MeshReport, inspect_mesh
from engine.geom.pose import Floats
from engine.replace_file import replacing

WELD = 1e-6  # of the extent: vertices this near are one


@dataclass(frozen=True)
class TriMesh:
    """vertices (n, 3) m, triangles (m, 3) int64, counter-clockwise from outside."""

    vertices: Floats
    triangles: NDArray[np.int64]

    @property
    def closed(self) -> bool:
        """True if every edge is shared by two triangles that run through it in opposite directions."""
        return open_edges(self.triangles) == 0

    def report(self) -> MeshReport:
        """What is wrong with it, as counts and as a text."""
        return inspect_mesh(self.vertices, self.triangles)


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
    """All triangles of an OBJ, STL, PLY, GLB … file as one mesh, in the file's own units.

    Nodes of the file are placed by their transforms; the result is welded.
    Raises ValueError naming the file when it cannot be read or holds no triangles.
    """
    import trimesh

    try:
        scene = trimesh.load_scene(str(path), process=False)
        parts = [_placed(scene, node) for node in scene.graph.nodes_geometry]
        return _joined([part for part in parts if part is not None])
    except Exception as error:  # trimesh raises whatever the format's reader raises
        raise ValueError(f"{path}: cannot read a mesh: {error}") from error


def _placed(scene: Any, node: str) -> tuple[Floats, NDArray[np.int64]] | None:
    """(vertices in the scene's frame, triangles) of one node; None for points and lines."""
    transform, name = scene.graph[node]
    geometry = scene.geometry[name]
    if not hasattr(geometry, "faces"):
        return None
    vertices = np.asarray(geometry.vertices, np.float64) @ transform[:3, :3].T + transform[:3, 3]
    faces = np.asarray(geometry.faces, np.int64)
    mirrored = np.linalg.det(transform[:3, :3]) < 0.0
    return vertices, faces[:, ::-1] if mirrored else faces


def _joined(parts: list[tuple[Floats, NDArray[np.int64]]]) -> TriMesh:
    """One welded mesh of several."""
    starts = np.cumsum([0, *(len(v) for v, _ in parts)])
    vertices = np.vstack([np.zeros((0, 3)), *(v for v, _ in parts)])
    triangles = np.vstack([np.zeros((0, 3), np.int64), *(t + start for (_, t), start in zip(parts, starts))])
    return welded(make_mesh(vertices, triangles))


def welded(mesh: TriMesh) -> TriMesh:
    """The mesh with vertices merged that round to one point of a fine grid, less the triangles that vanish by it.

    Files that repeat a corner for each face, or along seams of normals and textures, become closed meshes by this.
    Raises ValueError if no triangle is left.
    """
    extent = float(np.ptp(mesh.vertices, axis=0).max())
    cells = np.round((mesh.vertices - mesh.vertices.min(axis=0)) / (WELD * extent or 1.0))
    _, first, place = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    t = place.reshape(-1)[mesh.triangles]
    t = t[(t[:, 0] != t[:, 1]) & (t[:, 1] != t[:, 2]) & (t[:, 2] != t[:, 0])]
    return make_mesh(mesh.vertices[first], t)


def save_mesh(path: str | Path, vertices: object, triangles: object) -> None:
    """Writes an OBJ, STL, PLY, GLB, OFF … file, by the end of its name; all of it, or nothing.

    Raises ValueError for what is no mesh, and for endings that trimesh does not write.
    """
    import trimesh

    mesh = make_mesh(vertices, triangles)
    kind = Path(path).suffix[1:].lower()
    try:
        data = trimesh.Trimesh(mesh.vertices, mesh.triangles, process=False).export(file_type=kind)
    except Exception as error:  # trimesh raises whatever the format's writer raises
        raise ValueError(f"{path}: cannot write a mesh as {kind!r}: {error}") from error
    with replacing(path) as beside:
        beside.write_bytes(data if isinstance(data, bytes) else str(data).encode())


@dataclass(frozen=True)
class Repair:
    """A repaired mesh, with what was wrong before and what still is."""

    mesh: TriMesh
    before: MeshReport
    after: MeshReport

    def __str__(self) -> str:
        return f"before: {self.before}\nafter:  {self.after}"


def _used(v: Floats, t: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Vertices that triangles name, and the triangles by their new numbers."""
    used, numbers = np.unique(t, return_inverse=True)
    return v[used], numbers.reshape(-1, 3)


def _once(t: NDArray[np.int64]) -> NDArray[np.int64]:
    """One of the triangles with the same corners; none, where as many have one side up as the other."""
    even = ((t[:, 0] < t[:, 1]) + 0 + (t[:, 1] < t[:, 2]) + (t[:, 2] < t[:, 0])) == 2
    _, which = np.unique(np.sort(t, axis=1), axis=0, return_inverse=True)
    net = np.bincount(which.reshape(-1), weights=np.where(even, 1.0, -1.0))[which.reshape(-1)]
    fits = np.flatnonzero(np.where(even, net > 0.0, net < 0.0))
    _, first = np.unique(which.reshape(-1)[fits], return_index=True)
    return t[np.sort(fits[first])]


def repair_mesh(vertices: object, triangles: object, fill_holes: bool = True) -> Repair:
    """Leaves out what is no triangle, what is there twice, and pairs with opposite sides; welds corners, closes small
    holes (of three and four edges, by trimesh), and turns the right side out. Raises ValueError if nothing is left.
    """
    import trimesh

    before = inspect_mesh(vertices, triangles)
    v, t = np.asarray(vertices, np.float64), np.asarray(triangles).reshape(-1, 3).astype(np.int64)
    t = t[((t >= 0) & (t < len(v))).all(axis=1)]
    t = t[np.isfinite(v[t]).all(axis=(1, 2))]
    mesh = welded(make_mesh(*_used(v, t)))
    work = trimesh.Trimesh(*_used(mesh.vertices, _once(mesh.triangles)), process=False)
    if fill_holes:
        work.fill_holes()
    work.fix_normals(multibody=True)
    mended = make_mesh(np.asarray(work.vertices), np.asarray(work.faces))
    return Repair(mended, before, mended.report())
