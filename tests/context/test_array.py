"""Arrays: conversion in, zero-copy in and out, layouts, host access, and the errors of each."""

import gc
import weakref

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.compiler import types
from engine.compiler.values import matrix
from engine.context import (
    array,
    array2d,
    array3d,
    clone,
    copy,
    empty,
    empty_like,
    from_numpy,
    from_torch,
    full,
    full_like,
    launch,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from engine.errors import DeviceError, LaunchError


@k.struct
class Contact:
    key: k.uint64
    depth: float
    normal: k.vec3
    live: bool


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        ([1, 2, 3], types.int32, (3,)),
        ([1.0, 2, 3], types.float32, (3,)),
        ([True, False], types.bool_, (2,)),
        ([[1, 2], [3, 4]], types.int32, (2, 2)),
        (7, types.int32, (1,)),
        (np.arange(3), types.int64, (3,)),
        (np.float64(3), types.float64, (1,)),
        ([np.uint8(3)], types.uint8, (1,)),
        ([k.vec3(1, 2, 3)], k.vec3, (1,)),
        (k.vec3(1, 2, 3), k.vec3, (1,)),
        ([[k.quat(0, 0, 0, 1)] * 2] * 3, k.quat, (3, 2)),
        ([Contact(depth=2.0)], Contact, (1,)),
    ],
)
def test_dtype_is_inferred(data, dtype, shape):
    a = array(data)
    assert (a.dtype, a.shape, a.size, a.ndim, len(a)) == (dtype, shape, int(np.prod(shape)), len(shape), shape[0])


def test_vectors_take_an_inner_dimension():
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    a = array(data, dtype=k.vec3)
    assert a.shape == (4,) and a.dtype is k.vec3
    assert a[2] == k.vec3(6, 7, 8) and isinstance(a[2], k.vec3)
    data[:] = 0
    assert a[2] == k.vec3(6, 7, 8)  # a copy
    np.testing.assert_array_equal(a.numpy()[1], [3, 4, 5])


@pytest.mark.parametrize("layout", ["aos", "planes", "rows"])
@pytest.mark.parametrize("dtype", [float, k.uint8, k.vec3, k.mat33, k.quat, k.transform, k.spatial_vector, k.vec3d])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (0,), (2, 1, 3, 2)])
def test_layouts_show_numpy_the_same_elements(layout, dtype, shape, rng):
    a = zeros(shape, dtype=dtype, layout=layout)
    inner = a.numpy().shape[len(shape) :]
    data = rng.integers(0, 100, (*shape, *inner)).astype(a.numpy().dtype)
    a.assign(data)
    np.testing.assert_array_equal(a.numpy(), data)
    np.testing.assert_array_equal(clone(a, layout="aos").numpy(), data)
    assert a.ptr % 64 == 0 and a.is_contiguous and a.layout == layout


def test_planes_and_rows_in_memory():
    planes = array([[1, 2, 3], [4, 5, 6]], dtype=k.vec3, layout="planes")
    assert planes.plane_stride == 64 and planes.strides == (4,) and planes.numpy().strides == (4, 64)
    rows = array([[1, 2, 3], [4, 5, 6]], dtype=k.vec3, layout="rows")
    assert rows.strides == (16,) and rows.numpy().strides == (16, 4)
    assert zeros(2, dtype=Contact).strides == (32,)  # 8 + 4 + 12 + 1, padded to the alignment of 8
    assert zeros(2, dtype=k.spatial_vector, layout="rows").strides == (32,)
    with pytest.raises(TypeError, match="planes of a struct are a table"):
        zeros(2, dtype=Contact, layout="planes")


def test_structs_are_records():
    a = array([Contact(key=2**63, depth=1.5, normal=k.vec3(1, 2, 3), live=True), Contact()])
    assert a.numpy().dtype.names == ("key", "depth", "normal", "live")
    assert a.numpy()["key"][0] == 2**63 and a.numpy()["normal"][0].tolist() == [1, 2, 3]
    assert a[0] == Contact(key=2**63, depth=1.5, normal=k.vec3(1, 2, 3), live=True)
    a[1] = Contact(depth=7.0)
    assert a.list()[1].depth == 7.0
    np.testing.assert_array_equal(array(a.numpy(), dtype=Contact).numpy(), a.numpy())


