"""The maths and linear-algebra functions of the kernel language, written in the kernel language."""

from engine.compiler.library import arc, constructors, linear, rotations, scalar, trig

__all__ = ["arc", "constructors", "linear", "rotations", "scalar", "trig"]
