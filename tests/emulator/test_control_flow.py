"""Branches, loops and barriers on the emulated GPU: any flow graph gives each thread what it would compute alone."""
# ruff: noqa: E501 (several instructions in a line keep PTX readable)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler.ptx_flow import flow, loop_order
from engine.compiler.ptx_parser import parse
from engine.context import array, get_device, load_ptx
from tests.emulator.one_instruction import evaluate, kernel_text

N = 96


@given(st.data())
@settings(max_examples=12, deadline=None)
def test_random_jumps_end_where_each_thread_alone_would(data: st.DataObject) -> None:
    """Blocks that add to a sum and jump on bits of it, forwards and backwards; the fuel of each thread is limited."""
    count = data.draw(st.integers(1, 7))
    blocks = [
        (
            data.draw(st.integers(1, 1000)),
            data.draw(st.integers(0, 4)),
            data.draw(st.integers(0, count)),
            data.draw(st.integers(0, count)),
        )
        for _ in range(count)
    ]  # what it adds, the bit it looks at, the blocks that follow; `count` is the end
    fuel = 12
    lines = ["mov.b32 {d}, {a};", f"mov.b32 %r20, {fuel};"]
    for number, (plus, bit, yes, no) in enumerate(blocks):
        lines.append(f"""B{number}: mad.lo.u32 {{d}}, {{d}}, 3, {plus}; sub.u32 %r20, %r20, 1; setp.eq.u32 %p1, %r20, 0; @%p1 bra B{count};
            shr.u32 %r21, {{d}}, {bit}; and.b32 %r21, %r21, 1; setp.ne.u32 %p2, %r21, 0; @%p2 bra B{yes}; bra.uni B{no};""")
    lines.append(f"B{count}:")
    start = np.arange(N, dtype=np.uint32) * np.uint32(2654435761)

    def alone(value: int) -> int:
        left, at = fuel, 0
        while at != count:
            plus, bit, yes, no = blocks[at]
            value, left = (value * 3 + plus) & 0xFFFFFFFF, left - 1
            if not left:
                break
            at = yes if value >> bit & 1 else no
        return value

    got = evaluate("\n".join(lines), [start], np.uint32)
    assert got.tolist() == [alone(int(v)) for v in start]


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    )
)
def test_the_order_of_blocks_has_each_once_and_keeps_loops_together(graph: tuple[int, list[tuple[int, int]]]) -> None:
    n, pairs = graph
    edges = [sorted({b for a, b in pairs if a == node}) for node in range(n)]
    order = loop_order(edges)
    assert sorted(order) == list(range(n))
    reach = [[_reaches(edges, a, b) for b in range(n)] for a in range(n)]
    place = {node: i for i, node in enumerate(order)}
    for a in range(n):
        for b in range(n):
            if reach[a][b] and not reach[b][a] and a != b:
                assert place[a] < place[b]  # what cannot come back comes first
    for a in range(n):
        loop = [b for b in range(n) if reach[a][b] and reach[b][a]]
        places = sorted(place[b] for b in loop)
        assert not places or places == list(range(places[0], places[0] + len(places)))


def _reaches(edges: list[list[int]], start: int, goal: int) -> bool:
    seen, pending = set(), list(edges[start])
    while pending:
        node = pending.pop()
        if node == goal:
            return True
        if node not in seen:
            seen.add(node)
            pending += edges[node]
    return False


