"""What the simplifier may do, and what IEEE forbids it to do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler import types as T
from engine.compiler.ir import Function
from engine.compiler.printer import print_function
from engine.compiler.scalarize import scalarize
from engine.compiler.simplify import simplify
from engine.compiler.verify import verify
from tests.compiler.hir_builder import Builder, run

F, I = T.float32, T.int32


def simplified(b: Builder, fma: bool = False) -> Function:
    return verify(simplify(verify(scalarize(verify(b.fn)), "mir"), fma), "mir")


def kinds(b: Builder, fma: bool = False) -> list[str]:
    return [op.kind for op in simplified(b, fma).body.walk() if op.kind not in ("const", "tid", "load", "store")]


def one(t: T.Scalar) -> Builder:
    """x = a[0], y = a[1], in `b.x` and `b.y`; the test stores its result with `b.out`."""
    b = Builder("f", ("a", T.Array(t)), ("r", T.Array(t)))
    zero = b.i32(0)
    b.x, b.y = b.load(b.params[0], zero), b.load(b.params[0], b.i32(1))
    b.out = lambda v: b.store(b.params[1], zero, v)
    return b


@pytest.mark.parametrize(
    ("kind", "constant", "stays"),
    [("mul", 1.0, False), ("div", 1.0, False), ("add", -0.0, False), ("sub", 0.0, False),
     ("add", 0.0, True), ("sub", -0.0, True), ("mul", 0.0, True), ("mul", -0.0, True), ("add", 1.0, True)],
)  # fmt: skip
def test_identities_of_floats_are_exact(kind: str, constant: float, stays: bool) -> None:
    b = one(F)
    b.out(b.ew(kind, b.x, b.f32(constant)))
    assert kinds(b) == ([kind] if stays else [])


@pytest.mark.parametrize(
    ("kind", "constant"),
    [("mul", 1), ("mul", 0), ("add", 0), ("sub", 0), ("div", 1), ("floordiv", 1), ("and", -1), ("and", 0), ("or", 0),
     ("or", -1), ("xor", 0), ("shl", 0), ("shr", 0)],
)  # fmt: skip
def test_identities_of_integers(kind: str, constant: int) -> None:
    b = one(I)
    b.out(b.ew(kind, b.x, b.i32(constant)))
    assert kinds(b) == []
    a, r = np.array([12345, 0], np.int32), np.zeros(1, np.int32)
    run(b.fn, 1, a, r)
    assert r[0] == {("mul", 0): 0, ("and", 0): 0, ("or", -1): -1}.get((kind, constant), 12345)


def test_x_minus_x_is_not_zero_for_floats() -> None:
    b = one(F)
    b.out(b.ew("sub", b.x, b.x))
    assert kinds(b) == ["sub"]
    b = one(I)
    b.out(b.ew("sub", b.x, b.x))
    assert kinds(b) == []


def test_equal_values_merge_also_with_operands_exchanged() -> None:
    b = one(F)
    b.out(b.ew("div", b.ew("add", b.x, b.y), b.ew("add", b.y, b.x)))
    assert kinds(b) == ["add", "div"]


def test_loads_merge_only_until_memory_is_written() -> None:
    b = Builder("f", ("a", T.Array(F)), ("r", T.Array(F)))
    zero = b.i32(0)
    first = b.ew("add", b.load(b.params[0], zero), b.load(b.params[0], zero))
    b.store(b.params[1], zero, first)
    b.store(b.params[1], b.i32(1), b.load(b.params[0], zero))
    loads = [op for op in simplified(b).body.ops if op.kind == "load"]
    assert len(loads) == 2
    data = np.array([3, 0], np.float32)
    run(b.fn, 1, data, data)  # the same array: the second load must see the first store
    assert data.tolist() == [6, 6]


def test_values_in_a_branch_do_not_leak_out() -> None:
    b = one(F)
    slot = b.var("s", b.x)
    with b.if_(b.ew("lt", b.x, b.y)):
        b.set(slot, b.ew("mul", b.x, b.y))
    b.out(b.ew("sub", b.ew("mul", b.x, b.y), b.get(slot)))
    assert kinds(b).count("mul") == 2


def test_slots_that_are_never_read_go() -> None:
    b = one(F)
    unread, loop = b.var("unread", b.x), b.var("s", b.x)
    with b.for_(b.i32(0), b.i32(9), b.i32(1)):
        b.set(unread, b.ew("mul", b.get(loop), b.y))
        b.set(loop, b.ew("add", b.get(loop), b.y))
    b.out(b.get(loop))
    names = [op.attrs["name"] for op in simplified(b).body.walk() if op.kind == "slot"]
    assert names == ["s"] and "mul" not in kinds(b)


def test_straight_code_needs_no_slots() -> None:
    b = one(F)
    s = b.var("s", b.x)
    b.set(s, b.ew("add", b.get(s), b.y))
    b.set(s, b.ew("add", b.get(s), b.y))
    b.out(b.get(s))
    assert kinds(b) == ["add", "add"]


def test_constant_conditions_choose_a_branch() -> None:
    b = one(I)
    s = b.var("s", b.x)
    with b.if_(b.ew("lt", b.i32(1), b.i32(2))) as other:
        b.set(s, b.y)
    with b.into(other):
        b.store(b.params[1], b.i32(5), b.i32(5))
    b.out(b.get(s))
    assert kinds(b) == []


# contraction


def fma_text(build: object) -> list[str]:
    b = one(F)
    b.z = b.load(b.params[0], b.i32(2))
    b.out(build(b))
    text = print_function(simplified(b, fma=True))
    values: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        left, _, right = line.strip().partition(" = ")
        if right.startswith("load"):
            values[left] = "xyz"[len([v for v in values.values() if v in "xyz"])]
        elif right.startswith(("fma", "mul", "add", "sub", "neg")):
            values[left] = f"t{len(lines)}"
            kind, *operands = right.partition(" : ")[0].replace(",", "").split()
            lines.append(" ".join([kind, *[values.get(v, v) for v in operands]]))
    return lines


def test_contraction_rule() -> None:
    """Golden: the whole rule of the file's header, with x, y, z loaded in this order."""
    assert fma_text(lambda b: b.ew("add", b.ew("mul", b.x, b.y), b.z)) == ["fma x y z"]
    assert fma_text(lambda b: b.ew("add", b.z, b.ew("mul", b.x, b.y))) == ["fma x y z"]
    assert fma_text(lambda b: b.ew("sub", b.z, b.ew("mul", b.x, b.y))) == ["neg x", "fma t0 y z"]
    assert fma_text(lambda b: b.ew("sub", b.ew("mul", b.x, b.y), b.z)) == ["neg z", "fma x y t0"]
    two = lambda b: b.ew("add", b.ew("mul", b.x, b.x), b.ew("mul", b.y, b.z))
    assert fma_text(two) == ["mul x x", "fma y z t0"]


