"""Stable radix sort of numbers, alone or with values, on the device, least significant digit first."""

from typing import Any

from engine.compiler import lang as k
from engine.compiler import types
from engine.context import copy, empty, get_device, launch
from engine.kernels.scan import Scan

DIGIT = 8  # bits of a key that one pass sorts by
BINS = 1 << DIGIT
BLOCK = 2048  # elements, at least, that one thread counts and then moves in ascending order
BLOCKS = 256  # a processor gains nothing by more, and each needs BINS counts


# --- unsigned stand-ins: their order is that of the keys --------------------------------------------------------------


@k.func
def ordered(key: k.uint32):
    """The unsigned number whose order among such numbers is the order of the keys."""
    return key


@k.func  # type: ignore[no-redef]
def ordered(key: k.uint64):  # noqa: F811
    return key


@k.func  # type: ignore[no-redef]
def ordered(key: k.int32):  # noqa: F811
    return k.uint32(key) ^ k.uint32(0x80000000)


@k.func  # type: ignore[no-redef]
def ordered(key: k.int64):  # noqa: F811
    return k.uint64(key) ^ k.uint64(0x8000000000000000)


@k.func  # type: ignore[no-redef]
def ordered(key: k.float32):  # noqa: F811
    """Negative numbers turn all bits, others the sign; adding 0 makes −0 and 0 equal keys. All NaN come last."""
    bits = k.bitcast(key + k.float32(0.0), k.uint32)
    turned = k.select(bits >> k.uint32(31) == k.uint32(1), ~bits, bits ^ k.uint32(0x80000000))
    return k.select(key == key, turned, k.uint32(0xFFFFFFFF))


@k.func  # type: ignore[no-redef]
def ordered(key: k.float64):  # noqa: F811
    bits = k.bitcast(key + k.float64(0.0), k.uint64)
    turned = k.select(bits >> k.uint64(63) == k.uint64(1), ~bits, bits ^ k.uint64(0x8000000000000000))
    return k.select(key == key, turned, k.uint64(0xFFFFFFFFFFFFFFFF))  # type: ignore[operator]


@k.func
def digit_of(stand_in: k.uint64, shift: int, mask: int):
    return int(stand_in >> k.uint64(shift)) & mask


@k.func  # type: ignore[no-redef]
def digit_of(stand_in: k.uint32, shift: int, mask: int):  # noqa: F811
    return int(stand_in >> k.uint32(shift)) & mask


# --- one pass ---------------------------------------------------------------------------------------------------------
# A pass counts the digits of each block, scans the counts, and moves each block's elements to their places:
#
#     counts (BINS, blocks)   d = 0: b0 b1 b2 …   d = 1: b0 b1 b2 …      after the scan, counts[d, b] is the place of
#                                                                        block b's first element with digit d


@k.kernel
def count_digits(
    keys: k.array(dtype=Any), counts: k.array(dtype=int), shift: int, mask: int, n: int, size: int, blocks: int
):
    block = k.tid()
    bins = k.zeros(shape=256, dtype=int)
    first = block * size
    for i in range(first, first + min(size, n - first)):
        digit = digit_of(ordered(keys[i]), shift, mask)
        bins[digit] = bins[digit] + 1
    last = BINS * blocks - 1
    for d in range(BINS):
        counts[k.select_min(d * blocks + block, last)] = bins[d]  # as in move_pairs


@k.kernel
def move_keys(
    keys: k.array(dtype=Any), new_keys: k.array(dtype=Any), places: k.array(dtype=int), shift: int, mask: int, n: int,
    size: int, blocks: int,
):  # fmt: skip
    block = k.tid()
    bins = k.zeros(shape=256, dtype=int)
    last = BINS * blocks - 1
    for d in range(BINS):
        bins[d] = places[k.select_min(d * blocks + block, last)]
    first = block * size
    for i in range(first, first + min(size, n - first)):
        key = keys[i]
        digit = digit_of(ordered(key), shift, mask)
        place = bins[digit]
        bins[digit] = place + 1
        new_keys[place] = key


@k.kernel
def move_pairs(
    keys: k.array(dtype=Any), values: k.array(dtype=Any), new_keys: k.array(dtype=Any), new_values: k.array(dtype=Any),
    places: k.array(dtype=int), shift: int, mask: int, n: int, size: int, blocks: int,
):  # fmt: skip
    block = k.tid()
    bins = k.zeros(shape=256, dtype=int)
    last = BINS * blocks - 1
    for d in range(BINS):
        # no effect, but LLVM then makes no second version of this loop, which would take registers from the next one
        bins[d] = places[k.select_min(d * blocks + block, last)]
    first = block * size
    for i in range(first, first + min(size, n - first)):
        key = keys[i]
        digit = digit_of(ordered(key), shift, mask)
        place = bins[digit]
        bins[digit] = place + 1
        new_keys[place] = key
        new_values[place] = values[i]


