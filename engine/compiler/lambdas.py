"""Lambda expressions as functions of the kernel language: finds the source of one in its file."""

from __future__ import annotations

import ast
import functools
import linecache
from types import FunctionType

from engine.compiler.function import Func
from engine.errors import CompileError


def func_of_lambda(fn: FunctionType) -> Func:
    """A `Func` with the body of a lambda. Raises CompileError where Python kept no text, or cannot tell two apart."""
    made = Func(fn, "lambda_expression")
    node = _find(fn)
    body = ast.copy_location(ast.Return(node.body), node.body)
    tree = ast.FunctionDef("lambda_expression", node.args, [body], [], type_params=[])
    ast.copy_location(tree, node)
    tree.end_lineno, tree.end_col_offset = node.end_lineno, node.end_col_offset
    made.source.__dict__["tree"] = tree  # what the cached property would find for a `def`
    return made


def _find(fn: FunctionType) -> ast.Lambda:
    """The lambda in the file whose body holds every place that the code object's instructions come from."""
    code = fn.__code__
    candidates = []
    inside = [(a, b, c, d) for a, b, c, d in code.co_positions() if a and b and c is not None and d is not None and c != d]
    for node in _lambdas(code.co_filename):
        if node.lineno <= code.co_firstlineno <= (node.end_lineno or node.lineno) and _names(node) == _arguments(fn):
            first = node.body.lineno, node.body.col_offset
            last = node.body.end_lineno or node.lineno, node.body.end_col_offset or 0
            if all(first <= (line, column) and (end, stop) <= last for line, end, column, stop in inside):
                candidates.append(node)
    if not candidates:
        raise CompileError(f"the source of a lambda is not available: Python kept no text for {code.co_filename}")
    return min(candidates, key=lambda n: ((n.end_lineno or 0) - n.lineno, (n.end_col_offset or 0) - n.col_offset))


def _names(node: ast.Lambda) -> tuple[str, ...]:
    return tuple(argument.arg for argument in node.args.args)


def _arguments(fn: FunctionType) -> tuple[str, ...]:
    return fn.__code__.co_varnames[: fn.__code__.co_argcount]


@functools.cache
def _lambdas(filename: str) -> tuple[ast.Lambda, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Lambda))
