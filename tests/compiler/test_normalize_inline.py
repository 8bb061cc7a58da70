"""Random structured programs mean the same before and after the passes, and as machine code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.compiler import types as T
from engine.compiler.inline import inline
from engine.compiler.ir import Function, Op
from engine.compiler.normalize import normalize
from engine.compiler.pipeline import Options
from engine.compiler.printer import print_function
from engine.compiler.verify import verify
from engine.config import config
from engine.errors import InternalError
from tests.compiler.hir_builder import Builder, run
from tests.compiler.hir_interpreter import interpret

INTS = T.Array(T.int32)


class Writer:
    """Writes a random function body: every loop is bounded by `fuel`, so that all programs end."""

    def __init__(self, draw, b: Builder, callees: list[Function]):
        self.draw, self.b, self.callees = draw, b, callees
        self.loops = 0
        self.budget = 25

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def value(self) -> Op:
        b, kind = self.b, self.number(0, 5)
        if kind == 0:
            return b.i32(self.number(-3, 9))
        if kind <= 2 or not self.callees:
            a, c = b.get(self.variable()), b.get(self.variable())
            return b.ew(("add", "mul", "sub", "xor", "floordiv", "mod")[self.number(0, 5)], a, c)
        if kind == 3:
            callee = self.callees[self.number(0, len(self.callees) - 1)]
            return b.call(callee, b.get(self.variable()), b.i32(self.number(0, 4)))
        return b.get(self.variable())

    def variable(self) -> Op:
        return self.variables[self.number(0, len(self.variables) - 1)]

    def condition(self) -> Op:
        return self.b.ew(("lt", "eq", "ne", "ge")[self.number(0, 3)], self.value(), self.value())

    def body(self, variables: list[Op], result: bool) -> None:
        self.variables, self.result = variables, result
        self.statements(self.number(1, 5))

    def statements(self, count: int) -> None:
        for _ in range(count):
            self.budget -= 1
            self.statement(self.number(0, 9) if self.budget > 0 else 0)

    def statement(self, kind: int) -> None:
        b = self.b
        if kind <= 3:
            b.set(self.variable(), self.value())
        elif kind <= 5:
            with b.if_(self.condition()) as other:
                self.statements(self.number(1, 3))
            if self.number(0, 1):
                with b.into(other):
                    self.statements(self.number(1, 3))
        elif kind == 6:
            if self.loops < 2:
                self.loops += 1
                with b.for_(
                    b.i32(self.number(-2, 3)), b.i32(self.number(-2, 5)), b.i32((-2, -1, 1, 2, 3)[self.number(0, 4)])
                ) as i:
                    b.set(self.variable(), i)
                    self.statements(self.number(1, 4))
                self.loops -= 1
        elif kind == 7:
            if self.loops < 2:
                self.loops += 1
                fuel = b.var("fuel", b.i32(0))
                with b.while_(lambda: b.ew("lt", b.get(fuel), b.i32(4))):
                    b.set(fuel, b.ew("add", b.get(fuel), b.i32(1)))
                    self.statements(self.number(1, 4))
                self.loops -= 1
        elif kind == 8 and self.loops:
            b.op("break" if self.number(0, 1) else "continue")
        else:
            b.ret(self.value()) if self.result else b.ret()


@st.composite
def programs(draw) -> Function:
    callees: list[Function] = []
    for k in range(draw(st.integers(0, 2))):
        f = Builder(f"f{k}", ("p", T.int32), ("q", T.int32), result=T.int32, is_kernel=False)
        variables = [f.var(p.attrs["name"], p) for p in f.params]
        Writer(draw, f, list(callees)).body(variables, result=True)
        f.ret(f.get(variables[0]))
        callees.append(f.fn)
    b = Builder("random", ("data", INTS))
    i = b.tid()
    variables = [b.var("i", i), b.var("x", b.load(b.params[0], i)), b.var("y", b.i32(1))]
    w = Writer(draw, b, callees)
    w.body(variables, result=False)
    for k, v in enumerate(variables[1:]):
        b.store(b.params[0], b.ew("add", i, b.i32(8 * k)), b.get(v))
    w.budget = 6
    w.statements(draw(st.integers(0, 3)))
    b.store(b.params[0], b.ew("add", i, b.i32(16)), b.get(w.variable()))
    return b.fn


@given(fn=programs())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_random_programs(fn: Function) -> None:
    verify(fn)
    start = np.arange(-3, 29, dtype=np.int32)
    want = start.copy()
    for t in range(8):
        interpret(fn, [want], t)

    before = print_function(fn)
    passed = verify(inline(verify(normalize(fn))))
    assert print_function(fn) == before, "a pass changed its input"
    assert not {op.kind for op in passed.body.walk()} & {"break", "continue", "return", "call"}
    got = start.copy()
    for t in range(8):
        interpret(passed, [got], t)
    assert got.tolist() == want.tolist(), print_function(fn)

    got = start.copy()
    with config.scope(verify=True, kernel_cache=False):
        run(fn, 8, got, options=Options(opt_level=1))
    assert got.tolist() == want.tolist(), print_function(fn)


def guard_clause() -> Builder:
    b = Builder("clamp", ("x", T.int32), result=T.int32, is_kernel=False)
    with b.if_(b.ew("lt", b.params[0], b.i32(0))):
        b.ret(b.i32(0))
    b.ret(b.params[0])
    return b


def test_guard_clauses_need_no_flag() -> None:
    fn = normalize(verify(guard_clause().fn))
    text = print_function(verify(fn))
    assert "returned" not in text and text.count("if ") == 1
    assert fn.body.ops[-1].kind == "return"
    assert [interpret(fn, [np.int32(x)]) for x in (-5, 7)] == [0, 7]


def test_single_tail_return_is_left_alone() -> None:
    b = Builder("twice", ("x", T.int32), result=T.int32, is_kernel=False)
    b.ret(b.ew("add", b.params[0], b.params[0]))
    assert normalize(b.fn) is b.fn


def test_break_sets_the_exit_slot() -> None:
    b = Builder("first", ("a", INTS))
    with b.for_(b.i32(0), b.i32(10), b.i32(1)) as i:
        with b.if_(b.ew("eq", b.load(b.params[0], i), b.i32(0))):
            b.op("break")
        b.store(b.params[0], i, b.i32(5))
    fn = verify(normalize(b.fn))
    loop = next(op for op in fn.body.ops if op.kind == "for")
    assert loop.attrs["exit"].kind == "slot"
    data = np.array([1, 1, 0, 1], np.int32)
    run(b.fn, 1, data)
    assert data.tolist() == [5, 5, 0, 1]


def test_recursion_is_refused() -> None:
    b = Builder("f", ("x", T.int32), result=T.int32, is_kernel=False)
    b.ret(b.call(b.fn, b.params[0]))
    with pytest.raises(InternalError, match="calls itself"):
        inline(b.fn)


def test_arguments_by_reference() -> None:
    """A callee writes into its caller's local array, and a table parameter passes through two calls."""
    buffer, table = T.LocalArray(T.int32, (4,)), T.Table("Bodies", (("mass", T.int32, "nbody"),))
    inner = Builder("fill", ("buffer", buffer), ("bodies", table), ("i", T.int32), is_kernel=False)
    array, bodies, i = inner.params
    mass = inner.op("load", T.int32, inner.op("field", T.Array(T.int32, 1, "planes"), bodies, name="mass"), i)
    inner.op("local_store", T.void, array, i, mass)
    outer = Builder("outer", ("buffer", buffer), ("bodies", table), is_kernel=False)
    for k in range(3):
        outer.call(inner.fn, *outer.params, outer.i32(k))
    b = Builder("kernel", ("bodies", table), ("out", INTS))
    local = b.op("local", buffer)
    b.call(outer.fn, local, b.params[0])
    for k in range(4):
        b.store(b.params[1], b.i32(k), b.op("local_load", T.int32, local, b.i32(k)))
    out = np.full(4, -1, np.int32)
    run(b.fn, 1, {"mass": [np.array([7, 8, 9], np.int32)], "nbody": 3}, out)
    assert out.tolist() == [7, 8, 9, 0]
