"""Seeded faults are found with their lines and threads; correct kernels give no report."""
# ruff: noqa: E501 (several instructions in a line keep PTX readable)

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.cli import main
from engine.context import array, load_ptx, zeros
from engine.debug import trace
from engine.errors import ConfigError
from tests.emulator.one_instruction import kernel_text

N, M = 100, 320


def line_of(kernel: engine.Kernel, text: str) -> int:
    """The line of this file where a kernel has some text."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


@engine.kernel
def shifted(x: engine.array(dtype=engine.vec3), by: int):
    i = engine.tid()
    x[i + by] = engine.vec3(1.0)


@engine.kernel
def neighbours(x: engine.array(dtype=float)):
    i = engine.tid()
    if i + 1 < x.shape[0]:
        left = x[i + 1]
        x[i] = left * 2.0


@engine.kernel
def same_place(x: engine.array(dtype=float), out: engine.array(dtype=float)):
    i = engine.tid()
    out[0] = x[i]


@engine.kernel
def mixed(x: engine.array(dtype=int), out: engine.array(dtype=int)):
    i = engine.tid()
    engine.atomic_add(x, 0, 1)
    out[i] = x[0]


@engine.kernel
def sums(x: engine.array(dtype=float), out: engine.array(dtype=float), count: engine.array(dtype=int)):
    i = engine.tid()
    total = 0.0
    for j in range(i + 1):
        total += x[j]
    out[i] = total
    engine.atomic_add(count, 0, 1)


@pytest.mark.parametrize("by,index", [(1, N), (-1, -1)])
def test_out_of_bounds_by_one_element(by: int, index: int) -> None:
    with trace() as report:
        x = zeros(N, dtype=engine.vec3, device="emu")
        engine.launch(shifted, N, [x, by], device="emu")
    (found,) = report.findings
    assert (found.check, found.kind, found.space, found.kernel) == (
        "memcheck",
        "out of bounds",
        "global",
        "shifted_kernel",
    )
    assert found.file == __file__ and found.line == line_of(shifted, "x[i + by]")
    assert (found.array, found.index) == ("x", index) and found.threads == (N - 1 if by > 0 else 0,)
    rows = x.numpy()[: N - 1] if by < 0 else x.numpy()[1:]
    assert (rows == 1).all()  # the other threads, of all warps, did their work


def test_reads_of_memory_that_nobody_wrote() -> None:
    with trace(["init"]) as report:
        x, out = engine.empty(N, device="emu"), zeros(N, device="emu")
        x[: N // 2].fill_(1.0)
        engine.launch(same_place, N // 2, [x, out], device="emu")
        assert not report.findings
        engine.launch(same_place, N, [x, out], device="emu")
    (found,) = report.findings
    assert (found.check, found.array, found.index) == ("initcheck", "x", N // 2) and found.line == line_of(
        same_place, "x[i]"
    )
    assert found.threads[0] == N // 2


def test_what_a_kernel_wrote_is_initialised() -> None:
    with trace(["init"]) as report:
        x, out = engine.empty(N, device="emu"), engine.empty(N, device="emu")
        engine.launch(shifted, N, [engine.empty(N, dtype=engine.vec3, device="emu"), 0], device="emu")
        x.assign(np.ones(N, np.float32))
        engine.launch(sums, N, [x, out, zeros(1, dtype=int, device="emu")], device="emu")
        engine.launch(sums, N, [out, x, zeros(1, dtype=int, device="emu")], device="emu")
    assert not report.findings


@pytest.mark.parametrize("kernel,kind,line,other", [
    (neighbours, "race", "x[i] =", "left = x"), (same_place, "race", "out[0]", "out[0]"), (mixed, "plain access against atomic", "atomic_add", "out[i]"),
])  # fmt: skip
def test_races(kernel: engine.Kernel, kind: str, line: str, other: str) -> None:
    with trace(["race"]) as report:
        kinds = int if kernel is mixed else float
        args = [zeros(N, dtype=kinds, device="emu") for _ in kernel.params]
        engine.launch(kernel, N, args, device="emu")
    assert report.findings
    for found in report.findings:
        assert (found.check, found.kind) == ("racecheck", kind) and len(set(found.threads)) == 2
        assert {found.line, found.other_line} == {line_of(kernel, line), line_of(kernel, other)}


def test_correct_kernels_give_no_report() -> None:
    with trace() as report:
        x, out, count = (
            array(np.ones(M), dtype=float, device="emu"),
            zeros(M, device="emu"),
            zeros(1, dtype=int, device="emu"),
        )
        engine.launch(sums, M, [x, out, count], device="emu")
        total = engine.utils.array_sum(out)
        keys = array(list(range(40, 0, -1)) * 2, device="emu")
        engine.utils.radix_sort_pairs(keys, array(list(range(80)), device="emu"), 40)
    assert not report.findings, report.findings
    assert count[0] == M and total > 0 and keys.list()[:3] == [1, 2, 3]
    (row,) = [row for row in report.kernels if row["kernel"] == "sums_kernel"]
    assert row["launches"] == 1 and 0.4 < row["efficiency"] < 1
    stores = [m for m in report.metrics if m["line"] == line_of(sums, "out[i]") and m["what"] == "store global"]
    assert stores and stores[0]["per_request"] == 4  # 32 neighbours of 4 bytes, from a border of 256 on


def launched(body: str, threads: int = 64, checks: tuple[str, ...] = ("mem", "init", "race", "sync")) -> list:
    with trace(checks) as report:
        out = zeros(threads, dtype=int, device="emu")
        load_ptx(kernel_text(f".shared .align 4 .b8 room[{4 * threads}]; ld.param.b64 %d0, [k_param_0]; mul.wide.u32 %d1, %r0, 4; "
                             f"mov.b64 %d2, room; add.s64 %d3, %d2, %d1; add.s64 %d4, %d0, %d1; {body}", 1), device="emu")["k"].launch(2, threads, [out])  # fmt: skip
    return [(f.check, f.kind, f.space) for f in report.findings if f.space != "global"]


ROTATE = "add.s32 %r1, %r0, 1; rem.u32 %r1, %r1, 64; mul.wide.u32 %d5, %r1, 4; add.s64 %d5, %d2, %d5;"


def test_shared_memory_without_a_barrier_and_with_one() -> None:
    body = "st.shared.b32 [%d3], %r0; BARRIER ROTATE ld.shared.b32 %r2, [%d5];".replace("ROTATE", ROTATE)
    assert launched(body.replace("BARRIER", "bar.sync 0;")) == []
    assert ("racecheck", "race", "shared") in launched(body.replace("BARRIER", ""))
    loop = "mov.b32 %r9, 0; again: st.shared.b32 [%d3], %r9; bar.sync 0; ROTATE ld.shared.b32 %r2, [%d5]; BARRIER add.s32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra again;"
    loop = loop.replace("ROTATE", ROTATE)
    assert launched(loop.replace("BARRIER", "bar.sync 0;")) == []
    assert ("racecheck", "race", "shared") in launched(
        loop.replace("BARRIER", "")
    )  # the second barrier of the loop is missing


def test_shared_memory_that_nobody_wrote_and_bounds() -> None:
    assert launched("ld.shared.b32 %r2, [%d3];") == [("initcheck", "uninitialised read", "shared")]
    assert launched("st.shared.b32 [%d3+4], %r0;", checks=("mem",)) == [("memcheck", "out of bounds", "shared")]
    assert launched("st.shared.b32 [%d3+2], %r0;", checks=("mem",))[0][1] in ("misaligned", "out of bounds")


def test_divergent_barriers() -> None:
    body = (
        "setp.lt.u32 %p1, %r0, 16; @%p1 bra other; bar.sync 0; bra.uni join; other: bar.sync 0; join: mov.b32 %r3, 0;"
    )
    assert ("synccheck", "divergent barrier", "") in launched(body)
    assert (
        launched("bar.sync 0;") == []
        and launched("setp.lt.u32 %p1, %r0, 32; @%p1 bra join; mov.b32 %r3, 0; join: bar.sync 0;") == []
    )


def test_checks_have_names() -> None:
    with pytest.raises(ConfigError, match="expected some of mem, init, race, sync, got frob"):
        trace(["frob"])


SCRIPT = """import engine
@engine.kernel
def fill(x: engine.array(dtype=float), extra: int):
    i = engine.tid()
    x[i + extra] = 1.0
