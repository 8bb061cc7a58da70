"""Graph colouring of constraints: those of one colour share no moving body, so that they can be solved at once.

Jones-Plassmann on the graph of constraints, with an integer maximum per body instead of neighbour lists. In each round
every uncoloured constraint bids on its bodies with its priority; the one that wins all its bodies takes the smallest
colour that none of them has yet. Priorities are a fixed hash of the constraint's index, so the result depends on the
list of constraints alone: not on the device, the number of threads, or the order in which the bids arrive.

    bodies    0       1       2       3          round 1: b (highest bid on 1 and 2) → colour 0
              ●───a───●───b───●───c───●          round 2: a, c → colour 0 is taken on 1 and 2 → colour 1

A constraint that had a colour in the last frame keeps it: as constraints come and go, colours stay free of conflicts,
and only new constraints bid. One that finds no free colour (more than OVERFLOW constraints on one body), or is left
after the last round, goes to the last colour, OVERFLOW, whose constraints are solved one after the other.

`BucketOrder` then lists the constraints colour by colour, and by index within a colour: a stable counting sort whose
slots come from a scan, never from the old value of an atomic.
"""

from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import array, indirect, launch, zeros

COLORS = 32  # bits of a body's mask; the last one is the overflow colour
OVERFLOW = COLORS - 1
ROUNDS = 48  # at most; rounds after the last uncoloured constraint are empty launches
BLOCK = 256  # constraints that one thread counts and places


@k.func
def priority(i: int) -> k.uint32:
    """A bijective hash of 32 bits (the finaliser of MurmurHash3): unique priorities in random-like order."""
    x = k.uint32(i)
    x = (x ^ (x >> k.uint32(16))) * k.uint32(0x85EBCA6B)
    x = (x ^ (x >> k.uint32(13))) * k.uint32(0xC2B2AE35)
    return x ^ (x >> k.uint32(16))


@k.func
def bid_of(i: int, turn: int) -> k.uint64:
    """A later round outbids every earlier one, so that the bids need no clearing between rounds."""
    return (k.uint64(turn + 1) << k.uint64(32)) | k.uint64(priority(i))


@k.requires(lambda bids0, bids1, mask: len(mask) <= len(bids0) and len(mask) <= len(bids1))
@k.kernel
def clear_bodies(
    bids0: k.array(dtype=k.uint64),
    bids1: k.array(dtype=k.uint64),
    mask: k.array(dtype=k.uint32),
    active: k.array(dtype=k.int32),
):
    """No bids, no colours taken, no rounds needed. One thread per body or round."""
    i = k.tid()
    if i < len(mask):
        bids0[i] = k.uint64(0)
        bids1[i] = k.uint64(0)
        mask[i] = k.uint32(0)
    if i < len(active):
        active[i] = 0


@k.requires(lambda tid, body0, body1, color: tid < body0.shape[0] and tid < body1.shape[0] and tid < color.shape[0])
@k.kernel
def keep_colors(
    body0: k.array(dtype=k.int32),
    body1: k.array(dtype=k.int32),
    color: k.array(dtype=k.int32),
    bids: k.array(dtype=k.uint64),
    mask: k.array(dtype=k.uint32),
    count: k.array(dtype=k.int32),
    active: k.array(dtype=k.int32),
):
    """Constraints with a colour take it on their bodies, the others bid for the first round."""
    i = k.tid()
    a = body0[i]
    b = body1[i]
    if 0 <= color[i] and color[i] < OVERFLOW:
        bit = k.uint32(1) << k.uint32(color[i])
        if a >= 0:
            k.atomic_or(mask, a, bit)
        if b >= 0:
            k.atomic_or(mask, b, bit)
    else:
        color[i] = -1
        bid = bid_of(i, 0)
        if a >= 0:
            k.atomic_max(bids, a, bid)
        if b >= 0:
            k.atomic_max(bids, b, bid)
        k.atomic_max(active, 0, count[0])


