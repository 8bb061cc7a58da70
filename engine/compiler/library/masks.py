"""Vectors of truth values: comparison by component, and the truth values as the bits of a number.

They are how one thread works on 8 boxes or 4 triangles at once: in the thread shape a comparison of vectors whose
result goes to `bit_mask` becomes one comparison of registers, with the arithmetic that leads to it.
"""

from typing import Any

from engine.compiler.library.patterns import Vec
from engine.compiler.library.primitives import bits
from engine.compiler.library.registry import builtin
from engine.compiler.types import Generic, bool_
from engine.compiler.values import vector

Mask: Any = Generic("vector", bool_, (None,), "Mask")


@builtin("bit_mask")
def bit_mask(mask: Mask):
    """The truth values of a vector (at most 32) as a uint32: bit k is component k."""
    return bits(*mask)


@builtin("less")
def less(a: Vec, b: Vec):
    """a < b by component: a vector of truth values."""
    out = vector(len(a), bool_)()
    for i in range(len(a)):
        out[i] = a[i] < b[i]
    return out


@builtin("less_equal")
def less_equal(a: Vec, b: Vec):
    """a <= b by component: a vector of truth values."""
    out = vector(len(a), bool_)()
    for i in range(len(a)):
        out[i] = a[i] <= b[i]
    return out


@builtin("greater")
def greater(a: Vec, b: Vec):
    """a > b by component: a vector of truth values."""
    return less(b, a)


@builtin("greater_equal")
def greater_equal(a: Vec, b: Vec):
    """a >= b by component: a vector of truth values."""
    return less_equal(b, a)


@builtin("equal")
def equal(a: Vec, b: Vec):
    """a == b by component: a vector of truth values."""
    out = vector(len(a), bool_)()
    for i in range(len(a)):
        out[i] = a[i] == b[i]
    return out


@builtin("not_equal")
def not_equal(a: Vec, b: Vec):
    """a != b by component: a vector of truth values."""
    out = vector(len(a), bool_)()
    for i in range(len(a)):
        out[i] = a[i] != b[i]
    return out
