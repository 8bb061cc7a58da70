"""The first layer: what stands in the source and is never used."""

from __future__ import annotations

import ast
from typing import Any

from engine.compiler.ir import Function
from engine.compiler.kernel import Kernel


def unused(kernel: Kernel, hir: Function) -> list[dict[str, Any]]:
    """Arguments that are never read, and variables that are assigned and never read; each with its line.

    Names that begin with an underscore are meant to be unused.
    """
    tree = kernel.func.source.tree
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found: dict[str, dict[str, Any]] = {}
    for op in hir.params:
        name = str(op.attrs["name"])
        if name not in read and not name.startswith("_"):
            found[name] = {"line": hir.line, "what": f"argument '{name}' is never used"}
    loops = [node.target for node in ast.walk(tree) if isinstance(node, ast.For)]
    counters = {target.id for target in loops if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in read:
            if not node.id.startswith("_") and node.id not in counters:
                what = f"'{node.id}' is assigned and never read"
                found.setdefault(node.id, {"line": node.lineno, "what": what})
    return sorted(found.values(), key=lambda row: row["line"])
