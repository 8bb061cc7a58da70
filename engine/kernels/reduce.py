"""Sums and bounds of arrays on the device, in an order that the number of elements alone decides."""

from typing import Any

from engine.compiler import lang as k
from engine.context import empty, launch, zeros

BLOCK = 1024  # boxes that one thread joins in ascending order


# --- sums -------------------------------------------------------------------------------------------------------------
# A row is cut into pieces of PIECE elements (the last one with what is left over), and COLUMNS threads add a piece: eac
# every COLUMNSth element, in ascending order. So neighbouring threads read neighbouring elements. Their sums are a row
# again, until a few are left, which one thread adds.
#
#     piece   0 1 2 … 31 | 32 33 … 63 | …      thread 1 of the piece adds 1, 33, 65 …

COLUMNS = 32  # two vectors of the widest processors
PIECE = 128 * COLUMNS
FEW = 2 * COLUMNS  # elements that one thread adds


@k.kernel
def sum_columns(src: k.array(dtype=Any, ndim=2), sums: k.array(dtype=Any, ndim=2), pieces: int, n: int):
    row, piece, column = k.tid()
    begin = piece * PIECE
    end = begin + PIECE
    if piece == pieces - 1:
        end = n
    lines = (end - begin) // COLUMNS
    first = begin + column
    total = src[row, first]
    for line in range(1, lines):
        total += src[row, first + line * COLUMNS]
    rest = begin + lines * COLUMNS
    if column < end - rest:
        total += src[row, rest + column]
    sums[row, piece * COLUMNS + column] = total


@k.kernel
def sum_product_columns(
    a: k.array(dtype=Any, ndim=2), b: k.array(dtype=Any, ndim=2), sums: k.array(dtype=Any, ndim=2), pieces: int, n: int
):
    row, piece, column = k.tid()
    begin = piece * PIECE
    end = begin + PIECE
    if piece == pieces - 1:
        end = n
    lines = (end - begin) // COLUMNS
    first = begin + column
    total = a[row, first] * b[row, first]
    for line in range(1, lines):
        at = first + line * COLUMNS
        total += a[row, at] * b[row, at]
    rest = begin + lines * COLUMNS
    if column < end - rest:
        total += a[row, rest + column] * b[row, rest + column]
    sums[row, piece * COLUMNS + column] = total


@k.requires(lambda tid, src, sums, n: tid < src.shape[0] and 1 <= n and n <= src.shape[1] and tid < sums.shape[0])
@k.kernel
def sum_few(src: k.array(dtype=Any, ndim=2), sums: k.array(dtype=Any), n: int):
    row = k.tid()
    total = src[row, 0]
    for i in range(1, n):
        total += src[row, i]
    sums[row] = total


@k.requires(lambda tid, a, b, sums, n: tid < a.shape[0] and tid < b.shape[0] and 1 <= n and n <= a.shape[1]
    and n <= b.shape[1] and tid < sums.shape[0])  # fmt: skip
@k.kernel
def sum_few_products(a: k.array(dtype=Any, ndim=2), b: k.array(dtype=Any, ndim=2), sums: k.array(dtype=Any), n: int):
    row = k.tid()
    total = a[row, 0] * b[row, 0]
    for i in range(1, n):
        total += a[row, i] * b[row, i]
    sums[row] = total


def sum_rows(src, out, n: int, other=None) -> None:
    """out[r] = sum of src[r, :n], or of that times other[r, :n], in an order that n alone decides.

    src, other: (rows, at least n). out: (rows,). The products are those of numbers.
    """
    rows, device = src.shape[0], src.device
    if not rows:
        return
    if not n:
        out.zero_()
        return
    given = [src] if other is None else [src, other]
    while n >= FEW:
        pieces = max(1, n // PIECE)
        sums = empty((rows, pieces * COLUMNS), dtype=out.dtype, device=device)
        kernel = sum_columns if len(given) == 1 else sum_product_columns
        launch(kernel, (rows, pieces, COLUMNS), inputs=[*given, sums, pieces, n], device=device)
        given, n = [sums], pieces * COLUMNS
    launch(sum_few if len(given) == 1 else sum_few_products, rows, inputs=[*given, out, n], device=device)


def reduce_sum(src, out) -> None:
    """out[0] = sum of the array `src` (numbers or vectors)."""
    sum_rows(src.reshape(1, len(src)), out, len(src))


# --- bounds -----------------------------------------------------------------------------------------------------------


@k.requires(lambda tid, lower, upper, n: tid <= n // BLOCK and n <= lower.shape[0] and n <= upper.shape[0])
@k.requires(lambda tid, out_lower, out_upper: tid < out_lower.shape[0] and tid < out_upper.shape[0])
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
