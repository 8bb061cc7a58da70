"""The functions of `cuda.bindings.driver` for an emulated GPU: same names, parameters, results and status codes.

Every function returns a tuple that begins with a CUresult. Work runs when it is given, so that a bad launch says so
at once, where a real driver may do it at the next synchronisation; `cuGetErrorString` then tells more than a real one
could: the line of the source, the thread, and where the address lies. An error does not poison the context.

Types and enumerations are those of the real package, which needs no driver for them.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

import cuda.bindings.driver as real
import numpy as np

from engine.config import config
from engine.context.emulator import grid, loading, trace
from engine.context.emulator.memory import Allocation, Memory
from engine.context.emulator.schedules import compare
from engine.context.emulator.status import DriverFailure

SUCCESS = real.CUresult.CUDA_SUCCESS
TOTAL_MEMORY = 16 << 30  # bytes; the host's memory is taken only as it is allocated
DRIVER_VERSION = 13_000
_A = real.CUdevice_attribute

# the calls of the driver that have a body below, by name; `Driver` binds them
_calls: dict[str, Callable[..., Any]] = {}


def call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method a call of the driver: its result becomes a tuple behind the status, its failure a status."""

    @functools.wraps(function)
    def wrapped(self: Driver, *args: Any) -> tuple[Any, ...]:
        try:
            with self.lock:  # launches of a kernel share the state of its warps, and run outside the interpreter lock
                result = function(self, *args)
        except DriverFailure as failure:
            self.last_text = failure.text
            status = getattr(real.CUresult, failure.status)
            return (status, *(None for _ in range(_results.get(function.__name__, 0))))
        if result is None:
            return (SUCCESS,)
        return (SUCCESS, *result) if isinstance(result, tuple) else (SUCCESS, result)

    _calls[function.__name__] = wrapped
    return wrapped


# how many results a call has besides its status
_results = {
    "cuDriverGetVersion": 1, "cuDeviceGet": 1, "cuDeviceGetCount": 1, "cuDeviceGetName": 1, "cuDeviceGetAttribute": 1,
    "cuDeviceTotalMem": 1, "cuDeviceGetDefaultMemPool": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxGetCurrent": 1,
    "cuMemGetInfo": 2, "cuMemAlloc": 1, "cuMemAllocAsync": 1, "cuMemAllocHost": 1, "cuMemHostAlloc": 1,
    "cuMemHostGetDevicePointer": 1, "cuMemAllocManaged": 1, "cuModuleLoadData": 1, "cuModuleLoadDataEx": 1,
    "cuModuleGetFunction": 1, "cuModuleGetGlobal": 2, "cuFuncGetAttribute": 1, "cuFuncGetParamInfo": 2,
    "cuStreamCreate": 1, "cuStreamCreateWithPriority": 1,
    "cuStreamGetPriority": 1, "cuEventCreate": 1, "cuEventElapsedTime": 1,
    "cuOccupancyMaxPotentialBlockSize": 2, "cuOccupancyMaxActiveBlocksPerMultiprocessor": 1, "cuCtxGetDevice": 1,
    "cuCtxPopCurrent": 1, "cuDeviceCanAccessPeer": 1, "cuPointerGetAttribute": 1,
}  # fmt: skip


def _address(pointer: Any) -> int:
    """The address that a host pointer argument means: an integer, or an object with a buffer."""
    if isinstance(pointer, int):
        return pointer
    if hasattr(pointer, "__int__") and not isinstance(pointer, np.ndarray | bytes | bytearray | memoryview):
        return int(pointer)
    if isinstance(pointer, bytes):
        return ctypes.cast(ctypes.c_char_p(pointer), ctypes.c_void_p).value or 0
    return (
        int(np.frombuffer(pointer, np.uint8).ctypes.data)
        if not isinstance(pointer, np.ndarray)
        else pointer.ctypes.data
    )


