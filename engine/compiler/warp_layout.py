"""Memory that a warp's machine code and the emulator share: a launch's context and each warp's state, by byte offsets.

All fields of the context are 8 bytes. A warp's state holds, for each of its 32 lanes, the block that the lane waits
for, its thread index, and the registers that live from block to block.
"""

from __future__ import annotations

LANES = 32

CONTEXT = {
    name: 8 * place
    for place, name in enumerate(
        (
            "params", "params_size", "globals", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
            "warps", "shared", "shared_size", "warp_area", "warp_stride", "local_size", "local_stride",
            "table", "table_count",  # allocations: pairs (first byte, end), ascending
            "sites",  # for each memory access in the text: the allocation that it hit last (first byte, room)
            "warp_instructions", "thread_instructions", "zero_divisions",
            "stop", "quantum", "limit",  # a loop looks whether warp_instructions has reached `stop`
            "fault", "fault_address", "fault_lane", "fault_warp", "fault_block", "fault_site", "fault_size",
            "block", "ctaid_x", "ctaid_y", "ctaid_z",
            "blocks",  # the address of the code of each place
            "pick",  # address of the function that chooses the block to run next
            "static_size",  # bytes of shared memory that the code names
            "printed", "printed_used", "printed_size",
            "epoch",  # barriers that the block has passed
            "log", "log_used", "log_size", "hook",  # a record of every access, where somebody wants them
            "collect",  # go on after a bad access: the records tell of it
            "order_step", "order_first",  # the n-th block to run is (n · step + first) mod their count
            "random",  # state of the random numbers; 0: everything has its fixed order
            "rotation",  # of the warps in this round
            "meeting",  # a byte for each place in the code: lanes wait there for the others (schedule "random")
            "tree", "tree_size",  # 2 × (size + 1) × i16: parent and rank of each place among the post-dominators
            "number", "turn", "running", "waiting",  # where a launch that was stopped goes on; turn: warp + 1
            "steps", "step_goal", "step_flags", "step_hook", "step_again",  # see `emu_step`
        )
    )
}  # fmt: skip
CONTEXT_BYTES = 8 * len(CONTEXT)

WARP = {
    "next": 0,  # 32 x i16: the place of the block that each lane waits for, or one of the two below
    "resume": 64,  # 32 x i16: where a lane goes on behind the barrier that it waits at
    "start": 128,  # 32 x i16: what `next` is when a block of threads starts
    "status": 192,  # i32: how the code returned last
    "index": 196,  # i32: number of the warp in its block
    "high": 200,  # i32: run the block that is last instead of first once, so that no lane starves
    "local": 208,  # i64: address of the local memory of lane 0
    "depth": 204,  # i32: entries on the stack below that stand under the top one (schedule "ipdom")
    "alive": 224,  # i32: the lanes that can run
    "carry": 228,  # i32: the lanes whose carry flag is set
    "last_stop": 216,  # i64: where a debugger's step was last: line and file in the bits from 16 on, place + 1 below
    "tid_x": 256, "tid_y": 384, "tid_z": 512,  # 32 x i32
    "stack": 640,  # 64 x (i32 lanes, i16 place where they meet, unused)
    "registers": 1152,
}  # fmt: skip

LOG_RECORD = 32 + 8 * LANES  # bytes: site, lanes that wanted, lanes that did, block, warp, epoch; addresses

LEFT, WAITING = 0xFFFF, 0xFFFE  # in `next`: the lane has ended; it waits at a barrier

# how a warp's code returns
ENDED, AT_BARRIER, PAUSED = 0, 1, 2

# what stopped a launch
NO_FAULT, ILLEGAL_ADDRESS, MISALIGNED, ENDLESS, TRAP, BAD_LANE, STOPPED = 0, 1, 2, 3, 4, 5, 6

# which of the blocks that lanes wait for runs next
SCHEDULES = ("loop-aware", "ipdom", "random")

# where an address points to
GENERIC, GLOBAL, SHARED, LOCAL = 0, 1, 2, 3
