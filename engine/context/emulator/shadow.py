"""Who used which place of memory in a launch: a kernel that reads the records of accesses in the order of time.

A place is 4 bytes, or 1 where a kernel accesses less. For each it keeps two writers and two readers since the last
barrier of their block, and one of each from before; that is enough to see a race at its second access:

    two threads of a block, no barrier between        WRITE, WRITE2, READ, READ2 of the same block and interval
    threads of different blocks, which have no order  OLD_WRITE, OLD_READ, kept when the block goes on

Two accesses race if one of them writes and not both are atomic. (The idea of shadow words: Zheng et al., GRace, 2011.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.compiler import lang as k
from engine.compiler.emit_warp32 import Site
from engine.compiler.warp_layout import LANES
from engine.context.array import array
from engine.context.array_make import array2d
from engine.context.emulator.memory import Memory
from engine.context.launch import launch_unseen

PAGE = 256  # places; memory for them is taken page by page
POOL_PAGES = 1 << 16  # 1 GiB of them: 64 MiB of memory that a launch uses, 4 bytes a place
MOST_FOUND = 256  # different findings of a launch
THREADS = 8  # of a finding that are named
LARGEST = 1 << 31  # bytes of an allocation whose unwritten bytes are known
RECORD_WORDS = 4 + LANES
SLOTS = 64  # of the hash table for a warp's sectors

# a place: marks of accesses, `thread << 22 | site << 2 | strength`
TAG, WRITE, WRITE2, READ, READ2, OLD_WRITE, OLD_READ, WRITTEN = range(8)
SITE_BITS, SITE_SHIFT, THREAD_SHIFT = (1 << 20) - 1, 2, 22
ATOMIC, PLAIN = 1, 2  # strength: a plain access races with more

# what the kernel is told of a site
SPACE, READS, WRITES, STRENGTH, SIZE = range(5)
OTHER, GLOBAL, SHARED = range(3)

RACE, UNWRITTEN = range(2)
CHECK, FIRST, SECOND, ADDRESS, COUNT, WHO = range(6)  # of a finding: two marks, the address, threads from WHO on
NEXT_PAGE, DROPPED, FOUND = range(3)  # counters


@k.func
def _clash(mine: k.int64, other: k.int64) -> bool:
    """Whether two accesses by different threads are not both atomic."""
    plain = (mine & PLAIN) != 0 or (other & PLAIN) != 0
    return plain and other != 0 and other >> THREAD_SHIFT != mine >> THREAD_SHIFT


@k.func
def _fold(places: array2d(dtype=k.int64), p: int, forget: bool):
    """The accesses of an interval that is over become those from before: of the stronger ones, the first."""
    write = places[p, WRITE]
    if (write & 3) > (places[p, OLD_WRITE] & 3):
        places[p, OLD_WRITE] = write
    read = places[p, READ]
    if (read & 3) > (places[p, OLD_READ] & 3):
        places[p, OLD_READ] = read
    for slot in range(WRITE, READ2 + 1):
        places[p, slot] = 0
    if forget:  # shared memory of another block
        places[p, OLD_WRITE] = 0
        places[p, OLD_READ] = 0
        places[p, WRITTEN] = 0


@k.func
def _elsewhere(mine: k.int64, old: k.int64, block_threads: k.int64) -> bool:
    """Whether an access from before is of another block, and not both are atomic."""
    if not _clash(mine, old):
        return False
    return (mine >> THREAD_SHIFT) // block_threads != (old >> THREAD_SHIFT) // block_threads


@k.func
def _met(places: array2d(dtype=k.int64), p: int, mine: k.int64, writes: bool, block_threads: k.int64) -> k.int64:
    """The mark of an access that this one races with, or 0."""
    write = places[p, WRITE]
    old = places[p, OLD_WRITE]
    if (write | old) != 0:
        if _clash(mine, write):
            return write
        if _clash(mine, places[p, WRITE2]):
            return places[p, WRITE2]
        if _elsewhere(mine, old, block_threads):
            return old
    if writes:
        if _clash(mine, places[p, READ]):
            return places[p, READ]
        if _clash(mine, places[p, READ2]):
            return places[p, READ2]
        if _elsewhere(mine, places[p, OLD_READ], block_threads):
            return places[p, OLD_READ]
    return k.int64(0)


@k.func
def _keep(places: array2d(dtype=k.int64), p: int, slot: int, mine: k.int64):
    """Notes an access: in `slot` the strongest of the first thread, behind it one of another thread."""
    first = places[p, slot]
    same = first >> THREAD_SHIFT == mine >> THREAD_SHIFT
    if first == 0 or (mine & 3) > (first & 3):
        places[p, slot] = mine
        if first != 0 and not same and places[p, slot + 1] == 0:
            places[p, slot + 1] = first
    elif not same and places[p, slot + 1] == 0:
        places[p, slot + 1] = mine


@k.func
def _report(findings: array2d(dtype=k.int64), counters: k.array(dtype=k.int64), check: int, mine: k.int64,
            other: k.int64, address: k.int64):  # fmt: skip
    """Notes a finding, once for each pair of sites; a read of unwritten memory names several threads."""
    sites = SITE_BITS << SITE_SHIFT
    row = 0
    known = int(counters[FOUND])
    while row < known:
        if (findings[row, CHECK] == k.int64(check) and (findings[row, FIRST] & sites) == (mine & sites)
                and (findings[row, SECOND] & sites) == (other & sites)):  # fmt: skip
            break
        row += 1
    if row == MOST_FOUND:
        return
    if row == known:
        counters[FOUND] = k.int64(known + 1)
        findings[row, CHECK] = k.int64(check)
        findings[row, FIRST] = mine
        findings[row, SECOND] = other
        findings[row, ADDRESS] = address
    if check == UNWRITTEN:
        count = int(findings[row, COUNT])
        thread = mine >> THREAD_SHIFT
        if count < THREADS and (count == 0 or findings[row, WHO + count - 1] != thread):
            findings[row, WHO + count] = thread
            findings[row, COUNT] = k.int64(count + 1)


@k.func
def _is_line(records: array2d(dtype=k.int64), r: int, size: k.int64) -> bool:
    """Whether the lanes access neighbours in order."""
    first = records[r, 4]
    wrong = k.int64(0)
    for lane in range(LANES):
        wrong |= records[r, 4 + lane] - (first + size * k.int64(lane))
    return wrong == 0


@k.func
def _cost(records: array2d(dtype=k.int64), r: int, taken: int, shared: bool, size: int, keys: k.array(dtype=k.int64),
          stamps: k.array(dtype=int)) -> int:  # fmt: skip
    """Sectors of 32 bytes that a warp's access touches, or the most words that it wants of one of 32 banks.

    keys, stamps: a hash table of what was counted; a slot counts while its stamp is that of the record.
    """
    if taken == -1 and _is_line(records, r, k.int64(size)):
        if shared:
            return max(size // 4, 1)
        return int((records[r, 4 + LANES - 1] >> 5) - (records[r, 4] >> 5)) + 1
    wanted = k.zeros(shape=32, dtype=int)  # words of each bank
    total = 0
    width = k.select(shared, k.int64(2), k.int64(5))
    for lane in range(LANES):
        if (taken >> lane) & 1 == 0:
            continue
        unit = records[r, 4 + lane] >> width
        slot = int(unit) & (SLOTS - 1)
        while stamps[slot] == r + 1 and keys[slot] != unit:
            slot = (slot + 1) & (SLOTS - 1)
        if stamps[slot] == r + 1:
            continue
        stamps[slot] = r + 1
        keys[slot] = unit
        if shared:
            bank = int(unit & 31)
            wanted[bank] = wanted[bank] + 1
            total = max(total, wanted[bank])
        else:
            total += 1
    return total


@k.func
def _range(records: array2d(dtype=k.int64), r: int, taken: int):
    """The lowest and the highest address that a lane accesses."""
    low = k.int64(0x7FFFFFFFFFFFFFFF)
    high = k.int64(0)
    for lane in range(LANES):
        address = records[r, 4 + lane]
        if (taken >> lane) & 1 != 0:
            low = min(low, address)
            high = max(high, address)
    return low, high


@k.func
def _allocation(begins: k.array(dtype=k.int64), ends: k.array(dtype=k.int64), address: k.int64) -> int:
    """The allocation that an address lies in, or −1; they ascend, but for the last, the shared memory."""
    low = 0
    high = int(begins.shape[0]) - 1
    while low < high:
        middle = (low + high) // 2
        if begins[middle] <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0 or address >= ends[low - 1]:
        return -1
    return low - 1


@k.func
def _place(pages: k.array(dtype=int), places: array2d(dtype=k.int64), counters: k.array(dtype=k.int64),
           number: k.int64) -> int:  # fmt: skip
    """Where the shadow of a place lies, or −1 where there is no room left for it."""
    page = int(number // PAGE)
    row = pages[page]
    if row == 0:
        if counters[NEXT_PAGE] * PAGE == k.int64(places.shape[0]):
            counters[DROPPED] = counters[DROPPED] + 1
            return -1
        row = int(counters[NEXT_PAGE])
        counters[NEXT_PAGE] = counters[NEXT_PAGE] + 1
        pages[page] = row
    return row * PAGE + int(number & (PAGE - 1))


@k.func
def _look_at_bytes(marks_at: k.uint64, offset: k.int64, size: int, reads: bool, writes: bool) -> bool:
    """Whether a read touches an unwritten byte of an allocation; what is written is from now on."""
    bad = False
    marks = array(ptr=marks_at, shape=int(offset) + size, dtype=k.uint8)
    for byte in range(size):
        at = int(offset) + byte
        if reads and marks[at] == 0:
            bad = True
        if writes:
            marks[at] = k.uint8(1)
    return bad


@k.kernel(shape="thread", enable_backward=False)
def look(records: array2d(dtype=k.int64), count: int, sites: array2d(dtype=int), begins: k.array(dtype=k.int64),
         ends: k.array(dtype=k.int64), bases: k.array(dtype=k.int64), written: k.array(dtype=k.uint64),
         pages: k.array(dtype=int), places: array2d(dtype=k.int64), counters: k.array(dtype=k.int64),
         findings: array2d(dtype=k.int64), costs: array2d(dtype=k.int64), block_threads: k.int64,
         shift: k.vec2i, init: bool, race: bool):  # fmt: skip
    """One thread reads `count` records in order. The last allocation is the block's shared memory."""
    k.tid()
    keys = k.zeros(shape=SLOTS, dtype=k.int64)
    stamps = k.zeros(shape=SLOTS, dtype=int)
    room = begins.shape[0] - 1
    a = int(room)
    begin = begins[a]
    length = ends[a] - begin
    base = bases[a]
    for r in range(count):
        site = int(records[r, 0])
        taken = int(records[r, 1] >> 32)
        space = sites[site, SPACE]
        if space == OTHER or taken == 0:
            continue
        size = sites[site, SIZE]
        reads = sites[site, READS] != 0
        writes = sites[site, WRITES] != 0
        costs[site, 0] = costs[site, 0] + 1
        costs[site, 1] = costs[site, 1] + k.int64(_cost(records, r, taken, space == SHARED, size, keys, stamps))
        block = records[r, 2]
        tag = ((block + 1) << 32) | (records[r, 3] >> 32)
        thread = block * block_threads + (records[r, 3] & 0xFFFFFFFF) * LANES
        mark = (thread << THREAD_SHIFT) | k.int64((site << SITE_SHIFT) | sites[site, STRENGTH])
        low, high = _range(records, r, taken)
        if a < 0 or low < begin or low - begin >= length:
            a = k.select(space == SHARED, room, _allocation(begins, ends, low))
            if a >= 0:
                begin = begins[a]
                length = ends[a] - begin
                base = bases[a]
        if a >= 0 and high - begin < length and base < 0 and written[a] == 0:
            continue  # memory that has been written before the launch, and is not in it
        for lane in range(LANES):
            if (taken >> lane) & 1 == 0:
                continue
            address = records[r, 4 + lane]
            if a < 0 or address < begin or address - begin >= length:
                a = k.select(space == SHARED, room, _allocation(begins, ends, address))
                if a < 0:
                    continue
                begin = begins[a]
                length = ends[a] - begin
                base = bases[a]
            mine = mark + (k.int64(lane) << THREAD_SHIFT)
            offset = address - begin
            if a < room and written[a] != 0:
                if _look_at_bytes(written[a], offset, size, reads, writes):
                    _report(findings, counters, UNWRITTEN, mine, k.int64(0), address)
            if base < 0:
                continue
            unit = k.select(a == room, shift[1], shift[0])
            for step in range(size >> unit):
                p = _place(pages, places, counters, base + (offset >> k.int64(unit)) + k.int64(step))
                if p < 0:
                    break
                before = places[p, TAG]
                if before != tag:
                    _fold(places, p, a == room and (before >> 32) != (tag >> 32))
                    places[p, TAG] = tag
                if a == room and init:
                    if reads and places[p, WRITTEN] == 0:
                        _report(findings, counters, UNWRITTEN, mine, k.int64(0), address)
                    if writes:
                        places[p, WRITTEN] = k.int64(1)
                if race:
                    other = _met(places, p, mine, writes, block_threads)
                    if other != 0:
                        _report(findings, counters, RACE, mine, other, address + k.int64(step << unit))
                    _keep(places, p, k.select(writes, WRITE, READ), mine)


