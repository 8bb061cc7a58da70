"""Sums and bounds: against NumPy, and the same bits with any number of threads."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, full
from engine.kernels.reduce import BLOCK, Bounds, reduce_sum


def summed(values: np.ndarray, device: str) -> np.float32:
    out = full(1, float("nan"), dtype=float, device=device)
    reduce_sum(array(values, dtype=float, device=device), out)
    return out.numpy()[0]


@pytest.mark.parametrize("n", [0, 1, BLOCK, BLOCK + 1, 1_100_000])
def test_sum(n, device, rng):
    values = rng.normal(size=n).astype(np.float32)
    assert summed(values, device) == pytest.approx(values.sum(dtype=np.float64), abs=1e-3)


def test_sum_adds_in_one_tree(device, rng):
    values = (rng.normal(size=300_000) * 10.0 ** rng.integers(-6, 6, 300_000)).astype(np.float32)
    found = set()
    for threads in (1, 2, 4):
        with config.scope(threads=threads):
            found.add(summed(values, device).tobytes())
    blocks = [np.cumsum(values[i : i + BLOCK])[-1] for i in range(0, len(values), BLOCK)]  # cumsum adds in order
    assert found == {np.cumsum(np.array(blocks, np.float32))[-1].tobytes()}


@pytest.mark.parametrize("n", [1, BLOCK + 1, BLOCK * BLOCK + 1])
def test_bounds(n, device, rng):
    lower = rng.normal(size=(n, 3)).astype(np.float32)
    upper = lower + rng.random((n, 3)).astype(np.float32)
    bounds = Bounds(n, device)
    bounds.run(array(lower, dtype=k.vec3, device=device), array(upper, dtype=k.vec3, device=device), n)
    assert np.array_equal(bounds.lower.numpy()[0], lower.min(axis=0))
    assert np.array_equal(bounds.upper.numpy()[0], upper.max(axis=0))
