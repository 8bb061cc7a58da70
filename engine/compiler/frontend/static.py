"""`static(expression)`: evaluated by Python while compiling, with what names meant where the kernel was defined."""

from __future__ import annotations

import ast
from typing import Any

from engine.compiler import types
from engine.compiler.frontend.context import Lowering, Several, Static, Value, static_type
from engine.compiler.values import value_class


class Shadow:
    """A value of the kernel as `static` sees it: its type is known, its content is not."""

    def __init__(self, t: types.Type):
        self._t = t

    def __len__(self) -> int:
        t = self._t
        if isinstance(t, types.Tuple):
            return len(t.items)
        if isinstance(t, types.Matrix):
            return t.rows
        if isinstance(t, types.LocalArray):
            return t.shape[0]
        same = types.components(t)
        if same is None or isinstance(t, types.Scalar):
            raise TypeError(f"the length of {t!r} is not known while compiling")
        return same[1]

    @property
    def dtype(self) -> Any:
        if isinstance(self._t, types.Array | types.LocalArray):
            return value_class(self._t.dtype)
        same = types.components(self._t)
        if same is None:
            raise AttributeError(f"{self._t!r} has no dtype")
        return same[0]

    @property
    def shape(self) -> tuple[int, ...]:
        t = self._t
        if isinstance(t, types.Matrix):
            return t.rows, t.cols
        if isinstance(t, types.LocalArray):
            return t.shape
        return (len(self),)

    @property
    def ndim(self) -> int:
        return self._t.ndim if isinstance(self._t, types.Array) else len(self.shape)

    def __bool__(self) -> bool:
        raise TypeError(f"a {self._t!r} is not known while compiling")


def _seen(v: Value) -> Any:
    if isinstance(v, Static):
        return v.value
    if isinstance(v, Several):
        return tuple(_seen(item) for item in v.items)
    return Shadow(v.type)


def evaluate_static(ctx: Lowering, node: ast.Call) -> Static:
    """The value of the expression, which may use names known while compiling and the types of others."""
    if len(node.args) != 1 or node.keywords:
        raise ctx.error(node, "static() takes one expression")
    ctx.function.captures = None
    known = ctx.source.declared | {name: _seen(binding.value) for name, binding in ctx.bound.items()}
    try:
        value = ctx.source.evaluate(node.args[0], known)
    except Exception as error:  # whatever the user's expression raises becomes a compile error at its place
        raise ctx.error(node, f"static(): {type(error).__name__}: {error}") from error
    if isinstance(value, Shadow):
        raise ctx.error(node, f"static(): a {value._t!r} is not known while compiling")
    if not _is_usable(value):
        raise ctx.error(node, f"static(): {type(value).__name__} is not a value that a kernel can use")
    return Static(value)


def _is_usable(value: Any) -> bool:
    """Whether a kernel can do something with it: a value, a type, a function, or a sequence or text of such."""
    if value is None or isinstance(value, str | type | types.Type) or callable(value):
        return True
    if isinstance(value, tuple | list | range):
        return all(map(_is_usable, value))
    return static_type(value) is not None or hasattr(value, "__dict__") or hasattr(value, "ir_type")
