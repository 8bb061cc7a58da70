"""Turns a place in the user's source and a reason into a `CompileError` under which Python draws the caret."""

from __future__ import annotations

import ast
import difflib
import linecache
from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.errors import CompileError

if TYPE_CHECKING:
    from engine.compiler.ir import Function, Location
    from engine.compiler.source import Source


def compile_error(source: Source, node: ast.AST, message: str, hint: str = "") -> CompileError:
    """The error for `node`: one reason and, where one is known, one suggestion."""
    line = getattr(node, "lineno", source.first_line)
    text = source.line(line)
    start = _column(text, getattr(node, "col_offset", 0))
    end_line = getattr(node, "end_lineno", None) or line
    end = _column(source.line(end_line), getattr(node, "end_col_offset", None) or start + 1)
    if isinstance(node, ast.stmt) and (hasattr(node, "body") or isinstance(node, ast.Match)):  # not all of the block
        end_line, end = line, len(text.rstrip())
    return CompileError(
        f"{message}; {hint}" if hint else message,
        filename=source.filename,
        lineno=line,
        offset=start + 1,
        text=text,
        end_lineno=end_line,
        end_offset=end + 1,
    )


def error_at(fn: Function, loc: Location | None, message: str) -> CompileError:
    """The error for what an op of `fn` came from; where that is not known, for the function as a whole."""
    line, column, file = loc or (fn.line, None, "")
    file = file or fn.file
    text = linecache.getline(file, line) if file else None
    return CompileError(message, filename=file or "<kernel>", lineno=line, offset=column, text=text or None)


def _column(text: str, at: int) -> int:
    """The number of characters in the first `at` bytes of a line: syntax trees count bytes."""
    return at if text.isascii() else len(text.encode()[:at].decode(errors="ignore"))


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """'did you mean X?' when a known name is close, else an empty text. prefix: stands before the name."""
    close = [n for n in (name, name.lower(), name.upper()) if n in known]
    close = close or difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean '{prefix}{close[0]}'?" if close else ""
