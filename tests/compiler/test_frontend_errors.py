"""Messages of the compiler and of launches: their text, and the place that the caret marks."""

import linecache
import re
import textwrap
import traceback

import pytest

import engine
from engine.errors import CompileError, LaunchError
from tests.compiler.message_cases import CASES, HEADER, NAMESPACE
from tests.compiler.message_programs import PROGRAMS


def module_of(code: str, name: str) -> tuple[dict, tuple[int, int] | None, tuple[int, int] | None]:
    """The namespace of a case run as a module; where the mark begins and ends: (line, column), from 1."""
    if not re.search(r"^\W*(async )?def kern", code, re.M):
        code = HEADER + textwrap.indent(code, "    ") + "\n"
    places = []
    for mark in "«»":
        before, found, _ = code.partition(mark)
        code = code.replace(mark, "", 1)
        places.append((before.count("\n") + 1, len(before) - before.rfind("\n")) if found else None)
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    namespace = dict(NAMESPACE)
    exec(compile(code, name, "exec"), namespace)
    return namespace, places[0], places[1]


def lower(namespace: dict):
    kernel = engine.kernel(namespace["kern"])
    return kernel.lower([t for _, t in kernel.params])


@pytest.mark.parametrize(("code", "message"), CASES)
def test_message_and_token(code: str, message: str) -> None:
    name = f"<message {CASES.index((code, message))}>"
    namespace, start, end = module_of(code, name)
    with pytest.raises(CompileError) as caught:
        lower(namespace)
    error = caught.value
    assert message in str(error.msg)
    assert error.filename == name
    assert ((error.lineno, error.offset), (error.end_lineno, error.end_offset)) == (start, end), error.msg
    assert error.text == linecache.getline(name, error.lineno)


@pytest.mark.parametrize(("program", "message"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_message_of_a_program(program, message: str) -> None:
    with pytest.raises((CompileError, LaunchError)) as caught:
        program()
    assert message in str(caught.value)


def test_no_frames_of_the_compiler_in_the_message() -> None:
    with pytest.raises(CompileError) as caught:
        lower(module_of("a[0] = x * n", "<frames>")[0])
    assert "compiler" not in str(caught.value)


def test_is_every_kind_of_error_that_users_catch() -> None:
    for kind in (SyntaxError, RuntimeError, TypeError, ValueError):
        with pytest.raises(kind):
            lower(module_of("a[0] = x * n", "<kinds>")[0])


def test_python_draws_the_caret_under_the_token() -> None:
    with pytest.raises(CompileError) as caught:
        lower(module_of("a[0] = math.sqrt(x)", "<caret>")[0])
    shown = "".join(traceback.format_exception_only(caught.value)).splitlines()
    assert shown[0].strip() == 'File "<caret>", line 2'
    assert shown[1].index("math.sqrt(x)") == shown[2].index("^" * len("math.sqrt(x)"))


def test_the_place_is_in_the_file_of_the_function_that_is_called() -> None:
    with pytest.raises(CompileError) as caught:
        lower(module_of("takes_ref(x + 1.0)\n", "<caller>")[0])
    assert (caught.value.filename, caught.value.lineno) == ("<caller>", 2)
    callee = "@engine.func\ndef joins(a: engine.array(dtype=engine.bool_)):\n    engine.atomic_add(a, 0, True)\n"
    linecache.cache["<callee>"] = (len(callee), None, callee.splitlines(keepends=True), "<callee>")
    library = dict(NAMESPACE)
    exec(compile(callee, "<callee>", "exec"), library)
    namespace, *_ = module_of("def kern(a: engine.array(dtype=engine.bool_)):\n    joins(a)\n", "<caller of joins>")
    namespace["kern"].__globals__["joins"] = library["joins"]
    kernel = engine.kernel(namespace["kern"])
    with pytest.raises(CompileError, match="atomic_add is not defined on bool") as caught:
        engine.launch(kernel, 1, [engine.zeros(1, dtype=engine.bool_, device="cpu")], device="cpu")
    error = caught.value
    assert (error.filename, error.lineno, error.offset) == ("<callee>", 3, 5)
    assert error.text == "    engine.atomic_add(a, 0, True)\n"


def test_one_broken_kernel_does_not_affect_another() -> None:
    with pytest.raises(CompileError):
        lower(module_of("a[0] = x * n", "<broken>")[0])
    assert lower(module_of("a[engine.tid()] = 1.0", "<fine>")[0]).body.ops
