"""Stable radix sort of (uint64 key, int32 value) pairs on the device, least significant digit first."""

from engine.compiler import lang as k
from engine.context import copy, empty, launch
from engine.kernels.scan import Scan

DIGIT = 8  # bits of a key that one pass sorts by
BINS = 1 << DIGIT
BLOCK = 2048  # elements that one thread counts and then moves in ascending order


# counts is (BINS, blocks): after the scan, counts[d, b] is the place of block b's first element with digit d.
@k.kernel
def count_digits(keys: k.array(dtype=k.uint64), counts: k.array(dtype=int), shift: int, n: int, blocks: int):
    block = k.tid()
    bins = k.zeros(shape=256, dtype=int)
    first = block * BLOCK
    for i in range(first, min(first + BLOCK, n)):
        digit = int((keys[i] >> k.uint64(shift)) & k.uint64(255))
        bins[digit] = bins[digit] + 1
    for d in range(BINS):
        counts[d * blocks + block] = bins[d]


@k.kernel
def move_pairs(
    keys: k.array(dtype=k.uint64),
    values: k.array(dtype=int),
    new_keys: k.array(dtype=k.uint64),
    new_values: k.array(dtype=int),
    places: k.array(dtype=int),
    shift: int,
    n: int,
    blocks: int,
):
    block = k.tid()
    bins = k.zeros(shape=256, dtype=int)
    for d in range(BINS):
        bins[d] = places[d * blocks + block]
    first = block * BLOCK
    for i in range(first, min(first + BLOCK, n)):
        key = keys[i]
        digit = int((key >> k.uint64(shift)) & k.uint64(255))
        place = bins[digit]
        bins[digit] = place + 1
        new_keys[place] = key
        new_values[place] = values[i]


class RadixSort:
    """Sorts up to `capacity` pairs; owns the scratch memory. A stable sort has one result: the same everywhere."""

    def __init__(self, capacity: int, device=None):
        self.device = device
        self.capacity = capacity
        blocks = max(1, -(-capacity // BLOCK))
        self.keys = empty(max(1, capacity), dtype=k.uint64, device=device)
        self.values = empty(max(1, capacity), dtype=int, device=device)
        self.counts = empty(BINS * blocks, dtype=int, device=device)
        self.scan = Scan(BINS * blocks, device)

    def run(self, keys, values, n: int, bits: int = 64) -> None:
        """Sorts keys[:n] ascending by their lowest `bits` bits and moves values along, in place."""
        if n < 2:
            return
        blocks = -(-n // BLOCK)
        source, target = (keys, values), (self.keys, self.values)
        for shift in range(0, bits, DIGIT):
            launch(count_digits, blocks, inputs=[source[0], self.counts, shift, n, blocks], device=self.device)
            self.scan.run(self.counts, self.counts, BINS * blocks)
            launch(move_pairs, blocks, inputs=[*source, *target, self.counts, shift, n, blocks], device=self.device)
            source, target = target, source
        if source[0] is not keys:
            copy(keys[:n], source[0][:n])
            copy(values[:n], source[1][:n])


def radix_sort_pairs(keys, values, bits: int = 64) -> None:
    """Sorts (uint64 key, int32 value) pairs in place, stable, ascending by the lowest `bits` bits of the keys."""
    assert len(keys) == len(values), (len(keys), len(values))
    RadixSort(len(keys), keys.device).run(keys, values, len(keys), bits)
