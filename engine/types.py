"""Types of the kernel language for users' code: makers of types, and questions about types and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.compiler import types as _t
from engine.compiler.lang import fixedarray
from engine.compiler.types import AnyFloat as Float
from engine.compiler.types import AnyInt as Int
from engine.compiler.types import AnyScalar as Scalar
from engine.compiler.types import (
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from engine.compiler.values import StructValue, Value, matrix, quaternion, transformation, type_of, vector
from engine.context.annotation import ArrayAnnotation
from engine.context.array import array
from engine.context.array_indexed import indexedarray
from engine.context.table import Table

int_types = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
float_types = (float16, float32, float64)
scalar_types = (*int_types, *float_types)
scalar_and_bool_types = (*scalar_types, bool_)
HOLDERS = (Value, StructValue, array, indexedarray, fixedarray, Table)  # their instances are no types

__all__ = [
    "Float", "Int", "Matrix", "Quaternion", "Scalar", "Transformation", "Vector", "array", "bool_",
    "dtype_from_numpy", "dtype_to_numpy", "float16", "float32", "float64", "float_types", "int8", "int16", "int32",
    "int64", "int_types", "is_array", "is_composite", "is_float", "is_int", "is_matrix", "is_quaternion", "is_scalar",
    "is_struct", "is_tile", "is_transformation", "is_value", "is_vector", "matrix", "quaternion",
    "scalar_and_bool_types", "scalar_types", "transformation", "type_is_array", "type_is_composite", "type_is_float",
    "type_is_int", "type_is_matrix", "type_is_quaternion", "type_is_scalar", "type_is_struct", "type_is_tile",
    "type_is_transformation", "type_is_value", "type_is_vector", "type_repr", "type_size", "types_equal", "uint8",
    "uint16", "uint32", "uint64", "vector",
]  # fmt: skip


def dtype_from_numpy(dtype: Any) -> Any:
    """The scalar type that a NumPy type means. Raises TypeError where there is none."""
    found = _t.BY_NUMPY.get(np.dtype(dtype))
    if found is None:
        raise TypeError(f"NumPy's {np.dtype(dtype)} has no type in the kernel language")
    return found


def dtype_to_numpy(dtype: Any) -> Any:
    """The NumPy type of a scalar type, or of the components of a composite one."""
    t = _t.of_annotation(dtype)
    same = _t.components(t)
    if same is None:
        raise TypeError(f"{t!r} has no NumPy type")
    return same[0].numpy.type


class _Subscripted:
    """`Vector[float32, Literal[3]]` and its like: annotations that type checkers read, too."""

    def __init__(self, name: str, make: Any):
        self.__name__, self._make = name, make

    def __getitem__(self, given: Any) -> Any:
        parts = given if isinstance(given, tuple) else (given,)
        return self._make(*map(_t.literal, parts))

    def __repr__(self) -> str:
        return self.__name__


Vector: Any = _Subscripted("Vector", lambda dtype, length=Any: vector(length, dtype))
Matrix: Any = _Subscripted("Matrix", lambda dtype, rows=Any, cols=Any: matrix((rows, cols), dtype))
Quaternion: Any = _Subscripted("Quaternion", quaternion)
Transformation: Any = _Subscripted("Transformation", transformation)


def _type(annotation: Any) -> _t.Type | None:
    """The type that an annotation means, or None; objects that hold something are no types."""
    return None if isinstance(annotation, HOLDERS) else _meant(annotation)


def _meant(annotation: Any) -> _t.Type | None:
    """The same, for `array(dtype=float)`, too, which is an array and an annotation."""
    try:
        return _t.of_annotation(annotation)
    except TypeError:
        return None


def type_is_int(t: Any) -> bool:
    """Whether `t` is an integer type (Python's int counts as int32)."""
    found = _type(t)
    return isinstance(found, _t.Scalar) and found.is_int


def type_is_float(t: Any) -> bool:
    """Whether `t` is a floating-point type (Python's float counts as float32)."""
    found = _type(t)
    return isinstance(found, _t.Scalar) and found.is_float


def type_is_scalar(t: Any) -> bool:
    """Whether `t` is a number or truth type."""
    return isinstance(_type(t), _t.Scalar)


def type_is_vector(t: Any) -> bool:
    """Whether `t` is a vector type."""
    return isinstance(_type(t), _t.Vector)


def type_is_matrix(t: Any) -> bool:
    """Whether `t` is a matrix type."""
    return isinstance(_type(t), _t.Matrix)


def type_is_quaternion(t: Any) -> bool:
    """Whether `t` is a quaternion type."""
    return isinstance(_type(t), _t.Quat)


def type_is_transformation(t: Any) -> bool:
    """Whether `t` is a type of rigid transforms."""
    return isinstance(_type(t), _t.Transform)


def type_is_struct(t: Any) -> bool:
    """Whether `t` is a class made by `@struct`."""
    return isinstance(_type(t), _t.Struct)


def type_is_array(t: Any) -> bool:
    """Whether `t` is the annotation of an array, or a class of arrays."""
    if isinstance(t, type) and issubclass(t, array | indexedarray | fixedarray):
        return True
    found = _type(t)
    return isinstance(found, _t.Array) or isinstance(found, _t.Generic) and found.kind == "array"


def type_is_tile(t: Any) -> bool:
    """Whether `t` is a tile type."""
    return False


def type_is_composite(t: Any) -> bool:
    """Whether `t` consists of numbers: vector, matrix, quaternion or transform."""
    return isinstance(_type(t), _t.Vector | _t.Matrix | _t.Quat | _t.Transform)


def type_is_value(t: Any) -> bool:
    """Whether values of `t` are passed by value: a scalar or a composite."""
    return type_is_scalar(t) or type_is_composite(t)


def _of(value: Any) -> _t.Type | None:
    """The type of a value; None for a type, and for what is no value of the language."""
    try:
        return None if isinstance(value, _t.Type | ArrayAnnotation) else type_of(value)
    except TypeError:
        return None


def is_int(x: Any) -> bool:
    """Whether `x` is a whole number."""
    return type_is_int(_of(x))


def is_float(x: Any) -> bool:
    """Whether `x` is a floating-point number."""
    return type_is_float(_of(x))


def is_scalar(x: Any) -> bool:
    """Whether `x` is a number or truth value."""
    return type_is_scalar(_of(x))


def is_vector(x: Any) -> bool:
    """Whether `x` is a vector."""
    return type_is_vector(_of(x))


def is_matrix(x: Any) -> bool:
    """Whether `x` is a matrix."""
    return type_is_matrix(_of(x))


def is_quaternion(x: Any) -> bool:
    """Whether `x` is a quaternion."""
    return type_is_quaternion(_of(x))


def is_transformation(x: Any) -> bool:
    """Whether `x` is a rigid transform."""
    return type_is_transformation(_of(x))


def is_struct(x: Any) -> bool:
    """Whether `x` is an instance of a struct."""
    return type_is_struct(_of(x))


def is_array(x: Any) -> bool:
    """Whether `x` is an array, or the annotation of one that stands for it while a kernel is written."""
    return isinstance(_of(x), _t.Array | _t.LocalArray) or isinstance(x, ArrayAnnotation)


def is_tile(x: Any) -> bool:
    """Whether `x` is a tile."""
    return False


def is_composite(x: Any) -> bool:
    """Whether `x` is a vector, matrix, quaternion or transform."""
    return type_is_composite(_of(x))


def is_value(x: Any) -> bool:
    """Whether `x` is a scalar or a composite."""
    return type_is_value(_of(x))


def types_equal(a: Any, b: Any) -> bool:
    """Whether two annotations mean the same type."""
    found = _meant(a)
    return found is not None and found == _meant(b)


def type_repr(t: Any) -> str:
    """A type as users write it."""
    found = _meant(t)
    return repr(t) if found is None else repr(found)


def type_size(t: Any) -> int:
    """How many scalars a value of type `t` consists of."""
    return len(_t.leaves(_t.of_annotation(t)))