def test_numpy_is_a_view_and_keeps_the_memory():
    a = array([1.0, 2.0])
    view = a.numpy()
    view[0] = 9.0
    assert a[0] == 9.0 and view.ctypes.data == a.ptr
    np.testing.assert_array_equal(np.asarray(a), view)
    del a
    gc.collect()
    assert view.tolist() == [9.0, 2.0]


def test_from_numpy_shares_and_keeps_a_reference():
    class Owned(np.ndarray):
        pass

    data = np.arange(6, dtype=np.float32).reshape(2, 3).view(Owned)
    alive = weakref.ref(data)
    a = from_numpy(data, dtype=k.vec3, copy=False)
    data[1, 2] = 50.0
    assert a[1] == k.vec3(3, 4, 50) and a.ptr == data.ctypes.data
    a[0] = k.vec3(7, 8, 9)
    assert data[0].tolist() == [7, 8, 9]
    del data
    gc.collect()
    assert alive() is not None and a.numpy()[0, 0] == 7
    del a
    gc.collect()
    assert alive() is None


def test_from_numpy_takes_strided_data():
    data = np.arange(24, dtype=np.int32).reshape(4, 6)
    np.testing.assert_array_equal(from_numpy(data[::2, ::-1], copy=False).numpy(), data[::2, ::-1])
    columns = np.arange(12, dtype=np.float32).reshape(3, 4)  # a plane per row
    a = from_numpy(columns.T, dtype=k.vec3, layout="planes", copy=False)
    assert a.plane_stride == 16 and a[1] == k.vec3(1, 5, 9)


@pytest.mark.parametrize(
    ("data", "dtype", "message"),
    [
        (np.zeros(3), float, "needs float32, got float64"),
        (np.zeros((3, 4), np.float32), k.vec3, r"needs float32 of shape \(…, 3\), got float32 of shape \(3, 4\)"),
        (np.zeros((3, 6), np.float32)[:, ::2], k.vec3, "needs inner strides"),
        (np.broadcast_to(np.float32(1), (3,)), float, "writable"),
        (np.zeros(13, np.uint8)[1:].view(np.float32), float, "aligned"),
        (np.zeros(3, ">f4"), None, "no element type"),
        (np.zeros(3, np.complex64), None, "no element type"),
    ],
)
def test_from_numpy_refuses(data, dtype, message):
    with pytest.raises(TypeError, match=message):
        from_numpy(data, dtype=dtype, copy=False)


@pytest.mark.parametrize(
    ("data", "dtype", "error", "message"),
    [
        ([256], k.uint8, ValueError, "does not fit uint8"),
        ([-1], k.uint32, ValueError, "does not fit uint32"),
        (np.array([2**40]), int, ValueError, "does not fit int32"),
        ([2**70], k.int64, ValueError, "does not fit int64"),
        ([1.5], int, TypeError, "whole numbers"),
        ([np.nan], int, TypeError, "whole numbers"),
        ([[1, 2], [3]], int, TypeError, "different lengths"),
        (["a"], float, TypeError, "cannot make float32"),
        ([[1, 2]], k.vec3, TypeError, r"needs data of shape \(…, 3\), got \(1, 2\)"),
        ([k.vec4()], k.vec3, TypeError, "needs data of shape"),
        (k.quat(), k.vec4, TypeError, "expected vec4, got a quat"),
        ([1], object, TypeError, "not a type of the kernel language"),
        ([1.0], np.dtype("U3"), TypeError, "no element type"),
    ],
)
def test_data_that_do_not_fit(data, dtype, error, message):
    with pytest.raises(error, match=message):
        array(data, dtype=dtype)


def test_conversions_that_fit():
    assert array([2.0, -3.0], dtype=int).list() == [2, -3]
    assert array([1, 0], dtype=bool).list() == [True, False]
    assert array([], dtype=k.vec3).shape == (0,)
    assert array([((1, 2, 3), (0, 0, 0, 1))], dtype=k.transform)[0] == k.transform(k.vec3(1, 2, 3), k.quat(0, 0, 0, 1))
    assert array(np.arange(6.0), dtype=float, shape=(2, 3)).shape == (2, 3)
    assert array(array([1, 2]), dtype=k.float64).list() == [1.0, 2.0]
    a = array([1, 2])
    assert array(a, copy=False).ptr == a.ptr and array(a).ptr != a.ptr


