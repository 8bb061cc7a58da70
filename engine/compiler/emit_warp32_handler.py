"""A form of PTX instruction to LLVM text: one function that does it for the 32 lanes of a warp and goes on to the next.

    i32 handler(ptr context, ptr warp, ptr words, i32 mask)

A kernel is words of 64 bits: for each instruction the address of its handler, then what the handler needs to know:
where registers lie in the warp's state, constants, offsets, the number of a memory access. A handler ends with a jump
to the next one (threaded code: Bell 1973). Kernels share handlers, as forms repeat: all kernels of the engine consist
of less than 300 of them, each of which LLVM compiles once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.compiler import types
from engine.compiler.cache import digest
from engine.compiler.emit_ops import LLVM_TYPES, literal
from engine.compiler.emit_warp32_ops import RULES, TRUTH, Form, form
from engine.compiler.ptx_parser import Imm, Instruction, Operand, PtxError, Reg, Symbol
from engine.compiler.types import Scalar
from engine.compiler.warp_layout import CONTEXT, LANES, WARP

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
_ROOMS = {"%at": "i64", "%in": "i64", "%in2": "i64", "%out": "i64"}  # what rules may hand to functions of the runtime


@dataclass(frozen=True)
class Slot(Reg):
    """A register whose place in the warp's state is a word. `kept`: lanes that do not run it keep their values."""

    word: int = 0
    bits: int = 32  # 1: a predicate, of which a bit is a lane
    negated: bool = False
    kept: bool = False


@dataclass(frozen=True)
class Given(Reg):
    """A constant that is a word. `bits` as of `Imm`."""

    word: int = 0
    bits: int = 0


@dataclass(frozen=True)
class Place(Symbol):
    """A variable or parameter, whose offset in its space is a word."""

    word: int = 0
    space: str = "global"


@dataclass(frozen=True)
class AccessKind:
    """A memory access of a form, which each of its instructions has as one of its own (`emit_warp32.Site`)."""

    what: str  # "load", "store", "atomic"
    space: str
    size: int
    parts: int


@dataclass
class Operation:
    """A handler, as LLVM text in which @HANDLER is its name, and declarations of what it calls."""

    text: str
    declarations: list[str]
    calls: list[str]  # functions of the runtime
    accesses: list[AccessKind] = field(default_factory=list)  # their numbers are the last of its words

    @functools.cached_property
    def name(self) -> str:
        """Tells operations apart."""
        return digest(self.text, repr(self.accesses))


def operation(instruction: Instruction, words: int) -> Operation:
    """The handler of an instruction whose operands are `Slot`, `Given` and `Place`, in that many words.

    The offset of an `Address` is the number of the word that has it; the guard is word 0. Raises `PtxError` for
    whatever there is no rule for.
    """
    return Handler(instruction, words).operation()


