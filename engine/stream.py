"""Streams and events: order of work on a device, and waiting for it. On the cpu, work is done when a call returns."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from engine.context import Device, get_device, get_devices
from engine.errors import DeviceError


class Event:
    """A point in a stream's order. Recording it notes the time, so that two events measure what lies between them."""

    def __init__(self, device: Any = None):
        self.device: Device = get_device(device)
        self._recorded_at: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the work recorded before this event is done; true for an event that was never recorded."""
        return True

    def record(self) -> None:
        """Place this event behind all work given to the device so far."""
        self.device.synchronize()
        self._recorded_at = perf_counter_ns()

    def synchronize(self) -> None:
        """Wait until the work before this event is done."""

    def elapsed_since(self, start: Event) -> float:
        """Milliseconds from `start` to this event. Raises DeviceError unless both were recorded."""
        if self._recorded_at is None or start._recorded_at is None:
            raise DeviceError("elapsed time needs two recorded events")
        return (self._recorded_at - start._recorded_at) * 1e-6


class Stream:
    """Work that runs in order. Streams of the cpu all run at once, in the order of the calls."""

    def __init__(self, device: Any = None):
        self.device: Device = get_device(device)

    def record_event(self, event: Event | None = None) -> Event:
        """Place `event`, or a new one, behind the work given to this stream so far."""
        event = event or Event(self.device)
        event.record()
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream start after `event`."""
        event.synchronize()

    def wait_stream(self, other: Stream) -> None:
        """Let later work of this stream start after the present work of `other`."""
        self.wait_event(other.record_event())

    def synchronize(self) -> None:
        """Wait until the work of this stream is done."""
        self.device.synchronize()


def get_event_elapsed_time(start: Event, end: Event) -> float:
    """Milliseconds between two recorded events."""
    return end.elapsed_since(start)


def synchronize() -> None:
    """Wait for all work on all devices."""
    for device in get_devices():
        device.synchronize()


def synchronize_device(device: Any = None) -> None:
    """Wait for all work on one device."""
    get_device(device).synchronize()
