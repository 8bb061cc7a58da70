"""Checks that a function obeys the rules of its IR level: operand types, structure, and that values reach their uses.

Called after every pass under test and before emission always. A violation is a bug of the compiler, never of the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.compiler.faults import CHECKS, VALUES
from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import ATOMICS, BLOCK_VALUES, ELEMENTWISE, STRUCTURAL
from engine.compiler.printer import print_op
from engine.compiler.types import (
    Array,
    LocalArray,
    Pointer,
    Scalar,
    Struct,
    Table,
    Tile,
    Tuple,
    Type,
    Void,
    bool_,
    components,
    int32,
    int64,
    leaves,
    pointer,
    uint32,
)
from engine.errors import InternalError

_HIR_ONLY = frozenset({"make", "extract", "insert", "extract_at", "insert_at", "subarray", "view", "local_view",
                       "local_part", "array_ptr", "array_at", "field", "count", "shape", "position",
                       "call", "break", "continue", "return"})  # fmt: skip
_VOID_KINDS = frozenset(
    {"set", "local_store", "store", "if", "custom", "yield", "for", "while", "condition", "break", "continue", "return",
     "print", "fault", "prefetch", "barrier"}
)
_BY_TYPES = frozenset({*ELEMENTWISE, "cast", "bitcast", "select"})  # whether they are right depends on types alone
_REGION_COUNT = {"if": 2, "for": 1, "while": 2, "custom": 1}
_ARITY = {
    "const": 0, "param": 0, "tid": 0, "shuffle": 2, "vote": 1, "cast": 1, "bitcast": 1, "select": 3,
    "extract": 1, "insert": 2,
    "extract_at": 2, "insert_at": 3, "slot": 0, "get": 1, "set": 2, "local": 0, "local_load": 2, "local_store": 3,
    "field": 1, "count": 1, "shape": 1, "if": 1, "for": 3, "index": 0, "while": 0, "condition": 1, "break": 0,
    "continue": 0, "address": 2, "shadow": 1, "local_view": 1, "local_part": 2, "array_ptr": 1, "local_pointer": 1,
    "pointer_to_int": 1, "int_to_pointer": 1,
}  # fmt: skip


def verify(fn: Function, level: str = "hir") -> Function:
    """Returns `fn` if it obeys the rules of `level` ("hir" or "mir"), else raises `InternalError` with the op."""
    _Verifier(fn, level == "mir").run()
    return fn


class _Verifier:
    def __init__(self, fn: Function, mir: bool):
        self.fn, self.mir = fn, mir
        self.visible: set[Op] = set(fn.params)
        self.seen: set[Op] = set()
        self.approved: set[tuple[Any, ...]] = set()  # kinds with the identities of result and operand types

    def run(self) -> None:
        for p in self.fn.params:
            self.require(p.kind == "param", p, "a parameter must be a `param` op")
            self.require("path" in p.attrs if self.mir else "index" in p.attrs, p, "lacks an attribute")
        self.region(self.fn.body, loop_depth=0, body_of="")

    def require(self, holds: bool, op: Op, rule: str) -> None:
        if not holds:
            raise InternalError(f"in '{self.fn.name}': {print_op(op)}: {rule}")

    def region(self, region: Region, loop_depth: int, body_of: str) -> None:
        visible, seen, approved, mine = self.visible, self.seen, self.approved, []
        last = len(region.ops) - 1
        for k, op in enumerate(region.ops):
            if op in seen:
                self.require(False, op, "stands in two places")
            seen.add(op)
            operands = op.operands
            for value in operands:
                if value not in visible:
                    self.require(False, op, f"operand `{print_op(value)}` does not reach this op")
            kind = op.kind
            if kind in _BY_TYPES:
                signature = (kind, id(op.type), *[id(v.type) for v in operands])
                if signature not in approved:
                    self.op(op, k, last, loop_depth, body_of)
                    approved.add(signature)
            else:
                self.op(op, k, last, loop_depth, body_of)
            visible.add(op)
            mine.append(op)
        if body_of == "while condition":
            self.require(
                bool(region.ops) and region.ops[-1].kind == "condition", self.last(region), "must be `condition`"
            )
        if body_of == "for":
            self.require(
                bool(region.ops) and region.ops[0].kind == "index", self.last(region), "a for begins with `index`"
            )
        visible.difference_update(mine)

    @staticmethod
    def last(region: Region) -> Op:
        return region.ops[-1] if region.ops else Op("nothing")

    def op(self, op: Op, position: int, last: int, loop_depth: int, body_of: str) -> None:
        kind = op.kind
        elementwise = kind in ELEMENTWISE
        self.require(elementwise or kind in STRUCTURAL, op, "unknown op")
        self.require((kind in _VOID_KINDS) <= isinstance(op.type, Void), op, "yields no value, its type must be None")
        if elementwise:
            self.elementwise(op)
        else:
            if kind in _ARITY:
                self.require(len(op.operands) == _ARITY[kind], op, f"takes {_ARITY[kind]} operands")
            self.require(len(op.regions) == _REGION_COUNT.get(kind, 0), op, "wrong number of regions")
            rule = _RULES.get(kind)
            if rule:
                rule(self, op)
        if self.mir:
            self.level_of_mir(op)
        self.require(kind != "index" or (position == 0 and body_of == "for"), op, "stands first in a for body")
        self.require(
            kind != "condition" or (position == last and body_of == "while condition"), op, "ends a while condition"
        )
        self.require(kind not in ("break", "continue") or loop_depth > 0, op, "outside a loop")
        if kind in ("if", "custom"):
            for r in op.regions:
                self.region(r, loop_depth, kind)
        elif kind == "for":
            self.region(op.regions[0], loop_depth + 1, "for")
        elif kind == "while":
            self.region(op.regions[0], loop_depth, "while condition")
            self.region(op.regions[1], loop_depth + 1, "while")

    def level_of_mir(self, op: Op) -> None:
        self.require(op.kind not in _HIR_ONLY, op, "is not allowed in MIR")
        t = op.type
        fits = isinstance(t, Scalar | Pointer | Void) or (isinstance(t, LocalArray) and isinstance(t.dtype, Scalar))
        self.require(fits, op, "MIR values are scalars and pointers")

    def elementwise(self, op: Op) -> None:
        row = ELEMENTWISE[op.kind]
        self.require(len(op.operands) == row.arity, op, f"takes {row.arity} operands")
        t = op.operands[0].type
        for other in op.operands:
            self.require(_same(other.type, t), op, "operands must have equal types")
        same = components(t)
        self.require(same is not None and same[0].kind in row.accepts, op, f"does not take {t!r}")
        if row.result == "bool":
            self.require(isinstance(t, Scalar), op, "compares scalars only")
            self.require(_same(op.type, bool_), op, "yields a bool")
        else:
            self.require(_same(op.type, t), op, "yields its operand type")

    # structural rules, by kind

    def const(self, op: Op) -> None:
        value = op.attrs.get("value")
        t = op.type
        self.require(isinstance(t, Scalar), op, "is a scalar")
        self.require(type(value) in (bool, int, float), op, "value must be a Python number")
        if isinstance(t, Scalar) and t.is_int:
            low, high = t.range
            self.require(isinstance(value, int) and low <= value <= high, op, f"does not fit {t!r}")

    def tid(self, op: Op) -> None:
        self.require(
            _same(op.type, int32) and 0 <= op.attrs["axis"] < op.attrs["ndim"] <= 4, op, "axis, ndim or type is wrong"
        )

    def block_value(self, op: Op) -> None:
        self.require(_same(op.type, int32) and op.attrs["name"] in BLOCK_VALUES, op, "name or type is wrong")
        self.require([v.type for v in op.operands] == [int32] * self.mir, op, "MIR: takes the size of the block")

    def barrier(self, op: Op) -> None:
        most = {"block": 0, "warp": 1}.get(op.attrs["scope"], -1)
        self.require(len(op.operands) <= most, op, "scope or operands are wrong")
        self.require(all(_same(v.type, uint32) for v in op.operands), op, "the members of a warp are a uint32")

    def shuffle(self, op: Op) -> None:
        value, lane = op.operands
        self.require(_same(value.type, op.type) and _same(lane.type, int32), op, "yields its operand's type")
        self.require(op.attrs["mode"] in ("idx", "up", "down", "xor"), op, "unknown mode")

    def vote(self, op: Op) -> None:
        wanted = {"any": bool_, "all": bool_, "ballot": uint32}.get(op.attrs["mode"], op.type)
        self.require(_same(op.operands[0].type, bool_) and _same(op.type, wanted), op, "mode or type is wrong")

    def cast(self, op: Op) -> None:
        a, b = components(op.operands[0].type), components(op.type)
        self.require(a is not None and b is not None and a[1] == b[1], op, "casts component by component")

    def bitcast(self, op: Op) -> None:
        a, b = op.operands[0].type, op.type
        self.require(isinstance(a, Scalar) and isinstance(b, Scalar) and a.bits == b.bits, op, "needs equal widths")

    def select(self, op: Op) -> None:
        c, a, b = (v.type for v in op.operands)
        self.require(
            _same(c, bool_) and _same(a, b) and _same(a, op.type), op, "condition is a bool, both values of its type"
        )

    def bits(self, op: Op) -> None:
        self.require(_same(op.type, uint32) and 0 < len(op.operands) <= 32, op, "packs 1 … 32 truth values")
        self.require(all(_same(v.type, bool_) for v in op.operands), op, "takes truth values")

    def make(self, op: Op) -> None:
        parts = part_types(op.type)
        self.require(
            parts is not None and len(parts) == len(op.operands), op, "takes one operand for each component or field"
        )
        for value, part in zip(op.operands, parts or (), strict=True):
            self.require(_same(value.type, part), op, f"needs {part!r}, got {value.type!r}")

    def extract(self, op: Op) -> None:
        parts = part_types(op.operands[0].type)
        index = op.attrs["index"]
        self.require(
            parts is not None and 0 <= index < len(parts) and _same(parts[index], op.type), op, "no such component"
        )

    def insert(self, op: Op) -> None:
        aggregate, value = op.operands
        parts = part_types(aggregate.type)
        index = op.attrs["index"]
        fits = parts is not None and 0 <= index < len(parts) and _same(parts[index], value.type)
        self.require(fits and _same(op.type, aggregate.type), op, "no such component")

    def component_at(self, op: Op) -> None:
        same = components(op.operands[0].type)
        self.require(same is not None and _is_int(op.operands[1].type), op, "needs a homogeneous aggregate and an int")
        if same:
            scalar = op.type if op.kind == "extract_at" else op.operands[2].type
            self.require(_same(scalar, same[0]), op, f"the component is a {same[0]!r}")

    def get(self, op: Op) -> None:
        slot = op.operands[0]
        self.require(slot.kind == "slot" and _same(slot.type, op.type), op, "reads a slot of its type")

    def set(self, op: Op) -> None:
        slot, value = op.operands
        self.require(slot.kind == "slot" and _same(slot.type, value.type), op, "writes a slot of the value's type")

    def slot(self, op: Op) -> None:
        self.require(op.type.is_value and not isinstance(op.type, Void), op, "holds a value")

    def local(self, op: Op) -> None:
        self.require(isinstance(op.type, LocalArray), op, "is a local array")

    def local_part(self, op: Op) -> None:
        whole, start = op.operands
        same = isinstance(op.type, Tile) and isinstance(whole.type, Tile) and _same(op.type.dtype, whole.type.dtype)
        self.require(same and start.type is int32, op, "is a part of a tile of the same elements")

    def local_access(self, op: Op) -> None:
        array, index = op.operands[:2]
        self.require(isinstance(array.type, LocalArray) and _is_int(index.type), op, "needs a local array and an int")
        if op.kind == "local_load" and isinstance(array.type, LocalArray):
            self.require(_same(op.type, array.type.dtype), op, "yields an element")

    def access(self, op: Op) -> None:
        """load, store and atomic, at either level."""
        first = op.operands[0].type
        values = 0 if op.kind == "load" else 2 if op.attrs.get("op") == "cas" else 1
        indices = len(op.operands) - 1 - values
        if op.kind == "atomic":
            self.require(op.attrs.get("op") in ATOMICS, op, "unknown atomic")
            self.require(_same(op.type, op.operands[-1].type), op, "yields the old value")
        if self.mir:
            self.require(
                isinstance(first, Pointer) and indices == 2 * op.attrs["ndim"], op, "takes a pointer, indices, strides"
            )
            n = op.attrs["ndim"]
            self.require(all(_is_int(v.type) for v in op.operands[1 : 1 + n]), op, "indices are ints")
            self.require(all(_same(v.type, int64) for v in op.operands[1 + n : 1 + 2 * n]), op, "strides are int64")
            return
        if not isinstance(first, Array):
            raise InternalError(f"in '{self.fn.name}': {print_op(op)}: needs an array")
        self.require(indices == first.ndim, op, "takes one index per dimension")
        self.require(all(_is_int(v.type) for v in op.operands[1 : 1 + indices]), op, "indices are ints")
        if op.kind == "load":
            self.require(_same(op.type, first.dtype), op, "yields an element")
        else:
            given, whole, offset = leaves(op.operands[-1].type), leaves(first.dtype), op.attrs.get("offset", 0)
            part = [t for _, t in whole[offset : offset + len(given)]]
            self.require([t for _, t in given] == part, op, "the value must fit the element at its offset")

    def subarray(self, op: Op) -> None:
        a = op.operands[0].type
        fits = (
            isinstance(a, Array) and isinstance(op.type, Array) and op.type.ndim == a.ndim - (len(op.operands) - 1) >= 1
        )
        self.require(fits and _same(op.type.dtype, a.dtype), op, "yields the remaining dimensions")  # type: ignore[attr-defined]

    def view(self, op: Op) -> None:
        a, dims = op.operands[0].type, op.attrs["dims"]
        self.require(isinstance(a, Array) and len(dims) == a.ndim, op, "names all dimensions")
        self.require(len(op.operands) == 1 + dims.count("i") + 3 * dims.count("r"), op, "wrong number of operands")
        fits = isinstance(op.type, Array) and op.type.ndim == dims.count("r") and _same(op.type.dtype, a.dtype)  # type: ignore[attr-defined]
        self.require(fits, op, "yields the dimensions that are kept")

    def field(self, op: Op) -> None:
        t = op.operands[0].type
        row = t.field(op.attrs["name"]) if isinstance(t, Table) else None
        self.require(row is not None and _same(op.type, Array(row[0], 1, "planes")), op, "no such field")

    def count(self, op: Op) -> None:
        t = op.operands[0].type
        self.require(
            isinstance(t, Table) and op.attrs["symbol"] in t.symbols and _same(op.type, int32), op, "no such symbol"
        )

    def shape(self, op: Op) -> None:
        t = op.operands[0].type
        self.require(
            isinstance(t, Array) and 0 <= op.attrs["dim"] < t.ndim and _same(op.type, int32), op, "no such dimension"
        )

    def call(self, op: Op) -> None:
        callee = op.attrs.get("callee")
        if not isinstance(callee, Function):
            raise InternalError(f"in '{self.fn.name}': {print_op(op)}: callee must be a function")
        self.require(len(callee.params) == len(op.operands), op, "wrong number of arguments")
        for p, v in zip(callee.params, op.operands, strict=True):
            self.require(_same(p.type, v.type), op, f"argument {p.attrs.get('name')} is {p.type!r}, got {v.type!r}")
        self.require(_same(op.type, callee.result), op, f"yields {callee.result!r}")

    def print(self, op: Op) -> None:
        self.require(isinstance(op.attrs.get("format"), str), op, "has a format")
        self.require(all(isinstance(v.type, Scalar) for v in op.operands), op, "prints scalars")

    def fault(self, op: Op) -> None:
        self.require(op.attrs.get("check") in CHECKS, op, f"has a check among {', '.join(CHECKS)}")
        self.require(len(op.operands) <= VALUES and all(_same(v.type, int64) for v in op.operands), op, "notes int64")

    def prefetch(self, op: Op) -> None:
        first, indices = op.operands[0].type, op.operands[1:]
        array = isinstance(first, Array) and len(indices) == first.ndim and all(_is_int(v.type) for v in indices)
        right = isinstance(first, Pointer) and not indices if self.mir else array
        self.require(right, op, "takes an array and one index per dimension, in MIR a pointer")

    def position(self, op: Op) -> None:
        fits = len(op.operands) == len(op.attrs.get("shape", ())) and all(_same(v.type, int32) for v in op.operands)
        self.require(fits and _same(op.type, int32), op, "one int32 for each dimension")

    def branch(self, op: Op) -> None:
        self.require(_same(op.operands[0].type, bool_), op, "needs a bool")

    def loop(self, op: Op) -> None:
        slot = op.attrs.get("exit")
        if slot is not None:
            self.require(
                slot in self.visible and slot.kind == "slot" and _same(slot.type, bool_), op, "exit is a bool slot"
            )
        if op.kind == "for":
            t = op.operands[0].type
            self.require(_is_int(t) and all(_same(v.type, t) for v in op.operands), op, "bounds are ints of one type")
            first = op.regions[0].ops[0] if op.regions[0].ops else None
            self.require(first is None or _same(first.type, t), op, "the index has the type of the bounds")

    def returns(self, op: Op) -> None:
        given = op.operands[0].type if op.operands else Void()
        self.require(_same(given, self.fn.result), op, f"must return {self.fn.result!r}")

    def address(self, op: Op) -> None:
        p, n = op.operands
        self.require(
            _same(p.type, pointer) and _same(n.type, int64) and _same(op.type, pointer), op, "pointer plus int64 bytes"
        )


_V = _Verifier
_RULES: dict[str, Callable[[_Verifier, Op], None]] = {
    "const": _V.const, "tid": _V.tid, "cast": _V.cast, "bitcast": _V.bitcast, "select": _V.select, "bits": _V.bits,
    "make": _V.make,
    "block_value": _V.block_value, "barrier": _V.barrier, "shuffle": _V.shuffle, "vote": _V.vote,
    "extract": _V.extract, "insert": _V.insert, "extract_at": _V.component_at, "insert_at": _V.component_at,
    "slot": _V.slot, "get": _V.get, "set": _V.set, "local": _V.local, "local_part": _V.local_part,
    "local_load": _V.local_access,
    "local_store": _V.local_access, "load": _V.access, "store": _V.access, "atomic": _V.access, "subarray": _V.subarray,
    "view": _V.view,
    "field": _V.field, "count": _V.count, "shape": _V.shape, "call": _V.call, "if": _V.branch, "condition": _V.branch,
    "for": _V.loop, "while": _V.loop, "return": _V.returns, "address": _V.address,
    "print": _V.print, "fault": _V.fault, "prefetch": _V.prefetch, "position": _V.position,
}  # fmt: skip


def part_types(t: Type) -> list[Type] | None:
    """Types of the operands of `make`: fields of a struct or tuple, scalar components of the rest; None for others."""
    if isinstance(t, Struct):
        return [f for _, f in t.fields]
    if isinstance(t, Tuple):
        return list(t.items)
    same = components(t)
    if same is None or isinstance(t, Scalar):
        return None
    return [same[0]] * same[1]


def _same(a: Type, b: Type) -> bool:
    return a is b or a == b


def _is_int(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int
