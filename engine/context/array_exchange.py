"""Arrays from and to other libraries without a copy: DLPack, and by it PyTorch and JAX."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from engine.context import dlpack, dtypes
from engine.context.array import array


def from_dlpack(source: Any, dtype: Any = None) -> array:
    """An array that shares the memory of a tensor of another library, on the cpu.

    source: anything with `__dlpack__`, or a capsule that such a method gave, which is used up. dtype: None keeps the
    scalar type; vec3 needs (…, 3) float32; integers of one size may be seen as each other, truth values as int8 and
    uint8. Raises TypeError for another type, for memory of a GPU, and for memory that must not be written, such as that
    of a JAX array: copy it with `array(numpy.asarray(x))`.
    """
    data, scalar = dlpack.memory_of(source)
    if dtype is None:
        return array(data, scalar, device="cpu", copy=False)
    return array(dlpack.seen_as(data, scalar, dtypes.resolve(dtype)[1]), dtype, device="cpu", copy=False)


def to_dlpack(source: array) -> Any:
    """A DLPack capsule of the array's memory; vectors and matrices add inner dimensions."""
    return source.__dlpack__()


def _library(name: str, pip_name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"{name} is not installed; install it with `pip install {pip_name}`") from None


def from_torch(tensor: Any, dtype: Any = None, requires_grad: bool | None = None) -> array:
    """An array over the memory of a PyTorch tensor."""
    return from_dlpack(tensor.detach(), dtype)


def to_torch(source: array, requires_grad: bool | None = None) -> Any:
    """A PyTorch tensor over the memory of an array. Raises ImportError where PyTorch is missing."""
    tensor = _library("torch", "torch").from_dlpack(source)
    return tensor if requires_grad is None else tensor.requires_grad_(requires_grad)


def from_jax(source: Any, dtype: Any = None) -> array:
    """A copy of a JAX array: JAX takes for granted that its memory never changes."""
    data = np.asarray(source)
    return array(data, data.dtype if dtype is None else dtype, device="cpu")


def to_jax(source: array) -> Any:
    """A JAX array over the memory of an array, which must not change while JAX uses it."""
    return _library("jax.dlpack", "jax").from_dlpack(source)


def device_from_torch(device: Any) -> str:
    """Our name of a PyTorch device."""
    return str(device)


def device_to_torch(device: Any) -> str:
    """PyTorch's name of a device."""
    return str(getattr(device, "name", device))

