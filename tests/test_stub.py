"""The stub file is in step with the names of `engine`, and a user's program type checks against it."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import engine

ROOT = Path(__file__).parents[1]

PROGRAM = """
import engine
from engine import mat33, vec3

@engine.func
def spring(x: vec3, rest: float) -> vec3:
    return (rest - engine.length(x)) * engine.normalize(x)

@engine.kernel
def step(x: engine.array(dtype=vec3), v: engine.array(dtype=vec3), dt: float, n: engine.int32):
    i = engine.tid()
    v[i] += spring(x[i], 1.0) * dt
    v[i] += engine.vec3(engine.sin(dt), engine.sqrt(dt), engine.clamp(dt, 0.0, 1.0))
    engine.atomic_add(x, i, v[i] * dt)

x = engine.zeros(10, dtype=vec3, device="cpu")
engine.launch(step, dim=10, inputs=[x, x, 0.1, 3])
reveal_type(engine.sin(1.0))  # float
reveal_type(engine.dot(vec3(), vec3()))  # float
reveal_type(engine.cross(vec3(), vec3()))  # engine.vec3
reveal_type(engine.inverse(mat33()))  # engine.mat33
reveal_type(x)  # engine.context.array.array
reveal_type(step)  # engine.compiler.kernel.Kernel
reveal_type(engine.PI)  # float
reveal_type(vec3().x)  # float
"""


def test_the_stub_is_in_step():
    """`python tools/make_stub.py` writes it."""
    spec = importlib.util.spec_from_file_location("make_stub", ROOT / "tools/make_stub.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STUB.read_text() == module.stub()


def test_every_public_name_is_in_it():
    text = Path(engine.__file__).with_name("__init__.pyi").read_text()
    missing = [n for n in engine.__all__ if not re.search(rf"(^| ){n}\b", text, re.M)]
    assert not missing
    assert Path(engine.__file__).with_name("py.typed").exists()


def checked(program: str, folder: Path) -> list[str]:
    """What mypy says about a program of a user, who has to switch off one check: annotations are values in kernels."""
    pytest.importorskip("mypy")
    (folder / "program.py").write_text(program)
    options = ["--disable-error-code", "valid-type", "--ignore-missing-imports", "--follow-imports", "silent",
               "--no-site-packages", "--no-error-summary"]  # fmt: skip
    result = subprocess.run([sys.executable, "-m", "mypy", *options, "program.py"], cwd=folder, text=True,
                            env={"MYPYPATH": str(ROOT), "PATH": "", "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache/user")},
                            capture_output=True, timeout=110, check=False)  # fmt: skip
    assert not result.stderr
    return result.stdout.splitlines()


def test_a_program_type_checks(tmp_path):
    said = checked(PROGRAM, tmp_path)
    wanted = [line.rpartition("# ")[2] for line in PROGRAM.splitlines() if line.startswith("reveal_type")]
    assert [line.rpartition('Revealed type is "')[2].rstrip('"') for line in said] == wanted


def test_a_misspelt_name_is_found(tmp_path):
    (said,) = checked("import engine\nengine.sinn(1.0)\n", tmp_path)
    assert said == 'program.py:2: error: Module has no attribute "sinn"; maybe "sin"?  [attr-defined]'
