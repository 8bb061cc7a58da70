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


def sites() -> set[tuple[str, int]]:
    """(file, line) of every place in the compiler and in launches that makes a `CompileError` or a `LaunchError`."""
    found = set()
    for path in [*(ROOT / "compiler").rglob("*.py"), *(ROOT / "context").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in WAYS and UNREACHED not in ast.unparse(node):
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
    untested = sorted(sites() - seen)
    assert not untested, f"{len(untested)} messages have no case:\n" + "\n".join(f"{f}:{line}" for f, line in untested)
