"""Calls of functions: matching arguments to parameters, specialising a function to their types, library overloads."""

from __future__ import annotations

import ast
import functools
import inspect
import threading
from collections.abc import Sequence

from engine.compiler import types
from engine.compiler.frontend.context import Binding, Lowering, Several, Static, Value, literal_fits, static_type
from engine.compiler.frontend.names import called_name
from engine.compiler.frontend.places import place_of
from engine.compiler.function import Func
from engine.compiler.ir import Function, Op
from engine.compiler.library.registry import BUILTINS, Builtin, LibraryFunction
from engine.errors import CompileError

Spec = types.Type | Static  # what a parameter is specialised to: a type, or a value known while compiling
_lock = threading.RLock()


def call(ctx: Lowering, callee: Func, args: Sequence[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """The value of calling `callee`; void calls give None."""
    given = match_parameters(ctx, callee, args, kwargs, node)
    specs = fit(callee, given)
    if isinstance(specs, str):
        raise ctx.error(node, f"{callee.name}(): {specs}")
    return emit_call(ctx, callee, given, specs, node)


@functools.cache
def func_of(implementation: LibraryFunction) -> Func:
    """A library function as a `Func`; made when a kernel first uses it."""
    return Func(implementation.function, implementation.__name__)


def call_library(ctx: Lowering, name: str, args: Sequence[Value], node: ast.AST,
                 kwargs: dict[str, Value] | None = None) -> Value:  # fmt: skip
    """Calls the library function `name`."""
    return call_builtin(ctx, BUILTINS[name], args, kwargs or {}, node)


def call_builtin(
    ctx: Lowering, builtin: Builtin, args: Sequence[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """Calls the first implementation that takes the arguments; folds the call when all of them are known."""
    everything = [*args, *kwargs.values()]
    if everything and all(isinstance(a, Static) and a.is_number for a in everything):
        try:
            named = {k: v.value for k, v in kwargs.items() if isinstance(v, Static)}
            return Static(builtin(*[a.value for a in args if isinstance(a, Static)], **named))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ctx.error(node, str(error)) from None
    for overload in builtin.overloads:
        candidate = func_of(overload)
        if not _accepts_count(candidate, len(everything)):
            continue
        given = match_parameters(ctx, candidate, args, kwargs, node)
        specs = fit(candidate, given)
        if not isinstance(specs, str):
            result = emit_call(ctx, candidate, given, specs, node)
            return result if overload.updates is None else _update(ctx, builtin, overload.updates, result, node)
    raise ctx.error(node, f"{builtin.name}() does not take ({', '.join(_type_name(a) for a in everything)})")


def _update(ctx: Lowering, builtin: Builtin, position: int, result: Value, node: ast.AST) -> Value:
    """The first of the two results of a call; the second is assigned to the argument, where that is a place."""
    assert isinstance(result, Op) and isinstance(result.type, types.Tuple) and isinstance(node, ast.Call)
    value, new = (ctx.emit("extract", t, result, node=node, index=k) for k, t in enumerate(result.type.items))
    if len(node.args) <= position or called_name(node) != builtin.name:
        raise ctx.error(node, f"{builtin.name}() changes its argument: call it by that name, without keywords")
    argument = node.args[position]
    if isinstance(argument, ast.Name | ast.Attribute | ast.Subscript):
        place_of(ctx, argument).write(ctx, new, node)
    return value


def _accepts_count(callee: Func, count: int) -> bool:
    parameters = callee.source.parameters
    required = sum(p.default is inspect.Parameter.empty for p in parameters)
    return required <= count <= len(parameters)


def _type_name(v: Value) -> str:
    if isinstance(v, Op):
        return repr(v.type)
    return repr(v.value) if isinstance(v, Static) else f"({', '.join(map(_type_name, v.items))})"


def match_parameters(ctx: Lowering, callee: Func, args: Sequence[Value], kwargs: dict[str, Value],
                     node: ast.AST) -> list[Value]:  # fmt: skip
    """Arguments in the order of the parameters, defaults filled in."""
    parameters = callee.source.parameters
    if len(args) > len(parameters):
        raise ctx.error(node, f"{callee.name}() takes {len(parameters)} arguments, {len(args)} are given")
    given: list[Value] = list(args)
    rest = dict(kwargs)
    for parameter in parameters[len(args) :]:
        if parameter.name in rest:
            given.append(rest.pop(parameter.name))
        elif parameter.default is not inspect.Parameter.empty:
            given.append(Static(parameter.default))
        else:
            raise ctx.error(node, f"{callee.name}() needs an argument for '{parameter.name}'")
    if rest:
        raise ctx.error(node, f"{callee.name}() has no parameter '{next(iter(rest))}'")
    return given


def fit(callee: Func, given: Sequence[Value]) -> list[Spec] | str:
    """What each parameter is specialised to, or a text that says which argument does not fit."""
    annotations = callee.source.annotations
    names = [p.name for p in callee.source.parameters]
    patterns = [annotations.get(name, types.Any_) for name in names]
    bound: dict[str, types.Type] = {}
    specs: list[Spec | None] = []
    for name, pattern, v in zip(names, patterns, given, strict=True):
        t = v.type if isinstance(v, Op) else None
        if t is not None and not types.matches(pattern, t, bound):
            return f"'{name}' is {pattern!r}, got {t!r}"
        specs.append(t)
    for k, (name, pattern, v) in enumerate(zip(names, patterns, given, strict=True)):
        if specs[k] is None:
            spec = _fit_static(pattern, v, bound)
            if spec is None:
                return f"'{name}' is {pattern!r}, got {_type_name(v)}"
            specs[k] = spec
    return [s for s in specs if s is not None]


def _fit_static(pattern: types.Type, v: Value, bound: dict[str, types.Type]) -> Spec | None:
    """What a parameter becomes for a literal or tuple: the literal itself where any type is taken."""
    if isinstance(v, Several):
        return _tuple_type(v)
    assert isinstance(v, Static)
    if pattern == types.Any_:
        return v
    t = static_type(v.value)
    if isinstance(pattern, types.Generic) and pattern.name in bound:
        pattern = bound[pattern.name]
    if isinstance(pattern, types.Scalar) and type(v.value) in types.PYTHON:
        return pattern if literal_fits(v.value, pattern) else None
    if isinstance(pattern, types.Generic) and pattern.kind == "float" and type(v.value) is int:
        t = types.float32
    return t if t is not None and types.matches(pattern, t, bound) else None


def _tuple_type(v: Several) -> types.Type | None:
    items = []
    for item in v.items:
        t = (
            item.type
            if isinstance(item, Op)
            else static_type(item.value)
            if isinstance(item, Static)
            else _tuple_type(item)
        )
        if t is None:
            return None
        items.append(t)
    return types.Tuple(tuple(items))


def emit_call(ctx: Lowering, callee: Func, given: Sequence[Value], specs: list[Spec], node: ast.AST) -> Value:
    function = specialise(ctx, callee, specs, node)
    args = [ctx.value(v, node, s) for v, s in zip(given, specs, strict=True) if not isinstance(s, Static)]
    op = ctx.emit("call", function.result, *args, node=node, callee=function)
    return Static(None) if function.result == types.void else op


def specialise(ctx: Lowering, callee: Func, specs: list[Spec], node: ast.AST) -> Function:
    """The HIR of `callee` for these parameter types; made once."""
    key = tuple((type(s.value), s.value) if isinstance(s, Static) else s for s in specs)
    try:
        hash(key)
    except TypeError:
        raise ctx.error(node, f"{callee.name}(): an argument known while compiling must be hashable") from None
    with _lock:
        if key in callee.specialisations:
            done = callee.specialisations[key]
            if done is None:
                raise ctx.error(node, f"'{callee.name}' calls itself; recursion is not part of the kernel language")
            return done
        callee.specialisations[key] = None
        try:
            made = callee.specialisations[key] = lower_function(callee, specs)
        except BaseException:
            del callee.specialisations[key]
            raise
        return made


def lower_function(callee: Func, specs: Sequence[Spec], is_kernel: bool = False) -> Function:
    """Lowers the body of `callee` with its parameters specialised."""
    source = callee.source
    tree = source.tree
    function = Function(callee.name, [], file=source.filename, line=source.first_line, is_kernel=is_kernel)
    ctx = Lowering(source, function)
    for parameter, spec in zip(source.parameters, specs, strict=True):
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ctx.error(tree.args, "*args and **kwargs are not part of the kernel language")
        if isinstance(spec, Static):
            ctx.bind(parameter.name, spec, tree)
            continue
        op = Op("param", spec, (), {"index": len(function.params), "name": parameter.name})
        function.params.append(op)
        mutated = parameter.name in ctx.uses.mutated and isinstance(spec, types.Array | types.LocalArray | types.Table)
        if mutated and ctx.uses.assigned[parameter.name] == 1:
            ctx.bound[parameter.name] = Binding(op, ctx.region)
        else:
            ctx.bind(parameter.name, op, tree)
    try:
        ctx.block(tree.body)
    except RecursionError:
        raise CompileError(f"'{callee.name}' is nested too deeply", filename=source.filename,
                           lineno=source.first_line) from None  # fmt: skip
    if function.result != types.void and not ctx.terminated:
        raise ctx.error(tree, f"'{callee.name}' does not return a value on every path")
    return function
