"""Python-scope stand-ins for the primitive operations: library code imports them, the front end knows them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.compiler import ops, types
from engine.compiler.library.registry import run_in_python
from engine.compiler.types import Scalar
from engine.compiler.values import Value, type_of, value_class


class Primitive:
    """The primitive operation `primitive` (a name of the op table), called in Python scope."""

    def __init__(self, primitive: str, function: Callable[..., Any] | None = None, doc: str = ""):
        self.primitive = self.__name__ = primitive
        self.__doc__ = doc
        self._function = function or self._elementwise

    def __repr__(self) -> str:
        return f"<primitive {self.primitive}>"

    def __call__(self, *args: Any) -> Any:
        return run_in_python(self._function, args, {})

    def _elementwise(self, *args: Any) -> Any:
        info = ops.ELEMENTWISE[self.primitive]
        if not isinstance(args[0], Value):
            result = info.numpy(*args)
            return type(args[0])(result) if info.result == "same" else np.bool_(result)
        return args[0]._by_component(self.primitive, *(a._c if isinstance(a, Value) else a for a in args))


def _select(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, Value):
        return type(a)(*[x if chosen else y for chosen, x, y in zip(condition, a, b, strict=True)])
    return a if condition else b


def _bits(*flags: Any) -> Any:
    return np.uint32(sum(1 << k for k, flag in enumerate(flags) if flag))


def _bitcast(value: Any, dtype: Any) -> Any:
    target = types.of_annotation(dtype)
    bits = value._c.tobytes() if isinstance(value, Value) else np.asarray(value).tobytes()
    same = types.components(target)
    if same is None or len(bits) != same[0].size * same[1]:
        raise TypeError(f"the bits of {type_of(value)!r} are not those of {target!r}: the sizes differ")
    numbers = np.frombuffer(bits, same[0].numpy)
    return numbers[0] if isinstance(target, Scalar) else value_class(target)._of(numbers.copy())


sqrt = Primitive("sqrt", doc="Square root, correctly rounded.")
fma = Primitive("fma", doc="a * b + c with one rounding.")
absolute = Primitive("abs", doc="Magnitude.")
floor = Primitive("floor", doc="Largest whole number that is not above x.")
ceil = Primitive("ceil", doc="Smallest whole number that is not below x.")
trunc = Primitive("trunc", doc="Whole part, toward zero.")
rint = Primitive("rint", doc="Nearest whole number, ties to even.")
copysign = Primitive("copysign", doc="Magnitude of a with the sign of b.")
minimum = Primitive("min", doc="The smaller operand; a NaN is ignored, -0 < +0.")
maximum = Primitive("max", doc="The larger operand; a NaN is ignored, -0 < +0.")
select_min = Primitive("select_min", doc="a if a < b else b: one instruction.")
select_max = Primitive("select_max", doc="a if a > b else b: one instruction.")
popcount = Primitive("popcount", doc="Number of one bits.")
clz = Primitive("clz", doc="Number of zero bits above the highest one bit.")
select = Primitive("select", _select, "a where the condition holds, else b; a mask chooses by component.")
bits = Primitive("bits", _bits, "At most 32 truth values as the bits of a uint32.")
bitcast = Primitive("bitcast", _bitcast, "The same bytes as another type of that size; float32(x) converts numbers.")
cast = Primitive("cast", _bitcast, bitcast.__doc__ or "")
