"""What keeps an NVIDIA GPU from working on this machine, one line for each thing, with its mend.

The facts come from the driver (`cuda.bindings.driver`, or any object with its calls) and from files below a root
folder: the PCI devices, what the kernel module says in `/proc`, the nodes in `/dev`. Under WSL 2 the kernel module is
Windows' own: Linux sees one node for all GPUs, `/dev/dxg`, and libcuda where Windows puts it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.context.graph_conditions import CONDITIONS_SINCE

NVIDIA_PCI = "0x10de"
LEAST_CAPABILITY = (7, 5)
LEAST_LOCKED = 64 << 20  # bytes of pinned memory that a process should be allowed
_NO_GPU = "no NVIDIA GPU; the device 'emu' runs GPU code without one"
_LINUX_MEND = "install the NVIDIA driver; in a container, `--gpus all`"
_WSL_NODE, _WSL_FOLDER = "dev/dxg", "usr/lib/wsl/lib"
_LINUX_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64")


@dataclass(frozen=True)
class GpuCheck:
    """One thing that a GPU needs: whether it is there, what was found, and what to do."""

    name: str
    ok: bool
    text: str


def diagnose(load_driver: Callable[[], Any], needed_cuda: Callable[[int], tuple[int, int]], locked: int,
             root: Path = Path("/")) -> list[GpuCheck]:  # fmt: skip
    """Every check that can be made; one line that all is well on a machine that has no GPU.

    load_driver: gives the driver, or raises where it is not there. needed_cuda: the oldest CUDA version whose driver
    reads the PTX for an architecture (10·major + minor). locked: bytes that this process may lock in memory, −1: any.
    """
    if _is_wsl(root):
        return _diagnose_wsl(load_driver, needed_cuda, locked, root)
    has_card = any(_read(vendor) == NVIDIA_PCI for vendor in root.glob("sys/bus/pci/devices/*/vendor"))
    has_module = (root / "proc/driver/nvidia").exists()
    nodes = sorted(root.glob("dev/nvidia[0-9]*"))
    if not (has_card or has_module or nodes):
        return [GpuCheck("gpu", True, _NO_GPU)]
    if not has_module:
        mend = "install the NVIDIA driver, or run `modprobe nvidia`"
        return [GpuCheck("gpu module", False, f"there is an NVIDIA GPU, but the kernel module is not loaded: {mend}")]
    return [_nodes(nodes), _uvm(root), _locked(locked), *_bound(load_driver, needed_cuda, _LINUX_MEND)]


def _is_wsl(root: Path) -> bool:
    """Whether Linux runs inside Windows: the kernel is Microsoft's."""
    return "microsoft" in _read(root / "proc/sys/kernel/osrelease").lower()


def _diagnose_wsl(load_driver: Callable[[], Any], needed_cuda: Callable[[int], tuple[int, int]], locked: int,
                  root: Path) -> list[GpuCheck]:  # fmt: skip
    """The checks under WSL. The node is there for GPUs of any maker, so that libcuda tells whether one is NVIDIA's."""
    if not (root / _WSL_NODE).exists():
        hint = "for the one of Windows: WSL 2 (`wsl --set-version`, `wsl --update`); in a container `--gpus all`"
        return [GpuCheck("gpu", True, f"{_NO_GPU} ({hint})")]
    libraries = sorted((root / _WSL_FOLDER).glob("libcuda.so*"))
    if not libraries:
        hint = f"Windows put no libcuda into /{_WSL_FOLDER}: if it has an NVIDIA GPU, install its driver on Windows"
        return [GpuCheck("gpu", True, f"{_NO_GPU} ({hint})")]
    found = GpuCheck("gpu nodes", True, f"/{_WSL_NODE}, and {libraries[0].name} in /{_WSL_FOLDER} (WSL)")
    mend = f"add /{_WSL_FOLDER} to LD_LIBRARY_PATH"
    shadow = next((f"/{folder}/libcuda.so.1" for folder in _LINUX_FOLDERS if (root / folder / "libcuda.so.1").exists()),
                  None)  # fmt: skip
    if shadow is not None:
        mend = f"under WSL the driver is that of Windows: remove the Linux driver that {shadow} belongs to, or {mend}"
    return [found, _locked(locked), *_bound(load_driver, needed_cuda, mend)]


