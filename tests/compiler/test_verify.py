"""The verifier refuses IR that breaks a rule, and says which op and which rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.compiler import types as T
from engine.compiler.ir import Op, Region
from engine.compiler.verify import verify
from engine.errors import InternalError
from tests.compiler.hir_builder import Builder

F, I, V3 = T.float32, T.int32, T.Vector(T.float32, 3)


def builder() -> Builder:
    return Builder("k", ("x", T.Array(F)), ("v", V3), ("b", T.Table("Bodies", (("mass", F, "nbody"),))))


BAD: dict[str, tuple[Callable[[Builder], object], str]] = {
    "mixed operands": (lambda b: b.op("add", F, b.f32(1), b.i32(1)), "equal types"),
    "not for floats": (lambda b: b.op("and", F, b.f32(1), b.f32(1)), "does not take float32"),
    "wrong result": (lambda b: b.op("add", I, b.f32(1), b.f32(1)), "operand type"),
    "compares vectors": (lambda b: b.op("eq", T.bool_, b.params[1], b.params[1]), "scalars only"),
    "arity": (lambda b: b.op("add", F, b.f32(1)), "takes 2 operands"),
    "unknown": (lambda b: b.op("frobnicate", F), "unknown op"),
    "const of another kind": (lambda b: b.op("const", I, value=2**31), "does not fit int32"),
    "too many parts": (lambda b: b.op("make", V3, b.f32(1), b.f32(1)), "one operand for each"),
    "no such component": (lambda b: b.op("extract", F, b.params[1], index=3), "no such component"),
    "no such field": (lambda b: b.op("field", T.Array(F, 1, "planes"), b.params[2], name="speed"), "no such field"),
    "get of a value": (lambda b: b.op("get", F, b.f32(1)), "reads a slot"),
    "index missing": (lambda b: b.op("load", F, b.params[0]), "one index per dimension"),
    "float index": (lambda b: b.op("load", F, b.params[0], b.f32(1)), "indices are ints"),
    "store does not fit": (lambda b: b.op("store", T.void, b.params[0], b.i32(0), b.i32(0)), "must fit"),
    "break outside": (lambda b: b.op("break"), "outside a loop"),
    "for without index": (
        lambda b: b.op("for", T.void, b.i32(0), b.i32(1), b.i32(1), regions=(Region(),)), "begins with"),
    "while without condition": (lambda b: b.op("while", regions=(Region(), Region())), "must be `condition`"),
    "returns the wrong type": (lambda b: b.ret(b.f32(1)), "must return"),
    "one region": (lambda b: b.op("if", T.void, b.const(T.bool_, True), regions=(Region(),)), "number of regions"),
    "exit is not a slot": (
        lambda b: b.op("while", regions=(Region([]), Region()), exit=b.const(T.bool_, True)), "exit is a bool slot"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str) -> None:
    build, reason = BAD[case]
    b = builder()
    build(b)
    with pytest.raises(InternalError, match=reason) as caught:
        verify(b.fn)
    assert "in 'k'" in str(caught.value)


def test_value_of_a_branch_does_not_reach_behind_it() -> None:
    b = builder()
    with b.if_(b.const(T.bool_, True)):
        inside = b.f32(1)
    b.ew("add", inside, inside)
    with pytest.raises(InternalError, match="does not reach this op"):
        verify(b.fn)


def test_an_op_stands_in_one_place() -> None:
    b = builder()
    b.fn.body.append(b.f32(1))
    with pytest.raises(InternalError, match="two places"):
        verify(b.fn)


def test_aggregates_and_calls_are_not_mir() -> None:
    b = Builder("k")
    one = b.f32(1)
    b.op("make", V3, one, one, one)
    verify(b.fn)
    with pytest.raises(InternalError, match="not allowed in MIR"):
        verify(b.fn, "mir")


def test_message_shows_the_place() -> None:
    from engine.compiler.ir import Location

    b = builder()
    b.fn.body.append(Op("add", F, (b.f32(1), b.i32(1)), loc=Location(12, 4)))
    with pytest.raises(InternalError, match=r"add <const float32>, <const int32> : float32 at 12:4"):
        verify(b.fn)
