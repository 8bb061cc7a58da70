"""Kernels from wherever Python code comes: the prompt, `exec`, notebooks, archives, edited files; and ahead of time."""

import ast
import contextlib
import linecache
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.compiler import pipeline
from engine.compiler.modules import MODULES
from engine.errors import CompileError

PROGRAM = """
import engine

@engine.kernel
def scale(x: engine.array(dtype=float), s: float):
    i = engine.tid()
    x[i] = s * x[i]

x = engine.array([1.0, 2.0], dtype=float, device="cpu")
engine.launch(scale, 2, [x, 3.0], device="cpu")
print(x.numpy().tolist())
"""


def environment_of(cache: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "ENGINE_CACHE_DIR": str(cache)}


def run(*command: str, text: str | None = None, stdin: Any = None, cache: Path) -> str:
    """What a Python process prints."""
    result = subprocess.run([sys.executable, *command], input=text, stdin=stdin, env=environment_of(cache),
                            capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def scaled(kernel: engine.Kernel, s: float = 3.0) -> list[float]:
    x = engine.array([1.0, 2.0], dtype=float, device="cpu")
    engine.launch(kernel, 2, [x, s], device="cpu")
    return x.numpy().tolist()


def definition(factor: str) -> str:
    return textwrap.dedent(f"""
        @engine.kernel
        def scale(x: engine.array(dtype=float), s: float):
            i = engine.tid()
            x[i] = {factor} * x[i]
    """)


def as_cell(code: str, name: str) -> None:
    """Keeps the text of a notebook's cell as IPython does: an entry without a time of change is never dropped."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)


# --- where the code comes from ------------------------------------------------------------------------------------


def test_command_line(tmp_path):
    assert run("-c", PROGRAM, cache=tmp_path) == "[3.0, 6.0]\n"


def test_standard_input_from_a_file(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    with open(tmp_path / "program.py") as program:
        assert run(stdin=program, cache=tmp_path) == "[3.0, 6.0]\n"


def test_standard_input_from_a_pipe_is_gone(tmp_path):
    """Python reads it to the end and keeps nothing."""
    program = PROGRAM.replace("engine.launch(", "try:\n    engine.launch(", 1).replace(
        'device="cpu")\nprint', 'device="cpu")\nexcept engine.CompileError as error:\n    print(error)\nprint')
    assert "Python kept no text for <stdin>; define it in a file, a notebook, or with python -c" in run(
        "-", text=program, cache=tmp_path)


def test_interactive_prompt(tmp_path):
    """Typed at a terminal: readline keeps the lines."""
    pytest.importorskip("readline")
    pty = pytest.importorskip("pty")
    lines = PROGRAM.strip().replace("    x[i] = s * x[i]\n", "    x[i] = s * x[i]\n\n") + "\nexit()\n"
    main, terminal = pty.openpty()
    environment = {**environment_of(tmp_path), "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    process = subprocess.Popen([sys.executable, "-q", "-i", "-c", "import readline"], stdin=terminal, stdout=terminal,
                               stderr=terminal, env=environment, close_fds=True)  # fmt: skip
    os.close(terminal)
    shown = b""
    os.write(main, lines.encode())
    with contextlib.suppress(OSError):  # the terminal is closed when the process ends
        while piece := os.read(main, 4096):
            shown += piece
    os.close(main)
    assert process.wait(60) == 0
    assert b"[3.0, 6.0]" in shown, shown.decode()


def test_zip_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("scaling.py", PROGRAM)
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'code.zip')!r}); import scaling"
    assert run("-c", program, cache=tmp_path) == "[3.0, 6.0]\n"
    assert run("-c", program, cache=tmp_path) == "[3.0, 6.0]\n"


def test_exec_with_a_text_that_linecache_knows():
    name = "<ipython-input-1>"
    as_cell(definition("s"), name)
    scope = {"engine": engine}
    exec(compile(definition("s"), name, "exec"), scope)
    assert scaled(scope["scale"]) == [3.0, 6.0]


def test_exec_of_a_text():
    """Many texts have the name <string>: the code tells which one a kernel comes from."""
    scopes = [{"engine": engine} for _ in range(3)]
    for scope, factor in zip(scopes, ("s", "2.0 * s", "4.0"), strict=True):
        exec(definition(factor), scope)
    assert [scaled(scope["scale"]) for scope in scopes] == [[3.0, 6.0], [6.0, 12.0], [4.0, 8.0]]
    assert all(isinstance(name, str) for name in MODULES)  # the scopes have no name


def test_code_whose_text_nobody_kept():
    scope = {"engine": engine}
    tree = ast.parse(definition("s"))
    exec(compile(tree, "<made>", "exec"), scope)
    with pytest.raises(CompileError, match="the source of 'scale' is not available: Python kept no text for <made>"):
        scaled(scope["scale"])


def test_cells_of_a_notebook_run_again():
    """The same cell number is another file name each time; a kernel that was redefined is another kernel."""
    scope = {"engine": engine}
    results = []
    for number, factor in enumerate(("s", "2.0 * s", "s")):
        name = f"/tmp/ipykernel_7/{number}.py"
        as_cell(definition(factor), name)
        exec(compile(definition(factor), name, "exec"), scope)
        results.append(scaled(scope["scale"]))
    assert results == [[3.0, 6.0], [6.0, 12.0], [3.0, 6.0]]


def test_one_name_of_a_file_with_new_text():
    """A prompt that calls every input the same: the text that is there when the kernel is first compiled counts."""
    scope = {"engine": engine}
    results = []
    for factor in ("s", "5.0"):
        name = "<console>"
        as_cell(definition(factor), name)
        exec(compile(definition(factor), name, "exec"), scope)
        results.append(scaled(scope["scale"]))
    assert results == [[3.0, 6.0], [5.0, 10.0]]


# --- files that change --------------------------------------------------------------------------------------------


def load(path: Path) -> dict:
    scope = {"engine": engine, "__name__": "edited"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope


def test_a_file_that_is_edited_and_loaded_again(tmp_path):
    path = tmp_path / "edited.py"
    results = []
    for factor in ("s", "10.0 * s"):
        path.write_text(definition(factor))
        results.append(scaled(load(path)["scale"]))
    assert results == [[3.0, 6.0], [30.0, 60.0]]


def test_a_file_that_is_edited_before_the_first_launch_is_refused(tmp_path):
    """The function in memory is no longer what the file says: compiling the new text would run code never imported."""
    path = tmp_path / "edited.py"
    path.write_text(definition("s"))
    kernel = load(path)["scale"]
    path.write_text(definition("7.0"))
    with pytest.raises(CompileError, match="the source of 'scale' has changed since it was imported"):
        scaled(kernel)


def test_a_file_whose_lines_moved_is_refused(tmp_path):
    path = tmp_path / "edited.py"
    path.write_text(definition("s"))
    kernel = load(path)["scale"]
    path.write_text("# a new first line\n" + definition("s"))
    with pytest.raises(CompileError, match="the source of 'scale' has changed since it was imported"):
        scaled(kernel)


# --- what a kernel is made of -------------------------------------------------------------------------------------


def test_two_kernels_of_one_name():
    @engine.kernel
    def twice(x: engine.array(dtype=float), s: float):
        x[engine.tid()] = s

    first = twice

    @engine.kernel
    def twice(x: engine.array(dtype=float), s: float):
        x[engine.tid()] = 2.0 * s

    assert (scaled(first), scaled(twice)) == ([3.0, 3.0], [6.0, 6.0])


def test_kernels_of_a_factory():
    def make(add: bool):
        @engine.kernel
        def one(x: engine.array(dtype=float), s: float):
            i = engine.tid()
            if engine.static(add):
                x[i] += s
            else:
                x[i] = s

        return one

    assert (scaled(make(True)), scaled(make(False))) == ([4.0, 5.0], [3.0, 3.0])


def test_functions_returned_by_a_lambda():
    scales = [engine.func(make()) for make in (lambda: (lambda v: 2.0 * v), lambda: (lambda v: 3.0 * v))]

    def with_function(f):
        @engine.kernel
        def applies(x: engine.array(dtype=float), s: float):
            i = engine.tid()
            x[i] = f(x[i])

        return applies

    assert [scaled(with_function(f)) for f in scales] == [[2.0, 4.0], [3.0, 6.0]]


def test_a_decorator_below_the_kernel_decorator():
    def marked(fn):
        fn.mark = "kept"
        return fn

    @engine.kernel
    @marked
    def decorated(x: engine.array(dtype=float), s: float):
        x[engine.tid()] = s

    assert scaled(decorated) == [3.0, 3.0] and decorated.mark == "kept"


def test_a_function_with_a_prompt_as_docstring_and_one_line():
    scope = {"engine": engine}
    code = "@engine.kernel\ndef one(x: engine.array(dtype=float), s: float): x[engine.tid()] = s\n"
    as_cell(code, "<one line>")
    exec(compile(code, "<one line>", "exec"), scope)
    assert scaled(scope["one"]) == [3.0, 3.0]


# --- compiled ahead -----------------------------------------------------------------------------------------------


def test_force_load_makes_what_launches_need(monkeypatch):
    """Launches behind it compile nothing, and threads make the kernels side by side."""

    def make(number: int):
        @engine.kernel(module=f"ahead {number}")
        def ahead(x: engine.array(dtype=float), s: float):
            i = engine.tid()
            x[i] = x[i] + s * float(number) * 1.25

        return ahead

    kernels = [make(k) for k in range(6)]
    engine.force_load(modules=kernels)
    monkeypatch.setattr(pipeline, "compile_kernel", None)
    monkeypatch.setattr("engine.compiler.kernel.compile_kernel", None)
    assert [scaled(k, 4.0)[0] for k in kernels] == [1.0 + 5.0 * k for k in range(6)]


def test_force_load_leaves_broken_and_generic_kernels_to_their_launch():
    @engine.kernel(module="half broken")
    def broken(x: engine.array(dtype=float), s: float):
        x[0] = s * 1
        x[0] = undefined_name  # noqa: F821

    @engine.kernel(module="half broken")
    def fine(x: engine.array(dtype=float), s: float):
        x[engine.tid()] = s

    engine.force_load(modules=["half broken"])
    engine.load_module("half broken")
    assert not engine.get_module("half broken").load()
    assert scaled(fine) == [3.0, 3.0]
    with pytest.raises(CompileError, match="name 'undefined_name' is not defined"):
        scaled(broken)
