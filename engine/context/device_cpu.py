"""The cpu device: host memory, kernels compiled and loaded, nothing asynchronous."""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import Any

import numpy as np

from engine.compiler import types
from engine.config import config
from engine.context import memory, recording
from engine.context.checks import CheckedProgram, FaultRecord
from engine.context.device import Program, register_device
from engine.context.program_cpu import CpuProgram
from engine.context.timed import load_timed
from engine.errors import LaunchError


def _memory(pages: str) -> int:
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") if pages in os.sysconf_names else 0


class CpuDevice:
    """The processors of this machine. Work is done when a call returns, so `synchronize` has nothing to wait for."""

    name = alias = "cpu"
    is_cpu = True
    is_cuda = False

    @property
    def is_capturing(self) -> bool:
        """Whether this thread is capturing a graph."""
        return bool(recording.captures) and recording.current() is not None

    @property
    def total_memory(self) -> int:
        """Bytes of memory that the machine has."""
        return _memory("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """Bytes of memory that no process uses; 0 where the system does not say."""
        return _memory("SC_AVPHYS_PAGES")

    def __repr__(self) -> str:
        return "cpu"

    def alloc(self, nbytes: int, zeroed: bool) -> memory.Block:
        config.freeze("the first use of device 'cpu'")
        return memory.host_block(nbytes, zeroed)

    def window(self, block: memory.Block, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...],
               dtype: np.dtype) -> np.ndarray:  # fmt: skip
        return memory.host_window(block, ptr, shape, strides, dtype)

    def store(self, block: memory.Block, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype,
              values: Any, part: Any = ...) -> None:  # fmt: skip
        memory.host_window(block, ptr, shape, strides, dtype)[part] = values

    def write(self, target: Any, values: Any) -> bool:
        return False  # the host's code writes it

    def load(self, kernel: Any, arg_types: tuple[types.Type, ...], dense: tuple[int, ...]) -> tuple[Any, Program]:
        config.freeze("the first use of device 'cpu'")
        if kernel.edited_ptx:
            raise LaunchError(kernel.name, "device", "a GPU or 'emu' for an edited PTX text", "'cpu'")
        from engine.compiler.pipeline import wanted_shape
        from engine.compiler.target_host import host_target  # needs LLVM, which only a launch does

        if wanted_shape(kernel.shape) == "timed":
            found = load_timed(kernel, arg_types, dense, host_target())
            if found is not None:
                return found
        compiled = kernel.compile(arg_types, host_target(), dense)
        program = CpuProgram(compiled.address, host_target())
        return compiled, CheckedProgram(program, compiled, FaultRecord()) if compiled.checks else program

    def synchronize(self) -> None:
        pass

    def mark(self) -> int:
        return perf_counter_ns()

    def reached(self, mark: int) -> bool:
        return True

    def wait(self, mark: int) -> None:
        pass

    def elapsed_ns(self, first: int, second: int) -> int:
        return second - first


register_device("cpu", CpuDevice)
