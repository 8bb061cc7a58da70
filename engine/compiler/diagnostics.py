"""Turns a place in the user's source and a reason into a `CompileError` under which Python draws the caret."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.errors import CompileError

if TYPE_CHECKING:
    from engine.compiler.source import Source


def compile_error(source: Source, node: ast.AST, message: str, hint: str = "") -> CompileError:
    """The error for `node`: one reason and, where one is known, one suggestion."""
    line = getattr(node, "lineno", 1)
    start = getattr(node, "col_offset", 0)
    end_line = getattr(node, "end_lineno", None) or line
    end = getattr(node, "end_col_offset", None) or start + 1
    return CompileError(
        f"{message}; {hint}" if hint else message,
        filename=source.filename,
        lineno=line,
        offset=start + 1,
        text=source.line(line),
        end_lineno=end_line,
        end_offset=end + 1,
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """'did you mean X?' when a known name is close, else an empty text."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean '{close[0]}'?" if close else ""