@k.requires(lambda tid, color: tid < color.shape[0])
@k.kernel
def take_colors(
    body0: k.array(dtype=k.int32),
    body1: k.array(dtype=k.int32),
    color: k.array(dtype=k.int32),
    bids: k.array(dtype=k.uint64),
    next_bids: k.array(dtype=k.uint64),
    mask: k.array(dtype=k.uint32),
    count: k.array(dtype=k.int32),
    active: k.array(dtype=k.int32),
    turn: int,
):
    """One round: winners take a colour, losers bid in the next round, which active[turn + 1] gives its size."""
    i = k.tid()
    if color[i] < 0:
        a = body0[i]
        b = body1[i]
        bid = bid_of(i, turn)
        wins = True
        if a >= 0:
            wins = bids[a] == bid
        if b >= 0:
            wins = wins and bids[b] == bid
        if wins:
            # nobody else reads or writes the masks of these bodies in this round
            used = k.uint32(0)
            if a >= 0:
                used = used | mask[a]
            if b >= 0:
                used = used | mask[b]
            free = ~used & k.uint32(0x7FFFFFFF)
            if free == k.uint32(0):
                color[i] = OVERFLOW
            else:
                lowest = free & (~free + k.uint32(1))
                color[i] = 31 - int(k.clz(lowest))
                if a >= 0:
                    mask[a] = mask[a] | lowest
                if b >= 0:
                    mask[b] = mask[b] | lowest
        else:
            following = bid_of(i, turn + 1)
            if a >= 0:
                k.atomic_max(next_bids, a, following)
            if b >= 0:
                k.atomic_max(next_bids, b, following)
            k.atomic_max(active, turn + 1, count[0])


@k.requires(lambda tid, color: tid < color.shape[0])
@k.kernel
def overflow_rest(color: k.array(dtype=k.int32)):
    """What no round has coloured goes to the overflow colour."""
    i = k.tid()
    if color[i] < 0:
        color[i] = OVERFLOW


class Coloring:
    """Colours up to `capacity` constraints between `nbody` bodies.

    body0, body1 (capacity,) int32: the bodies of each constraint, −1 = one that does not move. count (1,) int32: how
    many constraints there are. color (capacity,) int32: before `run` the colours to keep, of which no two may be in
    conflict, and −1 for the others; after it 0 … OVERFLOW.
    """

    def __init__(self, nbody: int, capacity: int, count: array, device: str):
        self.body0 = zeros(capacity, dtype=k.int32, device=device)
        self.body1 = zeros(capacity, dtype=k.int32, device=device)
        self.color = zeros(capacity, dtype=k.int32, device=device)
        self._bids = [zeros(max(nbody, 1), dtype=k.uint64, device=device) for _ in range(2)]
        self._mask = zeros(max(nbody, 1), dtype=k.uint32, device=device)
        self._active = zeros(ROUNDS + 1, dtype=k.int32, device=device)

        def record(kernel, dim, inputs):
            return launch(kernel, dim=dim, inputs=inputs, device=device, record_cmd=True)

        pair = [self.body0, self.body1, self.color]
        every = [*self._bids, self._mask, self._active]
        self._clear = record(clear_bodies, max(nbody, ROUNDS + 1), every)
        kept = [*pair, self._bids[0], self._mask, count, self._active]
        self._keep = record(keep_colors, indirect(count, capacity), kept)
        self._rounds = []
        for turn in range(ROUNDS):
            size = self._active[turn : turn + 1]
            bids, following = self._bids[turn % 2], self._bids[1 - turn % 2]
            inputs = [*pair, bids, following, self._mask, count, self._active, turn]
            self._rounds.append(record(take_colors, indirect(size, capacity), inputs))
        left = self._active[ROUNDS : ROUNDS + 1]
        self._rest = record(overflow_rest, indirect(left, capacity), [self.color])

    def run(self) -> None:
        """Colours the constraints that body0, body1, color and count describe now. Launches only."""
        self._clear.launch()
        self._keep.launch()
        for take in self._rounds:
            take.launch()
        self._rest.launch()

    @property
    def rounds(self) -> int:
        """Rounds that the last run took."""
        return int(np.count_nonzero(self._active.numpy()[:ROUNDS]))


