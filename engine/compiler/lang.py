"""The vocabulary of kernels in one namespace: `from engine.compiler import lang as k`.

Scalar types, decorators and intrinsics stand here by name; value classes, primitives and library functions are found by
`__getattr__`, so that a function added to the library is part of the language without being listed again.
"""

from __future__ import annotations

from typing import Any

from engine.compiler import constants, library, types
from engine.compiler.custom_gradients import func_grad, func_replay
from engine.compiler.frontend.context import HOOKS
from engine.compiler.function import func, requires
from engine.compiler.kernel import kernel
from engine.compiler.library import constructors, expectations, primitives
from engine.compiler.library.derivatives import adjoint
from engine.compiler.library.expectations import EXPECTATIONS
from engine.compiler.library.intrinsics import ATOMICS, BLOCKS, HINTS, TILES, Intrinsic, shared
from engine.compiler.library.operators import OPERATORS
from engine.compiler.library.registry import BUILTINS, Builtin
from engine.compiler.types import (
    bfloat16,
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
from engine.compiler.values import names, struct

__all__ = [
    "adjoint", "array", "bfloat16", "bool_", "constant", "float16", "float32", "float64", "func", "func_grad",
    "func_replay", "int8", "int16", "int32", "int64", "kernel",
    "library", "requires", "shared", "static", "struct", "tid", "uint8", "uint16", "uint32", "uint64", "zeros",
]  # fmt: skip


tid = Intrinsic("tid", "Index of this thread, int32; `i, j = tid()` in a two-dimensional launch.")
zeros = Intrinsic("zeros", "zeros(shape=8, dtype=vec3): a fixed array of this thread.")
static = constructors.static
grad = Intrinsic("grad", "grad(f)(x, y): the derivatives of f by its float arguments.")
printf = Intrinsic("printf", 'printf("%d %f", i, x): prints numbers with a C format.')
# Python's names are taken in the primitives module; `where` is Warp's name
_SPELLED = {"abs": "absolute", "min": "minimum", "max": "maximum", "where": "select"}
# names of Python's that the language has too
_PYTHON = {"bool": bool_, "print": expectations.show, "handle": uint64, "float": float32, "int": int32}


class _Ref:
    """`ref[float32]`: the annotation of a function's parameter that reaches the caller's variable.

    Arrays are references already: `ref[array[float]]` means `array[float]`.
    """

    intrinsic = __name__ = "ref"

    def __getitem__(self, dtype: Any) -> Any:
        t = types.of_annotation(dtype)
        is_array = isinstance(t, types.Array | types.LocalArray) or isinstance(t, types.Generic) and t.kind == "array"
        return dtype if is_array else types.Reference(t)

    def __call__(self, *args: Any) -> Any:
        raise TypeError("ref is an annotation: ref[float32]")


ref = _Ref()


class fixedarray:
    """`fixedarray(shape=(2, 3), dtype=float)`: the annotation of an array of this thread, which `zeros` makes."""

    def __init__(self, dtype: Any = float, shape: Any = 1):
        extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        self.ir_type = types.LocalArray(types.of_annotation(dtype), extents)


def constant(value: Any) -> Any:
    """Marks a value as a constant of the language; captured Python values are constants anyway."""
    return value


def array(dtype: Any = Any, ndim: int = 1, layout: str = "aos") -> types.Type:
    """The annotation of an array parameter."""
    if layout not in types.LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(types.LAYOUTS)}, got {layout!r}")
    return types.Array(types.of_annotation(dtype), ndim, layout)


def __getattr__(name: str) -> Any:
    if name in BUILTINS:
        return BUILTINS[name]
    for known in (ATOMICS, BLOCKS, HINTS, TILES):
        if name in known:
            return known[name]
    if name in vars(names):
        return getattr(names, name)
    if name in _PYTHON:
        return _PYTHON[name]
    for table in (EXPECTATIONS, OPERATORS):
        if name in table:
            return table[name]
    if name in vars(constants) and not name.startswith("_") and name not in ("math", "annotations"):
        return getattr(constants, name)
    for module, kind in ((primitives, primitives.Primitive), (constructors, constructors.Constructor)):
        found = getattr(module, _SPELLED.get(name, name), None)
        if isinstance(found, kind):
            return found
    raise AttributeError(f"the kernel language has no '{name}'")


def is_function(found: Any) -> bool:
    """Whether it is a function of the language that has a meaning in kernels."""
    return isinstance(found, Builtin | primitives.Primitive) or isinstance(getattr(found, "intrinsic", None), str)


def _vocabulary(name: str) -> Any:
    """A function or type of the language that kernels may use by its bare name; None if there is none."""
    found = globals().get(name) or _found(name)
    return found if is_function(found) or isinstance(getattr(found, "ir_type", None), types.Type) else None


def _found(name: str) -> Any:
    try:
        return __getattr__(name)
    except AttributeError:
        return None


def __dir__() -> list[str]:
    found = {*__all__, *BUILTINS, *ATOMICS, *BLOCKS, *HINTS, *TILES, *EXPECTATIONS, *OPERATORS, *_PYTHON}
    found |= {"grad", "printf", "ref", "fixedarray"}
    found |= {n for module in (names, constants) for n in vars(module) if not n.startswith("_")}
    for module, kind in ((primitives, primitives.Primitive), (constructors, constructors.Constructor)):
        found |= {n for n, value in vars(module).items() if isinstance(value, kind)} - set(_SPELLED.values())
    return sorted((found | set(_SPELLED)) - {"annotations", "math", "np"})


HOOKS["vocabulary"], HOOKS["names"] = _vocabulary, __dir__
