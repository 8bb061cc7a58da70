"""The debugger: lines, names and their values, conditions, forward and backward."""

import inspect
from typing import Any

import numpy as np
import pytest

import engine
from engine.config import config
from engine.context import array
from engine.debug.stepper import Stepper
from engine.errors import DeviceError, LaunchError
from tests.gpu.test_blocks import block_sums

N = 40


@engine.func
def doubled(v: engine.vec2):
    w = v * 2.0
    return w


@engine.kernel
def walk(x: engine.array(dtype=float), n: int, out: engine.array(dtype=float)):
    i = engine.tid()
    p = engine.vec2(x[i], 1.0)
    total = 0.0
    for k in range(n):
        if k > i:
            total += p[0]
        p = doubled(p)
    odd = i % 2 == 1
    small = engine.uint8(i)
    wide = engine.float64(total)
    if odd and wide > 5.0:
        total += float(small)
    out[i] = total


def line_of(text: str, kernel: Any = walk) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


def stepper(n: int = 3, **options: Any) -> tuple[Stepper, engine.array]:
    x, out = array(np.arange(N), dtype=float, device="emu"), engine.zeros(N, device="emu")
    return engine.debug.step(walk, N, [x, n], [out], **options), out


def by_hand(lane: int, n: int) -> list[tuple[int, float, float]]:
    """(k, p[0], total) at each arrival at the line behind the `if`, as Python computes it."""
    rows, p, total = [], float(lane), 0.0
    for k in range(n):
        if k > lane:
            total += p
        rows.append((k, p, total))
        p *= 2.0
    return rows


def test_names_hold_what_python_would_compute() -> None:
    s, out = stepper()
    s.step()
    assert s.line == line_of("p = engine.vec2") and s.position == 2 and s.active.all() and s.warp == 0
    assert s.source == "p = engine.vec2(x[i], 1.0)" and s.file == __file__ and s.block == (0, 0, 0)
    i = s.variables["i"]
    assert (i == np.arange(32)).all() and (s.threads == np.arange(32)).all()
    assert s.variables["p"].mask.all()  # not yet
    s.breakpoint(line_of("p = doubled"))
    rows = []
    while s.run() and s.warp == 0:
        held = s.variables
        rows.append([(int(held["k"][j]), float(held["p"][j][0]), float(held["total"][j])) for j in range(32)])
    assert rows == [list(row) for row in zip(*(by_hand(j, 3) for j in range(32)), strict=True)]
    s.clear()
    assert not s.run() and s.finished and s.line == 0 and "finished" in repr(s)
    plain = engine.zeros(N)
    engine.launch(walk, N, [array(np.arange(N), dtype=float), 3], [plain], device="cpu")
    assert (out.numpy() == plain.numpy()).all()


def test_types_of_names() -> None:
    s, _ = stepper()
    s.breakpoint(line_of("total += float(small)") - 1)
    assert s.run()
    held = s.variables
    assert held["odd"].dtype == bool and (held["odd"] == np.arange(32) % 2).all()
    assert held["small"].dtype == np.uint8 and (held["small"] == np.arange(32)).all()
    assert held["wide"].dtype == np.float64 and (held["wide"] == held["total"]).all()
    assert held["n"].dtype == np.int32 and (held["n"] == 3).all() and held["p"].shape == (32, 2)
    assert {"i", "p", "%r1"} <= set(s.registers) and s.registers["%r1"].dtype == np.uint32


def test_a_branch_stops_with_its_lanes_alone() -> None:
    s, _ = stepper()
    s.breakpoint(line_of("total += p[0]"))
    seen = []
    while s.run():
        seen.append(np.flatnonzero(s.active).tolist())
    assert seen == [[0], [0, 1]]  # k = 1: lanes below 1; k = 2: below 2


@pytest.mark.parametrize("condition", ["k == 2 and i == 1", lambda names: names.get("k") == 2 and names["i"] == 1])
def test_conditions(condition: Any) -> None:
    s, _ = stepper()
    line = line_of("total += p[0]")
    s.breakpoint(line, condition)
    assert s.run() and s.line == line and s.variables["k"][1] == 2
    assert not s.run()
    s, _ = stepper()
    s.breakpoint(line_of("p = engine"), "thread == 39")
    assert s.run() and s.warp == 1 and s.active.sum() == 8
    s.breakpoint(line_of("out[i]"), "nothing > 3")
    with pytest.raises(NameError, match="nothing"):
        s.run()


def seen_at(s: Stepper, out: engine.array) -> tuple[Any, ...]:
    held = {name: values.filled(0).tolist() for name, values in s.variables.items()}
    return s.position, s.line, s.block, s.warp, s.active.tolist(), held, out.list()


def test_going_back_shows_what_was_seen() -> None:
    s, out = stepper(2)
    seen = [seen_at(s, out)]
    while s.step():
        seen.append(seen_at(s, out))
    assert [row[0] for row in seen] == list(range(1, len(seen) + 1)) and s.position == len(seen)
    for row in reversed(seen):
        assert s.back() and seen_at(s, out) == row
    assert not s.back() and seen_at(s, out) == seen[0]  # there is nothing before
    assert s.step(5) and seen_at(s, out) == seen[5]
    assert s.back(3) and seen_at(s, out) == seen[2]
    s.breakpoint(line_of("out[i]"))
    assert s.run() and s.line == line_of("out[i]") and s.back() and s.run() and s.line == line_of("out[i]")


