"""The code of docs/tiles.md runs, block after block, in one namespace."""

import linecache
import re
from pathlib import Path

import engine

PAGE = Path(__file__).parents[2] / "docs/tiles.md"


def test_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    scope = {"__name__": "tiles_page"}
    with engine.config.scope(device="cpu"):
        for number, block in enumerate(blocks):
            name = f"<tiles page {number}>"
            linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
            exec(compile(block, name, "exec"), scope)