class Driver:
    """A driver with one device, an emulated GPU of the architecture `sm_<arch>`."""

    def __init__(self, arch: int = 80):
        self.arch = arch
        self.memory = Memory(TOTAL_MEMORY)
        self.counters = grid.Counters()
        self.last_text = ""  # what `cuGetErrorString` adds
        self.catcher: Callable[[grid.Run], None] | None = None  # gets launches instead of running them
        self.own_trace: trace.Trace | None = None  # of a device whose launches are always traced
        self._initialised = False
        self.lock = threading.RLock()
        self._handles = itertools.count(1)
        self._modules: dict[int, loading.LoadedModule] = {}
        self._functions: dict[int, loading.LoadedFunction] = {}
        self._streams: dict[int, int] = {0: 0, 1: 0, 2: 0}  # handle → priority; the first three are CUDA's own
        self._events: dict[int, float | None] = {}
        self._contexts: list[Any] = [real.CUcontext(0)]
        self._registered: dict[int, Allocation] = {}

    def __getattr__(self, name: str) -> Any:
        """Types and enumerations; a function that the stand-in lacks says so."""
        if name.startswith("cu") and name[2:3].isupper():
            raise AttributeError(f"the emulated driver has no {name}")
        return getattr(real, name)

    @property
    def report(self) -> trace.Trace | None:
        """The trace that launches belong to now: of a `with` block, else the device's own."""
        return trace.active if trace.active is not None else self.own_trace

    def name_arrays(self, arrays: Callable[[], list[tuple[int, str, int]]]) -> None:
        """A launch tells what its arrays are called; they are asked for only while it is traced."""
        report = self.report
        if report is not None:
            report.arrays = arrays()

    def _fail(self, status: str, text: str) -> DriverFailure:
        return DriverFailure(status, text)

    # errors, devices, contexts

    def cuGetErrorName(self, error: Any) -> tuple[Any, ...]:
        try:
            return SUCCESS, real.CUresult(error).name.encode()
        except ValueError:
            return real.CUresult.CUDA_ERROR_INVALID_VALUE, None

    def cuGetErrorString(self, error: Any) -> tuple[Any, ...]:
        name = self.cuGetErrorName(error)
        if name[0] != SUCCESS:
            return name
        plain = name[1].decode().removeprefix("CUDA_ERROR_").replace("_", " ").lower()
        text, self.last_text = self.last_text, ""
        return SUCCESS, f"{plain}: {text}".encode() if text else plain.encode()

    @call
    def cuInit(self, Flags: int) -> None:
        if Flags:
            raise self._fail("CUDA_ERROR_INVALID_VALUE", "the flags must be 0")
        self._initialised = True

    @call
    def cuDriverGetVersion(self) -> int:
        return DRIVER_VERSION

    def _device(self, dev: Any) -> None:
        if not self._initialised:
            raise self._fail("CUDA_ERROR_NOT_INITIALIZED", "cuInit comes first")
        if int(dev) != 0:
            raise self._fail("CUDA_ERROR_INVALID_DEVICE", "there is one emulated device, number 0")

    @call
    def cuDeviceGetCount(self) -> int:
        self._device(0)
        return 1

    @call
    def cuDeviceGet(self, ordinal: int) -> Any:
        self._device(ordinal)
        return real.CUdevice(0)

    @call
    def cuDeviceGetName(self, length: int, dev: Any) -> bytes:
        self._device(dev)
        return f"emulated GPU sm_{self.arch}".encode()[: length - 1]

    @call
    def cuDeviceTotalMem(self, dev: Any) -> int:
        self._device(dev)
        return self.memory.total

    @call
    def cuDeviceGetAttribute(self, attrib: Any, dev: Any) -> int:
        self._device(dev)
        attributes = {
            _A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: self.arch // 10,
            _A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: self.arch % 10,
            _A.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: grid.MAX_THREADS,
            _A.CU_DEVICE_ATTRIBUTE_WARP_SIZE: grid.LANES,
            _A.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: 1,
            _A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: loading.STATIC_SHARED,
            _A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: self.most_shared,
            _A.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: 1,
            _A.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: 1,
            _A.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: 1,
            _A.CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: 1,
        }  # fmt: skip
        for axis, block, extent in zip("XYZ", grid.MAX_BLOCK, grid.MAX_GRID, strict=True):
            attributes[getattr(_A, f"CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_{axis}")] = block
            attributes[getattr(_A, f"CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_{axis}")] = extent
        return attributes.get(attrib, 0)

    @property
    def most_shared(self) -> int:
        """Bytes of shared memory that one block may ask for (CUDA programming guide, "Compute Capabilities")."""
        known = {
            75: 65_536,
            80: 166_912,
            86: 101_376,
            87: 166_912,
            89: 101_376,
            90: 232_448,
            100: 232_448,
            120: 101_376,
        }
        return known.get(self.arch, loading.STATIC_SHARED)

    @call
    def cuDevicePrimaryCtxRetain(self, dev: Any) -> Any:
        self._device(dev)
        return real.CUcontext(1)

    @call
    def cuDevicePrimaryCtxRelease(self, dev: Any) -> None:
        self._device(dev)

    @call
    def cuCtxSetCurrent(self, ctx: Any) -> None:
        self._contexts[-1] = ctx

    @call
    def cuCtxGetCurrent(self) -> Any:
        return self._contexts[-1]

    @call
    def cuCtxGetDevice(self) -> Any:
        if not int(self._contexts[-1]):
            raise self._fail("CUDA_ERROR_INVALID_CONTEXT", "this thread has no context")
        return real.CUdevice(0)

    @call
    def cuCtxSynchronize(self) -> None:
        pass

    # memory

    def _size(self, size: int) -> int:
        if size < 0:
            raise self._fail("CUDA_ERROR_INVALID_VALUE", f"{size} bytes")
        return size

    @call
    def cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory.total - self.memory.used, self.memory.total

    @call
    def cuMemAlloc(self, bytesize: int) -> Any:
        return real.CUdeviceptr(self.memory.allocate(bytesize).begin)

    @call
    def cuMemFree(self, dptr: Any) -> None:
        if int(dptr):
            self.memory.free(int(dptr), ("device", "managed"))

    @call
    def cuMemAllocAsync(self, bytesize: int, hStream: Any) -> Any:
        self._stream(hStream)
        self.memory.tracks = self.report is not None
        return real.CUdeviceptr(self.memory.allocate(bytesize).begin)

    @call
    def cuMemFreeAsync(self, dptr: Any, hStream: Any) -> None:
        self._stream(hStream)
        self.memory.free(int(dptr), ("device",))

    @call
    def cuMemAllocHost(self, bytesize: int) -> int:
        return self.memory.allocate(bytesize, "pinned").begin

    @call
    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> int:
        return self.memory.allocate(bytesize, "pinned").begin

    @call
    def cuMemFreeHost(self, p: Any) -> None:
        self.memory.free(_address(p), ("pinned",))

    @call
    def cuMemHostGetDevicePointer(self, p: Any, Flags: int) -> Any:
        found = self.memory.find(_address(p))
        if found is None or found.kind != "pinned":
            raise self._fail("CUDA_ERROR_INVALID_VALUE", "the memory is not pinned")
        return real.CUdeviceptr(_address(p))

    @call
    def cuMemAllocManaged(self, bytesize: int, flags: int) -> Any:
        return real.CUdeviceptr(self.memory.allocate(bytesize, "managed").begin)

    def _copy_to(self, device: Any, host: Any, size: int) -> None:
        self.memory.require(int(device), self._size(size))
        ctypes.memmove(int(device), _address(host), size)
        self.memory.wrote(int(device), size)

    def _copy_from(self, host: Any, device: Any, size: int) -> None:
        self.memory.require(int(device), self._size(size))
        ctypes.memmove(_address(host), int(device), size)

    def _copy_within(self, to: Any, source: Any, size: int) -> None:
        self.memory.require(int(to), self._size(size))
        self.memory.require(int(source), size)
        ctypes.memmove(int(to), int(source), size)
        self.memory.wrote(int(to), size)

    @call
    def cuMemcpyHtoD(self, dstDevice: Any, srcHost: Any, ByteCount: int) -> None:
        self._copy_to(dstDevice, srcHost, ByteCount)

    @call
    def cuMemcpyDtoH(self, dstHost: Any, srcDevice: Any, ByteCount: int) -> None:
        self._copy_from(dstHost, srcDevice, ByteCount)

    @call
    def cuMemcpyDtoD(self, dstDevice: Any, srcDevice: Any, ByteCount: int) -> None:
        self._copy_within(dstDevice, srcDevice, ByteCount)

    @call
    def cuMemcpyHtoDAsync(self, dstDevice: Any, srcHost: Any, ByteCount: int, hStream: Any) -> None:
        self._stream(hStream)
        self._copy_to(dstDevice, srcHost, ByteCount)

    @call
    def cuMemcpyDtoHAsync(self, dstHost: Any, srcDevice: Any, ByteCount: int, hStream: Any) -> None:
        self._stream(hStream)
        self._copy_from(dstHost, srcDevice, ByteCount)

    @call
    def cuMemcpyDtoDAsync(self, dstDevice: Any, srcDevice: Any, ByteCount: int, hStream: Any) -> None:
        self._stream(hStream)
        self._copy_within(dstDevice, srcDevice, ByteCount)

    @call
    def cuMemsetD8Async(self, dstDevice: Any, uc: int, N: int, hStream: Any) -> None:
        self._fill(dstDevice, np.uint8(uc & 0xFF), N, hStream)

    @call
    def cuMemsetD16Async(self, dstDevice: Any, us: int, N: int, hStream: Any) -> None:
        self._fill(dstDevice, np.uint16(us & 0xFFFF), N, hStream)

    @call
    def cuMemsetD32Async(self, dstDevice: Any, ui: int, N: int, hStream: Any) -> None:
        self._fill(dstDevice, np.uint32(ui & 0xFFFFFFFF), N, hStream)

    def _fill(self, device: Any, value: Any, count: int, stream: Any) -> None:
        self._stream(stream)
        size = self._size(count) * value.nbytes
        if int(device) % value.nbytes:
            raise self._fail("CUDA_ERROR_INVALID_VALUE", f"the address is not a multiple of {value.nbytes}")
        self.memory.require(int(device), size)
        if size:
            window = (ctypes.c_uint8 * size).from_address(int(device))
            np.frombuffer(window, value.dtype)[:] = value
            self.memory.wrote(int(device), size)

    # modules and launches

    @call
    def cuModuleLoadData(self, image: Any) -> Any:
        return self._load(image)

    @call
    def cuModuleLoadDataEx(self, image: Any, numOptions: int, options: Any, optionValues: Any) -> Any:
        try:
            return self._load(image)
        except DriverFailure as failure:
            self._write_log(failure.text, options, optionValues)
            raise

    def _load(self, image: Any) -> Any:
        if not isinstance(image, bytes | bytearray):
            raise self._fail("CUDA_ERROR_INVALID_IMAGE", "the image must be bytes of PTX text")
        if not image.lstrip().startswith((b"//", b"/*", b".version")):
            raise self._fail("CUDA_ERROR_INVALID_IMAGE", "the image is not PTX text")
        try:
            text = bytes(image).decode()
        except UnicodeDecodeError:
            raise self._fail("CUDA_ERROR_INVALID_PTX", "the text is not UTF-8") from None
        handle = next(self._handles)
        self._modules[handle] = loading.load(text, self.arch, self.memory)
        return real.CUmodule(handle)

    def _write_log(self, text: str, options: Any, values: Any) -> None:
        """The error log of the just-in-time compiler, where the caller gave a buffer for it."""
        kinds = real.CUjit_option
        given = {kinds(option): value for option, value in zip(options or (), values or (), strict=False)}
        buffer = given.get(kinds.CU_JIT_ERROR_LOG_BUFFER)
        size = int(given.get(kinds.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) or 0)
        if buffer is not None and size:
            data = text.encode()[: size - 1] + b"\0"
            if isinstance(buffer, bytearray):
                buffer[: len(data)] = data
            else:
                ctypes.memmove(_address(buffer), data, len(data))

    def _module(self, hmod: Any) -> loading.LoadedModule:
        found = self._modules.get(int(hmod))
        if found is None:
            raise self._fail("CUDA_ERROR_INVALID_HANDLE", "the module is not loaded")
        return found

    def _function(self, hfunc: Any) -> loading.LoadedFunction:
        found = self._functions.get(int(hfunc))
        if found is None:
            raise self._fail(
                "CUDA_ERROR_INVALID_HANDLE", "there is no such function; its module may have been unloaded"
            )
        return found

    @call
    def cuModuleUnload(self, hmod: Any) -> None:
        module = self._module(hmod)
        loading.unload(module, self.memory)
        del self._modules[int(hmod)]
        self._functions = {handle: f for handle, f in self._functions.items() if f.module is not module}

    @call
    def cuModuleGetFunction(self, hmod: Any, name: bytes) -> Any:
        module = self._module(hmod)
        found = module.functions.get(name.decode())
        if found is None:
            names = ", ".join(module.functions) or "none"
            raise self._fail(
                "CUDA_ERROR_NOT_FOUND", f"there is no kernel '{name.decode()}' in the module (there are: {names})"
            )
        handle = next(self._handles)
        self._functions[handle] = found
        return real.CUfunction(handle)

    @call
    def cuModuleGetGlobal(self, hmod: Any, name: bytes) -> tuple[Any, int]:
        found = self._module(hmod).variables.get(name.decode())
        if found is None:
            raise self._fail("CUDA_ERROR_NOT_FOUND", f"there is no variable '{name.decode()}' in the module")
        return real.CUdeviceptr(found[0]), found[1]

    @call
    def cuFuncGetAttribute(self, attrib: Any, hfunc: Any) -> int:
        kinds, facts = real.CUfunction_attribute, grid.describe(self._function(hfunc))
        return {
            kinds.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: facts["max_threads"],
            kinds.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: facts["shared"],
            kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: facts["local"],
            kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: self._function(hfunc).dynamic_shared,
            kinds.CU_FUNC_ATTRIBUTE_PTX_VERSION: self.arch,
            kinds.CU_FUNC_ATTRIBUTE_BINARY_VERSION: self.arch,
        }.get(attrib, 0)

    @call
    def cuFuncGetParamInfo(self, func: Any, paramIndex: int) -> tuple[int, int]:
        params = self._function(func).code.params
        if not 0 <= paramIndex < len(params):
            raise self._fail("CUDA_ERROR_INVALID_VALUE", f"the kernel has {len(params)} parameters")
        variable, offset = params[paramIndex]
        return offset, variable.size

    @call
    def cuFuncSetAttribute(self, hfunc: Any, attrib: Any, value: int) -> None:
        function = self._function(hfunc)
        if attrib == real.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            if not 0 <= value <= self.most_shared:
                raise self._fail(
                    "CUDA_ERROR_INVALID_VALUE", f"sm_{self.arch} has {self.most_shared} bytes of shared memory"
                )
            function.dynamic_shared = value

    @call
    def cuOccupancyMaxPotentialBlockSize(self, func: Any, blockSizeToDynamicSMemSize: Any, dynamicSMemSize: int,
                                         blockSizeLimit: int) -> tuple[int, int]:  # fmt: skip
        most = grid.describe(self._function(func))["max_threads"]
        return 1, min(most, blockSizeLimit or most)

    @call
    def cuLaunchKernel(self, f: Any, gridDimX: int, gridDimY: int, gridDimZ: int, blockDimX: int, blockDimY: int,
                       blockDimZ: int, sharedMemBytes: int, hStream: Any, kernelParams: Any,
                       extra: Any) -> None:  # fmt: skip
        function = self._function(f)
        self._stream(hStream)
        params = self._parameters(function, kernelParams)
        blocks, threads = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        launch = grid.Run(self.memory, function.in_form(config.emu_schedule), blocks, threads, sharedMemBytes, params)
        if self.catcher is not None:
            self.catcher(launch)
            return
        if self.report is not None and self.report.schedules:
            rows = compare(launch)
            shares = {row.schedule: row.efficiency for row in rows}
            self.report.note_schedules(launch.function.name, shares, all(row.same for row in rows))
        seed = grid.random_state(config.emu_seed, self.counters.launches) if config.emu_schedule == "random" else 0
        grid.run(launch, self.counters, seed, self.report)

    def _parameters(self, function: loading.LoadedFunction, given: Any) -> bytes:
        """`kernelParams` as the real binding takes it: the address of an array of pointers, or (values, types)."""
        count = len(function.code.params)
        if isinstance(given, tuple) and len(given) == 2:
            holders = [value if kind is None else kind(value) for value, kind in zip(*given, strict=True)]
            if len(holders) != count:
                raise self._fail("CUDA_ERROR_INVALID_VALUE", f"{count} parameters are needed, got {len(holders)}")
            return grid.parameter_bytes(function, [ctypes.addressof(holder) for holder in holders])
        if not given:
            if count:
                raise self._fail("CUDA_ERROR_INVALID_VALUE", f"{count} parameters are needed, got none")
            return b""
        array = (ctypes.c_uint64 * count).from_address(int(given))
        return grid.parameter_bytes(function, list(array))

    # streams and events

    def _stream(self, stream: Any) -> int:
        handle = int(stream)
        if handle not in self._streams:
            raise self._fail("CUDA_ERROR_INVALID_HANDLE", "the stream does not exist")
        return handle

    @call
    def cuStreamCreate(self, Flags: int) -> Any:
        return self._new_stream(0)

    @call
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> Any:
        return self._new_stream(priority)

    def _new_stream(self, priority: int) -> Any:
        handle = next(self._handles) + 2
        self._streams[handle] = priority
        return real.CUstream(handle)

    @call
    def cuStreamDestroy(self, hStream: Any) -> None:
        del self._streams[self._stream(hStream)]

    @call
    def cuStreamSynchronize(self, hStream: Any) -> None:
        self._stream(hStream)

    @call
    def cuStreamQuery(self, hStream: Any) -> None:
        self._stream(hStream)

    @call
    def cuStreamGetPriority(self, hStream: Any) -> int:
        return self._streams[self._stream(hStream)]

    @call
    def cuStreamWaitEvent(self, hStream: Any, hEvent: Any, Flags: int) -> None:
        self._stream(hStream)
        self._event(hEvent)

    def _event(self, event: Any) -> int:
        if int(event) not in self._events:
            raise self._fail("CUDA_ERROR_INVALID_HANDLE", "the event does not exist")
        return int(event)

    @call
    def cuEventCreate(self, Flags: int) -> Any:
        handle = next(self._handles)
        self._events[handle] = None
        return real.CUevent(handle)

    @call
    def cuEventDestroy(self, hEvent: Any) -> None:
        del self._events[self._event(hEvent)]

    @call
    def cuEventRecord(self, hEvent: Any, hStream: Any) -> None:
        self._stream(hStream)
        self._events[self._event(hEvent)] = perf_counter()

    @call
    def cuEventQuery(self, hEvent: Any) -> None:
        self._event(hEvent)

    @call
    def cuEventSynchronize(self, hEvent: Any) -> None:
        self._event(hEvent)

    @call
    def cuEventElapsedTime(self, hStart: Any, hEnd: Any) -> float:
        start, end = self._events[self._event(hStart)], self._events[self._event(hEnd)]
        if start is None or end is None:
            raise self._fail("CUDA_ERROR_INVALID_HANDLE", "an event was not recorded")
        return 1000.0 * (end - start)


CALLS = tuple(_calls)
