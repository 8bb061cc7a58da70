"""LLVM text of the elementwise primitives, one entry for each; `ops.py` says what they mean.

An entry takes the emitter, the type and the operands as text, and returns the result as text. Nothing here is undefined
for any operand: divisors are made safe first (a trap would kill the process), shift counts are masked, float to integer
saturates.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Protocol

from engine.compiler.types import Scalar, bfloat16_bits

LLVM_TYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "i8", "uint16": "i16",
    "uint32": "i32", "uint64": "i64", "float16": "half", "float32": "float", "float64": "double", "bfloat16": "i16",
}  # fmt: skip


class Emitter(Protocol):
    """What an entry needs of the emitter that calls it.

    The texts that it hands out are of scalars, or of vectors with one element for each lane: the entries serve both.
    """

    def type(self, t: Scalar) -> str:
        """`float`, or `<8 x float>`."""

    def bits_type(self, bits: int) -> str:
        """`i32`, or `<8 x i32>`; of one bit: the type of truth values."""

    def suffix(self, t: Scalar) -> str:
        """The type in the name of an intrinsic: `f32`, or `v8f32`."""

    def number(self, t: Scalar, value: Any) -> str:
        """A constant of a type: `5`, or `splat (i32 5)`."""

    def value(self, text: str) -> str:
        """Appends `%new = text`; returns the new name."""

    def intrinsic(self, name: str, result: str, *typed: str) -> str:
        """Appends a call; each of `typed` is "type operand"."""

    def quotient(self, t: Scalar, a: str, b: str) -> str:
        """a / b of integers toward zero; b is neither 0 nor -1."""

    def remainder(self, t: Scalar, a: str, b: str) -> str:
        """What `quotient` leaves, with the sign of a."""

    def saturated(self, source: Scalar, to: Scalar, v: str) -> str:
        """A float as an integer, toward zero: the nearest one where it does not fit, 0 for NaN."""


Entry = Callable[[Emitter, Scalar, list[str]], str]


def literal(t: Scalar, value: Any) -> str:
    """A constant as LLVM writes it: exact bits for floats, which hexadecimal of the double gives."""
    if t.kind == "b":
        return "true" if value else "false"
    if t.kind != "f":
        value = int(value)
        return str(value - (1 << t.bits) if t.kind == "u" and value >> (t.bits - 1) else value)
    value = float(value)
    if t.name == "bfloat16":
        bits = int(bfloat16_bits(value))
        return str(bits - 0x10000 if bits >> 15 else bits)
    if t.bits == 16:
        if abs(value) >= 65520.0:
            value = math.copysign(math.inf, value)
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if t.bits == 32 and not math.isnan(value):
        value = _single(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _number(text: str) -> float | int | None:
    """The constant that an operand's text spells, or None for a run-time value."""
    if text[0] == "%":
        return None
    if text.startswith("splat ("):
        text = text[:-1].rpartition(" ")[2]
    if text.startswith("0x"):
        return float(struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0])
    return {"true": 1, "false": 0}.get(text) if text[0] in "tf" else int(text)


def _binary(whole: str, real: str = "", unsigned: str = "") -> Entry:
    names = {"i": whole, "b": whole, "u": unsigned or whole, "f": real}

    def emit(e: Emitter, t: Scalar, v: list[str]) -> str:
        return e.value(f"{names[t.kind]} {e.type(t)} {v[0]}, {v[1]}")

    return emit


def _compare(whole: str, real: str, unsigned: str = "") -> Entry:
    return _binary(f"icmp {whole}", f"fcmp {real}", f"icmp {unsigned or whole}")


def _float_call(name: str, arity: int) -> Entry:
    def emit(e: Emitter, t: Scalar, v: list[str]) -> str:
        lt = e.type(t)
        return e.intrinsic(f"llvm.{name}.{e.suffix(t)}", lt, *[f"{lt} {x}" for x in v[:arity]])

    return emit


