"""Mass properties against closed forms, tessellations of known error order, and composition identities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.geom import inertia, shapes
from engine.geom.inertia import MassProperties
from engine.geom.pose import as_pose, pose_multiply, quat_to_matrix
from engine.geom.shapes import ShapeType

finite = st.floats(-3.0, 3.0)
poses = st.builds(
    lambda p, q: as_pose((p, q)),
    st.lists(finite, min_size=3, max_size=3),
    st.lists(finite, min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1),
)


def assert_same(a: MassProperties, b: MassProperties, rel: float = 1e-12) -> None:
    size = max(np.abs(b.inertia).max(), 1e-300)
    assert a.mass == pytest.approx(b.mass, rel=rel)
    np.testing.assert_allclose(a.com, b.com, atol=rel * (1 + np.abs(b.com).max()))
    np.testing.assert_allclose(a.inertia, b.inertia, atol=rel * size)


def tetra_closed_form(density: float, v: np.ndarray) -> MassProperties:
    """Tonon (2004): V/20 (Σ vᵢ vᵢᵀ + s sᵀ) about the centroid, by another route: with centred corners s = 0."""
    volume = abs(np.linalg.det(v[1:] - v[0])) / 6
    c = v - v.mean(axis=0)
    second = volume / 20 * c.T @ c
    return MassProperties(density * volume, v.mean(axis=0), density * (np.trace(second) * np.eye(3) - second))


def revolved(profile: list[tuple[float, float]], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Closed mesh of the polygon (radius, z) from bottom pole to top pole, revolved about z with n segments."""
    angles = 2 * np.pi * np.arange(n) / n
    rings = [(r, z) for r, z in profile if r > 0]
    v = [(r * np.cos(a), r * np.sin(a), z) for r, z in rings for a in angles]
    v += [(0, 0, profile[0][1]), (0, 0, profile[-1][1])]
    bottom, top, last = len(v) - 2, len(v) - 1, (len(rings) - 1) * n
    t = []
    for j in range(n):
        k = (j + 1) % n
        t += [(bottom, k, j), (top, last + j, last + k)]
        for i in range(len(rings) - 1):
            a, b, c, d = i * n + j, i * n + k, (i + 1) * n + k, (i + 1) * n + j
            t += [(a, b, c), (a, c, d)]
    return np.array(v, float), np.array(t)


def arc(radius: float, centre: float, low: float, high: float, n: int) -> list[tuple[float, float]]:
    """Profile points of a circle about (0, centre), poles exactly on the axis."""
    angles = np.linspace(low, high, n)
    r = np.where(np.abs(np.cos(angles)) > 1e-9, radius * np.cos(angles), 0.0)
    return list(zip(r, centre + radius * np.sin(angles), strict=True))


H = np.pi / 2
PROFILES = {
    # type: (scale, profile(n)); the error of an n-sided tessellation is O(1/n²)
    ShapeType.SPHERE: ((0.7, 0.0, 0.0), lambda n: arc(0.7, 0.0, -H, H, n)),
    ShapeType.CYLINDER: ((0.4, 0.9, 0.0), lambda n: [(0, -0.9), (0.4, -0.9), (0.4, 0.9), (0, 0.9)]),
    ShapeType.CONE: ((0.4, 0.9, 0.0), lambda n: [(0, -0.9), (0.4, -0.9), (0, 0.9)]),
    ShapeType.CAPSULE: ((0.3, 0.5, 0.0), lambda n: arc(0.3, -0.5, -H, 0, n) + arc(0.3, 0.5, 0, H, n)),
}


@pytest.mark.parametrize("kind", PROFILES, ids=lambda k: k.name.lower())
def test_round_solids_are_the_limit_of_their_tessellations(kind):
    """Richardson: with error c/n² + O(n⁻⁴), (4 I(2n) − I(n)) / 3 agrees to O(n⁻⁴) with the closed form."""
    scale, profile = PROFILES[kind]
    want = shapes.mass_properties(kind, np.array(scale), 900.0)
    coarse, fine = (inertia.mesh(900.0, *revolved(profile(n), n)) for n in (64, 127))
    # 64 and 127 profile points are 63 and 126 segments, but 64 and 127 sides: extrapolate with the ratio of sides.
    ratio = (127 / 64) ** 2
    assert (fine.mass * ratio - coarse.mass) / (ratio - 1) == pytest.approx(want.mass, rel=5e-5)
    limit = (fine.inertia * ratio - coarse.inertia) / (ratio - 1)
    np.testing.assert_allclose(limit, want.inertia, atol=1e-4 * want.inertia.max())
    np.testing.assert_allclose(fine.com, want.com, atol=1e-3)


