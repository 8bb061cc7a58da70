"""Tile functions that the compiler gives a meaning: making tiles, views, maps, operators, and memory in and out.

What combines elements (sums, sorts, products of matrices …) is library code: see `library/tile_*`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

from engine.compiler import types
from engine.compiler.frontend import tile_elements as elements
from engine.compiler.frontend.constructors import cast
from engine.compiler.frontend.context import (
    HOOKS,
    Lowering,
    Static,
    Value,
    assemble,
    convert_components,
    type_of,
)
from engine.compiler.frontend.expressions import subscript
from engine.compiler.frontend.functions import call_function, call_library
from engine.compiler.frontend.intrinsics import INTRINSICS
from engine.compiler.frontend.names import reference_names
from engine.compiler.frontend.operators import SYMBOLS, binary, unary
from engine.compiler.frontend.parts import to_int32
from engine.compiler.frontend.slices import Range
from engine.compiler.frontend.tile_calls import Call, tile_function
from engine.compiler.frontend.tile_elements import tile_type
from engine.compiler.ir import Op
from engine.compiler.library import tile_memory
from engine.compiler.library.registry import Builtin

# --- making tiles ---------------------------------------------------------------------------------------------------


@tile_function("tile_zeros", "shape", dtype=float, storage="register")
@tile_function("tile_empty", "shape", dtype=float, storage="register")
def lower_zeros(call: Call) -> Value:
    """tile_empty is zeroed, too: no result ever depends on what was in memory before."""
    return elements.new_tile(call.ctx, types.tile_of(call.dtype(), call.shape(), call.storage()), call.node)


@tile_function("tile_ones", "shape", dtype=float, storage="register")
def lower_ones(call: Call) -> Value:
    return filled(call, call.dtype(), Static(1))


@tile_function("tile_full", "shape value", dtype=None, storage="register")
def lower_full(call: Call) -> Value:
    value = call.given["value"]
    dtype = call.dtype() if call.given_or_none("dtype") is not None else type_of(value)
    return filled(call, dtype if dtype is not None else call.value("value").type, value)


def filled(call: Call, dtype: types.Type, value: Value) -> Op:
    """A tile of one value, converted to `dtype`."""
    ctx, node = call.ctx, call.node
    element = converted(call, dtype, value)
    return elements.make(ctx, call.shape(), [], node, lambda at: element, call.storage())


def converted(call: Call, dtype: types.Type, value: Value) -> Op:
    """A value as the element type of a tile: numbers are converted, a number fills all components."""
    ctx, node = call.ctx, call.node
    t, same = type_of(value), types.components(dtype)
    if isinstance(dtype, types.Scalar) and (t is None or isinstance(t, types.Scalar)):
        return ctx.value(cast(ctx, dtype, value, node), node)
    if same is not None and isinstance(t, types.Scalar):
        part = ctx.value(cast(ctx, same[0], value, node), node)
        return ctx.emit("make", dtype, *[part] * same[1], node=node)
    found = ctx.value(value, node, dtype)
    if found.type != dtype:
        raise call.error(f"a value of type {found.type!r} is no element of type {dtype!r}")
    return found


@tile_function("tile", "x", preserve_type=False)
def lower_tile(call: Call) -> Value:
    """The values that the threads of a block hold, as a tile; of vectors and matrices the components come first."""
    ctx, node = call.ctx, call.node
    value = call.value("x")
    same = types.components(value.type)
    if call.known("preserve_type") or isinstance(value.type, types.Scalar) or same is None:
        return elements.make(ctx, (block_dim(ctx),), [], node, lambda at: value)
    t = value.type
    lead = (t.rows, t.cols) if isinstance(t, types.Matrix) else (same[1],)
    out = elements.new_tile(ctx, types.tile_of(same[0], (*lead, block_dim(ctx))), node, unset=True)
    for k in range(same[1]):
        component = ctx.emit("extract", same[0], value, node=node, index=k)
        ctx.emit("local_store", types.void, out, ctx.const(k, types.int32, node), component, node=node)
    return out


@tile_function("untile", "a")
def lower_untile(call: Call) -> Value:
    """This thread's part of a tile whose last dimension runs over the threads of the block."""
    ctx, node = call.ctx, call.node
    tile = call.tile("a")
    t = tile_type(tile)
    if t.shape[-1] != block_dim(ctx):
        raise call.error(f"the last dimension of {t!r} does not run over the threads of the block",
                         "where there are tiles a block is one thread, so it is 1")  # fmt: skip
    if len(t.shape) > 3:
        raise call.error(f"a thread holds numbers, vectors and matrices, and its part of {t!r} has 3 dimensions")
    lead = t.shape[:-1]
    if not lead:
        return ctx.emit("local_load", t.dtype, tile, ctx.const(0, types.int32, node), node=node)
    if not isinstance(t.dtype, types.Scalar):
        raise call.error(f"a vector or matrix is made of numbers, and the elements of {t!r} are none")
    made = types.Vector(t.dtype, lead[0]) if len(lead) == 1 else types.Matrix(t.dtype, *lead)
    parts = []
    for k in range(math.prod(lead)):
        at = [k] if len(lead) == 1 else list(divmod(k, lead[1]))
        ints = [ctx.const(i, types.int32, node) for i in [*at, 0]]
        parts.append(ctx.emit("local_load", t.dtype, tile, elements.flat_index(ctx, t, ints, node), node=node))
    return ctx.emit("make", made, *parts, node=node)


