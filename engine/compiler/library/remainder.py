"""Exact remainders and rounding to whole numbers."""

from engine.compiler.library.exponential import scale_f32, scale_f64
from engine.compiler.library.primitives import (
    absolute,
    bitcast,
    copysign,
    floor,
    fma,
    select,
    select_max,
    select_min,
    trunc,
)
from engine.compiler.library.registry import builtin, library_function, name_of
from engine.compiler.types import AnyFloat, AnyInt, float32, float64, int32, uint32, uint64

fmod = name_of("fmod")


@library_function
def long_division(top: uint64, bottom: uint64, shift: int32, step: int32):
    """top * 2**shift modulo bottom, `step` bits at a time; bottom * 2**step must fit 64 bits."""
    r = top % bottom
    while shift > 0:
        count = select_min(shift, step)
        r = (r << uint64(count)) % bottom
        shift = shift - count
    return r


@library_function
def far_remainder_f32(a: float32, b: float32):
    """a modulo b for finite a >= b > 0, in integers."""
    bits_a, bits_b = bitcast(a, uint32), bitcast(b, uint32)
    ea, eb = int32(bits_a >> 23), int32(bits_b >> 23)
    top = uint64(bits_a & 0x7FFFFF) + select(ea > 0, uint64(0x800000), uint64(0))
    bottom = uint64(bits_b & 0x7FFFFF) + select(eb > 0, uint64(0x800000), uint64(0))
    shift = select_max(ea, 1) - select_max(eb, 1)
    return scale_f32(float32(long_division(top, bottom, shift, 40)), select_max(eb, 1) - 150)


@library_function
def far_remainder_f64(a: float64, b: float64):
    bits_a, bits_b = bitcast(a, uint64), bitcast(b, uint64)
    ea, eb = int32(bits_a >> 52), int32(bits_b >> 52)
    top = (bits_a & 0xFFFFFFFFFFFFF) + select(ea > 0, uint64(0x10000000000000), uint64(0))
    bottom = (bits_b & 0xFFFFFFFFFFFFF) + select(eb > 0, uint64(0x10000000000000), uint64(0))
    shift = select_max(ea, 1) - select_max(eb, 1)
    return scale_f64(float64(long_division(top, bottom, shift, 11)), select_max(eb, 1) - 1075)


@library_function
def near_remainder(a, b):
    """a modulo b for a / b small enough for an exact quotient, a >= 0, b > 0; the quotient is at most 1 too large."""
    r = fma(-trunc(a / b), b, a)
    return select(r < 0.0, r + b, r)


@builtin("fmod")
def fmod_f32(x: float32, y: float32):
    """x - n y with n = trunc(x / y), exact; the sign is that of x. NaN for y = 0 or infinite x."""
    a, b = absolute(x), absolute(y)
    r = select(a < b, a, near_remainder(a, b))
    if a / b >= 8388608.0 and b > 0.0 and a - a == 0.0:
        r = far_remainder_f32(a, b)
    return copysign(select(b > 0.0 and a - a == 0.0, r, (x - x) / (y - y)), x)


@builtin("fmod")
def fmod_f64(x: float64, y: float64):
    a, b = absolute(x), absolute(y)
    r = select(a < b, a, near_remainder(a, b))
    if a / b >= 4503599627370496.0 and b > 0.0 and a - a == 0.0:
        r = far_remainder_f64(a, b)
    return copysign(select(b > 0.0 and a - a == 0.0, r, (x - x) / (y - y)), x)


@library_function
def sign_of_divisor(r, y):
    """The remainder r of fmod brought to the sign of y, as Python's % has it."""
    other = r != 0.0 and (r < 0.0) != (y < 0.0)
    return select(r == 0.0, copysign(r, y), select(other, r + y, r))


@builtin("mod")
def mod_f32(a: float32, b: float32):
    """a - n b with n = floor(a / b), as Python's %: the sign is that of b."""
    return sign_of_divisor(fmod_f32(a, b), b)


@builtin("mod")
def mod_f64(a: float64, b: float64):
    return sign_of_divisor(fmod_f64(a, b), b)


@builtin("mod")
def mod_int(a: AnyInt, b: AnyInt):
    """a - n b with n = floor(a / b); 0 for b = 0."""
    return a % b


@library_function
def floor_divide(x, y):
    """floor(x / y) as Python's // has it: from the exact remainder, so that x = (x // y) y + x % y but for rounding.

    x / y rounded may lie on the other side of a whole number: 1 // 0.1 is 9, though 1 / 0.1 rounds to 10. Where y is 0
    it is what the division gives, NaN or infinite; an infinite x has no remainder and gives NaN.
    """
    r = fmod(x, y)
    quotient = (x - r) / y
    if r != 0.0 and (r < 0.0) != (y < 0.0):
        quotient = quotient - 1.0
    whole = floor(quotient)
    whole = select(quotient - whole > 0.5, whole + 1.0, whole)  # the quotient is whole but for its own rounding
    zero = copysign(whole * 0.0, x / y)
    return select(y == 0.0, x / y, select(whole == 0.0, zero, whole))


@builtin("frac")
def frac(x: AnyFloat):
    """x - trunc(x)."""
    return x - trunc(x)


@builtin("round")
def round_away(x: AnyFloat):
    """The nearest whole number, ties away from zero."""
    n = trunc(x)
    return copysign(select(absolute(x - n) >= 0.5, absolute(n) + 1.0, absolute(n)), x)
