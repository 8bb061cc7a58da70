"""Calls of functions: matching arguments to parameters, specialising a function to their types, library overloads."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.compiler import library, types
from engine.compiler.diagnostics import did_you_mean
from engine.compiler.frontend.adjoints import CustomGradient
from engine.compiler.frontend.context import (
    HOOKS,
    Binding,
    Lowering,
    Several,
    Static,
    Value,
    convert_components,
    literal_fits,
    static_type,
)
from engine.compiler.frontend.parts import to_array
from engine.compiler.function import Func
from engine.compiler.ir import Function, Op
from engine.compiler.library.intrinsics import OWN
from engine.compiler.library.registry import BUILTINS, Builtin, LibraryFunction
from engine.config import config
from engine.errors import CompileError

Spec = types.Type | Static  # what a parameter is specialised to: a type, or a value known while compiling
_LIBRARY = os.path.dirname(library.__file__) + os.sep
_lock = threading.RLock()


def call(ctx: Lowering, callee: Func, args: Sequence[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """The value of calling `callee`; void calls give None."""
    if len(callee.overloads) > 1:
        return _call_overloaded(ctx, callee, args, kwargs, node)
    given = match_parameters(ctx, callee, args, kwargs, node)
    specs = fit(callee, given)
    if isinstance(specs, str):
        raise ctx.error(node, f"{callee.name}(): {specs}")
    return emit_call(ctx, callee, given, specs, node)


def _call_overloaded(ctx: Lowering, callee: Func, args: Sequence[Value], kwargs: dict[str, Value],
                     node: ast.AST) -> Value:  # fmt: skip
    """Calls the first overload that takes the arguments: those with given types before generic ones."""

    def is_generic(one: Func) -> bool:
        notes = one.source.annotations
        return not all(types.is_concrete(notes.get(p.name, types.Any_)) for p in one.source.parameters)

    for literals_keep in (True, False):  # a literal's own type is preferred to one that it could take
        for one in sorted(callee.overloads, key=is_generic):
            try:
                given = match_parameters(ctx, one, args, kwargs, node)
            except CompileError:
                continue
            specs = fit(one, given)
            if isinstance(specs, str) or (literals_keep and not _keeps_literals(given, specs)):
                continue
            return emit_call(ctx, one, given, specs, node)
    given_types = ", ".join(map(_type_name, [*args, *kwargs.values()]))
    known = " or ".join(dict.fromkeys(_signature(one) for one in callee.overloads))
    raise ctx.error(node, f"no overload of {callee.name}() takes ({given_types})", f"there are {known}")


def _keeps_literals(given: Sequence[Value], specs: Sequence[Spec]) -> bool:
    return all(
        not isinstance(v, Static) or isinstance(s, Static) or static_type(v.value) == s
        for v, s in zip(given, specs, strict=True)
    )


@functools.cache
def func_of(implementation: LibraryFunction) -> Func:
    """A library function as a `Func`; made when a kernel first uses it."""
    made = Func(implementation.function, implementation.__name__)
    if implementation.gradient is not None:
        made.gradient = Func(implementation.gradient, f"gradient of {implementation.__name__}")
    return made


def call_library(ctx: Lowering, name: str, args: Sequence[Value], node: ast.AST,
                 kwargs: dict[str, Value] | None = None) -> Value:  # fmt: skip
    """Calls the library function `name`."""
    return call_builtin(ctx, BUILTINS[name], args, kwargs or {}, node)


WriteBack = Callable[[Lowering, str, Sequence[str], Sequence[int], Value, ast.AST], Value]


def call_builtin(ctx: Lowering, builtin: Builtin, args: Sequence[Value], kwargs: dict[str, Value], node: ast.AST,
                 write_back: WriteBack | None = None) -> Value:  # fmt: skip
    """Calls the first implementation that takes the arguments; folds the call when all of them are known.

    `write_back` stores what an implementation says about the new values of its arguments.
    """
    everything = [*args, *kwargs.values()]
    changes = any(f.updates for f in builtin.overloads)
    if everything and not changes and all(isinstance(a, Static) and a.is_number for a in everything):
        try:
            named = {k: v.value for k, v in kwargs.items() if isinstance(v, Static)}
            return Static(builtin(*[a.value for a in args if isinstance(a, Static)], **named))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ctx.error(node, str(error)) from None
    for implementation in builtin.overloads:
        candidate = func_of(implementation)
        if not _accepts(candidate, len(args), kwargs):
            continue
        given = match_parameters(ctx, candidate, args, kwargs, node)
        specs = fit(candidate, given)
        if isinstance(specs, str):
            continue
        result = emit_call(ctx, candidate, given, specs, node)
        if implementation.updates and write_back is not None:
            names = [p.name for p in candidate.source.parameters]
            return write_back(ctx, builtin.name, names, implementation.updates, result, node)
        return result
    apart = _by_component(ctx, builtin, everything, node)
    if apart is not None:
        return apart
    half = _in_float32(ctx, builtin, args, kwargs, node)
    if half is not None:
        return half
    described = ", ".join([*map(_type_name, args), *(f"{name}={_type_name(a)}" for name, a in kwargs.items())])
    raise ctx.error(node, f"{builtin.name}() does not take ({described})", _taken(builtin, everything, kwargs))


def call_function(ctx: Lowering, function: LibraryFunction, args: Sequence[Value], node: ast.AST) -> Value:
    """Calls one implementation of the library."""
    callee = func_of(function)
    given = match_parameters(ctx, callee, args, {}, node)
    specs = fit(callee, given)
    assert not isinstance(specs, str), (callee.name, specs)
    return emit_call(ctx, callee, given, specs, node)


HOOKS["call"], HOOKS["call func"] = call_function, call


# functions of numbers that vectors and matrices are given to: of each component; truth values are joined
_OF_COMPONENTS = {"sign": "", "mod": "", "nonzero": "", "isfinite": "and", "isnan": "or", "isinf": "or"}


def _by_component(ctx: Lowering, builtin: Builtin, args: Sequence[Value], node: ast.AST) -> Value | None:
    """The function of each component of vectors, matrices or quaternions."""
    join = _OF_COMPONENTS.get(builtin.name)
    if join is None or not args or not isinstance(args[0], Op):
        return None
    whole = args[0].type
    same = types.components(whole)
    if same is None or isinstance(whole, types.Scalar) or any(not isinstance(a, Op) or a.type != whole for a in args):
        return None
    parts: list[Op] = []
    for k in range(same[1]):
        row = [ctx.emit("extract", same[0], a, node=node, index=k) for a in args if isinstance(a, Op)]
        parts.append(ctx.value(call_builtin(ctx, builtin, row, {}, node), node))
    if not join:
        return ctx.emit("make", whole, *parts, node=node)
    result = parts[0]
    for part in parts[1:]:
        result = ctx.emit(join, types.bool_, result, part, node=node)
    return result


def _in_float32(ctx: Lowering, builtin: Builtin, args: Sequence[Value], kwargs: dict[str, Value],
                node: ast.AST) -> Value | None:  # fmt: skip
    """A function of 16-bit floats that has no version for them: computed in float32, results rounded back."""
    kinds = {same[0] for v in (*args, *kwargs.values()) if isinstance(v, Op) and (same := types.components(v.type))}
    half = next((k for k in kinds if k.is_float and k.bits == 16), None)
    if half is None:
        return None

    def wide(v: Value) -> Value:
        same = types.components(v.type) if isinstance(v, Op) else None
        return convert_components(ctx, v, types.float32, node) if isinstance(v, Op) and same and same[0] == half else v

    result = call_builtin(ctx, builtin, [wide(v) for v in args], {k: wide(v) for k, v in kwargs.items()}, node)
    if not isinstance(result, Op):
        return result
    if isinstance(result.type, types.Tuple):
        parts = [ctx.emit("extract", t, result, node=node, index=k) for k, t in enumerate(result.type.items)]
        return Several(tuple(_narrow(ctx, part, half, node) for part in parts))
    return _narrow(ctx, result, half, node)


def _narrow(ctx: Lowering, v: Op, to: types.Scalar, node: ast.AST) -> Op:
    same = types.components(v.type)
    return convert_components(ctx, v, to, node) if same is not None and same[0] == types.float32 else v


def _accepts(callee: Func, count: int, named: Iterable[str]) -> bool:
    """Whether a call with `count` arguments by position and these by name gives each parameter one."""
    parameters = callee.source.parameters
    rest = {p.name: p.default is inspect.Parameter.empty for p in parameters[count:]}
    return count <= len(parameters) and rest.keys() >= set(named) and not any(rest[n] for n in rest.keys() - named)


def _taken(builtin: Builtin, args: Sequence[Value], named: Iterable[str]) -> str:
    """What a function of the language does take, in the shortest words that help."""
    counts = sorted({len(f.parameters) for f in builtin.overloads})
    names = {p.name for f in builtin.overloads for p in f.parameters}
    if len(args) not in range(min(counts), max(counts) + 1) or not names.issuperset(named):
        known = dict.fromkeys(f"({', '.join(p.name for p in f.parameters)})" for f in builtin.overloads)
        return f"it takes {' or '.join(known)}"
    return one_type([v.type for v in args if isinstance(v, Op)])


def one_type(given: Sequence[types.Type]) -> str:
    """The advice for numbers of several types; empty for what is no number, or of one type."""
    kinds = [t for t in given if isinstance(t, types.Scalar)]
    if len(kinds) < len(given) or len(set(kinds)) < 2:
        return ""
    return f"convert the arguments to one type, as in {next((t for t in kinds if t.is_float), kinds[0])!r}(…)"


def _signature(callee: Func) -> str:
    return f"({', '.join(f'{name}: {text}' for name, text in zip(callee.parameter_names, callee.signature))})"


def _type_name(v: Value) -> str:
    if isinstance(v, Op):
        return repr(v.type)
    return repr(v.value) if isinstance(v, Static) else f"({', '.join(map(_type_name, v.items))})"


def match_parameters(ctx: Lowering, callee: Func, args: Sequence[Value], kwargs: dict[str, Value],
                     node: ast.AST) -> list[Value]:  # fmt: skip
    """Arguments in the order of the parameters, defaults filled in."""
    parameters = callee.source.parameters
    names = [p.name for p in parameters]
    for name in kwargs:
        if name not in names:
            raise ctx.error(node, f"{callee.name}() has no parameter '{name}'", did_you_mean(name, names))
        if name in names[: len(args)]:
            raise ctx.error(node, f"{callee.name}() got two values for '{name}'")
    if len(args) > len(parameters):
        raise ctx.error(node, f"{callee.name}() takes {len(parameters)} arguments, {len(args)} are given")
    given: list[Value] = [_as_array(ctx, callee, k, v, node) for k, v in enumerate(args)]
    rest = dict(kwargs)
    for parameter in parameters[len(args) :]:
        if parameter.name in rest:
            given.append(rest.pop(parameter.name))
        elif parameter.default is not inspect.Parameter.empty:
            given.append(Static(parameter.default))
        else:
            raise ctx.error(node, f"{callee.name}() needs an argument for '{parameter.name}'")
    return given


def _as_array(ctx: Lowering, callee: Func, k: int, v: Value, node: ast.AST) -> Value:
    """A local array where the function wants an array."""
    if not (isinstance(v, Op) and isinstance(v.type, types.LocalArray)):
        return v
    pattern = callee.source.annotations.get(callee.source.parameters[k].name, types.Any_)
    wants = isinstance(pattern, types.Array) or (isinstance(pattern, types.Generic) and pattern.kind == "array")
    return to_array(ctx, v, node) if wants else v


def fit(callee: Func, given: Sequence[Value]) -> list[Spec] | str:
    """What each parameter is specialised to, or a text that says which argument does not fit."""
    annotations = callee.source.annotations
    names = [p.name for p in callee.source.parameters]
    patterns = [_any_layout(annotations.get(name, types.Any_), v) for name, v in zip(names, given, strict=True)]
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


def _any_layout(pattern: types.Type, v: Value) -> types.Type:
    """A function that takes arrays takes those of any layout: it is specialised for each."""
    if isinstance(v, Op) and isinstance(v.type, types.Array) and isinstance(pattern, types.Array):
        return type(v.type)(pattern.dtype, pattern.ndim, v.type.layout)
    return pattern


def _fit_static(pattern: types.Type, v: Value, bound: dict[str, types.Type]) -> Spec | None:
    """What a parameter becomes for a literal or tuple: the literal itself where any type is taken."""
    if isinstance(v, Several):
        return _tuple_type(v)
    assert isinstance(v, Static)
    if pattern == types.Any_:
        return v
    if isinstance(v.value, tuple):
        return _fit_static_tuple(pattern, v.value, bound)
    t = static_type(v.value)
    if isinstance(pattern, types.Generic) and pattern.name in bound:
        pattern = bound[pattern.name]
    if isinstance(pattern, types.Scalar) and type(v.value) in types.PYTHON:
        return pattern if literal_fits(v.value, pattern) else None
    if isinstance(pattern, types.Generic) and pattern.kind == "float" and type(v.value) is int:
        t = types.float32
    return t if t is not None and types.matches(pattern, t, bound) else None


def _fit_static_tuple(pattern: types.Type, items: tuple[Any, ...], bound: dict[str, types.Type]) -> Spec | None:
    """What a parameter becomes for a tuple of literals."""
    patterns: Sequence[types.Type] = [types.Any_] * len(items)
    if isinstance(pattern, types.Tuple):
        if len(pattern.items) != len(items):
            return None
        patterns = pattern.items
    elif isinstance(pattern, types.Generic) and pattern.kind == "tuple":
        patterns = [pattern.dtype or types.Any_] * len(items)
    else:
        return None
    found = []
    for p, item in zip(patterns, items, strict=True):
        fit_item = static_type(item) if p == types.Any_ else _fit_static(p, Static(item), bound)
        if not isinstance(fit_item, types.Type):
            return None
        found.append(fit_item)
    return types.Tuple(tuple(found))


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
    specs = [types.Reference(v.type) if _is_reference(callee, k) and isinstance(v, Op) else s
             for k, (v, s) in enumerate(zip(given, specs, strict=True))]  # fmt: skip
    function = specialise(ctx, callee, specs, node)
    args = [ctx.value(v, node, s) for v, s in zip(given, specs, strict=True) if not isinstance(s, Static)]
    op = ctx.emit("call", function.result, *args, node=node, callee=function)
    if any(isinstance(s, types.Reference) for s in specs):
        return _write_back(ctx, callee, op, specs, node)
    return Static(None) if function.result == types.void else op


def _is_reference(callee: Func, k: int) -> bool:
    return isinstance(callee.source.annotations.get(callee.source.parameters[k].name), types.Reference)


def _write_back(ctx: Lowering, callee: Func, op: Op, specs: Sequence[Spec], node: ast.AST) -> Value:
    """Takes apart what a function with references gives: its value, and what the caller's places become."""
    assert isinstance(op.type, types.Tuple)
    parts = [ctx.emit("extract", t, op, node=node, index=k) for k, t in enumerate(op.type.items)]
    names = [p.name for p, s in zip(callee.source.parameters, specs, strict=True) if isinstance(s, types.Reference)]
    places = ctx.places.pop()
    for name, part in zip(names, parts[len(parts) - len(names) :], strict=True):
        variable = getattr(places[name], "name", None)
        if variable is not None and not ctx.bound[variable].is_slot:
            raise ctx.error(node, f"{callee.name}() changes '{variable}': call it by that name")
        places[name].write(ctx, part, node)
    return parts[0] if len(parts) > len(names) else Static(None)


