"""Tiles in a lowering: their memory, their names, views of them, and the loops over their elements.

A tile belongs to a block of threads. `loops` says that the elements do not depend on each other: on a GPU the threads
of the block share them (`cooperate`), on the CPU it is a plain loop, which LLVM turns into vector code.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

from engine.compiler import types
from engine.compiler.frontend.context import HOOKS, Binding, Lowering, Several, Static, Value, type_of
from engine.compiler.frontend.parts import to_int32
from engine.compiler.frontend.slices import Index, Range
from engine.compiler.ir import Op, Region

MAX_BYTES = 1 << 20  # of one tile; tiles lie on the stack of the thread
MAX_DIMS = 4

At = Callable[[types.Tile], Op]  # the flat index of the current element in a tile of the shape that is looped over


# --- memory and names -----------------------------------------------------------------------------------------------


def new_tile(ctx: Lowering, t: types.Tile, node: ast.AST, unset: bool = False) -> Op:
    """Memory for a tile, zeroed unless all of it is written next."""
    check_size(ctx, t, node)
    made = ctx.emit("local", t, node=node)
    if unset:
        made.attrs["unset"] = True
    return made


def check_size(ctx: Lowering, t: types.LocalArray, node: ast.AST) -> None:
    """Refuses what does not fit on the stack, and what is no value; structs may hold arrays, as elsewhere."""
    held = t.value if isinstance(t, types.TileStack) else t.dtype
    leaves = [leaf for _, leaf in types.leaves(held)]
    if not leaves or not held.is_value or isinstance(held, types.Array):
        hint = "elements are numbers, vectors, … or structs"
        raise ctx.error(node, f"{held!r} cannot be the element of a tile", hint)
    size = t.size * sum(leaf.size for leaf in leaves)
    if size > MAX_BYTES:
        raise ctx.error(node, f"{t!r} takes {size} bytes; a tile has at most {MAX_BYTES}", "use smaller tiles")


def memory_of(tile: Op) -> Op:
    """The tile that a view is a part of."""
    while tile.kind == "local_part":
        tile = tile.operands[0]
    return tile


def may_overlap(a: Op, b: Op) -> bool:
    """Whether writing an element of one may change another element of the other."""
    one, other = memory_of(a), memory_of(b)
    same = one is other or one.kind == other.kind == "param"  # a caller may give the same tile twice
    return same and a is not b and "local_part" in (a.kind, b.kind)


def bind(ctx: Lowering, name: str, tile: Op, node: ast.AST) -> None:
    """Assigns a tile to a name.

    A name that is assigned once means the tile itself, a second name of a register tile means a copy. A name that is
    assigned more often, perhaps in branches or loops, has memory of its own, into which each assignment copies.
    """
    t = tile_type(tile)
    if not ctx.uses.rebinds(name):
        if tile in ctx.named_tiles:
            tile = another(ctx, tile, node)
        ctx.named_tiles.add(tile)
        ctx.bound[name] = Binding(tile, ctx.region)
        return
    own = types.tile_of(t.dtype, t.shape, t.storage)
    memory = ctx.tiles.get(name)
    before = ctx.bound.get(name)
    if memory is not None and (memory.type.dtype, memory.type.shape) != (own.dtype, own.shape):  # type: ignore[attr-defined]
        if before is None or before.region is not ctx.region:
            raise ctx.error(node, f"'{name}' holds {memory.type!r} and cannot become {own!r} inside a branch or loop")
        memory = None  # the name means another tile from here on
    if memory is None:
        check_size(ctx, own, node)
        memory = ctx.tiles[name] = ctx.at_start(Op("local", own, (), {"unset": True}))
        ctx.named_tiles.add(memory)
    if memory_of(tile) is memory and tile is not memory:
        tile = copy(ctx, tile, node)
    if tile is not memory:
        assign(ctx, memory, tile, node)
    ctx.bound[name] = Binding(memory, ctx.region, is_slot=True)


HOOKS["bind tile"] = bind


def another(ctx: Lowering, tile: Op, node: ast.AST) -> Op:
    """What a second name of a tile means: a copy, or the same if it is shared."""
    return copy(ctx, tile, node) if tile_type(tile).storage == "register" else tile


def tile_type(tile: Op) -> types.Tile:
    assert isinstance(tile.type, types.Tile)
    return tile.type


def apart(ctx: Lowering, items: list[Value], node: ast.AST) -> list[Value]:
    """The right side of `a, b = b, a`: tiles that have a name are copied, as the first assignment may change them."""
    return [copy(ctx, v, node) if isinstance(v, Op) and v in ctx.named_tiles else v for v in items]


# --- elements -------------------------------------------------------------------------------------------------------


def loops(ctx: Lowering, extents: Sequence[int], node: ast.AST, body: Callable[[list[Op]], None],
          independent: bool = True, outer: Sequence[Op] = ()) -> None:  # fmt: skip
    """Nested loops, the last index fastest; `body` is given the indices.

    Independent: none of the rounds reads or writes what another one writes.
    """
    depth = len(outer)
    if depth == len(extents):
        body(list(outer))
        return
    if extents[depth] == 1:
        loops(ctx, extents, node, body, independent, [*outer, ctx.const(0, types.int32, node)])
        return
    bounds = [ctx.const(n, types.int32, node) for n in (0, extents[depth], 1)]
    region = Region()
    with ctx.inside(region):
        loops(ctx, extents, node, body, independent, [*outer, ctx.emit("index", types.int32, node=node)])
    attrs = {"each": sum(n > 1 for n in extents[:depth])} if independent else {}
    ctx.emit("for", types.void, *bounds, node=node, regions=(region,), **attrs)


def each(ctx: Lowering, shape: tuple[int, ...], tiles: Sequence[Op], node: ast.AST, body: Callable[[At], None],
         written: Op | None = None) -> None:  # fmt: skip
    """Runs `body` for every element of `shape`; `tiles` are those of that shape which it reads or writes.

    Where all of them lie without gaps, one loop runs over the whole. `written` is a tile among them that has its
    elements changed: where several of them are one (`tile_broadcast`), one round follows the other.
    """
    independent = written is None or not repeats(tile_type(written))
    if all(tile_type(tile).is_dense for tile in tiles):
        loops(ctx, (math.prod(shape),), node, lambda indices: body(lambda t: indices[0]), independent)
    else:
        loops(ctx, shape, node, lambda indices: body(lambda t: flat_index(ctx, t, indices, node)), independent)


def repeats(t: types.Tile) -> bool:
    """Whether several elements lie in one place."""
    return any(n > 1 and step == 0 for n, step in zip(t.shape, t.strides, strict=True))


def flat_index(ctx: Lowering, t: types.Tile, indices: Sequence[Op], node: ast.AST, wraps: bool = False) -> Op:
    """Where an element lies, counted from the tile's first; with `wraps`, negative indices count from the end."""
    if len(indices) == 1 and t.is_dense and not wraps:
        return indices[0]
    return ctx.emit("position", types.int32, *indices, node=node, shape=t.shape, strides=t.strides, wraps=wraps)


