"""Constructors whose result type follows from their arguments: made by the front end, or here in Python scope."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.values import matrix as matrix_type
from engine.compiler.values import quaternion as quaternion_type
from engine.compiler.values import transformation as transformation_type
from engine.compiler.values import type_of
from engine.compiler.values import vector as vector_type


class Constructor:
    """A name that the front end knows as intrinsic `intrinsic`, with its meaning in Python scope."""

    def __init__(self, function: Any):
        self._function = function
        self.intrinsic = self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    def __repr__(self) -> str:
        return f"<builtin {self.intrinsic}>"


@Constructor
def matrix_from_rows(*rows: Any) -> Any:
    """The matrix whose rows are the given vectors."""
    found = np.stack([np.asarray(row) for row in rows])
    return matrix_type(found.shape, type_of(rows[0]).dtype)(found)  # type: ignore[attr-defined]


@Constructor
def matrix_from_cols(*columns: Any) -> Any:
    """The matrix whose columns are the given vectors."""
    found = np.stack([np.asarray(column) for column in columns], axis=1)
    return matrix_type(found.shape, type_of(columns[0]).dtype)(found)  # type: ignore[attr-defined]


@Constructor
def identity(n: int, dtype: Any = float) -> Any:
    """The n × n identity matrix."""
    return matrix_type((n, n), dtype)(np.eye(n))


@Constructor
def vector(*args: Any, length: int | None = None, dtype: Any = None) -> Any:
    """A vector of the given numbers; `vector(s, length=3, dtype=float32)` is filled with s."""
    found = np.concatenate([np.asarray(a).reshape(-1) for a in args]) if args else np.zeros(1)
    kind = dtype if dtype is not None else _component_type(args)
    return vector_type(length or found.size, kind)(*args)


@Constructor
def matrix(*args: Any, shape: Any = None, dtype: Any = None) -> Any:
    """A matrix of the given numbers, row by row."""
    kind = dtype if dtype is not None else _component_type(args)
    if shape is None:
        shape = np.asarray(args[0]).shape
    return matrix_type(shape, kind)(*args)


@Constructor
def quaternion(*args: Any, dtype: Any = None) -> Any:
    """A quaternion x, y, z, w."""
    return quaternion_type(dtype if dtype is not None else _component_type(args))(*args)


@Constructor
def transformation(*args: Any, dtype: Any = None, **parts: Any) -> Any:
    """A rigid transform of a position and a quaternion."""
    return transformation_type(dtype if dtype is not None else _component_type(args))(*args, **parts)


def _component_type(args: tuple[Any, ...]) -> Any:
    found = [types.components(type_of(a)) for a in args]
    kinds = [same[0] for same in found if same]
    return next((k for k in kinds if k.is_float), kinds[0] if kinds else types.float32)


@Constructor
def static(value: Any) -> Any:
    """`static(expression)`: evaluated by Python, once, while compiling; here it is the value itself."""
    return value
