"""Expressions that read: names, literals, attributes, subscripts, tuples."""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from engine.compiler import types, values
from engine.compiler.diagnostics import did_you_mean
from engine.compiler.frontend import tile_elements
from engine.compiler.frontend.context import Lowering, Several, Static, Value, expression, type_of
from engine.compiler.frontend.parts import (
    array_index,
    flat_index,
    indexed_part,
    named_part,
    read_part,
    read_row_at,
    to_array,
    to_int32,
)
from engine.compiler.frontend.slices import Index, Range, indices_of, read_slice
from engine.compiler.ir import Op
from engine.compiler.values import value_class

MAX_DIMS = 4


class Extents(Several):
    """The shape of an array."""


@expression(ast.Constant)
def lower_constant(ctx: Lowering, node: ast.Constant) -> Value:
    if isinstance(node.value, complex | bytes):
        kind = "complex number" if isinstance(node.value, complex) else "bytes literal"
        raise ctx.error(node, f"a {kind} is not part of the kernel language")
    return Static(node.value)


@expression(ast.Name)
def lower_name(ctx: Lowering, node: ast.Name) -> Value:
    return ctx.read(node.id, node)


@expression(ast.Tuple)
def lower_tuple(ctx: Lowering, node: ast.Tuple) -> Value:
    items = tuple(ctx.expression(e) for e in node.elts)
    if all(isinstance(i, Static) for i in items):
        return Static(tuple(i.value for i in items if isinstance(i, Static)))
    return Several(items)


@expression(ast.Attribute)
def lower_attribute(ctx: Lowering, node: ast.Attribute) -> Value:
    return attribute(ctx, ctx.expression(node.value), node.attr, node)


def attribute(ctx: Lowering, base: Value, name: str, node: ast.AST) -> Value:
    """`base.name`: a field of a table, a part of an aggregate, a property of an array, or a Python attribute."""
    if isinstance(base, Static):
        if name == "dtype" and isinstance(base.value, types.Array):  # of `type(a)`
            t = base.value.dtype
            return Static(t if isinstance(t, types.Scalar) else value_class(t))
        try:
            value = getattr(base.value, name)
        except AttributeError:
            hint = did_you_mean(name, dir(base.value))
            of = getattr(base.value, "__name__", type(base.value).__name__)
            raise ctx.error(node, f"'{of}' has no attribute '{name}'", hint) from None
        _note_attribute(ctx, base.value, name, value)
        return Static(value)
    if isinstance(base, Several):
        raise ctx.error(node, f"a tuple has no attribute '{name}'")
    t = base.type
    if isinstance(t, types.Table):
        return table_attribute(ctx, base, t, name, node)
    if name == "dtype":
        if isinstance(t, types.Array | types.LocalArray):
            return Static(t.dtype if isinstance(t.dtype, types.Scalar) else value_class(t.dtype))
        if same := types.components(t):
            return Static(same[0])
    if name == "shape":
        return shape_of(ctx, base, node)
    if name == "ndim" and isinstance(t, types.Array | types.LocalArray):
        return Static(t.ndim if isinstance(t, types.Array) else len(t.shape))
    if isinstance(t, types.Array | types.LocalArray):
        if name == "size":
            return size_of(ctx, base, node)
        if name == "ptr":
            array = to_array(ctx, base, node) if isinstance(t, types.LocalArray) else base
            return ctx.emit("array_ptr", types.uint64, array, node=node)
    if isinstance(t, types.Matrix) and name in ("rows", "cols"):
        return Static(getattr(t, name))
    if isinstance(t, types.Vector) and name == "length":
        return Static(t.length)
    return read_part(ctx, base, named_part(ctx, t, name, node), node)


def _note_attribute(ctx: Lowering, owner: Any, name: str, value: Any) -> None:
    """Modules and classes can be found again by name; the attributes of other objects belong to their owner."""
    if isinstance(owner, ModuleType):
        ctx.capture(f"{owner.__name__}:{name}", value)
    elif isinstance(owner, type):
        ctx.capture(f"{owner.__module__}:{owner.__qualname__}.{name}", value)
    elif not isinstance(owner, enum.Enum | values.Value | types.Type):
        ctx.function.captures = None


def table_attribute(ctx: Lowering, base: Op, t: types.Table, name: str, node: ast.AST) -> Op:
    """A field as an array, or a dimension symbol as a count."""
    field = t.field(name)
    if field:
        return ctx.emit("field", types.Array(field[0], 1, "planes"), base, node=node, name=name)
    if name in t.symbols:
        return ctx.emit("count", types.int32, base, node=node, symbol=name)
    raise ctx.error(node, f"table {t!r} has no field '{name}'", did_you_mean(name, [f[0] for f in t.fields]))


def shape_of(ctx: Lowering, base: Op, node: ast.AST) -> Value:
    match base.type:
        case types.Array(ndim=ndim):
            return Extents(tuple(ctx.emit("shape", types.int32, base, node=node, dim=d) for d in range(ndim)))
        case types.LocalArray(shape=shape):
            return Extents(tuple(map(Static, shape)))
        case types.Matrix(_, rows, cols):
            return Static((rows, cols))
        case types.Vector(_, length):
            return Static((length,))
    raise ctx.error(node, f"{base.type!r} has no shape")


