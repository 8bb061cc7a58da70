"""Warm starts: a kernel is recalled without being typed, and never when what it was made from has changed."""

import ast

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.compiler import recall
from engine.compiler.kernel import Kernel

SCALE = 2.0
CHOICE = k.func(lambda x: x + 1.0)


def scaled(x: k.array(dtype=float)):
    i = k.tid()
    x[i] = CHOICE(x[i]) * SCALE


def run(kernel: Kernel) -> float:
    x = engine.array([3.0], dtype=float, device="cpu")
    engine.launch(kernel, dim=1, inputs=[x], device="cpu")
    return float(x.numpy()[0])


@pytest.fixture
def lowered(monkeypatch):
    """How often a kernel was typed."""
    counts = [0]
    lower = Kernel.lower

    def counted(self, arg_types):
        counts[0] += 1
        return lower(self, arg_types)

    monkeypatch.setattr(Kernel, "lower", counted)
    return counts


def test_the_second_kernel_of_the_same_source_is_not_typed(lowered):
    assert run(k.kernel(scaled)) == 8.0
    before = lowered[0]
    assert run(k.kernel(scaled)) == 8.0
    assert lowered[0] == before


def test_a_changed_constant_types_again(monkeypatch):
    assert run(k.kernel(scaled)) == 8.0
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert run(k.kernel(scaled)) == 40.0


def test_lambdas_of_one_line_are_told_apart(monkeypatch):
    first, second = k.func(lambda x: x + 1.0), k.func(lambda x: x - 1.0)
    assert recall.fingerprint(first) != recall.fingerprint(second)


def test_closures_are_always_typed(lowered):
    def make(factor):
        @k.kernel
        def times(x: k.array(dtype=float)):
            i = k.tid()
            x[i] = x[i] * factor

        return times

    assert [run(make(f)) for f in (2.0, 5.0, 2.0)] == [6.0, 15.0, 6.0]
    assert lowered[0] == 3


def test_code_transformers_are_always_applied():
    class Negate(ast.NodeTransformer):
        def visit_Mult(self, node):
            return ast.Sub()

    assert run(k.kernel(scaled)) == 8.0
    assert run(Kernel(scaled, code_transformers=[Negate()])) == 2.0
    assert run(k.kernel(scaled)) == 8.0


def test_a_changed_file_types_again(monkeypatch):
    kernel = k.kernel(scaled)
    types = tuple(t for _, t in kernel.params)
    note = recall.note_key(kernel.func, types, "target")
    recall.remember(note, kernel.lower(types), "key")
    assert recall.recall(note) == "key"
    monkeypatch.setattr(recall, "file_digest", lambda path: "other")
    assert recall.recall(note) is None


def test_what_has_no_fingerprint_is_not_recalled():
    assert recall.fingerprint(object()) is None
    assert recall.fingerprint((1, 2.5, "a", None, True)) is not None
    assert recall.fingerprint(np.float32(1)) != recall.fingerprint(np.float64(1))
    assert recall.fingerprint(k.vec3(1, 2, 3)) != recall.fingerprint(k.vec3(1, 2, 4))