def _negate(e: Emitter, t: Scalar, v: list[str]) -> str:
    lt = e.type(t)
    return e.value(f"fneg {lt} {v[0]}" if t.is_float else f"sub {lt} {e.number(t, 0)}, {v[0]}")


def _absolute(e: Emitter, t: Scalar, v: list[str]) -> str:
    if t.is_float:
        return _float_call("fabs", 1)(e, t, v)
    lt = e.type(t)
    return e.intrinsic(f"llvm.abs.{e.suffix(t)}", lt, f"{lt} {v[0]}", "i1 false")


def _ones(t: Scalar) -> int:
    return -1 if t.kind == "i" else t.range[1]


def _not(e: Emitter, t: Scalar, v: list[str]) -> str:
    return e.value(f"xor {e.type(t)} {v[0]}, {e.number(t, True if t.kind == 'b' else _ones(t))}")


def _count_bits(name: str, *extra: str) -> Entry:
    def emit(e: Emitter, t: Scalar, v: list[str]) -> str:
        lt = e.type(t)
        return e.intrinsic(f"llvm.{name}.{e.suffix(t)}", lt, f"{lt} {v[0]}", *extra)

    return emit


def _shift(signed: str, unsigned: str) -> Entry:
    def emit(e: Emitter, t: Scalar, v: list[str]) -> str:
        lt, count = e.type(t), _number(v[1])
        if count is not None:
            masked = e.number(t, int(count) & (t.bits - 1))
        else:
            masked = e.value(f"and {lt} {v[1]}, {e.number(t, t.bits - 1)}")
        return e.value(f"{signed if t.kind == 'i' else unsigned} {lt} {v[0]}, {masked}")

    return emit


# integer division


def _safe_divisor(e: Emitter, t: Scalar, b: str) -> tuple[str, str, str]:
    """(divisor that cannot trap, truth "b is 0" or "", truth "b is -1" or ""); "" means known to be false."""
    lt, constant = e.type(t), _number(b)
    if constant is not None and constant not in (0, -1):
        return b, "", ""
    truth, one = e.bits_type(1), e.number(t, 1)
    zero = e.value(f"icmp eq {lt} {b}, {e.number(t, 0)}")
    if t.kind == "u":
        return e.value(f"select {truth} {zero}, {lt} {one}, {lt} {b}"), zero, ""
    minus = e.value(f"icmp eq {lt} {b}, {e.number(t, -1)}")
    bad = e.value(f"or {truth} {zero}, {minus}")
    return e.value(f"select {truth} {bad}, {lt} {one}, {lt} {b}"), zero, minus


def _finish_quotient(e: Emitter, t: Scalar, a: str, quotient: str, zero: str, minus: str) -> str:
    lt, truth, nought = e.type(t), e.bits_type(1), e.number(t, 0)
    if minus:
        negative = e.value(f"sub {lt} {nought}, {a}")  # wraps for INT_MIN
        quotient = e.value(f"select {truth} {minus}, {lt} {negative}, {lt} {quotient}")
    return e.value(f"select {truth} {zero}, {lt} {nought}, {lt} {quotient}") if zero else quotient


def _divide(e: Emitter, t: Scalar, v: list[str]) -> str:
    lt = e.type(t)
    if t.is_float:
        return e.value(f"fdiv {lt} {v[0]}, {v[1]}")
    safe, zero, minus = _safe_divisor(e, t, v[1])
    quotient = e.quotient(t, v[0], safe)
    return _finish_quotient(e, t, v[0], quotient, zero, minus)


def _remainder_is_opposite(e: Emitter, t: Scalar, remainder: str, divisor: str) -> str:
    """Whether truncation and floor differ: the remainder is not 0 and its sign is not the divisor's."""
    lt, nought = e.type(t), e.number(t, 0)
    nonzero = e.value(f"icmp ne {lt} {remainder}, {nought}")
    mixed = e.value(f"xor {lt} {remainder}, {divisor}")
    opposite = e.value(f"icmp slt {lt} {mixed}, {nought}")
    return e.value(f"and {e.bits_type(1)} {nonzero}, {opposite}")