def load(ctx: Lowering, tile: Op, at: At, node: ast.AST) -> Op:
    t = tile_type(tile)
    return ctx.emit("local_load", t.dtype, tile, at(t), node=node)


def store(ctx: Lowering, tile: Op, at: At, value: Op, node: ast.AST) -> None:
    ctx.emit("local_store", types.void, tile, at(tile_type(tile)), value, node=node)


def make(ctx: Lowering, shape: tuple[int, ...], tiles: Sequence[Op], node: ast.AST, element: Callable[[At], Op],
         storage: str = "register") -> Op:  # fmt: skip
    """A tile whose elements are what `element` gives; their type is that of the values."""
    out = ctx.emit("local", types.tile_of(types.float32, shape, storage), node=node, unset=True)

    def body(at: At) -> None:
        value = element(at)
        out.type = types.tile_of(value.type, shape, storage)
        store(ctx, out, at, value, node)

    each(ctx, shape, tiles, node, body)
    check_size(ctx, tile_type(out), node)
    return out


def copy(ctx: Lowering, tile: Op, node: ast.AST) -> Op:
    """The same elements in memory of their own."""
    t = tile_type(tile)
    return make(ctx, t.shape, [tile], node, lambda at: load(ctx, tile, at, node), t.storage)


def assign(ctx: Lowering, target: Op, value: Op, node: ast.AST) -> None:
    """Writes the elements of one tile into another of the same shape, which may be a view of the same memory."""
    t, given = tile_type(target), tile_type(value)
    if t.shape != given.shape:
        raise ctx.error(node, f"a tile of shape {given.shape} does not fit a tile of shape {t.shape}")
    if t.dtype != given.dtype:
        raise ctx.error(node, f"{given!r} is assigned to {t!r}", f"convert it: tile_astype(…, dtype={t.dtype!r})")
    if may_overlap(target, value):
        value = copy(ctx, value, node)

    def body(at: At) -> None:
        store(ctx, target, at, load(ctx, value, at, node), node)

    each(ctx, t.shape, [target, value], node, body, target)


# --- views ----------------------------------------------------------------------------------------------------------


def part(ctx: Lowering, tile: Op, start: Op | int, shape: Sequence[int], strides: Sequence[int], node: ast.AST) -> Op:
    """A view: the elements from `start` on at these strides."""
    t = tile_type(tile)
    assert len(shape) <= MAX_DIMS, shape
    steps = tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
    first = start if isinstance(start, Op) else ctx.const(start, types.int32, node)
    made = types.Tile(t.dtype, tuple(shape), strides=steps, storage=t.storage)
    return ctx.emit("local_part", made, tile, first, node=node)


def element_index(ctx: Lowering, t: types.Tile, indices: Sequence[Value], node: ast.AST) -> Op:
    """The flat index of one element; negative indices known while compiling count from the end."""
    assert len(indices) == len(t.shape), (t, indices)
    ints = []
    for d, index in enumerate(checked(ctx, indices, node)):
        assert not isinstance(index, Range)
        if isinstance(index, Static):
            ints.append(ctx.const(known_index(ctx, t, d, index.value, node), types.int32, node))
        else:
            ints.append(to_int32(ctx, ctx.value(index, node, types.int32), node))
    return flat_index(ctx, t, ints, node)


