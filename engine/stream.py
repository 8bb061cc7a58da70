"""Streams and events: order of work on a device, and waiting for it.

On the cpu, work is done when a call returns. A GPU works while Python goes on: each stream is a queue of the driver, in
which work runs in the order of the calls, and events are the driver's, which note the GPU's own time. Memory comes and
goes in the order of the device's first stream, which waits for the others before it gives memory away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.context import Device, get_device, get_devices, recording
from engine.errors import DeviceError


class Event:
    """A point in a stream's order. Recording it notes the time, so that two events measure what lies between them."""

    def __init__(self, device: Any = None, enable_timing: bool = False, interprocess: bool = False):
        """Every event can be timed; events belong to one process, whatever `interprocess` says."""
        self.device: Device = get_device(device)
        self._mark: Any = None

    @property
    def is_complete(self) -> bool:
        """Whether the work recorded before this event is done; true for an event that was never recorded."""
        return self._mark is None or self.device.reached(self._mark)

    def record(self) -> None:
        """Place this event behind all work given to the device so far. In a capture it orders, and notes no time."""
        if recording.current() is None:
            self._mark = self.device.mark()

    def synchronize(self) -> None:
        """Wait until the work before this event is done."""
        if self._mark is not None:
            self.device.wait(self._mark)

    def elapsed_since(self, start: Event) -> float:
        """Milliseconds of the device from `start` to this event.

        Raises DeviceError unless both were recorded, on the same device.
        """
        if self._mark is None or start._mark is None:
            raise DeviceError("elapsed time needs two recorded events")
        if self.device is not start.device:
            raise DeviceError(f"elapsed time needs events of one device, not of '{start.device.name}' "
                              f"and '{self.device.name}'")  # fmt: skip
        return self.device.elapsed_ns(start._mark, self._mark) * 1e-6


class Stream:
    """Work that runs in order. On the cpu all streams run in the order of the calls."""

    def __init__(self, device: Any = None, priority: int = 0):
        """priority: a lower number is more urgent; the driver cuts it to what the GPU has. The cpu has none."""
        self.device: Device = get_device(device)
        make = getattr(self.device, "make_queue", None)
        self.queue = None if make is None else make(priority)

    @classmethod
    def first(cls, device: Device) -> Stream:
        """The stream that a device has from the start."""
        made = cls.__new__(cls)
        made.device, made.queue = device, None
        return made

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """What the device is given in the block goes to this stream."""
        if hasattr(self.device, "using"):
            with self.device.using(self.queue):
                yield
        else:
            yield

    @property
    def is_capturing(self) -> bool:
        """Whether what this thread gives to the stream becomes a graph."""
        return recording.current() is not None

    @property
    def is_complete(self) -> bool:
        """Whether all work given to the stream is done."""
        with self._in_use():
            return self.device.reached(self.device.mark())

    def record_event(self, event: Event | None = None) -> Event:
        """Place `event`, or a new one, behind the work given to this stream so far."""
        event = event or Event(self.device)
        with self._in_use():
            event.record()
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream start after `event`; Python waits for one of another device."""
        if event.device is not self.device:
            event.synchronize()
        elif event._mark is not None and hasattr(self.device, "hold"):
            with self._in_use():
                self.device.hold(event._mark)

    def wait_stream(self, other: Stream, event: Event | None = None) -> None:
        """Let later work of this stream start after the present work of `other`."""
        self.wait_event(other.record_event(event))

    def synchronize(self) -> None:
        """Wait until the work of this stream is done. Raises CaptureError in a capture, whose work has not begun."""
        recording.refuse("Stream.synchronize", "the work is not done before capture_launch")
        with self._in_use():
            self.device.wait(self.device.mark())


_current: dict[str, Stream] = {}


def get_stream(device: Any = None) -> Stream:
    """The stream that work on a device goes to where none is named."""
    home = get_device(device)
    if home.name not in _current:
        _current[home.name] = Stream.first(home)
    return _current[home.name]


def set_stream(stream: Stream, device: Any = None, sync: bool = False) -> None:
    """Make `stream` the one of its device. sync: its work starts after that of the stream before it."""
    if device is not None and get_device(device) is not stream.device:
        raise DeviceError(f"set_stream: the stream belongs to device '{stream.device.name}'")
    before = get_stream(stream.device)
    if sync:
        stream.wait_stream(before)
    _current[stream.device.name] = stream
    if hasattr(stream.device, "use"):
        stream.device.use(stream.queue)


class ScopedStream:
    """`with ScopedStream(stream):` makes `stream` the one of its device inside the block; None changes nothing.

    sync_enter: its work starts after that of the stream before; sync_exit: that one goes on after the block's work.
    """

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False):
        self.stream, self.sync_enter, self.sync_exit = stream, sync_enter, sync_exit
        self.device = None if stream is None else stream.device
        self.saved_stream: Stream | None = None

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            self.saved_stream = get_stream(self.stream.device)
            set_stream(self.stream, sync=self.sync_enter)
        return self.stream

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None and self.saved_stream is not None:
            if self.sync_exit:
                self.saved_stream.wait_stream(self.stream)
            set_stream(self.saved_stream)


def record_event(event: Event | None = None) -> Event:
    """Place `event`, or a new one, behind the work of the default device's stream."""
    return get_stream().record_event(event)


def wait_event(event: Event) -> None:
    """Let later work of the default device's stream start after `event`."""
    get_stream().wait_event(event)


def wait_stream(other: Stream, event: Event | None = None) -> None:
    """Let later work of the default device's stream start after the present work of `other`."""
    get_stream().wait_stream(other, event)


def get_event_elapsed_time(start: Event, end: Event, synchronize: bool = True) -> float:
    """Milliseconds between two recorded events."""
    return end.elapsed_since(start)


def synchronize_event(event: Event) -> None:
    """Wait until the work before `event` is done."""
    event.synchronize()


def synchronize_stream(stream: Stream) -> None:
    """Wait until the work of `stream` is done."""
    stream.synchronize()


def synchronize() -> None:
    """Wait for all work on all devices."""
    for device in get_devices():
        device.synchronize()


def synchronize_device(device: Any = None) -> None:
    """Wait for all work on one device."""
    get_device(device).synchronize()
