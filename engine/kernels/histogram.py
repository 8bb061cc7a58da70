"""Histograms on the device: each block counts in a row of its own, then the rows are added. No atomics."""

from typing import Any

from engine.compiler import lang as k
from engine.context import empty, launch

BLOCK = 4096  # elements, at least, that one thread counts
SHARE = 16  # elements for each count of a row, so that adding the rows stays the smaller part


@k.requires(lambda tid, values, edges, rows, bins, n: 1 <= bins and bins < edges.shape[0] and bins <= rows.shape[1]
    and tid < rows.shape[0] and n <= values.shape[0])  # fmt: skip
@k.kernel
def count_values(
    values: k.array(dtype=Any), edges: k.array(dtype=k.float64), rows: k.array(dtype=int, ndim=2), bins: int, n: int,
    size: int,
):  # fmt: skip
    block = k.tid()
    for b in range(bins):
        rows[block, b] = 0
    low, high = edges[0], edges[bins]
    scale = k.float64(bins) / (high - low)
    first = block * size
    for i in range(first, first + min(size, n - first)):
        value = k.float64(values[i])
        if value >= low and value <= high:  # so is no NaN
            b = k.clamp(int((value - low) * scale), 0, bins - 1)
            # the product is rounded: what counts is between which edges the value lies
            if value < edges[b]:
                b -= 1
            elif b < bins - 1 and value >= edges[b + 1]:
                b += 1
            k.assume(b >= 0 and b < bins, "low <= value <= high")
            rows[block, b] = rows[block, b] + 1  # plain: no other thread has this row


@k.requires(lambda tid, rows, counts, blocks: tid < counts.shape[0] and tid < rows.shape[1]
    and blocks <= rows.shape[0])  # fmt: skip
@k.kernel
def add_rows(rows: k.array(dtype=int, ndim=2), counts: k.array(dtype=int), blocks: int):
    b = k.tid()
    total = 0
    for row in range(blocks):
        total += rows[row, b]
    counts[b] = total


def histogram(values, counts, edges, n: int) -> None:
    """counts[b] = how many of values[:n] lie between edges[b] and edges[b + 1] (the last bin with its upper edge).

    values: numbers of 32 bits or float64. counts: int32 (bins,). edges: float64 (bins + 1,), ascending and evenly
    spaced up to rounding. Values outside of the edges and NaN are not counted.
    """
    if n == 0:
        counts.zero_()
        return
    bins = len(counts)
    size = max(BLOCK, SHARE * bins)
    blocks = -(-n // size)
    rows = empty((blocks, bins), dtype=int, device=values.device)
    launch(count_values, blocks, inputs=[values, edges, rows, bins, n, size], device=values.device)
    launch(add_rows, bins, inputs=[rows, counts, blocks], device=values.device)
