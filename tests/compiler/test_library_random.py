"""Random numbers: the published PCG hash, distributions against their moments, where points lie."""

import math

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.context import array, launch, zeros

N = 40_000


def pcg(state: np.ndarray) -> np.ndarray:
    """The PCG-RXS-M-XS-32 step in NumPy, after O'Neill 2014."""
    with np.errstate(over="ignore"):
        stepped = state * np.uint32(747796405) + np.uint32(2891336453)
        mixed = ((stepped >> ((stepped >> np.uint32(28)) + np.uint32(4))) ^ stepped) * np.uint32(277803737)
        return (mixed >> np.uint32(22)) ^ mixed


@k.kernel
def draw(seed: int, states: k.array(dtype=k.uint32), ints: k.array(dtype=int), whole: k.array(dtype=k.uint32),
         floats: k.array(dtype=float, ndim=2)):  # fmt: skip
    i = k.tid()
    state = k.rand_init(seed, i)
    states[i] = state
    whole[i] = k.randu(state)
    ints[i] = k.randi(state)
    floats[i, 0] = k.randf(state)
    floats[i, 1] = k.randf(state, -3.0, 5.0)
    floats[i, 2] = k.randn(state)
    floats[i, 3] = float(k.randi(state, -4, 7))
    floats[i, 4] = float(k.randu(state, k.uint32(10), k.uint32(20)))


@pytest.mark.parametrize("seed", [0, 42, -7])
def test_the_sequence_is_that_of_the_published_hash(seed, device):
    states, whole = (zeros(N, dtype=k.uint32, device=device) for _ in range(2))
    ints, floats = zeros(N, dtype=int, device=device), zeros((N, 5), device=device)
    launch(draw, N, [seed, states, ints, whole, floats], device=device)
    expected = pcg(np.array([seed]).astype(np.uint32) + pcg(np.arange(N, dtype=np.uint32)))
    np.testing.assert_array_equal(states.numpy(), expected)
    expected = pcg(expected)
    np.testing.assert_array_equal(whole.numpy(), expected)
    expected = pcg(expected)
    np.testing.assert_array_equal(ints.numpy(), expected.view(np.int32))
    expected = pcg(expected)
    np.testing.assert_array_equal(floats.numpy()[:, 0], (expected >> np.uint32(8)).astype(np.float32) / 2**24)


def test_distributions_of_numbers(device):
    states, whole = (zeros(N, dtype=k.uint32, device=device) for _ in range(2))
    ints, floats = zeros(N, dtype=int, device=device), zeros((N, 5), device=device)
    launch(draw, N, [3, states, ints, whole, floats], device=device)
    unit, ranged, normal, whole_range, unsigned = floats.numpy().astype(np.float64).T
    assert 0 <= unit.min() < unit.max() < 1 and abs(unit.mean() - 0.5) < 0.01 and abs(unit.var() - 1 / 12) < 0.002
    assert -3 <= ranged.min() and ranged.max() < 5 and abs(ranged.mean() - 1) < 0.05
    assert abs(normal.mean()) < 0.02 and abs(normal.var() - 1) < 0.03 and abs((normal**4).mean() - 3) < 0.2
    assert np.isfinite(normal).all()
    assert np.array_equal(np.unique(whole_range), np.arange(-4, 7))
    assert np.array_equal(np.unique(unsigned), np.arange(10, 20))


@k.kernel
def scatter(flat: k.array(dtype=k.vec2, ndim=2), solid: k.array(dtype=k.vec3, ndim=2)):
    i = k.tid()
    state = k.rand_init(5, i)
    flat[0, i] = k.sample_triangle(state)
    flat[1, i] = k.sample_unit_ring(state)
    flat[2, i] = k.sample_unit_disk(state)
    flat[3, i] = k.sample_unit_square(state)
    solid[0, i] = k.sample_unit_sphere_surface(state)
    solid[1, i] = k.sample_unit_sphere(state)
    solid[2, i] = k.sample_unit_hemisphere_surface(state)
    solid[3, i] = k.sample_unit_hemisphere(state)
    solid[4, i] = k.sample_unit_cube(state)


