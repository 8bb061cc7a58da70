"""Emits MIR as LLVM text in the thread shape: a loop over thread indices around scalar code (MIR to LLVM).

    void name(ptr params, i64 begin, i64 end):   for i in [begin, end): the kernel's body for thread i

`params` is the packed launch: four int64 dimensions, then 8 bytes for each used leaf of the parameters (`ABI`). All of
it is read once, before the loop. Slots become allocas of the entry block, which LLVM turns into SSA values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.compiler import emit_ops, faults
from engine.compiler.diagnostics import error_at
from engine.compiler.emit_ops import LLVM_TYPES, literal
from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import ELEMENTWISE, needs_block
from engine.compiler.types import LocalArray, Path, Pointer, Scalar, Type, float32, int64
from engine.errors import InternalError

WARP, WARP_BITS = 32, 5  # threads of a warp
DIMS_BYTES = 32  # the launch dimensions, before the slots
SLOT_BYTES = 8
MAX_DIMS = 4


@dataclass(frozen=True)
class Slot:
    """One 8-byte place in the parameter block."""

    param: int  # index of the kernel parameter
    path: Path  # which of its leaves, as in `types.leaves`
    type: Type
    offset: int  # bytes from the start of the block


@dataclass(frozen=True)
class ABI:
    """How a launch packs its parameters: dimensions in bytes 0 … 31, then the slots."""

    slots: tuple[Slot, ...]

    @property
    def size(self) -> int:
        return DIMS_BYTES + SLOT_BYTES * len(self.slots)


def quoted(data: bytes) -> str:
    """Bytes as they stand between quotes in LLVM text."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)


def abi(fn: Function) -> ABI:
    """The parameter block of a MIR kernel."""
    return ABI(
        tuple(
            Slot(p.attrs["index"], p.attrs["path"], p.type, DIMS_BYTES + SLOT_BYTES * k)
            for k, p in enumerate(fn.params)
        )
    )


def emit(fn: Function, symbol: str) -> str:
    """The LLVM module, as text, with the range function named `symbol`.

    Raises `CompileError` for a feature that this shape lacks: LLVM itself would end the process.
    """
    check_features(fn)
    return Thread(fn).module(symbol)


def check_features(fn: Function) -> None:
    """Refuses what LLVM cannot select on a CPU, with the place in the user's source."""
    for op in fn.body.walk():
        kind = op.kind
        reason = ""
        if kind in ELEMENTWISE or kind == "cast" or needs_block(op):
            continue
        if kind == "atomic":
            t = op.type
            if t.kind == "b" or t.kind == "f" and op.attrs["op"] in ("and", "or", "xor"):  # type: ignore[attr-defined]
                reason = f"atomic_{op.attrs['op']} is not defined on {t!r}"
        elif kind not in STRUCTURE:
            raise InternalError(f"emit_thread has no rule for `{kind}`")
        if reason:
            raise error_at(fn, op.loc, reason)


VECTOR_LINE = 8  # from so many iterations on, a loop over a line of a tile is left to the vectoriser


