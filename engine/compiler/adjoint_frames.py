"""Where a thread's saved values lie: frames on a stack of bytes, which the augmented forward kernel pushes.

An iteration's frame is pushed at its end and popped where its reversal begins. Rounds of independent loops push
nothing: what they save has room on the stack in front of the nest, at the number of the round.

    arena of one thread:   [inner frames of iteration 0][frame of iteration 0][inner frames of 1][frame of 1] … [thread]
    of a nest:             [frame of round (0, 0)][of (0, 1)] … [frame of round (0)][of (1)] …   one row for each loop
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.compiler.adjoint_flow import Block
from engine.compiler.ir import Op, scalar_type
from engine.compiler.types import LocalArray, bool_, int32, int64

Emit = Callable[..., Op]  # of kind, type, operands


@dataclass(eq=False)
class Frame:
    """What one iteration of a loop, or the thread, leaves for the way back: values and tiles at byte offsets."""

    block: Block
    base: Op  # byte in the arena
    size_op: Op  # constant, filled in when the frame is complete
    saved: dict[Op, int] = field(default_factory=dict)
    end: int = 0
    widest: int = 1
    size: int = 0  # `end` rounded up, so that all frames of the function stay aligned
    rounds: tuple[Op, ...] = ()  # independent loops from the nest's first on, whose rounds have places for this frame

    def place(self, op: Op) -> int:
        """Offset of a value or tile, which becomes part of the frame."""
        if op not in self.saved:
            count, width = op.type.size if isinstance(op.type, LocalArray) else 1, scalar_type(op).size
            self.saved[op] = -(-self.end // width) * width
            self.end, self.widest = self.saved[op] + count * width, max(self.widest, width)
        return self.saved[op]


class Frames(dict[Block, Frame]):
    """The frames of a function by their blocks."""

    def __init__(self, root: Block):
        super().__init__()
        self.root = root
        self.stride = Op("const", int64, (), {"value": 0})  # bytes of a thread, where all have the same

    def new(self, block: Block) -> Frame:
        size = Op("const", int64, (), {"value": 0})
        self[block] = Frame(block, Op("sub", int64, (size, size)), size)
        return self[block]

    def constants(self) -> list[Op]:
        return [self.stride, *(f.size_op for f in self.values())]

    def within(self, body: Block) -> list[Frame]:
        """Those that something is saved in, of a loop's body and the loops in it."""
        return [f for b, f in self.items() if f.saved and b.within(body)]

    @property
    def counts(self) -> bool:
        """Whether threads need stacks of different height: something is saved in a loop with frames on the stack, or
        in a nest whose rounds are not known."""
        return any(f.saved and b is not self.root and self.fixed(f) is None for b, f in self.items())

    def fixed(self, frame: Frame) -> int | None:
        """How many rounds each thread has for a frame, where that is a constant."""
        if not frame.rounds or frame.rounds[0] not in self.root.ops:
            return None
        total = 1
        for loop in frame.rounds:
            if any(v.kind != "const" for v in loop.operands):
                return None
            total *= len(range(*[v.attrs["value"] for v in loop.operands]))
        return total

    def close(self) -> None:
        """Fills in the sizes."""
        alignment = max(f.widest for f in self.values())
        for f in self.values():
            f.size = f.size_op.attrs["value"] = -(-f.end // alignment) * alignment
        fixed = [f.size * (self.fixed(f) or 0) for b, f in self.items() if b is not self.root and f.saved]
        self.stride.attrs["value"] = self[self.root].size + sum(fixed)


def rounds_of(bounds: Sequence[tuple[Op, Op]], emit: Emit) -> list[Op]:
    """How many rounds each of the loops has, int64, given start and stop."""
    counts = []
    for start, stop in bounds:
        n = emit("cast", int64, emit("sub", int32, stop, start))
        counts.append(emit("select", int64, emit("gt", bool_, stop, start), n, emit("sub", int64, n, n)))
    return counts


def number_of(indices: Sequence[Op], starts: Sequence[Op], counts: Sequence[Op], emit: Emit) -> Op:
    """The number of a round, int64."""
    number = None
    for index, start, n in zip(indices, starts, counts, strict=True):
        digit = emit("cast", int64, emit("sub", int32, index, start))
        number = digit if number is None else emit("add", int64, emit("mul", int64, number, n), digit)
    assert number is not None
    return number


def path_to(block: Block, body: Block) -> Iterator[Op]:
    """The loops around a block, from that of `body` on."""
    if block is not body:
        assert block.parent is not None
        yield from path_to(block.parent, body)
    if block.is_loop and block.owner is not None:
        yield block.owner

