"""Elementwise functions of arrays on the host: `map(f, a, b)` and the operators, by kernels made on the way.

For `map(f, a, 2.0)` with a 2-d array the kernel reads

    def map_kernel(x0: Any, x1: Any, y0: Any):
        i0, i1 = tid()
        r0 = f(x0[i0, i1], x1)
        y0[i0, i1] = r0

Arrays of different shapes are broadcast by views with strides of 0, so that one kernel serves all shapes.
"""

from __future__ import annotations

import functools
import itertools
import linecache
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from engine.compiler import lang, types
from engine.compiler.frontend import lower_function
from engine.compiler.function import Func
from engine.compiler.kernel import Kernel
from engine.compiler.values import StructValue, Value, value_class
from engine.context import arguments
from engine.context.array import array
from engine.context.array_indexed import indexedarray
from engine.context.array_operators import ArrayOperators
from engine.context.device import get_device
from engine.context.launch import launch
from engine.errors import ArgumentError, CompileError

Source = array | indexedarray
_numbers = itertools.count(1)  # of generated sources, which makes their file names unique


def map(function: Any, *inputs: Any, out: Any = None, return_kernel: bool = False, block_dim: int = 256,
        device: Any = None) -> Any:  # fmt: skip
    """Apply a function of the kernel language to every element: `map(sin, a)`, `map(lambda x, y: x * y, a, b)`.

    function: an `@engine.func`, a builtin, a value class, or a lambda. inputs: arrays (of shapes that broadcast as
    NumPy's do), numbers, value objects. out: an array, or a list of them where the function returns several values;
    None makes it. return_kernel: give the kernel instead of running it (it takes the inputs, then the outputs).

    Returns the output, or the list of outputs. Raises TypeError for a function that takes other arguments or returns
    nothing, ValueError for shapes that do not broadcast or where no input is an array.
    """
    called = _callable(function, len(inputs))
    names = [f"x{i}" for i in range(len(inputs))]
    return apply(f"f({', '.join(names)})", called, inputs, out, return_kernel, block_dim, device,
                 getattr(function, "__name__", repr(function)))  # fmt: skip


def apply(expression: str, function: Any, inputs: Sequence[Any], out: Any = None, return_kernel: bool = False,
          block_dim: int = 256, device: Any = None, name: str = "") -> Any:  # fmt: skip
    """The elements of `expression` in x0, x1, … (one for each input) and f, which is `function`."""
    arrays = [x for x in inputs if isinstance(x, Source)]
    if not arrays:
        raise ArgumentError("map requires at least one warp.array input")
    home = arrays[0].device if device is None else get_device(device)
    shape = _broadcast([a.shape for a in arrays])
    args = [_as_argument(x, arrays[0]) for x in inputs]
    kinds = tuple(_element_type(x) for x in args)
    results = _result_types(expression, function, kinds, name)
    outs = _outputs(out, results, shape, home, any(getattr(a, "requires_grad", False) for a in arrays))
    is_array = tuple(isinstance(x, Source) for x in args)
    kernel = _kernel(expression, function, len(shape), is_array, len(outs))
    if return_kernel:
        return kernel
    launch(kernel, shape, [*(_stretched(x, shape) for x in args), *outs], device=home, block_dim=block_dim)
    if out is not None and not isinstance(out, list | tuple):
        return out
    return outs[0] if len(outs) == 1 else outs


def _callable(function: Any, count: int) -> Any:
    """What stands for `function` in the kernel."""
    if isinstance(function, FunctionType):
        function = _as_func(function)
    if isinstance(function, Func):
        expected = len(function.source.parameters)
        if len(function.overloads) == 1 and expected != count:
            raise TypeError(f"Number of input arguments ({count}) does not match expected number of function arguments "
                            f"({expected})")  # fmt: skip
    elif not callable(function):
        raise TypeError(f"map needs a function of the kernel language, got {function!r}")
    return function


@functools.lru_cache(512)
def _as_func(function: FunctionType) -> Func:
    return Func(function)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        first = shapes[0]
        for other in shapes[1:]:
            try:
                first = np.broadcast_shapes(first, other)
            except ValueError:
                raise ArgumentError(f"Shapes {first} and {other} are not broadcastable") from None
        raise


def _stretched(x: Any, shape: tuple[int, ...]) -> Any:
    """A view of `shape` with strides of 0 where an array is repeated."""
    if not isinstance(x, Source) or x.shape == shape:
        return x
    a = x.contiguous() if isinstance(x, indexedarray) else x
    missing = len(shape) - a.ndim
    strides = [0] * missing + [
        0 if have == 1 and want != 1 else stride
        for have, want, stride in zip(a.shape, shape[missing:], a.strides, strict=True)
    ]
    return array.over(a.dtype, a.layout, shape, tuple(strides), a.ptr, a.plane_stride, a.block, a.device)


