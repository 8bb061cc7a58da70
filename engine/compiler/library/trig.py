"""Sine, cosine and tangent in float32 and float64: reduction to a quarter turn, then minimax polynomials."""

from engine.compiler.library.extended import quotient
from engine.compiler.library.primitives import absolute, bitcast, fma, select
from engine.compiler.library.reduction import (
    LIMIT_F32,
    QUARTER,
    half_turn_f32,
    half_turn_of,
    quarter_and_half_turn_f32,
    reduce_f32,
    reduce_f64,
    sign_bit,
    turns_f32,
)
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import float32, float64, int32, uint32


@library_function
def sine_of_half_turn(r: float32, sign: uint32):
    """sin(r) for |r| a little above pi/2 at most, with `sign` (its highest bit) applied."""
    z = r * r
    p = fma(z, 2.605109102660208e-06, -0.00019809469813480973)
    p = fma(p, z, 0.00833306647837162)
    p = fma(p, z, -0.16666659712791443)
    return bitcast(bitcast(fma(r * z, p, r), uint32) ^ sign, float32)


@builtin("sin")
def sin_f32(x: float32):
    """Sine of an angle in radians."""
    size = absolute(x)
    r, sign = half_turn_f32(size)
    if size > LIMIT_F32:
        r, sign = half_turn_of(turns_f32(size), size)
    return sine_of_half_turn(r, sign ^ sign_bit(x))


@builtin("cos")
def cos_f32(x: float32):
    """Cosine of an angle in radians."""
    size = absolute(x)
    r, sign = quarter_and_half_turn_f32(size)
    if size > LIMIT_F32:
        r, sign = half_turn_of(turns_f32(size) + QUARTER, size)
    return sine_of_half_turn(r, sign)


@builtin("sincos")
def sincos_f32(x: float32):
    """(sin x, cos x) with one reduction."""
    size = absolute(x)
    r, sign = half_turn_f32(size)
    q, other = quarter_and_half_turn_f32(size)
    if size > LIMIT_F32:
        turns = turns_f32(size)
        r, sign = half_turn_of(turns, size)
        q, other = half_turn_of(turns + QUARTER, size)
    return sine_of_half_turn(r, sign ^ sign_bit(x)), sine_of_half_turn(q, other)


@library_function
def sine_f32(hi: float32, lo: float32):
    """sin(hi + lo) for |hi| <= pi/4, as a sum of two parts."""
    z = hi * hi
    p = fma(z, -0.0001951789454324171, 0.008332187309861183)
    p = fma(p, z, -0.16666655242443085)
    return hi, fma(hi * z, p, lo)


@library_function
def cosine_f32(hi: float32, lo: float32):
    """cos(hi + lo) for |hi| <= pi/4, as a sum of two parts."""
    z = hi * hi
    p = fma(z, 2.4432327336398885e-05, -0.0013887309469282627)
    p = fma(p, z, 0.04166664555668831)
    w = fma(-0.5, z, 1.0)
    return w, fma(-0.5, z, 1.0 - w) + fma(z * z, p, -hi * lo)


@library_function
def sine_f64(hi: float64, lo: float64):
    z = hi * hi
    p = fma(z, 1.5895432863841874e-10, -2.505073438309413e-08)
    p = fma(p, z, 2.7557313538485363e-06)
    p = fma(p, z, -0.00019841269829358484)
    p = fma(p, z, 0.00833333333332184)
    p = fma(p, z, -0.1666666666666663)
    return hi, fma(hi * z, p, lo)


@library_function
def cosine_f64(hi: float64, lo: float64):
    z = hi * hi
    p = fma(z, -1.1358576838779617e-11, 2.087570245076251e-09)
    p = fma(p, z, -2.755731419879277e-07)
    p = fma(p, z, 2.480158728895383e-05)
    p = fma(p, z, -0.0013888888888873296)
    p = fma(p, z, 0.041666666666666595)
    w = fma(-0.5, z, 1.0)
    return w, fma(-0.5, z, 1.0 - w) + fma(z * z, p, -hi * lo)


@library_function
def turn(s, c, quadrant: int32):
    """(sine, cosine) of an angle from those of its reduced angle."""
    odd = (quadrant & 1) != 0
    sine, cosine = select(odd, c, s), select(odd, s, c)
    return select((quadrant & 2) != 0, -sine, sine), select(((quadrant + 1) & 2) != 0, -cosine, cosine)


@library_function
def sine_and_cosine(x, s, s_low, c, c_low, quadrant: int32):
    sine, cosine = turn(s + s_low, c + c_low, quadrant)
    return select(x == 0.0, x, sine), cosine  # keeps the sign of -0


@library_function
def tangent(x, s, s_low, c, c_low, quadrant: int32):
    odd = (quadrant & 1) != 0
    t = quotient(select(odd, -c, s), select(odd, -c_low, s_low), select(odd, s, c), select(odd, s_low, c_low))
    return select(x == 0.0, x, t)


@builtin("sincos")
def sincos_f64(x: float64):
    hi, lo, quadrant = reduce_f64(x)
    s, s_low = sine_f64(hi, lo)
    c, c_low = cosine_f64(hi, lo)
    return sine_and_cosine(x, s, s_low, c, c_low, quadrant)


@builtin("sin")
def sin_f64(x: float64):
    sine, _ = sincos_f64(x)
    return sine


@builtin("cos")
def cos_f64(x: float64):
    _, cosine = sincos_f64(x)
    return cosine


@builtin("tan")
def tan_f32(x: float32):
    """Tangent of an angle in radians."""
    hi, lo, quadrant = reduce_f32(x)
    s, s_low = sine_f32(hi, lo)
    c, c_low = cosine_f32(hi, lo)
    return tangent(x, s, s_low, c, c_low, quadrant)


@builtin("tan")
def tan_f64(x: float64):
    hi, lo, quadrant = reduce_f64(x)
    s, s_low = sine_f64(hi, lo)
    c, c_low = cosine_f64(hi, lo)
    return tangent(x, s, s_low, c, c_low, quadrant)
