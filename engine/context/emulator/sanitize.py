"""What is wrong in one launch, in words: bounds, uninitialised reads, races, divergent barriers.

Two accesses to a place race if different threads make them, one of them writes, and not both are atomic, unless a
barrier of their block lies between them; threads of different blocks are never ordered (see `shadow`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.compiler.emit_warp32 import Site
from engine.compiler.warp_layout import LANES
from engine.context.emulator.memory import Memory
from engine.context.emulator.shadow import Found


@dataclass(frozen=True)
class Launch:
    """The records of one launch (`trace.RECORD`) that tell of a lane that was refused, or elsewhere."""

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


def faults(launch: Launch, checks: set[str], found: list[Found]) -> Iterator[Fault]:
    """All that the wanted checks find; `found` is what the places of memory told."""
    if "memcheck" in checks:
        yield from _bounds(launch)
    if "synccheck" in checks:
        yield from _barriers(launch)
    for one in found:
        site = launch.sites[one.site]
        shared = one.address - launch.shared if site.space == "shared" else -1
        if one.race:
            other = launch.sites[one.other]
            kind = "plain access against atomic" if "atomic" in site.what + other.what else "race"
            message = f"{_word(site)} and {_word(other)} by different threads without an order"
            yield Fault("racecheck", kind, one.site, message, one.threads, one.other, one.address, shared)
        else:
            message = f"{site.what} of memory never written"
            yield Fault("initcheck", "uninitialised read", one.site, message, one.threads, address=one.address,
                        offset=shared)  # fmt: skip


def _word(site: Site) -> str:
    return "atomic" if "atomic" in site.what else "write" if site.what == "store" else "read"


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
