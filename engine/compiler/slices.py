"""The part of a region that some of its ops need: values, what is written to variables and local arrays, conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from engine.compiler.ir import Op, Region

# what a kernel is run for, or what others wait for; a while may never end
ROOTS = frozenset({"store", "atomic", "print", "fault", "barrier", "shuffle", "vote", "while", "condition", "custom"})


class Slices:
    """Where the ops of a region stand, and what they need."""

    def __init__(self, ops: Sequence[Op]):
        self.parents: dict[Op, Op | None] = {}
        self.place: dict[Op, int] = {}  # in the order of the program
        self.writers: dict[Op, list[Op]] = {}  # slot or local array → what writes to it
        self.explore(ops, None)

    def explore(self, ops: Sequence[Op], parent: Op | None) -> None:
        for op in ops:
            self.parents[op] = parent
            self.place[op] = len(self.place)
            if op.kind in ("set", "local_store"):
                self.writers.setdefault(op.operands[0], []).append(op)
            for region in op.regions:
                self.explore(region.ops, op)

    def needed(self, wanted: Iterable[Op], is_apart: Callable[[Op], bool] = lambda op: False) -> set[Op]:
        """What these ops need; of what is written those that are not `is_apart`."""
        found: set[Op] = set()
        todo: list[Op | None] = list(wanted)
        while todo:
            op = todo.pop()
            if op is None or op in found or op not in self.place:
                continue
            found.add(op)
            todo += op.operands
            todo += [op.attrs.get("exit"), self.parents[op]]
            if op.kind in ("get", "local_load", "slot"):
                place = op if op.kind == "slot" else op.operands[0]
                todo += [w for w in self.writers.get(place, ()) if not is_apart(w)]
        return found


def without_idle(body: Region) -> Region:
    """A region without what has no effect, as far as that can be seen; its ops are used again."""
    found = Slices(body.ops)
    exposed = {op.operands[0] for op in found.place if op.kind == "local_pointer"}
    wanted = [op for op in found.place
              if op.kind in ROOTS or op.kind == "local_store" and op.operands[0] in exposed]  # fmt: skip
    return _kept(body, found.needed(wanted))


def _kept(region: Region, needed: set[Op]) -> Region:
    ops = [op for op in region.ops if op in needed or op.kind == "index"]
    for op in ops:
        op.regions = tuple([_kept(inner, needed) for inner in op.regions])
    return Region(ops)
