"""Graphs of GPUs are graphs of the driver: one call replays them, conditions included; changes reach the nodes."""

import gc
import itertools

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.context import array, launch, zeros
from engine.errors import BoundsError, DeviceError


@k.kernel
def add(x: k.array(dtype=int), amount: int):
    x[k.tid()] += amount


@k.kernel
def add_beyond(x: k.array(dtype=int), offset: int):
    x[k.tid() + offset] += 1


@k.kernel
def add_plane(x: k.array(dtype=int, layout="planes"), amount: int):
    x[k.tid()] += amount


@k.struct
class Wide:
    numbers: k.matrix(shape=(32, 33), dtype=float)


@k.kernel
def first_of(wide: Wide, x: k.array(dtype=float)):
    x[k.tid()] = wide.numbers[31, 32]


class Noting:
    """A driver that notes its calls and hands them on."""

    def __init__(self, driver):
        self.driver, self.calls = driver, []

    def __getattr__(self, name):
        found = getattr(self.driver, name)
        if not name.startswith("cu"):
            return found

        def call(*args):
            self.calls.append(name)
            return found(*args)

        return call

    def count(self, name):
        return self.calls.count(name)


_numbers = itertools.count()


@pytest.fixture
def gpu(monkeypatch):
    """A device whose driver's calls are noted, as the default one."""
    from engine.context import device as devices
    from engine.context.device_cuda import CudaDevice
    from engine.context.emulator.driver import Driver

    driver, name = Noting(Driver(80)), f"emu:noted{next(_numbers)}"
    monkeypatch.setitem(devices._devices, name, CudaDevice(name, driver, name_arrays=driver.name_arrays))
    with engine.ScopedDevice(name) as found:
        yield found


def test_a_replay_is_one_call(gpu):
    x, y = zeros(5, dtype=int), zeros(5, dtype=int)
    turns, flag = array([0], dtype=int), array([0], dtype=int)

    def body():
        launch(add, 5, [x, 1])
        engine.capture_if(flag, lambda: launch(add, 5, [y, 10]), lambda: launch(add, 5, [y, 1]))
        launch(add, 1, [turns, -1])

    with engine.ScopedCapture() as capture:
        x.fill_(7)
        engine.capture_while(turns, body)
        y[:2].assign(x[:2])
        launch(add, 0, [x, 1000])  # no threads
    capture.graph.launch()
    gpu.driver.calls.clear()
    turns_given = turns.device is gpu
    capture.graph.launch()
    assert turns_given and gpu.driver.count("cuGraphLaunch") == 1 and gpu.driver.count("cuLaunchKernel") == 0
    assert capture.graph.replayed_by == "one graph of the driver" and capture.graph.replays == 2
    for given, holds, expected in ((3, 0, [10, 10, 3, 3, 3]), (2, 1, [9, 9, 20, 20, 20]), (0, 1, [7, 7, 0, 0, 0])):
        turns.fill_(given)
        flag.fill_(holds)
        y.zero_()
        capture.graph.launch()
        assert x.list() == [7 + given] * 5 and y.list() == expected and turns[0] == 0


def test_runs_of_bytes_are_copied_and_filled_by_the_driver(gpu):
    x = zeros((4, 3))
    words, halves, doubles = zeros(6, dtype=k.uint8), zeros(6, dtype=k.uint16), zeros(6, dtype=k.float64)
    source = array(np.arange(12, dtype=np.float32).reshape(4, 3))
    with engine.ScopedCapture() as capture:
        x.assign(source)
        x[1].fill_(2.5)
        words.fill_(200)
        halves.fill_(0x1234)
        doubles[1:5].fill_(1.5)  # its halves differ: a kernel
        doubles[2:4].zero_()
        x[:, 2].fill_(9.0)  # with gaps: a kernel
        x[3].assign([4.0, 5.0, 6.0])
    capture.graph.launch()
    calls = gpu.driver.calls
    assert (calls.count("cuGraphAddMemcpyNode"), calls.count("cuGraphAddMemsetNode")) == (2, 4)
    assert calls.count("cuGraphAddKernelNode") == 2
    expected = np.arange(12).reshape(4, 3)
    expected[1], expected[:, 2] = 2.5, 9
    assert x.numpy()[0].tolist() == [0, 1, 9] and x.numpy()[1].tolist() == [2.5, 2.5, 9] and x[3, 0] == 4.0
    assert words.list() == [200] * 6 and halves.list() == [0x1234] * 6
    assert doubles.list() == [0.0, 1.5, 0.0, 0.0, 1.5, 0.0]
    source.fill_(1.0)
    capture.graph.launch()
    assert x.numpy().tolist() == [[1, 1, 9], [2.5, 2.5, 9], [1, 1, 9], [4, 5, 6]]


