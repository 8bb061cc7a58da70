"""The calls of the emulated driver that give work to a stream: copies, fills, launches, events, captures of streams.

Work runs when it is given, unless its stream is being captured: then it becomes a node of a graph (`graphs`).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from engine.config import config
from engine.context.emulator import grid, loading
from engine.context.emulator.calls import address_of, call, real
from engine.context.emulator.graphs import Graph, GraphTable, Node
from engine.context.emulator.machine import Gpu
from engine.context.emulator.schedules import compare
from engine.context.emulator.status import DriverFailure

MODES = real.CUstreamCaptureMode
_GLOBAL, _RELAXED = MODES.CU_STREAM_CAPTURE_MODE_GLOBAL, MODES.CU_STREAM_CAPTURE_MODE_RELAXED
_STATUS = real.CUstreamCaptureStatus
LEGACY, PER_THREAD = (0, 1), 2  # handles of the streams that every context has
_INVALIDATED = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"


@dataclass(eq=False)
class Capture:
    """A graph that streams are being captured to."""

    number: int
    graph: Graph
    origin: Stream
    thread: int
    mode: Any
    streams: list[Stream] = field(default_factory=list)
    first: int = 0  # nodes that the graph had before
    broken: bool = False

    def end(self) -> None:
        """All its streams run their work again."""
        for stream in self.streams:
            stream.capture, stream.tail = None, []


@dataclass(eq=False)
class Stream:
    """Work in order. `waits`: it waits for the legacy stream, and the legacy stream for it."""

    gpu: Gpu
    priority: int = 0
    waits: bool = False
    is_legacy: bool = False
    capture: Capture | None = None
    tail: list[Node] = field(default_factory=list)  # what the next node of a capture comes behind


@dataclass(eq=False)
class Event:
    """A point in a stream's order: the time when it was reached, or the nodes of a capture that it stands behind."""

    time: float | None = None
    capture: Capture | None = None
    behind: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class CopyWork:
    """Rows of bytes from one place to another; `run` does it."""

    driver: Any
    rows: list[tuple[int, int, int]]  # to, from, bytes
    to_device: bool
    from_device: bool
    kind = real.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY

    def check(self) -> None:
        """Raises DriverFailure for bytes outside of the allocations."""
        for to, source, size in self.rows:
            if size < 0:
                raise DriverFailure("CUDA_ERROR_INVALID_VALUE", f"{size} bytes")
            for address, on_device in ((to, self.to_device), (source, self.from_device)):
                if on_device:
                    self.driver.memory_at(address).require(address, size)

    def run(self) -> None:
        """Copies. Raises DriverFailure as `check`."""
        self.check()
        for to, source, size in self.rows:
            ctypes.memmove(to, source, size)
            if self.to_device:
                self.driver.memory_at(to).wrote(to, size)


@dataclass(eq=False)
class FillWork:
    """Rows of equal words."""

    driver: Any
    rows: list[tuple[int, int]]  # address, words
    value: Any
    kind = real.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET

    def check(self) -> None:
        """Raises DriverFailure for words outside of the allocations, or across their own border."""
        width = self.value.nbytes
        for address, count in self.rows:
            if count < 0:
                raise DriverFailure("CUDA_ERROR_INVALID_VALUE", f"{count} words")
            if address % width:
                raise DriverFailure("CUDA_ERROR_INVALID_VALUE", f"the address is not a multiple of {width}")
            self.driver.memory_at(address).require(address, count * width)

    def run(self) -> None:
        """Fills. Raises DriverFailure as `check`."""
        self.check()
        for address, count in self.rows:
            size = count * self.value.nbytes
            if size:
                window = (ctypes.c_uint8 * size).from_address(address)
                np.frombuffer(window, self.value.dtype)[:] = self.value
                self.driver.memory_at(address).wrote(address, size)


@dataclass(eq=False)
class KernelWork:
    """A launch. `names` tells a trace what its arrays are called."""

    driver: Any
    handle: int
    gpu: Gpu
    function: loading.LoadedFunction
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    params: bytes
    names: Callable[[], list[tuple[int, str, int]]] | None
    kind = real.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL

    def check(self) -> None:
        """Raises DriverFailure for sizes that the GPU does not take."""
        grid.check_sizes(self.function, self.grid, self.block, self.shared)

    def run(self) -> None:
        """Launches. Raises DriverFailure for what stops the kernel."""
        driver, memory = self.driver, self.gpu.memory
        report = driver.report_of(self.gpu)
        if report is not None and self.names is not None:
            report.arrays = self.names()
        function = self.function.in_form(config.emu_schedule)
        launch = grid.Run(memory, function, self.grid, self.block, self.shared, self.params)
        if driver.catcher is not None:
            driver.catcher(launch)
            return
        if report is not None and report.schedules:
            rows = compare(launch)
            shares = {row.schedule: row.efficiency for row in rows}
            report.note_schedules(launch.function.name, shares, all(row.same for row in rows))
        counters = driver.counters
        seed = grid.random_state(config.emu_seed, counters.launches) if config.emu_schedule == "random" else 0
        grid.run(launch, counters, seed, report)


