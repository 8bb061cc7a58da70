"""Replays of graphs on GPUs: graphs of the driver, which run on the device without the host between their nodes.

Launches are kernel nodes, copies and fills are memcpy and memset nodes where they are one run of bytes, time stamps
are event nodes. A condition becomes a small kernel, which hands its value to the driver, and a conditional node; the
body of a loop ends with that kernel again.

    [launch a, While(c, [launch b]), stamp]        a → set c → while ( b → set c ) → event

Where the driver has no conditional nodes (before CUDA 12.4), and for bodies that hold time stamps, which the driver
does not allow, what lies between the conditions are graphs of their own, and the host reads the conditions.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from engine.context.graph_conditions import CONDITIONS_SINCE
from engine.context.graph_steps import Condition, If, Stamp, While
from engine.errors import DeviceError


@dataclass(eq=False)
class _Node:
    """A node of the driver's: what it does, and whether it stands in the body of a condition."""

    handle: Any
    kind: str  # "Kernel", "Memcpy", "Memset": a part of the names of the driver's calls
    inside: bool
    kept: Any  # what the node's parameters point to


@dataclass(eq=False)
class _Setter:
    """The kernel that sets the handles of a condition: addressed as a step, so that it can be made anew."""

    condition: Condition
    holds: int
    fails: int


@dataclass(eq=False)
class _HostIf:
    condition: Condition
    then: list[Any]
    otherwise: list[Any]


@dataclass(eq=False)
class _HostWhile:
    condition: Condition
    body: list[Any]


class DriverReplay:
    """A graph as graphs of the driver, and conditions that the host reads where it has to."""

    entered, helpers = False, 0  # no workers of the host

    def __init__(self, graph: Any):
        device: Any = graph.device
        self._graph, self.device = graph, device
        self.replays = 0
        self._began = 0
        self._events: dict[int, Any] = {}  # index of a time stamp → what notes it
        self._parts: dict[Any, _Part] = {}  # launch or condition → the part that it is in
        self._on_host = 0
        self._look_for_checks()
        self._program: list[Any] = [] if self.checked else self._planned(graph.steps)
        graph.stale.clear()

    def __str__(self) -> str:
        parts = set(self._parts.values())
        text = f"{len(parts)} graphs of the driver" if len(parts) != 1 else "one graph of the driver"
        if self.checked:
            return "launch by launch: its kernels have checks"
        if not self._on_host:
            return text
        why = f"conditional nodes need a driver for CUDA {CONDITIONS_SINCE[0]}.{CONDITIONS_SINCE[1]}, this one has {{}}"
        if self._has_conditions:
            why = "the body of a conditional node cannot hold time stamps"
        version = ".".join(map(str, self.device.cuda_version))
        return f"{text}, with {self._on_host} conditions that the host reads: {why.format(version)}"

    @property
    def _has_conditions(self) -> bool:
        return bool(self.device.cuda_version >= CONDITIONS_SINCE)

    @property
    def notes_times(self) -> bool:
        """Whether a replay notes times that `read_times` fetches."""
        return bool(self._events) and not self.checked

    def run(self) -> None:
        """Run all of it once; does not wait for it, unless the host reads a condition."""
        self._began = perf_counter_ns()
        self._play(self._program)
        self.replays += 1

    def _play(self, program: list[Any]) -> None:
        for part in program:
            if isinstance(part, _Part):
                part.launch()
            elif isinstance(part, _HostIf):
                self._play(part.then if part.condition.holds() else part.otherwise)
            else:
                while part.condition.holds():
                    self._play(part.body)

    def refresh(self) -> None:
        """Change the nodes whose launch or condition has changed."""
        self._look_for_checks()
        if self.checked or not self._program:
            self._parts, self._events, self._on_host = {}, {}, 0
            self._program = [] if self.checked else self._planned(self._graph.steps)
        else:
            for step in dict.fromkeys(self._graph.stale):
                if step in self._parts:  # else the host reads it
                    self._parts[step].renew(step)
        self._graph.stale.clear()

    def read_times(self, stamps: np.ndarray) -> None:
        """The times of the last replay, as nanoseconds of the host's clock; waits for it."""
        first = None
        for index, mark in sorted(self._events.items()):
            try:
                stamps[index] = self._began + self.device.elapsed_ns(first or mark, mark)
            except DeviceError:  # a branch that was never taken
                continue
            first = first or mark

    def _look_for_checks(self) -> None:
        launches = self._graph.launches
        for one in launches:
            one.packed()  # its program is known from then on
        self.checked = any(one.program.record for one in launches)

    def _planned(self, steps: list[Any]) -> list[Any]:
        """Steps in a row that one graph of the driver can hold become a part; the rest is for the host."""
        program: list[Any] = []
        row: list[Any] = []

        def end_row() -> None:
            if row:
                part = _Part(self, list(row))
                program.append(part)
                row.clear()

        for step in steps:
            if self._fits(step):
                row.append(step)
                continue
            end_row()
            self._on_host += 1
            if isinstance(step, If):
                program.append(_HostIf(step.condition, self._planned(step.then), self._planned(step.otherwise)))
            else:
                program.append(_HostWhile(step.condition, self._planned(step.body)))
        end_row()
        return program

    def _fits(self, step: Any) -> bool:
        return not isinstance(step, If | While) or (self._has_conditions and not _has_stamp(_inner(step)))

    # what a part asks for

    def take(self, step: Any, part: _Part) -> None:
        """`step` is in `part`."""
        self._parts[step] = part

    def event(self, index: int) -> Any:
        """The event that notes a time."""
        found = self._events[index] = self.device.unrecorded_mark()
        return found.event


