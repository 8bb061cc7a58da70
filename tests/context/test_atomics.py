"""Atomics of every scalar type and operation, many threads on one element: the result of any order."""

import functools
import operator

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, launch

N = 5000
INTEGERS = [k.int8, k.int16, k.int32, k.int64, k.uint8, k.uint16, k.uint32, k.uint64]


def kernels(dtype):
    @k.kernel
    def all_of(x: k.array(dtype=dtype), out: k.array(dtype=dtype)):
        i = k.tid()
        k.atomic_add(out, 0, x[i])
        k.atomic_sub(out, 1, x[i])
        k.atomic_min(out, 2, x[i])
        k.atomic_max(out, 3, x[i])

    @k.kernel
    def bits_of(x: k.array(dtype=dtype), out: k.array(dtype=dtype)):
        i = k.tid()
        k.atomic_and(out, 0, x[i])
        k.atomic_or(out, 1, x[i])
        k.atomic_xor(out, 2, x[i])

    return all_of, bits_of


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_integers_wrap_and_agree_with_any_order(dtype, device, rng):
    info = np.iinfo(dtype.name)
    x = rng.integers(info.min, info.max, N, dtype.name, endpoint=True)
    all_of, bits_of = kernels(dtype)
    out, bits = (array(np.array(start, dtype.name), dtype=dtype, device=device) for start in ([0] * 4, [0] * 3))
    bits[0] = x[0]
    out[2] = out[3] = x[0]
    with config.scope(threads=4):
        launch(all_of, N, [array(x, device=device), out], device=device)
        launch(bits_of, N, [array(x, device=device), bits], device=device)
    with np.errstate(over="ignore"):
        total = x.sum(dtype=dtype.name)
    expected = [total, np.array(0, dtype.name) - total, x.min(), x.max()]
    np.testing.assert_array_equal(out.numpy(), np.array(expected, dtype.name))
    folded = [functools.reduce(op, x.tolist()) for op in (operator.and_, operator.or_, operator.xor)]
    assert bits.list() == folded


@pytest.mark.parametrize("dtype", [k.float16, k.float32, k.float64], ids=repr)
def test_floats(dtype, device, rng):
    x = rng.integers(-3, 4, 500).astype(dtype.name)  # whole numbers: the sum is exact in any order
    all_of, _ = kernels(dtype)
    out = array(np.array([0, 0, 9, -9], dtype.name), device=device)
    with config.scope(threads=4):
        launch(all_of, 500, [array(x, device=device), out], device=device)
    total = x.astype(np.float64).sum()
    assert out.list() == [total, -total, x.min(), x.max()]
