"""Exponential and hyperbolic functions in float32 and float64.

exp(x) = 2**n exp(r) with |r| <= ln(2) / 2 (Cody and Waite), exp(r) from a minimax polynomial.
"""

from engine.compiler.library.extended import quotient
from engine.compiler.library.primitives import absolute, bitcast, copysign, fma, rint, select, select_max, select_min
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import float32, float64, int32, int64


@library_function
def scale_f32(y: float32, n: int32):
    """y * 2**n with one rounding, for -252 <= n <= 254."""
    half = n >> 1
    return y * bitcast((half + 127) << 23, float32) * bitcast((n - half + 127) << 23, float32)


@library_function
def scale_f64(y: float64, n: int32):
    """y * 2**n with one rounding, for -2044 <= n <= 2046."""
    half = n >> 1
    return y * bitcast(int64(half + 1023) << 52, float64) * bitcast(int64(n - half + 1023) << 52, float64)


@library_function
def exp_tail_f32(r: float32, low: float32):
    """exp(r + low) - 1 - r for |r| <= 0.35."""
    p = fma(r, 0.0013838891172781587, 0.00836919341236353)
    p = fma(p, r, 0.04166810214519501)
    p = fma(p, r, 0.16666516661643982)
    p = fma(p, r, 0.4999999403953552)
    return fma(r * r, p, low)


@library_function
def exp_tail_f64(r: float64, low: float64):
    p = fma(r, 2.0972968201225974e-09, 2.5113741797841753e-08)
    p = fma(p, r, 2.755707489065963e-07)
    p = fma(p, r, 2.7557229018437745e-06)
    p = fma(p, r, 2.4801587557344248e-05)
    p = fma(p, r, 0.000198412699032174)
    p = fma(p, r, 0.0013888888888777865)
    p = fma(p, r, 0.008333333333313913)
    p = fma(p, r, 0.041666666666666824)
    p = fma(p, r, 0.16666666666666688)
    p = fma(p, r, 0.5)
    return fma(r * r, p, low)


@library_function
def reduce_exp_f32(x: float32):
    """(n, r, low) with x = n ln(2) + r + low."""
    n = rint(x * 1.4426950216293335)
    a = fma(n, -0.6931471824645996, x)
    r = fma(n, 1.9046542121259336e-09, a)
    return int32(n), r, fma(n, 1.9046542121259336e-09, a - r)


@library_function
def reduce_exp_f64(x: float64):
    n = rint(x * 1.4426950408889634)
    a = fma(n, -0.6931471805599453, x)
    r = fma(n, -2.3190468138462996e-17, a)
    return int32(n), r, fma(n, -2.3190468138462996e-17, a - r)


@library_function
def scaled_exp_f32(x: float32, shift: int32):
    """2**shift * exp(x)."""
    x = select_max(-200.0, select_min(100.0, x))  # in this order a NaN stays
    n, r, low = reduce_exp_f32(x)
    return scale_f32(1.0 + (r + exp_tail_f32(r, low)), select_max(n + shift, -200))


@library_function
def scaled_exp_f64(x: float64, shift: int32):
    x = select_max(-1000.0, select_min(1000.0, x))
    n, r, low = reduce_exp_f64(x)
    return scale_f64(1.0 + (r + exp_tail_f64(r, low)), n + shift)


@builtin("exp")
def exp_f32(x: float32):
    """e to the power x."""
    return scaled_exp_f32(x, 0)


@builtin("exp")
def exp_f64(x: float64):
    return scaled_exp_f64(x, 0)


@builtin("exp2")
def exp2_f32(x: float32):
    """2 to the power x."""
    x = select_max(-200.0, select_min(200.0, x))
    n = rint(x)
    f = x - n
    r = f * 0.6931471824645996
    low = fma(f, 0.6931471824645996, -r) + f * -1.9046542121259336e-09
    return scale_f32(1.0 + (r + exp_tail_f32(r, low)), int32(n))


