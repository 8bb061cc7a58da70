"""Checked mode: puts a check in front of whatever can go wrong at run time (HIR to HIR, before calls are expanded).

    v = a[i]        →   v = 0;  if 0 <= i < extent: v = a[i]   else: fault
    a[i] = v        →   if 0 <= i < extent: a[i] = v           else: fault
    row = a[i]      →   if not 0 <= i < extent: fault;  row = a[i if … else 0], without elements where it failed
    x // y          →   if y == 0: fault;  x // y, which is 0

Arrays are still N-dimensional here, with their names and extents, and values are whole: one rule serves vectors,
structs and tables, both shapes of code, and gradients, which are made from what comes out. An access that failed does
not happen, so that no finding can do harm before it is reported. Without checked mode nothing is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from engine.compiler.ir import Function, Op, Region
from engine.compiler.types import (
    Array,
    IndexedArray,
    LocalArray,
    Scalar,
    Struct,
    Tuple,
    Type,
    bool_,
    components,
    float64,
    int32,
    int64,
    leaves,
    uint64,
    void,
)


class Bound(NamedTuple):
    """An index, the extent that it must stay below, and whether negative ones count from the end."""

    at: Op
    extent: Op | int
    wraps: bool = False


def guard(fn: Function, checked: bool, finite: bool) -> Function:
    """`fn` and all functions that it calls, with checks: of indices and divisors (`checked`), of what is stored into
    arrays of floats (`finite`). `fn` is not changed."""
    return _guarded(fn, checked, finite, {}) if checked or finite else fn


def _guarded(fn: Function, checked: bool, finite: bool, known: dict[Function, Function]) -> Function:
    if fn not in known:
        calls = {callee: _guarded(callee, checked, finite, known) for callee in fn.callees()}
        pass_ = _Guard(fn, checked, finite, calls)
        known[fn] = replace(fn, body=pass_.region(fn.body))
    return known[fn]


class _Guard:
    def __init__(self, fn: Function, checked: bool, finite: bool, calls: dict[Function, Function]):
        self.fn, self.checked, self.finite, self.calls = fn, checked, finite, calls
        self.values: dict[Op, Op] = {}  # of the function as written → what stands for them
        self.out: list[Op] = []
        self.loc: Any = None

    def region(self, region: Region) -> Region:
        outer, self.out = self.out, []
        for op in region.ops:
            self.loc = op.loc
            rule = _RULES.get(op.kind) if self.checked or op.kind in ("store", "atomic") else None
            result = rule(self, op) if rule is not None else None
            if result is None:
                result = self.copy(op)
            self.values[op] = result
        made, self.out = Region(self.out), outer
        return made

    def copy(self, op: Op) -> Op:
        """The op itself, on what stands for its operands."""
        attrs = op.attrs
        if "callee" in attrs:
            attrs = {**attrs, "callee": self.calls[attrs["callee"]]}
        if attrs.get("exit") is not None:
            attrs = {**attrs, "exit": self.value(attrs["exit"])}
        new = Op(op.kind, op.type, tuple([self.value(v) for v in op.operands]), attrs, (), op.loc)
        new.regions = tuple([self.region(r) for r in op.regions])
        self.out.append(new)
        return new

    def value(self, op: Op) -> Op:
        return self.values.get(op, op)

    # building blocks

    def emit(self, kind: str, t: Type, *operands: Op, **attrs: Any) -> Op:
        op = Op(kind, t, operands, attrs, (), self.loc)
        self.out.append(op)
        return op

    def const(self, value: Any, t: Scalar) -> Op:
        return self.emit("const", t, value=value)

    def inside(self, build: Callable[[], Any]) -> Region:
        """What `build` emits, as a region of its own."""
        outer, self.out = self.out, []
        build()
        made, self.out = Region(self.out), outer
        return made

    def if_(self, condition: Op, then: Region, other: Region) -> None:
        self.out.append(Op("if", void, (condition,), None, (then, other), self.loc))

    def fault(self, check: str, values: Sequence[Op], **attrs: Any) -> None:
        """Notes a finding, with numbers that say more."""
        wide = [v if v.type is int64 else self.emit("cast", int64, v) for v in values]
        self.emit("fault", void, *wide, check=check, file=self.fn.file, function=self.fn.name, **attrs)

    def zero(self, t: Type) -> Op:
        """The zero value of a type; an array without elements."""
        if isinstance(t, Scalar):
            return self.const(False if t is bool_ else 0.0 if t.is_float else 0, t)
        if isinstance(t, Array):
            nothing = self.const(0, int32)
            return self.emit("array_at", t, self.const(0, uint64), *[nothing] * t.ndim)
        if isinstance(t, Struct | Tuple):
            fields = [f for _, f in t.fields] if isinstance(t, Struct) else list(t.items)
            return self.emit("make", t, *map(self.zero, fields))
        return self.emit("make", t, *[self.zero(leaf) for _, leaf in leaves(t)])

    # bounds

    def within(self, bound: Bound) -> Op:
        """Whether 0 <= index < extent: one comparison, since a negative index is a huge unsigned one."""
        index, extent, wraps = bound
        wide = self.emit("cast", uint64, index)
        limit = self.const(extent, uint64) if isinstance(extent, int) else self.emit("cast", uint64, extent)
        if wraps:  # -extent <= index < extent
            wide, limit = self.emit("add", uint64, wide, limit), self.emit("add", uint64, limit, limit)
        return self.emit("lt", bool_, wide, limit)

    def all_within(self, bounds: Sequence[Bound]) -> tuple[list[Op], Op]:
        """The checks of all dimensions, and whether they all hold."""
        each = [self.within(bound) for bound in bounds]
        both = each[0]
        for one in each[1:]:
            both = self.emit("and", bool_, both, one)
        return each, both

    def name_the_first(self, bounds: Sequence[Bound], each: Sequence[Op], name: str) -> Region:
        """A region that notes the first dimension that is out of bounds."""
        (index, extent, _), *rest = bounds
        dim = len(each) - len(bounds)

        def note() -> None:
            limit = self.const(extent, int64) if isinstance(extent, int) else extent
            self.fault("bounds", (index, limit), array=name, dim=dim, unsigned=index.type is uint64)

        if not rest:
            return self.inside(note)
        return self.inside(
            lambda: self.if_(each[dim], self.name_the_first(rest, each, name), self.inside(note))
        )

    def bounds(self, op: Op, count: int) -> list[Bound]:
        """The first `count` indices of an access, with the extents of its array."""
        array = self.value(op.operands[0])
        return [
            Bound(self.index(v), self.emit("shape", int32, array, dim=d))
            for d, v in enumerate(op.operands[1 : 1 + count])
        ]

    def index(self, index: Op) -> Op:
        """An index as the user wrote it: what was narrowed to 32 bits counts before it was."""
        if index.kind == "cast" and isinstance(index.operands[0].type, Scalar) and index.operands[0].type.is_int:
            index = index.operands[0]
        return self.value(index)

    def guarded(self, op: Op, bounds: Sequence[Bound]) -> Op:
        """`op` if its indices are within bounds, else a fault; its value is zero then."""
        each, good = self.all_within(bounds)
        bad = self.name_the_first(bounds, each, self.name(op.operands[0]))
        if op.type is void:
            self.if_(good, self.inside(lambda: self.copy(op)), bad)
            return op
        slot = self.emit("slot", op.type, name="checked")
        self.emit("set", void, slot, self.zero(op.type))
        self.if_(good, self.inside(lambda: self.emit("set", void, slot, self.copy(op))), bad)
        return self.emit("get", op.type, slot)

    def access(self, op: Op) -> Op:
        t = op.operands[0].type
        assert isinstance(t, Array)
        if self.finite and op.kind != "load":
            self.check_finite(op, t)
        return self.guarded(op, self.bounds(op, t.ndim)) if self.checked else self.copy(op)

    def view(self, op: Op) -> Op:
        """A view at indices and slices. Slices are cut to the extent; an index has to be within."""
        given, bounds, at = [self.value(v) for v in op.operands[1:]], [], 0
        array = self.value(op.operands[0])
        places: list[int] = []
        for d, kind in enumerate(op.attrs["dims"]):
            if kind == "i":
                bounds.append(Bound(self.index(op.operands[1 + at]), self.emit("shape", int32, array, dim=d)))
                places.append(at)
            at += 1 if kind == "i" else 3
        if not bounds:
            return self.copy(op)
        each, good = self.all_within(bounds)
        self.if_(good, Region(), self.name_the_first(bounds, each, self.name(op.operands[0])))
        nothing = self.const(0, int32)
        for place, one in zip(places, each, strict=True):
            given[place] = self.emit("select", int32, one, given[place], nothing)
        at = 0
        for kind in op.attrs["dims"]:
            if kind == "r":
                given[at + 1] = self.emit("select", int32, good, given[at + 1], nothing)
            at += 1 if kind == "i" else 3
        return self.emit("view", op.type, array, *given, **op.attrs)

    def subarray(self, op: Op) -> Op:
        """`a[i]` of more dimensions: the view at these indices, whole in the others."""
        t, lead = op.operands[0].type, len(op.operands) - 1
        assert isinstance(t, Array)
        if isinstance(t, IndexedArray):
            return self.part_of_indexed(op, lead)
        array, zero, one = self.value(op.operands[0]), self.const(0, int32), self.const(1, int32)
        rest: list[Op] = []
        for d in range(lead, t.ndim):
            rest += [zero, self.emit("shape", int32, array, dim=d), one]
        return self.view(Op("view", op.type, (*op.operands, *rest), {"dims": "i" * lead + "r" * (t.ndim - lead)}))

    def part_of_indexed(self, op: Op, lead: int) -> Op:
        """Indexed arrays have no views: one that failed is the part at index 0."""
        bounds = self.bounds(op, lead)
        each, good = self.all_within(bounds)
        self.if_(good, Region(), self.name_the_first(bounds, each, self.name(op.operands[0])))
        zero = self.const(0, int32)
        given = [self.emit("select", int32, one, self.value(v), zero)
                 for one, v in zip(each, op.operands[1:], strict=True)]  # fmt: skip
        return self.emit("subarray", op.type, self.value(op.operands[0]), *given)

    def local_part(self, op: Op) -> Op | None:
        """A view of a tile that begins at run-time indices; one that is out of bounds counts as 0."""
        start = op.operands[1]
        if start.kind != "position" or all(v.kind == "const" for v in start.operands):
            return None
        bounds = self.inner_bounds(start, ())
        each, good = self.all_within(bounds)
        self.if_(good, Region(), self.name_the_first(bounds, each, self.name(op.operands[0])))
        zero = self.const(0, int32)
        given = [self.emit("select", int32, one, self.value(v), zero)
                 for one, v in zip(each, start.operands, strict=True)]  # fmt: skip
        first = self.emit("position", int32, *given, **start.attrs)
        return self.emit("local_part", op.type, self.value(op.operands[0]), first)

    def local_access(self, op: Op) -> Op:
        t = op.operands[0].type
        assert isinstance(t, LocalArray)
        return self.guarded(op, self.inner_bounds(op.operands[1], t.shape))

    def component(self, op: Op) -> Op | None:
        """A component at a run-time index, harmless out of bounds: it reads component 0, and writes nothing."""
        same = components(op.operands[0].type)
        index = op.operands[1]
        if same is None or index.kind == "const":
            return None
        bounds = self.inner_bounds(index, (same[1],))
        each, good = self.all_within(bounds)
        self.if_(good, Region(), self.name_the_first(bounds, each, self.name(op.operands[0])))
        return None

    def inner_bounds(self, index: Op, shape: tuple[int, ...]) -> list[Bound]:
        """Of a position in a local array or in a value: each of its dimensions, where it has several."""
        if index.kind != "position":
            size = 1
            for extent in shape:
                size *= extent
            return [Bound(self.index(index), size)]
        wraps = index.attrs.get("wraps", False)
        extents = index.attrs["shape"]
        return [Bound(self.index(v), extent, wraps) for v, extent in zip(index.operands, extents, strict=True)]

    # numbers

    def division(self, op: Op) -> None:
        """Integers: a divisor of zero gives zero, and is counted."""
        divisor = self.value(op.operands[1])
        same = components(divisor.type)
        if same is None or not same[0].is_int or divisor.kind == "const" and divisor.attrs["value"]:
            return
        is_scalar = isinstance(divisor.type, Scalar)
        for k in range(same[1]):
            one = divisor if is_scalar else self.emit("extract", same[0], divisor, index=k)
            zero = self.emit("eq", bool_, one, self.const(0, same[0]))
            self.if_(zero, self.inside(lambda: self.fault("division", (), operator=op.kind)), Region())

    def check_finite(self, op: Op, t: Array) -> None:
        """Every float that is stored: x - x is 0 for all numbers, and NaN for infinities and NaN."""
        indices = [self.value(v) for v in op.operands[1 : 1 + t.ndim]]
        name = self.name(op.operands[0])
        for one in self.floats(self.value(op.operands[-1])):
            wide = one if one.type is float64 else self.emit("cast", float64, one)
            good = self.emit("eq", bool_, self.emit("sub", float64, wide, wide), self.const(0.0, float64))
            bits = self.emit("bitcast", int64, wide)
            self.if_(good, Region(), self.inside(lambda bits=bits: self.fault("finite", (*indices, bits), array=name)))  # type: ignore[misc]

    def floats(self, value: Op) -> list[Op]:
        """The floats in a value."""
        t = value.type
        if isinstance(t, Scalar):
            return [value] if t.is_float else []
        if isinstance(t, Array):
            return []
        if isinstance(t, Struct | Tuple):
            items: Sequence[Type] = [f for _, f in t.fields] if isinstance(t, Struct) else t.items
        else:
            items = [leaf for _, leaf in leaves(t)]
        return [f for k, item in enumerate(items) for f in self.floats(self.emit("extract", item, value, index=k))]

    # names

    def name(self, op: Op) -> str:
        """What the user calls an array or a value: the parameter or variable, and the way from there."""
        kind = op.kind
        if kind in ("param", "slot"):
            return str(op.attrs.get("name", ""))
        if kind == "field":
            return f"{self.name(op.operands[0])}.{op.attrs['name']}"
        if kind == "extract" and isinstance(op.operands[0].type, Struct):
            return f"{self.name(op.operands[0])}.{op.operands[0].type.fields[op.attrs['index']][0]}"
        if kind in ("subarray", "view", "load"):
            return f"{self.name(op.operands[0])}[…]"
        if kind in ("get", "local_view", "shadow"):
            return self.name(op.operands[0])
        return repr(op.type)


_G = _Guard
_RULES: dict[str, Callable[[_Guard, Op], Op | None]] = {
    "load": _G.access, "store": _G.access, "atomic": _G.access, "subarray": _G.subarray, "view": _G.view,
    "local_part": _G.local_part,
    "local_load": _G.local_access, "local_store": _G.local_access, "extract_at": _G.component,
    "insert_at": _G.component, "div": _G.division, "floordiv": _G.division, "mod": _G.division,
}  # fmt: skip
