"""Graphs: what is captured runs at replay, with the results of the calls made one by one, on any number of workers."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.compiler import lang as k
from engine.config import config
from engine.context import array, empty, graph_native, indirect, launch, table, zeros
from engine.errors import CaptureError, LaunchError, TapeError
from engine.kernels.reduce import reduce_sum
from engine.kernels.scan import scan
from engine.kernels.sort import radix_sort_pairs

N = 5_000


@k.kernel
def scale(x: k.array(dtype=float), s: float):
    i = k.tid()
    x[i] = x[i] * s


@k.kernel
def add(x: k.array(dtype=float), y: k.array(dtype=float)):
    i = k.tid()
    x[i] = x[i] + y[i]


@k.kernel
def wander(x: k.array(dtype=float), y: k.array(dtype=float)):
    """Reads what another thread's element was before the launch, so that a missing wait shows."""
    i = k.tid()
    s = x[(i * 7 + 3) % len(x)]
    for _ in range(20):
        s = s * 0.75 + 0.125
    y[i] = s


@k.kernel
def count_down(c: k.array(dtype=int)):
    c[0] = c[0] - 1


@k.kernel
def tally(x: k.array(dtype=int)):
    i = k.tid()
    x[i] = x[i] + 1


def captured(body, *args):
    with engine.ScopedCapture() as capture:
        body(*args)
    return capture.graph


@pytest.fixture(params=["as it pays", "always shared"])
def sharing(request, monkeypatch):
    """Grids offered to the workers as usual, or all of them whatever they cost."""
    if request.param == "always shared":
        monkeypatch.setattr(graph_native, "ENTER_NS", -1.0)
        monkeypatch.setattr(graph_native, "OFFER_NS", -1.0)
        monkeypatch.setattr(graph_native.Choice, "with_team", lambda self: True)


def test_capturing_runs_nothing_and_replay_runs_all():
    x = array(np.arange(4, dtype=np.float32))

    def body():
        launch(scale, 4, [x, 2.0])
        launch(scale, 4, [x, 3.0])

    g = captured(body)
    assert x.list() == [0.0, 1.0, 2.0, 3.0] and g.replays == 0
    engine.capture_launch(g)
    assert x.list() == [0.0, 6.0, 12.0, 18.0]
    engine.capture_launch(g)
    assert x.list() == [0.0, 36.0, 72.0, 108.0] and g.replays == 2
    assert [one.kernel.name for one in g.launches] == ["scale", "scale"]


def test_parameters_and_grids_change_between_replays():
    x, other = array(np.ones(4, np.float32)), array(np.ones(8, np.float32))
    g = captured(launch, scale, 4, [x, 2.0])
    g.launches[0].set_param("s", 5.0)
    g.launch()
    assert x.list() == [5.0] * 4
    g.launches[0].set_params([other, 3.0])
    g.launches[0].set_dim(6)
    g.launch()
    assert other.list() == [3.0] * 6 + [1.0] * 2 and x.list() == [5.0] * 4
    with pytest.raises(LaunchError, match="'s' expects float32"):
        g.launches[0].set_param("s", "much")
    g.launches[0].set_dim(0)
    g.launch()
    assert other.list() == [3.0] * 6 + [1.0] * 2


def test_a_recorded_launch_is_captured_as_it_is_now():
    x = array(np.ones(4, np.float32))
    command = launch(scale, 4, [x, 2.0], record_cmd=True)
    g = captured(command.launch)
    command.set_param("s", 100.0)
    g.launch()
    assert x.list() == [2.0] * 4


def test_the_graph_keeps_its_memory_alive():
    def body():
        fresh = zeros(N)
        launch(add, N, [fresh, source])
        launch(add, N, [out, fresh])

    source, out = array(np.ones(N, np.float32)), zeros(N)
    g = captured(body)
    for _ in range(3):
        junk = [empty(N).fill_(9.0) for _ in range(20)]
        g.launch()
        del junk
    assert out.list() == [3.0] * N  # `fresh` was zero each time


