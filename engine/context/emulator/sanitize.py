"""What is wrong in the recorded accesses of one launch: bounds, uninitialised reads, races, divergent barriers.

The records are expanded to events, one for each lane and each byte (or 4-byte word, where nothing smaller is accessed),
and looked at with array operations. Two accesses to a place race if different threads make them, one of them writes,
and not both are atomic, unless a barrier of their block lies between them; threads of different blocks are never
ordered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.compiler.emit_warp32 import Site
from engine.compiler.warp_layout import LANES
from engine.context.emulator.memory import Memory

SECTOR, BANKS = 32, 32


@dataclass(frozen=True)
class Launch:
    """The records of one launch (`trace.RECORD`), and what they mean."""

    memory: Memory
    sites: list[Site]
    records: np.ndarray
    block_threads: int
    shared: int  # address of the shared memory


@dataclass(frozen=True)
class Fault:
    """Something wrong at a site of the text; `offset` is a byte of shared memory, or -1 for the address."""

    check: str
    kind: str
    site: int
    message: str
    threads: tuple[int, ...]
    other: int = -1
    address: int = 0
    offset: int = -1


@dataclass(frozen=True)
class Events:
    """One row for each lane and place that an access touched; `time` is the record's number."""

    time: np.ndarray
    site: np.ndarray
    thread: np.ndarray
    block: np.ndarray
    epoch: np.ndarray
    place: np.ndarray  # address in words of `unit` bytes
    kind: np.ndarray  # READ, WRITE, ATOMIC
    unit: int


READ, WRITE, ATOMIC = 0, 1, 2


def faults(launch: Launch, checks: set[str]) -> Iterator[Fault]:
    """All that the wanted checks find."""
    if "memcheck" in checks:
        yield from _bounds(launch)
    if "synccheck" in checks:
        yield from _barriers(launch)
    for space in ("global", "shared"):
        events = _events(launch, space)
        if events is None:
            continue
        if "initcheck" in checks:
            yield from _uninitialised(launch, events, space)
        if "racecheck" in checks:
            yield from _races(launch, events, space)
        if space == "global":  # what the launch wrote is initialised for the next one
            wrote = events.kind != READ
            launch.memory.mark_written(events.place[wrote] * events.unit, events.unit)