def test_ellipsoid_is_a_stretched_sphere():
    v, t = revolved(arc(1.0, 0.0, -H, H, 200), 200)
    got, want = inertia.mesh(1.0, v * (0.5, 1.0, 2.0), t), inertia.ellipsoid(1.0, 0.5, 1.0, 2.0)
    assert_same(got, want, 1e-3)


def test_textbook_numbers():
    ball = inertia.sphere(1000.0, 0.1)
    assert ball.mass == pytest.approx(4.18879020, rel=1e-8)
    assert ball.inertia[0, 0] == pytest.approx(0.0167551608, rel=1e-8)
    brick = inertia.box(1.0 / (8 * 0.006), 0.1, 0.2, 0.3)  # 1 kg, the box of the Dzhanibekov case
    np.testing.assert_allclose(np.diag(brick.inertia), [0.13 / 3, 0.1 / 3, 0.05 / 3], rtol=1e-12)
    rod = inertia.capsule(1.0, 1e-9, 0.5)  # a thin capsule is a rod
    assert rod.inertia[0, 0] / rod.mass == pytest.approx(1 / 12, rel=1e-6)
    tip = inertia.cone(1.0, 0.2, 0.5).about(np.array([0, 0, 0.5]))  # about the apex: 3/5 m (r²/4 + h²)
    assert tip[0, 0] / inertia.cone(1.0, 0.2, 0.5).mass == pytest.approx(0.6 * (0.01 + 1.0), rel=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(finite, finite, finite), min_size=4, max_size=4), st.tuples(finite, finite, finite))
def test_a_tetrahedron(corners, shift):
    v = np.array(corners)
    volume = np.linalg.det(v[1:] - v[0]) / 6
    if abs(volume) < 1e-3:
        return
    t = np.array([(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)])
    t = t if volume > 0 else t[:, ::-1]
    far = 100.0 * np.array(shift)
    assert inertia.open_edges(t) == 0
    assert_same(inertia.mesh(2.0, v + far, t), tetra_closed_form(2.0, v + far), 1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), poses)
def test_random_closed_meshes_move_rigidly(seed, pose):
    """A star-shaped bumpy sphere: moving the vertices is the same as moving the mass properties."""
    rng = np.random.default_rng(seed)
    v, t = revolved(arc(1.0, 0.0, -H, H, 9), 12)
    v = v * rng.uniform(0.4, 1.6, (len(v), 1))
    here, there = inertia.mesh(3.0, v, t), inertia.mesh(3.0, v @ quat_to_matrix(pose[3:]).T + pose[:3], t)
    assert_same(here.moved(pose), there, 1e-9)
    assert_same(inertia.mesh(3.0, v, t[:, ::-1]), MassProperties(-here.mass, here.com, -here.inertia), 1e-9)


@settings(max_examples=50, deadline=None)
@given(poses, poses)
def test_moves_compose(a, b):
    solid = inertia.cone(5.0, 0.3, 0.8)
    assert_same(solid.moved(b).moved(a), solid.moved(pose_multiply(a, b)), 1e-10)


@settings(max_examples=30, deadline=None)
@given(poses, st.floats(-0.8, 0.8))
def test_a_cut_box_is_the_sum_of_its_halves(pose, cut):
    whole = inertia.box(2.0, 1.0, 0.5, 0.25)
    low = inertia.box(2.0, (1 + cut) / 2, 0.5, 0.25).moved(as_pose(((cut - 1) / 2, 0, 0, 0, 0, 0, 1)))
    high = inertia.box(2.0, (1 - cut) / 2, 0.5, 0.25).moved(as_pose(((1 + cut) / 2, 0, 0, 0, 0, 0, 1)))
    assert_same(inertia.combined([low.moved(pose), high.moved(pose)]), whole.moved(pose), 1e-10)


