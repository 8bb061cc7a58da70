"""Weft: a GPU physics engine in Python, where every step is a kernel.

Kernel programming (names as in NVIDIA Warp): kernel, func, struct, table, launch, array, vec3, tid, …
Physics (names as in Newton): sim.ModelBuilder, sim.Simulation, load, restore. docs/ holds the language and the state.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from engine import context, errors
from engine.compiler import lang
from engine.compiler.function import Func as Function
from engine.compiler.kernel import Kernel, address_of, func_native, overload
from engine.compiler.lang import (
    bool_,
    constant,
    float16,
    float32,
    float64,
    func,
    int8,
    int16,
    int32,
    int64,
    kernel,
    static,
    struct,
    tid,
    uint8,
    uint16,
    uint32,
    uint64,
)
from engine.compiler.modules import (
    Module,
    force_load,
    get_module,
    get_module_options,
    load_module,
    set_module_options,
)
from engine.compiler.types import AnyFloat as Float
from engine.compiler.types import AnyInt as Int
from engine.compiler.types import AnyScalar as Scalar
from engine.config import DeterministicMode, config
from engine.context import (
    Device,
    Graph,
    Indirect,
    Launch,
    ScopedCapture,
    Table,
    array,
    array1d,
    array2d,
    array3d,
    array4d,
    capture_begin,
    capture_debug_dot_print,
    capture_end,
    capture_if,
    capture_launch,
    capture_stamp,
    capture_while,
    clone,
    copy,
    empty,
    empty_like,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    get_device,
    get_devices,
    indirect,
    is_conditional_graph_supported,
    launch,
    make_table,
    ones,
    ones_like,
    table,
    zeros,
    zeros_like,
)
from engine.context.scope import (
    ScopedDevice,
    get_cuda_device,
    get_cuda_device_count,
    get_cuda_devices,
    get_cuda_driver_version,
    get_preferred_device,
    init,
    is_cpu_available,
    is_cuda_available,
    is_device_available,
    is_mempool_access_enabled,
    is_mempool_access_supported,
    is_mempool_enabled,
    is_mempool_supported,
    is_peer_access_enabled,
    is_peer_access_supported,
    set_device,
    synchronize,
    synchronize_device,
)
from engine.errors import CaptureError, CompileError, DeviceError, Error, LaunchError, SceneError, SimulationError

if TYPE_CHECKING:
    from engine import debug, geom, plugin, sim, stream, timer, volume
    from engine.context.tape import Tape
    from engine.sim.load import load
    from engine.sim.simulation import restore

__version__ = "0.1.0"

# the levels that `config.log_level` takes, as in Warp and in `logging`
LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR = 10, 20, 30, 40

# modules and functions that are imported when first used: physics is not needed to launch a kernel
_MODULES = ("sim", "geom", "geometry", "volume", "debug", "timer", "plugin", "stream", "errors", "types", "utils",
            "optim", "autograd")  # fmt: skip
_FUNCTIONS = {"load": "engine.sim.load", "Tape": "engine.context.tape",
              "restore": "engine.sim.simulation", "dtype_from_numpy": "engine.types",
              "ScopedTimer": "engine.utils", "transform_expand": "engine.utils",
              "dtype_to_numpy": "engine.types"}  # fmt: skip
_FUNCTIONS |= dict.fromkeys(
    ("Event", "ScopedStream", "Stream", "get_event_elapsed_time", "get_stream", "record_event", "set_stream",
     "synchronize_event", "synchronize_stream", "wait_event", "wait_stream"),
    "engine.stream",
)  # fmt: skip
_FUNCTIONS |= dict.fromkeys(("register_ir_pass", "unregister_ir_pass"), "engine.compiler.pipeline")
_FUNCTIONS["build"] = "engine.compiler.build"
_FUNCTIONS |= dict.fromkeys(
    ("HashGrid", "HashGridQuery", "hash_grid_point_id", "hash_grid_query", "hash_grid_query_next"),
    "engine.kernels.hash_grid",
)
_FUNCTIONS |= dict.fromkeys(
    ("Mesh", "mesh_eval_face_normal", "mesh_eval_position", "mesh_eval_velocity", "mesh_get", "mesh_get_group_root",
     "mesh_get_index", "mesh_get_point", "mesh_get_velocity"),
    "engine.geom.query_mesh",
)  # fmt: skip
_FUNCTIONS |= dict.fromkeys(
    ("MeshQueryRay", "mesh_query_ray", "mesh_query_ray_anyhit", "mesh_query_ray_count_intersections"),
    "engine.geom.ray_query",
)
_FUNCTIONS |= dict.fromkeys(
    ("MeshQueryPoint", "mesh_query_point", "mesh_query_point_no_sign", "mesh_query_point_sign_normal",
     "mesh_query_point_sign_parity", "mesh_query_point_sign_winding_number"),
    "engine.geom.point_query",
)  # fmt: skip
_FUNCTIONS |= dict.fromkeys(
    ("BvhQuery", "bvh_query_aabb", "bvh_query_capsule", "bvh_query_next", "bvh_query_ray", "bvh_query_sphere"),
    "engine.geom.box_query",
)
_FUNCTIONS |= dict.fromkeys(
    ("mesh_get_bvh", "mesh_query_aabb", "mesh_query_aabb_next", "mesh_query_next", "mesh_query_sphere"),
    "engine.geom.mesh_overlap",
)
_FUNCTIONS |= dict.fromkeys(
    ("BvhQueryTiled", "MeshQueryAABB", "MeshQueryAABBTiled", "bvh_query_aabb_tiled", "bvh_query_next_tiled",
     "bvh_query_ray_tiled", "mesh_query_aabb_next_tiled", "mesh_query_aabb_tiled", "tile_bvh_query_aabb",
     "tile_bvh_query_next", "tile_bvh_query_ray", "tile_mesh_query_aabb", "tile_mesh_query_aabb_next",
     "tile_query_valid"),
    "engine.geom.block_query",
)  # fmt: skip
_FUNCTIONS |= {"closest_point_edge_edge": "engine.geom.edge_edge", "intersect_tri_tri": "engine.geom.tri_tri",
               "mesh_query_furthest_point_no_sign": "engine.geom.furthest_point"}
_FUNCTIONS |= {"Bvh": "engine.geom.bvh", "bvh_get_group_root": "engine.geom.bvh",
               "MarchingCubes": "engine.geom.marching_cubes",
               "SurfaceNets": "engine.geom.surface_nets", "Volume": "engine.volume.sparse_volume"}  # fmt: skip
_FUNCTIONS |= dict.fromkeys(
    ("volume_index_to_world", "volume_index_to_world_dir", "volume_lookup", "volume_lookup_f", "volume_lookup_i",
     "volume_lookup_index", "volume_lookup_v", "volume_sample", "volume_sample_f", "volume_sample_grad",
     "volume_sample_grad_f", "volume_sample_grad_index", "volume_sample_i", "volume_sample_index", "volume_sample_v",
     "volume_store", "volume_store_f", "volume_store_i", "volume_store_v", "volume_voxel_count",
     "volume_world_to_index", "volume_world_to_index_dir"),
    "engine.volume.sample",
)  # fmt: skip

__all__ = [
    "CaptureError", "Graph", "ScopedCapture", "capture_begin", "capture_debug_dot_print", "capture_end", "capture_if",
    "capture_launch", "capture_stamp", "capture_while", "is_conditional_graph_supported",
    "CompileError", "DeterministicMode", "Device", "DeviceError", "Error", "Float", "Function", "Indirect", "Int",
    "Kernel", "Launch", "LaunchError", "Module", "Scalar", "ScopedDevice", "Tape", "address_of", "force_load",
    "func_native", "get_cuda_device", "get_cuda_device_count", "get_cuda_devices", "get_cuda_driver_version",
    "get_module", "get_module_options", "get_preferred_device", "init",
    "is_cpu_available", "is_cuda_available", "is_device_available", "is_mempool_access_enabled",
    "is_mempool_access_supported", "is_mempool_enabled", "is_mempool_supported", "is_peer_access_enabled",
    "is_peer_access_supported", "load_module", "overload", "set_device", "set_module_options", "synchronize",
    "synchronize_device", "SceneError",
    "SimulationError", "Table", "array", "array1d", "array2d", "array3d", "array4d", "bool_", "clone", "config",
    "constant", "copy", "debug", "empty", "empty_like", "errors", "float16", "float32", "float64", "from_dlpack",
    "from_numpy", "full", "full_like", "func", "geom", "get_device", "get_devices", "indirect", "int16", "int32",
    "int64", "int8", "kernel", "launch", "load", "make_table", "ones", "ones_like", "plugin", "restore", "sim",
    "static", "stream", "struct", "table", "tid", "timer", "uint16", "uint32", "uint64", "uint8", "volume",
    "zeros", "zeros_like",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Modules and functions on first use, then the rest of the kernel vocabulary (sqrt, dot, vec3, atomic_add, …)."""
    if name in _MODULES:
        return importlib.import_module(f"engine.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    home = context if name in context.__all__ else lang
    try:
        value = getattr(home, name)
    except AttributeError:
        raise AttributeError(f"module 'engine' has no attribute '{name}'") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *context.__all__, *dir(lang)})
