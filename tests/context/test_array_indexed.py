"""Indexed arrays: the same elements as NumPy's open mesh, on the host and in kernels, for every layout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.compiler import lang as k
from engine.compiler import types
from engine.context import (
    array,
    clone,
    copy,
    indexedarray,
    indexedarray1d,
    indexedarray2d,
    indexedarray4d,
    launch,
    zeros,
    zeros_like,
)
from engine.errors import CompileError, LaunchError


@k.kernel
def double_rows(a: indexedarray(dtype=k.vec3, ndim=2), out: k.array(dtype=float, ndim=2)):
    i, j = k.tid()
    row = a[i]
    out[i, j] = a[i, j].y + row[j].z
    a[i, j] = a[i, j] * 2.0


@k.kernel
def double_planes(a: indexedarray(array(dtype=k.vec3, ndim=2, layout="planes")), out: k.array(dtype=float, ndim=2)):
    i, j = k.tid()
    row = a[i]
    out[i, j] = a[i, j].y + row[j].z
    a[i, j] = a[i, j] * 2.0


@k.kernel
def extents(a: indexedarray2d[int], out: k.array(dtype=int)):
    out[0] = a.shape[0]
    out[1] = a.shape[1]
    out[2] = len(a[0])
    k.atomic_add(a, 0, 1, 5)
    a[1, 1] += 7


def selections(shape):
    """A list of positions, or None, for each dimension."""
    one = [st.none() | st.lists(st.integers(0, extent - 1), max_size=6) for extent in shape]
    return st.tuples(*one)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_selects_what_an_open_mesh_selects(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5))
    chosen = data.draw(selections(shape))
    reference = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    a = array(reference)
    got = indexedarray(a, [None if one is None else array(one, dtype=int) for one in chosen])
    mesh = np.ix_(*[np.arange(n) if one is None else np.array(one, int) for one, n in zip(chosen, shape, strict=True)])
    np.testing.assert_array_equal(got.numpy(), reference[mesh])
    assert got.shape == reference[mesh].shape and got.size == reference[mesh].size and got.ndim == len(shape)
    np.testing.assert_array_equal(got.contiguous().numpy(), reference[mesh])
    got.fill_(-1)
    reference[mesh] = -1
    np.testing.assert_array_equal(a.numpy(), reference)


@pytest.mark.parametrize(("kernel", "layout"), [(double_rows, "aos"), (double_planes, "planes")])
@pytest.mark.parametrize("rows", [None, [2, 0]])
def test_kernels_read_and_write_through_the_lists(kernel, layout, rows, device):
    reference = np.arange(36, dtype=np.float32).reshape(4, 3, 3)
    data = array(reference, dtype=k.vec3, layout=layout, device=device)
    view = indexedarray(data, [None if rows is None else array(rows, device=device), array([2, 1], device=device)])
    out = zeros(view.shape, device=device)
    launch(kernel, view.shape, [view, out], device=device)
    mesh = np.ix_(np.arange(4) if rows is None else rows, [2, 1])
    np.testing.assert_array_equal(out.numpy(), reference[mesh][..., 1] + reference[mesh][..., 2])
    reference[mesh] *= 2
    np.testing.assert_array_equal(data.numpy(), reference)


def test_shape_and_atomics(device):
    data = zeros((4, 5), dtype=int, device=device)
    view = data[array([3, 1], device=device), 1:4]
    assert isinstance(view, indexedarray) and view.shape == (2, 3)
    out = zeros(3, dtype=int, device=device)
    launch(extents, 1, [view, out], device=device)
    assert out.list() == [2, 3, 3]
    assert data[3, 2] == 5 and data[1, 2] == 7 and int(data.numpy().sum()) == 12


def test_copies():
    data = array(np.arange(10, dtype=np.float32))
    view = data[array([7, 2, 5])]
    assert clone(view).list() == [7, 2, 5] and zeros_like(view).shape == (3,)
    copy(view, array([1.0, 2.0, 3.0]))
    assert data.list() == [0, 1, 2, 3, 4, 3, 6, 1, 8, 9]
    copy(view, array([8.0, 9.0]), dest_offset=1, count=2)
    assert view.list() == [1, 8, 9] and list(view) == [1, 8, 9]
    view.zero_()
    assert not view.numpy().any() and data[0] == 0 and data[1] == 1
    with pytest.raises(ValueError, match=r"shape \(3,\), got \(2,\)"):
        view.assign([1.0, 2.0])


def test_what_is_refused():
    data = zeros((3, 4))
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        indexedarray2d(data, [None, array([4])])
    with pytest.raises(IndexError, match="index -1 is out of bounds for axis 0"):
        data[array([-1])]
    with pytest.raises(IndexError, match="too many indices"):
        indexedarray(data, [None, None, None])
    with pytest.raises(TypeError, match="dimension 0 must be a 1-d int32 array"):
        indexedarray(data, [array([1.0])])
    with pytest.raises(ValueError, match="ndim=1 was asked for"):
        indexedarray1d(data, [array([1])])
    with pytest.raises(LaunchError, match="indexedarray"):
        launch(extents, 1, [zeros((2, 2), dtype=int), zeros(3, dtype=int)])


def test_annotations():
    assert indexedarray4d[k.vec3].ir_type == types.IndexedArray(types.Vector(types.float32, 3), 4)
    assert indexedarray[float, 2].ir_type == types.IndexedArray(types.float32, 2)
    assert indexedarray[float].ir_type != types.Array(types.float32)
    assert repr(indexedarray(array([1, 2]), [array([1])])) == "indexedarray(shape=(1,), dtype=int32, device='cpu')"


def test_a_slice_in_a_kernel_is_refused():
    @k.kernel
    def sliced(a: indexedarray2d[float]):
        row = a[0:2, 1]
        row[0] = 1.0

    with pytest.raises(CompileError, match="an indexed array cannot be sliced in a kernel"):
        launch(sliced, 1, [zeros((3, 3))[array([0]), array([1])]])
