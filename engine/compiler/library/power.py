"""Powers and roots in float32 and float64."""

import math

from engine.compiler.library.exponential import exp_tail_f32, exp_tail_f64, scale_f32, scale_f64
from engine.compiler.library.extended import product, sum_ordered
from engine.compiler.library.logarithm import log2_parts_f32, log2_parts_f64
from engine.compiler.library.primitives import (
    absolute,
    bitcast,
    copysign,
    fma,
    rint,
    select,
    select_max,
    select_min,
    sqrt,
    trunc,
)
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import AnyInt, float32, float64, int32, int64, uint32, uint64

INFINITY, NAN = math.inf, math.nan


@library_function
def exponent_parts(y, high, low, limit):
    """(n, f, rest) with y (high + low) = n + f + rest, n whole; products beyond `limit` count as `limit`."""
    p, p_low = product(y, high)
    inside = absolute(p) < limit
    rest = select(inside, fma(y, low, p_low), 0.0)
    p = select_max(-limit, select_min(limit, p))
    n = rint(p)
    f, rest = sum_ordered(p - n, rest)
    return n, f, rest


@library_function
def special_power(x, y, value, whole, odd):
    """The cases of IEEE 754 pow around `value` = |x|**y; `whole`, `odd`: y is a whole, an odd number."""
    a = absolute(x)
    grows = (y > 0.0) == (a > 1.0)
    value = select(a == 0.0 or a == INFINITY or absolute(y) == INFINITY, select(grows, type(a)(INFINITY), 0.0), value)
    value = select(a == 1.0 and y == y, 1.0, value)
    value = select(x < 0.0 and not whole and a < INFINITY and absolute(y) < INFINITY, NAN, value)
    value = select(odd and copysign(1.0, x) < 0.0, -value, value)
    value = select(x != x or y != y, x + y, value)
    return select(y == 0.0 or x == 1.0, 1.0, value)


@builtin("pow")
def pow_f32(x: float32, y: float32):
    """x to the power y, with the special cases of IEEE 754."""
    high, low = log2_parts_f32(absolute(x))
    n, f, rest = exponent_parts(y, high, low, float32(200.0))
    r, r_low = product(f, float32(0.6931471824645996))
    r_low = r_low + fma(f, -1.9046542121259336e-09, rest * 0.6931471824645996)
    value = scale_f32(1.0 + (r + exp_tail_f32(r, r_low)), int32(n))
    whole = trunc(y) == y
    odd = whole and absolute(y) < 16777216.0 and (int32(y) & 1) != 0
    return special_power(x, y, value, whole, odd)


@builtin("pow")
def pow_f64(x: float64, y: float64):
    high, low = log2_parts_f64(absolute(x))
    n, f, rest = exponent_parts(y, high, low, float64(1200.0))
    r, r_low = product(f, float64(0.6931471805599453))
    r_low = r_low + fma(f, 2.3190468138462996e-17, rest * 0.6931471805599453)
    value = scale_f64(1.0 + (r + exp_tail_f64(r, r_low)), int32(n))
    whole = trunc(y) == y
    odd = whole and absolute(y) < 9007199254740992.0 and (int64(y) & 1) != 0
    return special_power(x, y, value, whole, odd)


@builtin("pow")
def pow_int(x: AnyInt, n: AnyInt):
    """x multiplied n times, modulo the width; below n = 0 the whole part of the quotient."""
    result = type(x)(1)
    factor = x
    if n < 0:
        factor = x if x * x == 1 else type(x)(0)
        n = type(n)(0) - n
    while n > 0:
        if (n & 1) != 0:
            result = result * factor
        factor = factor * factor
        n = n >> 1
    return result


@library_function
def cube_root_step(y, a):
    """One Halley step for y**3 = a (cubic convergence)."""
    cube = y * y * y
    return y - y * ((cube - a) / (cube + cube + a))


@library_function
def cube_root_correction(y, a):
    """y corrected by its exact residual y**3 - a (one Newton step in extended precision)."""
    square, square_low = product(y, y)
    residual = fma(y, square, -a) + y * square_low
    return y - residual / (3.0 * square)


@library_function
def moderate(a, low, high, factor):
    """A power of two 1 or `factor`**±3 to multiply a by, and the cube root of its inverse."""
    one = a * 0.0 + 1.0
    cube = factor * factor * factor
    scale = select(a < low, cube, select(a > high, 1.0 / cube, one))
    return scale, select(a < low, 1.0 / factor, select(a > high, factor, one))


@builtin("cbrt")
def cbrt_f32(x: float32):
    """Real cube root."""
    a = absolute(x)
    scale, back = moderate(a, float32(1e-35), float32(1e35), float32(256.0))
    a = a * scale
    y = bitcast(bitcast(a, uint32) // 3 + 0x2A50F9D1, float32)  # a third of the exponent: within 4 %
    y = cube_root_correction(cube_root_step(y, a), a)
    return select(x == 0.0 or x - x != 0.0, x, copysign(y * back, x))


@builtin("cbrt")
def cbrt_f64(x: float64):
    a = absolute(x)
    scale, back = moderate(a, float64(1e-300), float64(1e300), float64(262144.0))
    a = a * scale
    y = bitcast(bitcast(a, uint64) // 3 + 0x2A9F7893782DA1CE, float64)
    y = cube_root_correction(cube_root_step(cube_root_step(y, a), a), a)
    return select(x == 0.0 or x - x != 0.0, x, copysign(y * back, x))


@library_function
def root_of_squares(a, b):
    """sqrt(a**2 + b**2) for a >= b >= 0 of moderate size, corrected by the exact residual."""
    square, square_low = product(a, a)
    other, other_low = product(b, b)
    total = square + other
    rest = (other - (total - square)) + (square_low + other_low)
    h = sqrt(total)
    return h + select(h > 0.0, (fma(-h, h, total) + rest) / (h + h), 0.0)


@builtin("hypot")
def hypot_f32(x: float32, y: float32):
    """sqrt(x**2 + y**2) without overflow or underflow in between."""
    # scaled by 2**-80 or 2**100
    a, b = select_max(absolute(x), absolute(y)), select_min(absolute(x), absolute(y))
    scale = select(a > 1e18, 8.271806125530277e-25, select(a < 1e-12, 1.2676506002282294e30, float32(1.0)))
    back = select(a > 1e18, 1.2089258196146292e24, select(a < 1e-12, 7.888609052210118e-31, float32(1.0)))
    h = root_of_squares(a * scale, b * scale) * back
    h = select(x != x or y != y, x + y, h)
    return select(absolute(x) == INFINITY or absolute(y) == INFINITY, INFINITY, h)


@builtin("hypot")
def hypot_f64(x: float64, y: float64):
    # scaled by 2**-600 or 2**700
    a, b = select_max(absolute(x), absolute(y)), select_min(absolute(x), absolute(y))
    scale = select(a > 1e150, 2.409919865102884e-181, select(a < 1e-120, 5.260135901548374e210, float64(1.0)))
    back = select(a > 1e150, 4.149515568880993e180, select(a < 1e-120, 1.90109156629516e-211, float64(1.0)))
    h = root_of_squares(a * scale, b * scale) * back
    h = select(x != x or y != y, x + y, h)
    return select(absolute(x) == INFINITY or absolute(y) == INFINITY, INFINITY, h)