x = engine.zeros(10)
engine.launch(fill, 10, [x, EXTRA])
print("the script's own words", x.device.name)
"""


@pytest.mark.parametrize("extra,code", [(0, 0), (1, 1)])
def test_the_command(extra: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, out = tmp_path / "script.py", tmp_path / "report.json"
    script.write_text(SCRIPT.replace("EXTRA", str(extra)))
    with pytest.raises(SystemExit) as end:
        main(["trace", str(script), "--json", "--out", str(out)])
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert end.value.code == code and report == json.loads(out.read_text()) and "own words emu" in shown.err
    assert set(report) == {"findings", "metrics", "kernels"} and len(report["findings"]) == extra
    if extra:
        found = report["findings"][0]
        assert (found["check"], found["line"], found["array"], found["index"], found["threads"]) == (
            "memcheck",
            5,
            "x",
            10,
            [9],
        )
    with pytest.raises(SystemExit):
        main(["trace", str(script), "--check", "mem"])
    assert f"{extra} findings in 1 kernels" in capsys.readouterr().out
    assert engine.get_device().name == "cpu"


def test_the_command_with_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('no')")
    for arguments, message in ((["nothing.py"], "there is no script 'nothing.py'"), ([str(broken)], "ended with ValueError: no"),
                               ([str(broken), "--check", "frob"], "expected some of mem, init, race, sync")):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            main(["trace", *arguments])
        shown = capsys.readouterr()
        assert end.value.code == 2 and message in shown.err and "Traceback" not in shown.err
