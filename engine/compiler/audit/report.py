"""What the audit found out about one kernel: obligations proved, refuted or open, contracts, assumptions, costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.audit import terms
from engine.compiler.audit.cost import architectures, registers
from engine.compiler.audit.execute import OBLIGATIONS, Executor, Obligation
from engine.compiler.audit.lint import unused
from engine.compiler.audit.needs import requirement
from engine.compiler.audit.races import OTHER, races
from engine.compiler.audit.solver import Answer, Solver, z3_or_none
from engine.compiler.audit.terms import Affine, Atom, Condition, atoms_of, negated
from engine.compiler.guard import guard
from engine.compiler.kernel import Kernel
from engine.compiler.types import Type
from engine.config import config


@dataclass
class Finding:
    """An obligation that was not proved. `needs` is what would have to hold there, in the terms of the launch."""

    check: str  # "bounds", "division", "overflow", "assert", "race"
    file: str
    line: int
    what: str
    needs: str = ""
    counterexample: dict[str, Any] = field(default_factory=dict)
    other_line: int = 0
    inner: int = 0  # the line in the function that was called
    certain: bool = False  # whether the counterexample holds for certain; else a run has to confirm it
    confirmed: str = ""  # the error of a run of the counterexample
    always: Condition | None = None  # what every thread needs there

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON; what does not apply is left out."""
        hidden = ("certain", "inner", "always")
        rows = {k: v for k, v in self.__dict__.items() if k not in hidden and v not in ("", 0, {})}
        return {"line": self.line, "what": self.what, "counterexample": self.counterexample, **rows}


@dataclass
class KernelAudit:
    """The audit of one kernel."""

    kernel: str
    file: str
    line: int
    proved: int = 0
    proved_linear: int = 0
    unproved: list[Finding] = field(default_factory=list)
    refuted: list[Finding] = field(default_factory=list)
    contracts: list[dict[str, Any]] = field(default_factory=list)
    requires: str = ""  # the contract that would settle what is open in front of all branches
    assumptions: list[str] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    registers: dict[str, Any] = field(default_factory=dict)
    architectures: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        rows = dict(self.__dict__)
        rows["unproved"] = [f.as_dict() for f in self.unproved]
        rows["refuted"] = [f.as_dict() for f in self.refuted]
        return rows


def audit_kernel(kernel: Kernel, types: Sequence[Type], wide: bool = False, costs: bool = True) -> KernelAudit:
    """The audit of a kernel for these argument types; nothing is run.

    `wide` lifts the bound of 2³⁰ on extents and launch dimensions; `costs` asks for the layers of the GPU, too. Raises
    CompileError for a kernel that does not compile.
    """
    with config.scope(checked=True):  # asserts are kept
        hir = kernel.lower(tuple(types))
    run = Executor(guard(hir, True, False), wide)
    audit = KernelAudit(kernel.name, hir.file, hir.line, assumptions=_assumptions(run))
    audit.warnings = unused(kernel, hir)
    solver = Solver()
    for obligation in run.obligations:
        _judge(audit, run, solver, obligation)
    open_ = [f.always for f in (*audit.refuted, *audit.unproved) if f.always is not None]
    audit.requires = requirement(open_, {str(p.attrs["name"]): p.type for p in hir.params}, run.ndim)
    if len(run.obligations) >= OBLIGATIONS:
        audit.unproved.append(Finding("bounds", hir.file, hir.line, f"checks beyond the first {OBLIGATIONS}"))
    _judge_races(audit, run, solver)
    if costs:
        audit.registers = registers(kernel, tuple(types))
        audit.architectures = architectures(kernel, tuple(types))
    return audit


def _assumptions(run: Executor) -> list[str]:
    found = [f"extents and launch dimensions are at most {run.largest}",
             "arrays of different names are different memory",
             "the launch has as many dimensions as tid() is asked for"]  # fmt: skip
    if not run.threads:
        found.append("the kernel does not ask for tid(): it is launched with one thread")
    if run.together:
        found.append(f"threads of a block work together ({run.together}): races in shared memory are not audited")
    if z3_or_none() is None:
        found.append("z3 is not installed (extra `audit`): what linear elimination cannot prove stays open")
    return found


def _judge(audit: KernelAudit, run: Executor, solver: Solver, obligation: Obligation) -> None:
    empty = False  # whether a contract holds for no launch
    if obligation.check == "assert":
        condition = negated(obligation.path[-1]) if obligation.path else terms.FALSE
        empty = solver.ask((*obligation.path[:-1], condition)).verdict == "no"
    if obligation.assumed and not empty:
        _contract(audit, obligation, "assumed")
        return
    answer = solver.ask(obligation.path)
    if obligation.check == "assert":
        if not empty:
            _contract(audit, obligation, "proved" if answer.verdict == "no" else "assumed")
            return
        if answer.verdict == "no":  # the place is never reached
            return
    if answer.verdict == "no":
        _proved(audit, answer)
        return
    finding = Finding(obligation.check, obligation.file, obligation.line, obligation.what,
                      describe(obligation.needs) if obligation.path else "",
                      inner=obligation.inner)  # fmt: skip
    if obligation.always:
        finding.always = obligation.needs
    _place(audit, solver, finding, answer, obligation.path)


