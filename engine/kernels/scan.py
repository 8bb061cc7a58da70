"""Prefix sums of int32 arrays on the device, in blocks of fixed size: the same tree over the index on all devices."""

from engine.compiler import lang as k
from engine.context import launch, zeros

BLOCK = 1024  # elements that one thread adds in ascending order


@k.kernel
def sum_blocks(src: k.array(dtype=int), sums: k.array(dtype=int), n: int):
    block = k.tid()
    first = block * BLOCK
    total = 0
    for i in range(first, min(first + BLOCK, n)):
        total += src[i]
    sums[block] = total


@k.kernel
def scan_blocks(
    src: k.array(dtype=int), dst: k.array(dtype=int), offsets: k.array(dtype=int), n: int, inclusive: int, closed: int
):
    block = k.tid()
    first = block * BLOCK
    last = min(first + BLOCK, n)
    total = 0
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
    """Prefix sums with the scratch memory for up to `capacity` elements."""

    def __init__(self, capacity: int, device=None):
        self.device = device
        self.sums = []  # block sums, level by level, and behind them their scans
        while capacity > BLOCK:
            capacity = -(-capacity // BLOCK)
            self.sums.append((zeros(capacity, dtype=int, device=device), zeros(capacity, dtype=int, device=device)))
        self.nothing = zeros(1, dtype=int, device=device)

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
    """Prefix sums of the int32 array `src` into `dst` (n,), exclusive by default; in dst (n + 1,) the total comes last.

    Blelloch 1990 with blocks of 1024 elements: the same sums on every device and with any number of threads.
    """
    Scan(len(src), src.device).run(src, dst, len(src), inclusive)