def test_changes_reach_the_nodes(gpu):
    x, turns = zeros(3, dtype=int), zeros(1, dtype=int)
    with engine.ScopedCapture() as capture:
        launch(add, 3, [x, 1])
        engine.capture_while(turns, lambda: (launch(add, 3, [x, 10]), launch(add, 1, [turns, -1])))
    graph = capture.graph
    turns.fill_(1)
    graph.launch()
    assert x.list() == [11] * 3
    gpu.driver.calls.clear()
    graph.launches[0].set_param("amount", 2)
    turns.fill_(1)
    graph.launch()
    assert x.list() == [23] * 3 and gpu.driver.count("cuGraphExecKernelNodeSetParams") == 1
    graph.launches[1].set_param("amount", 20)  # in the body of a loop
    graph.launches[1].set_dim(2)
    turns.fill_(1)
    graph.launch()
    assert x.list() == [45, 45, 25] and gpu.driver.count("cuGraphExecUpdate") == 1
    graph.launches[0].set_param("amount", 3)  # a change of the one does not take back that of the other
    turns.fill_(1)
    graph.launch()
    assert x.list() == [68, 68, 28] and gpu.driver.count("cuGraphInstantiate") == 0
    fresh = array([0, 0, 0], dtype=int)
    graph.launches[0].set_param("x", fresh)
    graph.launches[0].set_dim(0)
    graph.launch()
    assert fresh.list() == [0, 0, 0]
    graph.launches[0].set_dim(3)
    graph.launch()
    assert fresh.list() == [3, 3, 3]


def test_what_the_driver_refuses_to_change_is_built_anew(gpu, monkeypatch):
    x = zeros(3, dtype=int)
    with engine.ScopedCapture() as capture:
        launch(add, 3, [x, 1])
    capture.graph.launch()
    real = gpu.driver.CUresult
    refusal = (real.CUDA_ERROR_NOT_SUPPORTED,)
    monkeypatch.setattr(gpu.driver.driver, "cuGraphExecKernelNodeSetParams", lambda *args: refusal)
    capture.graph.launches[0].set_param("amount", 5)
    capture.graph.launch()
    assert x.list() == [6] * 3 and gpu.driver.count("cuGraphInstantiate") == 2


def test_tables_that_move_change_conditions(gpu):
    from engine.context import table

    @table
    class Rows:
        left: int

    rows, out = Rows(1), zeros(2, dtype=int)
    with engine.ScopedCapture() as capture:
        engine.capture_while(rows.left, lambda: (launch(add, 2, [out, 1]), launch(add_plane, 1, [rows.left, -1])))
    rows.left.fill_(2)
    capture.graph.launch()
    rows.resize(1000)
    rows.left.fill_(3)
    capture.graph.launch()
    assert out.list() == [5, 5]


def test_an_old_driver_lets_the_host_read_the_conditions(gpu):
    gpu.driver.driver.version = 12_020
    x, turns, flag = zeros(2, dtype=int), zeros(1, dtype=int), zeros(1, dtype=int)
    with engine.ScopedCapture() as capture:
        launch(add, 2, [x, 1])
        launch(add, 2, [x, 1])

        def body():
            launch(add, 2, [x, 10])
            launch(add, 1, [turns, -1])

        engine.capture_while(turns, body)
        engine.capture_if(flag, lambda: launch(add, 2, [x, 100]))
        launch(add, 2, [x, 1000])
    for given, holds, expected in ((0, 0, 1002), (3, 1, 1132)):
        x.zero_()
        turns.fill_(given)
        flag.fill_(holds)
        gpu.driver.calls.clear()
        capture.graph.launch()
        assert x.list() == [expected] * 2 and gpu.driver.count("cuGraphLaunch") == 2 + given + holds
    assert capture.graph.replayed_by == ("4 graphs of the driver, with 2 conditions that the host reads: conditional "
                                         "nodes need a driver for CUDA 12.4, this one has 12.2")  # fmt: skip
    capture.graph.launches[2].set_param("amount", 20)
    turns.fill_(1)
    capture.graph.launch()
    assert x.list() == [2254] * 2


