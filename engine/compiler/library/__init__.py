"""The maths and linear-algebra functions of the kernel language, written in the kernel language."""

from engine.compiler.library import constructors, linear, rotations, scalar, trig

__all__ = ["constructors", "linear", "rotations", "scalar", "trig"]