def specialise(ctx: Lowering, callee: Func, specs: list[Spec], node: ast.AST) -> Function:
    """The HIR of `callee` for these parameter types; made once."""
    observe = ctx.observe and not _is_ours(callee.source.filename)
    knobs = ctx.max_unroll, config.keeps_asserts, observe
    key = (*knobs, *((type(s.value), s.value) if isinstance(s, Static) else s for s in specs))
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
            made = lower_function(callee, specs, observe=observe, max_unroll=ctx.max_unroll)
            callee.specialisations[key] = made
            if callee.gradient is not None:
                made.gradient = CustomGradient(callee.gradient, specs, made.result)
        except BaseException as error:
            del callee.specialisations[key]
            if isinstance(error, CompileError) and _is_ours(error.filename) and not _is_ours(ctx.source.filename):
                raise _of_the_call(ctx, callee, error, node) from None
            raise
        return made


def _is_ours(filename: str | None) -> bool:
    return filename is not None and filename.startswith(_LIBRARY)


def _of_the_call(ctx: Lowering, callee: Func, error: CompileError, node: ast.AST) -> CompileError:
    """What the library could not make of its arguments, as an error of the call that gave them."""
    inner, _, reason = str(error.msg).partition("(): ")
    reason = reason if inner in OWN or inner in BUILTINS else str(error.msg)
    written = getattr(node, "func", None)
    named = getattr(written, "attr", None) or getattr(written, "id", callee.name)
    return ctx.error(node, f"{named}(): {reason}")


