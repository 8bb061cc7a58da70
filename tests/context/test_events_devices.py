"""Streams, events and timed scopes on every device; on a GPU the times are those of the driver's events."""

import gc
import json

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.context import array, get_device, launch
from engine.errors import DeviceError
from engine.timer import Timer


@k.kernel
def work(x: k.array(dtype=float), n: int):
    i = k.tid()
    for _ in range(n):
        x[i] = x[i] * 0.5 + 1.0


@pytest.fixture
def home(device):
    with engine.ScopedDevice(device) as found:
        yield found


def test_events_measure_what_lies_between_them(home):
    x = array(np.zeros(256, np.float32))
    launch(work, 256, [x, 1])
    stream = engine.get_stream()
    start = stream.record_event()
    launch(work, 256, [x, 3_000])
    middle = stream.record_event()
    launch(work, 256, [x, 1])
    end = engine.record_event()
    whole, first = engine.get_event_elapsed_time(start, end), middle.elapsed_since(start)
    rest = end.elapsed_since(middle)
    assert first > 0.0 and rest > 0.0 and whole == pytest.approx(first + rest, abs=0.005)
    assert end.is_complete and stream.is_complete
    engine.synchronize_event(end)
    stream.synchronize()
    assert x.numpy() == pytest.approx(2.0)


def test_events_that_cannot_be_compared(home):
    fresh, recorded = engine.Event(), engine.Event()
    assert fresh.is_complete
    fresh.synchronize()
    recorded.record()
    with pytest.raises(DeviceError, match="two recorded events"):
        recorded.elapsed_since(fresh)
    other = engine.Event("emu:sm_75")
    other.record()
    with pytest.raises(DeviceError, match="events of one device, not of"):
        recorded.elapsed_since(other)
    engine.get_stream().wait_event(other)
    engine.Stream("emu:sm_75").wait_stream(engine.get_stream())


