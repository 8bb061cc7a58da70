"""Capturing: while it is on, what a thread launches, copies and fills is not run but becomes a graph.

    with ScopedCapture() as capture:
        launch(a, n, [x]); launch(b, n, [x])
    capture_launch(capture.graph)

New arrays may be made meanwhile: their memory exists at once, and what is written to them belongs to the graph. What
needs values on the host (`numpy()`, an element) or moves memory (`Table.resize`) raises CaptureError.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np

from engine.context import gradients, recording
from engine.context.array import array
from engine.context.array_indexed import indexedarray
from engine.context.device import Device, get_device
from engine.context.graph import Graph
from engine.context.graph_steps import (
    CapturedCopy,
    CapturedLaunch,
    Condition,
    If,
    Stamp,
    While,
    check_condition,
    copied,
)
from engine.errors import CaptureError, TapeError

Work = Callable[..., Any] | Graph | None


class Capture:
    """The steps that have come so far."""

    def __init__(self, device: Device):
        self.device = device
        self.steps: list[Any] = []
        self.stale: list[Any] = []
        self.nstamp = 0

    def launch(self, kernel: Any, dim: Any, args: list[Any], device: Any, block_dim: int = 256) -> None:
        """A launch; its arguments are checked now."""
        if gradients.recording():
            raise TapeError("a tape cannot record while a graph is captured")
        self._check_device("launch", get_device(device))
        self.steps.append(CapturedLaunch(self.stale, kernel, device, dim, args, block_dim))

    def write(self, target: array, values: Any) -> None:
        """`target[...] = values`: from an array, whose elements are read at each replay, or values as they are now."""
        self._check_device("array.assign", target.device)
        if isinstance(values, indexedarray):
            raise CaptureError("array.assign", "copies out of indexed arrays are not captured; copy with a kernel")
        source: array | np.ndarray
        if isinstance(values, array):
            if values.element != target.element:
                found = f"from {values.element!r} to {target.element!r}"
                raise CaptureError("array.assign", f"a captured copy cannot convert ({found})")
            self._check_device("array.assign", values.device)
            source = self._apart(target, values)
        else:
            source = np.array(target.converted(values))
        self.steps.append(CapturedCopy(self.stale, target, source))

    def assign(self, target: array, values: Any) -> None:
        """`write` for values that have the shape of the target."""
        shape = values.shape if hasattr(values, "ir_type") else target.converted(values).shape
        wanted = target.shape if hasattr(values, "ir_type") else target.places().shape
        if shape != wanted:
            raise ValueError(f"assign needs data of shape {wanted}, got {shape}")
        self.write(target, values)

    def _apart(self, target: array, source: array) -> array:
        """`source`, or where it overlaps the target a copy that is made just before."""
        if not gradients.overlap(target, source):
            return source
        between = array.allocate(source.dtype, source.shape, source.layout, source.device, zeroed=False)
        self.steps.append(CapturedCopy(self.stale, between, source))
        return between

    def zero(self, target: array) -> None:
        """Every byte of every element."""
        self._check_device("array.zero_", target.device)
        self.steps.append(CapturedCopy(self.stale, target, np.zeros((), target.places().dtype)))

    def _check_device(self, call: str, device: Device) -> None:
        if device is not self.device:
            raise CaptureError(call, f"the capture is of device '{self.device.name}', this is on '{device.name}'")

    def stamp(self) -> int:
        """Lets a replay note the time here; the index of it in `Graph.stamps`."""
        self.steps.append(Stamp(self.nstamp))
        self.nstamp += 1
        return self.nstamp - 1

    def inside(self, work: Work, options: dict[str, Any]) -> list[Any]:
        """The steps of a branch or body: of a function that is called now, or of a graph."""
        if isinstance(work, Graph):
            return copied(work.steps, self.stale)
        before, self.steps = self.steps, []
        try:
            if work is not None:
                work(**options)
            return self.steps
        finally:
            self.steps = before


def _capture_of(call: str) -> Capture:
    found: Capture | None = recording.current()
    if found is None:
        raise CaptureError(call, "this thread captures nothing; call capture_begin first")
    return found


def capture_begin(device: Any = None, stream: Any = None, force_module_load: bool | None = None,
                  external: bool = False, apic: bool = False, capture_mode: Any = None) -> None:  # fmt: skip
    """From now on, what this thread gives to the device becomes a graph, until `capture_end`; nothing of it runs.

    stream: stands for its device, since the streams of the cpu run in the order of the calls. Other arguments are
    Warp's and have no effect here. Raises CaptureError where this thread captures already, TapeError where a tape
    records.
    """
    if recording.current() is not None:
        raise CaptureError("capture_begin", "this thread is capturing already; call capture_end first")
    if gradients.recording():
        raise TapeError("a tape cannot record while a graph is captured")
    home = stream.device if stream is not None else get_device(device)
    recording.captures[get_ident()] = Capture(home)


def capture_end(device: Any = None, stream: Any = None) -> Graph:
    """Ends the capture of this thread: the graph. Raises CaptureError without one."""
    capture = _capture_of("capture_end")
    del recording.captures[get_ident()]
    return Graph(capture.device, capture.steps, capture.stale, capture.nstamp)


def capture_launch(graph: Graph, stream: Any = None) -> None:
    """Runs a graph; inside a capture, its steps become part of the new graph.

    Results are those of the captured calls made one by one, with any number of threads. Two Python threads that launch
    the same graph run one after the other. Raises TapeError while a tape records.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"capture_launch takes a graph, as capture_end returns it, got a {type(graph).__name__}")
    if stream is not None and stream.queue is not None:
        with stream.device.using(stream.queue):
            graph.launch()
        return
    graph.launch()