def test_counts_are_read_at_replay(sharing):
    count, x = array([0]), zeros(N, dtype=int)
    g = captured(launch, tally, indirect(count, 1000), [x])
    expected = np.zeros(N, int)
    for n in (0, 7, 1000, 999, -5, 10**9, 640):
        count.fill_(n)
        g.launch()
        expected[: min(max(n, 0), 1000)] += 1
        np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 16, 17, 4097, 100_003])
def test_every_thread_runs_once(n, workers, sharing):
    x = zeros(n + 64, dtype=int)

    def body():
        for _ in range(40):
            launch(tally, n, [x])

    g = captured(body)
    with config.scope(threads=workers):
        for _ in range(3):
            g.launch()
    assert set(x.numpy()[:n].tolist()) == {120} and not x.numpy()[n:].any()


def test_workers_take_part(monkeypatch):
    monkeypatch.setattr(graph_native, "ENTER_NS", -1.0)
    monkeypatch.setattr(graph_native.Choice, "with_team", lambda self: True)
    x, y = array(np.ones(200_000, np.float32)), zeros(200_000)

    def body():
        for _ in range(20):
            launch(wander, 200_000, [x, y])

    g = captured(body)
    with config.scope(threads=2):
        for _ in range(200):  # on a busy machine a worker may come too late for its share
            g.launch()
            if g.helpers:
                return
    pytest.fail("no other worker ran a part")


