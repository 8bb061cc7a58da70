"""`cast(value, type)`, also called `bitcast`: the bytes of a value in memory, read as another type of that size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from engine.compiler import types
from engine.compiler.frontend.context import Lowering, Static, Value
from engine.compiler.ir import Op

_UNSIGNED = {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}


def reinterpret(ctx: Lowering, name: str, args: list[Value], node: ast.AST) -> Op:
    """The value of type `args[1]` that has the bytes of `args[0]`; padding reads as zero."""
    if len(args) != 2 or not isinstance(args[1], Static):
        raise ctx.error(node, f"{name}() takes a value and a type")
    try:
        target = types.of_annotation(args[1].value)
    except TypeError as error:
        raise ctx.error(node, str(error)) from None
    value = ctx.value(args[0], node)
    for t in (value.type, target):
        if not _is_numbers(t):
            raise ctx.error(node, f"{name}() is for values that consist of numbers, not for {t!r}")
    if isinstance(value.type, types.Scalar) and isinstance(target, types.Scalar) and value.type.bits == target.bits:
        return ctx.emit("bitcast", target, value, node=node)
    if types.memory_layout(value.type)[1] != types.memory_layout(target)[1]:
        sizes = [types.memory_layout(t)[1] for t in (value.type, target)]
        raise ctx.error(node, f"the bits of {value.type!r} are not those of {target!r}: the sizes differ, {sizes[0]} "
                              f"and {sizes[1]} bytes")  # fmt: skip
    placed = list(zip(types.memory_layout(value.type)[0], _scalars_of(ctx, value, node), strict=True))
    leaves = [leaf for _, leaf in types.leaves(target) if isinstance(leaf, types.Scalar)]
    offsets = types.memory_layout(target)[0]
    found = [_read(ctx, placed, at, leaf, node) for at, leaf in zip(offsets, leaves, strict=True)]
    return _assembled(ctx, target, iter(found), node)


def _is_numbers(t: types.Type) -> bool:
    is_known = t.is_value and not isinstance(t, types.Generic | types.Void | types.Tuple)
    return is_known and all(isinstance(leaf, types.Scalar) for _, leaf in types.leaves(t))


def _scalars_of(ctx: Lowering, value: Op, node: ast.AST) -> list[Op]:
    """The numbers that a value consists of, in the order of `types.leaves`."""
    if isinstance(value.type, types.Scalar):
        return [value]
    parts = (ctx.emit("extract", t, value, node=node, index=k) for k, t in enumerate(_part_types(value.type)))
    return [scalar for part in parts for scalar in _scalars_of(ctx, part, node)]


def _part_types(t: types.Type) -> list[types.Type]:
    """What `make` puts together to a value of type `t`."""
    if isinstance(t, types.Struct):
        return [kind for _, kind in t.fields]
    same = types.components(t)
    assert same is not None, t
    return [same[0]] * same[1]


def _assembled(ctx: Lowering, t: types.Type, scalars: Iterator[Op], node: ast.AST) -> Op:
    """A value of type `t` of the next of the scalars."""
    if isinstance(t, types.Scalar):
        return next(scalars)
    return ctx.emit("make", t, *[_assembled(ctx, part, scalars, node) for part in _part_types(t)], node=node)


def _read(ctx: Lowering, placed: list[tuple[int, Op]], at: int, leaf: types.Scalar, node: ast.AST) -> Op:
    """The scalar of type `leaf` at byte `at`, of the scalars that lie at these bytes (little-endian)."""
    unsigned = _UNSIGNED[leaf.size]
    bits = ctx.const(0, types.uint64, node)
    for offset, scalar in placed:
        assert isinstance(scalar.type, types.Scalar)
        if offset == at and scalar.type == leaf:
            return scalar
        if offset < at + leaf.size and at < offset + scalar.type.size:
            part = ctx.emit("cast", types.uint64, _as_unsigned(ctx, scalar, node), node=node)
            shift = ctx.const(8 * abs(offset - at), types.uint64, node)
            part = ctx.emit("shl" if offset > at else "shr", types.uint64, part, shift, node=node)
            bits = ctx.emit("or", types.uint64, bits, part, node=node)
    narrow = ctx.emit("cast", unsigned, bits, node=node) if leaf.size < 8 else bits
    if leaf.kind == "b":
        return ctx.emit("ne", types.bool_, narrow, ctx.const(0, unsigned, node), node=node)
    return narrow if leaf == unsigned else ctx.emit("bitcast", leaf, narrow, node=node)


def _as_unsigned(ctx: Lowering, scalar: Op, node: ast.AST) -> Op:
    assert isinstance(scalar.type, types.Scalar)
    unsigned = _UNSIGNED[scalar.type.size]
    if scalar.type == unsigned:
        return scalar
    return ctx.emit("cast" if scalar.type.kind == "b" else "bitcast", unsigned, scalar, node=node)
