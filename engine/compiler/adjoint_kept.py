"""Which tiles a gradient saves as a whole: those whose elements, once read, stay as they are until their block is over.

    t = tile_load(x)                                 frame:  all of t, when the block that t stands in ends
    for i each: for j each: y[i, j] = t[i] * u[j]            all of u

An element of a tile is read by many rounds of a loop (a product of n × n matrices reads each n times): one copy of
the tile replaces what all rounds would save, and rounds that save nothing of their own stay independent.
"""

from __future__ import annotations

from engine.compiler.adjoint_flow import Block, Flow
from engine.compiler.ir import Op


def find_kept(flow: Flow) -> set[Op]:
    """The loads of tiles, within independent loops, that give the same when the frame of the tile's block is saved."""
    places = {op: (k, block) for k, (block, op) in enumerate(flow.ops())}
    stores: dict[Op, list[Op]] = {}
    loads: list[Op] = []
    for op in places:
        if op.kind == "local_store":
            stores.setdefault(op.operands[0], []).append(op)
        elif op.kind == "local_load" and op.operands[0].attrs.get("tile"):
            loads.append(op)
    kept = set()
    for load in loads:
        tile = load.operands[0]
        at, block = places[load]
        home = flow.home[tile]
        if tile.attrs.get("exposed") or not _is_shared_out(block, home):
            continue
        before = [places[store] for store in stores.get(tile, ())]
        if all(k < at and not _repeats(block, inner, home) for k, inner in before):
            kept.add(load)
    return kept


def written_by_reader(flow: Flow, nest: Block) -> set[Op]:
    """The loads within an independent loop of elements that the same round writes: no other round reads those."""
    blocks = [block for block in flow.blocks() if block.within(nest)]
    stores = [(op.operands[:2], block) for block in blocks for op in block.ops if op.kind == "local_store"]
    return {
        op for block in blocks for op in block.ops
        if op.kind == "local_load" and any(place == op.operands and block.within(home) for place, home in stores)
    }  # fmt: skip


def is_independent(block: Block) -> bool:
    """Whether it is the body of a loop whose rounds do not depend on each other."""
    return block.is_loop and block.owner is not None and "each" in block.owner.attrs


def _is_shared_out(block: Block, home: Block) -> bool:
    """Whether an independent loop stands around `block`, within `home`."""
    return any(map(is_independent, around(block, home)))


def _repeats(load: Block, store: Block, home: Block) -> bool:
    """Whether a loop has both within it, so that a later round may write what an earlier one has read."""
    return any(b.is_loop and not is_independent(b) and store.within(b) for b in around(load, home))


def around(block: Block, home: Block) -> list[Block]:
    """The blocks from `block` outwards, to but without `home`."""
    found = []
    while block is not home:
        found.append(block)
        assert block.parent is not None
        block = block.parent
    return found
