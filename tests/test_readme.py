"""What the documentation shows works: the README's Python runs, its commands exist, the table of knobs is complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.config import Config

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_python_examples_run(tmp_path):
    """In the order of the page, as one program in a file, in a folder of its own."""
    program = tmp_path / "example.py"
    program.write_text("\n".join(blocks(README, "python")))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, program]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["example.py"]


def test_make_targets_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [word for name in ("README.md", "CONTRIBUTING.md") for line in blocks((ROOT / name).read_text(), "sh")
             for words in re.findall(r"^make ([\w ]+)", line, re.MULTILINE) for word in words.split()]  # fmt: skip
    assert {"demo", "test", "lint"} <= set(named) <= set(targets)


def test_the_two_flows_stand_in_the_readme():
    flat = " ".join(README.split())
    assert "**(A)** Python function → `compiler/frontend` → typed IR →" in flat
    assert "**(B)** scene file → `sim/scene_*` → `sim/builder` → `Model` → `State` → `sim/step` →" in flat


def test_files_named_in_the_documents_exist():
    for name in ("README.md", "CONTRIBUTING.md", "docs/index.md"):
        document = ROOT / name
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{name} links to {link}"


@pytest.mark.parametrize("name", sorted(Config._knobs()))
def test_every_knob_is_in_the_documentation(name):
    knob = Config._knobs()[name]
    (row,) = re.findall(rf"^\| `{name}` \|(.*)$", (ROOT / "docs/index.md").read_text(), re.MULTILINE)
    assert knob.__doc__ in row
    assert ("keyed" in row) == knob.keyed and ("startup" in row) == knob.startup
