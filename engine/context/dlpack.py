"""DLPack tensors as NumPy arrays over the same memory, and back, with what NumPy leaves out: capsules, bfloat16."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np

from engine.compiler import types

TENSOR_AT = {b"dltensor": 0, b"dltensor_versioned": 32}  # bytes before the tensor in what a capsule of this name holds
ON_THE_HOST = (1, 3)  # kinds of device: cpu, memory of the host that a GPU reads, too
UNSIGNED, BFLOAT = 1, 4  # type codes
_TAKES = ctypes.py_object, ctypes.c_char_p
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *_TAKES)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *_TAKES)(("PyCapsule_GetPointer", ctypes.pythonapi))


class Tensor(ctypes.Structure):
    """The head of a DLTensor."""

    _fields_: ClassVar[Any] = [
        ("data", ctypes.c_void_p), ("device_kind", ctypes.c_int32), ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
    ]  # fmt: skip


class Capsule:
    """An unused DLPack capsule, in the form in which NumPy takes it. Raises TypeError for anything else."""

    def __init__(self, capsule: Any):
        place = next((_pointer(capsule, name) + at for name, at in TENSOR_AT.items() if _is_valid(capsule, name)), None)
        if place is None:
            found = type(capsule).__name__
            raise TypeError(f"Expected a valid DLPack capsule, got {found}; a capsule can be taken once")
        self.tensor, self.capsule = Tensor.from_address(place), capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.device_kind, self.tensor.device_number


class Writable:
    """The memory of a NumPy array that is read-only for want of knowledge."""

    def __init__(self, data: np.ndarray):
        self.owner = data
        self.__array_interface__ = {**data.__array_interface__, "data": (data.__array_interface__["data"][0], False)}


def memory_of(source: Any) -> tuple[np.ndarray, types.Scalar]:
    """The memory of something with `__dlpack__`, or of a DLPack capsule, which is used up; and its scalar type.

    Capsules of the first version do not say whether their memory may be written, and NumPy then takes it for read-only.
    PyTorch knows no such tensors, and who hands over a capsule gives the tensor away. Raises TypeError for what is no
    tensor, or one of a GPU or of complex numbers.
    """
    is_capsule = not hasattr(source, "__dlpack__")
    given = Capsule(source if is_capsule else capsule_of(source))
    check_device(*given.__dlpack_device__())
    is_bfloat = given.tensor.code == BFLOAT
    if is_bfloat:
        given.tensor.code = UNSIGNED  # a type that NumPy has
    data = np.from_dlpack(given)
    if not data.flags.writeable and (is_capsule or type(source).__module__.partition(".")[0] == "torch"):
        data = np.asarray(Writable(data))
    scalar = types.bfloat16 if is_bfloat else types.BY_NUMPY.get(data.dtype)
    if scalar is None:
        raise TypeError(f"a tensor of {data.dtype} has no type in the kernel language")
    return data, scalar


def check_device(kind: int, number: int) -> None:
    """Refuses memory that the host cannot read."""
    if kind not in ON_THE_HOST:
        raise TypeError(f"Unsupported source device for DLPack: device_type={kind}, device_id={number}; "
                        "copy the tensor to the cpu first")  # fmt: skip


def capsule_of(source: Any) -> Any:
    """The capsule that a tensor gives: of the newer version, if it knows that."""
    check_device(*source.__dlpack_device__())
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:
        return source.__dlpack__()


def seen_as(data: np.ndarray, scalar: types.Scalar, wanted: types.Type) -> np.ndarray:
    """The same memory with the components of `wanted`, if both are integers of one size; truth values are integers."""
    same = types.components(wanted)
    if same is None or same[0] == scalar or not same[0].is_int or scalar.is_float or same[0].size != scalar.size:
        return data
    return data.view(same[0].numpy)


def capsule(data: np.ndarray, element: types.Type, stream: Any = None, **options: Any) -> Any:
    """A capsule of the memory of an array of `element`. Raises TypeError for a stream, which a cpu does not have."""
    if stream not in (None, -1):
        raise TypeError(f"a DLPack stream is None or -1 for memory of the cpu, got {stream!r}")
    made = data.__dlpack__(**options)
    same = types.components(element)
    if same is not None and same[0] == types.bfloat16:
        Capsule(made).tensor.code = BFLOAT
    return made