def block_dim(ctx: Lowering) -> int:
    """Threads of a block: where there are tiles it is one, whatever the launch asks for (see `scalarize`)."""
    return 1


@tile_function("tile_from_thread", "shape value thread_idx", storage="register")
def lower_from_thread(call: Call) -> Value:
    """A tile filled with the value of one thread of the block; numbers of threads that it does not have are cut."""
    value = call.value("value")
    return filled(call, value.type, value)


# --- views ----------------------------------------------------------------------------------------------------------


@tile_function("tile_view", "t offset shape", shape=None)
def lower_view(call: Call) -> Value:
    ctx, node = call.ctx, call.node
    tile = call.tile("t")
    t = tile_type(tile)
    given = elements.checked(ctx, [_as_range(v) for v in call.items("offset")], node)
    whole = [v for v in given if not isinstance(v, Range)]
    if len(whole) < len(given):
        if call.given_or_none("shape") is not None:
            raise call.error("'shape' together with a slice: the slices give the extents")
        return elements.subscript(ctx, tile, given, node)
    if call.given_or_none("shape") is None:
        for d, (v, extent) in enumerate(zip(whole, t.shape, strict=False)):
            if isinstance(v, Static) and not 0 <= v.value < extent:
                raise call.error(f"offset {v.value} is out of bounds for dimension {d}, whose extent is {extent}")
        return elements.subscript(ctx, tile, whole, node)
    return window(call, tile, whole, call.shape())


def window(call: Call, tile: Op, given: Sequence[Value], shape: tuple[int, ...]) -> Op:
    """The part of a tile that begins at an offset; with fewer dimensions, the offset indexes the first ones."""
    ctx, node = call.ctx, call.node
    t = tile_type(tile)
    given = [*given, *[Static(0)] * (len(t.shape) - len(given))]
    if len(shape) > len(t.shape) or len(given) != len(t.shape):
        raise call.error(f"a part of shape {shape} is no part of a tile of shape {t.shape}")
    extents = (*[1] * (len(t.shape) - len(shape)), *shape)
    for d, (v, n, whole) in enumerate(zip(given, extents, t.shape, strict=True)):
        if n > whole or isinstance(v, Static) and not 0 <= v.value <= whole - n:
            at = f" at offset {v.value}" if isinstance(v, Static) else ""
            raise call.error(f"{n} elements{at} are out of bounds for dimension {d} of {t!r}")
    ints = [to_int32(ctx, ctx.value(v, node, types.int32), node) for v in given]
    places = tuple(whole - n + 1 for n, whole in zip(extents, t.shape, strict=True))
    start = ctx.emit("position", types.int32, *ints, node=node, shape=places, strides=t.strides)
    return elements.part(ctx, tile, start, shape, t.strides[len(t.shape) - len(shape) :], node)


