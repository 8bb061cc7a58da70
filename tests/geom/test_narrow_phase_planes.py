"""Every shape on an infinite plane: the lowest point in closed form, float64, and points that carry it when flat."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.geom.collision_scenes import shape

REACH = 0.02
SIZES = {
    "sphere": {"radius": 0.5},
    "capsule": {"radius": 0.2, "half_height": 0.4},
    "box": {"hx": 0.3, "hy": 0.5, "hz": 0.2},
    "cylinder": {"radius": 0.3, "half_height": 0.5},
    "cone": {"radius": 0.3, "half_height": 0.5},
    "ellipsoid": {"a": 0.3, "b": 0.5, "c": 0.2},
    "convex_hull": {"points": np.random.default_rng(0).normal(size=(24, 3)) * 0.3},
}
FLAT = {"sphere": 1, "capsule": 1, "box": 4, "cylinder": 4, "cone": 4, "ellipsoid": 1}


def lowest(s, n):
    """Height of a shape's lowest point along n (over the world's origin)."""
    d, z = s.R.T @ n, s.size.get("half_height", 0.0)
    r = s.size.get("radius", 0.0)
    across = np.hypot(d[0], d[1])
    match s.kind:
        case "sphere":
            depth = r
        case "capsule":
            depth = r + z * abs(d[2])
        case "box":
            depth = np.abs(d) @ [s.size["hx"], s.size["hy"], s.size["hz"]]
        case "cylinder":
            depth = z * abs(d[2]) + r * across
        case "cone":
            depth = max(-z * d[2], z * d[2] + r * across)
        case "ellipsoid":
            depth = np.linalg.norm(d * [s.size["a"], s.size["b"], s.size["c"]])
        case "convex_hull":
            depth = -(s.size["points"] @ d).min()
    return n @ s.p - depth


@pytest.mark.parametrize("kind", SIZES)
def test_lowest_point(kind, collide, rng):
    tilt = Rotation.from_euler("xyz", [20, -30, 10], degrees=True).as_matrix()
    n = tilt[:, 2]
    shapes = [shape("plane", (0, 0, 0), tilt)]
    for i in range(60):
        R = Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()
        s = shape(kind, (0, 0, 0), R, **SIZES[kind])
        place = tilt @ [4.0 * (i % 8), 4.0 * (i // 8), 0.0]
        shapes.append(s.moved(place - n * (lowest(s, n) - rng.uniform(-0.1, 0.03))))
    found = collide(shapes)
    for i, s in enumerate(shapes[1:], 1):
        height = lowest(s, n)
        m = found.get((0, i))
        if m is None:
            assert height > REACH - 1e-5
            continue
        assert m.normal == pytest.approx(n, abs=1e-6)
        assert m.separation.min() == pytest.approx(height, abs=2e-5)
        # points lie midway between the plane and the shape's surface
        assert m.points @ n == pytest.approx(m.separation / 2, abs=2e-5)
        assert len(set(m.feature)) == len(m.points)


@pytest.mark.parametrize("kind", FLAT)
def test_standing(kind, collide):
    z = {"box": 0.2, "ellipsoid": 0.2, "sphere": 0.5, "capsule": 0.6}.get(kind, 0.5)
    m = collide([shape("plane"), shape(kind, (0, 0, z - 0.002), **SIZES[kind])])[0, 1]
    assert len(m.points) == FLAT[kind]
    assert m.separation == pytest.approx([-0.002] * FLAT[kind], abs=1e-5)
    assert m.points[:, :2].mean(axis=0) == pytest.approx([0, 0], abs=1e-5)


@pytest.mark.parametrize("kind,count", [("capsule", 2), ("cylinder", 2)])
def test_lying(kind, count, collide):
    s = shape(kind, (0, 0, SIZES[kind]["radius"] - 0.002), (0, 90, 0), **SIZES[kind])
    m = collide([shape("plane"), s])[0, 1]
    assert len(m.points) == count
    assert m.separation == pytest.approx([-0.002] * count, abs=1e-5)
    assert sorted(m.points[:, 0]) == pytest.approx([-SIZES[kind]["half_height"], SIZES[kind]["half_height"]], abs=1e-4)


def test_plane_after_the_shape_in_order(collide):
    """The normal points from shape 0 to shape 1, here from the box down to the plane."""
    m = collide([shape("box", (0, 0, 0.499), hx=0.5, hy=0.5, hz=0.5), shape("plane")])[0, 1]
    assert m.normal == pytest.approx([0, 0, -1])
    assert m.separation == pytest.approx([-0.001] * 4, abs=1e-6)


def test_hull_face_on_the_plane(collide):
    points = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float) * 0.5
    m = collide([shape("plane"), shape("convex_hull", (0, 0, 0.499), points=points)])[0, 1]
    assert len(m.points) == 4
    assert sorted(map(tuple, np.round(m.points[:, :2], 3))) == [(-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5)]


def test_finite_plane_ends(collide):
    plane = shape("plane", width=2.0, length=2.0)
    on = shape("box", (0.5, 0, 0.499), hx=0.5, hy=0.5, hz=0.5)
    beside = shape("box", (3.0, 0, 0.0), hx=0.5, hy=0.5, hz=0.5)
    found = collide([plane, on, beside])
    assert found[0, 1].separation == pytest.approx([-0.001] * 4, abs=1e-5)
    assert (0, 2) not in found
