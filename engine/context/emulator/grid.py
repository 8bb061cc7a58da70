"""One launch on the emulated GPU: checks of its sizes, the context that the code reads, the run, what stopped it."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np

from engine.compiler.warp_layout import (
    CONTEXT,
    CONTEXT_BYTES,
    ENDLESS,
    ILLEGAL_ADDRESS,
    LANES,
    LEFT,
    MISALIGNED,
    NO_FAULT,
    TRAP,
    WARP,
)
from engine.config import config
from engine.context.emulator import trace
from engine.context.emulator.loading import LoadedFunction
from engine.context.emulator.memory import POISON, Memory
from engine.context.emulator.status import DriverFailure

QUANTUM = 200_000  # warp instructions until it is the next warp's turn
PRINT_BYTES = 1 << 20
_WORD = (1 << 64) - 1
MAX_THREADS, MAX_BLOCK, MAX_GRID = 1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535)

_run_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_STATUS = {
    ILLEGAL_ADDRESS: "CUDA_ERROR_ILLEGAL_ADDRESS",
    MISALIGNED: "CUDA_ERROR_MISALIGNED_ADDRESS",
    ENDLESS: "CUDA_ERROR_LAUNCH_TIMEOUT",
    TRAP: "CUDA_ERROR_LAUNCH_FAILED",
}


@dataclass
class Counters:
    """What launches have done so far."""

    launches: int = 0
    warp_instructions: int = 0
    thread_instructions: int = 0
    zero_divisions: int = 0

    @property
    def efficiency(self) -> float:
        """Share of the lanes that took part in an instruction, on average."""
        return self.thread_instructions / (LANES * self.warp_instructions) if self.warp_instructions else 1.0


def aligned(size: int, fill: int = 0) -> tuple[np.ndarray, int]:
    """Bytes on a border of 64: what holds them, and their address."""
    holder = np.full(size + 64, fill, np.uint8)
    return holder, -(-holder.ctypes.data // 64) * 64


@dataclass(eq=False)
class BlockShape:
    """What launches with the same block share: the warps' states and the threads' local memory."""

    warps: int
    area: int
    local_stride: int
    shared_size: int
    shared: int
    sites: int
    site_bytes: int
    context: int
    printed: int
    holders: list[np.ndarray] = field(default_factory=list)


def _shape(function: LoadedFunction, block: tuple[int, int, int], dynamic: int) -> BlockShape:
    """Memory for one block of threads, made once for each size of it."""
    code = function.code
    key = (*block, dynamic)
    found: BlockShape | None = function.blocks.get(key)
    if found is not None:
        return found
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // LANES)
    local_stride = -(-code.local_size // 16) * 16 + 16
    holders, places = [], []
    shared_size = code.shared_size + dynamic
    site_bytes = 16 * max(len(code.sites), 1)
    for size in (
        warps * code.warp_size,
        warps * LANES * local_stride,
        shared_size + 64,
        site_bytes,
        CONTEXT_BYTES,
        PRINT_BYTES,
    ):
        holder, place = aligned(size)
        holders.append(holder)
        places.append(place)
    area, local, shared, sites, context, printed = places
    lanes = np.arange(warps * LANES)
    exists = lanes < threads
    tid = (lanes % block[0], lanes // block[0] % block[1], lanes // (block[0] * block[1]))
    for warp in range(warps):
        state = area + warp * code.warp_size
        own = slice(warp * LANES, (warp + 1) * LANES)
        _write(state + WARP["start"], np.where(exists[own], code.start, LEFT).astype(np.uint16))
        for axis, name in enumerate(("tid_x", "tid_y", "tid_z")):
            _write(state + WARP[name], tid[axis][own].astype(np.uint32))
        ctypes.c_uint32.from_address(state + WARP["index"]).value = warp
        ctypes.c_uint64.from_address(state + WARP["local"]).value = local + warp * LANES * local_stride
    made = BlockShape(warps, area, local_stride, shared_size, shared, sites, site_bytes, context, printed, holders)
    function.blocks[key] = made
    return made


def _write(address: int, values: np.ndarray) -> None:
    ctypes.memmove(address, values.tobytes(), values.nbytes)


def check_sizes(
    function: LoadedFunction, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic: int
) -> None:
    """Raises the driver's failure for a launch that no GPU of this kind takes."""
    threads = block[0] * block[1] * block[2]
    limits = function.code.limits
    most = limits.get("maxntid", limits.get("reqntid", (MAX_THREADS,)))
    allowed = 1
    for extent in most:
        allowed *= extent
    reason = ""
    if min(*grid, *block) < 1:
        reason = "a grid and a block have at least one of each axis"
    elif any(extent > limit for extent, limit in zip(grid, MAX_GRID)):
        reason = f"the grid {grid} is larger than {MAX_GRID}"
    elif threads > MAX_THREADS or any(extent > limit for extent, limit in zip(block, MAX_BLOCK)):
        reason = f"a block {block} has {threads} threads; the limits are {MAX_THREADS} and {MAX_BLOCK}"
    elif threads > allowed:
        reason = f"the kernel was compiled for at most {allowed} threads in a block, not {threads}"
    elif function.code.shared_size + dynamic > max(function.dynamic_shared, function.code.shared_size):
        reason = (f"{function.code.shared_size} + {dynamic} bytes of shared memory; "
                  f"a launch of this kernel may have {function.dynamic_shared}")  # fmt: skip
    if reason:
        raise DriverFailure("CUDA_ERROR_INVALID_VALUE", f"launch of {function.name}: {reason}")


