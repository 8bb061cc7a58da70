"""Logarithms in float32 and float64.

x = 2**e m with m in sqrt(1/2) … sqrt(2); log(m) = 2 artanh(s) with s = f / (2 + f), f = m - 1, as a series in s**2.
"""

import math

from engine.compiler.library.extended import product, sum_ordered
from engine.compiler.library.primitives import absolute, bitcast, fma, select
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import float32, float64, int32, int64

INFINITY, NAN = math.inf, math.nan


@library_function
def split_f32(x: float32):
    """(e, f) with x = 2**e (1 + f), for finite x > 0."""
    tiny = x < 1.1754943508222875e-38
    bits = bitcast(select(tiny, x * 8388608.0, x), int32)
    e = (bits - 0x3F3504F3) >> 23
    f = bitcast(bits - (e << 23), float32) - 1.0
    return float32(e - select(tiny, 23, 0)), f


@library_function
def split_f64(x: float64):
    tiny = x < 2.2250738585072014e-308
    bits = bitcast(select(tiny, x * 4503599627370496.0, x), int64)
    e = (bits - 0x3FE6A09E667F3BCD) >> 52
    f = bitcast(bits - (e << 52), float64) - 1.0
    return float64(int32(e) - select(tiny, 52, 0)), f


@library_function
def of_special(x, y):
    """y, the logarithm of x, where x is finite and positive; else -inf for 0, inf for inf, NaN."""
    other = select(x == 0.0, -INFINITY, select(x < 0.0, NAN, x))
    return select(x > 0.0 and x < INFINITY, y, other)


@library_function
def log_sum_f32(e: float32, f: float32, low: float32):
    """e ln(2) + log(1 + f) + low."""
    s = f / (f + 2.0)
    z = s * s
    p = fma(z, 0.2987322509288788, 0.39977529644966125)
    p = fma(p, z, 0.6666677594184875) * z
    square = 0.5 * f * f
    rest = fma(s, square + p, fma(e, -1.9046542121259336e-09, low)) - square
    high = fma(e, 0.6931471824645996, f)
    return high + ((fma(e, 0.6931471824645996, -high) + f) + rest)


@library_function
def log_sum_f64(e: float64, f: float64, low: float64):
    s = f / (f + 2.0)
    z = s * s
    p = fma(z, 0.14802139137657638, 0.15313467943731202)
    p = fma(p, z, 0.18183585621368267)
    p = fma(p, z, 0.2222219819341905)
    p = fma(p, z, 0.2857142874577789)
    p = fma(p, z, 0.3999999999940093)
    p = fma(p, z, 0.6666666666666736) * z
    square = 0.5 * f * f
    rest = fma(s, square + p, fma(e, 2.3190468138462996e-17, low)) - square
    high = fma(e, 0.6931471805599453, f)
    return high + ((fma(e, 0.6931471805599453, -high) + f) + rest)


@builtin("log")
def log_f32(x: float32):
    """Natural logarithm."""
    e, f = split_f32(x)
    return of_special(x, log_sum_f32(e, f, 0.0))


@builtin("log")
def log_f64(x: float64):
    e, f = split_f64(x)
    return of_special(x, log_sum_f64(e, f, 0.0))


@builtin("log1p")
def log1p_f32(x: float32):
    """log(1 + x), accurate near 0."""
    u = 1.0 + x
    lost = select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    e, f = split_f32(u)
    near = absolute(x) < 0.25
    y = log_sum_f32(select(near, 0.0, e), select(near, x, f), select(near, 0.0, lost / u))
    return select(absolute(x) < 1e-10, x, of_special(u, y))


@builtin("log1p")
def log1p_f64(x: float64):
    u = 1.0 + x
    lost = select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    e, f = split_f64(u)
    near = absolute(x) < 0.25
    y = log_sum_f64(select(near, 0.0, e), select(near, x, f), select(near, 0.0, lost / u))
    return select(absolute(x) < 1e-20, x, of_special(u, y))