def capture_stamp() -> int:
    """Inside a capture: note the time here at each replay, as nanoseconds in `graph.stamps[index]`; the index."""
    return _capture_of("capture_stamp").stamp()


def capture_if(condition: array, on_true: Work = None, on_false: Work = None, stream: Any = None,
               **options: Any) -> None:  # fmt: skip
    """`on_true` where element 0 of `condition` is not 0, else `on_false`: each a function, called with `options`, or a
    graph. Captured, both become part of the graph and the condition is read at each replay. Raises TypeError unless
    the condition is an int32 array of one element.
    """
    where = check_condition("capture_if", condition)
    capture: Capture | None = recording.current() if recording.captures else None
    if capture is None:
        _run(on_true if _holds(where) else on_false, options)
        return
    then, otherwise = capture.inside(on_true, options), capture.inside(on_false, options)
    capture.steps.append(If(Condition(capture.stale, where), then, otherwise))


def capture_while(condition: array, while_body: Work, stream: Any = None, **options: Any) -> None:
    """`while_body` (a function, called with `options`, or a graph) as long as element 0 of `condition` is not 0.

    The body has to change the condition. An endless loop can be interrupted from the keyboard. Raises as `capture_if`.
    """
    where = check_condition("capture_while", condition)
    capture: Capture | None = recording.current() if recording.captures else None
    if capture is None:
        while _holds(where):
            _run(while_body, options)
        return
    capture.steps.append(While(Condition(capture.stale, where), capture.inside(while_body, options)))


def _holds(where: array) -> bool:
    return bool(where.numpy().reshape(-1)[0])


def _run(work: Work, options: dict[str, Any]) -> None:
    if isinstance(work, Graph):
        work.launch()
    elif work is not None:
        work(**options)


class ScopedCapture:
    """`with ScopedCapture() as capture:` captures the block; `capture.graph` is the graph, None after an error."""

    def __init__(self, device: Any = None, stream: Any = None, force_module_load: bool | None = None,
                 external: bool = False, apic: bool = False, capture_mode: Any = None):  # fmt: skip
        self.device, self.stream = device, stream
        self.active = False
        self.graph: Graph | None = None

    def __enter__(self) -> ScopedCapture:
        capture_begin(self.device, self.stream)
        self.active = True
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.active:
            self.active = False
            graph = capture_end(self.device, self.stream)
            self.graph = graph if kind is None else None


def is_conditional_graph_supported() -> bool:
    """Whether graphs can hold conditions and loops: always; a driver before CUDA 12.4 lets the host read them."""
    return True


def capture_debug_dot_print(graph: Graph, path: Any, verbose: bool = True) -> None:
    """Writes the graph as a GraphViz diagram to `path`; `verbose` adds the grids."""
    lines = ["digraph graph {", "  node [shape=box];"]
    _draw(graph.steps, lines, "", "", verbose, [0])
    Path(path).write_text("\n".join([*lines, "}", ""]))


def _draw(steps: list[Any], lines: list[str], before: str, label: str, verbose: bool, counter: list[int]) -> str:
    """Draws steps one below the other behind the node `before`; the last node."""
    for step in steps:
        counter[0] += 1
        name = f"n{counter[0]}"
        if isinstance(step, If | While):
            lines.append(f'  {name} [shape=diamond, label="{type(step).__name__.lower()}"];')
        elif isinstance(step, CapturedLaunch):
            grid = f" {step._dim}" if verbose else ""
            lines.append(f'  {name} [label="{step.kernel.name}{grid}"];')
        else:
            lines.append(f'  {name} [label="time stamp"];')
        if before:
            lines.append(f'  {before} -> {name} [label="{label}"];')
        before, label = name, ""
        if isinstance(step, If):
            _draw(step.then, lines, name, "true", verbose, counter)
            _draw(step.otherwise, lines, name, "false", verbose, counter)
        elif isinstance(step, While):
            last = _draw(step.body, lines, name, "true", verbose, counter)
            lines.append(f'  {last} -> {name} [label="again"];')
    return before