def test_a_quarter_turn_swaps_the_moments():
    """R I Rᵀ, not R I: the latter is not even symmetric (newton PR#2243)."""
    turned = inertia.box(1.0, 1.0, 2.0, 3.0).moved(as_pose((0, 0, 0, 0, 0, np.sin(H / 2), np.cos(H / 2))))
    assert_same(turned, inertia.box(1.0, 2.0, 1.0, 3.0))


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[st.floats(0.1, 5.0)] * 3), poses)
def test_principal_axes_rebuild_the_tensor(half, pose):
    tensor = inertia.box(1.0, *half).moved(pose).inertia
    moments, quat = inertia.principal(tensor)
    assert (np.diff(moments) >= 0).all() and np.linalg.norm(quat) == pytest.approx(1.0)
    np.testing.assert_allclose(inertia.from_principal(moments, quat), tensor, atol=1e-12 * tensor.max())


@pytest.mark.parametrize(
    "tensor, problem",
    [
        (np.diag([1.0, 1.0, 2.0]), None),  # a flat plate is the limit
        (np.diag([1.0, 1.0, 2.00001]), None),  # and may be rounded
        (np.diag([1.0, 1.0, 2.1]), "principal moments of inertia 1, 1, 2.1 violate the triangle inequality"),
        (np.diag([0.0, 1.0, 1.0]), "principal moments of inertia must be positive, got 0, 1, 1"),
        (np.diag([-1.0, 1.0, 1.0]), "principal moments of inertia must be positive, got -1, 1, 1"),
        (np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 1.0]]), "inertia is not symmetric"),
        (np.diag([1.0, np.nan, 1.0]), "inertia is not finite"),
        (np.ones(3), "inertia has shape (3,), not (3, 3)"),
    ],
)
def test_impossible_inertia_says_why(tensor, problem):
    assert inertia.inertia_problem(tensor) == problem


def test_open_edges_are_counted():
    v, t = revolved([(0, -1), (1, -1), (1, 1), (0, 1)], 6)
    assert inertia.open_edges(t) == 0
    assert inertia.open_edges(t[1:]) == 3
    flipped = t.copy()
    flipped[0] = flipped[0, ::-1]
    assert inertia.open_edges(flipped) > 0


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([k for k in ShapeType if k < ShapeType.HULL]), poses, st.tuples(*[st.floats(0.05, 2.0)] * 3))
def test_bounds_hold_every_surface_point_and_touch_one(kind, pose, scale):
    """The support point along each world axis lies on the box's side."""
    size = np.array(scale)
    low, high = shapes.aabb(kind, size, pose)
    r = quat_to_matrix(pose[3:])
    for axis in range(3):
        for sign, side in ((1.0, high), (-1.0, low)):
            point = pose[:3] + r @ support(kind, size, r.T[:, axis] * sign)
            assert point[axis] == pytest.approx(side[axis], abs=1e-9)
            assert np.linalg.norm(point - pose[:3]) <= shapes.bounding_radius(kind, size) + 1e-9


def support(kind: ShapeType, s: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Farthest point of the shape along d (shape frame)."""
    across = np.array([d[0], d[1], 0.0])
    rim = across / np.linalg.norm(across) * s[0] if np.linalg.norm(across) > 0 else across
    match kind:
        case ShapeType.SPHERE:
            return d * s[0]
        case ShapeType.CAPSULE:
            return d * s[0] + np.array([0, 0, np.copysign(s[1], d[2])])
        case ShapeType.BOX:
            return np.copysign(s, d)
        case ShapeType.CYLINDER:
            return rim + np.array([0, 0, np.copysign(s[1], d[2])])
        case ShapeType.ELLIPSOID:
            return s * s * d / np.linalg.norm(s * d)
    tip, base = np.array([0, 0, s[1]]), rim - np.array([0, 0, s[1]])  # cone
    return tip if d @ tip > d @ base else base