def test_time_stamps_are_events(gpu):
    x, flag = zeros(64, dtype=int), zeros(1, dtype=int)
    with engine.ScopedCapture() as capture:
        engine.capture_stamp()
        launch(add, 64, [x, 1])
        engine.capture_stamp()
        engine.capture_if(flag, engine.capture_stamp)
        engine.capture_stamp()
    assert capture.graph.stamps.tolist() == [0] * 4
    capture.graph.launch()
    first, second, never, last = capture.graph.stamps
    assert 0 < first < second < last and never == 0
    assert gpu.driver.count("cuGraphAddEventRecordNode") == 4
    assert "cannot hold time stamps" in capture.graph.replayed_by
    flag.fill_(1)
    capture.graph.launch()
    first, second, third, last = capture.graph.stamps
    assert first < second < third < last


def test_arguments_that_are_too_large_for_parameters(gpu):
    x, wide = zeros(3), Wide()
    wide.numbers[31, 32] = 4.0
    with engine.ScopedCapture() as capture:
        launch(first_of, 3, [wide, x])
    gc.collect()
    capture.graph.launch()
    assert x.list() == [4.0] * 3
    wide.numbers[31, 32] = 5.0
    capture.graph.launches[0].set_param("wide", wide)
    capture.graph.launch()
    assert x.list() == [5.0] * 3


def test_graphs_go_with_the_last_reference(gpu):
    x = zeros(3, dtype=int)
    with engine.ScopedCapture() as capture:
        engine.capture_stamp()
        launch(add, 3, [x, 1])
    capture.graph.launch()
    driver = gpu.driver.driver
    assert len(driver._graphs) == len(driver._execs) == 1
    before = gpu.free_memory
    capture = None
    gc.collect()
    assert not driver._graphs and not driver._execs and not driver._events and gpu.free_memory == before


def test_faults_and_traces_name_the_kernel_and_the_array(gpu):
    x = zeros(40, dtype=int)
    with engine.ScopedCapture() as capture:
        launch(add, 40, [x, 1])
        launch(add_beyond, 40, [x, 1])
    with pytest.raises(DeviceError, match="cuGraphLaunch.*kernel add_beyond_kernel") as caught:
        capture.graph.launch()
    assert caught.value.code == 700
    with engine.debug.trace(["mem"]) as trace:
        capture.graph.launch()
    (found,) = trace.findings
    assert (found.kernel, found.array, found.index) == ("add_beyond_kernel", "x", 40)


def test_kernels_with_checks_are_replayed_one_by_one(gpu):
    with engine.config.scope(checked=True):
        x = zeros(40, dtype=int)
        with engine.ScopedCapture() as capture:
            launch(add, 40, [x, 1])
            launch(add_beyond, 40, [x, 1])
        with pytest.raises(BoundsError, match="add_beyond"):
            capture.graph.launch()
    assert "checks" in capture.graph.replayed_by and gpu.driver.count("cuGraphLaunch") == 0


def test_a_stream_that_another_library_captures_gets_our_launches(gpu):
    driver, x = gpu.driver, zeros(4, dtype=int)
    stream = engine.Stream(gpu)
    launch(add, 4, [x, 0], stream=stream)  # compiles and loads, which a capture would not allow
    with engine.ScopedStream(stream):
        gpu.check("cuStreamBeginCapture", stream.queue.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        launch(add, 4, [x, 3])
        graph = gpu.check("cuStreamEndCapture", stream.queue.handle)
    assert x.list() == [0] * 4
    gpu.check("cuGraphLaunch", gpu.check("cuGraphInstantiate", graph, 0), gpu.stream)
    assert x.list() == [3] * 4