def test_a_product_used_twice_is_not_contracted() -> None:
    def build(b: Builder) -> object:
        m = b.ew("mul", b.x, b.y)
        return b.ew("div", b.ew("add", m, b.z), m)

    assert "fma" not in " ".join(fma_text(build))


def test_double_negation_is_used_up() -> None:
    assert fma_text(lambda b: b.ew("sub", b.ew("mul", b.x, b.y), b.ew("neg", b.z))) == ["fma x y z"]


def test_fma_rounds_once() -> None:
    b = one(F)
    b.out(b.ew("sub", b.ew("mul", b.x, b.x), b.y))
    x = np.float32(1 + 2**-12)
    a, r = np.array([x, x * x], np.float32), np.zeros(1, np.float32)
    run(b.fn, 1, a, r)
    assert r[0] == np.float64(x) * np.float64(x) - np.float64(np.float32(x * x)) != 0


# random expressions


@st.composite
def expressions(draw: st.DrawFn, t: T.Scalar = F) -> Function:
    b = one(t)
    numbers = [0.0, -0.0, 1.0, -1.0, 2.5, float("inf"), float("nan")] if t is F else [0, 1, -1, 7, -(2**31), 31]
    pool = [b.x, b.y, *[b.const(t, n) for n in numbers]]
    names = ["add", "sub", "mul", "div", "min", "max", "neg", "abs", "select_min"]
    names += ["sqrt", "floor", "copysign"] if t is F else ["floordiv", "mod", "and", "or", "xor", "shl", "shr", "not"]
    for _ in range(draw(st.integers(1, 14))):
        name = draw(st.sampled_from([*names, "select"]))
        v = [draw(st.sampled_from(pool)) for _ in range(3)]
        if name == "select":
            pool.append(b.op("select", t, b.ew("le", v[0], v[1]), v[1], v[2]))
        else:
            pool.append(b.ew(name, *v[: 1 if name in ("neg", "abs", "not", "sqrt", "floor") else 2]))
    b.out(pool[-1])
    return b.fn


@given(fn=st.one_of(expressions(F), expressions(I)), seed=st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_random_expressions_keep_their_bits(fn: Function, seed: int) -> None:
    from engine.compiler.pipeline import Options
    from engine.config import config
    from tests.compiler.hir_interpreter import interpret

    t = fn.params[0].type.dtype
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal(3) * 10).astype(t.numpy)
    want, got = np.zeros(1, t.numpy), np.ones(1, t.numpy)
    interpret(fn, [a, want])
    with config.scope(kernel_cache=False):
        run(fn, 1, a, got, options=Options(fma=False, opt_level=0))
    assert got.tobytes() == want.tobytes() or np.isnan(got[0]) and np.isnan(want[0]), (got, want, print_function(fn))
