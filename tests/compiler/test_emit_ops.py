"""Every elementwise primitive, on every type that it takes, gives NumPy's bits; folding gives the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.compiler import emit_ops, ops
from engine.compiler import types as T
from engine.compiler.emit_ptx import Gpu
from engine.compiler.emit_thread import STRUCTURE, emit
from engine.compiler.ops import ELEMENTWISE, STRUCTURAL
from engine.compiler.pipeline import Options
from engine.compiler.scalarize import _HANDLERS
from engine.compiler.simplify_rules import cast_constant
from engine.errors import CompileError
from tests.compiler.hir_builder import Builder, run

NUMBERS = [t for t in T.SCALARS if t not in (T.float16, T.bfloat16)]


def edge_values(t: T.Scalar) -> np.ndarray:
    """Values at which a wrong lowering shows, in the order of likelihood of trouble."""
    if t.kind == "b":
        return np.array([False, True])
    if t.is_int:
        low, high = t.range
        picked = [0, 1, 2, 3, 7, t.bits - 1, t.bits, t.bits + 1, high, high - 1, low, low + 1, high // 3]
        if t.kind == "i":
            picked += [-1, -2, -3, -7, -t.bits]
        return np.array(sorted(set(picked)), t.numpy)
    info = np.finfo(t.numpy)
    picked = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e30, np.inf, -np.inf, np.nan, info.max, -info.max]
    picked += [info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.eps, 2**31, -(2.0**31), 2**63, 0.1]
    return np.array(picked, t.numpy)


def names_for(t: T.Scalar) -> list[str]:
    return [name for name, row in ELEMENTWISE.items() if t.kind in row.accepts]


def kernel_of(t: T.Scalar, constant: object = None) -> tuple:
    """One kernel that applies all primitives of a type; `constant` takes the place of the second operand."""
    names = names_for(t)
    results = [T.bool_ if ELEMENTWISE[n].result == "bool" else t for n in names]
    b = Builder(f"all_{t}", *[(c, T.Array(t)) for c in "abc"], *[(n, T.Array(r)) for n, r in zip(names, results)])
    i = b.tid()
    operands = [b.load(p, i) for p in b.params[:3]]
    if constant is not None:
        operands[1] = b.const(t, constant)
    for name, out in zip(names, b.params[3:]):
        b.store(out, i, b.ew(name, *operands[: ELEMENTWISE[name].arity]))
    return b.fn, names, results


def expected(name: str, columns: list[np.ndarray], result: T.Scalar) -> np.ndarray:
    row = ELEMENTWISE[name]
    with np.errstate(all="ignore"):
        values = [row.numpy(*v) for v in zip(*columns[: row.arity])]
        return np.array(values).astype(result.numpy) if values else np.empty(0, result.numpy)


def assert_same_bits(name: str, columns: list[np.ndarray], got: np.ndarray, want: np.ndarray) -> None:
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    same = got.view(bits) == want.view(bits)
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(want)  # payloads are not part of the promise
    wrong = np.flatnonzero(~same)
    assert not wrong.size, f"{name}{tuple(c[wrong[0]] for c in columns)} gave {got[wrong[0]]}, not {want[wrong[0]]}"


def check(t: T.Scalar, columns: list[np.ndarray], constant: object = None) -> None:
    fn, names, results = kernel_of(t, constant)
    outs = [np.full(len(columns[0]), 0xCD, np.uint8).astype(r.numpy) for r in results]
    run(fn, len(columns[0]), *columns, *outs)
    if constant is not None:
        columns = [columns[0], np.full_like(columns[0], constant), columns[2]]
    for name, result, got in zip(names, results, outs):
        assert_same_bits(name, columns[: ELEMENTWISE[name].arity], got, expected(name, columns, result))


@pytest.mark.parametrize("t", NUMBERS, ids=repr)
def test_edge_values(t: T.Scalar) -> None:
    values = edge_values(t)
    grid = np.meshgrid(values, values, values[:4])
    check(t, [g.ravel().copy() for g in grid])


@pytest.mark.parametrize("t", NUMBERS, ids=repr)
def test_constant_second_operand(t: T.Scalar) -> None:
    values = edge_values(t)
    for constant in values[:: 1 if t.kind == "b" else 4]:
        check(t, [values, values, np.roll(values, 1)], constant.item())
    if t.is_float:
        for constant in (0.0, -0.0):
            check(t, [values, values, np.roll(values, 1)], constant)
    if t.kind == "i":
        check(t, [values, values, np.roll(values, 1)], -1)


@given(seed=st.integers(0, 2**32 - 1), t=st.sampled_from(NUMBERS))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_bits(seed: int, t: T.Scalar) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (3, 64 * t.size), dtype=np.uint8)
    columns = [(row & 1).astype(bool) if t.kind == "b" else row.view(t.numpy).copy() for row in raw]
    check(t, columns)


@pytest.mark.parametrize("lanes", [0, 4, 8, 16])
@pytest.mark.parametrize("source", NUMBERS, ids=repr)
def test_casts(source: T.Scalar, lanes: int) -> None:
    values = edge_values(source)
    values = np.resize(values, -(-len(values) // 16) * 16)  # so that vectors have all of them
    b = Builder(f"casts_{source}", ("x", T.Array(source)), *[(f"to_{t}", T.Array(t)) for t in NUMBERS])
    i = b.tid()
    x = b.load(b.params[0], i)
    for out, t in zip(b.params[1:], NUMBERS):
        b.store(out, i, b.cast(t, x))
    outs = [np.zeros(len(values), t.numpy) for t in NUMBERS]
    run(b.fn, len(values), values, *outs, options=Options(shape="lanes" if lanes else "thread", lanes=lanes))
    for t, got in zip(NUMBERS, outs):
        want = [reference_cast(v, source, t) for v in values]
        assert_same_bits(f"cast to {t}", [values], got, np.array(want, t.numpy))
        with np.errstate(all="ignore"):
            folds = [cast_constant(value, t) for value in values.tolist()]
        for folded, w in zip(folds, want):
            assert folded is None or np.array(folded, t.numpy) == w or w != w


def reference_cast(v: np.generic, source: T.Scalar, to: T.Scalar) -> np.generic:
    with np.errstate(all="ignore"):
        if source.is_float and to.is_int:
            low, high = to.range
            if np.isnan(v):
                return to.numpy.type(0)
            return to.numpy.type(max(low, min(high, int(v))) if np.isfinite(v) else low if v < 0 else high)
        return np.array([v]).astype(to.numpy)[0]


@pytest.mark.parametrize("t", NUMBERS, ids=repr)
def test_folding_agrees_with_machine_code(t: T.Scalar) -> None:
    """The operands as constants: the result is then folded by the simplifier (or by LLVM)."""
    values = edge_values(t).tolist()
    pairs = [(a, b) for a in values[:6] for b in values[-5:]]
    names = names_for(t)
    for a, v in pairs[::5]:
        results = [T.bool_ if ELEMENTWISE[n].result == "bool" else t for n in names]
        b = Builder("folded", *[(n, T.Array(r)) for n, r in zip(names, results)])
        i = b.tid()
        operands = [b.const(t, a), b.const(t, v), b.const(t, values[1])]
        for name, out in zip(names, b.params):
            b.store(out, i, b.ew(name, *operands[: ELEMENTWISE[name].arity]))
        outs = [np.zeros(1, r.numpy) for r in results]
        run(b.fn, 1, *outs)
        columns = [np.array([x], t.numpy) for x in (a, v, values[1])]
        for name, r, got in zip(names, results, outs):
            assert_same_bits(name, columns[: ELEMENTWISE[name].arity], got, expected(name, columns, r))


def test_tables_are_exhaustive() -> None:
    assert set(emit_ops.TABLE) == set(ELEMENTWISE)
    hir_only = {"make", "extract", "insert", "extract_at", "insert_at", "subarray", "view", "local_view",
                "array_ptr", "array_at", "field", "count", "shape", "position", "call", "local_part",
                "break", "continue", "return", "param"}  # fmt: skip
    in_gradients_only = {"shadow", "yield"}
    mir_only = {"address", "local_pointer", "pointer_to_int", "int_to_pointer"}
    by_blocks_only = {"barrier", "shuffle", "vote"}
    assert set(Gpu.structure) == set(STRUCTURAL) - hir_only - in_gradients_only
    assert set(STRUCTURE) == set(Gpu.structure) - by_blocks_only
    assert set(_HANDLERS) == set(ELEMENTWISE) | (set(STRUCTURAL) - {"param", "call"} - mir_only)


def test_missing_feature_is_a_compile_error_at_its_line() -> None:
    b = Builder("truths", ("x", T.Array(T.bool_)))
    bad = b.op("atomic", T.bool_, b.params[0], b.tid(), b.const(T.bool_, True), op="exch")
    from engine.compiler.ir import Location
    from engine.compiler.pipeline import Options, lower

    bad.loc = Location(7, 4)
    with pytest.raises(CompileError, match="atomic_exch is not defined on bool") as caught:
        emit(lower(b.fn, Options()), "truths")
    assert (caught.value.lineno, caught.value.offset) == (7, 4)


HALVES = {
    T.float16: (lambda bits: bits.view(np.float16).astype(np.float32), lambda x: x.astype(np.float16).view(np.uint16)),
    T.bfloat16: (T.bfloat16_numbers, T.bfloat16_bits),
}


@pytest.mark.parametrize("t", HALVES, ids=repr)
def test_sixteen_bit_floats_compute_in_float32_and_round(t: T.Scalar) -> None:
    names = [n for n in names_for(t) if n != "fma"]
    results = [T.bool_ if ELEMENTWISE[n].result == "bool" else t for n in names]
    b = Builder("halves", ("a", T.Array(t)), ("b", T.Array(t)), *[(n, T.Array(r)) for n, r in zip(names, results)])
    i = b.tid()
    x, y = (b.load(p, i) for p in b.params[:2])
    for name, out in zip(names, b.params[2:]):
        b.store(out, i, b.ew(name, *(x, y)[: ELEMENTWISE[name].arity]))
    patterns = np.arange(0, 65536, 251, dtype=np.uint16)
    left, right = (m.ravel() for m in np.meshgrid(patterns, patterns[::7]))
    outs = [np.full(len(left), 1, np.uint8 if r is T.bool_ else np.uint16) for r in results]
    widen, narrow = HALVES[t]
    stored = left.view(t.numpy), right.view(t.numpy)
    run(b.fn, len(left), *stored, *[o.view(r.numpy) for o, r in zip(outs, results)])
    for name, result, out in zip(names, results, outs):
        with np.errstate(all="ignore"):
            want = expected(name, [widen(left), widen(right)], T.bool_ if result is T.bool_ else T.float32)
            got = out.view(np.bool_) if result is T.bool_ else widen(out)
            want = want if result is T.bool_ else widen(narrow(want))
        assert_same_bits(name, [widen(left), widen(right)], got, want)


def test_half_converts_exactly() -> None:
    b = Builder("half", ("x", T.Array(T.float16)), ("y", T.Array(T.float32)), ("z", T.Array(T.float16)))
    i = b.tid()
    wide = b.cast(T.float32, b.load(b.params[0], i))
    b.store(b.params[1], i, wide)
    b.store(b.params[2], i, b.cast(T.float16, wide))
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    y, z = np.zeros(65536, np.float32), np.zeros(65536, np.float16)
    run(b.fn, 65536, x, y, z)
    assert_same_bits("to float32", [x], y, x.astype(np.float32))
    assert_same_bits("back", [x], z, x)


def test_ops_module_is_what_the_table_tests() -> None:
    assert ops.fold("add", T.int8, [127, 1]) == -128
