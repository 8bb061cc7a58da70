"""Call expressions: what is called decides. Functions, primitives, casts, constructors, intrinsics."""

from __future__ import annotations

import ast
import builtins
import math
from typing import Any

from engine.compiler import ops, types
from engine.compiler.diagnostics import did_you_mean
from engine.compiler.frontend.adjoints import GradientOf, call_gradient
from engine.compiler.frontend.bits import reinterpret
from engine.compiler.frontend.constructors import cast, construct
from engine.compiler.frontend.context import HOOKS, Lowering, Several, Static, Value, expression, type_of
from engine.compiler.frontend.expressions import subscript
from engine.compiler.frontend.functions import (
    call,
    call_builtin,
    emit_call,
    fit,
    func_of,
    match_parameters,
    one_type,
)
from engine.compiler.frontend.intrinsics import INTRINSICS, PYTHON_INTRINSICS, lower_array
from engine.compiler.frontend.makers import TYPE_MAKERS
from engine.compiler.frontend.names import reference_names
from engine.compiler.frontend.operators import binary, unary
from engine.compiler.frontend.parts import unpacked
from engine.compiler.frontend.places import Place, locate
from engine.compiler.frontend.static import evaluate_static
from engine.compiler.frontend.unsupported import FUNCTIONS, is_python_builtin
from engine.compiler.frontend.updates import write_back
from engine.compiler.function import Func
from engine.compiler.ir import Op
from engine.compiler.library.operators import NamedOperator
from engine.compiler.library.registry import BUILTINS, Builtin, LibraryFunction

# Python's own functions that mean a primitive
PYTHON_PRIMITIVES = {builtins.abs: "abs", builtins.min: "min", builtins.max: "max"}
PYTHON_BUILTINS = {builtins.round: "round"}  # and a library function


@expression(ast.Call)
def lower_call(ctx: Lowering, node: ast.Call) -> Value:
    callee = ctx.expression(node.func)
    if not isinstance(callee, Static):
        raise ctx.error(node.func, "this is a value, not a function")
    target = callee.value
    if getattr(target, "intrinsic", None) == "static":
        return evaluate_static(ctx, node)
    refs = reference_names(target)
    args: list[Value] = []
    places: dict[str, Place] = {}
    for k, a in enumerate(node.args):
        if isinstance(a, ast.Starred):
            args += starred(ctx, a)
        elif refs and refs[k : k + 1] and refs[k]:
            args.append(referred(ctx, a, places, refs[k]))
        else:
            args.append(ctx.expression(a))
    kwargs = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ctx.error(node, "'**' in a call is not part of the kernel language")
        if refs and keyword.arg in refs:
            kwargs[keyword.arg] = referred(ctx, keyword.value, places, keyword.arg)
        else:
            kwargs[keyword.arg] = ctx.expression(keyword.value)
    if places:
        ctx.places.append(places)
    return call_target(ctx, target, args, kwargs, node)


def referred(ctx: Lowering, node: ast.expr, places: dict[str, Place], name: str) -> Value:
    """The value now at the place that a reference is made to; the place is noted under the parameter's name."""
    place = locate(ctx, node)
    if isinstance(place, Op | Static | Several):
        hint = ""
        if isinstance(node, ast.Name) and isinstance(place, Static) and (t := type_of(place)) is not None:
            hint = f"make it a variable: {node.id} = engine.{t!r}({place.value})"
        raise ctx.error(node, f"'{name}' is a reference and needs a variable, an array element or a part of one", hint)
    places[name] = place
    return place.read(ctx, node)


def starred(ctx: Lowering, node: ast.Starred) -> list[Value]:
    """`*items` in a call: the items of a tuple or vector whose length is known."""
    if isinstance(node.value, ast.Subscript) and isinstance(node.value.slice, ast.Slice):
        base = ctx.expression(node.value.value)
        if isinstance(base, Op) and isinstance(base.type, types.Array | types.LocalArray):
            return array_items(ctx, base, node.value.slice, node)
    value = ctx.expression(node.value)
    if isinstance(value, Op) and isinstance(value.type, types.Array | types.LocalArray | types.Scalar):
        raise ctx.error(node, "Starred expressions are only supported for tuples, vectors, matrices and slices of "
                              f"arrays with constant bounds, not {value.type!r}")  # fmt: skip
    if isinstance(value, Static) and value.is_number:
        raise ctx.error(node, "Starred expressions are only supported for tuples and values with parts")
    return unpacked(ctx, value if type_of(value) is None else ctx.value(value, node), node)