steps = st.recursive(
    st.sampled_from(["wander", "back", "scale", "fill", "zero", "copy", "part", "counted"]),
    lambda inner: st.tuples(st.sampled_from(["if", "if not", "while"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=12,
)


class Program:
    """Runs a list of steps on arrays of its own: at once, or into a graph."""

    def __init__(self, n):
        self.n = n
        self.x = array(np.linspace(0.0, 1.0, n, dtype=np.float32))
        self.y, self.count = zeros(n), array([n // 2])
        self.yes, self.no = array([1]), array([0])
        self.turns = [zeros(1, dtype=int) for _ in range(64)]

    def run(self, steps, depth=0):
        x, y, n = self.x, self.y, self.n
        actions = {
            "wander": lambda: launch(wander, n, [x, y]),
            "back": lambda: launch(add, n, [x, y]),
            "scale": lambda: launch(scale, n, [x, 0.5]),
            "fill": lambda: y[n // 3 :].fill_(0.25),
            "zero": lambda: y[: n // 4].zero_(),
            "copy": lambda: engine.copy(x, y),
            "part": lambda: engine.copy(y, y, dest_offset=n // 2, src_offset=n // 3, count=n // 3),
            "counted": lambda: launch(scale, indirect(self.count, n), [y, 1.5]),
        }
        for step in steps:
            if isinstance(step, str):
                actions[step]()
            elif step[0] == "while":
                turn = self.turns[depth]
                turn.fill_(2)

                def body(turn=turn, inner=step[1]):
                    self.run(inner, depth + 1)
                    launch(count_down, 1, [turn])

                engine.capture_while(turn, body)
            else:
                condition = self.yes if step[0] == "if" else self.no
                then, otherwise = lambda inner=step[1]: self.run(inner, depth), lambda: launch(scale, n, [x, 2.0])
                engine.capture_if(condition, then, otherwise)

    def bits(self):
        return self.x.numpy().tobytes() + self.y.numpy().tobytes()


@settings(max_examples=25, deadline=None)
@given(st.lists(steps, min_size=1, max_size=8), st.sampled_from([5, 300, 40_000]), st.booleans())
def test_a_graph_gives_the_bits_of_the_calls_one_by_one(program, n, shared):
    eager = Program(n)
    for _ in range(2):
        eager.run(program)
    limits = graph_native.ENTER_NS, graph_native.OFFER_NS
    graph_native.ENTER_NS, graph_native.OFFER_NS = (-1.0, -1.0) if shared else limits
    try:
        for workers in (1, 2, 4):
            other = Program(n)
            g = captured(other.run, program)
            with config.scope(threads=workers):
                g.launch()
                g.launch()
            assert other.bits() == eager.bits()
    finally:
        graph_native.ENTER_NS, graph_native.OFFER_NS = limits


def test_conditions_outside_of_a_capture():
    x, turns = array(np.ones(2, np.float32)), array([3])
    engine.capture_if(array([0]), lambda: launch(scale, 2, [x, 2.0]), lambda s: launch(scale, 2, [x, s]), s=5.0)
    engine.capture_if(array([1]), captured(launch, scale, 2, [x, 2.0]))
    engine.capture_if(array([0]), lambda: launch(scale, 2, [x, 0.0]))

    def body():
        launch(scale, 2, [x, 2.0])
        launch(count_down, 1, [turns])

    engine.capture_while(turns, body)
    assert x.list() == [80.0, 80.0]
    for wrong in (array([1.0]), array([1, 2]), 1):
        with pytest.raises(TypeError, match="int32 array of one element"):
            engine.capture_if(wrong, body)


def test_graphs_inside_graphs():
    x, turns, flag = array(np.ones(2, np.float32)), array([2]), array([1])
    twice = captured(launch, scale, 2, [x, 2.0])

    def body():
        engine.capture_launch(twice)
        engine.capture_if(flag, twice)
        turns.fill_(3)
        engine.capture_while(turns, loop)

    def loop():
        engine.capture_launch(twice)
        launch(count_down, 1, [turns])

    g = captured(body)
    twice.launches[0].set_param("s", 100.0)  # the other graph has launches of its own
    g.launch()
    assert x.list() == [32.0, 32.0]
    flag.fill_(0)
    g.launch()
    assert x.list() == [512.0, 512.0]


@table
class Particles:
    position: k.vec3
    alive: k.int32


@k.kernel
def push(p: Particles):
    i = k.tid()
    p.position[i] = p.position[i] + k.vec3(1.0, 2.0, 3.0)


def test_a_table_that_grows_is_followed():
    p = Particles(3)
    count, flags = p.alive, Particles(1)

    def body():
        launch(push, indirect(flags.alive, 100), [p])
        p.alive.fill_(7)
        engine.capture_if(flags.alive, lambda: launch(push, 1, [p]))

    flags.alive.fill_(3)
    g = captured(body)
    g.launch()
    assert p.position.numpy().tolist() == [[2, 4, 6], [1, 2, 3], [1, 2, 3]]
    p.resize(5)
    flags.resize(2)  # the condition and the count of the grid move, too: now it has two elements, of which one counts
    flags.alive.fill_(5)
    g.launch()
    assert p.position.numpy()[:, 0].tolist() == [4, 2, 2, 1, 1] and count.list() == [7] * 5


def test_two_tables_grow_one_after_the_other():
    a, b = Particles(2), Particles(2)
    g = captured(lambda: engine.copy(a.position, b.position))
    for n in (2, 5, 1):
        a.resize(n)
        b.resize(n)
        b.position.fill_(float(n))
        g.launch()
        np.testing.assert_array_equal(a.position.numpy(), np.full((n, 3), n))
    a.resize(7)
    with pytest.raises(ValueError, match="equal shapes"):
        g.launch()
    b.resize(7)
    g.launch()


@k.struct
class Mixed:
    a: k.float64
    b: k.int8
    c: k.vec3


LAYOUTS = {
    "floats": lambda: (zeros(12), array(np.arange(12, dtype=np.float32))),
    "slices": lambda: (zeros(24)[1::2], array(np.arange(36, dtype=np.float32))[::3]),
    "reversed": lambda: (zeros(12)[::-1], array(np.arange(12, dtype=np.float32))),
    "columns": lambda: (zeros((4, 6))[:, 2], array(np.arange(24, dtype=np.float32)).reshape((4, 6))[:, 1]),
    "transposed": lambda: (zeros((4, 6)), array(np.arange(24, dtype=np.float32)).reshape((6, 4)).transpose()),
    "vectors": lambda: (zeros(5, dtype=k.vec3), array(np.arange(15, dtype=np.float32).reshape(5, 3), dtype=k.vec3)),
    "to planes": lambda: (
        zeros(5, dtype=k.vec3, layout="planes"),
        array(np.arange(15, dtype=np.float32).reshape(5, 3), dtype=k.vec3),
    ),
    "from rows": lambda: (
        zeros((2, 5), dtype=k.vec3),
        array(np.arange(30, dtype=np.float32).reshape(2, 5, 3), dtype=k.vec3, layout="rows"),
    ),
    "matrices": lambda: (
        zeros((2, 3), dtype=k.mat22),
        array(np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2), dtype=k.mat22),
    ),
    "bytes": lambda: (zeros(7, dtype=k.int8), array(np.arange(7, dtype=np.int8))),
    "halves": lambda: (zeros(7, dtype=k.float16), array(np.arange(7, dtype=np.float16))),
    "structs": lambda: (
        zeros(3, dtype=Mixed),
        array([Mixed(a=float(i), b=i, c=k.vec3(float(i))) for i in range(3)], dtype=Mixed),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_copies_and_fills_between_all_layouts(name):
    target, source = LAYOUTS[name]()

    def body():
        engine.copy(target, source)

    g, clear = captured(body), captured(target.zero_)
    before = target.numpy().tobytes()
    for _ in range(2):
        g.launch()
        np.testing.assert_array_equal(target.numpy(), source.numpy())
        clear.launch()
        assert target.numpy().tobytes() == before
    first = source[0] if source.ndim == 1 else source[0, 0]
    captured(target.fill_, first).launch()
    assert all(np.array_equal(item, source.numpy()[(0,) * source.ndim])
               for item in target.numpy().reshape(-1, *target.numpy().shape[target.ndim:]))  # fmt: skip


def test_what_the_host_gives_is_copied_into_the_graph():
    x, values = zeros(3), np.array([1.0, 2.0, 3.0], np.float32)

    def body():
        x.assign(values)
        x[1] = 7.0
        x[2:] = [8.0]

    g = captured(body)
    values[:] = -1.0
    g.launch()
    assert x.list() == [1.0, 7.0, 8.0]
    with engine.ScopedCapture() as capture:
        y = array([1.0, 2.0])
        launch(scale, 2, [y, 3.0])
    for _ in range(2):
        capture.graph.launch()
        assert y.list() == [3.0, 6.0]


def test_the_algorithms_of_the_engine_are_captured(rng):
    n = 9000
    keys = array(rng.integers(0, 1 << 20, n).astype(np.uint64))
    values, sums, total = zeros(n, dtype=int), zeros(n, dtype=int), zeros(1, dtype=int)
    fresh = array(keys.numpy())

    def body():
        engine.copy(keys, fresh)
        values.assign(np.arange(n))
        radix_sort_pairs(keys, values, 20)
        scan(values, sums)
        reduce_sum(values, total)

    g = captured(body)
    for seed in range(2):
        fresh.assign(np.random.default_rng(seed).integers(0, 1 << 20, n).astype(np.uint64))
        g.launch()
        order = np.argsort(fresh.numpy(), kind="stable")
        np.testing.assert_array_equal(values.numpy(), order)
        np.testing.assert_array_equal(sums.numpy(), np.cumsum(order) - order)
        assert total[0] == np.sum(np.arange(n))


def test_what_cannot_be_captured_is_refused_by_name():
    x, p, whole = zeros(3), Particles(3), zeros(3, dtype=int)
    some = x[array([0, 1])]
    refused = {
        "array.numpy": x.numpy,
        r"array\[...\]": lambda: x[0],
        "Table.resize": lambda: p.resize(9),
        "cannot convert": lambda: x.assign(whole),
        "capturing already": engine.capture_begin,
        "adjoint": lambda: launch(scale, 3, [x, 1.0], adj_inputs=[x, None], adjoint=True),
        "Tape": engine.Tape().__enter__,
        "Tape.backward": lambda: engine.Tape().backward(),
        "indexed arrays are not captured": lambda: x[:2].assign(some),
        "writes to indexed arrays": lambda: some.fill_(1.0),
        "to indexed arrays": lambda: some.assign(x[:2]),
    }
    with engine.ScopedCapture() as capture:
        for message, call in refused.items():
            with pytest.raises(CaptureError, match=message):
                call()
        with pytest.raises(LaunchError, match="'s' expects float32"):
            launch(scale, 3, [x, "s"])
        with pytest.raises(ValueError, match="shape"):
            x.assign(np.zeros(4))
        with pytest.raises(TypeError, match="capture_launch takes a graph"):
            engine.capture_launch(None)
    assert capture.graph.launches == [] and x.device.is_capturing is False
    capture.graph.launch()
    with pytest.raises(CaptureError, match="capture_end: this thread captures nothing"):
        engine.capture_end()


class Elsewhere:
    name, is_cpu, is_cuda = "elsewhere", False, False


def test_other_devices_are_refused():
    """What lies on another device would be called by an address that means nothing here."""
    elsewhere, x = Elsewhere(), zeros(3)
    foreign = zeros(3)
    foreign.device = elsewhere
    calls = [lambda: launch(scale, 3, [x, 1.0], device=elsewhere), foreign.zero_, lambda: x.assign(foreign),
             lambda: foreign.fill_(1.0)]  # fmt: skip
    with engine.ScopedCapture() as capture:
        for call in calls:
            with pytest.raises(CaptureError, match="this is on 'elsewhere'"):
                call()
    assert capture.graph.launches == []


def test_an_error_ends_the_capture():
    with pytest.raises(ZeroDivisionError), engine.ScopedCapture() as capture:
        raise ZeroDivisionError
    assert capture.graph is None
    x = array(np.ones(2, np.float32))
    launch(scale, 2, [x, 2.0])
    assert x.list() == [2.0, 2.0]


def test_tapes_and_graphs():
    x = array(np.ones(2, np.float32), requires_grad=True)
    loss = zeros(2, requires_grad=True)
    g = captured(launch, scale, 2, [x, 2.0])
    with engine.Tape() as tape:
        with pytest.raises(TapeError, match="cannot record a graph"):
            g.launch()
        launch(wander, 2, [x, loss])
    g.launch()  # a living tape gets to know that its input changes; this kernel does not read it again
    tape.backward(grads={loss: array(np.ones(2, np.float32))})
    assert x.list() == [2.0, 2.0] and np.isfinite(x.grad.numpy()).all()
    del tape
    gc.collect()
    twice = captured(lambda: [launch(scale, 2, [x, 2.0]) for _ in range(2)])
    twice.launch()  # its first launch notices that the tape is gone
    assert x.list() == [8.0, 8.0]


def test_python_threads_capture_and_launch_by_themselves():
    shared = zeros(N)
    together = captured(launch, add, N, [shared, array(np.ones(N, np.float32))])
    wrong = []

    def body():
        for turn in range(5):
            x = array(np.full(N, 2.0, np.float32))
            with engine.ScopedCapture() as capture:
                launch(scale, N, [x, 3.0])
                time.sleep(0.001)
            if x[0] != 2.0:
                wrong.append("captured work ran")
            capture.graph.launch()
            together.launch()
            if set(x.list()) != {6.0}:
                wrong.append((turn, x[0]))

    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        probe = array(np.ones(1, np.float32))
        launch(scale, 1, [probe, 4.0])  # this thread captures nothing
        assert probe[0] == 4.0
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)
    assert set(shared.list()) == {20.0}


def test_an_endless_loop_can_be_interrupted():
    on, x = array([1]), zeros(1, dtype=int)
    g = captured(engine.capture_while, on, lambda: launch(tally, 1, [x]))

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stop):
            g.launch()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert x[0] > 0
    on.fill_(0)
    g.launch()


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_replays(monkeypatch):
    monkeypatch.setattr(graph_native, "ENTER_NS", -1.0)
    x, y = array(np.linspace(0.0, 1.0, 100_000, dtype=np.float32)), zeros(100_000)
    g = captured(launch, wander, 100_000, [x, y])
    with config.scope(threads=2):
        g.launch()
        expected = y.numpy().copy()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                y.zero_()
                g.launch()
                fresh = captured(launch, wander, 100_000, [x, y])
                status = 0 if np.array_equal(y.numpy(), expected) else 2
                fresh.launch()
            finally:
                os._exit(status)
        deadline = time.monotonic() + 60
        while not (done := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                pytest.fail("the child hung")
            time.sleep(0.01)
        assert os.waitstatus_to_exitcode(done[1]) == 0
        g.launch()
    np.testing.assert_array_equal(y.numpy(), expected)


def test_time_stamps_and_pictures(tmp_path):
    x = array(np.ones(4, np.float32))

    def body():
        first = engine.capture_stamp()
        launch(scale, 4, [x, 2.0])
        engine.capture_if(array([1]), lambda: launch(scale, 4, [x, 2.0]))
        return first, engine.capture_stamp()

    g = captured(body)
    began = time.perf_counter_ns()
    g.launch()
    ended = time.perf_counter_ns()
    assert began <= g.stamps[0] <= g.stamps[1] <= ended
    engine.capture_debug_dot_print(g, tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert text.count("scale") == 2 and 'label="true"' in text


def test_kernels_with_checks_report_from_a_graph():
    x, turns = zeros(4, dtype=int), array([2])

    def body():
        engine.capture_while(turns, lambda: launch(count_down, 1, [turns]))
        engine.capture_stamp()
        engine.capture_if(turns, lambda: launch(tally, 9, [x]), lambda: launch(tally, 6, [x]))

    with config.scope(checked=True):
        g = captured(body)
        with pytest.raises(engine.errors.BoundsError, match="index 4 is outside 'x'"):
            g.launch()
    assert turns[0] == 0 and x.list() == [1] * 4 and g.stamps[0] > 0


def test_streams_stand_for_their_device():
    x, stream, before = array(np.ones(4, np.float32)), engine.Stream(), engine.get_stream()
    with engine.ScopedCapture(stream=stream) as capture, engine.ScopedStream(stream, sync_exit=True):
        assert engine.get_stream() is stream and stream.is_capturing
        launch(scale, 4, [x, 2.0], stream=stream)
        done = engine.record_event()
        engine.wait_event(done)
        with pytest.raises(CaptureError, match="synchronize"):
            stream.synchronize()
    assert engine.get_stream() is before and not stream.is_capturing
    engine.capture_launch(capture.graph, stream=stream)
    assert x.list() == [2.0] * 4


def test_graphs_that_called_no_worker_leave_a_child_its_runtime(tmp_path):
    """Only a region in the parent takes the OpenMP runtime from a forked child."""
    program = tmp_path / "program.py"
    program.write_text("""
import os
import engine
from engine.context.threads import pool

@engine.kernel
def tally(x: engine.array(dtype=int)):
    i = engine.tid()
    x[i] = x[i] + 1

x = engine.zeros(10, dtype=int)
with engine.config.scope(threads=2):
    with engine.ScopedCapture() as capture:
        engine.launch(tally, 10, [x])
    capture.graph.launch()
    assert not pool.entered and not capture.graph.entered
    child = os.fork()
    if child == 0:
        capture.graph.launch()
        os._exit(0 if "forked child" not in pool.describe() and x[9] == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