def returns_a_value(ctx: Lowering) -> bool:
    """Whether a return statement has given more than the references."""
    return ctx.has_result and isinstance(ctx.function.result, types.Tuple) and (
        len(ctx.function.result.items) > len(ctx.refs))  # fmt: skip


def lower_function(callee: Func, specs: Sequence[Spec], is_kernel: bool = False, observe: bool = False,
                   max_unroll: int | None = None) -> Function:  # fmt: skip
    """Lowers the body of `callee` with its parameters specialised; `observe` keeps what its names hold visible.

    `max_unroll`, here and in what it calls: instead of `config.max_unroll`.
    """
    source = callee.source
    tree = source.tree
    function = Function(callee.name, [], file=source.filename, line=source.first_line, is_kernel=is_kernel)
    ctx = Lowering(source, function)
    ctx.observe = observe
    if max_unroll is not None:
        ctx.max_unroll = max_unroll
    for parameter, spec in zip(source.parameters, specs, strict=True):
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            at = source.parameter(parameter.name)
            raise ctx.error(at, "*args and **kwargs are not part of the kernel language", "name each parameter")
        if isinstance(spec, Static):
            ctx.bind(parameter.name, spec, tree)
            continue
        reference = isinstance(spec, types.Reference)
        held = spec.dtype if isinstance(spec, types.Reference) else spec
        op = Op("param", held, (), {"index": len(function.params), "name": parameter.name})
        function.params.append(op)
        if reference:
            if is_kernel:
                at = source.parameter(parameter.name)
                raise ctx.error(at, f"'{parameter.name}': the parameters of a kernel are no references")
            ctx.refs.append(parameter.name)
            ctx.uses.assigned[parameter.name] += 1  # the caller sees it: never a plain value
        mutated = parameter.name in ctx.uses.mutated and isinstance(spec, types.Array | types.LocalArray | types.Table)
        if mutated and ctx.uses.assigned[parameter.name] == 1:
            ctx.bound[parameter.name] = Binding(op, ctx.region)
            ctx.named_tiles.add(op)
        else:
            ctx.bind(parameter.name, op, tree.body[0] if observe else tree)  # a debugger stops at lines of the body
    try:
        HOOKS["requirements"](ctx, callee)
        ctx.block(tree.body)
    except RecursionError:
        raise CompileError(f"'{callee.name}' is nested too deeply", filename=source.filename,
                           lineno=source.first_line) from None  # fmt: skip
    if ctx.refs and not ctx.terminated and not returns_a_value(ctx):
        last = tree.body[-1]
        HOOKS["leave"](ctx, None, last)
    if function.result != types.void and not ctx.terminated:
        raise ctx.error(tree, f"'{callee.name}' does not return a value on every path")
    return function
