"""Views against NumPy's own, on random shapes and indices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.compiler import lang as k
from engine.context import array, zeros
from engine.context import array_views as views

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)
LAYOUTS = st.sampled_from(["aos", "planes", "rows"])


def filled(shape, layout):
    data = np.arange(np.prod(shape) * 3, dtype=np.float32).reshape(*shape, 3)
    return array(data, dtype=k.vec3, layout=layout), data


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_index_agrees_with_numpy(data):
    shape = data.draw(SHAPES)
    a, reference = filled(shape, data.draw(LAYOUTS))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    keys = key if isinstance(key, tuple) else (key,)
    full = keys if Ellipsis in keys else (*keys, Ellipsis)
    expected = reference[(*full, slice(None))]
    if expected.ndim - 1 > views.MAX_DIMS:
        with pytest.raises(IndexError, match="at most 4 dimensions"):
            a[key]
        return
    got = a[key]
    if isinstance(got, array):
        assert got.shape == expected.shape[:-1]
        np.testing.assert_array_equal(got.numpy(), expected)
        if got.size:
            assert np.shares_memory(got.numpy(), a.numpy())
    else:
        np.testing.assert_array_equal(np.asarray(got), expected)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_store_agrees_with_numpy(data):
    shape = data.draw(SHAPES)
    a, reference = filled(shape, data.draw(LAYOUTS))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=False, allow_ellipsis=False))
    a[key] = k.vec3(-1, -2, -3)
    reference[key] = (-1, -2, -3)
    np.testing.assert_array_equal(a.numpy(), reference)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_view_of_view_and_transpose(data):
    shape = data.draw(SHAPES)
    a, reference = filled(shape, data.draw(LAYOUTS))
    axes = data.draw(st.permutations(range(len(shape))))
    turned = a.transpose(axes)
    np.testing.assert_array_equal(turned.numpy(), reference.transpose(*axes, len(shape)))
    np.testing.assert_array_equal(turned[::-1].numpy(), reference.transpose(*axes, len(shape))[::-1])
    np.testing.assert_array_equal(turned.contiguous().numpy(), turned.numpy())
    assert turned.contiguous().is_contiguous
    np.testing.assert_array_equal(a.transpose().numpy(), reference.transpose(*range(len(shape))[::-1], len(shape)))


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_reshape_agrees_with_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    a, reference = filled(shape, data.draw(LAYOUTS))
    size = int(np.prod(shape))
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    first = data.draw(st.sampled_from(divisors))
    np.testing.assert_array_equal(a.reshape((first, -1)).numpy(), reference.reshape(first, -1, 3))
    np.testing.assert_array_equal(a.reshape(first, size // first).numpy(), reference.reshape(first, -1, 3))
    np.testing.assert_array_equal(a.flatten().numpy(), reference.reshape(-1, 3))


def test_reshape_refuses():
    a = zeros((2, 3))
    with pytest.raises(ValueError, match=r"shape \(2, 3\) \(size 6\) into shape \(4, -1\)"):
        a.reshape((4, -1))
    with pytest.raises(ValueError, match=r"into shape \(-1, -1\)"):
        a.reshape((-1, -1))
    with pytest.raises(ValueError, match="non-contiguous arrays is unsupported"):
        a.transpose().reshape(6)
    with pytest.raises(ValueError, match="permutation of 0 … 1"):
        a.transpose((0, 0))


def test_no_address_arithmetic_on_empty_selections():
    assert views.index((4,), (8,), slice(9, 3)) == (0, (0,), (8,))
    assert zeros(0)[::-1].shape == (0,)
