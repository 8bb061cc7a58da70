"""NVIDIA GPUs through `cuda.bindings.driver`, and the emulated GPU, which is the same code on another driver.

Memory comes from the driver's stream-ordered pool, in the order of the device's home stream. Work goes to the current
queue, which is the home stream or one that a `Stream` made; whatever Python sees of it waits for it. Every call of the
driver goes through `check`, so that an error names the call, its status in words and its arguments.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.ops import LAUNCH
from engine.config import config
from engine.context import device_copies, memory, recording
from engine.context.array_views import byte_span
from engine.context.checks import CheckedProgram, DeviceFaultRecord
from engine.context.device import Program, register_family
from engine.context.graph_conditions import ENTRY as CONDITION_ENTRY
from engine.context.graph_conditions import condition_kernel
from engine.context.graph_copies import Words
from engine.errors import DeviceError, LaunchError
from engine.timer import timer

_LOG_BYTES = 16_384
MAX_BLOCK = 1024  # threads, on every GPU


def check(driver: Any, call: str, *args: Any) -> Any:
    """A call of the driver: its result, a tuple of several, or None. Raises DeviceError for a status that is not 0."""
    found = getattr(driver, call)(*args)
    if found[0] != 0:
        code = int(found[0])
        name, text = (driver.cuGetErrorName(found[0]), driver.cuGetErrorString(found[0]))
        words = [part[1].decode() for part in (name, text) if part[1]]
        raise DeviceError(call, code, ": ".join(words), args)
    return found[1] if len(found) == 2 else found[1:] or None


class _Freed:
    """Gives memory back to the pool when nothing refers to it any more."""

    __slots__ = ("__weakref__",)

    def __init__(self, device: CudaDevice, ptr: int):
        weakref.finalize(self, device.free, ptr).atexit = False  # the driver may be gone by then


class _Mark:
    """An event of the driver, destroyed when nothing refers to it any more."""

    __slots__ = ("__weakref__", "event")

    def __init__(self, device: CudaDevice, event: Any):
        self.event = event
        weakref.finalize(self, device.driver.cuEventDestroy, event).atexit = False


class Queue:
    """A stream of the driver with a priority, destroyed when nothing refers to it any more."""

    def __init__(self, device: CudaDevice, priority: int):
        flag = device.driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.handle = device.check("cuStreamCreateWithPriority", int(flag), priority)
        weakref.finalize(self, device.close_queue, self.handle).atexit = False


Pointer = tuple[int, str, int]  # offset in the launch block, name of the array, bytes from element to element


def _pointers(
    compiled: Any, params: list[tuple[str, Any]], arg_types: tuple[types.Type, ...], header: int
) -> list[Pointer]:
    """Where the launch block has which array."""
    found = []
    for slot in compiled.abi.slots:
        if slot.param == LAUNCH:
            continue
        kind, path = arg_types[slot.param], slot.path
        name = params[slot.param][0]
        if isinstance(kind, types.Array) and path[0] in ("data", "plane"):
            whole = kind.layout != "planes"
            stride = types.memory_layout(kind.dtype, kind.layout)[1] if whole else types.leaves(kind.dtype)[0][1].size
            found.append((header + slot.offset, name, max(stride, 1)))
        elif isinstance(kind, types.Table) and path[0] == "field":
            found.append((header + slot.offset, f"{name}.{path[1]}", 4))
    return found


@dataclass
class PackedLaunch:
    """A launch as the driver takes it: its grid, and what its parameters point to, which lives as long."""

    function: Any
    blocks: int
    threads: int  # of a block
    shared: int  # bytes of dynamic shared memory
    pointers: Any  # array of pointers to the parameters
    kept: list[Any]


class CudaProgram:
    """A kernel in the memory of a device. Its one parameter is the launch block, or the address of a copy of it."""

    entry = 0  # a launch names the kernel by its handle
    record = 0
    cost = 0.0  # is not measured: the device spreads the threads itself

    def __init__(self, device: CudaDevice, module: Any, symbol: str, by_pointer: bool, pointers: list[Pointer],
                 has_blocks: bool = True, sharing: Any = None):  # fmt: skip
        self.device, self.by_pointer, self.pointers = device, by_pointer, pointers
        self.name = symbol
        self.function = device.check("cuModuleGetFunction", module, symbol.encode())
        most = device.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        self.most_threads = device.check("cuFuncGetAttribute", most, self.function)
        # a kernel that does not ask for its block gets one of the size that keeps the device busiest, at most
        self.best_threads = sharing.threads if sharing else MAX_BLOCK if has_blocks else int(
            device.check("cuOccupancyMaxPotentialBlockSize", self.function, None, 0, 0)[1])  # fmt: skip
        self.has_blocks = has_blocks and not sharing
        self.sharing = sharing  # then there is a block for each thread of the launch
        self.shared = sharing.dynamic if sharing else 0  # bytes of shared memory that a launch gives
        if self.shared:
            dynamic = device.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            device.check("cuFuncSetAttribute", self.function, dynamic, self.shared)
        self.module = module

    def _arrays(self, block: bytes) -> list[tuple[int, str, int]]:
        """Address, name and element size of the arrays in a launch block."""
        return [(int.from_bytes(block[at : at + 8], "little"), name, stride) for at, name, stride in self.pointers]

    def run(self, block: bytes, size: int) -> None:
        packed = self.packed(block, size)
        with timer.range(self.name):
            grid, threads = (packed.blocks, 1, 1), (packed.threads, 1, 1)
            self.device.launch(packed.function, grid, threads, packed.shared, ctypes.addressof(packed.pointers))

    def packed(self, block: bytes, size: int) -> PackedLaunch:
        """A launch of `size` threads as the driver takes it. Raises LaunchError for a block of too many threads."""
        if self.device.name_arrays is not None:
            self.device.name_arrays(lambda: self._arrays(block))
        holder = ctypes.c_char_p(block)
        place = ctypes.c_void_p.from_buffer(holder).value or 0
        kept: list[Any] = [block]
        if self.by_pointer:
            copy = self.device.alloc(len(block), zeroed=False)
            self.device.upload(copy.ptr, block, len(block))
            kept += [copy, argument := ctypes.c_uint64(copy.ptr)]
            place = ctypes.addressof(argument)
        threads = int.from_bytes(block[:8], "little")  # of a block
        if not self.has_blocks:
            threads = min(threads, self.best_threads)
        if threads > self.most_threads:
            most = f"at most {self.most_threads} threads for this kernel"
            raise LaunchError(self.name, "block_dim", most, str(threads))
        blocks = size if self.sharing else -(-size // threads)
        return PackedLaunch(self.function, blocks, threads, self.shared, (ctypes.c_void_p * 1)(place), kept)

    def bind(self, block: bytes, size: int, count: int) -> Callable[[], None]:
        if not size:
            return _nothing
        return lambda: self.run(block, size)  # the kernel itself looks how many threads `count` says


def _nothing() -> None:
    pass


class CudaDevice:
    """One GPU. `driver` is `cuda.bindings.driver`, or an emulated one."""

    is_cpu = False

    def __init__(self, name: str, driver: Any, ordinal: int = 0, name_arrays: Callable[..., None] | None = None):
        config.freeze(f"the first use of device '{name}'")
        self.name = self.alias = name
        self.driver = driver
        self.name_arrays = name_arrays  # told before a launch what its arrays are called
        self.is_cuda = name.startswith("cuda")
        self.check("cuInit", 0)
        self.ordinal = self.check("cuDeviceGet", ordinal)
        self.context = self._find_context()
        self.enter()
        attribute = driver.CUdevice_attribute
        major, minor = (
            self.check("cuDeviceGetAttribute", getattr(attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"),
                       self.ordinal) for part in ("MAJOR", "MINOR"))  # fmt: skip
        self.arch = 10 * major + minor
        self.home = self.stream = driver.CUstream(0)
        self._queues: weakref.WeakSet[Queue] = weakref.WeakSet()
        self._modules: dict[str, Any] = {}
        self._peers: dict[str, bool] = {}

    def __repr__(self) -> str:
        return self.name

    @property
    def is_capturing(self) -> bool:
        """Whether this thread is capturing a graph."""
        return bool(recording.captures) and recording.current() is not None

    def check(self, call: str, *args: Any) -> Any:
        return check(self.driver, call, *args)

    def _find_context(self) -> Any:
        """The context of this device that another library has made current in this thread; else the primary one."""
        current = self.check("cuCtxGetCurrent")
        if int(current) and int(self.check("cuCtxGetDevice")) == int(self.ordinal):
            return current
        return self.check("cuDevicePrimaryCtxRetain", self.ordinal)

    def enter(self) -> None:
        """Make the device's context the current one of this thread; other libraries change it."""
        self.check("cuCtxSetCurrent", self.context)

    @property
    def description(self) -> str:
        """What the driver calls the device."""
        return str(self.check("cuDeviceGetName", 256, self.ordinal).decode().rstrip("\0"))

    @property
    def total_memory(self) -> int:
        """Bytes of memory that the device has."""
        self.enter()
        return int(self.check("cuMemGetInfo")[1])

    @property
    def free_memory(self) -> int:
        """Bytes of memory that are not in use."""
        self.enter()
        return int(self.check("cuMemGetInfo")[0])

    # queues

    def make_queue(self, priority: int) -> Queue:
        """A queue of work beside the others; a lower number is more urgent. The driver cuts it to what it has."""
        self.enter()
        queue = Queue(self, priority)
        self._queues.add(queue)
        return queue

    def close_queue(self, handle: Any) -> None:
        """Destroy a queue's stream, whose work goes on; memory still waits for that."""
        self._order(handle, self.home)
        self.check("cuStreamDestroy", handle)

    def _gather(self, then: Any) -> None:
        """What is given to `then` from now on starts after what was given to any queue."""
        for handle in (self.home, *[queue.handle for queue in list(self._queues)]):
            self._order(handle, then)

    @contextmanager
    def using(self, queue: Queue | None) -> Iterator[None]:
        """Work given in the block goes to `queue` (None: the home stream)."""
        before = self.stream
        self.use(queue)
        try:
            yield
        finally:
            self.stream = before

    def use(self, queue: Queue | None) -> None:
        """From now on work goes to `queue`, behind the memory that was allocated before."""
        self.stream = self.home if queue is None else queue.handle
        self._order(self.home, self.stream)

    def _order(self, first: Any, then: Any) -> None:
        """What is given to `then` from now on starts after what was given to `first`."""
        if int(first) != int(then):
            self.enter()
            event = self.check("cuEventCreate", 0)
            self.check("cuEventRecord", event, first)
            self.check("cuStreamWaitEvent", then, event, 0)
            self.check("cuEventDestroy", event)

    # memory

    def alloc(self, nbytes: int, zeroed: bool) -> memory.Block:
        if not nbytes:
            return memory.Block(0, 0, None)
        nbytes = -(-nbytes // 4) * 4  # atomics of 8 and 16 bits work on the 32-bit word around them
        self.enter()
        ptr = int(self.check("cuMemAllocAsync", nbytes, self.home))
        block = memory.Block(ptr, nbytes, _Freed(self, ptr))
        if zeroed:
            self.check("cuMemsetD8Async", self._pointer(ptr), 0, nbytes, self.home)
        self._order(self.home, self.stream)
        return block

    def free(self, ptr: int) -> None:
        """Give memory back to the pool, behind the work that was given before to any queue."""
        self.enter()
        self._gather(self.home)
        self.check("cuMemFreeAsync", self._pointer(ptr), self.home)

    def _pointer(self, address: int) -> Any:
        return self.driver.CUdeviceptr(address)

    def download(self, ptr: int, nbytes: int) -> np.ndarray:
        """A copy of device memory as bytes; waits for the work before it, in all queues."""
        self.enter()
        self._gather(self.stream)
        copy = np.empty(nbytes, np.uint8)
        if nbytes:
            self.check("cuMemcpyDtoHAsync", copy.ctypes.data, self._pointer(ptr), nbytes, self.stream)
            self.check("cuStreamSynchronize", self.stream)
        return copy

    def upload(self, ptr: int, data: Any, nbytes: int) -> None:
        """Copy bytes of the host to device memory; returns when `data` may change again."""
        self.enter()
        self._gather(self.stream)
        source = np.frombuffer(data, np.uint8)
        self.check("cuMemcpyHtoDAsync", self._pointer(ptr), source.ctypes.data, nbytes, self.stream)
        self.check("cuStreamSynchronize", self.stream)

    def window(self, block: memory.Block, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...],
               dtype: np.dtype) -> np.ndarray:  # fmt: skip
        if 0 in shape:
            return np.empty(shape, dtype)
        low, high = byte_span(shape, strides, dtype.itemsize)
        copy = self.download(ptr + low, high - low)
        return memory.strided(copy, -low, shape, strides, dtype)

    def store(self, block: memory.Block, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype,
              values: Any, part: Any = ...) -> None:  # fmt: skip
        if 0 in shape:
            return
        low, high = byte_span(shape, strides, dtype.itemsize)
        target = memory.strided(np.empty(high - low, np.uint8), -low, shape, strides, dtype)
        if part is not ... or not target.flags.c_contiguous:
            target = self.window(block, ptr, shape, strides, dtype)  # what lies between the elements stays as it is
        target[part] = values
        self.upload(ptr + low, target.base, high - low)

    def write(self, target: Any, values: Any) -> bool:
        return device_copies.write(self, target, values)

    def copy(self, words: Words) -> None:
        """Copy a run of bytes of this device, behind the work given so far; does not wait."""
        self.enter()
        self._gather(self.stream)
        target, source = self._pointer(words.target), self._pointer(words.source)
        self.check("cuMemcpyDtoDAsync", target, source, words.size * words.count, self.stream)

    def fill(self, words: Words) -> None:
        """Fill a run of words, behind the work given so far; does not wait."""
        self.enter()
        self._gather(self.stream)
        call = f"cuMemsetD{8 * words.size}Async"
        self.check(call, self._pointer(words.target), words.value, words.count, self.stream)

    def copy_from(self, peer: CudaDevice, words: Words) -> None:
        """Copy a run of bytes from another GPU, behind the work given so far to both; does not wait."""
        self.enter()
        self._gather(self.stream)
        with peer.marked() as sent:
            self.hold(sent)
            target, source = self._pointer(words.target), self._pointer(words.source)
            size = words.size * words.count
            self.check("cuMemcpyPeerAsync", target, self.context, source, peer.context, size, self.stream)
            done = self.mark()
        peer.hold(done)  # what is given to it from now on may write there

    @contextmanager
    def marked(self) -> Iterator[_Mark]:
        """A mark behind the work of all queues, which lives as long as the block."""
        self.enter()
        self._gather(self.stream)
        yield self.mark()

    def reaches(self, peer: CudaDevice) -> bool:
        """Whether this GPU can read the memory of another one of the same driver; from the first time on it may."""
        found = self._peers.get(peer.name)
        if found is None:
            found = self._peers[peer.name] = self._reach(peer)
        return found

    def _reach(self, peer: CudaDevice) -> bool:
        if int(self.ordinal) == int(peer.ordinal):
            return True
        if not self.check("cuDeviceCanAccessPeer", self.ordinal, peer.ordinal):
            return False
        self.enter()
        try:
            self.check("cuCtxEnablePeerAccess", peer.context, 0)
        except DeviceError as error:
            if error.code != int(self.driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED):
                return False  # too many peers, for one
        right = self.driver.CUmemAccessDesc()
        right.location.type = self.driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        right.location.id = int(self.ordinal)
        right.flags = self.driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        pool = self.check("cuDeviceGetDefaultMemPool", peer.ordinal)
        self.check("cuMemPoolSetAccess", pool, [right], 1)
        return True

    # programs

    def load(self, kernel: Any, arg_types: tuple[types.Type, ...], dense: tuple[int, ...]) -> tuple[Any, Program]:
        from engine.compiler.emit_ptx import HEADER_BYTES, PARAMETER_BYTES
        from engine.compiler.target_ptx import newest_for, ptx_target  # needs LLVM, which only a launch does

        compiled = kernel.compile(arg_types, ptx_target(newest_for(self.arch)), dense)
        nbytes = HEADER_BYTES + compiled.abi.size
        by_pointer = nbytes > PARAMETER_BYTES
        pointers = _pointers(compiled, kernel.params, arg_types, HEADER_BYTES)
        has_blocks = any(slot.param == LAUNCH for slot in compiled.abi.slots)
        if kernel.edited_ptx:
            self._check_edited(kernel, compiled.symbol, 8 if by_pointer else nbytes)
            edited = self.load_module(kernel.edited_ptx.encode())
            program = CudaProgram(self, edited, compiled.symbol, by_pointer, pointers, True, compiled.sharing)
            return compiled, self._checked(compiled, program)
        module = self._modules.get(compiled.key)
        if module is None:
            module = self._modules[compiled.key] = self.load_module(compiled.image)
        program = CudaProgram(self, module, compiled.symbol, by_pointer, pointers, has_blocks,
                              compiled.sharing)  # fmt: skip
        return compiled, self._checked(compiled, program)

    def _checked(self, compiled: Any, program: CudaProgram) -> Program:
        """The program, with a record in the device's memory for a kernel that was compiled with checks."""
        return CheckedProgram(program, compiled, DeviceFaultRecord(self)) if compiled.checks else program

    @staticmethod
    def _check_edited(kernel: Any, symbol: str, nbytes: int) -> None:
        """Refuses an edited text whose entry does not take what a launch passes."""
        from engine.compiler.ptx_parser import PtxError, parse  # edits are rare, and its tables take 14 ms to build

        try:
            entry = parse(kernel.edited_ptx).functions.get(symbol)
        except PtxError as error:
            raise LaunchError(kernel.name, "with_ptx", "PTX text", str(error)) from None
        got = [p.size for p in entry.params] if entry is not None else []
        if got != [nbytes]:
            found = f"parameters of {got} bytes" if entry is not None else "a text without it"
            wanted = f"an entry '{symbol}' with one parameter of {nbytes} bytes"
            hint = "edit the kernel's own `code`, made for arguments of the same types and strides"
            raise LaunchError(kernel.name, "with_ptx", wanted, found, hint)

    def load_module(self, ptx: bytes) -> Any:
        """A module from PTX text. Raises DeviceError with the log of the driver's compiler."""
        self.enter()
        option = self.driver.CUjit_option
        log = bytearray(_LOG_BYTES)
        options = (option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        try:
            return self.check("cuModuleLoadDataEx", ptx + b"\0", len(options), options, (log, len(log)))
        except DeviceError as error:
            said = bytes(log).partition(b"\0")[0].decode(errors="replace").strip()
            name = error.name if not said or said in error.name else f"{error.name}: {said}"
            raise DeviceError(error.call, error.code, name) from None

    def launch(self, function: Any, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int,
               params: int) -> None:  # fmt: skip
        """Run a kernel; `params` is the address of an array of pointers to its parameters."""
        self.enter()
        found = self.driver.cuLaunchKernel(function, *grid, *block, shared, self.stream, params, 0)
        if found[0] != 0:
            name, text = (self.driver.cuGetErrorName(found[0]), self.driver.cuGetErrorString(found[0]))
            words = ": ".join(part[1].decode() for part in (name, text) if part[1])
            raise DeviceError("cuLaunchKernel", int(found[0]), words, (f"grid={grid}", f"block={block}"))

    @cached_property
    def cuda_version(self) -> tuple[int, int]:
        """The CUDA version of the driver."""
        number = int(self.check("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    @cached_property
    def set_condition(self) -> Any:
        """The kernel that sets the conditional nodes of graphs."""
        from engine.compiler.target_ptx import newest_for, ptx_target  # needs LLVM

        target = ptx_target(newest_for(self.arch))
        text = condition_kernel(target.arch, target.version)
        return self.check("cuModuleGetFunction", self.load_module(text.encode()), CONDITION_ENTRY)

    def synchronize(self) -> None:
        """Wait for the work of all queues."""
        self.enter()
        self.check("cuCtxSynchronize")

    # time: the device's own events, so that nothing waits for a measurement

    def mark(self) -> _Mark:
        self.enter()
        mark = _Mark(self, self.check("cuEventCreate", 0))
        self.check("cuEventRecord", mark.event, self.stream)
        return mark

    def unrecorded_mark(self) -> _Mark:
        """A mark that a graph records."""
        self.enter()
        return _Mark(self, self.check("cuEventCreate", 0))

    def hold(self, mark: _Mark) -> None:
        """Work given from now on waits for `mark`; Python does not."""
        self.enter()
        self.check("cuStreamWaitEvent", self.stream, mark.event, 0)

    def reached(self, mark: _Mark) -> bool:
        self.enter()
        status = self.driver.cuEventQuery(mark.event)[0]
        if status == self.driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        self.wait(mark)  # an error of the work before it comes out here
        return True

    def wait(self, mark: _Mark) -> None:
        self.enter()
        self.check("cuEventSynchronize", mark.event)

    def elapsed_ns(self, first: _Mark, second: _Mark) -> int:
        self.wait(first)
        self.wait(second)
        return round(1e6 * self.check("cuEventElapsedTime", first.event, second.event))


# what is missing, in plain words


def load_driver() -> Any:
    """The binding of NVIDIA's driver. Raises ImportError without cuda-python."""
    import cuda.bindings.driver as driver

    return driver


def _open_cuda(name: str) -> CudaDevice:
    """The GPU of this number. Raises DeviceError where there is none, and says what is missing."""
    _, _, number = name.partition(":")
    if number and not number.isdigit():
        raise DeviceError(f"unknown device '{name}'; GPUs are numbered: cuda:0, cuda:1, …")
    try:
        driver = load_driver()
    except ImportError as error:
        raise DeviceError(
            f"device '{name}' is not available: the package cuda-python is not installed ({error})"
        ) from None
    try:
        status = driver.cuInit(0)[0]
    except Exception as error:  # the binding has its own error for a library that is not there
        raise DeviceError(
            f"device '{name}' is not available: there is no NVIDIA driver on this machine ({type(error).__name__}); "
            "install one, or use device='emu' or 'cpu'"
        ) from None
    if status != 0:
        raise DeviceError(f"device '{name}' is not available: cuInit says {driver.cuGetErrorName(status)[1].decode()}; "
                          "in a container, check that /dev/nvidia* are there")  # fmt: skip
    count = check(driver, "cuDeviceGetCount")
    if int(number or 0) >= count:
        raise DeviceError(f"device '{name}' is not available: there are {count} GPUs")
    return _with_clock(CudaDevice(f"cuda:{number or 0}", driver, int(number or 0)))


def _with_clock(device: CudaDevice) -> CudaDevice:
    """The device, which from now on also times the scopes that name it."""
    timer.register_clock(device)
    return device


EMULATED = (75, 80, 86, 87, 89, 90, 100, 120)
DEFAULT_EMULATED = 80
MOST_EMULATED = 16  # of one kind


_machine: list[Any] = []  # the driver of all emulated GPUs
_emulated: dict[str, CudaDevice] = {}


def _open_emulated(name: str) -> CudaDevice:
    """The emulated GPU of a name: `emu`, with an architecture, a number and `trace` behind it, in any order."""
    arch, number, traced = DEFAULT_EMULATED, 0, False
    for part in name.split(":")[1:]:
        if part == "trace":
            traced = True
        elif part.isdecimal() and int(part) < MOST_EMULATED:
            number = int(part)
        elif part.startswith("sm_") and part[3:].isdecimal() and int(part[3:]) in EMULATED:
            arch = int(part[3:])
        else:
            names = ", ".join(f"emu:sm_{k}" for k in EMULATED)
            raise DeviceError(f"unknown device '{name}'; emulated GPUs are {names}, each also with ':trace' behind it, "
                              f"or with a number below {MOST_EMULATED} ('emu:1')")  # fmt: skip
    if not number:  # the first one of a kind has no number
        name = ":".join(part for part in name.split(":") if not part.isdecimal())
    if name not in _emulated:
        _emulated[name] = _emulate(name, arch, traced)
    return _emulated[name]


def _emulate(name: str, arch: int, traced: bool) -> CudaDevice:
    """One more emulated GPU, with its launches traced if wanted."""
    try:
        from engine.context.emulator.driver import Driver
        from engine.context.emulator.trace import Trace, report_at_exit
    except ImportError as error:
        raise DeviceError(
            f"device '{name}' is not available: the package cuda-python is not installed ({error})"
        ) from None
    if _machine:
        driver, ordinal = _machine[0], _machine[0].add_gpu(arch)
    else:
        driver, ordinal = Driver(arch), 0
        _machine.append(driver)
    if traced:
        driver.gpus[ordinal].own_trace = trace = Trace()
        report_at_exit(name, trace)
    return _with_clock(CudaDevice(name, driver, ordinal, name_arrays=driver.name_arrays))


register_family("cuda", _open_cuda)
register_family("emu", _open_emulated)