def _floor_divide(e: Emitter, t: Scalar, v: list[str]) -> str:
    if t.kind == "u":
        return _divide(e, t, v)
    lt = e.type(t)
    safe, zero, minus = _safe_divisor(e, t, v[1])
    quotient = e.quotient(t, v[0], safe)
    remainder = e.remainder(t, v[0], safe)
    lower = _remainder_is_opposite(e, t, remainder, safe)
    step = e.value(f"sext {e.bits_type(1)} {lower} to {lt}")
    quotient = e.value(f"add {lt} {quotient}, {step}")
    return _finish_quotient(e, t, v[0], quotient, zero, minus)


def _modulo(e: Emitter, t: Scalar, v: list[str]) -> str:
    lt = e.type(t)
    safe, zero, _ = _safe_divisor(e, t, v[1])  # the remainder by 1 is 0, right for -1 and 0, too
    if t.kind == "u":
        return e.remainder(t, v[0], safe)
    remainder = e.remainder(t, v[0], safe)
    lower = _remainder_is_opposite(e, t, remainder, safe)
    step = e.value(f"select {e.bits_type(1)} {lower}, {lt} {safe}, {lt} {e.number(t, 0)}")
    return e.value(f"add {lt} {remainder}, {step}")


# smaller and larger


def _chosen(test: str, e: Emitter, lt: str, a: str, b: str) -> str:
    truth = e.value(f"{test} {lt} {a}, {b}")
    return e.value(f"select {e.bits_type(1)} {truth}, {lt} {a}, {lt} {b}")


def _select_extreme(whole: str, unsigned: str, real: str) -> Entry:
    tests = {"i": f"icmp {whole}", "u": f"icmp {unsigned}", "f": f"fcmp {real}"}
    return lambda e, t, v: _chosen(tests[t.kind], e, e.type(t), v[0], v[1])


def _extreme(name: str) -> Entry:
    """min or max: a NaN operand is ignored and -0 < +0. Written out, because LLVM's own form branches on x86."""
    less, join = ("olt", "or") if name == "min" else ("ogt", "and")

    def emit(e: Emitter, t: Scalar, v: list[str]) -> str:
        lt = e.type(t)
        if not t.is_float:
            sign = "s" if t.kind == "i" else "u"
            return e.intrinsic(f"llvm.{sign}{name}.{e.suffix(t)}", lt, f"{lt} {v[0]}", f"{lt} {v[1]}")
        a, b = v
        if _number(a) is not None:
            a, b = b, a
        constant = _number(b)
        if constant is not None and not math.isnan(constant):
            # a zero constant of the losing sign must give way to the other zero
            gives_way = constant == 0 and (math.copysign(1.0, constant) > 0) == (name == "min")
            return _chosen(f"fcmp {less.replace('t', 'e') if gives_way else less}", e, lt, a, b)
        it, truth = e.bits_type(t.bits), e.bits_type(1)
        chosen = _chosen(f"fcmp {less}", e, lt, a, b)  # b, when a is NaN
        equal = e.value(f"fcmp oeq {lt} {a}, {b}")
        bits = [e.value(f"bitcast {lt} {x} to {it}") for x in (a, b)]
        joined = e.value(f"{join} {it} {bits[0]}, {bits[1]}")
        zero = e.value(f"bitcast {it} {joined} to {lt}")
        chosen = e.value(f"select {truth} {equal}, {lt} {zero}, {lt} {chosen}")
        lost = e.value(f"fcmp uno {lt} {b}, {b}")
        return e.value(f"select {truth} {lost}, {lt} {a}, {lt} {chosen}")

    return emit


