"""Prefix sums against NumPy: empty, one element, block borders, several levels, in place, any number of threads."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, full, zeros
from engine.kernels.reduce import COLUMNS
from engine.kernels.scan import LINE, MANY, Scan, scan

SIZES = [0, 1, 2, LINE - 1, LINE, LINE + 1, 5 * LINE + 7, LINE * LINE + 3, (MANY + 1) * LINE, (MANY + 1) * LINE + 9]


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


@pytest.mark.parametrize("n", [1, 3 * LINE + 5])
def test_scan_in_place(n, device, rng):
    values = rng.integers(0, 9, n).astype(np.int32)
    a = array(values, dtype=int, device=device)
    scan(a, a)
    assert np.array_equal(a.numpy(), np.cumsum(values) - values)


def test_scan_of_a_part_leaves_the_rest(device):
    workspace = Scan(10 * LINE, device)
    src = full(10 * LINE, 1, dtype=int, device=device)
    dst = full(10 * LINE, 7, dtype=int, device=device)
    workspace.run(src, dst, 2 * LINE + 1)
    assert np.array_equal(dst.numpy()[: 2 * LINE + 1], np.arange(2 * LINE + 1))
    assert dst.numpy()[2 * LINE + 1] == 2 * LINE + 1
    assert (dst.numpy()[2 * LINE + 2 :] == 7).all()


def test_scan_wraps_like_int32(device):
    src = array(np.array([2**31 - 1, 1, 5], np.int32), dtype=int, device=device)
    dst = zeros(3, dtype=int, device=device)
    scan(src, dst, inclusive=True)
    assert np.array_equal(dst.numpy(), np.cumsum(src.numpy(), dtype=np.int32))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_scan_with_any_number_of_threads(threads, device, rng):
    values = rng.integers(0, 100, 100 * LINE + 1).astype(np.int32)
    dst = zeros(len(values), dtype=k.int32, device=device)
    with config.scope(threads=threads):
        scan(array(values, dtype=int, device=device), dst)
    assert np.array_equal(dst.numpy(), np.cumsum(values) - values)


def in_lines(values, inclusive):
    """The sums in the order of the scan: lines in ascending order, each from the sum of those before it."""
    n = len(values)
    lines = [values[i : i + LINE] for i in range(0, n, LINE)]
    offsets = np.zeros(1, np.float32)
    if len(lines) > 1:
        totals = [np.cumsum(part)[-1] for part in lines]
        if len(lines) >= MANY:
            totals[:-1] = [np.cumsum(np.cumsum(part.reshape(-1, COLUMNS), axis=0)[-1])[-1] for part in lines[:-1]]
        offsets = in_lines(np.array(totals), False)
    found = [in_fours(part, total) for part, total in zip(lines, offsets, strict=True)]
    sums, after = np.concatenate([s for s, _ in found]), np.concatenate([s for _, s in found])
    return after if inclusive else sums


def in_fours(line, total):
    """(exclusive, inclusive sums) of a line."""
    before, after = [], []
    whole = len(line) // 4 * 4
    for a, b, c, d in line[:whole].reshape(-1, 4):
        ab = a + b
        sums = [total + a, total + ab, total + (ab + c), total + (ab + (c + d))]
        before += [total, *sums[:3]]
        after += sums
        total = sums[3]
    for a in line[whole:]:
        before.append(total)
        total = total + a
        after.append(total)
    return np.array(before, np.float32), np.array(after, np.float32)


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("n", [5 * LINE, (MANY + 2) * LINE + 1])
def test_floats_are_added_in_one_order(n, inclusive, device, rng):
    values = (rng.normal(size=n) * 10.0 ** rng.integers(-6, 6, n)).astype(np.float32)
    src = array(values, device=device)
    for threads in (1, 3):
        dst = full(n + 1, np.nan, dtype=float, device=device)
        with config.scope(threads=threads):
            scan(src, dst, inclusive)
        assert dst.numpy()[:n].tobytes() == in_lines(values, inclusive).tobytes()
        assert np.isnan(dst.numpy()[n]) == inclusive
