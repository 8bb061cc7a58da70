"""Shapes chosen by the clock, which is a fake: each launch runs once, the faster code stays, later runs know it."""

import numpy as np
import pytest

import engine as k
from engine.compiler.cache import KernelCache
from engine.config import config
from engine.context import timed

N = 1000


@k.kernel(shape="timed")
def add_index(x: k.array(dtype=int)):
    i = k.tid()
    x[i] = x[i] + i


@k.kernel(shape="timed")
def without_index(x: k.array(dtype=int)):
    k.atomic_add(x, 0, 1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(timed, "KernelCache", lambda: KernelCache(tmp_path))
    add_index.forget()


def slower(monkeypatch, shape: str, ns: int = 100_000) -> None:
    """Lets launches of `shape` take ten times as long as the others."""
    now, launches = [0], [0]

    def clock() -> int:
        running, ends = divmod(launches[0], 2)
        launches[0] += 1
        if ends:
            now[0] += ns * (10 if ("lanes", "thread")[running % 2] == shape else 1)
        return now[0]

    monkeypatch.setattr(timed, "perf_counter_ns", clock)


def launched(times: int) -> tuple[object, np.ndarray]:
    x = k.zeros(N, dtype=int, device="cpu")
    for _ in range(times):
        k.launch(add_index, N, [x], device="cpu")
    return add_index.launchers["cpu"].program, x.numpy()


@pytest.mark.parametrize("slow", ["lanes", "thread"])
def test_the_faster_shape_stays(monkeypatch, slow):
    slower(monkeypatch, slow)
    needed = 2 * (timed.WARM_UP + timed.SAMPLES)
    program, x = launched(needed - 1)
    assert program.winner is None
    assert (x == np.arange(N) * (needed - 1)).all()
    program, x = launched(5)
    other = {"lanes": "thread", "thread": "lanes"}[slow]
    assert program.winner is program.programs[other]
    assert (x == np.arange(N) * 5).all()
    said = k.debug.explain(add_index, ())
    assert f"shape {other}" in said and "timed" in said
    add_index.forget()  # as a later run of the program: the answer is known, and nothing is timed
    program, x = launched(2)
    assert type(program) is timed.CpuProgram and (x == np.arange(N) * 2).all()
    assert f"shape {other}" in k.debug.explain(add_index, ())


def test_short_launches_count_late(monkeypatch):
    slower(monkeypatch, "lanes", ns=100)
    program, _ = launched(timed.MANY)
    assert program.winner is None
    program, _ = launched(2 * (timed.WARM_UP + timed.SAMPLES))
    assert program.winner is program.programs["thread"]


def test_recorded_and_counted_launches(monkeypatch):
    slower(monkeypatch, "lanes")
    x, count = k.zeros(N, dtype=int, device="cpu"), k.array([7], dtype=int, device="cpu")
    whole = k.launch(add_index, N, [x], device="cpu", record_cmd=True)
    part = k.launch(add_index, k.indirect(count, N), [x], device="cpu", record_cmd=True)
    for _ in range(20):
        whole.launch()
        part.launch()
    assert (x.numpy() == np.where(np.arange(N) < 7, 40, 20) * np.arange(N)).all()


def test_what_has_one_shape_is_not_timed():
    x = k.zeros(1, dtype=int, device="cpu")
    k.launch(without_index, N, [x], device="cpu")
    assert type(without_index.launchers["cpu"].program) is timed.CpuProgram and x.numpy()[0] == N


def test_as_a_knob():
    @k.kernel
    def doubled(x: k.array(dtype=float)):
        i = k.tid()
        x[i] = 2.0 * x[i]

    with config.scope(shape="timed"):
        x = k.ones(N, dtype=float, device="cpu")
        k.launch(doubled, N, [x], device="cpu")
        assert isinstance(doubled.launchers["cpu"].program, timed.TimedProgram) and (x.numpy() == 2.0).all()


def test_gradients_of_a_timed_kernel():
    @k.kernel(shape="timed")
    def squared(x: k.array(dtype=float), y: k.array(dtype=float)):
        i = k.tid()
        y[i] = x[i] * x[i]

    x, y = (k.full(N, 3.0, dtype=float, device="cpu", requires_grad=True) for _ in range(2))
    with k.Tape() as tape:
        k.launch(squared, N, [x, y], device="cpu")
    tape.backward(grads={y: k.ones(N, dtype=float, device="cpu")})
    assert (x.grad.numpy() == 6.0).all()
