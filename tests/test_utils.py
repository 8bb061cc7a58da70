"""engine.utils: results against NumPy, arguments that are refused and in which words, the scoped timer."""

import re

import numpy as np
import pytest

import engine
from engine import utils
from engine.config import config
from engine.errors import ArgumentError


@pytest.mark.parametrize("dtype", [engine.int32, engine.int64, engine.float64, engine.vec3i])
def test_scan(dtype, device, rng):
    out = engine.zeros((4, 50), dtype=dtype, device=device)
    values = rng.integers(-9, 9, out.numpy().shape).astype(out.numpy().dtype)
    flat = values.reshape(200, -1)
    a = engine.array(values, dtype=dtype, device=device)
    utils.array_scan(a, out)
    np.testing.assert_array_equal(out.numpy().reshape(200, -1), flat.cumsum(0))
    utils.array_scan(a, out, inclusive=False)
    np.testing.assert_array_equal(out.numpy().reshape(200, -1), flat.cumsum(0) - flat)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [engine.float32, engine.float64, engine.vec2])
def test_sums_and_inner_products(axis, dtype, device, rng):
    a, b = (engine.zeros((3, 4, 5), dtype=dtype, device=device) for _ in range(2))
    for x in (a, b):
        x.assign(rng.normal(size=x.numpy().shape))
    x, y = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
    at = (0, 1, 2) if axis is None else axis if axis is None or axis >= 0 else axis + 3
    products = x * y if x.ndim == 3 else (x * y).sum(-1)
    total = x.sum(at) if axis is None else x.sum(at, keepdims=True)
    inner = products.sum(at) if axis is None else products.sum(at, keepdims=True)
    for got, expected in ((utils.array_sum(a, axis=axis), total), (utils.array_inner(a, b, axis=axis), inner)):
        np.testing.assert_allclose(got if axis is None else got.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_sums_do_not_depend_on_the_number_of_threads(device, rng):
    a = engine.array(rng.normal(size=300_000), dtype=float, device=device)
    found = set()
    for threads in (1, 2, 4):
        with config.scope(threads=threads):
            found.add(float(utils.array_sum(a)))
    assert len(found) == 1


def test_sums_of_parts(device):
    a = engine.array(np.arange(12.0), dtype=float, shape=(3, 4), device=device)
    assert utils.array_sum(a, value_count=5) == 10
    out = engine.zeros((3, 1), device=device)
    assert utils.array_sum(a, out=out, value_count=2, axis=1) is out and out.numpy().ravel().tolist() == [1, 9, 17]
    assert utils.array_sum(a[:, ::2], axis=0).numpy().tolist() == [[12, 18]]
    assert utils.array_sum(engine.zeros(0, dtype=engine.vec3, device=device)).tolist() == [0, 0, 0]
    with pytest.raises(IndexError, match=r"array_sum\(\) axis 2 is out of bounds"):
        utils.array_sum(a, axis=2)
    with pytest.raises(ArgumentError, match="Unsupported data type: int32"):
        utils.array_sum(engine.zeros(3, dtype=int))
    with pytest.raises(ArgumentError, match=r"must have the same shape, got \(3, 4\) and \(3,\)"):
        utils.array_inner(a, engine.zeros(3, device=device))


def test_casts(device):
    out = engine.zeros((2, 2), device=device)
    utils.array_cast(engine.array([1, 2, 3, 4], device=device), out)
    assert out.numpy().tolist() == [[1, 2], [3, 4]]
    flat = engine.zeros(6, dtype=engine.float64, device=device)
    utils.array_cast(engine.array([[1, 2, 3], [4, 5, 6]], dtype=engine.vec3, device=device), flat)
    assert flat.list() == [1, 2, 3, 4, 5, 6]
    utils.array_cast(engine.array([2.9, -2.9, 7.0], device=device), flat, count=2)
    assert flat.list() == [float(np.float32(2.9)), float(np.float32(-2.9)), 3, 4, 5, 6]
    with pytest.raises(ArgumentError, match=r"Cast count \(6\) exceeds the input size \(6\) or output size \(4\)"):
        utils.array_cast(flat, out.flatten())


KEYS = [engine.int32, engine.uint32, engine.float32, engine.int64, engine.uint64, engine.float64]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", [engine.int32, engine.float64, engine.uint64])
def test_sort(key, value, device, rng):
    n = 3000
    keys = rng.integers(0, 50, 2 * n).astype(key.name)
    a = engine.array(keys, dtype=key, device=device)
    b = engine.array(np.arange(2 * n), dtype=value, device=device)
    utils.radix_sort_pairs(a, b, n)
    order = np.argsort(keys[:n], kind="stable")
    np.testing.assert_array_equal(a.numpy()[:n], keys[:n][order])
    np.testing.assert_array_equal(b.numpy()[:n], order)
    np.testing.assert_array_equal(a.numpy()[n:], keys[n:])


def test_sort_by_some_bits(device):
    keys = engine.array([8, 1, 10, 3, 4, 5] + [0] * 6, device=device)
    values = engine.array(list(range(12)), device=device)
    utils.radix_sort_pairs(keys, values, 6, end_bit=2)
    assert keys.list()[:6] == [8, 4, 1, 5, 10, 3] and values.list()[:6] == [0, 4, 1, 5, 2, 3]
    for options, message in (({"begin_bit": 4, "end_bit": 2}, r"bit range \[4, 2\) for 32-bit keys"),
                             ({"count": 7}, r"must be large enough to contain 2\*count elements"),
                             ({"count": -1}, "count must be non-negative")):  # fmt: skip
        with pytest.raises(ArgumentError, match=message):
            utils.radix_sort_pairs(keys, values, **{"count": 6, **options})


def test_sort_of_keys_alone(device):
    keys = engine.array([[3.0, float("nan"), -1.0], [0.0, -float("inf"), 2.0]], device=device)
    utils.radix_sort_keys(keys)
    np.testing.assert_array_equal(keys.numpy().ravel(), [-np.inf, -1, 0, 2, 3, np.nan])
    part = engine.array([5, 4, 3, 2, 1], device=device)
    utils.radix_sort_keys(part, 3)
    assert part.list() == [3, 4, 5, 2, 1]
    for message, a, count in (("Unsupported data type: int8", engine.zeros(3, dtype=engine.int8), None),
                              ("count 6 is not one of 0 … 5", part, 6),
                              ("contiguous array", part[::2], None)):  # fmt: skip
        with pytest.raises(ArgumentError, match=message):
            utils.radix_sort_keys(a, count)


def test_segmented_sort(device):
    keys = engine.array([7, 2, 8, 4, 1, 6, 5, 3] + [0] * 8, device=device)
    values = engine.array(list(range(16)), device=device)
    utils.segmented_sort_pairs(keys, values, 8, engine.array([0, 4, 8], device=device))
    assert keys.list()[:8] == [2, 4, 7, 8, 1, 3, 5, 6] and values.list()[:8] == [1, 3, 0, 2, 4, 7, 6, 5]
    before = keys.list()
    with pytest.raises(ArgumentError, match=r"Invalid segment range at index 1: \[2, 9\) is not within 0 … 8"):
        utils.segmented_sort_pairs(keys, values, 8, engine.array([0, 2], device=device),
                                   engine.array([2, 9], device=device))
    assert keys.list() == before


def test_run_lengths(device):
    values = engine.array([4, 4, 4, 1, 4, 4], device=device)
    runs, lengths = engine.zeros(6, dtype=int, device=device), engine.zeros(6, dtype=int, device=device)
    assert utils.runlength_encode(values, runs, lengths) == 3
    assert runs.list()[:3] == [4, 1, 4] and lengths.list()[:3] == [3, 1, 2]
    count = engine.zeros(1, dtype=int, device=device)
    assert utils.runlength_encode(values, runs, lengths, count, value_count=2) is None and count[0] == 1
    with pytest.raises(ArgumentError, match="Unsupported data type: float32"):
        utils.runlength_encode(engine.zeros(2, device=device), engine.zeros(2, device=device), lengths)


def test_scoped_timer(capsys):
    times = {}
    with engine.ScopedTimer("outer", dict=times) as timer, engine.ScopedTimer("inner"):
        pass
    inner, outer = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"  inner took \d+\.\d\d ms", inner) and re.fullmatch(r"outer took \d+\.\d\d ms", outer)
    assert times == {"outer": [timer.elapsed]} and timer.elapsed > 0
    reported = []
    with engine.ScopedTimer("quiet", report_func=lambda timer, text: reported.append((timer.name, text))):
        pass
    with engine.ScopedTimer("off", active=False), engine.ScopedTimer("silent", print=False):
        pass
    assert reported[0][0] == "quiet" and capsys.readouterr().out == ""


def test_transform_of_seven_numbers():
    t = engine.transform_expand((1.0, 2.0, 3.0, 0.0, 0.6, 0.0, 0.8))
    assert t == engine.transform(engine.vec3(1, 2, 3), engine.quat(0.0, 0.6, 0.0, 0.8))
