"""Each kind of fault, seeded into a kernel: found with its line; the same kernel without it gives no report."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import engine
from engine.config import config
from engine.context import array, load_ptx
from engine.debug import trace
from engine.errors import DeviceError
from tests.emulator.one_instruction import kernel_text

N, BLOCK = 128, 64
Floats = engine.array(dtype=float)
Ints = engine.array(dtype=int)


def line_of(kernel: engine.Kernel, mark: str = "# here") -> int:
    """The line of this file that a kernel has marked."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(i for i, line in enumerate(lines) if mark in line)


def halving(with_barrier: bool) -> engine.Kernel:
    if with_barrier:

        @engine.kernel
        def sums(x: Floats, out: Floats):
            i = engine.tid()
            t = engine.thread_id()
            part = engine.shared.array(shape=64, dtype=float)
            part[t] = x[i]
            engine.sync_threads()
            if t < 32:
                out[i] = part[t] + part[t + 32]

        return sums

    @engine.kernel
    def hasty_sums(x: Floats, out: Floats):
        i = engine.tid()
        t = engine.thread_id()
        part = engine.shared.array(shape=64, dtype=float)
        part[t] = x[i]  # here
        if t < 32:
            out[i] = part[t] + part[t + 32]  # there

    return hasty_sums


@engine.kernel
def shared_race(x: Floats, out: Floats):
    i = engine.tid()
    last = engine.shared.array(shape=1, dtype=float)
    last[0] = x[i]  # here, there
    engine.sync_threads()
    out[i] = last[0]


@engine.kernel
def global_race(x: Floats, out: Floats):
    i = engine.tid()
    out[i // 2] = x[i]  # here, there


@engine.kernel
def plain_against_atomic(x: Floats, out: Floats):
    i = engine.tid()
    if i == N - 1:
        out[0] = x[i]  # here
    else:
        engine.atomic_add(out, 0, x[i])  # there


@engine.kernel
def one_behind(x: Floats, out: Floats):
    i = engine.tid()
    out[i] = x[i + 1]  # here


@engine.kernel
def one_before(x: Floats, out: Floats):
    i = engine.tid()
    out[i] = x[i - 1]  # here


@engine.kernel
def unwritten_shared(x: Floats, out: Floats):
    i = engine.tid()
    t = engine.thread_id()
    part = engine.shared.array(shape=64, dtype=float)
    if t != 7:
        part[t] = x[i]
    out[i] = part[t]  # here


@engine.kernel
def parted_barrier(x: Floats, out: Floats):
    i = engine.tid()
    t = engine.thread_id()
    if t % 2 == 0:
        engine.sync_threads()  # here
    out[i] = x[i]


@engine.kernel
def correct(x: Floats, out: Floats):
    i = engine.tid()
    out[i] = 2.0 * x[i]


@pytest.mark.parametrize(
    "kernel,check,kind,space",
    [
        (halving(False), "racecheck", "race", "shared"),
        (shared_race, "racecheck", "race", "shared"),
        (global_race, "racecheck", "race", "global"),
        (plain_against_atomic, "racecheck", "plain access against atomic", "global"),
        (one_behind, "memcheck", "out of bounds", "global"),
        (one_before, "memcheck", "out of bounds", "global"),
        (unwritten_shared, "initcheck", "uninitialised read", "shared"),
        (parted_barrier, "synccheck", "divergent barrier", ""),
        (halving(True), "", "", ""),
        (correct, "", "", ""),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_fault_is_found_with_its_line(kernel: engine.Kernel, check: str, kind: str, space: str) -> None:
    with trace() as report:
        x, out = array(np.arange(N), dtype=float, device="emu"), engine.zeros(N, device="emu")
        engine.launch(kernel, N, [x, out], block_dim=BLOCK, device="emu")
    if not check:
        assert not report.findings
        return
    findings = [found for found in report.findings if found.check == check]
    others = {found.check for found in report.findings} - {check}
    assert findings and others <= ({"initcheck"} if kernel.name == "hasty_sums" else set())  # it reads too early, too
    for found in findings:
        assert (found.check, found.kind, found.space) == (check, kind, space) and found.file == __file__
        lines = {line_of(kernel)}
        if check == "racecheck":
            assert {found.line, found.other_line} == lines | {line_of(kernel, "there")}
            assert len(set(found.threads)) == 2
        else:
            assert {found.line} == lines
    if check == "initcheck":
        assert set(findings[0].threads) == {7, BLOCK + 7}
    if kind == "out of bounds":
        assert findings[0].index == (N if kernel is one_behind else -1)


@engine.kernel
def peek(address: engine.uint64, out: Floats):
    i = engine.tid()
    x = engine.array(ptr=address, shape=N, dtype=float)
    out[i] = x[i]  # here


def test_memory_that_was_freed() -> None:
    x, out = engine.ones(N, device="emu"), engine.zeros(N, device="emu")
    address = engine.uint64(x.ptr)
    engine.launch(peek, N, [address, out], device="emu")
    assert (out.numpy() == 1).all()
    del x
    with trace() as report:
        engine.launch(peek, N, [address, out], device="emu")
    (found,) = report.findings
    assert (found.check, found.kind, found.line) == ("memcheck", "use after free", line_of(peek))
    with pytest.raises(DeviceError, match=rf"test_seeded_faults.py:{line_of(peek)}.* allocation .* that was freed"):
        engine.launch(peek, N, [address, out], device="emu")


@pytest.mark.parametrize("offset,findings", [(0, 0), (8, 1)])
def test_a_vector_that_is_not_aligned(offset: int, findings: int) -> None:
    body = f"""ld.param.b64 %d0, [k_param_0]; .loc 1 77 5
        ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d0+{offset}];"""
    with trace() as report:
        x = engine.zeros(N, device="emu")
        load_ptx(kernel_text(body, 1, head='.file 1 "vectors.py"'), device="emu")["k"].launch(1, 1, [x])
    assert len(report.findings) == findings
    for found in report.findings:
        assert (found.check, found.kind, found.file, found.line) == ("memcheck", "misaligned", "vectors.py", 77)


@engine.kernel
def endless(x: Ints):
    i = engine.tid()
    while x[i] < 5:
        x[i] = x[i] * 2  # here


@pytest.mark.parametrize("traced", [False, True])
def test_a_loop_without_an_end(traced: bool) -> None:
    def launch(start: int) -> None:
        engine.launch(endless, 40, [engine.full(40, start, dtype=int, device="emu")], device="emu")

    def runs(work: Callable[[int], Any], start: int) -> None:
        if traced:
            with trace():
                work(start)
        else:
            work(start)

    line = line_of(endless)
    with config.scope(emu_budget=20_000):
        runs(launch, 1)
        with pytest.raises(DeviceError, match=rf"test_seeded_faults.py:({line - 1}|{line}), ran [0-9]+ instructions"):
            runs(launch, 0)
