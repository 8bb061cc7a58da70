"""Brute-force answers in float64 for rays, points and boxes against triangles, and meshes to ask about."""

import numpy as np
import trimesh


def ray_hits(v, f, o, d):
    """t (rays, triangles) of every hit with t ≥ 0, inf elsewhere (Möller, Trumbore 1997)."""
    v, o, d = (np.asarray(x, np.float64) for x in (v, o, d))
    a, b, c = v[f[:, 0]], v[f[:, 1]], v[f[:, 2]]
    e1, e2 = b - a, c - a
    with np.errstate(all="ignore"):
        p = np.cross(d[:, None], e2[None])
        det = (e1 * p).sum(-1)
        s = o[:, None] - a[None]
        u = (s * p).sum(-1) / det
        q = np.cross(s, e1[None])
        w = (q * d[:, None]).sum(-1) / det
        t = (e2 * q).sum(-1) / det
        hit = (u >= 0) & (w >= 0) & (u + w <= 1) & (t >= 0)
    return np.where(hit, t, np.inf)


def distances(v, f, p):
    """Distance (points, triangles): the smallest of that to the plane, where above the triangle, and to the edges."""
    v, p = np.asarray(v, np.float64), np.asarray(p, np.float64)[:, None]
    corners = [v[f[:, i]][None] for i in range(3)]
    best = np.full((p.shape[0], len(f)), np.inf)
    for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
        ab = b - a
        length2 = np.maximum((ab * ab).sum(-1), 1e-300)
        s = np.clip(((p - a) * ab).sum(-1) / length2, 0, 1)
        best = np.minimum(best, np.linalg.norm(p - (a + ab * s[..., None]), axis=-1))
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    length = np.linalg.norm(normal, axis=-1)
    unit = normal / np.maximum(length, 1e-300)[..., None]
    above = length > 0
    for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
        above = above & ((np.cross(unit, b - a) * (p - a)).sum(-1) >= 0)
    return np.where(above, np.minimum(best, np.abs(((p - corners[0]) * unit).sum(-1))), best)


def winding_numbers(v, f, p):
    """Sum of the solid angles over 4 pi (van Oosterom, Strackee 1983)."""
    a, b, c = (np.asarray(v, np.float64)[f[:, i]][None] - np.asarray(p, np.float64)[:, None] for i in range(3))
    la, lb, lc = (np.linalg.norm(x, axis=-1) for x in (a, b, c))
    below = la * lb * lc + (a * b).sum(-1) * lc + (b * c).sum(-1) * la + (c * a).sum(-1) * lb
    return np.arctan2((a * np.cross(b, c)).sum(-1), below).sum(-1) / (2 * np.pi)


def torus(n=24, m=16, major=1.0, minor=0.4):
    i, j = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    a, b = 2 * np.pi * i / n, 2 * np.pi * j / m
    r = major + minor * np.cos(b)
    v = np.stack([r * np.cos(a), r * np.sin(a), minor * np.sin(b)], -1).reshape(-1, 3)
    at = lambda p, q: (p % n) * m + q % m
    quads = [at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)]
    f = np.concatenate([np.stack([quads[0], quads[1], quads[2]], -1).reshape(-1, 3),
                        np.stack([quads[0], quads[2], quads[3]], -1).reshape(-1, 3)])  # fmt: skip
    return v.astype(np.float32), f.astype(np.int32)


def spiky(seed=5):
    """A sphere whose radius varies wildly: closed, far from convex."""
    v, f = sphere(3)
    rng = np.random.default_rng(seed)
    return (v * rng.uniform(0.3, 1.5, (len(v), 1))).astype(np.float32), f


def sphere(subdivisions=2):
    m = trimesh.creation.icosphere(subdivisions)
    return np.asarray(m.vertices, np.float32), np.asarray(m.faces, np.int32)


def box():
    m = trimesh.creation.box()
    return np.asarray(m.vertices, np.float32), np.asarray(m.faces, np.int32)


def tetrahedron():
    v = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    return v, np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]], np.int32)


def soup(seed, n=150, size=0.3):
    """Triangles that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    v = rng.uniform(-1, 1, (n, 1, 3)) + rng.normal(size=(n, 3, 3)) * size
    return v.reshape(-1, 3).astype(np.float32), np.arange(3 * n, dtype=np.int32).reshape(-1, 3)


CLOSED = {"tetrahedron": tetrahedron(), "box": box(), "sphere": sphere(), "torus": torus(), "spiky": spiky()}
