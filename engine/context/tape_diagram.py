"""A recorded tape as a GraphViz diagram: boxes for launches, ellipses for arrays, clusters for named scopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def tape_diagram(entries: Sequence[Any], scopes: Sequence[tuple[int, str | None, Any]], simplify: bool = True) -> str:
    """The text of the diagram. `entries` have name, `arrays` and `written`; with `simplify`, equal ones are one box."""
    lines = ["digraph tape {", "  rankdir=LR;"]
    arrays: dict[int, str] = {}
    marks = list(scopes)
    at = 0
    while at < len(entries):
        lines += _scope_lines(marks, at)
        entry, count = entries[at], 1
        if simplify:
            limit = marks[0][0] if marks else len(entries)
            while at + count < min(limit, len(entries)) and _alike(entry, entries[at + count]):
                count += 1
        label = f"{entry.name} (repeated {count}x)" if count > 1 else entry.name
        lines.append(f'  op{at} [shape=box, label="{label}"];')
        written = {id(a) for a in entry.written}
        for a in entry.arrays:
            if id(a) not in arrays:
                arrays[id(a)] = f"a{len(arrays)}"
                tip = f"array: dtype={a.element!r}, shape={a.shape}"
                lines.append(
                    f'  {arrays[id(a)]} [shape=ellipse, label="{a.element!r}{list(a.shape)}", tooltip="{tip}"];'
                )
            edge = (f"op{at}", arrays[id(a)]) if id(a) in written else (arrays[id(a)], f"op{at}")
            lines.append(f"  {edge[0]} -> {edge[1]};")
        at += count
    lines += _scope_lines(marks, at)
    return "\n".join([*lines, "}", ""])


def _scope_lines(marks: list[tuple[int, str | None, Any]], at: int) -> list[str]:
    """Begins and ends the clusters whose place is before entry `at`."""
    lines = []
    while marks and marks[0][0] <= at:
        _, name, _ = marks.pop(0)
        lines.append("  }" if name is None else f'  subgraph "cluster {name} {at}" {{ label="{name}";')
    return lines


def _alike(a: Any, b: Any) -> bool:
    return a.name == b.name and [id(x) for x in a.arrays] == [id(x) for x in b.arrays]