def _as_argument(x: Any, like: Source) -> Any:
    """A plain number in the type of the first array's components, where it is of the same kind."""
    same = types.components(like.element)
    if same is None or isinstance(x, bool) or not isinstance(x, int | float):
        return x
    scalar = same[0]
    if isinstance(x, float) and scalar.is_float:
        return scalar(x)
    if isinstance(x, int) and (scalar.is_int or scalar.is_float):
        return scalar(x)
    return x


def _element_type(x: Any) -> types.Type:
    if isinstance(x, Source):
        return x.element
    kind = arguments.type_of(x)
    if kind is None:
        raise TypeError(f"map takes arrays, numbers and value objects, got {x!r}")
    return kind


@functools.lru_cache(1024)
def _result_types(expression: str, function: Any, kinds: tuple[types.Type, ...], name: str) -> tuple[types.Type, ...]:
    """The types of the values that the expression gives for such elements."""
    names = ", ".join(f"x{i}" for i in range(len(kinds)))
    wrapper = _function(f"def call({names}):\n    return {expression}\n", function)
    try:
        result = lower_function(Func(wrapper, "call"), list(kinds)).result
    except CompileError as error:
        given = ", ".join(repr(kind) for kind in kinds)
        text = f"Function {name or expression} does not support the provided argument types {given}: {error.msg}"
        raise TypeError(text) from None
    if isinstance(result, types.Void):
        raise TypeError("The provided function must return a value")
    return result.items if isinstance(result, types.Tuple) else (result,)


def _outputs(out: Any, results: Sequence[types.Type], shape: tuple[int, ...], home: Any,
             tracked: bool) -> list[Source]:  # fmt: skip
    """The given arrays, checked, or new ones."""
    if out is None:
        made = [array.allocate(value_class(t), shape, "aos", home, zeroed=False) for t in results]
        for a in made:
            same = types.components(a.element)
            if tracked and same is not None and same[0].is_float:
                a.requires_grad = True
        return list(made)
    outs = list(out) if isinstance(out, list | tuple) else [out]
    if len(outs) != len(results) and not isinstance(out, list | tuple):
        raise TypeError(f"Invalid output provided, expected {len(results)} Warp arrays with shape {shape} and dtypes "
                        f"({', '.join([repr(t) for t in results])})")  # fmt: skip
    if len(outs) != len(results):
        raise TypeError(f"Number of provided output arrays ({len(outs)}) does not match expected number of function "
                        f"outputs ({len(results)})")  # fmt: skip
    for i, (given, t) in enumerate(zip(outs, results, strict=True)):
        which = f"Output array {i}" if len(outs) > 1 else "Output array"
        if not isinstance(given, Source):
            raise TypeError(f"{which} must be an array, got a {type(given).__name__}")
        if given.shape != shape:
            raise TypeError(f"{which} shape {given.shape} does not match expected shape {shape}")
        if given.element != t:
            raise TypeError(f"{which} dtype {given.element!r} does not match expected dtype {t!r}")
        if given.device is not home:
            raise TypeError(f"{which} is on device '{given.device.name}', expected '{home.name}'")
    return outs


@functools.lru_cache(1024)
def _kernel(expression: str, function: Any, ndim: int, is_array: tuple[bool, ...], outputs: int) -> Kernel:
    """The kernel for inputs of which some are arrays; generic in all types."""
    at = ", ".join(f"i{d}" for d in range(ndim))
    ins = [f"x{i}" for i in range(len(is_array))]
    outs, results = [f"y{o}" for o in range(outputs)], [f"r{o}" for o in range(outputs)]
    loads = [f"    x{i} = x{i}_[{at}]" for i, whole in enumerate(is_array) if whole]
    params = [f"{name}{'_' if whole else ''}: Any" for name, whole in zip(ins, is_array, strict=True)]
    text = "\n".join(
        [
            f"def map_kernel({', '.join([*params, *(f'{y}: Any' for y in outs)])}):",
            f"    {at} = tid()",
            *loads,
            f"    {', '.join(results)} = {expression}",
            *(f"    {y}[{at}] = {r}" for y, r in zip(outs, results, strict=True)),
            "",
        ]
    )
    return Kernel(_function(text, function))


def _function(text: str, function: Any) -> Callable[..., Any]:
    """The function that a text defines, with a file name under which its source is found."""
    filename = f"<map {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"f": function, "tid": lang.tid, "Any": Any, "__name__": __name__}
    exec(compile(text, filename, "exec"), scope)
    return next(v for v in scope.values() if isinstance(v, FunctionType) and v.__code__.co_filename == filename)


def _operate(expression: str, *operands: Any, out: Any = None) -> Any:
    """An operator of arrays; NotImplemented for an operand that is neither an array nor a value."""
    if not all(isinstance(x, Source | int | float | np.generic | Value | StructValue) for x in operands):
        return NotImplemented
    return apply(expression, None, operands, out, name=f"'{expression}'")


ArrayOperators.operate = staticmethod(_operate)