def array_items(ctx: Lowering, base: Op, node: ast.Slice, at: ast.AST) -> list[Value]:
    """`*a[1:4]`: the elements; the bounds are constants, since how many there are must be known."""
    bounds = []
    for bound in (node.lower, node.upper, node.step):
        value = None if bound is None else ctx.expression(bound)
        if value is not None and not (isinstance(value, Static) and isinstance(value.value, int)):
            raise ctx.error(at, "Slice component must be a compile-time constant to unpack the elements of an array")
        bounds.append(None if value is None else value.value)
    start, stop, step = bounds
    if stop is None:
        raise ctx.error(at, "unpacking a slice of an array requires explicit upper bound")
    if (start or 0) < 0 or stop < 0:
        raise ctx.error(at, "the bounds of an unpacked slice cannot be negative for arrays")
    if step is not None and step <= 0:
        raise ctx.error(at, "the step of an unpacked slice must be positive: step cannot be negative or zero")
    return [subscript(ctx, base, [Static(k)], at) for k in range(start or 0, stop, step or 1)]


def call_target(ctx: Lowering, target: Any, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """Dispatch on what is called."""
    target = BUILTINS.get(_lookup(PYTHON_BUILTINS, target), target)
    match target:
        case GradientOf():
            if kwargs:
                raise ctx.error(node, "grad(f) takes the arguments of f by position")
            inner = target.target
            return call_gradient(ctx, target, args, lambda given: call_target(ctx, inner, given, {}, node), node)
        case Func():
            return call(ctx, target, args, kwargs, node)
        case Builtin():
            return call_builtin(ctx, target, args, kwargs, node, write_back)
        case LibraryFunction():
            callee = func_of(target)
            given = match_parameters(ctx, callee, args, kwargs, node)
            specs = fit(callee, given)
            if isinstance(specs, str):
                raise ctx.error(node, f"{callee.name}(): {specs}")
            return emit_call(ctx, callee, given, specs, node)
    if isinstance(target, NamedOperator):
        return named_operator(ctx, target, args, kwargs, node)
    intrinsic = getattr(target, "intrinsic", None) or _lookup(TYPE_MAKERS, target) or _lookup(PYTHON_INTRINSICS, target)
    if intrinsic is not None:
        return INTRINSICS[intrinsic](ctx, args, kwargs, node)
    name = getattr(target, "primitive", None) or _lookup(PYTHON_PRIMITIVES, target)
    if name is not None:
        return primitive(ctx, name, args, node)
    if getattr(target, "makes_arrays", False):
        return lower_array(ctx, args, kwargs, node)
    dtype = target if isinstance(target, types.Scalar) else _lookup(types.PYTHON, target)
    if dtype is not None:
        if len(args) != 1 or kwargs:
            raise ctx.error(node, f"{dtype!r}() takes one argument")
        return cast(ctx, dtype, args[0], node, python=not isinstance(target, types.Scalar))
    if target is slice and not kwargs:
        if not all(isinstance(a, Static) for a in args):
            raise ctx.error(node, "the bounds of slice() must be compile-time constants")
        return Static(slice(*[a.value for a in args if isinstance(a, Static)]))
    made = getattr(target, "ir_type", None) if isinstance(target, type) else None
    if isinstance(made, types.Type):
        return construct(ctx, made, args, kwargs, node)
    if hasattr(target, "refused"):
        raise ctx.error(node, f"'{target.__name__}': {target.refused}")
    raise not_callable(ctx, target, node)


HOOKS["call target"] = call_target


def named_operator(ctx: Lowering, target: NamedOperator, args: list[Value], kwargs: dict[str, Value],
                   node: ast.AST) -> Value:  # fmt: skip
    """`mul(a, b)`: as `a * b`."""
    args = [*args, *kwargs.values()]
    if len(args) != target.arity:
        raise ctx.error(node, f"{target.__name__}() takes {target.arity} arguments, {len(args)} are given")
    if target.arity == 1:
        return unary(ctx, target.operation, args[0], node)
    if target.operation == "div" and all(isinstance(a, Static) and isinstance(a.value, int) for a in args):
        return _fold(ctx, "div", [a.value for a in args if isinstance(a, Static)], node)
    return binary(ctx, target.operation, args[0], args[1], node)


def _lookup(table: dict[Any, Any], key: Any) -> Any:
    try:
        return table.get(key)
    except TypeError:
        return None


def primitive(ctx: Lowering, name: str, args: list[Value], node: ast.AST) -> Value:
    """A primitive operation; literals take the type of the other operands."""
    if name in ("cast", "bitcast"):
        return reinterpret(ctx, name, args, node)
    if name == "select":
        return _select(ctx, args, node)
    if name == "bits":
        flags = [ctx.value(a, node) for a in args]
        if not 0 < len(flags) <= 32 or any(v.type != types.bool_ for v in flags):
            raise ctx.error(node, "bits() takes 1 to 32 truth values")
        return ctx.emit("bits", types.uint32, *flags, node=node)
    row = ops.ELEMENTWISE[name]
    if name in ("min", "max") and name in BUILTINS and (len(args) != 2 or not _all_scalars(args)):
        return call_builtin(ctx, BUILTINS[name], args, {}, node)
    if len(args) != row.arity:
        raise ctx.error(node, f"{name}() takes {row.arity} arguments, {len(args)} are given")
    if all(isinstance(a, Static) and a.is_number for a in args):
        return _fold(ctx, name, [a.value for a in args if isinstance(a, Static)], node)
    want = next((types.components(t) for a in args if isinstance(a, Op) and (t := type_of(a))), None)
    values = [ctx.value(a, node, want[0] if want else None) for a in args]
    t = values[0].type
    same = types.components(t)
    if any(v.type != t for v in values) or not same or same[0].kind not in row.accepts:
        given = [v.type for v in values]
        raise ctx.error(node, f"{name}() does not take ({', '.join(map(repr, given))})", one_type(given))
    return ctx.emit(name, types.bool_ if row.result == "bool" else t, *values, node=node)


def _all_scalars(args: list[Value]) -> bool:
    return all(isinstance(type_of(a), types.Scalar) for a in args)


def _fold(ctx: Lowering, name: str, values: list[Any], node: ast.AST) -> Static:
    """A primitive of literals: in Python's integers, or exactly in float64."""
    floats = any(isinstance(v, float) for v in values) or ops.ELEMENTWISE[name].accepts == "f"
    dtype = types.float64 if floats else types.int64
    try:
        return Static(ops.fold(name, dtype, values))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ctx.error(node, f"{name}(): {error}") from None


def _select(ctx: Lowering, args: list[Value], node: ast.AST) -> Value:
    """select(condition, a, b): a where the condition holds."""
    if len(args) != 3:
        raise ctx.error(node, "select() takes a condition and two values")
    condition = ctx.value(args[0], node)
    ta, tb = type_of(args[1]), type_of(args[2])
    a, b = ctx.value(args[1], node, tb), ctx.value(args[2], node, ta)
    if isinstance(condition.type, types.Vector):
        return _select_each(ctx, condition, a, b, node)
    if condition.type != types.bool_ or a.type != b.type or not a.type.is_value:
        raise ctx.error(node, f"select() does not take ({condition.type!r}, {a.type!r}, {b.type!r})")
    return ctx.emit("select", a.type, condition, a, b, node=node)


def _select_each(ctx: Lowering, mask: Op, a: Op, b: Op, node: ast.AST) -> Op:
    """The same by component, for a vector of truth values and two vectors of its length."""
    t = a.type
    fits = isinstance(t, types.Vector) and types.with_scalar(t, types.bool_) == mask.type and t == b.type
    if not fits or not isinstance(t, types.Vector):
        raise ctx.error(node, f"select() does not take ({mask.type!r}, {a.type!r}, {b.type!r})")
    parts = []
    for k in range(t.length):
        c = ctx.emit("extract", types.bool_, mask, node=node, index=k)
        x, y = (ctx.emit("extract", t.dtype, v, node=node, index=k) for v in (a, b))
        parts.append(ctx.emit("select", t.dtype, c, x, y, node=node))
    return ctx.emit("make", t, *parts, node=node)


def not_callable(ctx: Lowering, target: Any, node: ast.Call) -> Exception:
    """Why a Python object cannot be called in a kernel, with the nearest thing that can."""
    name = getattr(target, "__name__", repr(target))
    if getattr(target, "__module__", "") == "math" or getattr(math, name, None) is target or name in BUILTINS:
        return ctx.error(node, f"'{name}' is a Python function that kernels cannot call",
                         f"did you mean 'engine.{name}'?" if name in BUILTINS or name in ops.ELEMENTWISE else
                         did_you_mean(name, BUILTINS))  # fmt: skip
    if hasattr(target, "overloads") and hasattr(target, "params"):
        return ctx.error(node, f"'{name}' is a kernel: it is launched, not called", "make it an @engine.func")
    if is_python_builtin(target):
        hint = FUNCTIONS.get(target, "")
    elif str(getattr(target, "__module__", "")).partition(".")[0] == "engine":
        hint = "call it outside of the kernel"
    else:
        hint = "decorate it with @engine.func"
    if callable(target):
        return ctx.error(node, f"'{name}' is a Python function that kernels cannot call", hint)
    return ctx.error(node, f"{target!r} is not a function")

