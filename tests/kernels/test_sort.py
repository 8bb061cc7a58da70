"""Radix sort against NumPy's stable sort: sizes around the block, equal keys, key widths, any number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler import lang as k
from engine.config import config
from engine.context import array
from engine.kernels.sort import BLOCK, RadixSort, radix_sort_pairs


def sorted_on_device(keys: np.ndarray, values: np.ndarray, bits: int, device: str):
    a = array(keys, dtype=k.uint64, device=device)
    b = array(values, dtype=int, device=device)
    radix_sort_pairs(a, b, bits)
    return a.numpy().copy(), b.numpy().copy()


@pytest.mark.parametrize("n", [0, 1, 2, 255, BLOCK, BLOCK + 1, 7 * BLOCK + 11, 200_000])
@pytest.mark.parametrize("bits", [1, 8, 20, 64])
def test_sort_equals_a_stable_argsort(n, bits, device, rng):
    keys = rng.integers(0, 2**bits, n, dtype=np.uint64, endpoint=False) if bits < 64 else rng.integers(
        0, 2**64, n, dtype=np.uint64, endpoint=False)  # fmt: skip
    values = np.arange(n, dtype=np.int32)
    order = np.argsort(keys, kind="stable")
    got_keys, got_values = sorted_on_device(keys, values, bits, device)
    assert np.array_equal(got_keys, keys[order])
    assert np.array_equal(got_values, values[order])


def test_sort_looks_at_the_lowest_bits_only(device):
    keys = np.array([0x300, 0x101, 0x200], np.uint64)
    got_keys, got_values = sorted_on_device(keys, np.arange(3, dtype=np.int32), 8, device)
    assert list(got_keys) == [0x300, 0x200, 0x101]
    assert list(got_values) == [0, 2, 1]


def test_sort_of_a_part_leaves_the_rest(device, rng):
    keys = rng.integers(0, 1000, 5000, dtype=np.uint64)
    a = array(keys, dtype=k.uint64, device=device)
    b = array(np.arange(5000, dtype=np.int32), dtype=int, device=device)
    RadixSort(5000, device).run(a, b, 3000, 10)
    assert np.array_equal(a.numpy()[:3000], np.sort(keys[:3000]))
    assert np.array_equal(a.numpy()[3000:], keys[3000:])
    assert np.array_equal(b.numpy()[3000:], np.arange(3000, 5000))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_sort_with_any_number_of_threads(threads, device, rng):
    keys = rng.integers(0, 50, 40 * BLOCK + 1, dtype=np.uint64)
    with config.scope(threads=threads):
        got_keys, got_values = sorted_on_device(keys, np.arange(len(keys), dtype=np.int32), 64, device)
    assert np.array_equal(got_values, np.argsort(keys, kind="stable"))
    assert np.array_equal(got_keys, np.sort(keys))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=300))
def test_sort_of_any_keys(keys):
    keys = np.array(keys, np.uint64)
    got_keys, got_values = sorted_on_device(keys, np.arange(len(keys), dtype=np.int32), 64, "cpu")
    assert np.array_equal(got_keys, np.sort(keys))
    assert np.array_equal(got_values, np.argsort(keys, kind="stable"))
