"""The maths and linear-algebra functions of the kernel language, written in the kernel language."""

from engine.compiler.library import (
    arc,
    constructors,
    decompositions,
    derivatives,
    error,
    exponential,
    linear,
    logarithm,
    masks,
    matrices,
    noise,
    power,
    random,
    remainder,
    rigid,
    rotations,
    scalar,
    searching,
    trig,
    warps,
)

__all__ = [
    "arc", "constructors", "decompositions", "derivatives", "error", "exponential", "linear", "logarithm", "masks",
    "matrices", "noise", "power", "random", "remainder", "rigid", "rotations", "scalar", "searching", "trig",
    "warps",
]  # fmt: skip