def _lanes(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(record, lane) of every bit."""
    record, lane = np.nonzero(mask[:, None] >> np.arange(LANES, dtype=np.uint32) & 1)
    return record, lane


def _thread(launch: Launch, record: np.ndarray, lane: np.ndarray) -> np.ndarray:
    block, warp = (launch.records[name][record].astype(np.int64) for name in ("block", "warp"))
    return block * launch.block_threads + warp * LANES + lane


def _bounds(launch: Launch) -> Iterator[Fault]:
    """Accesses that were refused: out of bounds, or misaligned."""
    barrier = np.array([site.what == "barrier" for site in launch.sites], bool)
    records = launch.records
    refused = np.where(barrier[records["site"]], 0, records["wanted"] & ~records["taken"]).astype(np.uint32)
    record, lane = _lanes(refused)
    numbers = records["site"][record]
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        first = rows[0]
        site, address = launch.sites[number], int(records["address"][record[first], lane[first]])
        threads = tuple(_thread(launch, record[rows], lane[rows])[:8].tolist())
        base = launch.shared if site.space == "shared" else 0
        if address % max(site.size, 1) and launch.memory.find(address):
            kind, where = "misaligned", f"{address:#x} is not a multiple of {site.size}"
        elif site.space == "shared":
            kind, where = "out of bounds", f"byte {address - base} of the block's memory"
        elif site.space == "local":
            kind, where = "out of bounds", "outside of the thread's memory"
        else:
            kind, where = "out of bounds", launch.memory.describe(address, site.size)
            kind = "use after free" if "was freed" in where else kind
        offset = address - base if site.space == "shared" else -1
        message = f"{site.what} of {site.size} bytes by {len(rows)} threads: {where}"
        yield Fault("memcheck", kind, int(number), message, threads, address=address, offset=max(offset, -1))


def _barriers(launch: Launch) -> Iterator[Fault]:
    """Barriers that a part of a warp came to while another part was elsewhere."""
    for number, site in enumerate(launch.sites):
        if site.what != "barrier":
            continue
        rows = np.flatnonzero(launch.records["site"] == number)
        if len(rows):
            first = launch.records[rows[0]]
            lanes = np.flatnonzero(first["wanted"] >> np.arange(LANES, dtype=np.uint32) & 1)
            threads = _thread(launch, rows[:1].repeat(len(lanes)), lanes)
            message = f"{len(lanes)} threads of a warp wait at a barrier that others of the warp have not come to"
            yield Fault("synccheck", "divergent barrier", number, message, tuple(threads[:8].tolist()))


def _events(launch: Launch, space: str) -> Events | None:
    """Accesses of one space that were made, spread over the places that they touch."""
    spaces = ("shared",) if space == "shared" else ("global", "generic", "const")
    here = np.array([site.space in spaces and site.what not in ("barrier", "trap") for site in launch.sites], bool)
    chosen = np.flatnonzero(here[launch.records["site"]]) if len(launch.records) else np.empty(0, np.int64)
    kinds = np.array([_kind_of(site) for site in launch.sites])
    if space == "global" and len(chosen):
        chosen = _worth_a_look(launch, chosen, kinds[launch.records["site"][chosen]] != READ)
    if not len(chosen):
        return None
    sizes = np.array([_element_size(site) for site in launch.sites])
    record, lane = _lanes(launch.records["taken"][chosen])
    record = chosen[record]
    site = launch.records["site"][record].astype(np.int64)
    address = launch.records["address"][record, lane].astype(np.int64)
    size = sizes[site]
    unit = 4 if (size % 4 == 0).all() and not (address % 4).any() else 1
    steps = size // unit
    spread = np.repeat(np.arange(len(record)), steps)
    within = np.arange(len(spread)) - np.repeat(np.cumsum(steps) - steps, steps)
    block, epoch = (launch.records[name][record].astype(np.int64) for name in ("block", "epoch"))
    return Events(
        record[spread], site[spread], _thread(launch, record, lane)[spread], block[spread], epoch[spread],
        address[spread] // unit + within, kinds[site][spread], unit,
    )  # fmt: skip


def _worth_a_look(launch: Launch, chosen: np.ndarray, writes: np.ndarray) -> np.ndarray:
    """The records of allocations that the launch writes, or that are not yet all written: only there can be faults."""
    lanes = launch.records["taken"][chosen][:, None] >> np.arange(LANES, dtype=np.uint32) & 1 == 1
    addresses = launch.records["address"][chosen].astype(np.int64)
    begins, complete = launch.memory.extents()
    first, last = (
        np.clip(np.searchsorted(begins, end, side="right") - 1, 0, None)
        for end in (addresses.min(axis=1, where=lanes, initial=1 << 62), addresses.max(axis=1, where=lanes, initial=0))
    )
    first = np.minimum(first, last)
    written = np.zeros(len(begins) + 1, np.int64)
    np.add.at(written, first[writes], 1)
    np.add.at(written, last[writes] + 1, -1)
    wanted = np.r_[0, np.cumsum((np.cumsum(written)[:-1] > 0) | ~complete)]
    return chosen[wanted[last + 1] > wanted[first]]


def _kind_of(site: Site) -> int:
    return ATOMIC if "atomic" in site.what else WRITE if site.what == "store" else READ


def _element_size(site: Site) -> int:
    """Bytes of one record: a vector access makes one for each of its elements."""
    return site.size // site.parts


def _uninitialised(launch: Launch, events: Events, space: str) -> Iterator[Fault]:
    """Reads of places that nobody has written: neither before the launch nor earlier in it."""
    reads = events.kind != WRITE
    if space == "shared":
        key = events.block * (1 << 20) + events.place - launch.shared // events.unit
        before = np.zeros(len(key), bool)
    else:
        key = events.place
        before = launch.memory.is_written(events.place * events.unit, events.unit)
    order = np.lexsort((events.time, key))
    key, time, is_read = key[order], events.time[order], events.kind[order] == READ
    starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    first_write = np.where(is_read, np.iinfo(np.int64).max, time)
    earliest = np.repeat(np.minimum.reduceat(first_write, starts), np.diff(np.r_[starts, len(key)]))
    bad = reads[order] & ~before[order] & (time <= earliest)  # an atomic reads before it writes itself
    rows = order[np.flatnonzero(bad)]
    for number in np.unique(events.site[rows]):
        own = rows[events.site[rows] == number]
        first = own[0]
        address = int(events.place[first]) * events.unit
        threads = tuple(dict.fromkeys(events.thread[own][:64].tolist()))[:8]
        message = f"{launch.sites[number].what} of memory never written"
        offset = address - launch.shared if space == "shared" else -1
        yield Fault("initcheck", "uninitialised read", int(number), message, threads, address=address, offset=offset)


def _races(launch: Launch, events: Events, space: str) -> Iterator[Fault]:
    # within a barrier interval of a block
    block, epoch = events.block, events.epoch
    yield from _conflicts(launch, events, (events.place, epoch, block), space)
    if space == "global":  # between blocks
        yield from _conflicts(launch, events, (events.place,), space, owner=events.block)


def _conflicts(launch: Launch, events: Events, keys: tuple[np.ndarray, ...], space: str,
               owner: np.ndarray | None = None) -> Iterator[Fault]:  # fmt: skip
    """Groups of events with the same keys, of different owners (threads or blocks), one of which writes."""
    by = events.thread if owner is None else owner
    order = np.lexsort((events.time, *keys))
    changed = np.zeros(len(order), bool)
    changed[0] = True
    for key in keys:
        changed[1:] |= key[order][1:] != key[order][:-1]
    starts = np.flatnonzero(changed)
    owners, kinds = by[order], events.kind[order]
    several = np.minimum.reduceat(owners, starts) != np.maximum.reduceat(owners, starts)
    has = [np.logical_or.reduceat(kinds == kind, starts) for kind in (READ, WRITE, ATOMIC)]
    racing = several & (has[WRITE] | has[READ] & has[ATOMIC])
    ends = np.r_[starts[1:], len(order)]
    seen: set[tuple[int, int]] = set()
    for group in np.flatnonzero(racing):
        rows = order[starts[group] : ends[group]]
        pair = _pair(events, rows, by)
        if pair is None:
            continue
        first, second = pair
        sites = (int(events.site[first]), int(events.site[second]))
        if sites in seen:
            continue
        seen.add(sites)
        names = ("read", "write", "atomic")
        kind = "plain access against atomic" if ATOMIC in (events.kind[first], events.kind[second]) else "race"
        place = int(events.place[first]) * events.unit
        message = f"{names[events.kind[first]]} and {names[events.kind[second]]} by different threads without an order"
        yield Fault("racecheck", kind, sites[0], message, (int(events.thread[first]), int(events.thread[second])),
                    sites[1], place, place - launch.shared if space == "shared" else -1)  # fmt: skip


def _pair(events: Events, rows: np.ndarray, by: np.ndarray) -> tuple[int, int] | None:
    """Two events of a group that race: a write (or an atomic) and another one of another owner."""
    kinds = events.kind[rows]
    for strong, weak in ((WRITE, (READ, WRITE, ATOMIC)), (ATOMIC, (READ,))):
        for first in rows[kinds == strong][:8]:
            others = rows[np.isin(kinds, weak) & (by[rows] != by[first])]
            if len(others):
                return int(first), int(others[0])
    return None


# what accesses cost a GPU


def costs(launch: Launch) -> Iterator[tuple[int, int, int]]:
    """(site, requests, sectors or bank conflicts of all requests) of each access to global and shared memory."""
    records = launch.records
    for number, site in enumerate(launch.sites):
        rows = records[records["site"] == number]
        rows = rows[rows["taken"] != 0]
        if not len(rows) or site.what in ("barrier", "trap"):
            continue
        lanes = (rows["taken"][:, None] >> np.arange(LANES, dtype=np.uint32) & 1).astype(bool)
        if site.space in ("global", "generic", "const"):
            yield number, len(rows), _distinct(rows["address"] // SECTOR, lanes)
        elif site.space == "shared":
            yield number, len(rows), _most_in_a_bank(rows["address"], lanes)


def _distinct(values: np.ndarray, lanes: np.ndarray) -> int:
    """Distinct values among the lanes of each row, added up."""
    filled = np.where(lanes, values, values.max(axis=1, where=lanes, initial=0)[:, None])
    ordered = np.sort(filled, axis=1)
    return int((ordered[:, 1:] != ordered[:, :-1]).sum() + len(values))


def _most_in_a_bank(addresses: np.ndarray, lanes: np.ndarray) -> int:
    """The largest number of different words of one bank, for each row, added up."""
    total = 0
    for row, taken in zip(addresses[:4096], lanes[:4096], strict=True):
        words = np.unique(row[taken] // 4)
        total += int(np.bincount((words % BANKS).astype(np.int64)).max())
    return total * len(addresses) // min(len(addresses), 4096)