class Thread:
    """The emitter. What other targets have in another form (`emit_ptx`) is a method or one of these values."""

    table = emit_ops.TABLE
    structure: ClassVar[dict[str, Callable[[Any, Op], Any]]]  # `STRUCTURE` below, which names this class's methods
    dims_at = 0  # where the launch dimensions begin in the block that the code is given
    order = "monotonic"  # of atomics
    fault_function = faults.NOTE_FAULT
    index = "%i"  # of the thread in the launch

    def __init__(self, fn: Function):
        self.fn = fn
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.names: dict[Op, str] = {}
        self.declarations: dict[str, str] = {}
        self.scopes: dict[Op, str] = {}
        self.metadata: list[str] = []
        self.texts: dict[str, str] = {}
        self.counter = 0
        self.labels = 0
        self.sites: dict[Op, int] = {}  # of faults; filled by the first
        self.indices: dict[tuple[int, int], str] = {}  # (ndim, axis) → this thread's index
        self.places: dict[str, str] = {}  # block values by name
        # Unrolling by a run-time trip count triples the time to compile and is worth next to nothing here.
        self.once = self.node('!{!"llvm.loop.unroll.disable"}')
        self.whole = self.node('!{!"llvm.loop.unroll.runtime.disable"}')
        self.thread_loop = self.loop_node(self.once)
        self.has_tiles = any(op.attrs.get("tile") for op in fn.body.walk())

    # the module

    def module(self, symbol: str) -> str:
        return "\n".join([*self.function(symbol), *self.declarations.values(), *self.metadata, ""])

    def function(self, symbol: str, linkage: str = "") -> list[str]:
        """The lines of the range function; `linkage` is "internal " where another function of the module calls it."""
        self.parameters()
        self.alias_scopes()
        self.thread_indices()
        self.block_values()
        self.region(self.fn.body)
        apart = " noinline" if linkage else ""
        signature = f"{linkage}void @{symbol}(ptr noalias readonly %params, i64 %begin, i64 %end)"
        head = [f"define {signature} nounwind{apart} {{", "entry:"]
        loop = ["  %some = icmp slt i64 %begin, %end", "  br i1 %some, label %thread, label %done", "thread:",
                "  %i = phi i64 [ %begin, %entry ], [ %i.next, %next ]"]  # fmt: skip
        tail = [
            "  br label %next",
            "next:",
            "  %i.next = add nsw i64 %i, 1",
            "  %more = icmp slt i64 %i.next, %end",
            f"  br i1 %more, label %thread, label %done, !llvm.loop {self.thread_loop}",
            "done:",
            *(["  call i32 @fflush(ptr null)"] if "fflush" in self.declarations else []),
            "  ret void",
            "}",
        ]
        return [*head, *self.entry, *loop, *self.lines, *tail]

    def parameters(self) -> None:
        for slot, p in zip(abi(self.fn).slots, self.fn.params, strict=True):
            self.names[p] = self.parameter(slot.offset, self.memory_type(p.type), p.type)

    def parameter(self, offset: int, memory: str, t: Type) -> str:
        """Loads a slot of the parameter block in the entry."""
        place, name = self.new_name(), self.new_name()
        align = 8 if offset < DIMS_BYTES or isinstance(t, Pointer) else t.size  # type: ignore[attr-defined]
        self.entry.append(f"  {place} = getelementptr inbounds i8, ptr %params, i64 {self.dims_at + offset}")
        self.entry.append(f"  {name} = load {memory}, ptr {place}, align {align}")
        if memory == "i8" and t.kind == "b":  # type: ignore[attr-defined]
            truth = self.new_name()
            self.entry.append(f"  {truth} = icmp ne i8 {name}, 0")
            return truth
        return name

    @staticmethod
    def memory_type(t: Type) -> str:
        if isinstance(t, Pointer):
            return "ptr"
        return "i8" if t.kind == "b" else LLVM_TYPES[t.name]  # type: ignore[attr-defined]

    def alias_scopes(self) -> None:
        """Planes of one table never overlap: tell LLVM, so that it may keep values in registers across stores."""
        tables: dict[int, list[Op]] = {}
        for p in self.fn.params:
            if p.attrs["path"][:1] == ("field",):
                tables.setdefault(p.attrs["index"], []).append(p)
        for index, planes in tables.items():
            if len(planes) < 2:
                continue
            domain = self.node(f'distinct !{{SELF, !"table {index}"}}')
            scopes = [self.node(f"distinct !{{SELF, {domain}}}") for _ in planes]
            for k, p in enumerate(planes):
                own = self.node(f"!{{{scopes[k]}}}")
                others = self.node(f"!{{{', '.join(s for j, s in enumerate(scopes) if j != k)}}}")
                self.scopes[p] = f", !alias.scope {own}, !noalias {others}"

    def node(self, text: str) -> str:
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = {text.replace('SELF', name)}")
        return name

    def loop_node(self, hint: str) -> str:
        own = f"!{len(self.metadata)}"
        return self.node(f"distinct !{{{own}, {hint}}}")

    def thread_indices(self) -> None:
        """The indices that `tid` ops ask for, computed at the top of the thread; the last axis runs fastest."""
        wanted = sorted({op.attrs["ndim"] for op in self.fn.body.walk() if op.kind == "tid"})
        for ndim in wanted:
            rest = self.index
            for axis in range(ndim - 1, 0, -1):
                extent = self.parameter(SLOT_BYTES * axis, "i64", int64)
                wide = self.value(f"urem i64 {rest}, {extent}")
                rest = self.value(f"udiv i64 {rest}, {extent}")
                self.indices[ndim, axis] = self.value(f"trunc nuw nsw i64 {wide} to i32")
            # no launch has 2**31 threads along an axis; saying so lets an index widen again for free
            self.indices[ndim, 0] = self.value(f"trunc nuw nsw i64 {rest} to i32")

    def block_values(self) -> None:
        """What `block_value` ops ask for, computed at the top of the thread."""
        sizes = {op.operands[0] for op in self.fn.body.walk() if op.kind == "block_value"}
        for size in sizes:
            some = self.intrinsic("llvm.umax.i32", "i32", f"i32 {self.names[size]}", "i32 1")
            index = self.value("trunc i64 %i to i32")
            self.block_names(self.value(f"urem i32 {index}, {some}"), self.value(f"udiv i32 {index}, {some}"))

    def block_names(self, thread: str, block: str) -> None:
        """Names all block values, from the thread's place in its block and the block's number."""
        lane = self.value(f"and i32 {thread}, {WARP - 1}")
        warp = self.value(f"lshr i32 {thread}, {WARP_BITS}")
        self.places = {"thread_id": thread, "block_id": block, "lane_id": lane, "warp_id": warp}

    def block_value(self, op: Op) -> None:
        self.names[op] = self.places[op.attrs["name"]]

    # what the entries of emit_ops use

    def type(self, t: Scalar) -> str:
        return LLVM_TYPES[t.name]

    def bits_type(self, bits: int) -> str:
        return f"i{bits}"

    def suffix(self, t: Scalar) -> str:
        return f"{'f' if t.kind == 'f' else 'i'}{t.bits}"

    def number(self, t: Scalar, value: Any) -> str:
        return literal(t, value)

    def new_name(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def value(self, text: str) -> str:
        self.counter += 1
        name = f"%v{self.counter}"
        self.lines.append(f"  {name} = {text}")
        return name

    def intrinsic(self, name: str, result: str, *typed: str) -> str:
        if name not in self.declarations:
            types = ", ".join([t[: t.index("> ") + 1] if t[0] == "<" else t.split(" ", 1)[0] for t in typed])
            self.declarations[name] = f"declare {result} @{name}({types})"
        return self.value(f"call {result} @{name}({', '.join(typed)})")

    def quotient(self, t: Scalar, a: str, b: str) -> str:
        return self.value(f"{'udiv' if t.kind == 'u' else 'sdiv'} {self.type(t)} {a}, {b}")

    def remainder(self, t: Scalar, a: str, b: str) -> str:
        return self.value(f"{'urem' if t.kind == 'u' else 'srem'} {self.type(t)} {a}, {b}")

    def saturated(self, source: Scalar, to: Scalar, v: str) -> str:
        name = f"llvm.fpto{'s' if to.kind == 'i' else 'u'}i.sat.{self.suffix(to)}.{self.suffix(source)}"
        return self.intrinsic(name, self.type(to), f"{self.type(source)} {v}")

    def label(self, name: str) -> str:
        self.labels += 1
        return f"{name}{self.labels}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    # ops

    def region(self, region: Region) -> None:
        names, table, structure = self.names, self.table, self.structure
        for op in region.ops:
            kind = op.kind
            entry = table.get(kind)
            if entry is not None:
                operands = [names[v] for v in op.operands]
                t: Scalar = op.operands[0].type  # type: ignore[assignment]
                if t.kind == "f" and t.bits == 16:
                    names[op] = self.half(entry, t, op.type, operands)
                else:
                    names[op] = entry(self, t, operands)
            else:
                structure[kind](self, op)

    def half(self, entry: emit_ops.Entry, t: Scalar, result: Type, operands: list[str]) -> str:
        """A primitive on 16-bit floats: computed in float32, then rounded (gradients make such ops)."""
        wide = entry(self, float32, [emit_ops.cast(self, t, float32, x) for x in operands])
        return emit_ops.cast(self, float32, t, wide) if result == t else wide

    def const(self, op: Op) -> None:
        self.names[op] = literal(op.type, op.attrs["value"])  # type: ignore[arg-type]

    def tid(self, op: Op) -> None:
        self.names[op] = self.indices[op.attrs["ndim"], op.attrs["axis"]]

    def cast(self, op: Op) -> None:
        v = op.operands[0]
        self.names[op] = emit_ops.cast(self, v.type, op.type, self.names[v])  # type: ignore[arg-type]

    def pack_bits(self, op: Op) -> None:
        """A vector of the truth values, seen as an integer: from it LLVM makes one comparison of all of them."""
        n, vector = len(op.operands), "poison"
        for k, v in enumerate(op.operands):
            vector = self.value(f"insertelement <{n} x i1> {vector}, i1 {self.names[v]}, i64 {k}")
        packed = self.value(f"bitcast <{n} x i1> {vector} to i{n}")
        self.names[op] = packed if n == 32 else self.value(f"zext i{n} {packed} to i32")

    def bitcast(self, op: Op) -> None:
        v = op.operands[0]
        a, b = LLVM_TYPES[v.type.name], LLVM_TYPES[op.type.name]  # type: ignore[attr-defined]
        self.names[op] = self.names[v] if a == b else self.value(f"bitcast {a} {self.names[v]} to {b}")

    def select(self, op: Op) -> None:
        c, a, b = (self.names[v] for v in op.operands)
        lt = self.register_type(op.type)
        self.names[op] = self.value(f"select i1 {c}, {lt} {a}, {lt} {b}")

    @staticmethod
    def register_type(t: Type) -> str:
        return "ptr" if isinstance(t, Pointer) else LLVM_TYPES[t.name]  # type: ignore[attr-defined]

    def slot(self, op: Op) -> None:
        self.names[op] = self.alloca(self.register_type(op.type))

    def alloca(self, memory: str) -> str:
        """Stack memory in the entry block: LLVM makes a register of it."""
        name = self.new_name()
        self.entry.append(f"  {name} = alloca {memory}")
        return name

    def slot_place(self, slot: Op) -> str:
        return self.names[slot]

    def get(self, op: Op) -> None:
        self.names[op] = self.value(f"load {self.register_type(op.type)}, ptr {self.slot_place(op.operands[0])}")

    def set(self, op: Op) -> None:
        slot, v = op.operands
        self.lines.append(f"  store {self.register_type(v.type)} {self.names[v]}, ptr {self.slot_place(slot)}")

    # text

    def text(self, content: str) -> str:
        """A constant string, ended by a zero byte."""
        name = self.texts.get(content)
        if name is None:
            data = content.encode() + b"\0"
            name = self.texts[content] = f"@text{len(self.texts)}"
            self.declarations[name] = f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{quoted(data)}"'
        return name

    def print(self, op: Op) -> None:
        """One call of the C library's printf, which keeps the output of threads apart."""
        values = []
        for v in op.operands:
            t: Scalar = v.type  # type: ignore[assignment]
            if t.kind == "b":
                shown = self.value(f"select i1 {self.names[v]}, ptr {self.text('True')}, ptr {self.text('False')}")
                values.append(f"ptr {shown}")
            else:
                values.append(f"{LLVM_TYPES[t.name]} {self.names[v]}")
        self.declarations["fflush"] = "declare i32 @fflush(ptr)"
        self.declarations["printf"] = "declare i32 @printf(ptr, ...)"
        arguments = ", ".join([f"ptr {self.text(op.attrs['format'])}", *values])
        self.value(f"call i32 (ptr, ...) @printf({arguments})")

    # faults

    def fault(self, op: Op) -> None:
        self.note_fault(op, self.index, [self.names[v] for v in op.operands])

    def prefetch(self, op: Op) -> None:
        self.declarations["prefetch"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self.lines.append(f"  call void @llvm.prefetch.p0(ptr {self.names[op.operands[0]]}, i32 0, i32 3, i32 1)")

    def note_fault(self, op: Op, thread: str, values: list[str]) -> None:
        """One call for the thread whose index `thread` is; the numbers of a finding are filled up with zeros."""
        if not self.sites:
            self.declarations["note_fault"] = self.fault_function
            self.sites = {site: k for k, site in enumerate(faults.sites(self.fn))}
            at = self.dims_at + faults.HEADER_OFFSET
            self.entry.append(f"  %faults.at = getelementptr i8, ptr %params, i64 {at}")
            self.entry.append("  %faults = load ptr, ptr %faults.at, align 8")
        numbers = [str(faults.count_word(op)), str(faults.finding_word(op)), thread, str(self.sites[op]), *values]
        numbers += ["0"] * (faults.VALUES - len(values))
        self.lines.append(f"  call void @note_fault(ptr %faults, {', '.join(f'i64 {v}' for v in numbers)})")

    # memory

    def local(self, op: Op) -> None:
        t = op.type
        assert isinstance(t, LocalArray) and isinstance(t.dtype, Scalar)
        name = self.names[op] = self.new_name()
        self.entry.append(f"  {name} = alloca [{t.size} x {self.memory_type(t.dtype)}], align 16")
        if not op.attrs.keys() & {"filled", "unset"}:
            self.declarations["memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
            size = t.size * t.dtype.size
            self.lines.append(f"  call void @llvm.memset.p0.i64(ptr align 16 {name}, i8 0, i64 {size}, i1 false)")

    def local_place(self, op: Op) -> tuple[str, Scalar]:
        array, index = op.operands[:2]
        t: Scalar = array.type.dtype  # type: ignore[attr-defined]
        wide = self.wide(index)
        return self.value(f"getelementptr inbounds {self.memory_type(t)}, ptr {self.names[array]}, i64 {wide}"), t

    def local_load(self, op: Op) -> None:
        place, t = self.local_place(op)
        self.names[op] = self.read(place, t, "")

    def local_store(self, op: Op) -> None:
        place, t = self.local_place(op)
        self.write(place, t, self.names[op.operands[2]], "")

    def wide(self, index: Op) -> str:
        """An index as i64 text."""
        t: Scalar = index.type  # type: ignore[assignment]
        if index.kind == "const":
            return str(index.attrs["value"])
        return emit_ops.cast(self, t, int64, self.names[index])

    def read(self, place: str, t: Scalar | Pointer, scope: str) -> str:
        if isinstance(t, Scalar) and t.kind == "b":
            return self.value(f"icmp ne i8 {self.value(f'load i8, ptr {place}, align 1{scope}')}, 0")
        return self.value(f"load {self.register_type(t)}, ptr {place}, align {t.size}{scope}")

    def write(self, place: str, t: Scalar | Pointer, v: str, scope: str) -> None:
        if isinstance(t, Scalar) and t.kind == "b":
            v = self.value(f"zext i1 {v} to i8")
        self.lines.append(f"  store {self.memory_type(t)} {v}, ptr {place}, align {t.size}{scope}")

    def place(self, op: Op, t: Scalar | Pointer) -> str:
        """Address of the accessed scalar."""
        n, offset = op.attrs["ndim"], op.attrs["offset"]
        base = self.names[op.operands[0]]
        indices, strides = op.operands[1 : 1 + n], op.operands[1 + n : 1 + 2 * n]
        if n == 1 and not offset and strides[0].kind == "const" and strides[0].attrs["value"] == t.size:
            return self.value(f"getelementptr inbounds {self.memory_type(t)}, ptr {base}, i64 {self.wide(indices[0])}")
        total = ""
        for index, stride in zip(indices, strides, strict=True):
            term = self.value(f"mul nsw i64 {self.wide(index)}, {self.names[stride]}")
            total = self.value(f"add nsw i64 {total}, {term}") if total else term
        element = self.value(f"getelementptr inbounds i8, ptr {base}, i64 {total}")
        return self.value(f"getelementptr inbounds i8, ptr {element}, i64 {offset}") if offset else element

    def load(self, op: Op) -> None:
        t: Scalar | Pointer = op.type  # type: ignore[assignment]
        self.names[op] = self.read(self.place(op, t), t, self.scopes.get(op.operands[0], ""))

    def store(self, op: Op) -> None:
        v = op.operands[-1]
        t: Scalar | Pointer = v.type  # type: ignore[assignment]
        self.write(self.place(op, t), t, self.names[v], self.scopes.get(op.operands[0], ""))

    def address(self, op: Op) -> None:
        p, offset = (self.names[v] for v in op.operands)
        self.names[op] = self.value(f"getelementptr i8, ptr {p}, i64 {offset}")

    def local_pointer(self, op: Op) -> None:
        self.names[op] = self.names[op.operands[0]]

    def pointer_to_int(self, op: Op) -> None:
        self.names[op] = self.value(f"ptrtoint ptr {self.names[op.operands[0]]} to i64")

    def int_to_pointer(self, op: Op) -> None:
        self.names[op] = self.value(f"inttoptr i64 {self.names[op.operands[0]]} to ptr")

    def atomic(self, op: Op) -> None:
        count = 2 if op.attrs["op"] == "cas" else 1
        place = self.place(op, op.type)  # type: ignore[arg-type]
        self.names[op] = self.atomic_at(op, place, [self.names[v] for v in op.operands[-count:]])

    def atomic_at(self, op: Op, place: str, v: list[str]) -> str:
        """The old value; `v` is the operand (cas: the expected value and the new one)."""
        t: Scalar = op.type  # type: ignore[assignment]
        lt, name = LLVM_TYPES[t.name], op.attrs["op"]
        if name == "cas":
            return self.exchange(place, t, v[0], v[1])[0]
        if t.is_float and (name in ("min", "max") or (t.bits == 16 and name != "exch")):
            return self.update(place, t, v[0], name)
        if name == "exch" and t.name == "float16":
            bits = self.value(f"bitcast half {v[0]} to i16")
            found = self.value(f"atomicrmw xchg ptr {place}, i16 {bits} {self.order}, align 2")
            return self.value(f"bitcast i16 {found} to half")
        prefix = "f" if t.is_float else "u" if t.kind == "u" and name in ("min", "max") else ""
        word = "xchg" if name == "exch" else prefix + name
        return self.value(f"atomicrmw {word} ptr {place}, {lt} {v[0]} {self.order}, align {t.size}")

    def exchange(self, place: str, t: Scalar, expected: str, new: str) -> tuple[str, str]:
        """Compare and swap: (old value, whether it was exchanged). Floats compare by their bits."""
        lt, it = LLVM_TYPES[t.name], f"i{t.bits}"
        if lt != it and t.is_float:
            expected, new = (self.value(f"bitcast {lt} {x} to {it}") for x in (expected, new))
        pair = self.value(f"cmpxchg ptr {place}, {it} {expected}, {it} {new} {self.order} monotonic, align {t.size}")
        old = self.value(f"extractvalue {{ {it}, i1 }} {pair}, 0")
        done = self.value(f"extractvalue {{ {it}, i1 }} {pair}, 1")
        return (self.value(f"bitcast {it} {old} to {lt}") if lt != it else old), done

    def update(self, place: str, t: Scalar, v: str, name: str) -> str:
        """Float min and max have no instruction: repeat a compare and swap until no other thread came between."""
        lt = LLVM_TYPES[t.name]
        memory = self.alloca(lt)
        it = f"i{t.bits}"
        first = self.value(f"load atomic {it}, ptr {place} {self.order}, align {t.size}")
        if lt != it:
            first = self.value(f"bitcast {it} {first} to {lt}")
        self.lines.append(f"  store {lt} {first}, ptr {memory}")
        again, done = self.label("swap"), self.label("swapped")
        self.jump(again)
        self.start(again)
        old = self.value(f"load {lt}, ptr {memory}")
        found, ok = self.exchange(place, t, old, self.combined(name, t, old, v))
        self.lines.append(f"  store {lt} {found}, ptr {memory}")
        self.branch(ok, done, again)
        self.start(done)
        return old

    def combined(self, name: str, t: Scalar, old: str, v: str) -> str:
        """What an atomic leaves behind; 16-bit floats are computed in float32."""
        if t.bits > 16:
            return self.table[name](self, t, [old, v])
        wide = [emit_ops.cast(self, t, float32, x) for x in (old, v)]
        return emit_ops.cast(self, float32, t, self.table[name](self, float32, wide))

    # control flow

    def if_(self, op: Op) -> None:
        then, other = op.regions
        yes, end = self.label("then"), self.label("end")
        no = self.label("else") if other.ops else end
        self.branch(self.names[op.operands[0]], yes, no)
        self.start(yes)
        self.region(then)
        self.jump(end)
        if other.ops:
            self.start(no)
            self.region(other)
            self.jump(end)
        self.start(end)

    def go_on(self, op: Op, head: str, end: str) -> None:
        """The latch of a loop: leave when its exit slot is true."""
        slot = op.attrs.get("exit")
        if slot is None:
            self.jump(head)
        else:
            self.branch(self.value(f"load i1, ptr {self.slot_place(slot)}"), end, head)
        if op.kind == "while":  # the back edge of a for is behind its latch
            self.lines[-1] += f", !llvm.loop {self.loop_node(self.whole)}"

    def while_(self, op: Op) -> None:
        condition, body = op.regions
        head, inside, end = self.label("while"), self.label("body"), self.label("end")
        self.jump(head)
        self.start(head)
        for inner in condition.ops[:-1]:
            self.region(Region([inner]))
        self.branch(self.names[condition.ops[-1].operands[0]], inside, end)
        self.start(inside)
        self.region(body)
        self.go_on(op, head, end)
        self.start(end)

    def for_(self, op: Op) -> None:
        """A range loop. Steps of 1 and -1 count the variable itself, others count trips: no bound can overflow."""
        start, stop, step = op.operands
        t: Scalar = start.type  # type: ignore[assignment]
        lt, sign = LLVM_TYPES[t.name], "s" if t.kind == "i" else "u"
        by = step.attrs["value"] if step.kind == "const" else None
        memory = self.alloca(lt)
        head, inside, latch, end = (self.label(name) for name in ("for", "body", "latch", "end"))
        if by in (1, -1):
            first, last = self.names[start], self.names[stop]
        else:
            first, last = "0", self.trips(t, *[self.names[v] for v in op.operands])
        self.lines.append(f"  store {lt} {first}, ptr {memory}")
        self.jump(head)
        self.start(head)
        counter = self.value(f"load {lt}, ptr {memory}")
        test = f"{sign}lt" if by == 1 else f"{sign}gt" if by == -1 else "ult"
        self.branch(self.value(f"icmp {test} {lt} {counter}, {last}"), inside, end)
        self.start(inside)
        index = op.regions[0].ops[0]
        self.names[index] = counter
        if by not in (1, -1):
            moved = self.value(f"mul {lt} {counter}, {self.names[step]}")
            self.names[index] = self.value(f"add {lt} {self.names[start]}, {moved}")
        self.region(Region(op.regions[0].ops[1:]))
        self.go_on(op, latch, end)
        self.start(latch)
        wrap = f"n{sign}w " if by == 1 else "nsw " if by == -1 and sign == "s" else "nuw " if by not in (1, -1) else ""
        following = self.value(f"add {wrap}{lt} {counter}, {-1 if by == -1 else 1}")
        self.lines.append(f"  store {lt} {following}, ptr {memory}")
        self.jump(head)
        self.lines[-1] += f", !llvm.loop {self.loop_node(self.once if self.is_line(op) else self.whole)}"
        self.start(end)

    def is_line(self, op: Op) -> bool:
        """Whether a loop goes along a line of a tile: to be kept for the vectoriser, which sees no unrolled loops."""
        if not self.has_tiles or any(v.kind != "const" for v in op.operands):
            return False
        if any(inner.regions for inner in op.regions[0].ops):
            return False
        return len(range(*(v.attrs["value"] for v in op.operands))) >= VECTOR_LINE

    def trips(self, t: Scalar, start: str, stop: str, step: str) -> str:
        """How often a range runs: ceil((stop - start) / step), 0 for a step of 0. Exact as an unsigned number."""
        lt, truth, sign = self.type(t), self.bits_type(1), "s" if t.kind == "i" else "u"
        nought, one = self.number(t, 0), self.number(t, 1)
        up = self.value(f"icmp {sign}gt {lt} {step}, {nought}")
        low = self.value(f"select {truth} {up}, {lt} {start}, {lt} {stop}")
        high = self.value(f"select {truth} {up}, {lt} {stop}, {lt} {start}")
        width = step
        if sign == "s":
            negated = self.value(f"sub {lt} {nought}, {step}")
            width = self.value(f"select {truth} {up}, {lt} {step}, {lt} {negated}")
        runs = self.value(f"icmp {sign}lt {lt} {low}, {high}")
        nonzero = self.value(f"icmp ne {lt} {step}, {nought}")
        some = self.value(f"and {truth} {runs}, {nonzero}")
        safe = self.value(f"select {truth} {nonzero}, {lt} {width}, {lt} {one}")
        span = self.value(f"sub {lt} {high}, {low}")
        whole = self.value(f"udiv {lt} {self.value(f'sub {lt} {span}, {one}')}, {safe}")
        return self.value(f"select {truth} {some}, {lt} {self.value(f'add {lt} {whole}, {one}')}, {lt} {nought}")


_T = Thread
STRUCTURE: dict[str, Callable[[Any, Op], Any]] = {
    "const": _T.const, "tid": _T.tid, "cast": _T.cast, "bitcast": _T.bitcast, "select": _T.select, "bits": _T.pack_bits,
    "slot": _T.slot,
    "block_value": _T.block_value,
    "get": _T.get, "set": _T.set, "local": _T.local, "local_load": _T.local_load, "local_store": _T.local_store,
    "load": _T.load, "store": _T.store, "atomic": _T.atomic, "address": _T.address, "if": _T.if_, "for": _T.for_,
    "while": _T.while_, "print": _T.print, "fault": _T.fault, "prefetch": _T.prefetch,
    "local_pointer": _T.local_pointer,
    "pointer_to_int": _T.pointer_to_int, "int_to_pointer": _T.int_to_pointer, "index": lambda e, op: None,
    "custom": lambda e, op: e.region(op.regions[0]), "condition": lambda e, op: None,
}  # fmt: skip
Thread.structure = STRUCTURE
