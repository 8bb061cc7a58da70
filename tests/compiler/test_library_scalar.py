"""Scalar functions against exact values: random, huge, tiny and special arguments, near multiples of pi/2.

docs/maths.md holds the errors that the same comparison gives on many more arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from engine.compiler import lang as k
from tests.compiler.library_runner import binary, ulp_error, unary

UNARY = {
    "sin": (mpmath.sin, (-10, 10)), "cos": (mpmath.cos, (-10, 10)), "tan": (mpmath.tan, (-10, 10)),
    "asin": (mpmath.asin, (-1, 1)), "acos": (mpmath.acos, (-1, 1)), "atan": (mpmath.atan, (-5, 5)),
    "sinh": (mpmath.sinh, (-20, 20)), "cosh": (mpmath.cosh, (-20, 20)), "tanh": (mpmath.tanh, (-5, 5)),
    "exp": (mpmath.exp, (-90, 90)), "exp2": (lambda x: mpmath.mpf(2) ** x, (-150, 150)),
    "expm1": (mpmath.expm1, (-2, 2)), "log": (mpmath.log, (0, 3)), "log1p": (mpmath.log1p, (-1, 1)),
    "log2": (lambda x: mpmath.log(x, 2), (0, 3)), "log10": (mpmath.log10, (0, 3)), "cbrt": (mpmath.cbrt, (0, 30)),
}  # fmt: skip
NUMPY = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]
LIMIT = 2.0  # ulp


def specials(dtype: Any) -> np.ndarray:
    info = np.finfo(dtype)
    edges = [info.max, info.tiny, info.smallest_subnormal, info.tiny * 0.37, info.eps, 1 + info.eps, 1 - info.epsneg]
    return np.array([*SPECIAL, *edges, *(-e for e in edges)], dtype)


def arguments(rng: np.random.Generator, dtype: Any, low: float, high: float, n: int) -> np.ndarray:
    """Specials, bit patterns of every size, the main range, near ±1 and neighbours of multiples of pi/2."""
    unsigned = np.uint32 if dtype is np.float32 else np.uint64
    patterns = rng.integers(0, np.iinfo(unsigned).max, n, unsigned).view(dtype)
    near = rng.choice([-1.0, 1.0], n) + rng.normal(size=n) * 2.0 ** rng.uniform(-52, 0, n)
    multiples = (np.round(10 ** rng.uniform(0, 9, n)) * (math.pi / 2)).astype(dtype)
    with np.errstate(invalid="ignore"):
        return np.concatenate([specials(dtype), patterns, rng.uniform(low, high, n), near, multiples]).astype(dtype)


def scalar_type(dtype: Any) -> Any:
    return k.float32 if dtype is np.float32 else k.float64


def real(function: Callable[..., Any], *args: float) -> Any:
    """The exact value, NaN outside the domain, the limit at poles and infinities."""
    try:
        value = function(*(mpmath.mpf(a) for a in args))
    except (ZeroDivisionError, ValueError, OverflowError):
        return mpmath.nan
    return mpmath.nan if isinstance(value, mpmath.mpc) else value


@pytest.mark.parametrize("name", UNARY)
def test_float32_functions_are_within_two_ulp(name: str, rng: np.random.Generator, device: str) -> None:
    x = arguments(rng, np.float32, *UNARY[name][1], n=50_000)
    got = unary(getattr(k, name), k.float32, k.float32, device)(x)
    with np.errstate(all="ignore"):
        exact = NUMPY.get(name, getattr(np, name, None))(x.astype(np.float64))
    error = ulp_error(got, exact)
    worst = int(error.argmax())
    assert error[worst] <= LIMIT, (name, x[worst], got[worst], exact[worst])
    zero = (x == 0) & (got == 0)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("name", UNARY)
def test_float64_functions_are_within_two_ulp(name: str, rng: np.random.Generator, device: str) -> None:
    function, (low, high) = UNARY[name]
    x = arguments(rng, np.float64, low, high, n=100)
    got = unary(getattr(k, name), k.float64, k.float64, device)(x)
    finite = np.isfinite(x) & (np.abs(x) < 1e18 if name in ("exp", "exp2", "expm1", "sinh", "cosh", "tanh") else True)
    if name == "cbrt":
        x, got, finite = x[x >= 0], got[x >= 0], finite[x >= 0]
    with mpmath.workprec(1300 if name in ("sin", "cos", "tan") else 300):
        exact = np.array([real(function, float(v)) for v in x[finite]], object)
        error = ulp_error(got[finite], exact)
    worst = int(error.argmax())
    assert error[worst] <= LIMIT, (name, x[finite][worst], got[finite][worst], exact[worst])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got[~finite], NUMPY.get(name, getattr(np, name, None))(x[~finite]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angles_closest_to_multiples_of_half_pi(dtype: Any, device: str) -> None:
    """The hardest reductions: 16367173 * 2**72 in float32, 6381956970095103 * 2**797 in float64 (Muller, 2006)."""
    x = np.array([16367173.0 * 2.0**72] if dtype is np.float32 else [6381956970095103.0 * 2.0**797], dtype)
    for name in ("sin", "cos", "tan"):
        got = unary(getattr(k, name), scalar_type(dtype), scalar_type(dtype), device)(x)
        with mpmath.workprec(1300):
            assert ulp_error(got, np.array([real(UNARY[name][0], float(x[0]))], object))[0] <= LIMIT


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pow(dtype: Any, rng: np.random.Generator, device: str) -> None:
    t = scalar_type(dtype)
    n, limit = (40_000, 149) if dtype is np.float32 else (300, 1070)
    x = np.concatenate([np.exp(rng.normal(size=n)), 2.0 ** rng.uniform(-100, 100, n), 1 + rng.normal(size=n) * 1e-3])
    x = np.concatenate([x, -x[:n]]).astype(dtype)
    with np.errstate(divide="ignore"):
        y = rng.uniform(-limit, limit, x.size) / np.log2(np.abs(x))
    y[-n:] = rng.integers(-20, 20, n)
    y = np.clip(y, -1e6, 1e6).astype(dtype)
    got = binary(k.pow, (t, t), t, device)(x, y)
    if dtype is np.float32:
        error = ulp_error(got, np.power(x.astype(np.float64), y.astype(np.float64)))
    else:
        with mpmath.workprec(300):
            error = ulp_error(got, np.array([real(mpmath.power, float(a), float(b)) for a, b in zip(x, y)], object))
    worst = int(error.argmax())
    assert error[worst] <= LIMIT, (x[worst], y[worst], got[worst])


@pytest.mark.parametrize("t", [k.int32, k.uint8, k.int64])
def test_whole_powers(t: Any, device: str) -> None:
    low = -4 if t != k.uint8 else 0
    x, n = (v.ravel().astype(t.numpy) for v in np.meshgrid(np.arange(low, 8), np.arange(low, 9)))
    bits = t.bits
    expected = [pow(int(a), int(b)) if b >= 0 else {1: 1, -1: (-1) ** int(-b)}.get(int(a), 0) for a, b in zip(x, n)]
    got = binary(k.pow, (t, t), t, device)(x, n)
    assert list(got.astype(object) % 2**bits) == [e % 2**bits for e in expected]
    assert k.pow(3, 4) == 81


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["pow", "atan2", "hypot", "fmod", "mod"])
def test_pairs_of_special_values(name: str, dtype: Any, device: str) -> None:
    """Every pair of zeros, infinities, NaN, halves, odd and even numbers gives what IEEE 754 and C say."""
    values = np.concatenate([specials(dtype), np.array([3.0, -3.0, 4.0, 1e30, -1e30, 16777217.0], dtype)])
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        function = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot, "fmod": np.fmod, "mod": np.mod}[name]
        expected = function(x, y)
    t = scalar_type(dtype)
    got = binary(getattr(k, name), (t, t), t, device)(x, y)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).smallest_subnormal)
    known = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_float32_pairs_are_within_two_ulp(name: str, rng: np.random.Generator, device: str) -> None:
    n = 50_000
    spread = rng.normal(size=(2, n)) * 2.0 ** rng.uniform(-140, 126, (2, n))
    x = np.concatenate([rng.normal(size=n), spread[0]]).astype(np.float32)
    y = np.concatenate([x[:n] * rng.normal(size=n), spread[1]]).astype(np.float32)
    got = binary(getattr(k, name), (k.float32, k.float32), k.float32, device)(x, y)
    exact = {"atan2": np.arctan2, "hypot": np.hypot}[name](x.astype(np.float64), y.astype(np.float64))
    assert ulp_error(got, exact).max() <= LIMIT


@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_float64_pairs_are_within_two_ulp(name: str, rng: np.random.Generator, device: str) -> None:
    x = rng.normal(size=500) * 2.0 ** rng.uniform(-900, 900, 500)
    y = x * rng.normal(size=500) * 2.0 ** rng.uniform(-60, 60, 500)
    got = binary(getattr(k, name), (k.float64, k.float64), k.float64, device)(x, y)
    with mpmath.workprec(300):
        function = {"atan2": mpmath.atan2, "hypot": mpmath.hypot}[name]
        exact = np.array([real(function, float(a), float(b)) for a, b in zip(x, y)], object)
        assert ulp_error(got, exact).max() <= LIMIT


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "mod"])
def test_remainders_are_exact(name: str, dtype: Any, rng: np.random.Generator, device: str) -> None:
    span = 120 if dtype is np.float32 else 1000
    x = (rng.normal(size=4000) * 2.0 ** rng.uniform(-span, span, 4000)).astype(dtype)
    with np.errstate(over="ignore"):
        y = np.concatenate([x[:2000] * np.exp(4 * rng.normal(size=2000)), rng.permutation(x)[:2000]]).astype(dtype)
    t = scalar_type(dtype)
    np.testing.assert_array_equal(binary(getattr(k, name), (t, t), t, device)(x, y), getattr(np, name)(x, y))


ROUND = {
    "frac": lambda x: x - np.trunc(x), "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "sqrt": np.sqrt, "abs": np.abs, "degrees": np.degrees,
    "radians": np.radians,
}  # fmt: skip


@pytest.mark.parametrize("name", ROUND)
def test_rounding_and_simple_functions(name: str, device: str) -> None:
    x = np.array([-3.5, -2.5, -1.2, -0.5, -0.0, 0.0, 0.3, 0.5, 1.5, 2.5, 7.75, 1e6 + 0.5], np.float32)
    with np.errstate(invalid="ignore"):
        expected = ROUND[name](x)
    got = unary(getattr(k, name), k.float32, k.float32, device)(x)
    np.testing.assert_allclose(got, expected, rtol=2e-7)


def test_round_has_no_double_rounding() -> None:
    """0.49999997 + 0.5 rounds to 1 in float32; round() must not be fooled."""
    assert k.round(float(np.float32(0.49999997))) == 0.0
    assert k.round(8388609.0) == 8388609.0


def test_classification_and_steps(device: str) -> None:
    x = np.array([-np.inf, -2.0, -0.0, 0.0, 3.0, np.inf, np.nan], np.float32)
    for name, function in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
        assert np.array_equal(unary(getattr(k, name), k.float32, k.bool_, device)(x), function(x)), name
    assert list(unary(k.sign, k.float32, k.float32, device)(x[:6])) == [-1, -1, 1, 1, 1, 1]
    assert list(unary(k.step, k.float32, k.float32, device)(x[:6])) == [1, 1, 0, 0, 0, 0]
    assert list(unary(k.nonzero, k.float32, k.float32, device)(x[:6])) == [1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("name", ["sin", "acos", "exp", "log10", "cbrt"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_python_scope_gives_the_same_values(name: str, dtype: Any, rng: np.random.Generator, device: str) -> None:
    """The same source runs as Python on NumPy scalars; only the contraction to fma may differ, by an ulp or two."""
    x = np.concatenate([[0.0, 1.0, 0.25], rng.uniform(0.01, 1, 20), rng.uniform(1e5, 1e9, 3) if name == "sin" else []])
    x = x.astype(dtype)
    t = scalar_type(dtype)
    here = np.array([getattr(k, name)(v) for v in x])
    assert here.dtype == dtype
    np.testing.assert_allclose(here, unary(getattr(k, name), t, t, device)(x), rtol=4 * np.finfo(dtype).eps)


def test_python_numbers_give_python_numbers() -> None:
    assert type(k.sin(0.5)) is float and k.sin(0.5) == float(k.sin(np.float32(0.5)))
    assert k.sin(0) == 0.0
    assert type(k.sin(np.float64(0.5))) is np.float64
    assert k.clamp(5, 0, 3) == 3