def test_scopes_are_timed_by_the_device_and_appear_in_the_trace(tmp_path):
    timer, emu = Timer(enabled=True, tracing=True), get_device("emu")
    timer.register_clock(emu)
    x = array(np.zeros(64, np.float32), device=emu)
    with timer.scope("solve", device="emu"):
        launch(work, 64, [x, 500], device=emu)
    totals = timer.totals()
    assert totals["solve"] > 0.0 and totals["solve/solve on emu"] > 0.0
    timer.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "emu" in [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert len([event for event in events if event.get("name") == "solve" and event["ph"] == "X"]) == 2


def test_events_of_the_driver_go_with_the_marks():
    emu = get_device("emu:sm_86")
    before = len(emu.driver._events)
    marks = [emu.mark() for _ in range(5)]
    assert len(emu.driver._events) == before + 5
    del marks
    gc.collect()
    assert len(emu.driver._events) == before


class Noting:
    """A driver that notes its calls and hands them on."""

    def __init__(self, driver):
        self.driver, self.calls = driver, []

    def __getattr__(self, name):
        found = getattr(self.driver, name)
        if not name.startswith("cu"):
            return found

        def call(*args):
            self.calls.append((name, args))
            return found(*args)

        return call


@pytest.fixture
def watched():
    """A device whose driver's calls are noted."""
    from engine.context.device_cuda import CudaDevice
    from engine.context.emulator.driver import Driver

    return CudaDevice("emu:watched", Noting(Driver(80)))


def names(device):
    return [name for name, _ in device.driver.calls]


def test_streams_are_queues_of_the_driver_with_priorities(watched):
    urgent, plain = watched.make_queue(-3), watched.make_queue(0)
    made = [args for name, args in watched.driver.calls if name == "cuStreamCreateWithPriority"]
    assert [args[1] for args in made] == [-3, 0] and all(args[0] == 1 for args in made)  # 1: beside the home stream
    assert watched.check("cuStreamGetPriority", urgent.handle) == -3
    with watched.using(urgent):
        assert int(watched.stream) == int(urgent.handle)
        with watched.using(plain):
            assert int(watched.stream) == int(plain.handle)
        assert int(watched.stream) == int(urgent.handle)
    assert int(watched.stream) == int(watched.home)
    handle = urgent.handle
    watched.driver.calls.clear()
    del urgent, made
    gc.collect()
    # memory waits for what it still does
    assert names(watched)[-3:] == ["cuStreamWaitEvent", "cuEventDestroy", "cuStreamDestroy"]
    assert watched.driver.driver.cuStreamSynchronize(handle)[0] != 0, "it is destroyed with the last reference"


def test_memory_keeps_the_order_of_queues(watched):
    """A queue waits for the memory it is given, and memory waits for the queues before others get it."""
    queue = watched.make_queue(0)
    given = watched.alloc(16, zeroed=True)
    watched.driver.calls.clear()
    watched.download(given.ptr, 16)
    waits = [args for name, args in watched.driver.calls if name == "cuStreamWaitEvent"]
    assert [int(args[0]) for args in waits] == [int(watched.home)], "what Python sees waits for all queues"
    with watched.using(queue):
        watched.driver.calls.clear()
        block = watched.alloc(64, zeroed=True)
        waits = [args for name, args in watched.driver.calls if name == "cuStreamWaitEvent"]
        assert [int(args[0]) for args in waits] == [int(queue.handle)]
        assert names(watched).index("cuMemsetD8Async") < names(watched).index("cuStreamWaitEvent")
    watched.driver.calls.clear()
    del block
    gc.collect()
    found = [(name, args) for name, args in watched.driver.calls if name in ("cuStreamWaitEvent", "cuMemFreeAsync")]
    assert [name for name, _ in found] == ["cuStreamWaitEvent", "cuMemFreeAsync"]
    assert int(found[0][1][0]) == int(watched.home) == int(found[1][1][-1])


def test_work_goes_to_the_stream_that_is_named():
    emu = get_device("emu")
    first, second = engine.Stream(emu, priority=-1), engine.Stream(emu)
    x = array(np.zeros(64, np.float32), device=emu)
    launch(work, 64, [x, 2], stream=first)
    event = first.record_event()
    second.wait_event(event)
    second.wait_stream(first)
    with engine.ScopedStream(second):
        assert int(emu.stream) == int(second.queue.handle)
        launch(work, 64, [x, 1])
    assert int(emu.stream) == int(emu.home)
    with engine.ScopedCapture(device=emu) as capture:
        launch(work, 64, [x, 1], device=emu)
    engine.capture_launch(capture.graph, stream=first)
    first.synchronize()
    assert first.is_complete and event.is_complete and x.numpy() == pytest.approx(2.0 - 0.5**3)


def test_a_context_that_is_current_is_used():
    """Of another library, in this thread; the primary one where there is none, or that of another device."""
    from engine.context.device_cuda import CudaDevice
    from engine.context.emulator.driver import Driver

    foreign = Noting(Driver(80))
    foreign.cuInit(0)
    made = foreign.cuCtxCreate(None, 0, 0)[1]
    device = CudaDevice("emu:foreign", foreign)
    assert int(device.context) == int(made) > 1 and "cuDevicePrimaryCtxRetain" not in names(device)
    fresh = CudaDevice("emu:fresh", Noting(Driver(80)))
    assert "cuDevicePrimaryCtxRetain" in names(fresh)


def test_launches_are_ranges_of_nvtx_where_these_are_wanted(monkeypatch):
    from engine.timer import timer

    seen = []

    class Nvtx:
        push_range = staticmethod(seen.append)
        pop_range = staticmethod(lambda: seen.append("end"))

    monkeypatch.setattr(timer, "_nvtx", Nvtx)
    launch(work, 8, [array(np.zeros(8, np.float32), device="emu"), 1], device="emu")
    assert seen == ["work_kernel", "end"]


def test_blocks_are_as_large_as_occupancy_wants_unless_the_kernel_asks_for_them(watched, monkeypatch):
    driver = watched.driver.driver
    monkeypatch.setattr(driver, "cuOccupancyMaxPotentialBlockSize", lambda *args: (0, 3, 96))

    @k.kernel
    def asks(x: k.array(dtype=int)):
        x[k.tid()] = k.block_dim()

    for kernel, threads in ((work, 96), (asks, 256)):
        kinds = tuple(t for _, t in kernel.params)
        _, program = watched.load(kernel, kinds, ())
        watched.driver.calls.clear()
        sizes = []

        def note(function, grid, block, *rest, sizes=sizes):
            sizes.append((grid, block))

        monkeypatch.setattr(watched, "launch", note)
        program.run((256).to_bytes(8, "little") + bytes(256), 1000)
        assert sizes == [((-(-1000 // threads), 1, 1), (threads, 1, 1))]
