"""Parts of aggregates: components, fields, rows; how they are read and replaced."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from engine.compiler import types
from engine.compiler.diagnostics import did_you_mean
from engine.compiler.frontend.context import Lowering, Several, Static, Value
from engine.compiler.ir import Op

COMPONENT_NAMES = "xyzw"


@dataclass(frozen=True)
class Part:
    """One field of a struct or tuple (`field`), or `count` scalar components from `first` on, taken as type `type`."""

    type: types.Type
    first: int
    count: int = 1
    field: bool = False

    def leaf(self, whole: types.Type) -> int:
        """Position of its first scalar among the leaves of `whole`."""
        if not self.field:
            return self.first
        assert isinstance(whole, types.Struct)
        return sum(len(types.leaves(t)) for _, t in whole.fields[: self.first])


def named_part(ctx: Lowering, whole: types.Type, name: str, node: ast.AST) -> Part:
    """`v.x`, `t.p`, `s.field`."""
    match whole:
        case types.Vector(dtype, n) if name in COMPONENT_NAMES[:n] and len(name) == 1:
            return Part(dtype, COMPONENT_NAMES.index(name))
        case types.Quat(dtype) if name in COMPONENT_NAMES and len(name) == 1:
            return Part(dtype, COMPONENT_NAMES.index(name))
        case types.Transform(dtype) if name == "p":
            return Part(types.Vector(dtype, 3), 0, 3)
        case types.Transform(dtype) if name == "q":
            return Part(types.Quat(dtype), 3, 4)
        case types.Struct(fields=fields):
            index = whole.index(name)
            if index is not None:
                return Part(fields[index][1], index, field=True)
            raise ctx.error(node, f"{whole!r} has no field '{name}'", did_you_mean(name, [n for n, _ in fields]))
    raise ctx.error(node, f"{whole!r} has no attribute '{name}'")


def indexed_part(ctx: Lowering, whole: types.Type, indices: list[int], node: ast.AST) -> Part:
    """`v[1]`, `m[0, 2]`, `m[1]` (a row), `tuple[0]`; negative indices count from the end."""
    if isinstance(whole, types.Tuple | types.Struct) and len(indices) == 1 and isinstance(whole, types.Tuple):
        k = _within(ctx, indices[0], len(whole.items), whole, node)
        return Part(whole.items[k], k, field=True)
    if isinstance(whole, types.Matrix):
        row = _within(ctx, indices[0], whole.rows, whole, node)
        if len(indices) == 1:
            return Part(types.Vector(whole.dtype, whole.cols), row * whole.cols, whole.cols)
        if len(indices) == 2:
            return Part(whole.dtype, row * whole.cols + _within(ctx, indices[1], whole.cols, whole, node))
    same = types.components(whole)
    if same and len(indices) == 1 and not isinstance(whole, types.Scalar):
        return Part(same[0], _within(ctx, indices[0], same[1], whole, node))
    raise ctx.error(node, f"{whole!r} cannot be indexed with {len(indices)} indices")


def _within(ctx: Lowering, index: int, extent: int, whole: types.Type, node: ast.AST) -> int:
    if not -extent <= index < extent:
        raise ctx.error(node, f"index {index} is outside {whole!r}, which has {extent}")
    return index % extent


def read_part(ctx: Lowering, whole: Op, part: Part, node: ast.AST) -> Op:
    """The value of a part."""
    if part.field or part.count == 1:
        return ctx.emit("extract", part.type, whole, node=node, index=part.first)
    same = types.components(part.type)
    assert same is not None
    items = [ctx.emit("extract", same[0], whole, node=node, index=part.first + k) for k in range(part.count)]
    return ctx.emit("make", part.type, *items, node=node)


def replace_part(ctx: Lowering, whole: Op, part: Part, value: Op, node: ast.AST) -> Op:
    """`whole` with the part replaced."""
    if part.field or part.count == 1:
        return ctx.emit("insert", whole.type, whole, value, node=node, index=part.first)
    same = types.components(part.type)
    assert same is not None
    for k in range(part.count):
        item = ctx.emit("extract", same[0], value, node=node, index=k)
        whole = ctx.emit("insert", whole.type, whole, item, node=node, index=part.first + k)
    return whole


def flat_index(ctx: Lowering, whole: types.Type, indices: list[Op], node: ast.AST) -> Op:
    """The position of one scalar component at run-time indices; negative ones count from the end."""
    same = types.components(whole)
    assert same is not None
    shape = (whole.rows, whole.cols) if isinstance(whole, types.Matrix) else (same[1],)
    if len(indices) == len(shape):
        each = [to_int32(ctx, i, node) for i in indices]
        return ctx.emit("position", types.int32, *each, node=node, shape=shape, wraps=True)
    raise ctx.error(node, f"{whole!r} cannot be indexed with {len(indices)} indices at run time")


def array_index(ctx: Lowering, array: Op, dim: int, index: Value, node: ast.AST) -> Op:
    """An index into an array. A negative one that is known while compiling counts from the end; at run time that would
    cost every access."""
    if isinstance(index, Static) and isinstance(index.value, int) and index.value < 0:
        extent = ctx.emit("shape", types.int32, array, node=node, dim=dim)
        return ctx.emit("add", types.int32, extent, ctx.const(index.value, types.int32, node), node=node)
    return ctx.value(index, node, types.int32)


def to_array(ctx: Lowering, local: Op, node: ast.AST) -> Op:
    """A local array as an array: what functions and slices take."""
    t = local.type
    assert isinstance(t, types.LocalArray)
    layout = "aos" if len(types.leaves(t.dtype)) == 1 else "planes"
    return ctx.emit("local_view", types.Array(t.dtype, len(t.shape), layout), local, node=node)


def to_int32(ctx: Lowering, index: Op, node: ast.AST) -> Op:
    if index.type == types.int32:
        return index
    if not (isinstance(index.type, types.Scalar) and index.type.is_int):
        raise ctx.error(node, f"an index is a whole number, not {index.type!r}")
    return ctx.emit("cast", types.int32, index, node=node)


def read_row_at(ctx: Lowering, whole: Op, row: Op, node: ast.AST) -> Op:
    """A matrix row at a run-time index."""
    assert isinstance(whole.type, types.Matrix)
    m = whole.type
    items = []
    for col in range(m.cols):
        at = flat_index(ctx, m, [row, ctx.const(col, types.int32, node)], node)
        items.append(ctx.emit("extract_at", m.dtype, whole, at, node=node))
    return ctx.emit("make", types.Vector(m.dtype, m.cols), *items, node=node)


def unpacked(ctx: Lowering, value: Value, node: ast.AST) -> list[Value]:
    """The parts of a tuple, a vector, the rows of a matrix, or an array of known length."""
    if isinstance(value, Several):
        return list(value.items)
    if isinstance(value, Static) and isinstance(value.value, tuple | list | range):
        return [Static(v) for v in value.value]
    if isinstance(value, Op):
        t = value.type
        if isinstance(t, types.Tuple):
            return [ctx.emit("extract", item, value, node=node, index=k) for k, item in enumerate(t.items)]
        if isinstance(t, types.Matrix):
            return [read_part(ctx, value, indexed_part(ctx, t, [r], node), node) for r in range(t.rows)]
        same = types.components(t)
        if same and not isinstance(t, types.Scalar):
            return [ctx.emit("extract", same[0], value, node=node, index=k) for k in range(same[1])]
    raise ctx.error(node, "this value cannot be unpacked")
