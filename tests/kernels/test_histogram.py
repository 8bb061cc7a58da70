"""Histograms against numpy.histogram: values on and beside the edges, outside, NaN; several blocks, any threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import utils
from engine.compiler import lang as k
from engine.config import config
from engine.context import ScopedCapture, array, capture_launch, full
from engine.errors import ArgumentError
from engine.kernels.histogram import BLOCK


def counted(values, bins, low, high, device="cpu"):
    counts = full(bins, -7, dtype=int, device=device)
    assert utils.histogram(array(values, device=device), counts, low, high) is counts
    return counts.numpy().copy()


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, BLOCK + 1, 3 * BLOCK + 5])
def test_counts_are_those_of_numpy(dtype, n, device, rng):
    values = (rng.normal(size=n) * 60 + 50).clip(0).astype(dtype)
    expected = np.histogram(values.astype(np.float64), 17, (3, 101.5))[0]
    assert np.array_equal(counted(values, 17, 3, 101.5, device), expected)


def test_more_bins_than_values(device, rng):
    values = rng.random(100)
    assert np.array_equal(counted(values, 5000, 0, 1, device), np.histogram(values, 5000, (0, 1))[0])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.floats(-1e3, 1e3), st.floats(1e-2, 1e3), st.data())
def test_values_on_the_edges_and_next_to_them(bins, low, width, data):
    high = low + width
    edges = np.linspace(low, high, bins + 1)
    near = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), [np.nan, np.inf, -np.inf]])
    values = np.array(data.draw(st.lists(st.sampled_from(list(near)), max_size=60)), np.float64)
    inside = values[np.isfinite(values) & (values >= low) & (values <= high)]
    expected = np.bincount(np.minimum(np.searchsorted(edges, inside, "right") - 1, bins - 1), minlength=bins)
    assert np.array_equal(counted(values, bins, low, high), expected)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_any_number_of_threads_and_in_a_graph(threads, rng):
    values = rng.random(60 * BLOCK).astype(np.float32)
    a, counts = array(values), full(100, -1, dtype=int)
    with config.scope(threads=threads):
        with ScopedCapture() as capture:
            utils.histogram(a, counts, 0, 1)
        capture_launch(capture.graph)
    assert np.array_equal(counts.numpy(), np.histogram(values.astype(np.float64), 100, (0, 1))[0])


def test_what_is_refused():
    values, counts = full(3, 1.0), full(2, 0, dtype=int)
    for low, high in ((1, 1), (2, 1), (0, float("inf")), (float("nan"), 1)):
        with pytest.raises(ArgumentError, match="low must be less than high"):
            utils.histogram(values, counts, low, high)
    with pytest.raises(ArgumentError, match="too narrow or too wide"):
        utils.histogram(values, full(5, 0, dtype=int), 1.0, np.nextafter(1.0, 2.0))
    with pytest.raises(ArgumentError, match="Unsupported data type: int64"):
        utils.histogram(full(3, 1, dtype=k.int64), counts, 0, 1)
    with pytest.raises(ArgumentError, match="counts must be a 1-d int32 array"):
        utils.histogram(values, full(2, 0.0), 0, 1)
