"""Functions that make arrays: filled, alike, copied, or over memory that NumPy or another library owns."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.context import dtypes
from engine.context.array import array


class ArrayOfRank:
    """`array2d(...)` and `array2d[float]`: an array whose number of dimensions is said by its name."""

    def __init__(self, ndim: int):
        self.ndim = ndim

    def __call__(self, data: Any = None, dtype: Any = Any, **options: Any) -> array:
        return array(data, dtype, ndim=self.ndim, **options)

    def __getitem__(self, dtype: Any) -> array:
        return array(dtype=dtype, ndim=self.ndim)


array1d, array2d, array3d, array4d = (ArrayOfRank(ndim) for ndim in (1, 2, 3, 4))


def empty(shape: Any, dtype: Any = float, device: Any = None, layout: str = "aos") -> array:
    """A new array of `shape` with whatever the memory held."""
    return array.allocate(dtype, shape, layout, device, zeroed=False)


def zeros(shape: Any, dtype: Any = float, device: Any = None, layout: str = "aos") -> array:
    """A new array of `shape` with all components 0."""
    return array.allocate(dtype, shape, layout, device)


def ones(shape: Any, dtype: Any = float, device: Any = None, layout: str = "aos") -> array:
    """A new array of `shape` with all components 1."""
    return empty(shape, dtype, device, layout).fill_(1)


def full(shape: Any, value: Any, dtype: Any = None, device: Any = None, layout: str = "aos") -> array:
    """A new array of `shape` with every element `value`; without `dtype`, of the type that `array([value])` has."""
    return empty(shape, dtypes.infer(value) if dtype is None else dtype, device, layout).fill_(value)


def empty_like(src: array, device: Any = None) -> array:
    """A new contiguous array with the shape, dtype, layout and (unless given) device of `src`."""
    return array.allocate(src.dtype, src.shape, src.layout, src.device if device is None else device, zeroed=False)


def zeros_like(src: array, device: Any = None) -> array:
    """As `empty_like`, with all components 0."""
    return array.allocate(src.dtype, src.shape, src.layout, src.device if device is None else device)


def ones_like(src: array, device: Any = None) -> array:
    """As `empty_like`, with all components 1."""
    return empty_like(src, device).fill_(1)


def full_like(src: array, value: Any, device: Any = None) -> array:
    """As `empty_like`, with every element `value`."""
    return empty_like(src, device).fill_(value)


def clone(src: array, device: Any = None, layout: str | None = None) -> array:
    """A contiguous copy of `src`, in its layout or another one."""
    target = src.device if device is None else device
    return array.allocate(src.dtype, src.shape, layout or src.layout, target, zeroed=False).assign(src)


def copy(dest: array, src: array, dest_offset: int = 0, src_offset: int = 0, count: int = 0) -> None:
    """Copy `src` into `dest`, converting layouts; with `count`, that many elements of 1-d arrays from the offsets on.

    Raises TypeError for different element types, ValueError when the shapes differ or a range leaves its array.
    """
    if dest.element != src.element:
        raise TypeError(f"copy needs equal element types, got {dest.element!r} from {src.element!r}")
    if count or dest_offset or src_offset:
        count = count or src.size - src_offset
        dest = _part(dest, dest_offset, count)
        src = _part(src, src_offset, count)
    if dest.shape != src.shape:
        raise ValueError(f"copy needs equal shapes, got {dest.shape} from {src.shape}")
    dest.numpy()[...] = src.numpy()


def _part(whole: array, offset: int, count: int) -> array:
    if whole.ndim != 1 or offset < 0 or count < 0 or offset + count > len(whole):
        raise ValueError(f"elements {offset} … {offset + count - 1} are not a part of {whole!r}")
    part: array = whole[offset : offset + count]
    return part


def from_numpy(
    data: np.ndarray, dtype: Any = None, shape: Any = None, device: Any = None, layout: str = "aos"
) -> array:
    """An array that shares the memory of `data` and keeps it alive; no copy.

    `dtype` must be exactly what the bytes are: None means NumPy's own scalar type, vec3 needs (…, 3) float32.
    Raises TypeError for any mismatch, and for memory that is read-only, unaligned, or not that of a cpu device.
    """
    return array(data, data.dtype if dtype is None else dtype, shape, device, copy=False, layout=layout)


def from_dlpack(source: Any, dtype: Any = None) -> array:
    """An array that shares the memory of a CPU tensor of another library (anything with `__dlpack__`)."""
    return from_numpy(np.from_dlpack(source), dtype, device="cpu")
