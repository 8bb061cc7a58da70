"""Records kernels with their arguments and results on the CPU, and writes them as a pack for `device_runner.py`.

A pack has the PTX of each kernel, the launch blocks with the places of the addresses in them, the contents of the
buffers before, and hashes of them after the launches. Contents are stored once, by their hash.
"""

import base64
import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import device_runner
from benchmarks.device_runner import digest, words
from engine.compiler import types
from engine.compiler.emit_ptx import HEADER_BYTES, PARAMETER_BYTES
from engine.compiler.target_ptx import ptx_target
from engine.context import arguments, array, get_device, indexedarray, launch, recording
from engine.context.launch import checked_grid, is_dense
from engine.context.memory import Block, host_window
from engine.context.packer import make_packer
from engine.context.table import Table

COUNT_AT = 16  # in the launch block: the address of an indirect launch's count, or 0
PERIODS = [factor << 18 for factor in (1, 3, 9)]  # bytes after which large inputs may repeat


class Unpackable(Exception):
    """A launch that cannot be taken to another machine."""


@dataclass
class Built:
    """A kernel for some argument types: its number in the pack, packer, and where its addresses are."""

    name: str
    pack: Callable[..., bytes]
    pointers: list[int]
    order_class: str


def order_class(ptx: str) -> str:
    """How results may depend on the order of the threads.

    "exact": not at all; "permuted": atomics hand out places; "close": atomics add floats.
    """
    found = re.findall(r"\b(?:atom|red)\.(\S+)\s+(%\w+)?", ptx)
    if any(".add.f" in form or ".add.noftz" in form for form, _ in found):
        return "close"
    used = [register for _, register in found if register and len(re.findall(rf"{register}\b", ptx)) > 1]
    return "permuted" if used else "exact"


def blocks_of(arg: Any) -> list[Block]:
    """The memory that an argument shows to a kernel."""
    if isinstance(arg, indexedarray):
        return [arg.data.block, *(positions.block for positions in arg.positions)]
    if isinstance(arg, Table):
        return [field.block for _, field in arg.fields()]
    return [arg.block] if isinstance(arg, array) else []


def contents(block: Block) -> np.ndarray:
    """A copy of a block's bytes."""
    return host_window(block, block.ptr, (block.nbytes,), (1,), np.dtype(np.uint8)).copy()


def set_contents(block: Block, data: np.ndarray) -> None:
    host_window(block, block.ptr, (block.nbytes,), (1,), np.dtype(np.uint8))[...] = data


class Writer:
    """What goes into the pack: `files` by name, `kernels` and `runs` of the manifest."""

    def __init__(self, arch: str):
        self.target, self.device = ptx_target(arch), get_device("cpu")
        self.files: dict[str, bytes] = {}
        self.kernels: dict[str, dict[str, Any]] = {}
        self.runs: list[dict[str, Any]] = []
        self.left_out: dict[str, str] = {}  # why, by kernel
        self.alone: set[str] = set()  # kernels of scenes that have a run of their own
        self._built: dict[Any, Built] = {}

    def built(self, kernel: Any, kinds: tuple[types.Type, ...], dense: tuple[int, ...]) -> Built:
        """The kernel as PTX; made once for the same types."""
        key = kernel, kinds, dense
        if key not in self._built:
            compiled = kernel.compile(kinds, self.target, dense)
            name = f"{kernel.name}.{len(self.kernels)}"
            self.files[f"ptx/{name}.ptx"] = compiled.image
            by_pointer = HEADER_BYTES + compiled.abi.size > PARAMETER_BYTES
            sharing = compiled.sharing
            kind = order_class(compiled.image.decode())
            self.kernels[name] = {"file": f"ptx/{name}.ptx", "symbol": compiled.symbol, "by_pointer": by_pointer,
                                  "sharing": sharing and (sharing.threads, sharing.dynamic)}  # fmt: skip
            slots = compiled.abi.slots
            pack = make_packer(kinds, [None] * len(kinds), dense, slots, self.device, 0)
            pointers = [HEADER_BYTES + slot.offset for slot in slots if isinstance(slot.type, types.Pointer)]
            self._built[key] = Built(name, pack, [COUNT_AT, *pointers], kind)
        return self._built[key]

    def stored(self, data: np.ndarray) -> str:
        """The name of these bytes among the data of the pack."""
        name = digest(data)
        self.files.setdefault(f"data/{name}", data.tobytes())
        return name

    def before(self, data: np.ndarray) -> str:
        """The name of a piece that, repeated, is these bytes: all of them, or a short one where they repeat."""
        if data.size > 4096 and not data.any():
            return self.stored(np.zeros(4096, np.uint8))
        for period in PERIODS:
            if data.size > period and (data[period:] == data[:-period]).all():
                return self.stored(data[:period])
        return self.stored(data)

    def write(self, path: Path, about: dict[str, Any]) -> int:
        """Write a folder, or a zip file where the path ends in .zip; the number of bytes."""
        manifest = {"format": 1, "about": about, "kernels": self.kernels, "runs": self.runs, "left_out": self.left_out}
        runner = Path(device_runner.__file__).read_bytes()
        files = {**self.files, "manifest.json": json.dumps(manifest).encode(), "device_runner.py": runner}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".zip":
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:  # the pack appears whole or not at all
                beside = Path(folder, path.name)
                with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name, data in files.items():
                        archive.writestr(name, data)
                beside.replace(path)
            return path.stat().st_size
        for name, data in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return sum(map(len, files.values()))


