"""Emits MIR as LLVM text in the lanes shape: one SIMD lane for each thread, as ISPC does (MIR to LLVM).

    void name(ptr params, i64 begin, i64 end):
        for each row of the grid in [begin, end):              (a grid of one dimension is one row)
            for i in steps of W while a whole vector fits:     the kernel's body for threads i … i + W - 1
            the threads left over:                             the thread shape's code, a second function

Kernels that mostly access memory at indices of their own have no second function, which would take a third of the time
to compile: all their vectors run under a mask, that of the last one with fewer lanes. It costs other accesses more.

Uniform values stay scalars, affine ones are the scalar of lane 0 (`uniform` says which are which), all others are
vectors `<W x T>`. Where control flow may differ between lanes, a mask `<W x i1>` says which lanes run
(`emit_lanes_control`); memory is accessed in the widest form that the address allows (`emit_lanes_memory`). What a lane
computes is what the thread shape computes: the same primitives (`emit_ops`), on vectors.

The code assumes arrays without gaps in their last dimension and rows that fill two vectors; where a launch breaks
that, the thread shape runs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from engine.compiler import emit_lanes_control as control
from engine.compiler import emit_lanes_memory as memory
from engine.compiler import emit_ops
from engine.compiler.emit_ops import LLVM_TYPES, literal
from engine.compiler.emit_thread import SLOT_BYTES, Thread, check_features
from engine.compiler.ir import Function, Op, Region
from engine.compiler.types import Pointer, Scalar, Type, int32, int64
from engine.compiler.uniform import VARYING, Uniformity

ALONE, OWN = 64, 0.33  # operations, and share of accesses at own indices, above which kernels are compiled once
_DIVISIONS = frozenset({"div", "floordiv", "mod"})


def emit_lanes(fn: Function, symbol: str, width: int, gathers: bool = False) -> str:
    """The LLVM module, as text, with the range function named `symbol`, `width` threads at a time.

    `gathers`: the processor's own gather instruction is worth using. Raises `CompileError` as `emit_thread.emit` does.
    """
    check_features(fn)
    return Lanes(fn, width, gathers).module(symbol)


class Lanes(Thread):
    """The emitter. `names` has the scalar of uniform values and lane 0 of affine ones, `vectors` has vectors."""

    def __init__(self, fn: Function, width: int, gathers: bool):
        super().__init__(fn)
        self.width, self.gathers = width, gathers
        self.analysis = Uniformity(fn)
        self.analyses: dict[frozenset[Op], Uniformity] = {frozenset(): self.analysis}
        self.mask = ""  # the lanes that run here; "" when all do
        self.on_vectors = False  # whether `type` and its like mean vectors just now
        self.vectors: dict[Op, str] = {}
        self.copies: list[Op] = []  # values whose vector was made from a scalar in a region that is still open
        self.offsets: dict[tuple[Any, ...], list[str]] = {}  # see `emit_lanes_memory.lane_offsets`
        self.offset_keys: list[tuple[Any, ...]] = []  # those made in a region that is still open
        self.slots: dict[tuple[Op, bool], str] = {}
        self.groups: dict[Op, list[Op]] = {}  # memory accesses emitted together, by the op that stands for all
        self.grouped: set[Op] = set()  # the others
        self.dense: list[tuple[Op, int]] = []  # strides taken for constants, to be checked
        self.scratch_bytes = 0
        self.duplicated = 0  # how many bodies around this place exist with and without a mask

    # the module

    def module(self, symbol: str) -> str:
        if self.is_alone:
            return super().module(symbol)
        rest = Thread(self.fn)
        lines = rest.function(f"{symbol}_rest", "internal ")
        self.metadata, self.declarations, self.scopes = rest.metadata, rest.declarations, rest.scopes
        self.once, self.whole, self.thread_loop = rest.once, rest.whole, rest.thread_loop
        lines += self.function(symbol)
        return "\n".join([*lines, *self.declarations.values(), *self.metadata, ""])

    def function(self, symbol: str, linkage: str = "") -> list[str]:
        if self.is_alone:
            return self.alone(symbol)
        self.parameters()
        ndim = max((op.attrs["ndim"] for op in self.analysis.order if op.kind == "tid"), default=1)
        row, self.lines = self.row(ndim), []
        self.thread_indices()
        self.region(self.fn.body)
        body = self.lines
        if self.scratch_bytes:
            self.entry.append(f"  %scratch = alloca [{self.scratch_bytes} x i8], align 64")
        return [
            f"define {linkage}void @{symbol}(ptr noalias readonly %params, i64 %begin, i64 %end) nounwind {{",
            "entry:",
            *self.entry,
            *self.precondition(ndim),
            *row,
            "vector:",
            "  %i = phi i64 [ %position, %row ], [ %i.next, %next ]",
            *body,
            "  br label %next",
            "next:",
            f"  %i.next = add nsw i64 %i, {self.width}",
            "  %more = icmp sle i64 %i.next, %last",
            f"  br i1 %more, label %vector, label %tail, !llvm.loop {self.thread_loop}",
            "tail:",
            "  %from = phi i64 [ %position, %row ], [ %i.next, %next ]",
            "  %left = icmp slt i64 %from, %row.end",
            "  br i1 %left, label %remainder, label %rows.next",
            "remainder:",
            f"  call void @{symbol}_rest(ptr %params, i64 %from, i64 %row.end)",
            "  br label %rows.next",
            "rows.next:",
            "  %again = icmp slt i64 %row.end, %end",
            "  br i1 %again, label %rows, label %done",
            "threads:",
            f"  call void @{symbol}_rest(ptr %params, i64 %begin, i64 %end)",
            "  br label %done",
            "done:",
            "  ret void",
            "}",
        ]

    @functools.cached_property
    def is_alone(self) -> bool:
        """Whether the vector code runs the threads left over, too."""
        order = self.analysis.order
        accesses = [self.analysis.lane_bytes(op) for op in order if op.kind in ("load", "store")]
        one = all(op.attrs["ndim"] == 1 for op in order if op.kind == "tid")
        whole = not one or any("dense" in p.attrs for p in self.fn.params)  # launches may be left to the threads' code
        return not whole and len(order) > ALONE and accesses.count(None) > OWN * len(accesses)

    def alone(self, symbol: str) -> list[str]:
        """The range function of a kernel without a second function."""
        w = self.width
        self.parameters()
        self.alias_scopes()
        self.thread_indices()
        left = self.value("sub i64 %end, %i")
        some = self.intrinsic("llvm.smin.i64", "i64", f"i64 {left}", f"i64 {w}")
        numbers = ", ".join(f"i32 {lane}" for lane in range(w))
        count = self.splat("i32", self.value(f"trunc i64 {some} to i32"))
        self.mask = self.value(f"icmp ult <{w} x i32> <{numbers}>, {count}")
        self.region(self.fn.body)
        if self.scratch_bytes:
            self.entry.append(f"  %scratch = alloca [{self.scratch_bytes} x i8], align 64")
        return [
            f"define void @{symbol}(ptr noalias readonly %params, i64 %begin, i64 %end) nounwind {{",
            "entry:",
            *self.entry,
            "  %any = icmp slt i64 %begin, %end",
            "  br i1 %any, label %vector, label %done",
            "vector:",
            "  %i = phi i64 [ %begin, %entry ], [ %i.next, %next ]",
            *self.lines,
            "  br label %next",
            "next:",
            f"  %i.next = add nsw i64 %i, {w}",
            "  %more = icmp slt i64 %i.next, %end",
            f"  br i1 %more, label %vector, label %done, !llvm.loop {self.thread_loop}",
            "done:",
            "  ret void",
            "}",
        ]

    def row(self, ndim: int) -> list[str]:
        """From %position: the end of its row, and the last index at which a vector still fits."""
        self.lines = ["rows:", "  %position = phi i64 [ %begin, %entry ], [ %row.end, %rows.next ]", "  br label %row",
                      "row:"]  # fmt: skip
        if ndim == 1:
            self.lines.append("  %row.end = add i64 %end, 0")
        else:
            self.extent = self.parameter(SLOT_BYTES * (ndim - 1), "i64", int64)
            self.lines += [
                f"  %row.number = udiv i64 %position, {self.extent}",
                f"  %row.begin = mul i64 %row.number, {self.extent}",
                f"  %row.all = add i64 %row.begin, {self.extent}",
                "  %row.cut = icmp slt i64 %row.all, %end",
                "  %row.end = select i1 %row.cut, i64 %row.all, i64 %end",
            ]
        self.lines += [
            f"  %last = sub i64 %row.end, {self.width}",
            "  %fits = icmp sle i64 %position, %last",
            "  br i1 %fits, label %vector, label %tail",
        ]
        return self.lines

    def precondition(self, ndim: int) -> list[str]:
        """Ends the entry: whether this launch is one that the vector code was made for."""
        self.lines = []
        truth = self.value("icmp slt i64 %begin, %end")
        for p, expected in self.dense:
            stride = self.parameter_names[p]
            truth = self.value(f"and i1 {truth}, {self.value(f'icmp eq i64 {stride}, {expected}')}")
        if ndim > 1:
            wide = self.value(f"icmp sge i64 {self.extent}, {self.width}")
            truth = self.value(f"and i1 {truth}, {wide}")
        self.branch(truth, "rows", "threads")
        return self.lines

    def parameters(self) -> None:
        super().parameters()
        self.parameter_names = {p: self.names[p] for p in self.fn.params}
        for p in self.fn.params:
            expected = p.attrs.get("dense")
            if expected is not None:
                self.dense.append((p, expected))
                self.names[p] = str(expected)

    def thread_indices(self) -> None:
        """Indices of lane 0; the last axis grows by one from lane to lane, the others do not change within a row."""
        for ndim in sorted({op.attrs["ndim"] for op in self.analysis.order if op.kind == "tid"}):
            if ndim == 1:
                self.indices[1, 0] = self.value("trunc nuw nsw i64 %i to i32")
                continue
            rest = "%row.number"
            for axis in range(ndim - 2, 0, -1):
                extent = self.parameter(SLOT_BYTES * axis, "i64", int64)
                wide = self.value(f"urem i64 {rest}, {extent}")
                rest = self.value(f"udiv i64 {rest}, {extent}")
                self.indices[ndim, axis] = self.value(f"trunc nuw nsw i64 {wide} to i32")
            self.indices[ndim, 0] = self.value(f"trunc nuw nsw i64 {rest} to i32")
            column = self.value("sub nsw i64 %i, %row.begin")
            self.indices[ndim, ndim - 1] = self.value(f"trunc nuw nsw i64 {column} to i32")

    # what the entries of emit_ops use

    def type(self, t: Scalar) -> str:
        return f"<{self.width} x {LLVM_TYPES[t.name]}>" if self.on_vectors else LLVM_TYPES[t.name]

    def bits_type(self, bits: int) -> str:
        return f"<{self.width} x i{bits}>" if self.on_vectors else f"i{bits}"

    def suffix(self, t: Scalar) -> str:
        return f"v{self.width}{super().suffix(t)}" if self.on_vectors else super().suffix(t)

    def number(self, t: Scalar, value: Any) -> str:
        return f"splat ({LLVM_TYPES[t.name]} {literal(t, value)})" if self.on_vectors else literal(t, value)

    def quotient(self, t: Scalar, a: str, b: str) -> str:
        """Processors have no vector division of integers. In float64 the quotient of 32-bit numbers is exact enough:
        what separates it from the next whole number is at least 2^-32 of it, rounding moves it by 2^-53."""
        if not self.on_vectors or t.bits != 32 or b.startswith("splat"):
            return super().quotient(t, a, b)
        sign, lt, wide = "u" if t.kind == "u" else "s", self.type(t), f"<{self.width} x double>"
        x, y = (self.value(f"{sign}itofp {lt} {v} to {wide}") for v in (a, b))
        return self.value(f"fpto{sign}i {wide} {self.value(f'fdiv {wide} {x}, {y}')} to {lt}")

    def remainder(self, t: Scalar, a: str, b: str) -> str:
        if not self.on_vectors or t.bits != 32 or b.startswith("splat"):
            return super().remainder(t, a, b)
        whole = self.value(f"mul {self.type(t)} {self.quotient(t, a, b)}, {b}")
        return self.value(f"sub {self.type(t)} {a}, {whole}")

    def saturated(self, source: Scalar, to: Scalar, v: str) -> str:
        """LLVM takes its own saturating casts of vectors apart, element by element. What a cast leaves of a number that
        does not fit is undefined, but frozen it is some number, and is not chosen."""
        if not self.on_vectors or to.bits == 64:
            return super().saturated(source, to, v)
        (low, high), ft, truth = to.range, self.type(source), self.bits_type(1)
        whole = to if to.bits == 32 else int32
        it, cast = self.type(whole), f"fpto{'s' if whole.kind == 'i' else 'u'}i"
        above = self.value(f"fcmp ogt {ft} {v}, {self.number(source, low)}")
        x = self.value(f"select {truth} {above}, {ft} {v}, {ft} {self.number(source, low)}")
        if source.bits == 64 or to.bits < 32:
            below = self.value(f"fcmp olt {ft} {x}, {self.number(source, high)}")
            x = self.value(f"select {truth} {below}, {ft} {x}, {ft} {self.number(source, high)}")
            result = self.value(f"{cast} {ft} {x} to {it}")
        else:  # `high` is no float32
            large = self.value(f"fcmp oge {ft} {x}, {self.number(source, high + 1)}")
            result = self.value(f"freeze {it} {self.value(f'{cast} {ft} {x} to {it}')}")
            result = self.value(f"select {truth} {large}, {it} {self.number(whole, high)}, {it} {result}")
        if low:
            lost = self.value(f"fcmp uno {ft} {v}, {v}")
            result = self.value(f"select {truth} {lost}, {it} {self.number(whole, 0)}, {it} {result}")
        return result if whole == to else self.value(f"trunc {it} {result} to {self.type(to)}")

    # values

    def stride(self, v: Op) -> int | None:
        return self.analysis.strides[v]

    def vector_type(self, t: Type) -> str:
        return f"<{self.width} x {self.register_type(t)}>"

    def vector(self, v: Op) -> str:
        """The value as a vector, whatever it is."""
        name = self.vectors.get(v)
        if name is not None:
            return name
        if v.kind == "const":
            name = f"splat ({LLVM_TYPES[v.type.name]} {self.names[v]})"  # type: ignore[attr-defined]
            self.vectors[v] = name
            return name
        if v.kind == "param":  # once, in the entry
            lines, self.lines = self.lines, self.entry
            name = self.vectors[v] = self.splat(self.register_type(v.type), self.names[v])
            self.lines = lines
            return name
        name = self.splat(self.register_type(v.type), self.names[v])
        stride = self.stride(v)
        if stride:
            pointer = isinstance(v.type, Pointer)
            lt = "i64" if pointer else self.register_type(v.type)
            steps = ", ".join(f"{lt} {stride * lane}" for lane in range(self.width))
            how = f"getelementptr i8, <{self.width} x ptr> {name}," if pointer else f"add <{self.width} x {lt}> {name},"
            name = self.value(f"{how} <{self.width} x i64> <{steps}>" if pointer else f"{how} <{steps}>")
        self.vectors[v] = name
        self.copies.append(v)
        return name

    def splat(self, lt: str, scalar: str) -> str:
        w = self.width
        one = self.value(f"insertelement <{w} x {lt}> poison, {lt} {scalar}, i64 0")
        return self.value(f"shufflevector <{w} x {lt}> {one}, <{w} x {lt}> poison, <{w} x i32> zeroinitializer")

    def lane(self, vt: str, vector: str, lane: int | str) -> str:
        """One element."""
        return self.value(f"extractelement {vt} {vector}, i64 {lane}")

    def chosen(self, mask: str, vt: str, a: str, b: str) -> str:
        return self.value(f"select <{self.width} x i1> {mask}, {vt} {a}, {vt} {b}")

    def both(self, a: str, b: str) -> str:
        """Lanes of `a` where `b` holds; lanes outside of `a` are false, whatever became of their `b`."""
        if not a:
            return b
        return self.chosen(a, f"<{self.width} x i1>", b, "zeroinitializer")

    def mask_bits(self, mask: str) -> str:
        """The mask as an integer of W bits."""
        return self.value(f"bitcast <{self.width} x i1> {mask} to i{self.width}")

    def any(self, mask: str) -> str:
        return self.value(f"icmp ne i{self.width} {self.mask_bits(mask)}, 0")

    def all(self, mask: str) -> str:
        return self.value(f"icmp eq i{self.width} {self.mask_bits(mask)}, -1")

    # ops

    def region(self, region: Region) -> None:
        memory.group(self, region)
        for op in region.ops:
            self.vectors.pop(op, None)  # of an earlier emission of the same body
        with self.aside():
            for op in region.ops:
                self.op(op)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A block that does not dominate what follows: vectors made in it are not for use behind it."""
        outer, self.copies = self.copies, []
        outer_keys, self.offset_keys = self.offset_keys, []
        yield
        for v in self.copies:
            self.vectors.pop(v, None)
        for key in self.offset_keys:
            del self.offsets[key]
        self.copies, self.offset_keys = outer, outer_keys

    def op(self, op: Op) -> None:
        handler = _LANES.get(op.kind)
        if handler is not None:
            handler(self, op)
        elif self.stride(op) is not VARYING:
            super().region(Region([op]))
        elif op.kind in emit_ops.TABLE:
            self.vectors[op] = self.elementwise(op)
        else:
            _VECTOR[op.kind](self, op)

    def elementwise(self, op: Op) -> str:
        t: Scalar = op.operands[0].type  # type: ignore[assignment]
        operands = [self.vector(v) for v in op.operands]
        self.on_vectors = True
        if op.kind in _DIVISIONS and t.is_int and self.mask and op.operands[1].kind != "const":
            operands[1] = self.chosen(self.mask, self.type(t), operands[1], self.number(t, 1))
        result = emit_ops.TABLE[op.kind](self, t, operands)
        self.on_vectors = False
        return result

    def vector_cast(self, op: Op) -> None:
        v = op.operands[0]
        operand = self.vector(v)
        self.on_vectors = True
        self.vectors[op] = emit_ops.cast(self, v.type, op.type, operand)  # type: ignore[arg-type]
        self.on_vectors = False

    def vector_bitcast(self, op: Op) -> None:
        v = op.operands[0]
        a, b = self.vector_type(v.type), self.vector_type(op.type)
        operand = self.vector(v)
        self.vectors[op] = operand if a == b else self.value(f"bitcast {a} {operand} to {b}")

    def vector_select(self, op: Op) -> None:
        condition, a, b = op.operands
        vt = self.vector_type(op.type)
        x, y = self.vector(a), self.vector(b)
        if self.stride(condition) == 0:
            self.vectors[op] = self.value(f"select i1 {self.names[condition]}, {vt} {x}, {vt} {y}")
        else:
            self.vectors[op] = self.chosen(self.vector(condition), vt, x, y)

    def vector_bits(self, op: Op) -> None:
        vt = self.vector_type(op.type)
        total = ""
        for k, v in enumerate(op.operands):
            one = self.value(f"zext <{self.width} x i1> {self.vector(v)} to {vt}")
            one = self.value(f"shl {vt} {one}, splat (i32 {k})") if k else one
            total = self.value(f"or {vt} {total}, {one}") if total else one
        self.vectors[op] = total

    def vector_address(self, op: Op) -> None:
        p, offset = op.operands
        offsets = self.vector(offset)
        base = f"ptr {self.names[p]}" if self.stride(p) == 0 else f"<{self.width} x ptr> {self.vector(p)}"
        self.vectors[op] = self.value(f"getelementptr i8, {base}, <{self.width} x i64> {offsets}")

    # faults

    def fault(self, op: Op) -> None:
        vectors = [self.vector(v) for v in op.operands]
        lane, finish = memory.each_lane(self)
        thread = self.value(f"add i64 %i, {lane}")
        values = [self.lane(f"<{self.width} x i64>", vector, lane) for vector in vectors]
        self.note_fault(op, thread, values)
        finish()

    # slots

    def slot_place(self, slot: Op) -> str:
        """Memory of a slot, made at its first use: inside and outside of an aligned loop it may differ in kind."""
        varying = self.stride(slot) is VARYING
        name = self.slots.get((slot, varying))
        if name is None:
            kind = self.vector_type(slot.type) if varying else self.register_type(slot.type)
            name = self.slots[slot, varying] = self.alloca(kind)
        return name

    def slot(self, op: Op) -> None:
        pass

    def get(self, op: Op) -> None:
        if self.stride(op) is not VARYING:
            super().get(op)
        else:
            place = self.slot_place(op.operands[0])
            self.vectors[op] = self.value(f"load {self.vector_type(op.type)}, ptr {place}")

    def set(self, op: Op) -> None:
        slot, v = op.operands
        if self.stride(slot) is not VARYING:
            super().set(op)
            return
        place, vt, new = self.slot_place(slot), self.vector_type(v.type), self.vector(v)
        if self.mask and self.analysis.misses(op):
            new = self.chosen(self.mask, vt, new, self.value(f"load {vt}, ptr {place}"))
        self.lines.append(f"  store {vt} {new}, ptr {place}")



_L = Lanes
_VECTOR: dict[str, Callable[[Lanes, Op], None]] = {
    "cast": _L.vector_cast, "bitcast": _L.vector_bitcast, "select": _L.vector_select, "bits": _L.vector_bits,
    "address": _L.vector_address,
}  # fmt: skip
_LANES: dict[str, Callable[[Lanes, Op], None]] = {
    "slot": _L.slot, "get": _L.get, "set": _L.set, "local": memory.local, "local_load": memory.local_load,
    "local_store": memory.local_store, "load": memory.load, "store": memory.store, "atomic": memory.atomic,
    "fault": _L.fault, "if": control.if_, "for": control.for_, "while": control.while_,
}  # fmt: skip
