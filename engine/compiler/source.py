"""The parsed definition of one Python function and what the free names in it mean."""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import linecache
import os
from collections.abc import Callable
from typing import Any

from engine.compiler import types
from engine.compiler.diagnostics import compile_error
from engine.compiler.source_text import Text, text_of, unavailable


@functools.cache
def _temporary() -> str:
    """What the names of temporary files and folders begin with."""
    import tempfile  # here, as few functions stand in such a file: the module takes 9 ms to import

    return os.path.join(tempfile.gettempdir(), "tmp")


class Source:
    """Source text, syntax tree and captured names of `fn`. Reads the file only when asked (not at decoration)."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.name = fn.__qualname__
        self.filename = fn.__code__.co_filename
        self.transformers: tuple[ast.NodeTransformer, ...] = ()
        self.declared = _declared(fn)
        if f"{os.sep}tmp" in self.filename and self.filename.startswith(_temporary()):
            linecache.checkcache(self.filename)
            linecache.getlines(self.filename)  # a file in there may be gone when the source is needed

    @functools.cached_property
    def text(self) -> Text:
        """The text that the function was compiled from. Raises CompileError where there is none, or no longer."""
        return text_of(self.fn)

    @functools.cached_property
    def tree(self) -> ast.FunctionDef:
        """The definition; its line numbers are those of the file."""
        if self.fn.__name__ == "<lambda>":
            return self._lambda()
        found = self.text.definitions[self.fn.__name__, self.fn.__code__.co_firstlineno]
        if isinstance(found, ast.AsyncFunctionDef):
            raise compile_error(self, found, "'async def' is not part of the kernel language", "use def")
        if self.transformers:
            found = copy.deepcopy(found)
            for transformer in self.transformers:
                found = ast.fix_missing_locations(transformer.visit(found))
        return found

    def _lambda(self) -> ast.FunctionDef:
        """The lambda expression that this function was made of, as a definition."""
        code = self.fn.__code__
        places = [(line, column) for line, _, column, end in code.co_positions() if line and column is not None and end]
        last = max(places, default=(0, 0))  # the first of them may belong to the lambda as a whole
        parameters = list(code.co_varnames[: code.co_argcount])
        found = None
        for node in ast.walk(self.text.tree):
            if isinstance(node, ast.Lambda) and [a.arg for a in node.args.args] == parameters:
                body = node.body
                if (body.lineno, body.col_offset) <= last <= (body.end_lineno or 0, body.end_col_offset or 0):
                    found = node
        if found is None:
            raise unavailable(self.fn)
        made = ast.FunctionDef("lambda", found.args, [ast.copy_location(ast.Return(found.body), found.body)], [], None)
        return ast.copy_location(made, found)

    @property
    def first_line(self) -> int:
        return self.fn.__code__.co_firstlineno

    def line(self, number: int) -> str:
        """Line `number` of the file, counted from 1."""
        return self.text.line(number)

    @functools.cached_property
    def captured(self) -> dict[str, Any]:
        """Names from enclosing functions."""
        cells = self.fn.__closure__ or ()
        found = {}
        for name, cell in zip(self.fn.__code__.co_freevars, cells, strict=True):
            try:
                found[name] = cell.cell_contents
            except ValueError:  # the enclosing function has not bound it yet
                continue
        return found

    def lookup(self, name: str) -> Any:
        """What a free name means: enclosing function, module, Python builtins. Raises KeyError."""
        if name in self.captured:
            return self.captured[name]
        if name in self.fn.__globals__:
            return self.fn.__globals__[name]
        return vars(builtins)[name]

    def evaluate(self, node: ast.expr, local: dict[str, Any] | None = None) -> Any:
        """The Python value of an expression over free names, as they are now, and `local`."""
        code = compile(ast.Expression(node), self.filename, "eval")
        return eval(code, self.fn.__globals__, {**self.captured, **(local or {})})

    @functools.cached_property
    def annotations(self) -> dict[str, types.Type]:
        """Types of the annotated parameters, and of "return" where annotated."""
        found = {}
        for name, annotation in self.fn.__annotations__.items():
            value = annotation
            try:
                if isinstance(value, str):
                    value = self.evaluate(ast.parse(value, mode="eval").body)
                found[name] = types.of_annotation(value)
            except (TypeError, NameError, AttributeError, SyntaxError) as error:
                node = self.tree.returns if name == "return" else self.parameter(name).annotation
                what = "what" if name == "return" else f"parameter '{name}' of"
                tail = " returns" if name == "return" else ""
                raise compile_error(self, node or self.tree, f"{what} '{self.name}'{tail}: {error}") from None
        return found

    def parameter(self, name: str) -> ast.arg:
        """A parameter in the definition."""
        given = self.tree.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        return next(arg for arg in every if arg is not None and arg.arg == name)

    @functools.cached_property
    def parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.fn).parameters.values())


def _declared(fn: Callable[..., Any]) -> dict[str, Any]:
    """What the free names of a function that uses `static` mean where it is defined: what static is about.

    Of kernels made in a loop each has its own values. Nothing is read from the file.
    """
    code, scope = fn.__code__, fn.__globals__
    if "static" not in (*code.co_names, *code.co_freevars):
        return {}
    found = {name: scope[name] for name in code.co_names if name in scope}
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # bound later
            continue
    return found
