"""Radix sort against NumPy's stable sort: sizes around the block, equal keys, all types, any number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, full
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


KEYS = [k.int32, k.uint32, k.float32, k.int64, k.uint64, k.float64]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KEYS), st.sampled_from([None, *KEYS]), st.binary(max_size=400), st.integers(0, 3))
def test_any_keys_and_values(dtype, kind, data, distinct):
    """Keys of any bits, NaN of either sign among them, and more than once."""
    keys = np.frombuffer(data[: len(data) // 8 * 8], dtype.name).repeat(1 + distinct)
    n, order = len(keys), np.argsort(keys, kind="stable")
    a = array(keys, dtype=dtype)
    values = None if kind is None else array(np.arange(n), dtype=kind)
    RadixSort(n, "cpu", dtype, kind).run(a, values, n)
    assert a.numpy().tobytes() == keys[order].tobytes()
    if values is not None:
        np.testing.assert_array_equal(values.numpy(), order)


@pytest.mark.parametrize("dtype", [k.uint32, k.float32, k.float64])
def test_equal_keys_and_few_digits_stay_in_order(dtype, device):
    n = 3 * BLOCK + 1
    for keys in (np.full(n, 7), np.arange(n) % 2 * 256, -np.zeros(n) if dtype is not k.uint32 else np.zeros(n)):
        a, order = array(keys, dtype=dtype, device=device), array(np.arange(n), dtype=int, device=device)
        radix_sort_pairs(a, order)
        np.testing.assert_array_equal(order.numpy(), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("n", [BLOCK * 256 - 1, BLOCK * 256 + 1])
def test_blocks_grow_where_there_are_many(n, rng):
    keys = rng.integers(0, 2**16, n).astype(np.uint32)
    a = array(np.append(keys, np.uint32(0)), dtype=k.uint32)
    room = RadixSort(n + 1, "cpu", k.uint32, None)
    room.run(a, None, n, 16)
    np.testing.assert_array_equal(a.numpy()[:n], np.sort(keys))
    small = full(1000, 5, dtype=k.uint32)
    room.run(small, None, 1000)  # fewer than the capacity
    assert (small.numpy() == 5).all()
