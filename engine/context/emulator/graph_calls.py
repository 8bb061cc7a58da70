"""The calls of the emulated driver that build, instantiate, change and launch graphs."""

from __future__ import annotations

import ctypes
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from engine.context.emulator.calls import call, real
from engine.context.emulator.graphs import KINDS, Cell, ConditionalWork, EmptyWork, Exec, handles, invalid, picture
from engine.context.emulator.status import DriverFailure
from engine.context.emulator.work import CopyWork, EventWork, FillWork, KernelWork, WorkCalls

_FORMS = real.CUgraphConditionalNodeType
_SIZES = {_FORMS.CU_GRAPH_COND_TYPE_IF: (1, 2), _FORMS.CU_GRAPH_COND_TYPE_WHILE: (1,)}  # a switch has any number
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT
CONDITIONS_SINCE = 12_040  # the driver's CUDA version
_GRAPHS_OUT = 16  # offset of CUDA_CONDITIONAL_NODE_PARAMS.phGraph_out, which only the driver writes


class GraphCalls(WorkCalls):
    """The part of the driver that knows graphs."""

    version: int  # CUDA's, 1000 · major + 10 · minor

    def __init__(self, *archs: int):
        super().__init__(*archs)
        self._execs: dict[int, Exec] = {}
        self._cells: weakref.WeakValueDictionary[int, Cell] = weakref.WeakValueDictionary()

    # graphs and their nodes

    def _add(self, hGraph: Any, dependencies: Any, count: int, work: Any) -> Any:
        graph = self.graph(hGraph)
        return real.CUgraphNode(self.add_node(graph, self.nodes_of(graph, dependencies, count), work).handle)

    @call
    def cuGraphCreate(self, flags: int) -> Any:
        if flags:
            raise invalid("the flags must be 0")
        return real.CUgraph(self.new_graph().handle)

    @call
    def cuGraphDestroy(self, hGraph: Any) -> None:
        graph = self.graph(hGraph)
        if graph.is_body:
            raise invalid("the graph belongs to a conditional node")
        self.forget_graph(graph)

    @call
    def cuGraphAddKernelNode(self, hGraph: Any, dependencies: Any, numDependencies: int, nodeParams: Any) -> Any:
        return self._add(hGraph, dependencies, numDependencies, self._kernel(nodeParams))

    @call
    def cuGraphAddMemcpyNode(self, hGraph: Any, dependencies: Any, numDependencies: int, copyParams: Any,
                             ctx: Any) -> Any:  # fmt: skip
        return self._add(hGraph, dependencies, numDependencies, self._copy_work(copyParams))

    @call
    def cuGraphAddMemsetNode(self, hGraph: Any, dependencies: Any, numDependencies: int, memsetParams: Any,
                             ctx: Any) -> Any:  # fmt: skip
        return self._add(hGraph, dependencies, numDependencies, self._fill_work(memsetParams))

    @call
    def cuGraphAddEventRecordNode(self, hGraph: Any, dependencies: Any, numDependencies: int, event: Any) -> Any:
        return self._add(hGraph, dependencies, numDependencies, EventWork(self.event(event), records=True))

    @call
    def cuGraphAddEventWaitNode(self, hGraph: Any, dependencies: Any, numDependencies: int, event: Any) -> Any:
        return self._add(hGraph, dependencies, numDependencies, EventWork(self.event(event), records=False))

    @call
    def cuGraphAddEmptyNode(self, hGraph: Any, dependencies: Any, numDependencies: int) -> Any:
        return self._add(hGraph, dependencies, numDependencies, EmptyWork())

    @call
    def cuGraphAddNode(self, hGraph: Any, dependencies: Any, dependencyData: Any, numDependencies: int,
                       nodeParams: Any) -> Any:  # fmt: skip
        kind = nodeParams.type
        if kind == KINDS.CU_GRAPH_NODE_TYPE_CONDITIONAL:
            return self._add_condition(hGraph, dependencies, numDependencies, nodeParams.conditional)
        if kind == KINDS.CU_GRAPH_NODE_TYPE_KERNEL:
            work: Any = self._kernel(nodeParams.kernel)
        elif kind == KINDS.CU_GRAPH_NODE_TYPE_MEMCPY:
            work = self._copy_work(nodeParams.memcpy.copyParams)
        elif kind == KINDS.CU_GRAPH_NODE_TYPE_MEMSET:
            work = self._fill_work(nodeParams.memset)
        elif kind == KINDS.CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            work = EventWork(self.event(nodeParams.eventRecord.event), records=True)
        elif kind == KINDS.CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            work = EventWork(self.event(nodeParams.eventWait.event), records=False)
        elif kind == KINDS.CU_GRAPH_NODE_TYPE_EMPTY:
            work = EmptyWork()
        else:
            raise DriverFailure("CUDA_ERROR_NOT_SUPPORTED", f"nodes of type {kind.name}")
        return self._add(hGraph, dependencies, numDependencies, work)

    def _add_condition(self, hGraph: Any, dependencies: Any, count: int, params: Any) -> Any:
        self._require_conditions()
        graph = self.graph(hGraph)
        before = self.nodes_of(graph, dependencies, count)
        cell, form, size = self._cells.get(int(params.handle)), params.type, params.size
        if cell is None:
            raise invalid("there is no such conditional handle")
        if size not in _SIZES.get(form, (size,)) or size < 1:
            raise invalid(f"a conditional node of type {form.name} cannot have {size} graphs")
        bodies = [self.new_graph(is_body=True) for _ in range(size)]
        out = (ctypes.c_uint64 * size)(*[body.handle for body in bodies])
        node = self.add_node(graph, before, ConditionalWork(self, cell, form, bodies, out))
        ctypes.c_uint64.from_address(params.getPtr() + _GRAPHS_OUT).value = ctypes.addressof(out)
        return real.CUgraphNode(node.handle)

    @call
    def cuGraphConditionalHandleCreate(self, hGraph: Any, ctx: Any, defaultLaunchValue: int, flags: int) -> Any:
        self._require_conditions()
        if flags not in (0, _DEFAULT):
            raise invalid("the flags must be 0 or CU_GRAPH_COND_ASSIGN_DEFAULT")
        graph = self.graph(hGraph)
        cell = Cell(self.gpu_of_context(ctx).memory, defaultLaunchValue if flags else None)
        graph.cells.append(cell)
        self._cells[cell.address] = cell
        return real.CUgraphConditionalHandle(cell.address)

    def _require_conditions(self) -> None:
        if self.version < CONDITIONS_SINCE:
            text = "conditional nodes came with CUDA 12.4"
            raise DriverFailure("CUDA_ERROR_NOT_SUPPORTED", text)

    # work from the driver's structures

    def _kernel(self, params: Any) -> KernelWork:
        blocks = params.gridDimX, params.gridDimY, params.gridDimZ
        threads = params.blockDimX, params.blockDimY, params.blockDimZ
        return self.kernel_work(params.func, blocks, threads, params.sharedMemBytes, params.kernelParams)

    def _copy_work(self, params: Any) -> CopyWork:
        on_device = real.CUmemorytype.CU_MEMORYTYPE_DEVICE
        ends = []
        for side in ("dst", "src"):
            is_device = getattr(params, f"{side}MemoryType") == on_device
            base = int(getattr(params, f"{side}Device" if is_device else f"{side}Host") or 0)
            base += getattr(params, f"{side}XInBytes")
            ends.append((is_device, base, getattr(params, f"{side}Pitch"), getattr(params, f"{side}Height")))
        rows = []
        for z in range(max(params.Depth, 1)):
            for y in range(max(params.Height, 1)):
                to, source = (base + pitch * (y + height * z) for _, base, pitch, height in ends)
                rows.append((to, source, params.WidthInBytes))
        return CopyWork(self, rows, ends[0][0], ends[1][0])

    def _fill_work(self, params: Any) -> FillWork:
        word = _WORDS.get(params.elementSize)
        if word is None:
            raise invalid(f"words of {params.elementSize} bytes")
        value = word(params.value & ((1 << 8 * params.elementSize) - 1))
        rows = [(int(params.dst) + y * params.pitch, params.width) for y in range(max(params.height, 1))]
        return FillWork(self, rows, value)

    # what a graph consists of

    @call
    def cuGraphGetNodes(self, hGraph: Any, numNodes: int = 0) -> tuple[Any, int]:
        nodes = self.graph(hGraph).nodes
        return handles(nodes[:numNodes]), len(nodes)

    @call
    def cuGraphGetEdges(self, hGraph: Any, numEdges: int = 0) -> tuple[Any, Any, Any, int]:
        edges = self.graph(hGraph).edges()
        shown = edges[:numEdges]
        return handles(a for a, _ in shown), handles(b for _, b in shown), [], len(edges)

    @call
    def cuGraphNodeGetType(self, hNode: Any) -> Any:
        return self.node(hNode).work.kind

    @call
    def cuGraphNodeGetDependencies(self, hNode: Any, numDependencies: int = 0) -> tuple[Any, Any, int]:
        before = self.node(hNode).before
        return handles(before[:numDependencies]), [], len(before)

    @call
    def cuGraphNodeGetDependentNodes(self, hNode: Any, numDependentNodes: int = 0) -> tuple[Any, Any, int]:
        node = self.node(hNode)
        after = [other for other in node.graph.nodes if node in other.before]
        return handles(after[:numDependentNodes]), [], len(after)

    @call
    def cuGraphKernelNodeGetParams(self, hNode: Any) -> Any:
        work = self.node(hNode).work
        if not isinstance(work, KernelWork):
            raise invalid("the node is not a kernel's")
        params = real.CUDA_KERNEL_NODE_PARAMS()
        params.func, params.sharedMemBytes = real.CUfunction(work.handle), work.shared
        params.gridDimX, params.gridDimY, params.gridDimZ = work.grid
        params.blockDimX, params.blockDimY, params.blockDimZ = work.block
        return params

    @call
    def cuGraphDebugDotPrint(self, hGraph: Any, path: bytes, flags: int) -> None:
        Path(path.decode()).write_text(picture(self.graph(hGraph)))

    # changes

    def _set(self, hNode: Any, work: Any) -> None:
        node = self.node(hNode)
        if node.work.kind != work.kind:
            raise invalid("the node is of another type")
        work.check()
        node.work = work

    @call
    def cuGraphKernelNodeSetParams(self, hNode: Any, nodeParams: Any) -> None:
        self._set(hNode, self._kernel(nodeParams))

    @call
    def cuGraphMemcpyNodeSetParams(self, hNode: Any, nodeParams: Any) -> None:
        self._set(hNode, self._copy_work(nodeParams))

    @call
    def cuGraphMemsetNodeSetParams(self, hNode: Any, nodeParams: Any) -> None:
        self._set(hNode, self._fill_work(nodeParams))

    @call
    def cuGraphExecKernelNodeSetParams(self, hGraphExec: Any, hNode: Any, nodeParams: Any) -> None:
        self.exec_of(hGraphExec).set_work(self.node(hNode), self._kernel(nodeParams))

    @call
    def cuGraphExecMemcpyNodeSetParams(self, hGraphExec: Any, hNode: Any, copyParams: Any, ctx: Any) -> None:
        self.exec_of(hGraphExec).set_work(self.node(hNode), self._copy_work(copyParams))

    @call
    def cuGraphExecMemsetNodeSetParams(self, hGraphExec: Any, hNode: Any, memsetParams: Any, ctx: Any) -> None:
        self.exec_of(hGraphExec).set_work(self.node(hNode), self._fill_work(memsetParams))

    @call
    def cuGraphExecUpdate(self, hGraphExec: Any, hGraph: Any) -> Any:
        self.exec_of(hGraphExec).update(self.graph(hGraph))
        return real.CUgraphExecUpdateResultInfo()

    # running

    def exec_of(self, hGraphExec: Any) -> Exec:
        """The instantiated graph of a handle."""
        found = self._execs.get(int(hGraphExec))
        if found is None:
            raise invalid("there is no such instantiated graph")
        return found

    @call
    def cuGraphInstantiate(self, hGraph: Any, flags: int) -> Any:
        graph = self.graph(hGraph)
        if graph.is_body:
            raise invalid("the graph belongs to a conditional node")
        handle = next(self._handles)
        self._execs[handle] = Exec(graph)
        return real.CUgraphExec(handle)

    @call
    def cuGraphExecDestroy(self, hGraphExec: Any) -> None:
        self.exec_of(hGraphExec)
        del self._execs[int(hGraphExec)]

    @call
    def cuGraphUpload(self, hGraphExec: Any, hStream: Any) -> None:
        self.exec_of(hGraphExec)
        self.stream(hStream)

    @call
    def cuGraphLaunch(self, hGraphExec: Any, hStream: Any) -> None:
        self.submit(hStream, self.exec_of(hGraphExec))
