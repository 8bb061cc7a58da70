"""The register of library functions: which names the language has, and which implementation fits which argument types.

A library function is a plain Python function in the kernel language. The front end compiles its source; called in
Python scope it runs as Python, on NumPy scalars and Python-scope values, with the same arithmetic.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.types import Type
from engine.compiler.values import Value, type_of, value_class

Implementation = Callable[..., Any]


class LibraryFunction:
    """One implementation. `function` is the Python function, `patterns` the types that its parameters take.

    `updates` are the parameters that a call changes: the function returns their new values first, then its result.
    """

    def __init__(self, function: Implementation, updates: tuple[int, ...] = ()):
        self.function, self.updates = function, updates
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.gradient: Implementation | None = None  # its own gradient function, see `derivatives`
        self._patterns: tuple[Type, ...] | None = None

    def __repr__(self) -> str:
        return f"<library function {self.__name__}>"

    @property
    def parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())

    @property
    def patterns(self) -> tuple[Type, ...]:
        """The types of the parameters, as annotated; without an annotation anything fits."""
        if self._patterns is None:
            notes = (Any if p.annotation is inspect.Parameter.empty else p.annotation for p in self.parameters)
            self._patterns = tuple(map(types.of_annotation, notes))
        return self._patterns

    def accepts(self, arguments: tuple[Type, ...], named: Collection[str] = ()) -> bool:
        """Whether it can be called with positional arguments of these types, and with others by these names."""
        rest = {p.name: p.default is inspect.Parameter.empty for p in self.parameters[len(arguments) :]}
        missing = any(needed for name, needed in rest.items() if name not in named)
        if len(arguments) > len(self.patterns) or missing or not rest.keys() >= set(named):
            return False
        bound: dict[str, Type] = {}
        return all(types.matches(p, a, bound) for p, a in zip(self.patterns, arguments, strict=False))

    def __call__(self, *args: Any, **named: Any) -> Any:
        result = run_in_python(self.function, args, named)
        if not self.updates:
            return result
        for position, new in zip(self.updates, result, strict=False):
            if position < len(args) and isinstance(args[position], Value):  # numbers cannot be changed in Python
                args[position]._c[:] = new._c
        rest = result[len(self.updates) :]
        return rest[0] if rest else None


class Builtin:
    """A name of the language with its implementations; the first whose parameter types match a call is taken."""

    def __init__(self, name: str):
        self.name = self.__name__ = name
        self.overloads: list[LibraryFunction] = []

    def __repr__(self) -> str:
        return f"<builtin {self.name}>"

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return next((f.__doc__ for f in self.overloads if f.__doc__), None)

    def resolve(self, arguments: tuple[Type, ...], named: Collection[str] = ()) -> LibraryFunction | None:
        """The implementation for positional arguments of these types and others of these names, or None."""
        return next((f for f in self.overloads if f.accepts(arguments, named)), None)

    def __call__(self, *args: Any, **named: Any) -> Any:
        args, named = bind(self, args, named)
        arguments = tuple(type_of(a) for a in args)
        found = self.resolve(arguments, named)
        if found is None and (found := self.resolve(as_floats(arguments), named)):
            args, named = tuple(map(_real, args)), {name: _real(a) for name, a in named.items()}
        if found is None and any(_half(a) is not None for a in arguments):
            return self._in_float32(args, named, next(h for h in map(_half, arguments) if h is not None))
        if found is None:
            raise TypeError(f"{self.name} takes no ({', '.join(map(repr, arguments))})")
        return found(*args, **named)

    def _in_float32(self, args: tuple[Any, ...], named: dict[str, Any], half: types.Scalar) -> Any:
        """16-bit floats are computed in float32, the results rounded back, as in kernels."""
        result = self(*[_wide(a, half) for a in args], **{k: _wide(a, half) for k, a in named.items()})
        return tuple(_narrow(r, half) for r in result) if isinstance(result, tuple) else _narrow(result, half)


def _half(t: Type) -> types.Scalar | None:
    """The component type of `t` if it is a 16-bit float."""
    same = types.components(t)
    return same[0] if same is not None and same[0].is_float and same[0].bits == 16 else None


def _wide(value: Any, half: types.Scalar) -> Any:
    if isinstance(value, Value):
        wide = value_class(types.with_scalar(value.ir_type, types.float32))
        return wide([float(x) for x in value]) if value.dtype == half else value
    return np.float32(float(value)) if type_of(value) == half else value


def _narrow(value: Any, half: types.Scalar) -> Any:
    if isinstance(value, Value) and value.dtype == types.float32:
        return value_class(types.with_scalar(value.ir_type, half))(np.asarray(value))
    return half(value) if isinstance(value, float | np.float32) else value


def bind(builtin: Builtin, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position, and by name those behind a default: after the first overload that has these names.

    Their types say afterwards which overload is meant, so that `transform_point(point=p, xform=…)` takes a matrix.
    """
    if not named:
        return args, named
    for overload in builtin.overloads:
        try:
            bound = inspect.signature(overload.function).bind(*args, **named)
        except TypeError:
            continue
        return bound.args, bound.kwargs
    raise TypeError(f"{builtin.name} takes no arguments ({', '.join(named)})")


