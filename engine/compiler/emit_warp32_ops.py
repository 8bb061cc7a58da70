"""LLVM text of each PTX opcode that works on registers: one rule for each, by name, with the suffixes that it takes.

A rule gets the emitter of a handler (`emit_warp32_handler.Handler`) and a `Form`: the instruction with its suffixes
sorted into types and the rest. Semantics are those of the PTX ISA 9.0: shifts clamp, integer division by zero gives all
ones instead of a trap, conversions saturate. Approximate operations (`sin.approx`, `rcp.approx`, …) are computed in
full precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.compiler import emit_ops, types
from engine.compiler.ptx_parser import SIZES, Group, Imm, Instruction, Operand, PtxError
from engine.compiler.types import Scalar
from engine.compiler.warp_layout import LANES

if TYPE_CHECKING:
    from engine.compiler.emit_warp32_handler import Handler

_BF16 = types.bfloat16
SCALARS: dict[str, Scalar] = {
    "pred": types.bool_, "s8": types.int8, "s16": types.int16, "s32": types.int32, "s64": types.int64,
    "u8": types.uint8, "u16": types.uint16, "u32": types.uint32, "u64": types.uint64, "b8": types.uint8,
    "b16": types.uint16, "b32": types.uint32, "b64": types.uint64, "f16": types.float16, "f32": types.float32,
    "f64": types.float64, "bf16": _BF16,
}  # fmt: skip
_UNSIGNED = {8: types.uint8, 16: types.uint16, 32: types.uint32, 64: types.uint64}
_SIGNED = {8: types.int8, 16: types.int16, 32: types.int32, 64: types.int64}
_ROUNDINGS = ("rn", "rz", "rm", "rp")
TRUTH = f"<{LANES} x i1>"


@dataclass(frozen=True)
class Form:
    """An instruction with its opcode taken apart: `add.rn.f32` is the name add, the mark rn and the type f32."""

    source: Instruction
    name: str
    marks: tuple[str, ...]
    types: tuple[Scalar, ...]
    names: tuple[str, ...]  # of the types

    @property
    def t(self) -> Scalar:
        """The first type; PtxError where the opcode has none."""
        if not self.types:
            raise PtxError(self.source.line, f"'{self.source.opcode}' has no type")
        return self.types[0]

    @property
    def kind(self) -> str:
        """The name of the first type: "f32"."""
        return self.names[self.types.index(self.t)]

    @property
    def d(self) -> Operand:
        return self.operand(0)

    def operand(self, place: int) -> Operand:
        if place >= len(self.source.operands):
            raise PtxError(self.source.line, f"'{self.source.opcode}' has too few operands")
        return self.source.operands[place]

    def refuse(self, reason: str = "is not supported") -> PtxError:
        return PtxError(self.source.line, f"'{self.source.opcode}' {reason}")


Rule = Callable[["Handler", Form], None]
RULES: dict[str, tuple[Rule, frozenset[str], str]] = {}  # name → rule, marks, kinds of types: letters of s u b f p


def form(instruction: Instruction) -> Form:
    """The instruction taken apart. Raises PtxError for an opcode, a suffix or a type that there is no rule for."""
    name, *rest = instruction.parts
    kinds = tuple(part for part in rest if part in SIZES)
    marks = tuple(part for part in rest if part not in SIZES)
    if name not in RULES:
        raise PtxError(instruction.line, f"unknown opcode '{instruction.opcode}'")
    _, allowed, letters = RULES[name]
    for mark in marks:
        if mark not in allowed and not mark.startswith(("L1::", "L2::")):
            raise PtxError(instruction.line, f"unknown suffix '.{mark}' in '{instruction.opcode}'")
    for kind in kinds:
        if kind not in SCALARS or (kind[0] if kind != "bf16" else "f") not in letters:
            raise PtxError(instruction.line, f"'{instruction.opcode}' is not supported on type .{kind}")
    return Form(instruction, name, marks, tuple(SCALARS[kind] for kind in kinds), kinds)


def rule(names: str, marks: str = "", kinds: str = "subf") -> Callable[[Rule], Rule]:
    """Decorator: this rule translates the opcodes `names`, which may carry `marks` and types of these kinds."""

    def add(function: Rule) -> Rule:
        for name in names.split():
            RULES[name] = (function, frozenset(marks.split()), kinds)
        return function

    return add


def _nearest(f: Form) -> None:
    if any(mark in f.marks for mark in ("rz", "rm", "rp")):
        raise f.refuse("rounds in a way that is not supported (only .rn is)")


def _flushed(e: Handler, f: Form, t: Scalar, v: str) -> str:
    """Subnormals become zero of the same sign under `.ftz`."""
    if "ftz" not in f.marks or t.name != "float32":
        return v
    bits = e.cast_bits(v, t, types.uint32)
    exponent = e.value(f"and {e.type(types.uint32)} {bits}, {e.number(types.uint32, 0x7F800000)}")
    small = e.value(f"icmp eq {e.type(types.uint32)} {exponent}, zeroinitializer")
    sign = e.value(f"and {e.type(types.uint32)} {bits}, {e.number(types.uint32, 0x80000000)}")
    kept = e.value(f"select {TRUTH} {small}, {e.type(types.uint32)} {sign}, {e.type(types.uint32)} {bits}")
    return e.cast_bits(kept, types.uint32, t)


def _sources(e: Handler, f: Form, t: Scalar, count: int, first: int = 1) -> list[str]:
    return [_flushed(e, f, t, e.get(f.operand(first + k), t)) for k in range(count)]


def _half(e: Handler, t: Scalar, compute: Callable[[Scalar, list[str]], str], values: list[str]) -> str:
    """An operation on 16-bit floats: in float32, then rounded once."""
    if t.is_float and t.bits == 16:
        wide = compute(types.float32, [_to_float32(e, t, v) for v in values])
        return _from_float32(e, t, wide)
    return compute(t, values)


def _to_float32(e: Handler, t: Scalar, v: str) -> str:
    if t is _BF16:
        wide = e.value(f"zext {e.type(types.uint16)} {v} to {e.type(types.uint32)}")
        high = e.value(f"shl {e.type(types.uint32)} {wide}, {e.number(types.uint32, 16)}")
        return e.cast_bits(high, types.uint32, types.float32)
    return e.value(f"fpext {e.type(t)} {v} to {e.type(types.float32)}")


def _from_float32(e: Handler, t: Scalar, v: str) -> str:
    if t is not _BF16:
        return e.value(f"fptrunc {e.type(types.float32)} {v} to {e.type(t)}")
    word, number = e.type(types.uint32), lambda n: e.number(types.uint32, n)
    bits = e.cast_bits(v, types.float32, types.uint32)
    high = e.value(f"lshr {word} {bits}, {number(16)}")
    odd = e.value(f"and {word} {high}, {number(1)}")
    raised = e.value(f"add {word} {bits}, {e.value(f'add {word} {odd}, {number(0x7FFF)}')}")
    rounded = e.value(f"lshr {word} {raised}, {number(16)}")
    quiet = e.value(f"or {word} {high}, {number(64)}")
    lost = e.value(f"fcmp uno {e.type(types.float32)} {v}, {v}")
    kept = e.value(f"select {TRUTH} {lost}, {word} {quiet}, {word} {rounded}")
    return e.value(f"trunc {word} {kept} to {e.type(types.uint16)}")


# arithmetic


@rule("add sub", "rn rz rm rp ftz sat cc wide")
def _add(e: Handler, f: Form) -> None:
    t = f.t
    _nearest(f)
    if "cc" in f.marks:
        _carry(e, f)
        return
    a, b = _sources(e, f, t, 2)
    if "sat" in f.marks:
        if t.is_float:
            raise f.refuse()
        result = e.intrinsic(f"llvm.s{f.name}.sat.{e.suffix(t)}", e.type(t), f"{e.type(t)} {a}", f"{e.type(t)} {b}")
    else:
        result = _half(e, t, lambda t, v: emit_ops.TABLE[f.name](e, t, v), [a, b])
    e.put(f.d, _flushed(e, f, t, result), t)


@rule("addc subc", "cc", "sub")
def _addc(e: Handler, f: Form) -> None:
    _carry(e, f)


def _carry(e: Handler, f: Form) -> None:
    """Addition and subtraction of long numbers: the carry goes from instruction to instruction of a block."""
    t = _UNSIGNED[f.t.bits]
    a, b = _sources(e, f, t, 2)
    e.put(f.d, _with_carry(e, f, t, a, b, f.name[:3], f.name.endswith("c")), t)


def _with_carry(e: Handler, f: Form, t: Scalar, a: str, b: str, op: str, takes: bool) -> str:
    lt = e.type(t)
    result = e.value(f"{op} {lt} {a}, {b}")
    test = ("ult", result, a) if op == "add" else ("ult", a, b)
    over = e.value(f"icmp {test[0]} {lt} {test[1]}, {test[2]}")
    if takes:
        one = e.value(f"zext {TRUTH} {e.carry} to {lt}")
        more = e.value(f"{op} {lt} {result}, {one}")
        again = e.value(f"icmp ult {lt} {more}, {result}" if op == "add" else f"icmp ult {lt} {result}, {one}")
        over, result = e.value(f"or {TRUTH} {over}, {again}"), more
    if "cc" in f.marks:
        e.carry = over
    return result


@rule("mul", "lo hi wide rn rz rm rp ftz")
def _mul(e: Handler, f: Form) -> None:
    t = f.t
    _nearest(f)
    a, b = _sources(e, f, t, 2)
    if t.is_float:
        result = _half(e, t, lambda t, v: emit_ops.TABLE["mul"](e, t, v), [a, b])
        e.put(f.d, _flushed(e, f, t, result), t)
    else:
        result, t = _product(e, f, t, a, b)
        e.put(f.d, result, t)


def _product(e: Handler, f: Form, t: Scalar, a: str, b: str) -> tuple[str, Scalar]:
    """The low, high or whole product of two integers, as the suffix says, and its type."""
    if "lo" in f.marks:
        return e.value(f"mul {e.type(t)} {a}, {b}"), t
    if "hi" not in f.marks and "wide" not in f.marks:
        raise f.refuse("needs .lo, .hi or .wide")
    extend = "sext" if t.kind == "i" else "zext"
    wide = f"<{LANES} x i{2 * t.bits}>"
    x, y = (e.value(f"{extend} {e.type(t)} {v} to {wide}") for v in (a, b))
    product = e.value(f"mul {wide} {x}, {y}")
    if "wide" in f.marks:
        if t.bits == 64:
            raise f.refuse()
        return product, (_SIGNED if t.kind == "i" else _UNSIGNED)[2 * t.bits]
    high = e.value(f"lshr {wide} {product}, splat (i{2 * t.bits} {t.bits})")
    return e.value(f"trunc {wide} {high} to {e.type(t)}"), t


@rule("mad", "lo hi wide rn ftz cc sat")
def _mad(e: Handler, f: Form) -> None:
    if f.t.is_float:
        _fma(e, f)
        return
    if "sat" in f.marks:
        raise f.refuse()
    a, b = _sources(e, f, f.t, 2)
    product, t = _product(e, f, f.t, a, b)
    c = e.get(f.operand(3), t)
    if "cc" in f.marks:
        e.put(f.d, _with_carry(e, f, t, product, c, "add", False), t)
    else:
        e.put(f.d, e.value(f"add {e.type(t)} {product}, {c}"), t)


@rule("madc", "lo hi cc", "sub")
def _madc(e: Handler, f: Form) -> None:
    a, b = _sources(e, f, f.t, 2)
    product, t = _product(e, f, f.t, a, b)
    e.put(f.d, _with_carry(e, f, t, product, e.get(f.operand(3), t), "add", True), t)


@rule("mul24 mad24", "lo", "su")
def _mul24(e: Handler, f: Form) -> None:
    t, eight = f.t, e.number(f.t, 8)
    shift = "ashr" if t.kind == "i" else "lshr"
    a, b = (e.value(f"{shift} {e.type(t)} {e.value(f'shl {e.type(t)} {v}, {eight}')}, {eight}")
            for v in _sources(e, f, t, 2))  # fmt: skip
    result = e.value(f"mul {e.type(t)} {a}, {b}")
    if f.name == "mad24":
        result = e.value(f"add {e.type(t)} {result}, {e.get(f.operand(3), t)}")
    e.put(f.d, result, t)


@rule("fma", "rn rz rm rp ftz", "f")
def _fma(e: Handler, f: Form) -> None:
    t = f.t
    _nearest(f)
    if t.bits == 16:
        raise f.refuse()  # float32 holds the product, but not always the sum
    result = emit_ops.TABLE["fma"](e, t, _sources(e, f, t, 3))
    e.put(f.d, _flushed(e, f, t, result), t)


@rule("div", "rn rz rm rp ftz approx full")
def _div(e: Handler, f: Form) -> None:
    t = f.t
    _nearest(f)
    a, b = _sources(e, f, t, 2)
    if t.is_float:
        e.put(f.d, _flushed(e, f, t, e.value(f"fdiv {e.type(t)} {a}, {b}")), t)
    else:
        e.put(f.d, _quotient(e, t, a, b, "div"), t)


@rule("rem", "", "su")
def _rem(e: Handler, f: Form) -> None:
    a, b = _sources(e, f, f.t, 2)
    e.put(f.d, _quotient(e, f.t, a, b, "rem"), f.t)


def _quotient(e: Handler, t: Scalar, a: str, b: str, op: str) -> str:
    """a / b or the remainder. By zero: all ones and a, as GPUs give; INT_MIN / -1 wraps. Resting lanes divide by 1."""
    lt, one = e.type(t), e.number(t, 1)
    zero = e.value(f"icmp eq {lt} {b}, zeroinitializer")
    resting = e.value(f"xor {TRUTH} {e.lanes}, splat (i1 true)")
    unsafe = e.value(f"or {TRUTH} {zero}, {resting}")
    e.count_zero_divisions(zero)
    minus = ""
    if t.kind == "i":
        minus = e.value(f"icmp eq {lt} {b}, {e.number(t, -1)}")
        unsafe = e.value(f"or {TRUTH} {unsafe}, {minus}")
    safe = e.value(f"select {TRUTH} {unsafe}, {lt} {one}, {lt} {b}")
    result = e.quotient(t, a, safe) if op == "div" else e.remainder(t, a, safe)
    if minus:
        other = e.value(f"sub {lt} zeroinitializer, {a}") if op == "div" else "zeroinitializer"
        result = e.value(f"select {TRUTH} {minus}, {lt} {other}, {lt} {result}")
    by_zero = e.number(t, -1 if t.kind == "i" else t.range[1]) if op == "div" else a
    return e.value(f"select {TRUTH} {zero}, {lt} {by_zero}, {lt} {result}")


@rule("neg abs", "ftz", "sf")
def _sign(e: Handler, f: Form) -> None:
    t = f.t
    (a,) = _sources(e, f, t, 1)
    if t.is_float:  # a matter of the sign bit, also of a NaN
        number = _UNSIGNED[t.bits]
        bits, sign = e.cast_bits(a, t, number), 1 << t.bits - 1
        op, constant = ("xor", -sign) if f.name == "neg" else ("and", sign - 1)
        e.put(f.d, e.value(f"{op} {e.type(number)} {bits}, splat (i{t.bits} {constant})"), number)
        return
    e.put(f.d, emit_ops.TABLE[f.name](e, t, [a]), t)


@rule("min max", "ftz NaN")
def _extreme(e: Handler, f: Form) -> None:
    t = f.t
    values = _sources(e, f, t, 2)
    if "NaN" in f.marks:

        def compute(t: Scalar, v: list[str]) -> str:
            return e.intrinsic(f"llvm.{f.name}imum.{e.suffix(t)}", e.type(t), *[f"{e.type(t)} {x}" for x in v])
    else:

        def compute(t: Scalar, v: list[str]) -> str:
            return emit_ops.TABLE[f.name](e, t, v)

    e.put(f.d, _half(e, t, compute, values), t)


@rule("sqrt rcp", "rn rz rm rp ftz approx", "f")
def _root(e: Handler, f: Form) -> None:
    t = f.t
    _nearest(f)
    (a,) = _sources(e, f, t, 1)
    result = (
        emit_ops.TABLE["sqrt"](e, t, [a]) if f.name == "sqrt" else e.value(f"fdiv {e.type(t)} {e.number(t, 1.0)}, {a}")
    )
    e.put(f.d, _flushed(e, f, t, result), t)


@rule("rsqrt", "approx ftz", "f")
def _rsqrt(e: Handler, f: Form) -> None:
    t = f.t
    (a,) = _sources(e, f, t, 1)
    root = emit_ops.TABLE["sqrt"](e, t, [a])
    e.put(f.d, e.value(f"fdiv {e.type(t)} {e.number(t, 1.0)}, {root}"), t)


@rule("ex2 lg2 sin cos tanh", "approx ftz", "f")
def _approximate(e: Handler, f: Form) -> None:
    t = f.t
    if t.name != "float32":
        raise f.refuse()
    (a,) = _sources(e, f, t, 1)
    name = {"ex2": "exp2f", "lg2": "log2f", "sin": "sinf", "cos": "cosf", "tanh": "tanhf"}[f.name]
    e.put(f.d, e.lane_by_lane(name, t, a), t)


@rule("copysign", "", "f")
def _copysign(e: Handler, f: Form) -> None:
    a, b = _sources(e, f, f.t, 2)
    e.put(f.d, emit_ops.TABLE["copysign"](e, f.t, [b, a]), f.t)


_CLASSES = {
    "finite": 0x1F8,
    "infinite": 0x204,
    "number": 0x3FC,
    "notanumber": 0x003,
    "normal": 0x108,
    "subnormal": 0x090,
}


@rule("testp", " ".join(_CLASSES), "f")
def _testp(e: Handler, f: Form) -> None:
    t = f.t
    (a,) = _sources(e, f, t, 1)
    mask = _CLASSES[f.marks[0]]
    name = f"llvm.is.fpclass.{e.suffix(t)}"
    e.put(f.d, e.intrinsic(name, TRUTH, f"{e.type(t)} {a}", f"i32 {mask}"), types.bool_)


@rule("sad", "", "su")
def _sad(e: Handler, f: Form) -> None:
    t, lt = f.t, e.type(f.t)
    a, b, c = _sources(e, f, t, 3)
    less = e.value(f"icmp {'s' if t.kind == 'i' else 'u'}lt {lt} {a}, {b}")
    up, down = e.value(f"sub {lt} {b}, {a}"), e.value(f"sub {lt} {a}, {b}")
    e.put(f.d, e.value(f"add {lt} {c}, {e.value(f'select {TRUTH} {less}, {lt} {up}, {lt} {down}')}"), t)


@rule("dp4a", "", "su")
def _dp4a(e: Handler, f: Form) -> None:
    word = e.type(types.uint32)
    total = e.get(f.operand(3), types.uint32)
    for byte in range(4):
        factors = []
        for place, t in enumerate(f.types):
            v = e.get(f.operand(1 + place), types.uint32)
            top = e.value(f"shl {word} {v}, {e.number(types.uint32, 24 - 8 * byte)}")
            factors.append(e.value(f"{'ashr' if t.kind == 'i' else 'lshr'} {word} {top}, {e.number(types.uint32, 24)}"))
        total = e.value(f"add {word} {total}, {e.value(f'mul {word} {factors[0]}, {factors[1]}')}")
    e.put(f.d, total, types.uint32)


# bits


@rule("and or xor", "", "bp")
def _logic(e: Handler, f: Form) -> None:
    a, b = _sources(e, f, f.t, 2)
    e.put(f.d, e.value(f"{f.name} {e.type(f.t)} {a}, {b}"), f.t)


@rule("not", "", "bp")
def _not(e: Handler, f: Form) -> None:
    ones = "splat (i1 true)" if f.t.kind == "b" else f"splat (i{f.t.bits} -1)"
    e.put(f.d, e.value(f"xor {e.type(f.t)} {_sources(e, f, f.t, 1)[0]}, {ones}"), f.t)


@rule("cnot", "", "b")
def _cnot(e: Handler, f: Form) -> None:
    zero = e.value(f"icmp eq {e.type(f.t)} {_sources(e, f, f.t, 1)[0]}, zeroinitializer")
    e.put(f.d, e.value(f"zext {TRUTH} {zero} to {e.type(f.t)}"), f.t)


@rule("lop3", "", "b")
def _lop3(e: Handler, f: Form) -> None:
    table = f.operand(4)
    if not isinstance(table, Imm):
        raise f.refuse("needs a constant table")
    word, ones = e.type(f.t), f"splat (i{f.t.bits} -1)"
    inputs = [(v, e.value(f"xor {word} {v}, {ones}")) for v in _sources(e, f, f.t, 3)]
    result = "zeroinitializer"
    for row in range(8):
        if table.value >> row & 1:
            picked = [inputs[k][0 if row >> (2 - k) & 1 else 1] for k in range(3)]
            term = e.value(f"and {word} {e.value(f'and {word} {picked[0]}, {picked[1]}')}, {picked[2]}")
            result = e.value(f"or {word} {result}, {term}")
    e.put(f.d, result, f.t)


def _clamped_shift(e: Handler, op: str, t: Scalar, value: str, amount: str) -> str:
    """A shift by a 32-bit amount; beyond the width nothing but zeros, or the sign, is left."""
    lt, word = e.type(t), e.type(types.uint32)
    limit = t.bits - 1 if op == "ashr" else t.bits
    less = e.value(f"icmp ult {word} {amount}, {e.number(types.uint32, limit)}")
    last = e.number(types.uint32, t.bits - 1)
    safe = e.value(f"select {TRUTH} {less}, {word} {amount}, {word} {last}")
    if t.bits != 32:
        safe = e.value(f"{'zext' if t.bits > 32 else 'trunc'} {word} {safe} to {lt}")
    shifted = e.value(f"{op} {lt} {value}, {safe}")
    return shifted if op == "ashr" else e.value(f"select {TRUTH} {less}, {lt} {shifted}, {lt} zeroinitializer")


@rule("shl shr", "", "sub")
def _shift(e: Handler, f: Form) -> None:
    op = "shl" if f.name == "shl" else "ashr" if f.t.kind == "i" else "lshr"
    e.put(f.d, _clamped_shift(e, op, f.t, e.get(f.operand(1), f.t), e.get(f.operand(2), types.uint32)), f.t)


@rule("shf", "l r wrap clamp", "b")
def _funnel(e: Handler, f: Form) -> None:
    word = e.type(types.uint32)
    low, high, amount = (e.get(f.operand(k), types.uint32) for k in (1, 2, 3))
    call = f"llvm.fsh{'l' if 'l' in f.marks else 'r'}.{e.suffix(types.uint32)}"
    result = e.intrinsic(call, word, f"{word} {high}", f"{word} {low}", f"{word} {amount}")
    if "clamp" in f.marks:
        over = e.value(f"icmp ugt {word} {amount}, {e.number(types.uint32, 31)}")
        result = e.value(f"select {TRUTH} {over}, {word} {low if 'l' in f.marks else high}, {word} {result}")
    e.put(f.d, result, types.uint32)


@rule("bfe", "", "su")
def _bfe(e: Handler, f: Form) -> None:
    t, lt, word = f.t, e.type(f.t), e.type(types.uint32)
    value = e.get(f.operand(1), t)
    start, count = (
        e.value(f"and {word} {e.get(f.operand(k), types.uint32)}, {e.number(types.uint32, 255)}") for k in (2, 3)
    )
    shifted = _clamped_shift(e, "ashr" if t.kind == "i" else "lshr", t, value, start)
    short = e.value(f"icmp ult {word} {count}, {e.number(types.uint32, t.bits)}")
    unused = e.value(f"sub {word} {e.number(types.uint32, t.bits)}, {count}")
    drop = e.value(f"select {TRUTH} {short}, {word} {unused}, {word} zeroinitializer")
    up = _clamped_shift(e, "shl", t, shifted, drop)
    result = _clamped_shift(e, "ashr" if t.kind == "i" else "lshr", t, up, drop)
    empty = e.value(f"icmp eq {word} {count}, zeroinitializer")
    e.put(f.d, e.value(f"select {TRUTH} {empty}, {lt} zeroinitializer, {lt} {result}"), t)


@rule("bfi", "", "b")
def _bfi(e: Handler, f: Form) -> None:
    t, lt, word = f.t, e.type(f.t), e.type(types.uint32)
    value, into = e.get(f.operand(1), t), e.get(f.operand(2), t)
    start, count = (
        e.value(f"and {word} {e.get(f.operand(k), types.uint32)}, {e.number(types.uint32, 255)}") for k in (3, 4)
    )
    ones = f"splat (i{t.bits} -1)"
    above = e.value(f"xor {lt} {_clamped_shift(e, 'shl', t, ones, count)}, {ones}")
    mask = _clamped_shift(e, "shl", t, above, start)
    moved = e.value(f"and {lt} {_clamped_shift(e, 'shl', t, value, start)}, {mask}")
    kept = e.value(f"and {lt} {into}, {e.value(f'xor {lt} {mask}, {ones}')}")
    e.put(f.d, e.value(f"or {lt} {kept}, {moved}"), t)


@rule("prmt", "", "b")
def _prmt(e: Handler, f: Form) -> None:
    word, wide = e.type(types.uint32), e.type(types.uint64)
    a, b = (e.value(f"zext {word} {e.get(f.operand(k), types.uint32)} to {wide}") for k in (1, 2))
    both = e.value(f"or {wide} {a}, {e.value(f'shl {wide} {b}, splat (i64 32)')}")
    selector = e.get(f.operand(3), types.uint32)
    result = "zeroinitializer"
    for byte in range(4):
        nibble = e.value(f"lshr {word} {selector}, {e.number(types.uint32, 4 * byte)}")
        index = e.value(f"and {word} {nibble}, {e.number(types.uint32, 7)}")
        far = e.value(f"zext {word} {e.value(f'shl {word} {index}, {e.number(types.uint32, 3)}')} to {wide}")
        picked = e.value(f"trunc {wide} {e.value(f'lshr {wide} {both}, {far}')} to <{LANES} x i8>")
        sign = e.value(f"ashr <{LANES} x i8> {picked}, splat (i8 7)")
        replicate = e.value(
            f"icmp ne {word} {e.value(f'and {word} {nibble}, {e.number(types.uint32, 8)}')}, zeroinitializer"
        )
        chosen = e.value(f"select {TRUTH} {replicate}, <{LANES} x i8> {sign}, <{LANES} x i8> {picked}")
        placed = e.value(
            f"shl {word} {e.value(f'zext <{LANES} x i8> {chosen} to {word}')}, {e.number(types.uint32, 8 * byte)}"
        )
        result = e.value(f"or {word} {result}, {placed}")
    e.put(f.d, result, types.uint32)


@rule("popc clz brev", "", "b")
def _count(e: Handler, f: Form) -> None:
    t, lt = f.t, e.type(f.t)
    a = e.get(f.operand(1), t)
    name, extra = {"popc": ("ctpop", ()), "clz": ("ctlz", ("i1 false",)), "brev": ("bitreverse", ())}[f.name]
    result = e.intrinsic(f"llvm.{name}.{e.suffix(t)}", lt, f"{lt} {a}", *extra)
    if f.name != "brev" and t.bits == 64:
        result, t = e.value(f"trunc {lt} {result} to {e.type(types.uint32)}"), types.uint32
    e.put(f.d, result, t)


@rule("bfind", "shiftamt", "su")
def _bfind(e: Handler, f: Form) -> None:
    t, lt, word = f.t, e.type(f.t), e.type(types.uint32)
    a = e.get(f.operand(1), t)
    if t.kind == "i":  # of a negative number the highest zero counts
        a = e.value(f"xor {lt} {a}, {e.value(f'ashr {lt} {a}, {e.number(t, t.bits - 1)}')}")
    zeros = e.intrinsic(f"llvm.ctlz.{e.suffix(t)}", lt, f"{lt} {a}", "i1 false")
    none = e.value(f"icmp eq {lt} {a}, zeroinitializer")
    place = zeros if "shiftamt" in f.marks else e.value(f"sub {lt} {e.number(t, t.bits - 1)}, {zeros}")
    if t.bits == 64:
        place = e.value(f"trunc {lt} {place} to {word}")
    e.put(f.d, e.value(f"select {TRUTH} {none}, {word} splat (i32 -1), {word} {place}"), types.uint32)


# comparison and choice

_INTEGER_TESTS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "lt", "ls": "le",
                  "hi": "gt", "hs": "ge"}  # fmt: skip
_REAL_TESTS = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
               "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno"}  # fmt: skip


def _test(e: Handler, f: Form, t: Scalar, v: list[str]) -> str:
    name = f.marks[0] if f.marks else ""
    if t.is_float:
        if name not in _REAL_TESTS:
            raise f.refuse("has no such comparison")
        return _compared(e, t, f"fcmp {_REAL_TESTS[name]}", v)
    if name not in _INTEGER_TESTS:
        raise f.refuse("has no such comparison")
    test = _INTEGER_TESTS[name]
    if test in ("eq", "ne"):
        return _compared(e, t, f"icmp {test}", v)
    if f.names[-1][0] == "b":
        raise f.refuse("compares bits, which have no order")
    return _compared(e, t, f"icmp {'s' if t.kind == 'i' and name not in ('lo', 'ls', 'hi', 'hs') else 'u'}{test}", v)


def _compared(e: Handler, t: Scalar, test: str, v: list[str]) -> str:
    if t.is_float and t.bits == 16:
        v, t = [_to_float32(e, t, x) for x in v], types.float32
    return e.value(f"{test} {e.type(t)} {v[0]}, {v[1]}")


@rule("setp", " ".join({*_INTEGER_TESTS, *_REAL_TESTS, "and", "or", "xor", "ftz"}))
def _setp(e: Handler, f: Form) -> None:
    t = f.types[-1]
    test = _test(e, f, t, _sources(e, f, t, 2))
    results = [test]
    if isinstance(f.d, Group):
        results.append(e.value(f"xor {TRUTH} {test}, splat (i1 true)"))
    join = [mark for mark in f.marks[1:] if mark in ("and", "or", "xor")]
    if join:
        third = e.get(f.operand(3), types.bool_)
        results = [e.value(f"{join[0]} {TRUTH} {result}, {third}") for result in results]
    destinations = f.d.items if isinstance(f.d, Group) else (f.d,)
    for destination, result in zip(destinations, results, strict=True):
        e.put(destination, result, types.bool_)


@rule("set", " ".join({*_INTEGER_TESTS, *_REAL_TESTS, "ftz"}))
def _set(e: Handler, f: Form) -> None:
    to, t = f.types
    test = _test(e, f, t, _sources(e, f, t, 2))
    one = e.number(to, 1.0) if to.is_float else f"splat (i{to.bits} -1)"
    e.put(f.d, e.value(f"select {TRUTH} {test}, {e.type(to)} {one}, {e.type(to)} zeroinitializer"), to)


@rule("selp")
def _selp(e: Handler, f: Form) -> None:
    t = _UNSIGNED[f.t.bits]
    a, b = e.get(f.operand(1), t), e.get(f.operand(2), t)
    e.put(f.d, e.value(f"select {TRUTH} {e.get(f.operand(3), types.bool_)}, {e.type(t)} {a}, {e.type(t)} {b}"), t)


@rule("slct", "ftz")
def _slct(e: Handler, f: Form) -> None:
    t, by = f.types
    c = e.get(f.operand(3), by)
    test = (
        f"fcmp oge {e.type(by)} {c}, zeroinitializer" if by.is_float else f"icmp sge {e.type(by)} {c}, zeroinitializer"
    )
    a, b = e.get(f.operand(1), t), e.get(f.operand(2), t)
    e.put(f.d, e.value(f"select {TRUTH} {e.value(test)}, {e.type(t)} {a}, {e.type(t)} {b}"), t)


# moves and conversions


@rule("mov", "", "subfp")
def _mov(e: Handler, f: Form) -> None:
    source = f.operand(1)
    t = f.t if f.t.kind == "b" else _UNSIGNED[f.t.bits]
    if isinstance(source, Group):
        part = t.bits // len(source.items)
        whole, lt = "zeroinitializer", e.type(t)
        for place, item in enumerate(source.items):
            wide = e.value(f"zext <{LANES} x i{part}> {e.get(item, _UNSIGNED[part])} to {lt}")
            shifted = e.value(f"shl {lt} {wide}, {e.number(t, place * part)}")
            whole = e.value(f"or {lt} {whole}, {shifted}")
        e.put(f.d, whole, t)
    elif isinstance(f.d, Group):
        part, lt, value = t.bits // len(f.d.items), e.type(t), e.get(source, t)
        for place, item in enumerate(f.d.items):
            shifted = e.value(f"lshr {lt} {value}, {e.number(t, place * part)}")
            e.put(item, e.value(f"trunc {lt} {shifted} to <{LANES} x i{part}>"), _UNSIGNED[part])
    else:
        e.put(f.d, e.get(source, t), t)


_WHOLE = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@rule("cvt", "rn rz rm rp rni rzi rmi rpi ftz sat")
def _cvt(e: Handler, f: Form) -> None:
    if len(f.types) != 2:
        raise f.refuse("needs two types")
    to, source = f.types
    value = _flushed(e, f, source, e.get(f.operand(1), source))
    _nearest_conversion(f, to, source)
    whole = next((_WHOLE[mark] for mark in f.marks if mark in _WHOLE), "")
    if source.is_float and source.bits == 16:
        value, source = _to_float32(e, source, value), types.float32
    if source.is_float and whole:
        value = e.intrinsic(f"llvm.{whole}.{e.suffix(source)}", e.type(source), f"{e.type(source)} {value}")
    if source.is_float and to.is_float:
        result = _real_to_real(e, f, source, to, value)
    elif source.is_float:
        result = _real_to_integer(e, f, source, to, value)
    elif to.is_float:
        name = "sitofp" if source.kind == "i" else "uitofp"
        if to.bits == 16:
            if source.bits > 16:
                raise f.refuse()  # float32 would round a first time
            wide = e.value(f"{name} {e.type(source)} {value} to {e.type(types.float32)}")
            result = _from_float32(e, to, wide)
        else:
            result = e.value(f"{name} {e.type(source)} {value} to {e.type(to)}")
    else:
        result = _integer_to_integer(e, f, source, to, value)
    if "sat" in f.marks and to.is_float:
        result = _unit(e, to, result)
    e.put(f.d, _flushed(e, f, to, result), to)


def _nearest_conversion(f: Form, to: Scalar, source: Scalar) -> None:
    if any(mark in f.marks for mark in ("rz", "rm", "rp")):
        raise f.refuse("rounds in a way that is not supported (only .rn is)")


def _real_to_real(e: Handler, f: Form, source: Scalar, to: Scalar, value: str) -> str:
    if to.bits == 16:
        if source.name != "float32":
            raise f.refuse()  # float32 would round a first time
        return _from_float32(e, to, value)
    if to.bits == source.bits:
        return value
    return e.value(f"{'fpext' if to.bits > source.bits else 'fptrunc'} {e.type(source)} {value} to {e.type(to)}")


def _real_to_integer(e: Handler, f: Form, source: Scalar, to: Scalar, value: str) -> str:
    """Saturates. A NaN gives 0, except that from or to 64 bits it gives the sign bit alone."""
    if not any(mark in _WHOLE for mark in f.marks):
        raise f.refuse("needs .rni, .rzi, .rmi or .rpi")
    sign = "s" if to.kind == "i" else "u"
    lt = e.type(to)
    result = e.intrinsic(f"llvm.fpto{sign}i.sat.{e.suffix(to)}.{e.suffix(source)}", lt, f"{e.type(source)} {value}")
    if source.bits == 64 or to.bits == 64:
        lost = e.value(f"fcmp uno {e.type(source)} {value}, {value}")
        result = e.value(f"select {TRUTH} {lost}, {lt} splat (i{to.bits} {-(1 << (to.bits - 1))}), {lt} {result}")
    return result


def _integer_to_integer(e: Handler, f: Form, source: Scalar, to: Scalar, value: str) -> str:
    if "sat" in f.marks:
        value, source = _saturated(e, source, to, value)
    if to.bits == source.bits:
        return value
    if to.bits < source.bits:
        return e.value(f"trunc {e.type(source)} {value} to {e.type(to)}")
    return e.value(f"{'sext' if source.kind == 'i' else 'zext'} {e.type(source)} {value} to {e.type(to)}")


def _saturated(e: Handler, source: Scalar, to: Scalar, value: str) -> tuple[str, Scalar]:
    """Within what both types can hold."""
    lt, sign = e.type(source), "s" if source.kind == "i" else "u"
    low, high = max(source.range[0], to.range[0]), min(source.range[1], to.range[1])
    for name, bound in (("max", low), ("min", high)):
        value = e.intrinsic(
            f"llvm.{sign}{name}.{e.suffix(source)}", lt, f"{lt} {value}", f"{lt} {e.number(source, bound)}"
        )
    return value, source


def _unit(e: Handler, t: Scalar, value: str) -> str:
    """Clamped to 0 … 1; a NaN gives 0."""
    if t.bits == 16:
        wide = _unit(e, types.float32, _to_float32(e, t, value))
        return _from_float32(e, t, wide)
    above = e.value(f"fcmp ogt {e.type(t)} {value}, zeroinitializer")
    positive = e.value(f"select {TRUTH} {above}, {e.type(t)} {value}, {e.type(t)} zeroinitializer")
    below = e.value(f"fcmp olt {e.type(t)} {positive}, {e.number(t, 1.0)}")
    return e.value(f"select {TRUTH} {below}, {e.type(t)} {positive}, {e.type(t)} {e.number(t, 1.0)}")
