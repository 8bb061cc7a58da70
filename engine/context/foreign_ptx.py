"""PTX that another compiler made: loaded on a device and launched with arrays and NumPy scalars."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engine.context.array import array
from engine.context.device import get_device
from engine.context.device_cuda import CudaDevice
from engine.errors import DeviceError, LaunchError

Extents = int | tuple[int, ...]


class PtxKernel:
    """One entry of a PTX module."""

    def __init__(self, name: str, device: CudaDevice, function: Any):
        self.name, self.device, self._function = name, device, function
        self.sizes = _parameter_sizes(device, function)

    def launch(self, grid: Extents, block: Extents, args: Sequence[Any] = (), shared: int = 0) -> None:
        """Run `grid` blocks of `block` threads (1 to 3 extents each), with `shared` bytes of dynamic shared memory.

        args: an array of the same device is passed as the pointer to its first element, a NumPy scalar by its value.
        Raises LaunchError for an argument that does not fit its parameter, DeviceError for what the driver refuses.
        """
        if len(args) != len(self.sizes):
            raise LaunchError(self.name, "args", f"{len(self.sizes)} arguments", str(len(args)))
        values = [self._value(place, arg) for place, arg in enumerate(args)]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*[v.ctypes.data for v in values])
        self.device.launch(self._function, _three(grid), _three(block), shared, ctypes.addressof(pointers))
        self.device.synchronize()

    def _value(self, place: int, arg: Any) -> np.ndarray:
        """The bytes of an argument."""
        if isinstance(arg, array):
            if arg.device is not self.device:
                raise LaunchError(
                    self.name, f"args[{place}]", f"memory of '{self.device.name}'", f"'{arg.device.name}'"
                )
            value = np.array([arg.ptr], np.uint64)
        elif isinstance(arg, np.generic):
            value = np.array([arg])
        else:
            raise LaunchError(self.name, f"args[{place}]", "an array or a NumPy scalar", f"{arg!r}",
                              "numpy.int32(…), numpy.float32(…) say how wide it is")  # fmt: skip
        if value.nbytes != self.sizes[place]:
            raise LaunchError(self.name, f"args[{place}]", f"{self.sizes[place]} bytes", f"{value.nbytes} ({arg!r})")
        return value


class PtxModule(Mapping[str, PtxKernel]):
    """The kernels of a PTX text on one device, by name."""

    def __init__(self, text: str, device: CudaDevice):
        self.text, self.device = text, device
        self._module = device.load_module(text.encode())
        self._kernels: dict[str, PtxKernel] = {}

    def __getitem__(self, name: str) -> PtxKernel:
        if name not in self._kernels:
            function = self.device.check("cuModuleGetFunction", self._module, name.encode())
            self._kernels[name] = PtxKernel(name, self.device, function)
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        from engine.compiler.ptx_parser import parse

        return [name for name, entry in parse(self.text).functions.items() if entry.is_kernel]


def load_ptx(text: str, device: Any = None) -> PtxModule:
    """Load PTX text: `load_ptx(text, device="emu")["name"].launch(grid, block, args)`.

    Raises DeviceError with the log of the driver's compiler for PTX that it refuses, TypeError for a device that is no
    GPU.
    """
    home = get_device(device)
    if not isinstance(home, CudaDevice):
        raise TypeError(f"PTX runs on 'cuda' and 'emu' devices, not on '{home.name}'")
    return PtxModule(text, home)


def _parameter_sizes(device: CudaDevice, function: Any) -> list[int]:
    """Bytes of each parameter, which the driver is asked for one by one."""
    sizes: list[int] = []
    while True:
        try:
            sizes.append(device.check("cuFuncGetParamInfo", function, len(sizes))[1])
        except DeviceError as error:
            if "INVALID_VALUE" not in error.name:
                raise
            return sizes


def _three(extents: Extents) -> tuple[int, int, int]:
    given = (extents,) if isinstance(extents, int) else tuple(extents)
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z