def as_floats(arguments: tuple[Type, ...]) -> tuple[Type, ...]:
    """Python scope is lenient: `sin(1)` means `sin(1.0)`."""
    return tuple(types.float32 if a == types.int32 else a for a in arguments)


def _real(value: Any) -> Any:
    if type_of(value) != types.int32:
        return value
    return np.float32(value) if isinstance(value, np.generic) else float(value)


def library_function(function: Implementation) -> LibraryFunction:
    """Marks a function of the library that is not a name of the language itself."""
    return LibraryFunction(function)


BUILTINS: dict[str, Builtin] = {}


def name_of(name: str) -> Builtin:
    """The builtin called `name`, made when first asked for, so that modules may refer to each other's names."""
    return BUILTINS.setdefault(name, Builtin(name))


@functools.cache
def changed_arguments() -> dict[str, tuple[int, ...]]:
    """Names whose calls change arguments, with the positions of these."""
    found = {name: sorted({p for f in b.overloads for p in f.updates}) for name, b in BUILTINS.items()}
    return {name: tuple(positions) for name, positions in found.items() if positions}


def builtin(name: str, updates: tuple[int, ...] = ()) -> Callable[[Implementation], LibraryFunction]:
    """Registers the decorated function as an implementation of the language's `name`; may be stacked.

    updates: positions of the parameters that a call changes; the function returns their new values, then its result.
    """

    def decorate(function: Implementation) -> LibraryFunction:
        made = function if isinstance(function, LibraryFunction) else LibraryFunction(function, updates)
        name_of(name).overloads.append(made)
        return made

    return decorate


def run_in_python(function: Implementation, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Calls `function` with Python numbers as NumPy scalars, so that they round as in a kernel, without warnings.

    Where the caller passed Python numbers only, the results come back as Python numbers.
    """
    values = (*args, *named.values())
    kept = any(isinstance(v, np.generic) for v in values)
    like = next((v.dtype.type for v in values if isinstance(v, np.floating)), np.float32)
    keywords = {name: numpy_number(a, like) for name, a in named.items()}
    with np.errstate(all="ignore"):
        result = function(*(numpy_number(a, like) for a in args), **keywords)
    return result if kept else plain(result)


def numpy_number(value: Any, like: Any) -> Any:
    """A Python number as the NumPy scalar it means: a float adapts to the other operands, as a literal does."""
    if isinstance(value, np.generic | Value | bool):
        return value
    if isinstance(value, float):
        return like(value)
    return np.int32(value) if isinstance(value, int) and -(2**31) <= value < 2**31 else value


def plain(result: Any) -> Any:
    """float32, int32 and truth values as Python numbers."""
    if isinstance(result, tuple):
        return tuple(plain(item) for item in result)
    return result.item() if isinstance(result, np.float32 | np.int32 | np.bool_) else result
