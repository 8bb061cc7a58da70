"""The page on the emulated GPU shows code that runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/emulator.md"


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)))
    exec(compile(program.read_text(), str(program), "exec"), {"__name__": "page"})
