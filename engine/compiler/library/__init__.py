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
    tile_algebra,
    tile_memory,
    tile_reduction,
    tile_sorting,
    tile_stacks,
    tile_transforms,
    trig,
    warps,
)

__all__ = [
    "arc", "constructors", "decompositions", "derivatives", "error", "exponential", "linear", "logarithm", "masks",
    "matrices", "noise", "power", "random", "remainder", "rigid", "rotations", "scalar", "searching",
    "tile_algebra", "tile_memory", "tile_reduction", "tile_sorting", "tile_stacks", "tile_transforms", "trig",
    "warps",
]  # fmt: skip