TABLE: dict[
    str, Entry] = { "add": _binary("add", "fadd"), "sub": _binary("sub", "fsub"), "mul": _binary("mul", "fmul"),
    "div": _divide, "floordiv": _floor_divide, "mod": _modulo, "neg": _negate, "abs": _absolute,
    "sqrt": _float_call("sqrt", 1), "fma": _float_call("fma", 3), "floor": _float_call("floor", 1),
    "ceil": _float_call("ceil", 1), "trunc": _float_call("trunc", 1), "rint": _float_call("roundeven", 1),
    "copysign": _float_call("copysign", 2), "min": _extreme("min"), "max": _extreme("max"),
    "select_min": _select_extreme("slt", "ult", "olt"), "select_max": _select_extreme("sgt", "ugt", "ogt"),
    "and": _binary("and"), "or": _binary("or"), "xor": _binary("xor"), "not": _not, "shl": _shift("shl", "shl"),
    "shr": _shift("ashr", "lshr"), "popcount": _count_bits("ctpop"), "clz": _count_bits("ctlz", "i1 false"),
    "eq": _compare("eq", "oeq"), "ne": _compare("ne", "une"), "lt": _compare("slt", "olt", "ult"),
    "le": _compare("sle", "ole", "ule"), "gt": _compare("sgt", "ogt", "ugt"), "ge": _compare("sge", "oge", "uge"),
}  # fmt: skip


def cast(e: Emitter, source: Scalar, to: Scalar, v: str) -> str:
    """`cast` between any two scalar types; float16 goes through float32."""
    if source == to:
        return v
    if source.name == "bfloat16":
        wide = e.value(f"shl i32 {e.value(f'zext i16 {v} to i32')}, 16")
        return cast(e, _FLOAT32, to, e.value(f"bitcast i32 {wide} to float"))
    if to.name == "bfloat16":
        return _to_bfloat16(e, cast(e, source, _FLOAT32, v))
    if source.kind == "f" and source.bits == 16 and to.name != "float32":
        v, source = e.value(f"fpext {e.type(source)} {v} to {e.type(_FLOAT32)}"), _FLOAT32
    if to.name == "float16" and source.name != "float32":
        v, source = cast(e, source, _FLOAT32, v), _FLOAT32
    a, b = e.type(source), e.type(to)
    if to.kind == "b":
        return e.value(f"{'fcmp une' if source.is_float else 'icmp ne'} {a} {v}, {e.number(source, 0)}")
    if source.is_float and to.is_float:
        return e.value(f"{'fpext' if to.bits > source.bits else 'fptrunc'} {a} {v} to {b}")
    if source.is_float:
        return e.saturated(source, to, v)
    if to.is_float:
        return e.value(f"{'sitofp' if source.kind == 'i' else 'uitofp'} {a} {v} to {b}")
    if to.bits == source.bits:
        return v
    if to.bits < source.bits:
        return e.value(f"trunc {a} {v} to {b}")
    return e.value(f"{'sext' if source.kind == 'i' else 'zext'} {a} {v} to {b}")


def _to_bfloat16(e: Emitter, v: str) -> str:
    """float32 rounded to the nearest bfloat16, ties to even, in integer arithmetic; a NaN stays one."""
    bits = e.value(f"bitcast float {v} to i32")
    high = e.value(f"lshr i32 {bits}, 16")
    odd = e.value(f"and i32 {high}, 1")
    raised = e.value(f"add i32 {bits}, {e.value(f'add i32 {odd}, 32767')}")
    rounded = e.value(f"lshr i32 {raised}, 16")
    quiet = e.value(f"or i32 {high}, 64")
    lost = e.value(f"fcmp uno float {v}, {v}")
    return e.value(f"trunc i32 {e.value(f'select i1 {lost}, i32 {quiet}, i32 {rounded}')} to i16")


_FLOAT32 = Scalar("float32", "f", 32)
