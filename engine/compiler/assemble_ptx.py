"""Runs NVIDIA's assembler over PTX where it is installed: whether the text is right, and what the kernel costs.

`ptxas` is looked for on PATH and in the wheel `nvidia-cuda-nvcc`, which `pip install weft-engine[ptxas]` brings.
Nothing needs it but reports and tests: a driver assembles PTX by itself.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DeviceError

TIMEOUT = 120.0  # seconds for one module
_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")


@dataclass(frozen=True)
class Assembled:
    """One kernel as ptxas assembled it, for one architecture."""

    cubin: bytes
    registers: int  # of a thread, 32 bits each
    spilled: int  # bytes that a thread stores because registers do not suffice
    stack: int  # bytes of a thread's local memory: local arrays and what is spilled
    shared: int  # bytes of a block


@functools.cache
def find_ptxas() -> str | None:
    """The path of ptxas, or None."""
    found = shutil.which("ptxas")
    if found:
        return found
    for wheel in _WHEELS:
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name in ("ptxas", "ptxas.exe"):
                return str(file.locate())
    return None


def assemble(ptx: str | bytes, arch: str) -> Assembled:
    """Assembles a module of one kernel for an architecture.

    Raises DeviceError with what ptxas says when the text is not valid, and when there is no ptxas.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        raise DeviceError("ptxas is not installed: pip install weft-engine[ptxas]")
    with tempfile.TemporaryDirectory(prefix="weft-ptx-") as folder:
        source, image = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_bytes(ptx.encode() if isinstance(ptx, str) else ptx)
        try:
            done = subprocess.run([ptxas, "-v", "-arch", arch, str(source), "-o", str(image)], capture_output=True,
                                  text=True, timeout=TIMEOUT)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DeviceError(f"ptxas has not finished after {TIMEOUT:g} seconds") from None
        said = done.stdout + done.stderr
        if done.returncode:
            raise DeviceError("ptxas", done.returncode, said.strip().replace(folder, "")[:2000])
        return Assembled(image.read_bytes(), _figure(r"Used (\d+) registers", said),
                         _figure(r"(\d+) bytes spill stores", said), _figure(r"(\d+) bytes stack frame", said),
                         _figure(r"(\d+) bytes smem", said))  # fmt: skip


def _figure(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
