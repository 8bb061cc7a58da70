"""Convex hulls: known solids, merging of coplanar triangles, invariants on random points, degenerate input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.geom import inertia
from engine.geom.hull import Hull, NoHull, convex_hull
from engine.geom.pose import quat_to_matrix

CUBE = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
PHI = (1 + 5**0.5) / 2


def rotations(axis_angle: list[float]) -> np.ndarray:
    angle = float(np.linalg.norm(axis_angle))
    q = np.append(np.array(axis_angle) * (np.sin(angle / 2) / angle if angle else 0.0), np.cos(angle / 2))
    return quat_to_matrix(q / np.linalg.norm(q))


def check_polyhedron(hull: Hull, points: np.ndarray, slack: float) -> None:
    """Everything that collision relies on."""
    v, planes = hull.vertices, hull.planes
    assert len(v) - len(hull.edges) + len(hull.faces) == 2
    assert {i for loop in hull.faces for i in loop} == set(range(len(v)))
    np.testing.assert_allclose(np.linalg.norm(planes[:, :3], axis=1), 1.0, rtol=1e-12)
    assert (points @ planes[:, :3].T - planes[:, 3]).max() <= hull.error + slack  # nothing is outside
    for f, loop in enumerate(hull.faces):
        assert len(set(loop)) == len(loop) >= 3
        assert np.abs(v[loop] @ planes[f, :3] - planes[f, 3]).max() <= slack  # corners lie on their face
        corners = v[loop]
        turns = np.cross(np.roll(corners, -1, 0) - corners, np.roll(corners, -2, 0) - np.roll(corners, -1, 0))
        assert (turns @ planes[f, :3]).min() > -slack  # convex and counter-clockwise from outside
    for v0, v1, f0, f1 in hull.edges:
        loop0, loop1 = hull.faces[f0], hull.faces[f1]
        assert v0 < v1 and f0 != f1
        assert loop0[(loop0.index(v0) + 1) % len(loop0)] == v1
        assert loop1[(loop1.index(v1) + 1) % len(loop1)] == v0
    assert 2 * len(hull.edges) == sum(map(len, hull.faces))


def dodecahedron() -> np.ndarray:
    rest = [np.roll([0, a / PHI, b * PHI], k) for a in (-1, 1) for b in (-1, 1) for k in range(3)]
    return np.vstack([CUBE, rest])


def prism(n: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n) / n
    return np.array([(np.cos(a), np.sin(a), z) for a in angle for z in (-0.5, 0.5)])


@pytest.mark.parametrize(
    "points, corners, face_sizes",
    [
        (CUBE, 8, {4: 6}),
        (np.vstack([np.zeros(3), np.eye(3)]), 4, {3: 4}),
        (np.vstack([np.eye(3), -np.eye(3)]), 6, {3: 8}),
        (dodecahedron(), 20, {5: 12}),
        (prism(24), 48, {24: 2, 4: 24}),
        (np.vstack([CUBE, CUBE * 0.5, np.zeros((3, 3))]), 8, {4: 6}),
        # A grid on the faces: points inside faces and on edges are no corners.
        (np.array([p for p in itertools.product((-1, -0.5, 0, 0.5, 1), repeat=3) if max(map(abs, p)) == 1]), 8, {4: 6}),
    ],
    ids=["cube", "tetrahedron", "octahedron", "dodecahedron", "24-prism", "cube-with-inside", "cube-grid"],
)
@pytest.mark.parametrize("turn", [[0.0, 0.0, 0.0], [0.3, -1.1, 2.0]], ids=["aligned", "turned"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_known_solids(points, corners, face_sizes, turn, size):
    cloud = points @ rotations(turn).T * size + size * np.array([0.1, 0.2, 0.3])
    hull = convex_hull(cloud)
    assert isinstance(hull, Hull), hull
    sizes = [len(loop) for loop in hull.faces]
    assert len(hull.vertices) == corners
    assert {n: sizes.count(n) for n in set(sizes)} == face_sizes
    check_polyhedron(hull, cloud, 2e-5 * size)


def test_every_stored_vertex_is_one_of_the_points_in_single_precision():
    cloud = np.random.default_rng(3).normal(size=(40, 3))
    hull = convex_hull(cloud)
    assert isinstance(hull, Hull)
    given_points = {tuple(p) for p in cloud.astype(np.float32).astype(float).tolist()}
    assert all(tuple(v) in given_points for v in hull.vertices.tolist())


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 80), st.integers(0, 10_000), st.sampled_from([1e-2, 1.0, 50.0]), st.booleans())
def test_random_points(n, seed, size, flat_sides):
    cloud = np.random.default_rng(seed).normal(size=(n, 3)) * size
    if flat_sides:  # many points on the six planes of a box: large coplanar groups, tiny slivers
        cloud = np.clip(cloud, -0.7 * size, 0.7 * size)
    hull = convex_hull(cloud, max_vertices=256)
    if isinstance(hull, NoHull):
        assert flat_sides or n < 6
        return
    extent = float(np.ptp(cloud))
    check_polyhedron(hull, cloud, 3e-5 * max(extent, extent**2))
    from scipy.spatial import ConvexHull

    assert hull.mass_properties(1.0).mass == pytest.approx(ConvexHull(cloud).volume, rel=1e-3)


def test_the_result_depends_on_the_points_alone():
    cloud = np.random.default_rng(5).normal(size=(50, 3))
    first, second = convex_hull(cloud), convex_hull(cloud.copy())
    assert isinstance(first, Hull) and isinstance(second, Hull)
    assert first.faces == second.faces and (first.edges == second.edges).all()
    assert (first.planes == second.planes).all()


def test_a_fine_sphere_is_reduced_and_the_error_is_the_truth():
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(3000, 3))
    cloud /= np.linalg.norm(cloud, axis=1)[:, None]
    hull = convex_hull(cloud, max_vertices=64)
    assert isinstance(hull, Hull)
    assert len(hull.vertices) == 64
    outside = (cloud @ hull.planes[:, :3].T - hull.planes[:, 3]).max()
    assert outside == pytest.approx(hull.error, abs=1e-5)
    assert 0.0 < hull.error < 0.11  # 64 points cover a unit sphere with caps of about 0.1 m depth
    check_polyhedron(hull, cloud, 1e-5)


@pytest.mark.parametrize(
    "points, reason",
    [
        (np.zeros((0, 3)), "no points"),
        (np.zeros((9, 3)), "all points coincide"),
        (np.outer(np.arange(5.0), [1, 2, 3]), "all points lie on one line"),
        (np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]]), "all points lie in one plane"),
        (np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), "all points lie in one plane"),
        (CUBE @ np.diag([1, 1, 1e-6]), "all points lie in one plane"),
        (np.vstack([CUBE, [np.nan, 0, 0]]), "point 8 is not finite"),
        (np.zeros((4, 2)), "points have shape (4, 2), not (n, 3)"),
    ],
)
def test_degenerate_points_say_why(points, reason):
    assert convex_hull(points) == NoHull(reason)


@settings(max_examples=40, deadline=None)
@given(st.tuples(*[st.floats(0.01, 20.0)] * 3), st.lists(st.floats(-3, 3), min_size=3, max_size=3))
def test_inertia_of_a_box_is_that_of_the_hull_of_its_corners(half, turn):
    if min(half) < 0.01 * max(half):  # thinner than the hull's tolerance lets us compare
        return
    r = rotations(turn)
    hull = convex_hull((CUBE * half) @ r.T)
    assert isinstance(hull, Hull)
    got, want = hull.mass_properties(700.0), inertia.box(700.0, *half)
    assert got.mass == pytest.approx(want.mass, rel=1e-4)
    np.testing.assert_allclose(got.com, 0.0, atol=1e-5 * max(half))
    np.testing.assert_allclose(got.inertia, r @ want.inertia @ r.T, atol=2e-4 * want.inertia.max())