def _as_range(v: Value) -> Value | Range:
    if isinstance(v, Static) and isinstance(v.value, slice):
        return Range(*(None if b is None else Static(b) for b in (v.value.start, v.value.stop, v.value.step)))
    return v


@tile_function("tile_transpose", "a")
def lower_transpose(call: Call) -> Value:
    tile = call.tile("a")
    t = tile_type(tile)
    if len(t.shape) != 2:
        raise call.error(f"a tile of 2 dimensions is transposed, not one of {len(t.shape)}")
    return elements.part(call.ctx, tile, 0, t.shape[::-1], t.strides[::-1], call.node)


@tile_function("tile_broadcast", "a shape")
def lower_broadcast(call: Call) -> Value:
    """The tile repeated along dimensions in which it has one element, or which it lacks."""
    wanted = call.known("shape")
    if isinstance(wanted, tuple) and not 1 <= len(wanted) <= elements.MAX_DIMS:
        raise call.ctx.error(call.node, "tile_broadcast() output must have between one and four dimensions, got "
                                        f"{len(wanted)}")  # fmt: skip
    tile, shape = call.tile("a"), call.shape()
    t = tile_type(tile)
    missing = len(shape) - len(t.shape)
    own, strides = (1,) * missing + t.shape, (0,) * missing + t.strides
    if missing < 0 or any(n not in (1, m) for n, m in zip(own, shape, strict=True)):
        raise call.error(f"a tile of shape {t.shape} is not broadcast to shape {shape}")
    return elements.part(call.ctx, tile, 0, shape, [0 if n == 1 else s for n, s in zip(own, strides, strict=True)],
                         call.node)  # fmt: skip


@tile_function("tile_reshape", "a shape")
def lower_reshape(call: Call) -> Value:
    tile = call.tile("a")
    size = tile_type(tile).size
    wanted = call.known("shape")
    extents = list(wanted) if isinstance(wanted, tuple | list) else [wanted]
    if extents.count(-1) == 1:
        rest = math.prod(n for n in extents if n != -1)
        if rest and size % rest == 0:
            extents[extents.index(-1)] = size // rest
        call.given["shape"] = Static(tuple(extents))
    shape = call.shape()
    if math.prod(shape) != size:
        raise call.error(f"a tile of {size} elements does not have the shape {wanted}")
    return reshaped(call.ctx, tile, shape, call.node)


def reshaped(ctx: Lowering, tile: Op, shape: tuple[int, ...], node: ast.AST) -> Op:
    """The same elements, row by row, in another shape: a view, or a copy of a view with gaps."""
    if not tile_type(tile).is_dense:
        tile = elements.copy(ctx, tile, node)
    return elements.part(ctx, tile, 0, shape, types.dense_strides(shape), node)


@tile_function("tile_squeeze", "a axis", axis=None)
def lower_squeeze(call: Call) -> Value:
    tile = call.tile("a")
    t = tile_type(tile)
    axes = call.known("axis")
    axes = range(len(t.shape)) if axes is None else axes if isinstance(axes, tuple | list) else (axes,)
    for axis in axes:
        if not isinstance(axis, int) or not -len(t.shape) <= axis < len(t.shape):
            raise call.ctx.error(call.node, f"tile_squeeze() axis {axis!r} is out of bounds for tile with "
                                            f"{len(t.shape)} dimensions")  # fmt: skip
    dropped = {axis % len(t.shape) for axis in axes}
    if call.known("axis") is not None and any(t.shape[d] != 1 for d in dropped):
        raise call.error(f"only dimensions of extent 1 can be squeezed, {t!r} has {t.shape}")
    kept = [d for d, n in enumerate(t.shape) if n != 1 or d not in dropped] or [0]
    return elements.part(call.ctx, tile, 0, [t.shape[d] for d in kept], [t.strides[d] for d in kept], call.node)


@tile_function("tile_lines", "a axis")
def lower_lines(call: Call) -> Value:
    """A copy in the shape (before the axis, the axis, behind it), for functions that work along an axis."""
    tile = call.tile("a")
    before, extent, behind = around(call, tile_type(tile).shape)
    copy = elements.copy(call.ctx, tile, call.node)
    shape = (math.prod(before), extent, math.prod(behind))
    return elements.part(call.ctx, copy, 0, shape, types.dense_strides(shape), call.node)


