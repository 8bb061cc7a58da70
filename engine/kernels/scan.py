"""Prefix sums on the device: blocks of fixed size, so that the tree depends on the element index alone."""

from typing import Any

from engine.compiler import lang as k
from engine.context import launch, zeros

BLOCK = 1024  # elements that one thread adds in ascending order


@k.kernel
def sum_blocks(src: k.array(dtype=Any), sums: k.array(dtype=Any), n: int):
    block = k.tid()
    first = block * BLOCK
    total = src[first]
    for i in range(first + 1, min(first + BLOCK, n)):
        total += src[i]
    sums[block] = total


@k.kernel
def scan_blocks(
    src: k.array(dtype=Any), dst: k.array(dtype=Any), offsets: k.array(dtype=Any), n: int, inclusive: int, closed: int
):
    block = k.tid()
    first = block * BLOCK
    last = min(first + BLOCK, n)
    total = offsets[0]
    if n > BLOCK:
        total = offsets[block]
    for i in range(first, last):
        value = src[i]
        if inclusive == 1:
            total += value
            dst[i] = total
        else:
            dst[i] = total
            total += value
    if closed == 1 and last == n:
        dst[n] = total


class Scan:
    """Prefix sums of numbers or vectors, with the scratch memory for up to `capacity` elements of `dtype`."""

    def __init__(self, capacity: int, device=None, dtype=int):
        self.device = device
        self.sums = []  # block sums, level by level, and behind them their scans
        while capacity > BLOCK:
            capacity = -(-capacity // BLOCK)
            self.sums.append((zeros(capacity, dtype=dtype, device=device), zeros(capacity, dtype=dtype, device=device)))
        self.nothing = zeros(1, dtype=dtype, device=device)

    def run(self, src, dst, n: int, inclusive: bool = False, level: int = 0) -> None:
        """dst[i] = src[0] + … + src[i − 1] for i < n (with src[i] if inclusive); an exclusive scan also writes the
        total to dst[n] where dst is longer than n. dst may be src."""
        if n <= 0:
            if not inclusive and len(dst) > 0:
                dst[:1].zero_()
            return
        blocks = -(-n // BLOCK)
        offsets = self.nothing
        if blocks > 1:
            sums, offsets = self.sums[level]
            launch(sum_blocks, blocks, inputs=[src, sums, n], device=self.device)
            self.run(sums, offsets, blocks, level=level + 1)
        closed = int(not inclusive and len(dst) > n and level == 0)
        launch(scan_blocks, blocks, inputs=[src, dst, offsets, n, int(inclusive), closed], device=self.device)


def scan(src, dst, inclusive: bool = False) -> None:
    """Prefix sums of `src` into `dst` (n,), exclusive by default; with dst (n + 1,) the total comes last.

    Blelloch 1990 with blocks of 1024 elements: the same sums on every device and with any number of threads.
    """
    Scan(len(src), src.device, src.dtype).run(src, dst, len(src), inclusive)