def test_a_loop_with_different_trips_runs_its_lanes_together() -> None:
    """Lanes wait for each other at the loop's header, so that the work is the longest trip and not the sum of all."""
    code = """mov.b32 {d}, 0; mov.b32 %r20, 0;
        head: setp.ge.u32 %p1, %r20, {a}; @%p1 bra done;
        and.b32 %r21, %r20, 1; setp.eq.u32 %p2, %r21, 0; @%p2 bra even; add.u32 {d}, {d}, 5; bra.uni next;
        even: add.u32 {d}, {d}, 7; next: add.u32 %r20, %r20, 1; bra.uni head; done:"""
    trips = np.arange(32, dtype=np.uint32)
    counters = get_device("emu").driver.counters
    before = counters.warp_instructions
    got = evaluate(code, [trips], np.uint32)
    assert got.tolist() == [7 * ((t + 1) // 2) + 5 * (t // 2) for t in range(32)]
    assert counters.warp_instructions - before < 32 * 12 + 40


def test_liveness_of_a_loop() -> None:
    entry = parse(
        kernel_text(
            "mov.b32 %r1, 0; loop: add.s32 %r1, %r1, %r0; setp.lt.s32 %p1, %r1, 9; @%p1 bra loop; mov.b32 %r2, %r1;", 0
        )
    ).functions["k"]
    found = flow(entry)
    assert found.live_in[0] == set() and found.live_out[0] == {"%r0", "%r1"}
    assert found.live_in[1] == {"%r0", "%r1"} and found.live_out[1] == {"%r0", "%r1"}
    assert found.live_out[2] == set()


def test_a_table_of_branches() -> None:
    code = """rem.u32 %r20, {a}, 3; table: .branchtargets L0, L1, L2; brx.idx %r20, table;
        L0: mov.b32 {d}, 10; bra done; L1: mov.b32 {d}, 20; bra done; L2: mov.b32 {d}, 30; done:"""
    got = evaluate(code, [np.arange(N, dtype=np.uint32)], np.uint32)
    assert got.tolist() == [10 * (i % 3 + 1) for i in range(N)]


def test_threads_that_end_early_do_not_hold_up_a_barrier() -> None:
    body = """.shared .align 4 .b8 room[512]; ld.param.b64 %d0, [k_param_0]; setp.ge.u32 %p1, %r0, 70; @%p1 ret;
        mul.wide.u32 %d1, %r0, 4; mov.b64 %d2, room; add.s64 %d2, %d2, %d1; st.shared.b32 [%d2], %r0; bar.sync 0;
        sub.s32 %r1, 69, %r0; mul.wide.u32 %d3, %r1, 4; mov.b64 %d2, room; add.s64 %d2, %d2, %d3; ld.shared.b32 %r2, [%d2];
        add.s64 %d0, %d0, %d1; st.global.b32 [%d0], %r2;"""
    out = array(np.full(N, -1, np.int32), device="emu")
    load_ptx(kernel_text(body, 1), device="emu")["k"].launch(2, N, [out])
    assert out.numpy().tolist() == [69 - i for i in range(70)] + [-1] * (N - 70)


def test_a_lock_that_one_lane_holds_is_given_on() -> None:
    """All threads of a block take turns in a critical section: no lane starves while others spin."""
    body = """ld.param.b64 %d0, [k_param_0];
        spin: atom.global.cas.b32 %r1, [%d0], 0, 1; setp.ne.b32 %p1, %r1, 0; @%p1 bra spin;
        ld.global.b32 %r2, [%d0+4]; add.s32 %r2, %r2, 1; st.global.b32 [%d0+4], %r2; atom.global.exch.b32 %r1, [%d0], 0;"""
    out = array(np.zeros(2, np.int32), device="emu")
    load_ptx(kernel_text(body, 1), device="emu")["k"].launch(1, 64, [out])
    assert out.numpy().tolist() == [0, 64]


@pytest.mark.parametrize("block", [(7, 5, 2), (33, 1, 3), (1, 1, 64)])
def test_grids_and_blocks_of_three_axes(block: tuple[int, int, int]) -> None:
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
        mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
        mov.u32 %r7, %tid.y; mov.u32 %r8, %tid.z; mov.u32 %r9, %ntid.x; mov.u32 %r10, %ntid.y; mov.u32 %r11, %ntid.z;
        mad.lo.u32 %r12, %r8, %r10, %r7; mad.lo.u32 %r12, %r12, %r9, %r0;
        mul.lo.u32 %r13, %r9, %r10; mul.lo.u32 %r13, %r13, %r11; mad.lo.u32 %r14, %r6, %r13, %r12;
        ld.param.b64 %d0, [k_param_0]; mul.wide.u32 %d1, %r14, 4; add.s64 %d0, %d0, %d1; st.global.b32 [%d0], %r14;"""
    total = 3 * 2 * 2 * block[0] * block[1] * block[2]
    out = array(np.full(total, -1, np.int32), device="emu")
    load_ptx(kernel_text(body, 1), device="emu")["k"].launch((3, 2, 2), block, [out])
    assert (out.numpy() == np.arange(total)).all()
