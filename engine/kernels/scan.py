"""Prefix sums on the device: lines of fixed size, so that the order of the sums depends on the element index alone."""

from typing import Any

from engine.compiler import lang as k
from engine.context import launch, zeros
from engine.kernels.reduce import sum_rows

LINE = 256  # elements that one thread adds
MANY = 256  # lines from which on their sums are those of `reduce.sum_rows`


@k.requires(lambda tid, src, sums, n: tid < sums.shape[0] and 0 < n and tid <= (n - 1) // LINE and n <= src.shape[0])
@k.kernel
def sum_lines(src: k.array(dtype=Any), sums: k.array(dtype=Any), n: int):
    line = k.tid()
    first = line * LINE
    total = src[first]
    for i in range(first + 1, min(first + LINE, n)):
        total += src[i]
    sums[line] = total


@k.kernel
def scan_lines(
    src: k.array(dtype=Any), dst: k.array(dtype=Any), offsets: k.array(dtype=Any), n: int, inclusive: int, closed: int
):
    """offsets[l] is the sum of all elements before line l.

    Four elements are added to each other before they are added to what comes before them: that sum then waits for one
    addition in four elements, not for four.
    """
    line = k.tid()
    first = line * LINE
    last = min(first + LINE, n)
    total = offsets[line]
    fours = first + (last - first) // 4 * 4
    for i in range(first, fours, 4):
        a = src[i]
        ab = a + src[i + 1]
        c = src[i + 2]
        abc = ab + c
        abcd = ab + (c + src[i + 3])
        p, q, r, s = total, total + a, total + ab, total + abc
        total += abcd
        if inclusive == 1:
            p, q, r, s = q, r, s, total
        dst[i], dst[i + 1], dst[i + 2], dst[i + 3] = p, q, r, s
    for i in range(fours, last):
        before = total
        total += src[i]
        if inclusive == 1:
            before = total
        dst[i] = before
    if closed == 1 and last == n:
        dst[n] = total


class Scan:
    """Prefix sums of numbers or vectors, with the scratch memory for up to `capacity` elements of `dtype`."""

    def __init__(self, capacity: int, device=None, dtype=int):
        self.device = device
        self.sums = []  # sums of lines, level by level, and behind them their scans
        while capacity > LINE:
            capacity = -(-capacity // LINE)
            self.sums.append((zeros(capacity, dtype=dtype, device=device), zeros(capacity, dtype=dtype, device=device)))
        self.nothing = zeros(1, dtype=dtype, device=device)

    def run(self, src, dst, n: int, inclusive: bool = False, level: int = 0) -> None:
        """dst[i] = src[0] + … + src[i − 1] for i < n (with src[i] if inclusive); an exclusive scan also writes the
        total to dst[n] where dst is longer than n. dst may be src."""
        if n <= 0:
            if not inclusive and len(dst) > 0:
                dst[:1].zero_()
            return
        lines = -(-n // LINE)
        offsets = self.nothing
        if lines > 1:
            sums, offsets = self.sums[level]
            whole = lines - 1 if lines >= MANY else 0
            if whole:
                sum_rows(src[: whole * LINE].contiguous().reshape(whole, LINE), sums[:whole], LINE)
            given = [src[whole * LINE :], sums[whole:]] if whole else [src, sums]
            launch(sum_lines, lines - whole, inputs=[*given, n - whole * LINE], device=self.device)
            self.run(sums, offsets, lines, level=level + 1)
        closed = int(not inclusive and len(dst) > n and level == 0)
        launch(scan_lines, lines, inputs=[src, dst, offsets, n, int(inclusive), closed], device=self.device)


def scan(src, dst, inclusive: bool = False) -> None:
    """Prefix sums of `src` into `dst` (n,), exclusive by default; with dst (n + 1,) the total comes last.

    Blelloch 1990 with lines of 256 elements: the same sums on every device and with any number of threads.
    """
    Scan(len(src), src.device, src.dtype).run(src, dst, len(src), inclusive)