def _bound(load_driver: Callable[[], Any], needed_cuda: Callable[[int], tuple[int, int]], mend: str) -> list[GpuCheck]:
    """What there is to say of the binding and of the driver behind it; `mend` is what to do if libcuda is missing."""
    try:
        driver = load_driver()
    except ImportError:
        return [GpuCheck("gpu binding", False, "the package cuda-python is not installed: pip install cuda-python")]
    return _ask_driver(driver, needed_cuda, mend)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _nodes(nodes: list[Path]) -> GpuCheck:
    if nodes:
        return GpuCheck("gpu nodes", True, ", ".join(node.name for node in nodes))
    text = "the GPU has no /dev/nvidia*: start the container with `--gpus all`; outside of one, run `nvidia-modprobe`"
    return GpuCheck("gpu nodes", False, text)


def _uvm(root: Path) -> GpuCheck:
    if (root / "dev/nvidia-uvm").exists():
        return GpuCheck("gpu uvm", True, "/dev/nvidia-uvm is there")
    text = "/dev/nvidia-uvm is missing: run `nvidia-modprobe -u -c=0` as root, or `modprobe nvidia-uvm`"
    return GpuCheck("gpu uvm", False, text)


def _locked(locked: int) -> GpuCheck:
    if locked < 0 or locked >= LEAST_LOCKED:
        size = "without limit" if locked < 0 else f"{locked >> 20} MiB"
        return GpuCheck("gpu pinned", True, f"memory can be locked: {size}")
    text = f"only {locked >> 10} KiB of memory can be locked: `ulimit -l unlimited`, or docker's `--ulimit memlock=-1`"
    return GpuCheck("gpu pinned", False, text)


def _ask_driver(driver: Any, needed_cuda: Callable[[int], tuple[int, int]], mend: str) -> list[GpuCheck]:
    """What the driver says of itself and of each GPU."""
    try:
        status = driver.cuInit(0)[0]
    except Exception as error:  # the binding has an error of its own for a library that is not there
        return [GpuCheck("gpu driver", False, f"libcuda is missing ({type(error).__name__}): {mend}")]
    if status != 0:
        name = driver.cuGetErrorName(status)[1].decode()
        again = "restart after a change of the driver, and look at `nvidia-smi`"
        return [GpuCheck("gpu driver", False, f"cuInit says {name}: {again}")]
    version = int(driver.cuDriverGetVersion()[1])
    has = version // 1000, version % 1000 // 10
    text = f"CUDA {has[0]}.{has[1]}"
    if has < CONDITIONS_SINCE:
        least = "{}.{}".format(*CONDITIONS_SINCE)
        text += f"; the host reads the conditions of graphs, a driver for CUDA {least} would let the GPU do it"
    checks = [GpuCheck("gpu driver", True, text)]
    count = int(driver.cuDeviceGetCount()[1])
    if not count:
        checks.append(GpuCheck("gpu count", False, "the driver shows no GPU: look at CUDA_VISIBLE_DEVICES"))
    for number in range(count):
        checks.append(_one_gpu(driver, number, has, needed_cuda))
    return checks


def _one_gpu(driver: Any, number: int, has: tuple[int, int], needed_cuda: Callable[[int], tuple[int, int]]) -> GpuCheck:
    """Whether the GPU is new enough for the engine, and the driver new enough for the GPU's PTX."""
    kinds = driver.CUdevice_attribute
    device = driver.cuDeviceGet(number)[1]
    major, minor = (
        int(driver.cuDeviceGetAttribute(kind, device)[1])
        for kind in (kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                     kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    )  # fmt: skip
    name = driver.cuDeviceGetName(256, device)[1].decode().rstrip("\0")
    label, what = f"gpu {number}", f"{name}, compute capability {major}.{minor}"
    if (major, minor) < LEAST_CAPABILITY:
        least = "{}.{}".format(*LEAST_CAPABILITY)
        return GpuCheck(label, False, f"{what}: {least} is needed (Turing or newer); use 'cpu' or 'emu'")
    needed = needed_cuda(10 * major + minor)
    if has < needed:
        text = f"{what}: its PTX needs a driver for CUDA {needed[0]}.{needed[1]}, this one has {has[0]}.{has[1]}"
        mend = "install a newer driver, or unset ENGINE_PTX_VERSION if it asks for more than the GPU needs"
        return GpuCheck(label, False, f"{text}: {mend}")
    return GpuCheck(label, True, what)
