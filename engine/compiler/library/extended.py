"""Arithmetic on unevaluated sums of two floats, for functions that need more than one word in between.

Dekker, "A floating-point technique for extending the available precision" (1971). The compiler contracts a * b + c only
where a * b has no other use; products whose rounding error is taken here are used twice, so they stay products.
"""

from engine.compiler.library.primitives import fma
from engine.compiler.library.registry import library_function


@library_function
def sum_ordered(a, b):
    """a + b as (sum, error), exact for |a| >= |b| or a = 0."""
    s = a + b
    return s, b - (s - a)


@library_function
def product(a, b):
    """a b as (product, error), exact."""
    p = a * b
    return p, fma(a, b, -p)


@library_function
def quotient(a, a_low, b, b_low):
    """(a + a_low) / (b + b_low): the quotient of the sums, corrected once by its remainder."""
    top, bottom = a + a_low, b + b_low
    q = top / bottom
    rest = (a_low - (top - a)) - q * (b_low - (bottom - b))
    return q + (fma(-q, bottom, top) + rest) / bottom