@pytest.mark.parametrize("shape", [(-1,), (2**31,), (1, 1, 1, 1, 1), ()])
def test_bad_shapes(shape):
    with pytest.raises(ValueError, match="shape"):
        zeros(shape)


def test_filled_arrays():
    assert zeros(3).numpy().tolist() == [0, 0, 0]
    assert ones((2,), dtype=k.vec3).numpy().tolist() == [[1, 1, 1]] * 2
    assert full(2, 7).dtype == types.int32 and full(2, 7.0).dtype == types.float32
    assert full(2, k.vec3(1, 2, 3))[1] == k.vec3(1, 2, 3)
    assert full(2, (1, 2, 3), dtype=k.vec3)[1] == k.vec3(1, 2, 3)
    a = empty((2, 3), dtype=k.mat33, layout="planes")
    for like in (empty_like(a), zeros_like(a), ones_like(a), full_like(a, 5)):
        assert (like.shape, like.dtype, like.layout) == (a.shape, a.dtype, a.layout)
    assert full_like(a, 5).numpy().min() == 5
    assert array(shape=(2, 2), dtype=int).numpy().tolist() == [[0, 0], [0, 0]]
    assert a.zero_() is a and not a.numpy().any()
    with pytest.raises(ValueError, match="does not fit uint8"):
        zeros(3, dtype=k.uint8).fill_(300)
    with pytest.raises(TypeError, match="whole numbers"):
        zeros(3, dtype=int).fill_(0.5)


