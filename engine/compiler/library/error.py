"""The error function, its complement and their inverses in float32 and float64.

erf(x) = x + x p(x**2) near 0. erfc(x) = exp(-x**2) g(x) / (1 + 2 x) beyond, g a polynomial in (x - k) / (x + k)
(Shepherd and Laframboise 1981). The inverses are polynomials in w = -log(1 - x**2) near 0 and in its root beyond (Giles
2010), in float64 followed by a step of Halley's method. All polynomials are interpolations at Chebyshev points.
"""

import math

from engine.compiler.library.exponential import scaled_exp_f32, scaled_exp_f64
from engine.compiler.library.primitives import absolute, copysign, fma, select, select_min, sqrt
from engine.compiler.library.registry import builtin, library_function, name_of
from engine.compiler.types import float32, float64

log = name_of("log")
INFINITY, NAN = math.inf, math.nan
HALF_ROOT_PI = 0.8862269254527580


# --- erf and erfc ---------------------------------------------------------------------------------------------------


@library_function
def series_f32(x: float32):
    """erf(x) / x - 1 for |x| <= 0.83."""
    z = x * x
    p = fma(z, -1.0996786841133144e-05, 0.00011632403038674966)
    p = fma(p, z, -0.0008523942087776959)
    p = fma(p, z, 0.005223189480602741)
    p = fma(p, z, -0.02686603181064129)
    p = fma(p, z, 0.11283790320158005)
    p = fma(p, z, -0.37612637877464294)
    p = fma(p, z, 0.12837916612625122)
    return p


@library_function
def series_f64(x: float64):
    z = x * x
    p = fma(z, -4.854811552046133e-12, 9.039256644746607e-11)
    p = fma(p, z, -1.2242554730439475e-09)
    p = fma(p, z, 1.4803218221553985e-08)
    p = fma(p, z, -1.636561738456435e-07)
    p = fma(p, z, 1.6462105214950407e-06)
    p = fma(p, z, -1.4925650098392713e-05)
    p = fma(p, z, 0.00012055332976634822)
    p = fma(p, z, -0.0008548327023381428)
    p = fma(p, z, 0.005223977625441582)
    p = fma(p, z, -0.02686617064513122)
    p = fma(p, z, 0.11283791670955126)
    p = fma(p, z, -0.37612638903183754)
    p = fma(p, z, 0.1283791670955126)
    return p


@library_function
def scaled_erfc_f32(x: float32):
    """exp(x**2) erfc(x) for 0.72 <= x <= 11."""
    t = (x - 2.0) / (x + 2.0)
    p = fma(t, 0.0003146094677504152, -0.00039904745062813163)
    p = fma(p, t, -0.0015192530117928982)
    p = fma(p, t, 0.0012678925413638353)
    p = fma(p, t, 0.008735325187444687)
    p = fma(p, t, -0.008034766651690006)
    p = fma(p, t, -0.05422107130289078)
    p = fma(p, t, 0.1640513688325882)
    p = fma(p, t, -0.16603036224842072)
    p = fma(p, t, -0.09276382625102997)
    p = fma(p, t, 1.2769783735275269)
    return p / fma(2.0, x, 1.0)


@library_function
def scaled_erfc_f64(x: float64):
    """exp(x**2) erfc(x) for 0.72 <= x <= 30."""
    t = (x - 4.0) / (x + 4.0)
    p = fma(t, 1.0402671586809411e-09, 2.629472009454548e-09)
    p = fma(p, t, -1.3293484934555243e-08)
    p = fma(p, t, -2.0334176753441506e-08)
    p = fma(p, t, 1.0875424922774756e-07)
    p = fma(p, t, 7.784647591972094e-08)
    p = fma(p, t, -8.242118191720883e-07)
    p = fma(p, t, 2.913829553809709e-07)
    p = fma(p, t, 5.709010237391499e-06)
    p = fma(p, t, -1.1220891227037354e-05)
    p = fma(p, t, -2.439893171031276e-05)
    p = fma(p, t, 0.00015062133391276797)
    p = fma(p, t, -0.00019925676677127986)
    p = fma(p, t, -0.0007577732228663053)
    p = fma(p, t, 0.0050319699895910305)
    p = fma(p, t, -0.016197734065684415)
    p = fma(p, t, 0.03716751553637247)
    p = fma(p, t, -0.06633036581166181)
    p = fma(p, t, 0.09373283499840697)
    p = fma(p, t, -0.10103906603632465)
    p = fma(p, t, 0.06809705425469136)
    p = fma(p, t, 0.015379652102620036)
    p = fma(p, t, -0.1396211168405625)
    p = fma(p, t, 1.2329951186255526)
    return p / fma(2.0, x, 1.0)


