"""How values lie in memory as NumPy sees them: element types, records of structs, descriptors of arrays in structs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from engine.compiler import types


@cache
def numpy_element(element: types.Type, layout: str = "aos") -> tuple[np.dtype, tuple[int, ...]]:
    """(dtype, inner shape) of an element: vec3 is (float32, (3,)), mat33 (float32, (3, 3)), structs are records."""
    if isinstance(element, types.Struct):
        return _record(element, layout), ()
    same = types.components(element)
    if same is None:
        raise TypeError(f"{element!r} cannot be an array element")
    scalar, count = same
    if isinstance(element, types.Scalar):
        return scalar.numpy, ()
    if isinstance(element, types.Matrix):
        return scalar.numpy, (element.rows, element.cols)
    return scalar.numpy, (count,)


def _record(struct: types.Struct, layout: str) -> np.dtype:
    """Structured dtype with the offsets of `types.memory_layout`; arrays are records of address, shape, strides."""
    offsets, size, _ = types.memory_layout(struct, layout)
    formats: list[Any] = []
    starts, leaf = [], 0
    for _, ftype in struct.fields:
        if isinstance(ftype, types.Array):
            formats.append(_descriptor(ftype))
        else:
            scalar, inner = numpy_element(ftype)
            formats.append((scalar, inner) if inner else scalar)
        starts.append(offsets[leaf] if leaf < len(offsets) else size)
        leaf += len(types.leaves(ftype))
    names = [name for name, _ in struct.fields]
    return np.dtype({"names": names, "formats": formats, "offsets": starts, "itemsize": size})


def _descriptor(t: types.Array) -> np.dtype:
    """How an array lies in a struct: one number for each of its leaves, called data, shape0, stride0 …"""
    offsets, size, _ = types.memory_layout(t)
    leaves = types.leaves(t)
    names = ["".join(map(str, path)) for path, _ in leaves]
    formats = [np.dtype(np.uint64) if isinstance(leaf, types.Pointer) else leaf.numpy for _, leaf in leaves]
    return np.dtype({"names": names, "formats": formats, "offsets": list(offsets), "itemsize": size})


def array_leaves(value: Any, kind: types.Array) -> list[int]:
    """The leaves of an array argument or field, in the order of `types.leaves`; None is an array of no elements."""
    if value is None:
        return [0] * len(types.leaves(kind))
    if getattr(value, "ir_type", None) != kind:
        raise TypeError(f"expected {kind!r}, got {value!r}")
    planes = len(types.leaves(kind.dtype)) if kind.layout == "planes" else 1
    lists = [positions.ptr for positions in value.positions] if isinstance(kind, types.IndexedArray) else []
    return [*(value.ptr + k * value.plane_stride for k in range(planes)), *lists, *value.shape, *value.strides]


def struct_leaves(value: Any, element: types.Struct) -> tuple[Any, ...]:
    """The fields of a struct value as the nested tuple that NumPy stores into a record."""
    parts: list[Any] = []
    for name, ftype in element.fields:
        part = getattr(value, name)
        if isinstance(ftype, types.Array):
            parts.append(tuple(array_leaves(part, ftype)))
        elif isinstance(ftype, types.Struct):
            parts.append(struct_leaves(part, ftype))
        else:
            scalar, inner = numpy_element(ftype)
            parts.append(np.asarray(part, scalar).reshape(inner))
    return tuple(parts)


def record_fields(struct: types.Struct) -> dict[str, Any]:
    """The record of a struct as the dict that `numpy.dtype` takes: names, formats, offsets, itemsize."""
    record = numpy_element(struct)[0]
    assert record.names is not None and record.fields is not None
    fields = [record.fields[name] for name in record.names]
    return {"names": list(record.names), "formats": [f[0] for f in fields], "offsets": [f[1] for f in fields],
            "itemsize": record.itemsize}  # fmt: skip
