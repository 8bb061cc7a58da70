"""Sums and bounds: against NumPy, and the same bits with any number of threads."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, full
from engine.kernels.reduce import BLOCK, COLUMNS, FEW, PIECE, Bounds, reduce_sum, sum_rows


def summed(values: np.ndarray, device: str) -> np.float32:
    out = full(1, float("nan"), dtype=float, device=device)
    reduce_sum(array(values, dtype=float, device=device), out)
    return out.numpy()[0]


@pytest.mark.parametrize("n", [0, 1, FEW - 1, FEW, FEW + 1, PIECE - 1, PIECE, 2 * PIECE - 1, 2 * PIECE, 1_100_000])
def test_sum(n, device, rng):
    values = rng.normal(size=n).astype(np.float32)
    assert summed(values, device) == pytest.approx(values.sum(dtype=np.float64), abs=1e-3)


def test_sum_adds_in_one_tree(device, rng):
    values = (rng.normal(size=300_000) * 10.0 ** rng.integers(-6, 6, 300_000)).astype(np.float32)
    found = set()
    for threads in (1, 2, 4):
        with config.scope(threads=threads):
            found.add(summed(values, device).tobytes())
    assert found == {in_columns(values).tobytes()}


def in_columns(values: np.ndarray) -> np.float32:
    """The sum in the order that is promised."""
    while len(values) >= FEW:
        ends = [PIECE * p for p in range(1, max(1, len(values) // PIECE))] + [len(values)]
        pieces = np.split(values, ends[:-1])
        values = np.concatenate([[np.cumsum(piece[c::COLUMNS])[-1] for c in range(COLUMNS)] for piece in pieces])
    return np.cumsum(values)[-1]  # cumsum adds in order


@pytest.mark.parametrize("n", [1, 40, 70, 2 * PIECE + 77])
@pytest.mark.parametrize("products", [False, True])
def test_rows(n, products, device, rng):
    a, b = (rng.normal(size=(3, n + 5)) for _ in range(2))
    given = array(a, device=device), array(b, device=device)
    out = full(3, np.nan, dtype=k.float64, device=device)
    sum_rows(given[0], out, n, given[1] if products else None)
    np.testing.assert_allclose(out.numpy(), ((a * b) if products else a)[:, :n].sum(axis=1), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("n", [1, BLOCK + 1, BLOCK * BLOCK + 1])
def test_bounds(n, device, rng):
    lower = rng.normal(size=(n, 3)).astype(np.float32)
    upper = lower + rng.random((n, 3)).astype(np.float32)
    bounds = Bounds(n, device)
    bounds.run(array(lower, dtype=k.vec3, device=device), array(upper, dtype=k.vec3, device=device), n)
    assert np.array_equal(bounds.lower.numpy()[0], lower.min(axis=0))
    assert np.array_equal(bounds.upper.numpy()[0], upper.max(axis=0))
