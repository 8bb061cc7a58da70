"""Chooses between the two shapes of CPU code for a kernel, from its MIR, and says why (`engine.debug.explain`)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.compiler.ir import Function

SHAPES = ("auto", "lanes", "thread")


@dataclass(frozen=True)
class Decision:
    """The shape, threads per vector (1 for the thread shape), and the reasons as short sentences."""

    shape: str
    width: int
    reasons: tuple[str, ...]


def choose(fn: Function, wanted: str, width: int) -> Decision:
    """The shape of a MIR kernel; `wanted` is "auto" or what the user asks for."""
    indices = {op.attrs["ndim"] for op in fn.body.walk() if op.kind == "tid"}
    if len(indices) != 1:
        reason = "it does not ask for its index" if not indices else "it asks for indices of grids of several dimensions"
        return Decision("thread", 1, (reason,))
    if wanted != "auto":
        return Decision(wanted, width if wanted == "lanes" else 1, ("asked for",))
    return Decision("thread", 1, ("default",))
