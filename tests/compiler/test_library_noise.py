"""Noise: zero on the lattice, periodic, smooth; its curl is free of divergence; bounds; the same in Python scope."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.context import array, launch, zeros

N = 2000


@k.kernel
def field(p: k.array(dtype=k.vec4), out: k.array(dtype=float, ndim=2), period: int):
    i = k.tid()
    state = k.rand_init(9)
    q = p[i]
    out[i, 0] = k.noise(state, q.x)
    out[i, 1] = k.noise(state, k.vec2(q.x, q.y))
    out[i, 2] = k.noise(state, k.vec3(q.x, q.y, q.z))
    out[i, 3] = k.noise(state, q)
    out[i, 4] = k.pnoise(state, q.x, period)
    out[i, 5] = k.pnoise(state, k.vec2(q.x, q.y), period, period)
    out[i, 6] = k.pnoise(state, k.vec3(q.x, q.y, q.z), period, period, period)
    out[i, 7] = k.pnoise(state, q, period, period, period, period)


@k.kernel
def swirl(
    p: k.array(dtype=k.vec4), flat: k.array(dtype=k.vec2), solid: k.array(dtype=k.vec3), moving: k.array(dtype=k.vec3)
):
    i = k.tid()
    state = k.rand_init(9)
    q = p[i]
    flat[i] = k.curlnoise(state, k.vec2(q.x, q.y), k.uint32(3), 2.0, 0.5)
    solid[i] = k.curlnoise(state, k.vec3(q.x, q.y, q.z))
    moving[i] = k.curlnoise(state, q)


def values(points, device, period=7):
    out = zeros((len(points), 8), device=device)
    launch(field, len(points), [array(points, dtype=k.vec4, device=device), out, period], device=device)
    return out.numpy().astype(np.float64)


def curls(points, device):
    outs = [zeros(len(points), dtype=t, device=device) for t in (k.vec2, k.vec3, k.vec3)]
    launch(swirl, len(points), [array(points, dtype=k.vec4, device=device), *outs], device=device)
    return [o.numpy().astype(np.float64) for o in outs]


def test_noise_is_zero_on_the_lattice_and_bounded(device, rng):
    lattice = rng.integers(-20, 20, (N, 4)).astype(np.float32)
    np.testing.assert_allclose(values(lattice, device), 0, atol=1e-6)
    found = values(rng.uniform(-50, 50, (N, 4)).astype(np.float32), device)
    assert np.abs(found).max() <= 1.0 and (found.std(0) > 0.05).all()  # |n| ≤ √d / 2 in d dimensions


def test_periodic_noise_repeats(device, rng):
    points = rng.uniform(0, 7, (N, 4)).astype(np.float32)
    shifted = (points + 7 * rng.integers(-3, 4, (N, 4))).astype(np.float32)
    np.testing.assert_allclose(values(shifted, device)[:, 4:], values(points, device)[:, 4:], atol=2e-4)


def test_noise_is_smooth_across_the_lattice(device, rng):
    lattice = rng.integers(-5, 5, (N, 4)).astype(np.float32)
    offset = (rng.uniform(-1, 1, (N, 4)) * 1e-3).astype(np.float32)
    assert np.abs(values(lattice + offset, device) - values(lattice - offset, device)).max() < 1e-2


@pytest.mark.parametrize(("which", "size"), [(0, 2), (1, 3), (2, 3)])
def test_curl_noise_has_no_divergence(which, size, device, rng):
    points = rng.uniform(-10, 10, (N, 4))
    h, divergence, scale = 2e-3, np.zeros(N), 0.0
    for axis in range(size):
        step = np.zeros(4)
        step[axis] = h
        ahead = curls((points + step).astype(np.float32), device)[which]
        behind = curls((points - step).astype(np.float32), device)[which]
        slope = (ahead[:, axis] - behind[:, axis]) / (2 * h)
        divergence += slope
        scale = max(scale, np.abs(slope).max())
    assert scale > 1 and np.quantile(np.abs(divergence), 0.99) < 0.02 * scale


def test_python_scope_gives_the_same_numbers(device):
    point = np.array([[0.3, 1.7, -2.4, 5.5]], np.float32)
    found = values(point, device)[0]
    state = k.rand_init(9)
    np.testing.assert_allclose(k.noise(state, k.vec3(*point[0][:3])), found[2], atol=1e-6)
    np.testing.assert_allclose(k.pnoise(state, k.vec2(*point[0][:2]), 7, 7), found[5], atol=1e-6)
