"""Run-length encoding, segmented sorting, compaction, scans and sorts of all types, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, full, zeros
from engine.kernels.scan import BLOCK, scan
from engine.kernels.segments import compact, encode_runs, order_of_segments
from engine.kernels.sort import order_of, reorder

KEYS = [k.int32, k.uint32, k.float32, k.int64, k.uint64, k.float64]


def random_keys(dtype, n, rng):
    numpy = np.dtype(dtype.name)
    if numpy.kind == "f":
        special = np.array([0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-40], numpy)
        keys = (rng.normal(size=n) * 10.0 ** rng.integers(-5, 6, n)).astype(numpy)
        keys[: len(special)] = special[:n]
        return rng.permutation(keys)
    info = np.iinfo(numpy)
    return rng.integers(info.min, info.max, n, numpy, endpoint=True)


@pytest.mark.parametrize("dtype", KEYS, ids=repr)
@pytest.mark.parametrize("n", [0, 1, 7, 5000])
def test_order_of_any_keys_is_the_stable_one(dtype, n, device, rng):
    keys = random_keys(dtype, n, rng)
    a = array(keys, dtype=dtype, device=device)
    order = order_of(a, n)
    np.testing.assert_array_equal(order.numpy()[:n], np.argsort(keys, kind="stable"))
    reorder(a, order, n)
    np.testing.assert_array_equal(a.numpy(), np.sort(keys, kind="stable"))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("dtype", [k.int32, k.float64])
def test_segments_are_sorted_each_by_itself(dtype, threads, device, rng):
    n = 9000
    keys = random_keys(dtype, n, rng)
    cuts = np.sort(rng.choice(n, 40, replace=False)).astype(np.int32)
    starts, ends = cuts[:-1], cuts[1:]
    starts, ends = starts[::2], ends[::2]  # with gaps, whose elements stay
    with config.scope(threads=threads):
        first, last = array(starts, device=device), array(ends, device=device)
        order = order_of_segments(array(keys, dtype=dtype, device=device), n, first, last)
    expected = np.arange(n)
    for lo, hi in zip(starts, ends, strict=True):
        expected[lo:hi] = lo + np.argsort(keys[lo:hi], kind="stable")
    np.testing.assert_array_equal(order.numpy(), expected)


@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.int64, st.integers(0, 60), elements=st.integers(-2, 2)))
def test_runs(values):
    n = len(values)
    run_values, lengths, count = zeros(n, dtype=k.int64), zeros(n, dtype=int), full(1, -1)
    encode_runs(array(values, dtype=k.int64), run_values, lengths, count, n)
    edges = np.flatnonzero(np.diff(values)) + 1
    runs = np.split(values, edges) if n else []
    assert count[0] == len(runs)
    assert run_values.list()[: count[0]] == [run[0] for run in runs]
    assert lengths.list()[: count[0]] == [len(run) for run in runs]


@pytest.mark.parametrize("n", [0, 1, 1000, 3 * BLOCK + 5])
def test_compaction(n, device, rng):
    marks = rng.integers(0, 2, n).astype(np.int32)
    positions, count = zeros(n, dtype=int, device=device), full(1, -1, device=device)
    compact(array(marks, dtype=int, device=device), positions, count, n)
    expected = np.flatnonzero(marks)
    assert count[0] == len(expected)
    np.testing.assert_array_equal(positions.numpy()[: len(expected)], expected)


@pytest.mark.parametrize("dtype", [k.int64, k.float64, k.vec3i, k.vec2d], ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_scan_of_any_type(dtype, n, device, rng):
    out = zeros(n, dtype=dtype, device=device)
    values = rng.integers(-50, 50, out.numpy().shape).astype(out.numpy().dtype)
    scan(array(values, dtype=dtype, device=device), out, inclusive=True)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(values, axis=0))
    scan(array(values, dtype=dtype, device=device), out)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(values, axis=0) - values)