def known_index(ctx: Lowering, t: types.Tile, dim: int, index: int, node: ast.AST) -> int:
    extent = t.shape[dim]
    if not -extent <= index < extent:
        raise ctx.error(node, f"tile index {index} is out of bounds for dimension {dim}, whose extent is {extent}")
    return index % extent


def checked(ctx: Lowering, given: Sequence[Index], node: ast.AST) -> list[Index]:
    """The indices, constants as Python's integers; an error for what cannot be an index of a tile."""
    found: list[Index] = []
    for index in given:
        if isinstance(index, Range) or is_index_tile(index):
            found.append(index)
            continue
        kind = type_of(index)
        if not (isinstance(kind, types.Scalar) and kind.is_int):
            shown = kind if kind is not None else index.value if isinstance(index, Static) else "a tuple"
            shown = shown if isinstance(index, Several) else repr(shown)
            raise ctx.error(node, f"tile indices must be integers or slices, or tiles of integers, not {shown}")
        found.append(Static(int(index.value)) if isinstance(index, Static) else index)
    return found


def is_index_tile(index: Index) -> bool:
    return isinstance(index, Op) and isinstance(index.type, types.Tile)


def view_at(ctx: Lowering, tile: Op, given: Sequence[Index], node: ast.AST) -> Op:
    """`tile[indices]` that is more than one element: a view, or with a tile of indices a new tile."""
    t = tile_type(tile)
    if len(given) > len(t.shape):
        raise ctx.error(node, f"a tile of {len(t.shape)} dimensions is indexed with {len(given)} indices")
    starts: list[Op] = []
    shape, strides = [], []
    gathered: list[tuple[int, Op]] = []  # dimension of the result, the indices
    for d, index in enumerate([*given, *[Range(None, None, None)] * (len(t.shape) - len(given))]):
        first: Value = Static(0)
        if isinstance(index, Range):
            span = index.known(ctx, t.shape[d], node)
            if not span:
                raise ctx.error(node, f"the slice of dimension {d} of {t!r} gives an empty tile")
            first = Static(span.start)
            shape.append(len(span))
            strides.append(span.step * t.strides[d])
        elif is_index_tile(index):
            assert isinstance(index, Op)
            gathered.append((len(shape), _index_tile(ctx, index, node)))
            shape.append(t.shape[d])
            strides.append(t.strides[d])
        elif isinstance(index, Static):
            first = Static(known_index(ctx, t, d, index.value, node))
        else:
            first = index
        starts.append(to_int32(ctx, ctx.value(first, node, types.int32), node))
    view = part(ctx, tile, flat_index(ctx, t, starts, node, wraps=True), shape, strides, node)
    return gather(ctx, view, gathered, node) if gathered else view


def _index_tile(ctx: Lowering, index: Op, node: ast.AST) -> Op:
    t = tile_type(index)
    if not (isinstance(t.dtype, types.Scalar) and t.dtype.is_int and len(t.shape) == 1):
        raise ctx.error(node, f"a tile is indexed with a one-dimensional integer index tile, not with {t!r}")
    return index


def gather(ctx: Lowering, view: Op, by: Sequence[tuple[int, Op]], node: ast.AST) -> Op:
    """A new tile: along each dimension in `by`, the elements that its tile of indices names."""
    t = tile_type(view)
    shape = list(t.shape)
    for dim, index in by:
        shape[dim] = tile_type(index).shape[0]
    out = new_tile(ctx, types.tile_of(t.dtype, tuple(shape), t.storage), node, unset=True)

    def pick(indices: list[Op]) -> None:
        picked = list(indices)
        for dim, index in by:
            k = flat_index(ctx, tile_type(index), [indices[dim]], node)
            named = ctx.emit("local_load", tile_type(index).dtype, index, k, node=node)
            picked[dim] = to_int32(ctx, named, node)
        value = ctx.emit("local_load", t.dtype, view, flat_index(ctx, t, picked, node, wraps=True), node=node)
        ctx.emit("local_store", types.void, out, flat_index(ctx, tile_type(out), indices, node), value, node=node)

    loops(ctx, shape, node, pick)
    return out


def subscript(ctx: Lowering, tile: Op, given: Sequence[Index], node: ast.AST) -> Value:
    """`tile[indices]`: an element, a view, or what a tile of indices picks."""
    t = tile_type(tile)
    given = checked(ctx, given, node)
    if is_element(t, given):
        indices = [i for i in given if not isinstance(i, Range)]
        return ctx.emit("local_load", t.dtype, tile, element_index(ctx, t, indices, node), node=node)
    return view_at(ctx, tile, given, node)


def is_element(t: types.Tile, given: Sequence[Index]) -> bool:
    """Whether the indices name one element."""
    return len(given) == len(t.shape) and not any(isinstance(i, Range) or is_index_tile(i) for i in given)
