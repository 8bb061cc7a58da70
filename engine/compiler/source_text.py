"""Finds the text that a Python function was compiled from, and makes sure that it is that text.

A file that has not changed since the process began is taken at its word. Everything else (files changed since, cells of
notebooks, `exec`, `python -c`, the prompt) is compiled once more and must give the very code of the function: running
what a file says now, or what another input of the same name said, would be wrong without a word.
"""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import operator
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from engine.errors import CompileError

_STARTED = time.time()
_FUTURE = functools.reduce(operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
_RECENT: deque[tuple[str, str]] = deque(maxlen=256)  # (file name, text) of what was compiled from memory, newest last


class Text:
    """A text of Python with its syntax tree."""

    def __init__(self, text: str, filename: str):
        self.text, self.filename = text, filename
        self.lines = text.splitlines(keepends=True)
        self._compiled: dict[int, frozenset[CodeType]] = {}

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; empty where the text is none of Python."""
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError):
            return ast.Module([], [])

    @functools.cached_property
    def definitions(self) -> dict[tuple[str, int], ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function defined in it by name and first line (of its first decorator)."""
        return {
            (node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])): node
            for node in statements(self.tree.body)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }

    def compiled(self, flags: int) -> frozenset[CodeType]:
        """The code of everything defined in it; `flags` are the `__future__` imports of whoever compiled it."""
        if flags not in self._compiled:
            self._compiled[flags] = frozenset(_code_objects(self.text, self.filename, flags))
        return self._compiled[flags]

    def line(self, number: int) -> str:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


def _code_objects(text: str, filename: str, flags: int) -> list[CodeType]:
    """The code of a text and of everything defined in it; none where it is no Python."""
    try:
        found = [compile(text, filename, "exec", flags=flags, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return []
    for code in found:
        found += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


@functools.cache
def _text(text: str, filename: str) -> Text:
    """Parsed and compiled once."""
    return Text(text, filename)


def text_of(fn: Callable[..., Any]) -> Text:
    """The text that `fn` was compiled from. Raises CompileError where nothing kept it, or its file has changed."""
    code, filename = fn.__code__, fn.__code__.co_filename
    place = fn.__name__, code.co_firstlineno
    for candidate in _candidates(fn):
        text = _text(candidate, filename)
        known = place in text.definitions or fn.__name__ == "<lambda>"
        if known and (_is_settled(filename) or code in text.compiled(code.co_flags & _FUTURE)):
            return text
    raise unavailable(fn)


def unavailable(fn: Callable[..., Any]) -> CompileError:
    """The error for a function whose text cannot be found."""
    filename = fn.__code__.co_filename
    if os.path.exists(filename):
        return CompileError(f"the source of '{fn.__qualname__}' has changed since it was imported; "
                            f"import {filename} again")  # fmt: skip
    return CompileError(f"the source of '{fn.__qualname__}' is not available: Python kept no text for {filename}; "
                        "define it in a file, a notebook, or with python -c")  # fmt: skip


def _is_settled(filename: str) -> bool:
    """Whether it is a file that has not changed since this process began."""
    try:
        found = os.stat(filename)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime < _STARTED


def _candidates(fn: Callable[..., Any]) -> Iterator[str]:
    """Texts that may be the one, the likeliest first."""
    filename = fn.__code__.co_filename
    yield from _lines(filename, fn)
    linecache.checkcache(filename)  # what was kept is older than the file
    yield from _lines(filename, fn)
    yield from [text for name, text in reversed(_RECENT) if name == filename]
    if filename == "<string>" and "-c" in sys.orig_argv[1:-1]:
        yield sys.orig_argv[sys.orig_argv.index("-c", 1) + 1]
    if filename == "<stdin>":
        yield from _standard_input()
        yield from _prompt()


def _lines(filename: str, fn: Callable[..., Any]) -> list[str]:
    lines = linecache.getlines(filename, fn.__globals__)  # archives keep their texts by the module's loader
    return ["".join(lines)] if lines else []


def _standard_input() -> Iterator[str]:
    """The program that `python < file` runs."""
    try:
        if stat.S_ISREG(os.fstat(0).st_mode):
            yield os.pread(0, os.fstat(0).st_size, 0).decode()
    except (OSError, UnicodeDecodeError):
        return


def _prompt() -> Iterator[str]:
    """What was typed at the interactive prompt, newest first, one statement each: their lines count from 1."""
    history = sys.modules.get("readline")
    if history is None or sys.flags.interactive == 0 and not hasattr(sys, "ps1"):
        return
    lines = [history.get_history_item(k) or "" for k in range(1, history.get_current_history_length() + 1)]
    for start in reversed(range(len(lines))):
        if lines[start][:1].isspace() or not lines[start].startswith(("@", "def ", "if ", "for ", "with ", "class ")):
            continue
        body = start
        while body < len(lines) and lines[body].startswith("@"):
            body += 1
        end = body + 1
        while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
            end += 1
        yield "\n".join(lines[start:end]) + "\n"


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """Keeps the text that `exec` is given, which nothing else in Python does."""
    if event != "compile":
        return
    source, filename = arguments
    if isinstance(source, bytes) and str(filename).startswith("<") and (b"kernel" in source or b"func" in source):
        _RECENT.append((filename, source.decode(errors="replace")))


sys.addaudithook(_note)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement of a block and of the blocks inside, without looking into expressions."""
    for node in body:
        yield node
        for block in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, block, []))
