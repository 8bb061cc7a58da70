"""Cylinders, cones and ellipsoids: depths against the hull of all differences of dense points, float64."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from tests.geom.collision_scenes import shape

ANGLES = np.linspace(0, 2 * np.pi, 64, endpoint=False)
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
BALL = np.random.default_rng(0).normal(size=(300, 3))
BALL /= np.linalg.norm(BALL, axis=1)[:, None]
CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


def dense_points(s):
    size = s.size
    if s.kind == "box":
        q = CUBE * [size["hx"], size["hy"], size["hz"]]
    elif s.kind == "ellipsoid":
        q = BALL * [size["a"], size["b"], size["c"]]
    else:
        r, h = size["radius"], size["half_height"]
        base, top = np.c_[CIRCLE * r, np.full(64, -h)], np.c_[CIRCLE * r, np.full(64, h)]
        q = np.r_[base, top] if s.kind == "cylinder" else np.r_[base, [[0, 0, h]]]
    return q @ s.R.T + s.p


def farthest(s, n):
    """Support function: the largest n · x over the shape, exact."""
    d, size = s.R.T @ n, s.size
    if s.kind == "box":
        reach = np.abs(d) @ [size["hx"], size["hy"], size["hz"]]
    elif s.kind == "ellipsoid":
        reach = np.linalg.norm(d * [size["a"], size["b"], size["c"]])
    else:
        r, h = size["radius"] * np.hypot(d[0], d[1]), size["half_height"] * d[2]
        reach = r + abs(h) if s.kind == "cylinder" else max(h, r - h)
    return reach + n @ s.p


def gap_along(a, b, n):
    return -farthest(b, -n) - farthest(a, n)


def best_gap(a, b):
    """Largest gap over the five best face normals of the differences b − a, with exact supports."""
    hull = ConvexHull((dense_points(b)[:, None] - dense_points(a)[None]).reshape(-1, 3))
    best = hull.equations[np.argsort(-hull.equations[:, 3])[:5], :3]
    return max(gap_along(a, b, -n) for n in best)


def random_shape(kind, p, rng):
    R = Rotation.random(random_state=int(rng.integers(2**31))).as_matrix() if rng.random() < 0.6 else None
    x, y, z = rng.uniform(0.2, 0.8, 3)
    sizes = {"box": {"hx": x, "hy": y, "hz": z}, "ellipsoid": {"a": x, "b": y, "c": z}}
    return shape(kind, p, R, **sizes.get(kind, {"radius": x, "half_height": y}))


@pytest.mark.parametrize("first", ["cylinder", "cone", "ellipsoid"])
@pytest.mark.parametrize("second", ["cylinder", "cone", "ellipsoid", "box"])
def test_depth(first, second, collide_pairs, rng):
    pairs = []
    for i in range(16):
        a = random_shape(first, (0, 0, 0), rng)
        b = random_shape(second, np.round(rng.normal(size=3) * 0.5, 1), rng)
        pairs.append((a, b) if i % 2 else (b, a))
    found = collide_pairs(pairs)
    for (a, b), m in zip(pairs, found, strict=True):
        best = best_gap(a, b)
        if m is None:
            assert best > -3e-3
            continue
        along = gap_along(a, b, m.normal)
        assert m.separation.min() == pytest.approx(along, abs=3e-3)
        if best < 0:
            assert along >= best - 3e-3
