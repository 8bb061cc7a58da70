"""Constructors whose result type follows from their arguments: made by the front end, or here in Python scope."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.compiler.values import matrix, type_of


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
    return matrix(found.shape, type_of(rows[0]).dtype)(found)  # type: ignore[attr-defined]


@Constructor
def matrix_from_cols(*columns: Any) -> Any:
    """The matrix whose columns are the given vectors."""
    found = np.stack([np.asarray(column) for column in columns], axis=1)
    return matrix(found.shape, type_of(columns[0]).dtype)(found)  # type: ignore[attr-defined]


@Constructor
def identity(n: int, dtype: Any = float) -> Any:
    """The n × n identity matrix."""
    return matrix((n, n), dtype)(np.eye(n))


@Constructor
def static(value: Any) -> Any:
    """`static(expression)`: evaluated by Python, once, while compiling; here it is the value itself."""
    return value
