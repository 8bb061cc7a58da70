"""Which device is meant where none is named, what devices there are, and waiting for them."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from engine.config import config
from engine.context.device import Device, get_device, get_devices
from engine.errors import DeviceError


def set_device(device: str | Device) -> None:
    """Makes `device` the default one."""
    config.device = get_device(device).name


def get_preferred_device() -> Device:
    """The default device."""
    return get_device(None)


class ScopedDevice:
    """`with ScopedDevice("cpu") as device:` makes a device the default one inside the block."""

    def __init__(self, device: str | Device | None):
        self.device = get_device(device)
        self._before: list[str] = []

    def __enter__(self) -> Device:
        self._before.append(config.device)
        config.device = self.device.name
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        config.device = self._before.pop()


def is_device_available(device: str | Device) -> bool:
    """Whether `device` can be used here."""
    try:
        get_device(device)
    except DeviceError:
        return False
    return True


def is_cpu_available() -> bool:
    """Whether there is a cpu device: always."""
    return True


def get_cuda_devices() -> list[Device]:
    """The NVIDIA GPUs that can be used."""
    return [device for device in get_devices() if device.is_cuda]


def get_cuda_driver_version() -> tuple[int, int] | None:
    """(major, minor) of the CUDA version that the driver supports; None where no NVIDIA GPU can be used."""
    return None


def get_cuda_device_count() -> int:
    """How many NVIDIA GPUs can be used."""
    return len(get_cuda_devices())


def is_cuda_available() -> bool:
    """Whether an NVIDIA GPU can be used."""
    return get_cuda_device_count() > 0


def get_cuda_device(ordinal: int | None = None) -> Device:
    """The NVIDIA GPU with this number. Raises DeviceError where there is none."""
    return get_device(f"cuda:{ordinal or 0}")


def synchronize_device(device: str | Device | None = None) -> None:
    """Waits for all work of one device."""
    get_device(device).synchronize()


def synchronize(device: Any = None) -> None:
    """Waits for all work of all devices."""
    for each in get_devices():
        each.synchronize()


def init() -> None:
    """Nothing has to be initialised; scripts may call it."""


def is_mempool_supported(device: str | Device | None = None) -> bool:
    """Whether a GPU has its own memory pool that freed memory goes back to; False for the cpu."""
    return get_device(device).is_cuda


is_mempool_enabled = is_mempool_supported


def is_peer_access_supported(target_device: str | Device, peer_device: str | Device) -> bool:
    """Whether one GPU can reach the memory of another, so that copies between them do not go through the host."""
    target, peer = get_device(target_device), get_device(peer_device)
    driver = getattr(target, "driver", None)
    return driver is not None and driver is getattr(peer, "driver", None) and bool(peer.reaches(target))  # type: ignore[attr-defined]


is_peer_access_enabled = is_mempool_access_supported = is_mempool_access_enabled = is_peer_access_supported