class _Part:
    """Steps that are one graph of the driver."""

    def __init__(self, replay: DriverReplay, steps: list[Any]):
        self._replay, self._steps = replay, steps
        self._build()

    def _build(self) -> None:
        device: Any = self._replay.device
        self.device, self.driver = device, device.driver
        self._nodes: dict[Any, list[tuple[Any, _Node]]] = {}  # launch or condition → (step, node)
        device.enter()
        graph = _Owned(device, "cuGraphDestroy", device.check("cuGraphCreate", 0))
        self._add(graph.handle, self._steps, inside=False)
        exec_ = _Owned(device, "cuGraphExecDestroy", device.check("cuGraphInstantiate", graph.handle, 0))
        self._owned = graph, exec_
        self._graph, self._exec = graph.handle, exec_.handle

    def launch(self) -> None:
        """Give it to the current queue."""
        self.device.enter()
        self.device.check("cuGraphLaunch", self._exec, self.device.stream)

    # nodes

    def _add(self, graph: Any, steps: list[Any], inside: bool) -> list[Any]:
        """Nodes for steps, one behind the other: the last one, or nothing."""
        last: list[Any] = []
        for step in steps:
            if isinstance(step, Stamp):
                event = self._replay.event(step.index)
                last = [self.device.check("cuGraphAddEventRecordNode", graph, last, len(last), event)]
            elif isinstance(step, If):
                last = self._add_if(graph, step, last, inside)
            elif isinstance(step, While):
                last = self._add_while(graph, step, last, inside)
            else:
                last = self._add_work(graph, step, step, last, inside)
        return last

    def _add_if(self, graph: Any, step: If, last: list[Any], inside: bool) -> list[Any]:
        holds = self._handle(graph) if step.then else 0
        fails = self._handle(graph) if step.otherwise else 0
        if not (holds or fails):
            return last
        setter = _Setter(step.condition, int(holds), int(fails))
        last = self._add_work(graph, setter, step.condition, last, inside)
        form = self.driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
        for handle, steps in ((holds, step.then), (fails, step.otherwise)):
            if steps:
                last, body = self._add_condition(graph, handle, form, last)
                self._add(body, steps, inside=True)
        return last

    def _add_while(self, graph: Any, step: While, last: list[Any], inside: bool) -> list[Any]:
        handle = self._handle(graph)
        setter = _Setter(step.condition, int(handle), 0)
        last = self._add_work(graph, setter, step.condition, last, inside)
        form = self.driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
        last, body = self._add_condition(graph, handle, form, last)
        end = self._add(body, step.body, inside=True)
        self._add_work(body, setter, step.condition, end, inside=True)
        return last

    def _handle(self, graph: Any) -> Any:
        return self.device.check("cuGraphConditionalHandleCreate", graph, self.device.context, 0, 0)

    def _add_condition(self, graph: Any, handle: Any, form: Any, last: list[Any]) -> tuple[list[Any], Any]:
        """A conditional node behind `last`, and the graph that is its body."""
        params = self.driver.CUgraphNodeParams()
        params.type = self.driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        condition = params.conditional
        condition.handle, condition.type, condition.size = handle, form, 1
        condition.ctx = self.device.context
        node = self.device.check("cuGraphAddNode", graph, last, None, len(last), params)
        return [node], params.conditional.phGraph_out[0]

    def _add_work(self, graph: Any, step: Any, key: Any, last: list[Any], inside: bool) -> list[Any]:
        """A kernel, memcpy or memset node."""
        kind, given, kept = self._parameters(step)
        handle = self.device.check(f"cuGraphAdd{kind}Node", graph, last, len(last), *given)
        self._nodes.setdefault(key, []).append((step, _Node(handle, kind, inside, kept)))
        self._replay.take(key, self)
        return [handle]

    def _parameters(self, step: Any) -> tuple[str, tuple[Any, ...], Any]:
        """Kind of the node, what the driver's calls take for it, and what has to live as long."""
        if isinstance(step, _Setter):
            numbers = [ctypes.c_uint64(n) for n in (step.condition.where.ptr, step.holds, step.fails)]
            pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, numbers))
            return "Kernel", (self._kernel(self.device.set_condition, 1, 1, 0, pointers),), (numbers, pointers)
        words = step.words()
        if words is None:
            packed = step.for_driver()
            params = self._kernel(packed.function, packed.blocks, packed.threads, packed.shared, packed.pointers)
            return "Kernel", (params,), packed
        if words.source:
            return "Memcpy", (self._copy(words), self.device.context), None
        return "Memset", (self._fill(words), self.device.context), None

    def _kernel(self, function: Any, blocks: int, threads: int, shared: int, pointers: Any) -> Any:
        params = self.driver.CUDA_KERNEL_NODE_PARAMS()
        params.func, params.sharedMemBytes = function, shared
        params.gridDimX, params.gridDimY, params.gridDimZ = blocks, 1, 1
        params.blockDimX, params.blockDimY, params.blockDimZ = threads, 1, 1
        params.kernelParams = ctypes.addressof(pointers)
        return params

    def _copy(self, words: Any) -> Any:
        params = self.driver.CUDA_MEMCPY3D()
        params.srcMemoryType = params.dstMemoryType = self.driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        params.srcDevice, params.dstDevice = map(self.driver.CUdeviceptr, (words.source, words.target))
        params.WidthInBytes, params.Height, params.Depth = words.size * words.count, 1, 1
        return params

    def _fill(self, words: Any) -> Any:
        params = self.driver.CUDA_MEMSET_NODE_PARAMS()
        params.dst = self.driver.CUdeviceptr(words.target)
        params.value, params.elementSize = words.value, words.size
        params.width, params.height = words.count, 1
        return params

    # changes

    def renew(self, key: Any) -> None:
        """Let the nodes of a launch or condition do what it says now; where the driver refuses, build all anew."""
        self.device.enter()
        again = False
        for step, node in self._nodes[key]:
            kind, given, kept = self._parameters(step)
            if kind != node.kind:
                self._build()
                return
            try:
                self.device.check(f"cuGraph{kind}NodeSetParams", node.handle, given[0])
                if not node.inside:
                    self.device.check(f"cuGraphExec{kind}NodeSetParams", self._exec, node.handle, *given)
                again |= node.inside  # bodies of what was instantiated are reached by an update of the whole
            except DeviceError:
                self._build()
                return
            node.kept = kept
        if again:
            try:
                self.device.check("cuGraphExecUpdate", self._exec, self._graph)
            except DeviceError:
                self._build()


def _inner(step: If | While) -> list[Any]:
    return step.body if isinstance(step, While) else [*step.then, *step.otherwise]


def _has_stamp(steps: list[Any]) -> bool:
    return any(isinstance(s, Stamp) or (isinstance(s, If | While) and _has_stamp(_inner(s))) for s in steps)


class _Owned:
    """A graph of the driver, destroyed when nothing refers to it any more."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, device: Any, destroy: str, handle: Any):
        self.handle = handle
        weakref.finalize(self, _destroy, device, destroy, handle).atexit = False  # the driver may be gone by then


def _destroy(device: Any, call: str, handle: Any) -> None:
    device.enter()
    device.check(call, handle)
