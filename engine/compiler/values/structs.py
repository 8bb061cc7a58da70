"""The `struct` decorator: classes of named fields that kernels pass and return by value."""

from __future__ import annotations

import inspect
import sys
from typing import Any, ClassVar

import numpy as np

from engine.compiler import types
from engine.compiler.types import Scalar, Struct, Type
from engine.compiler.values.base import Value, register, scalar_of
from engine.compiler.values.factories import value_class
from engine.compiler.values.records import record_fields, struct_leaves


class StructValue:
    """Base of all struct classes. Fields start at zero; an assignment converts to the field's type and copies."""

    __slots__ = ()
    ir_type: ClassVar[Any]

    def __init__(self, *args: Any, **fields: Any):
        names = [name for name, _ in self.ir_type.fields]
        if len(args) > len(names):
            raise TypeError(f"{self.ir_type} has {len(names)} fields, got {len(args)} values")
        given = {**dict(zip(names, args, strict=False)), **fields}
        for name, ftype in self.ir_type.fields:
            setattr(self, name, given.pop(name) if name in given else zero(ftype))
        if given:
            raise TypeError(f"{self.ir_type} has no field {next(iter(given))!r}")

    def __setattr__(self, name: str, item: Any) -> None:
        index = self.ir_type.index(name)
        if index is None:
            raise AttributeError(f"{self.ir_type} has no field {name!r}")
        object.__setattr__(self, name, convert(self.ir_type.fields[index][1], item, f"{self.ir_type}.{name}"))

    @classmethod
    def numpy_dtype(cls) -> dict[str, Any]:
        """The layout of an array element, as `numpy.dtype` takes it."""
        return record_fields(cls.ir_type)

    def numpy_value(self) -> tuple[Any, ...]:
        """The fields as NumPy stores them into a record; an array is its address, shape and strides."""
        return struct_leaves(self, self.ir_type)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, StructValue) or other.ir_type != self.ir_type:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name, _ in self.ir_type.fields)

    __hash__ = None  # type: ignore[assignment]  # mutable, compares by value

    def __repr__(self) -> str:
        return f"{self.ir_type}({', '.join(f'{n}={getattr(self, n)!r}' for n, _ in self.ir_type.fields)})"

    def __copy__(self) -> StructValue:
        return type(self)(**{name: getattr(self, name) for name, _ in self.ir_type.fields})


def zero(t: Type) -> Any:
    """The value of type `t` whose components are all zero; None for an array."""
    if isinstance(t, Scalar):
        return _number(t, 0)
    return None if isinstance(t, types.Array) else value_class(t)()


def _number(t: Scalar, item: Any) -> Any:
    """`item` rounded to `t`, as users see it."""
    return t(item) if t is types.bfloat16 else scalar_of(t(item), t)


def convert(t: Type, item: Any, what: str) -> Any:
    """A copy of `item` as a value of type `t`. Raises TypeError where it is not one."""
    if isinstance(t, Scalar):
        if not hasattr(item, "__float__") and not isinstance(item, int):
            raise TypeError(f"{what} takes {t}, got {item!r}")
        return _number(t, item)
    if isinstance(t, types.Array):
        have = getattr(item, "ir_type", None)
        if item is not None and have != t and not (isinstance(have, types.Array) and types.matches(t, have)):
            raise TypeError(f"{what} takes {t}, got {have if isinstance(have, types.Type) else repr(item)}")
        return item
    cls = value_class(t)
    if isinstance(item, int | float | np.generic):
        raise TypeError(f"{what} takes {t}, got the number {item!r}")
    if isinstance(item, StructValue | Value) and item.ir_type != t:
        raise TypeError(f"{what} takes {t}, got {item.ir_type}")
    return item.__copy__() if isinstance(item, StructValue) else cls(item)


def struct(cls: type) -> Any:
    """Turns a class of annotated fields into a struct: `@struct class Hit: t: float; n: vec3`.

    `Hit()` has all fields zero; fields may be given by position or name. Raises TypeError for a field whose
    annotation is no type of the kernel language.
    """
    frame = sys._getframe(1)
    notes = inspect.get_annotations(cls, eval_str=True, globals=frame.f_globals, locals=frame.f_locals)
    try:
        fields = tuple((name, types.of_annotation(note)) for name, note in notes.items())
    except TypeError as error:
        raise TypeError(f"struct {cls.__name__}: {error}") from None
    t = Struct(cls.__name__, fields)
    body = {"ir_type": t, "__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__,
            "__slots__": tuple(notes), "__annotations__": dict(notes)}  # fmt: skip
    made = type(cls.__name__, (StructValue,), body)
    register(t, made)
    return made
