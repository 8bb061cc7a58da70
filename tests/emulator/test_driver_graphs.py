"""Graphs and captures of the emulated driver: its nodes, its conditions, and the errors of the real one."""

import ctypes
import threading

import cuda.bindings.driver as real
import numpy as np
import pytest

from engine.context.emulator.driver import Driver
from engine.context.graph_conditions import ENTRY, condition_kernel
from tests.emulator.one_instruction import kernel_text

KINDS, MODES = real.CUgraphNodeType, real.CUstreamCaptureMode
GLOBAL, RELAXED = MODES.CU_STREAM_CAPTURE_MODE_GLOBAL, MODES.CU_STREAM_CAPTURE_MODE_RELAXED
IF, WHILE = (getattr(real.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{name}") for name in ("IF", "WHILE"))


def ok(result: tuple) -> object:
    assert result[0] == real.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]


class Bench:
    """A driver with 16 words of memory, two streams, a kernel that adds to a word, and one that sets conditions."""

    def __init__(self) -> None:
        self.driver = d = Driver(80)
        ok(d.cuInit(0))
        self.words = ok(d.cuMemAlloc(64))
        ok(d.cuMemsetD32Async(self.words, 0, 16, 0))
        self.first, self.second = (ok(d.cuStreamCreate(1)) for _ in range(2))
        text = """ld.param.b64 %d0, [k_param_0]; ld.param.b32 %r1, [k_param_1]; ld.global.b32 %r2, [%d0];
            add.s32 %r2, %r2, %r1; st.global.b32 [%d0], %r2;"""
        self.module = ok(d.cuModuleLoadData(kernel_text(text, 2).encode() + b"\0"))
        self.add = ok(d.cuModuleGetFunction(self.module, b"k"))
        conditions = ok(d.cuModuleLoadData(condition_kernel("sm_75", 63).encode() + b"\0"))
        self.setter = ok(d.cuModuleGetFunction(conditions, ENTRY))

    def status(self, call: str, *args: object) -> str:
        """The name of what a call returns."""
        return getattr(self.driver, call)(*args)[0].name.removeprefix("CUDA_ERROR_")

    def word(self, index: int) -> int:
        return int(self.words) + 4 * index

    @property
    def values(self) -> list[int]:
        return np.frombuffer(ctypes.string_at(int(self.words), 64), np.int32).tolist()

    def adding(self, index: int, amount: int) -> real.CUDA_KERNEL_NODE_PARAMS:
        return self.node(self.add, ctypes.c_uint64(self.word(index)), ctypes.c_uint64(amount))

    def setting(self, index: int, handle: object, other: object = 0) -> real.CUDA_KERNEL_NODE_PARAMS:
        return self.node(self.setter, *(ctypes.c_uint64(int(v)) for v in (self.word(index), handle, other)))

    def node(self, function: object, *numbers: ctypes.c_uint64) -> real.CUDA_KERNEL_NODE_PARAMS:
        params = real.CUDA_KERNEL_NODE_PARAMS()
        params.func = function
        params.gridDimX = params.gridDimY = params.gridDimZ = 1
        params.blockDimX = params.blockDimY = params.blockDimZ = 1
        pointers = (ctypes.c_void_p * len(numbers))(*map(ctypes.addressof, numbers))
        params.kernelParams = ctypes.addressof(pointers)
        self.kept = numbers, pointers
        return params

    def launch(self, index: int, amount: int, stream: object) -> tuple:
        p = self.adding(index, amount)
        return self.driver.cuLaunchKernel(self.add, 1, 1, 1, 1, 1, 1, 0, stream, p.kernelParams, 0)

    def condition(self, graph: object, handle: object, form: object, after: list, size: int = 1) -> tuple:
        """A conditional node and its body."""
        params = real.CUgraphNodeParams()
        params.type = KINDS.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle, params.conditional.type, params.conditional.size = handle, form, size
        found = self.driver.cuGraphAddNode(graph, after, None, len(after), params)
        return found, params.conditional.phGraph_out[0]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_captured_stream_becomes_a_graph_that_can_be_changed(bench: Bench) -> None:
    d = bench.driver
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    assert ok(d.cuStreamIsCapturing(bench.first)).name.endswith("ACTIVE")
    ok(bench.launch(0, 3, bench.first))
    ok(d.cuMemcpyDtoDAsync(bench.word(1), bench.words, 4, bench.first))
    ok(d.cuMemsetD32Async(bench.word(2), 7, 2, bench.first))
    info = ok(d.cuStreamGetCaptureInfo(bench.first))
    assert info[5] == 1 and d.cuGraphNodeGetType(info[3][0])[1] == KINDS.CU_GRAPH_NODE_TYPE_MEMSET
    graph = ok(d.cuStreamEndCapture(bench.first))
    assert bench.values == [0] * 16, "nothing has run"
    nodes, count = ok(d.cuGraphGetNodes(graph, 8))
    kinds = [d.cuGraphNodeGetType(node)[1].name.split("_")[-1] for node in nodes]
    assert count == 3 and kinds == ["KERNEL", "MEMCPY", "MEMSET"] and ok(d.cuGraphGetEdges(graph, 8))[3] == 2
    launched = ok(d.cuGraphInstantiate(graph, 0))
    for turn in (1, 2):
        ok(d.cuGraphLaunch(launched, bench.first))
        assert bench.values[:4] == [3 * turn, 3 * turn, 7, 7]
    ok(d.cuGraphExecKernelNodeSetParams(launched, nodes[0], bench.adding(0, 100)))
    ok(d.cuGraphLaunch(launched, 0))
    assert bench.values[:2] == [106, 106]
    ok(d.cuGraphKernelNodeSetParams(nodes[0], bench.adding(0, 1000)))  # of the graph: `launched` is a copy
    ok(d.cuGraphLaunch(launched, 0))
    assert bench.values[0] == 206
    assert ok(d.cuGraphExecUpdate(launched, graph)).result == 0
    ok(d.cuGraphLaunch(launched, 0))
    assert bench.values[0] == 1206
    ok(d.cuGraphDestroy(graph))
    ok(d.cuGraphLaunch(launched, 0))
    assert bench.values[0] == 2206
    assert bench.status("cuGraphInstantiate", graph, 0) == "INVALID_VALUE"
    ok(d.cuGraphExecDestroy(launched))
    assert bench.status("cuGraphLaunch", launched, 0) == "INVALID_VALUE"


def test_an_update_needs_the_same_nodes(bench: Bench) -> None:
    d = bench.driver
    graphs = [ok(d.cuGraphCreate(0)) for _ in range(2)]
    ok(d.cuGraphAddKernelNode(graphs[0], [], 0, bench.adding(0, 1)))
    launched = ok(d.cuGraphInstantiate(graphs[0], 0))
    ok(d.cuGraphAddEmptyNode(graphs[1], [], 0))
    status, info = d.cuGraphExecUpdate(launched, graphs[1])
    assert status.name == "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" and info.result.name.endswith("NODE_TYPE_CHANGED")
    ok(d.cuGraphAddKernelNode(graphs[0], [], 0, bench.adding(0, 1)))
    assert d.cuGraphExecUpdate(launched, graphs[0])[1].result.name.endswith("TOPOLOGY_CHANGED")


def test_streams_fork_and_join(bench: Bench) -> None:
    d = bench.driver
    begun, done = (ok(d.cuEventCreate(0)) for _ in range(2))
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    ok(bench.launch(0, 1, bench.first))
    ok(d.cuEventRecord(begun, bench.first))
    ok(d.cuStreamWaitEvent(bench.second, begun, 0))
    ok(bench.launch(1, 1, bench.second))
    ok(bench.launch(2, 1, bench.first))
    ok(d.cuEventRecord(done, bench.second))
    assert bench.status("cuEventElapsedTime", begun, done) == "CAPTURED_EVENT"
    ok(d.cuStreamWaitEvent(bench.first, done, 0))
    ok(bench.launch(3, 1, bench.first))
    graph = ok(d.cuStreamEndCapture(bench.first))
    assert ok(d.cuStreamIsCapturing(bench.second)).name.endswith("NONE")
    nodes, _ = ok(d.cuGraphGetNodes(graph, 8))
    assert [ok(d.cuGraphNodeGetDependencies(node))[2] for node in nodes] == [0, 1, 1, 2]
    ok(d.cuGraphLaunch(ok(d.cuGraphInstantiate(graph, 0)), bench.second))
    assert bench.values[:4] == [1] * 4


def test_a_stream_that_was_not_joined(bench: Bench) -> None:
    d, event = bench.driver, ok(bench.driver.cuEventCreate(0))
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    ok(d.cuEventRecord(event, bench.first))
    ok(d.cuStreamWaitEvent(bench.second, event, 0))
    ok(bench.launch(0, 1, bench.second))
    assert bench.status("cuStreamEndCapture", bench.first) == "STREAM_CAPTURE_UNJOINED"
    ok(bench.launch(0, 1, bench.second))  # both streams run their work again
    assert bench.values[0] == 1


def test_a_capture_that_is_never_ended(bench: Bench) -> None:
    d = bench.driver
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    assert bench.status("cuStreamBeginCapture", bench.first, GLOBAL) == "ILLEGAL_STATE"
    ok(bench.launch(0, 1, bench.first))
    assert bench.status("cuStreamSynchronize", bench.first) == "STREAM_CAPTURE_UNSUPPORTED"
    assert bench.status("cuMemAlloc", 8) == "STREAM_CAPTURE_UNSUPPORTED"
    assert bench.launch(0, 1, bench.first)[0].name == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    assert ok(d.cuStreamIsCapturing(bench.first)).name.endswith("INVALIDATED")
    assert bench.status("cuStreamEndCapture", bench.first) == "STREAM_CAPTURE_INVALIDATED"
    assert bench.status("cuStreamEndCapture", bench.first) == "ILLEGAL_STATE"
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    ok(d.cuStreamDestroy(bench.first))
    ok(d.cuMemAlloc(8))
    assert bench.values[0] == 0


def test_threads_and_modes(bench: Bench) -> None:
    d, found = bench.driver, {}

    def elsewhere(name: str, *calls: tuple) -> None:
        thread = threading.Thread(target=lambda: found.update({name: [bench.status(*call) for call in calls]}))
        thread.start()
        thread.join()

    ok(d.cuStreamBeginCapture(bench.first, RELAXED))
    ok(d.cuMemAlloc(8))
    elsewhere("relaxed", ("cuStreamEndCapture", bench.first))
    ok(d.cuStreamBeginCapture(bench.first, MODES.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    elsewhere("local", ("cuMemAlloc", 8), ("cuStreamEndCapture", bench.first))
    ok(d.cuStreamDestroy(bench.first))
    ok(d.cuStreamBeginCapture(bench.second, GLOBAL))
    elsewhere("switched", ("cuThreadExchangeStreamCaptureMode", RELAXED), ("cuMemAlloc", 8))
    elsewhere("global", ("cuMemAlloc", 8))
    assert bench.status("cuStreamEndCapture", bench.second) == "STREAM_CAPTURE_INVALIDATED"
    assert found == {
        "relaxed": ["CUDA_SUCCESS"], "local": ["CUDA_SUCCESS", "STREAM_CAPTURE_WRONG_THREAD"],
        "switched": ["CUDA_SUCCESS"] * 2, "global": ["STREAM_CAPTURE_UNSUPPORTED"],
    }  # fmt: skip


def test_streams_that_a_capture_cannot_have(bench: Bench) -> None:
    d = bench.driver
    assert bench.status("cuStreamBeginCapture", 0, GLOBAL) == "STREAM_CAPTURE_UNSUPPORTED"
    event, early = (ok(d.cuEventCreate(0)) for _ in range(2))
    ok(d.cuEventRecord(early, bench.second))
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    ok(bench.launch(0, 1, 0))  # the streams do not wait for the legacy one
    assert bench.status("cuStreamWaitEvent", bench.first, early, 0) == "STREAM_CAPTURE_ISOLATION"
    assert bench.status("cuStreamEndCapture", bench.first) == "STREAM_CAPTURE_INVALIDATED"
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    ok(d.cuStreamBeginCapture(bench.second, GLOBAL))
    ok(d.cuEventRecord(event, bench.first))
    assert bench.status("cuStreamWaitEvent", bench.second, event, 0) == "STREAM_CAPTURE_MERGE"
    for stream in (bench.first, bench.second):
        assert bench.status("cuStreamEndCapture", stream) == "STREAM_CAPTURE_INVALIDATED"
    assert bench.status("cuStreamWaitEvent", bench.second, event, 0) == "CAPTURED_EVENT"
    blocking = ok(d.cuStreamCreate(0))
    ok(d.cuStreamBeginCapture(blocking, GLOBAL))
    assert bench.launch(0, 1, 0)[0].name == "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"
    ok(d.cuStreamDestroy(blocking))
    ok(d.cuStreamBeginCapture(bench.first, GLOBAL))
    ok(d.cuEventRecord(event, bench.first))
    ok(d.cuStreamWaitEvent(bench.second, event, 0))
    assert bench.status("cuStreamEndCapture", bench.second) == "STREAM_CAPTURE_UNMATCHED"


def test_conditions_nest(bench: Bench) -> None:
    """while word 0: add 10 to word 2; if word 1: add 1 to word 3, else to word 4; subtract 1 from word 0."""
    d = bench.driver
    graph = ok(d.cuGraphCreate(0))
    turns = ok(d.cuGraphConditionalHandleCreate(graph, 0, 0, 0))
    set_turns = ok(d.cuGraphAddKernelNode(graph, [], 0, bench.setting(0, turns)))
    loop, body = bench.condition(graph, turns, WHILE, [set_turns])
    ok(loop)
    last = ok(d.cuGraphAddKernelNode(body, [], 0, bench.adding(2, 10)))
    holds, fails = (ok(d.cuGraphConditionalHandleCreate(body, 0, 0, 0)) for _ in range(2))
    last = ok(d.cuGraphAddKernelNode(body, [last], 1, bench.setting(1, holds, fails)))
    for handle, word in ((holds, 3), (fails, 4)):
        (node, branch) = bench.condition(body, handle, IF, [last])
        last = ok(node)
        ok(d.cuGraphAddKernelNode(branch, [], 0, bench.adding(word, 1)))
    last = ok(d.cuGraphAddKernelNode(body, [last], 1, bench.adding(0, -1 & 0xFFFFFFFF)))
    ok(d.cuGraphAddKernelNode(body, [last], 1, bench.setting(0, turns)))
    launched = ok(d.cuGraphInstantiate(graph, 0))
    ok(d.cuGraphDestroy(graph))
    assert bench.status("cuGraphAddEmptyNode", body, [], 0) == "INVALID_VALUE", "it went with its graph"
    for flag, expected in ((0, [0, 0, 40, 0, 4]), (1, [0, 1, 40, 4, 0])):
        ok(d.cuMemsetD32Async(bench.words, 0, 16, 0))
        ok(d.cuMemsetD32Async(bench.words, 4, 1, 0))
        ok(d.cuMemsetD32Async(bench.word(1), flag, 1, 0))
        ok(d.cuGraphLaunch(launched, 0))
        assert bench.values[:5] == expected


def test_conditions_that_cannot_be(bench: Bench) -> None:
    d = bench.driver
    graph, event = ok(d.cuGraphCreate(0)), ok(d.cuEventCreate(0))
    handle = ok(d.cuGraphConditionalHandleCreate(graph, 0, 1, 1))
    assert bench.status("cuGraphInstantiate", graph, 0) == "INVALID_VALUE", "the handle has no node"
    assert bench.condition(graph, handle, WHILE, [], 2)[0][0].name == "CUDA_ERROR_INVALID_VALUE"
    assert bench.condition(graph, real.CUgraphConditionalHandle(5), IF, [])[0][0].name == "CUDA_ERROR_INVALID_VALUE"
    node, body = bench.condition(graph, handle, IF, [])
    assert bench.status("cuGraphAddEventRecordNode", body, [], 0, event) == "NOT_SUPPORTED"
    assert bench.status("cuGraphAddEmptyNode", body, [ok(node)], 1) == "INVALID_VALUE", "nodes of another graph"
    assert bench.status("cuGraphInstantiate", body, 0) == bench.status("cuGraphDestroy", body) == "INVALID_VALUE"
    inner = ok(d.cuGraphAddKernelNode(body, [], 0, bench.adding(0, 1)))
    launched = ok(d.cuGraphInstantiate(graph, 0))
    assert bench.status("cuGraphExecKernelNodeSetParams", launched, inner, bench.adding(0, 2)) == "INVALID_VALUE"
    ok(d.cuGraphKernelNodeSetParams(inner, bench.adding(0, 2)))
    ok(d.cuGraphExecUpdate(launched, graph))
    ok(d.cuGraphLaunch(launched, 0))  # the handle's default is 1
    assert bench.values[0] == 2
    d.version = 12_030
    assert bench.status("cuGraphConditionalHandleCreate", graph, 0, 0, 0) == "NOT_SUPPORTED"


def test_what_is_gone_or_wrong(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    d = bench.driver
    graph = ok(d.cuGraphCreate(0))
    wide = bench.adding(0, 1)
    wide.blockDimX = 4096
    assert bench.status("cuGraphAddKernelNode", graph, [], 0, wide) == "INVALID_VALUE"
    ok(d.cuGraphAddKernelNode(graph, [], 0, bench.adding(0, 1)))
    beyond = bench.adding(16, 1)
    outside = ok(d.cuGraphCreate(0))
    ok(d.cuGraphAddKernelNode(outside, [], 0, beyond))
    launched, bad = (ok(d.cuGraphInstantiate(g, 0)) for g in (graph, outside))
    assert bench.status("cuGraphLaunch", bad, 0) == "ILLEGAL_ADDRESS"
    ok(d.cuModuleUnload(bench.module))
    assert bench.status("cuGraphLaunch", launched, 0) == "INVALID_HANDLE"
    assert "was unloaded" in d.last_text


def test_a_loop_without_an_end_is_a_report(bench: Bench) -> None:
    from engine.config import config

    d = bench.driver
    graph = ok(d.cuGraphCreate(0))
    handle = ok(d.cuGraphConditionalHandleCreate(graph, 0, 1, 1))
    _, body = bench.condition(graph, handle, WHILE, [])
    ok(d.cuGraphAddKernelNode(body, [], 0, bench.adding(0, 1)))
    launched = ok(d.cuGraphInstantiate(graph, 0))
    with config.scope(emu_budget=1000):
        assert bench.status("cuGraphLaunch", launched, 0) == "LAUNCH_TIMEOUT"
    assert bench.values[0] > 10


def test_events_of_graphs_note_the_time_of_each_run(bench: Bench) -> None:
    d = bench.driver
    graph = ok(d.cuGraphCreate(0))
    start, end = (ok(d.cuEventCreate(0)) for _ in range(2))
    first = ok(d.cuGraphAddEventRecordNode(graph, [], 0, start))
    work = ok(d.cuGraphAddKernelNode(graph, [first], 1, bench.adding(0, 1)))
    waits = ok(d.cuGraphAddEventWaitNode(graph, [work], 1, start))
    ok(d.cuGraphAddEventRecordNode(graph, [waits], 1, end))
    launched = ok(d.cuGraphInstantiate(graph, 0))
    assert bench.status("cuEventElapsedTime", start, end) == "INVALID_HANDLE", "nothing has run"
    ok(d.cuGraphLaunch(launched, 0))
    assert ok(d.cuEventElapsedTime(start, end)) > 0
