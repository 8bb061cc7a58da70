"""Runs a function of the kernel language over arrays, as tests of the library need it."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from engine.compiler import lang as k
from engine.context import array, empty, launch

MANTISSA = {np.dtype(np.float32): (24, -126), np.dtype(np.float64): (53, -1022)}  # bits, least normal exponent


def unary(function: Any, dtype: Any, result: Any, device: str) -> Callable[[Any], np.ndarray]:
    """`function` of one argument as a host function over a batch."""

    @k.kernel
    def apply1(x: k.array(dtype=dtype), out: k.array(dtype=result)):
        i = k.tid()
        out[i] = function(x[i])

    return lambda x: _run(apply1, result, device, (dtype, x))


def binary(function: Any, dtypes: tuple[Any, Any], result: Any, device: str) -> Callable[[Any, Any], np.ndarray]:
    """`function` of two arguments as a host function over a batch."""
    first, second = dtypes

    @k.kernel
    def apply2(x: k.array(dtype=first), y: k.array(dtype=second), out: k.array(dtype=result)):
        i = k.tid()
        out[i] = function(x[i], y[i])

    return lambda x, y: _run(apply2, result, device, (first, x), (second, y))


def ternary(function: Any, dtypes: tuple[Any, Any, Any], result: Any, device: str) -> Callable[..., np.ndarray]:
    """`function` of three arguments as a host function over a batch."""
    first, second, third = dtypes

    @k.kernel
    def apply3(x: k.array(dtype=first), y: k.array(dtype=second), z: k.array(dtype=third), out: k.array(dtype=result)):
        i = k.tid()
        out[i] = function(x[i], y[i], z[i])

    return lambda x, y, z: _run(apply3, result, device, (first, x), (second, y), (third, z))


def _run(kernel: Any, result: Any, device: str, *inputs: tuple[Any, Any]) -> np.ndarray:
    n = len(inputs[0][1])
    out = empty(n, dtype=result, device=device)
    out.numpy().view(np.uint8)[...] = 0xCD
    arrays = [array(np.ascontiguousarray(x), dtype=dtype, device=device) for dtype, x in inputs]
    launch(kernel, dim=n, inputs=[*arrays, out], device=device)
    return out.numpy()


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units in the last place of `exact`; agreeing infinities and NaNs have no error.

    exact: float64 for float32 results; for float64 results an object array of mpmath numbers.
    """
    bits, least = MANTISSA[got.dtype]
    if exact.dtype == object:
        return np.array([_ulp_exact(float(g), e, bits, least) for g, e in zip(got, exact, strict=True)])
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(exact)[1] - 1, least)
        error = np.abs(got.astype(np.float64) - exact) / np.ldexp(1.0, exponent - (bits - 1))
        overflow = np.abs(exact) >= float(np.finfo(got.dtype).max) * (1 + 2.0**-25)
    same = (got == exact) | (np.isnan(got) & np.isnan(exact)) | (overflow & (got == np.copysign(np.inf, exact)))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def _ulp_exact(got: float, exact: Any, bits: int, least: int) -> float:
    if mpmath.isnan(exact) or np.isnan(got):
        return 0.0 if mpmath.isnan(exact) and np.isnan(got) else np.inf
    if not mpmath.isfinite(exact) or not np.isfinite(got):
        return 0.0 if float(exact) == got else np.inf
    exponent = least if exact == 0 else max(int(mpmath.floor(mpmath.log(abs(exact), 2))), least)
    return float(abs(mpmath.mpf(got) - exact) / mpmath.mpf(2) ** (exponent - (bits - 1)))
