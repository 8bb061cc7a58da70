"""Acceptance cases: small inputs with the right result worked out, each checked by its own program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SUPPORTED = [
    "04-usd-drive-in-degrees",
    "05-usd-export-time",
    "06-contact-count",
    "07-heavy-on-light",
    "10-bounce-height",
    "11-off-centre-velocity",
]


@pytest.mark.parametrize("name", SUPPORTED)
def test_case(name, cases, tmp_path):
    """Exit code 0 is right, 1 wrong, 2 an API that the case needs is missing; the last line has the measured value."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-B", cases / name / "check.py"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
