"""What is wrong with a triangle mesh: counts of what is open, flipped, duplicate or without area, and a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.geom.pose import Floats

Ints = NDArray[np.int64]
FLAT = 1e-12  # a triangle has no area if twice of it is less than this part of its longest edge, squared


@dataclass(frozen=True)
class MeshReport:
    """Counts of a mesh's faults. Corners that lie at one place are one corner, whatever their numbers.

    Triangles with indices out of range, or corners that are not finite, count as such and as nothing else.
    """

    vertices: int
    triangles: int
    bad_indices: int  # triangles that name vertices which there are not
    not_finite: int  # triangles with a corner that is NaN or infinite
    unused: int  # vertices that no triangle names
    repeated: int  # vertices at the place of one before
    degenerate: int  # triangles without area
    duplicate: int  # triangles with the three corners of one before
    open_edges: int  # edges of one triangle
    crowded_edges: int  # edges of more than two
    flipped_edges: int  # edges of two triangles that run along it in the same direction
    parts: int  # pieces that hang together by edges or corners
    area: float  # m²
    volume: float  # m³: negative for a mesh that is inside out, meaningless for one that is not closed

    @property
    def closed(self) -> bool:
        """Whether every edge has two triangles, which run along it in opposite directions."""
        return self.triangles > 0 and not (self.open_edges or self.crowded_edges or self.flipped_edges)

    @property
    def inside_out(self) -> bool:
        """Whether the mesh is closed, and its triangles have their right side in."""
        return self.closed and self.volume < 0.0

    @property
    def sound(self) -> bool:
        """Whether it bounds a solid: closed, right side out, nothing left over."""
        return self.closed and self.volume > 0.0 and not (
            self.bad_indices or self.not_finite or self.degenerate or self.duplicate)  # fmt: skip

    def __str__(self) -> str:
        kind = "closed" if self.closed else "not closed"
        head = f"{_many(self.vertices, 'vertex', 'vertices')}, {_many(self.triangles, 'triangle')}, "
        head += f"{_many(self.parts, 'part')}, {kind}, area {self.area:.6g} m²"
        if self.closed:
            head += f", volume {self.volume:.6g} m³" + (", inside out" if self.inside_out else "")
        faults = [
            (self.bad_indices, "triangle", "with indices out of range"),
            (self.not_finite, "triangle", "with corners that are not finite"),
            (self.degenerate, "triangle", "without area"),
            (self.duplicate, "triangle", "with the corners of another"),
            (self.open_edges, "edge", "with one triangle only"),
            (self.crowded_edges, "edge", "with more than two triangles"),
            (self.flipped_edges, "edge", "whose triangles are turned against each other"),
            (self.repeated, "vertex", "at the place of another"),
            (self.unused, "vertex", "that no triangle uses"),
        ]
        return "\n".join([head, *(f"  {_many(n, noun)} {what}" for n, noun, what in faults if n)])


def _many(n: int, one: str, several: str | None = None) -> str:
    return f"{n} {one if n == 1 else several or {'vertex': 'vertices'}.get(one, one + 's')}"


def inspect_mesh(vertices: object, triangles: object) -> MeshReport:
    """Of vertices (n, 3), m, and triangles (m, 3), whatever they hold. Raises ValueError for other shapes."""
    v, t = np.asarray(vertices, np.float64), np.asarray(triangles)
    t = t.reshape(-1, 3) if t.size % 3 == 0 else t
    if v.ndim != 2 or v.shape[1] != 3 or t.ndim != 2 or (t.size and not np.issubdtype(t.dtype, np.integer)):
        raise ValueError(f"a mesh is vertices (n, 3) and whole numbers (m, 3), not {v.shape}, {t.shape} of {t.dtype}")
    t = t.astype(np.int64)
    in_range = ((t >= 0) & (t < len(v))).all(axis=1)
    named = t[in_range]
    finite = np.isfinite(v[named]).all(axis=(1, 2))
    whole = named[finite]
    corner, count = np.unique(v + 0.0, axis=0, return_inverse=True)[1].reshape(-1), len(v)
    places = corner[whole]
    a, b, c = (v[whole[:, i]] for i in range(3))
    origin = v[whole].reshape(-1, 3).mean(axis=0) if len(whole) else np.zeros(3)
    with np.errstate(over="ignore", invalid="ignore"):
        normal = np.cross(b - a, c - a)
        volume = float(np.einsum("ij,ij->", a - origin, normal) / 6.0)
    open_edges, crowded, flipped = _edges(places)
    return MeshReport(
        vertices=len(v),
        triangles=len(t),
        bad_indices=int((~in_range).sum()),
        not_finite=int((~finite).sum()),
        unused=len(v) - len(np.unique(named)),
        repeated=count - len(np.unique(corner)),
        degenerate=int(flat(a, b, c).sum()),
        duplicate=len(places) - len(np.unique(np.sort(places, axis=1), axis=0)),
        open_edges=open_edges,
        crowded_edges=crowded,
        flipped_edges=flipped,
        parts=len(np.unique(parts(places, count)[places[:, 0]])) if len(places) else 0,
        area=float(np.linalg.norm(normal, axis=1).sum() / 2.0),
        volume=volume,
    )


def flat(a: Floats, b: Floats, c: Floats) -> NDArray[np.bool_]:
    """Which triangles have no area, (n,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        longest = np.max([((p - q) ** 2).sum(axis=1) for p, q in ((a, b), (b, c), (c, a))], axis=0)
        return ~(np.linalg.norm(np.cross(b - a, c - a), axis=1) > FLAT * longest)


def _edges(places: Ints) -> tuple[int, int, int]:
    """(with one triangle, with more than two, with two in the same direction). Edges without length do not count."""
    start, end = places[:, [0, 1, 2]].ravel(), places[:, [1, 2, 0]].ravel()
    start, end = start[start != end], end[start != end]
    pairs = np.stack([np.minimum(start, end), np.maximum(start, end)], axis=1)
    _edge, which, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    along = np.bincount(which.reshape(-1), weights=np.where(start < end, 1.0, -1.0), minlength=len(count))
    return int((count == 1).sum()), int((count > 2).sum()), int(((count == 2) & (along != 0.0)).sum())


def parts(triangles: Ints, vertices: int) -> Ints:
    """The lowest vertex of the part that each vertex belongs to, (n,): labels sink, and jump to their label's label."""
    label = np.arange(vertices)
    while True:
        lowest = label[triangles].min(axis=1, initial=vertices)
        sunk = label.copy()
        for corner in range(3):
            np.minimum.at(sunk, triangles[:, corner], lowest)
            np.minimum.at(sunk, label[triangles[:, corner]], lowest)
        sunk = sunk[sunk]
        if np.array_equal(sunk, label):
            return label
        label = sunk
