"""The audit of kernels and modules: counterexamples are tried on the cpu, reports are made for people and programs."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from engine.compiler import types as kinds
from engine.compiler.audit.report import Finding, KernelAudit, audit_kernel
from engine.compiler.kernel import Kernel
from engine.compiler.modules import MODULES
from engine.config import config
from engine.context.array_make import zeros
from engine.context.launch import launch
from engine.errors import CheckError, CompileError, DivisionWarning, Error

LARGEST_RUN = 2_000_000  # threads of a launch and elements of an array that a counterexample may take
SPARE = 64  # extent of what the counterexample says nothing about


def audit(kernel: Kernel, wide: bool = False, types: Sequence[Any] | None = None, confirm: bool = True) -> KernelAudit:
    """See `engine.debug.audit`."""
    given = [t for _, t in kernel.params] if types is None else [kinds.of_annotation(t) for t in types]
    if not all(map(kinds.is_concrete, given)):
        raise CompileError(f"kernel '{kernel.name}' is generic: its audit needs types=[…], those of the arguments")
    found = audit_kernel(kernel, given, wide)
    if confirm:
        for finding in [*found.refuted, *found.unproved]:
            _confirm(kernel, given, found, finding)
    return found


def _confirm(kernel: Kernel, types: Sequence[Any], found: KernelAudit, finding: Finding) -> None:
    """Runs a counterexample; what only a run can decide becomes refuted, unless it needs contents of arrays."""
    if finding.check not in ("bounds", "division") or not finding.counterexample:
        return
    finding.confirmed = replay(kernel, types, finding)
    if finding.confirmed and finding in found.unproved and "values" not in finding.counterexample:
        found.unproved.remove(finding)
        found.refuted.append(finding)


def replay(kernel: Kernel, types: Sequence[Any], finding: Finding, device: str = "cpu") -> str:
    """The error of a launch that a counterexample describes, in checked mode; "" if there is none or it is too large.

    Kernels with `while` are not run: what such a loop does with made-up numbers, nobody knows.
    """
    if any(isinstance(node, ast.While) for node in ast.walk(kernel.func.source.tree)):
        return ""
    case = finding.counterexample
    dims = list(case.get("launch", {"dim[0]": 1}).values())
    try:
        arguments = [_argument(name, t, case, device) for (name, _), t in zip(kernel.params, types, strict=True)]
    except (Unbuildable, TypeError, ValueError):
        return ""
    if np.prod(dims, dtype=float) > LARGEST_RUN:
        return ""
    with config.scope(checked=True), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", DivisionWarning)
        lines: list[tuple[int, str]] = []
        try:
            launch(kernel, dim=tuple(dims), inputs=arguments, device=device)
        except CheckError as error:
            lines.append((error.lineno or 0, " ".join(str(error).split())))
        except Error:
            return ""
    lines += [(w.lineno, str(w.message)) for w in seen if isinstance(w.message, DivisionWarning)]
    return next((text for line, text in lines if line in (finding.line, finding.inner)), "")


class Unbuildable(Exception):
    """A counterexample's argument that cannot be made."""


def _argument(name: str, t: Any, case: dict[str, Any], device: str) -> Any:
    if isinstance(t, kinds.Array) and type(t) is kinds.Array:
        shape = [case.get("shapes", {}).get(f"{name}.shape[{d}]", SPARE) for d in range(t.ndim)]
        if np.prod(shape, dtype=float) > LARGEST_RUN:
            raise Unbuildable(name)
        made = zeros(tuple(shape), dtype=t.dtype, device=device)
        _fill(name, made, case.get("values", {}))
        return made
    if isinstance(t, kinds.Scalar):
        value = case.get("arguments", {}).get(name, 1)
        return bool(value) if t.kind == "b" else t(value)
    raise Unbuildable(name)


def _fill(name: str, made: Any, values: dict[str, int]) -> None:
    host = made.numpy()
    for key, value in values.items():
        match = re.fullmatch(re.escape(name) + r"\[([\d, -]*)\]", key)
        if match is None:
            continue
        place = tuple(int(x) for x in match[1].split(","))
        if all(0 <= p < n for p, n in zip(place, host.shape, strict=False)):
            host[place] = value
    made.assign(host)


