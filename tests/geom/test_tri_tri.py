"""Triangles that meet, against an exact answer in fractions: any position, planes, lines, points, scales."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine


@engine.kernel
def meet(corners: engine.array2d(dtype=engine.vec3), found: engine.array2d(dtype=int)):
    i = engine.tid()
    a, b, c, d, e, f = corners[i, 0], corners[i, 1], corners[i, 2], corners[i, 3], corners[i, 4], corners[i, 5]
    found[i, 0] = engine.intersect_tri_tri(a, b, c, d, e, f)
    found[i, 1] = engine.intersect_tri_tri(
        engine.vec3d(d), engine.vec3d(f), engine.vec3d(e), engine.vec3d(b), engine.vec3d(a), engine.vec3d(c)
    )


@engine.kernel
def meet_once(corners: engine.array2d(dtype=engine.vec3), found: engine.array2d(dtype=int)):
    i = engine.tid()
    a, b, c, d, e, f = corners[i, 0], corners[i, 1], corners[i, 2], corners[i, 3], corners[i, 4], corners[i, 5]
    found[i, 0] = engine.intersect_tri_tri(a, b, c, d, e, f)
    found[i, 1] = found[i, 0]


def answers(corners, device="cpu", kernel=meet):
    """(n,) for corners (n, 6, 3), which must not depend on the order of the corners and triangles."""
    corners = np.asarray(corners, np.float32)
    found = engine.full((len(corners), 2), -7, dtype=int, device=device)
    given = engine.array(corners, dtype=engine.vec3, device=device)
    engine.launch(kernel, len(corners), inputs=[given, found], device=device)
    both = found.numpy()
    np.testing.assert_array_equal(both[:, 0], both[:, 1])
    return both[:, 0]


def solved(columns, right):
    """The solution of exact linear equations if there is just one, else None."""
    rows = [[c[r] for c in columns] + [right[r]] for r in range(len(right))]
    n, at = len(columns), 0
    for column in range(n):
        pivot = next((r for r in range(at, len(rows)) if rows[r][column] != 0), None)
        if pivot is None:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for r in range(len(rows)):
            if r != at and rows[r][column] != 0:
                factor = rows[r][column] / rows[at][column]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[at], strict=True)]
        at += 1
    if any(row[n] != 0 for row in rows[at:]):
        return None
    return [rows[r][n] / rows[r][r] for r in range(n)]


def truth(corners):
    """Exactly: whether Σ λ v = Σ μ u with weights that are not negative and sum up to 1.

    If there are such weights, there are some that are not 0 only where the columns are independent (Carathéodory).
    """
    exact = [[Fraction(float(x)) for x in p] for p in corners]
    columns = [[*p, Fraction(1), Fraction(0)] for p in exact[:3]] + [
        [*(-x for x in p), Fraction(0), Fraction(1)] for p in exact[3:]
    ]
    right = [Fraction(0)] * 3 + [Fraction(1)] * 2
    for count in range(2, 6):
        for some in combinations(columns, count):
            weights = solved(list(some), right)
            if weights is not None and min(weights) >= 0:
                return 1
    return 0


def truths(corners):
    return [truth(c) for c in np.asarray(corners, np.float32)]


grid = st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=6, max_size=6)
floats = st.floats(-4.0, 4.0, width=32).map(lambda x: x if abs(x) > 2.0**-60 else 0.0)


@settings(max_examples=40, deadline=None)
@given(st.lists(grid, min_size=2, max_size=2))
def test_corners_on_a_grid(corners):
    """Many of them touch, share planes, lines and corners, or have no area."""
    assert answers(corners).tolist() == truths(corners)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(floats, floats, floats), min_size=6, max_size=6))
def test_any_corners(corners):
    assert answers([corners]).tolist() == truths([corners])


def families(rng):
    """Corners (n, 6, 3) that are nearly, or exactly, in special positions."""
    n = 14
    free = rng.normal(size=(n, 6, 3))
    yield "free", free
    plane = free.copy()
    plane[..., 2] = np.float32(0.3)
    yield "one plane", plane
    turned = np.round(rng.normal(size=(n, 6, 2)) * 64) / 64 @ np.array([[1.0, 2.0, 0.5], [-0.25, 1.0, 4.0]])
    yield "one tilted plane", turned
    nearly = turned.astype(np.float32)
    nearly[np.arange(n), rng.integers(0, 6, n), 2] = np.nextafter(
        nearly[np.arange(n), rng.integers(0, 6, n), 2], np.float32(9)
    )
    yield "one tilted plane, less one bit", nearly
    touching = free.copy()
    weights = rng.dirichlet(np.ones(3), n)
    touching[:, 3] = np.float32(np.einsum("ni,nij->nj", weights, touching[:, :3]))
    yield "a corner in the other triangle, as near as it gets", touching
    line = rng.integers(-4, 5, (n, 6, 1)) * np.array([3.0, -1.0, 2.0])
    yield "one line", line
    needle = free.copy()
    needle[:, 2] = np.float32(0.5 * (needle[:, 0] + needle[:, 1]))
    needle[:, 5] = needle[:, 4]
    yield "without area, nearly and exactly", needle
    yield "points", np.repeat(rng.integers(0, 2, (n, 2, 3)), 3, axis=1)
    yield "far from the origin", free * 1e-3 + 1000.0
    yield "huge", free * 1e37
    yield "tiny", free * 1e-38


def test_special_positions(rng):
    for name, corners in families(rng):
        with np.errstate(all="ignore"):
            corners = np.asarray(corners, np.float32)
        assert answers(corners).tolist() == truths(corners), name


def test_the_emulated_gpu_agrees(rng):
    corners = np.concatenate([np.asarray(c, np.float32)[:3] for _, c in families(rng)])
    assert answers(corners, "emu", meet_once).tolist() == answers(corners).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_corners_that_are_no_numbers_touch_nothing(bad):
    corners = np.tile(np.eye(3), (6, 2, 1))
    corners[np.arange(6), np.arange(6), 1] = bad
    assert answers(corners).tolist() == [0] * 6
