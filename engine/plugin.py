"""Name → object registries that installed packages extend, and plugins that are native shared libraries.

A package adds to a registry by an entry point in the group `weft.<registry>` (`weft.solvers`, `weft.importers`, ...),
which is looked up when a name is asked for that is not there yet, or when the names are listed. A native plugin is a
shared library with the five C functions of docs/plugins.md.
"""

from __future__ import annotations

import ctypes
import difflib
import importlib
import importlib.metadata
import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import PluginError

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")


class Registry(Generic[T]):
    """The objects of one kind by name. Names are unique: a second object under a name is refused."""

    def __init__(self, kind: str, doc: str):
        self.kind, self.group, self.__doc__ = kind, f"weft.{kind}", doc
        self._found: dict[str, T] = {}
        self._places: dict[str, str] = {}
        self._entry_points: dict[str, importlib.metadata.EntryPoint] | None = None
        self._lock = threading.RLock()

    def register(self, name: str, item: T | None = None) -> Callable[[T], T]:
        """`registry.register(name, item)`, or `@registry.register(name)` above a class or function."""

        def add(item: T) -> T:
            with self._lock:
                if self._found.get(name, item) is not item:
                    raise PluginError(self.kind, name, "is registered already")
                self._found[name] = item
            return item

        if item is not None:
            add(item)
        return add

    def provide(self, name: str, place: str) -> None:
        """`name` is the object at `place` ("package.module:attribute"), imported when it is asked for."""
        with self._lock:
            if self._places.get(name, place) != place:
                raise PluginError(self.kind, name, f"is provided already, by {self._places[name]}")
            self._places[name] = place

    def get(self, name: str) -> T:
        """The object registered as `name`; `PluginError` if there is none or it cannot be imported."""
        with self._lock:
            if name not in self._found:
                self.register(name, self._load(name))
            return self._found[name]

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported for it."""
        return sorted({*self._found, *self._places, *self._installed()})

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def _load(self, name: str) -> T:
        if name in self._places:
            module, _, attribute = self._places[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        entry_point = self._installed().get(name)
        if entry_point is None:
            near = difflib.get_close_matches(name, self.names(), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(self.names()) or 'none'}"
            raise PluginError(self.kind, name, f"is not known; {hint}")
        try:
            return entry_point.load()
        except Exception as error:  # a foreign package may raise anything while it is imported
            raise PluginError(self.kind, name, f"{entry_point.value} cannot be loaded: {error}") from error

    def _installed(self) -> dict[str, importlib.metadata.EntryPoint]:
        if self._entry_points is None:
            self._entry_points = {entry.name: entry for entry in importlib.metadata.entry_points(group=self.group)}
        return self._entry_points


solvers: Registry[Any] = Registry("solvers", "solver classes, by the name that `Simulation(solver=...)` takes")
importers: Registry[Any] = Registry("importers", "functions that read a scene file, by file name extension ('.usda')")
devices: Registry[Any] = Registry("devices", "device classes, by the part of a device name before the colon ('cuda')")
ir_passes: Registry[Any] = Registry("ir_passes", "functions over the IR of a kernel")
front_ends: Registry[Any] = Registry("front_ends", "functions that make HIR from a source, for `@kernel(front_end=)`")
front_ends.provide("python", "engine.compiler.frontend:lower_function")
shapes: Registry[Any] = Registry("shapes", "collision shapes beyond the built-in ones")


ABI = 1
_ERROR_BYTES = 256


class NativeField(ctypes.Structure):
    """One state field as a native plugin sees it (64 bytes): `weft_field` of docs/plugins.md. Strides are in bytes."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("row_stride", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("dtype", ctypes.c_char * 8),
        ("writable", ctypes.c_int64),
    ]


# name of each of the five C functions -> (result, parameters)
_C_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "weft_plugin_abi": (ctypes.c_uint32, []),
    "weft_plugin_name": (ctypes.c_char_p, []),
    "weft_plugin_create": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64]),
    "weft_plugin_step": (
        ctypes.c_int32,
        [ctypes.c_void_p, ctypes.POINTER(NativeField), ctypes.c_int64, ctypes.c_double, ctypes.c_double]
        + [ctypes.c_char_p, ctypes.c_int64],
    ),
    "weft_plugin_destroy": (None, [ctypes.c_void_p]),
}


class NativePlugin:
    """A shared library that takes part in a step; it gets the state in place, through strides, without a copy."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        try:
            library = ctypes.CDLL(self.path)
        except OSError as error:
            raise PluginError("native", self.path, str(error)) from None
        self._call: dict[str, Any] = {}
        for name, (result, parameters) in _C_FUNCTIONS.items():
            function = getattr(library, name, None)
            if function is None:
                raise PluginError("native", self.path, f"has no function {name}")
            function.restype, function.argtypes = result, parameters
            self._call[name] = function
        if (abi := self._call["weft_plugin_abi"]()) != ABI:
            raise PluginError("native", self.path, f"is made for ABI {abi}, this engine has ABI {ABI}")
        self.name = (self._call["weft_plugin_name"]() or b"").decode()

    def create(self, options: Mapping[str, Any] | None = None) -> NativeInstance:
        """A new instance; `options` reach it as JSON. `PluginError` with the plugin's own message if it refuses."""
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        handle = self._call["weft_plugin_create"](json.dumps(dict(options or {})).encode(), message, _ERROR_BYTES)
        if not handle:
            raise PluginError("native", self.name, message.value.decode(errors="replace") or "could not be created")
        return NativeInstance(self, handle)


class NativeInstance:
    """What `NativePlugin.create` made; `close()` it, or use it as a context manager."""

    def __init__(self, plugin: NativePlugin, handle: int):
        self.plugin, self._handle = plugin, handle

    def step(self, fields: Mapping[str, np.ndarray], time: float, dt: float) -> None:
        """Runs the plugin once over `fields`, arrays of 1 or 2 dimensions, from `time` for `dt` seconds."""
        if not self._handle:
            raise PluginError("native", self.plugin.name, "is closed")
        table = (NativeField * len(fields))(*(_native_field(name, array) for name, array in fields.items()))
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        call = self.plugin._call["weft_plugin_step"]
        status = call(self._handle, table, len(fields), time, dt, message, _ERROR_BYTES)
        if status:
            reason = message.value.decode(errors="replace") or "failed"
            raise PluginError("native", self.plugin.name, f"{reason} (status {status})")

    def close(self) -> None:
        """Frees the instance; a second call does nothing."""
        handle, self._handle = self._handle, 0
        if handle:
            self.plugin._call["weft_plugin_destroy"](handle)

    def __enter__(self) -> NativeInstance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _native_field(name: str, array: np.ndarray) -> NativeField:
    if array.ndim not in (1, 2):
        raise PluginError("native", name, f"a field has one or two dimensions, this one has shape {array.shape}")
    rows, columns = array.shape[0], array.shape[1] if array.ndim == 2 else 1
    column_stride = array.strides[1] if array.ndim == 2 else array.itemsize
    writable = int(array.flags.writeable)
    strides = (array.strides[0], column_stride)
    return NativeField(name.encode(), array.ctypes.data, rows, columns, *strides, array.dtype.str.encode(), writable)
