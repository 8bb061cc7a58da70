"""Cuts every value into machine scalars and every array access into typed loads and stores (HIR to MIR).

A value becomes the list of its `types.leaves`. Parameters become `param` ops, one for each leaf that is used: a kernel
receives only the planes that it touches. Making and taking apart vectors, structs and tuples costs nothing here.

    load: operands pointer, index of each dimension, stride of each dimension in bytes;
          attrs ndim, offset (bytes of the leaf within the element), array (name, for diagnostics), layout
    store, atomic: the same, then the value (cas: compare, value); atomic has attrs op, too
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import ELEMENTWISE, LAUNCH
from engine.compiler.types import (
    Array,
    IndexedArray,
    LocalArray,
    Path,
    Pointer,
    Scalar,
    Struct,
    Table,
    Tile,
    TileStack,
    Tuple,
    Type,
    bool_,
    components,
    dense_strides,
    float32,
    int32,
    int64,
    leaves,
    memory_layout,
    pointer,
    uint32,
    uint64,
    void,
)
from engine.errors import InternalError

CHAIN = 4  # components up to which a run-time index is a chain of selects, above it a local array

Leaves = list[Op]


def scalarize(fn: Function, dense: Sequence[int] = ()) -> Function:
    """The MIR of a function without calls. `fn` is not changed; its `params` become those leaves that are used.

    `dense` are the array parameters whose last dimension has no gaps: its stride is then a constant.
    """
    return _Scalarizer(fn).function(dense)


def dense_stride(t: Type) -> int:
    """Bytes from one element to the next along the last dimension of an array without gaps."""
    assert isinstance(t, Array)
    if t.layout == "planes":
        return leaves(t.dtype)[0][1].size
    return memory_layout(t.dtype, t.layout)[1]


def _is_half(t: Type) -> bool:
    return isinstance(t, Scalar) and t.kind == "f" and t.bits == 16


class _Scalarizer:
    def __init__(self, fn: Function):
        self.fn = fn
        self.values: dict[Op, Leaves] = {}
        self.names: dict[Op, str] = {}  # arrays: what the user calls them
        self.starts: dict[Op, Op] = {}  # parts of tiles: the element of the tile's memory that they begin with
        self.params: dict[tuple[int, Path], Op] = {}
        self.consts: dict[tuple[str, str], Op] = {}
        self.leaf_memo: dict[int, tuple[tuple[Path, Type], ...]] = {}
        self.kept: list[Type] = []  # keeps the ids in `leaf_memo` valid
        self.out: list[Op] = []
        self.loc: Any = None

    def function(self, dense: Sequence[int]) -> Function:
        for p in self.fn.params:
            name = self.names[p] = p.attrs.get("name", "")
            if not isinstance(p.type, Table):
                index = p.attrs["index"]
                self.values[p] = [self.param(index, path, t, name) for path, t in self.leaves(p.type)]
                if isinstance(p.type, Array):
                    self.values[p][-1].attrs["dense"] = dense_stride(p.type)  # what the last stride is, without gaps
                if index in dense:
                    self.values[p][-1] = self.const(int64, dense_stride(p.type))
        body = self.region(self.fn.body)
        body.ops[:0] = self.consts.values()
        fn = self.fn
        return Function(fn.name, list(self.params.values()), body, fn.result, fn.file, fn.line, fn.is_kernel)

    # building blocks

    def leaves(self, t: Type) -> tuple[tuple[Path, Type], ...]:
        """`types.leaves`, remembered by identity: hashing a nested type for every op would cost more than the pass."""
        known = self.leaf_memo.get(id(t))
        if known is None:
            known = self.leaf_memo[id(t)] = leaves(t)
            self.kept.append(t)
        return known

    def param(self, index: int, path: Path, t: Type, name: str) -> Op:
        op = self.params.get((index, path))
        if op is None:
            op = self.params[index, path] = Op("param", t, (), {"index": index, "path": path, "name": name})
        return op

    def const(self, t: Scalar, value: Any) -> Op:
        key = (t.name, repr(value))  # repr tells -0.0 from 0.0
        op = self.consts.get(key)
        if op is None:
            op = self.consts[key] = Op("const", t, (), {"value": value})
        return op

    def emit(self, kind: str, t: Type, operands: tuple[Op, ...], attrs: dict[str, Any] | None = None) -> Op:
        op = Op(kind, t, operands, attrs, (), self.loc)
        self.out.append(op)
        return op

    def region(self, region: Region) -> Region:
        outer, self.out = self.out, []
        handlers, values = _HANDLERS, self.values
        for op in region.ops:
            self.loc = op.loc
            handler = handlers.get(op.kind)
            if handler is None:
                raise InternalError(f"scalarize has no rule for `{op.kind}`")
            result = handler(self, op)
            if result is not None:
                values[op] = result
        result_region, self.out = Region(self.out), outer
        return result_region

    def one(self, op: Op) -> Op:
        return self.values[op][0]

    # values

    def elementwise(self, op: Op) -> Leaves:
        values, kind, loc, t = self.values, op.kind, op.loc, op.type
        scalar = t if type(t) is Scalar else self.leaves(t)[0][1]
        given = op.operands[0].type
        if scalar.size == 2 and scalar.kind == "f" or scalar is bool_ and _is_half(given):  # type: ignore[attr-defined]
            return [self.wide(kind, scalar, row) for row in zip(*[values[v] for v in op.operands], strict=True)]
        if type(t) is Scalar:
            new = Op(kind, t, tuple([values[v][0] for v in op.operands]), None, (), loc)
            self.out.append(new)
            return [new]
        result = [Op(kind, scalar, row, None, (), loc) for row in zip(*[values[v] for v in op.operands], strict=True)]
        self.out += result
        return result

    def wide(self, kind: str, t: Type, operands: tuple[Op, ...]) -> Op:
        """A primitive on 16-bit floats: computed in float32, then rounded, the same on every target."""
        result = self.emit(
            kind, bool_ if t is bool_ else float32, tuple([self.emit("cast", float32, (v,)) for v in operands])
        )
        return result if t is bool_ else self.emit("cast", t, (result,))

    def constant(self, op: Op) -> Leaves:
        return [self.const(op.type, op.attrs["value"])]  # type: ignore[arg-type]

    # threads that work together; where there are tiles, each thread is a block of its own

    def block_value(self, op: Op) -> Leaves:
        """The size of the block is a parameter, which the launch gives."""
        name = op.attrs["name"]
        if self.has_tiles and name != "block_id":
            return [self.const(int32, int(name in ("block_dim", "warp_lanes")))]
        threads = self.const(int32, 1) if self.has_tiles else self.block_dim()
        return [threads if name == "block_dim" else self.emit("block_value", int32, (threads,), op.attrs)]

    def block_dim(self) -> Op:
        return self.param(LAUNCH, ("block_dim",), int32, "block_dim")

    @functools.cached_property
    def has_tiles(self) -> bool:
        """Whether the kernel works on tiles."""
        return any(op.kind == "local" and isinstance(op.type, Tile | TileStack) for op in self.fn.body.walk())

    def barrier(self, op: Op) -> None:
        if self.has_tiles:
            return
        self.block_dim()  # which a CPU, that makes blocks by itself, has to know
        self.emit("barrier", void, tuple([self.one(v) for v in op.operands]), op.attrs)

    def shuffle(self, op: Op) -> Leaves:
        if self.has_tiles:
            return self.values[op.operands[0]]
        self.block_dim()
        lane = self.one(op.operands[1])
        return [self.emit("shuffle", v.type, (v, lane), op.attrs) for v in self.values[op.operands[0]]]

    def vote(self, op: Op) -> Leaves:
        said = self.one(op.operands[0])
        if self.has_tiles:
            return [said if op.attrs["mode"] != "ballot" else self.emit("cast", uint32, (said,))]
        self.block_dim()
        return [self.emit("vote", op.type, (said,), op.attrs)]

    def thread_index(self, op: Op) -> Leaves:
        return [self.emit("tid", op.type, (), op.attrs)]

    def cast(self, op: Op) -> Leaves:
        scalar = components(op.type)[0]  # type: ignore[index]
        return [self.emit(op.kind, scalar, (v,)) for v in self.values[op.operands[0]]]

    def select(self, op: Op) -> Leaves:
        condition = self.one(op.operands[0])
        a, b = self.values[op.operands[1]], self.values[op.operands[2]]
        return [x if x is y else self.emit("select", x.type, (condition, x, y)) for x, y in zip(a, b, strict=True)]

    def bits(self, op: Op) -> Leaves:
        return [self.emit("bits", op.type, tuple([self.one(v) for v in op.operands]))]

    def make(self, op: Op) -> Leaves:
        return [leaf for v in op.operands for leaf in self.values[v]]

    def part(self, t: Type, index: int) -> slice:
        """Where component or field `index` lies among the leaves of `t`."""
        if isinstance(t, Struct | Tuple):
            items = [f for _, f in t.fields] if isinstance(t, Struct) else list(t.items)
            start = sum(len(self.leaves(f)) for f in items[:index])
            return slice(start, start + len(self.leaves(items[index])))
        return slice(index, index + 1)

    def extract(self, op: Op) -> Leaves:
        aggregate = op.operands[0]
        return self.values[aggregate][self.part(aggregate.type, op.attrs["index"])]

    def insert(self, op: Op) -> Leaves:
        result = list(self.values[op.operands[0]])
        result[self.part(op.type, op.attrs["index"])] = self.values[op.operands[1]]
        return result

    def extract_at(self, op: Op) -> Leaves:
        parts, index = self.values[op.operands[0]], self.one(op.operands[1])
        if index.kind == "const":
            value = index.attrs["value"]
            return [parts[value if 0 <= value < len(parts) else 0]]
        if len(parts) > CHAIN:
            return [self.extract_through_memory(parts, index)]
        result = parts[0]
        for k, part in enumerate(parts[1:], 1):
            result = self.emit("select", part.type, (self.is_index(index, k), part, result))
        return [result]

    def extract_through_memory(self, parts: Leaves, index: Op) -> Op:
        """Spills the components and loads one; an index out of range gives component 0, as the selects do."""
        t: Scalar = parts[0].type  # type: ignore[assignment]
        buffer = self.emit("local", LocalArray(t, (len(parts),)), (), {"filled": True})
        for k, part in enumerate(parts):
            self.emit("local_store", void, (buffer, self.const(int32, k), part))
        it: Scalar = index.type  # type: ignore[assignment]
        zero, count = self.const(it, 0), self.const(it, len(parts))
        inside = self.emit("lt", bool_, (index, count))
        if it.kind == "i":
            inside = self.emit("and", bool_, (inside, self.emit("ge", bool_, (index, zero))))
        safe = self.emit("select", it, (inside, index, zero))
        return self.emit("local_load", t, (buffer, safe))

    def insert_at(self, op: Op) -> Leaves:
        parts, index, value = self.values[op.operands[0]], self.one(op.operands[1]), self.one(op.operands[2])
        if index.kind == "const":
            k = index.attrs["value"]
            return [value if j == k else part for j, part in enumerate(parts)]
        return [self.emit("select", p.type, (self.is_index(index, k), value, p)) for k, p in enumerate(parts)]

    def is_index(self, index: Op, k: int) -> Op:
        return self.emit("eq", bool_, (index, self.const(index.type, k)))  # type: ignore[arg-type]

    def effect(self, op: Op) -> None:
        """print and fault: scalars in, nothing out."""
        self.emit(op.kind, void, tuple([self.one(v) for v in op.operands]), op.attrs)

    def position(self, op: Op) -> Leaves:
        place: Op | None = None
        strides = op.attrs.get("strides", [None] * len(op.operands))
        for v, extent, stride in zip(op.operands, op.attrs["shape"], strides, strict=True):
            index, size = self.one(v), self.const(int32, extent)
            if op.attrs.get("wraps") and index.kind != "const":
                negative = self.emit("lt", bool_, (index, self.const(int32, 0)))
                index = self.emit("select", int32, (negative, self.emit("add", int32, (index, size)), index))
            if stride is not None:
                term = self.emit("mul", int32, (index, self.const(int32, stride)))
                place = term if place is None else self.emit("add", int32, (place, term))
                continue
            place = index if place is None else self.emit("add", int32, (self.emit("mul", int32, (place, size)), index))
        assert place is not None
        return [place]

    # locals

    def slot(self, op: Op) -> Leaves:
        name = op.attrs.get("name", "")
        if isinstance(op.type, Array):
            self.names[op] = name
        return [
            self.emit("slot", t, (), {"name": ".".join(map(str, (name, *path)))}) for path, t in self.leaves(op.type)
        ]

    def get(self, op: Op) -> Leaves:
        self.inherit_name(op, op.operands[0])
        return [self.emit("get", slot.type, (slot,)) for slot in self.values[op.operands[0]]]

    def set(self, op: Op) -> None:
        slots, values = (self.values[v] for v in op.operands)
        out, loc = self.out, op.loc
        for slot, value in zip(slots, values, strict=True):
            out.append(Op("set", void, (slot, value), None, (), loc))

    def local(self, op: Op) -> Leaves:
        t = op.type
        assert isinstance(t, LocalArray)
        attrs = {**op.attrs, "tile": True} if isinstance(t, Tile | TileStack) else op.attrs
        if op.attrs.get("shared"):
            if self.has_tiles:
                attrs = {"unset": True}
            else:
                self.block_dim()
        held = [uint64 if s == pointer else s for _, s in self.leaves(t.dtype)]  # of arrays in structs: their addresses
        return [self.emit("local", LocalArray(s, (t.size,)), (), dict(attrs)) for s in held]

    def local_part(self, op: Op) -> Leaves:
        """A part has the same memory and begins elsewhere in it."""
        whole = op.operands[0]
        start = self.one(op.operands[1])
        self.starts[op] = self.emit("add", int32, (self.starts[whole], start)) if whole in self.starts else start
        return self.values[whole]

    def local_index(self, op: Op) -> Op:
        """The index of an access, from where the memory begins."""
        array, index = op.operands[0], self.one(op.operands[1])
        return self.emit("add", int32, (self.starts[array], index)) if array in self.starts else index

    def local_load(self, op: Op) -> Leaves:
        index = self.local_index(op)
        found = [self.emit("local_load", a.type.dtype, (a, index)) for a in self.values[op.operands[0]]]  # type: ignore[attr-defined]
        wanted = self.leaves(op.type)
        return [
            self.emit("int_to_pointer", pointer, (v,)) if t == pointer else v
            for v, (_, t) in zip(found, wanted, strict=True)
        ]

    def local_store(self, op: Op) -> None:
        arrays, index, values = self.values[op.operands[0]], self.local_index(op), self.values[op.operands[2]]
        start = op.attrs.get("offset", 0)
        for a, value in zip(arrays[start : start + len(values)], values, strict=True):
            if value.type == pointer:
                value = self.emit("pointer_to_int", uint64, (value,))
            self.emit("local_store", void, (a, index, value))

    # arrays

    def places(self, op: Op, first: int, count: int) -> list[tuple[tuple[Op, ...], dict[str, Any]]]:
        """(pointer, indices, strides) and attrs of an access to leaves first … first + count of the element at `op`."""
        array = op.operands[0]
        t = array.type
        assert isinstance(t, Array)
        n = t.ndim
        value = self.values[array]
        indices = tuple([self.values[v][0] for v in op.operands[1 : 1 + n]])
        if isinstance(t, IndexedArray):
            indices = self.positions(value[-3 * n : -2 * n], indices)
        strides = tuple(value[-n:])
        name = self.names.get(array, "")
        offsets, _, _ = memory_layout(t.dtype, t.layout)
        if t.layout != "planes":
            operands = (value[0], *indices, *strides)
            return [
                (operands, {"ndim": n, "offset": offset, "array": name, "layout": t.layout})
                for offset in offsets[first : first + count]
            ]
        scalars = [s for _, s in self.leaves(t.dtype)]
        attrs = {"ndim": n, "offset": 0, "array": name, "layout": "planes"}
        return [
            ((value[k], *indices, *self.plane_strides(strides, scalars[0], scalars[k])), attrs)
            for k in range(first, first + count)
        ]

    def positions(self, lists: Leaves, indices: tuple[Op, ...]) -> tuple[Op, ...]:
        """What the index lists of an indexed array make of the first `len(indices)` indices; lists have no gaps."""
        attrs = {"ndim": 1, "offset": 0, "array": "indices", "layout": "aos"}
        step = self.const(int64, int32.size)
        return tuple(
            [self.emit("load", int32, (p, i, step), attrs) for p, i in zip(lists[: len(indices)], indices, strict=True)]
        )

    def plane_strides(self, strides: tuple[Op, ...], first: Type, leaf: Type) -> tuple[Op, ...]:
        """Strides are those of plane 0; a plane of wider or narrower scalars is proportionally longer or shorter."""
        a, b = first.size, leaf.size  # type: ignore[attr-defined]
        if a == b:
            return strides
        result = []
        for stride in strides:
            if stride.kind == "const":
                result.append(self.const(int64, stride.attrs["value"] // a * b))
            else:
                elements = self.emit("div", int64, (stride, self.const(int64, a)))
                result.append(self.emit("mul", int64, (elements, self.const(int64, b))))
        return tuple(result)

    def load(self, op: Op) -> Leaves:
        scalars = self.leaves(op.type)
        places = self.places(op, op.attrs.get("offset", 0), len(scalars))
        loc = op.loc
        result = [
            Op("load", t, operands, attrs, (), loc) for (_, t), (operands, attrs) in zip(scalars, places, strict=True)
        ]
        self.out += result
        return result

    def store(self, op: Op) -> None:
        values = self.values[op.operands[-1]]
        for value, (operands, attrs) in zip(
            values, self.places(op, op.attrs.get("offset", 0), len(values)), strict=True
        ):
            self.emit("store", void, (*operands, value), attrs)

    def atomic(self, op: Op) -> Leaves:
        name = op.attrs["op"]
        given = [self.values[v] for v in op.operands[-2 if name == "cas" else -1 :]]
        places = self.places(op, op.attrs.get("offset", 0), len(given[0]))
        return [
            self.emit("atomic", row[0].type, (*operands, *row), {**attrs, "op": name})
            for (operands, attrs), row in zip(places, zip(*given, strict=True), strict=True)
        ]

    def subarray(self, op: Op) -> Leaves:
        array = op.operands[0]
        t = array.type
        assert isinstance(t, Array)
        self.inherit_name(op, array)
        value, n, lead = self.values[array], t.ndim, len(op.operands) - 1
        shapes, strides = value[-2 * n : -n], value[-n:]
        scalars: list[Type] = [s for _, s in self.leaves(t.dtype)] if t.layout == "planes" else [int64]
        moved: dict[int, Op] = {}  # bytes to add, by the scalar's size: all planes of one width move alike
        indices = tuple([self.one(v) for v in op.operands[1:]])
        lists = value[-3 * n : -2 * n] if isinstance(t, IndexedArray) else []
        if lists:
            indices = self.positions(lists, indices)
        pointers = []
        for p, scalar in zip(value[: len(scalars)], scalars, strict=True):
            size: int = scalar.size  # type: ignore[attr-defined]
            if size not in moved:
                own = self.plane_strides(tuple(strides), scalars[0], scalar)
                moved[size] = self.byte_offset(indices, own[:lead])
            pointers.append(self.emit("address", pointer, (p, moved[size])))
        return [*pointers, *lists[lead:], *shapes[lead:], *strides[lead:]]

    def prefetch(self, op: Op) -> None:
        """Of an element's first number: as of a view that begins there."""
        self.emit("prefetch", void, (self.subarray(op)[0],))

    def view(self, op: Op) -> Leaves:
        """A view: the pointer moved to its first element, and extents and strides of the dimensions that are kept."""
        array = op.operands[0]
        t = array.type
        assert isinstance(t, Array)
        self.inherit_name(op, array)
        value, n = self.values[array], t.ndim
        strides = value[-n:]
        given = [self.one(v) for v in op.operands[1:]]
        first: list[Op] = []
        shape: list[Op] = []
        kept: list[Op] = []
        for kind, stride in zip(op.attrs["dims"], strides, strict=True):
            first.append(given.pop(0))
            if kind == "r":
                shape.append(given.pop(0))
                step = self.emit("cast", int64, (given.pop(0),))
                kept.append(self.emit("mul", int64, (step, stride)))
        scalars: list[Type] = [s for _, s in self.leaves(t.dtype)] if t.layout == "planes" else [int64]
        pointers = []
        moved: dict[int, Op] = {}
        for p, scalar in zip(value[: -2 * n], scalars, strict=True):
            size: int = scalar.size  # type: ignore[attr-defined]
            if size not in moved:
                moved[size] = self.byte_offset(tuple(first), self.plane_strides(tuple(strides), scalars[0], scalar))
            pointers.append(self.emit("address", pointer, (p, moved[size])))
        return [*pointers, *shape, *kept]

    def local_view(self, op: Op) -> Leaves:
        """A local array or tile seen as an array: one plane for each leaf."""
        local = op.operands[0]
        t = local.type
        assert isinstance(t, LocalArray)
        self.names[op] = self.names.get(local, "")
        pointers = []
        for piece in self.values[local]:
            piece.attrs["exposed"] = True  # loads and stores may reach it
            at = self.emit("local_pointer", pointer, (piece,))
            if local in self.starts:
                width = self.const(int64, piece.type.dtype.size)  # type: ignore[attr-defined]
                at = self.emit("address", pointer, (at, self.byte_offset((self.starts[local],), (width,))))
            pointers.append(at)
        size: int = self.leaves(t.dtype)[0][1].size  # type: ignore[attr-defined]
        steps = t.strides if isinstance(t, Tile) else dense_strides(t.shape)
        if t.by_column:
            steps = dense_strides(t.shape[::-1])[::-1]
        strides = [self.const(int64, step * size) for step in steps]
        return [*pointers, *[self.const(int32, n) for n in t.shape], *strides]

    def array_ptr(self, op: Op) -> Leaves:
        return [self.emit("pointer_to_int", uint64, (self.values[op.operands[0]][0],))]

    def array_at(self, op: Op) -> Leaves:
        t = op.type
        assert isinstance(t, Array)
        at = self.emit("int_to_pointer", pointer, (self.one(op.operands[0]),))
        shape = [self.one(v) for v in op.operands[1:]]
        strides = [self.const(int64, memory_layout(t.dtype, t.layout)[1])]
        for extent in reversed(shape[1:]):
            wide = self.emit("cast", int64, (extent,))
            strides.insert(0, self.emit("mul", int64, (wide, strides[0])))
        return [at, *shape, *strides]

    def byte_offset(self, indices: tuple[Op, ...], strides: tuple[Op, ...]) -> Op:
        total: Op | None = None
        for index, stride in zip(indices, strides, strict=True):
            wide = index if index.type is int64 else self.emit("cast", int64, (index,))
            term = self.emit("mul", int64, (wide, stride))
            total = term if total is None else self.emit("add", int64, (total, term))
        return total if total is not None else self.const(int64, 0)

    def field(self, op: Op) -> Leaves:
        """A table's field: pointers of its planes, its length, and a stride that is known while compiling."""
        table = self.table(op)
        name, t = op.attrs["name"], table.type
        assert isinstance(t, Table)
        dtype, symbol = t.field(name)  # type: ignore[misc]
        index, label = table.attrs["index"], f"{self.names[table]}.{name}"
        self.names[op] = label
        scalars = self.leaves(dtype)
        planes = [self.param(index, ("field", name, "plane", k), pointer, label) for k in range(len(scalars))]
        extent = self.param(index, ("count", symbol), int32, f"{self.names[table]}.{symbol}")
        first = scalars[0][1]
        return [*planes, extent, self.const(int64, first.size)]  # type: ignore[attr-defined]

    def count(self, op: Op) -> Leaves:
        table, symbol = self.table(op), op.attrs["symbol"]
        return [self.param(table.attrs["index"], ("count", symbol), int32, f"{self.names[table]}.{symbol}")]

    @staticmethod
    def table(op: Op) -> Op:
        table = op.operands[0]
        if table.kind != "param":
            raise InternalError(f"a table must be a kernel parameter, not `{table.kind}`")
        return table

    def shape(self, op: Op) -> Leaves:
        array = op.operands[0]
        n = array.type.ndim  # type: ignore[attr-defined]
        return [self.values[array][-2 * n + op.attrs["dim"]]]

    def inherit_name(self, op: Op, source: Op) -> None:
        if source in self.names:
            self.names[op] = self.names[source]

    # control flow

    def structured(self, op: Op) -> None:
        operands = tuple([self.one(v) for v in op.operands])
        attrs = op.attrs
        if attrs.get("exit") is not None:
            attrs = {**attrs, "exit": self.one(attrs["exit"])}
        new = Op(op.kind, void, operands, attrs, (), op.loc)
        new.regions = tuple([self.region(r) for r in op.regions])
        self.out.append(new)

    def custom(self, op: Op) -> None:
        """A function with its own gradient: its arguments leaf by leaf. Tables and local arrays have no leaves here."""
        args: list[tuple[int, Path]] = []
        operands: list[Op] = []
        for k, v in enumerate(op.operands):
            if not isinstance(v.type, Table | LocalArray):
                args += [(k, path) for path, _ in self.leaves(v.type)]
                operands += self.values[v]
        outputs = tuple([leaf for slot in op.attrs["outputs"] for leaf in self.values[slot]])
        new = Op("custom", void, tuple(operands), {**op.attrs, "outputs": outputs, "args": tuple(args)}, (), op.loc)
        new.regions = (self.region(op.regions[0]),)
        self.out.append(new)

    def yields(self, op: Op) -> None:
        """The end of a gradient function: the adjoints of its arguments, leaf by leaf."""
        kept = [v for v in op.operands if not isinstance(v.type, Table | LocalArray)]
        self.emit("yield", void, tuple([leaf for v in kept for leaf in self.values[v]]))

    def shadow(self, op: Op) -> Leaves:
        """The gradient of an array: other pointers, the same shape and strides."""
        values = self.values[op.operands[0]]
        return [self.emit("shadow", pointer, (v,)) if isinstance(v.type, Pointer) else v for v in values]

    def index(self, op: Op) -> Leaves:
        return [self.emit("index", op.type, (), op.attrs)]

    def condition(self, op: Op) -> None:
        self.emit("condition", void, (self.one(op.operands[0]),))

    def leave(self, op: Op) -> None:
        if op.operands or self.fn.is_kernel:
            raise InternalError(f"`{op.kind}` reached scalarize; normalize comes first")


