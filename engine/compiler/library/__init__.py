"""The maths and linear-algebra functions of the kernel language, written in the kernel language."""

from engine.compiler.library import (
    arc,
    constructors,
    exponential,
    linear,
    logarithm,
    power,
    remainder,
    rotations,
    scalar,
    trig,
)

__all__ = ["arc", "constructors", "exponential", "linear", "logarithm", "power", "remainder", "rotations", "scalar", "trig"]
