"""The error function, its complement and their inverses against mpmath, over their whole ranges."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from tests.compiler.library_runner import ulp_error, unary

DTYPES = [k.float32, k.float64]
LIMIT = 3.5  # ulp
N = 400


def inverse_complement(q: Any) -> Any:
    """The y with erfc(y) = q, 0 < q < 2, by Newton's method on log(erfc(y)), which is concave."""
    if q > 1:
        return -inverse_complement(2 - q)
    y = mpmath.mpf(0) if q > 0.1 else mpmath.sqrt(-mpmath.log(q))
    for _ in range(100):
        c = mpmath.erfc(y)
        step = mpmath.log(c / q) * c * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
        y += step
        if abs(step) <= mpmath.mpf(2) ** -150 * abs(y):
            break
    return y


EXACT = {
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "erfinv": lambda x: mpmath.sign(x) * inverse_complement(1 - abs(x)),
    "erfcinv": inverse_complement,
}


def arguments(name: str, t: Any, rng: np.random.Generator) -> np.ndarray:
    tiny, far, eps = (-44.0, 10.2, 7.0) if t == k.float32 else (-323.0, 27.2, 15.9)
    small = 10.0 ** rng.uniform(-20, 0, N) * rng.choice([-1, 1], N)
    if name in ("erf", "erfc"):
        x = np.concatenate([rng.uniform(-far, far, N), rng.normal(size=N), rng.uniform(0.3, 0.9, N), small])
    elif name == "erfinv":
        x = np.concatenate([rng.uniform(-1, 1, N), 1 - 10.0 ** rng.uniform(-eps, 0, N), small])
    else:
        x = np.concatenate([rng.uniform(0, 2, N), 10.0 ** rng.uniform(tiny, 0, N), 1 + small[np.abs(small) > 1e-16]])
    x = x.astype(t.numpy)
    return x if name in ("erf", "erfc") else x[(np.abs(x - (name == "erfcinv")) < 1) & (x != (name == "erfcinv"))]


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_errors_in_the_last_place(name: str, t: Any, rng: np.random.Generator, device: str) -> None:
    x = arguments(name, t, rng)
    got = unary(getattr(k, name), t, t, device)(x)
    with mpmath.workprec(200):
        error = ulp_error(got, np.array([EXACT[name](mpmath.mpf(float(v))) for v in x], object))
    worst = int(error.argmax())
    assert error[worst] <= LIMIT, (name, x[worst], got[worst])


@pytest.mark.parametrize("t", DTYPES)
def test_special_values(t: Any, device: str) -> None:
    inf, nan = math.inf, math.nan
    x = np.array([0.0, inf, -inf, nan, 1.0, -1.0, 2.0, 40.0, 1e30], t.numpy)
    got = {name: unary(getattr(k, name), t, t, device)(x) for name in EXACT}
    np.testing.assert_array_equal(got["erf"][[0, 1, 2, 3, 7, 8]], [0, 1, -1, nan, 1, 1])
    np.testing.assert_array_equal(got["erfc"][[0, 1, 2, 3, 7, 8]], [1, 0, 2, nan, 0, 0])
    np.testing.assert_array_equal(got["erfinv"], [0, nan, nan, nan, inf, -inf, nan, nan, nan])
    np.testing.assert_array_equal(got["erfcinv"], [inf, nan, nan, nan, 0, nan, -inf, nan, nan])
    assert k.erf(0.5) == pytest.approx(math.erf(0.5), rel=1e-6)
    assert math.copysign(1, k.erf(-0.0)) == math.copysign(1, k.erfinv(-0.0)) == -1


@pytest.mark.parametrize("t", DTYPES)
def test_gradients(t: Any, device: str) -> None:
    slope = 2 / math.sqrt(math.pi) * math.exp(-0.09)
    at = {"erf": (0.3, slope), "erfc": (0.3, -slope)}
    at |= {"erfinv": (math.erf(0.3), 1 / slope), "erfcinv": (math.erfc(0.3), -1 / slope)}
    for name, (x, expected) in at.items():
        function = getattr(k, name)

        @k.kernel
        def apply(x: k.array(dtype=t), out: k.array(dtype=t)):
            out[0] = function(x[0])  # noqa: B023

        value = engine.array([x], dtype=t, device=device, requires_grad=True)
        out = engine.zeros(1, dtype=t, device=device, requires_grad=True)
        with engine.Tape() as tape:
            engine.launch(apply, dim=1, inputs=[value, out], device=device)
        tape.backward(out)
        np.testing.assert_allclose(value.grad.numpy(), [expected], rtol=1e-5 if t == k.float32 else 1e-13)
