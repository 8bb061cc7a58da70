"""What the shadow of memory finds is what comparing all pairs of accesses finds."""
# ruff: noqa: E501 (several instructions in a line keep PTX readable)

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler.emit_warp32 import Site
from engine.compiler.ptx_parser import parse
from engine.compiler.ptx_pointers import stored_parameters
from engine.context.emulator.memory import Memory
from engine.context.emulator.shadow import Shadow
from engine.context.emulator.trace import RECORD
from tests.emulator.one_instruction import kernel_text

WHAT = ("load", "store", "atomic")
BLOCK_THREADS, PLACES = 40, 6


@st.composite
def launches(draw: st.DrawFn) -> list[tuple[int, int, int, int, int]]:
    """(block, epoch, thread of the block, place, kind) in an order in which the emulator may run them."""
    found = []
    for block, epoch in itertools.product(range(draw(st.integers(1, 3))), range(draw(st.integers(1, 3)))):
        for _ in range(draw(st.integers(0, 6))):
            thread, place = draw(st.sampled_from((0, 1, 33))), draw(st.integers(0, PLACES - 1))
            found.append((block, epoch, thread, place, draw(st.integers(0, 2))))
    return found


def races(accesses: list[tuple[int, int, int, int, int]], shared: bool) -> set[int]:
    """The places that two accesses race at, by comparing all of them."""
    found = set()
    for one, other in itertools.combinations(accesses, 2):
        same_block = one[0] == other[0]
        ordered = (one[1] != other[1] or one[2] == other[2]) if same_block else shared
        kinds = {one[4], other[4]}
        if one[3] == other[3] and not ordered and kinds not in ({0}, {2}):
            found.add(one[3])
    return found


@given(accesses=launches(), shared=st.booleans(), size=st.sampled_from((1, 4, 8)))
@settings(max_examples=150, deadline=None)
def test_races_are_those_of_all_pairs(accesses: list, shared: bool, size: int) -> None:
    memory = Memory(1 << 20)
    begin = memory.allocate(size * PLACES).begin
    room = np.zeros(64, np.uint8)
    space = "shared" if shared else "global"
    sites = [Site(1, (1, 1), what, space, size) for what in WHAT for _ in range(PLACES)]  # a pair of sites counts once
    records = np.zeros(len(accesses), RECORD)
    for row, (block, epoch, thread, place, kind) in zip(records, accesses, strict=True):
        row["site"], row["block"], row["warp"], row["epoch"] = kind * PLACES + place, block, thread // 32, epoch
        row["wanted"] = row["taken"] = 1 << thread % 32
        row["address"][thread % 32] = (room.ctypes.data if shared else begin) + size * place
    shadow = Shadow(memory, sites, BLOCK_THREADS, room.ctypes.data, room.nbytes, False, True, None)
    half = len(records) // 2
    shadow.feed(records[:half])
    shadow.feed(records[half:])
    found = shadow.found()
    assert {one.site % PLACES for one in found} == races(accesses, shared)
    for one in found:
        assert one.race and one.site % PLACES == one.other % PLACES and one.threads[0] != one.threads[1]
        assert one.site >= PLACES  # the first one writes
        start = room.ctypes.data if shared else begin
        assert one.address // size - start // size == one.site % PLACES


def test_costs_are_the_sectors_and_the_words_of_a_bank(rng: np.random.Generator) -> None:
    memory = Memory(1 << 20)
    begin = memory.allocate(1 << 14).begin
    room = np.zeros(1 << 14, np.uint8)
    sites = [Site(1, (1, 1), "load", space, 4) for space in ("global", "shared")]
    records = np.zeros(40, RECORD)
    wanted = np.zeros((2, 2), np.int64)
    for i, row in enumerate(records):
        words = (np.arange(32), np.arange(32) * rng.integers(1, 40), rng.integers(0, 4096, 32))[i % 3]
        row["site"] = site = i % 2
        row["taken"] = row["wanted"] = mask = 0xFFFFFFFF if i < 9 else int(rng.integers(1, 1 << 32))
        row["address"] = (begin, room.ctypes.data)[site] + 4 * words
        lanes = np.flatnonzero(mask >> np.arange(32) & 1)
        units = {int(row["address"][lane]) // (4 if site else 32) for lane in lanes}
        wanted[site] += 1, max(np.bincount([unit % 32 for unit in units])) if site else len(units)
    shadow = Shadow(memory, sites, 32, room.ctypes.data, room.nbytes, False, False, None)
    shadow.feed(records)
    assert (shadow.costs == wanted).all() and not shadow.found()


def test_pointers_that_are_stored_through() -> None:
    def stored(body: str) -> set[tuple[str, int]] | None:
        (entry,) = parse(kernel_text(f"ld.param.b64 %d0, [k_param_0]; ld.param.b64 %d1, [k_param_1]; {body}", 2)).functions.values()
        return stored_parameters(entry)

    assert stored("ld.global.b32 %r1, [%d0]; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; st.global.b32 [%d3], %r1;") == {
        ("k_param_1", 0)}  # fmt: skip
    assert stored("add.s64 %d2, %d0, 8; atom.global.add.u32 %r1, [%d2], 1; red.global.add.u32 [%d1], 1;") == {
        ("k_param_0", 0), ("k_param_1", 0)}  # fmt: skip
    assert stored("ld.global.b32 %r1, [%d0];") == set()
    assert stored("ld.global.b64 %d2, [%d0]; st.global.b32 [%d2], %r1;") is None  # a pointer from memory
    assert stored("ld.global.v2.b32 {%r1, %r2}, [%d0]; mov.b64 %d2, {%r1, %r2}; st.global.b32 [%d2], %r1;") is None
