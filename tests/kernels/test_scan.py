"""Prefix sums against NumPy: empty, one element, block borders, several levels, in place, any number of threads."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, full, zeros
from engine.kernels.scan import BLOCK, Scan, scan

SIZES = [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 7, BLOCK * BLOCK + 3]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("inclusive", [False, True])
def test_scan_equals_cumsum(n, inclusive, device, rng):
    values = rng.integers(-50, 50, n).astype(np.int32)
    src = array(values, dtype=int, device=device)
    dst = full(n + 1, -12345, dtype=int, device=device)
    scan(src, dst, inclusive)
    sums = np.cumsum(values)
    assert np.array_equal(dst.numpy()[:n], sums if inclusive else sums - values)
    assert dst.numpy()[n] == (-12345 if inclusive else values.sum())
    assert np.array_equal(src.numpy(), values)


@pytest.mark.parametrize("n", [1, 3 * BLOCK + 5])
def test_scan_in_place(n, device, rng):
    values = rng.integers(0, 9, n).astype(np.int32)
    a = array(values, dtype=int, device=device)
    scan(a, a)
    assert np.array_equal(a.numpy(), np.cumsum(values) - values)


def test_scan_of_a_part_leaves_the_rest(device):
    workspace = Scan(10 * BLOCK, device)
    src = full(10 * BLOCK, 1, dtype=int, device=device)
    dst = full(10 * BLOCK, 7, dtype=int, device=device)
    workspace.run(src, dst, 2 * BLOCK + 1)
    assert np.array_equal(dst.numpy()[: 2 * BLOCK + 1], np.arange(2 * BLOCK + 1))
    assert dst.numpy()[2 * BLOCK + 1] == 2 * BLOCK + 1
    assert (dst.numpy()[2 * BLOCK + 2 :] == 7).all()


def test_scan_wraps_like_int32(device):
    src = array(np.array([2**31 - 1, 1, 5], np.int32), dtype=int, device=device)
    dst = zeros(3, dtype=int, device=device)
    scan(src, dst, inclusive=True)
    assert np.array_equal(dst.numpy(), np.cumsum(src.numpy(), dtype=np.int32))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_scan_with_any_number_of_threads(threads, device, rng):
    values = rng.integers(0, 100, 100 * BLOCK + 1).astype(np.int32)
    dst = zeros(len(values), dtype=k.int32, device=device)
    with config.scope(threads=threads):
        scan(array(values, dtype=int, device=device), dst)
    assert np.array_equal(dst.numpy(), np.cumsum(values) - values)
