"""Each thing that a GPU needs is found missing, alone, and its mend is said. The driver is the emulated one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda.bindings.driver as real
import pytest

from engine.compiler.target_ptx import newest_for, ptx_target
from engine.context.emulator.driver import Driver
from engine.context.gpu_doctor import GpuCheck, diagnose


def needed(arch: int) -> tuple[int, int]:
    return ptx_target(newest_for(arch)).driver


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The root of a machine with one GPU and all that it needs."""
    card = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    for folder in (card, tmp_path / "proc/driver/nvidia", tmp_path / "dev"):
        folder.mkdir(parents=True)
    (card / "vendor").write_text("0x10de\n")
    (tmp_path / "dev/nvidia0").touch()
    (tmp_path / "dev/nvidia-uvm").touch()
    return tmp_path


def wrong(root: Path, driver: Any = None, locked: int = -1) -> list[GpuCheck]:
    """The checks that fail."""
    return [check for check in diagnose(lambda: driver or Driver(80), needed, locked, root) if not check.ok]


def test_all_is_well(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    checks = diagnose(lambda: Driver(90), needed, 1 << 30, machine)
    assert [check.name for check in checks] == ["gpu nodes", "gpu uvm", "gpu pinned", "gpu driver", "gpu 0"]
    assert all(check.ok for check in checks) and "compute capability 9.0" in checks[-1].text
    (only,) = diagnose(lambda: pytest.fail("nobody asks a driver"), needed, 0, tmp_path_factory.mktemp("empty"))
    assert only.ok and "no NVIDIA GPU" in only.text


def test_a_gpu_that_is_newer_than_the_engine_runs_the_ptx_of_an_older_one(machine: Path) -> None:
    assert [newest_for(arch) for arch in (75, 80, 88, 90, 103, 121, 200)] == [
        "sm_75", "sm_80", "sm_87", "sm_90", "sm_100", "sm_120", "sm_120"]  # fmt: skip
    assert not wrong(machine, Driver(103))


def test_what_the_machine_lacks(machine: Path) -> None:
    (machine / "dev/nvidia-uvm").unlink()
    (uvm,) = wrong(machine)
    assert uvm.name == "gpu uvm" and "nvidia-modprobe -u" in uvm.text
    (machine / "dev/nvidia-uvm").touch()
    (machine / "dev/nvidia0").unlink()
    (nodes,) = wrong(machine)
    assert nodes.name == "gpu nodes" and "--gpus all" in nodes.text
    (machine / "dev/nvidia0").touch()
    (pinned,) = wrong(machine, locked=65_536)
    assert pinned.name == "gpu pinned" and "64 KiB" in pinned.text and "ulimit -l" in pinned.text
    (machine / "proc/driver/nvidia").rmdir()
    (module,) = wrong(machine)
    assert module.name == "gpu module" and "modprobe nvidia" in module.text


@pytest.fixture
def windows(tmp_path: Path) -> Path:
    """The root of WSL 2 on a machine with an NVIDIA GPU: no PCI device, no kernel module, no /dev/nvidia*."""
    for folder in ("proc/sys/kernel", "dev", "usr/lib/wsl/lib", "usr/lib/x86_64-linux-gnu"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("5.15.153.1-microsoft-standard-WSL2\n")
    (tmp_path / "dev/dxg").touch()
    (tmp_path / "usr/lib/wsl/lib/libcuda.so.1").touch()
    return tmp_path


def test_under_wsl_nothing_of_linux_is_asked_for(windows: Path) -> None:
    checks = diagnose(lambda: Driver(89), needed, -1, windows)
    assert [check.name for check in checks] == ["gpu nodes", "gpu pinned", "gpu driver", "gpu 0"]
    assert all(check.ok for check in checks) and "/dev/dxg, and libcuda.so.1 in /usr/lib/wsl/lib" in checks[0].text
    (old,) = wrong(windows, Changed(70))
    assert old.name == "gpu 0" and "7.5 is needed" in old.text
    (pinned,) = wrong(windows, locked=65_536)
    assert pinned.name == "gpu pinned"


def test_what_wsl_lacks(windows: Path) -> None:
    no_library = SimpleNamespace(cuInit=absent)
    (path,) = wrong(windows, no_library)
    assert path.name == "gpu driver" and path.text.endswith("add /usr/lib/wsl/lib to LD_LIBRARY_PATH")
    (windows / "usr/lib/x86_64-linux-gnu/libcuda.so.1").touch()
    (shadow,) = wrong(windows, no_library)
    assert "remove the Linux driver that /usr/lib/x86_64-linux-gnu/libcuda.so.1 belongs to" in shadow.text
    (windows / "usr/lib/wsl/lib/libcuda.so.1").unlink()
    (none,) = diagnose(lambda: pytest.fail("nobody asks a driver"), needed, -1, windows)
    assert none.ok and "no NVIDIA GPU" in none.text and "install its driver on Windows" in none.text
    (windows / "dev/dxg").unlink()
    (none,) = diagnose(lambda: pytest.fail("nobody asks a driver"), needed, -1, windows)
    assert none.ok and "`wsl --update`" in none.text


def absent(flags: int) -> None:
    """`cuInit` of the real binding without libcuda."""
    raise RuntimeError("libcuda.so.1")


class Changed(Driver):
    """A driver some of whose calls give something else."""

    def __init__(self, arch: int = 80, **results: tuple[Any, ...]):
        super().__init__(arch)
        for name, result in results.items():
            setattr(self, name, lambda *args, result=result: result)


def test_what_the_driver_lacks(machine: Path) -> None:
    no_library = SimpleNamespace(cuInit=absent)
    ok = real.CUresult.CUDA_SUCCESS
    for driver, name, text in (
        (no_library, "gpu driver", "libcuda is missing (RuntimeError): install the NVIDIA driver"),
        (Changed(cuInit=(real.CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,)), "gpu driver", "SYSTEM_DRIVER_MISMATCH"),
        (Changed(cuDeviceGetCount=(ok, 0)), "gpu count", "CUDA_VISIBLE_DEVICES"),
        (Changed(70), "gpu 0", "compute capability 7.0: 7.5 is needed"),
        (Changed(120, cuDriverGetVersion=(ok, 12_040)), "gpu 0",
         "needs a driver for CUDA 12.8, this one has 12.4: install a newer driver"),
    ):  # fmt: skip
        (check,) = wrong(machine, driver)
        assert check.name == name and text in check.text

    older = Changed(cuDriverGetVersion=(ok, 12_020))
    (said,) = [c for c in diagnose(lambda: older, needed, -1, machine) if c.name == "gpu driver"]
    assert said.ok and "the host reads the conditions of graphs, a driver for CUDA 12.4" in said.text

    def no_binding() -> None:
        raise ImportError

    checks = diagnose(no_binding, needed, -1, machine)
    assert not checks[-1].ok and "pip install cuda-python" in checks[-1].text
