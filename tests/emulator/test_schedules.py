"""Kernels without races leave the same memory whichever lanes run first; those with races are found out."""


import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine
from engine.cli import main
from engine.compiler.ir import Function
from engine.compiler.pipeline import Options
from engine.compiler.printer import print_function
from engine.compiler.ptx_flow import postdominators
from engine.config import config
from engine.context import array, get_device, load_ptx
from engine.errors import ConfigError, DeviceError
from tests.compiler.test_lanes import outcome, programs
from tests.emulator.one_instruction import kernel_text
from tests.emulator.test_same_bits import emulated
from tests.emulator.test_scene import NAMES, same_bits, scene_bits, simulated
from tests.gpu.test_blocks import block_sums

ORDERS = [("loop-aware", 0), ("ipdom", 0), ("random", 1), ("random", 2)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    count = draw(st.integers(1, 8))
    edges = [draw(st.lists(st.integers(0, count - 1), max_size=2, unique=True)) for _ in range(count)]
    return edges, [draw(st.booleans()) or not targets for targets in edges]


def reaches_end(edges: list[list[int]], leaves: list[bool], start: int, without: int = -1) -> bool:
    seen, work = {start, without}, [start]
    while work:
        node = work.pop()
        if leaves[node]:
            return True
        new = set(edges[node]) - seen
        seen |= new
        work += new
    return False


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_postdominators_are_the_nodes_that_all_ways_lead_through(graph: tuple[list[list[int]], list[bool]]) -> None:
    edges, leaves = graph
    parents, rank = postdominators(edges, leaves)
    root = len(edges)
    for node in filter(lambda n: reaches_end(edges, leaves, n), range(root)):
        chain, at = set(), parents[node]
        while at != root:
            assert rank[at] > rank[node]
            chain.add(at)
            at = parents[at]
        assert chain == {n for n in range(root) if n != node and not reaches_end(edges, leaves, node, without=n)}


@given(fn=programs(), seed=st.integers(0, 1000))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_random_programs_under_each_schedule(fn: Function, seed: int) -> None:
    want = outcome(fn, Options(shape="thread", opt_level=1))
    for schedule in ("ipdom", "random"):
        with config.scope(emu_schedule=schedule, emu_seed=seed):
            assert emulated(fn) == want, print_function(fn)


@pytest.mark.parametrize("schedule,seed", ORDERS)
def test_algorithms_of_the_engine(schedule: str, seed: int, rng: np.random.Generator) -> None:
    keys, values = rng.integers(0, 50, 3000).astype(np.int32), np.arange(3000, dtype=np.int32)
    with config.scope(emu_schedule=schedule, emu_seed=seed):
        pairs = [array(np.concatenate([a, np.zeros_like(a)]), device="emu") for a in (keys, values)]
        engine.utils.radix_sort_pairs(*pairs, 3000)
        sums = engine.zeros(3000, dtype=int, device="emu")
        engine.utils.array_scan(array(keys, device="emu"), sums, inclusive=True)
        halves = engine.zeros(16, device="emu")
        engine.launch(block_sums, 1024, [engine.ones(1024, device="emu"), halves], block_dim=64, device="emu")
    order = np.argsort(keys, kind="stable")
    assert (pairs[0].numpy()[:3000] == keys[order]).all() and (pairs[1].numpy()[:3000] == order).all()
    assert (sums.numpy() == np.cumsum(keys)).all() and (halves.numpy() == 64).all()


@pytest.mark.soak
def test_frames_in_random_order() -> None:
    with config.scope(emu_schedule="random", emu_seed=5):
        emu = simulated("emu", 3, with_door=False)
    same_bits(simulated("cpu", 3, with_door=False), emu)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("schedule,seed", ORDERS[1:])
def test_scenes_in_every_order(name: str, schedule: str, seed: int) -> None:
    with config.scope(emu_schedule=schedule, emu_seed=seed):
        scene_bits(name, 10)


def test_where_lanes_meet_decides_what_a_launch_costs() -> None:
    """`if a and b: … else: many` in two branches: lanes that fail either test wait for each other, or do not."""
    many = "add.u32 %r3, %r3, 3; " * 50
    body = f"""ld.param.b64 %d0, [k_param_0]; and.b32 %r1, %r0, 1; and.b32 %r2, %r0, 2; mov.b32 %r3, 0;
        setp.eq.b32 %p1, %r1, 0; @%p1 bra other; setp.eq.b32 %p2, %r2, 0; @%p2 bra other; add.u32 %r3, %r3, 1; bra done;
        other: {many} done: mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; st.global.b32 [%d0], %r3;"""
    counters = get_device("emu").driver.counters
    kernel = load_ptx(kernel_text(body, 1), device="emu")["k"]
    cost = {}
    for schedule, seed in ORDERS:
        before = counters.warp_instructions
        out = engine.zeros(32, dtype=int, device="emu")
        with config.scope(emu_schedule=schedule, emu_seed=seed):
            kernel.launch(1, 32, [out])
        cost[schedule] = counters.warp_instructions - before
        assert out.list() == [1 if i % 4 == 3 else 150 for i in range(32)]
    assert cost["ipdom"] > cost["loop-aware"] + 45 and cost["random"] >= cost["loop-aware"]


def test_shuffles_wait_for_the_lanes_that_they_ask() -> None:
    @engine.kernel
    def sums(x: engine.array(dtype=float), out: engine.array(dtype=float)):
        i = engine.tid()
        value = x[i]
        for k in range(i % 5):
            value += float(k)
        out[i] = engine.warp_reduce_add(value)

    values = np.arange(96.0)
    wanted = (values + np.array([sum(range(i % 5)) for i in range(96)])).reshape(3, 32).sum(axis=1).repeat(32)
    x, out = array(values, dtype=float, device="emu"), engine.zeros(96, device="emu")
    rows = engine.debug.schedules(sums, 96, [x], [out], seeds=range(8), block_dim=96)
    assert all(row.same for row in rows) and len(rows) == 10 and (out.numpy() == wanted).all()
    assert len({row.warp_instructions for row in rows if row.schedule == "random"}) > 4  # seeds are different orders
    again = engine.debug.schedules(sums, 96, [x], [out], seeds=range(8), block_dim=96)
    assert again == rows  # and the same ones each time


@engine.kernel
def smooth(x: engine.array(dtype=float)):
    i = engine.tid()
    if i > 0:
        x[i] = 0.5 * (x[i - 1] + x[i])


def test_a_race_shows_in_the_memory() -> None:
    x = array(np.arange(64.0) ** 2, dtype=float, device="emu")
    rows = engine.debug.schedules(smooth, 64, [x])
    assert rows[0].same and not all(row.same for row in rows)
    assert x[1] == 0.5  # afterwards it ran once, as usual


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="device 'cpu' cannot be looked into; emulated GPUs"):
        engine.debug.schedules(smooth, 64, [engine.ones(64)], device="cpu")
    with pytest.raises(ValueError, match="a launch of smooth over 0 has no threads"):
        engine.debug.schedules(smooth, 0, [engine.ones(64, device="emu")])
    x = engine.ones(64, device="emu")
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS"):
        engine.debug.schedules(smooth, 65, [x])
    assert (x.numpy() == 1).all()  # as it was
    with pytest.raises(ConfigError, match="'loop-aware', 'ipdom' or 'random'"):
        config.emu_schedule = "fifo"


def test_the_command_reports_each_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import engine\n@engine.kernel\ndef shift(x: engine.array(dtype=float)):\n    i = engine.tid()\n"
        "    if i < 63:\n        x[i + 1] = x[i]\nx = engine.array([float(i) for i in range(64)])\n"
        "engine.launch(shift, 64, [x])\n"
    )
    with pytest.raises(SystemExit):
        main(["trace", str(script), "--schedules", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["kernels"]
    assert list(row["schedules"]) == ["loop-aware", "ipdom", "random"] and row["depends"] and row["launches"] == 1
    with pytest.raises(SystemExit):
        main(["trace", str(script), "--schedules"])
    assert "lanes active by schedule: loop-aware 100 %, ipdom 100 %, random" in capsys.readouterr().out
