"""The pages on arrays, launches, neighbours and fluids show code that runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["arrays.md", "launching.md", "neighbours.md", "fluids.md"])
def test_the_examples_of_the_page_run(page, tmp_path):
    text = (ROOT / "docs" / page).read_text()
    program = tmp_path / "example.py"
    program.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
