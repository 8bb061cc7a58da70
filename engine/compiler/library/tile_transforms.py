"""Fourier transforms of tiles: mixed radix after Stockham, no reordering; lengths are best products of small primes."""

from engine.compiler.library.intrinsics import each
from engine.compiler.library.registry import library_function, name_of
from engine.compiler.types import int32

cos, sin = name_of("cos"), name_of("sin")


@library_function
def fill_roots(roots, dtype, sign):
    """The roots of unity exp(sign 2 pi i k / n)."""
    n = int32(roots.shape[0])
    for i in each(n):
        angle = dtype(sign * 6.283185307179586) * (dtype(i) / dtype(n))
        roots[i] = roots.dtype(cos(angle), sin(angle))


@library_function
def butterflies(lines, scratch, roots, p, before):
    """One step of all lines: transforms of the prime length p, after steps whose lengths have the product `before`.

    With s = before and m = n / (p s): element q + s (j + m t) of the input, for t = 0 … p - 1, gives element
    q + s (p j + r) of the output for r = 0 … p - 1, turned by the root of index j r s.
    """
    n = int32(roots.shape[0])
    s = int32(before)
    m = n // (p * s)
    for line in range(int32(lines.shape[0])):
        for j in each(m):
            for r in each(int32(p)):
                turn = roots[(j * r * s) % n]
                for q in each(s):
                    total = lines[line, q + s * j]
                    for t in range(1, int32(p)):
                        x = lines[line, q + s * (j + m * t)]
                        w = roots[(t * r % p) * (n // p)]
                        total = total + roots.dtype(x[0] * w[0] - x[1] * w[1], x[0] * w[1] + x[1] * w[0])
                    scratch[q + s * (p * j + r)] = roots.dtype(
                        total[0] * turn[0] - total[1] * turn[1], total[0] * turn[1] + total[1] * turn[0]
                    )
        for i in each(n):
            lines[line, i] = scratch[i]
