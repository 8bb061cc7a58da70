"""`array[float]`, `array2d[vec3]`, `indexedarray[Any]`: which arrays a parameter takes, without memory or device."""

from __future__ import annotations

from typing import Any, Union

from engine.compiler import types
from engine.context import array_views as views
from engine.context import dtypes


class ArrayAnnotation:
    """What `array[dtype, ndim]` makes: equal where it means the same arrays, hashable, and part of unions.

    array_class: `array` or `indexedarray`. dtype: as `array.dtype` reports it; anything may stand here, and an error is
    raised where a kernel is made with it. ndim: 1 to 4, or Any.
    """

    __slots__ = ("array_class", "dtype", "ndim")
    array_class: Any
    dtype: Any
    ndim: Any

    def __init__(self, array_class: Any, dtype: Any = Any, ndim: Any = 1):
        try:
            self.dtype = dtypes.resolve(dtype)[0]
        except TypeError:  # a type that is declared later, or none at all
            self.dtype = dtype
        if ndim is not Any and not (isinstance(ndim, int) and 1 <= ndim <= views.MAX_DIMS):
            raise ValueError(f"ndim must be between 1 and {views.MAX_DIMS}, or Any, got {ndim!r}")
        self.array_class, self.ndim = array_class, ndim

    @classmethod
    def of(cls, array_class: type, given: Any) -> ArrayAnnotation:
        """The annotation that `array_class[given]` means: an element type, or one and a number of dimensions."""
        dtype, *more = given if isinstance(given, tuple) else (given,)
        if len(more) > 1:
            raise TypeError(f"{array_class.__name__}[dtype, ndim] takes two parameters, got {len(more) + 1}")
        return cls(array_class, dtype, types.literal(more[0]) if more else 1)

    @classmethod
    def of_rank(cls, array_class: type, dtype: Any, ndim: int) -> ArrayAnnotation:
        """The annotation that `array2d[dtype]` and its like mean."""
        if isinstance(dtype, tuple):
            raise TypeError(f"{array_class.__name__}{ndim}d[…] takes a single type parameter, got {len(dtype)}")
        return cls(array_class, dtype, ndim)

    @property
    def ir_type(self) -> types.Type:
        """The type, or the pattern where the dtype or the number of dimensions is open. Raises TypeError for none."""
        element = dtypes.resolve(self.dtype)[1]
        if self.ndim is Any:
            return types.Generic("array", element)
        return dtypes.array_type(element, self.ndim, "aos", self.array_class.ir_class)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ArrayAnnotation):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.array_class, self.dtype, self.ndim

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007  # `|` is what is defined here

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        name = self.array_class.__name__
        dtype = "Any" if self.dtype is Any else getattr(self.dtype, "__name__", repr(self.dtype))
        if self.ndim == 1:
            return f"{name}[{dtype}]"
        return f"{name}[{dtype}, Any]" if self.ndim is Any else f"{name}{self.ndim}d[{dtype}]"
