"""Tiles and single elements: additions by index, indexed memory, stacks, random numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from engine.compiler import types
from engine.compiler.frontend import tile_elements as elements
from engine.compiler.frontend.context import Lowering, Several, Static, Value, zero
from engine.compiler.frontend.functions import call_function, call_library
from engine.compiler.frontend.intrinsics import INTRINSICS
from engine.compiler.frontend.operators import only_if, truth
from engine.compiler.frontend.tile_calls import Call, tile_function
from engine.compiler.frontend.tile_elements import tile_type
from engine.compiler.frontend.tiles import element_operator
from engine.compiler.ir import Op
from engine.compiler.library import tile_memory, tile_stacks

# --- single elements ------------------------------------------------------------------------------------------------


def update_element(name: str, operation: str | None, has_condition: bool) -> None:
    """Registers `name(t, i, j, …, value[, has_value])`: an element becomes `value`, or `element operation value`."""

    def lower(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        kwargs = {key: v for key, v in kwargs.items() if key != "atomic"}  # a block of one thread needs no atomics
        args = [*args, *kwargs.values()]
        tile = args[0] if args else None
        if not isinstance(tile, Op) or not isinstance(tile.type, types.Tile):
            raise ctx.error(node, f"{name}() takes a tile, an index for each dimension and a value")
        n = len(tile.type.shape)
        count = 1 + n + 1 + has_condition
        if len(args) not in (count, count + (operation is not None and has_condition)):
            raise ctx.error(node, f"{name}() of {tile.type!r} takes {count} arguments, {len(args)} are given")
        at = elements.element_index(ctx, tile.type, args[1 : 1 + n], node)
        dtype = tile.type.dtype

        def write() -> None:
            value = args[1 + n]
            if operation is not None:
                old = ctx.emit("local_load", dtype, tile, at, node=node)
                value = element_operator(ctx, operation, [old, value], node)
            made = ctx.value(value, node, dtype)
            if made.type != dtype:
                raise ctx.error(node, f"{name}() of {tile.type!r} is given {made.type!r}")
            ctx.emit("local_store", types.void, tile, at, made, node=node)

        only_if(ctx, truth(ctx, args[2 + n], node) if has_condition else Static(True), node, write)
        return Static(None)

    INTRINSICS[name] = lower


update_element("tile_scatter_add", "add", True)
update_element("tile_scatter_masked", None, True)
for _name, _operation in (("add", "add"), ("sub", "sub"), ("bit_and", "and"), ("bit_or", "or"), ("bit_xor", "xor")):
    update_element(f"tile_{_name}_inplace", _operation, False)


# --- indexed memory -------------------------------------------------------------------------------------------------


def indexed(call: Call, array: Op, tile: Op, body: Callable[[list[Op], list[Op]], None]) -> None:
    """Runs `body(array indices, tile indices)` where the array has such an element.

    Along the axis the array's index is taken from the tile of indices, counted from the offset.
    """
    ctx, node = call.ctx, call.node
    t, ta, indices = tile_type(tile), array.type, call.tile("indices")
    ti = tile_type(indices)
    assert isinstance(ta, types.Array)
    axis = call.known("axis")
    if ta.ndim != len(t.shape) or ta.dtype != t.dtype:
        raise call.error(f"{t!r} does not fit {ta!r}")
    if not isinstance(axis, int) or not 0 <= axis < ta.ndim:
        raise call.error(f"axis {axis!r} is out of bounds for a tile of {ta.ndim} dimensions")
    if len(ti.shape) != 1 or not (isinstance(ti.dtype, types.Scalar) and ti.dtype.is_int):
        raise call.error(f"'indices' is a one-dimensional tile of whole numbers, not {ti!r}")
    if ti.shape[0] < t.shape[axis]:
        raise call.error(f"{ti.shape[0]} indices are too few for {t.shape[axis]} elements along axis {axis}")
    offsets = call.ints("offset", ta.ndim)

    def element(at: list[Op]) -> None:
        places = list(at)
        k = elements.flat_index(ctx, ti, [at[axis]], node)
        named = ctx.emit("local_load", ti.dtype, indices, k, node=node)
        places[axis] = named if ti.dtype == types.int32 else ctx.emit("cast", types.int32, named, node=node)
        places = [ctx.emit("add", types.int32, o, p, node=node) for o, p in zip(offsets, places, strict=True)]
        inside: Op | None = None
        for d, place in enumerate(places):
            extent = ctx.emit("shape", types.int32, array, node=node, dim=d)
            one = ctx.value(call_function(ctx, tile_memory.is_inside, [place, extent], node), node)
            inside = one if inside is None else ctx.emit("and", types.bool_, inside, one, node=node)
        assert inside is not None
        only_if(ctx, inside, node, lambda: body(places, at))

    elements.loops(ctx, t.shape, node, element)


@tile_function("tile_load_indexed", "a indices shape offset axis storage", offset=None, axis=0, storage="register")
def lower_load_indexed(call: Call) -> Value:
    """As tile_load, with the indices along an axis from a tile; what lies outside is zero."""
    ctx, node, array = call.ctx, call.node, call.array("a")
    assert isinstance(array.type, types.Array)
    dtype = array.type.dtype
    tile = elements.new_tile(ctx, types.tile_of(dtype, call.shape(), call.storage()), node)

    def body(places: list[Op], at: list[Op]) -> None:
        value = ctx.emit("load", dtype, array, *places, node=node)
        elements.store(ctx, tile, lambda t: elements.flat_index(ctx, t, at, node), value, node)

    indexed(call, array, tile, body)
    return tile


@tile_function("tile_store_indexed", "a indices t offset axis", offset=None, axis=0)
def lower_store_indexed(call: Call) -> Value:
    """As tile_store, with the indices along an axis from a tile; what lies outside is left out."""
    ctx, node, array, tile = call.ctx, call.node, call.array("a"), call.tile("t")

    def body(places: list[Op], at: list[Op]) -> None:
        value = elements.load(ctx, tile, lambda t: elements.flat_index(ctx, t, at, node), node)
        ctx.emit("store", types.void, array, *places, value, node=node, offset=0)

    indexed(call, array, tile, body)
    return Static(None)


@tile_function("tile_atomic_add_indexed", "a indices t offset axis", offset=None, axis=0)
def lower_atomic_add_indexed(call: Call) -> Value:
    """As tile_atomic_add, with the indices along an axis from a tile; gives the old elements."""
    ctx, node, array, tile = call.ctx, call.node, call.array("a"), call.tile("t")
    t = tile_type(tile)
    old = elements.new_tile(ctx, types.tile_of(t.dtype, t.shape), node)

    def body(places: list[Op], at: list[Op]) -> None:
        def flat(t: types.Tile) -> Op:
            return elements.flat_index(ctx, t, at, node)

        value = elements.load(ctx, tile, flat, node)
        before = INTRINSICS["tile_element_atomic_add"](ctx, [array, *places, value], {}, node)
        elements.store(ctx, old, flat, ctx.value(before, node), node)

    indexed(call, array, tile, body)
    return old


# --- stacks ---------------------------------------------------------------------------------------------------------


@tile_function("tile_stack", "capacity dtype")
def lower_stack(call: Call) -> Value:
    capacity = call.known("capacity")
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise call.error(f"'capacity' must be a positive integer, not {capacity!r}")
    t = types.tile_stack_of(call.dtype(), capacity)
    elements.check_size(call.ctx, t, call.node)
    return call.ctx.emit("local", t, node=call.node)


def stack(call: Call) -> Op:
    v = call.given["s"]
    if not isinstance(v, Op) or not isinstance(v.type, types.TileStack):
        raise call.error("'s' must be a tile stack")
    return v


def value_type(s: Op) -> types.Type:
    assert isinstance(s.type, types.TileStack)
    return s.type.value


@tile_function("tile_stack_push", "s value has_value")
def lower_push(call: Call) -> Value:
    """Puts a value on the stack if has_value; its position, or -1."""
    s = stack(call)
    value = call.value("value", value_type(s))
    if value.type != value_type(s):
        raise call.error(f"{s.type!r} is given {value.type!r}")
    condition = call.ctx.value(truth(call.ctx, call.given["has_value"], call.node), call.node)
    return call_function(call.ctx, tile_stacks.push, [s, value, condition], call.node)


@tile_function("tile_stack_pop", "s")
def lower_pop(call: Call) -> Value:
    """The value on top, and its position; zero and -1 of an empty stack."""
    ctx, node = call.ctx, call.node
    s = stack(call)
    nothing = zero(ctx, value_type(s), node)
    both = ctx.value(call_function(ctx, tile_stacks.pop, [s, nothing], node), node)
    assert isinstance(both.type, types.Tuple)
    return Several(tuple(ctx.emit("extract", t, both, node=node, index=k) for k, t in enumerate(both.type.items)))


@tile_function("tile_stack_count", "s")
def lower_count(call: Call) -> Value:
    return call_function(call.ctx, tile_stacks.count, [stack(call)], call.node)


@tile_function("tile_stack_clear", "s")
def lower_clear(call: Call) -> Value:
    return call_function(call.ctx, tile_stacks.clear, [stack(call)], call.node)


# --- random numbers -------------------------------------------------------------------------------------------------


def random_tile(name: str) -> Callable[[Call], Value]:
    def lower(call: Call) -> Value:
        """Element i has the number of the state that follows from `rng + i`: the same with any block size."""
        ctx, node = call.ctx, call.node
        rng = call.value("rng")
        bounds: Sequence[Value] = [call.given["min"], call.given["max"]]
        if call.given_or_none("min") is None or call.given_or_none("max") is None:
            bounds = []
        if rng.type != types.uint32:
            raise call.error(f"'rng' is the state that rand_init() gives, not {rng.type!r}")
        t = types.tile_of(types.float32, call.shape(), call.storage())

        def element(at: elements.At) -> Op:
            k = ctx.emit("cast", types.uint32, at(t), node=node)
            state = call_function(ctx, tile_stacks.state_of_element, [rng, k], node)
            both = ctx.value(call_library(ctx, name, [state, *bounds], node), node)
            assert isinstance(both.type, types.Tuple)
            return ctx.emit("extract", both.type.items[1], both, node=node, index=1)

        return elements.make(ctx, t.shape, [], node, element, t.storage)

    return lower


for _name in ("randi", "randf"):
    tile_function(f"tile_{_name}", "shape rng min max storage", min=None, max=None, storage="register")(
        random_tile(_name)
    )