_S = _Scalarizer
_HANDLERS: dict[
    str, Callable[[_Scalarizer, Op], Leaves | None]] = { **dict.fromkeys(ELEMENTWISE, _S.elementwise),
    "const": _S.constant, "tid": _S.thread_index, "cast": _S.cast, "bitcast": _S.cast, "select": _S.select,
    "bits": _S.bits, "make": _S.make, "extract": _S.extract, "insert": _S.insert, "extract_at": _S.extract_at,
    "block_value": _S.block_value, "barrier": _S.barrier, "shuffle": _S.shuffle, "vote": _S.vote,
    "insert_at": _S.insert_at, "slot": _S.slot, "get": _S.get, "set": _S.set, "local": _S.local,
    "local_part": _S.local_part,
    "local_load": _S.local_load, "local_store": _S.local_store, "load": _S.load, "store": _S.store,
    "atomic": _S.atomic, "subarray": _S.subarray, "view": _S.view, "local_view": _S.local_view,
    "array_ptr": _S.array_ptr, "array_at": _S.array_at, "field": _S.field, "count": _S.count, "shape": _S.shape,
    "if": _S.structured, "for": _S.structured, "while": _S.structured, "index": _S.index, "custom": _S.custom,
    "shadow": _S.shadow, "yield": _S.yields, "condition": _S.condition,
    "print": _S.effect, "fault": _S.effect, "prefetch": _S.prefetch, "position": _S.position,
    "break": _S.leave, "continue": _S.leave, "return": _S.leave,
}  # fmt: skip