def size_of(ctx: Lowering, base: Op, node: ast.AST) -> Value:
    """How many elements an array has, int32."""
    if isinstance(base.type, types.LocalArray):
        return Static(base.type.size)
    extents = shape_of(ctx, base, node)
    assert isinstance(extents, Several)
    total: Op | None = None
    for extent in extents.items:
        assert isinstance(extent, Op)
        total = extent if total is None else ctx.emit("mul", types.int32, total, extent, node=node)
    assert total is not None
    return total


@expression(ast.Subscript)
def lower_subscript(ctx: Lowering, node: ast.Subscript) -> Value:
    return subscript(ctx, ctx.expression(node.value), indices_of(ctx, node.slice), node)


def is_full_index(t: types.Array, indices: Sequence[Index]) -> bool:
    return len(indices) == t.ndim and not any(isinstance(i, Range) for i in indices)


def is_element(t: types.LocalArray, indices: Sequence[Index]) -> bool:
    """Whether the indices name one element of a local array."""
    if isinstance(t, types.Tile):
        return tile_elements.is_element(t, indices)
    return len(indices) >= len(t.shape) and not any(isinstance(i, Range) for i in indices)


def check_indices(ctx: Lowering, given: Sequence[Index], node: ast.AST) -> None:
    """Refuses indices that are no whole numbers."""
    for index in given:
        t = None if isinstance(index, Range) else type_of(index)
        if not isinstance(index, Range) and not (isinstance(t, types.Scalar) and t.is_int):
            raise ctx.error(node, f"an index is a whole number, not {t!r}" if t else "this index is not a number")


def subscript(ctx: Lowering, base: Value, given: Sequence[Index], node: ast.AST) -> Value:
    """`base[indices]` for anything that can be indexed."""
    if isinstance(base, Op) and isinstance(base.type, types.Tile):
        return tile_elements.subscript(ctx, base, given, node)
    check_indices(ctx, given, node)
    if isinstance(base, Op) and isinstance(base.type, types.LocalArray) and not is_element(base.type, given):
        base = to_array(ctx, base, node)
    if any(isinstance(i, Range) for i in given):
        return read_slice(ctx, base, given, node)
    indices = [i for i in given if not isinstance(i, Range)]
    known = [i.value for i in indices if isinstance(i, Static)]
    if not isinstance(base, Op):
        return _static_subscript(ctx, base, indices, known, node)
    t = base.type
    if isinstance(t, types.Array):
        if len(indices) > t.ndim:
            raise ctx.error(node, f"{t!r} has {t.ndim} dimensions, {len(indices)} indices are given")
        ints = [array_index(ctx, base, d, i, node) for d, i in enumerate(indices)]
        if len(ints) == t.ndim:
            return ctx.emit("load", t.dtype, base, *ints, node=node)
        view = type(t)(t.dtype, t.ndim - len(ints), t.layout)
        return ctx.emit("subarray", view, base, *ints, node=node)
    if isinstance(t, types.LocalArray):
        return ctx.emit("local_load", t.dtype, base, local_index(ctx, t, indices, node), node=node)
    if len(known) == len(indices):
        return read_part(ctx, base, indexed_part(ctx, t, known, node), node)
    same = types.components(t)
    if same is None or isinstance(t, types.Scalar):
        raise ctx.error(node, f"{t!r} cannot be indexed at run time")
    ops = [ctx.value(i, node, types.int32) for i in indices]
    if isinstance(t, types.Matrix) and len(ops) == 1:
        return read_row_at(ctx, base, to_int32(ctx, ops[0], node), node)
    at = flat_index(ctx, t, ops, node)
    return ctx.emit("extract_at", same[0], base, at, node=node)


def _static_subscript(ctx: Lowering, base: Value, indices: list[Value], known: list[int], node: ast.AST) -> Value:
    if len(known) != len(indices):
        if isinstance(base, Static) and type_of(base) is not None:
            return subscript(ctx, ctx.value(base, node), indices, node)
        raise ctx.error(node, "this is known while compiling and can only be indexed with constants",
                        "pass it to the kernel as an array")  # fmt: skip
    try:
        if isinstance(base, Extents) and len(base.items) <= known[0] < MAX_DIMS:
            return Static(0)  # as in Warp: the extent of a dimension that the array does not have
        if isinstance(base, Several):
            return base.items[known[0]]
        assert isinstance(base, Static)
        return Static(base.value[known[0] if len(known) == 1 else tuple(known)])
    except (TypeError, IndexError, KeyError) as error:
        raise ctx.error(node, str(error)) from None


def local_index(ctx: Lowering, t: types.LocalArray, indices: Sequence[Value], node: ast.AST) -> Op:
    """The flat index into a local array: row by row, or column by column where its type says so."""
    if isinstance(t, types.Tile):
        return tile_elements.element_index(ctx, t, indices, node)
    if len(indices) != len(t.shape):
        raise ctx.error(node, f"a local array of {len(t.shape)} dimensions is indexed with {len(indices)} indices")
    for index, extent in zip(indices, t.shape, strict=True):
        if isinstance(index, Static) and not -extent <= index.value < extent:
            raise ctx.error(node, f"index {index.value} is outside the local array, whose extent is {extent}")
    counted = [
        Static(index.value % extent) if isinstance(index, Static) else index
        for index, extent in zip(indices, t.shape, strict=True)
    ]
    each = [to_int32(ctx, ctx.value(index, node, types.int32), node) for index in counted]
    if len(each) == 1:
        return each[0]
    order = slice(None, None, -1 if t.by_column else 1)
    return ctx.emit("position", types.int32, *each[order], node=node, shape=t.shape[order])