@tile_function("tile_first_of_lines", "lines a axis")
def lower_first_of_lines(call: Call) -> Value:
    lines = call.tile("lines")
    t = tile_type(lines)
    before, _, behind = around(call, tile_type(call.tile("a")).shape)
    shape = (*before, *behind) or (1,)
    strides = [n * t.strides[0] for n in _steps(before)] + [n * t.strides[2] for n in _steps(behind)] or [0]
    return elements.part(call.ctx, lines, 0, shape, strides, call.node)


def _steps(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def around(call: Call, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """The extents before an axis, its own, and those behind it; without an axis all elements are one line."""
    axis = call.known("axis")
    if axis is None:
        return (), math.prod(shape), ()
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        raise call.error(f"axis {axis!r} is out of bounds for a tile of {len(shape)} dimensions")
    axis %= len(shape)
    return shape[:axis], shape[axis], shape[axis + 1 :]


# --- elementwise ----------------------------------------------------------------------------------------------------


def lower_map(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`tile_map(f, a, b, …)`: f of the elements; arguments that are no tiles are the same for all."""
    if len(args) < 2 or kwargs or not isinstance(args[0], Static):
        raise ctx.error(node, "tile_map() takes a function and one or more tiles")
    target = args[0].value
    if any(reference_names(target)) or isinstance(target, Builtin) and any(f.updates for f in target.overloads):
        raise ctx.error(node, f"tile_map() does not take '{target.name}', which changes its arguments")
    return mapped(ctx, "tile_map", args[1:], node, lambda given: HOOKS["call target"](ctx, target, given, {}, node))


INTRINSICS["tile_map"] = lower_map


def mapped(ctx: Lowering, name: str, args: Sequence[Value], node: ast.AST, function: Any) -> Op:
    """A tile of what `function` makes of the elements of the tiles among `args` and of the other values."""
    args = [v if isinstance(v, Static) else ctx.value(v, node) for v in args]
    tiles = [v for v in args if isinstance(v, Op) and isinstance(v.type, types.Tile)]
    if not tiles:
        raise ctx.error(node, f"{name}() takes one or more tiles")
    shape = tile_type(tiles[0]).shape
    if any(tile_type(v).shape != shape for v in tiles):
        shapes = " and ".join(str(tile_type(v).shape) for v in tiles)
        raise ctx.error(node, f"{name}: tiles of different shapes: {shapes}", "use tile_broadcast()")

    def element(at: elements.At) -> Op:
        given = [elements.load(ctx, v, at, node) if isinstance(v, Op) and v in tiles else v for v in args]
        result = function(given)
        if isinstance(result, Static) and result.value is None:
            raise ctx.error(node, f"{name}() needs a function that returns a value")
        return ctx.value(result, node)

    return elements.make(ctx, shape, tiles, node, element)


def tile_operator(ctx: Lowering, name: str, a: Value, b: Value, node: ast.AST) -> Value:
    if name == "matmul":
        return HOOKS["call target"](ctx, HOOKS["vocabulary"]("tile_matmul"), [a, b], {}, node)
    return mapped(ctx, f"'{SYMBOLS[name]}'", [a, b], node, lambda given: element_operator(ctx, name, given, node))


def element_operator(ctx: Lowering, name: str, operands: Sequence[Value], node: ast.AST) -> Value:
    """An operator on elements; structs are added and subtracted field by field."""
    x, y = operands
    t = type_of(x)
    if not isinstance(t, types.Struct) or t != type_of(y) or name not in ("add", "sub"):
        return binary(ctx, name, x, y, node)
    assert isinstance(x, Op) and isinstance(y, Op)
    fields = []
    for k, (_, field) in enumerate(t.fields):
        a, b = (ctx.emit("extract", field, v, node=node, index=k) for v in (x, y))
        if isinstance(field, types.Scalar) and field.kind == "b":
            fields.append(a)  # truth values are carried along
        else:
            fields.append(ctx.value(element_operator(ctx, name, [a, b], node), node))
    return ctx.emit("make", t, *fields, node=node)


def tile_unary(ctx: Lowering, name: str, tile: Op, node: ast.AST) -> Value:
    return mapped(ctx, name, [tile], node, lambda given: unary(ctx, name, given[0], node))


def tile_update(ctx: Lowering, name: str, tile: Op, value: Value, node: ast.AST) -> None:
    """`tile += value` changes the elements of the tile."""
    t = tile_type(tile)
    args = [tile, ctx.value(value, node) if not isinstance(value, Static) else value]
    if isinstance(args[1], Op) and isinstance(args[1].type, types.Tile):
        if elements.may_overlap(tile, args[1]):
            args[1] = elements.copy(ctx, args[1], node)
        if tile_type(args[1]).shape != t.shape:
            raise ctx.error(node, f"'{SYMBOLS[name]}=': tiles of different shapes: {t.shape} and "
                                  f"{tile_type(args[1]).shape}", "use tile_broadcast()")  # fmt: skip
    tiles = [v for v in args if isinstance(v, Op) and isinstance(v.type, types.Tile)]

    def body(at: elements.At) -> None:
        given = [elements.load(ctx, v, at, node) if v in tiles else v for v in args]
        result = ctx.value(element_operator(ctx, name, given, node), node)
        if result.type != t.dtype:
            raise ctx.error(node, f"'{SYMBOLS[name]}=' makes {result.type!r} of elements of {t!r}")
        elements.store(ctx, tile, at, result, node)

    elements.each(ctx, t.shape, tiles, node, body, tile)


HOOKS["tile operator"], HOOKS["tile unary"], HOOKS["tile update"] = tile_operator, tile_unary, tile_update
HOOKS["element operator"] = element_operator


def lower_element_sum(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """The sum of two elements of a tile, which may be structs."""
    return element_operator(ctx, "add", args, node)


def lower_element_dot(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """The sum of the products of the components of two elements."""
    t = type_of(args[0])
    if isinstance(t, types.Vector | types.Matrix):
        return call_library(ctx, "dot" if isinstance(t, types.Vector) else "ddot", args, node)
    return binary(ctx, "mul", args[0], args[1], node)


INTRINSICS["tile_element_sum"], INTRINSICS["tile_element_dot"] = lower_element_sum, lower_element_dot


@tile_function("tile_astype", "t dtype")
def lower_astype(call: Call) -> Value:
    ctx, node, dtype = call.ctx, call.node, call.dtype()
    t = tile_type(call.tile("t"))

    def convert(given: list[Op]) -> Value:
        if isinstance(t.dtype, types.Scalar) and isinstance(dtype, types.Scalar):
            return cast(ctx, dtype, given[0], node)
        same = types.components(dtype)
        if same is None or types.components(t.dtype) is None or types.with_scalar(t.dtype, same[0]) != dtype:
            raise call.error(f"{t.dtype!r} does not become {dtype!r}")
        return convert_components(ctx, given[0], same[0], node)

    return mapped(ctx, "tile_astype", [call.tile("t")], node, convert)


@tile_function("tile_assign", "dst src offset", offset=None)
def lower_assign(call: Call) -> Value:
    """Copies a tile, or part of one, into a part of another."""
    ctx, node = call.ctx, call.node
    target, value = call.tile("dst"), call.tile("src")
    t = tile_type(target)
    shape = tile_type(value).shape
    if t.dtype != tile_type(value).dtype:
        value = mapped(ctx, call.name, [value], node, lambda given: converted(call, t.dtype, given[0]))
    if call.given_or_none("offset") is not None or shape != t.shape:
        target = window(call, target, call.indices("offset", len(t.shape)), shape)
    elements.assign(ctx, target, value, node)
    return Static(None)


def lower_extract(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`tile_extract(t, i, j, …)`: an element, and with further indices a component of it."""
    if not args or not isinstance(args[0], Op) or not isinstance(args[0].type, types.Tile) or kwargs:
        raise ctx.error(node, "tile_extract() takes a tile and an index for each dimension")
    n = len(tile_type(args[0]).shape)
    if len(args) - 1 < n:
        raise ctx.error(node, f"tile_extract() of {args[0].type!r} takes {n} indices, {len(args) - 1} are given")
    element = elements.subscript(ctx, args[0], args[1 : 1 + n], node)
    return element if len(args) == 1 + n else subscript(ctx, element, args[1 + n :], node)


INTRINSICS["tile_extract"] = lower_extract


# --- memory ---------------------------------------------------------------------------------------------------------


@tile_function("tile_load", "array shape offset", offset=None, storage="register", bounds_check=True, aligned=False)
def lower_load(call: Call) -> Value:
    """The part of an array that begins at the offset; what lies outside is zero."""
    ctx, node = call.ctx, call.node
    array, shape = call.array("array"), call.shape()
    t = array.type
    assert isinstance(t, types.Array)
    tile = elements.new_tile(ctx, types.tile_of(t.dtype, shape, call.storage()), node, not call.known("bounds_check"))
    memory_call(call, tile_memory.LOADS, array, tile)
    return tile


@tile_function("tile_store", "array t offset", offset=None, bounds_check=True, aligned=False)
def lower_store(call: Call) -> Value:
    """Writes a tile to the part of an array that begins at the offset; what lies outside is left out."""
    memory_call(call, tile_memory.STORES, call.array("array"), call.tile("t"))
    return Static(None)


@tile_function("tile_atomic_add", "a t offset", offset=None, bounds_check=True)
def lower_atomic_add(call: Call) -> Value:
    """Adds a tile to the part of an array that begins at the offset, atomically; gives the old elements."""
    array, tile = call.array("a"), call.tile("t")
    t = tile_type(tile)
    old = elements.new_tile(call.ctx, types.tile_of(t.dtype, t.shape), call.node)
    memory_call(call, tile_memory.ADDITIONS, array, tile, old)
    return old


def lower_element_atomic_add(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """atomic_add, of structs number by number; truth values stay. Gives the old element."""
    array = args[0]
    assert isinstance(array, Op) and isinstance(array.type, types.Array)
    t = array.type.dtype
    if not isinstance(t, types.Struct):
        return INTRINSICS["atomic_add"](ctx, args, {}, node)
    indices = [ctx.value(i, node, types.int32) for i in args[1:-1]]
    whole = ctx.emit("load", t, array, *indices, node=node)
    old = []
    for k, (new, before) in enumerate(zip(flattened(ctx, args[-1], node), flattened(ctx, whole, node), strict=True)):
        if new.type == types.bool_:
            old.append(before)
        else:
            old.append(ctx.emit("atomic", new.type, array, *indices, new, node=node, op="add", offset=k))
    return assemble(ctx, t, iter(old), node)


INTRINSICS["tile_element_atomic_add"] = lower_element_atomic_add


def flattened(ctx: Lowering, value: Value, node: ast.AST) -> list[Op]:
    """The scalars of an element, in the order of its leaves."""
    op = ctx.value(value, node)
    if isinstance(op.type, types.Struct):
        fields = [ctx.emit("extract", t, op, node=node, index=k) for k, (_, t) in enumerate(op.type.fields)]
        return [leaf for field in fields for leaf in flattened(ctx, field, node)]
    same = types.components(op.type)
    if same is None:
        raise ctx.error(node, f"{op.type!r} cannot be added")
    if isinstance(op.type, types.Scalar):
        return [op]
    return [ctx.emit("extract", same[0], op, node=node, index=k) for k in range(same[1])]


def memory_call(call: Call, functions: dict[int, Any], array: Op, *tiles: Op) -> None:
    """Calls the library's loop over elements of the array's number of dimensions."""
    t, tile = array.type, tile_type(tiles[0])
    assert isinstance(t, types.Array)
    if t.ndim != len(tile.shape):
        raise call.error(f"a tile of {len(tile.shape)} dimensions does not fit an array of {t.ndim}")
    if t.dtype != tile.dtype:
        raise call.error(f"the elements of the tile are {tile.dtype!r}, those of the array {t.dtype!r}")
    offsets = call.ints("offset", t.ndim)
    checked = call.known("bounds_check")
    args: list[Value] = [array, *tiles, *offsets]
    if not isinstance(checked, bool):
        raise call.error("bounds_check is True or False")
    call_function(call.ctx, functions[t.ndim], [*args, Static(checked)], call.node)