@library_function
def erfc_far_f32(x: float32):
    """erfc(x) for x >= 0.72; the scale keeps the digits of a subnormal result until the last rounding."""
    x = select_min(11.0, x)
    square = x * x
    low = fma(x, x, -square)
    e = scaled_exp_f32(-square, 40)
    return fma(-e, low, e) * scaled_erfc_f32(x) * 9.094947017729282e-13


@library_function
def erfc_far_f64(x: float64):
    x = select_min(30.0, x)
    square = x * x
    low = fma(x, x, -square)
    e = scaled_exp_f64(-square, 100)
    return fma(-e, low, e) * scaled_erfc_f64(x) * 7.888609052210118e-31


@builtin("erf")
def erf_f32(x: float32):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    a = absolute(x)
    y = fma(x, series_f32(x), x)
    if a > 0.8:
        y = copysign(1.0 - erfc_far_f32(a), x)
    return y


@builtin("erf")
def erf_f64(x: float64):
    a = absolute(x)
    y = fma(x, series_f64(x), x)
    if a > 0.8:
        y = copysign(1.0 - erfc_far_f64(a), x)
    return y


@builtin("erfc")
def erfc_f32(x: float32):
    """1 - erf(x), exact to the last digits also where that is small."""
    a = absolute(x)
    y = fma(-x, series_f32(x), 1.0 - x)
    if a > 0.8:
        far = erfc_far_f32(a)
        y = select(x < 0.0, 2.0 - far, far)
    return y


@builtin("erfc")
def erfc_f64(x: float64):
    a = absolute(x)
    y = fma(-x, series_f64(x), 1.0 - x)
    if a > 0.8:
        far = erfc_far_f64(a)
        y = select(x < 0.0, 2.0 - far, far)
    return y


# --- inverses -------------------------------------------------------------------------------------------------------


@library_function
def inverse_near(x, w):
    """The y with erf(y) = x, w = -log(1 - x**2) <= 5, to 24 bits."""
    t = w - 2.5
    p = fma(t, -8.931926309685423e-09, 2.333596782477798e-08)
    p = fma(p, t, 4.681313612309168e-07)
    p = fma(p, t, -3.4639851946849376e-06)
    p = fma(p, t, -4.972419901605463e-06)
    p = fma(p, t, 0.00021834939252585173)
    p = fma(p, t, -0.0012527264188975096)
    p = fma(p, t, -0.004177392926067114)
    p = fma(p, t, 0.24664027988910675)
    p = fma(p, t, 1.5014094114303589)
    return x * p


@library_function
def inverse_far_f32(w: float32):
    """The y > 0 with 1 - erf(y)**2 = exp(-w), 5 <= w <= 108."""
    s = sqrt(w)
    if s < 4.1:
        t = s - 3.218
        p = fma(t, -4.119174263905734e-06, -1.2899705552626983e-06)
        p = fma(p, t, 4.2500490962993354e-05)
        p = fma(p, t, -0.00011765457020374015)
        p = fma(p, t, 0.00014027922588866204)
        p = fma(p, t, 0.0004407232627272606)
        p = fma(p, t, -0.003972838632762432)
        p = fma(p, t, 0.017677323892712593)
        p = fma(p, t, 0.9483140110969543)
    else:
        t = 1.0 / s - 0.17307692
        p = fma(t, 36.484867095947266, -10.397551536560059)
        p = fma(p, t, 2.966280221939087)
        p = fma(p, t, -1.5341930389404297)
        p = fma(p, t, 0.9058471322059631)
        p = fma(p, t, -0.08433305472135544)
        p = fma(p, t, -0.19891200959682465)
        p = fma(p, t, 0.9753808379173279)
    return s * p


