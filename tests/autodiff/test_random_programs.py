"""Random programs: their gradients equal central differences in float64, whatever the control flow.

A program is straight arithmetic on four locals, with ifs, ternaries, dynamic for loops (break, continue), while loops,
in-place array updates and local arrays, nested up to three deep. All arithmetic is smooth and bounded.
"""

import itertools
import linecache

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import engine
from engine.compiler import lang as k

NAMES = ("a", "b", "c", "d")
counter = itertools.count()

operand = st.sampled_from([*NAMES, "x[0]", "x[1]", "x[2]", "one", "half"])
expression = st.one_of(
    st.builds("({} + {})".format, operand, operand),
    st.builds("({} - {})".format, operand, operand),
    st.builds("({} * {} * half)".format, operand, operand),
    st.builds("k.sin({})".format, operand),
    st.builds("k.tanh({} * {})".format, operand, operand),
    st.builds("({} / (one + {} * {}))".format, operand, st.shared(operand, key="q"), st.shared(operand, key="q")),
    st.builds("({} if {} > {} else {})".format, operand, operand, operand, operand),
    st.builds("w[{}]".format, st.integers(0, 2)),
    st.builds("buffer[{}]".format, st.integers(0, 2)),
    st.builds("k.max({}, {})".format, operand, operand),
)
assignment = st.one_of(
    st.builds(lambda n, e: [f"{n} = {e}"], st.sampled_from(NAMES), expression),
    st.builds(lambda n, e: [f"{n} = k.cos({n}) + {e} * half"], st.sampled_from(NAMES), expression),
    st.builds(lambda i, e: [f"w[{i}] = {e}"], st.integers(0, 2), expression),
    st.builds(lambda i, e: [f"w[{i}] += {e} * half"], st.integers(0, 2), expression),
    st.builds(lambda i, e: [f"buffer[{i}] = {e}"], st.integers(0, 2), expression),
    st.builds(lambda i, n: [f"v[{i}] = v[{i}] * half + {n}"], st.integers(0, 2), st.sampled_from(NAMES)),
    st.builds(lambda n, i: [f"{n} = v[{i}] * half"], st.sampled_from(NAMES), st.integers(0, 2)),
)


def indented(lines):
    return [f"    {line}" for line in lines]


def blocks(inner):
    body = st.lists(inner, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part])
    return st.one_of(
        assignment,
        st.builds(lambda p, q, a, b: [f"if {p} > {q}:", *indented(a), "else:", *indented(b)],
                  operand, operand, body, body),
        st.builds(lambda a, i: [f"for i{i} in range(n[{i}]):", *indented(a)], body, st.integers(0, 2)),
        st.builds(lambda a, b, p: ["for j in range(n[2]):", *indented(a), f"    if {p} > one:", "        break",
                                   *indented(b)], body, body, operand),
        st.builds(lambda a, b, p: ["for j in range(1, 6, 2):", *indented(a), f"    if {p} > half:", "        continue",
                                   *indented(b)], body, body, operand),
        st.builds(lambda a, i, u: [f"t{u} = n[{i}]", f"while t{u} > 0:", f"    t{u} = t{u} - 1", *indented(a)], body,
                  st.integers(0, 2), st.uuids().map(lambda u: u.hex[:8])),
    )  # fmt: skip


program = st.lists(blocks(blocks(blocks(assignment))), min_size=2, max_size=5).map(
    lambda parts: [line for part in parts for line in part]
)


def build(lines):
    """The kernel of a program, from source that Python can find again."""
    name = f"<random program {next(counter)}>"
    source = "\n".join([
        "def program(x: k.array(dtype=k.float64), n: k.array(dtype=int), w: k.array(dtype=k.float64),",
        "            y: k.array(dtype=k.float64)):",
        "    one, half = k.float64(1.0), k.float64(0.5)",
        "    buffer = k.zeros(shape=3, dtype=k.float64)",
        "    v = k.vec3d(x[0], x[1], x[2])",
        "    a, b, c, d = x[0] * one, x[1] * one, x[2] * one, half * one",
        *indented(lines),
        "    y[0] = a + b * c + d + w[0] + w[1] * w[2] + v[0] * v[1] + buffer[0] + v[2] * buffer[1]",
        "",
    ])  # fmt: skip
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = {"k": k}
    exec(compile(source, name, "exec"), scope)
    return k.kernel(scope["program"]), source


def run(kernel, x, w, n, tape=None):
    arrays = [engine.array(v, dtype=engine.float64, device="cpu", requires_grad=tape is not None) for v in (x, w)]
    y = engine.zeros(1, dtype=engine.float64, device="cpu", requires_grad=tape is not None)
    steps = engine.array(n, dtype=int, device="cpu")
    if tape is None:
        engine.launch(kernel, 1, [arrays[0], steps, arrays[1], y], device="cpu")
    else:
        with tape:
            engine.launch(kernel, 1, [arrays[0], steps, arrays[1], y], device="cpu")
    return y, arrays


@settings(max_examples=15, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck),
          phases=(Phase.explicit, Phase.reuse, Phase.generate), database=None)
@given(program, st.lists(st.floats(-1.0, 1.0, width=32), min_size=6, max_size=6),
       st.lists(st.integers(0, 3), min_size=3, max_size=3))  # fmt: skip
def test_gradients_of_random_programs(lines, values, n):
    kernel, source = build(lines)
    x, w = np.array(values[:3]), np.array(values[3:])
    tape = engine.Tape()
    y, (gx, gw) = run(kernel, x, w, n, tape)
    plain, _ = run(kernel, x, w, n)
    assert y.numpy()[0] == plain.numpy()[0], "the augmented forward pass computes other bits\n" + source
    tape.backward(loss=y)
    found = np.concatenate([gx.grad.numpy(), gw.grad.numpy()])
    for j in range(6):
        e = np.eye(6)[j]
        slopes = []
        for h in (1e-5, 2.5e-6):
            up, down = (run(kernel, x + s * h * e[:3], w + s * h * e[3:], n)[0].numpy()[0] for s in (1, -1))
            slopes.append((up - down) / (2 * h))
        if abs(slopes[0] - slopes[1]) > 1e-4 * (1 + abs(slopes[0])):
            continue  # a kink or a branch lies between
        beside = {s: run(kernel, x + s * e[:3], w + s * e[3:], n)[0].numpy()[0] for s in (1e-6, -1e-6)}
        one_sided = [(value - y.numpy()[0]) / s for s, value in beside.items()]
        if abs(one_sided[0] - one_sided[1]) > 1e-3 * (1 + abs(one_sided[0])):
            continue  # exactly on a kink: any slope between the sides is right
        assert found[j] == pytest.approx(slopes[1], rel=2e-5, abs=2e-6), f"component {j} at {values}, n={n}\n{source}"
