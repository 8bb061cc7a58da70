"""Element types as NumPy sees them: from what a user writes as `dtype` to an IR type, a NumPy dtype and back to values.

A scalar is a NumPy scalar; vectors, quaternions and transforms have one inner dimension, matrices two; a struct is a
NumPy structured dtype with C layout ("rows": padded to 16, 32 or 64 bytes).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.values import StructValue, Value, value_class
from engine.compiler.values.base import scalar_of
from engine.compiler.values.records import numpy_element, struct_leaves
from engine.context import array_views as views
from engine.context.memory import Block


def array_type(dtype: types.Type, ndim: int, layout: str, kind: type[types.Array] = types.Array) -> types.Array:
    """The one `Array` object with these parameters, so that the launch path may compare by identity."""
    return _array_type(dtype, ndim, layout, kind)  # type: ignore[arg-type]  # a class is hashable


@cache
def _array_type(dtype: types.Type, ndim: int, layout: str, kind: type[types.Array]) -> types.Array:
    return kind(dtype, ndim, layout)


def resolve(dtype: Any) -> tuple[Any, types.Type]:
    """(dtype as `array.dtype` reports it, IR type) of what a user wrote: float, vec3, np.float32, a struct class …

    Raises TypeError naming the value when it is no element type.
    """
    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        scalar = types.BY_NUMPY.get(np.dtype(dtype))
        if scalar is None:
            raise TypeError(f"{dtype!r} is no element type; use one of {', '.join(map(repr, types.SCALARS))}")
        return scalar, scalar
    element = types.of_annotation(dtype)
    if not types.is_concrete(element):
        return dtype, element
    if types.components(element) is None and not isinstance(element, types.Struct):
        raise TypeError(f"{element!r} cannot be an array element")
    return value_class(element), element


def element_of(value: Any) -> Any:
    """The dtype of which `value` is one element: a flat sequence is a vector, a nested one a matrix."""
    if isinstance(value, list | tuple | np.ndarray):
        extents, scalar = np.shape(value), types.of_annotation(resolve(infer(value))[1])
        if isinstance(scalar, types.Scalar) and len(extents) in (1, 2):
            shape = types.Vector(scalar, *extents) if len(extents) == 1 else types.Matrix(scalar, *extents)
            return value_class(shape)
    return infer(value)


def elements_of(data: np.ndarray) -> Any:
    """The dtype that Warp gives NumPy data: rows of a 2-d array are vectors, those of a 3-d one matrices."""
    scalar = resolve(data.dtype)[1] if data.dtype.names is None else None
    if isinstance(scalar, types.Scalar) and data.ndim in (2, 3):
        return element_of(np.empty(data.shape[1:], data.dtype))
    return data.dtype


def reinterpreted(
    shape: tuple[int, ...], strides: tuple[int, ...], have: types.Type, want: types.Type
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of the same memory read as elements `want`. Raises TypeError where the sizes forbid it."""
    head = f"cannot create an array view with dtype {want!r} from source dtype {have!r}: "
    (scalar, inner), (wanted, form) = numpy_element(have), numpy_element(want)
    size, wanted_size = types.memory_layout(have)[1], types.memory_layout(want)[1]
    if bool(inner) == bool(form):
        if size != wanted_size:
            raise TypeError(f"{head}source dtype has size {size} bytes, but target dtype has size {wanted_size} bytes")
        return shape, strides
    if scalar.itemsize != wanted.itemsize:
        source = f"source scalar dtype {types.BY_NUMPY[scalar]!r} has" if inner else "source dtype has"
        target = f"target scalar dtype {types.BY_NUMPY[wanted]!r} has" if form else "target dtype has"
        raise TypeError(f"{head}{source} size {scalar.itemsize} bytes, but {target} size {wanted.itemsize} bytes")
    if inner:
        return (*shape, *inner), (*strides, *views.contiguous_strides(inner, scalar.itemsize))
    outer = len(shape) - len(form)
    if outer < 0 or shape[outer:] != form or strides[outer:] != views.contiguous_strides(form, scalar.itemsize):
        raise TypeError(f"{head}the last dimensions of shape {shape} must be {form}, without gaps")
    return (shape[:outer], strides[:outer]) if outer else ((1,), (size * math.prod(form),))


def keep_arrays(block: Block, data: Any, element: types.Type, whole: bool = False) -> None:
    """Keeps the arrays alive whose addresses `data`, stored as `element`s in `block` (all of it?), bring with them."""
    if isinstance(element, types.Struct) and any(isinstance(leaf, types.Pointer) for _, leaf in types.leaves(element)):
        block.kept = (None if whole else block.kept, data)


def kept_arrays(kept: Any) -> dict[int, Any]:
    """The arrays that `keep_arrays` has kept, by the address of their first element."""
    found: dict[int, Any] = {}
    todo = [kept]
    while todo:
        item = todo.pop()
        if isinstance(item, list | tuple):
            todo += item
        elif isinstance(item, StructValue):
            todo += [getattr(item, name) for name, _ in item.ir_type.fields]
        elif isinstance(getattr(item, "ir_type", None), types.Array):
            found.setdefault(item.ptr, item)
            todo.append(item.block.kept if hasattr(item, "block") else None)
    return found


