"""Names that only the compiler can give a meaning, beside those that the library computes."""

from __future__ import annotations

from typing import Any


class Intrinsic:
    """A name that only the compiler can give a meaning; calling it in Python scope is an error."""

    def __init__(self, intrinsic: str, doc: str):
        self.intrinsic = self.__name__ = intrinsic
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.intrinsic}() has a meaning in kernels only")

    def __repr__(self) -> str:
        return f"<intrinsic {self.intrinsic}>"


BLOCKS: dict[str, Intrinsic] = {
    row.intrinsic: row
    for row in (
        Intrinsic("thread_id", "Index of this thread in its block, int32."),
        Intrinsic("block_id", "Index of this thread's block, int32."),
        Intrinsic("block_dim", "Threads of a block, int32: what the launch says."),
        Intrinsic("lane_id", "Index of this thread in its warp, int32: 0 … 31."),
        Intrinsic("warp_id", "Index of this thread's warp in its block, int32."),
        Intrinsic("warp_lanes", "Threads of this warp, int32: 32, or what the launch has left for its last one."),
        Intrinsic("sync_threads", "Waits for all threads of the block; what they wrote before can be read after it."),
        Intrinsic("sync_warp", "sync_warp(mask): waits for the threads of the warp, or those with a bit in the mask."),
        Intrinsic(
            "warp_shuffle_down",
            "warp_shuffle_down(value, delta): the value of the thread so many lanes further on; the own where there is "
            "none.",
        ),
        Intrinsic("warp_shuffle_up", "warp_shuffle_up(value, delta): the value of the thread so many lanes before."),
        Intrinsic("warp_shuffle_xor", "warp_shuffle_xor(value, mask): the value of the thread at lane_id() ^ mask."),
        Intrinsic("warp_shuffle_idx", "warp_shuffle_idx(value, lane): the value of the thread at a lane."),
        Intrinsic("warp_ballot", "warp_ballot(predicate): a bit for each lane whose predicate holds, uint32."),
        Intrinsic("warp_any", "warp_any(predicate): whether it holds for some thread of the warp."),
        Intrinsic("warp_all", "warp_all(predicate): whether it holds for all threads of the warp."),
    )
}


class shared:
    """`shared.array(shape=256, dtype=float, layout="row_major")`: one array for all threads of a block.

    It holds anything until the threads have written it; `sync_threads()` makes what one wrote visible to the others.
    """

    array = Intrinsic("shared_array", __doc__)


# for the library itself
lane_id, warp_lanes = BLOCKS["lane_id"], BLOCKS["warp_lanes"]
warp_shuffle_down, warp_shuffle_idx = BLOCKS["warp_shuffle_down"], BLOCKS["warp_shuffle_idx"]
