"""Replays of graphs on the cpu: a table of rows that `weft_replay` walks through (`compiler.emit_replay` draws it).

The rows point to the launch blocks and to the conditions; those of stale steps are written again.

    [launch a, If(c, [launch b], [launch d]), launch e]      0 RUN a   1 BRANCH c →4   2 RUN b   3 JUMP →5   4 RUN d   …
"""

from __future__ import annotations

import ctypes
from time import perf_counter_ns
from typing import Any

import numpy as np

from engine.compiler.emit_replay import (
    BRANCH,
    CONTEXT_BYTES,
    CONTEXT_SLOTS,
    END,
    JUMP,
    NODE_SLOTS,
    OUT_OF_FUEL,
    STAMP,
)
from engine.config import config
from engine.context.graph_steps import Condition, If, Stamp, While
from engine.context.memory import host_block, host_window
from engine.context.team import Choice
from engine.context.threads import MAX_WORKERS, pool

ENTER_NS, OFFER_NS = 30_000.0, 6_000.0  # work of a grid that pays for waking workers, and for workers that are awake
_ROW_BYTES = 8 * len(NODE_SLOTS)
_COST = NODE_SLOTS.index("cost")
_replay_type = ctypes.CFUNCTYPE(ctypes.c_int64)


class NativeReplay:
    """A graph as rows."""

    notes_times = False  # the rows write them to the graph's own memory

    def __init__(self, graph: Any):
        from engine.compiler.target_host import host_target  # needs LLVM

        self._graph = graph
        self._call = _replay_type(host_target().replay_address)
        self._rows: list[tuple[int, ...]] = []
        self._places: dict[Any, int] = {}
        self._flatten(graph.steps)
        self._rows.append(_row(END))
        graph.stale.clear()
        block = host_block(CONTEXT_BYTES + _ROW_BYTES * len(self._rows), zeroed=True)
        shape = len(self._rows), len(NODE_SLOTS)
        self._table = host_window(block, block.ptr + CONTEXT_BYTES, shape, (_ROW_BYTES, 8), np.dtype(np.int64))
        self._table[...] = self._rows
        costs = self._table.view(np.float64)[:, _COST]
        for one in graph.launches:
            costs[self._places[one]] = one.program.cost
        context = host_window(block, block.ptr, (CONTEXT_BYTES // 8,), (8,), np.dtype(np.int64))
        self._context, limits = context, context.view(np.float64)
        context[CONTEXT_SLOTS["nodes"]] = block.ptr + CONTEXT_BYTES
        limits[CONTEXT_SLOTS["enter_ns"]], limits[CONTEXT_SLOTS["offer_ns"]] = ENTER_NS, OFFER_NS
        self._context_address = ctypes.c_void_p(block.ptr)
        self._threads = self._generation = -1
        self._look_for_checks()

    def __str__(self) -> str:
        return f"{len(self._rows)} rows, in native code"

    def run(self) -> None:
        """Run all of it once."""
        if config.threads != self._threads or pool.generation != self._generation:
            self._choose_workers()
        several = self._workers > 1
        if several:
            self._context[CONTEXT_SLOTS["workers"]] = self._workers if self._choice.with_team() else 1
            began = perf_counter_ns()
        try:
            while self._call(self._context_address) == OUT_OF_FUEL:
                pass  # here Python looks whether the user wants to interrupt
        finally:
            self._context[CONTEXT_SLOTS["row"]] = 0
            if several and not pool.entered:
                pool.entered = self.entered
        if several:
            self._choice.took(perf_counter_ns() - began)

    def refresh(self) -> None:
        """Write the rows again whose launch or condition has changed."""
        changed = list(self._graph.stale)
        for step in changed:
            row = self._table[self._places[step]]
            if isinstance(step, Condition):
                row[NODE_SLOTS.index("count")] = step.where.ptr
            else:
                row[:_COST] = step.row()
        self._graph.stale.clear()
        self._look_for_checks()

    @property
    def entered(self) -> bool:
        """Whether other workers were ever called, or are now."""
        return bool(self._context[CONTEXT_SLOTS["tickets"]])

    @property
    def replays(self) -> int:
        """How often it was run."""
        return int(self._context[CONTEXT_SLOTS["replays"]])

    @property
    def helpers(self) -> int:
        """How often, in the last replay, another worker than the caller came and ran a part."""
        return int(self._context[CONTEXT_SLOTS["helped"]])

    def _choose_workers(self) -> None:
        self._threads, self._generation = config.threads, pool.generation
        workers = min(self._threads, MAX_WORKERS)
        parallel = pool.parallel_address if workers > 1 else 0
        self._workers = workers if parallel else 1
        self._choice = Choice()
        self._context[CONTEXT_SLOTS["workers"]] = self._workers
        self._context[CONTEXT_SLOTS["parallel"]] = parallel

    def _flatten(self, steps: list[Any]) -> None:
        rows = self._rows
        for step in steps:
            if isinstance(step, If):
                branch = self._branch(step.condition)
                self._flatten(step.then)
                if step.otherwise:
                    jump = len(rows)
                    rows.append(_row(JUMP))
                    rows[branch] = (*rows[branch][:-1], len(rows))
                    self._flatten(step.otherwise)
                    rows[jump] = _row(JUMP, target=len(rows))
                else:
                    rows[branch] = (*rows[branch][:-1], len(rows))
            elif isinstance(step, While):
                branch = self._branch(step.condition)
                self._flatten(step.body)
                rows.append(_row(JUMP, target=branch))
                rows[branch] = (*rows[branch][:-1], len(rows))
            elif isinstance(step, Stamp):
                rows.append(_row(STAMP, count=self._graph.stamps_at + 8 * step.index))
            else:
                self._places[step] = len(rows)
                rows.append((*step.row(), 0, 0, 0))

    def _branch(self, condition: Condition) -> int:
        self._places[condition] = len(self._rows)
        self._rows.append(_row(BRANCH, count=condition.where.ptr))
        return len(self._rows) - 1

    def _look_for_checks(self) -> None:
        self.checked = any(one.program.record for one in self._graph.launches)


def _row(kind: int, count: int = 0, target: int = 0) -> tuple[int, ...]:
    return kind, 0, 0, 0, count, 0, 0, target