def audit_module(name: str, wide: bool = False, quiet: bool = False) -> dict[str, Any]:
    """The report on all kernels of a Python file or module, as `engine audit --json` prints it.

    A file runs under another name than "__main__", so that what it does as a script it does not do. `quiet` sends what
    it prints to stderr. Raises Error where there is no such module, or it fails.
    """
    kernels = _kernels_of(name, quiet)
    rows = []
    for kernel in kernels:
        if not kernel.is_generic:
            variants = [[t for _, t in kernel.params]]
        else:
            variants = [list(key) for key in kernel.overloads]
        for types in variants:
            try:
                rows.append(audit(kernel, wide, types).as_dict())
            except CompileError as error:
                raise Error(f"kernel '{kernel.name}': {error}") from None
        if not variants:
            rows.append(_skipped(kernel))
    return {"kernels": rows}


def _skipped(kernel: Kernel) -> dict[str, Any]:
    row = KernelAudit(kernel.name, kernel.func.source.filename, kernel.func.source.first_line)
    row.assumptions.append("not audited: the kernel is generic, and engine.overload names no types")
    return row.as_dict()


def _kernels_of(name: str, quiet: bool) -> list[Kernel]:
    is_file = name.endswith(".py") or os.sep in name
    if is_file and not os.path.isfile(name):
        raise Error(f"there is no file '{name}'")
    before = {id(kernel) for module in MODULES.values() for kernel in module.kernels.values()}
    folder = os.path.dirname(os.path.abspath(name)) if is_file else os.getcwd()
    sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr if quiet else sys.stdout):
            if is_file:
                names = runpy.run_path(name, run_name="audited")
            else:
                names = vars(importlib.import_module(name))
    except (KeyboardInterrupt, Error):
        raise
    except (Exception, SystemExit) as error:
        raise Error(f"{name} cannot be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(folder)
    own = {id(v): v for v in names.values() if isinstance(v, Kernel)}
    for key, module in MODULES.items():
        if key == (name if not is_file else "audited"):
            own.update((id(k), k) for k in module.kernels.values() if is_file is False or id(k) not in before)
    return sorted(own.values(), key=lambda k: k.func.source.first_line)


def audit_table(report: dict[str, Any]) -> str:
    """An audit's report for people."""
    lines: list[str] = []
    for row in report["kernels"]:
        lines.append(f"{row['kernel']} ({row['file']}:{row['line']}): {row['proved']} proved, "
                     f"{len(row['refuted'])} refuted, {len(row['unproved'])} unproved")  # fmt: skip
        for verdict in ("refuted", "unproved"):
            for f in row[verdict]:
                needs = f"; needs {f['needs']}" if "needs" in f else ""
                lines.append(f"  {verdict}: line {f['line']}: {f['what']}{needs}")
                case = f["counterexample"]
                if case:
                    shown = [f"{k} = {v}" for group in case.values() for k, v in group.items()]
                    lines.append(f"    e.g. {', '.join(shown)}")
                if "confirmed" in f:
                    lines.append(f"    confirmed by a run: {f['confirmed']}")
        if row["requires"]:
            lines.append(f"  a contract that would help: {row['requires']}")
        lines += [f"  contract, {c['status']}: line {c['line']}: {c['contract']}" for c in row["contracts"]]
        lines += [f"  warning: line {w['line']}: {w['what']}" for w in row["warnings"]]
        cost = row["registers"]
        if "registers" in cost:
            lines.append(f"  {cost['arch']}: {cost['registers']} registers ({cost['source']}), "
                         f"{cost['spilled']} bytes spilled, {cost['local']} local, {cost['shared']} shared, "
                         f"occupancy {100 * cost['occupancy']:.0f} %")  # fmt: skip
        elif "error" in cost:
            lines.append(f"  no GPU runs it: {cost['error']}")
        able = [a for a in row["architectures"] if a["runs"]]
        if able:
            lines.append(f"  runs on {', '.join(a['arch'] for a in able)}; {able[0]['arch']} from {able[0]['driver']}")
    assumed = dict.fromkeys(a for row in report["kernels"] for a in row["assumptions"])
    lines += [f"assumed: {a}" for a in assumed]
    return "\n".join(lines)
