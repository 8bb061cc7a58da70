"""Run-length encoding, segmented sorting, compaction, scans and sorts of all types, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine import utils
from engine.compiler import lang as k
from engine.config import config
from engine.context import ScopedCapture, array, capture_launch, full, zeros
from engine.errors import ArgumentError
from engine.kernels import segments
from engine.kernels.scan import LINE, scan
from engine.kernels.segments import compact, encode_runs, order_of_segments
from engine.kernels.sort import order_of, reorder

KEYS = [k.int32, k.uint32, k.float32, k.int64, k.uint64, k.float64]


def random_keys(dtype, n, rng):
    numpy = np.dtype(dtype.name)
    if numpy.kind == "f":
        special = np.array([0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-40, np.nan, -np.nan], numpy)
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


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("n", [0, 1, 1000, 3 * segments.BLOCK + 5])
def test_compaction(n, share, device, rng):
    marks = (rng.random(n) < share).astype(np.int32)
    positions, count = full(n, -1, dtype=int, device=device), full(1, -1, dtype=int, device=device)
    compact(array(marks, dtype=int, device=device), positions, count, n)
    expected = np.flatnonzero(marks)
    assert count[0] == len(expected)
    np.testing.assert_array_equal(positions.numpy()[: len(expected)], expected)
    assert (positions.numpy()[len(expected) :] == -1).all()


def test_compaction_takes_any_mark_that_is_not_zero():
    positions = full(5, -1, dtype=int)
    assert utils.compact(array([7, 0, -3, 0, 1]), positions) == 3 and positions.list() == [0, 2, 4, -1, -1]
    with pytest.raises(ArgumentError, match="positions must hold 5 elements, got 4"):
        utils.compact(array([7, 0, -3, 0, 1]), positions[:4])


# --- reducing segments ------------------------------------------------------------------------------------------------


def in_order(piece, op):
    """NumPy accumulates in order, element by element, where `sum` adds in pairs."""
    return {"sum": np.cumsum(piece, dtype=piece.dtype)[-1], "min": np.fmin.reduce(piece),
            "max": np.fmax.reduce(piece)}[op]  # fmt: skip


def reduced(values, op, nothing):
    """What a segment reduces to, in the order that the docstring promises."""
    cuts = range(0, len(values), segments.BLOCK)
    parts = [in_order(values[i : i + segments.BLOCK], op) for i in cuts]
    return in_order(np.array(parts, values.dtype), op) if parts else nothing


@pytest.mark.parametrize("op", segments.OPERATIONS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_segments_reduce_in_order(op, dtype, threads, device, rng):
    size = segments.BLOCK
    lengths = np.array([0, 1, 5, size, size + 1, 0, 7 * size + 3, 2, 0])
    values = (rng.normal(size=lengths.sum()) * 1000).astype(np.int64).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values *= rng.random(len(values)).astype(dtype)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    a, cuts = array(values, device=device), array(bounds, device=device)
    with config.scope(threads=threads):
        found = utils.segmented_reduce(a, cuts, op=op).numpy()
    info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    infinite = np.array([np.inf, -np.inf], dtype) if np.dtype(dtype).kind == "f" else [info.max, info.min]
    nothing = {"sum": dtype(0), "min": infinite[0], "max": infinite[1]}[op]
    expected = [reduced(values[i:j], op, nothing) for i, j in zip(bounds[:-1], bounds[1:], strict=True)]
    assert found.tobytes() == np.array(expected, dtype).tobytes()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), max_size=30))
def test_segments_may_overlap(pairs):
    values = np.arange(9000, dtype=np.int32) * 7919 % 1009
    bounds = np.sort(np.array(pairs, np.int32).reshape(-1, 2), axis=1)
    starts, ends = (array(np.ascontiguousarray(side), dtype=int) for side in bounds.T)
    found = utils.segmented_reduce(array(values), starts, ends)
    assert found.list() == [int(values[i:j].sum()) for i, j in bounds]


def test_minimum_and_maximum_do_not_count_nan(device):
    values = array(np.array([np.nan, 2.0, np.nan, 1.0, 3.0], np.float32), device=device)
    cuts = array([0, 4, 5], device=device)
    assert utils.segmented_reduce(values, cuts, op="min").list() == [1.0, 3.0]
    assert utils.segmented_reduce(values, cuts, op="max").list() == [2.0, 3.0]


def test_bad_segments():
    values = array([1, 2, 3])
    with pytest.raises(ArgumentError, match=r"Invalid segment range at index 0: \[0, 4\) is not within 0 … 3"):
        utils.segmented_reduce(values, array([0]), array([4]))
    with pytest.raises(ArgumentError, match="op must be one of sum, min, max, got 'mean'"):
        utils.segmented_reduce(values, array([0, 3]), op="mean")
    cuts, out = array([0, 3]), full(1, -1, dtype=int)
    with ScopedCapture() as capture:  # where only the replay knows the segments
        utils.segmented_reduce(values, cuts, out=out)
    cuts.assign([0, 2**31 - 1])
    capture_launch(capture.graph)
    assert out[0] == 0


def test_all_of_it_in_a_graph(rng):
    n = 5000
    keys, values = rng.integers(0, 9, n).astype(np.int32), np.arange(n, dtype=np.int32)
    room = np.zeros(n, np.int32)
    a, b = array(np.concatenate([keys, room])), array(np.concatenate([values, room]))
    cuts, sums = array([0, 1000, n]), full(2, -1, dtype=int)
    runs, lengths, count = full(n, -1, dtype=int), full(n, -1, dtype=int), full(1, -1, dtype=int)
    positions, found = full(n, -1, dtype=int), full(1, -1, dtype=int)
    with ScopedCapture() as capture:
        utils.segmented_sort_pairs(a, b, n, cuts)
        utils.segmented_reduce(a[:n], cuts, out=sums)
        utils.runlength_encode(a[:n], runs, lengths, count)
        utils.compact(a[:n], positions, found)
    capture_launch(capture.graph)
    order = np.concatenate([np.argsort(keys[:1000], kind="stable"), 1000 + np.argsort(keys[1000:], kind="stable")])
    np.testing.assert_array_equal(b.numpy()[:n], order)
    expected = keys[order]
    assert sums.list() == [int(keys[:1000].sum()), int(keys[1000:].sum())]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(expected)) + 1, [n]])
    assert runs.list()[: count[0]] == expected[edges[:-1]].tolist()
    assert lengths.list()[: count[0]] == np.diff(edges).tolist()
    np.testing.assert_array_equal(positions.numpy()[: found[0]], np.flatnonzero(expected))


@pytest.mark.parametrize("dtype", [k.int64, k.float64, k.vec3i, k.vec2d], ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [1, LINE, LINE + 1, 3 * LINE + 7])
def test_scan_of_any_type(dtype, n, device, rng):
    out = zeros(n, dtype=dtype, device=device)
    values = rng.integers(-50, 50, out.numpy().shape).astype(out.numpy().dtype)
    scan(array(values, dtype=dtype, device=device), out, inclusive=True)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(values, axis=0))
    scan(array(values, dtype=dtype, device=device), out)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(values, axis=0) - values)