def test_blocks_with_barriers() -> None:
    x, out = array(np.arange(256), dtype=float, device="emu"), engine.zeros(4, device="emu")
    s = engine.debug.step(block_sums, 256, [x, out], block_dim=64)
    blocks, warps = set(), []
    while True:
        blocks.add(s.block[0])
        warps.append(s.warp)
        if not s.step():
            break
    assert blocks == {0, 1, 2, 3} and np.count_nonzero(np.diff(warps)) >= 4 * 3  # both, before and behind a barrier
    assert (out.numpy() == np.arange(256).reshape(4, 64).sum(axis=1)).all()


@engine.kernel
def beyond(x: engine.array(dtype=float), by: int):
    i = engine.tid()
    j = i + by
    x[j] = 1.0


@engine.func
def mean(a: Any, b: Any):
    half = (a + b) / type(a)(2.0)
    return half


@engine.func
def twice(a: float):
    inner = mean(a, a + 2.0)
    return 2.0 * inner


@engine.kernel
def calls(x: engine.array(dtype=float), out: engine.array(dtype=float)):
    i = engine.tid()
    a = twice(x[i])
    b = mean(engine.float64(a), engine.float64(3.0))
    out[i] = a + float(b)


def test_names_in_functions_have_the_name_of_the_function() -> None:
    x, out = array(np.arange(40), dtype=float, device="emu"), engine.zeros(40, device="emu")
    s = engine.debug.step(calls, 40, [x], [out])
    expected = np.arange(32.0)
    assert "twice.a" not in s.variables or s.variables["twice.a"].mask.all()
    s.breakpoint(line_of("half = ", mean), "twice.a > 30")  # of a function, which is stepped into
    assert s.run() and s.source.startswith("half = ") and s.warp == 0 and s.variables["mean.half"].mask.all()
    assert s.step() and s.source == "inner = mean(a, a + 2.0)" and s.step() and s.source == "return 2.0 * inner"
    s.clear()
    found = s.variables
    assert (found["twice.a"] == expected).all() and (found["twice.inner"] == expected + 1).all()
    assert (found["mean.a"] == expected).all() and (found["mean.half"] == expected + 1).all()
    assert found["b"].mask.all() and found["mean.half:float64"].mask.all()
    s.breakpoint(line_of("out[i]", calls), "twice.inner == 4.0 and mean.half == 4.0")
    assert s.run() and s.warp == 0 and (s.variables["mean.half:float64"] == (2 * expected + 5) / 2).all()
    assert s.variables["a"][3] == 8.0
    s.clear()
    s.breakpoint(line_of("out[i]", calls), "twice.outer == 4.0")
    with pytest.raises(AttributeError, match="outer"):
        s.run()
    s.clear()
    s.breakpoint(line_of("a = twice", calls), "twice.a > 0")  # has no value in the second warp yet
    assert not s.run() and s.finished
    assert np.allclose(out.numpy(), 3 * (np.arange(40.0) + 1) + 1.5)


def test_what_goes_wrong() -> None:
    x = engine.zeros(N, device="emu")
    s = engine.debug.step(beyond, N, [x, 1])
    s.breakpoint(line_of("x[j]", beyond), "j == 40")
    assert s.run() and s.variables["j"].max() == 40
    where = rf"{line_of('x[j]', beyond)}, thread \(39, 0, 0\)"
    with pytest.raises(DeviceError, match=f"CUDA_ERROR_ILLEGAL_ADDRESS.*:{where}"):
        s.run()
    assert s.finished and s.back() and s.line == line_of("x[j]", beyond)
    first = line_of("j =", beyond) - 1
    with pytest.raises(ValueError, match=f"line 1 of beyond has no code; lines that have: {first}, "):
        s.breakpoint(1)
    with pytest.raises(ValueError, match="a number of steps is at least 1, got 0"):
        s.step(0)
    with pytest.raises(ValueError, match="a number of steps is at least 1, got -1"):
        s.back(-1)
    with pytest.raises(ValueError, match="device 'cpu' cannot be looked into"):
        engine.debug.step(beyond, N, [engine.zeros(N), 1], device="cpu")
    with pytest.raises(ValueError, match="has no threads"):
        engine.debug.step(beyond, 0, [x, 1])
    with pytest.raises(LaunchError):
        engine.debug.step(beyond, N, [x])
    with config.scope(emu_budget=100), pytest.raises(DeviceError, match="without an end"):
        engine.debug.step(walk, N, [x, 1 << 20, engine.zeros(N, device="emu")]).run()


def test_other_launches_go_on_between_steps() -> None:
    s, out = stepper()
    s.step(4)
    other = engine.zeros(N, device="emu")
    engine.launch(walk, N, [array(np.arange(N), dtype=float, device="emu"), 3, other], device="emu")
    s.run()
    assert s.finished and (out.numpy() == other.numpy()).all() and other.numpy().any()


def test_code_without_a_debugger_is_as_before() -> None:
    stepper()
    assert "observe" not in walk.code
    observed = engine.Kernel(walk.fn, options={"observe": True}).code
    assert "// weft.observe total float32 %r" in observed and "asm" in observed
