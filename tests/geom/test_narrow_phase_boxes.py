"""Box pairs against a separating-axis test in float64, and cases whose manifold is known."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.geom.collision_scenes import shape

REACH = 0.02  # contacts are made up to this separation
BIAS = 0.0026  # an earlier axis is preferred unless another separates better by this much


def box(half, p=(0, 0, 0), R=None, **more):
    return shape("box", p, R, hx=half[0], hy=half[1], hz=half[2], **more)


def half_of(s):
    return np.array([s.size["hx"], s.size["hy"], s.size["hz"]])


def separation_along(a, b, n):
    return abs(n @ (b.p - a.p)) - np.abs(a.R.T @ n) @ half_of(a) - np.abs(b.R.T @ n) @ half_of(b)


def best_separation(a, b):
    """Largest separation over the 15 axes, float64."""
    axes = [*a.R.T, *b.R.T]
    for u in a.R.T:
        for v in b.R.T:
            w = np.cross(u, v)
            if np.linalg.norm(w) > 1e-6:
                axes.append(w / np.linalg.norm(w))
    return max(separation_along(a, b, n) for n in axes)


def outside(s, x):
    """How far x lies outside a box along one of its axes (< 0 inside)."""
    return (np.abs(s.R.T @ (x - s.p)) - half_of(s)).max()


def check(a, b, m, bias=BIAS, tolerance=1e-4):
    best = best_separation(a, b)
    if m is None:
        assert best > -1e-4, best  # apart, or corner to corner within reach
        return
    assert best <= REACH + tolerance
    assert np.linalg.norm(m.normal) == pytest.approx(1.0, abs=1e-5)
    assert m.normal @ (b.p - a.p) >= -tolerance
    along = separation_along(a, b, m.normal)
    assert best - 2 * bias - tolerance <= along <= best + tolerance
    assert 1 <= len(m.points) <= 4
    assert len(set(m.feature)) == len(m.points)
    assert (m.separation <= REACH + tolerance).all()
    assert (m.separation >= along - tolerance).all()
    if best < 0:
        assert m.separation.min() <= along + 2 * bias + tolerance
    for x, s in zip(m.points, m.separation, strict=True):
        assert max(outside(a, x), outside(b, x)) <= abs(s) / 2 + 0.003


def test_random_boxes(collide_pairs, rng):
    pairs = []
    for i in range(600):
        a = box(rng.uniform(0.1, 1, 3), rng.normal(size=3), Rotation.random(random_state=2 * i).as_matrix())
        b = box(
            rng.uniform(0.1, 1, 3), a.p + rng.normal(size=3) * 0.8, Rotation.random(random_state=2 * i + 1).as_matrix()
        )
        pairs.append((a, b))
    found = collide_pairs(pairs)
    assert sum(m is not None for m in found) > 200
    for (a, b), m in zip(pairs, found, strict=True):
        check(a, b, m)


def test_aligned_and_turned_by_round_angles(collide_pairs, rng):
    pairs = []
    for angle in (0, 30, 45, 60, 90, 180):
        for axis in np.eye(3):
            for _ in range(12):
                half = rng.choice([0.25, 0.5, 1.0], 3)
                R = Rotation.from_rotvec(np.radians(angle) * axis).as_matrix()
                pairs.append((box(half), box(half, rng.choice([-1, -0.5, 0, 0.5, 1], 3) * half * 1.9, R)))
    for (a, b), m in zip(pairs, collide_pairs(pairs), strict=True):
        check(a, b, m)


def test_swapped_shapes_give_the_mirrored_manifold(collide_pairs, rng):
    pairs = []
    for i in range(150):
        a = box(rng.uniform(0.2, 1, 3), (0, 0, 0), Rotation.random(random_state=i).as_matrix())
        b = box(rng.uniform(0.2, 1, 3), rng.normal(size=3) * 0.7, Rotation.random(random_state=i + 5000).as_matrix())
        pairs += [(a, b), (b, a)]
    found = collide_pairs(pairs)
    for i, (m, w) in enumerate(zip(found[::2], found[1::2], strict=True)):
        assert (m is None) == (w is None)
        if m is None:
            continue
        a, b = pairs[2 * i]
        # when two axes are within the bias of one another, each order may keep its own
        if abs(separation_along(a, b, m.normal) - separation_along(a, b, w.normal)) < 1e-4:
            assert m.normal @ w.normal == pytest.approx(-1, abs=1e-3)
            assert m.separation.min() == pytest.approx(w.separation.min(), abs=1e-3)


def test_stacked_flush(collide):
    m = collide([box((0.5, 0.5, 0.5)), box((0.5, 0.5, 0.5), (0, 0, 0.999))])[0, 1]
    assert m.normal == pytest.approx([0, 0, 1], abs=1e-6)
    assert len(m.points) == 4
    assert m.separation == pytest.approx([-0.001] * 4, abs=1e-6)
    assert m.points[:, 2] == pytest.approx([0.4995] * 4, abs=1e-6)
    assert sorted(map(tuple, np.round(m.points[:, :2], 3))) == [(-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5)]


def test_half_over_the_edge(collide):
    m = collide([box((0.5, 0.5, 0.5)), box((0.5, 0.5, 0.5), (0.5, 0, 1.0))])[0, 1]
    xy = np.abs(np.round(m.points[:, :2] - [0.25, 0], 3))
    assert xy == pytest.approx(np.tile([0.25, 0.5], (4, 1)), abs=0.003)


def test_octagon_is_reduced_to_four_far_points(collide):
    m = collide([box((0.5, 0.5, 0.5)), box((0.5, 0.5, 0.5), (0, 0, 0.995), (0, 0, 45))])[0, 1]
    assert len(m.points) == 4
    order = np.argsort(np.arctan2(m.points[:, 1], m.points[:, 0]))
    x, y = m.points[order, :2].T
    area = 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
    assert area > 0.5  # of 0.83 of the whole octagon


def test_crossing_edges(collide):
    """Two cubes standing on edges that cross at right angles: one point, midway, along the line of centres."""
    gap = -0.01
    a = box((0.5, 0.5, 0.5), R=(45, 0, 0))
    b = box((0.5, 0.5, 0.5), (0, 0, np.sqrt(2) + gap), (0, 45, 0))
    m = collide([a, b])[0, 1]
    assert len(m.points) == 1
    assert m.normal == pytest.approx([0, 0, 1], abs=1e-5)
    assert m.separation[0] == pytest.approx(gap, abs=1e-5)
    assert m.points[0] == pytest.approx([0, 0, np.sqrt(0.5) + gap / 2], abs=1e-5)


def test_parallel_edges(collide):
    """A cube standing on an edge along the edge of another: nearly parallel edges give no axis, faces do."""
    a = box((0.5, 0.5, 0.5), R=(45, 0, 0))
    b = box((0.5, 0.5, 0.5), (0, 0, np.sqrt(2) - 0.01), (45, 0, 0))
    m = collide([a, b])[0, 1]
    check(a, b, m)


def test_corner_on_face(collide):
    R = Rotation.align_vectors([[0, 0, -1]], [np.ones(3) / np.sqrt(3)])[0].as_matrix()
    b = box((0.5, 0.5, 0.5), (0.1, 0.2, 0.5 + np.sqrt(0.75) - 0.004), R)
    m = collide([box((0.5, 0.5, 0.5)), b])[0, 1]
    assert len(m.points) == 1
    assert m.separation[0] == pytest.approx(-0.004, abs=1e-5)
    assert m.points[0] == pytest.approx([0.1, 0.2, 0.498], abs=1e-5)


@pytest.mark.parametrize("depth", [0.1, 0.5, 0.9, 1.0])
def test_deep_overlap_pushes_along_the_thin_side(collide, depth):
    m = collide([box((2, 2, 0.5)), box((0.5, 0.5, 0.5), (0.3, -0.2, 1.0 - depth))])[0, 1]
    assert np.abs(m.normal) == pytest.approx([0, 0, 1], abs=1e-6)
    assert len(m.points) == 4
    assert m.separation == pytest.approx([-depth] * 4, abs=1e-5)


def test_coincident_boxes(collide):
    m = collide([box((0.5, 0.5, 0.5)), box((0.5, 0.5, 0.5))])[0, 1]
    assert np.isfinite(m.points).all() and np.linalg.norm(m.normal) == pytest.approx(1)
    assert m.separation.min() == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize("x", [0.0, 100.0, 499.0])
@pytest.mark.parametrize("tilt", [0.0, 10.0])
def test_small_box_on_a_ground_of_a_kilometre(collide, x, tilt):
    gap = -0.001
    turn = Rotation.from_euler("y", tilt, degrees=True).as_matrix()
    ground, small = box((500, 500, 1)), box((0.1, 0.1, 0.1), (x, 0, 1.1 + gap))
    m = collide([ground.moved(R=turn), small.moved(R=turn)])[0, 1]
    assert len(m.points) == 4
    assert m.normal == pytest.approx(turn[:, 2], abs=1e-5)
    assert m.separation == pytest.approx([gap] * 4, abs=2e-4 if tilt else 1e-6)


def test_extreme_aspect_ratios(collide_pairs, rng):
    pairs = []
    for i in range(150):
        a = box((5, 0.005, 0.005), (0, 0, 0), Rotation.random(random_state=i).as_matrix())
        b = box((0.01, 3, 1), rng.normal(size=3) * 0.3, Rotation.random(random_state=i + 900).as_matrix())
        pairs.append((a, b))
    for (a, b), m in zip(pairs, collide_pairs(pairs), strict=True):
        check(a, b, m, bias=0.0003, tolerance=3e-4)


def test_far_from_the_origin_as_at_the_origin(collide):
    far = np.array([65536.0, -32768.0, 16384.0])
    R = Rotation.from_euler("xyz", [0.3, 0.2, 0.1]).as_matrix()
    pair = [box((0.5, 0.5, 0.5), (0, 0, 0), R), box((0.5, 0.25, 0.5), (0.25, 0.125, 0.6875), R)]
    near, away = collide(pair)[0, 1], collide([s.moved(far) for s in pair])[0, 1]
    assert np.array_equal(near.normal, away.normal)
    assert np.array_equal(near.separation, away.separation)
    assert np.array_equal(near.feature, away.feature)


def test_speculative_contact_of_a_fast_box(collide):
    a, b = box((0.5, 0.5, 0.5)), box((0.5, 0.5, 0.5), (0, 0, 1.4), v=(0, 0, -30))
    assert (0, 1) not in collide([a, b], dt=0.01)
    m = collide([a, b], dt=0.02)[0, 1]
    assert m.separation == pytest.approx([0.4] * 4, abs=1e-5)
    assert len(m.points) == 4
