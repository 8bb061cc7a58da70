"""Python-scope vectors and matrices."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from engine.compiler.types import Matrix, Scalar, Vector
from engine.compiler.values.base import _VECTOR_CLASS, Value, component_array, make_class, scalar_of


def axis(index: int) -> property:
    """The component `index` by name; shorter vectors have no such attribute."""

    def check(self: Value) -> None:
        if index >= self.size:
            raise AttributeError(f"{type(self).__name__} has no component {'xyzw'[index]!r}")

    def get(self: Value) -> Any:
        check(self)
        return scalar_of(self._c[index], self.dtype)

    def put(self: Value, item: Any) -> None:
        check(self)
        self._c[index] = component_array(item, self.dtype, type(self).__name__)

    return property(get, put, doc=f"Component {index}.")


class VectorValue(Value):
    """`size` components. `vec()` is zero, `vec(s)` has all components s, else all of them or one sequence."""

    __slots__ = ()
    x, y, z, w = (axis(i) for i in range(4))

    @classmethod
    def _components(cls, args: tuple[Any, ...]) -> np.ndarray:
        if len(args) == 1 and isinstance(args[0], int | float | np.number):
            return np.full(cls.size, component_array(args[0], cls.dtype, cls.__name__))
        if len(args) > 1 and any(isinstance(a, Value) for a in args):
            # as in a kernel: shorter vectors and numbers joined, e.g. spatial_vector(v, w)
            args = (np.concatenate([np.asarray(a).reshape(-1) for a in args]),)
        return super()._components(args)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = self._c[index]
            return vector_class(self.dtype, part.size)._of(part.copy())
        return super().__getitem__(index)

    def __rmatmul__(self, other: Any) -> Any:
        return NotImplemented

    def __matmul__(self, other: Any) -> Any:
        """Row vector times matrix."""
        if isinstance(other, MatrixValue) and other.dtype == self.dtype and other.rows == self.size:
            return vector_class(self.dtype, other.cols)._of(product(self._c[None, :], other._rows())[0])
        return NotImplemented

    def __mul__(self, other: Any) -> Any:
        return self.__matmul__(other) if isinstance(other, MatrixValue) else super().__mul__(other)


class MatrixValue(Value):
    """Row-major matrix. `mat()` is zero, `mat(s)` filled with s, else all components, or rows as sequences."""

    __slots__ = ()
    rows: ClassVar[int]
    cols: ClassVar[int]

    @classmethod
    def _components(cls, args: tuple[Any, ...]) -> np.ndarray:
        if len(args) == 1 and isinstance(args[0], int | float | np.number):
            return np.full(cls.size, component_array(args[0], cls.dtype, cls.__name__))
        if len(args) > 1 and any(isinstance(a, Value) for a in args):
            args = ([np.asarray(row) for row in args],)
        return super()._components(args)

    def _rows(self) -> np.ndarray:
        return self._c.reshape(self.rows, self.cols)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows, self.cols

    @staticmethod
    def _key(index: Any) -> tuple[Any, ...]:
        """A row, or a row and a column; each may be a slice. Raises KeyError for anything else."""
        parts = index if isinstance(index, tuple) else (index,)
        if not 1 <= len(parts) <= 2:
            raise KeyError(f"Invalid key, expected one or two indices, got {len(parts)}")
        if any(not isinstance(part, slice) and not hasattr(part, "__index__") for part in parts):
            raise KeyError(f"Invalid key {index!r}, expected int or pair of ints")
        return parts

    def __getitem__(self, index: Any) -> Any:
        item = self._rows()[self._key(index)]
        if isinstance(item, np.ndarray):
            if item.ndim != 1:
                raise IndexError(f"{type(self).__name__}[{index!r}]: only a row, a column or a component can be taken")
            return vector_class(self.dtype, item.size)._of(item.copy())
        return scalar_of(item, self.dtype)

    def __setitem__(self, index: Any, item: Any) -> None:
        self._rows()[self._key(index)] = component_array(item, self.dtype, type(self).__name__)

    def get_row(self, row: int) -> Any:
        """Row number `row`, a vector."""
        return self[row]

    def set_row(self, row: int, items: Any) -> None:
        self[row] = items

    def get_col(self, column: int) -> Any:
        """Column number `column`, a vector."""
        return self[:, column]

    def set_col(self, column: int, items: Any) -> None:
        self[:, column] = items

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, MatrixValue) and other.dtype == self.dtype and other.rows == self.cols:
            flat = product(self._rows(), other._rows()).reshape(-1)
            return matrix_class(self.dtype, self.rows, other.cols)._of(flat)
        if isinstance(other, VectorValue) and other.dtype == self.dtype and other.size == self.cols:
            return vector_class(self.dtype, self.rows)._of(product(self._rows(), other._c[:, None])[:, 0])
        return NotImplemented

    def __mul__(self, other: Any) -> Any:
        return self.__matmul__(other) if isinstance(other, VectorValue | MatrixValue) else super().__mul__(other)

    def __str__(self) -> str:
        return "[" + ",\n ".join(f"[{', '.join(map(str, row))}]" for row in self._rows()) + "]"

    def __repr__(self) -> str:
        rows = (f"[{', '.join(map(str, row))}]" for row in self._rows())
        return f"{type(self).__name__}({', '.join(rows)})"


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Matrix product summed in the order of the inner index, as the library does it (no reordering by a BLAS)."""
    with np.errstate(all="ignore"):
        total = a[:, :1] * b[:1, :]
        for k in range(1, a.shape[1]):
            total = total + a[:, k : k + 1] * b[k : k + 1, :]
        return total


def vector_class(dtype: Scalar, length: int) -> Any:
    """The class of vectors of `length` components of `dtype`."""
    t = Vector(dtype, length)
    return make_class(VectorValue, repr(t), t)


_VECTOR_CLASS.append(vector_class)


def matrix_class(dtype: Scalar, rows: int, cols: int) -> Any:
    """The class of `rows` x `cols` matrices of `dtype`."""
    t = Matrix(dtype, rows, cols)
    return make_class(MatrixValue, repr(t), t, rows=rows, cols=cols)
