"""The operators by their names: `mul(a, b)` is `a * b`; in kernels they are lowered as the symbols are."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from engine.compiler.library.registry import run_in_python
from engine.compiler.values import Value


def _component_by_component(function: Callable[..., Any], *args: Any) -> Any:
    """`function` on numbers, or on the components of vectors and matrices."""
    first = args[0]
    if not isinstance(first, Value):
        return function(*args)
    rows = zip(*[a._c if isinstance(a, Value) else [a] * first.size for a in args], strict=True)
    return type(first)([function(*row) for row in rows])


class NamedOperator:
    """An operator under its name. `operation` is what the front end calls it."""

    def __init__(self, name: str, operation: str, function: Callable[..., Any], arity: int = 2):
        self.intrinsic = f"operator {operation}"
        self.operation, self.arity = operation, arity
        self.__name__ = name
        self.__doc__ = f"{name}(…): the operator '{operation}'."
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return run_in_python(self._function, args, {})

    def __repr__(self) -> str:
        return f"<builtin {self.__name__}>"


def _bitwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: _component_by_component(function, *args)


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, np.integer):  # as in a kernel: toward zero
        quotient = abs(int(a)) // abs(int(b)) if b else 0
        return type(a)(-quotient if (a < 0) != (b < 0) else quotient)
    return operator.truediv(a, b)


OPERATORS = {
    row.__name__: row
    for row in (
        NamedOperator("add", "add", operator.add),
        NamedOperator("sub", "sub", operator.sub),
        NamedOperator("mul", "mul", operator.mul),
        NamedOperator("div", "div", _divide),
        NamedOperator("floordiv", "floordiv", operator.floordiv),
        NamedOperator("bit_and", "and", _bitwise(operator.and_)),
        NamedOperator("bit_or", "or", _bitwise(operator.or_)),
        NamedOperator("bit_xor", "xor", _bitwise(operator.xor)),
        NamedOperator("lshift", "shl", _bitwise(operator.lshift)),
        NamedOperator("rshift", "shr", _bitwise(operator.rshift)),
        NamedOperator("invert", "invert", _bitwise(operator.invert), 1),
        NamedOperator("neg", "neg", operator.neg, 1),
        NamedOperator("pos", "pos", operator.pos, 1),
        NamedOperator("unot", "unot", operator.not_, 1),
    )
}
