"""Emits MIR as LLVM text for an NVIDIA GPU: one GPU thread for each thread of the launch (MIR to LLVM).

    .entry name(.param .b8 block[N]):   i = block × threads + thread;   if i < size: the kernel's body for thread i

`block` is the launch block that `context.packer` makes, byte for byte: 32 bytes of header (unused, size, address of an
int32 count or 0, unused), then dimensions and slots as in `emit_thread.ABI`. What a thread computes is the code of the
thread shape; this file says what differs: where parameters, pointers, text and thread indices come from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.compiler import emit_ops, faults
from engine.compiler.diagnostics import error_at
from engine.compiler.emit_thread import SLOT_BYTES, STRUCTURE, WARP, Thread, abi, check_features, quoted
from engine.compiler.ir import OBSERVED, Function, Location, Op, Region
from engine.compiler.ops import needs_block
from engine.compiler.target_ptx import MAX_THREADS, STATIC_SHARED
from engine.compiler.types import LocalArray, Pointer, Scalar, Type, int64

HEADER_BYTES = 32
SIZE_AT, COUNT_AT = 8, 16  # in the header
PARAMETER_BYTES = 4096  # of a kernel before PTX 8.1: a larger block stays in memory, the parameter is its address
VOTE = "llvm.nvvm.vote.{}.sync"
MAX_COLUMN = 65_535  # of a line, that LLVM takes
LOCAL_BYTES = 512 * 1024  # of one thread, on every architecture
OBSERVED_MARK = "weft.observe"


@dataclass(frozen=True)
class GpuOptions:
    """What a kernel may ask of the GPU's compiler; None leaves it the choice."""

    max_threads: int | None = None  # largest block that it will be launched with
    min_blocks: int | None = None  # blocks that an SM must have room for
    max_registers: int | None = None  # of a thread
    grid_stride: bool = False  # threads go on with i + grid size until the launch is done: any grid size does
    lineinfo: bool = True  # say which line of Python an instruction comes from
    observe: bool = False  # say in comments which register a name of Python is put into, for a debugger

    @classmethod
    def of_kernel(cls, options: Mapping[str, Any]) -> GpuOptions:
        """From the options given to `@kernel`. Raises ValueError for what no GPU has."""
        bounds = options.get("launch_bounds")
        pair = tuple(bounds) if isinstance(bounds, tuple | list) else (bounds, None)
        if len(pair) not in (1, 2):
            raise ValueError(f"launch_bounds is threads or (threads, blocks), got {bounds!r}")
        return cls(
            _number("launch_bounds", pair[0], MAX_THREADS),
            _number("launch_bounds", pair[1] if len(pair) == 2 else None, 32),
            _number("max_registers", options.get("max_registers"), 255),
            bool(options.get("grid_stride", False)),
            bool(options.get("lineinfo", True)),
            bool(options.get("observe", False)),
        )


class Sharing(NamedTuple):
    """How a block runs what is one thread of the launch (see `cooperate`)."""

    threads: int  # the most that have work
    bytes: int  # of shared memory

    @property
    def dynamic(self) -> int:
        """Bytes of it that a launch has to give: all, where a kernel may not declare so many."""
        return self.bytes if self.bytes > STATIC_SHARED else 0


def _number(name: str, value: Any, largest: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
        raise ValueError(f"{name} takes whole numbers from 1 to {largest}, got {value!r}")
    return value


def entry_name(kernel: str) -> str:
    """The name of a kernel's entry in PTX."""
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in kernel)
    return f"{'_' * name[:1].isdigit()}{name}_kernel"


def block_bytes(fn: Function) -> int:
    """Size of the launch block of a MIR kernel, header included."""
    return HEADER_BYTES + abi(fn).size


def emit_ptx(fn: Function, symbol: str, options: GpuOptions, sharing: Sharing | None = None) -> str:
    """The LLVM module, as text, with the entry named `symbol`. With `sharing`, a block runs what else a thread does.

    Raises `CompileError` for a feature that GPUs lack: LLVM itself would end the process.
    """
    check_features(fn)
    check_memory(fn)
    for op in fn.body.walk():
        if options.grid_stride and needs_block(op):
            reason = "exclude each other: threads of a block would reach it different numbers of times"
            raise error_at(fn, op.loc, f"{needs_block(op)}() and grid_stride {reason}")
    return Gpu(fn, options, sharing).module(symbol)


