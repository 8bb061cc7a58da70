"""Sums and bounds of arrays on the device, combined in one fixed tree over the element index."""

from typing import Any

from engine.compiler import lang as k
from engine.context import empty, launch, zeros

BLOCK = 1024  # elements that one thread combines in ascending order


@k.kernel
def sum_blocks(src: k.array(dtype=Any, ndim=2), sums: k.array(dtype=Any, ndim=2), n: int):
    row, block = k.tid()
    first = block * BLOCK
    total = src[row, first]
    for i in range(first + 1, min(first + BLOCK, n)):
        total += src[row, i]
    sums[row, block] = total


@k.kernel
def sum_product_blocks(
    a: k.array(dtype=Any, ndim=2), b: k.array(dtype=Any, ndim=2), sums: k.array(dtype=Any, ndim=2), n: int
):
    row, block = k.tid()
    first = block * BLOCK
    total = a[row, first] * b[row, first]
    for i in range(first + 1, min(first + BLOCK, n)):
        total += a[row, i] * b[row, i]
    sums[row, block] = total


def sum_rows(src, out, n: int, other=None) -> None:
    """out[r] = sum of src[r, :n], or of that times other[r, :n]: blocks of 1024 in ascending order, then their sums.

    src, other: (rows, at least n). out: (rows,). The products are those of numbers.
    """
    rows = src.shape[0]
    if not rows:
        return
    if not n:
        out.zero_()
        return
    target = out.reshape(rows, 1)
    while True:
        blocks = -(-n // BLOCK)
        sums = target if blocks == 1 else empty((rows, blocks), dtype=out.dtype, device=src.device)
        if other is None:
            launch(sum_blocks, (rows, blocks), inputs=[src, sums, n], device=src.device)
        else:
            launch(sum_product_blocks, (rows, blocks), inputs=[src, other, sums, n], device=src.device)
            other = None
        if blocks == 1:
            return
        src, n = sums, blocks


def reduce_sum(src, out) -> None:
    """out[0] = sum of the array `src` (numbers or vectors)."""
    sum_rows(src.reshape(1, len(src)), out, len(src))


@k.kernel
def bound_blocks(
    lower: k.array(dtype=k.vec3),
    upper: k.array(dtype=k.vec3),
    out_lower: k.array(dtype=k.vec3),
    out_upper: k.array(dtype=k.vec3),
    n: int,
):
    block = k.tid()
    first = block * BLOCK
    lo = k.vec3(3.0e38)
    hi = k.vec3(-3.0e38)
    for i in range(first, min(first + BLOCK, n)):
        a = lower[i]
        b = upper[i]
        lo = k.vec3(k.select_min(a.x, lo.x), k.select_min(a.y, lo.y), k.select_min(a.z, lo.z))
        hi = k.vec3(k.select_max(b.x, hi.x), k.select_max(b.y, hi.y), k.select_max(b.z, hi.z))
    out_lower[block] = lo
    out_upper[block] = hi


class Bounds:
    """Smallest box around up to `capacity` boxes: `lower`, `upper` hold one vec3 after `run`. Skips NaN."""

    def __init__(self, capacity: int, device=None):
        self.device = device
        blocks = max(1, -(-capacity // BLOCK))
        # the last level is one element long, so that its arrays are the result
        self.levels = [(zeros(blocks, dtype=k.vec3, device=device), zeros(blocks, dtype=k.vec3, device=device))]
        while blocks > 1:
            blocks = -(-blocks // BLOCK)
            self.levels.append((zeros(blocks, dtype=k.vec3, device=device), zeros(blocks, dtype=k.vec3, device=device)))
        self.lower, self.upper = self.levels[-1]

    def run(self, lower, upper, n: int) -> None:
        """Bounds of lower[:n], upper[:n] (vec3 arrays of the capacity's length)."""
        for out_lower, out_upper in self.levels:
            blocks = len(out_lower)
            launch(bound_blocks, blocks, inputs=[lower, upper, out_lower, out_upper, n], device=self.device)
            lower, upper, n = out_lower, out_upper, blocks
