"""Graphs of the emulated driver: nodes of work, conditions, and what is made of a graph to run it.

A graph is a list of nodes, each behind the nodes that it waits for. `Exec` is a copy of it that runs them in the order
in which they were added. A conditional handle is the address of its value, which `cudaGraphSetConditional` writes.
"""

from __future__ import annotations

import copy
import ctypes
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.config import config
from engine.context.emulator.calls import real
from engine.context.emulator.machine import Machine
from engine.context.emulator.memory import Memory
from engine.context.emulator.status import DriverFailure

KINDS = real.CUgraphNodeType
_FORMS = real.CUgraphConditionalNodeType
_IN_BODIES = {
    KINDS.CU_GRAPH_NODE_TYPE_KERNEL, KINDS.CU_GRAPH_NODE_TYPE_EMPTY, KINDS.CU_GRAPH_NODE_TYPE_GRAPH,
    KINDS.CU_GRAPH_NODE_TYPE_MEMSET, KINDS.CU_GRAPH_NODE_TYPE_MEMCPY, KINDS.CU_GRAPH_NODE_TYPE_CONDITIONAL,
}  # fmt: skip


@dataclass(eq=False)
class Node:
    """A part of a graph; `before` are the nodes that it waits for."""

    graph: Graph
    work: Any
    before: list[Node]
    handle: int


@dataclass(eq=False)
class Graph:
    """Nodes in the order in which they were added, which is one that they can run in. `is_body`: of a condition."""

    handle: int
    is_body: bool = False
    nodes: list[Node] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)  # conditional handles that were made for it

    def add(self, node: Node) -> None:
        """One more node. Raises DriverFailure for one that the body of a condition cannot have."""
        if self.is_body and node.work.kind not in _IN_BODIES:
            text = f"the body of a conditional node cannot hold a node of type {node.work.kind.name}"
            raise DriverFailure("CUDA_ERROR_NOT_SUPPORTED", text)
        self.nodes.append(node)

    def below(self) -> Iterator[Graph]:
        """This graph and the bodies of its conditions."""
        yield self
        for node in self.nodes:
            for body in getattr(node.work, "bodies", ()):
                yield from body.below()

    def edges(self) -> list[tuple[Node, Node]]:
        """Which node waits for which."""
        return [(before, node) for node in self.nodes for before in node.before]


class Cell:
    """The value of a conditional handle, in the memory of a GPU. `default`: what every run begins with, or None."""

    def __init__(self, memory: Memory, default: int | None):
        self.address = memory.allocate(4, "handle").begin
        self.default = default
        self.value = default or 0
        weakref.finalize(self, memory.free, self.address, ("handle",)).atexit = False

    @property
    def value(self) -> int:
        """What the condition is now."""
        return ctypes.c_uint32.from_address(self.address).value

    @value.setter
    def value(self, value: int) -> None:
        ctypes.c_uint32.from_address(self.address).value = value


@dataclass(eq=False)
class EmptyWork:
    """Nothing, for others to wait for."""

    kind = KINDS.CU_GRAPH_NODE_TYPE_EMPTY

    def check(self) -> None:
        """Always right."""

    def run(self) -> None:
        """Nothing."""


@dataclass(eq=False)
class ConditionalWork:
    """Graphs that run if, while, or as the value of a handle says. `bodies` are graphs; in an `Exec`, `Exec`s."""

    driver: Any
    cell: Cell
    form: Any
    bodies: list[Any]
    out: Any  # the handles of the bodies, where the caller was told that they are
    kind = KINDS.CU_GRAPH_NODE_TYPE_CONDITIONAL

    def check(self) -> None:
        """Always right."""

    def run(self) -> None:
        """Runs what the value says. Raises DriverFailure for a loop that goes beyond the budget of instructions."""
        value, bodies = self.cell.value, self.bodies
        if self.form == _FORMS.CU_GRAPH_COND_TYPE_SWITCH:
            if value < len(bodies):
                bodies[value].run()
        elif self.form == _FORMS.CU_GRAPH_COND_TYPE_IF:
            if value or len(bodies) == 2:
                bodies[0 if value else 1].run()
        else:
            counters = self.driver.counters
            end = counters.warp_instructions + config.emu_budget
            while self.cell.value:
                bodies[0].run()
                if counters.warp_instructions > end:
                    text = "a while node ran without an end; ENGINE_EMU_BUDGET sets the limit"
                    raise DriverFailure("CUDA_ERROR_LAUNCH_TIMEOUT", text)


