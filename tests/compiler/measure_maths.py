"""Measures the errors in docs/maths.md: `python -m tests.compiler.measure_maths [STRIDE]` prints its table.

float32: every STRIDE-th of all 2**32 bit patterns against float64. float64: random arguments against long double, which
must have more bits than double (x86-64, aarch64 Linux).
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from engine.compiler import lang as k
from tests.compiler.library_runner import binary, unary

RANGES = {
    "sin": 1e6, "cos": 1e6, "tan": 1e6, "asin": 1, "acos": 1, "atan": 10, "sinh": 700, "cosh": 700, "tanh": 20,
    "exp": 700,
    "exp2": 1000, "expm1": 40, "log": 10, "log1p": 1, "log2": 10, "log10": 10, "cbrt": 10,
}  # fmt: skip
NUMPY: dict[str, Any] = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "pow": np.power}
BATCH = 1 << 20


def largest(got: np.ndarray, exact: np.ndarray) -> float:
    """Largest error in units in the last place; `exact` has more bits than `got`."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(np.abs(exact))[1] - 1, info.minexp)
        error = np.abs(got.astype(exact.dtype) - exact) / np.ldexp(exact.dtype.type(1), exponent - info.nmant)
        overflow = np.isinf(got) & (np.abs(exact) > exact.dtype.type(info.max) * (1 + exact.dtype.type(info.eps) / 4))
    error[(got == exact) | (np.isnan(got) & np.isnan(exact)) | overflow] = 0
    return float(np.where(np.isnan(error), np.inf, error).max())


def arguments(t: Any, span: float, stride: int) -> Iterator[np.ndarray]:
    """Batches of arguments: all sizes, then the main range, then near ±1."""
    rng = np.random.default_rng(1)
    dtype, unsigned = t.numpy.type, np.uint32 if t == k.float32 else np.uint64
    if t == k.float32:
        for start in range(0, 2**32, stride * BATCH):
            patterns = np.arange(start, min(start + stride * BATCH, 2**32), stride, np.uint64)
            yield patterns.astype(np.uint32).view(np.float32)
    else:
        yield rng.integers(0, 2**64 - 1, BATCH, unsigned).view(dtype)
    for size in (1.0, span):
        yield rng.uniform(-size, size, BATCH).astype(dtype)
    yield (rng.choice([-1.0, 1.0], BATCH) + rng.normal(size=BATCH) * 2.0 ** rng.uniform(-50, 0, BATCH)).astype(dtype)


def pairs(name: str, t: Any) -> tuple[np.ndarray, np.ndarray]:
    """Arguments of a function of two: pow up to overflow and underflow, others of all sizes."""
    rng = np.random.default_rng(2)
    top = 126 if t == k.float32 else 1020
    x = rng.normal(size=4 * BATCH) * 2.0 ** rng.uniform(-top / 4, top / 4, 4 * BATCH)
    if name == "pow":
        x[:BATCH] = 1 + rng.normal(size=BATCH) * 1e-3
        x = np.abs(x).astype(t.numpy)
        with np.errstate(all="ignore"):
            y = rng.uniform(-1.18 * top, 1.01 * top, x.size) / np.log2(x.astype(float))
        return x, np.clip(y, -1e9, 1e9).astype(t.numpy)
    return x.astype(t.numpy), (x * rng.normal(size=x.size) * 2.0 ** rng.uniform(-20, 20, x.size)).astype(t.numpy)


def measure(name: str, t: Any, stride: int) -> float:
    wide = np.float64 if t == k.float32 else np.longdouble
    reference = NUMPY.get(name, getattr(np, name, None))
    with np.errstate(all="ignore"):
        if name in RANGES:
            run = unary(getattr(k, name), t, t, "cpu")
            return max(largest(run(x), reference(x.astype(wide))) for x in arguments(t, RANGES[name], stride))
        x, y = pairs(name, t)
        run2 = binary(getattr(k, name), (t, t), t, "cpu")
        return largest(run2(x, y), reference(x.astype(wide), y.astype(wide)))


def main() -> None:
    stride = int(sys.argv[1]) if len(sys.argv) > 1 else 211
    assert np.finfo(np.longdouble).nmant > 60, "long double is no wider than double here"
    print("| function | float32 | float64 |\n|---|---|---|")
    for name in (*RANGES, "atan2", "pow", "hypot"):
        single, double = (measure(name, t, stride) for t in (k.float32, k.float64))
        print(f"| `{name}` | {single:.2f} | {double:.2f} |", flush=True)


if __name__ == "__main__":
    main()