class Sequence:
    """Launches that are recorded in their order, with the memory that they see."""

    def __init__(self, writer: Writer, name: str, kind: str, moved: int = 0):
        self.writer, self.name, self.kind, self.moved = writer, name, kind, moved
        self.blocks: dict[int, int] = {}  # address → number
        self.held: list[Block] = []
        self.first: list[np.ndarray] = []
        self.launches: dict[str, int] = {}  # as JSON → number
        self.order: list[int] = []
        self.classes = {"exact"}

    def add(self, kernel: Any, grid: Any, args: list[Any], block_dim: int) -> None:
        """Record a launch that has not run yet. Raises Unpackable for memory that holds addresses."""
        writer = self.writer
        understood, kinds = arguments.check(kernel.name, kernel.params, args, writer.device)
        dense = tuple(i for i, (kind, arg) in enumerate(zip(kinds, understood)) if is_dense(kind, arg))
        built = writer.built(kernel, tuple(kinds), dense)
        block = built.pack(grid.size, grid.count, *grid.extents, understood, block_dim)
        memory = [one for arg in (*understood, grid.counter) for one in blocks_of(arg)]
        places = []
        for at in built.pointers:
            address = int.from_bytes(block[at : at + 8], "little")
            owner = next((one for one in memory if one.ptr <= address < one.ptr + one.nbytes), None)
            if owner is not None:
                places.append((at, self._number(owner), address - owner.ptr))
                block = block[:at] + bytes(8) + block[at + 8 :]
            elif address and not any(address == one.ptr + one.nbytes for one in memory):  # an array without elements
                raise Unpackable(f"an address in the launch block of '{kernel.name}' belongs to no argument")
        launch = {"kernel": built.name, "size": grid.size, "block_dim": block_dim, "pointers": places,
                  "block": base64.b64encode(block).decode()}  # fmt: skip
        self.classes.add(built.order_class)
        self.order.append(self.launches.setdefault(json.dumps(launch), len(self.launches)))

    def _number(self, block: Block) -> int:
        if block.kept is not None:
            raise Unpackable("arrays in structs: their addresses are in the memory itself")
        if block.ptr not in self.blocks:
            self.blocks[block.ptr] = len(self.held)
            self.held.append(block)
            self.first.append(contents(block))
        return self.blocks[block.ptr]

    def finish(self) -> None:
        """The launches have run: their results are those of the pack."""
        kind = next(k for k in ("close", "permuted", "exact") if k in self.classes)
        buffers = []
        for block, first in zip(self.held, self.first):
            last = contents(block)
            buffer = {"nbytes": block.nbytes, "before": self.writer.before(first), "after": digest(last)}
            changed = not np.array_equal(first, last)
            if changed and kind != "exact":
                buffer["sorted"] = digest(np.sort(words(last)))
            if changed and kind == "close":
                buffer["expected"] = self.writer.stored(last)
            buffers.append(buffer)
        self.writer.runs.append({
            "name": self.name, "kind": self.kind, "order_class": kind, "moved": self.moved, "buffers": buffers,
            "launches": [json.loads(launch) for launch in self.launches], "order": self.order,
        })  # fmt: skip


def record_launch(writer: Writer, name: str, kernel: Any, dim: Any, args: list[Any], moved: int = 0) -> None:
    """Run a kernel on the CPU and put it into the pack."""
    grid = checked_grid(kernel.name, dim, writer.device)
    sequence = Sequence(writer, name, "kernel", moved)
    sequence.add(kernel, grid, args, 256)
    launch(kernel, dim, args, device="cpu")
    sequence.finish()


class FrameRecorder:
    """Stands in for the replays of graphs: each is a run of the pack, and so is a kernel that no scene had yet."""

    def __init__(self, writer: Writer, name: str):
        self.writer, self.name, self.parts = writer, name, 0

    def __call__(self, graph: Any) -> None:
        self.parts += 1
        part: Sequence | None = Sequence(self.writer, f"{self.name} frame {self.parts}", "frame")
        for one in graph.each():
            grid, args, block_dim = one.packed()
            single = self._new_kernel(one.kernel, grid, args, block_dim)
            try:
                if part is not None and grid.size:
                    part.add(one.kernel, grid, args, block_dim)
            except Unpackable as error:
                self.writer.left_out[part.name if part else self.name] = str(error)
                part = None
            one.run()
            if single is not None:
                single.finish()
        if part is not None and part.order:
            part.finish()

    def _new_kernel(self, kernel: Any, grid: Any, args: list[Any], block_dim: int) -> Sequence | None:
        """The launch as a run of its own, the first time that the kernel has threads to run in any scene."""
        count = grid.counter.numpy()[0] if grid.counter is not None else grid.size
        if kernel.name in self.writer.alone or count <= 0 or not grid.size:
            return None
        single = Sequence(self.writer, f"{self.name} {kernel.name}", "kernel")
        try:
            single.add(kernel, grid, args, block_dim)
        except Unpackable as error:
            self.writer.left_out[single.name] = str(error)
            return None
        self.writer.alone.add(kernel.name)
        return single


@contextmanager
def recorded_frame(writer: Writer, name: str) -> Iterator[FrameRecorder]:
    """Inside the block graphs are run launch by launch, and put into the pack under this name."""
    recorder = FrameRecorder(writer, name)
    recording.replay = recorder
    try:
        yield recorder
    finally:
        recording.replay = None
