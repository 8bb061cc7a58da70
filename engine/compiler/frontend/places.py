"""Places: what can stand left of `=`. A name, an array element, or a part of another place."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Protocol

from engine.compiler import types
from engine.compiler.frontend import tile_elements
from engine.compiler.frontend.context import Lowering, Several, Static, Value, type_of
from engine.compiler.frontend.expressions import (
    attribute,
    check_indices,
    is_element,
    is_full_index,
    local_index,
    subscript,
)
from engine.compiler.frontend.parts import (
    Part,
    array_index,
    flat_index,
    indexed_part,
    named_part,
    read_part,
    replace_part,
)
from engine.compiler.frontend.slices import Index, Picks, Range, gather, indices_of, picks
from engine.compiler.ir import Op


class Place(Protocol):
    """Something that holds a value of `type` and can be read and written."""

    @property
    def type(self) -> types.Type: ...
    def read(self, ctx: Lowering, node: ast.AST) -> Op: ...
    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None: ...


def fitting(ctx: Lowering, value: Value, t: types.Type, node: ast.AST) -> Op:
    """`value` as type `t`, or an error."""
    op = ctx.value(value, node, t)
    if op.type != t:
        hint = f"convert it: {t!r}(…)" if isinstance(t, types.Scalar) and isinstance(op.type, types.Scalar) else ""
        raise ctx.error(node, f"{op.type!r} is assigned to a place that holds {t!r}", hint)
    return op


@dataclass
class NamePlace:
    name: str
    type: types.Type

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        return ctx.value(ctx.read(self.name, node), node)

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        ctx.bind(self.name, value, node)


@dataclass
class SlotPlace:
    """A mutable local that has no name of its own."""

    slot: Op
    type: types.Type

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        return ctx.emit("get", self.type, self.slot, node=node)

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        ctx.emit("set", types.void, self.slot, fitting(ctx, value, self.type, node), node=node)


@dataclass
class ElementPlace:
    """An array element, or from leaf `offset` on a part of one."""

    array: Op
    indices: list[Op]
    type: types.Type
    offset: int = 0
    within: tuple[ElementPlace, Part] | None = None

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        if self.within:
            parent, part = self.within
            return read_part(ctx, parent.read(ctx, node), part, node)
        return ctx.emit("load", self.type, self.array, *self.indices, node=node)

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        op = fitting(ctx, value, self.type, node)
        ctx.emit("store", types.void, self.array, *self.indices, op, node=node, offset=self.offset)

    def atomic(self, ctx: Lowering, name: str, value: Value, node: ast.AST) -> Op:
        op = fitting(ctx, value, self.type, node)
        return ctx.emit("atomic", self.type, self.array, *self.indices, op, node=node, op=name, offset=self.offset)

    def is_private(self) -> bool:
        """Whether no other thread can have this element: the indices contain every axis of the thread's index."""
        axes = {(i.attrs["axis"], i.attrs["ndim"]) for i in self.indices if i.kind == "tid"}
        return any(axes >= {(axis, ndim) for axis in range(ndim)} for _, ndim in axes)


@dataclass
class LocalPlace:
    """An element of a local array."""

    array: Op
    index: Op
    type: types.Type

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        return ctx.emit("local_load", self.type, self.array, self.index, node=node)

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        ctx.emit("local_store", types.void, self.array, self.index, fitting(ctx, value, self.type, node), node=node)


@dataclass
class TilePlace:
    """A part of a tile: a row, a slice."""

    view: Op

    @property
    def type(self) -> types.Type:
        return self.view.type

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        return self.view

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        if not isinstance(value, Op) or not isinstance(value.type, types.Tile):
            raise ctx.error(node, "a slice of a tile requires a tile of matching shape",
                            "make one: tile_full(shape=…, value=…)")  # fmt: skip
        tile_elements.assign(ctx, self.view, value, node)


@dataclass
class PartPlace:
    """A known part of another place."""

    parent: Place
    part: Part

    @property
    def type(self) -> types.Type:
        return self.part.type

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        return read_part(ctx, self.parent.read(ctx, node), self.part, node)

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        op = fitting(ctx, value, self.type, node)
        self.parent.write(ctx, replace_part(ctx, self.parent.read(ctx, node), self.part, op, node), node)


@dataclass
class ComponentAtPlace:
    """The scalar component of another place at a run-time index."""

    parent: Place
    index: Op
    type: types.Type

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        return ctx.emit("extract_at", self.type, self.parent.read(ctx, node), self.index, node=node)

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        whole = self.parent.read(ctx, node)
        op = fitting(ctx, value, self.type, node)
        self.parent.write(ctx, ctx.emit("insert_at", whole.type, whole, self.index, op, node=node), node)


@dataclass
class SlicePlace:
    """Some scalar components of another place."""

    parent: Place
    picks: Picks

    @property
    def type(self) -> types.Type:
        return self.picks.type

    def parts(self) -> list[Place]:
        same = types.components(self.parent.type)
        assert same is not None
        return [part_place(self.parent, Part(same[0], k)) for k in self.picks.components]

    def read(self, ctx: Lowering, node: ast.AST) -> Op:
        return gather(ctx, self.parent.read(ctx, node), self.picks, node)

    def scalars(self, ctx: Lowering, value: Value, node: ast.AST) -> list[Op]:
        """One scalar for each component: those of an aggregate of this type, or one number for all."""
        same = types.components(self.type)
        assert same is not None
        t = type_of(value)
        if isinstance(t, types.Scalar):
            return [fitting(ctx, value, same[0], node)] * same[1]
        if isinstance(t, types.Array):
            raise ctx.error(node, f"{t!r} is assigned to a slice of {self.parent.type!r}, which takes {self.type!r}")
        op = fitting(ctx, value, self.type, node)
        return [ctx.emit("extract", same[0], op, node=node, index=k) for k in range(same[1])]

    def write(self, ctx: Lowering, value: Value, node: ast.AST) -> None:
        for part, scalar in zip(self.parts(), self.scalars(ctx, value, node), strict=True):
            part.write(ctx, scalar, node)

    def atomic(self, ctx: Lowering, name: str, value: Value, node: ast.AST) -> None:
        for part, scalar in zip(self.parts(), self.scalars(ctx, value, node), strict=True):
            assert isinstance(part, ElementPlace)
            part.atomic(ctx, name, scalar, node)

    def is_private(self) -> bool:
        return not isinstance(self.parent, ElementPlace) or self.parent.is_private()


