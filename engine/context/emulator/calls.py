"""How a method becomes a call of the emulated driver: results in a tuple behind a status, failures as a status."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import cuda.bindings.driver as real
import numpy as np

from engine.context.emulator.status import DriverFailure

SUCCESS = real.CUresult.CUDA_SUCCESS

# the calls of the driver that have a body, by name
CALLS: dict[str, Callable[..., Any]] = {}

# how many results a call has besides its status
_RESULTS = {
    "cuDriverGetVersion": 1, "cuDeviceGet": 1, "cuDeviceGetCount": 1, "cuDeviceGetName": 1, "cuDeviceGetAttribute": 1,
    "cuDeviceTotalMem": 1, "cuDeviceGetDefaultMemPool": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxGetCurrent": 1,
    "cuMemGetInfo": 2, "cuMemAlloc": 1, "cuMemAllocAsync": 1, "cuMemAllocHost": 1, "cuMemHostAlloc": 1,
    "cuMemHostGetDevicePointer": 1, "cuMemAllocManaged": 1, "cuModuleLoadData": 1, "cuModuleLoadDataEx": 1,
    "cuModuleGetFunction": 1, "cuModuleGetGlobal": 2, "cuFuncGetAttribute": 1, "cuFuncGetParamInfo": 2,
    "cuStreamCreate": 1, "cuStreamCreateWithPriority": 1,
    "cuStreamGetPriority": 1, "cuEventCreate": 1, "cuEventElapsedTime": 1,
    "cuOccupancyMaxPotentialBlockSize": 2, "cuOccupancyMaxActiveBlocksPerMultiprocessor": 1, "cuCtxGetDevice": 1,
    "cuCtxPopCurrent": 1, "cuCtxCreate": 1, "cuDeviceCanAccessPeer": 1, "cuPointerGetAttribute": 1,
    "cuStreamIsCapturing": 1, "cuStreamGetCaptureInfo": 6, "cuStreamEndCapture": 1,
    "cuThreadExchangeStreamCaptureMode": 1,
    "cuGraphCreate": 1, "cuGraphAddNode": 1, "cuGraphAddKernelNode": 1, "cuGraphAddMemcpyNode": 1,
    "cuGraphAddMemsetNode": 1, "cuGraphAddEventRecordNode": 1, "cuGraphAddEventWaitNode": 1, "cuGraphAddEmptyNode": 1,
    "cuGraphGetNodes": 2, "cuGraphGetEdges": 4, "cuGraphNodeGetType": 1, "cuGraphNodeGetDependencies": 3,
    "cuGraphNodeGetDependentNodes": 3, "cuGraphKernelNodeGetParams": 1, "cuGraphInstantiate": 1,
    "cuGraphExecUpdate": 1, "cuGraphConditionalHandleCreate": 1,
}  # fmt: skip

# what a thread must not call while a stream is captured: it might wait for work that has not begun
UNSAFE = frozenset(
    "cuMemAlloc cuMemFree cuMemAllocHost cuMemHostAlloc cuMemFreeHost cuMemAllocManaged cuMemcpyHtoD cuMemcpyDtoH "
    "cuMemcpyDtoD cuCtxSynchronize cuEventQuery cuEventSynchronize".split()
)


def call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method a call of the driver."""
    name = function.__name__
    unsafe = name in UNSAFE

    @functools.wraps(function)
    def wrapped(self: Any, *args: Any) -> tuple[Any, ...]:
        try:
            with self.lock:  # launches of a kernel share the state of its warps, and run outside the interpreter lock
                if unsafe and self.captures:
                    self.refuse_unsafe(name)
                result = function(self, *args)
        except DriverFailure as failure:
            self.last_text = failure.text
            status = getattr(real.CUresult, failure.status)
            results = failure.results or (None,) * _RESULTS.get(name, 0)
            return (status, *results)
        if result is None:
            return (SUCCESS,)
        return (SUCCESS, *result) if isinstance(result, tuple) else (SUCCESS, result)

    CALLS[name] = wrapped
    return wrapped


def address_of(pointer: Any) -> int:
    """The address that a pointer argument means: an integer, or an object with a buffer."""
    if isinstance(pointer, int):
        return pointer
    if isinstance(pointer, np.ndarray):
        return int(pointer.ctypes.data)
    if isinstance(pointer, bytes):
        return ctypes.cast(ctypes.c_char_p(pointer), ctypes.c_void_p).value or 0
    if hasattr(pointer, "__int__") and not isinstance(pointer, bytearray | memoryview):
        return int(pointer)
    return int(np.frombuffer(pointer, np.uint8).ctypes.data)
