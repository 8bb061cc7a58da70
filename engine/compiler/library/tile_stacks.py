"""Stacks that a block shares; the state from which the random number of an element of a tile follows."""

from engine.compiler.library.random import advance
from engine.compiler.library.registry import library_function
from engine.compiler.types import int32, uint32


@library_function
def push(s, value, has_value: bool):
    """Puts a value on the stack, if there is one and room for it; its position, or -1."""
    n = s[0].count
    place = int32(-1)
    if has_value and n < len(s):
        s[n].value = value
        s[0].count = n + 1
        place = n
    return place


@library_function
def pop(s, nothing):
    """Takes the value on top and its position; `nothing` and -1 of an empty stack."""
    n = s[0].count - 1
    value = nothing
    if n >= 0:
        value = s[n].value
        s[0].count = n
    return value, n


@library_function
def count(s):
    return s[0].count


@library_function
def clear(s):
    s[0].count = 0


@library_function
def state_of_element(rng: uint32, i: uint32):
    """The state of element i of a tile."""
    return advance(rng + i)