def _contract(audit: KernelAudit, obligation: Obligation, status: str) -> None:
    row = {"line": obligation.line, "contract": obligation.facts, "status": status}
    if row not in audit.contracts:
        audit.contracts.append(row)


def _judge_races(audit: KernelAudit, run: Executor, solver: Solver) -> None:
    if not run.threads:
        return
    for race in races(run):
        answer = solver.ask(race.conditions) if race.conditions else Answer("unknown")
        if answer.verdict == "no":
            _proved(audit, answer)
            continue
        finding = Finding("race", race.file, race.line, race.what, other_line=race.other_line)
        _place(audit, solver, finding, answer, race.conditions, certain=not run.together)


def _proved(audit: KernelAudit, answer: Answer) -> None:
    audit.proved += 1
    audit.proved_linear += answer.by == "linear"


def _place(
    audit: KernelAudit, solver: Solver, finding: Finding, answer: Answer, path: tuple[Condition, ...],
    certain: bool = True,
) -> None:  # fmt: skip
    """Files a finding as refuted or open. Each line is named once for each thing that is wrong there."""
    known = {(f.check, f.line, f.what, f.other_line): f for f in (*audit.refuted, *audit.unproved)}
    key = finding.check, finding.line, finding.what, finding.other_line
    if certain and answer.verdict == "yes":
        kinds = {atom.kind for atom in atoms_of(tuple(solver.relevant(path)))}
        finding.certain = not kinds & {"unknown", "load"}
    if answer.verdict == "yes":
        finding.counterexample = counterexample(answer.model)
    old = known.get(key)
    if old is not None and (old.certain or not finding.certain):
        return
    if old is not None:
        audit.unproved.remove(old)
    (audit.refuted if finding.certain else audit.unproved).append(finding)


def counterexample(model: dict[Atom, int]) -> dict[str, Any]:
    """A launch from a model: thread, launch dimensions, extents, arguments, and array elements that matter."""
    found: dict[str, Any] = {}

    def note(group: str, name: str, value: Any) -> None:
        found.setdefault(group, {})[name] = value

    for atom, value in model.items():
        if atom.kind == "dim":
            note("launch", atom.args[0], value)
        elif atom.kind == "thread":
            note("other_thread" if atom.args[-1] == OTHER else "thread", atom.args[0], value)
        elif atom.kind == "extent":
            note("shapes", _extent(atom), value)
        elif atom.kind == "argument":
            note("arguments", atom.args[0], value)
        elif atom.kind == "load":
            at = [terms.evaluate(index, lambda a: model.get(a, 0)) for index in atom.args[1]]
            parts = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in atom.args[2])
            note("values", f"{atom.args[0]}[{', '.join(map(str, at))}]{parts}", value)
        elif atom.kind == "unknown" and atom.hi > 1:
            note("unknown", str(atom.args[0]), value)
    return found


def _extent(atom: Atom) -> str:
    name, dim = atom.args
    return f"{name}.shape[{dim}]" if isinstance(dim, int) else f"{name}.{dim}"


def describe(condition: Condition) -> str:
    """A condition in the terms of the launch."""
    match condition[0]:
        case "le":
            a = condition[1]
            left = Affine(tuple(p for p in a.parts if p[1] > 0), max(a.const, 0))
            right = Affine(tuple((x, -c) for x, c in a.parts if c < 0), max(-a.const, 0))
            return f"{_sum(left)} <= {_sum(right)}"
        case "is":
            return ("" if condition[2] else "not ") + _name(condition[1])
    word = " and " if condition[0] == "and" else " or "
    return word.join(f"({describe(c)})" if c[0] in ("and", "or") else describe(c) for c in condition[1:])


def _sum(a: Affine) -> str:
    shown = [_name(x) if c == 1 else f"{c}*{_name(x)}" for x, c in a.parts]
    return " + ".join([*shown, str(a.const)] if a.const or not shown else shown)


_SIGNS = {"mul": "*", "floordiv": "//", "div": "/", "mod": "%"}


def _name(atom: Atom) -> str:
    if atom.kind == "extent":
        return _extent(atom)
    if atom.kind == "load":
        return f"{atom.args[0]}[{', '.join(map(_sum, atom.args[1]))}]"
    if atom.kind in _SIGNS:
        return f"({_sum(atom.args[0])}) {_SIGNS[atom.kind]} ({_sum(atom.args[1])})"
    if atom.kind in ("min", "max"):
        return f"{atom.kind}({_sum(atom.args[0])}, {_sum(atom.args[1])})"
    if atom.kind == "wrap":
        return f"({_sum(atom.args[0])})"
    return f"({atom.args[0]})" if atom.kind == "unknown" else str(atom.args[0]) if atom.kind != "choice" else "(…)"