@k.func
def slots_of(start: k.array(dtype=k.int32), size: k.array(dtype=k.int32), color: int, thread: int):
    """(first, count) of the slots that one thread of a colour's launch visits: one, or all of the overflow colour.

    The count is the same for all threads, so that those of a colour go side by side.
    """
    count = 1
    if color == OVERFLOW:
        count = size[color]
    return start[color] + thread, count


@k.requires(lambda count: 1 <= count.shape[0])
@k.kernel
def count_buckets(
    key: k.array(dtype=k.int32),
    count: k.array(dtype=k.int32),
    cell: k.array(dtype=k.int32),
    nbucket: int,
    nblock: int,
):
    """How many items of each bucket are in this thread's block of BLOCK items: cell[bucket · nblock + block]."""
    block = k.tid()
    tally = k.zeros(shape=COLORS, dtype=int)
    for i in range(block * BLOCK, min((block + 1) * BLOCK, count[0])):
        c = key[i]
        if c >= 0:
            tally[c] = tally[c] + 1
    for c in range(nbucket):
        cell[c * nblock + block] = tally[c]


@k.requires(lambda size, nbucket: 0 <= nbucket and nbucket < size.shape[0])
@k.kernel
def scan_buckets(
    cell: k.array(dtype=k.int32),
    start: k.array(dtype=k.int32),
    size: k.array(dtype=k.int32),
    nbucket: int,
    nblock: int,
):
    """One thread: exclusive scan of the cells, bucket by bucket; start and size of each bucket, and the total."""
    total = 0
    for c in range(nbucket):
        start[c] = total
        for block in range(nblock):
            n = cell[c * nblock + block]
            cell[c * nblock + block] = total
            total += n
        size[c] = total - start[c]
    size[nbucket] = total


@k.requires(lambda count: 1 <= count.shape[0])
@k.kernel
def place_items(
    key: k.array(dtype=k.int32),
    count: k.array(dtype=k.int32),
    cell: k.array(dtype=k.int32),
    order: k.array(dtype=k.int32),
    nbucket: int,
    nblock: int,
):
    """Writes the items of this thread's block to their slots, in order."""
    block = k.tid()
    slot = k.zeros(shape=COLORS, dtype=int)
    for c in range(nbucket):
        slot[c] = cell[c * nblock + block]
    for i in range(block * BLOCK, min((block + 1) * BLOCK, count[0])):
        c = key[i]
        if c >= 0:
            order[slot[c]] = i
            slot[c] = slot[c] + 1


class BucketOrder:
    """Lists items bucket by bucket and by index within one: a stable counting sort with at most COLORS buckets.

    key (≥ capacity,) int32: bucket of each item, −1 = leave it out. count (1,) int32: how many items there are. After
    `run`: order (capacity,) int32, start (nbucket,) and size (nbucket + 1,) int32; size's last element is the number of
    items placed.
    """

    def __init__(self, key: array, count: array, capacity: int, nbucket: int, device: str):
        assert 1 <= nbucket <= COLORS, f"{nbucket=}"
        nblock = max(1, -(-capacity // BLOCK))
        self.order = zeros(max(capacity, 1), dtype=k.int32, device=device)
        self.start = zeros(nbucket, dtype=k.int32, device=device)
        self.size = zeros(nbucket + 1, dtype=k.int32, device=device)
        self._cell = zeros(nbucket * nblock, dtype=k.int32, device=device)
        self._stages: list[Any] = [
            launch(kernel, dim=dim, inputs=inputs, device=device, record_cmd=True)
            for kernel, dim, inputs in (
                (count_buckets, nblock, [key, count, self._cell, nbucket, nblock]),
                (scan_buckets, 1, [self._cell, self.start, self.size, nbucket, nblock]),
                (place_items, nblock, [key, count, self._cell, self.order, nbucket, nblock]),
            )
        ]
        self._nbucket = nbucket

    def run(self) -> None:
        """Orders the items by their keys of now."""
        for stage in self._stages:
            stage.launch()

    @property
    def used(self) -> list[int]:
        """The buckets that have an item."""
        sizes = self.size.numpy().tolist()
        return [c for c in range(self._nbucket) if sizes[c]]

    @property
    def total(self) -> int:
        """Items placed."""
        return int(self.size.numpy()[self._nbucket])
