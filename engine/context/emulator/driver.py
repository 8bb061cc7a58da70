"""The functions of `cuda.bindings.driver` for emulated GPUs: same names, parameters, results and status codes.

Every function returns a tuple that begins with a CUresult. Work runs when it is given, so that a bad launch says so
at once, where a real driver may do it at the next synchronisation; `cuGetErrorString` then tells more than a real one
could: the line of the source, the thread, and where the address lies. An error does not poison the context.

Types and enumerations are those of the real package, which needs no driver for them.
"""

from __future__ import annotations

import ctypes
from typing import Any

from engine.context.emulator import calls, grid, loading
from engine.context.emulator.calls import SUCCESS, address_of, call, real
from engine.context.emulator.graph_calls import GraphCalls
from engine.context.emulator.machine import Gpu
from engine.context.emulator.status import DriverFailure

DRIVER_VERSION = 13_000
FIRST_MADE = 1 << 20  # handles of contexts besides the primary ones
_A = real.CUdevice_attribute


class Driver(GraphCalls):
    """A driver of emulated GPUs of the architectures `sm_<arch>`; more can be added."""

    def __init__(self, *archs: int):
        super().__init__(*archs)
        self.version = DRIVER_VERSION
        self._initialised = False
        self._modules: dict[int, tuple[Gpu, loading.LoadedModule]] = {}

    def __getattr__(self, name: str) -> Any:
        """Types and enumerations; a function that the stand-in lacks says so."""
        if name.startswith("cu") and name[2:3].isupper():
            raise AttributeError(f"the emulated driver has no {name}")
        return getattr(real, name)

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
        return self.version

    def _device(self, dev: Any) -> Gpu:
        if not self._initialised:
            raise self._fail("CUDA_ERROR_NOT_INITIALIZED", "cuInit comes first")
        if not 0 <= int(dev) < len(self.gpus):
            text = f"there is no emulated GPU {int(dev)}; the first is 0, and they are {len(self.gpus)}"
            raise self._fail("CUDA_ERROR_INVALID_DEVICE", text)
        return self.gpus[int(dev)]

    @call
    def cuDeviceGetCount(self) -> int:
        self._device(0)
        return len(self.gpus)

    @call
    def cuDeviceGet(self, ordinal: int) -> Any:
        return real.CUdevice(self._device(ordinal).number)

    @call
    def cuDeviceGetName(self, length: int, dev: Any) -> bytes:
        return f"emulated GPU sm_{self._device(dev).arch}".encode()[: length - 1]

    @call
    def cuDeviceTotalMem(self, dev: Any) -> int:
        return self._device(dev).memory.total

    @call
    def cuDeviceGetAttribute(self, attrib: Any, dev: Any) -> int:
        arch = self._device(dev).arch
        attributes = {
            _A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: arch // 10,
            _A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: arch % 10,
            _A.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: grid.MAX_THREADS,
            _A.CU_DEVICE_ATTRIBUTE_WARP_SIZE: grid.LANES,
            _A.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: 1,
            _A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: loading.STATIC_SHARED,
            _A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: most_shared(arch),
            _A.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: 1,
            _A.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: 1,
            _A.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: 1,
            _A.CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: 1,
        }  # fmt: skip
        for axis, block, extent in zip("XYZ", grid.MAX_BLOCK, grid.MAX_GRID, strict=True):
            attributes[getattr(_A, f"CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_{axis}")] = block
            attributes[getattr(_A, f"CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_{axis}")] = extent
        return attributes.get(attrib, 0)

    @call
    def cuDevicePrimaryCtxRetain(self, dev: Any) -> Any:
        return real.CUcontext(self._device(dev).number + 1)

    @call
    def cuDevicePrimaryCtxRelease(self, dev: Any) -> None:
        self._device(dev)

    @call
    def cuCtxCreate(self, ctxCreateParams: Any, flags: int, dev: Any) -> Any:
        gpu = self._device(dev)
        made = real.CUcontext(FIRST_MADE + next(self._handles))
        self._made_contexts[int(made)] = gpu
        self._contexts.append(made)
        return made

    @call
    def cuCtxDestroy(self, ctx: Any) -> None:
        if self._made_contexts.pop(int(ctx), None) is None:
            raise self._fail("CUDA_ERROR_INVALID_CONTEXT", "only a context that was created can be destroyed")
        if int(self._contexts[-1]) == int(ctx):
            self._contexts.pop()

    @call
    def cuCtxSetCurrent(self, ctx: Any) -> None:
        self.gpu_of_context(ctx)
        self._contexts[-1] = ctx

    @call
    def cuCtxPushCurrent(self, ctx: Any) -> None:
        self.gpu_of_context(ctx)
        self._contexts.append(ctx)

    @call
    def cuCtxPopCurrent(self) -> Any:
        if len(self._contexts) == 1:
            raise self._fail("CUDA_ERROR_INVALID_CONTEXT", "no context was pushed")
        return self._contexts.pop()

    @call
    def cuCtxGetCurrent(self) -> Any:
        return self._contexts[-1]

    @call
    def cuCtxGetDevice(self) -> Any:
        if not int(self._contexts[-1]):
            raise self._fail("CUDA_ERROR_INVALID_CONTEXT", "this thread has no context")
        return real.CUdevice(self.gpu.number)

    @call
    def cuDeviceCanAccessPeer(self, dev: Any, peerDev: Any) -> int:
        return int(self._device(dev) is not self._device(peerDev))

    @call
    def cuCtxEnablePeerAccess(self, peerContext: Any, Flags: int) -> None:
        peer = self.gpu_of_context(peerContext)
        if Flags or peer is self.gpu:
            raise self._fail("CUDA_ERROR_INVALID_VALUE", "a peer is another GPU, and the flags must be 0")
        if peer.number in self.gpu.peers:
            raise self._fail("CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", f"GPU {peer.number} is a peer already")
        self.gpu.peers.add(peer.number)

    @call
    def cuCtxDisablePeerAccess(self, peerContext: Any) -> None:
        peer = self.gpu_of_context(peerContext)
        if peer.number not in self.gpu.peers:
            raise self._fail("CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", f"GPU {peer.number} is no peer")
        self.gpu.peers.remove(peer.number)

    @call
    def cuDeviceGetDefaultMemPool(self, dev: Any) -> Any:
        return real.CUmemoryPool(self._device(dev).number + 1)

    @call
    def cuMemPoolSetAccess(self, pool: Any, map: Any, count: int) -> None:
        if not 1 <= int(pool) <= len(self.gpus) or len(map) != count:
            raise self._fail("CUDA_ERROR_INVALID_VALUE", "a pool, and as many rights as it says, are needed")

    @call
    def cuCtxSynchronize(self) -> None:
        pass

    # memory

    @call
    def cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory.total - self.memory.used, self.memory.total

    @call
    def cuMemAlloc(self, bytesize: int) -> Any:
        return real.CUdeviceptr(self.memory.allocate(bytesize).begin)

    @call
    def cuMemFree(self, dptr: Any) -> None:
        if int(dptr):
            self.memory_at(int(dptr)).free(int(dptr), ("device", "managed"))

    @call
    def cuMemAllocAsync(self, bytesize: int, hStream: Any) -> Any:
        gpu = self.stream(hStream).gpu
        gpu.memory.tracks = self.report_of(gpu) is not None
        return real.CUdeviceptr(gpu.memory.allocate(bytesize).begin)

    @call
    def cuMemFreeAsync(self, dptr: Any, hStream: Any) -> None:
        self.stream(hStream)
        self.memory_at(int(dptr)).free(int(dptr), ("device",))

    @call
    def cuMemAllocHost(self, bytesize: int) -> int:
        return self.memory.allocate(bytesize, "pinned").begin

    @call
    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> int:
        return self.memory.allocate(bytesize, "pinned").begin

    @call
    def cuMemFreeHost(self, p: Any) -> None:
        self.memory.free(address_of(p), ("pinned",))

    @call
    def cuMemHostGetDevicePointer(self, p: Any, Flags: int) -> Any:
        found = self.memory.find(address_of(p))
        if found is None or found.kind != "pinned":
            raise self._fail("CUDA_ERROR_INVALID_VALUE", "the memory is not pinned")
        return real.CUdeviceptr(address_of(p))

    @call
    def cuMemAllocManaged(self, bytesize: int, flags: int) -> Any:
        return real.CUdeviceptr(self.memory.allocate(bytesize, "managed").begin)

    # modules

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
        gpu = self.gpu
        self._modules[handle] = gpu, loading.load(text, gpu.arch, gpu.memory)
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
                ctypes.memmove(address_of(buffer), data, len(data))

    def _module(self, hmod: Any) -> tuple[Gpu, loading.LoadedModule]:
        found = self._modules.get(int(hmod))
        if found is None:
            raise self._fail("CUDA_ERROR_INVALID_HANDLE", "the module is not loaded")
        return found

    @call
    def cuModuleUnload(self, hmod: Any) -> None:
        gpu, module = self._module(hmod)
        loading.unload(module, gpu.memory)
        del self._modules[int(hmod)]
        self._functions = {handle: f for handle, f in self._functions.items() if f[1].module is not module}

    @call
    def cuModuleGetFunction(self, hmod: Any, name: bytes) -> Any:
        gpu, module = self._module(hmod)
        found = module.functions.get(name.decode())
        if found is None:
            names = ", ".join(module.functions) or "none"
            raise self._fail(
                "CUDA_ERROR_NOT_FOUND", f"there is no kernel '{name.decode()}' in the module (there are: {names})"
            )
        handle = next(self._handles)
        self._functions[handle] = gpu, found
        return real.CUfunction(handle)

    @call
    def cuModuleGetGlobal(self, hmod: Any, name: bytes) -> tuple[Any, int]:
        found = self._module(hmod)[1].variables.get(name.decode())
        if found is None:
            raise self._fail("CUDA_ERROR_NOT_FOUND", f"there is no variable '{name.decode()}' in the module")
        return real.CUdeviceptr(found[0]), found[1]

    @call
    def cuFuncGetAttribute(self, attrib: Any, hfunc: Any) -> int:
        gpu, function = self.function(hfunc)
        kinds, facts = real.CUfunction_attribute, grid.describe(function)
        return {
            kinds.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: facts["max_threads"],
            kinds.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: facts["shared"],
            kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: facts["local"],
            kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: function.dynamic_shared,
            kinds.CU_FUNC_ATTRIBUTE_PTX_VERSION: gpu.arch,
            kinds.CU_FUNC_ATTRIBUTE_BINARY_VERSION: gpu.arch,
        }.get(attrib, 0)

    @call
    def cuFuncGetParamInfo(self, func: Any, paramIndex: int) -> tuple[int, int]:
        params = self.function(func)[1].code.params
        if not 0 <= paramIndex < len(params):
            raise self._fail("CUDA_ERROR_INVALID_VALUE", f"the kernel has {len(params)} parameters")
        variable, offset = params[paramIndex]
        return offset, variable.size

    @call
    def cuFuncSetAttribute(self, hfunc: Any, attrib: Any, value: int) -> None:
        gpu, function = self.function(hfunc)
        if attrib == real.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            most = most_shared(gpu.arch)
            if not 0 <= value <= most:
                raise self._fail("CUDA_ERROR_INVALID_VALUE", f"sm_{gpu.arch} has {most} bytes of shared memory")
            function.dynamic_shared = value

    @call
    def cuOccupancyMaxPotentialBlockSize(self, func: Any, blockSizeToDynamicSMemSize: Any, dynamicSMemSize: int,
                                         blockSizeLimit: int) -> tuple[int, int]:  # fmt: skip
        most = grid.describe(self.function(func)[1])["max_threads"]
        return 1, min(most, blockSizeLimit or most)


def most_shared(arch: int) -> int:
    """Bytes of shared memory that one block may ask for (CUDA programming guide, "Compute Capabilities")."""
    known = {75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448, 100: 232_448, 120: 101_376}
    return known.get(arch, loading.STATIC_SHARED)


CALLS = tuple(calls.CALLS)
