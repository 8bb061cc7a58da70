"""Sums and bounds of arrays on the device, combined in one fixed tree over the element index."""

from engine.compiler import lang as k
from engine.context import launch, zeros

BLOCK = 1024  # elements that one thread combines in ascending order


@k.kernel
def sum_blocks(src: k.array(dtype=float), sums: k.array(dtype=float), n: int):
    block = k.tid()
    first = block * BLOCK
    total = 0.0
    for i in range(first, min(first + BLOCK, n)):
        total += src[i]
    sums[block] = total


def reduce_sum(src, out) -> None:
    """out[0] = sum of the float32 array `src`: blocks of 1024 in ascending order, then their sums the same way."""
    n = len(src)
    while True:
        blocks = -(-n // BLOCK)
        if blocks <= 1:
            launch(sum_blocks, 1, inputs=[src, out, n], device=src.device)
            return
        sums = zeros(blocks, dtype=float, device=src.device)
        launch(sum_blocks, blocks, inputs=[src, sums, n], device=src.device)
        src, n = sums, blocks


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
