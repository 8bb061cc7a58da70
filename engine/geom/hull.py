"""Convex hulls from points: Qhull (scipy), coplanar triangles merged into polygons, edges with both faces.

Limits. Points are rounded to float32 first, so that the planes fit the stored vertices. Points nearer to each other
than WELD of the extent are one. Faces whose corners lie within PLANAR of the extent of one plane are merged; a hull
thinner than FLAT of its extent is refused. More than `max_vertices` corners are reduced to the most extreme ones; the
hull then lies inside the true one by at most `Hull.error`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.geom import inertia
from engine.geom.pose import Floats

MAX_VERTICES = 64  # default limit; collision tests all vertices and faces of a pair
WELD = 1e-6
PLANAR = 1e-5
FLAT = 1e-4
NORMAL_ALIGNED = 0.999  # cosine: triangles that turn more than this are never merged, however small

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Hull:
    """A convex polyhedron.

    vertices (n, 3) m. faces: corner loops, counter-clockwise seen from outside. planes (nface, 4): outward unit normal
    and offset, n·x = d. edges (nedge, 4): v0, v1, f0, f1 with v0 → v1 in the loop of face f0 and v1 → v0 in that of f1;
    v0 < v1; sorted. error (m): how far an input point can lie outside (0 unless vertices were left out).
    """

    vertices: Floats
    faces: list[list[int]]
    planes: Floats
    edges: Ints
    error: float = 0.0

    def triangles(self) -> Ints:
        """Fan triangulation (m, 3) of the faces, counter-clockwise from outside."""
        fans = [[loop[0], loop[i], loop[i + 1]] for loop in self.faces for i in range(1, len(loop) - 1)]
        return np.array(fans, np.int64).reshape(-1, 3)

    def mass_properties(self, density: float) -> inertia.MassProperties:
        """Of the solid hull, kg/m³."""
        return inertia.mesh(density, self.vertices, self.triangles())


@dataclass(frozen=True)
class NoHull:
    """Why points have no convex hull with a volume."""

    reason: str


def convex_hull(points: ArrayLike, max_vertices: int = MAX_VERTICES) -> Hull | NoHull:
    """The convex hull of points (n, 3), with at most `max_vertices` (≥ 4) vertices."""
    cloud = np.asarray(points, np.float32).astype(np.float64)
    if cloud.ndim != 2 or cloud.shape[1] != 3:
        return NoHull(f"points have shape {cloud.shape}, not (n, 3)")
    if not np.isfinite(cloud).all():
        return NoHull(f"point {int(np.argmax(~np.isfinite(cloud).all(axis=1)))} is not finite")
    if max_vertices < 4:
        return NoHull(f"a hull needs at least 4 vertices, max_vertices is {max_vertices}")
    extent = float(np.ptp(cloud, axis=0).max()) if len(cloud) else 0.0
    cloud = _weld(cloud, WELD * extent)
    flat = _flatness_problem(cloud)
    if flat is not None:
        return NoHull(flat)
    corners, triangles = _triangulated(cloud)
    error = 0.0
    if len(corners) > max_vertices:
        kept, error = _most_extreme(corners, max_vertices)
        corners, triangles = _triangulated(kept)
    return _merged(corners, triangles, PLANAR * extent, error) or NoHull("no closed surface at this precision")


def _weld(cloud: Floats, tolerance: float) -> Floats:
    """One point of each cell of a grid of `tolerance`, in input order."""
    if tolerance == 0.0:
        return cloud[:1]
    cells = np.round((cloud - cloud.min(axis=0)) / tolerance).astype(np.int64)  # below 2²¹: they fit into one integer
    first = np.unique(cells @ np.array([1 << 42, 1 << 21, 1]), return_index=True)[1]
    return cloud[np.sort(first)]


def _flatness_problem(cloud: Floats) -> str | None:
    """What keeps the points from spanning a volume, or None."""
    if len(cloud) == 0:
        return "no points"
    if len(cloud) == 1:
        return "all points coincide"
    centred = cloud - cloud.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    widths = np.sort(np.ptp(centred @ axes.T, axis=0))[::-1]
    if len(cloud) < 3 or len(widths) < 2 or widths[1] < FLAT * widths[0]:
        return "all points lie on one line"
    if len(cloud) < 4 or len(widths) < 3 or widths[2] < FLAT * widths[0]:
        return "all points lie in one plane"
    return None


def _triangulated(points: Floats) -> tuple[Floats, Ints]:
    """(corners (n, 3) in input order, triangles (m, 3) of them, counter-clockwise from outside) of the hull."""
    from scipy.spatial import ConvexHull

    for options in ("Qt", "QJ"):  # cut merged facets into triangles; where that tears, shake the points a little
        qhull = ConvexHull(points, qhull_options=options)
        kept = np.sort(qhull.vertices)
        place = np.zeros(len(points), np.int64)
        place[kept] = np.arange(len(kept))
        triangles = place[qhull.simplices]
        a, b, c = (points[qhull.simplices[:, k]] for k in range(3))
        inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), qhull.equations[:, :3]) < 0
        triangles[inward] = triangles[inward, ::-1]
        if inertia.open_edges(triangles) == 0:
            break
    return points[kept], triangles


def _most_extreme(corners: Floats, max_vertices: int) -> tuple[Floats, float]:
    """`max_vertices` of the corners: greedily the one farthest outside the hull so far; and how far the rest are."""
    from scipy.spatial import ConvexHull

    chosen = _first_tetrahedron(corners)
    while True:
        planes = ConvexHull(corners[chosen]).equations
        outside = (corners @ planes[:, :3].T + planes[:, 3]).max(axis=1)
        farthest = int(np.argmax(outside))
        if len(chosen) >= max_vertices or outside[farthest] <= 0.0:
            return corners[sorted(chosen)], max(float(outside[farthest]), 0.0)
        chosen.append(farthest)


def _first_tetrahedron(corners: Floats) -> list[int]:
    """Four corners that span a large volume: farthest from a point, from a line, from a plane."""
    a = int(np.argmax(np.linalg.norm(corners - corners.mean(axis=0), axis=1)))
    b = int(np.argmax(np.linalg.norm(corners - corners[a], axis=1)))
    line = corners[b] - corners[a]
    c = int(np.argmax(np.linalg.norm(np.cross(corners - corners[a], line), axis=1)))
    normal = np.cross(line, corners[c] - corners[a])
    d = int(np.argmax(np.abs((corners - corners[a]) @ normal)))
    return [a, b, c, d]


def _merged(points: Floats, triangles: Ints, tolerance: float, error: float) -> Hull | None:
    """The hull with coplanar triangles merged; None if even the triangles are no closed surface."""
    alone, groups = _planar_regions(points, triangles, tolerance)
    single = triangles.tolist()
    loops = [single[i] for i in alone] + [loop for group in groups for loop in _region_loops(single, group)]
    hull = _polyhedron(points, _without_straight_corners(loops), error)
    # Merging can go wrong at the limit of precision; the triangles themselves are a polyhedron then, too.
    return hull or _polyhedron(points, single, error)


def _polyhedron(points: Floats, loops: list[list[int]], error: float) -> Hull | None:
    """Hull of face loops in a canonical order (it depends on the points alone); None if they are not a polyhedron."""
    used = sorted({v for loop in loops for v in loop})
    renumber = {old: new for new, old in enumerate(used)}
    vertices = points[used]
    faces = sorted(_rotated([renumber[v] for v in loop]) for loop in loops)
    edges = _edges(faces)
    if edges is None or len(vertices) - len(edges) + len(faces) != 2:  # Euler
        return None
    return Hull(vertices, faces, _planes(vertices, faces), edges, error)


def _planar_regions(points: Floats, triangles: Ints, tolerance: float) -> tuple[list[int], list[list[int]]]:
    """(triangles that share their plane with no neighbour, groups of those that do, each grown from its largest)."""
    corners = points[triangles]
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(cross, axis=1)
    normals = cross / np.where(area > 0.0, area, 1.0)[:, None]
    sliver = area <= tolerance * np.linalg.norm(np.ptp(points, axis=0))  # its normal means nothing
    neighbours = _neighbours(triangles)
    # A first, generous look at neighbouring pairs: most hulls of scattered points have nothing to merge at all.
    over = np.abs(np.einsum("tkci,ti->tkc", corners[neighbours] - corners[:, :1, None], normals)).max(axis=2)
    pair = (over <= 64 * tolerance) | (sliver[:, None] | sliver[neighbours])
    candidate = pair.any(axis=1)
    candidate[neighbours[pair]] = True
    free = candidate.copy()
    groups: list[list[int]] = []
    for seed in np.lexsort((np.arange(len(area)), -area)):
        if not free[seed]:
            continue
        height = np.abs((points - corners[seed, 0]) @ normals[seed])
        fits = (height[triangles].max(axis=1) <= tolerance) & (sliver | (normals @ normals[seed] > NORMAL_ALIGNED))
        region, frontier = [int(seed)], [int(seed)]
        free[seed] = False
        while frontier:
            for other in neighbours[frontier.pop()]:
                if free[other] and fits[other]:
                    free[other] = False
                    region.append(int(other))
                    frontier.append(int(other))
        groups.append(region)
    return np.flatnonzero(~candidate).tolist(), groups


def _neighbours(triangles: Ints) -> Ints:
    """(m, 3): the triangle across edge k (corner k → k + 1) of each triangle; itself where there is none."""
    n = int(triangles.max()) + 1
    start, end = triangles.ravel(), np.roll(triangles, -1, axis=1).ravel()
    order = np.argsort(start * n + end, kind="stable")
    place = np.minimum(np.searchsorted((start * n + end)[order], end * n + start), len(order) - 1)
    found = order[place]
    opposite = (start[found] == end) & (end[found] == start)
    return np.where(opposite, found // 3, np.arange(len(start)) // 3).reshape(-1, 3)


def _region_loops(triangles: list[list[int]], region: list[int]) -> list[list[int]]:
    """The border of a region as one loop; its single triangles where the border is not one simple loop."""
    directed = {(triangles[i][k], triangles[i][(k + 1) % 3]) for i in region for k in range(3)}
    border = [(s, e) for s, e in directed if (e, s) not in directed]
    following = dict(border)
    loop = [min(following)] if following else []
    while len(loop) < len(border) and following.get(loop[-1], loop[0]) != loop[0]:
        loop.append(following[loop[-1]])
    if len(loop) == len(border) == len(following) and following[loop[-1]] == loop[0]:
        return [loop]
    return [triangles[i] for i in region]


def _without_straight_corners(loops: list[list[int]]) -> list[list[int]]:
    """Loops without the corners that belong to two faces only (points on an edge); empty if a face would vanish."""
    degree: dict[int, int] = {}
    for loop in loops:
        for v in loop:
            degree[v] = degree.get(v, 0) + 1
    trimmed = [[v for v in loop if degree[v] > 2] for loop in loops]
    return trimmed if all(len(loop) >= 3 for loop in trimmed) else []


def _rotated(loop: list[int]) -> list[int]:
    """The same loop starting at its smallest index."""
    i = loop.index(min(loop))
    return loop[i:] + loop[:i]


def _planes(vertices: Floats, faces: list[list[int]]) -> Floats:
    """(nface, 4): Newell's normal of each loop and the offset that no corner of it exceeds."""
    first = np.cumsum([0, *(len(loop) for loop in faces[:-1])])
    near = vertices - vertices.mean(axis=0)
    here = near[[v for loop in faces for v in loop]]
    following = near[[v for loop in faces for v in loop[1:] + loop[:1]]]
    normals = np.add.reduceat(np.cross(here, following), first, axis=0)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    owner = np.repeat(np.arange(len(faces)), [len(loop) for loop in faces])
    height = np.einsum("ij,ij->i", vertices[[v for loop in faces for v in loop]], normals[owner])
    return np.column_stack([normals, np.maximum.reduceat(height, first)])


def _edges(faces: list[list[int]]) -> Ints | None:
    """(nedge, 4) v0, v1, f0, f1 of face loops, v0 < v1, sorted; None if some edge lacks its second face."""
    owner = {(s, e): f for f, loop in enumerate(faces) for s, e in zip(loop, loop[1:] + loop[:1], strict=True)}
    if len(owner) != sum(map(len, faces)) or any((e, s) not in owner for s, e in owner):
        return None
    return np.array(sorted((s, e, f, owner[e, s]) for (s, e), f in owner.items() if s < e), np.int64).reshape(-1, 4)
