"""Slices: parts of vectors and matrices at bounds known while compiling, and views of arrays at any bounds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from engine.compiler import types
from engine.compiler.frontend.context import HOOKS, Lowering, Several, Static, Value, type_of
from engine.compiler.frontend.parts import array_index, flat_index, read_row_at, to_int32
from engine.compiler.ir import Op
from engine.compiler.library import slicing
from engine.compiler.library.registry import LibraryFunction


@dataclass(frozen=True)
class Range:
    """`start:stop:step` between brackets; None where a bound is left out."""

    start: Value | None
    stop: Value | None
    step: Value | None

    def known(self, ctx: Lowering, extent: int, node: ast.AST) -> range:
        """The positions that it means in `extent` components."""
        bounds = []
        for bound in (self.start, self.stop, self.step):
            if bound is not None and not (isinstance(bound, Static) and isinstance(bound.value, int | None)):
                raise ctx.error(node, "the bounds of a slice of a vector, matrix or tile must be known while compiling")
            bounds.append(bound.value if isinstance(bound, Static) else None)
        if bounds[2] == 0:
            raise ctx.error(node, "Slice step cannot be zero")
        return range(*slice(*bounds).indices(extent))


Index = Value | Range


def indices_of(ctx: Lowering, node: ast.expr) -> list[Index]:
    """The indices between the brackets."""
    if isinstance(node, ast.Slice):
        return [_range(ctx, node)]
    if isinstance(node, ast.Tuple):
        return [_range(ctx, e) if isinstance(e, ast.Slice) else ctx.expression(e) for e in node.elts]
    value = ctx.expression(node)
    if isinstance(value, Several):
        return list(value.items)
    if isinstance(value, Static) and isinstance(value.value, tuple):
        return [Static(v) for v in value.value]
    if isinstance(value, Static) and isinstance(value.value, slice):
        s = value.value
        return [Range(*(None if b is None else Static(b) for b in (s.start, s.stop, s.step)))]
    return [value]


def _range(ctx: Lowering, node: ast.Slice) -> Range:
    bounds = [None if e is None else ctx.expression(e) for e in (node.lower, node.upper, node.step)]
    return Range(*(None if isinstance(b, Static) and b.value is None else b for b in bounds))


@dataclass(frozen=True)
class Picks:
    """Scalar components of an aggregate, taken as a value of type `type`."""

    type: types.Type
    components: tuple[int, ...]


def picks(ctx: Lowering, whole: types.Type, indices: Sequence[Index], node: ast.AST) -> Picks:
    """The components that constant indices and slices mean."""
    same = types.components(whole)
    if same is None or isinstance(whole, types.Scalar):
        raise ctx.error(node, f"{whole!r} cannot be sliced")
    if isinstance(whole, types.Matrix):
        return _matrix_picks(ctx, whole, indices, node)
    if len(indices) != 1:
        raise ctx.error(node, f"{whole!r} cannot be indexed with {len(indices)} indices")
    (only,) = indices
    assert isinstance(only, Range)
    chosen = tuple(only.known(ctx, same[1], node))
    return Picks(types.Vector(same[0], len(chosen)), chosen)


def _matrix_picks(ctx: Lowering, whole: types.Matrix, indices: Sequence[Index], node: ast.AST) -> Picks:
    if len(indices) > 2:
        raise ctx.error(node, f"{whole!r} cannot be indexed with {len(indices)} indices")
    both = [*indices, Range(None, None, None)][:2]
    axes = []
    for index, extent in zip(both, (whole.rows, whole.cols), strict=True):
        if isinstance(index, Range):
            axes.append(tuple(index.known(ctx, extent, node)))
        else:
            assert isinstance(index, Static)
            if not -extent <= index.value < extent:
                raise ctx.error(node, f"index {index.value} is outside {whole!r}, which has {extent}")
            axes.append((index.value % extent,))
    chosen = tuple(r * whole.cols + c for r in axes[0] for c in axes[1])
    if isinstance(both[0], Range) and isinstance(both[1], Range):
        return Picks(types.Matrix(whole.dtype, len(axes[0]), len(axes[1])), chosen)
    return Picks(types.Vector(whole.dtype, len(chosen)), chosen)


def read_slice(ctx: Lowering, base: Value, indices: Sequence[Index], node: ast.AST) -> Value:
    """`base[indices]` with at least one slice among the indices."""
    if isinstance(base, Static) and type_of(base) is None:
        return _static_slice(ctx, base.value, indices, node)
    if isinstance(base, Several):
        (only,) = indices
        assert isinstance(only, Range)
        return Several(tuple(base.items[k] for k in only.known(ctx, len(base.items), node)))
    whole = ctx.value(base, node)
    t = whole.type
    if isinstance(t, types.IndexedArray):
        raise ctx.error(node, "an indexed array cannot be sliced in a kernel",
                        "index its elements, or slice it in Python")  # fmt: skip
    if isinstance(t, types.Array):
        return view(ctx, whole, t, indices, node)
    if isinstance(t, types.Tuple):
        (only,) = indices
        assert isinstance(only, Range)
        chosen = only.known(ctx, len(t.items), node)
        return Several(tuple(ctx.emit("extract", t.items[k], whole, node=node, index=k) for k in chosen))
    if isinstance(t, types.Matrix) and any(isinstance(i, Op) for i in indices):
        return _matrix_line_at(ctx, whole, t, indices, node)
    return gather(ctx, whole, picks(ctx, t, indices, node), node)


def _static_slice(ctx: Lowering, value: object, indices: Sequence[Index], node: ast.AST) -> Value:
    (only,) = indices
    assert isinstance(only, Range)
    if not isinstance(value, tuple | list | str | range):
        raise ctx.error(node, f"{value!r} cannot be sliced")
    chosen = only.known(ctx, len(value), node)
    return Static(tuple(value[k] for k in chosen) if not isinstance(value, str) else "".join(value[k] for k in chosen))


def gather(ctx: Lowering, whole: Op, chosen: Picks, node: ast.AST) -> Op:
    """The value of some components."""
    same = types.components(whole.type)
    assert same is not None
    items = [ctx.emit("extract", same[0], whole, node=node, index=k) for k in chosen.components]
    return ctx.emit("make", chosen.type, *items, node=node)


def _matrix_line_at(ctx: Lowering, whole: Op, t: types.Matrix, indices: Sequence[Index], node: ast.AST) -> Op:
    """A part of a row or column whose number is known at run time only."""
    row, col = indices if len(indices) == 2 else (indices[0], Range(None, None, None))
    if isinstance(row, Op):
        line = read_row_at(ctx, whole, to_int32(ctx, row, node), node)
        other = col
    else:
        assert isinstance(col, Op)
        at = to_int32(ctx, col, node)
        flat = [flat_index(ctx, t, [ctx.const(r, types.int32, node), at], node) for r in range(t.rows)]
        items = [ctx.emit("extract_at", t.dtype, whole, k, node=node) for k in flat]
        line, other = ctx.emit("make", types.Vector(t.dtype, t.rows), *items, node=node), row
    assert isinstance(other, Range)
    return gather(ctx, line, picks(ctx, line.type, [other], node), node)


def view(ctx: Lowering, array: Op, t: types.Array, indices: Sequence[Index], node: ast.AST) -> Op:
    """A view of an array: an index drops its dimension, a slice keeps it."""
    if len(indices) > t.ndim:
        raise ctx.error(node, f"{t!r} has {t.ndim} dimensions, {len(indices)} indices are given")
    operands: list[Op] = []
    dims = ""
    for d, index in enumerate([*indices, *[Range(None, None, None)] * (t.ndim - len(indices))]):
        if isinstance(index, Range):
            operands += _extent_of(ctx, array, d, index, node)
            dims += "r"
        else:
            operands.append(_counted(ctx, array, d, index, node))
            dims += "i"
    made = types.Array(t.dtype, dims.count("r"), t.layout)
    return ctx.emit("view", made, array, *operands, node=node, dims=dims)


def _counted(ctx: Lowering, array: Op, dim: int, index: Value, node: ast.AST) -> Op:
    """An index beside slices: negative ones count from the end, as the bounds of the slices do."""
    at = to_int32(ctx, array_index(ctx, array, dim, index, node), node)
    if isinstance(index, Static):
        return at
    extent = ctx.emit("shape", types.int32, array, node=node, dim=dim)
    from_end = ctx.emit("add", types.int32, at, extent, node=node)
    negative = ctx.emit("lt", types.bool_, at, ctx.const(0, types.int32, node), node=node)
    return ctx.emit("select", types.int32, negative, from_end, at, node=node)


def _extent_of(ctx: Lowering, array: Op, dim: int, index: Range, node: ast.AST) -> list[Op]:
    """start, count and step of a slice along one dimension."""
    extent = ctx.emit("shape", types.int32, array, node=node, dim=dim)
    step: Value = Static(1) if index.step is None else index.step
    if isinstance(step, Static) and step.value == 0:
        raise ctx.error(node, "Slice step cannot be zero")
    if index.start is None and index.stop is None and isinstance(step, Static) and step.value == 1:
        return [ctx.const(0, types.int32, node), extent, ctx.const(1, types.int32, node)]
    whole = [ctx.value(b, node, types.int32) if b is not None else None for b in (index.start, index.stop, step)]
    first, last, by = (None if b is None else to_int32(ctx, b, node) for b in whole)
    assert by is not None
    if first is None:
        start = _call(ctx, slicing.slice_first, [extent, by], node)
    else:
        start = _call(ctx, slicing.slice_bound, [extent, first, by], node)
    if last is None:
        stop = _call(ctx, slicing.slice_end, [extent, by], node)
    else:
        stop = _call(ctx, slicing.slice_bound, [extent, last, by], node)
    return [start, _call(ctx, slicing.slice_count, [start, stop, by], node), by]


def count_of(ctx: Lowering, start: Value, stop: Value, step: Value, node: ast.AST) -> Op:
    """How many numbers a range has."""
    return _call(ctx, slicing.slice_count, [ctx.value(v, node, types.int32) for v in (start, stop, step)], node)


def _call(ctx: Lowering, function: LibraryFunction, args: list[Value], node: ast.AST) -> Op:
    return ctx.value(HOOKS["call"](ctx, function, args, node), node)
