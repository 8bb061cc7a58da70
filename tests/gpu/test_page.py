"""The examples of docs/gpu.md run, and its table is the compiler's."""

import re
from pathlib import Path

from engine.compiler.target_ptx import ARCHITECTURES, PTX_VERSIONS

PAGE = (Path(__file__).parents[2] / "docs/gpu.md").read_text()


def test_examples(tmp_path):
    path = tmp_path / "page.py"
    path.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)))
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "page"})


def test_table():
    for name, row in ARCHITECTURES.items():
        (line,) = [x for x in PAGE.splitlines() if x.startswith("|") and name in x]
        major, minor = PTX_VERSIONS[row.ptx]
        assert f"| {row.ptx // 10}.{row.ptx % 10} | {major}.{minor} |" in line