@builtin("exp2")
def exp2_f64(x: float64):
    x = select_max(-1200.0, select_min(1200.0, x))
    n = rint(x)
    f = x - n
    r = f * 0.6931471805599453
    low = fma(f, 0.6931471805599453, -r) + f * 2.3190468138462996e-17
    return scale_f64(1.0 + (r + exp_tail_f64(r, low)), int32(n))


@library_function
def expm1_parts_f32(x: float32):
    """exp(x) - 1 as a sum of two parts."""
    clamped = select_max(-30.0, select_min(89.0, x))
    n, r, low = reduce_exp_f32(clamped)
    half = bitcast((n + 126) << 23, float32)  # 2**(n - 1): n = 128 must not overflow early
    total = fma(half, r, half - 0.5)
    rest = fma(half, r, (half - 0.5) - total) + half * exp_tail_f32(r, low)
    return select(n == 0, x, 2.0 * total), select(n == 0, exp_tail_f32(r, low), 2.0 * rest)


@library_function
def expm1_parts_f64(x: float64):
    clamped = select_max(-60.0, select_min(710.0, x))
    n, r, low = reduce_exp_f64(clamped)
    half = bitcast(int64(n + 1022) << 52, float64)
    total = fma(half, r, half - 0.5)
    rest = fma(half, r, (half - 0.5) - total) + half * exp_tail_f64(r, low)
    return select(n == 0, x, 2.0 * total), select(n == 0, exp_tail_f64(r, low), 2.0 * rest)


@builtin("expm1")
def expm1_f32(x: float32):
    """exp(x) - 1, accurate near 0."""
    high, low = expm1_parts_f32(x)
    return select(x == 0.0, x, high + low)


@builtin("expm1")
def expm1_f64(x: float64):
    high, low = expm1_parts_f64(x)
    return select(x == 0.0, x, high + low)


@library_function
def sinh_of(high, low):
    """sinh(x) from exp(x) - 1 = high + low: (e + e / (e + 1)) / 2."""
    e = high + low
    e_low = low - (e - high)
    return 0.5 * (e + (e / (e + 1.0) + 1.5 * e_low))


@builtin("sinh")
def sinh_f32(x: float32):
    """Hyperbolic sine."""
    a = absolute(x)
    high, low = expm1_parts_f32(select_min(10.0, a))
    return copysign(select(a > 10.0, scaled_exp_f32(a, -1), sinh_of(high, low)), x)


@builtin("sinh")
def sinh_f64(x: float64):
    a = absolute(x)
    high, low = expm1_parts_f64(select_min(20.0, a))
    return copysign(select(a > 20.0, scaled_exp_f64(a, -1), sinh_of(high, low)), x)


@builtin("cosh")
def cosh_f32(x: float32):
    """Hyperbolic cosine."""
    h = scaled_exp_f32(absolute(x), -1)
    return h + 0.25 / h


@builtin("cosh")
def cosh_f64(x: float64):
    h = scaled_exp_f64(absolute(x), -1)
    return h + 0.25 / h


@library_function
def tanh_of(high, low):
    """tanh(x) from exp(2 x) - 1 = high + low: e / (e + 2)."""
    bottom = high + 2.0
    larger_first = select(high > 2.0, (high - bottom) + 2.0, (2.0 - bottom) + high)
    return quotient(high, low, bottom, larger_first + low)


@builtin("tanh")
def tanh_f32(x: float32):
    """Hyperbolic tangent."""
    high, low = expm1_parts_f32(2.0 * select_min(20.0, absolute(x)))  # beyond, the result is 1
    return copysign(tanh_of(high, low), x)


@builtin("tanh")
def tanh_f64(x: float64):
    high, low = expm1_parts_f64(2.0 * select_min(40.0, absolute(x)))
    return copysign(tanh_of(high, low), x)
