"""Chooses between the two shapes of CPU code for a kernel, from its MIR, and says why (`engine.debug.explain`).

Both are given a price for one vector of threads, in about the time of one simple operation. The thread shape pays every
operation once for each thread; the lanes shape pays vector operations, plus what lanes cost that go apart: accesses
lane by lane, branches that some lanes only need, loops that last as long as their longest lane. The weights were fitted
to measured kernels; they err on the side of the thread shape, which is never bad.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.compiler import emit_lanes_memory as memory
from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import needs_block
from engine.compiler.types import LocalArray, Pointer, Scalar
from engine.compiler.uniform import MAX_STRIDE, VARYING, Uniformity

SHAPES = ("auto", "lanes", "thread", "timed")
GAIN = 1.25  # how much faster the lanes shape must look to be chosen
TRIPS = 6.0  # guessed iterations of a loop
TAKEN = 0.75  # guessed share of threads that want a branch which varies
LONGEST = {"for": 1.15, "while": 1.7}  # iterations of the longest lane to those of the mean, where they vary
FAR = 2.0  # price of memory that lanes walk in blocks of their own: they evict each other's cache lines
STREAM_OPS = 64  # larger kernels are not looked at for being streams
LOOPS_OPS = 400  # LLVM looks for loops of a thread to make vectors of in kernels up to this size
MAX_OPS = 2000  # larger kernels would take more than a second to compile as lanes

STREAM = ("it is one loop over contiguous memory, which LLVM makes vectors of",)

# what only the thread shape has code for, with the reason
_THREAD_ONLY = {
    "print": "it prints", "prefetch": "it asks for memory ahead",
    **dict.fromkeys(("local_pointer", "pointer_to_int", "int_to_pointer"), "it takes addresses"),
    "block_value": "it asks where a thread stands in its block",
}  # fmt: skip

# faults do not happen
_FREE = frozenset({"const", "slot", "get", "index", "condition", "tid", "address", "fault", "prefetch"})
_SLOW = {"div": 5.0, "sqrt": 6.0, "floordiv": 12.0, "mod": 12.0}


@dataclass(frozen=True)
class Decision:
    """The shape, threads per vector (1 for the thread shape), and the reasons as short sentences."""

    shape: str
    width: int
    reasons: tuple[str, ...]
    vectors: str = "none"  # what LLVM shall make vectors of, see `HostTarget.optimized`


def choose(fn: Function, wanted: str, width: int) -> Decision:
    """The shape of a MIR kernel; `wanted` is "auto" or what the user asks for."""
    packs = any(op.kind == "bits" for op in fn.body.walk())
    if packs and wanted == "auto":
        return Decision("thread", 1, ("each thread works on several things at once",), "all")
    decision = _choose(fn, wanted, width)
    if decision.shape == "lanes":
        return decision
    if packs:
        return replace(decision, vectors="all")
    kinds = [op.kind for op in fn.body.walk()]
    stream = decision.reasons == STREAM or wanted == "thread" and len(kinds) <= STREAM_OPS
    if stream or "for" in kinds and len(kinds) <= LOOPS_OPS:
        return replace(decision, vectors="loops")
    return replace(decision, vectors="none" if "for" in kinds or "while" in kinds else "straight")


def _choose(fn: Function, wanted: str, width: int) -> Decision:
    indices = {op.attrs["ndim"] for op in fn.body.walk() if op.kind == "tid"}
    if len(indices) != 1:
        reason = "it does not ask for its index" if not indices else "it asks for indices of several grids"
        return Decision("thread", 1, (reason,))
    for op in fn.body.walk():
        if needs_block(op):
            return Decision("thread", 1, ("threads of its blocks run together",))
        if op.kind in _THREAD_ONLY:
            return Decision("thread", 1, (_THREAD_ONLY[op.kind],))
        if isinstance(op.type, Pointer) and op.kind in ("load", "local_load"):
            return Decision("thread", 1, ("it takes arrays out of memory",))
        if isinstance(op.type, Scalar) and op.type.name == "bfloat16":
            return Decision("thread", 1, ("it computes in bfloat16",))
        if op.attrs.get("tile"):
            return Decision("thread", 1, ("the loops over its tiles become vector code",))
    if wanted != "auto":
        return Decision(wanted, width if wanted == "lanes" else 1, ("asked for",))
    size = sum(1 for _ in fn.body.walk())
    if size > MAX_OPS:
        return Decision("thread", 1, (f"its {size} operations would take long to compile as lanes",))
    analysis = Uniformity(fn)
    if size <= STREAM_OPS and is_stream(fn, analysis):
        return Decision("thread", 1, STREAM)
    prices = Prices(analysis, width)
    prices.region(fn.body, 1.0, 1.0)
    return prices.decision()


def is_stream(fn: Function, analysis: Uniformity) -> bool:
    """Whether the kernel is straight-line code over contiguous memory of one grid dimension that writes one array.

    LLVM's own vectors are as fast there, and it has half the code to compile: lanes have the threads left over apart.
    """
    written = set()
    for op in fn.body.ops:
        kind, t = op.kind, op.type
        if op.regions or kind in _NOT_IN_STREAMS or kind == "tid" and op.attrs["ndim"] > 1:
            return False
        if kind in ("div", "floordiv", "mod") and isinstance(t, Scalar) and t.is_int:
            return False
        if kind in ("load", "store"):
            t = op.operands[-1].type if kind == "store" else t
            if not isinstance(t, Scalar) or t.bits < 32 or analysis.lane_bytes(op) not in (0, t.size):
                return False
            if kind == "store":
                written.add(op.operands[0])
    return len(written) == 1


_NOT_IN_STREAMS = frozenset({"atomic", "local", "local_load", "local_store", "slot", "get", "set", "custom"})


@dataclass
class Prices:
    """What one vector of threads costs in each shape, added up over the MIR."""

    analysis: Uniformity
    width: int
    thread: float = 0.0
    lanes: float = 0.0
    groups: dict[Op, list[Op]] = field(default_factory=dict)
    grouped: set[Op] = field(default_factory=set)
    apart: float = 0.0  # part of `lanes` that is accesses lane by lane
    wasted: float = 0.0  # part of `lanes` that is work for lanes that do not want it
    distance: float = 1.0  # factor on accesses lane by lane, where lanes are far from each other
    times: float = 1.0  # how often the vector runs the op that is being priced

    def region(self, region: Region, threads: float, vectors: float, masked: bool = False) -> None:
        """Adds a region that a thread runs `threads` times and a vector `vectors` times."""
        memory.group(self, region)
        for op in region.ops:
            if op.regions:
                self.structured(op, threads, vectors, masked)
            elif op.kind not in _FREE:
                self.thread += threads * self.width * self.of_thread(op)
                self.times = vectors
                price = self.of_lanes(op, masked)
                self.lanes += vectors * price
                self.wasted += max(0.0, vectors - threads) * price

    def structured(self, op: Op, threads: float, vectors: float, masked: bool) -> None:
        diverges = op in self.analysis.divergent
        self.thread += threads * self.width
        self.lanes += vectors * (3.0 if diverges else 1.0)
        if op.kind == "if":
            share = 0.5 if op.regions[1].ops else TAKEN
            for region in op.regions:
                self.region(region, threads * share, vectors * (0.9 if diverges else share), masked or diverges)
            return
        known = known_trips(op)
        trips = TRIPS if known is None else min(known, TRIPS)  # or a long constant loop would outweigh all others
        outer = self.distance
        if op.kind == "for" and diverges and walks_a_block(op.operands[0]):
            self.distance = FAR
        rounds = vectors * trips * (LONGEST[op.kind] if diverges else 1.0)
        for region in op.regions:
            self.region(region, threads * trips, rounds, masked or diverges)
        self.distance = outer

    def of_thread(self, op: Op) -> float:
        if op.kind == "set":
            return 0.3
        if op.kind == "atomic":
            return 5.0
        if op.kind in ("floordiv", "mod") and op.operands[1].kind == "const":
            return 3.0
        return _SLOW.get(op.kind, 1.0)

    def of_lanes(self, op: Op, masked: bool) -> float:
        kind, w = op.kind, self.width
        if kind in ("load", "store"):
            return self.access(op, masked)
        if kind == "atomic":
            once = op not in self.analysis.used and self.analysis.lane_bytes(op) == 0
            return 12.0 if once else self.lane_by_lane(12.0 * w)
        if kind in ("local_load", "local_store"):
            if self.analysis.strides[op.operands[1]] is VARYING:
                return self.lane_by_lane(3.0 * w)
            return 2.0 if masked else 1.0
        if kind == "local":
            return 0.25 * op.type.size if isinstance(op.type, LocalArray) else 1.0
        if kind == "set":
            return 1.0 if masked and self.analysis.misses(op) else 0.3
        t = op.operands[0].type
        if self.analysis.strides[op] is not VARYING or not isinstance(t, Scalar):
            return 1.0
        wide = max(t.bits, op.type.bits if isinstance(op.type, Scalar) else 0) / 32.0 * w / 8.0
        if t.is_int and kind in ("div", "floordiv", "mod"):
            if t.bits == 64:
                return self.lane_by_lane(14.0 * w)
            return 14.0 if op.operands[1].kind != "const" else 5.0
        if t.is_int and t.bits == 64 and kind == "mul":
            return 4.0 * wide
        return _SLOW.get(kind, 1.0) * max(wide, 0.5)

    def lane_by_lane(self, price: float) -> float:
        self.apart += self.times * price * self.distance
        return price * self.distance

    def access(self, op: Op, masked: bool) -> float:
        """A group of accesses that are emitted together, priced at its leader."""
        if op in self.grouped:
            return 0.0
        ops = self.groups.get(op, [op])
        by, w = self.analysis.lane_bytes(op), self.width
        t = op.type if op.kind == "load" else op.operands[-1].type
        assert isinstance(t, Scalar)
        if by == 0:
            return float(len(ops))
        if by == t.size:
            return (3.0 if masked and op.kind == "store" else 1.2) * len(ops)
        if by is not None and not masked and by in (2 * t.size, 3 * t.size) and self.analysis.is_whole(op):
            return 3.0 * len(ops)
        address = 0.0 if by is not None and not masked else 1.5 * w
        pieces = memory.pieces(ops, True) if op.kind == "load" else [(0, len(run), run) for run in memory.runs(ops)]
        each = sum(2.0 * w if len(leaves) == 1 else 1.2 * w + 8.0 for _, _, leaves in pieces)
        return self.lane_by_lane(address + each)

    def decision(self) -> Decision:
        ratio = self.thread / max(self.lanes, 1e-9)
        reasons = [f"lanes look {ratio:.1f} times as fast"]
        if self.apart > 0.2 * self.lanes:
            reasons.append(f"{self.apart / self.lanes:.0%} of their work is memory accessed lane by lane")
        if self.wasted > 0.2 * self.lanes:
            reasons.append(f"{self.wasted / self.lanes:.0%} is for lanes that do not want it")
        if ratio < GAIN:
            return Decision("thread", 1, tuple(reasons))
        return Decision("lanes", self.width, tuple(reasons))


def walks_a_block(start: Op) -> bool:
    """Whether a loop starts at a multiple of the thread's index that is too large for neighbours to share memory."""
    return start.kind == "mul" and any(
        v.kind == "const" and abs(v.attrs["value"]) >= MAX_STRIDE for v in start.operands
    )


def known_trips(op: Op) -> float | None:
    """Iterations of a loop over constants."""
    if op.kind != "for" or any(v.kind != "const" for v in op.operands):
        return None
    start, stop, step = (v.attrs["value"] for v in op.operands)
    return float(len(range(start, stop, step))) if step else 0.0
