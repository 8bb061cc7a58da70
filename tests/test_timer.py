"""Timed scopes: the tree, threads, device clocks, the printed table and the chrome trace."""

import json
import threading
import time

import pytest

from engine.errors import Error
from engine.timer import Timer


class SteppedClock:
    """A device clock that says 5 ms between any two successive marks."""

    name = "toy:0"

    def __init__(self):
        self.marks = 0

    def mark(self):
        self.marks += 1
        return self.marks

    def elapsed_ns(self, first, second):
        return (second - first) * 5_000_000


def test_scopes_of_one_path_are_one_row():
    timer = Timer(enabled=True)
    for _ in range(3):
        with timer.scope("step"):
            with timer.scope("collide"):
                time.sleep(0.002)
            with timer.scope("solve"):
                pass
    tree = timer.tree()
    step = tree.children["step"]
    counts = {path: node.count for path, _, node, _ in tree.walk()}
    assert counts == {"step": 3, "step/collide": 3, "step/solve": 3}
    collide = step.children["collide"]
    assert 6e6 <= collide.total <= step.total
    assert 2e6 <= collide.shortest <= collide.total / 3 <= collide.longest
    assert timer.totals()["step/collide"] == collide.total / 1e6


def test_a_scope_left_by_an_exception_is_closed():
    timer = Timer(enabled=True)
    with pytest.raises(ZeroDivisionError), timer.scope("outer"), timer.scope("inner"):
        raise ZeroDivisionError
    with timer.scope("next"):
        pass
    assert list(timer.totals()) == ["outer", "outer/inner", "next"]


def test_a_disabled_timer_does_nothing():
    timer = Timer()
    assert timer.scope("a") is timer.scope("b")
    with timer.scope("a"), timer.scope("a"):
        pass
    assert timer.totals() == {}


def test_threads_do_not_mix():
    timer = Timer(enabled=True)
    barrier = threading.Barrier(4)

    def work(name):
        for _ in range(200):
            barrier.wait()
            with timer.scope(name), timer.scope("inner"):
                pass

    threads = [threading.Thread(target=work, args=(f"w{i % 2}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = {path: node.count for path, _, node, _ in timer.tree().walk()}
    assert counts == {"w0": 400, "w0/inner": 400, "w1": 400, "w1/inner": 400}


def test_reset_forgets():
    timer = Timer(enabled=True)
    with timer.scope("open"):
        timer.reset()
    with timer.scope("after"):
        pass
    assert list(timer.totals()) == ["after"]


def test_device_clock_times_scopes_that_name_it():
    timer = Timer(enabled=True, tracing=True)
    timer.register_clock(SteppedClock())
    with timer.scope("step"):
        with timer.scope("collide", device="toy:0"):
            pass
        with timer.scope("host", device="cpu"):
            pass
    tree = timer.tree()
    (on_device,) = tree.children["step"].children["collide"].children.values()
    assert on_device.name == "collide on toy:0" and on_device.total == 5_000_000
    assert tree.children["step"].children["host"].children == {}


def test_table_shows_every_scope_with_its_share():
    timer = Timer(enabled=True)
    with timer.scope("step"), timer.scope("collide"):
        time.sleep(0.001)
    lines = [line for line in timer.table(title="two stages").splitlines() if line]
    assert lines[0].strip() == "two stages"
    assert lines[1].split() == "scope calls total ms mean ms min ms max ms share".split()
    assert lines[3].split()[:2] == ["step", "1"] and lines[4].startswith("    collide") and lines[4].endswith("%")


def test_trace_is_a_chrome_trace(tmp_path):
    timer = Timer(enabled=True, tracing=True)
    timer.register_clock(SteppedClock())
    with timer.scope("step"), timer.scope("solve", device="toy:0"):
        pass
    timer.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = {(event["tid"], event["name"]): event for event in events if event["ph"] == "X"}
    assert list(spans) == [(0, "solve"), (0, "step"), (1, "solve")]
    assert spans[1, "solve"]["dur"] == 5000
    solve, step = spans[0, "solve"], spans[0, "step"]
    assert step["ts"] <= solve["ts"] and solve["ts"] + solve["dur"] <= step["ts"] + step["dur"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == ["MainThread", "toy:0"]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_a_trace_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(Error, match=r"absent/trace\.json: cannot be written: No such file"):
        Timer(enabled=True).trace(tmp_path / "absent" / "trace.json")
