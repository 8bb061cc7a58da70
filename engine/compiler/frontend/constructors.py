"""Casts and the constructors of vectors, matrices, quaternions, transforms and structs."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.frontend.context import Lowering, Several, Static, Value, literal_fits, type_of, zero
from engine.compiler.ir import Op


def cast(ctx: Lowering, dtype: types.Scalar, v: Value, node: ast.AST, python: bool = False) -> Value:
    """`float32(x)`, `int(x)`: floats truncate toward zero and saturate, integers wrap. Python's casts keep literals."""
    if isinstance(v, Static) and v.is_number:
        number = v.value
        if dtype.is_int:
            if isinstance(number, float) and number != number:
                raise ctx.error(node, "NaN has no integer value")
            number = int(number)
            if type(v.value) is int or python:
                low, high = dtype.range
                if not python and -(2 ** (dtype.bits - 1)) <= number < 2**dtype.bits:
                    number = int(np.array(number & (2**dtype.bits - 1), f"u{dtype.size}").view(dtype.numpy))  # its bits
                if not low <= number <= high:
                    raise ctx.error(node, f"{number} does not fit {dtype!r} ({low} … {high})")
        if python:
            return Static(float(number) if dtype.is_float else bool(number) if dtype.kind == "b" else int(number))
        return ctx.const(number, dtype, node)
    value = ctx.value(v, node)
    if value.type == dtype:
        return value
    if not isinstance(value.type, types.Scalar):
        raise ctx.error(node, f"{value.type!r} cannot be converted to {dtype!r}")
    if dtype.kind == "b":
        return ctx.emit("ne", dtype, value, ctx.const(0, value.type, node), node=node)
    return ctx.emit("cast", dtype, value, node=node)


def construct(ctx: Lowering, t: types.Type, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """A value of aggregate type `t`; without arguments it is zero."""
    if isinstance(t, types.Struct):
        return _struct(ctx, t, args, kwargs, node)
    if isinstance(t, types.Transform) and len(args) + len(kwargs) == 1 and "q" not in kwargs:
        (position,) = [*args, *kwargs.values()]
        if isinstance(type_of(position), types.Vector):  # without a rotation: the identity
            args, kwargs = [position, *(Static(float(k == 3)) for k in range(4))], {}
    if isinstance(t, types.Transform) and kwargs:
        args = [*args, *(kwargs.pop(name) for name in ("p", "q") if name in kwargs)]
    if kwargs:
        _check_size(ctx, t, kwargs, node)
    if not args:
        return zero(ctx, t, node)
    same = types.components(t)
    if same is None:
        raise ctx.error(node, f"{t!r} cannot be constructed")
    dtype, count = same
    if len(args) == 1 and (whole := type_of(args[0])) is not None and not isinstance(whole, types.Scalar):
        return _converted(ctx, t, dtype, ctx.value(args[0], node), node)
    flat: list[Op] = []
    for a in args:
        flat += _scalars(ctx, t, dtype, a, node)
    if len(flat) == 1:
        flat *= count
    if len(flat) != count:
        raise ctx.error(node, f"{t!r}() takes {count} numbers, {len(flat)} are given")
    if isinstance(t, types.Matrix) and any(isinstance(type_of(a), types.Vector) for a in args):
        raise ctx.error(
            node, f"{t!r}() of vectors could mean rows or columns", "use matrix_from_rows or matrix_from_cols"
        )
    return ctx.emit("make", t, *flat, node=node)


def _check_size(ctx: Lowering, t: types.Type, kwargs: dict[str, Value], node: ast.AST) -> None:
    """`mat32(x, shape=(3, 2))`, `vec3(x, length=3)`: what the type says already may be repeated, and nothing else."""
    own: dict[str, Any] = {}
    if isinstance(t, types.Matrix):
        own = {"shape": (t.rows, t.cols)}
    elif isinstance(t, types.Vector):
        own = {"length": t.length}
    for name, given in kwargs.items():
        if name not in own:
            raise ctx.error(node, f"{t!r}() has no parameter '{name}'")
        if _known_value(given) != own[name]:
            raise ctx.error(node, f"{t!r}() has {name} {own[name]}")


def _known_value(v: Value) -> Any:
    """What is known of a value while compiling: itself, or None for one of run time, also within a tuple."""
    if isinstance(v, Several):
        return tuple(map(_known_value, v.items))
    return v.value if isinstance(v, Static) else None


def _scalars(ctx: Lowering, t: types.Type, dtype: types.Scalar, a: Value, node: ast.AST) -> list[Op]:
    """The components that one argument contributes."""
    value = ctx.value(a, node, dtype)
    if (
        isinstance(a, Static)
        and isinstance(value.type, types.Scalar)
        and value.type != dtype
        and literal_fits(a.value, dtype)
    ):
        value = ctx.const(a.value, dtype, node)
    same = types.components(value.type)
    if same is None or same[0] != dtype:
        hint = f"convert it: {dtype!r}(…)" if isinstance(value.type, types.Scalar) else ""
        kind = "matrix" if isinstance(t, types.Matrix) else "vector" if isinstance(t, types.Vector) else "value"
        raise ctx.error(node, f"{t!r}() takes {dtype!r}, got {value.type!r}: all values used to initialize this {kind} "
                              f"are expected to be of the type `{dtype!r}`", hint)  # fmt: skip
    if isinstance(value.type, types.Scalar):
        return [value]
    return [ctx.emit("extract", dtype, value, node=node, index=k) for k in range(same[1])]


def _converted(ctx: Lowering, t: types.Type, dtype: types.Scalar, value: Op, node: ast.AST) -> Op:
    """An aggregate of the same shape with another component type."""
    same = types.components(value.type)
    if isinstance(value.type, types.Vector) and isinstance(t, types.Vector) and value.type.length != t.length:
        raise ctx.error(node, f"incompatible vector of length {t.length} given when copy constructing a vector of "
                              f"length {value.type.length}")  # fmt: skip
    if isinstance(value.type, types.Matrix) and isinstance(t, types.Matrix):
        have, want = (value.type.rows, value.type.cols), (t.rows, t.cols)
        if have != want:
            raise ctx.error(node, f"incompatible matrix of shape {want} given when copy constructing a matrix of shape "
                                  f"{have}")  # fmt: skip
    if same is None or same[1] != len(types.leaves(t)):
        raise ctx.error(node, f"{t!r}() does not take {value.type!r}")
    if value.type == t:
        return value
    parts = [ctx.emit("extract", same[0], value, node=node, index=k) for k in range(same[1])]
    if same[0] != dtype:
        parts = [ctx.emit("cast", dtype, part, node=node) for part in parts]
    return ctx.emit("make", t, *parts, node=node)


def _struct(ctx: Lowering, t: types.Struct, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Op:
    """Fields by position or name; fields that are not given are zero."""
    if len(args) > len(t.fields):
        raise ctx.error(node, f"{t!r} has {len(t.fields)} fields, {len(args)} are given")
    given = dict(zip((name for name, _ in t.fields), args, strict=False)) | kwargs
    items = []
    for name, ftype in t.fields:
        v = given.pop(name, None)
        item = zero(ctx, ftype, node) if v is None else ctx.value(v, node, ftype)
        if item.type != ftype:
            raise ctx.error(node, f"field '{name}' of {t!r} is {ftype!r}, got {item.type!r}")
        items.append(item)
    if given:
        raise ctx.error(node, f"{t!r} has no field '{next(iter(given))}'")
    return ctx.emit("make", t, *items, node=node)