def test_assign_and_copy():
    a = zeros((2, 3), dtype=int)
    a.assign([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(ValueError, match=r"shape \(2, 3\), got \(3,\)"):
        a.assign([1, 2, 3])
    b = zeros((2, 3), dtype=int)
    copy(b, a)
    assert b.numpy().tolist() == a.numpy().tolist()
    line = array([1, 2, 3, 4])
    copy(line, line, dest_offset=0, src_offset=2, count=2)
    assert line.list() == [3, 4, 3, 4]
    with pytest.raises(ValueError, match="not a part"):
        copy(line, line, dest_offset=3, count=2)
    with pytest.raises(TypeError, match="equal element types"):
        copy(line, zeros(4))


def test_reinterpreting_views():
    a = array([1.0, 2.0])
    assert a.view(k.uint32).numpy().tolist() == [0x3F800000, 0x40000000]
    assert a.view(k.uint32).ptr == a.ptr
    assert array([[1, 2, 3, 4]], dtype=k.quat).view(k.vec4)[0] == k.vec4(1, 2, 3, 4)
    with pytest.raises(TypeError, match="dtype float64 from source dtype float32: source dtype has size 4 bytes, but"):
        a.view(k.float64)
    with pytest.raises(LaunchError, match="argument 'dtype' expects quat: components of 'planes'"):
        zeros(3, dtype=k.quat, layout="planes").view(k.vec4)


def test_annotations():
    assert array(dtype=k.vec3).ir_type == types.Array(types.Vector(types.float32, 3))
    assert array(dtype=float, ndim=2, layout="planes").ir_type == types.Array(types.float32, 2, "planes")
    assert array[float].ir_type == types.Array(types.float32)
    assert array2d(dtype=int).ir_type == array2d[int].ir_type == types.Array(types.int32, 2)
    assert not types.is_concrete(array().ir_type)
    assert array3d(np.zeros((1, 2, 3), np.float32)).shape == (1, 2, 3)
    with pytest.raises(ValueError, match="ndim=2 was asked for, but the data have 1"):
        array2d([1, 2])


def test_annotations_do_not_freeze_the_configuration():
    from engine.config import Config
    from engine.context import device_cpu

    fresh = Config({})
    kept, device_cpu.config = device_cpu.config, fresh
    try:
        array(dtype=k.vec3)
        fresh.cuda_driver = "later"
        zeros(1)
        with pytest.raises(Exception, match="is fixed since the first use of device 'cpu'"):
            fresh.cuda_driver = "too late"
    finally:
        device_cpu.config = kept


def test_element_access():
    a = array([[1, 2, 3], [4, 5, 6]])
    assert a[1, 2] == 6 and a[-1, -1] == 6 and isinstance(a[0, 0], int)
    assert isinstance(a[1], array) and a[1].list() == [4, 5, 6]
    a[0] = [7, 8, 9]
    a[1, 1:] = 0
    assert a.numpy().tolist() == [[7, 8, 9], [4, 0, 0]]
    assert [row.list() for row in a] == a.numpy().tolist()
    assert isinstance(array([1.0])[0], float) and isinstance(array([True])[0], bool)
    assert isinstance(zeros(1, dtype=k.uint8)[0], np.uint8)
    for key, error, message in (((2, 0), IndexError, "out of bounds for axis 0 with size 2"),
                                ((0, 0, 0), IndexError, "too many indices"),
                                ("x", TypeError, "indexed with integers, slices"),
                                (([0, 1],), TypeError, "indexed with integers, slices")):  # fmt: skip
        with pytest.raises(error, match=message):
            a[key]


def test_unknown_devices():
    with pytest.raises(DeviceError, match="unknown device 'gpu'; known devices: cpu, cuda, emu"):
        zeros(1, device="gpu")
    with pytest.raises(DeviceError, match="did you mean 'cpu'"):
        zeros(1, device="cpi")
    with pytest.raises(DeviceError, match="device 'cuda:0' is not available"):
        zeros(1, device="cuda:0")


def test_repr():
    assert repr(zeros((2, 3), dtype=k.vec3)) == "array(shape=(2, 3), dtype=vec3, device='cpu')"
    assert repr(zeros(1, layout="planes")) == "array(shape=(1,), dtype=float32, layout='planes', device='cpu')"
    assert str(array([1, 2])) == "[1 2]"


def test_components_that_follow_each_other():
    """As in Warp, scalars in the last dimension may be whole vectors or matrices one after the other."""
    numbers = np.arange(24, dtype=np.float32)
    assert array(numbers, dtype=k.vec3).shape == (8,)
    assert array(numbers.reshape(4, 6), dtype=k.vec3).shape == (4, 2)
    assert array(numbers.reshape(6, 4), dtype=k.mat22).shape == (6,)
    assert array(array(numbers.reshape(4, 6))[:, 3:], dtype=k.vec3).numpy()[1].tolist() == [9, 10, 11]
    with pytest.raises(TypeError, match=r"needs data of shape \(…, 3\), got \(5,\)"):
        array(numbers[:5], dtype=k.vec3)


def test_scalars_as_vectors_and_back():
    data = np.arange(12, dtype=np.float32)
    a = array(data.reshape(4, 3))
    vectors = a.view(k.vec3)
    assert vectors.shape == (4,) and vectors.ptr == a.ptr and vectors[1] == k.vec3(3, 4, 5)
    assert vectors.view(float).shape == (4, 3) and array(data[:4].reshape(2, 2)).view(k.mat22).shape == (1,)
    assert array([[1, 2, 3, 4]], dtype=k.quat).view(k.mat22)[0] == k.mat22(1, 2, 3, 4)
    with pytest.raises(TypeError, match=r"target scalar dtype float64 has size 8 bytes"):
        a.view(k.vec3d)
    with pytest.raises(TypeError, match=r"last dimensions of shape \(4, 3\) must be \(2,\), without gaps"):
        a.view(k.vec2)


def test_from_numpy_copies_and_names_the_rows():
    rows = np.arange(6.0).reshape(2, 3)
    a = from_numpy(rows)
    assert a.dtype is k.vec3d and a.shape == (2,) and from_numpy(rows, dtype=k.vec3).dtype is k.vec3
    rows[:] = 0
    assert a[1] == k.vec3d(3, 4, 5)
    assert from_numpy(np.zeros((5, 2, 2), np.float32)).dtype is k.mat22
    assert from_numpy(rows, shape=(6,)).shape == (6,)
    with pytest.raises(TypeError, match="takes a NumPy array, got a list"):
        from_numpy([1.0])


def test_full_takes_vectors_and_matrices():
    assert full(2, [1, 2, 3]).dtype is k.vec3i and full(2, np.ones((2, 3))).dtype is matrix((2, 3), k.float64)
    assert full(2, [1, 2, 3, 4], dtype=k.mat22)[1] == k.mat22(1, 2, 3, 4)


def test_foreign_memory_and_its_deleter():
    memory, calls = np.arange(12, dtype=np.int32), []
    a = array(ptr=memory.ctypes.data, dtype=int, shape=(3, 2), strides=(16, 8), capacity=48,
              deleter=lambda ptr, nbytes: calls.append((ptr, nbytes)))  # fmt: skip
    assert a.numpy().tolist() == [[0, 2], [4, 6], [8, 10]] and a.capacity == 44
    assert a.deleter is a[1].deleter is not None and array([1]).deleter is None
    view, window = a[1], a.numpy()
    del a
    gc.collect()
    assert not calls
    del view, window
    gc.collect()
    assert calls == [(memory.ctypes.data, 48)]
    for options, message in (({"capacity": 8}, "needs 12 bytes, but the capacity is 8"),
                             ({"strides": (4, 4)}, "expected 1 strides, got 2"),
                             ({"dtype": None}, "needs dtype= and shape="),
                             ({"layout": "planes"}, "layout 'aos' or 'rows'")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            array(**{"ptr": memory.ctypes.data, "dtype": int, "shape": 3, **options})


def test_allocation_with_strides():
    a = zeros((3, 5), dtype=int, strides=(4, 12))
    assert not a.is_contiguous and a.capacity == a.block.nbytes == 60 and a.transpose().is_contiguous
    assert empty((2, 3), dtype=int, strides=(40, 16)).capacity == 4 + 40 + 2 * 16
    assert empty((0, 3), dtype=int, strides=(4, 16)).capacity == 0
    with pytest.raises(NotImplementedError, match="Negative strides"):
        empty(3, dtype=int, strides=-4)


def test_objects_that_describe_their_memory():
    class Described:
        def __init__(self, data):
            self.data, self.__array_interface__ = data, data.__array_interface__

    source = Described(np.arange(6, dtype=np.float32))
    assert array(source, dtype=k.vec3).shape == (2,)
    shared = array(source, dtype=float, copy=False)
    source.data[0] = 9
    assert shared[0] == 9
    assert not hasattr(shared, "__cuda_array_interface__") and not shared.pinned


@k.struct
class Row:
    count: int
    values: k.array(dtype=float)
    places: k.array(dtype=k.vec3, ndim=2)


@k.kernel
def sum_rows(rows: k.array(dtype=Row), out: k.array(dtype=float)):
    i = k.tid()
    row = rows[i]
    total = 0.0
    for j in range(row.count):
        total += row.values[j]
    out[i] = total + row.places[0, 1].z
    row.values[0] = -1.0


def test_structs_keep_the_arrays_that_they_hold(device):
    def make(n):
        values = array(np.arange(n, dtype=np.float32), device=device)
        places = full((1, 2), k.vec3(0, 0, 100), device=device)
        return Row(count=n, values=values, places=places)

    rows = array([make(3), make(4)], dtype=Row, device=device)
    rows[1] = make(5)
    gc.collect()
    out = zeros(2, device=device)
    launch(sum_rows, 2, [rows, out], device=device)
    assert out.list() == [103, 110]
    assert rows.numpy()["values"]["shape0"].tolist() == [3, 5] and rows.list()[0].count == 3
    assert rows[1].values.list() == [-1, 1, 2, 3, 4] and rows.list()[0].places.shape == (1, 2)
    moved = zeros(2, dtype=Row, device=device)
    copy(moved, rows)  # keeps what the other array keeps
    del rows
    gc.collect()
    assert moved[0].values.list() == [-1, 1, 2]


def test_exchange_with_other_libraries():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from engine.context import to_torch

    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    a = from_torch(tensor, dtype=k.vec3)
    tensor[1, 0] = 50
    assert a[1] == k.vec3(50, 4, 5)
    assert to_torch(a).data_ptr() == a.ptr


def test_one_number_for_all_components_of_bfloat16():
    a = zeros(2, dtype=matrix((2, 2), k.bfloat16), device="cpu")
    a.fill_(1.5)
    assert a.numpy().ravel().tolist() == [0x3FC0] * 8
    a[1] = 2
    assert a.numpy()[1].ravel().tolist() == [0x4000] * 4
