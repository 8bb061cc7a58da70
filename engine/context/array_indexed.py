"""Indexed arrays: an array seen through a list of positions per dimension, in kernels and on the host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from engine.compiler import types
from engine.context import array_views as views
from engine.context import dtypes, gradients, recording
from engine.context.annotation import ArrayAnnotation
from engine.context.array import array
from engine.context.array_operators import ArrayOperators
from engine.context.device import Device, get_device

_counting: dict[str, array] = {}  # by device: 0, 1, 2, …, the positions of a dimension that has no list


class indexedarray(ArrayOperators):
    """`indexedarray(data, [rows, None])`: element (i, j) is element (rows[i], j) of `data`, which is not copied.

    data: an array. indices: for each dimension a 1-d int32 array, or None for all of it; missing ones are None. Without
    `data` it is the annotation of a kernel's parameter: `indexedarray(dtype=float, ndim=2)`. Raises TypeError for
    indices of another type, IndexError for one outside its dimension.

    Attributes: `data`, `indices`, `shape`, `dtype`, `device`, `ir_type`.
    """

    ir_class = types.IndexedArray

    def __init__(self, data: array | None = None, indices: Sequence[Any] | None = None, dtype: Any = Any,
                 ndim: int | None = None, device: Any = None):  # fmt: skip
        if data is None:
            data = array(dtype=dtype, ndim=ndim, device=device)
        elif not isinstance(data, array):
            raise TypeError(f"an indexed array is made of an array, got a {type(data).__name__}")
        if ndim is not None and ndim != data.ndim:
            raise ValueError(f"ndim={ndim} was asked for, but the data have {data.ndim} dimensions")
        given = [indices] if isinstance(indices, array) else list(indices or ())
        if len(given) > data.ndim:
            raise IndexError(f"too many indices: the array has {data.ndim} dimensions, got {len(given)}")
        given += [None] * (data.ndim - len(given))
        lists = [_list_of(one, data, axis) for axis, one in enumerate(given)]
        self.data, self.indices, self.positions = data, lists, [_or_all(one, data, d) for d, one in enumerate(lists)]
        self.shape = tuple(len(one) if one is not None else data.shape[d] for d, one in enumerate(lists))
        self.ir_type = dtypes.array_type(data.element, data.ndim, data.layout, types.IndexedArray)

    def __class_getitem__(cls, given: Any) -> ArrayAnnotation:
        """`indexedarray[float, 2]` annotates what `indexedarray(dtype=float, ndim=2)` does."""
        return ArrayAnnotation.of(cls, given)

    def check_positions(self) -> None:
        """Raises IndexError if a list, which somebody may have written into, leads out of the data by now."""
        for axis, positions in enumerate(self.indices):
            if positions is not None:
                _require_within(positions, self.data, axis)

    # what a launch and a struct read, as of an array
    @property
    def ptr(self) -> int:
        return self.data.ptr

    @property
    def plane_stride(self) -> int:
        return self.data.plane_stride

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours in the data."""
        return self.data.strides

    @property
    def device(self) -> Device:
        return self.data.device

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def element(self) -> types.Type:
        return self.data.element

    @property
    def layout(self) -> str:
        return self.data.layout

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Always false, as for every array with gaps."""
        return False

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"indexedarray(shape={self.shape}, dtype={self.element!r}, device='{self.device.name}')"

    def __str__(self) -> str:
        return str(self.numpy())

    def _selection(self) -> tuple[Any, ...]:
        """The index that selects the elements in NumPy's view of the data."""
        return np.ix_(*[one.numpy()[:n] for one, n in zip(self.positions, self.shape, strict=True)])

    def numpy(self) -> np.ndarray:
        """A copy of the selected elements."""
        return self.data.numpy()[self._selection()]

    def list(self) -> Any:
        """All elements in C order, as Python numbers or value objects."""
        return self.contiguous().list()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.contiguous())

    def contiguous(self) -> array:
        """The selected elements as an array of their own."""
        return array.allocate(self.dtype, self.shape, self.layout, self.device, zeroed=False).assign(self)

    def _store(self, stored: Any, value: Any) -> None:
        """Set the selected elements to `stored`, which is `value` in NumPy's form; tapes get to know `value`."""
        if recording.captures:
            recording.refuse("indexedarray", "writes to indexed arrays are not captured; write with a kernel")
        if gradients.watcher is not None:
            gradients.watcher.assigned(self.data, value, self._selection())
        self.data.store(stored, self._selection())

    def fill_(self, value: Any) -> indexedarray:
        """Set every selected element to `value`."""
        dtypes.keep_arrays(self.data.block, value, self.element)
        self._store(self.data.converted(value), value)
        return self

    def zero_(self) -> indexedarray:
        """Set every selected element to zero."""
        self._store(np.zeros((), dtypes.numpy_element(self.element, self.layout)[0]), None)
        return self

    def assign(self, values: Any) -> indexedarray:
        """Copy `values` to the selected elements; raises ValueError for another shape."""
        dtypes.keep_arrays(self.data.block, values, self.element)
        if recording.captures:
            recording.refuse("indexedarray", "writes to indexed arrays are not captured; write with a kernel")
        source = self.data.converted(values)
        expected = (*self.shape, *dtypes.numpy_element(self.element, self.layout)[1])
        if source.shape != expected:
            raise ValueError(f"assign needs data of shape {expected}, got {source.shape}")
        self._store(source, values)
        return self


