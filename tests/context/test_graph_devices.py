"""Graphs mean the same on every device: launches, copies, fills, conditions, changes between replays."""

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.context import array, empty, indirect, launch, table, zeros
from engine.errors import CaptureError


@k.kernel
def scale(x: k.array(dtype=float), s: float):
    i = k.tid()
    x[i] = x[i] * s


@k.kernel
def scale_plane(x: k.array(dtype=float, layout="planes"), s: float):
    i = k.tid()
    x[i] = x[i] * s


@k.kernel
def count_down(c: k.array(dtype=int)):
    c[0] = c[0] - 1


@pytest.fixture
def home(device):
    with engine.ScopedDevice(device) as found:
        yield found


def test_capturing_runs_nothing_and_each_replay_runs_all(home):
    x = array(np.arange(4, dtype=np.float32))
    with engine.ScopedCapture() as capture:
        launch(scale, 4, [x, 2.0])
        launch(scale, 4, [x, 3.0])
    assert x.list() == [0.0, 1.0, 2.0, 3.0] and capture.graph.replays == 0
    for expected in ([0.0, 6.0, 12.0, 18.0], [0.0, 36.0, 72.0, 108.0]):
        engine.capture_launch(capture.graph)
        assert x.list() == expected
    assert capture.graph.replays == 2
    capture.graph.launches[1].set_param("s", 0.5)
    capture.graph.launches[0].set_dim(2)
    capture.graph.launch()
    assert x.list() == [0.0, 36.0, 36.0, 54.0]


def test_fills_and_copies_read_at_replay(home):
    source = array(np.arange(12, dtype=np.float32).reshape(6, 2))
    out = zeros((3, 2))
    planes = zeros(5, dtype=k.vec3, layout="planes")
    half, line = zeros(4, dtype=k.float16), array(np.arange(6, dtype=np.int64))
    with engine.ScopedCapture() as capture:
        out.assign(source[::-2])
        planes.fill_(2.5)
        planes[1:3].assign(np.full((2, 3), 7.0, np.float32))
        half.assign([1.0, 2.0, 3.0, 4.0])
        line[1:].assign(line[:-1])  # they overlap
        fresh = zeros(3)
        launch(scale, 3, [fresh, 2.0])
    assert not out.numpy().any() and not planes.numpy().any() and line.list() == list(range(6))
    source.fill_(4.0)
    source[5].fill_(1.0)
    capture.graph.launch()
    assert out.numpy().tolist() == [[1.0, 1.0], [4.0, 4.0], [4.0, 4.0]]
    assert planes.numpy().tolist() == [[2.5] * 3, [7.0] * 3, [7.0] * 3, [2.5] * 3, [2.5] * 3]
    assert half.list() == [1.0, 2.0, 3.0, 4.0] and line.list() == [0, 0, 1, 2, 3, 4]
    planes.zero_()
    capture.graph.launch()
    assert planes.numpy()[1].tolist() == [7.0] * 3 and line.list() == [0, 0, 0, 1, 2, 3]


def test_conditions_are_read_at_replay(home):
    turns, x, flag = array([0], dtype=int), zeros(1), array([0], dtype=int)
    with engine.ScopedCapture() as capture:

        def body():
            launch(scale, 1, [x, 2.0])
            launch(count_down, 1, [turns])

        engine.capture_while(turns, body)
        engine.capture_if(flag, lambda: x.fill_(-1.0), lambda: launch(scale, 1, [x, 10.0]))
    for n, given, expected in ((3, 0, 80.0), (0, 0, 10.0), (5, 1, -1.0)):
        x.fill_(1.0)
        turns.fill_(n)
        flag.fill_(given)
        capture.graph.launch()
        assert x[0] == expected and turns[0] == 0


def test_counts_on_the_device_and_tables_that_grow(home):
    @table
    class Rows:
        mass: float

    rows, count = Rows(3), array([2], dtype=int)
    rows.mass.fill_(1.0)
    with engine.ScopedCapture() as capture:
        launch(scale_plane, indirect(count, 3), [rows.mass, 3.0])
        engine.capture_stamp()
    capture.graph.launch()
    assert rows.mass.list() == [3.0, 3.0, 1.0] and capture.graph.stamps[0] > 0
    rows.resize(5)
    count.fill_(1)
    capture.graph.launch()
    assert rows.mass.list() == [9.0, 3.0, 1.0, 0.0, 0.0]


def test_what_reads_on_the_host_is_refused(home):
    x = empty(3)
    with engine.ScopedCapture() as capture, pytest.raises(CaptureError):
        x.numpy()
    with engine.ScopedCapture() as outer:
        capture.graph.launch()
    assert outer.graph.launches == []
    other = zeros(3, device="emu:sm_90")
    with engine.ScopedCapture(), pytest.raises(CaptureError, match="this is on 'emu:sm_90'"):
        other.fill_(1.0)
