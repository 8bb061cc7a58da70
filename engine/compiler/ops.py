"""The primitive operations: one row each with its operand rule, result rule and NumPy meaning.

Everything that is not in this table is library code in the kernel language. Consumers (emission, folding, later the
adjoint and the lanes shape) keep one table each, keyed by the op's name; a test checks that they are exhaustive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler.types import Scalar


@dataclass(frozen=True)
class OpInfo:
    """One elementwise primitive: operands and result are scalars, or vectors, matrices, quaternions by component."""

    name: str
    arity: int
    accepts: str  # kinds of scalar: any of b (truth) i (signed) u (unsigned) f (float)
    result: str  # "same" as the operands, or "bool"
    numpy: Callable[..., Any]
    commutes: bool = False


def _int_divide(a: Any, b: Any) -> Any:
    """Truncating quotient; x / 0 = 0 and INT_MIN / -1 wraps."""
    quotient = abs(int(a)) // abs(int(b)) if b else 0
    return _wrap(-quotient if (a < 0) != (b < 0) else quotient, a)


def _wrap(value: int, like: Any) -> Any:
    """`value` modulo the width of the integer type of `like`."""
    dtype = np.asarray(like).dtype
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    if dtype.kind == "i" and value >> (bits - 1):
        value -= 1 << bits
    return dtype.type(value) if isinstance(like, np.generic) else value


def _divide(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.divide(a, b)
    return _int_divide(a, b)


def _shift_count(a: Any, b: Any) -> int:
    return int(b) & (np.asarray(a).dtype.itemsize * 8 - 1)


def _minimum(a: Any, b: Any) -> Any:
    if a != a or b != b:
        return b if a != a else a
    return a if a < b or (a == b and np.signbit(a)) else b


def _maximum(a: Any, b: Any) -> Any:
    if a != a or b != b:
        return b if a != a else a
    return a if a > b or (a == b and np.signbit(b)) else b


def _fma(a: Any, b: Any, c: Any) -> Any:
    """Exact product and sum, one rounding."""
    kind = np.asarray(a).dtype.type
    x, y, z = float(a), float(b), float(c)
    if kind is np.float32:  # the product of two float32 is exact in float64
        return np.float32(_sum_rounded_to_odd(x * y, z))
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return kind(x * y + z)
    from fractions import Fraction  # here, as few constants are contracted: the module takes 4 ms to import

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return kind(x * y + z)  # gives the zero its sign
    try:
        return kind(exact.numerator / exact.denominator)
    except OverflowError:
        return kind(math.inf if exact > 0 else -math.inf)


def _sum_rounded_to_odd(p: float, z: float) -> float:
    """p + z, inexact results with an odd last bit: rounded again, to float32, they round as the exact sum does."""
    total = p + z
    if not math.isfinite(total):
        return total
    back = total - p
    error = (p - (total - back)) + (z - back)  # Knuth's two-sum: exact
    if error and not np.float64(total).view(np.int64) & 1:
        return math.nextafter(total, math.copysign(math.inf, error))
    return total


def _popcount(a: Any) -> Any:
    return (int(a) & ((1 << _bits(a)) - 1)).bit_count()


def _leading_zeros(a: Any) -> Any:
    return _bits(a) - (int(a) & ((1 << _bits(a)) - 1)).bit_length()


def _bits(a: Any) -> int:
    return np.asarray(a).dtype.itemsize * 8


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """The NumPy function without its floating-point warnings."""

    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return call


ELEMENTWISE: dict[str, OpInfo] = {
    row.name: row
    for row in (
        OpInfo("add", 2, "iuf", "same", _quiet(lambda a, b: a + b), commutes=True),
        OpInfo("sub", 2, "iuf", "same", _quiet(lambda a, b: a - b)),
        OpInfo("mul", 2, "iuf", "same", _quiet(lambda a, b: a * b), commutes=True),
        OpInfo("div", 2, "iuf", "same", _divide),  # floats: correctly rounded; integers: toward zero, x / 0 = 0
        OpInfo("floordiv", 2, "iu", "same", lambda a, b: a // b if b else a * 0),  # toward minus infinity
        OpInfo("mod", 2, "iu", "same", lambda a, b: a % b if b else a * 0),  # sign of the divisor
        OpInfo("neg", 1, "iuf", "same", _quiet(lambda a: -a)),
        OpInfo("abs", 1, "if", "same", np.abs),
        OpInfo("sqrt", 1, "f", "same", _quiet(np.sqrt)),
        OpInfo("fma", 3, "f", "same", _quiet(_fma)),
        OpInfo("floor", 1, "f", "same", np.floor),
        OpInfo("ceil", 1, "f", "same", np.ceil),
        OpInfo("trunc", 1, "f", "same", np.trunc),
        OpInfo("rint", 1, "f", "same", np.rint),  # ties to even
        OpInfo("copysign", 2, "f", "same", np.copysign),
        OpInfo("min", 2, "iuf", "same", _minimum, commutes=True),  # a NaN operand is ignored, -0 < +0
        OpInfo("max", 2, "iuf", "same", _maximum, commutes=True),
        OpInfo("select_min", 2, "iuf", "same", lambda a, b: a if a < b else b),
        OpInfo("select_max", 2, "iuf", "same", lambda a, b: a if a > b else b),
        OpInfo("and", 2, "biu", "same", lambda a, b: a & b, commutes=True),
        OpInfo("or", 2, "biu", "same", lambda a, b: a | b, commutes=True),
        OpInfo("xor", 2, "biu", "same", lambda a, b: a ^ b, commutes=True),
        OpInfo("not", 1, "biu", "same", lambda a: (not a) if isinstance(a, bool | np.bool_) else ~a),
        OpInfo("shl", 2, "iu", "same", lambda a, b: a << _shift_count(a, b)),  # counts are masked to the width
        OpInfo("shr", 2, "iu", "same", lambda a, b: a >> _shift_count(a, b)),  # arithmetic on signed
        OpInfo("popcount", 1, "iu", "same", _popcount),
        OpInfo("clz", 1, "iu", "same", _leading_zeros),
        OpInfo("eq", 2, "biuf", "bool", lambda a, b: a == b, commutes=True),
        OpInfo("ne", 2, "biuf", "bool", lambda a, b: a != b, commutes=True),
        OpInfo("lt", 2, "iuf", "bool", lambda a, b: a < b),
        OpInfo("le", 2, "iuf", "bool", lambda a, b: a <= b),
        OpInfo("gt", 2, "iuf", "bool", lambda a, b: a > b),
        OpInfo("ge", 2, "iuf", "bool", lambda a, b: a >= b),
    )
}

# ops whose result type is given by the op itself, not by a rule on its operands
STRUCTURAL: dict[str, str] = {
    "const": "attrs value: a Python number; scalar",
    "param": "attrs index, name: a function parameter (HIR); attrs index, path: one leaf of it (MIR)",
    "tid": "attrs axis, ndim: this thread's index along an axis, int32",
    "block_value": "attrs name, one of BLOCK_VALUES: where this thread stands, int32. MIR: the size of its block (of "
                   "block_dim itself, which is what the hardware says: anything)",
    "barrier": "attrs scope: block or warp; of a warp: at most one uint32, its members. Waits for the other threads",
    "shuffle": "value, int32; attrs mode: the value of another thread of the warp (idx: of that lane; down, up: of the "
               "lane so many further; xor: of the lane with these bits changed), the own where there is no such thread",
    "vote": "truth value; attrs mode: any and all of the warp, bool; ballot: a bit for each lane, uint32",
    "cast": "scalar or by component: float to int truncates and saturates, int to int wraps",
    "bitcast": "same bits, other scalar type of the same width",
    "select": "condition, a, b: a where the scalar condition holds, else b; a and b are of any value type",
    "bits": "at most 32 truth values: the uint32 whose bit k is the k-th of them",
    "make": "aggregate of the type's scalar components (vector, matrix, quat, transform) or fields (struct, tuple)",
    "extract": "attrs index: scalar component or field of an aggregate",
    "insert": "attrs index: the aggregate with one component or field replaced",
    "extract_at": "aggregate, int: scalar component at a run-time index",
    "insert_at": "aggregate, int, value: the aggregate with the component at a run-time index replaced",
    "slot": "attrs name: a mutable local variable of the op's type; only get and set may use it",
    "get": "slot: its value",
    "set": "slot, value",
    "local": "a LocalArray, zeroed when the op is reached; attrs shared: one for the block, not zeroed; unset: "
             "not zeroed, what reads it has written it; MIR: tile: holds the elements of one; at: its first byte in "
             "the memory of the block",
    "local_part": "tile, int32: a view of it that begins so many elements further on; the type says how",
    "local_load": "local array, flat index: an element",
    "local_store": "local array, flat index, value",
    "load": "array, one index per dimension: an element. MIR: pointer, indices, strides; attrs offset, array, layout",
    "store": "array, indices, value; attrs offset: first leaf to write when the value is only a part of the element",
    "atomic": "array, indices, value (cas: compare, value); attrs op, offset: the old value",
    "subarray": "array, leading indices: the view of the remaining dimensions",
    "view": "array; attrs dims says for each dimension: i, an index that drops it, or r: start, count, step",
    "local_view": "local array: it as an array, whose writes it sees",
    "array_ptr": "array: address of its first element, uint64",
    "array_at": "uint64 address, one int32 extent per dimension: the array without gaps that lies there",
    "field": "table; attrs name: that field as a planes array",
    "count": "table; attrs symbol: its extent, int32",
    "shape": "array; attrs dim: its extent, int32",
    "call": "attrs callee: an ir.Function; operands are its arguments",
    "if": "condition; regions then, else",
    "for": "start, stop, step; region body, whose first op is `index`; attrs exit: a truth slot that ends the loop; "
           "each: rounds do not depend on each other, the loop stands in so many of such loops (see `cooperate_nests`)",
    "index": "the current value of the loop variable; first op of a for body",
    "while": "regions condition (ends with `condition`), body; attrs exit as in for",
    "condition": "truth value: last op of a while's condition region",
    "position": "int32 indices: their place in row-major order, or at strides; attrs shape, strides, wraps: whether "
                "negative ones count from the end",
    "fault": "int64 numbers; attrs check, file, function and what it is about: notes that a check failed (`faults`)",
    "prefetch": "array, one index per dimension: its memory is wanted soon, changes nothing. MIR: pointer",
    "print": "scalars; attrs format: a C format. Truth values are shown as True and False by %s",
    "break": "leaves the innermost loop (HIR)",
    "continue": "next iteration of the innermost loop (HIR)",
    "return": "at most one value: leaves the function (before inlining)",
    "local_pointer": "MIR: address of a local array",
    "pointer_to_int": "MIR: pointer as uint64",
    "int_to_pointer": "MIR: uint64 as pointer",
    "custom": "arguments of a function with its own gradient; region its body; attrs gradient, outputs (its slots), "
              "MIR: args (parameter and path of each operand)",
    "yield": "last op of a gradient function: the adjoints of its arguments",
    "shadow": "an array's gradient, in the gradient of a function; MIR: of a pointer",
    "address": "MIR pointer, int64 bytes: pointer plus bytes (sub-arrays)",
}  # fmt: skip

LAUNCH = -1  # index of what is no parameter of the kernel, but given with the launch: path ("block_dim",)
BLOCK_VALUES = ("thread_id", "block_id", "block_dim", "lane_id", "warp_id", "warp_lanes")
ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exch", "cas")
COMPARISONS = frozenset(name for name, row in ELEMENTWISE.items() if row.result == "bool")
EFFECTS = frozenset({
    "set", "local", "local_store", "store", "atomic", "if", "for", "while", "break", "continue", "return", "call",
    "condition", "print", "fault", "prefetch", "barrier", "shuffle", "vote",
})  # fmt: skip


def fold(name: str, dtype: Scalar, values: list[Any]) -> Any:
    """The primitive applied to constants of type `dtype`, as a Python number."""
    args = [dtype.numpy.type(v) for v in values]
    result = ELEMENTWISE[name].numpy(*args)
    return result.item() if isinstance(result, np.generic) else result


def needs_block(op: Any) -> str:
    """What the user called, if an op needs the threads of a block to run together; else ""."""
    match op.kind:
        case "barrier":
            return "sync_threads" if op.attrs["scope"] == "block" else "sync_warp"
        case "shuffle":
            return f"warp_shuffle_{op.attrs['mode']}"
        case "vote":
            return f"warp_{op.attrs['mode']}"
        case "local" if op.attrs.get("shared"):
            return "shared.array"
    return ""
