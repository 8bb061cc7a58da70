"""A tree of timed scopes over all threads and devices, printed as a table or written as a chrome trace.

    with timer.scope("step"):
        with timer.scope("collide"):
            ...
    print(timer.table())

Scopes of one name below one parent are one row: calls, total, mean, shortest, longest. Each thread grows its own tree
and they are joined for reading, so that a scope takes no lock. A switched-off timer hands out one shared scope that
does nothing. A device that runs later than it is called registers a `DeviceClock`; a scope that names it is then also
timed by the device, as a row of its own.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from engine.config import config
from engine.errors import ConfigError
from engine.replace_file import replacing

EVENT_LIMIT = 1_000_000  # spans kept for a trace; later ones are counted, not kept
_NOTHING = nullcontext()


class DeviceClock(Protocol):
    """How a device takes time on its own line of work (on a CUDA stream: events)."""

    name: str  # of the device, as in "cuda:0"

    def mark(self) -> Any:
        """Puts a time mark behind the work handed over so far; does not wait."""

    def elapsed_ns(self, first: Any, second: Any) -> int:
        """Nanoseconds between two marks; waits until both have been reached."""


class Node:
    """One scope of the tree: how often it was entered and for how long, in nanoseconds."""

    __slots__ = ("children", "count", "longest", "name", "shortest", "total")

    def __init__(self, name: str):
        self.name = name
        self.count, self.total, self.longest, self.shortest = 0, 0, 0, 1 << 62
        self.children: dict[str, Node] = {}

    def child(self, name: str) -> Node:
        node = self.children.get(name)
        if node is None:
            node = self.children[name] = Node(name)
        return node

    def add(self, span: int) -> None:
        self.count += 1
        self.total += span
        self.longest = max(self.longest, span)
        self.shortest = min(self.shortest, span)

    def join(self, other: Node) -> None:
        """Adds what `other` counted, and its children, to this node's."""
        self.count += other.count
        self.total += other.total
        self.longest = max(self.longest, other.longest)
        self.shortest = min(self.shortest, other.shortest)
        for name, node in list(other.children.items()):  # a thread may add to its own tree meanwhile
            self.child(name).join(node)

    def walk(self, path: str = "", depth: int = 0) -> Iterator[tuple[str, int, Node, Node]]:
        """(path, depth, node, parent) of every node below this one, in the order of first entry."""
        for node in self.children.values():
            below = f"{path}/{node.name}" if path else node.name
            yield below, depth, node, self
            yield from node.walk(below, depth + 1)


class _Thread:
    """What one thread has timed: its tree, the scope that it is in, and its spans (name, start, nanoseconds)."""

    def __init__(self) -> None:
        self.ident, self.name = threading.get_ident(), threading.current_thread().name
        self.root = Node("")
        self.stack = [self.root]
        self.spans: list[tuple[str, int, int]] = []


class _Scope:
    """A running scope. It remembers its thread's tree, so that leaving it needs no look-up."""

    __slots__ = ("clock", "first", "name", "started", "thread", "timer")

    def __init__(self, timer: Timer, name: str, clock: DeviceClock | None):
        self.timer, self.name, self.clock = timer, name, clock

    def __enter__(self) -> None:
        self.thread = thread = self.timer._thread()
        thread.stack.append(thread.stack[-1].child(self.name))
        if self.timer._nvtx is not None:
            self.timer._nvtx.push_range(self.name)
        if self.clock is not None:
            self.first = self.clock.mark()
        self.started = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        span = time.perf_counter_ns() - self.started
        node = self.thread.stack.pop()
        node.add(span)
        if self.clock is not None:
            self.timer._pending.append((node, self.clock, self.first, self.clock.mark()))
        if self.timer._nvtx is not None:
            self.timer._nvtx.pop_range()
        if self.timer.tracing:
            self.timer._keep(self.thread.spans, self.name, self.started, span)


class _Range:
    """A range that NVIDIA's profilers show."""

    __slots__ = ("name", "nvtx")

    def __init__(self, nvtx: Any, name: str):
        self.nvtx, self.name = nvtx, name

    def __enter__(self) -> None:
        self.nvtx.push_range(self.name)

    def __exit__(self, *_: object) -> None:
        self.nvtx.pop_range()