class Run:
    """One launch: what its code reads, and how far it is."""

    def __init__(self, memory: Memory, function: LoadedFunction, grid: tuple[int, int, int],
                 block: tuple[int, int, int], dynamic: int, params: bytes):  # fmt: skip
        """Checks the launch. Raises DriverFailure for one that no GPU takes."""
        from engine.compiler.target_warp32 import link_warp

        if function.module.unloaded:
            raise DriverFailure("CUDA_ERROR_INVALID_HANDLE", f"the module of {function.name} was unloaded")
        check_sizes(function, grid, block, dynamic)
        if function.linked is None:
            function.linked = link_warp(function.code)
        self.linked = function.linked
        self.memory, self.function, self.grid, self.block = memory, function, grid, block
        self.threads = block[0] * block[1] * block[2]
        self.blocks = grid[0] * grid[1] * grid[2]
        self.shape = _shape(function, block, dynamic)
        self.dynamic, self.params = dynamic, params
        self._holders: list[Any] = []

    def begin(self, seed: int = 0, **fields: int) -> None:
        """Puts everything to the start; `seed` ≠ 0 begins the random schedule, `fields` are more of the context."""
        shape, function, (grid, block) = self.shape, self.function, (self.grid, self.block)
        table = self.memory.table()
        ctypes.memset(shape.sites, 0, shape.site_bytes)
        ctypes.memset(shape.shared, POISON, shape.shared_size)
        params = ctypes.create_string_buffer(self.params, len(self.params) + 1)
        meeting = np.array([*function.code.meeting, 0], np.uint8)
        tree = np.array(function.code.tree, np.int16)
        self._holders = [table, params, meeting, tree]
        values = {
            "params": ctypes.addressof(params), "params_size": len(self.params), "globals": function.module.base,
            "grid_x": grid[0], "grid_y": grid[1], "grid_z": grid[2], "block_x": block[0], "block_y": block[1],
            "block_z": block[2], "warps": shape.warps,
            "shared": shape.shared, "shared_size": shape.shared_size, "warp_area": shape.area,
            "warp_stride": function.code.warp_size, "local_size": function.code.local_size,
            "local_stride": shape.local_stride, "table": table.ctypes.data,
            "table_count": len(table), "sites": shape.sites, "quantum": QUANTUM,
            "limit": config.emu_budget, "blocks": self.linked.table, "pick": self.linked.pick,
            "static_size": function.code.shared_size, "printed": shape.printed,
            "printed_size": PRINT_BYTES, "order_step": 1, "meeting": meeting.ctypes.data,
            "tree": tree.ctypes.data, "tree_size": len(tree) // 2 - 1,
        }  # fmt: skip
        if seed:
            values |= {"random": seed, "order_step": _coprime(seed % self.blocks, self.blocks),
                       "order_first": seed // self.blocks % self.blocks}  # fmt: skip
        values |= fields
        packed = struct.pack(f"<{len(CONTEXT)}Q", *[values.get(name, 0) for name in CONTEXT])
        ctypes.memmove(shape.context, packed, CONTEXT_BYTES)

    def go(self) -> dict[str, int]:
        """Runs to the end, or to what stops it, from where it is: the context afterwards."""
        from engine.compiler.target_host import host_target
        from engine.compiler.target_warp32 import runtime_addresses

        _run_type(host_target().call_address)(runtime_addresses()["emu_grid"], self.shape.context, 0, self.blocks)
        return self.context()

    def context(self) -> dict[str, int]:
        """The fields of the context."""
        held = ctypes.string_at(self.shape.context, CONTEXT_BYTES)
        return dict(zip(CONTEXT, struct.unpack(f"<{len(CONTEXT)}Q", held), strict=True))

    def set(self, **fields: int) -> None:
        """Changes fields of the context."""
        for name, value in fields.items():
            ctypes.c_uint64.from_address(self.shape.context + CONTEXT[name]).value = value

    def place_of(self, number: int) -> tuple[int, int, int]:
        """Index of a block in the grid."""
        return number % self.grid[0], number // self.grid[0] % self.grid[1], number // (self.grid[0] * self.grid[1])


def _coprime(wanted: int, count: int) -> int:
    """A number from `wanted` on that has no divisor in common with `count`."""
    found = max(wanted, 1)
    while gcd(found, count) != 1:
        found += 1
    return found


def random_state(seed: int, launch: int) -> int:
    """Where the random numbers of a launch begin: never 0. (The finaliser of Steele et al., SplitMix, 2014.)"""
    mixed = (seed + 1) * 0x9E3779B97F4A7C15 + launch * 0xD1B54A32D192ED03 & _WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _WORD
    return (mixed ^ mixed >> 31) >> 1 | 1


def run(launch: Run, counters: Counters, seed: int = 0, report: trace.Trace | None = None) -> None:
    """Run a launch to its end, recorded where there is a report.

    Raises DriverFailure with the place in the source for what stopped it.
    """
    memory, function, shape = launch.memory, launch.function, launch.shape
    recorder = None
    if report is not None:
        recorder = report.recorder(memory, function, launch.params, launch.threads, shape.shared, shape.shared_size)
        recorder.watch(shape.context + CONTEXT["log_used"])
    launch.begin(seed, **({} if recorder is None else recorder.fields()))
    after = launch.go()
    counters.launches += 1
    for name in ("warp_instructions", "thread_instructions", "zero_divisions"):
        setattr(counters, name, getattr(counters, name) + after[name])
    if recorder is not None and report is not None:
        report.examine(memory, function, recorder, launch.threads, shape.shared, after)
    show_printed(launch, after)
    if after["fault"] != NO_FAULT:
        raise failure(launch, after)


def show_printed(launch: Run, after: dict[str, int]) -> None:
    """What the kernel printed, to stdout."""
    if after["printed_used"]:
        from engine.context.emulator.printing import show

        held = ctypes.string_at(launch.shape.printed, min(after["printed_used"], PRINT_BYTES))
        show(held, after["printed_used"], launch.memory)


def _where_it_was(launch: Run, after: dict[str, int]) -> str:
    """The line that the warp that was stopped would have run next."""
    code = launch.function.code
    state = launch.shape.area + after["fault_warp"] * code.warp_size
    places = np.frombuffer(ctypes.string_at(state, 2 * LANES), np.uint16)
    file, line = launch.function.module.source_of(code.lines[places.min()])
    return f", {file}:{line}," if line else ""


def failure(launch: Run, after: dict[str, int]) -> DriverFailure:
    """What stopped a launch, with the place in the source and the thread."""
    kind, function, block, memory = after["fault"], launch.function, launch.block, launch.memory
    index = launch.place_of(after["fault_block"])
    if kind == ENDLESS:
        spent = after["warp_instructions"]
        text = f"kernel {function.name}{_where_it_was(launch, after)} ran {spent} instructions of warps without an end"
        text += f" (block {index})"
        return DriverFailure(_STATUS[kind], f"{text}; ENGINE_EMU_BUDGET sets the limit")
    thread = after["fault_warp"] * LANES + after["fault_lane"]
    lane = (thread % block[0], thread // block[0] % block[1], thread // (block[0] * block[1]))
    site = function.code.sites[after["fault_site"]]
    file, line = function.module.source_of(site.loc)
    where = f"{file}:{line}" if line else f"PTX line {site.line}"
    if kind == TRAP:
        what = "a trap"
    else:
        size, address = after["fault_size"], after["fault_address"]
        what = f"a {site.what} of {size} bytes in {site.space} memory"
        if kind == MISALIGNED:
            what += f" at {address:#x}, which is not a multiple of {site.size}"
        elif site.space in ("global", "generic", "const"):
            what += f": {memory.describe(address, size)}"
        else:
            offset = address if address < 1 << 63 else address - (1 << 64)
            available = after["shared_size"] if site.space == "shared" else after["local_size"]
            what += f" at offset {offset} of {available} bytes"
    return DriverFailure(_STATUS[kind], f"kernel {function.name}, {where}, thread {lane} of block {index}: {what}")


def parameter_bytes(function: LoadedFunction, pointers: list[int]) -> bytes:
    """The kernel's parameters, read from the addresses that a launch gives, as they lie in its parameter memory."""
    packed = bytearray(function.code.params_size)
    for (variable, offset), pointer in zip(function.code.params, pointers, strict=True):
        packed[offset : offset + variable.size] = ctypes.string_at(pointer, variable.size)
    return bytes(packed)


def describe(function: LoadedFunction) -> dict[str, Any]:
    """What `cuFuncGetAttribute` reports."""
    code = function.code
    most = code.limits.get("maxntid", (MAX_THREADS,))
    threads = int(np.prod(most))
    return {"max_threads": min(threads, MAX_THREADS), "shared": code.shared_size, "local": code.local_size}
