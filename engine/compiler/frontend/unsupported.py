"""What Python has and kernels do not: how people call it, and what they can write instead."""

from __future__ import annotations

import ast
import builtins
from typing import Any

_BEFORE_LAUNCH = "check before the launch, or write a flag into an array"
_OUTSIDE = "define it outside the kernel, with @engine.func"
_FIXED = "use a fixed array: engine.zeros(shape=…, dtype=…)"
_RESULTS = "write results into an array"

# syntax node: (its name in a message, what to write instead)
SYNTAX: dict[str, tuple[str, str]] = {
    "AsyncFor": ("async for", ""),
    "AsyncFunctionDef": ("async def", "use def"),
    "AsyncWith": ("async with", ""),
    "Await": ("await", _RESULTS),
    "ClassDef": ("class", "define it outside the kernel, with @engine.struct"),
    "Delete": ("del", "a name needs no end"),
    "Dict": ("a dict", _FIXED),
    "DictComp": ("a dict comprehension", "write a loop over range(…)"),
    "FunctionDef": ("def", _OUTSIDE),
    "GeneratorExp": ("a generator expression", "write a loop over range(…)"),
    "Global": ("global", _RESULTS),
    "Import": ("import", "import outside the kernel"),
    "ImportFrom": ("import", "import outside the kernel"),
    "JoinedStr": ("an f-string", 'use print(a, b) or printf("%f", a)'),
    "Lambda": ("a lambda", _OUTSIDE),
    "List": ("a list", _FIXED),
    "ListComp": ("a list comprehension", "write a loop over range(…)"),
    "Match": ("match", "use if and elif"),
    "NamedExpr": (":=", "assign on a line of its own"),
    "Nonlocal": ("nonlocal", _RESULTS),
    "Raise": ("raise", _BEFORE_LAUNCH),
    "Set": ("a set", _FIXED),
    "SetComp": ("a set comprehension", "write a loop over range(…)"),
    "Starred": ("*", "name each value"),
    "Try": ("try", _BEFORE_LAUNCH),
    "TryStar": ("try", _BEFORE_LAUNCH),
    "With": ("with", ""),
    "Yield": ("yield", _RESULTS),
    "YieldFrom": ("yield", _RESULTS),
}

_LOOP = "loop over range(…)"
_PRINT = 'use print(a, b) or printf("%f", a)'

# functions of Python's that people reach for: what to write instead
FUNCTIONS: dict[Any, str] = {
    all: _LOOP, any: _LOOP, enumerate: _LOOP, filter: _LOOP, map: _LOOP, sorted: _LOOP, sum: _LOOP, zip: _LOOP,
    builtins.dict: _FIXED, builtins.list: _FIXED, builtins.set: _FIXED,
    format: _PRINT, repr: _PRINT, str: _PRINT,
    isinstance: "types are known while compiling: use type(x) == type(y), or overloads of a function",
}  # fmt: skip


def unsupported(node: ast.AST) -> tuple[str, str]:
    """(reason, suggestion) for a syntax node without a meaning in kernels."""
    kind = type(node).__name__
    name, hint = SYNTAX.get(kind, (kind.lower(), ""))
    article = name.startswith(("a ", "an "))
    return f"{name if article else repr(name)} is not part of the kernel language", hint


def is_python_builtin(target: Any) -> bool:
    """Whether it is a function of Python's that a program did not define."""
    return getattr(target, "__module__", "") == "builtins" and getattr(builtins, target.__name__, None) is target
