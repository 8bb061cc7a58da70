"""`map`: a function of the kernel language applied to every element of arrays, which are broadcast as in NumPy."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Sequence
from typing import Any

from engine.compiler import types
from engine.compiler.frontend.functions import lower_function
from engine.compiler.function import Func
from engine.compiler.kernel import Kernel
from engine.compiler.values import type_of
from engine.context import array_make
from engine.context.array import array
from engine.context.array_indexed import indexedarray
from engine.context.launch import launch
from engine.errors import CompileError

_kernels: dict[Any, tuple[Kernel, tuple[types.Type, ...]]] = {}


def map_arrays(func: Any, *inputs: Any, out: Any = None, return_kernel: bool = False, block_dim: int = 256,
               device: Any = None) -> Any:  # fmt: skip
    """`map(func, a, b, 2.0)`: new arrays with `func` of each element; numbers and value objects stay the same for all.

    func: a `@func`, a function of the language, or a lambda in the kernel language. inputs: arrays that broadcast to
    one shape, and values. out: an array, or one for each value that `func` returns, to write into. return_kernel: give
    the kernel instead of launching it; it takes the inputs, then the outputs. Returns an array, or a list of arrays
    where `func` returns several values.

    Raises TypeError for a function that does not take the elements, for outputs of another shape or type; ValueError
    for arrays that do not broadcast.
    """
    arrays = [isinstance(a, array | indexedarray) for a in inputs]
    if not any(arrays):
        raise ValueError("map requires at least one warp.array input")
    shape = broadcast([a.shape for a, is_array in zip(inputs, arrays, strict=True) if is_array])
    elements = [a.ir_type.dtype if is_array else type_of(a) for a, is_array in zip(inputs, arrays, strict=True)]
    kernel, results = _kernel_of(func, tuple(elements), tuple(arrays), len(shape), inputs)
    if return_kernel:
        return kernel
    outputs = _outputs(out, results, shape, inputs, device)
    args = [spread(a, shape) if is_array else a for a, is_array in zip(inputs, arrays, strict=True)]
    launch(kernel, shape, args, outputs, device=outputs[0].device, block_dim=block_dim)
    return outputs if len(results) > 1 else outputs[0]


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all of `shapes` broadcast to."""
    whole = shapes[0]
    for shape in shapes[1:]:
        n = max(len(whole), len(shape))
        pairs = list(zip((1,) * (n - len(whole)) + whole, (1,) * (n - len(shape)) + shape, strict=True))
        if any(a != b and 1 not in (a, b) for a, b in pairs):
            raise ValueError(f"Shapes {whole} and {shape} are not broadcastable")
        whole = tuple(b if a == 1 else a for a, b in pairs)
    return whole


def spread(a: Any, shape: tuple[int, ...]) -> Any:
    """`a` seen in `shape`: what is repeated has stride 0."""
    if a.shape == shape:
        return a
    lead = len(shape) - a.ndim
    strides = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(a.shape, a.strides, strict=True))
    return array.over(a.dtype, a.layout, shape, strides, a.ptr, a.plane_stride, a.block, a.device)


def _kernel_of(
    func: Any, elements: tuple[types.Type, ...], arrays: tuple[bool, ...], ndim: int, inputs: Sequence[Any]
) -> tuple[Kernel, tuple[types.Type, ...]]:
    key = (func, elements, arrays, ndim, tuple(type(a) for a in inputs))
    known = _kernels.get(key)
    if known is None:
        known = _kernels[key] = _make(func, elements, arrays, ndim, inputs)
    return known


def _make(
    func: Any, elements: tuple[types.Type, ...], arrays: tuple[bool, ...], ndim: int, inputs: Sequence[Any]
) -> tuple[Kernel, tuple[types.Type, ...]]:
    called = Func(func) if inspect.isfunction(func) else func
    if isinstance(called, Func) and len(called.overloads) == 1 and len(called.source.parameters) != len(elements):
        expected = len(called.source.parameters)
        raise TypeError(f"Number of input arguments ({len(elements)}) does not match expected number of function "
                        f"arguments ({expected})")  # fmt: skip
    names = ", ".join(f"a{k}" for k in range(len(elements)))
    probe = Func(_compiled(f"def mapped({names}):\n    return function({names})\n", called, "mapped"))
    try:
        result = lower_function(probe, elements).result
    except CompileError as error:
        given = ", ".join(map(repr, elements))
        name = getattr(called, "name", getattr(func, "__name__", repr(func)))
        raise TypeError(f"Function {name} does not support the provided argument types {given}: {error.msg}") from None
    if result == types.void:
        raise TypeError("The provided function must return a value")
    results = result.items if isinstance(result, types.Tuple) else (result,)
    index = ", ".join(f"i{d}" for d in range(ndim))
    reads = ", ".join(f"a{k}[{index}]" if is_array else f"a{k}" for k, is_array in enumerate(arrays))
    outputs = [f"o{k}" for k in range(len(results))]
    left = ", ".join(f"{o}[{index}]" for o in outputs)
    source = f"def mapped({', '.join([names, *outputs])}):\n    {index} = tid()\n    {left} = function({reads})\n"
    fn = _compiled(source, called, "map")
    fn.__annotations__ = dict.fromkeys([*names.split(", "), *outputs], types.Any_)
    return Kernel(fn, f"map_{getattr(func, '__name__', 'function')}"), results


def _compiled(source: str, function: Any, name: str) -> Any:
    """The function that `source` defines; the text is kept where tracebacks and the compiler look for it."""
    from engine.compiler.lang import tid

    filename = f"<{name} {len(linecache.cache)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"function": function, "tid": tid, "__name__": "engine.map"}
    exec(compile(source, filename, "exec"), scope)
    return scope["mapped"]


def _outputs(out: Any, results: Sequence[types.Type], shape: tuple[int, ...], inputs: Sequence[Any], device: Any) -> Any:
    home = device if device is not None else next(a.device for a in inputs if isinstance(a, array | indexedarray))
    if out is None:
        return [array_make.empty(shape, t, home) for t in results]
    given = list(out) if isinstance(out, list | tuple) else [out]
    if len(given) != len(results):
        if not isinstance(out, list | tuple):
            raise TypeError(f"Invalid output provided, expected {len(results)} Warp arrays with shape {shape} and dtypes "
                            f"({', '.join(map(repr, results))})")  # fmt: skip
        raise TypeError(f"Number of provided output arrays ({len(given)}) does not match expected number of function "
                        f"outputs ({len(results)})")  # fmt: skip
    for k, (one, t) in enumerate(zip(given, results, strict=True)):
        name = f"Output array {k}" if len(given) > 1 else "Output array"
        if one.shape != shape:
            raise TypeError(f"{name} shape {one.shape} does not match expected shape {shape}")
        if one.ir_type.dtype != t:
            raise TypeError(f"{name} dtype {one.ir_type.dtype!r} does not match expected dtype {t!r}")
    return given
