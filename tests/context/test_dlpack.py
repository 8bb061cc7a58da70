"""DLPack: tensors of other libraries and arrays over the same memory, capsules, types that NumPy lacks, refusals."""

import gc

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.compiler.values import matrix, vector
from engine.context import array, from_dlpack, from_torch, launch, to_dlpack, zeros


def test_dlpack_shares():
    a = array([[1.0, 2.0], [3.0, 4.0]])
    foreign = np.from_dlpack(a)
    assert foreign.ctypes.data == a.ptr
    data = np.arange(3, dtype=np.float32)
    b = from_dlpack(data)
    data[0] = 5
    assert b.list() == [5, 1, 2]


class FirstTensor:
    """A tensor whose capsules are of DLPack's first version, which says nothing about writing."""

    def __init__(self, memory: np.ndarray, kind: int = 1):
        self.memory, self.kind = memory, kind

    def __dlpack__(self, stream=None):
        return self.memory.__dlpack__()

    def __dlpack_device__(self):
        return self.kind, 0


def test_capsules_are_taken_and_used_up():
    a = array([1.0, 2.0, 3.0])
    for capsule in (to_dlpack(a), np.zeros(3, np.float32).__dlpack__(max_version=(1, 0))):
        b = from_dlpack(capsule)
        b[1] = 7.0
        assert b.numpy()[1] == 7.0
        with pytest.raises(TypeError, match="DLPack capsule, got PyCapsule; a capsule can be taken once"):
            from_dlpack(capsule)
    assert a.list() == [1, 7, 3]
    kept = from_dlpack(to_dlpack(array([4.0])))  # the memory lives as long as the array over it
    gc.collect()
    assert kept.list() == [4]
    with pytest.raises(TypeError, match="valid DLPack capsule, got int"):
        from_dlpack(3)


def test_tensors_of_the_first_version():
    """PyTorch's may always be written; of others NumPy does not know."""
    memory = np.arange(3, dtype=np.float32)
    with pytest.raises(TypeError, match="writable"):
        from_dlpack(FirstTensor(memory))
    torch = type("Tensor", (FirstTensor,), {"__module__": "torch", "detach": lambda self: self})
    for b in (from_dlpack(torch(memory)), from_torch(torch(memory))):
        b[0] += 5.0
    assert memory.tolist() == [10, 1, 2]


@pytest.mark.parametrize("dtype", [k.bfloat16, vector(3, k.bfloat16), matrix((2, 2), k.bfloat16)])
def test_bfloat16_is_one_on_both_sides(dtype):
    a = zeros(2, dtype=dtype, device="cpu")
    a.fill_(1.5)
    for b in (from_dlpack(to_dlpack(a)), from_dlpack(a)):
        assert b.dtype == k.bfloat16 and b.ptr == a.ptr and b.shape == a.numpy().shape
        assert set(b.numpy().ravel().tolist()) == {0x3FC0}
    assert from_dlpack(to_dlpack(a), dtype=dtype).list() == a.list()
    with pytest.raises(TypeError, match="sharing memory as float16 needs float16"):
        from_dlpack(a, dtype=k.float16)


@pytest.mark.parametrize(("seen", "given"), [(k.uint8, k.int8), (k.int64, k.uint64), (k.int8, k.bool_)])
def test_integers_of_one_size_are_seen_as_each_other(seen, given):
    a = array([1, 0, 1], dtype=given, device="cpu")
    b = from_dlpack(to_dlpack(a), dtype=seen)
    assert (b.dtype, b.ptr, b.list()) == (seen, a.ptr, [1, 0, 1])
    for other in (k.float32, k.int16, k.bool_):
        if other != given:
            with pytest.raises(TypeError, match="use engine.array"):
                from_dlpack(to_dlpack(a), dtype=other)


class Elsewhere:
    def __dlpack_device__(self):
        return 2, 7

    def __dlpack__(self, **options):
        raise AssertionError("memory of a GPU is not asked for")


@k.kernel
def keep(x: k.array(dtype=float)):
    x[0] = 1.0


def test_memory_of_a_gpu_and_streams_are_refused():
    with pytest.raises(TypeError, match="device_type=2, device_id=7; copy the tensor to the cpu first"):
        from_dlpack(Elsewhere())
    with pytest.raises(TypeError, match="argument 'x' expects array.*device_type=2"):
        launch(keep, 1, [Elsewhere()], device="cpu")
    with pytest.raises(TypeError, match="a tensor of complex64 has no type"):
        from_dlpack(np.zeros(2, np.complex64))
    a = zeros(1, device="cpu")
    a.__dlpack__(stream=-1)
    for stream in (0, 1, "x"):
        with pytest.raises(TypeError, match="stream is None or -1"):
            a.__dlpack__(stream=stream)
