"""Inverse trigonometric functions in float32 and float64."""

from engine.compiler.library.primitives import absolute, bitcast, copysign, fma, select, select_max, select_min, sqrt
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import float32, float64, int32, int64

TAN_PI_8 = 0.41421356237309503
TAN_3PI_8 = 2.414213562373095


@library_function
def octant(u, v):
    """(base, t, t_low) with atan(u / v) = base * pi/4 + atan(t + t_low), |t| <= tan(pi/8), for u, v >= 0.

    One division; t_low corrects its rounding and that of the sums. v must not be 0, its reciprocal not overflow.
    """
    middle = u > TAN_PI_8 * v
    steep = u > TAN_3PI_8 * v
    top = select(steep, -v, select(middle, u - v, u))
    bottom = select(steep, u, select(middle, u + v, v))
    # what the rounding of u - v and u + v lost; exactly 0 in the other two cases
    inexact = middle and not steep
    larger, smaller = select_max(u, v), select_min(u, v)
    difference_low = select(inexact, (larger - absolute(top)) - smaller, 0.0)
    top_low = select(u < v, -difference_low, difference_low)
    bottom_low = select(inexact, (larger - bottom) + smaller, 0.0)
    reciprocal = 1.0 / bottom
    t = top * reciprocal
    t_low = (fma(-t, bottom, top) + (top_low - t * bottom_low)) * reciprocal
    base = select(steep, 2.0, select(middle, 1.0, u - u))
    return base, t, t_low


@library_function
def arc_f32(u: float32, v: float32, half_turn: float32):
    """atan(u / v) for u, v >= 0 and half_turn 0, or pi minus that for half_turn 4."""
    base, t, t_low = octant(u, v)
    z = t * t
    p = fma(z, -0.0608733706176281, 0.10598265379667282)
    p = fma(p, z, -0.1424429714679718)
    p = fma(p, z, 0.19998525083065033)
    p = fma(p, z, -0.33333316445350647)
    sign = select(half_turn != 0.0, -1.0, 1.0 + half_turn)
    base = absolute(half_turn - base)
    rest = sign * fma(t * z, p, t_low)
    high = base * 0.7853981852531433
    low = fma(base, -2.1855694143368964e-08, rest)
    sum_high = fma(sign, t, high)
    return sum_high + (fma(sign, t, high - sum_high) + low)


@library_function
def arc_f64(u: float64, v: float64, half_turn: float64):
    base, t, t_low = octant(u, v)
    z = t * t
    p = fma(z, -0.01786788364168337, 0.03802882203997054)
    p = fma(p, z, -0.05037904740805132)
    p = fma(p, z, 0.058475800544166755)
    p = fma(p, z, -0.06663061738473082)
    p = fma(p, z, 0.07692056508547752)
    p = fma(p, z, -0.09090897550238618)
    p = fma(p, z, 0.11111110776277072)
    p = fma(p, z, -0.14285714280053705)
    p = fma(p, z, 0.1999999999995218)
    p = fma(p, z, -0.3333333333333319)
    sign = select(half_turn != 0.0, -1.0, 1.0 + half_turn)
    base = absolute(half_turn - base)
    rest = sign * fma(t * z, p, t_low)
    high = base * 0.7853981633974483
    low = fma(base, 3.061616997868383e-17, rest)
    sum_high = fma(sign, t, high)
    return sum_high + (fma(sign, t, high - sum_high) + low)


@builtin("atan")
def atan_f32(x: float32):
    """Arc tangent in -pi/2 … pi/2."""
    u = select_min(1e30, absolute(x))  # beyond, the result is pi/2
    return copysign(arc_f32(u, float32(1.0), float32(0.0)), x)


@builtin("atan")
def atan_f64(x: float64):
    u = select_min(1e200, absolute(x))
    return copysign(arc_f64(u, float64(1.0), float64(0.0)), x)


@builtin("atan2")
def atan2_f32(y: float32, x: float32):
    """Angle of the point (x, y) in -pi … pi; the signs of zeros count, infinities are directions."""
    u, v = absolute(y), absolute(x)
    m = select_max(u, v)
    if m > 3.4028234663852886e38:
        u, v = select(u == m, float32(1.0), float32(0.0)), select(v == m, float32(1.0), float32(0.0))
    elif m == 0.0:
        v = float32(1.0)
    exponent = bitcast(select_max(u, v), int32) >> 23
    scale = bitcast(select_min(273 - exponent, 254) << 23, float32)  # the larger one gets 2**20 at least
    backward = bitcast(x, int32) < 0
    angle = copysign(arc_f32(u * scale, v * scale, select(backward, float32(4.0), float32(0.0))), y)
    return select(x == x and y == y, angle, x + y)