def test_points_lie_where_they_should_and_evenly(device):
    flat, solid = zeros((4, N), dtype=k.vec2, device=device), zeros((5, N), dtype=k.vec3, device=device)
    launch(scatter, N, [flat, solid], device=device)
    triangle, ring, disk, square = flat.numpy().astype(np.float64)
    sphere, ball, half_sphere, half_ball, cube = solid.numpy().astype(np.float64)
    assert (triangle >= 0).all() and (triangle.sum(1) <= 1 + 1e-6).all()
    np.testing.assert_allclose(triangle.mean(0), [1 / 3, 1 / 3], atol=0.01)
    for surface in (ring, sphere, half_sphere):
        np.testing.assert_allclose(np.linalg.norm(surface, axis=1), 1, atol=1e-6)
    for centred in (ring, disk, square, sphere, ball, cube):
        np.testing.assert_allclose(centred.mean(0), 0, atol=0.02)
    # the mean square distance from the centre of an even disk, ball and cube
    for points, expected in ((disk, 1 / 2), (ball, 3 / 5), (half_ball, 3 / 5), (square, 1 / 6), (cube, 1 / 4)):
        assert abs((points**2).sum(1).mean() - expected) < 0.01
    assert (half_sphere[:, 2] >= 0).all() and (half_ball[:, 2] >= 0).all()
    assert abs(half_sphere[:, 2].mean() - 1 / 2) < 0.01  # Archimedes: even in height
    assert np.abs(square).max() <= 0.5 and np.abs(cube).max() <= 0.5 and np.linalg.norm(ball, axis=1).max() <= 1 + 1e-6


@k.kernel
def count_events(mean: float, out: k.array(dtype=k.uint32)):
    i = k.tid()
    state = k.rand_init(11, i)
    out[i] = k.poisson(state, mean)


@pytest.mark.parametrize("mean", [0.0, 0.3, 4.0, 9.99, 10.0, 37.5, 1000.0, float("nan"), -1.0])
def test_poisson_agrees_with_its_probabilities(mean, device):
    out = zeros(N, dtype=k.uint32, device=device)
    launch(count_events, N, [mean, out], device=device)
    got = out.numpy().astype(np.int64)
    if not mean > 0:
        assert not got.any()
        return
    assert abs(got.mean() - mean) < 5 * math.sqrt(mean / N)
    assert abs(got.var() / mean - 1) < 0.05
    for n in {int(mean), int(mean) + 1, int(mean * 0.8)}:
        p = math.exp(n * math.log(mean) - mean - math.lgamma(n + 1))
        assert abs((got == n).mean() - p) < 5 * math.sqrt(p / N) + 1e-4


@k.kernel
def choose(cdf: k.array(dtype=float), out: k.array(dtype=int)):
    i = k.tid()
    state = k.rand_init(2, i)
    out[i] = k.sample_cdf(state, cdf)


def test_sample_cdf_chooses_bins_by_their_probabilities(device):
    weights = np.array([0.1, 0.0, 0.5, 0.4])
    out = zeros(N, dtype=int, device=device)
    launch(choose, N, [array(np.cumsum(weights), dtype=float, device=device), out], device=device)
    np.testing.assert_allclose(np.bincount(out.numpy(), minlength=4)[:4] / N, weights, atol=0.01)


def test_a_state_passed_as_a_value_does_not_change(device):
    @k.kernel
    def twice(out: k.array(dtype=float)):
        state = k.rand_init(1)
        kept = state
        out[0] = k.randf(state)
        out[1] = k.randf(kept)
        out[2] = k.randf(state)
        out[3] = k.randf(k.rand_init(1))

    out = zeros(4, device=device)
    launch(twice, 1, [out], device=device)
    a = out.list()
    assert a[0] == a[1] == a[3] != a[2]
    assert k.randf(k.rand_init(1)) == a[0]  # Python scope gives the same number
