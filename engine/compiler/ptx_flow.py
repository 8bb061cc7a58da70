"""The control flow of a PTX function: basic blocks, the order in which a warp should run them, and live registers.

Lanes of a warp that went different ways wait at different blocks. The block that runs next is the one of these that
comes first in `order`; so `order` decides where lanes come together again. Loops are kept in one piece, and a loop's
header stands behind its body: lanes that finish an iteration early wait there for the others, and lanes that left the
loop wait behind it until all have left. Within that, blocks stand in topological order, which joins the ways of an
`if`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.compiler.ptx_parser import Entry, Instruction, PtxError, Symbol

EXIT = -1  # instead of a block: the thread is done
BARRIERS = ("bar", "barrier")
_ENDINGS = ("bra", "brx", "ret", "exit", "trap")


@dataclass
class Block:
    """Instructions that run one after the other, and how they end.

    `ending` is the branch, return, trap or barrier, or None where the next block simply follows. `follow` is the next
    block in the text (EXIT behind the last one), `targets` where a branch may go.
    """

    body: list[Instruction] = field(default_factory=list)
    ending: Instruction | None = None
    follow: int = EXIT
    targets: tuple[int, ...] = ()

    @property
    def successors(self) -> tuple[int, ...]:
        """The blocks that may be next."""
        name = self.ending.parts[0] if self.ending else ""
        if self.ending and not self.ending.guard:
            if name in ("bra", "brx"):
                return self.targets
            if name not in BARRIERS:
                return ()
        return tuple(dict.fromkeys((*self.targets, *((self.follow,) if self.follow != EXIT else ()))))


@dataclass
class Flow:
    """The blocks of a function in the order of the text, the order to run them in, and what is live between them."""

    blocks: list[Block]
    order: list[int]
    live_in: list[set[str]]
    live_out: list[set[str]]

    @property
    def position(self) -> list[int]:
        """Where each block stands in `order`."""
        places = [0] * len(self.order)
        for place, block in enumerate(self.order):
            places[block] = place
        return places


def flow(entry: Entry, begins: Callable[[Instruction, Instruction | None], bool] | None = None) -> Flow:
    """Blocks, order and live registers of a function. Raises `PtxError` for a branch to nowhere.

    `begins(instruction, before)` tells of an instruction behind another of its block that it begins a new one.
    """
    blocks = _split(entry, begins)
    edges = [block.successors for block in blocks]
    live_in, live_out = _liveness(entry, blocks, edges)
    return Flow(blocks, loop_order(edges), live_in, live_out)


def is_barrier(instruction: Instruction) -> bool:
    """Whether the threads of the block wait for each other here (`bar.warp.sync` is a matter of the warp)."""
    parts = instruction.parts
    return parts[0] in BARRIERS and "warp" not in parts and "arrive" not in parts


def needs_warp(instruction: Instruction) -> bool:
    """Whether lanes wait for each other here: barriers, shuffles, votes."""
    return "sync" in instruction.parts or is_barrier(instruction)


def _split(entry: Entry, begins: Callable[[Instruction, Instruction | None], bool] | None) -> list[Block]:
    blocks: list[Block] = [Block()]
    labels: dict[str, int] = {}
    ended = False
    for item in entry.body:
        if isinstance(item, str):
            if item in labels:
                raise PtxError(entry.line, f"label '{item}' is defined twice")
            if blocks[-1].body or ended:
                blocks.append(Block())
            labels[item] = len(blocks) - 1
            ended = False
            continue
        body = blocks[-1].body
        if ended or begins is not None and body and begins(item, body[-1]):
            blocks.append(Block())
        ended = item.parts[0] in _ENDINGS or is_barrier(item)
        if ended:
            blocks[-1].ending = item
        else:
            blocks[-1].body.append(item)
    for number, block in enumerate(blocks):
        block.follow = number + 1 if number + 1 < len(blocks) else EXIT
        if block.ending and block.ending.parts[0] in ("bra", "brx"):
            block.targets = _targets(entry, block.ending, labels)
    return blocks


def _targets(entry: Entry, branch: Instruction, labels: dict[str, int]) -> tuple[int, ...]:
    named = branch.operands[-1] if branch.operands else None
    if not isinstance(named, Symbol):
        raise PtxError(branch.line, f"{branch.opcode} needs a label")
    names = [named.name]
    if branch.parts[0] == "brx":
        if named.name not in entry.targets:
            raise PtxError(branch.line, f"there is no list of targets '{named.name}'")
        names = entry.targets[named.name]
    for name in names:
        if name not in labels:
            raise PtxError(branch.line, f"there is no label '{name}'")
    return tuple(labels[name] for name in names)


# order


def loop_order(edges: Sequence[Sequence[int]], start: int = 0) -> list[int]:
    """All nodes, loops in one piece with the header last, else in topological order."""
    return _ordered(set(range(len(edges))), [set(targets) for targets in edges], start)


def _ordered(nodes: set[int], edges: list[set[int]], start: int) -> list[int]:
    order: list[int] = []
    for component in reversed(_components(sorted(nodes, key=lambda n: (n != start, n)), nodes, edges)):
        if len(component) == 1:
            order += component
            continue
        inside = set(component)
        # the header is where the loop is entered; a loop that is entered in several places takes the first of them
        entered = [n for n in component if n == start or any(n in edges[m] for m in nodes - inside)]
        header = min(entered or component)
        inner = [edges[n] - {header} if n in inside else edges[n] for n in range(len(edges))]
        first = min((n for n in edges[header] if n in inside and n != header), default=header)
        order += _ordered(inside - {header}, inner, first) + [header]
    return order


def _components(roots: Sequence[int], nodes: set[int], edges: list[set[int]]) -> list[list[int]]:
    """Strongly connected components, each before those that reach it (Tarjan 1972, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in roots:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, _inside(edges[root], nodes))]
        while work:
            node, following = work[-1]
            for other in following:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, _inside(edges[other], nodes)))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[int] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    found.append(sorted(component))
    return found


