"""Functions that make arrays: filled, alike, copied, or over memory that NumPy or another library owns."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.context import dtypes
from engine.context.annotation import ArrayAnnotation
from engine.context.array import array
from engine.context.array_indexed import indexedarray
from engine.errors import ArgumentError

Source = array | indexedarray


class ArrayOfRank:
    """`array2d(...)` and `array2d[float]`: an array whose number of dimensions is said by its name."""

    def __init__(self, ndim: int):
        self.ndim = ndim

    def __call__(self, data: Any = None, dtype: Any = Any, **options: Any) -> array:
        return array(data, dtype, ndim=self.ndim, **options)

    def __getitem__(self, dtype: Any) -> ArrayAnnotation:
        return ArrayAnnotation.of_rank(array, dtype, self.ndim)


array1d, array2d, array3d, array4d = (ArrayOfRank(ndim) for ndim in (1, 2, 3, 4))


def _tracked(made: array, requires_grad: bool | None, retain_grad: bool = False, like: Any = None) -> array:
    """`made` with gradients if they are asked for; None takes after the array `like`."""
    if requires_grad or (requires_grad is None and getattr(like, "requires_grad", False)):
        made.requires_grad = True
    if retain_grad:
        made.retain_grad = True
    return made


def empty(shape: Any = None, dtype: Any = float, device: Any = None, layout: str = "aos", strides: Any = None,
          pinned: bool = False, requires_grad: bool = False, retain_grad: bool = False,
          n: Any = None) -> array:  # fmt: skip
    """A new array of `shape` with whatever the memory held; `strides` (bytes) leave gaps or turn the order around.

    requires_grad: give it a gradient. retain_grad: keep that after the backward pass, also where the array is an
    intermediate result. `n` is another name of `shape`.
    """
    made = array.allocate(dtype, n if shape is None else shape, layout, device, zeroed=False, strides=strides)
    return _tracked(made, requires_grad, retain_grad)


def zeros(shape: Any = None, dtype: Any = float, device: Any = None, layout: str = "aos", strides: Any = None,
          pinned: bool = False, requires_grad: bool = False, retain_grad: bool = False,
          n: Any = None) -> array:  # fmt: skip
    """A new array of `shape` with all components 0; the gradient arguments are those of `empty`."""
    made = array.allocate(dtype, n if shape is None else shape, layout, device, strides=strides)
    return _tracked(made, requires_grad, retain_grad)


def ones(shape: Any = None, dtype: Any = float, device: Any = None, layout: str = "aos", pinned: bool = False,
         requires_grad: bool = False, retain_grad: bool = False, n: Any = None) -> array:  # fmt: skip
    """A new array of `shape` with all components 1; the gradient arguments are those of `empty`."""
    return _tracked(empty(shape, dtype, device, layout, n=n).fill_(1), requires_grad, retain_grad)


def full(shape: Any, value: Any, dtype: Any = None, device: Any = None, layout: str = "aos",
         pinned: bool = False, requires_grad: bool = False, retain_grad: bool = False) -> array:  # fmt: skip
    """A new array of `shape` with every element `value`.

    Without `dtype`: that of a value object, int32 or float32 for numbers, a vector for a sequence of numbers and a
    matrix for a sequence of these.
    """
    made = empty(shape, dtypes.element_of(value) if dtype in (None, Any) else dtype, device, layout).fill_(value)
    return _tracked(made, requires_grad, retain_grad)


def empty_like(src: Source, device: Any = None, pinned: bool = False, requires_grad: bool | None = None) -> array:
    """A new contiguous array with the shape, dtype, layout and (unless given) device and requires_grad of `src`."""
    home = src.device if device is None else device
    return _tracked(array.allocate(src.dtype, src.shape, src.layout, home, zeroed=False), requires_grad, like=src)


def zeros_like(src: Source, device: Any = None, pinned: bool = False, requires_grad: bool | None = None) -> array:
    """As `empty_like`, with all components 0."""
    home = src.device if device is None else device
    return _tracked(array.allocate(src.dtype, src.shape, src.layout, home), requires_grad, like=src)


def ones_like(src: Source, device: Any = None, pinned: bool = False, requires_grad: bool | None = None) -> array:
    """As `empty_like`, with all components 1."""
    return _tracked(empty_like(src, device, requires_grad=False).fill_(1), requires_grad, like=src)


def full_like(src: Source, value: Any, device: Any = None, pinned: bool = False,
              requires_grad: bool | None = None) -> array:  # fmt: skip
    """As `empty_like`, with every element `value`."""
    return _tracked(empty_like(src, device, requires_grad=False).fill_(value), requires_grad, like=src)


def clone(src: Source, device: Any = None, layout: str | None = None, pinned: bool = False,
          requires_grad: bool | None = None) -> array:  # fmt: skip
    """A contiguous copy of `src`, in its layout or another one; a tape passes gradients through it."""
    target = src.device if device is None else device
    made = array.allocate(src.dtype, src.shape, layout or src.layout, target, zeroed=False)
    return _tracked(made, requires_grad, like=src).assign(src)


def copy(dest: Source, src: Source, dest_offset: int = 0, src_offset: int = 0, count: int = 0,
         stream: Any = None) -> None:  # fmt: skip
    """Copy `src` into `dest`, converting layouts. With `count`, that many elements, in C order, from the offsets on.

    The ranges of one array may overlap. Raises TypeError for different element types, ValueError when the shapes differ
    or a range leaves its array.
    """
    if dest.element != src.element:
        found = f"destination dtype={dest.element!r}, source dtype={src.element!r}"
        raise ArgumentError(f"copy needs equal element types, got {found}")
    if not all(hasattr(number, "__index__") for number in (dest_offset, src_offset, count)):
        raise ArgumentError("copy: the offsets and the count must be integers")
    part = bool(count or dest_offset or src_offset)
    if not part and dest.shape == src.shape:
        dest.assign(src)
        return
    count = count or src.size - src_offset
    for what, number in (("Source offset", src_offset), ("Destination offset", dest_offset), ("Copy count", count)):
        if number < 0:
            raise ArgumentError(f"{what} must be non-negative, got {number}")
    for whole, offset in ((dest, dest_offset), (src, src_offset)):
        if offset + count > whole.size:
            raise ArgumentError(f"elements {offset} … {offset + count - 1} are not a part of {whole!r}")
    if not (_is_line(dest) and _is_line(src)):
        if not part:
            found = f"destination shape={dest.shape}, source shape={src.shape}"
            raise ArgumentError(f"copy needs equal shapes, got {found}")
        _copy_flat(dest, src, dest_offset, src_offset, count)
        return
    assert isinstance(dest, array) and isinstance(src, array)
    into, source = (a if a.ndim == 1 else a.flatten() for a in (dest, src))
    into[dest_offset : dest_offset + count] = source[src_offset : src_offset + count]


def _is_line(whole: Source) -> bool:
    """Whether the elements in C order are a view."""
    return isinstance(whole, array) and (whole.ndim == 1 or whole.is_contiguous)


def _copy_flat(dest: Source, src: Source, dest_offset: int, src_offset: int, count: int) -> None:
    """A range of elements in C order of arrays that have no flat view."""
    inner = len(dtypes.numpy_element(src.element, src.layout)[1])
    values = src.numpy()
    values = values.reshape(-1, *values.shape[values.ndim - inner :])[src_offset : src_offset + count]
    if isinstance(dest, indexedarray):
        whole = dest.numpy()
        whole.reshape(-1, *values.shape[1:])[dest_offset : dest_offset + count] = values
        dest.assign(whole)
        return
    places = np.unravel_index(np.arange(dest_offset, dest_offset + count), dest.shape)
    dest.store(values, places)


def from_numpy(data: np.ndarray, dtype: Any = None, shape: Any = None, device: Any = None, layout: str = "aos",
               copy: bool = True, requires_grad: bool = False) -> array:  # fmt: skip
    """An array with the elements of `data`. `copy=False` shares its memory and keeps it alive.

    Without `dtype`, the rows of 2-d data become vectors and those of 3-d data matrices; a dtype converts. With
    `copy=False` dtype None means NumPy's own scalar type, and dtype must be exactly what the bytes are (vec3: (…, 3)
    float32): TypeError for any mismatch, and for memory that is read-only, unaligned, or not that of a cpu device.
    """
    if not isinstance(data, np.ndarray):
        raise TypeError(f"from_numpy takes a NumPy array, got a {type(data).__name__}")
    if dtype in (None, Any):
        dtype = dtypes.elements_of(data) if copy and shape is None else data.dtype
    return array(data, dtype, shape, device=device, copy=copy, layout=layout, requires_grad=requires_grad)



# in kernels these make fixed arrays of one thread: the front end knows them by this name
for _function in (zeros, empty):
    _function.intrinsic = "zeros"  # type: ignore[attr-defined]