@dataclass(eq=False)
class EventWork:
    """Records an event, or waits for one: work runs in order, so that its event has come."""

    event: Event
    records: bool

    @property
    def kind(self) -> Any:
        """The type of the node."""
        kinds = real.CUgraphNodeType
        return kinds.CU_GRAPH_NODE_TYPE_EVENT_RECORD if self.records else kinds.CU_GRAPH_NODE_TYPE_WAIT_EVENT

    def check(self) -> None:
        """Any event is right."""

    def run(self) -> None:
        """Notes the time."""
        if self.records:
            self.event.time, self.event.capture = perf_counter(), None


class WorkCalls(GraphTable):
    """The part of the driver that gives work to streams."""

    def __init__(self, *archs: int):
        super().__init__(*archs)
        self._functions: dict[int, tuple[Gpu, loading.LoadedFunction]] = {}
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._names: Callable[[], list[tuple[int, str, int]]] | None = None  # of the arrays of the next launch
        self._modes = threading.local()
        self.captures: list[Capture] = []

    def name_arrays(self, arrays: Callable[[], list[tuple[int, str, int]]]) -> None:
        """What the arrays of the next launch are called; they are asked for only while it is traced."""
        self._names = arrays

    def submit(self, stream: Any, work: Any) -> None:
        """Runs work, or makes it a node where its stream is captured."""
        taken = self.stream(stream)
        if taken.capture is None:
            if self.captures and taken.is_legacy:
                self._refuse_legacy(taken)
            work.run()
            return
        work.check()
        self._require_sound(taken.capture)
        node = self.add_node(taken.capture.graph, taken.tail, work)
        taken.tail = [node]

    # copies and fills

    def _copy(self, to: Any, source: Any, size: int, to_device: bool, from_device: bool) -> CopyWork:
        return CopyWork(self, [(address_of(to), address_of(source), size)], to_device, from_device)

    @call
    def cuMemcpyHtoD(self, dstDevice: Any, srcHost: Any, ByteCount: int) -> None:
        self._copy(dstDevice, srcHost, ByteCount, True, False).run()

    @call
    def cuMemcpyDtoH(self, dstHost: Any, srcDevice: Any, ByteCount: int) -> None:
        self._copy(dstHost, srcDevice, ByteCount, False, True).run()

    @call
    def cuMemcpyDtoD(self, dstDevice: Any, srcDevice: Any, ByteCount: int) -> None:
        self._copy(dstDevice, srcDevice, ByteCount, True, True).run()

    @call
    def cuMemcpyHtoDAsync(self, dstDevice: Any, srcHost: Any, ByteCount: int, hStream: Any) -> None:
        self.submit(hStream, self._copy(dstDevice, srcHost, ByteCount, True, False))

    @call
    def cuMemcpyDtoHAsync(self, dstHost: Any, srcDevice: Any, ByteCount: int, hStream: Any) -> None:
        self.submit(hStream, self._copy(dstHost, srcDevice, ByteCount, False, True))

    @call
    def cuMemcpyDtoDAsync(self, dstDevice: Any, srcDevice: Any, ByteCount: int, hStream: Any) -> None:
        self.submit(hStream, self._copy(dstDevice, srcDevice, ByteCount, True, True))

    @call
    def cuMemcpyPeerAsync(self, dstDevice: Any, dstContext: Any, srcDevice: Any, srcContext: Any, ByteCount: int,
                          hStream: Any) -> None:  # fmt: skip
        for context, address in ((dstContext, dstDevice), (srcContext, srcDevice)):
            self.gpu_of_context(context).memory.require(int(address), ByteCount)
        self.submit(hStream, self._copy(dstDevice, srcDevice, ByteCount, True, True))

    @call
    def cuMemsetD8Async(self, dstDevice: Any, uc: int, N: int, hStream: Any) -> None:
        self.submit(hStream, FillWork(self, [(int(dstDevice), N)], np.uint8(uc & 0xFF)))

    @call
    def cuMemsetD16Async(self, dstDevice: Any, us: int, N: int, hStream: Any) -> None:
        self.submit(hStream, FillWork(self, [(int(dstDevice), N)], np.uint16(us & 0xFFFF)))

    @call
    def cuMemsetD32Async(self, dstDevice: Any, ui: int, N: int, hStream: Any) -> None:
        self.submit(hStream, FillWork(self, [(int(dstDevice), N)], np.uint32(ui & 0xFFFFFFFF)))

    # launches

    @call
    def cuLaunchKernel(self, f: Any, gridDimX: int, gridDimY: int, gridDimZ: int, blockDimX: int, blockDimY: int,
                       blockDimZ: int, sharedMemBytes: int, hStream: Any, kernelParams: Any,
                       extra: Any) -> None:  # fmt: skip
        blocks, threads = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        work = self.kernel_work(f, blocks, threads, sharedMemBytes, kernelParams)
        if work.gpu is not self.stream(hStream).gpu:
            raise DriverFailure("CUDA_ERROR_INVALID_HANDLE", "the stream and the kernel are of different GPUs")
        self.submit(hStream, work)

    def kernel_work(self, function: Any, blocks: tuple[int, int, int], threads: tuple[int, int, int], shared: int,
                    params: Any) -> KernelWork:  # fmt: skip
        """A launch, with its parameters as they are now."""
        gpu, loaded = self.function(function)
        names, self._names = self._names, None
        packed = self._parameters(loaded, params)
        return KernelWork(self, int(function), gpu, loaded, blocks, threads, shared, packed, names)

    def function(self, hfunc: Any) -> tuple[Gpu, loading.LoadedFunction]:
        """A kernel, and the GPU that it is loaded on."""
        found = self._functions.get(int(hfunc))
        if found is None:
            text = "there is no such function; its module may have been unloaded"
            raise DriverFailure("CUDA_ERROR_INVALID_HANDLE", text)
        return found

    def _parameters(self, function: loading.LoadedFunction, given: Any) -> bytes:
        """`kernelParams` as the real binding takes it: the address of an array of pointers, or (values, types)."""
        count = len(function.code.params)
        if isinstance(given, tuple) and len(given) == 2:
            holders = [value if kind is None else kind(value) for value, kind in zip(*given, strict=True)]
            if len(holders) != count:
                raise DriverFailure("CUDA_ERROR_INVALID_VALUE", f"{count} parameters are needed, got {len(holders)}")
            return grid.parameter_bytes(function, [ctypes.addressof(holder) for holder in holders])
        if not given:
            if count:
                raise DriverFailure("CUDA_ERROR_INVALID_VALUE", f"{count} parameters are needed, got none")
            return b""
        array = (ctypes.c_uint64 * count).from_address(int(given))
        return grid.parameter_bytes(function, list(array))

    # streams

    def stream(self, stream: Any) -> Stream:
        """The stream of a handle; the first three are of the current context."""
        handle = int(stream)
        if handle <= PER_THREAD:
            own = self.gpu.streams
            if handle not in own:
                own[handle] = Stream(self.gpu, is_legacy=handle in LEGACY)
            found: Stream = own[handle]
            return found
        if handle not in self._streams:
            raise DriverFailure("CUDA_ERROR_INVALID_HANDLE", "the stream does not exist")
        return self._streams[handle]

    @call
    def cuStreamCreate(self, Flags: int) -> Any:
        return self._new_stream(Flags, 0)

    @call
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> Any:
        return self._new_stream(flags, priority)

    def _new_stream(self, flags: int, priority: int) -> Any:
        handle = next(self._handles) + PER_THREAD
        waits = not flags & int(real.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._streams[handle] = Stream(self.gpu, priority, waits)
        return real.CUstream(handle)

    @call
    def cuStreamDestroy(self, hStream: Any) -> None:
        stream = self.stream(hStream)
        if stream.capture is not None:
            self._break(stream.capture)
            if stream.capture.origin is stream:
                self._close(stream.capture)
        self._streams.pop(int(hStream), None)

    @call
    def cuStreamSynchronize(self, hStream: Any) -> None:
        self._refuse_captured(hStream, "cuStreamSynchronize")

    @call
    def cuStreamQuery(self, hStream: Any) -> None:
        self._refuse_captured(hStream, "cuStreamQuery")

    @call
    def cuStreamGetPriority(self, hStream: Any) -> int:
        return self.stream(hStream).priority

    @call
    def cuStreamWaitEvent(self, hStream: Any, hEvent: Any, Flags: int) -> None:
        stream, event = self.stream(hStream), self.event(hEvent)
        if Flags & int(real.CUevent_wait_flags.CU_EVENT_WAIT_EXTERNAL):
            if stream.capture is None:
                raise DriverFailure("CUDA_ERROR_INVALID_VALUE", "an external wait is one of a capture")
            self.submit(hStream, EventWork(event, records=False))
        elif event.capture is not None:
            self._join(stream, event, event.capture)
        elif stream.capture is not None and event.time is not None:
            self._break(stream.capture)
            text = "the capture would depend on work before it"
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_ISOLATION", text)

    def _join(self, stream: Stream, event: Event, capture: Capture) -> None:
        """The stream goes on behind what was captured before the event, as a part of the same capture."""
        if capture not in self.captures:
            raise DriverFailure("CUDA_ERROR_CAPTURED_EVENT", "the capture that recorded the event is over")
        if stream.is_legacy:
            self._break(capture)
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the legacy stream cannot join a capture")
        if stream.capture is not None and stream.capture is not capture:
            self._break(stream.capture)
            self._break(capture)
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures cannot become one")
        self._require_sound(capture)
        if stream.capture is None:
            stream.capture = capture
            capture.streams.append(stream)
        stream.tail = list(dict.fromkeys([*stream.tail, *event.behind]))

    # captures

    @call
    def cuStreamBeginCapture(self, hStream: Any, mode: Any) -> None:
        graph = self.new_graph()
        try:
            self._begin(hStream, graph, [], mode)
        except DriverFailure:
            self.forget_graph(graph)
            raise

    @call
    def cuStreamBeginCaptureToGraph(self, hStream: Any, hGraph: Any, dependencies: Any, dependencyData: Any,
                                    numDependencies: int, mode: Any) -> None:  # fmt: skip
        graph = self.graph(hGraph)
        self._begin(hStream, graph, self.nodes_of(graph, dependencies, numDependencies), mode)

    def _begin(self, hStream: Any, graph: Graph, behind: list[Node], mode: Any) -> None:
        stream = self.stream(hStream)
        if stream.is_legacy:
            text = "the legacy stream cannot be captured; make one"
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", text)
        if stream.capture is not None:
            raise DriverFailure("CUDA_ERROR_ILLEGAL_STATE", "the stream is being captured already")
        number = next(self._handles)
        capture = Capture(number, graph, stream, threading.get_ident(), MODES(mode), [stream], len(graph.nodes))
        stream.capture, stream.tail = capture, behind
        self.captures.append(capture)

    @call
    def cuStreamEndCapture(self, hStream: Any) -> Any:
        stream = self.stream(hStream)
        capture = stream.capture
        if capture is None:
            raise DriverFailure("CUDA_ERROR_ILLEGAL_STATE", "the stream is not being captured")
        if capture.mode != _RELAXED and capture.thread != threading.get_ident():
            self._break(capture)
            text = "another thread began the capture, in a mode that is not relaxed"
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", text)
        if stream is not capture.origin:
            self._break(capture)
            text = "the capture has to be ended on the stream that it began on"
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", text)
        tail = list(stream.tail)
        self._close(capture)
        if capture.broken:
            self.forget_graph(capture.graph)
            raise DriverFailure(_INVALIDATED, "a call that a capture does not allow has broken it")
        followed = {before for node in capture.graph.nodes for before in node.before}
        loose = [node for node in capture.graph.nodes[capture.first :] if node not in followed and node not in tail]
        if loose:
            self.forget_graph(capture.graph)
            text = "a stream that joined the capture has work that the first stream does not wait for"
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", text)
        return real.CUgraph(capture.graph.handle)

    def _close(self, capture: Capture) -> None:
        capture.end()
        self.captures.remove(capture)

    @call
    def cuStreamIsCapturing(self, hStream: Any) -> Any:
        return self._status(self.stream(hStream))

    def _status(self, stream: Stream) -> Any:
        if stream.capture is None:
            return _STATUS.CU_STREAM_CAPTURE_STATUS_NONE
        broken = stream.capture.broken
        return _STATUS.CU_STREAM_CAPTURE_STATUS_INVALIDATED if broken else _STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE

    @call
    def cuStreamGetCaptureInfo(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        if stream.capture is None:
            return self._status(stream), real.cuuint64_t(0), real.CUgraph(0), [], [], 0
        nodes = [real.CUgraphNode(node.handle) for node in stream.tail]
        number, graph = stream.capture.number, stream.capture.graph.handle
        return self._status(stream), real.cuuint64_t(number), real.CUgraph(graph), nodes, [], len(nodes)

    @call
    def cuStreamUpdateCaptureDependencies(self, hStream: Any, dependencies: Any, dependencyData: Any,
                                          numDependencies: int, flags: int) -> None:  # fmt: skip
        stream = self.stream(hStream)
        if stream.capture is None:
            raise DriverFailure("CUDA_ERROR_ILLEGAL_STATE", "the stream is not being captured")
        given = self.nodes_of(stream.capture.graph, dependencies, numDependencies)
        replaces = flags & int(
            real.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)  # fmt: skip
        stream.tail = given if replaces else list(dict.fromkeys([*stream.tail, *given]))

    @call
    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Any:
        before = getattr(self._modes, "mode", _GLOBAL)
        self._modes.mode = MODES(mode)
        return before

    def refuse_unsafe(self, name: str) -> None:
        """Raises DriverFailure for a call that this thread must not make now; the captures concerned are broken."""
        own, mode = threading.get_ident(), getattr(self._modes, "mode", _GLOBAL)
        if mode == _RELAXED:
            return
        concerned = [c for c in self.captures if c.mode != _RELAXED and c.thread == own]
        if mode == _GLOBAL:
            concerned += [c for c in self.captures if c.mode == _GLOBAL and c.thread != own]
        if concerned:
            for capture in concerned:
                self._break(capture)
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", f"{name} while a stream is captured")

    def _refuse_captured(self, hStream: Any, name: str) -> None:
        """Raises DriverFailure where the stream is captured: its work has not begun."""
        capture = self.stream(hStream).capture
        if capture is not None:
            self._break(capture)
            raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", f"{name} of a stream that is captured")

    def _refuse_legacy(self, legacy: Stream) -> None:
        """The legacy stream waits for the others, which cannot be while one of them is captured."""
        for capture in self.captures:
            waiting = any(stream.waits and stream.gpu is legacy.gpu for stream in capture.streams)
            if waiting and capture.mode != _RELAXED:
                self._break(capture)
                text = "the legacy stream would wait for a stream that is captured"
                raise DriverFailure("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", text)

    def _break(self, capture: Capture) -> None:
        capture.broken = True

    def _require_sound(self, capture: Capture) -> None:
        if capture.broken:
            raise DriverFailure(_INVALIDATED, "the capture was broken by an earlier call")

    # events

    def event(self, event: Any) -> Event:
        """The event of a handle."""
        found = self._events.get(int(event))
        if found is None:
            raise DriverFailure("CUDA_ERROR_INVALID_HANDLE", "the event does not exist")
        return found

    @call
    def cuEventCreate(self, Flags: int) -> Any:
        handle = next(self._handles)
        self._events[handle] = Event()
        return real.CUevent(handle)

    @call
    def cuEventDestroy(self, hEvent: Any) -> None:
        self.event(hEvent)
        del self._events[int(hEvent)]

    @call
    def cuEventRecord(self, hEvent: Any, hStream: Any) -> None:
        self._record(hEvent, hStream, 0)

    @call
    def cuEventRecordWithFlags(self, hEvent: Any, hStream: Any, flags: int) -> None:
        self._record(hEvent, hStream, flags)

    def _record(self, hEvent: Any, hStream: Any, flags: int) -> None:
        stream, event = self.stream(hStream), self.event(hEvent)
        if stream.capture is None or flags & int(real.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL):
            self.submit(hStream, EventWork(event, records=True))
            return
        self._require_sound(stream.capture)
        event.time, event.capture, event.behind = None, stream.capture, list(stream.tail)

    def _finished(self, hEvent: Any) -> Event:
        event = self.event(hEvent)
        if event.capture is not None:
            text = "the event was last recorded in a stream that was captured"
            raise DriverFailure("CUDA_ERROR_CAPTURED_EVENT", text)
        return event

    @call
    def cuEventQuery(self, hEvent: Any) -> None:
        self._finished(hEvent)

    @call
    def cuEventSynchronize(self, hEvent: Any) -> None:
        self._finished(hEvent)

    @call
    def cuEventElapsedTime(self, hStart: Any, hEnd: Any) -> float:
        start, end = self._finished(hStart).time, self._finished(hEnd).time
        if start is None or end is None:
            raise DriverFailure("CUDA_ERROR_INVALID_HANDLE", "an event was not recorded")
        return 1000.0 * (end - start)
