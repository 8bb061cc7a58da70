"""Spheres and capsules against every shape: separations equal signed distances in closed form, float64."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.transform import Rotation

from tests.geom.collision_scenes import shape

REACH = 0.02
CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


def distance(s, x):
    """Signed distance of the world point x from a shape's surface."""
    q = s.R.T @ (x - s.p)
    size = s.size
    if s.kind == "sphere":
        return np.linalg.norm(q) - size["radius"]
    if s.kind == "capsule":
        q[2] -= np.clip(q[2], -size["half_height"], size["half_height"])
        return np.linalg.norm(q) - size["radius"]
    if s.kind in ("box", "convex_hull"):
        half = np.array([size["hx"], size["hy"], size["hz"]]) if s.kind == "box" else np.abs(size["points"]).max(axis=0)
        d = np.abs(q) - half
    elif s.kind == "cylinder":
        d = np.array([np.hypot(q[0], q[1]) - size["radius"], abs(q[2]) - size["half_height"]])
    elif s.kind == "cone":
        # half plane triangle (0, −h) (r, −h) (0, h)
        r, h = size["radius"], size["half_height"]
        p = np.array([np.hypot(q[0], q[1]), q[2]])
        side = np.array([2 * h, r]) / np.hypot(2 * h, r)
        to_side, to_base = side @ (p - [0, h]), -h - p[1]
        if max(to_side, to_base) <= 0:
            return max(to_side, to_base)
        a, b, c = np.array([r, -h]), np.array([0, h]), np.array([0, -h])
        return min(np.linalg.norm(p - u - np.clip((p - u) @ (v - u) / ((v - u) @ (v - u)), 0, 1) * (v - u))
                   for u, v in ((a, b), (a, c)))  # fmt: skip
    return np.linalg.norm(np.maximum(d, 0)) + min(d.max(), 0)


def random_size(kind, rng):
    a, b, c = rng.uniform(0.2, 0.8, 3)
    match kind:
        case "sphere":
            return {"radius": a}
        case "capsule" | "cylinder" | "cone":
            return {"radius": a, "half_height": b}
        case "box":
            return {"hx": a, "hy": b, "hz": c}
        case "convex_hull":
            return {"points": CUBE * [a, b, c]}


def random_pairs(first, second, count, rng):
    pairs = []
    for i in range(count):
        R = [Rotation.random(random_state=int(rng.integers(2**31))).as_matrix() for _ in range(2)]
        a = shape(first, (0, 0, 0), R[0], **random_size(first, rng))
        b = shape(second, rng.normal(size=3) * 0.6, R[1], **random_size(second, rng))
        pairs.append((a, b) if i % 2 == 0 else (b, a))
    return pairs


def axis_ends(s):
    reach = s.R[:, 2] * s.size.get("half_height", 0.0)
    return s.p - reach, s.p + reach


def core_distance(capsule, other):
    """Least signed distance of the capsule's axis from another shape: a convex function along it."""
    a, b = axis_ends(capsule)
    best = minimize_scalar(lambda t: distance(other, a + t * (b - a)), bounds=(0, 1), method="bounded",
                           options={"xatol": 1e-9})  # fmt: skip
    return min(best.fun, distance(other, a), distance(other, b))


@pytest.mark.parametrize("other", ["sphere", "capsule", "box", "cylinder", "cone", "convex_hull"])
def test_sphere_against(other, collide_pairs, rng):
    pairs = random_pairs("sphere", other, 80, rng)
    touching = 0
    for pair, m in zip(pairs, collide_pairs(pairs), strict=True):
        i = 0 if pair[0].kind == "sphere" else 1
        sphere, s = pair[i], pair[1 - i]
        gap = distance(s, sphere.p) - sphere.size["radius"]
        tolerance = 1e-4 if other in ("sphere", "capsule", "box") else 8e-4
        if m is None:
            assert gap > REACH - tolerance
            continue
        touching += 1
        assert len(m.points) == 1
        assert m.separation[0] == pytest.approx(gap, abs=tolerance)
        outward = m.normal if i == 1 else -m.normal  # from the shape to the sphere
        radius = sphere.size["radius"]
        assert m.points[0] == pytest.approx(sphere.p - outward * (radius + gap / 2), abs=2e-3)
        # the normal is the gradient of the distance
        if abs(distance(s, sphere.p)) > 0.02:
            ahead = distance(s, sphere.p + 1e-3 * outward) - distance(s, sphere.p)
            assert ahead == pytest.approx(1e-3, abs=5e-5)
    assert touching > 20


@pytest.mark.parametrize("other", ["capsule", "box", "cylinder", "convex_hull"])
def test_capsule_against(other, collide_pairs, rng):
    pairs = random_pairs("capsule", other, 80, rng)
    touching = 0
    for pair, m in zip(pairs, collide_pairs(pairs), strict=True):
        i = 0 if pair[0].kind == "capsule" else 1
        capsule, s = pair[i], pair[1 - i]
        core = core_distance(capsule, s)
        gap = core - capsule.size["radius"]
        if m is None:
            assert gap > REACH - 8e-4
            continue
        touching += 1
        assert 1 <= len(m.points) <= 2 or other != "capsule"
        if core > 0.01:
            assert m.separation.min() == pytest.approx(gap, abs=2e-3)
        else:  # the axis is inside: the depth along the normal is at least the distance out of the nearest side
            assert m.separation.min() <= gap + 2e-3
        assert np.linalg.norm(m.normal) == pytest.approx(1, abs=1e-4)
    assert touching > 20


def test_parallel_capsules_touch_in_two_points(collide):
    a = shape("capsule", R=(0, 90, 0), radius=0.2, half_height=1.0)
    b = shape("capsule", (0.5, 0, 0.39), (0, 90, 0), radius=0.2, half_height=1.0)
    m = collide([a, b])[0, 1]
    assert m.normal == pytest.approx([0, 0, 1], abs=1e-6)
    assert m.separation == pytest.approx([-0.01, -0.01], abs=1e-6)
    assert sorted(m.points[:, 0]) == pytest.approx([-0.5, 1.0], abs=1e-5)


def test_capsule_on_a_box_touches_in_two_points(collide):
    a = shape("box", hx=2, hy=2, hz=0.5)
    b = shape("capsule", (0, 0, 0.5 + 0.199), (0, 90, 0), radius=0.2, half_height=1.0)
    m = collide([a, b])[0, 1]
    assert m.normal == pytest.approx([0, 0, 1], abs=1e-5)
    assert m.separation == pytest.approx([-0.001, -0.001], abs=1e-5)
    assert sorted(m.points[:, 0]) == pytest.approx([-1.0, 1.0], abs=1e-3)


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box"])
def test_coincident_centres_give_a_finite_contact(kind, collide, rng):
    a = shape("sphere", radius=0.5)
    b = shape(kind, **random_size(kind, rng))
    m = collide([a, b])[0, 1]
    assert np.isfinite(m.points).all() and np.linalg.norm(m.normal) == pytest.approx(1, abs=1e-5)
    assert m.separation[0] < -0.5


def test_crossing_capsules(collide):
    a = shape("capsule", R=(0, 90, 0), radius=0.2, half_height=1.0)
    b = shape("capsule", R=(90, 0, 0), radius=0.2, half_height=1.0)
    m = collide([a, b])[0, 1]
    assert np.abs(m.normal) == pytest.approx([0, 0, 1], abs=1e-6)
    assert m.separation == pytest.approx([-0.4], abs=1e-6)