class Handler:
    """Makes the text; the rules of `emit_warp32_ops` and `emit_warp32_memory` work with it."""

    def __init__(self, instruction: Instruction, words: int):
        self.instruction, self.words = instruction, words
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.calls: set[str] = set()
        self.accesses: list[AccessKind] = []
        self.counter = 0
        self.mask, self.guard = "%mask", ""
        self.widens = False
        self._words: dict[int, str] = {}
        self._lanes = ""
        self._results: list[tuple[Slot, str]] = []

    def operation(self) -> Operation:
        taken = form(self.instruction)
        self.widens = taken.name in ("ld", "ldu", "st", "cvt")  # the others want registers of their type's size
        if self.instruction.guard:
            self.guard = self.get(Slot("", 0, 1, self.instruction.negated), types.bool_)
        RULES[taken.name][0](self, taken)
        self.guard = ""
        self._store_results()
        body = "\n".join(self.lines)
        rooms = [f"  {name} = alloca <{LANES} x {kind}>, align 64" for name, kind in _ROOMS.items() if name in body]
        head = "define i32 @HANDLER(ptr noalias %c, ptr noalias %w, ptr noalias %code, i32 %mask) nounwind {\nentry:"
        text = "\n".join([head, *rooms, body, go_on(self.words + len(self.accesses)), "}"])
        return Operation(text, list(self.declarations.values()), sorted(self.calls), self.accesses)

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
        """The lanes for which it is true, as i32."""
        return self.value(f"bitcast {TRUTH} {truth} to i32")

    def fail(self, reason: str) -> PtxError:
        return PtxError(self.instruction.line, reason)

    # what the words say

    def word(self, place: int) -> str:
        """A word, as i64."""
        if place not in self._words:
            at = self.value(f"getelementptr i64, ptr %code, i64 {place}")
            self._words[place] = self.value(f"load i64, ptr {at}")
        return self._words[place]

    def site(self, what: str, space: str, size: int, parts: int = 1) -> str:
        """The number of one more memory access, as i64."""
        self.accesses.append(AccessKind(what, space, size, parts))
        return self.word(self.words + len(self.accesses) - 1)

    # context

    @property
    def lanes(self) -> str:
        """The lanes that run, as truths."""
        if not self._lanes:
            self._lanes = self.value(f"bitcast i32 {self.mask} to {TRUTH}")
        return self._lanes

    def context(self, name: str, kind: str = "i64") -> str:
        place = self.value(f"getelementptr i8, ptr %c, i64 {CONTEXT[name]}")
        return self.value(f"load {kind}, ptr {place}, align 8")

    def context_splat(self, name: str, t: Scalar) -> str:
        scalar = self.context(name)
        if t.bits < 64:
            scalar = self.value(f"trunc i64 {scalar} to i{t.bits}")
        return self.splat(f"i{t.bits}", scalar)

    def of_warp(self, name: str) -> str:
        """The address of a field of the warp's state."""
        return self.value(f"getelementptr i8, ptr %w, i64 {WARP[name]}")

    def window(self, space: str) -> str:
        """Where the shared memory of the block, or the local memory of each lane, begins, as 32 absolute addresses."""
        if space == "shared":
            return self.context_splat("shared", types.uint64)
        base = self.splat("i64", self.value(f"load i64, ptr {self.of_warp('local')}"))
        numbers = f"<{', '.join(f'i64 {lane}' for lane in range(LANES))}>"
        strides = self.context_splat("local_stride", types.uint64)
        own = self.value(f"mul <{LANES} x i64> {strides}, {numbers}")
        return self.value(f"add <{LANES} x i64> {base}, {own}")

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

    @property
    def carry(self) -> str:
        """The carry flags of the lanes, as truths."""
        held = self.value(f"load i32, ptr {self.of_warp('carry')}")
        return self.value(f"bitcast i32 {held} to {TRUTH}")

    @carry.setter
    def carry(self, truth: str) -> None:
        self.lines.append(f"  store i32 {self.mask_of(truth)}, ptr {self.of_warp('carry')}")

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
        if isinstance(operand, Slot):
            return self._register(operand, t)
        if isinstance(operand, Given):
            return self._given(operand, t)
        if isinstance(operand, Imm):
            return self._constant(operand, t)
        if isinstance(operand, Place):
            return self._address_of(operand, t)
        if not isinstance(operand, Reg):
            raise self.fail("expected a register or a constant")
        return self._special(operand.name, t)

    def _register(self, slot: Slot, t: Scalar) -> str:
        if (t.kind == "b") != (slot.bits == 1) or slot.bits < t.bits or slot.bits > t.bits and not self.widens:
            raise self.fail(f"register {slot.name} has {slot.bits} bits, the instruction works on {t.bits}")
        if slot.negated and slot.bits != 1:
            raise self.fail(f"{slot.name} is no predicate")
        bits = self._bits(slot)
        if slot.negated:
            return self.value(f"xor {TRUTH} {bits}, splat (i1 true)")
        if slot.bits > t.bits:
            bits = self.value(f"trunc {self.bits_type(slot.bits)} {bits} to {self.bits_type(t.bits)}")
        return bits if t.kind == "b" else self._as(bits, t)

    def _as(self, bits: str, t: Scalar) -> str:
        raw, lt = self.bits_type(t.bits), self.type(t)
        return bits if lt == raw else self.value(f"bitcast {raw} {bits} to {lt}")

    def _bits(self, slot: Slot) -> str:
        place = self._place(slot)
        if slot.bits == 1:
            return self.value(f"bitcast i32 {self.value(f'load i32, ptr {place}')} to {TRUTH}")
        return self.value(f"load {self.bits_type(slot.bits)}, ptr {place}, align 64")

    def _place(self, slot: Slot) -> str:
        return self.value(f"getelementptr i8, ptr %w, i64 {self.word(slot.word)}")

    def _given(self, operand: Given, t: Scalar) -> str:
        self._check_float(operand.bits, t)
        value = self.word(operand.word)
        if t.bits < 64:
            value = self.value(f"trunc i64 {value} to i{t.bits}")
        return self._as(self.splat(f"i{t.bits}", value), t)

    def _check_float(self, bits: int, t: Scalar) -> None:
        if bits and bits != t.bits and t.is_float:
            raise self.fail(f"a constant of {bits} bits for a type of {t.bits}")

    def _constant(self, operand: Imm, t: Scalar) -> str:
        if t.kind == "b":
            return self.number(t, operand.value & 1)
        self._check_float(operand.bits, t)
        value = operand.value & ((1 << t.bits) - 1)
        value -= (value >> (t.bits - 1)) << t.bits
        return self._as(f"splat (i{t.bits} {value})", t)

    def _address_of(self, place: Place, t: Scalar) -> str:
        if t.bits not in (32, 64):
            raise self.fail(f"an address does not fit into {t.bits} bits")
        whole = self.word(place.word)
        if place.space not in ("shared", "local"):
            base = self.context("globals" if place.space == "global" else "params")
            whole = self.value(f"add i64 {base}, {whole}")
        if t.bits == 32:
            whole = self.value(f"trunc i64 {whole} to i32")
        return self.splat(f"i{t.bits}", whole)

    def address(self, f: Form, base: Reg | Symbol | Imm, space: str) -> str:
        """The base of an address as 32 numbers of 64 bits: offsets in shared and local memory, else absolute."""
        if isinstance(base, Slot) and base.bits == 32:
            narrow = self.get(base, types.uint32)
            return self.value(f"zext {self.bits_type(32)} {narrow} to {self.bits_type(64)}")
        value = self.get(base, types.uint64)
        own = base.space if isinstance(base, Place) else ""
        if own in ("shared", "local") and space == "generic":
            value = self.value(f"add {self.bits_type(64)} {value}, {self.window(own)}")
        elif own and space not in ("generic", "const") and own != space:
            raise f.refuse(f"accesses '{base.name}', which is in .{own}")  # type: ignore[union-attr]
        return value

    def parameter(self, place: Place, offset: str, t: Scalar) -> str:
        """What stands in a parameter of the kernel, so many bytes behind its begin."""
        base = self.context("params", "ptr")
        own = self.value(f"getelementptr i8, ptr {base}, i64 {self.word(place.word)}")
        at = self.value(f"getelementptr i8, ptr {own}, i64 {offset}")
        return self.splat(f"i{t.bits}", self.value(f"load i{t.bits}, ptr {at}, align 1"))

    def _special(self, name: str, t: Scalar) -> str:
        """A special register."""
        if t.bits not in (16, 32, 64):
            raise self.fail(f"'{name}' does not fit")
        if name in ("%tid.x", "%tid.y", "%tid.z"):
            word = self.value(f"load {self.bits_type(32)}, ptr {self.of_warp(name[1:].replace('.', '_'))}, align 64")
        elif name in _CONSTANT_LANES:
            word = f"<{', '.join(f'i32 {v - (v >> 31 << 32)}' for v in _CONSTANT_LANES[name])}>"
        elif name in _SPECIAL:
            return self.context_splat(_SPECIAL[name], t)
        elif name == "%warpid":
            word = self.splat("i32", self.value(f"load i32, ptr {self.of_warp('index')}"))
        elif name == "%dynamic_smem_size":
            size = self.value(f"sub i64 {self.context('shared_size')}, {self.context('static_size')}")
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

    # results

    def put(self, operand: Operand, value: str, t: Scalar) -> None:
        """Writes a register; what is narrower than it is widened by its sign, or by zeros."""
        if not isinstance(operand, Reg) or isinstance(operand, Given) or isinstance(operand, Slot) and operand.negated:
            raise self.fail("expected a register to write")
        if operand.name == "_" and not isinstance(operand, Slot):
            return
        if not isinstance(operand, Slot):
            raise self.fail(f"register {operand.name} is not declared")
        width = operand.bits
        if (t.kind == "b") != (width == 1) or width < t.bits or width > t.bits and not self.widens:
            raise self.fail(f"register {operand.name} has {width} bits, the result {t.bits}")
        lt, bits = self.type(t), value
        if t.is_float and lt != self.bits_type(t.bits):
            bits = self.value(f"bitcast {lt} {value} to {self.bits_type(t.bits)}")
        if t.bits < width:
            bits = self.value(
                f"{'sext' if t.kind == 'i' else 'zext'} {self.bits_type(t.bits)} {bits} to {self.bits_type(width)}"
            )
        if self.guard:
            rt = self.bits_type(width)
            bits = self.value(f"select {TRUTH} {self.guard}, {rt} {bits}, {rt} {self._bits(operand)}")
        self._results.append((operand, bits))

    def _store_results(self) -> None:
        """At the end, since a result may lie where an operand does."""
        kept: list[tuple[Slot, str, str]] = []
        for slot, bits in self._results:
            place = self._place(slot)
            if slot.bits == 1:
                new = self.mask_of(bits)
                if slot.kept:
                    new = self.value(f"and i32 {new}, {self.mask}")
                    others = self.value(f"xor i32 {self.mask}, -1")
                    rest = self.value(f"and i32 {self.value(f'load i32, ptr {place}')}, {others}")
                    new = self.value(f"or i32 {new}, {rest}")
                self.lines.append(f"  store i32 {new}, ptr {place}")
            elif slot.kept:
                kept.append((slot, bits, place))
            else:
                self.lines.append(f"  store {self.bits_type(slot.bits)} {bits}, ptr {place}, align 64")
        if kept:
            self._keep(kept)

    def _keep(self, kept: Sequence[tuple[Slot, str, str]]) -> None:
        """Stores for the lanes of the mask; where these are not all, by a function, which keeps handlers short."""
        every = self.value(f"icmp eq i32 {self.mask}, -1")
        self.lines.append(f"  br i1 {every}, label %all, label %some\nall:")
        for slot, bits, place in kept:
            self.lines.append(f"  store {self.bits_type(slot.bits)} {bits}, ptr {place}, align 64")
        self.lines.append("  br label %on\nsome:")
        for slot, bits, place in kept:
            self.lines.append(f"  store {self.bits_type(slot.bits)} {bits}, ptr %out, align 64")
            self.call(f"emu_keep_{slot.bits}", f"i32 {self.mask}", f"ptr {place}", "ptr %out")
        self.lines.append("  br label %on\non:")


def go_on(words: int, at: str = "%code", mask: str = "%mask") -> str:
    """Lines that jump to the handler that stands behind so many words."""
    return f"""  %next.at = getelementptr i64, ptr {at}, i64 {words}
  %next = load ptr, ptr %next.at
  %next.code = getelementptr i64, ptr %next.at, i64 1
  %next.status = musttail call i32 %next(ptr %c, ptr %w, ptr %next.code, i32 {mask})
  ret i32 %next.status"""