@builtin("atan2")
def atan2_f64(y: float64, x: float64):
    u, v = absolute(y), absolute(x)
    m = select_max(u, v)
    if m > 1.7976931348623157e308:
        u, v = select(u == m, float64(1.0), float64(0.0)), select(v == m, float64(1.0), float64(0.0))
    elif m == 0.0:
        v = float64(1.0)
    exponent = bitcast(select_max(u, v), int64) >> 52
    scale = bitcast(select_min(2105 - exponent, 2046) << 52, float64)
    backward = bitcast(x, int64) < 0
    angle = copysign(arc_f64(u * scale, v * scale, select(backward, float64(4.0), float64(0.0))), y)
    return select(x == x and y == y, angle, x + y)


@library_function
def arcsine_tail_f32(z: float32):
    """(asin(s) - s) / s for z = s * s <= 1/4."""
    p = fma(z, 0.04216641187667847, 0.02418077364563942)
    p = fma(p, z, 0.045469772070646286)
    p = fma(p, z, 0.07495306432247162)
    return fma(p, z, 0.16666752099990845) * z


@library_function
def arcsine_tail_f64(z: float64):
    p = fma(z, 0.031934178633816084, -0.016255611773985663)
    p = fma(p, z, 0.01954784777806011)
    p = fma(p, z, 0.006520973501877232)
    p = fma(p, z, 0.012170792949324235)
    p = fma(p, z, 0.013885000756271446)
    p = fma(p, z, 0.01735972785122828)
    p = fma(p, z, 0.022371756568945387)
    p = fma(p, z, 0.03038195919641167)
    p = fma(p, z, 0.044642856826953396)
    p = fma(p, z, 0.0750000000033858)
    return fma(p, z, 0.16666666666665403) * z


@library_function
def half_angle(a):
    """(z, s, s_low): near 1, asin(a) = pi/2 - 2 asin(s + s_low) with z = s * s = (1 - a) / 2; else z = a * a, s = a."""
    steep = a > 0.5
    z = select(steep, fma(-0.5, a, 0.5), a * a)
    s = select(steep, sqrt(z), a)
    s_low = select(steep and s > 0.0, fma(-s, s, z) / (s + s), 0.0)
    return z, s, s_low


@builtin("asin")
def asin_f32(x: float32):
    """Arc sine in -pi/2 … pi/2; NaN outside -1 … 1."""
    a = absolute(x)
    z, s, s_low = half_angle(a)
    tail = fma(s, arcsine_tail_f32(z), s_low)
    high = 1.5707963705062866 - 2.0 * s
    low = (1.5707963705062866 - high) - 2.0 * s
    steep = high + (low - fma(2.0, tail, 4.371138828673793e-08))
    return copysign(select(a > 0.5, steep, s + tail), x)


@builtin("asin")
def asin_f64(x: float64):
    a = absolute(x)
    z, s, s_low = half_angle(a)
    tail = fma(s, arcsine_tail_f64(z), s_low)
    high = 1.5707963267948966 - 2.0 * s
    low = (1.5707963267948966 - high) - 2.0 * s
    steep = high + (low - fma(2.0, tail, -6.123233995736766e-17))
    return copysign(select(a > 0.5, steep, s + tail), x)


@builtin("acos")
def acos_f32(x: float32):
    """Arc cosine in 0 … pi; NaN outside -1 … 1."""
    a = absolute(x)
    z, s, s_low = half_angle(a)
    tail = fma(s, arcsine_tail_f32(z), s_low)
    near_zero = 2.0 * (s + tail)
    near_pi = (3.1415927410125732 - 2.0 * s) - fma(2.0, tail, 8.742277657347586e-08)
    sine = copysign(s, x)
    middle = 1.5707963705062866 - (sine + (copysign(tail, x) + 4.371138828673793e-08))
    return select(a > 0.5, select(x > 0.0, near_zero, near_pi), middle)


@builtin("acos")
def acos_f64(x: float64):
    a = absolute(x)
    z, s, s_low = half_angle(a)
    tail = fma(s, arcsine_tail_f64(z), s_low)
    near_zero = 2.0 * (s + tail)
    near_pi = (3.141592653589793 - 2.0 * s) - fma(2.0, tail, -1.2246467991473532e-16)
    sine = copysign(s, x)
    middle = 1.5707963267948966 - (sine + (copysign(tail, x) - 6.123233995736766e-17))
    return select(a > 0.5, select(x > 0.0, near_zero, near_pi), middle)
