"""Runs NVIDIA Warp's own tests against the engine, as an independent measure of the kernel language.

    python tests/conformance/run.py --tests DIR [--group core] [--json FILE] [--why] [file ...]

DIR is the folder `warp/tests` of the unzipped wheel; `make conformance` fetches it. Each test file runs in a process of
its own: there `warp` is the engine, `warp.tests.*` is read in place, `warp._src.*` are the stand-ins of `shim`, and any
other `warp.X` is `engine.X`. A test has passed only if it ran and succeeded.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import subprocess
import sys
import types
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from groups import EXPECTED  # noqa: E402


class Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers `import warp.X` with `engine.X`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("warp.") or name.startswith("warp.tests"):
            return None
        try:
            module = importlib.import_module("engine" + name[4:])
        except ImportError:
            return None
        spec = importlib.machinery.ModuleSpec(name, self)
        spec.loader_state = module
        return spec

    def create_module(self, spec: Any) -> Any:
        return spec.loader_state

    def exec_module(self, module: Any) -> None:
        pass


def prepare(tests_dir: str) -> None:
    """Makes `import warp` mean the engine."""
    import shim

    import engine

    tests = types.ModuleType("warp.tests")
    tests.__path__ = [tests_dir]
    sys.modules["warp"], sys.modules["warp.tests"] = engine, tests
    engine.tests = tests  # type: ignore[attr-defined]
    sys.meta_path.insert(0, Alias())
    shim.install(tests_dir)


def run_one(tests_dir: str, file: str) -> None:
    """In a child process: runs one file and prints one line with the result."""
    out = os.fdopen(os.dup(1), "w")  # a test may leave stdout redirected
    prepare(tests_dir)
    row: dict[str, Any] = {"file": file, "run": 0, "pass": 0, "skip": 0, "fail": 0, "failures": [],
                           "import_error": None}  # fmt: skip
    try:
        module = importlib.import_module("warp.tests." + file[:-3].replace("/", "."))
    except BaseException as error:  # a file that cannot be imported is a result
        row["import_error"] = repr(error)[:300]
        print("RESULT " + json.dumps(row), file=out, flush=True)
        return
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    bad = [*result.failures, *result.errors, *((t, "unexpected success") for t in result.unexpectedSuccesses)]
    failed = {getattr(t, "test_case", t).id() for t, _ in bad}  # a test with several failed parts is one failed test
    row.update(run=result.testsRun, skip=len(result.skipped), fail=len(failed))
    row["pass"] = max(0, result.testsRun - row["skip"] - row["fail"])
    row["failures"] = [(t.id().split(".")[-1], _reason(text)) for t, text in bad]
    print("\nRESULT " + json.dumps(row), file=out, flush=True)


def _reason(text: str) -> str:
    """The last line of a traceback that says something, and the last line of code in it."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    errors = [k for k, s in enumerate(lines) if ("Error" in s or "Exception" in s) and not s.startswith("File")]
    head = lines[errors[-1]] if errors else lines[-1]
    caret = next((lines[k - 1] for k, line in enumerate(lines) if set(line) <= {"^"} and k), "")
    return f"{head[:240]} | {caret[:120]}" if caret else head[:240]


def find(tests_dir: str, file: str) -> str | None:
    """The file's path below the tests; folders have moved between versions, so the base name counts, too."""
    if (Path(tests_dir) / file).exists():
        return file
    found = next(Path(tests_dir).rglob(Path(file).name), None)
    return str(found.relative_to(tests_dir)) if found else None


def row_of(tests_dir: str, name: str, expected: int, timeout: float) -> dict[str, Any]:
    """Runs a file in a child process."""
    row: dict[str, Any] = {"file": name, "run": 0, "pass": 0, "skip": 0, "fail": expected, "failures": [],
                           "import_error": "not in the wheel"}  # fmt: skip
    file = find(tests_dir, name)
    if file is None:
        return row
    command = [sys.executable, os.path.abspath(__file__), "--tests", tests_dir, "--one", file]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(tests_dir))
    except subprocess.TimeoutExpired:
        return {**row, "import_error": f"no answer in {timeout:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        return {**row, "import_error": f"process ended with {done.returncode}: {done.stderr.strip()[-200:]}"}
    found = {**json.loads(lines[-1][7:]), "file": name}
    return {**found, "fail": expected} if found["import_error"] else found


def environment(tests_dir: str) -> dict[str, str]:
    """Variables for the child process, so that processes which a test starts find the engine as `warp`, too."""
    folders = [HERE / "subprocesses", HERE, HERE.parents[1], os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(str(folder) for folder in folders if folder)
    return {**os.environ, "PYTHONPATH": path, "WARP_TESTS": os.path.abspath(tests_dir)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", default=os.environ.get("WARP_TESTS"), help="the wheel's folder warp/tests")
    parser.add_argument("--group", action="append", choices=sorted(EXPECTED), help="default: core")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for one file")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--why", action="store_true", help="list the failures")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if not options.tests or not os.path.isdir(options.tests):
        parser.error("--tests DIR (or WARP_TESTS) must name the wheel's folder warp/tests")
    if options.one:
        run_one(options.tests, options.one)
        return
    known = {f: n for group in EXPECTED.values() for f, n in group.items()}
    rows, total = [], Counter()
    for name in options.files or [f for group in options.group or ["core"] for f in EXPECTED[group]]:
        row = row_of(options.tests, name, known.get(name, 0), options.timeout)
        rows.append(row)
        total.update({key: row[key] for key in ("pass", "fail", "skip")}, expected=max(known.get(name, 0), row["run"]))
        counts = f"pass {row['pass']:4d} fail {row['fail']:4d} skip {row['skip']:3d}"
        print(f"{name:45s} {counts}  {row['import_error'] or ''}", flush=True)
        if options.why:
            for test, reason in row["failures"]:
                print(f"    {test}: {reason}")
    print(f"total: {total['pass']} passed, {total['fail']} failed, {total['skip']} skipped of {total['expected']}")
    if options.json:
        Path(options.json).write_text(json.dumps({"total": total, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