class Exec:
    """A graph that can be run: a copy, which later changes of the graph do not reach."""

    kind = KINDS.CU_GRAPH_NODE_TYPE_GRAPH

    def __init__(self, graph: Graph):
        """Raises DriverFailure unless each conditional handle has one node."""
        if not graph.is_body:
            _check_handles(graph)
        self.cells = list(graph.cells)
        self._take(graph)

    def _take(self, graph: Graph) -> None:
        self.nodes = list(graph.nodes)
        self.works = [self._copied(node.work) for node in graph.nodes]
        self.places = {node: place for place, node in enumerate(graph.nodes)}

    @staticmethod
    def _copied(work: Any) -> Any:
        made = copy.copy(work)
        if isinstance(made, ConditionalWork):
            made.bodies = [Exec(body) for body in made.bodies]
        return made

    def check(self) -> None:
        """As a node of a capture: always right."""

    def run(self) -> None:
        """All its work. Raises DriverFailure for the first that fails."""
        for cell in self.cells:
            if cell.default is not None:
                cell.value = cell.default
        for work in self.works:
            work.run()

    def set_work(self, node: Node, work: Any) -> None:
        """What a node does from now on."""
        if node not in self.places or self.nodes[self.places[node]].work.kind != work.kind:
            text = "the node is not one of this kind in the graph itself that was instantiated"
            raise DriverFailure("CUDA_ERROR_INVALID_VALUE", text)
        work.check()
        self.works[self.places[node]] = work

    def update(self, graph: Graph) -> None:
        """Takes over the work of a graph with the same nodes. Raises DriverFailure for another one."""
        difference = _difference(self, graph)
        if difference is not None:
            info = real.CUgraphExecUpdateResultInfo()
            info.result = difference
            text = "the graph has other nodes than the one that was instantiated"
            raise DriverFailure("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", text, (info,))
        self.cells = list(graph.cells)
        self._take(graph)


def _difference(exec_: Exec, graph: Graph) -> Any:
    """How a graph differs from what was instantiated, or None."""
    results = real.CUgraphExecUpdateResult
    if len(exec_.nodes) != len(graph.nodes):
        return results.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
    there = {node: place for place, node in enumerate(graph.nodes)}
    for had, node, work in zip(exec_.nodes, graph.nodes, exec_.works, strict=True):
        if work.kind != node.work.kind:
            return results.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
        if [exec_.places[b] for b in had.before] != [there[b] for b in node.before]:
            return results.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
        if isinstance(work, ConditionalWork):
            if work.form != node.work.form or len(work.bodies) != len(node.work.bodies):
                return results.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
            for inner, body in zip(work.bodies, node.work.bodies, strict=True):
                if (found := _difference(inner, body)) is not None:
                    return found
    return None


def _check_handles(graph: Graph) -> None:
    parts = list(graph.below())
    made = [cell for part in parts for cell in part.cells]
    used = [node.work.cell for part in parts for node in part.nodes if isinstance(node.work, ConditionalWork)]
    if sorted(map(id, made)) != sorted(map(id, used)):
        text = "each conditional handle has to be that of one conditional node of its graph"
        raise DriverFailure("CUDA_ERROR_INVALID_VALUE", text)


class GraphTable(Machine):
    """The graphs and nodes of a machine by their handles."""

    def __init__(self, *archs: int):
        super().__init__(*archs)
        self._graphs: dict[int, Graph] = {}
        self._nodes: dict[int, Node] = {}

    def new_graph(self, is_body: bool = False) -> Graph:
        """An empty graph with a handle."""
        handle = next(self._handles)
        made = self._graphs[handle] = Graph(handle, is_body)
        return made

    def forget_graph(self, graph: Graph) -> None:
        """The handles of a graph and of all that belongs to it are none any more."""
        for part in list(graph.below()):
            self._graphs.pop(part.handle, None)
            for node in part.nodes:
                self._nodes.pop(node.handle, None)

    def graph(self, hGraph: Any) -> Graph:
        """The graph of a handle."""
        found = self._graphs.get(int(hGraph))
        if found is None:
            raise invalid("there is no such graph")
        return found

    def node(self, hNode: Any) -> Node:
        """The node of a handle."""
        found = self._nodes.get(int(hNode))
        if found is None:
            raise invalid("there is no such node")
        return found

    def nodes_of(self, graph: Graph, dependencies: Any, count: int) -> list[Node]:
        """Nodes of a graph that are given as dependencies."""
        found = [self.node(handle) for handle in (dependencies or ())]
        if len(found) != count or any(node.graph is not graph for node in found):
            raise invalid(f"{count} dependencies in the same graph are needed")
        return found

    def add_node(self, graph: Graph, before: list[Node], work: Any) -> Node:
        """One more node of a graph."""
        work.check()
        node = Node(graph, work, list(before), next(self._handles))
        graph.add(node)
        self._nodes[node.handle] = node
        return node


def invalid(text: str) -> DriverFailure:
    """The failure of a call that was given what it cannot take."""
    return DriverFailure("CUDA_ERROR_INVALID_VALUE", text)


def picture(graph: Graph) -> str:
    """GraphViz text of the nodes and edges."""
    lines = [f'  n{n.handle} [label="{n.work.kind.name.removeprefix("CU_GRAPH_NODE_TYPE_").lower()}"];'
             for n in graph.nodes]  # fmt: skip
    lines += [f"  n{a.handle} -> n{b.handle};" for a, b in graph.edges()]
    return "\n".join(["digraph graph {", *lines, "}", ""])


def handles(nodes: Iterable[Node]) -> list[Any]:
    """The driver's handles of nodes."""
    return [real.CUgraphNode(node.handle) for node in nodes]
