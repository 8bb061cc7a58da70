"""Arithmetic of strided views: which bytes an index, reshape or transpose of an array selects. Touches no memory."""

from __future__ import annotations

import math
import operator
from typing import Any

from engine.errors import ArgumentError

MAX_DIMS = 4
MAX_EXTENT = 2**31 - 1  # indices are int32

Shape = tuple[int, ...]


def integers(given: Any) -> tuple[int, ...]:
    """One integer, or a sequence of them, as a tuple; raises TypeError for anything else."""
    try:
        return (operator.index(given),)
    except TypeError:
        return tuple(operator.index(number) for number in given)


def checked_shape(shape: Any) -> Shape:
    """`shape` as a tuple of 1 to 4 extents; raises ValueError or TypeError naming what is wrong."""
    extents = integers(shape)
    if not 1 <= len(extents) <= MAX_DIMS:
        raise ArgumentError(f"an array has 1 to {MAX_DIMS} dimensions, got shape {extents}")
    if any(extent < 0 for extent in extents):
        raise ArgumentError(f"Array shapes must be non-negative, got shape {extents}")
    if any(extent > MAX_EXTENT for extent in extents):
        raise ArgumentError(f"extents are 0 to 2**31 - 1, got shape {extents}")
    return extents


def checked_strides(strides: Any, shape: Shape) -> Shape:
    """`strides` as a tuple of one byte count per dimension; raises ValueError for another number of them."""
    steps = integers(strides)
    if len(steps) != len(shape):
        raise ValueError(f"Invalid number of strides, expected {len(shape)} strides, got {len(steps)}")
    return steps


def extent_bytes(shape: Shape, strides: Shape, element: int) -> int:
    """Bytes from the first to behind the last element of a view whose strides are not negative."""
    if 0 in shape:
        return 0
    return element + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def byte_span(shape: Shape, strides: Shape, element: int) -> tuple[int, int]:
    """First byte and end of all that a view with some elements touches, relative to its first element."""
    ends = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(min(end, 0) for end in ends), element + sum(max(end, 0) for end in ends)


def contiguous_strides(shape: Shape, element: int) -> Shape:
    """Byte strides of a C-contiguous array whose elements are `element` bytes apart."""
    strides = []
    for extent in reversed(shape):
        strides.append(element)
        element *= max(extent, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Shape, element: int) -> bool:
    """Whether the elements lie in C order without gaps; strides of extents 0 and 1 do not matter."""
    if 0 in shape:
        return True
    wanted = contiguous_strides(shape, element)
    return all(extent == 1 or have == want for extent, have, want in zip(shape, strides, wanted, strict=True))


def index(shape: Shape, strides: Shape, key: Any) -> tuple[int, Shape, Shape]:
    """(byte offset, shape, strides) of `array[key]` for integers, slices, None and one ellipsis, as in NumPy.

    Raises IndexError for an integer out of range or too many indices, TypeError for any other kind of index.
    """
    keys = expanded(key, len(shape))
    offset, extents, steps, axis = 0, [], [], 0
    for part in keys:
        if part is None:
            extents.append(1)
            steps.append(strides[axis] * shape[axis] if axis < len(shape) else strides[-1])
            continue
        extent, stride = shape[axis], strides[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            length = len(range(start, stop, step))
            offset += start * stride if length else 0
            extents.append(length)
            steps.append(step * stride)
        else:
            offset += _position(part, axis, extent) * stride
        axis += 1
    if len(extents) > MAX_DIMS:
        raise IndexError(f"an array has at most {MAX_DIMS} dimensions, the view would have {len(extents)}")
    return offset, tuple(extents), tuple(steps)


def expanded(key: Any, ndim: int) -> tuple[Any, ...]:
    """`key` with an entry for each of `ndim` dimensions (and for each None): the ellipsis filled, the rest added."""
    keys = key if isinstance(key, tuple) else (key,)
    used = sum(part is not None and part is not Ellipsis for part in keys)
    if used > ndim:
        raise IndexError(f"too many indices: the array has {ndim} dimensions, got {used}")
    fill = (slice(None),) * (ndim - used)
    at = next((i for i, part in enumerate(keys) if part is Ellipsis), None)
    if at is None:
        return (*keys, *fill)
    if any(part is Ellipsis for part in keys[at + 1 :]):
        raise IndexError("an index has at most one ellipsis")
    return (*keys[:at], *fill, *keys[at + 1 :])


def _position(part: Any, axis: int, extent: int) -> int:
    try:
        position = operator.index(part)
    except TypeError:
        raise TypeError(f"an array is indexed with integers, slices, None and ..., got {type(part).__name__}") from None
    if not -extent <= position < extent:
        raise IndexError(f"index {position} is out of bounds for axis {axis} with size {extent}")
    return position + extent if position < 0 else position


def reshaped(shape: Shape, wanted: Any) -> Shape:
    """`wanted` with one -1 replaced by what is left; raises ArgumentError when the sizes differ."""
    size, extents = math.prod(shape), list(integers(wanted))
    if extents.count(-1) == 1:
        known = math.prod(extent for extent in extents if extent != -1)
        if known and size % known == 0:
            extents[extents.index(-1)] = size // known
    checked = checked_shape(tuple(extents)) if -1 not in extents else ()
    if not checked or math.prod(checked) != size:
        product = "" if -1 in extents else f" (size {math.prod(extents)})"
        raise ArgumentError(f"cannot reshape array of shape {shape} (size {size}) into shape {tuple(extents)}{product}")
    return checked


def transposed(shape: Shape, strides: Shape, axes: Any) -> tuple[Shape, Shape]:
    """Shape and strides with the axes in the order `axes` (None: reversed)."""
    order = tuple(range(len(shape)))[::-1] if axes is None else tuple(operator.index(axis) for axis in axes)
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"axes must be a permutation of 0 … {len(shape) - 1}, got {order}")
    return tuple(shape[axis] for axis in order), tuple(strides[axis] for axis in order)
