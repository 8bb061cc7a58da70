"""The kernels that a gradient needs, made from one kernel for one demand: augmented forward, counting, backward.

    HIR → the passes of the plain kernel → MIR → flow form → Reverse → backward MIR
                                                     ↘ frames → augmented and counting MIR

Starting from the finished MIR makes the backward kernel recompute the very operations of the plain one, contracted fma
included, so that no branch can flip. `DerivedKernel` lets the ordinary launch machinery pack and run what comes out.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.compiler import types
from engine.compiler.adjoint import Demand, Reverse
from engine.compiler.adjoint_activity import ArrayKey, accesses, array_key, local_bases, roots
from engine.compiler.adjoint_flow import Block, Flow, is_float, to_flow
from engine.compiler.adjoint_forward import augmented, counting
from engine.compiler.diagnostics import error_at
from engine.compiler.ir import Function, Op
from engine.compiler.ops import needs_block
from engine.compiler.pipeline import Compiled, Options, compile_mir, lower, no_collection, watched
from engine.compiler.simplify import simplify
from engine.config import config

_DEPTH = 200_000  # values depend on each other in chains as long as the kernel
_lock = threading.RLock()
_known: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


class DerivedKernel:
    """A kernel made as MIR, in the form that `launch` takes."""

    edited_ptx = ""
    shape = "thread"  # see `compile_mir`

    def __init__(self, mir: Function, params: Sequence[tuple[str, types.Type]]):
        self.mir, self.name, self.params = mir, mir.name, list(params)
        self.launchers: dict[Any, Any] = {}
        self._made: dict[str, Compiled] = {}

    def compile(self, arg_types: tuple[types.Type, ...], target: Any, dense: tuple[int, ...] = ()) -> Compiled:
        """Machine code; the types are those that it was made for."""
        if target.key not in self._made:
            self._made[target.key] = watched(compile_mir(self.mir, target), target)
        return self._made[target.key]


@dataclass(eq=False)
class Footprint:
    """Which arrays a kernel reads and writes, among its parameters; `floats`: whose elements have derivatives."""

    reads: frozenset[ArrayKey]
    writes: frozenset[ArrayKey]
    floats: frozenset[ArrayKey]
    flow: Flow
    together: Op | None  # the first op that asks for the block of its thread
    indirect: bool  # whether it reads floats through arrays that are stored in memory


@dataclass(eq=False)
class Gradient:
    """What a kernel's gradient consists of.

    `forward` replaces the plain kernel where frames must be saved (else None); `count` measures them per thread (None:
    each thread saves `frame` bytes), and `count_is_pure` says that it writes nothing else. `reads` are the arrays whose
    elements the backward kernel reads again. `loop` is the line of the loop that saves.
    """

    backward: DerivedKernel
    forward: DerivedKernel | None
    count: DerivedKernel | None
    count_is_pure: bool
    frame: int
    reads: frozenset[ArrayKey]
    loop: int


def footprint(kernel: Any, arg_types: tuple[types.Type, ...], dense: tuple[int, ...] = ()) -> Footprint:
    """The footprint of a kernel for these argument types; `dense` as in `Options`."""
    key = ("footprint", arg_types, dense, config.revision)
    with _lock:
        made = _known.setdefault(kernel, {})
        if key not in made:
            with _deep(), no_collection():
                mir = lower(kernel.hir(arg_types), Options.from_config(dense))
                made[key] = _footprint(to_flow(mir), next(filter(asks_for_block, mir.body.walk()), None))
        found: Footprint = made[key]
        return found


def asks_for_block(op: Op) -> str:
    """What the user called, if an op asks for the block of its thread; else ""."""
    return op.attrs["name"] if op.kind == "block_value" else needs_block(op)


def _footprint(flow: Flow, together: Op | None) -> Footprint:
    reads: set[ArrayKey] = set()
    writes: set[ArrayKey] = set()
    floats: set[ArrayKey] = set()
    indirect = False
    for op, keys in accesses(flow, ("load", "store", "atomic")):
        indirect |= op.kind == "load" and is_float(op.type) and not keys and not local_bases(op.operands[0])
        if op.kind != "store":
            reads |= keys
        if op.kind != "load":
            writes |= keys
        if is_float(op.operands[-1].type if op.kind == "store" else op.type):
            floats |= keys
    return Footprint(frozenset(reads), frozenset(writes), frozenset(floats), flow, together, indirect)


def gradient(
    kernel: Any, arg_types: tuple[types.Type, ...], demand: Demand, dense: tuple[int, ...] = ()
) -> Gradient:
    """The gradient of `kernel` for these argument types; made once.

    Raises `CompileError`, with the line, for what has no exact derivative.
    """
    key = (arg_types, demand, dense, config.revision)
    with _lock:
        made = _known.setdefault(kernel, {})
        if key not in made:
            with _deep(), no_collection():
                made[key] = _differentiate(kernel, footprint(kernel, arg_types, dense), arg_types, demand)
        found: Gradient = made[key]
        return found


def _differentiate(kernel: Any, prints: Footprint, arg_types: tuple[types.Type, ...], demand: Demand) -> Gradient:
    flow, count = prints.flow, len(arg_types)
    if prints.together is not None:
        raise error_at(flow.fn, prints.together.loc, f"{asks_for_block(prints.together)}() is not differentiated")
    reverse = Reverse(flow, demand, count, config.fma)
    backward = simplify(reverse.run(), fma=False)
    names = [name for name, _ in kernel.params]
    plain = list(zip(names, arg_types, strict=True))
    shadows = [(f"{name}.grad", t) for name, t in plain]
    extra = [("arena", types.Array(types.uint8)), ("offsets", types.Array(types.int64))]
    frames = {b: f for b, f in reverse.frames.items() if f.saved}
    forward = counter = None
    pure, counts = True, reverse.frames.counts
    if frames:
        frames.setdefault(flow.root, reverse.frames[flow.root])
        stride = None if counts else reverse.frames.stride.attrs["value"]
        made = simplify(augmented(flow, frames, count, stride), fma=False)
        forward = DerivedKernel(made, [*plain, *extra])
        if counts:
            mir, pure = counting(flow, frames, count, prints.writes)
            counter = DerivedKernel(mir, [*plain, ("counts", types.Array(types.int64))])
    reads = {
        array_key(p) for op in backward.body.walk() if op.kind == "load"
        for p in roots(op.operands[0]) if p.attrs["index"] < count
    }  # fmt: skip
    return Gradient(DerivedKernel(backward, [*plain, *shadows, *extra]), forward, counter, pure,
                    reverse.frames.stride.attrs["value"], frozenset(reads), _saving_loop(frames))  # fmt: skip


def _saving_loop(frames: dict[Block, Any]) -> int:
    """Line of the first loop that saves, 0 where none does."""
    lines = [b.owner.loc.line for b in frames if b.owner is not None and b.owner.loc]
    return min(lines, default=0)


@contextmanager
def _deep() -> Iterator[None]:
    """Room for recursion along the longest chain of values."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
