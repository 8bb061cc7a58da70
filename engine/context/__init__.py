"""Devices, memory, arrays, tables and launches: what runs kernels. Knows nothing of physics."""

from engine.context import device_cpu as device_cpu  # registers the cpu
from engine.context import device_cuda as device_cuda  # registers the GPUs, which are looked for when one is named
from engine.context.array import array
from engine.context.array_exchange import (
    device_from_torch,
    device_to_torch,
    from_dlpack,
    from_jax,
    from_torch,
    to_dlpack,
    to_jax,
    to_torch,
)
from engine.context.array_indexed import (
    indexedarray,
    indexedarray1d,
    indexedarray2d,
    indexedarray3d,
    indexedarray4d,
)
from engine.context.array_make import (
    array1d,
    array2d,
    array3d,
    array4d,
    clone,
    copy,
    empty,
    empty_like,
    from_numpy,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from engine.context.capture import (
    ScopedCapture,
    capture_begin,
    capture_debug_dot_print,
    capture_end,
    capture_if,
    capture_launch,
    capture_stamp,
    capture_while,
    is_conditional_graph_supported,
)
from engine.context.device import Device, get_device, get_devices
from engine.context.foreign_ptx import load_ptx
from engine.context.graph import Graph
from engine.context.launch import Indirect, Launch, indirect, launch, launch_tiled
from engine.context.map import map
from engine.context.table import Table, make_table, table

__all__ = [
    "Device", "Graph", "Indirect", "Launch", "Table", "array", "array1d", "array2d", "array3d", "array4d",
    "ScopedCapture", "capture_begin", "capture_debug_dot_print", "capture_end", "capture_if", "capture_launch",
    "capture_stamp", "capture_while", "is_conditional_graph_supported", "clone",
    "copy", "device_from_torch", "device_to_torch", "empty", "empty_like", "from_dlpack", "from_jax", "from_numpy",
    "from_torch", "full", "full_like", "get_device", "get_devices", "indexedarray", "indexedarray1d",
    "indexedarray2d", "indexedarray3d", "indexedarray4d", "indirect", "launch", "launch_tiled", "load_ptx",
    "make_table", "map", "ones", "ones_like", "table", "to_dlpack", "to_jax", "to_torch", "zeros", "zeros_like",
]  # fmt: skip
