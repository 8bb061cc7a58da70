"""Which threads are capturing a graph now: what launches, writes arrays or reads them on the host asks here first."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

from engine.errors import CaptureError

# The open capture of each Python thread that has one. Empty nearly always, which is all that the fast paths look at.
captures: dict[int, Any] = {}


# Takes the place of every replay of a graph while it is set: what writes down the launches of a frame, one by one.
replay: Callable[[Any], None] | None = None


def current() -> Any:
    """The capture that this thread's work goes to, or None."""
    return captures.get(get_ident())


def refuse(call: str, reason: str) -> None:
    """Raises CaptureError where this thread is capturing."""
    if get_ident() in captures:
        raise CaptureError(call, reason)


def refuse_read(call: str) -> None:
    """`refuse` for what reads elements on the host."""
    refuse(call, "the elements are not known while a graph is captured; read them after capture_launch")
