"""The smoothing kernel of fluids against its formula, its integral, and differences."""

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.sim.cubic_spline import inverse_root, slope, weight

SUPPORT = 0.3


@k.kernel
def sample(gap_sq: k.array(dtype=float), support: float, w: k.array(dtype=float), s: k.array(dtype=float)):
    i = k.tid()
    w[i] = weight(gap_sq[i], support)
    s[i] = slope(gap_sq[i], support)


@k.kernel
def roots(x: k.array(dtype=float), out: k.array(dtype=float)):
    i = k.tid()
    out[i] = inverse_root(x[i])


def spline(r):
    """W and W' in float64 (Monaghan 1992, normalised for three dimensions)."""
    q = r / SUPPORT
    scale = 8.0 / np.pi / SUPPORT**3
    w = np.where(q <= 0.5, 6 * q**2 * (q - 1) + 1, 2 * (1 - q) ** 3)
    d = np.where(q <= 0.5, 6 * q * (3 * q - 2), -6 * (1 - q) ** 2)
    return np.where(q < 1, w, 0.0) * scale, np.where(q < 1, d, 0.0) * scale / SUPPORT


def sampled(gap_sq, device):
    x = engine.array(gap_sq.astype(np.float32), dtype=float, device=device)
    w, s = (engine.full(len(gap_sq), np.nan, dtype=float, device=device) for _ in range(2))
    engine.launch(sample, len(gap_sq), [x, SUPPORT, w, s], device=device)
    return w.numpy().astype(float), s.numpy().astype(float)


@pytest.mark.parametrize("where", ["cpu", "emu"])
def test_weight_and_slope(where):
    r = np.linspace(1e-3, 1.5 * SUPPORT, 3000)
    w, s = sampled(r**2, where)
    expected, steepness = spline(r)
    assert np.abs(w - expected).max() < 4e-6 * expected.max()
    assert np.abs(s * r - steepness).max() < 4e-6 * np.abs(steepness).max()
    beyond = r > SUPPORT * (1 + 1e-6)
    assert (w[beyond] == 0).all() and (s[beyond] == 0).all()
    shells = 4 * np.pi * r**2 * w
    assert np.trapezoid(shells, r) == pytest.approx(1.0, rel=1e-4)


def test_a_place_at_no_distance_and_one_far_away():
    gap_sq = np.array([0.0, 1e-38, 1e-20, 1e30])
    w, s = sampled(gap_sq, "cpu")
    assert w[:3] == pytest.approx(8 / np.pi / SUPPORT**3) and w[3] == 0
    assert np.abs(s * np.sqrt(gap_sq)).max() < 1e-6 * 32 / np.pi / SUPPORT**4  # of the steepest; s itself is finite
    assert np.isfinite(s).all() and s[3] == 0


def test_inverse_roots_are_as_near_as_promised():
    x = np.exp(np.linspace(np.log(1e-30), np.log(1e30), 200_001)).astype(np.float32)
    out = engine.full(len(x), np.nan, dtype=float, device="cpu")
    engine.launch(roots, len(x), [engine.array(x, dtype=float, device="cpu"), out], device="cpu")
    assert np.abs(out.numpy() * np.sqrt(x.astype(float)) - 1).max() < 1.2e-6


def test_gradients():
    x = engine.array([0.0, 0.5, 4.0], dtype=float, device="cpu", requires_grad=True)
    out = engine.zeros(3, dtype=float, device="cpu", requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(roots, 3, [x, out], device="cpu")
    out.grad.fill_(1.0)
    tape.backward()
    assert x.grad.numpy() == pytest.approx([0.0, -0.5 * 0.5**-1.5, -0.5 * 4.0**-1.5], rel=1e-5)
