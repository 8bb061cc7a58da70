"""Memory that other code owns: objects that describe their memory, and what is called when it is no longer used."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np


class Deleter:
    """Calls `function(ptr, nbytes)` when the last array over the memory is gone."""

    __slots__ = ("function", "nbytes", "ptr")

    def __init__(self, function: Callable[[int, int], None], ptr: int, nbytes: int):
        self.function, self.ptr, self.nbytes = function, ptr, nbytes

    def __del__(self) -> None:
        self.function(self.ptr, self.nbytes)


def as_numpy(data: Any) -> Any:
    """`data` as a NumPy array over the same memory, when it describes its memory; else as it is.

    Understood are `__array_interface__` and, for memory that the host can read, `__dlpack__`.
    """
    if isinstance(data, np.ndarray | list | tuple | int | float | np.generic) or hasattr(data, "ir_type"):
        return data
    if hasattr(data, "__array_interface__"):
        return np.asarray(data)
    if hasattr(data, "__dlpack__"):
        return tensor_memory(data)
    return data


TENSOR_AT = {b"dltensor": 0, b"dltensor_versioned": 32}  # bytes before the tensor in what a capsule of this name holds


class Capsule:
    """What a DLPack capsule holds, in the form in which NumPy takes it."""

    def __init__(self, capsule: Any):
        takes = ctypes.py_object, ctypes.c_char_p
        is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *takes)(("PyCapsule_IsValid", ctypes.pythonapi))
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *takes)(("PyCapsule_GetPointer", ctypes.pythonapi))
        # where the tensor begins: with its data pointer, then the kind and the number of its device
        place = next((pointer(capsule, name) + at for name, at in TENSOR_AT.items() if is_valid(capsule, name)), None)
        if place is None:
            raise TypeError(f"from_dlpack() takes a tensor or an unused DLPack capsule, got {capsule!r}")
        self.device = (ctypes.c_int32 * 2).from_address(place + ctypes.sizeof(ctypes.c_void_p))
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device[0], self.device[1]


class Writable:
    """The memory of a NumPy array that is read-only for want of knowledge."""

    def __init__(self, data: np.ndarray):
        self.owner = data
        self.__array_interface__ = {**data.__array_interface__, "data": (data.__array_interface__["data"][0], False)}


def tensor_memory(source: Any) -> np.ndarray:
    """The memory of something with `__dlpack__`, or of a DLPack capsule, which is used up.

    Capsules of the first version do not say whether their memory may be written, and NumPy then takes it for read-only.
    PyTorch knows no such tensors, and who hands over a capsule gives the tensor away.
    """
    is_capsule = not hasattr(source, "__dlpack__")
    data = np.from_dlpack(Capsule(source) if is_capsule else source)
    if not data.flags.writeable and (is_capsule or type(source).__module__.partition(".")[0] == "torch"):
        data = np.asarray(Writable(data))
    return data
