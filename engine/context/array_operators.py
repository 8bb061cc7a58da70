"""The operators of arrays in Python: `a + b`, `2.0 * a`, `a += b`, element by element, as in a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class ArrayOperators:
    """What arrays and indexed arrays inherit. Equality stays that of the objects, so that arrays can be keys."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy scalars on the left hand leave the operation to us

    operate: ClassVar[Callable[..., Any]]  # runs an expression in x0 and x1 for all elements; set by `map`

    def __add__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 + x1", self, other)

    def __radd__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 + x1", other, self)

    def __iadd__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 + x1", self, other, out=self)

    def __sub__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 - x1", self, other)

    def __rsub__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 - x1", other, self)

    def __isub__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 - x1", self, other, out=self)

    def __mul__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 * x1", self, other)

    def __rmul__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 * x1", other, self)

    def __imul__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 * x1", self, other, out=self)

    def __truediv__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 / x1", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 / x1", other, self)

    def __itruediv__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 / x1", self, other, out=self)

    def __floordiv__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 // x1", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 // x1", other, self)

    def __ifloordiv__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 // x1", self, other, out=self)

    def __mod__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 % x1", self, other)

    def __rmod__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 % x1", other, self)

    def __imod__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 % x1", self, other, out=self)

    def __pow__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 ** x1", self, other)

    def __rpow__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 ** x1", other, self)

    def __ipow__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 ** x1", self, other, out=self)

    def __and__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 & x1", self, other)

    def __rand__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 & x1", other, self)

    def __iand__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 & x1", self, other, out=self)

    def __or__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 | x1", self, other)

    def __ror__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 | x1", other, self)

    def __ior__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 | x1", self, other, out=self)

    def __xor__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 ^ x1", self, other)

    def __rxor__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 ^ x1", other, self)

    def __ixor__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 ^ x1", self, other, out=self)

    def __lshift__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 << x1", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 << x1", other, self)

    def __ilshift__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 << x1", self, other, out=self)

    def __rshift__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 >> x1", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 >> x1", other, self)

    def __irshift__(self, other: Any) -> Any:
        return ArrayOperators.operate("x0 >> x1", self, other, out=self)

    def __neg__(self) -> Any:
        return ArrayOperators.operate("-x0", self)

    def __pos__(self) -> Any:
        return ArrayOperators.operate("+x0", self)

    def __invert__(self) -> Any:
        return ArrayOperators.operate("~x0", self)
