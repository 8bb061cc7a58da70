"""A PTX kernel to LLVM text: one function that runs a warp of 32 threads, each register a vector of 32 lanes.

    i32 name(ptr context, ptr warp)      returns ENDED, AT_BARRIER or PAUSED (see `warp_layout`)

Within a basic block registers are SSA values; what lives from block to block lies in the warp's register file. A block
is run for the lanes in %mask. While all lanes that can run agree, blocks jump to each other; where lanes part, each
notes the block that it waits for, and `dispatch` runs the one that comes first in `ptx_flow.loop_order`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.compiler import emit_warp32_memory as emit_warp32_memory  # its rules register themselves
from engine.compiler import types
from engine.compiler.emit_ops import LLVM_TYPES, literal
from engine.compiler.emit_warp32_ops import RULES, TRUTH, Form, form
from engine.compiler.ptx_flow import EXIT, Block, Flow, flow, is_barrier, needs_warp, postdominators, written
from engine.compiler.ptx_parser import (
    SIZES,
    Address,
    Entry,
    Group,
    Imm,
    Instruction,
    Module,
    Operand,
    PtxError,
    Reg,
    Symbol,
    Variable,
)
from engine.compiler.types import Scalar
from engine.compiler.warp_layout import CONTEXT, LANES, LEFT, PAUSED, TRAP, WAITING, WARP

_PLACES = f"<{LANES} x i16>"
_CONSTANT_LANES = {
    "%laneid": list(range(LANES)),
    "%lanemask_eq": [1 << lane for lane in range(LANES)],
    "%lanemask_lt": [(1 << lane) - 1 for lane in range(LANES)],
    "%lanemask_le": [(2 << lane) - 1 for lane in range(LANES)],
    "%lanemask_gt": [(0xFFFFFFFE << lane) & 0xFFFFFFFF for lane in range(LANES)],
    "%lanemask_ge": [(0xFFFFFFFF << lane) & 0xFFFFFFFF for lane in range(LANES)],
}
_SPECIAL = {
    "%ntid.x": "block_x", "%ntid.y": "block_y", "%ntid.z": "block_z", "%ctaid.x": "ctaid_x", "%ctaid.y": "ctaid_y",
    "%ctaid.z": "ctaid_z", "%nctaid.x": "grid_x", "%nctaid.y": "grid_y", "%nctaid.z": "grid_z", "%nwarpid": "warps",
    "%total_smem_size": "shared_size", "%clock": "warp_instructions", "%clock64": "warp_instructions",
    "%globaltimer": "warp_instructions", "%globaltimer_lo": "warp_instructions",
}  # fmt: skip


@dataclass(frozen=True)
class CodeForm:
    """What the code is made for: how lanes are scheduled; for a debugger, where the kernel and its body begin."""

    schedule: str = "loop-aware"
    head: tuple[int, int] = (0, 0)  # lines of the kernel and of its body; (0, 0): nobody wants to stop
    quiet: frozenset[int] = frozenset()  # files whose lines are none to stop at

    def begins(self, instruction: Instruction, before: Instruction | None) -> bool:
        """Whether a basic block has to begin here: where lanes wait for each other, or at a new line."""
        if self.head[1] and before is not None and instruction.loc != before.loc and instruction.loc[1]:
            return True
        return self.schedule == "random" and needs_warp(instruction)


@dataclass(frozen=True)
class Site:
    """One memory access in the text, for reports."""

    line: int  # of the PTX
    loc: tuple[int, int]  # file number and line of the source
    what: str  # "load", "store", "atomic"
    space: str
    size: int  # of the whole access
    parts: int = 1  # elements of a vector, which are accessed one by one


@dataclass
class WarpCode:
    """A kernel as LLVM text, and what a launch has to know about it."""

    name: str
    text: str
    sites: list[Site]
    params: list[tuple[Variable, int]]  # with offsets
    params_size: int
    shared_size: int  # static; dynamic shared memory follows
    local_size: int  # bytes of each thread
    warp_size: int  # bytes of a warp's state
    start: int  # what `next` of a lane is at first
    calls: set[str] = field(default_factory=set)  # functions of the runtime
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    meeting: list[bool] = field(default_factory=list)  # places where lanes wait for the others of the warp
    tree: list[int] = field(default_factory=list)  # parents, then ranks of places among the post-dominators
    lines: list[tuple[int, int]] = field(default_factory=list)  # file and line of each place; (0, 0): not known
    stops: list[tuple[int, int]] = field(default_factory=list)  # the same, (0, 0) where a debugger does not stop
    registers: dict[str, int] = field(default_factory=dict)  # where a warp's state has them
    own_file: int = 0  # number of the file that the kernel begins in


def lay_out(variables: list[Variable], gap: int = 0) -> tuple[dict[str, int], int]:
    """Offset of each variable, one behind the other, and the size of all."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables:
        end = -(-end // max(variable.align, 1)) * max(variable.align, 1)
        offsets[variable.name] = end
        end += variable.size + gap
    return offsets, end


def emit_warp(module: Module, entry: Entry, globals_at: dict[str, int], code_form: CodeForm | None = None) -> WarpCode:
    """The code of one kernel. `globals_at` are the places of the module's variables in its block of memory.

    Raises `PtxError` for whatever there is no rule for.
    """
    return Warp(module, entry, globals_at, code_form or CodeForm()).function()


class Warp:
    """Makes the text; the rules of `emit_warp32_ops` and `emit_warp32_memory` work with it."""

    def __init__(self, module: Module, entry: Entry, globals_at: dict[str, int], code_form: CodeForm):
        self.module, self.entry, self.form = module, entry, code_form
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.calls: set[str] = set()
        self.sites: list[Site] = []
        self.values: dict[str, str] = {}  # register → its bits in this block
        self.typed: dict[str, dict[str, str]] = {}  # register → LLVM type → the same, bitcast
        self.carry = ""  # truth vector of the carry flag
        self.call_arguments: dict[tuple[str, int], tuple[Scalar, str]] = {}
        self.counter = 0
        self.file: dict[str, int] = {}  # register → offset in the warp's state
        self.file_end = WARP["registers"]
        self.guard = ""
        self.mask, self.lanes = "", ""
        self.widens = False
        self.current = entry.line
        self._place_symbols(globals_at)

    def _place_symbols(self, globals_at: dict[str, int]) -> None:
        entry = self.entry
        used = {name for item in entry.body if isinstance(item, Instruction) for name in _symbols(item.operands)}
        shared = [
            v for v in (*self.module.variables.values(), *entry.variables) if v.space == "shared" and v.name in used
        ]
        shared.sort(key=lambda v: v.size == 0)  # dynamic memory, which has no size in the text, comes last
        self.params, self.params_size = lay_out(entry.params)
        shared_at, self.shared_size = lay_out(shared)
        local = [v for v in entry.variables if v.space == "local"]
        local += [v for v in self.module.variables.values() if v.space == "local" and v.name in used]
        local_at, self.local_size = lay_out(local)
        self.symbols: dict[str, tuple[str, int]] = {}
        for space, places in (
            ("global", globals_at),
            ("shared", shared_at),
            ("local", local_at),
            ("param", self.params),
        ):
            self.symbols.update({name: (space, offset) for name, offset in places.items()})

    # text

    def value(self, text: str) -> str:
        self.counter += 1
        self.lines.append(f"  %v{self.counter} = {text}")
        return f"%v{self.counter}"

    def type(self, t: Scalar) -> str:
        return f"<{LANES} x {LLVM_TYPES[t.name]}>"

    def bits_type(self, bits: int) -> str:
        return f"<{LANES} x i{bits}>"

    def suffix(self, t: Scalar) -> str:
        return f"v{LANES}{'f' if t.is_float else 'i'}{t.bits}"

    def number(self, t: Scalar, value: float) -> str:
        return f"splat ({LLVM_TYPES[t.name]} {literal(t, value)})"

    def intrinsic(self, name: str, result: str, *typed: str) -> str:
        kinds = ", ".join(t[: t.index(">") + 1] if t[0] == "<" else t.split(" ", 1)[0] for t in typed)
        self.declarations[name] = f"declare {result} @{name}({kinds})"
        return self.value(f"call {result} @{name}({', '.join(typed)})")

    def call(self, name: str, *typed: str) -> None:
        """A function of the runtime, which takes the context and the warp first."""
        kinds = ", ".join(["ptr", "ptr", *[t.split(" ", 1)[0] for t in typed]])
        self.declarations[name] = f"declare void @{name}({kinds})"
        self.calls.add(name)
        self.lines.append(f"  call void @{name}({', '.join(['ptr %c', 'ptr %w', *typed])})")

    def splat(self, kind: str, scalar: str) -> str:
        one = self.value(f"insertelement <{LANES} x {kind}> poison, {kind} {scalar}, i64 0")
        return self.value(
            f"shufflevector <{LANES} x {kind}> {one}, <{LANES} x {kind}> poison, <{LANES} x i32> zeroinitializer"
        )

    def mask_of(self, truth: str) -> str:
        """The lanes for which it is true, by a function: LLVM takes four times as long to pack a comparison."""
        word = self.type(types.int32)
        lanes = self.value(f"sext {TRUTH} {truth} to {word}")
        self.lines.append(f"  store {word} {lanes}, ptr %truth, align 64")
        self.declarations["emu_ballot"] = "declare i32 @emu_ballot(ptr)"
        self.calls.add("emu_ballot")
        return self.value("call i32 @emu_ballot(ptr %truth)")

    def fail(self, reason: str) -> PtxError:
        return PtxError(self.current, reason)

    # context

    def context(self, name: str, kind: str = "i64") -> str:
        place = self.value(f"getelementptr i8, ptr %c, i64 {CONTEXT[name]}")
        return self.value(f"load {kind}, ptr {place}, align 8")

    def context_splat(self, name: str, t: Scalar) -> str:
        scalar = self.context(name)
        if t.bits < 64:
            scalar = self.value(f"trunc i64 {scalar} to i{t.bits}")
        return self.splat(f"i{t.bits}", scalar)

    def window(self, space: str) -> str:
        """Where the shared memory of the block, or the local memory of each lane, begins, as 32 absolute addresses."""
        if space == "shared":
            return self.context_splat("shared", types.uint64)
        place = self.value(f"getelementptr i8, ptr %w, i64 {WARP['local']}")
        base = self.splat("i64", self.value(f"load i64, ptr {place}"))
        numbers = f"<{', '.join(f'i64 {lane}' for lane in range(LANES))}>"
        strides = self.context_splat("local_stride", types.uint64)
        own = self.value(f"mul <{LANES} x i64> {strides}, {numbers}")
        return self.value(f"add <{LANES} x i64> {base}, {own}")

    def site(self, instruction: Instruction, what: str, space: str, size: int, parts: int = 1) -> int:
        self.sites.append(Site(instruction.line, instruction.loc, what, space, size, parts))
        return len(self.sites) - 1

    def active(self) -> str:
        """The lanes that take part in this instruction, as i32."""
        if not self.guard:
            return self.mask
        return self.value(f"and i32 {self.mask}, {self.mask_of(self.guard)}")

    def active_lanes(self) -> str:
        return self.value(f"and {TRUTH} {self.lanes}, {self.guard}") if self.guard else self.lanes

    def count_zero_divisions(self, zero: str) -> None:
        here = self.value(f"and i32 {self.mask_of(zero)}, {self.active()}")
        count = self.value(f"zext i32 {self.intrinsic('llvm.ctpop.i32', 'i32', f'i32 {here}')} to i64")
        place = self.value(f"getelementptr i8, ptr %c, i64 {CONTEXT['zero_divisions']}")
        before = self.value(f"load i64, ptr {place}")
        self.lines.append(f"  store i64 {self.value(f'add i64 {before}, {count}')}, ptr {place}")

    def lane_by_lane(self, function: str, t: Scalar, a: str) -> str:
        """A function of the C library for each lane."""
        kind, result = LLVM_TYPES[t.name], "poison"
        self.declarations[function] = f"declare {kind} @{function}({kind})"
        for lane in range(LANES):
            one = self.value(f"extractelement {self.type(t)} {a}, i64 {lane}")
            one = self.value(f"call {kind} @{function}({kind} {one})")
            result = self.value(f"insertelement {self.type(t)} {result}, {kind} {one}, i64 {lane}")
        return result

    def quotient(self, t: Scalar, a: str, b: str) -> str:
        return self.value(f"{'udiv' if t.kind == 'u' else 'sdiv'} {self.type(t)} {a}, {b}")

    def remainder(self, t: Scalar, a: str, b: str) -> str:
        return self.value(f"{'urem' if t.kind == 'u' else 'srem'} {self.type(t)} {a}, {b}")

    def saturated(self, source: Scalar, to: Scalar, v: str) -> str:
        name = f"llvm.fpto{'s' if to.kind == 'i' else 'u'}i.sat.{self.suffix(to)}.{self.suffix(source)}"
        return self.intrinsic(name, self.type(to), f"{self.type(source)} {v}")

    # operands

    def cast_bits(self, value: str, source: Scalar, to: Scalar) -> str:
        a, b = self.type(source), self.type(to)
        return value if a == b else self.value(f"bitcast {a} {value} to {b}")

    def get(self, operand: Operand, t: Scalar) -> str:
        """An operand as 32 values of a type."""
        if isinstance(operand, Imm):
            return self._constant(operand, t)
        if isinstance(operand, Symbol):
            return self._symbol(operand, t)
        if not isinstance(operand, Reg):
            raise self.fail("expected a register or a constant")
        name = operand.name
        if name.startswith("!"):
            return self.value(f"xor {TRUTH} {self.get(Reg(name[1:]), t)}, splat (i1 true)")
        width = self._width(name)
        if width is None:
            return self._special(name, t)
        if (t.kind == "b") != (width == 1) or width < t.bits or width > t.bits and not self.widens:
            raise self.fail(f"register {name} has {width} bits, the instruction works on {t.bits}")
        bits = self.bits_of(name)
        lt = self.type(t)
        views = self.typed.setdefault(name, {})
        known = views.get(lt)
        if known is None:
            if width > t.bits:
                bits = self.value(f"trunc {self.bits_type(width)} {bits} to {self.bits_type(t.bits)}")
            known = bits if t.kind == "b" or lt == self.bits_type(t.bits) else self.value(
                f"bitcast {self.bits_type(t.bits)} {bits} to {lt}")  # fmt: skip
            views[lt] = known
        return known

    def _constant(self, operand: Imm, t: Scalar) -> str:
        if t.kind == "b":
            return self.number(t, operand.value & 1)
        if operand.bits and operand.bits != t.bits and t.is_float:
            raise self.fail(f"a constant of {operand.bits} bits for a type of {t.bits}")
        value = operand.value & ((1 << t.bits) - 1)
        value -= (value >> (t.bits - 1)) << t.bits
        text = f"splat (i{t.bits} {value})"
        if self.type(t) == self.bits_type(t.bits):
            return text
        return self.value(f"bitcast {self.bits_type(t.bits)} {text} to {self.type(t)}")

    def _symbol(self, operand: Symbol, t: Scalar) -> str:
        if operand.name == "WARP_SZ":
            return self.number(t, LANES)
        if operand.name not in self.symbols:
            raise self.fail(f"unknown name '{operand.name}'")
        space, offset = self.symbols[operand.name]
        if t.bits not in (32, 64):
            raise self.fail(f"an address does not fit into {t.bits} bits")
        if space in ("shared", "local"):
            return self.number(t, offset)
        base = self.context("globals" if space == "global" else "params")
        whole = self.splat("i64", self.value(f"add i64 {base}, {offset}"))
        if t.bits == 64:
            return whole
        return self.value(f"trunc {self.bits_type(64)} {whole} to {self.bits_type(32)}")

    def address(self, f: Form, base: Reg | Symbol | Imm, space: str) -> str:
        """The base of an address as 32 numbers of 64 bits: offsets in shared and local memory, else absolute."""
        if isinstance(base, Reg) and self._width(base.name) == 32:
            narrow = self.get(base, types.uint32)
            return self.value(f"zext {self.bits_type(32)} {narrow} to {self.bits_type(64)}")
        value = self.get(base, types.uint64)
        own = self.symbols.get(base.name, ("", 0))[0] if isinstance(base, Symbol) else ""
        if own in ("shared", "local") and space == "generic":
            value = self.value(f"add {self.bits_type(64)} {value}, {self.window(own)}")
        elif own and space not in ("generic", "const") and own != space:
            raise f.refuse(f"accesses '{base.name}', which is in .{own}")  # type: ignore[union-attr]
        return value

    def parameter(self, f: Form, name: str, offset: int, t: Scalar) -> str:
        """A parameter of the kernel, or the result of a call."""
        if (name, offset) in self.call_arguments:
            return self.call_arguments[name, offset][1]
        found = next((p for p in self.entry.params if p.name == name), None)
        if found is None or not 0 <= offset <= found.size - t.bits // 8:
            raise f.refuse(f"reads beyond the parameter '{name}'" if found else f"reads '{name}', which has no value")
        place = self.value(f"getelementptr i8, ptr %params, i64 {self.params[name] + offset}")
        return self.splat(f"i{t.bits}", self.value(f"load i{t.bits}, ptr {place}, align 1"))

    def _special(self, name: str, t: Scalar) -> str:
        """A special register."""
        if t.bits not in (16, 32, 64):
            raise self.fail(f"'{name}' does not fit")
        if name in ("%tid.x", "%tid.y", "%tid.z"):
            place = self.value(f"getelementptr i8, ptr %w, i64 {WARP[name[1:].replace('.', '_')]}")
            word = self.value(f"load {self.bits_type(32)}, ptr {place}, align 64")
        elif name in _CONSTANT_LANES:
            word = f"<{', '.join(f'i32 {v - (v >> 31 << 32)}' for v in _CONSTANT_LANES[name])}>"
        elif name in _SPECIAL:
            return self.context_splat(_SPECIAL[name], t)
        elif name == "%warpid":
            place = self.value(f"getelementptr i8, ptr %w, i64 {WARP['index']}")
            word = self.splat("i32", self.value(f"load i32, ptr {place}"))
        elif name == "%dynamic_smem_size":
            size = self.value(f"sub i64 {self.context('shared_size')}, {self.shared_size}")
            return self.splat(f"i{t.bits}", size if t.bits == 64 else self.value(f"trunc i64 {size} to i{t.bits}"))
        elif name in ("%smid", "%gridid"):
            return self.number(t, 0)
        elif name == "%nsmid":
            return self.number(t, 1)
        else:
            raise self.fail(f"unknown register '{name}'")
        if t.bits == 32:
            return word
        return self.value(
            f"{'zext' if t.bits > 32 else 'trunc'} {self.bits_type(32)} {word} to {self.bits_type(t.bits)}"
        )

    # registers

    def _width(self, name: str) -> int | None:
        kind = self.entry.type_of(name)
        return None if kind is None else 8 * SIZES[kind] or 1

    def bits_of(self, name: str) -> str:
        """The bits of a register, from this block or from the warp's file."""
        if name not in self.values:
            width = self._width(name)
            assert width is not None
            if width == 1:
                bits = self.value(f"load i32, ptr {self._in_file(name)}")
                self.values[name] = self.value(f"bitcast i32 {bits} to {TRUTH}")
            else:
                self.values[name] = self.value(f"load {self.bits_type(width)}, ptr {self._in_file(name)}, align 64")
        return self.values[name]

    def _in_file(self, name: str) -> str:
        if name not in self.file:
            width = self._width(name) or 1
            size = 64 if width == 1 else -(-width // 8 * LANES // 64) * 64
            self.file[name] = self.file_end
            self.file_end += size
        return self.value(f"getelementptr i8, ptr %w, i64 {self.file[name]}")

    def put(self, operand: Operand, value: str, t: Scalar) -> None:
        """Writes a register; what is narrower than it is widened by its sign, or by zeros."""
        if not isinstance(operand, Reg) or operand.name.startswith("!"):
            raise self.fail("expected a register to write")
        name = operand.name
        if name == "_":
            return
        width = self._width(name)
        if width is None:
            raise self.fail(f"register {name} is not declared")
        if (t.kind == "b") != (width == 1) or width < t.bits or width > t.bits and not self.widens:
            raise self.fail(f"register {name} has {width} bits, the result {t.bits}")
        lt = self.type(t)
        if t.is_float and lt != self.bits_type(t.bits):
            bits = self.value(f"bitcast {lt} {value} to {self.bits_type(t.bits)}")
        else:
            bits = value
        if t.bits < width:
            bits = self.value(
                f"{'sext' if t.kind == 'i' else 'zext'} {self.bits_type(t.bits)} {bits} to {self.bits_type(width)}"
            )
        if self.guard:
            rt = self.bits_type(width)
            bits = self.value(f"select {TRUTH} {self.guard}, {rt} {bits}, {rt} {self.bits_of(name)}")
        self.values[name] = bits
        self.typed.pop(name, None)

    def _spill(self, names: set[str]) -> None:
        """What the block wrote and others read goes to the warp's file, for the lanes that ran it."""
        for name in sorted(names):
            if name not in self.values:
                continue
            width, value = self._width(name), self.values[name]
            place = self._in_file(name)
            if width == 1:
                new = self.value(f"and i32 {self.mask_of(value)}, {self.mask}")
                others = self.value(f"xor i32 {self.mask}, -1")
                rest = self.value(f"and i32 {self.value(f'load i32, ptr {place}')}, {others}")
                self.lines.append(f"  store i32 {self.value(f'or i32 {new}, {rest}')}, ptr {place}")
            else:
                rt = self.bits_type(width or 1)
                self.lines.append(f"  store {rt} {value}, ptr %kept, align 64")
                self.call(f"emu_keep_{width}", f"i32 {self.mask}", f"ptr {place}", "ptr %kept")

    # control

    def function(self) -> WarpCode:
        found = flow(self.entry, self.form.begins)
        self.position = found.position
        self.stops: list[tuple[int, int]] = [(0, 0)] * len(found.blocks)
        places = (item.loc for item in self.entry.body if isinstance(item, Instruction) and item.loc[1])
        self.own_file = next(places, (0, 0))[0]
        if len(found.blocks) >= WAITING:
            raise PtxError(
                self.entry.line, f"the function has {len(found.blocks)} basic blocks, the limit is {WAITING}"
            )
        for number in found.order:
            self._block(number, found.blocks[number], found.live_out[number])
        pick = {"loop-aware": "emu_pick", "ipdom": "emu_pick_ipdom", "random": "emu_pick_random"}[self.form.schedule]
        control = {"emu_runnable": "i32 @emu_runnable(ptr)", "emu_part": "void @emu_part(ptr, i32, i32, i16, i16)",
                   pick: f"i64 @{pick}(ptr, ptr)"}  # fmt: skip
        self.declarations.update({name: f"declare {text}" for name, text in control.items()})
        self.calls.update(control)
        symbol = "warp_" + "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in self.entry.name)
        cases = " ".join(f"i16 {place}, label %b{place}" for place in range(len(found.blocks)))
        text = "\n".join(
            [
                _HEAD.format(symbol=symbol, params=CONTEXT["params"]),
                _DISPATCH.format(cases=cases, paused=PAUSED, pick=pick),
                *self.lines,
                "}",
                *self.declarations.values(),
                "",
            ]
        )
        params = [(p, self.params[p.name]) for p in self.entry.params]
        size = -(-self.file_end // 64) * 64
        return WarpCode(symbol, text, self.sites, params, self.params_size, self.shared_size, self.local_size, size,
                        self.position[0], self.calls, self.entry.limits, self._meeting(found), self._tree(found),
                        [_first_line(found.blocks[block]) for block in found.order], self.stops, self.file,
                        self.own_file)  # fmt: skip

    def _meeting(self, found: Flow) -> list[bool]:
        """By place: whether the block begins with what lanes wait for each other at."""
        firsts = [(*block.body, *((block.ending,) if block.ending else ())) for block in found.blocks]
        return [bool(firsts[block]) and needs_warp(firsts[block][0]) for block in found.order]

    def _tree(self, found: Flow) -> list[int]:
        """The tree of post-dominators by places."""
        ends = [_ends(block) for block in found.blocks]
        parents, ranks = postdominators([block.successors for block in found.blocks], ends)
        place = [*self.position, len(found.blocks)]
        by_place = [*found.order, len(found.blocks)]
        return [place[parents[block]] for block in by_place] + [ranks[block] for block in by_place]

    def _block(self, number: int, block: Block, live_out: set[str]) -> None:
        place = self.position[number]
        self.values, self.typed, self.carry, self.call_arguments = {}, {}, "", {}
        self.lines.append(f"b{place}:")
        self.mask = self.value("load i32, ptr %mask")
        self.lanes = self.value(f"bitcast i32 {self.mask} to {TRUTH}")
        if self.form.head[1]:
            self._stop(place, block)
        self._count(len(block.body) + (1 if block.ending else 0))
        changed: set[str] = set()
        for instruction in block.body:
            self._instruction(instruction)
            changed.update(written(instruction))
        guard = ""
        if block.ending is not None:
            self.current = block.ending.line
            form(block.ending)
            if block.ending.guard:
                guard = self._guard(block.ending)
            if block.ending.parts[0] == "brx":
                table = self.get(block.ending.operands[0], types.uint32)
        self._spill(changed if self.form.head[1] else changed & live_out)
        ending = block.ending
        kind = ending.parts[0] if ending else ""
        if ending is None:
            self._jump(place, block.follow)
        elif kind == "bra":
            self._branch(place, guard, block.targets[0], block.follow)
        elif kind == "brx":
            self._indexed(table, block.targets)
        elif is_barrier(ending):
            self._barrier(ending, guard)
            self._leave(place, guard, WAITING, block.follow)
        elif kind == "trap":
            self._trap(place, guard, ending)
        else:
            self._leave(place, guard, LEFT, block.follow)

    def _stop(self, place: int, block: Block) -> None:
        """A debugger may stop here: all registers are in the warp's file."""
        first = next(iter((*block.body, *((block.ending,) if block.ending else ()))), None)
        if first is None or not first.loc[1] or first.loc[0] in self.form.quiet:
            return
        begins, body = self.form.head
        if first.loc[0] == self.own_file and begins <= first.loc[1] < body:
            return  # what comes before the kernel's body
        self.stops[place] = first.loc
        self.declarations["emu_step"] = "declare i1 @emu_step(ptr, ptr, i32, i64, i64)"
        line = first.loc[0] << 24 | first.loc[1]
        self.calls.add("emu_step")
        self.lines.append(f"  store i16 {place}, ptr %next")
        stop = self.value(f"call i1 @emu_step(ptr %c, ptr %w, i32 {self.mask}, i64 {place}, i64 {line})")
        go = self._label("go")
        self.lines.append(f"  br i1 {stop}, label %pause, label %{go}")
        self._start(go)

    def _instruction(self, instruction: Instruction) -> None:
        self.current = instruction.line
        taken = form(instruction)
        self.widens = taken.name in ("ld", "ldu", "st", "cvt")  # the others want registers of their type's size
        self.guard = self._guard(instruction) if instruction.guard else ""
        RULES[taken.name][0](self, taken)
        self.guard = ""

    def _guard(self, instruction: Instruction) -> str:
        name = ("!" if instruction.negated else "") + instruction.guard
        return self.get(Reg(name), types.bool_)

    def _count(self, instructions: int) -> None:
        """Instructions of the warp, and of its threads."""
        threads = self.value(f"zext i32 {self.intrinsic('llvm.ctpop.i32', 'i32', f'i32 {self.mask}')} to i64")
        for name, more in (("warp_instructions", str(instructions)),
                           ("thread_instructions", self.value(f"mul i64 {threads}, {instructions}"))):  # fmt: skip
            place = self.value(f"getelementptr i8, ptr %c, i64 {CONTEXT[name]}")
            before = self.value(f"load i64, ptr {place}")
            self.lines.append(f"  store i64 {self.value(f'add i64 {before}, {more}')}, ptr {place}")

    def _label(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def _start(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def _jump(self, place: int, target: int) -> None:
        """All lanes of the mask go to one block."""
        if target == EXIT:
            self.lines.append(f"  store i16 {LEFT - 0x10000}, ptr %next\n  br label %leave")
            return
        to = self.position[target]
        self.lines.append(f"  store i16 {to}, ptr %next")
        live = self.value("load i32, ptr %live")
        together = self.value(f"icmp eq i32 {live}, {self.mask}")
        if to > place:
            self.lines.append(f"  br i1 {together}, label %b{to}, label %park")
            return
        again = self._label("again")  # a loop: look whether to pause
        self.lines.append(f"  br i1 {together}, label %{again}, label %park")
        self._start(again)
        spent, stop = self.context("warp_instructions"), self.context("stop")
        self.lines.append(f"  br i1 {self.value(f'icmp ult i64 {spent}, {stop}')}, label %b{to}, label %pause")

    def _branch(self, place: int, guard: str, target: int, follow: int) -> None:
        if not guard:
            self._jump(place, target)
            return
        taken = self.value(f"and i32 {self.mask_of(guard)}, {self.mask}")
        none, some, every, both = (self._label(stem) for stem in ("none", "some", "every", "both"))
        self.lines.append(f"  br i1 {self.value(f'icmp eq i32 {taken}, 0')}, label %{none}, label %{some}")
        self._start(none)
        self._jump(place, follow)
        self._start(some)
        self.lines.append(f"  br i1 {self.value(f'icmp eq i32 {taken}, {self.mask}')}, label %{every}, label %{both}")
        self._start(every)
        self._jump(place, target)
        self._start(both)
        if follow == EXIT:
            raise self.fail("the function ends behind a branch that not all threads take")
        self.lines.append(f"  store i32 {taken}, ptr %taken\n  store i16 {self.position[target]}, ptr %next\n"
                          f"  store i16 {self.position[follow]}, ptr %other\n  br label %part")  # fmt: skip

    def _indexed(self, index: str, targets: tuple[int, ...]) -> None:
        """Each lane goes where its index says."""
        chosen = self.value(f"trunc {self.bits_type(32)} {index} to {_PLACES}")
        places = f"splat (i16 {self.position[targets[-1]]})"
        for number, target in enumerate(targets[:-1]):
            equal = self.value(f"icmp eq {_PLACES} {chosen}, splat (i16 {number})")
            places = self.value(
                f"select {TRUTH} {equal}, {_PLACES} splat (i16 {self.position[target]}), {_PLACES} {places}"
            )
        old = self.value(f"load {_PLACES}, ptr %w, align 64")
        new = self.value(f"select {TRUTH} {self.lanes}, {_PLACES} {places}, {_PLACES} {old}")
        self.lines.append(f"  store {_PLACES} {new}, ptr %w, align 64\n  br label %dispatch")

    def _barrier(self, ending: Instruction, guard: str) -> None:
        barrier = ending.operands[0] if ending.operands else Imm(0)
        if len(ending.operands) > 1 or not isinstance(barrier, Imm) or barrier.value or "red" in ending.parts:
            raise self.fail(f"'{ending.opcode}' is supported for barrier 0 and all threads only")
        taken = self.value(f"and i32 {self.mask_of(guard)}, {self.mask}") if guard else self.mask
        self.call("emu_barrier", f"i32 {taken}", f"i64 {self.site(ending, 'barrier', '', 0)}")

    def _leave(self, place: int, guard: str, state: int, follow: int) -> None:
        """Lanes end (LEFT), or wait at a barrier (WAITING) and go on behind it."""
        if state == WAITING:
            resume = LEFT if follow == EXIT else self.position[follow]
            resume -= (resume >> 15) << 16
            at = self.value(f"getelementptr i8, ptr %w, i64 {WARP['resume']}")
            old = self.value(f"load {_PLACES}, ptr {at}, align 64")
            new = self.value(f"select {TRUTH} {self.lanes}, {_PLACES} splat (i16 {resume}), {_PLACES} {old}")
            self.lines.append(f"  store {_PLACES} {new}, ptr {at}, align 64")
        self.lines.append(f"  store i16 {state - 0x10000}, ptr %next")
        if not guard:
            self.lines.append("  br label %leave")
            return
        taken = self.value(f"and i32 {self.mask_of(guard)}, {self.mask}")
        rest = self.value(f"and i32 {self.value(f'xor i32 {taken}, -1')}, {self.mask}")
        some, none, stay, go = (self._label(stem) for stem in ("some", "none", "stay", "go"))
        self.lines.append(f"  br i1 {self.value(f'icmp eq i32 {taken}, 0')}, label %{none}, label %{some}")
        self._start(none)
        self._jump(place, follow)
        self._start(some)
        self.lines.append(f"  br i1 {self.value(f'icmp eq i32 {rest}, 0')}, label %{go}, label %{stay}")
        self._start(stay)
        # those that stay wait at the next block; the others become the mask
        if follow == EXIT:
            raise self.fail("the function ends behind an instruction that not all threads take")
        rest_lanes = self.value(f"bitcast i32 {rest} to {TRUTH}")
        old = self.value(f"load {_PLACES}, ptr %w, align 64")
        new = self.value(f"select {TRUTH} {rest_lanes}, {_PLACES} splat (i16 {self.position[follow]}), {_PLACES} {old}")
        self.lines.append(
            f"  store {_PLACES} {new}, ptr %w, align 64\n  store i32 {taken}, ptr %mask\n  br label %{go}"
        )
        self._start(go)
        self.lines.append("  br label %leave")

    def _trap(self, place: int, guard: str, ending: Instruction) -> None:
        site = self.site(ending, "trap", "", 0)
        if guard:
            raise self.fail("a guarded trap is not supported")
        self.call("emu_trap", f"i32 {self.mask}", f"i64 {site}", f"i64 {TRAP}")
        self.lines.append(f"  store i16 {LEFT - 0x10000}, ptr %next\n  br label %leave")


def _first_line(block: Block) -> tuple[int, int]:
    """File and line of the first instruction that has one."""
    instructions = (*block.body, *((block.ending,) if block.ending else ()))
    return next((one.loc for one in instructions if one.loc[1]), (0, 0))


def _ends(block: Block) -> bool:
    """Whether threads end in a block."""
    if block.ending is not None and block.ending.parts[0] in ("ret", "exit", "trap"):
        return True
    return block.follow == EXIT and (block.ending is None or bool(block.ending.guard) or is_barrier(block.ending))


def _symbols(operands: tuple[Operand, ...]) -> set[str]:
    found: set[str] = set()
    for operand in operands:
        if isinstance(operand, Symbol):
            found.add(operand.name)
        elif isinstance(operand, Address):
            found |= _symbols((operand.base,))
        elif isinstance(operand, Group):
            found |= _symbols(operand.items)
    return found


_HEAD = f"""define i32 @{{symbol}}(ptr noalias %c, ptr noalias %w) nounwind {{{{
entry:
  %mask = alloca i32
  %live = alloca i32
  %taken = alloca i32
  %next = alloca i16
  %other = alloca i16
  %at = alloca <{LANES} x i64>, align 64
  %in = alloca <{LANES} x i64>, align 64
  %in2 = alloca <{LANES} x i64>, align 64
  %kept = alloca <{LANES} x i64>, align 64
  %truth = alloca <{LANES} x i32>, align 64
  %out = alloca <{LANES} x i64>, align 64
  %params.at = getelementptr i8, ptr %c, i64 {{params}}
  %params = load ptr, ptr %params.at
  %can = call i32 @emu_runnable(ptr %w)
  store i32 %can, ptr %live
  br label %dispatch"""

# what blocks jump to when the lanes do not all go on together
_DISPATCH = """
part:
  %part.mask = load i32, ptr %mask
  %part.taken = load i32, ptr %taken
  %part.next = load i16, ptr %next
  %part.other = load i16, ptr %other
  call void @emu_part(ptr %w, i32 %part.mask, i32 %part.taken, i16 %part.next, i16 %part.other)
  br label %dispatch
leave:
  %leave.mask = load i32, ptr %mask
  %leave.live = load i32, ptr %live
  %leave.not = xor i32 %leave.mask, -1
  %leave.rest = and i32 %leave.live, %leave.not
  store i32 %leave.rest, ptr %live
  br label %park
park:
  %park.mask = load i32, ptr %mask
  %park.next = load i16, ptr %next
  call void @emu_part(ptr %w, i32 %park.mask, i32 %park.mask, i16 %park.next, i16 %park.next)
  br label %dispatch
dispatch:
  %picked = call i64 @{pick}(ptr %c, ptr %w)
  %some = icmp sge i64 %picked, 0
  br i1 %some, label %go, label %return
go:
  %chosen = trunc i64 %picked to i16
  %picked.mask = lshr i64 %picked, 16
  %here = trunc i64 %picked.mask to i32
  store i32 %here, ptr %mask
  switch i16 %chosen, label %return [ {cases} ]
return:
  %inverse = trunc i64 %picked to i32
  %state = xor i32 %inverse, -1
  ret i32 %state
pause:
  %pause.mask = load i32, ptr %mask
  %pause.next = load i16, ptr %next
  call void @emu_part(ptr %w, i32 %pause.mask, i32 %pause.mask, i16 %pause.next, i16 %pause.next)
  ret i32 {paused}"""