def check_memory(fn: Function) -> None:
    """Refuses more local or shared arrays than a GPU has room for."""
    limits = {False: (LOCAL_BYTES, "local", "thread of a GPU"), True: (STATIC_SHARED, "shared", "block of threads")}
    total = {False: 0, True: 0}
    for op in fn.body.walk():
        if op.kind == "local" and "at" not in op.attrs:
            shared = bool(op.attrs.get("shared"))
            total[shared] += padded(op)
            most, kind, owner = limits[shared]
            if total[shared] > most:
                raise error_at(fn, op.loc, f"the {kind} arrays of '{fn.name}' take more than the {most} bytes "
                                      f"that a {owner} has")  # fmt: skip


def padded(op: Op) -> int:
    """Bytes of a local or shared array, in whole vectors of 16."""
    return -(-op.type.size * op.type.dtype.size // 16) * 16  # type: ignore[attr-defined]


def _register(name: str) -> str:
    return f"llvm.nvvm.read.ptx.sreg.{name}.x"


def _extreme(name: str) -> emit_ops.Entry:
    """min and max of floats are single instructions here: a NaN operand is ignored and -0 < +0."""

    def emit(e: emit_ops.Emitter, t: Scalar, v: list[str]) -> str:
        if not t.is_float:
            return emit_ops.TABLE[name](e, t, v)
        lt = e.type(t)
        return e.intrinsic(f"llvm.{name}imumnum.{e.suffix(t)}", lt, *[f"{lt} {x}" for x in v])

    return emit


class Gpu(Thread):
    """The emitter: the thread shape's, with what is said above in its place."""

    table = {**emit_ops.TABLE, "min": _extreme("min"), "max": _extreme("max")}
    dims_at = HEADER_BYTES
    order = 'syncscope("device") monotonic'
    fault_function = faults.NOTE_FAULT.replace("noinline cold", "alwaysinline")

    def __init__(self, fn: Function, options: GpuOptions, sharing: Sharing | None = None):
        super().__init__(fn)
        self.options, self.sharing = options, sharing
        self.shared: list[str] = []
        self.packing = ""  # what arrays with a place in the block's memory lie in
        self.unchanged = set(unchanged_pointers(fn))
        self.constant = self.node("!{}")
        self.debug = LineInfo(self) if options.lineinfo else None
        used = {op.kind for op in fn.body.walk()}
        # whether blocks are those of the hardware
        self.together = sharing is not None or any(map(needs_block, fn.body.walk()))
        self.by_warps = bool(used & {"shuffle", "vote"}) or any(
            op.kind == "barrier" and op.attrs["scope"] == "warp" for op in fn.body.walk()
        )

    # the module

    def module(self, symbol: str) -> str:
        lines = self.function(symbol)
        named = self.debug.named if self.debug else []
        return "\n".join([*lines, *self.declarations.values(), *named, *self.metadata, ""])

    def function(self, symbol: str, linkage: str = "") -> list[str]:
        size = block_bytes(self.fn)
        self.parameters()
        self.alias_scopes()
        head, tail = self.guard()
        self.thread_indices()
        self.block_values()
        self.region(self.fn.body)
        signature = self.signature(symbol, size, size <= PARAMETER_BYTES)
        subprogram = f" !dbg {self.debug.subprogram}" if self.debug else ""
        head = [f"define {signature} {self.attributes()}{subprogram} {{", "entry:", *self.entry, *head]
        return [*head, *self.lines, *tail]

    def signature(self, symbol: str, size: int, by_value: bool) -> str:
        parameter = f"ptr byval([{size} x i8]) align 8 %params" if by_value else "ptr noalias readonly align 8 %params"
        return f"ptx_kernel void @{symbol}({parameter})"

    def attributes(self) -> str:
        o = self.options
        bounds = {"maxntid": o.max_threads, "minctasm": o.min_blocks, "maxnreg": o.max_registers}
        return " ".join(["nounwind", *[f'"nvvm.{name}"="{n}"' for name, n in bounds.items() if n is not None]])

    def guard(self) -> tuple[list[str], list[str]]:
        """The lines around the body: the thread's number %i, in 64 bits, and the test that the launch has it."""
        size = self.parameter(SIZE_AT - HEADER_BYTES, "i64", int64)
        count = self.new_name()
        self.entry.append(f"  {count}.at = getelementptr inbounds i8, ptr %params, i64 {COUNT_AT}")
        self.entry.append(f"  {count} = load ptr addrspace(1), ptr {count}.at, align 8")
        self.launch_registers()
        self.declarations["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
        start = [
            "  %first = mul nuw nsw i64 %ctaid, %ntid",
            "  %start = add nuw nsw i64 %first, %tid",
        ]
        head = [
            *(["  %start = add nuw nsw i64 %ctaid, 0"] if self.sharing else start),
            f"  %fixed = icmp eq ptr addrspace(1) {count}, null",
            "  br i1 %fixed, label %sized, label %counted",
            "counted:",
            f"  %count.32 = load i32, ptr addrspace(1) {count}, align 4",
            "  %count = sext i32 %count.32 to i64",
            f"  %fewer = call i64 @llvm.smin.i64(i64 %count, i64 {size})",
            "  br label %sized",
            "sized:",
            f"  %size = phi i64 [ {size}, %entry ], [ %fewer, %counted ]",
        ]
        if self.by_warps:
            head += self.members()
        if not self.options.grid_stride:
            return [*head, "  %some = icmp slt i64 %start, %size", "  br i1 %some, label %thread, label %done",
                    "thread:", "  %i = add i64 %start, 0"], [
                    "  br label %done", "done:", "  ret void", "}"]  # fmt: skip
        return [*head, "  %stride = mul nuw nsw i64 %nctaid, %ntid", "  %some = icmp slt i64 %start, %size",
                "  br i1 %some, label %thread, label %done", "thread:",
                "  %i = phi i64 [ %start, %sized ], [ %i.next, %next ]"], [
                "  br label %next", "next:", "  %i.next = add nuw nsw i64 %i, %stride",
                "  %more = icmp slt i64 %i.next, %size",
                f"  br i1 %more, label %thread, label %done, !llvm.loop {self.thread_loop}",
                "done:", "  ret void", "}"]  # fmt: skip

    def launch_registers(self) -> None:
        """Where the thread stands, and the sizes of its block and (for strides) of the grid."""
        for name in ("tid", "ctaid", "ntid", *(["nctaid"] if self.options.grid_stride else [])):
            self.declarations[_register(name)] = f"declare i32 @{_register(name)}()"
            self.entry += [f"  %{name}.32 = call range(i32 0, -2147483648) i32 @{_register(name)}()",
                           f"  %{name} = zext nneg i32 %{name}.32 to i64"]  # fmt: skip

    def members(self) -> list[str]:
        """A bit for each lane that the launch has: what is left of the last warp when it has no full one."""
        self.declarations[VOTE.format("ballot")] = f"declare i32 @{VOTE.format('ballot')}(i32, i1)"
        return ["  %inside = icmp slt i64 %start, %size",
                f"  %members = call i32 @{VOTE.format('ballot')}(i32 -1, i1 %inside)"]  # fmt: skip

    def parameter(self, offset: int, memory: str, t: Type) -> str:
        """Loads a slot; pointers are those of device memory."""
        if not isinstance(t, Pointer):
            return super().parameter(offset, memory, t)
        global_pointer, name = super().parameter(offset, "ptr addrspace(1)", t), self.new_name()
        self.entry.append(f"  {name} = addrspacecast ptr addrspace(1) {global_pointer} to ptr")
        return name

    def thread_indices(self) -> None:
        """As in the thread shape, in 32 bits: no launch has 2**31 threads, and a GPU is slow to divide 64 bits."""
        wanted = sorted({op.attrs["ndim"] for op in self.fn.body.walk() if op.kind == "tid"})
        if not wanted:
            return
        whole = self.value("trunc nuw nsw i64 %i to i32")
        for ndim in wanted:
            rest = whole
            for axis in range(ndim - 1, 0, -1):
                extent = self.parameter(SLOT_BYTES * axis, "i64", int64)
                narrow = self.value(f"trunc nuw nsw i64 {extent} to i32")
                self.indices[ndim, axis] = self.value(f"urem i32 {rest}, {narrow}")
                rest = self.value(f"udiv i32 {rest}, {narrow}")
            self.indices[ndim, 0] = rest

    def block_values(self) -> None:
        """The hardware's blocks where threads run together; else those that the launch speaks of, as on the CPU."""
        if not self.together:
            super().block_values()
            return
        self.block_names("%tid.32", "%ctaid.32")
        self.places["block_dim"] = "%ntid.32"
        if self.by_warps:
            self.places["warp_lanes"] = self.intrinsic("llvm.ctpop.i32", "i32", "i32 %members")

    # ops

    def region(self, region: Region) -> None:
        if self.debug is None:
            super().region(region)
            return
        for op in region.ops:
            start = len(self.lines)
            super().region(Region([op]))
            if len(self.lines) > start:
                self.debug.attach(op.loc, start)

    def set(self, op: Op) -> None:
        super().set(op)
        slot, v = op.operands
        name = str(slot.attrs.get("name", ""))
        if name.startswith(OBSERVED) and isinstance(v.type, Scalar):
            self._observe(name.removeprefix(OBSERVED), v.type, self.names[v])

    def _observe(self, name: str, t: Scalar, value: str) -> None:
        """A comment with the name, its type and the register that holds it: an assembler reads over it."""
        lt = self.register_type(t)
        if lt in ("i1", "i8"):
            value, lt = self.value(f"zext {lt} {value} to i32"), "i32"
        elif lt == "half" or t.bits == 16:
            value, lt = self.value(f"bitcast {lt} {value} to i16") if lt != "i16" else value, "i16"
        letter = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}[lt]
        text = f"// {OBSERVED_MARK} {name} {t.name} $0;"
        self.lines.append(f'  call void asm sideeffect "{text}", "{letter},~{{memory}}"({lt} {value})')

    def load(self, op: Op) -> None:
        t: Scalar | Pointer = op.type  # type: ignore[assignment]
        pointer = op.operands[0]
        constant = f", !invariant.load {self.constant}" if pointer in self.unchanged else ""
        self.names[op] = self.read(self.place(op, t), t, constant + self.scopes.get(pointer, ""))

    def local(self, op: Op) -> None:
        """Memory of the thread, zeroed 16 bytes at a time: LLVM would clear a large array byte by byte."""
        t = op.type
        assert isinstance(t, LocalArray) and isinstance(t.dtype, Scalar)
        words = padded(op) // 16
        if op.attrs.get("shared"):
            self.names[op] = self.packed(op) if "at" in op.attrs else self.block_array(words)
            return
        name = self.names[op] = self.new_name()
        self.entry.append(f"  {name} = alloca [{words} x <4 x i32>], align 16")
        if op.attrs.get("filled"):
            return
        memory, again, done = self.alloca("i32"), self.label("zero"), self.label("zeroed")
        self.lines.append(f"  store i32 0, ptr {memory}")
        self.jump(again)
        self.start(again)
        word = self.value(f"load i32, ptr {memory}")
        place = self.value(f"getelementptr inbounds <4 x i32>, ptr {name}, i32 {word}")
        self.lines.append(f"  store <4 x i32> zeroinitializer, ptr {place}, align 16")
        following = self.value(f"add nuw nsw i32 {word}, 1")
        self.lines.append(f"  store i32 {following}, ptr {memory}")
        self.branch(self.value(f"icmp ult i32 {following}, {words}"), again, done)
        self.start(done)

    def block_array(self, words: int) -> str:
        """Memory of the block, so many times 16 bytes of it, as a pointer of any space.

        What is more than a kernel may declare is given with the launch.
        """
        name = f"@shared{len(self.shared)}"
        self.shared.append(name)
        declared = words * 16 <= STATIC_SHARED
        linkage, value = ("internal unnamed_addr", " undef") if declared else ("external", "")
        self.declarations[name] = (
            f"{name} = {linkage} addrspace(3) global [{words if declared else 0} x <4 x i32>]{value}, align 16"
        )
        return f"addrspacecast (ptr addrspace(3) {name} to ptr)"

    def packed(self, op: Op) -> str:
        """An array that shares the memory of the block with others."""
        assert self.sharing is not None
        self.packing = self.packing or self.block_array(self.sharing.bytes // 16)
        return f"getelementptr (i8, ptr {self.packing}, i64 {op.attrs['at']})"

    def note_fault(self, op: Op, thread: str, values: list[str]) -> None:
        """As on the CPU, where the launch has a record. The lock is no trap for the threads of a warp since sm_70."""
        note, noted = self.label("note"), self.label("noted")
        at = len(self.lines)
        super().note_fault(op, thread, values)
        call = self.lines[at:]
        del self.lines[at:]
        self.branch(self.value("icmp ne ptr %faults, null"), note, noted)
        self.start(note)
        self.lines += call
        self.jump(noted)
        self.start(noted)

    # threads that work together

    def barrier(self, op: Op) -> None:
        if op.attrs["scope"] == "block":
            self.call("llvm.nvvm.barrier.cta.sync.aligned.all", "i32 0")
        else:
            self.call("llvm.nvvm.bar.warp.sync", f"i32 {self.names[op.operands[0]] if op.operands else '%members'}")

    def call(self, name: str, *typed: str) -> None:
        """Appends a call that gives nothing."""
        self.declarations.setdefault(name, f"declare void @{name}({', '.join(x.split(' ', 1)[0] for x in typed)})")
        self.lines.append(f"  call void @{name}({', '.join(typed)})")

    def vote(self, op: Op) -> None:
        name = VOTE.format(op.attrs["mode"])
        result = "i32" if op.attrs["mode"] == "ballot" else "i1"
        self.names[op] = self.intrinsic(name, result, "i32 %members", f"i1 {self.names[op.operands[0]]}")

    def shuffle(self, op: Op) -> None:
        """The value of the lane asked for where that lane is one of the launch, else the own."""
        t: Scalar = op.type  # type: ignore[assignment]
        mode, own, by = op.attrs["mode"], self.names[op.operands[0]], self.names[op.operands[1]]
        lane = self.places["lane_id"]
        word = {"idx": "", "down": "add", "up": "sub", "xor": "xor"}[mode]
        source = self.value(f"{word} i32 {lane}, {by}") if word else by
        step = op.operands[1]
        if step.kind != "const" or not 0 <= step.attrs["value"] < WARP:
            mode, by = "idx", source  # the other forms look at five bits of the step, whatever its sign
        inside = self.value(f"icmp ult i32 {source}, {WARP}")
        shifted = self.value(f"lshr i32 %members, {self.value(f'and i32 {source}, {WARP - 1}')}")
        there = self.value(f"and i1 {inside}, {self.value(f'trunc i32 {shifted} to i1')}")
        lt, bits = emit_ops.LLVM_TYPES[t.name], 1 if t.kind == "b" else t.bits
        whole = own if lt == f"i{bits}" else self.value(f"bitcast {lt} {own} to i{bits}")
        if bits <= 32:
            word = whole if bits == 32 else self.value(f"zext i{bits} {whole} to i32")
            other = self.moved(mode, word, by, source)
            other = other if bits == 32 else self.value(f"trunc i32 {other} to i{bits}")
        else:
            low, high = self.value(f"trunc i64 {whole} to i32"), self.value(f"lshr i64 {whole}, 32")
            moved = [self.moved(mode, w, by, source) for w in (low, self.value(f"trunc i64 {high} to i32"))]
            wide = [self.value(f"zext i32 {w} to i64") for w in moved]
            other = self.value(f"or i64 {wide[0]}, {self.value(f'shl i64 {wide[1]}, 32')}")
        other = other if lt == f"i{bits}" else self.value(f"bitcast i{bits} {other} to {lt}")
        self.names[op] = self.value(f"select i1 {there}, {lt} {other}, {lt} {own}")

    def moved(self, mode: str, word: str, by: str, source: str) -> str:
        """32 bits of the lane asked for, by the step to it; `source` is the lane itself."""
        name = {"idx": "idx", "down": "down", "up": "up", "xor": "bfly"}[mode]
        last = 0 if mode == "up" else WARP - 1
        return self.intrinsic(f"llvm.nvvm.shfl.sync.{name}.i32", "i32", "i32 %members", f"i32 {word}", f"i32 {by}",
                              f"i32 {last}")  # fmt: skip

    # text

    def text(self, content: str) -> str:
        """A constant string in device memory, as a pointer of any space."""
        known = self.texts.get(content)
        if known is None:
            name = super().text(content)
            declared = self.declarations[name]
            self.declarations[name] = declared.replace("unnamed_addr constant", "unnamed_addr addrspace(1) constant")
            known = self.texts[content] = f"addrspacecast (ptr addrspace(1) {name} to ptr)"
        return known

    def print(self, op: Op) -> None:
        """One call of `vprintf`, which every driver has: the arguments lie one behind the other as C promotes them.

        There is one stream, so what is meant for stderr comes out with the rest.
        """
        fields, values = [], []
        for v in op.operands:
            t: Scalar = v.type  # type: ignore[assignment]
            if t.kind == "b":
                true, false = self.text("True"), self.text("False")
                values.append(self.value(f"select i1 {self.names[v]}, ptr {true}, ptr {false}"))
                fields.append("ptr")
            else:
                values.append(self.names[v])
                fields.append(emit_ops.LLVM_TYPES[t.name])
        layout = f"{{ {', '.join(fields)} }}"
        arguments = self.alloca(layout) if fields else "null"
        for k, (field, value) in enumerate(zip(fields, values, strict=True)):
            at = self.value(f"getelementptr inbounds {layout}, ptr {arguments}, i32 0, i32 {k}")
            self.lines.append(f"  store {field} {value}, ptr {at}")
        self.declarations["vprintf"] = "declare i32 @vprintf(ptr, ptr)"
        self.value(f"call i32 @vprintf(ptr {self.text(op.attrs['format'])}, ptr {arguments})")


def _nothing(_emitter: Gpu, _op: Op) -> None:
    """For `prefetch`: other warps work while one waits."""


Gpu.structure = {**STRUCTURE, "load": Gpu.load, "local": Gpu.local, "print": Gpu.print, "set": Gpu.set,
                 "fault": Gpu.fault, "prefetch": _nothing, "barrier": Gpu.barrier, "shuffle": Gpu.shuffle,
                 "vote": Gpu.vote}  # fmt: skip


def unchanged_pointers(fn: Function) -> Iterator[Op]:
    """The pointer parameters whose memory surely stays as it is while the kernel runs: `ld.global.nc` may read it.

    Any two arrays of a launch may share memory, so it takes a kernel that writes to no memory but planes of one table,
    and only the other planes of this table are sure not to be among them.
    """
    written: set[Op] = set()
    for op in fn.body.walk():
        if op.kind in ("store", "atomic"):
            written.add(op.operands[0])
    pointers = [p for p in fn.params if isinstance(p.type, Pointer)]
    if not written:
        yield from pointers
    elif len({p.attrs.get("index") for p in written}) == 1 and all(is_plane(p) for p in written):
        table = next(iter(written)).attrs["index"]
        yield from (p for p in pointers if is_plane(p) and p.attrs["index"] == table and p not in written)


def is_plane(p: Op) -> bool:
    """Whether a value is the pointer to a plane of a table that the kernel is given."""
    return p.kind == "param" and p.attrs["path"][:1] == ("field",)


class LineInfo:
    """Debug metadata of one module, of the kind that gives `.loc` lines and nothing else."""

    def __init__(self, emitter: Gpu):
        fn = emitter.fn
        self.emitter = emitter
        self.files: dict[str, str] = {}
        self.scopes: dict[str, str] = {}
        self.places: dict[Location, str] = {}
        self.file = fn.file or "<kernel>"
        node = emitter.node
        own = self.file_node(self.file)
        unit = node(f'distinct !DICompileUnit(language: DW_LANG_Python, file: {own}, producer: "weft", '
                    "isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)")  # fmt: skip
        kind = node("!DISubroutineType(types: !{})")
        self.subprogram = node(
            f'distinct !DISubprogram(name: "{quoted(fn.name.encode())}", scope: {own}, file: {own}, line: {fn.line}, '
            f"type: {kind}, scopeLine: {fn.line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})"
        )
        self.scopes[self.file] = self.subprogram
        version = node('!{i32 2, !"Debug Info Version", i32 3}')
        self.named = [f"!llvm.dbg.cu = !{{{unit}}}", f"!llvm.module.flags = !{{{version}}}"]

    def file_node(self, path: str) -> str:
        known = self.files.get(path)
        if known is None:
            folder, name = os.path.split(path)
            text = f'!DIFile(filename: "{quoted(os.fsencode(name))}", directory: "{quoted(os.fsencode(folder))}")'
            known = self.files[path] = self.emitter.node(text)
        return known

    def scope(self, path: str) -> str:
        """The kernel, for a line of its own file; what is inlined from another file has a block of that file."""
        known = self.scopes.get(path)
        if known is None:
            file = self.file_node(path)
            text = f"!DILexicalBlockFile(scope: {self.subprogram}, file: {file}, discriminator: 0)"
            known = self.scopes[path] = self.emitter.node(text)
        return known

    def attach(self, loc: Location | None, start: int) -> None:
        """Gives the lines from `start` on the place `loc`, but those that have one already."""
        if loc is None:
            return
        place = self.places.get(loc)
        if place is None:
            scope = self.scope(loc.file or self.file)
            text = f"!DILocation(line: {loc.line}, column: {min(loc.column, MAX_COLUMN)}, scope: {scope})"
            place = self.places[loc] = self.emitter.node(text)
        lines = self.emitter.lines
        for k in range(start, len(lines)):
            line = lines[k]
            if line[0] == " " and "!dbg" not in line:
                lines[k] = f"{line}, !dbg {place}"
