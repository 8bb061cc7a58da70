"""The table of rules is complete, and each rule agrees with the slope of its op's NumPy meaning."""

import numpy as np
import pytest

from engine.compiler.adjoint import HANDLERS, PASSIVE
from engine.compiler.adjoint_rules import RULES, is_flat
from engine.compiler.ops import ELEMENTWISE, STRUCTURAL

# made of others before gradients are made, or made by the flow form itself
OUTSIDE_OF_FLOW = {
    "param", "make", "extract", "insert", "extract_at", "insert_at", "slot", "get", "set", "subarray", "field", "count",
    "shape", "call", "for", "while", "condition", "break", "continue", "return", "shadow", "view", "local_view",
    "array_ptr", "array_at", "position", "local_part",
    "block_value", "barrier", "shuffle", "vote",  # kernels that use their block have no gradient
}  # fmt: skip


def test_every_op_has_a_rule_or_is_passive():
    assert set(RULES) == set(ELEMENTWISE)
    assert set(HANDLERS) | PASSIVE == (set(ELEMENTWISE) | set(STRUCTURAL) | {"loop"}) - OUTSIDE_OF_FLOW
    assert not set(HANDLERS) & PASSIVE


class Numbers:
    """A step that computes with numbers: what a rule adds is the derivative itself, for g = 1."""

    def __init__(self, kind, values):
        self.kind, self.values, self.g = kind, values, np.float64(1.0)
        self.found = [np.float64(0.0) for _ in values]

    def needs(self, k):
        return True

    def operand(self, k):
        return self.values[k]

    def result(self):
        return ELEMENTWISE[self.kind].numpy(*self.values)

    def number(self, value):
        return np.float64(value)

    def emit(self, kind, *operands):
        if kind == "select":
            return operands[1] if operands[0] else operands[2]
        return ELEMENTWISE[kind].numpy(*operands)

    def add(self, k, value):
        self.found[k] += value

    def add_product(self, k, a, b):
        self.found[k] += a * b


FLOATS = [name for name, row in ELEMENTWISE.items() if "f" in row.accepts and row.result == "same"]


@pytest.mark.parametrize("kind", FLOATS)
def test_each_rule_is_the_slope(kind):
    rng = np.random.default_rng(3)
    h = 1e-6
    for _ in range(20):
        values = [np.float64(v) for v in rng.uniform(0.3, 2.7, ELEMENTWISE[kind].arity)]
        if kind in ("abs", "neg", "copysign", "mul", "add", "min", "max"):
            values = [v - 1.5 for v in values]
        if any(abs(v - round(v)) < 1e-3 for v in values) or abs(values[0] - values[-1]) < 1e-3 < len(values) - 1:
            continue
        step = Numbers(kind, values)
        RULES[kind](step)
        meaning = ELEMENTWISE[kind].numpy
        for k, found in enumerate(step.found):
            up, down = list(values), list(values)
            up[k], down[k] = values[k] + h, values[k] - h
            slope = (meaning(*map(np.float64, up)) - meaning(*map(np.float64, down))) / (2 * h)
            assert found == pytest.approx(slope, rel=1e-6, abs=1e-8), (kind, values, k)
        assert not is_flat(kind) or not any(step.found)
