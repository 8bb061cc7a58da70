"""The audit: what is right is proved, what is wrong is refuted at its line, and runs confirm the counterexamples."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

import engine
from engine.compiler.audit import linear, terms
from engine.compiler.audit.terms import Atoms, number, of
from engine.debug import audit
from engine.debug.audit_module import replay
from engine.errors import AssertError
from tests.audit import kernels as right

SOURCE = Path(right.__file__)
RIGHT = [value for value in vars(right).values() if isinstance(value, engine.Kernel)]


def line_of(mark: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


@pytest.mark.parametrize("kernel", RIGHT, ids=lambda k: k.name)
def test_right_kernels_have_no_findings(kernel):
    found = audit(kernel)
    assert not found.refuted and not found.unproved, found.as_dict()
    assert found.proved >= 2 and not found.warnings


def without_guards(source: str) -> str:
    """The source with the guards made true, those that leave made false; lines stay where they are."""
    lines = source.splitlines()
    for k, line in enumerate(lines):
        if line.endswith("# guard"):
            leaves = lines[k + 1].strip() == "return"
            lines[k] = re.sub(r"if .*:", f"if {not leaves}:", line)
    return "\n".join(lines) + "\n"


def test_without_its_guard_each_kernel_fails_as_the_counterexample_says(tmp_path):
    """Ten of ten, and runs in checked mode fail at the same lines, on the cpu and on the emulated GPU."""
    path = tmp_path / "unguarded.py"
    path.write_text(without_guards(SOURCE.read_text()))
    kernels = [k for k in runpy.run_path(str(path), run_name="unguarded").values() if isinstance(k, engine.Kernel)]
    assert len(kernels) == len(RIGHT) == 10
    for kernel in kernels:
        bounds = [f for f in audit(kernel).refuted if f.check in ("bounds", "division") and f.confirmed]
        assert bounds, kernel.name
        assert replay(kernel, [t for _, t in kernel.params], bounds[0], "emu") == bounds[0].confirmed


@engine.kernel
def off_by_one(x: engine.array(dtype=float)):
    i = engine.tid()
    if i <= x.shape[0]:
        x[i] = 1.0  # off by one


@engine.kernel
def negative(x: engine.array(dtype=float)):
    i = engine.tid()
    if i < x.shape[0]:
        engine.atomic_add(x, i - 1, 1.0)  # negative


@engine.kernel
def divides(x: engine.array(dtype=int), n: int):
    i = engine.tid()
    if i < x.shape[0]:
        x[i] = i // n  # divides


@engine.kernel
def remainder(x: engine.array(dtype=int), n: int):
    i = engine.tid()
    if i < x.shape[0] and n >= 0:
        x[i] = i % n  # remainder


@engine.kernel
def beyond(x: engine.array(dtype=float), out: engine.array(dtype=float)):
    i = engine.tid()
    if i < out.shape[0]:
        for j in range(x.shape[0]):
            out[i] += x[j + 1]  # beyond


@pytest.mark.parametrize(("kernel", "check", "mark"), [
    (off_by_one, "bounds", "off by one"), (negative, "bounds", "negative"), (divides, "division", "divides"),
    (remainder, "division", "remainder"), (beyond, "bounds", "beyond"),
])  # fmt: skip
def test_seeded_faults_are_refuted_and_confirmed(kernel, check, mark):
    found = audit(kernel)
    assert [(f.check, f.line) for f in found.refuted] == [(check, line_of(mark))]
    assert found.refuted[0].confirmed and found.refuted[0].counterexample["thread"]
    assert not found.unproved


@engine.kernel
def one_place(x: engine.array(dtype=float)):
    i = engine.tid()
    if i < x.shape[0]:
        x[0] = float(i)  # one place


@engine.kernel
def neighbour(x: engine.array(dtype=float)):
    i = engine.tid()
    if i + 1 < x.shape[0]:
        x[i] = x[i + 1]  # neighbour


@engine.kernel
def halves(x: engine.array(dtype=float)):
    i = engine.tid()
    if i < x.shape[0]:
        x[i // 2] = 1.0  # halves


@pytest.mark.parametrize(("kernel", "mark"), [(one_place, "one place"), (neighbour, "neighbour"), (halves, "halves")])
def test_races_are_refuted(kernel, mark):
    found = audit(kernel)
    assert {(f.check, f.line) for f in found.refuted} == {("race", line_of(mark))}
    case = found.refuted[0].counterexample
    assert case["thread"] != case["other_thread"]


@engine.kernel
def parts(x: engine.array(dtype=engine.vec3)):
    i = engine.tid()
    if i < x.shape[0]:
        x[i][0] = 1.0
        x[i][1] = 2.0


@engine.kernel
def pairs(x: engine.array(dtype=int)):
    i = engine.tid()
    if i < x.shape[0] // 2:
        x[2 * i] = 1
        x[2 * i + 1] = 2


@pytest.mark.parametrize("kernel", [parts, pairs], ids=lambda k: k.name)
def test_places_that_differ_do_not_race(kernel):
    found = audit(kernel)
    assert not found.refuted and not found.unproved, found.as_dict()


@engine.requires(lambda tid, index, out: tid < out.shape[0] and tid < index.shape[0])  # required
@engine.kernel
def gather(x: engine.array(dtype=float), index: engine.array(dtype=int), out: engine.array(dtype=float)):
    i = engine.tid()
    assert index[i] >= 0
    engine.assume(index[i] < x.shape[0])  # assumed
    out[i] = x[index[i]]


@engine.func
@engine.requires(lambda i, x: i >= 0 and i < x.shape[0])
def element(x: engine.array(dtype=float), i: int):
    return x[i]


@engine.kernel
def calls(x: engine.array(dtype=float), index: engine.array(dtype=int)):
    i = engine.tid()
    if i < index.shape[0]:
        index[i] = int(element(x, index[i]))  # calls


@engine.requires(lambda n: n > 4, lambda n: n < 3)
@engine.kernel
def contradictory(x: engine.array(dtype=float), n: int):
    x[n] = 1.0


@engine.kernel
def assumes_too_much(x: engine.array(dtype=float)):
    i = engine.tid()
    if i > 5:
        engine.assume(i < 4)  # too much
        x[i] = 1.0


@engine.kernel
def gather_blindly(x: engine.array(dtype=float), index: engine.array(dtype=int), out: engine.array(dtype=float)):
    i = engine.tid()
    if i < out.shape[0] and i < index.shape[0]:
        out[i] = x[index[i]]  # gather


@engine.kernel
def impossible(x: engine.array(dtype=float)):
    i = engine.tid()
    assert i < 0  # impossible
    x[i] = 1.0


def test_contracts_are_assumed_listed_and_named_where_they_lack():
    found = audit(gather)
    assert not found.refuted and not found.unproved
    assert [c["status"] for c in found.contracts] == ["assumed"] * 3
    assert {c["line"] for c in found.contracts} >= {line_of("required"), line_of("assumed")}
    called = audit(calls)
    assert not called.refuted and not called.unproved and len(called.contracts) == 1
    open_ = audit(gather_blindly)
    assert not open_.refuted and [f.line for f in open_.unproved] == [line_of("gather")]
    assert "index[thread[0]]" in open_.unproved[0].needs
    assert open_.unproved[0].confirmed, "the counterexample says what the index array must hold"


def test_a_contract_that_excludes_every_launch_is_a_finding():
    found = audit(impossible)
    assert [(f.check, f.line) for f in found.refuted] == [("assert", line_of("impossible"))]
    assert [f.check for f in audit(contradictory).refuted] == ["assert"]
    assert [(f.check, f.line) for f in audit(assumes_too_much).refuted] == [("assert", line_of("too much"))]


def test_contracts_are_checked_in_checked_mode_only(device):
    def run(*index):
        x, out = engine.zeros(4, device=device), engine.zeros(3, device=device)
        engine.launch(gather, dim=len(index), inputs=[x, engine.array(index, dtype=int, device=device), out])

    with engine.config.scope(device=device):
        run(3, 2, 1)
        with engine.config.scope(checked=True):
            run(3, 2, 1)
            with pytest.raises(AssertError) as required:
                run(0, 0, 0, 0)
            with pytest.raises(AssertError) as assumed:
                run(0, 1, 4)
            with pytest.raises(AssertError, match=r"requires i >= 0 and i < x\.shape\[0\]"):
                engine.launch(calls, dim=1, inputs=[engine.zeros(2), engine.array([7], dtype=int)])
    for seen, mark, thread, text in ((required, "required", 3, "requires tid < out.shape[0]"),
                                     (assumed, "assumed", 2, "assume(index[i] < x.shape[0])")):  # fmt: skip
        assert (seen.value.kernel, seen.value.lineno, seen.value.thread) == ("gather", line_of(mark), (thread,))
        assert text in str(seen.value)


def test_contracts_leave_no_code_outside_of_checked_mode():
    def plain(x: engine.array(dtype=float), n: int):
        x[engine.tid()] = 1.0

    def contracted(x: engine.array(dtype=float), n: int):
        engine.assume(n > 3)
        x[engine.tid()] = 1.0

    def body(kernel):
        return kernel.stages["mir"].split("\n")[1:]

    assert body(engine.kernel(engine.requires(lambda n: n > 0)(contracted))) == body(engine.kernel(plain))


def test_assume_in_python():
    engine.assume(True)
    with pytest.raises(AssertionError, match="because"):
        engine.assume(False, "because")


@engine.kernel
def triples(x: engine.array(dtype=float), n: int):
    i = engine.tid()
    if i < n and 3 * i + 2 < x.shape[0]:
        x[3 * i + 2] = 1.0  # triples


def test_index_arithmetic_may_overflow():
    """3 · 2³⁰ + 2 wraps to a negative number, which passes the guard."""
    found = audit(triples)
    assert {f.check for f in found.refuted} >= {"bounds"}


def test_unused_arguments_and_dead_stores_are_warnings():
    @engine.kernel
    def idle(x: engine.array(dtype=float), y: float, _z: float):
        i = engine.tid()
        if i < x.shape[0]:
            unused = i + 1  # noqa: F841
            x[i] = 0.0

    assert [w["what"] for w in audit(idle).warnings] == [
        "argument 'y' is never used", "'unused' is assigned and never read"]  # fmt: skip


def test_costs_and_architectures():
    found = audit(right.saxpy)
    assert 8 <= found.registers["registers"] <= 40 and 0 < found.registers["occupancy"] <= 1
    assert found.registers["instructions"]["ld.global"] >= 2
    assert {a["arch"] for a in found.architectures if a["runs"]} >= {"sm_75", "sm_120"}


def test_wide_lifts_the_bound():
    assert "2147483647" in audit(right.saxpy, wide=True).assumptions[0]


def test_the_command(tmp_path, capsys):
    from engine.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["audit", *arguments])
        return ended.value.code, capsys.readouterr().out

    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text('import engine as wp\nprint("hello")\n@wp.kernel\ndef k(x: wp.array(dtype=float)):\n'
                    "    i = wp.tid()\n"
                    "    if i < x.shape[0]:\n        x[i] = 1.0\n")  # fmt: skip
    bad.write_text(good.read_text().replace("i < x.shape[0]", "True"))
    code, out = run(str(good), "--json")
    assert code == 0 and json.loads(out)["kernels"][0]["refuted"] == []
    code, out = run(str(bad), "--json")
    row = json.loads(out)["kernels"][0]
    assert code == 1 and row["refuted"][0]["line"] == 7 and row["refuted"][0]["counterexample"]["thread"]
    assert set(row) >= {"kernel", "proved", "unproved", "refuted", "contracts", "assumptions", "registers"}
    assert run(str(bad))[0] == 1
    assert run(str(tmp_path / "none.py"))[0] == 2
    bad.write_text("import engine\n1 / 0\n")
    assert run(str(bad))[0] == 2


def test_linear_elimination_is_sound_and_finds_integer_gaps():
    """Against all points of a small box."""
    import itertools
    import random

    rng = random.Random(5)
    proved = 0
    for _ in range(300):
        atoms = Atoms()
        xs = [of(atoms.make("argument", (name,), (-3, 3), False)) for name in "xyz"]
        rows = []
        for _ in range(rng.randint(2, 5)):
            total = number(rng.randint(-6, 6))
            for x in xs:
                total += x.times(rng.randint(-3, 3))
            rows.append(terms.condition("le", total))
        one_of = terms.condition("or", *rows[:2])
        no = linear.contradictory([one_of, *rows[2:]])
        points = itertools.product(range(-3, 4), repeat=3)
        exists = any(
            any(_holds(r, p, xs) for r in rows[:2]) and all(_holds(r, p, xs) for r in rows[2:]) for p in points
        )
        assert not (no and exists)
        proved += no
    assert proved > 10
    x = of(Atoms().make("argument", ("x",), (-100, 100), False))
    assert linear.contradictory([terms.equal(x.times(2), number(1))])


def _holds(condition, point, xs):
    values = {x.parts[0][0]: v for x, v in zip(xs, point, strict=True)}
    return terms.evaluate(condition[1], values.__getitem__) <= 0


def test_all_control_ops_are_known_to_the_executor():
    from engine.compiler.audit.execute import Executor
    from engine.compiler.ops import EFFECTS

    missing = [n for n in EFFECTS if not hasattr(Executor, f"do_{n}") and not hasattr(Executor, f"get_{n}")]
    assert not set(missing) - {"local_store", "prefetch", "print", "shuffle", "vote"}, missing


def test_the_examples_of_the_page_run(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    blocks[2] = f"import engine\n{blocks[2]}"
    for number_, block in enumerate(blocks):
        path = tmp_path / f"page{number_}.py"
        path.write_text(block)
        exec(compile(block, str(path), "exec"), {"__name__": f"page{number_}"})
    out = capsys.readouterr().out
    assert "index 0 of x out of bounds" in out and "is outside 'x'" in out
