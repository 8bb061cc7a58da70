"""`Func`: a Python function that kernels may call, and that also runs as plain Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from engine.compiler.ir import Function
from engine.compiler.source import Source


class Func:
    """What `@func` makes. Reads no source until a kernel calls it; one HIR function per tuple of argument types."""

    def __init__(self, fn: Callable[..., Any], name: str = ""):
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = name or fn.__name__
        self.source = Source(fn)
        self.specialisations: dict[tuple[Any, ...], Function | None] = {}  # None while it is being lowered

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<func {self.name}>"


def func(fn: Callable[..., Any]) -> Func:
    """Decorator: makes a Python function callable from kernels (and from other funcs).

    Parameters without annotation take any type; the function is specialised for each tuple of types it is called with.
    """
    return Func(fn)