def _inside(targets: set[int], nodes: set[int]) -> Iterator[int]:
    # later blocks of the text first: they then come later in the order, which is the reverse of finishing
    return iter(sorted((n for n in targets if n in nodes), reverse=True))


def postdominators(edges: Sequence[Sequence[int]], leaves: Sequence[bool]) -> tuple[list[int], list[int]]:
    """Parent and rank of each node in the tree of post-dominators; its root, one more node, is the end of the thread.

    leaves: the nodes that end threads. A parent has a higher rank. Nodes that never come to the end hang at the root.
    (Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm, 2001, on the reversed graph.)
    """
    root = len(edges)
    after = [[*targets, *([root] if ends else [])] for targets, ends in zip(edges, leaves, strict=True)]
    before: list[list[int]] = [[] for _ in range(root + 1)]
    for node, targets in enumerate(after):
        for target in targets:
            before[target].append(node)
    rank, count = [-1] * (root + 1), 0
    work: list[tuple[int, Iterator[int]]] = [(root, iter(before[root]))]
    seen = {root}
    order: list[int] = []  # each node behind those that it is reached from by the reversed edges
    while work:
        node, following = work[-1]
        new = next((other for other in following if other not in seen), None)
        if new is None:
            rank[node], count = count, count + 1
            order.append(node)
            work.pop()
        else:
            seen.add(new)
            work.append((new, iter(before[new])))
    parents = [-1] * (root + 1)
    parents[root] = root
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            found = -1
            for other in after[node]:
                if parents[other] < 0:
                    continue
                if found < 0:
                    found = other
                while found != other:
                    if rank[found] < rank[other]:
                        found = parents[found]
                    else:
                        other = parents[other]
            if found != parents[node]:
                parents[node], changed = found, True
    return [root if parent < 0 else parent for parent in parents], rank


# live registers


def _liveness(entry: Entry, blocks: list[Block], edges: list[tuple[int, ...]]) -> tuple[list[set[str]], list[set[str]]]:
    """What each block needs from those before it, and what those behind it need; special registers do not count."""
    uses: list[set[str]] = []
    kills: list[set[str]] = []
    for block in blocks:
        used: set[str] = set()
        killed: set[str] = set()
        for instruction in (*block.body, *((block.ending,) if block.ending else ())):
            for name in instruction.reads:
                if name not in killed:
                    used.add(name)
            if not instruction.guard:
                killed.update(instruction.writes)
        uses.append({name for name in used if entry.type_of(name) is not None})
        kills.append(killed)
    live_in = [set(used) for used in uses]
    live_out: list[set[str]] = [set() for _ in blocks]
    before: list[list[int]] = [[] for _ in blocks]
    for number, targets in enumerate(edges):
        for target in targets:
            before[target].append(number)
    pending = list(range(len(blocks)))
    while pending:
        number = pending.pop()
        live_out[number] = set().union(*(live_in[target] for target in edges[number])) if edges[number] else set()
        now = uses[number] | (live_out[number] - kills[number])
        if now != live_in[number]:
            live_in[number] = now
            pending += before[number]
    return live_in, live_out
