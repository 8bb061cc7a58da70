"""From an IR type to its class of values and back; `vector(...)` and `matrix(...)` as users write them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.types import Generic, Matrix, Quat, Scalar, Transform, Type, Vector
from engine.compiler.values.base import Value, registered
from engine.compiler.values.linear import matrix_class, vector_class
from engine.compiler.values.rigid import quat_class, transform_class


class Pattern:
    """Base of annotation classes with free parameters; there are no values of them."""

    ir_type: Any = types.Any_

    def __init__(self, *args: Any, **named: Any):
        raise TypeError(f"{self.ir_type} is a pattern for annotations; give its length, shape and dtype to make values")


@cache
def _pattern(kind: str, dtype: Type, shape: tuple[int | None, ...] = ()) -> Any:
    return type(kind, (Pattern,), {"ir_type": Generic(kind, dtype, shape)})


def _scalar(dtype: Any, what: str) -> Type:
    t = types.of_annotation(dtype)
    scalar_pattern = isinstance(t, Generic) and t.kind in ("any", "scalar", "int", "float")
    if not (isinstance(t, Scalar) or scalar_pattern):
        raise TypeError(f"{what}: dtype must be a scalar type, got {dtype!r}")
    return t


def _extent(size: Any, what: str) -> int | None:
    if size is Any:
        return None
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise ValueError(f"{what}: a size must be a whole number from 0 or Any, got {size!r}")
    return int(size)


def _known_in_kernels(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that kernels may call while they are compiled: its result depends on its arguments alone."""
    factory.intrinsic = factory.__name__  # type: ignore[attr-defined]
    return factory


@_known_in_kernels
def vector(length: Any, dtype: Any) -> Any:
    """The class of vectors of `length` components of scalar type `dtype`; `Any` for either makes a pattern."""
    t, n = _scalar(dtype, "vector"), _extent(length, "vector")
    return vector_class(t, n) if isinstance(t, Scalar) and n is not None else _pattern("vector", t, (n,))


@_known_in_kernels
def matrix(shape: Any, dtype: Any) -> Any:
    """The class of matrices of `shape` (rows, cols); `Any` for the shape, an extent or the dtype makes a pattern."""
    t = _scalar(dtype, "matrix")
    if shape is not Any and len(shape) != 2:
        count = f"{len(shape)} dimension{'s' * (len(shape) != 1)}"
        raise ValueError(f"Matrix shape must have exactly two dimensions, got {count} in shape {shape}")
    r, c = (None, None) if shape is Any else (_extent(s, "matrix") for s in shape)
    is_whole = isinstance(t, Scalar) and r is not None and c is not None
    return matrix_class(t, r, c) if is_whole else _pattern("matrix", t, (r, c))  # type: ignore[arg-type]


@_known_in_kernels
def quaternion(dtype: Any) -> Any:
    """The class of quaternions of scalar type `dtype`; `Any` makes a pattern."""
    t = _scalar(dtype, "quaternion")
    return quat_class(t) if isinstance(t, Scalar) else _pattern("quat", t)


@_known_in_kernels
def transformation(dtype: Any) -> Any:
    """The class of rigid transforms of scalar type `dtype`; `Any` makes a pattern."""
    t = _scalar(dtype, "transformation")
    return transform_class(t) if isinstance(t, Scalar) else _pattern("transform", t)


def value_class(t: Type) -> Any:
    """The class of the values of IR type `t`: its constructor in Python scope. A scalar type is its own.

    Raises TypeError for a type without values in Python scope.
    """
    match t:
        case Scalar():
            return t
        case Vector(dtype, n):
            return vector_class(dtype, n)
        case Matrix(dtype, r, c):
            return matrix_class(dtype, r, c)
        case Quat(dtype):
            return quat_class(dtype)
        case Transform(dtype):
            return transform_class(dtype)
    found = registered(t)
    if found is None:
        raise TypeError(f"{t!r} has no values in Python scope")
    return found


def restore(ir_type: Type, components: list[Any]) -> Any:
    """Unpickles a value."""
    return value_class(ir_type)(components)


def _reduce(value: Any) -> Any:
    return restore, (value.ir_type, value._c.tolist())


Value.__reduce__ = _reduce  # type: ignore[assignment, method-assign]  # set here, where every class can be made again


def type_of(value: Any) -> Type:
    """The type that a Python-scope value has in a kernel: float is float32, int is int32, NumPy scalars keep theirs."""
    if isinstance(value, np.generic):  # before float: float64 is a subclass of it
        found = types.BY_NUMPY.get(value.dtype)
        if found is not None:
            return found
    elif type(value) in types.PYTHON:
        return types.PYTHON[type(value)]
    elif isinstance(value, int):  # enums
        return types.int32
    elif isinstance(value, types.BFloat16):
        return types.bfloat16
    elif isinstance(value, tuple) and not isinstance(value, Value):
        return types.Tuple(tuple(type_of(item) for item in value))
    t = getattr(value, "ir_type", None)
    if isinstance(t, Type) and not isinstance(value, type):
        return t
    raise TypeError(f"{value!r} is not a value of the kernel language")


def flatten(t: Type, value: Any) -> list[Any]:
    """The scalars that `value` of type `t` consists of, in the order of `types.leaves`; not for arrays."""
    if isinstance(t, Scalar):
        return [value]
    if isinstance(t, types.Struct):
        return [leaf for name, ftype in t.fields for leaf in flatten(ftype, getattr(value, name))]
    if not isinstance(value, Value):
        value = value_class(t)(value)
    return value._c.tolist()
