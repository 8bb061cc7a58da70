"""Closest points of segments: against a search over the distance's exact minima, and its gradients."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine


@engine.kernel
def come_close(ends: engine.array2d(dtype=engine.vec3), epsilon: float, found: engine.array(dtype=engine.vec3)):
    i = engine.tid()
    found[i] = engine.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], epsilon)


@engine.kernel
def come_close_d(ends: engine.array2d(dtype=engine.vec3d), found: engine.array(dtype=engine.vec3d)):
    i = engine.tid()
    found[i] = engine.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3])


def closest(ends, device="cpu", epsilon=0.0):
    """(n, 3) s, t, distance of ends (n, 4, 3)."""
    found = engine.full(len(ends), engine.vec3(np.nan), dtype=engine.vec3, device=device)
    given = engine.array(np.asarray(ends, np.float32), dtype=engine.vec3, device=device)
    engine.launch(come_close, len(ends), inputs=[given, epsilon, found], device=device)
    return found.numpy()


def squared_minimum(ends):
    """Exactly: the minimum lies where both derivatives are 0, or on an end of a segment, at the foot or an end."""
    p1, q1, p2, q2 = ([Fraction(float(x)) for x in p] for p in np.asarray(ends, np.float32))
    minus = lambda x, y: [a - b for a, b in zip(x, y, strict=True)]
    dot = lambda x, y: sum(a * b for a, b in zip(x, y, strict=True))
    d1, d2, r = minus(q1, p1), minus(q2, p2), minus(p1, p2)
    a, b, e, c, f = dot(d1, d1), dot(d1, d2), dot(d2, d2), dot(d1, r), dot(d2, r)
    inside = lambda x: min(max(x, Fraction(0)), Fraction(1))
    places = [(Fraction(0), Fraction(0))]
    if a * e != b * b:
        s, t = (b * f - c * e) / (a * e - b * b), (a * f - b * c) / (a * e - b * b)
        if inside(s) == s and inside(t) == t:
            places.append((s, t))
    for end in (Fraction(0), Fraction(1)):
        places += [(end, inside((b * end + f) / e)) if e else (end, Fraction(0))]
        places += [(inside((b * end - c) / a), end) if a else (Fraction(0), end)]
    gaps = [[x + s * y - t * z for x, y, z in zip(r, d1, d2, strict=True)] for s, t in places]
    return min(dot(gap, gap) for gap in gaps)


def check(ends):
    ends = np.asarray(ends, np.float32)
    found = closest(ends).astype(float)
    assert ((found[:, :2] >= 0) & (found[:, :2] <= 1)).all()
    for (s, t, distance), e in zip(found, ends.astype(float), strict=True):
        least = float(squared_minimum(e)) ** 0.5
        size = np.abs(e).max()
        assert distance == pytest.approx(least, rel=1e-6, abs=1e-12 * size)
        gap = (e[0] + s * (e[1] - e[0])) - (e[2] + t * (e[3] - e[2]))
        assert np.linalg.norm(gap) == pytest.approx(least, abs=1e-6 * size)


numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-8.0, 8.0, width=32))
numbers = numbers.map(lambda x: x if abs(x) > 2.0**-40 else 0.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=4, max_size=4))
def test_any_segments(ends):
    check([ends])


def test_special_positions(rng):
    n = 30
    free = rng.normal(size=(n, 4, 3)).astype(np.float32)
    check(free)
    along = rng.normal(size=(n, 1, 3))
    for shift in (0.0, 1e-6, 1.0):  # parallel up to rounding: on one line, nearly, and side by side
        check(along * rng.uniform(-2, 2, (n, 4, 1)) + shift * rng.normal(size=(n, 1, 3)))
    rounded = np.round(free * 8) / 8
    rounded[:, 3] = rounded[:, 2] + np.round(rng.normal(size=(n, 1)) * 2) * (rounded[:, 1] - rounded[:, 0])
    check(rounded)  # exactly parallel
    points = free.copy()
    points[::2, 1], points[::3, 3] = points[::2, 0], points[::3, 2]
    check(points)
    check(free * 1e-15)
    check(free * 1e15)


def test_warps_conventions():
    """Short segments are their first points; of parallel ones the first end is taken, or the end that is nearer."""
    x, y = np.eye(3)[0], np.eye(3)[1]
    zero = np.zeros(3)
    assert closest([[zero, 1e-3 * x, y, x + y]], epsilon=1e-5).tolist() == [[0.0, 0.0, 1.0]]
    assert closest([[zero, x, y - 0.5 * x, y + 0.5 * x]])[0].tolist() == [0.0, 0.5, 1.0]
    assert closest([[zero, x, 2 * x, 3 * x]])[0].tolist() == [1.0, 0.0, 1.0]
    assert closest([[zero, x, -3 * x, -2 * x]])[0].tolist() == [0.0, 1.0, 2.0]
    assert np.isnan(closest([[zero, x, y, np.nan * x]])[0, 2])


def test_the_emulated_gpu_gives_the_same_bits(rng):
    ends = rng.normal(size=(64, 4, 3)).astype(np.float32)
    ends[::3, 3] = ends[::3, 2] + (ends[::3, 1] - ends[::3, 0])
    np.testing.assert_array_equal(closest(ends, "emu").view(np.int32), closest(ends).view(np.int32))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_gradients_are_the_differences(rng, which):
    """In float64, away from where the closest points jump: of s, t and the distance, wherever these lie."""
    ends = rng.normal(size=(60, 4, 3))
    ends[40:, 3] = ends[40:, 2] + (ends[40:, 1] - ends[40:, 0]) + 0.2 * rng.normal(size=(20, 3))

    def values(x):
        found = engine.zeros(len(x), dtype=engine.vec3d)
        engine.launch(come_close_d, len(x), inputs=[engine.array(x, dtype=engine.vec3d), found])
        return found.numpy()

    given = engine.array(ends, dtype=engine.vec3d, requires_grad=True)
    found = engine.zeros(60, dtype=engine.vec3d, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(come_close_d, 60, inputs=[given, found])
    found.grad.assign(np.tile(np.eye(3)[which], (60, 1)))
    tape.backward()
    gradient = given.grad.numpy()
    st_values = found.numpy()[:, :2]
    h = 1e-6
    smooth = (np.minimum(st_values, 1 - st_values) > 1e-3) | (st_values == 0) | (st_values == 1)
    assert smooth.all(axis=1).sum() > 40
    for corner in range(4):
        for axis in range(3):
            step = np.zeros((4, 3))
            step[corner, axis] = h
            difference = (values(ends + step)[:, which] - values(ends - step)[:, which]) / (2 * h)
            np.testing.assert_allclose(gradient[smooth.all(axis=1), corner, axis], difference[smooth.all(axis=1)],
                                       rtol=1e-5, atol=1e-6)  # fmt: skip


def test_gradients_of_the_distance_are_bounded_however_parallel(rng):
    ends = rng.normal(size=(300, 4, 3))
    bent = 10.0 ** rng.uniform(-9, -1, (300, 1)) * rng.normal(size=(300, 3))
    ends[:, 3] = ends[:, 2] + (ends[:, 1] - ends[:, 0]) + bent
    given = engine.array(ends.astype(np.float32), dtype=engine.vec3, requires_grad=True)
    found = engine.zeros(300, dtype=engine.vec3, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(come_close, 300, inputs=[given, 0.0, found])
    found.grad.assign(np.tile([0.0, 0.0, 1.0], (300, 1)))
    tape.backward()
    assert np.linalg.norm(given.grad.numpy(), axis=-1).max() <= 1.0 + 1e-6
