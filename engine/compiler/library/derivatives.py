"""Derivatives of library functions that the differentiator does not derive from their code.

Those here split floats into bits, reduce arguments, or are polynomials fitted to a function: a derivative of the fit is
less exact than the function's own derivative, and where bits are taken apart there is none. Decompositions iterate
until nothing is left to do: on a diagonal matrix their code has no derivative, though they have one. All other
functions of the library are differentiated through their bodies. A gradient function takes the arguments, then the
adjoints of results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.compiler.library import arc, decompositions, error, exponential, linear, logarithm, power, remainder, trig
from engine.compiler.library.decompositions import eig3, svd2, svd3
from engine.compiler.library.matrices import diag, transpose
from engine.compiler.library.primitives import floor, select, sqrt, trunc
from engine.compiler.library.registry import BUILTINS, library_function


class Adjoint:
    """`adjoint[x]` in a gradient function: the adjoint of its argument x."""

    intrinsic = __name__ = "adjoint"

    def __getitem__(self, argument: Any) -> Any:
        raise TypeError("adjoint[…] has a meaning in gradient functions only, see func_grad")

    def __repr__(self) -> str:
        return "<intrinsic adjoint>"


adjoint: Any = Adjoint()
# what registers the functions below
SOURCES = (arc, decompositions, error, exponential, linear, logarithm, power, remainder, trig)
sin, cos, exp, exp2, log, pow = (BUILTINS[name] for name in ("sin", "cos", "exp", "exp2", "log", "pow"))
sinh, cosh, sincos, length = (BUILTINS[name] for name in ("sinh", "cosh", "sincos", "length"))
cbrt, hypot = BUILTINS["cbrt"], BUILTINS["hypot"]
erfinv, erfcinv = BUILTINS["erfinv"], BUILTINS["erfcinv"]
TWO_BY_ROOT_PI = 1.1283791670955126
LN_2, LN_10 = 0.6931471805599453, 2.302585092994046


def derivative(name: str) -> Callable[[Any], Any]:
    """Registers the decorated function as the gradient of all implementations of `name` that return their results."""

    def register(gradient: Any) -> Any:
        for implementation in BUILTINS[name].overloads:
            if not implementation.updates:  # those that do are made of the others
                implementation.gradient = gradient
        return gradient

    return register


@derivative("sin")
def sin_gradient(x, g):
    adjoint[x] += g * cos(x)


@derivative("cos")
def cos_gradient(x, g):
    adjoint[x] -= g * sin(x)


@derivative("sincos")
def sincos_gradient(x, g_sin, g_cos):
    s, c = sincos(x)
    adjoint[x] += g_sin * c - g_cos * s


@derivative("tan")
def tan_gradient(x, g):
    c = cos(x)
    adjoint[x] += g / (c * c)


@derivative("asin")
def asin_gradient(x, g):
    adjoint[x] += g / sqrt((1.0 - x) * (1.0 + x))


@derivative("acos")
def acos_gradient(x, g):
    adjoint[x] -= g / sqrt((1.0 - x) * (1.0 + x))


@derivative("atan")
def atan_gradient(x, g):
    adjoint[x] += g / (1.0 + x * x)


@derivative("atan2")
def atan2_gradient(y, x, g):
    """0 at the origin, where the angle is not continuous."""
    square = x * x + y * y
    scale = select(square > 0.0, g / square, g * 0.0)
    adjoint[y] += scale * x
    adjoint[x] -= scale * y


@derivative("sinh")
def sinh_gradient(x, g):
    adjoint[x] += g * cosh(x)


@derivative("cosh")
def cosh_gradient(x, g):
    adjoint[x] += g * sinh(x)


@derivative("tanh")
def tanh_gradient(x, g):
    c = cosh(x)
    adjoint[x] += g / (c * c)


@derivative("exp")
def exp_gradient(x, g):
    adjoint[x] += g * exp(x)


@derivative("exp2")
def exp2_gradient(x, g):
    adjoint[x] += g * exp2(x) * LN_2


@derivative("expm1")
def expm1_gradient(x, g):
    adjoint[x] += g * exp(x)


@derivative("log")
def log_gradient(x, g):
    adjoint[x] += g / x


@derivative("log1p")
def log1p_gradient(x, g):
    adjoint[x] += g / (1.0 + x)


@derivative("log2")
def log2_gradient(x, g):
    adjoint[x] += g / (x * LN_2)


@derivative("log10")
def log10_gradient(x, g):
    adjoint[x] += g / (x * LN_10)


@derivative("erf")
def erf_gradient(x, g):
    adjoint[x] += g * exp(-x * x) * TWO_BY_ROOT_PI


@derivative("erfc")
def erfc_gradient(x, g):
    adjoint[x] -= g * exp(-x * x) * TWO_BY_ROOT_PI


@derivative("erfinv")
def erfinv_gradient(x, g):
    y = erfinv(x)
    adjoint[x] += g * exp(y * y) / TWO_BY_ROOT_PI


@derivative("erfcinv")
def erfcinv_gradient(x, g):
    y = erfcinv(x)
    adjoint[x] -= g * exp(y * y) / TWO_BY_ROOT_PI


@derivative("pow")
def pow_gradient(x, y, g):
    """y x**(y-1) by the base, 0 where y is 0; x**y log(x) by the exponent, 0 where x is not positive."""
    if y != 0.0:
        adjoint[x] += g * y * pow(x, y - 1.0)
    if x > 0.0:
        adjoint[y] += g * pow(x, y) * log(x)


@derivative("cbrt")
def cbrt_gradient(x, g):
    root = cbrt(x)
    adjoint[x] += g / (3.0 * root * root)


@derivative("hypot")
def hypot_gradient(x, y, g):
    """0 at the origin, as for the length of a vector."""
    n = hypot(x, y)
    scale = select(n > 0.0, g / n, g * 0.0)
    adjoint[x] += scale * x
    adjoint[y] += scale * y


@derivative("fmod")
def fmod_gradient(a, b, g):
    """a - b trunc(a / b)"""
    adjoint[a] += g
    adjoint[b] -= g * trunc(a / b)


@derivative("mod")
def mod_gradient(a, b, g):
    """a - b floor(a / b)"""
    adjoint[a] += g
    adjoint[b] -= g * floor(a / b)


@derivative("length")
def length_gradient(a, g):
    """The direction of a; 0 at the origin, where the length has no derivative."""
    n = length(a)
    adjoint[a] += a * select(n > 0.0, g / n, g * 0.0)


# --- decompositions (Giles, "Collected matrix derivative results for forward and reverse mode", 2008) --------------


@library_function
def over_gaps(g, x):
    """g[i, j] / (x[j] - x[i]), 0 where the two are equal: the axes of such a plane are free, and nothing is gained."""
    out = type(g)()
    for i in range(len(x)):
        for j in range(len(x)):
            gap = x[j] - x[i]
            out[i, j] = select(gap != 0.0, g[i, j] / gap, g[i, j] * 0.0)
    return out


@derivative("eig3")
def eig3_gradient(m, g_vectors, g_values):
    """By the symmetric part of m: an eigenvector turns toward another as fast as their eigenvalues are near."""
    v, d = eig3(m)
    p = over_gaps(transpose(v) * g_vectors, d) + diag(g_values)
    adjoint[m] += v * ((p + transpose(p)) * 0.5) * transpose(v)


@library_function
def singular_gradient(u, s, v, g_u, g_s, g_v):
    """U [ F(UᵀŪ - ŪᵀU) S + S F(VᵀV̄ - V̄ᵀV) + S̄ ] Vᵀ with F[i, j] = 1 / (s[j]² - s[i]²)."""
    square = type(s)()
    for i in range(len(s)):
        square[i] = s[i] * s[i]
    a, b = transpose(u) * g_u, transpose(v) * g_v
    left, right = over_gaps(a - transpose(a), square), over_gaps(b - transpose(b), square)
    return u * (left * diag(s) + diag(s) * right + diag(g_s)) * transpose(v)


@derivative("svd3")
def svd3_gradient(m, g_u, g_s, g_v):
    u, s, v = svd3(m)
    adjoint[m] += singular_gradient(u, s, v, g_u, g_s, g_v)


@derivative("svd2")
def svd2_gradient(m, g_u, g_s, g_v):
    u, s, v = svd2(m)
    adjoint[m] += singular_gradient(u, s, v, g_u, g_s, g_v)