@library_function
def series_argument(f):
    """(s, s_low, z, z_low) with s = f / (2 + f) and z = s * s, each as a sum of two parts."""
    d = f + 2.0
    reciprocal = 1.0 / d
    s = f * reciprocal
    s_low = (fma(-s, d, f) - s * (f - (d - 2.0))) * reciprocal
    z, z_low = product(s, s)
    return s, s_low, z, fma(s + s, s_low, z_low)


@library_function
def series_sum(s, s_low, z, z_low, c, c_low):
    """2 s + s z (c + c_low) as a sum of two parts."""
    w, w_low = product(s, z)
    w_low = w_low + (s * z_low + s_low * z)
    v, v_low = product(w, c)
    v_low = v_low + (w * c_low + w_low * c)
    total, low = sum_ordered(s + s, v)
    return total, low + (s_low + s_low + v_low)


@library_function
def log_parts_f32(f: float32):
    """log(1 + f) as a sum of two parts, to 2**-34 relative."""
    s, s_low, z, z_low = series_argument(f)
    q = fma(fma(z, 0.2342100590467453, 0.285470575094223), z, 0.40000152587890625)
    c, c_low = sum_ordered(float32(0.6666666865348816), q * z)
    return series_sum(s, s_low, z, z_low, c, c_low - 1.9868215517249155e-08)


@library_function
def log_parts_f64(f: float64):
    """log(1 + f) as a sum of two parts, to 2**-64 relative."""
    s, s_low, z, z_low = series_argument(f)
    q = fma(z, 0.12013862377998796, 0.11671818055244577)
    q = fma(q, z, 0.133364660457468)
    q = fma(q, z, 0.15384552986876152)
    q = fma(q, z, 0.1818181892754954)
    q = fma(q, z, 0.222222222170676)
    q = fma(q, z, 0.2857142857144705)
    q = fma(q, z, 0.39999999999999974)
    c, c_low = sum_ordered(float64(0.6666666666666666), q * z)
    return series_sum(s, s_low, z, z_low, c, c_low + 3.700743415417188e-17)


@library_function
def times_constant(high, low, c, c_low):
    """(high + low) (c + c_low) as a sum of two parts."""
    p, p_low = product(high, c)
    return p, p_low + (high * c_low + low * c)


@library_function
def log2_parts_f32(x: float32):
    """log2(x) as a sum of two parts, for finite x > 0."""
    e, f = split_f32(x)
    high, low = log_parts_f32(f)
    high, low = times_constant(high, low, float32(1.4426950216293335), float32(1.925963033500011e-08))
    total, rest = sum_ordered(e, high)
    return total, rest + low


@library_function
def log2_parts_f64(x: float64):
    e, f = split_f64(x)
    high, low = log_parts_f64(f)
    high, low = times_constant(high, low, float64(1.4426950408889634), float64(2.0355273740931033e-17))
    total, rest = sum_ordered(e, high)
    return total, rest + low


@builtin("log2")
def log2_f32(x: float32):
    """Logarithm to base 2."""
    high, low = log2_parts_f32(x)
    return of_special(x, high + low)


@builtin("log2")
def log2_f64(x: float64):
    high, low = log2_parts_f64(x)
    return of_special(x, high + low)


@builtin("log10")
def log10_f32(x: float32):
    """Logarithm to base 10."""
    e, f = split_f32(x)
    high, low = log_parts_f32(f)
    high, low = times_constant(high, low, float32(0.4342944920063019), float32(-1.0103049952192578e-08))
    two, two_low = product(e, float32(0.3010300099849701))
    total, rest = sum_ordered(two, high)
    return of_special(x, total + (rest + (low + fma(e, -1.432098883924482e-08, two_low))))


@builtin("log10")
def log10_f64(x: float64):
    e, f = split_f64(x)
    high, low = log_parts_f64(f)
    high, low = times_constant(high, low, float64(0.4342944819032518), float64(1.098319650216765e-17))
    two, two_low = product(e, float64(0.3010299956639812))
    total, rest = sum_ordered(two, high)
    return of_special(x, total + (rest + (low + fma(e, -2.8037281277851704e-18, two_low))))
