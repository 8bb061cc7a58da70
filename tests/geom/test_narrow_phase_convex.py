"""Hulls and cylinders: hulls of boxes against separating axes in float64, known manifolds, deep and thin cases."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from tests.geom.collision_scenes import shape

REACH = 0.02
CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


def hull(points, p=(0, 0, 0), R=None):
    return shape("convex_hull", p, R, points=np.asarray(points, float))


def world_points(s):
    if s.kind == "box":
        return CUBE * [s.size["hx"], s.size["hy"], s.size["hz"]] @ s.R.T + s.p
    return s.size["points"] @ s.R.T + s.p


def best_separation(a, b):
    """Largest separation over the faces of the hull of all differences b − a: exact, float64."""
    differences = (world_points(b)[:, None] - world_points(a)[None]).reshape(-1, 3)
    return (ConvexHull(differences).equations[:, 3]).max()


def overlap_along(a, b, n):
    return (world_points(b) @ n).min() - (world_points(a) @ n).max()


def check(a, b, m, tolerance=1e-3):
    best = best_separation(a, b)  # of overlapping hulls minus the depth; of separated ones a lower bound
    if m is None:
        assert best > -1e-4
        return
    assert np.linalg.norm(m.normal) == pytest.approx(1, abs=1e-4)
    along = overlap_along(a, b, m.normal)
    assert along >= best - tolerance
    assert m.separation.min() == pytest.approx(along, abs=2 * tolerance)
    assert (m.separation <= REACH + 1e-5).all()
    assert len(set(m.feature)) == len(m.points) <= 4


def random_turn(rng):
    return Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()


def test_random_hulls(collide_pairs, rng):
    pairs = []
    for _ in range(150):
        a = hull(rng.normal(size=(rng.integers(5, 25), 3)) * rng.uniform(0.2, 0.6, 3), (0, 0, 0), random_turn(rng))
        b = hull(
            rng.normal(size=(rng.integers(5, 25), 3)) * rng.uniform(0.2, 0.6, 3), rng.normal(size=3), random_turn(rng)
        )
        pairs.append((a, b))
    found = collide_pairs(pairs)
    assert sum(m is not None for m in found) > 30
    for (a, b), m in zip(pairs, found, strict=True):
        check(a, b, m)


@pytest.mark.parametrize("angle", [0, 30, 45, 90])
def test_hulls_of_boxes_at_round_angles(angle, collide_pairs, rng):
    """Coplanar faces and parallel edges, where GJK and EPA degenerate."""
    pairs = []
    for axis in np.eye(3):
        for _ in range(20):
            half = rng.choice([0.25, 0.5, 1.0], 3)
            R = Rotation.from_rotvec(np.radians(angle) * axis).as_matrix()
            b = hull(CUBE * half, rng.choice([-1, -0.5, 0, 0.5, 1], 3) * half * 1.9, R)
            pairs.append((hull(CUBE * half), b))
            pairs.append((shape("box", hx=half[0], hy=half[1], hz=half[2]), b))
    for (a, b), m in zip(pairs, collide_pairs(pairs), strict=True):
        check(a, b, m)


@pytest.mark.parametrize("gap", [-0.3, -0.01, -1e-4, 0.0, 1e-5, 1e-3, 0.015])
def test_hull_flush_on_a_box(gap, collide):
    a = shape("box", hx=1, hy=1, hz=0.5)
    m = collide([a, hull(CUBE * 0.5, (0.2, 0.1, 1.0 + gap), (0, 0, 20))])[0, 1]
    assert m.normal == pytest.approx([0, 0, 1], abs=1e-5)
    assert len(m.points) == 4
    assert m.separation == pytest.approx([gap] * 4, abs=2e-5)
    assert m.points[:, 2] == pytest.approx([0.5 + gap / 2] * 4, abs=2e-5)


@pytest.mark.parametrize("gap", [-0.05, -0.002, 0.0, 0.002])
def test_cylinder_standing_on(gap, collide):
    for below in (
        shape("box", hx=1, hy=1, hz=0.5),
        shape("cylinder", radius=1.0, half_height=0.5),
        hull(CUBE * [1, 1, 0.5]),
    ):
        m = collide([below, shape("cylinder", (0.1, 0, 1.0 + gap), radius=0.3, half_height=0.5)])[0, 1]
        assert m.normal == pytest.approx([0, 0, 1], abs=1e-5)
        assert len(m.points) == 4
        assert m.separation == pytest.approx([gap] * 4, abs=5e-5)
        assert m.points[:, :2].mean(axis=0) == pytest.approx([0.1, 0], abs=0.01)
        assert np.linalg.norm(m.points[:, :2] - [0.1, 0], axis=1) == pytest.approx([0.3] * 4, abs=2e-3)


@pytest.mark.parametrize("gap", [-0.02, -0.001, 0.001])
def test_cylinder_lying_on_a_box(gap, collide):
    lying = shape("cylinder", (0, 0, 0.8 + gap), (0, 90, 0), radius=0.3, half_height=0.6)
    m = collide([shape("box", hx=1, hy=1, hz=0.5), lying])[0, 1]
    assert m.normal == pytest.approx([0, 0, 1], abs=1e-4)
    assert m.separation == pytest.approx([gap] * 2, abs=2e-4)
    assert sorted(m.points[:, 0]) == pytest.approx([-0.6, 0.6], abs=2e-3)


def test_two_lying_cylinders_side_by_side(collide):
    a = shape("cylinder", R=(0, 90, 0), radius=0.3, half_height=0.6)
    m = collide([a, shape("cylinder", (0.2, 0, 0.595), (0, 90, 0), radius=0.3, half_height=0.6)])[0, 1]
    assert m.normal == pytest.approx([0, 0, 1], abs=6e-3)
    assert m.separation == pytest.approx([-0.005] * 2, abs=5e-4)
    assert sorted(m.points[:, 0]) == pytest.approx([-0.4, 0.6], abs=5e-3)


def test_ellipsoids(collide_pairs, rng):
    """An ellipsoid with equal axes is a sphere."""
    pairs = []
    for _ in range(40):
        a = shape("ellipsoid", (0, 0, 0), random_turn(rng), a=0.4, b=0.4, c=0.4)
        b = shape("ellipsoid", rng.normal(size=3) * 0.4, random_turn(rng), a=0.3, b=0.3, c=0.3)
        pairs.append((a, b))
    for (_, b), m in zip(pairs, collide_pairs(pairs), strict=True):
        gap = np.linalg.norm(b.p) - 0.7
        assert (m is None) == (gap > REACH) or abs(gap - REACH) < 1e-3
        if m is not None:
            assert m.separation[0] == pytest.approx(gap, abs=1e-3)


def test_swapped_hulls_give_the_mirrored_manifold(collide_pairs, rng):
    pairs = []
    for _ in range(60):
        a = hull(rng.normal(size=(12, 3)) * 0.4, (0, 0, 0), random_turn(rng))
        b = hull(rng.normal(size=(12, 3)) * 0.4, rng.normal(size=3) * 0.5, random_turn(rng))
        pairs += [(a, b), (b, a)]
    found = collide_pairs(pairs)
    for m, w in zip(found[::2], found[1::2], strict=True):
        assert (m is None) == (w is None)
        if m is not None:
            assert m.separation.min() == pytest.approx(w.separation.min(), abs=2e-3)


def test_coincident_hulls(collide):
    m = collide([hull(CUBE * 0.5), hull(CUBE * 0.5)])[0, 1]
    assert np.isfinite(m.points).all()
    assert m.separation.min() == pytest.approx(-1.0, abs=1e-3)


def test_small_hull_on_a_ground_of_a_kilometre(collide):
    ground = shape("box", hx=500, hy=500, hz=1)
    for x in (0.0, 100.0, 450.0):
        m = collide([ground, hull(CUBE * 0.1, (x, 3.0, 1.099))])[0, 1]
        assert m.normal == pytest.approx([0, 0, 1], abs=1e-5)
        assert len(m.points) == 4
        assert m.separation == pytest.approx([-0.001] * 4, abs=2e-4)


def test_flat_hull(collide):
    """A thin plate on its side: GJK's simplex is nearly flat."""
    plate = hull(CUBE * [0.5, 0.5, 0.002], (0, 0, 0.5 + 0.002 - 0.001))
    m = collide([shape("box", hx=1, hy=1, hz=0.5), plate])[0, 1]
    assert m.normal == pytest.approx([0, 0, 1], abs=1e-4)
    assert m.separation == pytest.approx([-0.001] * 4, abs=1e-4)


def test_round_bodies_on_a_hull_touch_once(collide):
    m = collide([hull(CUBE * 0.5), shape("sphere", (0.1, 0.2, 0.699), radius=0.2)])[0, 1]
    assert len(m.points) == 1
    assert m.points[0] == pytest.approx([0.1, 0.2, 0.4995], abs=1e-4)