class RadixSort:
    """Sorts up to `capacity` numbers, or (number, value) pairs; owns the scratch memory.

    dtype: the type of the keys, 32 or 64 bits, signed, unsigned or float; −0 equals 0, and NaN come last, whatever
    their bits. values: the type of the values, None for none. A stable sort has one result everywhere.
    """

    def __init__(self, capacity: int, device=None, dtype=k.uint64, values=int):
        self.device = get_device(device)
        self.bits = types.of_annotation(dtype).bits  # type: ignore[attr-defined]
        capacity = max(1, capacity)
        blocks = -(-capacity // self.block_size(capacity))  # no smaller n has more
        self.keys = empty(capacity, dtype=dtype, device=device)
        self.values = None if values is None else empty(capacity, dtype=values, device=device)
        self.counts = empty(BINS * blocks, dtype=int, device=device)
        self.scan = Scan(BINS * blocks, device)

    def block_size(self, n: int) -> int:
        """Elements of a block. Processors want few large blocks and GPUs many threads; the result is one."""
        return max(BLOCK, -(-n // BLOCKS)) if self.device.is_cpu else BLOCK

    def run(self, keys, values, n: int, bits: int | None = None, first_bit: int = 0) -> None:
        """Sorts keys[:n] ascending by bits first_bit … bits − 1 (None: the last) and moves values along, in place.

        The bits are those of the unsigned stand-in, `ordered`. values: None where the sort was made without.
        """
        if n < 2:
            return
        size = self.block_size(n)
        blocks = -(-n // size)
        source, target = ([x for x in pair if x is not None] for pair in ((keys, values), (self.keys, self.values)))
        move = move_keys if values is None else move_pairs
        bits = self.bits if bits is None else bits
        for shift in range(first_bit, bits, DIGIT):
            cut = [shift, (1 << min(DIGIT, bits - shift)) - 1, n, size, blocks]
            launch(count_digits, blocks, inputs=[source[0], self.counts, *cut], device=self.device)
            self.scan.run(self.counts, self.counts, BINS * blocks)
            launch(move, blocks, inputs=[*source, *target, self.counts, *cut], device=self.device)
            source, target = target, source
        if source[0] is not keys:
            for result, moved in zip(target, source, strict=True):
                copy(result[:n], moved[:n])


def radix_sort_pairs(keys, values, bits: int | None = None) -> None:
    """Sorts (number, value) pairs in place, stable, ascending by the lowest `bits` bits of the keys' stand-ins."""
    assert len(keys) == len(values), (len(keys), len(values))
    RadixSort(len(keys), keys.device, keys.dtype, values.dtype).run(keys, values, len(keys), bits)


# --- the order alone --------------------------------------------------------------------------------------------------


@k.requires(lambda tid, order: tid < order.shape[0])
@k.kernel
def begin_order(order: k.array(dtype=int)):
    i = k.tid()
    order[i] = i


@k.requires(lambda tid, src, order, dst: tid < order.shape[0] and 0 <= order[tid] and order[tid] < src.shape[0]
    and tid < dst.shape[0])  # fmt: skip
@k.kernel
def gather(src: k.array(dtype=Any), order: k.array(dtype=int), dst: k.array(dtype=Any)):
    i = k.tid()
    dst[i] = src[order[i]]


def order_of(keys, n: int, first_bit: int = 0, bits: int | None = None):
    """The positions of keys[:n] in ascending order, equal ones as they come; int32 (n,). The keys stay."""
    sorted_keys = empty(max(n, 1), dtype=keys.dtype, device=keys.device)
    copy(sorted_keys[:n], keys[:n])
    order = empty(max(n, 1), dtype=int, device=keys.device)
    launch(begin_order, n, inputs=[order], device=keys.device)
    RadixSort(n, keys.device, keys.dtype).run(sorted_keys, order, n, bits, first_bit)
    return order


def reorder(values, order, n: int) -> None:
    """values[i] = values[order[i]] for i < n."""
    before = empty(max(n, 1), dtype=values.dtype, device=values.device)
    copy(before[:n], values[:n])
    launch(gather, n, inputs=[before, order, values], device=values.device)
