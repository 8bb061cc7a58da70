"""No message of the compiler and of launches without a case in `message_cases` or `message_programs`."""

import ast
import contextlib
import sys
from pathlib import Path

import pytest

import engine
from engine.errors import CompileError, LaunchError
from tests.compiler.message_cases import CASES
from tests.compiler.message_programs import PROGRAMS
from tests.compiler.test_frontend_errors import lower, module_of

ROOT = Path(engine.__file__).parent
# the functions and classes that make a message
WAYS = {"error", "error_at", "compile_error", "CompileError", "LaunchError"}


# what packing refuses although each argument was found to fit: only a bug gets there
UNREACHED = "arguments that fit their parameters"


# messages about graphics processors, which their own tests make: file, and its tests
ELSEWHERE = {
    "context/device_cpu.py": "emulator/test_edited_ptx.py", "compiler/build.py": "gpu/test_build.py",
    "compiler/emit_ptx.py": "gpu/test_ptx.py", "compiler/emit_amd.py": "gpu/test_amd.py",
    "compiler/frontend/blocks.py": "gpu/test_blocks.py", "context/device_cuda.py": "emulator/test_driver.py",
    "context/foreign_ptx.py": "gpu/test_build.py",
}  # fmt: skip
BLOCKS = ("needs_block(op)", "asks_for_block(", "together")  # refusals of blocks on the cpu, as above


def sites() -> set[tuple[str, int]]:
    """(file, line) of every place in the compiler and in launches that makes a `CompileError` or a `LaunchError`."""
    found = set()
    for path in [*(ROOT / "compiler").rglob("*.py"), *(ROOT / "context").glob("*.py")]:
        if path.relative_to(ROOT).as_posix() in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                text = ast.unparse(node)
                if name in WAYS and UNREACHED not in text and not any(mark in text for mark in BLOCKS):
                    found.add((path.relative_to(ROOT).as_posix(), node.lineno))
    return found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """The places that made a message since the test began."""
    found: set[tuple[str, int]] = set()

    def noting(init):
        def wrapped(self, *args, **named):
            frame = sys._getframe(1)
            while frame is not None:
                path = Path(frame.f_code.co_filename)
                if path.is_relative_to(ROOT):
                    found.add((path.relative_to(ROOT).as_posix(), frame.f_lineno))
                frame = frame.f_back
            init(self, *args, **named)

        return wrapped

    for kind in (CompileError, LaunchError):
        monkeypatch.setattr(kind, "__init__", noting(kind.__init__))
    return found


def test_every_message_is_tested(seen: set[tuple[str, int]]) -> None:
    """Runs all cases once more: a message that none of them makes is one without a test."""
    for number, (code, _) in enumerate(CASES):
        with contextlib.suppress(CompileError):
            lower(module_of(code, f"<message {number}>")[0])
    for program, _ in PROGRAMS:
        with contextlib.suppress(CompileError, LaunchError):
            program()
    assert all((ROOT.parent / "tests" / tests).exists() for tests in ELSEWHERE.values())
    untested = "\n".join(f"{file}:{line}" for file, line in sorted(sites() - seen))
    assert not untested, f"messages without a case:\n{untested}"