@dataclass(frozen=True)
class Found:
    """A race of two accesses, or a read of memory that nobody has written (then there is no other)."""

    race: bool
    site: int
    other: int
    address: int
    threads: tuple[int, ...]


class Shadow:
    """The places of all memory during one launch; `feed` takes its records piece by piece."""

    def __init__(self, memory: Memory, sites: list[Site], block_threads: int, shared: int, shared_size: int,
                 init: bool, race: bool, stored: Sequence[int] | None):  # fmt: skip
        """`stored`: addresses in the allocations that the launch may write, or None: all of them."""
        self._sites = np.array([_facts(site) for site in sites] or [(0,) * 5], np.int32)
        table = memory.table().astype(np.int64)
        begins = np.append(table[:, 0], shared)
        ends = np.append(table[:, 1], shared + shared_size)
        shift = [self._shift(space) for space in (GLOBAL, SHARED)]
        shifts = np.full(len(begins), shift[0])
        shifts[-1] = shift[1]
        npages = ((ends - begins) >> shifts) // PAGE + 1
        bases = PAGE * (np.cumsum(npages) - npages)
        if not race:
            bases[:-1] = -1
        elif stored is not None:
            may = np.searchsorted(begins[:-1], stored, side="right") - 1
            bases[:-1][~np.isin(np.arange(len(table)), may)] = -1  # nobody can race on what is only read
        marks = memory.marks()
        self._marks = marks  # they stay where they are for as long as the kernel may write to them
        written = [0 if not init or mark is None or len(mark) >= LARGEST else mark.ctypes.data for mark in marks]
        self._counters = np.zeros(3, np.int64)
        self._counters[NEXT_PAGE] = 1
        self._findings = np.zeros((MOST_FOUND, WHO + THREADS), np.int64)
        self.costs = np.zeros((len(self._sites), 2), np.int64)  # requests, and sectors or words of a bank, of each site
        self._checks = [k.int64(block_threads), k.vec2i(*map(int, shift)), init, race]
        pool = min(POOL_PAGES, int(npages[bases >= 0].sum()) + 1)  # page 0 stands for none
        places = np.zeros((pool * PAGE, 8), np.int64)  # the system gives memory to what is touched
        held = [self._sites, begins, ends, bases, np.array([*written, 0], np.uint64),
                np.zeros(int(npages.sum()), np.int32), places, self._counters, self._findings, self.costs]  # fmt: skip
        self._arrays = [array(data, copy=False, device="cpu") for data in held]

    def _shift(self, space: int) -> int:
        """Places of 4 bytes, unless a site of this space accesses less: the logarithm."""
        sizes = self._sites[self._sites[:, SPACE] == space, SIZE]
        return 2 if (sizes % 4 == 0).all() else 0

    def feed(self, records: np.ndarray) -> None:
        """Records (`trace.RECORD`) that follow those before."""
        if len(records):
            words = array(records.view(np.int64).reshape(-1, RECORD_WORDS), copy=False, device="cpu")
            launch_unseen(look, 1, [words, len(records), *self._arrays, *self._checks], "cpu", 256)

    @property
    def dropped(self) -> int:
        """Accesses whose place had no room."""
        return int(self._counters[DROPPED])

    def found(self) -> list[Found]:
        """All that was found, in the order in which it came up."""
        result = []
        for row in self._findings[: self._counters[FOUND]].tolist():
            race = row[CHECK] == RACE
            first, second = row[FIRST], row[SECOND]
            if race and not self._sites[_site(first), WRITES]:
                first, second = second, first  # the write is named first
            threads = (first >> THREAD_SHIFT, second >> THREAD_SHIFT) if race else tuple(row[WHO : WHO + row[COUNT]])
            found = Found(race, _site(first), _site(second) if race else -1, row[ADDRESS], threads)
            result.append(found)
        return result


def _site(mark: int) -> int:
    return (mark >> SITE_SHIFT) & SITE_BITS


def _facts(site: Site) -> tuple[int, int, int, int, int]:
    """A site as the kernel sees it. An access of a vector has a record for each of its elements."""
    space = {"global": GLOBAL, "generic": GLOBAL, "const": GLOBAL, "shared": SHARED}.get(site.space, OTHER)
    if site.what in ("barrier", "trap"):
        space = OTHER
    reads, writes = "store" not in site.what, "load" not in site.what
    return space, int(reads), int(writes), ATOMIC if "atomic" in site.what else PLAIN, site.size // max(site.parts, 1)
