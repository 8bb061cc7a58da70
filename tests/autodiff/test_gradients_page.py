"""The code of docs/gradients.md runs, block after block, in one namespace."""

import linecache
import re
from pathlib import Path

import engine

PAGE = Path(__file__).parents[2] / "docs/gradients.md"


def test_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    scope = {"__name__": "gradients_page"}
    with engine.config.scope(device="cpu"):
        for number, block in enumerate(blocks):
            name = f"<gradients page {number}>"
            linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
            exec(compile(block, name, "exec"), scope)