@library_function
def inverse_far_f64(w: float64):
    """The same to 26 bits, for 5 <= w <= 750."""
    s = sqrt(w)
    t = 1.0 / s - 0.241861770889
    p = fma(t, 37095.841636699966, -10802.29376973586)
    p = fma(p, t, -3251.1521844553013)
    p = fma(p, t, 764.9989170308622)
    p = fma(p, t, 258.7617606425005)
    p = fma(p, t, -41.74904765909976)
    p = fma(p, t, -3.5280017250622993)
    p = fma(p, t, -2.8898615510698167)
    p = fma(p, t, 1.0572036597577004)
    p = fma(p, t, -0.9152765889604876)
    p = fma(p, t, 0.5826945993352146)
    p = fma(p, t, 0.0663644185596417)
    p = fma(p, t, -0.19939007031139683)
    p = fma(p, t, 0.961563870947039)
    return s * p


@library_function
def inverse_from_complement_f32(q: float32):
    """The y with erfc(y) = q, 0 < q < 0.5."""
    w = -log(q) - log(2.0 - q)
    y = inverse_near(1.0 - q, select_min(5.0, w))
    if w > 5.0:
        y = inverse_far_f32(w)
    return y


@library_function
def inverse_from_complement_f64(q: float64):
    w = -log(q) - log(2.0 - q)
    y = inverse_near(1.0 - q, select_min(5.0, w))
    if w > 5.0:
        y = inverse_far_f64(w)
    square = y * y
    low = fma(y, y, -square)
    e = scaled_exp_f64(square, -100)
    step = (q * 1.2676506002282294e30 * fma(e, low, e) - scaled_erfc_f64(y)) * HALF_ROOT_PI
    return y - step / (1.0 + y * step)


@library_function
def inverse_from_value_f64(x: float64, low: float64):
    """The y with erf(y) = x + low, |x| <= 0.7."""
    y = inverse_near(x, -log((1.0 - x) * (1.0 + x)))
    error = fma(y, series_f64(y), y - x) - low
    step = error * HALF_ROOT_PI * scaled_exp_f64(y * y, 0)
    return y - step / (1.0 + y * step)


@builtin("erfinv")
def erfinv_f32(x: float32):
    """The y with erf(y) = x: infinite at -1 and 1, NaN beyond."""
    a = absolute(x)
    y = inverse_near(a, -log(select_min(1.0, (1.0 - a) * (1.0 + a))))
    if a > 0.5:
        y = inverse_from_complement_f32(1.0 - a)
    y = select(a == 1.0, INFINITY, select(a < 1.0, y, NAN))
    return copysign(y, x)


@builtin("erfinv")
def erfinv_f64(x: float64):
    a = absolute(x)
    if a > 0.7:
        y = inverse_from_complement_f64(1.0 - a)
    else:
        y = inverse_from_value_f64(a, 0.0)
    y = select(a == 1.0, INFINITY, select(a < 1.0, y, NAN))
    return copysign(y, x)


@builtin("erfcinv")
def erfcinv_f32(x: float32):
    """The y with erfc(y) = x: infinite at 0 and 2, NaN beyond."""
    a = select(x > 1.0, 2.0 - x, x)
    t = 1.0 - a
    y = inverse_near(t, -log(select_min(1.0, (1.0 - t) * (1.0 + t))))
    if a < 0.5:
        y = inverse_from_complement_f32(a)
    y = select(a == 0.0, INFINITY, select(a > 0.0, y, NAN))
    return select(x > 1.0, -y, y)


@builtin("erfcinv")
def erfcinv_f64(x: float64):
    a = select(x > 1.0, 2.0 - x, x)
    if a < 0.3:
        y = inverse_from_complement_f64(a)
    else:
        t = 1.0 - a
        y = inverse_from_value_f64(t, (1.0 - t) - a)
    y = select(a == 0.0, INFINITY, select(a > 0.0, y, NAN))
    return select(x > 1.0, -y, y)
