"""Library functions that change their arguments: `x = randf(state)` leaves a new state behind."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from engine.compiler import types
from engine.compiler.frontend.context import Lowering, Static, Value
from engine.compiler.frontend.places import place_of
from engine.compiler.ir import Op


def write_back(
    ctx: Lowering, called: str, names: Sequence[str], updates: Sequence[int], result: Value, node: ast.AST
) -> Value:
    """Stores the first items of `result` into the places that arguments number `updates` name; the last is the value.

    An argument that is no place, as in `randf(rand_init(7))`, has nothing to be stored to.
    """
    assert isinstance(result, Op) and isinstance(result.type, types.Tuple) and isinstance(node, ast.Call)
    parts = [ctx.emit("extract", t, result, node=node, index=k) for k, t in enumerate(result.type.items)]
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    for position, value in zip(updates, parts, strict=False):
        target = node.args[position] if position < len(node.args) else named[names[position]]
        if isinstance(target, ast.Name) and not ctx.uses.needs_slot(target.id, by_reference=False):
            raise ctx.error(node, f"{called}() changes its argument: call it by that name")
        if isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
            place_of(ctx, target).write(ctx, value, node)
    rest = parts[len(updates) :]
    return rest[0] if rest else Static(None)