def infer(data: Any) -> Any:
    """The dtype of plain data: Python ints are int32, floats float32; NumPy data keep theirs, value objects too."""
    if isinstance(data, np.ndarray):
        return data.dtype
    first = data
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if isinstance(first, Value | StructValue):
        return first.ir_type
    if isinstance(first, np.ndarray | np.generic):
        return first.dtype
    kind = np.asarray(data).dtype.kind
    if kind in "biuf":
        return {"b": types.bool_, "f": types.float32}.get(kind, types.int32)
    raise TypeError(f"cannot tell an element type from {data!r}; pass dtype=")


def to_numpy(data: Any, element: types.Type, layout: str = "aos", flat: bool = True) -> np.ndarray:
    """`data` as a NumPy array of shape (…, inner shape of the element), converted without losing integers.

    With `flat`, the last dimension may also be a whole number of elements whose components follow each other.
    Raises TypeError for a wrong inner shape or a number that is not integral where an integer is wanted, ValueError for
    an integer outside the type's range. float64 rounds to float32.
    """
    scalar, inner = numpy_element(element, layout)
    if isinstance(element, types.Struct):
        return _to_records(data, element, scalar)
    if isinstance(data, Value) and data.ir_type != element:
        raise TypeError(f"expected {element!r}, got a {data.ir_type!r}")
    source = _numbers(data, element)
    if inner and source.shape[source.ndim - len(inner) :] != inner:
        if source.size == 0 and source.ndim == 1:  # an empty list
            return np.empty((0, *inner), scalar)
        count = math.prod(inner)
        if flat and source.ndim > 1 and source.size and math.prod(source.shape[1:]) == count:
            return _cast(source.reshape(len(source), *inner), scalar, element)
        if not flat or not source.ndim or source.shape[-1] == 0 or source.shape[-1] % count:
            raise TypeError(f"{element!r} needs data of shape (…, {', '.join(map(str, inner))}), got {source.shape}")
        many = (source.shape[-1] // count,) if source.shape[-1] != count else ()
        source = source.reshape(*source.shape[:-1], *many, *inner)  # flattened elements
    return _cast(source, scalar, element)


def _numbers(data: Any, element: types.Type) -> np.ndarray:
    """Any data as an array of numbers, of whatever type."""
    try:
        source = np.asarray(data)
    except ValueError:  # not rectangular; transforms may be pairs (p, q)
        if not isinstance(element, types.Transform):
            raise TypeError(f"cannot make {element!r} from lists of different lengths") from None
        make = value_class(element)
        source = np.asarray(make(data) if len(data) == 2 and np.ndim(data[0]) == 1 else [make(item) for item in data])
    if source.dtype.kind in "biuf":
        return source
    if source.dtype.kind == "O" and source.size and all(isinstance(item, int) for item in source.flat):
        raise ValueError(f"{data!r} does not fit {element!r}")
    raise TypeError(f"cannot make {element!r} from {data!r}")


def _cast(source: np.ndarray, scalar: np.dtype, element: types.Type) -> np.ndarray:
    if element is types.bfloat16 or (types.components(element) or (None,))[0] is types.bfloat16:
        return source if source.dtype == np.uint16 else types.bfloat16_bits(source)
    if source.dtype == scalar:
        return source
    if scalar.kind in "iu" and source.size:
        if source.dtype.kind == "f" and not bool(np.all(np.isfinite(source) & (source == np.trunc(source)))):
            raise TypeError(f"{element!r} needs whole numbers, got {source.dtype} data with fractions, NaN or infinity")
        limits = np.iinfo(scalar)
        low, high = int(source.min()), int(source.max())
        if low < limits.min or high > limits.max:
            raise ValueError(f"{low} … {high} does not fit {element!r} ({limits.min} … {limits.max})")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinity, as everywhere
        return source.astype(scalar)


def _to_records(data: Any, element: types.Struct, record: np.dtype) -> np.ndarray:
    if isinstance(data, np.ndarray | np.void) and data.dtype.names is not None:
        if data.dtype.names != record.names:
            raise TypeError(f"{element!r} has the fields {record.names}, got {data.dtype.names}")
        return np.asarray(data) if data.dtype == record else np.asarray(data).astype(record)
    if isinstance(data, StructValue):
        return np.array(record_of(data, element), record)
    if isinstance(data, tuple) and not any(isinstance(item, StructValue | tuple | list) for item in data):
        return np.array(data, record)
    if not isinstance(data, list | tuple):
        raise TypeError(f"cannot make {element!r} from {data!r}")
    items = [_to_records(item, element, record) for item in data]
    return np.stack(items) if items else np.empty(0, record)


def record_of(value: Any, element: types.Struct) -> tuple[Any, ...]:
    """A struct value object as the nested tuple that NumPy stores into a record."""
    if getattr(value, "ir_type", None) != element:
        raise TypeError(f"expected a {element!r}, got {value!r}")
    return struct_leaves(value, element)


def to_value(stored: Any, element: types.Type, arrays: dict[int, Any] | None = None) -> Any:
    """One stored element as Python code sees it: a number, or an object of the element's value class.

    An array in a struct is the one of `arrays` (by address) that lies there, None where it is not known to live.
    """
    if isinstance(element, types.Scalar):
        return scalar_of(stored, element)
    make = value_class(element)
    if isinstance(element, types.Struct):
        found: dict[str, Any] = {}
        for name, ftype in element.fields:
            if isinstance(ftype, types.Array):
                found[name] = (arrays or {}).get(int(stored[name][0]))
            else:
                found[name] = to_value(stored[name], ftype, arrays)
        return make(**found)
    return make(np.array(stored).reshape(-1))
