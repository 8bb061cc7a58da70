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
    assert whole >= first > end.elapsed_since(middle) >= 0.0
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