def place_of(ctx: Lowering, node: ast.expr) -> Place:
    """The place that an assignment target means."""
    found = locate(ctx, node)
    if isinstance(found, Op) and found.kind == "local_part":
        return TilePlace(found)
    if isinstance(found, Op | Static | Several):
        hint = "results go into array parameters" if isinstance(found, Static) else ""
        raise ctx.error(node, "this cannot be assigned to", hint)
    return found


def locate(ctx: Lowering, node: ast.expr) -> Place | Value:
    """A place, or a value (array, table, module …) that leads to one."""
    match node:
        case ast.Name(id=name):
            value = ctx.read(name, node)
            t = type_of(value)
            if name in ctx.bound and t is not None and not isinstance(t, types.Array | types.LocalArray | types.Table):
                return NamePlace(name, t)
            return value
        case ast.Subscript(value=base, slice=index) if is_adjoint(ctx, base):
            return adjoint_place(ctx, index)
        case ast.Attribute(value=base) | ast.Subscript(value=base):
            return locate_in(ctx, locate(ctx, base), node)
    return ctx.expression(node)


def locate_in(ctx: Lowering, parent: Place | Value, node: ast.Attribute | ast.Subscript) -> Place | Value:
    """The part of `parent` that an attribute or a subscript means."""
    match node:
        case ast.Attribute(attr=attr):
            if isinstance(parent, Op | Static | Several):
                return attribute(ctx, parent, attr, node)
            return part_place(parent, named_part(ctx, parent.type, attr, node))
        case ast.Subscript(value=base, slice=index):
            if not isinstance(parent, Op | Static | Several) and isinstance(parent.type, types.Array):
                parent = parent.read(ctx, base)  # an array in a struct: its elements are elsewhere
            indices = indices_of(ctx, index)
            if isinstance(parent, Op | Static | Several):
                return _element(ctx, parent, indices, node)
            return _component(ctx, parent, indices, node)


def is_adjoint(ctx: Lowering, node: ast.expr) -> bool:
    """Whether an expression is the language's `adjoint`."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    is_local = isinstance(node, ast.Name) and node.id in ctx.bound
    if is_local or isinstance(node, ast.Attribute) and node.attr != "adjoint":
        return False
    value = ctx.expression(node)
    return isinstance(value, Static) and getattr(value.value, "intrinsic", None) == "adjoint"


def adjoint_place(ctx: Lowering, node: ast.expr) -> Place | Value:
    """What `adjoint[…]` means: a place for values, the gradient array for arrays."""
    if ctx.adjoints is None:
        raise ctx.error(node, "adjoint[…] has a meaning in the gradient of a function only", "see @func_grad")
    match node:
        case ast.Name(id=name):
            found: Place | Value | None = ctx.adjoints.get(name)
            if found is None:
                raise ctx.error(node, f"'{name}' is no argument of the function that this is the gradient of")
            return found
        case ast.Attribute(value=base) | ast.Subscript(value=base):
            return locate_in(ctx, adjoint_place(ctx, base), node)
    raise ctx.error(node, "adjoint[…] takes an argument of the function, or a part of one")


def _element(ctx: Lowering, base: Value, given: list[Index], node: ast.Subscript) -> Place | Value:
    """An element of an array, or what else indexing a value gives."""
    t = type_of(base)
    check_indices(ctx, given, node)
    indices = [i for i in given if not isinstance(i, Range)]
    if isinstance(base, Op) and isinstance(t, types.Array) and is_full_index(t, given):
        return ElementPlace(base, [array_index(ctx, base, d, i, node) for d, i in enumerate(indices)], t.dtype)
    if isinstance(base, Op) and isinstance(t, types.LocalArray) and is_element(t, given):
        return LocalPlace(base, local_index(ctx, t, indices, node), t.dtype)
    return subscript(ctx, base, given, node)


def _component(ctx: Lowering, parent: Place, given: list[Index], node: ast.Subscript) -> Place:
    """A part of a place, at indices known while compiling or at run time."""
    check_indices(ctx, given, node)
    if any(isinstance(i, Range) for i in given):
        return SlicePlace(parent, picks(ctx, parent.type, given, node))
    indices = [i for i in given if not isinstance(i, Range)]
    known = [i.value for i in indices if isinstance(i, Static)]
    if len(known) == len(indices):
        return part_place(parent, indexed_part(ctx, parent.type, known, node))
    same = types.components(parent.type)
    if same is None:
        raise ctx.error(node, f"{parent.type!r} cannot be indexed at run time")
    at = flat_index(ctx, parent.type, [ctx.value(i, node, types.int32) for i in indices], node)
    return ComponentAtPlace(parent, at, same[0])


def part_place(parent: Place, part: Part) -> Place:
    """A part; parts of an array element are written without reading the rest."""
    if isinstance(parent, ElementPlace):
        offset = parent.offset + part.leaf(parent.type)
        return ElementPlace(parent.array, parent.indices, part.type, offset, (parent, part))
    return PartPlace(parent, part)
