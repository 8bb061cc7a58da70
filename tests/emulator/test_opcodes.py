"""Every opcode and type form that the emulated GPU knows, against values that NumPy and Python compute on their own."""
# ruff: noqa: E501 (several instructions in a line keep PTX readable)

import math
from collections.abc import Iterator

import numpy as np
import pytest

from engine.compiler.emit_warp32_ops import RULES
from engine.context import array, load_ptx
from tests.emulator.one_instruction import evaluate, evaluate_all, kernel_text

N = 96  # three warps
INTEGERS = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32,
            "s64": np.int64, "u64": np.uint64, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64}  # fmt: skip
FLOATS = {"f32": np.float32, "f64": np.float64}
covered: set[str] = set()  # opcodes that were run, by name


def note(code: str) -> None:
    covered.update(line.split(".")[0].split()[0] for line in code.replace("\n", ";").split(";") if line.strip())


def run(code: str, inputs: list[np.ndarray], result: np.dtype | type) -> np.ndarray:
    note(code)
    return evaluate(code, inputs, result)


class Batch:
    """Collects instructions with what they should give, and runs all in one kernel: compiling one is most of the time."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, list[np.ndarray], np.ndarray]] = []

    def __call__(self, code: str, inputs: list[np.ndarray], expected: np.ndarray) -> None:
        note(code)
        self.rows.append((code, [np.ascontiguousarray(v) for v in inputs], expected))

    def finish(self) -> None:
        for start in range(0, len(self.rows), 24):
            rows = self.rows[start : start + 24]
            found = evaluate_all([(code, inputs, expected.dtype) for code, inputs, expected in rows])
            for (code, _, expected), got in zip(rows, found, strict=True):
                same(got, expected, code)


@pytest.fixture
def check() -> Iterator[Batch]:
    batch = Batch()
    yield batch
    batch.finish()


def integers(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Random integers, with all corner cases among them."""
    dtype = np.dtype(INTEGERS[kind])
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, N, dtype=dtype, endpoint=True)
    corners = [
        0,
        1,
        2,
        31,
        32,
        63,
        info.max,
        info.max - 1,
        info.min,
        info.min // 2 + 1,
        *([-1, -2] if info.min else []),
    ]
    values[: len(corners)] = np.array([c & ((1 << 8 * dtype.itemsize) - 1) for c in corners], np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    small = rng.integers(0, 100, N) < 30
    values[small] = rng.integers(0, 70, N).astype(dtype)[small]
    return rng.permutation(values)


def reals(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Random numbers of all sizes, with zeros, infinities, NaN and subnormals among them."""
    dtype = FLOATS[kind]
    info = np.finfo(dtype)
    values = (rng.standard_normal(N) * 10.0 ** rng.uniform(-6, 6, N)).astype(dtype)
    corners = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal,
               2.0**31, -(2.0**31), 2.0**32, 2.0**63]  # fmt: skip
    with np.errstate(over="ignore"):
        values[: len(corners)] = np.array(corners).astype(dtype)
    return rng.permutation(values)


def same(got: np.ndarray, expected: np.ndarray, code: str = "") -> None:
    """Equal bits, except that any NaN is as good as any other."""
    assert got.dtype == expected.dtype
    bits = f"u{got.itemsize}"
    equal = got.view(bits) == np.ascontiguousarray(expected).view(bits)
    if got.dtype.kind == "f":
        equal |= np.isnan(got) & np.isnan(expected)
    assert equal.all(), f"{code} {got[~equal][:4]} is not {expected[~equal][:4]} at {np.flatnonzero(~equal)[:4]}"


def wide(values: np.ndarray) -> list[int]:
    return [int(v) for v in values]


def wrapped(numbers: list[int], dtype: type) -> np.ndarray:
    bits = 8 * np.dtype(dtype).itemsize
    return np.array([n & ((1 << bits) - 1) for n in numbers], f"u{bits // 8}").view(dtype)


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_arithmetic(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a, b, c = (integers(kind, rng) for _ in range(3))
    dtype, bits = INTEGERS[kind], int(kind[1:])
    x, y, z = wide(a), wide(b), wide(c)
    pairs = list(zip(x, y, strict=True))
    expected = {
        "add": [p + q for p, q in pairs], "sub": [p - q for p, q in pairs], "mul.lo": [p * q for p, q in pairs],
        "mul.hi": [p * q >> bits for p, q in pairs], "min": [min(p) for p in pairs], "max": [max(p) for p in pairs],
        "sad": [abs(p - q) + r for p, q, r in zip(x, y, z, strict=True)],
        "mad.lo": [p * q + r for p, q, r in zip(x, y, z, strict=True)],
        "mad.hi": [(p * q >> bits) + r for p, q, r in zip(x, y, z, strict=True)],
    }  # fmt: skip
    for name, numbers in expected.items():
        third = ", {c}" if name[:3] in ("mad", "sad") else ""
        check(f"{name}.{kind} {{d}}, {{a}}, {{b}}{third};", [a, b, c], wrapped(numbers, dtype))
    if bits < 64:
        double = INTEGERS[f"{kind[0]}{2 * bits}"]
        check(f"mul.wide.{kind} {{d}}, {{a}}, {{b}};", [a, b], wrapped([p * q for p, q in pairs], double))
        z2 = integers(f"{kind[0]}{2 * bits}", rng)
        numbers = [p * q + int(r) for p, q, r in zip(x, y, z2, strict=True)]
        check(f"mad.wide.{kind} {{d}}, {{a}}, {{b}}, {{c}};", [a, b, z2], wrapped(numbers, double))


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_division_never_traps(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a, b = integers(kind, rng), integers(kind, rng)
    a[:4] = np.iinfo(INTEGERS[kind]).min
    if kind[0] == "s":
        b[:2] = -1
    b[2:5] = 0

    def quotient(p: int, q: int) -> int:
        return -1 if q == 0 else abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)

    pairs = list(zip(wide(a), wide(b), strict=True))
    check(f"div.{kind} {{d}}, {{a}}, {{b}};", [a, b], wrapped([quotient(p, q) for p, q in pairs], INTEGERS[kind]))
    rests = [p - quotient(p, q) * q if q else p for p, q in pairs]
    check(f"rem.{kind} {{d}}, {{a}}, {{b}};", [a, b], wrapped(rests, INTEGERS[kind]))


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs_of_integers(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a = integers(kind, rng)
    check(f"neg.{kind} {{d}}, {{a}};", [a], wrapped([-v for v in wide(a)], a.dtype.type))
    check(f"abs.{kind} {{d}}, {{a}};", [a], wrapped([abs(v) for v in wide(a)], a.dtype.type))


def test_saturating_and_24_bit_arithmetic(check: Batch, rng: np.random.Generator) -> None:
    a, b = integers("s32", rng), integers("s32", rng)
    clamp = lambda v: max(-(2**31), min(2**31 - 1, v))
    pairs = list(zip(wide(a), wide(b), strict=True))
    check("add.sat.s32 {d}, {a}, {b};", [a, b], np.array([clamp(p + q) for p, q in pairs], np.int32))
    check("sub.sat.s32 {d}, {a}, {b};", [a, b], np.array([clamp(p - q) for p, q in pairs], np.int32))
    low = lambda v: (v & 0xFFFFFF) - ((v & 0x800000) << 1)
    check("mul24.lo.s32 {d}, {a}, {b};", [a, b], wrapped([low(p) * low(q) for p, q in pairs], np.int32))
    check("mad24.lo.s32 {d}, {a}, {b}, {a};", [a, b], wrapped([low(p) * low(q) + p for p, q in pairs], np.int32))


def test_long_numbers_by_carries(check: Batch, rng: np.random.Generator) -> None:
    a, b = integers("u64", rng), integers("u64", rng)
    split = "mov.b64 {{%r10, %r11}}, {a}; mov.b64 {{%r12, %r13}}, {b};"
    join = "mov.b64 {d}, {{%r14, %r15}};"
    for name, numbers in (("add", [p + q for p, q in zip(wide(a), wide(b), strict=True)]),
                          ("sub", [p - q for p, q in zip(wide(a), wide(b), strict=True)])):  # fmt: skip
        code = f"{split} {name}.cc.u32 %r14, %r10, %r12; {name}c.u32 %r15, %r11, %r13; {join}"
        check(code, [a, b], wrapped(numbers, np.uint64))
    code = f"""{split} mul.lo.u32 %r14, %r10, %r12; mul.hi.u32 %r15, %r10, %r12;
        mad.lo.cc.u32 %r15, %r10, %r13, %r15; madc.hi.u32 %r16, %r10, %r13, 0; mov.b64 {{d}}, {{{{%r15, %r16}}}};"""
    expected = [
        ((p & 0xFFFFFFFF) * (q & 0xFFFFFFFF) >> 32) + (p & 0xFFFFFFFF) * (q >> 32)
        for p, q in zip(wide(a), wide(b), strict=True)
    ]
    check(code, [a, b], wrapped(expected, np.uint64))


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_logic(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a, b = integers(kind, rng), integers(kind, rng)
    for name, expected in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
        check(f"{name}.{kind} {{d}}, {{a}}, {{b}};", [a, b], expected)
    check(f"not.{kind} {{d}}, {{a}};", [a], ~a)
    check(f"cnot.{kind} {{d}}, {{a}};", [a], (a == 0).astype(a.dtype))


def test_logic_of_three_and_of_predicates(check: Batch, rng: np.random.Generator) -> None:
    a, b, c = (integers("b32", rng) for _ in range(3))
    for table, expected in (
        (0xE8, (a & b) | (a & c) | (b & c)),
        (0x96, a ^ b ^ c),
        (0xCA, (a & b) | (~a & c)),
        (0, a & 0),
    ):
        check(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table:#x};", [a, b, c], expected)
    code = """setp.ne.b32 %p1, {a}, 0; setp.lt.u32 %p2, {b}, {c}; xor.pred %p3, %p1, %p2; not.pred %p4, %p3;
        and.pred %p5, %p4, %p1; or.pred %p5, %p5, !%p2; selp.b32 {d}, 7, 9, %p5;"""
    p1, p2 = a != 0, b < c
    check(code, [a, b, c], np.where((~(p1 ^ p2) & p1) | ~p2, 7, 9).astype(np.uint32))


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "s16", "s32", "s64", "u16", "u32", "u64"])
def test_shifts_clamp(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a, amount = integers(kind, rng), rng.integers(0, 80, N).astype(np.uint32)
    amount[:3] = (0xFFFFFFFF, 1 << 31, 1 << 16)
    bits, steps = int(kind[1:]), wide(amount)
    if kind[0] == "b":
        expected = [v << min(s, bits) for v, s in zip(wide(a), steps, strict=True)]
        check(f"shl.{kind} {{d}}, {{a}}, {{b}};", [a, amount], wrapped(expected, a.dtype.type))
    expected = [v >> min(s, bits) for v, s in zip(wide(a), steps, strict=True)]
    check(f"shr.{kind} {{d}}, {{a}}, {{b}};", [a, amount], wrapped(expected, a.dtype.type))


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(check: Batch, mode: str, rng: np.random.Generator) -> None:
    low, high = integers("b32", rng), integers("b32", rng)
    amount = rng.integers(0, 70, N).astype(np.uint32)
    by = [s & 31 if mode == "wrap" else min(s, 32) for s in wide(amount)]
    both = [h << 32 | v for v, h in zip(wide(low), wide(high), strict=True)]
    left = [(v << s) >> 32 for v, s in zip(both, by, strict=True)]
    right = [v >> s for v, s in zip(both, by, strict=True)]
    check(f"shf.l.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", [low, high, amount], wrapped(left, np.uint32))
    check(f"shf.r.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", [low, high, amount], wrapped(right, np.uint32))


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_bit_fields(check: Batch, kind: str, rng: np.random.Generator) -> None:
    """The definition of the PTX ISA, bit by bit."""
    a, b = integers(kind, rng), integers(kind, rng)
    start, count = rng.integers(0, 72, N).astype(np.uint32), rng.integers(0, 72, N).astype(np.uint32)
    bits = int(kind[1:])

    def extracted(value: int, pos: int, length: int) -> int:
        sign = 0 if kind[0] == "u" or length == 0 else value >> min(pos + length - 1, bits - 1) & 1
        return sum((value >> (pos + i) & 1 if i < length and pos + i < bits else sign) << i for i in range(bits))

    def inserted(value: int, into: int, pos: int, length: int) -> int:
        for i in range(length):
            if pos + i < bits:
                into = into & ~(1 << (pos + i)) | (value >> i & 1) << (pos + i)
        return into

    unsigned = [v & ((1 << bits) - 1) for v in wide(a)]
    expected = [extracted(v, p, n) for v, p, n in zip(unsigned, wide(start), wide(count), strict=True)]
    check(f"bfe.{kind} {{d}}, {{a}}, {{b}}, {{c}};", [a, start, count], wrapped(expected, a.dtype.type))
    if kind[0] == "u":
        expected = [inserted(v, w, p, n) for v, w, p, n in zip(wide(a), wide(b), wide(start), wide(count), strict=True)]
        got = run(f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", [a, b, start, count], a.dtype)
        same(got, wrapped(expected, a.dtype.type))


def test_permuted_bytes(check: Batch, rng: np.random.Generator) -> None:
    a, b = integers("b32", rng), integers("b32", rng)
    selector = rng.integers(0, 1 << 16, N).astype(np.uint32)

    def permuted(x: int, y: int, s: int) -> int:
        source = (y << 32 | x).to_bytes(8, "little")
        result = 0
        for k in range(4):
            nibble = s >> 4 * k & 15
            byte = source[nibble & 7]
            result |= (0xFF * (byte >> 7) if nibble & 8 else byte) << 8 * k
        return result

    expected = [permuted(*v) for v in zip(wide(a), wide(b), wide(selector), strict=True)]
    check("prmt.b32 {d}, {a}, {b}, {c};", [a, b, selector], wrapped(expected, np.uint32))
    check("prmt.b32 {d}, {a}, 0, 0x123U;", [a], a.byteswap())


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_counts_of_bits(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a, bits = integers(kind, rng), int(kind[1:])
    numbers = wide(a)
    check(f"popc.{kind} {{d}}, {{a}};", [a], np.array([v.bit_count() for v in numbers], np.uint32))
    check(f"clz.{kind} {{d}}, {{a}};", [a], np.array([bits - v.bit_length() for v in numbers], np.uint32))
    mirrored = [int(f"{v:0{bits}b}"[::-1], 2) for v in numbers]
    check(f"brev.{kind} {{d}}, {{a}};", [a], np.array(mirrored, a.dtype))
    places = np.array([v.bit_length() - 1 for v in numbers])
    check(f"bfind.u{bits} {{d}}, {{a}};", [a], places.astype(np.int32).view(np.uint32))
    shifts = np.where(places < 0, -1, bits - 1 - places).astype(np.int32).view(np.uint32)
    check(f"bfind.shiftamt.u{bits} {{d}}, {{a}};", [a], shifts)
    signed = a.view(f"i{bits // 8}")
    places = np.array([(~v if v < 0 else v).bit_length() - 1 for v in wide(signed)])
    check(f"bfind.s{bits} {{d}}, {{a}};", [signed], places.astype(np.int32).view(np.uint32))


def test_dot_products_of_bytes(check: Batch, rng: np.random.Generator) -> None:
    a, b, c = (integers("b32", rng) for _ in range(3))
    for left in ("s32", "u32"):
        for right in ("s32", "u32"):
            x = a.view(np.int8 if left == "s32" else np.uint8).reshape(N, 4).astype(np.int64)
            y = b.view(np.int8 if right == "s32" else np.uint8).reshape(N, 4).astype(np.int64)
            expected = wrapped(wide((x * y).sum(axis=1) + c), np.uint32)
            check(f"dp4a.{left}.{right} {{d}}, {{a}}, {{b}}, {{c}};", [a, b, c], expected)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_float_arithmetic(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a, b, c = (reals(kind, rng) for _ in range(3))
    for name, expected in (("add.rn", a + b), ("add", a + b), ("sub.rn", a - b), ("mul.rn", a * b), ("div.rn", a / b)):
        check(f"{name}.{kind} {{d}}, {{a}}, {{b}};", [a, b], expected)
    check(f"sqrt.rn.{kind} {{d}}, {{a}};", [a], np.sqrt(a))
    check(f"rcp.rn.{kind} {{d}}, {{a}};", [a], a.dtype.type(1) / a)
    check(f"neg.{kind} {{d}}, {{a}};", [a], -a)
    check(f"abs.{kind} {{d}}, {{a}};", [a], abs(a))
    check(f"copysign.{kind} {{d}}, {{a}}, {{b}};", [a, b], np.copysign(b, a))
    exact = np.array([_fma(*v, a.dtype.type) for v in zip(a, b, c, strict=True)], a.dtype)
    check(f"fma.rn.{kind} {{d}}, {{a}}, {{b}}, {{c}};", [a, b, c], exact)
    for name, chosen in (("min", np.fmin), ("max", np.fmax)):
        check(f"{name}.{kind} {{d}}, {{a}}, {{b}};", [a, b], _ordered_zeros(chosen(a, b), a, b, name))
    for name, low in (("min", np.minimum), ("max", np.maximum)):
        check(f"{name}.NaN.{kind} {{d}}, {{a}}, {{b}};", [a, b], _ordered_zeros(low(a, b), a, b, name))


def _fma(a: float, b: float, c: float, kind: type) -> float:
    """a*b + c rounded once: exactly, in integers."""
    from fractions import Fraction

    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return np.float64(a) * np.float64(b) + np.float64(c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return float(a) * float(b) + float(c)
    return _rounded(exact, kind)


def _rounded(exact, kind: type) -> float:
    """A rational number to the nearest float of a type, ties to even."""
    from fractions import Fraction

    info = np.finfo(kind)
    sign, exact = (-1, -exact) if exact < 0 else (1, exact)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, info.minexp) - info.nmant)
    result = round(exact / unit) * unit  # Fraction rounds ties to even
    return sign * (math.inf if result > Fraction(float(info.max)) else float(result))


def _ordered_zeros(result: np.ndarray, a: np.ndarray, b: np.ndarray, name: str) -> np.ndarray:
    """-0 is less than +0."""
    zeros = (a == 0) & (b == 0)
    pick = np.where(np.signbit(a) | np.signbit(b), -0.0, 0.0) if name == "min" else \
        np.where(np.signbit(a) & np.signbit(b), -0.0, 0.0)  # fmt: skip
    return np.where(zeros, pick, result).astype(a.dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_subnormals_are_flushed_under_ftz(check: Batch, rng: np.random.Generator) -> None:
    a = (rng.standard_normal(N) * 10.0 ** rng.uniform(-44, -36, N)).astype(np.float32)
    flush = lambda v: np.where(abs(v) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), v), v)
    b = a[::-1].copy()
    check("add.rn.ftz.f32 {d}, {a}, {b};", [a, b], flush(flush(a) + flush(b)))
    half = np.full(N, 0.5, np.float32)
    check("mul.rn.ftz.f32 {d}, {a}, {b};", [a, half], flush(flush(a) * half))
    check("mul.rn.f32 {d}, {a}, {b};", [a, half], a * half)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_approximate_functions() -> None:
    a = np.linspace(0.01, 6.0, N, dtype=np.float32)
    exact = {"sin": np.sin, "cos": np.cos, "ex2": np.exp2, "lg2": np.log2, "tanh": np.tanh, "rcp": lambda x: 1 / x,
             "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}  # fmt: skip
    for name, function in exact.items():
        got = run(f"{name}.approx.f32 {{d}}, {{a}};", [a], np.float32)
        assert np.allclose(got, function(a.astype(np.float64)), rtol=3e-7, atol=1e-7), name
    got = run("div.approx.f32 {d}, {a}, {b};", [a, a[::-1].copy()], np.float32)
    assert np.allclose(got, a / a[::-1], rtol=3e-7)


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_comparisons(kind: str, rng: np.random.Generator) -> None:
    a, b = integers(kind, rng), integers(kind, rng)
    b[::3] = a[::3]
    for name in COMPARISONS if kind[0] != "b" else ("eq", "ne"):
        got = run(f"setp.{name}.{kind} %p1, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p1;", [a, b], np.uint32)
        same(got, COMPARISONS[name](a, b).astype(np.uint32))
    if kind == "s32":  # unsigned names compare signed registers unsigned
        for name, plain in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
            got = run(f"setp.{name}.u32 %p1, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p1;", [a, b], np.uint32)
            same(got, COMPARISONS[plain](a.view(np.uint32), b.view(np.uint32)).astype(np.uint32))


@pytest.mark.parametrize("kind", FLOATS)
def test_float_comparisons(kind: str, rng: np.random.Generator) -> None:
    a, b = reals(kind, rng), reals(kind, rng)
    b[::3] = a[::3]
    lost = np.isnan(a) | np.isnan(b)
    tests = {name: test(a, b) & ~lost for name, test in COMPARISONS.items()}
    tests.update({f"{name}u": test(a, b) | lost for name, test in COMPARISONS.items()})
    tests.update({"num": ~lost, "nan": lost})
    for name, expected in tests.items():
        got = run(f"setp.{name}.{kind} %p1, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p1;", [a, b], np.uint32)
        same(got, expected.astype(np.uint32))
    got = run(f"set.lt.u32.{kind} {{d}}, {{a}}, {{b}};", [a, b], np.uint32)
    same(got, np.where(tests["lt"], 0xFFFFFFFF, 0).astype(np.uint32))
    info = np.finfo(a.dtype)
    classes = {"finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a), "notanumber": np.isnan(a),
               "normal": np.isfinite(a) & (abs(a) >= info.tiny), "subnormal": (a != 0) & (abs(a) < info.tiny)}  # fmt: skip
    for name, expected in classes.items():
        got = run(f"testp.{name}.{kind} %p1, {{a}}; selp.b32 {{d}}, 1, 0, %p1;", [a], np.uint32)
        same(got, expected.astype(np.uint32))


def test_comparisons_with_two_results_and_a_third_operand(check: Batch, rng: np.random.Generator) -> None:
    a, b, c = (integers("s32", rng) for _ in range(3))
    code = "setp.ne.s32 %p3, {c}, 0; setp.lt.and.s32 %p1|%p2, {a}, {b}, %p3; selp.b32 %r20, 1, 0, %p1; selp.b32 %r21, 2, 0, %p2; or.b32 {d}, %r20, %r21;"
    less, third = a < b, c != 0
    check(code, [a, b, c], ((less & third) + 2 * (~less & third)).astype(np.uint32))
    got = run("slct.s32.s32 {d}, {a}, {b}, {c};", [a, b, c], np.int32)
    same(got, np.where(c >= 0, a, b))


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "f32", "f64"])
def test_moves_and_choices(check: Batch, kind: str, rng: np.random.Generator) -> None:
    a = (integers if kind[0] == "b" else reals)(kind, rng)
    check(f"mov.{kind} {{d}}, {{a}};", [a], a)
    check(
        f"mov.{kind} {{d}}, {{a}}; @!%p1 mov.{kind} {{d}}, {{d}};".replace("@!%p1", "setp.eq.u32 %p1, %r0, 99; @!%p1"),
        [a],
        a,
    )
    got = run(f"setp.lt.u32 %p1, %r0, 40; selp.{kind} {{d}}, {{a}}, {{b}}, %p1;", [a, a[::-1].copy()], a.dtype)
    same(got, np.where(np.arange(N) < 40, a, a[::-1]))


def test_constants_keep_their_bits(check: Batch) -> None:
    a = np.zeros(N, np.float32)
    check("add.rn.f32 {d}, {a}, 0f3F800000;", [a], a + np.float32(1))
    check("add.rn.f64 {d}, {a}, 0dBFF8000000000000;", [a.astype(np.float64)], a.astype(np.float64) - 1.5)
    check("mov.b32 {d}, -5;", [a], np.full(N, -5, np.int32))
    check("mov.b64 {d}, 0xFFFFFFFFFFFFFFFE;", [a], np.full(N, 2**64 - 2, np.uint64))


@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer_saturates(check: Batch, source: str, to: str, rng: np.random.Generator) -> None:
    a = reals(source, rng)
    info, bits = np.iinfo(INTEGERS[to]), int(to[1:])
    for mark, whole in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        expected = []
        for value in whole(a.astype(np.float64)):
            if math.isnan(value):
                expected.append(1 << (bits - 1) if source == "f64" or bits == 64 else 0)
            else:
                expected.append(
                    max(
                        info.min,
                        min(info.max, int(value) if math.isfinite(value) else int(math.copysign(1 << 70, value))),
                    )
                )
        result = INTEGERS[to] if bits > 8 else (np.int16 if to[0] == "s" else np.uint16)
        check(f"cvt.{mark}.{to}.{source} {{d}}, {{a}};", [a], wrapped(expected, INTEGERS[to]).astype(result))


@pytest.mark.parametrize("source", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_conversions(check: Batch, source: str, rng: np.random.Generator) -> None:
    a = integers(source, rng)
    check(f"cvt.rn.f32.{source} {{d}}, {{a}};", [a], np.array([_to_single(v) for v in wide(a)], np.float32))
    check(f"cvt.rn.f64.{source} {{d}}, {{a}};", [a], a.astype(np.float64))
    for to in ("s16", "u16", "s32", "u32", "s64", "u64"):
        check(f"cvt.{to}.{source} {{d}}, {{a}};", [a], wrapped(wide(a), INTEGERS[to]))
        info = np.iinfo(INTEGERS[to])
        clamped = [max(info.min, min(info.max, v)) for v in wide(a)]
        check(f"cvt.sat.{to}.{source} {{d}}, {{a}};", [a], wrapped(clamped, INTEGERS[to]))
    for to, dtype in (("s8", np.int8), ("u8", np.uint8)):
        result = np.int16 if to == "s8" else np.uint16
        check(f"cvt.{to}.{source} {{d}}, {{a}};", [a], wrapped(wide(a), dtype).astype(result))


def _to_single(value: int) -> float:
    from fractions import Fraction

    return _rounded(Fraction(value), np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_float_conversions(check: Batch, rng: np.random.Generator) -> None:
    a, b = reals("f64", rng), reals("f32", rng)
    a[::2] = np.nextafter(b[::2].astype(np.float64), 0)
    check("cvt.rn.f32.f64 {d}, {a};", [a], a.astype(np.float32))
    check("cvt.f64.f32 {d}, {a};", [b], b.astype(np.float64))
    for mark, whole in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        check(f"cvt.{mark}.f32.f32 {{d}}, {{a}};", [b], whole(b))
        check(f"cvt.{mark}.f64.f64 {{d}}, {{a}};", [a], whole(a))
    check("cvt.sat.f32.f32 {d}, {a};", [b], np.where(b > 0, np.minimum(b, 1), 0).astype(np.float32))
    half = (b / 8).astype(np.float16)
    check("cvt.f32.f16 {d}, {a};", [half], half.astype(np.float32))
    check("cvt.rn.f16.f32 {d}, {a};", [b], b.astype(np.float16))
    brain = (b.view(np.uint32) >> 16).astype(np.uint16)
    check("cvt.f32.bf16 {d}, {a};", [brain], (brain.astype(np.uint32) << 16).view(np.float32))
    bits = b[~np.isnan(b)].view(np.uint32)
    nearest = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    got = run("cvt.rn.bf16.f32 {d}, {a};", [b], np.uint16)
    same(got[~np.isnan(b)], nearest)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_half_arithmetic_rounds_once(check: Batch, rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal(N).astype(np.float16) for _ in range(2))
    for name, expected in (
        ("add", a + b),
        ("sub", a - b),
        ("mul", a * b),
        ("min", np.minimum(a, b)),
        ("max", np.maximum(a, b)),
    ):
        check(f"{name}.f16 {{d}}, {{a}}, {{b}};", [a, b], expected)
    check("neg.f16 {d}, {a};", [a], -a)
    check("abs.f16 {d}, {a};", [a], abs(a))


# lanes of a warp


def shuffled(mode: str, values: np.ndarray, b: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
    """The algorithm of the PTX ISA, thread by thread."""
    result, valid = values.copy(), np.zeros(len(values), bool)
    clamp, segment = c & 31, c >> 8 & 31
    for thread in range(len(values)):
        lane, first = thread % 32, thread - thread % 32
        by = int(b[thread]) & 31
        most = lane & segment | clamp & ~segment & 31
        least = lane & segment
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": least | by & ~segment & 31}[mode]
        ok = source >= most if mode == "up" else source <= most
        valid[thread] = ok
        result[thread] = values[first + (source if ok else lane)]
    return result, valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(check: Batch, mode: str, rng: np.random.Generator) -> None:
    values, by = integers("b32", rng), rng.integers(0, 40, N).astype(np.uint32)
    for c in (0 if mode == "up" else 31, 0x1800 | (0 if mode == "up" else 31), 0x1C07):
        for b in (by, np.full(N, 1, np.uint32), np.full(N, 5, np.uint32)):
            code = f"shfl.sync.{mode}.b32 {{d}}|%p1, {{a}}, {{b}}, {c}, -1; @!%p1 add.s32 {{d}}, {{d}}, 1;"
            expected, valid = shuffled(mode, values, b, c)
            check(code, [values, b], np.where(valid, expected, expected + 1).astype(np.uint32))


def test_votes_matches_and_reductions(check: Batch, rng: np.random.Generator) -> None:
    a = rng.integers(0, 3, N).astype(np.uint32)
    a[:32], a[32:64] = 1, 0
    warps, lanes = (a != 0).reshape(-1, 32), np.uint32(1) << np.arange(32, dtype=np.uint32)
    ballot = (warps * lanes).sum(axis=1).astype(np.uint32)
    test = "setp.ne.u32 %p1, {a}, 0;"
    check(f"{test} vote.sync.ballot.b32 {{d}}, %p1, -1;", [a], ballot.repeat(32))
    for name, expected in (
        ("all", warps.all(axis=1)),
        ("any", warps.any(axis=1)),
        ("uni", warps.all(axis=1) | ~warps.any(axis=1)),
    ):
        got = run(f"{test} vote.sync.{name}.pred %p2, %p1, -1; selp.b32 {{d}}, 1, 0, %p2;", [a], np.uint32)
        same(got, expected.astype(np.uint32).repeat(32))
    rows = a.reshape(-1, 32)
    matches = ((rows[:, None] == rows[:, :, None]) * lanes).sum(axis=2).astype(np.uint32).ravel()
    check("match.any.sync.b32 {d}, {a}, -1;", [a], matches)
    code = "match.all.sync.b32 {d}|%p1, {a}, -1; @!%p1 add.s32 {d}, {d}, 7;"
    check(code, [a], np.where(matches == 0xFFFFFFFF, matches, 7).astype(np.uint32))
    wide_values = a.astype(np.uint64) << np.uint64(40)
    check("match.any.sync.b64 {d}, {a}, -1;", [wide_values], matches)
    check("activemask.b32 {d};", [a], np.full(N, 0xFFFFFFFF, np.uint32))
    signed = integers("s32", rng)
    for name, fold in (("add", np.sum), ("min", np.min), ("max", np.max)):
        expected = np.array([fold(row) for row in signed.reshape(-1, 32)]).astype(np.int32).repeat(32)
        check(f"redux.sync.{name}.s32 {{d}}, {{a}}, -1;", [signed], expected)
    for name, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        expected = ufunc.reduce(signed.view(np.uint32).reshape(-1, 32), axis=1).repeat(32)
        check(f"redux.sync.{name}.b32 {{d}}, {{a}}, -1;", [signed.view(np.uint32)], expected)
    code = "elect.sync {d}|%p1, -1; @%p1 add.s32 {d}, {d}, 100;"
    check(code, [a], np.where(np.arange(N) % 32 == 0, 100, 0).astype(np.uint32))


def test_special_registers(check: Batch) -> None:
    code = {"%laneid": np.arange(N) % 32, "%warpid": np.arange(N) // 32, "%tid.x": np.arange(N), "%ntid.x": np.full(N, N),
            "%ctaid.x": np.zeros(N), "%nctaid.x": np.ones(N), "%lanemask_lt": (1 << np.arange(N) % 32) - 1,
            "%lanemask_eq": 1 << np.arange(N) % 32, "WARP_SZ": np.full(N, 32)}  # fmt: skip
    for name, expected in code.items():
        check(f"mov.u32 {{d}}, {name};", [np.zeros(N, np.uint32)], expected.astype(np.uint32))


# memory


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
def test_memory_of_every_space_and_width(space: str, bits: int, rng: np.random.Generator) -> None:
    """Each thread writes its value, and reads that of a neighbour where others can write."""
    values = rng.integers(0, 1 << bits, N, dtype=np.uint64).astype(f"u{bits // 8}")
    register = {8: "%h1", 16: "%s1", 32: "%r9", 64: "%d8"}[bits]
    kind, size = f"b{bits}" if bits > 8 else "u8", bits // 8
    access = "" if space == "generic" else f".{space}"
    spaces = {"shared": f".shared .align 8 .b8 room[{N * size}];", "local": f".local .align 8 .b8 room[{N * size}];"}
    place = f"mul.wide.u32 %d4, %r5, {size}; mov.b64 %d3, room; add.s64 %d4, %d4, %d3;" if space in spaces else \
        f"mul.wide.u32 %d4, %r5, {size}; add.s64 %d4, %d4, %d2;"  # fmt: skip
    other = (
        "add.s32 %r6, %r0, 1; rem.u32 %r6, %r6, %ntidx;".replace("%ntidx", str(N))
        if space != "local"
        else "mov.b32 %r6, %r0;"
    )
    body = f"""ld.param.b64 %d0, [k_param_0]; ld.param.b64 %d1, [k_param_1]; ld.param.b64 %d2, [k_param_2];
        mul.wide.u32 %d6, %r0, {size}; add.s64 %d7, %d0, %d6; ld.global.{kind} {register}, [%d7];
        mov.b32 %r5, %r0; {place} st{access}.{kind} [%d4], {register}; bar.sync 0;
        {other} mov.b32 %r5, %r6; {place} ld{access}.{kind} {register}, [%d4];
        add.s64 %d7, %d1, %d6; st.global.{kind} [%d7], {register};"""
    covered.update(("ld", "st", "bar"))
    x, out = array(values, device="emu"), array(np.zeros_like(values), device="emu")
    scratch = array(np.zeros_like(values), device="emu")
    load_ptx(kernel_text(spaces.get(space, "") + body, 3), device="emu")["k"].launch(1, N, [x, out, scratch])
    same(out.numpy(), values if space == "local" else np.roll(values, -1))


def test_vectors_in_memory(rng: np.random.Generator) -> None:
    values = rng.integers(0, 1 << 32, 4 * N, dtype=np.uint64).astype(np.uint32)
    body = """ld.param.b64 %d0, [k_param_0]; ld.param.b64 %d1, [k_param_1]; mul.wide.u32 %d2, %r0, 16;
        add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2;
        ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d3]; ld.global.nc.v2.b32 {%r5, %r6}, [%d3+8];
        st.global.v2.b32 [%d4], {%r4, %r3}; st.global.v2.b32 [%d4+8], {%r5, %r1};"""
    x, out = array(values, device="emu"), array(np.zeros_like(values), device="emu")
    load_ptx(kernel_text(body, 2), device="emu")["k"].launch(1, N, [x, out])
    rows = values.reshape(-1, 4)
    same(out.numpy(), np.stack([rows[:, 3], rows[:, 2], rows[:, 2], rows[:, 0]], axis=1).ravel())


def test_addresses_between_spaces() -> None:
    """cvta makes generic addresses of shared and local ones, and back; isspacep tells them apart."""
    body = """.shared .align 4 .b8 room[512]; .local .align 4 .b8 own[8];
        ld.param.b64 %d0, [k_param_0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1;
        mov.b64 %d2, room; add.s64 %d2, %d2, %d1; cvta.shared.u64 %d3, %d2; st.b32 [%d3], %r0;
        cvta.to.shared.u64 %d4, %d3; ld.shared.b32 %r1, [%d4];
        mov.b64 %d5, own; cvta.local.u64 %d6, %d5; add.s32 %r2, %r0, 7; st.b32 [%d6+4], %r2;
        cvta.to.local.u64 %d7, %d6; ld.local.b32 %r3, [%d7+4]; add.s32 %r1, %r1, %r3;
        isspacep.shared %p1, %d3; isspacep.local %p2, %d6; isspacep.global %p3, %d0; and.pred %p1, %p1, %p2;
        and.pred %p1, %p1, %p3; isspacep.shared %p4, %d6; @!%p1 mov.b32 %r1, -1; @%p4 mov.b32 %r1, -2;
        cvta.to.global.u64 %d8, %d0; st.global.b32 [%d8], %r1;"""
    covered.update(("cvta", "isspacep"))
    out = array(np.zeros(N, np.int32), device="emu")
    load_ptx(kernel_text(body, 1), device="emu")["k"].launch(1, N, [out])
    same(out.numpy(), (2 * np.arange(N) + 7).astype(np.int32))


ATOMS = [("add", "u32"), ("add", "s32"), ("add", "u64"), ("add", "f32"), ("add", "f64"), ("and", "b32"), ("or", "b32"), ("xor", "b64"),
         ("exch", "b32"), ("min", "s32"), ("max", "u32"), ("min", "u64"), ("max", "s64"), ("inc", "u32"), ("dec", "u32")]  # fmt: skip


@pytest.mark.parametrize("name,kind", ATOMS)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_atomics(name: str, kind: str, space: str, rng: np.random.Generator) -> None:
    """All threads change one place in the order of the threads, and get what was there before."""
    dtype = np.dtype({**INTEGERS, **FLOATS}[kind])
    values = rng.integers(0, 200, N).astype(dtype)
    start = dtype.type(100)
    step: dict = {"add": lambda a, b: a + b, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
                  "exch": lambda a, b: b, "min": min, "max": max, "inc": lambda a, b: 0 if a >= b else a + 1,
                  "dec": lambda a, b: b if a == 0 or a > b else a - 1}  # fmt: skip
    olds, now = [], start
    for value in values:
        olds.append(now)
        now = dtype.type(step[name](now, value))
    size, register = dtype.itemsize, "%r" if dtype.itemsize == 4 else "%d"
    copy = "setp.eq.u32 %p1, %r0, 0;"
    where = {"global": "mov.b64 %d5, %d1;", "generic": "mov.b64 %d5, %d1;",
             "shared": f"mov.b64 %d5, room; @%p1 ld.global.b{8 * size} {register}9, [%d1]; @%p1 st.shared.b{8 * size} [%d5], {register}9; bar.sync 0;"}  # fmt: skip
    mark = "" if space == "generic" else f".{space}"
    body = f""".shared .align 8 .b8 room[8]; ld.param.b64 %d0, [k_param_0]; ld.param.b64 %d1, [k_param_1]; ld.param.b64 %d2, [k_param_2];
        {copy} {where[space]} mul.wide.u32 %d3, %r0, {size}; add.s64 %d4, %d0, %d3; ld.global.b{8 * size} {register}7, [%d4];
        atom{mark}.{name}.{kind} {register}8, [%d5], {register}7; add.s64 %d4, %d2, %d3; st.global.b{8 * size} [%d4], {register}8;
        bar.sync 0; @%p1 ld{mark}.b{8 * size} {register}9, [%d5]; @%p1 st.global.b{8 * size} [%d1], {register}9;"""
    covered.add("atom")
    x, place, out = (array(v, device="emu") for v in (values, np.array([start]), np.zeros_like(values)))
    load_ptx(kernel_text(body, 3), device="emu")["k"].launch(1, N, [x, place, out])
    same(out.numpy(), np.array(olds, dtype))
    same(place.numpy(), np.array([now], dtype))


def test_reductions_and_compare_and_swap(rng: np.random.Generator) -> None:
    values = rng.integers(0, 1000, N).astype(np.uint32)
    body = """ld.param.b64 %d0, [k_param_0]; ld.param.b64 %d1, [k_param_1]; mul.wide.u32 %d3, %r0, 4; add.s64 %d4, %d0, %d3;
        ld.global.b32 %r1, [%d4]; red.global.add.u32 [%d1], %r1; red.relaxed.gpu.global.max.u32 [%d1+4], %r1;
        ld.global.b32 %r2, [%d1+8];
        again: add.s32 %r3, %r2, %r1; atom.relaxed.gpu.global.cas.b32 %r4, [%d1+8], %r2, %r3;
        setp.ne.b32 %p1, %r4, %r2; mov.b32 %r2, %r4; @%p1 bra again;"""
    covered.add("red")
    x, out = array(values, device="emu"), array(np.zeros(3, np.uint32), device="emu")
    load_ptx(kernel_text(body, 2), device="emu")["k"].launch(4, N, [x, out])
    total = 4 * values.sum()
    same(out.numpy(), np.array([total, values.max(), total], np.uint32))


def test_asynchronous_copies_and_what_does_nothing(rng: np.random.Generator) -> None:
    values = rng.integers(0, 1 << 32, 4 * N, dtype=np.uint64).astype(np.uint32)
    body = f""".shared .align 16 .b8 room[{16 * N}]; ld.param.b64 %d0, [k_param_0]; ld.param.b64 %d1, [k_param_1];
        mul.wide.u32 %d2, %r0, 16; add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2; mov.b64 %d5, room; add.s64 %d5, %d5, %d2;
        cp.async.cg.shared.global [%d5], [%d3], 16; cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;
        membar.gl; fence.acq_rel.gpu; nanosleep.u32 20; prefetch.global.L2 [%d3]; barrier.sync 0;
        ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d5]; st.global.v4.b32 [%d4], {{%r1, %r2, %r3, %r4}};"""
    covered.update(("cp", "membar", "fence", "nanosleep", "prefetch", "barrier"))
    x, out = array(values, device="emu"), array(np.zeros_like(values), device="emu")
    load_ptx(kernel_text(body, 2), device="emu")["k"].launch(1, N, [x, out])
    same(out.numpy(), values)


def test_no_opcode_is_left_out() -> None:
    """Runs last: every rule of the translator was executed above, or is tested where the comment says."""
    elsewhere = {"bra", "brx", "ret", "exit", "trap", "call"}  # test_control_flow, test_faults
    hints = {"prefetchu", "brkpt", "pmevent", "discard", "applypriority", "ldu"}  # the same rules as prefetch and ld
    if len(covered) < 30:
        pytest.skip("only a part of this file was run")
    assert set(RULES) - covered - elsewhere - hints == set()