def _list_of(given: Any, data: array, axis: int) -> array | None:
    """A checked list of positions without gaps."""
    if given is None:
        return None
    if not isinstance(given, array) or given.element != types.int32 or given.ndim != 1:
        raise TypeError(f"the indices of dimension {axis} must be a 1-d int32 array or None, got {given!r}")
    if given.device is not data.device:
        raise TypeError(f"the indices are on device '{given.device.name}', the data on '{data.device.name}'")
    positions = given.contiguous()
    _require_within(positions, data, axis)
    return positions


def _require_within(positions: array, data: array, axis: int) -> None:
    if positions.size:
        found = positions.numpy()
        low, high = int(found.min()), int(found.max())
        if low < 0 or high >= data.shape[axis]:
            wrong = low if low < 0 else high
            raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {data.shape[axis]}")


def _or_all(positions: array | None, data: array, axis: int) -> array:
    if positions is not None:
        return positions
    needed, known = data.shape[axis], _counting.get(data.device.name)
    if known is None or len(known) < needed:
        numbers = np.arange(max(needed, 1024), dtype=np.int32)
        known = _counting[data.device.name] = array(numbers, device=data.device)
    return known


def indexed(data: array, key: Any) -> indexedarray:
    """`data[key]` where some parts of `key` are int32 arrays; the other parts are slices, integers and an ellipsis."""
    parts = views.expanded(key, data.ndim)
    view = data[tuple(slice(None) if isinstance(part, array) else part for part in parts)]
    kept = [part for part in parts if part is None or isinstance(part, array | slice)]
    return indexedarray(view, [part if isinstance(part, array) else None for part in kept])


array.indexed = staticmethod(indexed)


class IndexedArrayOfRank:
    """`indexedarray2d(...)` and `indexedarray2d[float]`: the number of dimensions is said by the name."""

    def __init__(self, ndim: int):
        self.ndim = ndim

    def __call__(self, data: Any = None, indices: Any = None, dtype: Any = Any, device: Any = None) -> indexedarray:
        return indexedarray(data, indices, dtype, self.ndim, None if device is None else get_device(device))

    def __getitem__(self, dtype: Any) -> ArrayAnnotation:
        return ArrayAnnotation.of_rank(indexedarray, dtype, self.ndim)


indexedarray1d, indexedarray2d, indexedarray3d, indexedarray4d = (IndexedArrayOfRank(n) for n in (1, 2, 3, 4))
