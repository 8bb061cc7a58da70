"""The page on arrays shows code that runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_examples_of_the_page_run(tmp_path):
    text = (ROOT / "docs/arrays.md").read_text()
    program = tmp_path / "example.py"
    program.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