class Timer:
    """Times named scopes. `timer` below is the engine's own; a simulation or a test may have another.

    `enabled` switches it, `tracing` also keeps every span for `trace()`.
    """

    def __init__(self, enabled: bool = False, tracing: bool = False):
        self.enabled, self.tracing = enabled, tracing
        self._nvtx: Any = None
        self._clocks: dict[str, DeviceClock] = {}
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forgets everything that was timed. Scopes that are open now count nowhere."""
        with self._lock:
            self._local = threading.local()
            self._threads: list[_Thread] = []
            self._pending: list[tuple[Node, DeviceClock, Any, Any]] = []
            self._device_spans: dict[str, list[tuple[str, int, int]]] = {}
            self._anchors: dict[str, tuple[int, Any]] = {}
            self._dropped = 0
            for clock in self._clocks.values():
                self._anchors[clock.name] = (time.perf_counter_ns(), clock.mark())

    def scope(self, name: str, device: str = "") -> AbstractContextManager[None]:
        """Times a `with` block as `name`, below the scope that this thread is in; on `device` too if it has a clock."""
        if not self.enabled:
            return _NOTHING
        return _Scope(self, name, self._clocks.get(device))

    def range(self, name: str) -> AbstractContextManager[None]:
        """An NVTX range around a `with` block where these are wanted (`use_nvtx`); it is not timed."""
        return _NOTHING if self._nvtx is None else _Range(self._nvtx, name)

    def add(self, name: str, started: int, span: int) -> None:
        """Counts a span that was timed elsewhere, in nanoseconds, as a scope below the one that this thread is in."""
        if self.enabled:
            thread = self._thread()
            thread.stack[-1].child(name).add(span)
            if self.tracing:
                self._keep(thread.spans, name, started, span)

    def register_clock(self, clock: DeviceClock) -> None:
        """Scopes that name this clock's device are from now on timed by it too."""
        with self._lock:
            self._clocks[clock.name] = clock
            self._anchors[clock.name] = (time.perf_counter_ns(), clock.mark())

    def use_nvtx(self) -> None:
        """Scopes and launches on GPUs are NVTX ranges, too, from now on; `ConfigError` without the nvtx package."""
        try:
            import nvtx
        except ImportError:
            raise ConfigError("nvtx", "needs the nvtx package (pip install nvtx)") from None
        self._nvtx = nvtx

    def tree(self) -> Node:
        """The joined tree of all threads; waits for the devices whose scopes are still to be read."""
        self._read_devices()
        root = Node("")
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            root.join(thread.root)
        return root

    def totals(self) -> dict[str, float]:
        """Milliseconds in each scope by its path, "step/collide/broad"."""
        return {path: node.total / 1e6 for path, _, node, _ in self.tree().walk()}

    def table(self, title: str = "") -> str:
        """The tree as text: calls, milliseconds in all, mean, shortest and longest of a call, share of the parent."""
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
        table.add_column("scope", no_wrap=True)
        for column in ("calls", "total ms", "mean ms", "min ms", "max ms", "share"):
            table.add_column(column, justify="right", no_wrap=True)
        for _, depth, node, parent in self.tree().walk():
            if node.count:
                numbers = (node.total, node.total / node.count, node.shortest, node.longest)
                share = f"{node.total / parent.total:.1%}" if parent.total else ""
                cells = [f"{nanoseconds / 1e6:.3f}" for nanoseconds in numbers]
                table.add_row("  " * depth + node.name, str(node.count), *cells, share)
        console = Console(width=120, color_system=None, legacy_windows=False)
        with console.capture() as capture:
            console.print(table)
        return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the spans kept while `tracing` as a chrome trace (for Perfetto); `Error` if it cannot be written."""
        self._read_devices()
        with self._lock:
            lines = [(thread.name, list(thread.spans)) for thread in self._threads]
            lines += [(name, list(spans)) for name, spans in self._device_spans.items()]
        events: list[dict[str, Any]] = []
        for line, (name, spans) in enumerate(lines):
            events.append({"ph": "M", "pid": 0, "tid": line, "name": "thread_name", "args": {"name": name}})
            for scope, start, span in spans:
                event = {"ph": "X", "pid": 0, "tid": line, "name": scope, "ts": start / 1e3, "dur": span / 1e3}
                events.append(event)
        with replacing(path) as beside:
            beside.write_text(json.dumps({"traceEvents": events, "otherData": {"dropped": self._dropped}}))

    def _thread(self) -> _Thread:
        try:
            return self._local.thread
        except AttributeError:
            thread = self._local.thread = _Thread()
            with self._lock:
                self._threads.append(thread)
            return thread

    def _keep(self, spans: list[tuple[str, int, int]], name: str, start: int, span: int) -> None:
        if len(spans) < EVENT_LIMIT:
            spans.append((name, start, span))
        else:
            self._dropped += 1

    def _read_devices(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
            for node, clock, first, second in pending:
                span = clock.elapsed_ns(first, second)
                node.child(f"{node.name} on {clock.name}").add(span)
                if self.tracing:
                    host, mark = self._anchors[clock.name]
                    spans = self._device_spans.setdefault(clock.name, [])
                    self._keep(spans, node.name, host + clock.elapsed_ns(mark, first), span)


timer = Timer(enabled=config.timing)
if config.nvtx:
    timer.use_nvtx()
