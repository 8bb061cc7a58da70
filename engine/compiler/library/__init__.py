"""The maths and linear-algebra functions of the kernel language, written in the kernel language."""

from engine.compiler.library import (
    arc,
    constructors,
    exponential,
    linear,
    logarithm,
    matrices,
    power,
    random,
    remainder,
    rigid,
    rotations,
    scalar,
    trig,
)

__all__ = [
    "arc", "constructors", "exponential", "linear", "logarithm", "matrices", "power", "random", "remainder", "rigid",
    "rotations", "scalar", "trig",
]  # fmt: skip
