"""Stable radix sort of pairs on the device, least significant digit first, and of any keys by unsigned stand-ins."""

from typing import Any

from engine.compiler import lang as k
from engine.compiler import types
from engine.context import copy, empty, launch
from engine.kernels.scan import Scan

DIGIT = 8  # bits of a key that one pass sorts by
BINS = 1 << DIGIT
BLOCK = 2048  # elements that one thread counts and then moves in ascending order


@k.func
def digit_of(key: k.uint64, shift: int, mask: int):
    return int(key >> k.uint64(shift)) & mask


@k.func  # type: ignore[no-redef]
def digit_of(key: k.uint32, shift: int, mask: int):  # noqa: F811
    return int(key >> k.uint32(shift)) & mask


# counts is (BINS, blocks): after the scan, counts[d, b] is the place of block b's first element with digit d.
@k.kernel
def count_digits(keys: k.array(dtype=Any), counts: k.array(dtype=int), shift: int, mask: int, n: int, blocks: int):
    block = k.tid()
    bins = k.zeros(shape=256, dtype=int)
    first = block * BLOCK
    for i in range(first, min(first + BLOCK, n)):
        digit = digit_of(keys[i], shift, mask)
        bins[digit] = bins[digit] + 1
    last = BINS * blocks - 1
    for d in range(BINS):
        counts[k.select_min(d * blocks + block, last)] = bins[d]  # as in move_pairs


@k.kernel
def move_pairs(
    keys: k.array(dtype=Any),
    values: k.array(dtype=int),
    new_keys: k.array(dtype=Any),
    new_values: k.array(dtype=int),
    places: k.array(dtype=int),
    shift: int,
    mask: int,
    n: int,
    blocks: int,
):
    block = k.tid()
    bins = k.zeros(shape=256, dtype=int)
    last = BINS * blocks - 1
    for d in range(BINS):
        # no effect, but LLVM then makes no second version of this loop, which would take registers from the next one
        bins[d] = places[k.select_min(d * blocks + block, last)]
    first = block * BLOCK
    for i in range(first, min(first + BLOCK, n)):
        key = keys[i]
        digit = digit_of(key, shift, mask)
        place = bins[digit]
        bins[digit] = place + 1
        new_keys[place] = key
        new_values[place] = values[i]


class RadixSort:
    """Sorts up to `capacity` (key, int32) pairs; owns the scratch memory. A stable sort has one result everywhere.

    dtype: uint64 or uint32, the type of the keys.
    """

    def __init__(self, capacity: int, device=None, dtype=k.uint64):
        self.device = device
        self.capacity = capacity
        blocks = max(1, -(-capacity // BLOCK))
        self.keys = empty(max(1, capacity), dtype=dtype, device=device)
        self.values = empty(max(1, capacity), dtype=int, device=device)
        self.counts = empty(BINS * blocks, dtype=int, device=device)
        self.scan = Scan(BINS * blocks, device)

    def run(self, keys, values, n: int, bits: int = 64, first_bit: int = 0) -> None:
        """Sorts keys[:n] ascending by their bits first_bit … bits − 1 and moves values along, in place."""
        if n < 2:
            return
        blocks = -(-n // BLOCK)
        source, target = (keys, values), (self.keys, self.values)
        for shift in range(first_bit, bits, DIGIT):
            mask = (1 << min(DIGIT, bits - shift)) - 1
            launch(count_digits, blocks, inputs=[source[0], self.counts, shift, mask, n, blocks], device=self.device)
            self.scan.run(self.counts, self.counts, BINS * blocks)
            moved = [*source, *target, self.counts, shift, mask, n, blocks]
            launch(move_pairs, blocks, inputs=moved, device=self.device)
            source, target = target, source
        if source[0] is not keys:
            copy(keys[:n], source[0][:n])
            copy(values[:n], source[1][:n])


def radix_sort_pairs(keys, values, bits: int = 64) -> None:
    """Sorts (uint64 key, int32 value) pairs in place, stable, ascending by the lowest `bits` bits of the keys."""
    assert len(keys) == len(values), (len(keys), len(values))
    RadixSort(len(keys), keys.device).run(keys, values, len(keys), bits)


# --- keys of other types ----------------------------------------------------------------------------------------------


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
    """Negative numbers turn all bits, others the sign; adding 0 makes −0 and 0 equal keys."""
    bits = k.bitcast(key + k.float32(0.0), k.uint32)
    return k.select(bits >> k.uint32(31) == k.uint32(1), ~bits, bits ^ k.uint32(0x80000000))


@k.func  # type: ignore[no-redef]
def ordered(key: k.float64):  # noqa: F811
    bits = k.bitcast(key + k.float64(0.0), k.uint64)
    return k.select(bits >> k.uint64(63) == k.uint64(1), ~bits, bits ^ k.uint64(0x8000000000000000))


@k.kernel
def begin_order(keys: k.array(dtype=Any), stand_ins: k.array(dtype=Any), order: k.array(dtype=int)):
    i = k.tid()
    stand_ins[i] = ordered(keys[i])
    order[i] = i


@k.kernel
def gather(src: k.array(dtype=Any), order: k.array(dtype=int), dst: k.array(dtype=Any)):
    i = k.tid()
    dst[i] = src[order[i]]


def unsigned_like(dtype):
    """The unsigned type as wide as a key type."""
    return k.uint64 if types.of_annotation(dtype).bits == 64 else k.uint32


def order_of(keys, n: int, first_bit: int = 0, bits: int | None = None):
    """The positions of keys[:n] in ascending order, equal ones as they come; int32 (n,).

    keys: 32 or 64 bits, signed, unsigned or float. `first_bit` … `bits` − 1 of the stand-ins decide.
    """
    kind = unsigned_like(keys.dtype)
    stand_ins = empty(max(n, 1), dtype=kind, device=keys.device)
    order = empty(max(n, 1), dtype=int, device=keys.device)
    launch(begin_order, n, inputs=[keys, stand_ins, order], device=keys.device)
    width = 64 if kind is k.uint64 else 32
    RadixSort(n, keys.device, kind).run(stand_ins, order, n, width if bits is None else bits, first_bit)
    return order


def reorder(values, order, n: int) -> None:
    """values[i] = values[order[i]] for i < n."""
    before = empty(max(n, 1), dtype=values.dtype, device=values.device)
    copy(before[:n], values[:n])
    launch(gather, n, inputs=[before, order, values], device=values.device)
