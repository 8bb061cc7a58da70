"""The names of `engine` for editors and type checkers. Made by tools/make_stub.py."""

# mypy: disable-error-code="overload-overlap, misc, override, valid-type, assignment"
import builtins
import typing
from collections.abc import Iterator
from typing import Any, Self

class _Value:
    dtype: Any
    def __init__(self, *components: Any, **named: Any) -> None: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __add__(self, other: Any) -> Self: ...
    def __radd__(self, other: Any) -> Self: ...
    def __sub__(self, other: Any) -> Self: ...
    def __rsub__(self, other: Any) -> Self: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Self: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __neg__(self) -> Self: ...
    def __pos__(self) -> Self: ...
from engine import autograd as autograd
from engine import context as context
from engine import debug as debug
from engine import errors as errors
from engine import geom as geom
from engine import geometry as geometry
from engine import optim as optim
from engine import plugin as plugin
from engine import sim as sim
from engine import stream as stream
from engine import timer as timer
from engine import types as types
from engine import utils as utils
from engine import volume as volume
from engine.compiler.build import build as build
from engine.compiler.custom_gradients import func_grad as func_grad
from engine.compiler.custom_gradients import func_replay as func_replay
from engine.compiler.function import Func as Function
from engine.compiler.function import requires as requires
from engine.compiler.kernel import Kernel as Kernel
from engine.compiler.kernel import address_of as address_of
from engine.compiler.kernel import func_native as func_native
from engine.compiler.kernel import overload as overload
from engine.compiler.lang import constant as constant
from engine.compiler.lang import fixedarray as fixedarray
from engine.compiler.lang import func as func
from engine.compiler.lang import kernel as kernel
from engine.compiler.lang import static as static
from engine.compiler.lang import struct as struct
from engine.compiler.lang import tid as tid
from engine.compiler.library.intrinsics import shared as shared
from engine.compiler.modules import Module as Module
from engine.compiler.modules import force_load as force_load
from engine.compiler.modules import get_module as get_module
from engine.compiler.modules import get_module_options as get_module_options
from engine.compiler.modules import load_module as load_module
from engine.compiler.modules import set_module_options as set_module_options
from engine.compiler.pipeline import register_ir_pass as register_ir_pass
from engine.compiler.pipeline import unregister_ir_pass as unregister_ir_pass
from engine.compiler.values.linear import matrix_class as matrix_class
from engine.compiler.values.linear import vector_class as vector_class
from engine.compiler.values.rigid import quat_class as quat_class
from engine.compiler.values.rigid import transform_class as transform_class
from engine.config import DeterministicMode as DeterministicMode
from engine.config import config as config
from engine.context import Device as Device
from engine.context import Graph as Graph
from engine.context import Indirect as Indirect
from engine.context import Launch as Launch
from engine.context import ScopedCapture as ScopedCapture
from engine.context import Table as Table
from engine.context import array as array
from engine.context import array1d as array1d
from engine.context import array2d as array2d
from engine.context import array3d as array3d
from engine.context import array4d as array4d
from engine.context import capture_begin as capture_begin
from engine.context import capture_debug_dot_print as capture_debug_dot_print
from engine.context import capture_end as capture_end
from engine.context import capture_if as capture_if
from engine.context import capture_launch as capture_launch
from engine.context import capture_stamp as capture_stamp
from engine.context import capture_while as capture_while
from engine.context import clone as clone
from engine.context import copy as copy
from engine.context import device_from_torch as device_from_torch
from engine.context import device_to_torch as device_to_torch
from engine.context import empty as empty
from engine.context import empty_like as empty_like
from engine.context import from_dlpack as from_dlpack
from engine.context import from_jax as from_jax
from engine.context import from_numpy as from_numpy
from engine.context import from_torch as from_torch
from engine.context import full as full
from engine.context import full_like as full_like
from engine.context import get_device as get_device
from engine.context import get_devices as get_devices
from engine.context import indexedarray as indexedarray
from engine.context import indexedarray1d as indexedarray1d
from engine.context import indexedarray2d as indexedarray2d
from engine.context import indexedarray3d as indexedarray3d
from engine.context import indexedarray4d as indexedarray4d
from engine.context import indirect as indirect
from engine.context import is_conditional_graph_supported as is_conditional_graph_supported
from engine.context import launch as launch
from engine.context import launch_tiled as launch_tiled
from engine.context import load_ptx as load_ptx
from engine.context import make_table as make_table
from engine.context import map as map
from engine.context import ones as ones
from engine.context import ones_like as ones_like
from engine.context import table as table
from engine.context import to_dlpack as to_dlpack
from engine.context import to_jax as to_jax
from engine.context import to_torch as to_torch
from engine.context import zeros as zeros
from engine.context import zeros_like as zeros_like
from engine.context.scope import ScopedDevice as ScopedDevice
from engine.context.scope import get_cuda_device as get_cuda_device
from engine.context.scope import get_cuda_device_count as get_cuda_device_count
from engine.context.scope import get_cuda_devices as get_cuda_devices
from engine.context.scope import get_cuda_driver_version as get_cuda_driver_version
from engine.context.scope import get_preferred_device as get_preferred_device
from engine.context.scope import init as init
from engine.context.scope import is_cpu_available as is_cpu_available
from engine.context.scope import is_cuda_available as is_cuda_available
from engine.context.scope import is_device_available as is_device_available
from engine.context.scope import is_mempool_access_enabled as is_mempool_access_enabled
from engine.context.scope import is_mempool_access_supported as is_mempool_access_supported
from engine.context.scope import is_mempool_enabled as is_mempool_enabled
from engine.context.scope import is_mempool_supported as is_mempool_supported
from engine.context.scope import is_peer_access_enabled as is_peer_access_enabled
from engine.context.scope import is_peer_access_supported as is_peer_access_supported
from engine.context.scope import set_device as set_device
from engine.context.scope import synchronize as synchronize
from engine.context.scope import synchronize_device as synchronize_device
from engine.context.tape import Tape as Tape
from engine.errors import CaptureError as CaptureError
from engine.errors import CompileError as CompileError
from engine.errors import DeviceError as DeviceError
from engine.errors import Error as Error
from engine.errors import LaunchError as LaunchError
from engine.errors import SceneError as SceneError
from engine.errors import SimulationError as SimulationError
from engine.geom.block_query import BvhQueryTiled as BvhQueryTiled
from engine.geom.block_query import MeshQueryAABB as MeshQueryAABB
from engine.geom.block_query import MeshQueryAABBTiled as MeshQueryAABBTiled
from engine.geom.block_query import bvh_query_aabb_tiled as bvh_query_aabb_tiled
from engine.geom.block_query import bvh_query_next_tiled as bvh_query_next_tiled
from engine.geom.block_query import bvh_query_ray_tiled as bvh_query_ray_tiled
from engine.geom.block_query import mesh_query_aabb_next_tiled as mesh_query_aabb_next_tiled
from engine.geom.block_query import mesh_query_aabb_tiled as mesh_query_aabb_tiled
from engine.geom.block_query import tile_bvh_query_aabb as tile_bvh_query_aabb
from engine.geom.block_query import tile_bvh_query_next as tile_bvh_query_next
from engine.geom.block_query import tile_bvh_query_ray as tile_bvh_query_ray
from engine.geom.block_query import tile_mesh_query_aabb as tile_mesh_query_aabb
from engine.geom.block_query import tile_mesh_query_aabb_next as tile_mesh_query_aabb_next
from engine.geom.block_query import tile_query_valid as tile_query_valid
from engine.geom.box_query import BvhQuery as BvhQuery
from engine.geom.box_query import bvh_query_aabb as bvh_query_aabb
from engine.geom.box_query import bvh_query_capsule as bvh_query_capsule
from engine.geom.box_query import bvh_query_next as bvh_query_next
from engine.geom.box_query import bvh_query_ray as bvh_query_ray
from engine.geom.box_query import bvh_query_sphere as bvh_query_sphere
from engine.geom.bvh import Bvh as Bvh
from engine.geom.bvh import bvh_get_group_root as bvh_get_group_root
from engine.geom.edge_edge import closest_point_edge_edge as closest_point_edge_edge
from engine.geom.furthest_point import mesh_query_furthest_point_no_sign as mesh_query_furthest_point_no_sign
from engine.geom.marching_cubes import MarchingCubes as MarchingCubes
from engine.geom.mesh_overlap import mesh_get_bvh as mesh_get_bvh
from engine.geom.mesh_overlap import mesh_query_aabb as mesh_query_aabb
from engine.geom.mesh_overlap import mesh_query_aabb_next as mesh_query_aabb_next
from engine.geom.mesh_overlap import mesh_query_next as mesh_query_next
from engine.geom.mesh_overlap import mesh_query_sphere as mesh_query_sphere
from engine.geom.point_query import MeshQueryPoint as MeshQueryPoint
from engine.geom.point_query import mesh_query_point as mesh_query_point
from engine.geom.point_query import mesh_query_point_no_sign as mesh_query_point_no_sign
from engine.geom.point_query import mesh_query_point_sign_normal as mesh_query_point_sign_normal
from engine.geom.point_query import mesh_query_point_sign_parity as mesh_query_point_sign_parity
from engine.geom.point_query import mesh_query_point_sign_winding_number as mesh_query_point_sign_winding_number
from engine.geom.query_mesh import Mesh as Mesh
from engine.geom.query_mesh import mesh_eval_face_normal as mesh_eval_face_normal
from engine.geom.query_mesh import mesh_eval_position as mesh_eval_position
from engine.geom.query_mesh import mesh_eval_velocity as mesh_eval_velocity
from engine.geom.query_mesh import mesh_get as mesh_get
from engine.geom.query_mesh import mesh_get_group_root as mesh_get_group_root
from engine.geom.query_mesh import mesh_get_index as mesh_get_index
from engine.geom.query_mesh import mesh_get_point as mesh_get_point
from engine.geom.query_mesh import mesh_get_velocity as mesh_get_velocity
from engine.geom.ray_query import MeshQueryRay as MeshQueryRay
from engine.geom.ray_query import mesh_query_ray as mesh_query_ray
from engine.geom.ray_query import mesh_query_ray_anyhit as mesh_query_ray_anyhit
from engine.geom.ray_query import mesh_query_ray_count_intersections as mesh_query_ray_count_intersections
from engine.geom.surface_nets import SurfaceNets as SurfaceNets
from engine.geom.tri_tri import intersect_tri_tri as intersect_tri_tri
from engine.kernels.hash_grid import HashGrid as HashGrid
from engine.kernels.hash_grid import HashGridQuery as HashGridQuery
from engine.kernels.hash_grid import hash_grid_point_id as hash_grid_point_id
from engine.kernels.hash_grid import hash_grid_query as hash_grid_query
from engine.kernels.hash_grid import hash_grid_query_next as hash_grid_query_next
from engine.sim.load import load as load
from engine.sim.simulation import restore as restore
from engine.stream import Event as Event
from engine.stream import ScopedStream as ScopedStream
from engine.stream import Stream as Stream
from engine.stream import get_event_elapsed_time as get_event_elapsed_time
from engine.stream import get_stream as get_stream
from engine.stream import record_event as record_event
from engine.stream import set_stream as set_stream
from engine.stream import synchronize_event as synchronize_event
from engine.stream import synchronize_stream as synchronize_stream
from engine.stream import wait_event as wait_event
from engine.stream import wait_stream as wait_stream
from engine.types import dtype_from_numpy as dtype_from_numpy
from engine.types import dtype_to_numpy as dtype_to_numpy
from engine.utils import ScopedTimer as ScopedTimer
from engine.utils import transform_expand as transform_expand
from engine.volume.sample import volume_index_to_world as volume_index_to_world
from engine.volume.sample import volume_index_to_world_dir as volume_index_to_world_dir
from engine.volume.sample import volume_lookup as volume_lookup
from engine.volume.sample import volume_lookup_f as volume_lookup_f
from engine.volume.sample import volume_lookup_i as volume_lookup_i
from engine.volume.sample import volume_lookup_index as volume_lookup_index
from engine.volume.sample import volume_lookup_v as volume_lookup_v
from engine.volume.sample import volume_sample as volume_sample
from engine.volume.sample import volume_sample_f as volume_sample_f
from engine.volume.sample import volume_sample_grad as volume_sample_grad
from engine.volume.sample import volume_sample_grad_f as volume_sample_grad_f
from engine.volume.sample import volume_sample_grad_index as volume_sample_grad_index
from engine.volume.sample import volume_sample_i as volume_sample_i
from engine.volume.sample import volume_sample_index as volume_sample_index
from engine.volume.sample import volume_sample_v as volume_sample_v
from engine.volume.sample import volume_store as volume_store
from engine.volume.sample import volume_store_f as volume_store_f
from engine.volume.sample import volume_store_i as volume_store_i
from engine.volume.sample import volume_store_v as volume_store_v
from engine.volume.sample import volume_voxel_count as volume_voxel_count
from engine.volume.sample import volume_world_to_index as volume_world_to_index
from engine.volume.sample import volume_world_to_index_dir as volume_world_to_index_dir
from engine.volume.sparse_volume import Volume as Volume

__version__: str
E: builtins.float
e: builtins.float
PI: builtins.float
pi: builtins.float
INF: builtins.float
Int = Any
LN2: builtins.float
NAN: builtins.float
PHI: builtins.float
TAU: builtins.float
def abs(a: Any) -> Any:
    """Magnitude."""
def add(*args: Any, **named: Any) -> Any:
    """add(…): the operator 'add'."""
def clz(a: Any) -> Any:
    """Number of zero bits above the highest one bit."""
@typing.overload
def cos(x: builtins.float) -> builtins.float:
    """Cosine of an angle in radians."""
@typing.overload
def cos(x: Any) -> Any: ...
def div(*args: Any, **named: Any) -> Any:
    """div(…): the operator 'div'."""
@typing.overload
def dot(a: vec3, b: vec3) -> builtins.float:
    """Scalar product of two vectors or quaternions."""
@typing.overload
def dot(a: vec2, b: vec2) -> builtins.float: ...
@typing.overload
def dot(a: vec4, b: vec4) -> builtins.float: ...
@typing.overload
def dot(a: quat, b: quat) -> builtins.float: ...
@typing.overload
def dot(a: Any, b: Any) -> Any: ...
@typing.overload
def erf(x: builtins.float) -> builtins.float:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
@typing.overload
def erf(x: Any) -> Any: ...
@typing.overload
def exp(x: builtins.float) -> builtins.float:
    """e to the power x."""
@typing.overload
def exp(x: Any) -> Any: ...
def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding."""
inf: builtins.float
class int(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
ln2: builtins.float
@typing.overload
def log(x: builtins.float) -> builtins.float:
    """Natural logarithm."""
@typing.overload
def log(x: Any) -> Any: ...
@typing.overload
def max(a: vec2) -> builtins.float:
    """The largest of two or three numbers or of a vector's components; two vectors by component. NaN is ignored."""
@typing.overload
def max(a: vec3) -> builtins.float: ...
@typing.overload
def max(a: vec4) -> builtins.float: ...
@typing.overload
def max(a: vec2, b: vec2) -> vec2: ...
@typing.overload
def max(a: vec3, b: vec3) -> vec3: ...
@typing.overload
def max(a: vec4, b: vec4) -> vec4: ...
@typing.overload
def max(a: builtins.int, b: builtins.int) -> builtins.int: ...
@typing.overload
def max(a: builtins.float, b: builtins.float) -> builtins.float: ...
@typing.overload
def max(a: builtins.bool, b: builtins.bool) -> builtins.bool: ...
@typing.overload
def max(a: builtins.int, b: builtins.int, c: builtins.int) -> builtins.int: ...
@typing.overload
def max(a: builtins.float, b: builtins.float, c: builtins.float) -> builtins.float: ...
@typing.overload
def max(a: builtins.bool, b: builtins.bool, c: builtins.bool) -> builtins.bool: ...
@typing.overload
def max(a: Any, b: Any = ..., c: Any = ...) -> Any: ...
@typing.overload
def min(a: vec2) -> builtins.float:
    """The smallest of two or three numbers or of a vector's components; two vectors by component. NaN is ignored."""
@typing.overload
def min(a: vec3) -> builtins.float: ...
@typing.overload
def min(a: vec4) -> builtins.float: ...
@typing.overload
def min(a: vec2, b: vec2) -> vec2: ...
@typing.overload
def min(a: vec3, b: vec3) -> vec3: ...
@typing.overload
def min(a: vec4, b: vec4) -> vec4: ...
@typing.overload
def min(a: builtins.int, b: builtins.int) -> builtins.int: ...
@typing.overload
def min(a: builtins.float, b: builtins.float) -> builtins.float: ...
@typing.overload
def min(a: builtins.bool, b: builtins.bool) -> builtins.bool: ...
@typing.overload
def min(a: builtins.int, b: builtins.int, c: builtins.int) -> builtins.int: ...
@typing.overload
def min(a: builtins.float, b: builtins.float, c: builtins.float) -> builtins.float: ...
@typing.overload
def min(a: builtins.bool, b: builtins.bool, c: builtins.bool) -> builtins.bool: ...
@typing.overload
def min(a: Any, b: Any = ..., c: Any = ...) -> Any: ...
@typing.overload
def mod(a: builtins.float, b: builtins.float) -> builtins.float:
    """a - n b with n = floor(a / b), as Python's %: the sign is that of b."""
@typing.overload
def mod(a: builtins.int, b: builtins.int) -> builtins.int: ...
@typing.overload
def mod(a: Any, b: Any) -> Any: ...
def mul(*args: Any, **named: Any) -> Any:
    """mul(…): the operator 'mul'."""
nan: builtins.float
def neg(*args: Any, **named: Any) -> Any:
    """neg(…): the operator 'neg'."""
phi: builtins.float
def pos(*args: Any, **named: Any) -> Any:
    """pos(…): the operator 'pos'."""
@typing.overload
def pow(x: builtins.float, y: builtins.float) -> builtins.float:
    """x to the power y, with the special cases of IEEE 754."""
@typing.overload
def pow(x: builtins.int, n: builtins.int) -> builtins.int: ...
@typing.overload
def pow(x: Any, y: Any) -> Any: ...
@typing.overload
def qr3(A: mat33) -> Any:
    """(Q, R) with A = Q R: a rotation and an upper triangle, its first two diagonal entries not negative (Givens)."""
@typing.overload
def qr3(A: mat33, Q: mat33, R: mat33) -> Any: ...
@typing.overload
def qr3(A: Any, Q: Any = ..., R: Any = ...) -> Any: ...
def ref(*args: Any, **named: Any) -> Any:
    """`ref[float32]`: the annotation of a function's parameter that reaches the caller's variable."""
@typing.overload
def sin(x: builtins.float) -> builtins.float:
    """Sine of an angle in radians."""
@typing.overload
def sin(x: Any) -> Any: ...
def sub(*args: Any, **named: Any) -> Any:
    """sub(…): the operator 'sub'."""
@typing.overload
def tan(x: builtins.float) -> builtins.float:
    """Tangent of an angle in radians."""
@typing.overload
def tan(x: Any) -> Any: ...
tau: builtins.float
LN10: builtins.float
@typing.overload
def acos(x: builtins.float) -> builtins.float:
    """Arc cosine in 0 … pi; NaN outside -1 … 1."""
@typing.overload
def acos(x: Any) -> Any: ...
@typing.overload
def asin(x: builtins.float) -> builtins.float:
    """Arc sine in -pi/2 … pi/2; NaN outside -1 … 1."""
@typing.overload
def asin(x: Any) -> Any: ...
@typing.overload
def atan(x: builtins.float) -> builtins.float:
    """Arc tangent in -pi/2 … pi/2."""
@typing.overload
def atan(x: Any) -> Any: ...
def bits(*args: Any, **named: Any) -> Any:
    """At most 32 truth values as the bits of a uint32."""
class bool(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
def cast(*args: Any, **named: Any) -> Any:
    """The same bytes as another type of that size; float32(x) converts numbers."""
@typing.overload
def cbrt(x: builtins.float) -> builtins.float:
    """Real cube root."""
@typing.overload
def cbrt(x: Any) -> Any: ...
def ceil(a: Any) -> Any:
    """Smallest whole number that is not below x."""
@typing.overload
def cosh(x: builtins.float) -> builtins.float:
    """Hyperbolic cosine."""
@typing.overload
def cosh(x: Any) -> Any: ...
@typing.overload
def ddot(a: mat22, b: mat22) -> builtins.float:
    """Sum of the products by component."""
@typing.overload
def ddot(a: mat33, b: mat33) -> builtins.float: ...
@typing.overload
def ddot(a: mat44, b: mat44) -> builtins.float: ...
@typing.overload
def ddot(a: Any, b: Any) -> Any: ...
@typing.overload
def diag(vec: vec2) -> mat22:
    """Diagonal matrix."""
@typing.overload
def diag(vec: vec3) -> mat33: ...
@typing.overload
def diag(vec: vec4) -> mat44: ...
@typing.overload
def diag(vec: Any) -> Any: ...
@typing.overload
def eig3(m: mat33) -> Any:
    """(V, d) of a symmetric matrix: its eigenvectors as the columns of V and its eigenvalues, in no certain order."""
@typing.overload
def eig3(A: mat33, Q: mat33, d: vec3) -> Any: ...
@typing.overload
def eig3(A: Any, Q: Any = ..., d: Any = ...) -> Any: ...
@typing.overload
def erfc(x: builtins.float) -> builtins.float:
    """1 - erf(x), exact to the last digits also where that is small."""
@typing.overload
def erfc(x: Any) -> Any: ...
@typing.overload
def exp2(x: builtins.float) -> builtins.float:
    """2 to the power x."""
@typing.overload
def exp2(x: Any) -> Any: ...
@typing.overload
def fmod(x: builtins.float, y: builtins.float) -> builtins.float:
    """x - n y with n = trunc(x / y), exact; the sign is that of x. NaN for y = 0 or infinite x."""
@typing.overload
def fmod(x: Any, y: Any) -> Any: ...
@typing.overload
def frac(x: builtins.float) -> builtins.float:
    """x - trunc(x)."""
@typing.overload
def frac(x: Any) -> Any: ...
def grad(*args: Any, **named: Any) -> Any:
    """grad(f)(x, y): the derivatives of f by its float arguments."""
class int8(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
@typing.overload
def lerp(a: builtins.int, b: builtins.int, t: builtins.float) -> Any:
    """a (1 - t) + b t, for scalars and vectors."""
@typing.overload
def lerp(a: builtins.float, b: builtins.float, t: builtins.float) -> builtins.float: ...
@typing.overload
def lerp(a: builtins.bool, b: builtins.bool, t: builtins.float) -> builtins.float: ...
@typing.overload
def lerp(a: vec2, b: vec2, t: builtins.float) -> vec2: ...
@typing.overload
def lerp(a: vec3, b: vec3, t: builtins.float) -> vec3: ...
@typing.overload
def lerp(a: vec4, b: vec4, t: builtins.float) -> vec4: ...
@typing.overload
def lerp(a: quat, b: quat, t: builtins.float) -> quat: ...
@typing.overload
def lerp(a: mat22, b: mat22, t: builtins.float) -> mat22: ...
@typing.overload
def lerp(a: mat33, b: mat33, t: builtins.float) -> mat33: ...
@typing.overload
def lerp(a: mat44, b: mat44, t: builtins.float) -> mat44: ...
@typing.overload
def lerp(a: transform, b: transform, t: builtins.float) -> transform: ...
@typing.overload
def lerp(a: Any, b: Any, t: Any) -> Any: ...
@typing.overload
def less(a: vec2, b: vec2) -> Any:
    """a < b by component: a vector of truth values."""
@typing.overload
def less(a: vec3, b: vec3) -> Any: ...
@typing.overload
def less(a: vec4, b: vec4) -> Any: ...
@typing.overload
def less(a: Any, b: Any) -> Any: ...
ln10: builtins.float
@typing.overload
def log2(x: builtins.float) -> builtins.float:
    """Logarithm to base 2."""
@typing.overload
def log2(x: Any) -> Any: ...
class quat(_Value):
    """quat: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
def rint(a: Any) -> Any:
    """Nearest whole number, ties to even."""
@typing.overload
def sign(x: builtins.int) -> builtins.int:
    """-1 where x is negative, else 1."""
@typing.overload
def sign(x: builtins.float) -> builtins.float: ...
@typing.overload
def sign(x: builtins.bool) -> builtins.bool: ...
@typing.overload
def sign(x: Any) -> Any: ...
@typing.overload
def sinh(x: builtins.float) -> builtins.float:
    """Hyperbolic sine."""
@typing.overload
def sinh(x: Any) -> Any: ...
@typing.overload
def skew(vec: vec3) -> mat33:
    """The matrix S with S x = vec × x."""
@typing.overload
def skew(vec: Any) -> Any: ...
def sqrt(a: Any) -> Any:
    """Square root, correctly rounded."""
@typing.overload
def step(x: builtins.int) -> builtins.int:
    """1 where x is negative, else 0."""
@typing.overload
def step(x: builtins.float) -> builtins.float: ...
@typing.overload
def step(x: builtins.bool) -> builtins.bool: ...
@typing.overload
def step(x: Any) -> Any: ...
@typing.overload
def svd2(A: mat22) -> Any:
    """(U, σ, V) with A = U diag(σ) Vᵀ: rotations, |σ| descending; the last σ is negative where det A is."""
@typing.overload
def svd2(A: mat22, U: mat22, sigma: vec2, V: mat22) -> Any: ...
@typing.overload
def svd2(A: Any, U: Any = ..., sigma: Any = ..., V: Any = ...) -> Any: ...
@typing.overload
def svd3(A: mat33) -> Any:
    """(U, σ, V) with A = U diag(σ) Vᵀ: rotations, |σ| descending; the last σ is negative where det A is."""
@typing.overload
def svd3(A: mat33, U: mat33, sigma: vec3, V: mat33) -> Any: ...
@typing.overload
def svd3(A: Any, U: Any = ..., sigma: Any = ..., V: Any = ...) -> Any: ...
@typing.overload
def tanh(x: builtins.float) -> builtins.float:
    """Hyperbolic tangent."""
@typing.overload
def tanh(x: Any) -> Any: ...
def tile(*args: Any, **named: Any) -> Any:
    """tile(x, preserve_type=False): the values of the threads of a block as a tile. `tile[float, 8, 4]` is an annotation."""
def unot(*args: Any, **named: Any) -> Any:
    """unot(…): the operator 'unot'."""
class vec2(_Value):
    """vec2: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
class vec3(_Value):
    """vec3: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
class vec4(_Value):
    """vec4: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
Float = Any
LOG2E: builtins.float
@typing.overload
def atan2(y: builtins.float, x: builtins.float) -> builtins.float:
    """Angle of the point (x, y) in -pi … pi; the signs of zeros count, infinities are directions."""
@typing.overload
def atan2(y: Any, x: Any) -> Any: ...
class bool_(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
@typing.overload
def clamp(x: builtins.int, low: builtins.int, high: builtins.int) -> builtins.int:
    """x kept between low and high; high where low > high."""
@typing.overload
def clamp(x: builtins.float, low: builtins.float, high: builtins.float) -> builtins.float: ...
@typing.overload
def clamp(x: builtins.bool, low: builtins.bool, high: builtins.bool) -> builtins.bool: ...
@typing.overload
def clamp(x: Any, low: Any, high: Any) -> Any: ...
@typing.overload
def cross(a: vec3, b: vec3) -> vec3:
    """Vector product."""
@typing.overload
def cross(a: vec2, b: vec2) -> builtins.float: ...
@typing.overload
def cross(a: Any, b: Any) -> Any: ...
@typing.overload
def equal(a: vec2, b: vec2) -> Any:
    """a == b by component: a vector of truth values."""
@typing.overload
def equal(a: vec3, b: vec3) -> Any: ...
@typing.overload
def equal(a: vec4, b: vec4) -> Any: ...
@typing.overload
def equal(a: Any, b: Any) -> Any: ...
@typing.overload
def expm1(x: builtins.float) -> builtins.float:
    """exp(x) - 1, accurate near 0."""
@typing.overload
def expm1(x: Any) -> Any: ...
class float(builtins.float):
    def __new__(cls, value: Any = ...) -> Self: ...
def floor(a: Any) -> Any:
    """Largest whole number that is not above x."""
@typing.overload
def hypot(x: builtins.float, y: builtins.float) -> builtins.float:
    """sqrt(x**2 + y**2) without overflow or underflow in between."""
@typing.overload
def hypot(x: Any, y: Any) -> Any: ...
class int16(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
class int32(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
class int64(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
@typing.overload
def isinf(a: builtins.float) -> builtins.bool:
    """Whether a is infinite."""
@typing.overload
def isinf(a: Any) -> Any: ...
@typing.overload
def isnan(a: vec2) -> builtins.bool:
    """Whether x is not a number."""
@typing.overload
def isnan(a: vec3) -> builtins.bool: ...
@typing.overload
def isnan(a: vec4) -> builtins.bool: ...
@typing.overload
def isnan(x: builtins.float) -> builtins.bool: ...
@typing.overload
def isnan(a: Any) -> Any: ...
@typing.overload
def log10(x: builtins.float) -> builtins.float:
    """Logarithm to base 10."""
@typing.overload
def log10(x: Any) -> Any: ...
@typing.overload
def log1p(x: builtins.float) -> builtins.float:
    """log(1 + x), accurate near 0."""
@typing.overload
def log1p(x: Any) -> Any: ...
log2e: builtins.float
class mat22(_Value):
    """mat22: a value of kernels and of Python."""
class mat33(_Value):
    """mat33: a value of kernels and of Python."""
class mat44(_Value):
    """mat44: a value of kernels and of Python."""
def noise(state: Any, x: Any) -> Any:
    """Gradient noise at a point of one to four dimensions, about −1 … 1, zero at whole coordinates."""
@typing.overload
def outer(a: vec2, b: vec2) -> mat22:
    """The matrix a bᵀ."""
@typing.overload
def outer(a: vec3, b: vec3) -> mat33: ...
@typing.overload
def outer(a: vec4, b: vec4) -> mat44: ...
@typing.overload
def outer(a: Any, b: Any) -> Any: ...
def print(*args: Any, **named: Any) -> Any:
    """Prints the values to a stream, or to sys.stdout by default."""
class quatd(_Value):
    """quatd: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
quatf = quat
class quath(_Value):
    """quath: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
def randf(state: Any, low: Any = ..., high: Any = ...) -> Any:
    """A uniform random float32 from 0 up to but not including 1; with `low` and `high`, between these."""
def randi(state: Any, low: Any = ..., high: Any = ...) -> Any:
    """A random int32; with `low` and `high`, one from low up to but not including high."""
def randn(state: Any) -> Any:
    """A normally distributed float32 with mean 0 and variance 1."""
def randu(state: Any, low: Any = ..., high: Any = ...) -> Any:
    """A random uint32; with `low` and `high`, one from low up to but not including high."""
@typing.overload
def round(x: builtins.float) -> builtins.float:
    """The nearest whole number, ties away from zero."""
@typing.overload
def round(x: Any) -> Any: ...
@typing.overload
def trace(a: mat22) -> builtins.float:
    """Sum of the diagonal of a square matrix."""
@typing.overload
def trace(a: mat33) -> builtins.float: ...
@typing.overload
def trace(a: mat44) -> builtins.float: ...
@typing.overload
def trace(a: Any) -> Any: ...
def trunc(a: Any) -> Any:
    """Whole part, toward zero."""
class uint8(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
class vec2b(_Value):
    """vec2b: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec2d(_Value):
    """vec2d: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
vec2f = vec2
class vec2h(_Value):
    """vec2h: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
class vec2i(_Value):
    """vec2i: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec2l(_Value):
    """vec2l: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec2s(_Value):
    """vec2s: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec3b(_Value):
    """vec3b: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec3d(_Value):
    """vec3d: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
vec3f = vec3
class vec3h(_Value):
    """vec3h: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
class vec3i(_Value):
    """vec3i: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec3l(_Value):
    """vec3l: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec3s(_Value):
    """vec3s: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec4b(_Value):
    """vec4b: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
class vec4d(_Value):
    """vec4d: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
vec4f = vec4
class vec4h(_Value):
    """vec4h: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
class vec4i(_Value):
    """vec4i: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
class vec4l(_Value):
    """vec4l: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
class vec4s(_Value):
    """vec4s: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
def where(*args: Any, **named: Any) -> Any:
    """a where the condition holds, else b; a mask chooses by component."""
LOG10E: builtins.float
Scalar = Any
@typing.overload
def argmax(a: vec2) -> builtins.int:
    """Index of the largest component, the first of equals."""
@typing.overload
def argmax(a: vec3) -> builtins.int: ...
@typing.overload
def argmax(a: vec4) -> builtins.int: ...
@typing.overload
def argmax(a: Any) -> Any: ...
@typing.overload
def argmin(a: vec2) -> builtins.int:
    """Index of the smallest component, the first of equals."""
@typing.overload
def argmin(a: vec3) -> builtins.int: ...
@typing.overload
def argmin(a: vec4) -> builtins.int: ...
@typing.overload
def argmin(a: Any) -> Any: ...
def assume(*args: Any, **named: Any) -> Any:
    """Says what the caller guarantees: a fact for `engine audit`, checked in checked mode, else no code at all."""
def bit_or(*args: Any, **named: Any) -> Any:
    """bit_or(…): the operator 'or'."""
@typing.overload
def cw_div(a: vec2, b: vec2) -> Any:
    """Quotient by component."""
@typing.overload
def cw_div(a: vec3, b: vec3) -> Any: ...
@typing.overload
def cw_div(a: vec4, b: vec4) -> Any: ...
@typing.overload
def cw_div(a: mat22, b: mat22) -> Any: ...
@typing.overload
def cw_div(a: mat33, b: mat33) -> Any: ...
@typing.overload
def cw_div(a: mat44, b: mat44) -> Any: ...
@typing.overload
def cw_div(a: Any, b: Any) -> Any: ...
@typing.overload
def cw_mul(a: vec2, b: vec2) -> vec2:
    """Product by component."""
@typing.overload
def cw_mul(a: vec3, b: vec3) -> vec3: ...
@typing.overload
def cw_mul(a: vec4, b: vec4) -> vec4: ...
@typing.overload
def cw_mul(a: mat22, b: mat22) -> mat22: ...
@typing.overload
def cw_mul(a: mat33, b: mat33) -> mat33: ...
@typing.overload
def cw_mul(a: mat44, b: mat44) -> mat44: ...
@typing.overload
def cw_mul(a: Any, b: Any) -> Any: ...
@typing.overload
def erfinv(x: builtins.float) -> builtins.float:
    """The y with erf(y) = x: infinite at -1 and 1, NaN beyond."""
@typing.overload
def erfinv(x: Any) -> Any: ...
class handle(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
def invert(*args: Any, **named: Any) -> Any:
    """invert(…): the operator 'invert'."""
@typing.overload
def length(a: vec2) -> builtins.float:
    """Euclidean length of a vector or quaternion."""
@typing.overload
def length(a: vec3) -> builtins.float: ...
@typing.overload
def length(a: vec4) -> builtins.float: ...
@typing.overload
def length(a: quat) -> builtins.float: ...
@typing.overload
def length(a: Any) -> Any: ...
log10e: builtins.float
def lshift(*args: Any, **named: Any) -> Any:
    """lshift(…): the operator 'shl'."""
class mat22d(_Value):
    """mat22d: a value of kernels and of Python."""
mat22f = mat22
class mat22h(_Value):
    """mat22h: a value of kernels and of Python."""
class mat33d(_Value):
    """mat33d: a value of kernels and of Python."""
mat33f = mat33
class mat33h(_Value):
    """mat33h: a value of kernels and of Python."""
class mat44d(_Value):
    """mat44d: a value of kernels and of Python."""
mat44f = mat44
class mat44h(_Value):
    """mat44h: a value of kernels and of Python."""
def matrix(*args: Any, **named: Any) -> Any:
    """A matrix of the given numbers, row by row."""
def pnoise(state: Any, xyzt: Any, px: Any, py: Any = ..., pz: Any = ..., pt: Any = ...) -> Any:
    """Gradient noise that repeats after a whole number of units in each dimension."""
def printf(*args: Any, **named: Any) -> Any:
    """printf("%d %f", i, x): prints numbers with a C format."""
def rshift(*args: Any, **named: Any) -> Any:
    """rshift(…): the operator 'shr'."""
@typing.overload
def sincos(x: builtins.float) -> tuple[builtins.float, builtins.float]:
    """(sin x, cos x) with one reduction."""
@typing.overload
def sincos(x: Any) -> Any: ...
class uint16(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
class uint32(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
class uint64(builtins.int):
    def __new__(cls, value: Any = ...) -> Self: ...
def untile(*args: Any, **named: Any) -> Any:
    """untile(t): this thread's element of a tile whose last dimension runs over the threads of the block."""
class vec2ub(_Value):
    """vec2ub: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec2ui(_Value):
    """vec2ui: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec2ul(_Value):
    """vec2ul: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec2us(_Value):
    """vec2us: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
class vec3ub(_Value):
    """vec3ub: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec3ui(_Value):
    """vec3ui: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec3ul(_Value):
    """vec3ul: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec3us(_Value):
    """vec3us: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
class vec4ub(_Value):
    """vec4ub: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
class vec4ui(_Value):
    """vec4ui: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
class vec4ul(_Value):
    """vec4ul: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
class vec4us(_Value):
    """vec4us: a value of kernels and of Python."""
    x: builtins.int
    y: builtins.int
    z: builtins.int
    w: builtins.int
def vector(*args: Any, **named: Any) -> Any:
    """A vector of the given numbers; `vector(s, length=3, dtype=float32)` is filled with s."""
HALF_PI: builtins.float
def adjoint(*args: Any, **named: Any) -> Any:
    """`adjoint[x]` in a gradient function: the adjoint of its argument x."""
def bit_and(*args: Any, **named: Any) -> Any:
    """bit_and(…): the operator 'and'."""
def bit_xor(*args: Any, **named: Any) -> Any:
    """bit_xor(…): the operator 'xor'."""
def bitcast(*args: Any, **named: Any) -> Any:
    """The same bytes as another type of that size; float32(x) converts numbers."""
@typing.overload
def degrees(x: builtins.float) -> builtins.float:
    """Radians as degrees."""
@typing.overload
def degrees(x: Any) -> Any: ...
@typing.overload
def erfcinv(x: builtins.float) -> builtins.float:
    """The y with erfc(y) = x: infinite at 0 and 2, NaN beyond."""
@typing.overload
def erfcinv(x: Any) -> Any: ...
class float16(builtins.float):
    def __new__(cls, value: Any = ...) -> Self: ...
class float32(builtins.float):
    def __new__(cls, value: Any = ...) -> Self: ...
class float64(builtins.float):
    def __new__(cls, value: Any = ...) -> Self: ...
@typing.overload
def greater(a: vec2, b: vec2) -> Any:
    """a > b by component: a vector of truth values."""
@typing.overload
def greater(a: vec3, b: vec3) -> Any: ...
@typing.overload
def greater(a: vec4, b: vec4) -> Any: ...
@typing.overload
def greater(a: Any, b: Any) -> Any: ...
half_pi: builtins.float
@typing.overload
def inverse(a: mat22) -> mat22:
    """Inverse of a 2 × 2, 3 × 3 or 4 × 4 matrix; the zero matrix where the determinant is zero."""
@typing.overload
def inverse(a: mat33) -> mat33: ...
@typing.overload
def inverse(a: mat44) -> mat44: ...
@typing.overload
def inverse(a: Any) -> Any: ...
def lane_id(*args: Any, **named: Any) -> Any:
    """Index of this thread in its warp, int32: 0 … 31."""
@typing.overload
def nonzero(x: builtins.int) -> builtins.int:
    """0 where x is 0, else 1."""
@typing.overload
def nonzero(x: builtins.float) -> builtins.float: ...
@typing.overload
def nonzero(x: builtins.bool) -> builtins.bool: ...
@typing.overload
def nonzero(x: Any) -> Any: ...
@typing.overload
def norm_l1(v: vec2) -> builtins.float:
    """The sum of the magnitudes of the components."""
@typing.overload
def norm_l1(v: vec3) -> builtins.float: ...
@typing.overload
def norm_l1(v: vec4) -> builtins.float: ...
@typing.overload
def norm_l1(v: Any) -> Any: ...
@typing.overload
def norm_l2(v: vec2) -> builtins.float:
    """Euclidean length."""
@typing.overload
def norm_l2(v: vec3) -> builtins.float: ...
@typing.overload
def norm_l2(v: vec4) -> builtins.float: ...
@typing.overload
def norm_l2(v: Any) -> Any: ...
def poisson(state: Any, lam: Any) -> Any:
    """A uint32 from the Poisson distribution with mean `lam` ≥ 0; 0 for a mean that is negative or NaN."""
@typing.overload
def radians(x: builtins.float) -> builtins.float:
    """Degrees as radians."""
@typing.overload
def radians(x: Any) -> Any: ...
def warp_id(*args: Any, **named: Any) -> Any:
    """Index of this thread's warp in its block, int32."""
class bfloat16(builtins.float):
    def __new__(cls, value: Any = ...) -> Self: ...
def bit_mask(mask: Any) -> Any:
    """The truth values of a vector (at most 32) as a uint32: bit k is component k."""
def block_id(*args: Any, **named: Any) -> Any:
    """Index of this thread's block, int32."""
def copysign(a: Any, b: Any) -> Any:
    """Magnitude of a with the sign of b."""
@typing.overload
def distance(a: vec2, b: vec2) -> builtins.float:
    """Euclidean distance of two points."""
@typing.overload
def distance(a: vec3, b: vec3) -> builtins.float: ...
@typing.overload
def distance(a: vec4, b: vec4) -> builtins.float: ...
@typing.overload
def distance(a: Any, b: Any) -> Any: ...
def floordiv(*args: Any, **named: Any) -> Any:
    """floordiv(…): the operator 'floordiv'."""
@typing.overload
def get_diag(mat: mat22) -> vec2:
    """The diagonal of a square matrix as a vector."""
@typing.overload
def get_diag(mat: mat33) -> vec3: ...
@typing.overload
def get_diag(mat: mat44) -> vec4: ...
@typing.overload
def get_diag(mat: Any) -> Any: ...
def identity(*args: Any, **named: Any) -> Any:
    """The n × n identity matrix."""
@typing.overload
def isfinite(a: vec2) -> builtins.bool:
    """Whether x is neither infinite nor NaN."""
@typing.overload
def isfinite(a: vec3) -> builtins.bool: ...
@typing.overload
def isfinite(a: vec4) -> builtins.bool: ...
@typing.overload
def isfinite(x: builtins.float) -> builtins.bool: ...
@typing.overload
def isfinite(a: Any) -> Any: ...
def popcount(a: Any) -> Any:
    """Number of one bits."""
def prefetch(*args: Any, **named: Any) -> Any:
    """prefetch(array, i, …): a processor fetches this element, which is wanted soon, into its cache; it may lie outside. Kernels that call it run in the thread shape."""
@typing.overload
def quat_exp(rotation: vec3) -> quat:
    """The rotation by |rotation| radians about its direction (exponential map of a rotation vector)."""
@typing.overload
def quat_exp(rotation: Any) -> Any: ...
@typing.overload
def quat_log(q: quat) -> Any:
    """The rotation vector of q, of length 0 to pi: axis times angle, the inverse of quat_exp."""
@typing.overload
def quat_log(q: Any) -> Any: ...
@typing.overload
def quat_rpy(roll: builtins.float, pitch: builtins.float, yaw: builtins.float) -> quat:
    """Rotation by roll about x, then pitch about y, then yaw about z (fixed axes, radians)."""
@typing.overload
def quat_rpy(roll: Any, pitch: Any, yaw: Any) -> Any: ...
@typing.overload
def saturate(x: builtins.float) -> builtins.float:
    """x kept between 0 and 1."""
@typing.overload
def saturate(x: Any) -> Any: ...
@typing.overload
def tile_dot(a: builtins.int, b: builtins.int) -> Any:
    """The sum of the products of all components of two tiles of one shape, as a tile of shape (1,)."""
@typing.overload
def tile_dot(a: builtins.float, b: builtins.float) -> Any: ...
@typing.overload
def tile_dot(a: builtins.bool, b: builtins.bool) -> Any: ...
@typing.overload
def tile_dot(a: vec2, b: vec2) -> Any: ...
@typing.overload
def tile_dot(a: vec3, b: vec3) -> Any: ...
@typing.overload
def tile_dot(a: vec4, b: vec4) -> Any: ...
@typing.overload
def tile_dot(a: quat, b: quat) -> Any: ...
@typing.overload
def tile_dot(a: mat22, b: mat22) -> Any: ...
@typing.overload
def tile_dot(a: mat33, b: mat33) -> Any: ...
@typing.overload
def tile_dot(a: mat44, b: mat44) -> Any: ...
@typing.overload
def tile_dot(a: transform, b: transform) -> Any: ...
@typing.overload
def tile_dot(a: Any, b: Any) -> Any: ...
def tile_fft(*args: Any, **named: Any) -> Any:
    """tile_fft(t): the Fourier transforms along the last dimension, in place; elements are (real, imaginary)."""
def tile_map(*args: Any, **named: Any) -> Any:
    """tile_map(f, a, b, …): f of the elements of tiles; arguments that are no tiles are the same for all."""
@typing.overload
def tile_max(a: builtins.int) -> Any:
    """The largest element of a tile, as a tile of shape (1,)."""
@typing.overload
def tile_max(a: builtins.float) -> Any: ...
@typing.overload
def tile_max(a: builtins.bool) -> Any: ...
@typing.overload
def tile_max(a: vec2) -> Any: ...
@typing.overload
def tile_max(a: vec3) -> Any: ...
@typing.overload
def tile_max(a: vec4) -> Any: ...
@typing.overload
def tile_max(a: quat) -> Any: ...
@typing.overload
def tile_max(a: mat22) -> Any: ...
@typing.overload
def tile_max(a: mat33) -> Any: ...
@typing.overload
def tile_max(a: mat44) -> Any: ...
@typing.overload
def tile_max(a: transform) -> Any: ...
@typing.overload
def tile_max(a: Any) -> Any: ...
@typing.overload
def tile_min(a: builtins.int) -> Any:
    """The smallest element of a tile, as a tile of shape (1,)."""
@typing.overload
def tile_min(a: builtins.float) -> Any: ...
@typing.overload
def tile_min(a: builtins.bool) -> Any: ...
@typing.overload
def tile_min(a: vec2) -> Any: ...
@typing.overload
def tile_min(a: vec3) -> Any: ...
@typing.overload
def tile_min(a: vec4) -> Any: ...
@typing.overload
def tile_min(a: quat) -> Any: ...
@typing.overload
def tile_min(a: mat22) -> Any: ...
@typing.overload
def tile_min(a: mat33) -> Any: ...
@typing.overload
def tile_min(a: mat44) -> Any: ...
@typing.overload
def tile_min(a: transform) -> Any: ...
@typing.overload
def tile_min(a: Any) -> Any: ...
@typing.overload
def tile_sum(a: builtins.int, axis: builtins.int) -> Any:
    """The sum of the elements of a tile as a tile of shape (1,), or the sums along an axis."""
@typing.overload
def tile_sum(a: builtins.float, axis: builtins.float) -> Any: ...
@typing.overload
def tile_sum(a: builtins.bool, axis: builtins.bool) -> Any: ...
@typing.overload
def tile_sum(a: vec2, axis: vec2) -> Any: ...
@typing.overload
def tile_sum(a: vec3, axis: vec3) -> Any: ...
@typing.overload
def tile_sum(a: vec4, axis: vec4) -> Any: ...
@typing.overload
def tile_sum(a: quat, axis: quat) -> Any: ...
@typing.overload
def tile_sum(a: mat22, axis: mat22) -> Any: ...
@typing.overload
def tile_sum(a: mat33, axis: mat33) -> Any: ...
@typing.overload
def tile_sum(a: mat44, axis: mat44) -> Any: ...
@typing.overload
def tile_sum(a: transform, axis: transform) -> Any: ...
@typing.overload
def tile_sum(a: Any, axis: Any = ...) -> Any: ...
def warp_all(*args: Any, **named: Any) -> Any:
    """warp_all(predicate): whether it holds for all threads of the warp."""
def warp_any(*args: Any, **named: Any) -> Any:
    """warp_any(predicate): whether it holds for some thread of the warp."""
def atomic_or(*args: Any, **named: Any) -> Any:
    """Atomic or on an array element; gives the old value."""
@typing.overload
def bit_count(x: builtins.int) -> builtins.int:
    """Number of one bits, int32 whatever the type of x."""
@typing.overload
def bit_count(x: Any) -> Any: ...
def block_dim(*args: Any, **named: Any) -> Any:
    """Threads of a block, int32: what the launch says."""
def curlnoise(state: Any, xy: Any, octaves: Any = ..., lacunarity: Any = ..., gain: Any = ...) -> Any:
    """A divergence-free field: the curl of noise (Bridson et al. 2007, "Curl-noise for procedural fluid flow")."""
def expect_eq(*args: Any, **named: Any) -> Any:
    """Prints an error unless both values are equal."""
@typing.overload
def length_sq(a: vec2) -> builtins.float:
    """Squared Euclidean length of a vector or quaternion."""
@typing.overload
def length_sq(a: vec3) -> builtins.float: ...
@typing.overload
def length_sq(a: vec4) -> builtins.float: ...
@typing.overload
def length_sq(a: quat) -> builtins.float: ...
@typing.overload
def length_sq(a: Any) -> Any: ...
@typing.overload
def normalize(a: vec2) -> vec2:
    """The vector or quaternion scaled to length 1; zero stays zero."""
@typing.overload
def normalize(a: vec3) -> vec3: ...
@typing.overload
def normalize(a: vec4) -> vec4: ...
@typing.overload
def normalize(a: quat) -> quat: ...
@typing.overload
def normalize(a: Any) -> Any: ...
@typing.overload
def not_equal(a: vec2, b: vec2) -> Any:
    """a != b by component: a vector of truth values."""
@typing.overload
def not_equal(a: vec3, b: vec3) -> Any: ...
@typing.overload
def not_equal(a: vec4, b: vec4) -> Any: ...
@typing.overload
def not_equal(a: Any, b: Any) -> Any: ...
@typing.overload
def rand_init(seed: builtins.int) -> Any:
    """The state of a sequence: `rand_init(seed)`, or `rand_init(seed, i)` for one of many independent sequences."""
@typing.overload
def rand_init(seed: builtins.int, offset: builtins.int) -> Any: ...
@typing.overload
def rand_init(seed: Any, offset: Any = ...) -> Any: ...
def sync_warp(*args: Any, **named: Any) -> Any:
    """sync_warp(mask): waits for the threads of the warp, or those with a bit in the mask."""
def thread_id(*args: Any, **named: Any) -> Any:
    """Index of this thread in its block, int32."""
@typing.overload
def tile_axpy(alpha: builtins.int, src: builtins.int, dest: builtins.int) -> None:
    """dest += alpha src."""
@typing.overload
def tile_axpy(alpha: builtins.float, src: builtins.float, dest: builtins.float) -> None: ...
@typing.overload
def tile_axpy(alpha: builtins.bool, src: builtins.bool, dest: builtins.bool) -> None: ...
@typing.overload
def tile_axpy(alpha: vec2, src: vec2, dest: vec2) -> Any: ...
@typing.overload
def tile_axpy(alpha: vec3, src: vec3, dest: vec3) -> Any: ...
@typing.overload
def tile_axpy(alpha: vec4, src: vec4, dest: vec4) -> Any: ...
@typing.overload
def tile_axpy(alpha: quat, src: quat, dest: quat) -> None: ...
@typing.overload
def tile_axpy(alpha: mat22, src: mat22, dest: mat22) -> None: ...
@typing.overload
def tile_axpy(alpha: mat33, src: mat33, dest: mat33) -> None: ...
@typing.overload
def tile_axpy(alpha: mat44, src: mat44, dest: mat44) -> None: ...
@typing.overload
def tile_axpy(alpha: transform, src: transform, dest: transform) -> None: ...
@typing.overload
def tile_axpy(alpha: Any, src: Any, dest: Any) -> Any: ...
def tile_full(*args: Any, **named: Any) -> Any:
    """tile_full(shape, value, dtype=None): a tile of one value."""
def tile_ifft(*args: Any, **named: Any) -> Any:
    """tile_ifft(t): the inverse of tile_fft times the length, in place."""
def tile_load(*args: Any, **named: Any) -> Any:
    """tile_load(array, shape, offset=0): a part of an array; what lies outside of it is zero."""
def tile_ones(*args: Any, **named: Any) -> Any:
    """tile_ones(shape, dtype=float): a tile of ones."""
def tile_sort(*args: Any, **named: Any) -> Any:
    """tile_sort(keys, values=None): sorts in place; equal keys keep their order, NaN comes last."""
def tile_view(*args: Any, **named: Any) -> Any:
    """tile_view(t, offset, shape=None): a part of a tile, sharing its memory; without a shape and with an offset for each dimension: that element."""
class transform(_Value):
    """transform: a value of kernels and of Python."""
    p: vec3
    q: quat
@typing.overload
def transpose(a: mat22) -> mat22:
    """Rows become columns."""
@typing.overload
def transpose(a: mat33) -> mat33: ...
@typing.overload
def transpose(a: mat44) -> mat44: ...
@typing.overload
def transpose(a: Any) -> Any: ...
def atomic_add(*args: Any, **named: Any) -> Any:
    """Atomic add on an array element; gives the old value."""
def atomic_and(*args: Any, **named: Any) -> Any:
    """Atomic and on an array element; gives the old value."""
def atomic_cas(*args: Any, **named: Any) -> Any:
    """Atomic cas on an array element; gives the old value."""
def atomic_max(*args: Any, **named: Any) -> Any:
    """Atomic max on an array element; gives the old value."""
def atomic_min(*args: Any, **named: Any) -> Any:
    """Atomic min on an array element; gives the old value."""
def atomic_sub(*args: Any, **named: Any) -> Any:
    """Atomic sub on an array element; gives the old value."""
def atomic_xor(*args: Any, **named: Any) -> Any:
    """Atomic xor on an array element; gives the old value."""
@typing.overload
def div_approx(a: builtins.int, b: builtins.float) -> Any:
    """a / b. The quotient is correctly rounded here; Warp's may be off by two units in the last place."""
@typing.overload
def div_approx(a: builtins.float, b: builtins.float) -> builtins.float: ...
@typing.overload
def div_approx(a: builtins.bool, b: builtins.float) -> builtins.float: ...
@typing.overload
def div_approx(a: vec2, b: builtins.float) -> vec2: ...
@typing.overload
def div_approx(a: vec3, b: builtins.float) -> vec3: ...
@typing.overload
def div_approx(a: vec4, b: builtins.float) -> vec4: ...
@typing.overload
def div_approx(a: quat, b: builtins.float) -> quat: ...
@typing.overload
def div_approx(a: mat22, b: builtins.float) -> mat22: ...
@typing.overload
def div_approx(a: mat33, b: builtins.float) -> mat33: ...
@typing.overload
def div_approx(a: mat44, b: builtins.float) -> mat44: ...
@typing.overload
def div_approx(a: transform, b: builtins.float) -> transform: ...
@typing.overload
def div_approx(a: Any, b: Any) -> Any: ...
def expect_neq(*args: Any, **named: Any) -> Any:
    """Prints an error unless the values differ."""
@typing.overload
def less_equal(a: vec2, b: vec2) -> Any:
    """a <= b by component: a vector of truth values."""
@typing.overload
def less_equal(a: vec3, b: vec3) -> Any: ...
@typing.overload
def less_equal(a: vec4, b: vec4) -> Any: ...
@typing.overload
def less_equal(a: Any, b: Any) -> Any: ...
@typing.overload
def norm_huber(v: vec2, delta: builtins.float) -> builtins.float:
    """Huber's loss of the length n: n**2 / 2 up to delta, then delta (n - delta / 2)."""
@typing.overload
def norm_huber(v: vec3, delta: builtins.float) -> builtins.float: ...
@typing.overload
def norm_huber(v: vec4, delta: builtins.float) -> builtins.float: ...
@typing.overload
def norm_huber(v: Any, delta: Any = ...) -> Any: ...
@typing.overload
def quat_slerp(a: quat, b: quat, t: builtins.float) -> quat:
    """The rotation at fraction t of the shorter way from a to b, at constant speed."""
@typing.overload
def quat_slerp(a: Any, b: Any, t: Any) -> Any: ...
@typing.overload
def quat_twist(axis: vec3, q: quat) -> quat:
    """The part of q that turns about the unit axis: q = swing * twist, the swing about an axis at right angles."""
@typing.overload
def quat_twist(axis: Any, q: Any) -> Any: ...
def quaternion(*args: Any, **named: Any) -> Any:
    """A quaternion x, y, z, w."""
def sample_cdf(state: Any, cdf: Any) -> Any:
    """The index of a bin, by ascending cumulative probabilities: the first that is not below a uniform number."""
def select_max(a: Any, b: Any) -> Any:
    """a if a > b else b: one instruction."""
def select_min(a: Any, b: Any) -> Any:
    """a if a < b else b: one instruction."""
@typing.overload
def smoothstep(a: builtins.float, b: builtins.float, x: builtins.float) -> builtins.float:
    """0 below a, 1 above b, a cubic between."""
@typing.overload
def smoothstep(a: Any, b: Any, x: Any) -> Any: ...
def tile_empty(*args: Any, **named: Any) -> Any:
    """tile_empty(shape, dtype=float): a tile to be filled; it is zero until then."""
def tile_randf(*args: Any, **named: Any) -> Any:
    """tile_randf(shape, rng, min, max): random float32 from 0 to 1, or from min to max."""
def tile_randi(*args: Any, **named: Any) -> Any:
    """tile_randi(shape, rng, min, max): random int32; element i has the number that follows from the state rng + i."""
def tile_stack(*args: Any, **named: Any) -> Any:
    """tile_stack(capacity, dtype): a stack that the block shares; also an annotation."""
def tile_store(*args: Any, **named: Any) -> Any:
    """tile_store(array, t, offset=0): writes a tile to a part of an array; what lies outside of it is left out."""
def tile_zeros(*args: Any, **named: Any) -> Any:
    """tile_zeros(shape, dtype=float): a tile of zeros."""
class transformd(_Value):
    """transformd: a value of kernels and of Python."""
    p: vec3
    q: quat
transformf = transform
class transformh(_Value):
    """transformh: a value of kernels and of Python."""
    p: vec3
    q: quat
def warp_lanes(*args: Any, **named: Any) -> Any:
    """Threads of this warp, int32: 32, or what the launch has left for its last one."""
def atomic_exch(*args: Any, **named: Any) -> Any:
    """Atomic exch on an array element; gives the old value."""
@typing.overload
def determinant(a: mat22) -> builtins.float:
    """Determinant of a 2 × 2, 3 × 3 or 4 × 4 matrix."""
@typing.overload
def determinant(a: mat33) -> builtins.float: ...
@typing.overload
def determinant(a: mat44) -> builtins.float: ...
@typing.overload
def determinant(a: Any) -> Any: ...
def expect_near(*args: Any, **named: Any) -> Any:
    """Prints an error unless all components are within the tolerance of each other."""
def lower_bound(arr: Any, arr_begin: Any, arr_end: Any = ..., value: Any = ...) -> Any:
    """The first position of an ascending array whose element is not below `value`; the last one where all are."""
@typing.overload
def mul_mat_mat(a: mat22, b: mat22) -> mat22:
    """a b."""
@typing.overload
def mul_mat_mat(a: mat33, b: mat33) -> mat33: ...
@typing.overload
def mul_mat_mat(a: mat44, b: mat44) -> mat44: ...
@typing.overload
def mul_mat_mat(a: Any, b: Any) -> Any: ...
@typing.overload
def mul_mat_vec(m: mat22, v: vec2) -> vec2:
    """m v."""
@typing.overload
def mul_mat_vec(m: mat22, v: vec3) -> Any: ...
@typing.overload
def mul_mat_vec(m: mat22, v: vec4) -> Any: ...
@typing.overload
def mul_mat_vec(m: mat33, v: vec2) -> vec3: ...
@typing.overload
def mul_mat_vec(m: mat44, v: vec2) -> vec4: ...
@typing.overload
def mul_mat_vec(m: Any, v: Any) -> Any: ...
@typing.overload
def mul_vec_mat(v: vec2, m: mat22) -> vec2:
    """vᵀ m."""
@typing.overload
def mul_vec_mat(v: vec3, m: mat22) -> Any: ...
@typing.overload
def mul_vec_mat(v: vec4, m: mat22) -> Any: ...
@typing.overload
def mul_vec_mat(v: vec2, m: mat33) -> vec3: ...
@typing.overload
def mul_vec_mat(v: vec2, m: mat44) -> vec4: ...
@typing.overload
def mul_vec_mat(v: Any, m: Any) -> Any: ...
@typing.overload
def quat_rotate(quat: quat, vec: vec3) -> vec3:
    """vec rotated by the unit quaternion."""
@typing.overload
def quat_rotate(quat: Any, vec: Any) -> Any: ...
@typing.overload
def quat_to_rpy(q: quat) -> vec3:
    """(roll, pitch, yaw) with q = quat_rpy(roll, pitch, yaw), |pitch| <= pi/2, as a vector."""
@typing.overload
def quat_to_rpy(q: Any) -> Any: ...
def spatial_dot(a: Any, b: Any) -> Any:
    """Power of a wrench and a twist."""
def spatial_top(svec: Any) -> Any:
    """The first, linear half."""
def tile_arange(*args: Any, **named: Any) -> Any:
    """tile_arange(start, stop, step, dtype=None): start, start + step, … below stop."""
@typing.overload
def tile_argmax(a: builtins.int) -> Any:
    """The position of the largest element, counted row by row: the first of equal ones. A tile of shape (1,)."""
@typing.overload
def tile_argmax(a: builtins.float) -> Any: ...
@typing.overload
def tile_argmax(a: builtins.bool) -> Any: ...
@typing.overload
def tile_argmax(a: vec2) -> Any: ...
@typing.overload
def tile_argmax(a: vec3) -> Any: ...
@typing.overload
def tile_argmax(a: vec4) -> Any: ...
@typing.overload
def tile_argmax(a: quat) -> Any: ...
@typing.overload
def tile_argmax(a: mat22) -> Any: ...
@typing.overload
def tile_argmax(a: mat33) -> Any: ...
@typing.overload
def tile_argmax(a: mat44) -> Any: ...
@typing.overload
def tile_argmax(a: transform) -> Any: ...
@typing.overload
def tile_argmax(a: Any) -> Any: ...
@typing.overload
def tile_argmin(a: builtins.int) -> Any:
    """The position of the smallest element, counted row by row: the first of equal ones. A tile of shape (1,)."""
@typing.overload
def tile_argmin(a: builtins.float) -> Any: ...
@typing.overload
def tile_argmin(a: builtins.bool) -> Any: ...
@typing.overload
def tile_argmin(a: vec2) -> Any: ...
@typing.overload
def tile_argmin(a: vec3) -> Any: ...
@typing.overload
def tile_argmin(a: vec4) -> Any: ...
@typing.overload
def tile_argmin(a: quat) -> Any: ...
@typing.overload
def tile_argmin(a: mat22) -> Any: ...
@typing.overload
def tile_argmin(a: mat33) -> Any: ...
@typing.overload
def tile_argmin(a: mat44) -> Any: ...
@typing.overload
def tile_argmin(a: transform) -> Any: ...
@typing.overload
def tile_argmin(a: Any) -> Any: ...
def tile_assign(*args: Any, **named: Any) -> Any:
    """tile_assign(dst, src, offset=0): copies a tile into a part of another."""
def tile_astype(*args: Any, **named: Any) -> Any:
    """tile_astype(t, dtype): the elements converted."""
def tile_matmul(*args: Any, **named: Any) -> Any:
    """tile_matmul(a, b): the matrix product. tile_matmul(a, b, out, alpha=1, beta=1): out = alpha a b + beta out."""
@typing.overload
def tile_reduce(op: builtins.int, a: builtins.int, axis: builtins.int) -> Any:
    """The elements of a tile combined by `op`, which must be associative: all of them, or along an axis."""
@typing.overload
def tile_reduce(op: builtins.float, a: builtins.float, axis: builtins.float) -> Any: ...
@typing.overload
def tile_reduce(op: builtins.bool, a: builtins.bool, axis: builtins.bool) -> Any: ...
@typing.overload
def tile_reduce(op: vec2, a: vec2, axis: vec2) -> Any: ...
@typing.overload
def tile_reduce(op: vec3, a: vec3, axis: vec3) -> Any: ...
@typing.overload
def tile_reduce(op: vec4, a: vec4, axis: vec4) -> Any: ...
@typing.overload
def tile_reduce(op: quat, a: quat, axis: quat) -> Any: ...
@typing.overload
def tile_reduce(op: mat22, a: mat22, axis: mat22) -> Any: ...
@typing.overload
def tile_reduce(op: mat33, a: mat33, axis: mat33) -> Any: ...
@typing.overload
def tile_reduce(op: mat44, a: mat44, axis: mat44) -> Any: ...
@typing.overload
def tile_reduce(op: transform, a: transform, axis: transform) -> Any: ...
@typing.overload
def tile_reduce(op: Any, a: Any, axis: Any = ...) -> Any: ...
def warp_ballot(*args: Any, **named: Any) -> Any:
    """warp_ballot(predicate): a bit for each lane whose predicate holds, uint32."""
@typing.overload
def quat_inverse(quat: quat) -> quat:
    """The inverse of a unit quaternion: its conjugate."""
@typing.overload
def quat_inverse(quat: Any) -> Any: ...
@typing.overload
def sinc_and_cos(square: builtins.float) -> tuple[builtins.float, builtins.float]:
    """(sin(a) / a, cos(a)) for square = a**2: a series below a = 0.1."""
@typing.overload
def sinc_and_cos(square: Any) -> Any: ...
def sync_threads(*args: Any, **named: Any) -> Any:
    """Waits for all threads of the block; what they wrote before can be read after it."""
def tile_extract(*args: Any, **named: Any) -> Any:
    """tile_extract(t, i, j, …): an element of a tile."""
def tile_reshape(*args: Any, **named: Any) -> Any:
    """tile_reshape(a, shape): the elements in another shape; one extent may be -1."""
def tile_squeeze(*args: Any, **named: Any) -> Any:
    """tile_squeeze(a, axis=None): the tile without its dimensions of extent 1."""
@typing.overload
def greater_equal(a: vec2, b: vec2) -> Any:
    """a >= b by component: a vector of truth values."""
@typing.overload
def greater_equal(a: vec3, b: vec3) -> Any: ...
@typing.overload
def greater_equal(a: vec4, b: vec4) -> Any: ...
@typing.overload
def greater_equal(a: Any, b: Any) -> Any: ...
@typing.overload
def mul_quat_quat(a: quat, b: quat) -> quat:
    """The rotation b, then a (Hamilton product)."""
@typing.overload
def mul_quat_quat(a: Any, b: Any) -> Any: ...
@typing.overload
def quat_identity(dtype: builtins.int) -> Any:
    """No rotation."""
@typing.overload
def quat_identity(dtype: builtins.float) -> Any: ...
@typing.overload
def quat_identity(dtype: builtins.bool) -> Any: ...
@typing.overload
def quat_identity(dtype: vec2) -> Any: ...
@typing.overload
def quat_identity(dtype: vec3) -> Any: ...
@typing.overload
def quat_identity(dtype: vec4) -> Any: ...
@typing.overload
def quat_identity(dtype: quat) -> Any: ...
@typing.overload
def quat_identity(dtype: mat22) -> Any: ...
@typing.overload
def quat_identity(dtype: mat33) -> Any: ...
@typing.overload
def quat_identity(dtype: mat44) -> Any: ...
@typing.overload
def quat_identity(dtype: transform) -> Any: ...
@typing.overload
def quat_identity(dtype: Any = ...) -> Any: ...
@typing.overload
def quat_to_euler(q: quat, i: builtins.int, j: builtins.int, k: builtins.int) -> vec3:
    """The angles e with q = quat_from_euler(e, i, j, k), |e[j]| <= pi/2 (Bernardes and Viollet 2022)."""
@typing.overload
def quat_to_euler(q: Any, i: Any, j: Any, k: Any) -> Any: ...
def spatial_cross(a: Any, b: Any) -> Any:
    """Rate of change of the twist b fixed in a frame that moves with twist a (Featherstone 2008, 2.9)."""
def tile_cholesky(*args: Any, **named: Any) -> Any:
    """tile_cholesky(A, fill_mode): L with A = L Lᵀ of the lower triangle of A, or U with A = Uᵀ U of the upper one."""
def tile_diag_add(*args: Any, **named: Any) -> Any:
    """tile_diag_add(a, d): the matrix a plus the diagonal matrix of d."""
@typing.overload
def inverse_approx(m: mat22) -> mat22:
    """The inverse, as `inverse` gives it: Warp's divides less exactly where that is faster."""
@typing.overload
def inverse_approx(m: mat33) -> mat33: ...
@typing.overload
def inverse_approx(m: mat44) -> mat44: ...
@typing.overload
def inverse_approx(m: Any) -> Any: ...
@typing.overload
def quat_integrate(q: quat, w: vec3, dt: builtins.float) -> quat:
    """q turned for the time dt by the world angular velocity w (exponential map), normalised."""
@typing.overload
def quat_integrate(q: Any, w: Any, dt: Any) -> Any: ...
@typing.overload
def quat_to_matrix(quat: quat) -> mat33:
    """The rotation matrix of a unit quaternion: column i is where axis i goes."""
@typing.overload
def quat_to_matrix(quat: Any) -> Any: ...
def spatial_bottom(svec: Any) -> Any:
    """The second, angular half."""
class spatial_matrix(_Value):
    """mat66: a value of kernels and of Python."""
class spatial_vector(_Value):
    """vec6: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
def tile_broadcast(*args: Any, **named: Any) -> Any:
    """tile_broadcast(a, shape): the tile repeated along dimensions where it has one element, or which it lacks."""
def tile_stack_pop(*args: Any, **named: Any) -> Any:
    """tile_stack_pop(s): the value on top and its position; zero and -1 of an empty stack."""
def tile_transpose(*args: Any, **named: Any) -> Any:
    """tile_transpose(a): the transposed tile, sharing its memory."""
def transformation(*args: Any, **named: Any) -> Any:
    """A rigid transform of a position and a quaternion."""
@typing.overload
def warp_reduce_or(value: builtins.int) -> Any:
    """The bits that are set in the value of some thread of the warp."""
@typing.overload
def warp_reduce_or(value: Any) -> Any: ...
@typing.overload
def quat_from_euler(e: vec3, i: builtins.int, j: builtins.int, k: builtins.int) -> quat:
    """Rotation about axis i, then j, then k (fixed axes, each one once), by the components of e of these axes."""
@typing.overload
def quat_from_euler(e: Any, i: Any, j: Any, k: Any) -> Any: ...
@typing.overload
def quat_rotate_inv(quat: quat, vec: vec3) -> vec3:
    """vec rotated by the inverse of the unit quaternion."""
@typing.overload
def quat_rotate_inv(quat: Any, vec: Any) -> Any: ...
def sample_triangle(state: Any) -> Any:
    """Barycentric coordinates (u, v) of a point uniform in a triangle."""
@typing.overload
def spatial_adjoint(r: mat33, s: mat33) -> spatial_matrix:
    """The 6 × 6 matrix [[r, 0], [s, r]]; with s = skew(p) r it takes wrenches as transform_wrench does."""
@typing.overload
def spatial_adjoint(r: Any, s: Any) -> Any: ...
class spatial_matrixd(_Value):
    """mat66d: a value of kernels and of Python."""
spatial_matrixf = spatial_matrix
class spatial_matrixh(_Value):
    """mat66h: a value of kernels and of Python."""
class spatial_vectord(_Value):
    """vec6d: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
spatial_vectorf = spatial_vector
class spatial_vectorh(_Value):
    """vec6h: a value of kernels and of Python."""
    x: builtins.float
    y: builtins.float
    z: builtins.float
    w: builtins.float
def tile_atomic_add(*args: Any, **named: Any) -> Any:
    """tile_atomic_add(array, t, offset=0): adds a tile to a part of an array atomically; gives the old elements."""
def tile_stack_push(*args: Any, **named: Any) -> Any:
    """tile_stack_push(s, value, has_value): puts a value on the stack; its position, or -1."""
@typing.overload
def transform_point(xform: transform, point: vec3) -> vec3:
    """The point rotated, then translated."""
@typing.overload
def transform_point(mat: mat44, point: vec3) -> vec3: ...
@typing.overload
def transform_point(xform: Any, point: Any) -> Any: ...
def transform_twist(t: Any, s: Any) -> Any:
    """A twist (velocity at the origin, angular velocity) of the inner frame seen from the outer one."""
@typing.overload
def warp_reduce_add(value: builtins.int) -> Any:
    """The sum over the threads of the warp, for all of them."""
@typing.overload
def warp_reduce_add(value: builtins.float) -> Any: ...
@typing.overload
def warp_reduce_add(value: builtins.bool) -> Any: ...
@typing.overload
def warp_reduce_add(value: Any) -> Any: ...
@typing.overload
def warp_reduce_and(value: builtins.int) -> Any:
    """The bits that are set in the values of all threads of the warp."""
@typing.overload
def warp_reduce_and(value: Any) -> Any: ...
@typing.overload
def warp_reduce_max(value: builtins.int) -> Any:
    """The largest value of the threads of the warp, for all of them; a NaN is ignored."""
@typing.overload
def warp_reduce_max(value: builtins.float) -> Any: ...
@typing.overload
def warp_reduce_max(value: builtins.bool) -> Any: ...
@typing.overload
def warp_reduce_max(value: Any) -> Any: ...
@typing.overload
def warp_reduce_min(value: builtins.int) -> Any:
    """The smallest value of the threads of the warp, for all of them; a NaN is ignored."""
@typing.overload
def warp_reduce_min(value: builtins.float) -> Any: ...
@typing.overload
def warp_reduce_min(value: builtins.bool) -> Any: ...
@typing.overload
def warp_reduce_min(value: Any) -> Any: ...
@typing.overload
def warp_reduce_xor(value: builtins.int) -> Any:
    """The bits that are set in the values of an odd number of threads of the warp."""
@typing.overload
def warp_reduce_xor(value: Any) -> Any: ...
def warp_shuffle_up(*args: Any, **named: Any) -> Any:
    """warp_shuffle_up(value, delta): the value of the thread so many lanes before."""
def matrix_from_cols(*args: Any, **named: Any) -> Any:
    """The matrix whose columns are the given vectors."""
def matrix_from_rows(*args: Any, **named: Any) -> Any:
    """The matrix whose rows are the given vectors."""
@typing.overload
def quat_from_matrix(mat: mat33) -> quat:
    """The unit quaternion of a rotation matrix (Shepperd 1978: the largest component comes from the diagonal)."""
@typing.overload
def quat_from_matrix(mat: mat44) -> quat: ...
@typing.overload
def quat_from_matrix(mat: Any) -> Any: ...
@typing.overload
def quat_twist_angle(axis: vec3, q: quat) -> builtins.float:
    """The angle of quat_twist, from 0 to 2 pi."""
@typing.overload
def quat_twist_angle(axis: Any, q: Any) -> Any: ...
def sample_unit_cube(state: Any) -> Any:
    """A point uniform in the cube of side 1 about the origin."""
def sample_unit_disk(state: Any) -> Any:
    """A point uniform in the unit disk."""
def sample_unit_ring(state: Any) -> Any:
    """A point uniform on the unit circle."""
@typing.overload
def smooth_normalize(v: vec2, delta: builtins.float) -> vec2:
    """v divided by norm_pseudo_huber(v, delta): smooth at zero."""
@typing.overload
def smooth_normalize(v: vec3, delta: builtins.float) -> vec3: ...
@typing.overload
def smooth_normalize(v: vec4, delta: builtins.float) -> vec4: ...
@typing.overload
def smooth_normalize(v: Any, delta: Any = ...) -> Any: ...
def tile_add_inplace(*args: Any, **named: Any) -> Any:
    """tile_add_inplace(t, i, j, …, value): t[i, j, …] += value."""
def tile_from_thread(*args: Any, **named: Any) -> Any:
    """tile_from_thread(shape, value, thread_idx): a tile filled with the value of one thread of the block."""
def tile_lower_solve(*args: Any, **named: Any) -> Any:
    """tile_lower_solve(L, y): x with L x = y, L lower triangular."""
def tile_scatter_add(*args: Any, **named: Any) -> Any:
    """tile_scatter_add(t, i, j, …, value, has_value): adds to one element if has_value."""
def tile_stack_clear(*args: Any, **named: Any) -> Any:
    """tile_stack_clear(s): empties the stack."""
def tile_stack_count(*args: Any, **named: Any) -> Any:
    """tile_stack_count(s): how many values the stack holds."""
def tile_sub_inplace(*args: Any, **named: Any) -> Any:
    """tile_sub_inplace(t, i, j, …, value): t[i, j, …] -= value."""
def tile_upper_solve(*args: Any, **named: Any) -> Any:
    """tile_upper_solve(U, z): x with U x = z, U upper triangular."""
@typing.overload
def transform_vector(xform: transform, vec: vec3) -> vec3:
    """The direction vec rotated."""
@typing.overload
def transform_vector(mat: mat44, vec: vec3) -> vec3: ...
@typing.overload
def transform_vector(xform: Any, vec: Any) -> Any: ...
def transform_wrench(t: Any, s: Any) -> Any:
    """A wrench (force, torque about the origin) of the inner frame seen from the outer one."""
def warp_shuffle_idx(*args: Any, **named: Any) -> Any:
    """warp_shuffle_idx(value, lane): the value of the thread at a lane."""
def warp_shuffle_xor(*args: Any, **named: Any) -> Any:
    """warp_shuffle_xor(value, mask): the value of the thread at lane_id() ^ mask."""
@typing.overload
def norm_pseudo_huber(v: vec2, delta: builtins.float) -> builtins.float:
    """The smooth length sqrt(delta**2 + n**2)."""
@typing.overload
def norm_pseudo_huber(v: vec3, delta: builtins.float) -> builtins.float: ...
@typing.overload
def norm_pseudo_huber(v: vec4, delta: builtins.float) -> builtins.float: ...
@typing.overload
def norm_pseudo_huber(v: Any, delta: Any = ...) -> Any: ...
def tile_load_indexed(*args: Any, **named: Any) -> Any:
    """tile_load_indexed(a, indices, shape, offset, axis=0): tile_load with the indices of an axis from a tile."""
@typing.overload
def transform_compose(position: vec3, rotation: quat, scale: vec3) -> mat44:
    """The 4 × 4 matrix that scales along the axes, then rotates, then translates."""
@typing.overload
def transform_compose(position: Any, rotation: Any, scale: Any) -> Any: ...
@typing.overload
def transform_inverse(xform: transform) -> transform:
    """The inverse of a rigid transform."""
@typing.overload
def transform_inverse(xform: Any) -> Any: ...
def velocity_at_point(twist: Any, r: Any) -> Any:
    """The velocity of a point at the offset r from where the twist (velocity, angular velocity) is taken."""
def warp_shuffle_down(*args: Any, **named: Any) -> Any:
    """warp_shuffle_down(value, delta): the value of the thread so many lanes further on; the own where there is none."""
@typing.overload
def quat_to_axis_angle(quat: quat) -> Any:
    """(unit axis, angle in radians from 0 to pi), or into the arguments after quat; the axis of no rotation is zero."""
@typing.overload
def quat_to_axis_angle(quat: quat, axis: vec3, angle: builtins.float) -> Any: ...
@typing.overload
def quat_to_axis_angle(quat: Any, axis: Any = ..., angle: Any = ...) -> Any: ...
def sample_unit_sphere(state: Any) -> Any:
    """A point uniform in the unit ball."""
def sample_unit_square(state: Any) -> Any:
    """A point uniform in the square of side 1 about the origin."""
def spatial_cross_dual(a: Any, b: Any) -> Any:
    """Rate of change of the wrench b (force, torque) fixed in a frame that moves with twist a."""
def tile_store_indexed(*args: Any, **named: Any) -> Any:
    """tile_store_indexed(a, indices, t, offset, axis=0): tile_store with the indices of an axis from a tile."""
@typing.overload
def transform_identity(dtype: builtins.int) -> Any:
    """Neither translation nor rotation."""
@typing.overload
def transform_identity(dtype: builtins.float) -> Any: ...
@typing.overload
def transform_identity(dtype: builtins.bool) -> Any: ...
@typing.overload
def transform_identity(dtype: vec2) -> Any: ...
@typing.overload
def transform_identity(dtype: vec3) -> Any: ...
@typing.overload
def transform_identity(dtype: vec4) -> Any: ...
@typing.overload
def transform_identity(dtype: quat) -> Any: ...
@typing.overload
def transform_identity(dtype: mat22) -> Any: ...
@typing.overload
def transform_identity(dtype: mat33) -> Any: ...
@typing.overload
def transform_identity(dtype: mat44) -> Any: ...
@typing.overload
def transform_identity(dtype: transform) -> Any: ...
@typing.overload
def transform_identity(dtype: Any = ...) -> Any: ...
@typing.overload
def transform_multiply(a: transform, b: transform) -> transform:
    """The transform b, then a."""
@typing.overload
def transform_multiply(a: Any, b: Any) -> Any: ...
def tile_bit_or_inplace(*args: Any, **named: Any) -> Any:
    """tile_bit_or_inplace(t, i, j, …, value): t[i, j, …] |= value."""
def tile_cholesky_solve(*args: Any, **named: Any) -> Any:
    """tile_cholesky_solve(L, y, fill_mode): x with A x = y, given the Cholesky factor of A."""
@typing.overload
def tile_scan_exclusive(a: builtins.int) -> Any:
    """At each position the sum of the elements before it."""
@typing.overload
def tile_scan_exclusive(a: builtins.float) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: builtins.bool) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: vec2) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: vec3) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: vec4) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: quat) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: mat22) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: mat33) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: mat44) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: transform) -> Any: ...
@typing.overload
def tile_scan_exclusive(a: Any) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: builtins.int) -> Any:
    """At each position the sum of the elements up to and including it."""
@typing.overload
def tile_scan_inclusive(a: builtins.float) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: builtins.bool) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: vec2) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: vec3) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: vec4) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: quat) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: mat22) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: mat33) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: mat44) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: transform) -> Any: ...
@typing.overload
def tile_scan_inclusive(a: Any) -> Any: ...
def tile_scatter_masked(*args: Any, **named: Any) -> Any:
    """tile_scatter_masked(t, i, j, …, value, has_value): writes one element if has_value."""
@typing.overload
def transform_decompose(m: mat44) -> tuple[vec3, quat, vec3]:
    """(position, rotation, scale) of a 4 × 4 matrix without shear; a mirrored one has a negative last scale."""
@typing.overload
def transform_decompose(m: Any) -> Any: ...
@typing.overload
def transform_to_matrix(t: transform) -> mat44:
    """The 4 × 4 matrix of a rigid transform, for column vectors."""
@typing.overload
def transform_to_matrix(t: Any) -> Any: ...
@typing.overload
def quat_between_vectors(a: vec3, b: vec3) -> quat:
    """The shortest rotation that takes the direction of a to that of b; any half turn where they are opposite."""
@typing.overload
def quat_between_vectors(a: Any, b: Any) -> Any: ...
@typing.overload
def quat_from_axis_angle(axis: vec3, angle: builtins.float) -> quat:
    """Rotation by `angle` (radians) about a unit axis."""
@typing.overload
def quat_from_axis_angle(axis: Any, angle: Any) -> Any: ...
def tile_bit_and_inplace(*args: Any, **named: Any) -> Any:
    """tile_bit_and_inplace(t, i, j, …, value): t[i, j, …] &= value."""
def tile_bit_xor_inplace(*args: Any, **named: Any) -> Any:
    """tile_bit_xor_inplace(t, i, j, …, value): t[i, j, …] ^= value."""
def tile_cholesky_inplace(*args: Any, **named: Any) -> Any:
    """tile_cholesky_inplace(A, fill_mode): the Cholesky factor in place of A."""
@typing.overload
def transform_from_matrix(m: mat44) -> transform:
    """The rigid transform of a 4 × 4 matrix without scale or shear."""
@typing.overload
def transform_from_matrix(m: Any) -> Any: ...
def sample_unit_hemisphere(state: Any) -> Any:
    """A point uniform in the half of the unit ball with z ≥ 0."""
@typing.overload
def transform_get_rotation(xform: transform) -> quat:
    """The rotation q."""
@typing.overload
def transform_get_rotation(xform: Any) -> Any: ...
@typing.overload
def transform_set_rotation(xform: transform, q: quat) -> Any:
    """Makes q the rotation of xform."""
@typing.overload
def transform_set_rotation(xform: Any, q: Any) -> Any: ...
@typing.overload
def mul_transform_transform(a: transform, b: transform) -> transform:
    """The transform b, then a."""
@typing.overload
def mul_transform_transform(a: Any, b: Any) -> Any: ...
@typing.overload
def quat_twist_angle_signed(axis: vec3, q: quat) -> builtins.float:
    """The angle of quat_twist about the axis, from -2 pi to 2 pi."""
@typing.overload
def quat_twist_angle_signed(axis: Any, q: Any) -> Any: ...
def tile_atomic_add_indexed(*args: Any, **named: Any) -> Any:
    """tile_atomic_add_indexed(a, indices, t, offset, axis=0): as tile_atomic_add, indices from a tile."""
@typing.overload
def tile_scan_max_inclusive(a: builtins.int) -> Any:
    """At each position the largest element up to and including it."""
@typing.overload
def tile_scan_max_inclusive(a: builtins.float) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: builtins.bool) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: vec2) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: vec3) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: vec4) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: quat) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: mat22) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: mat33) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: mat44) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: transform) -> Any: ...
@typing.overload
def tile_scan_max_inclusive(a: Any) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: builtins.int) -> Any:
    """At each position the smallest element up to and including it."""
@typing.overload
def tile_scan_min_inclusive(a: builtins.float) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: builtins.bool) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: vec2) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: vec3) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: vec4) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: quat) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: mat22) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: mat33) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: mat44) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: transform) -> Any: ...
@typing.overload
def tile_scan_min_inclusive(a: Any) -> Any: ...
def tile_lower_solve_inplace(*args: Any, **named: Any) -> Any:
    """tile_lower_solve_inplace(L, y): the solution in place of y."""
def tile_upper_solve_inplace(*args: Any, **named: Any) -> Any:
    """tile_upper_solve_inplace(U, z): the solution in place of z."""
@typing.overload
def transform_get_translation(xform: transform) -> vec3:
    """The translation p."""
@typing.overload
def transform_get_translation(xform: Any) -> Any: ...
@typing.overload
def transform_set_translation(xform: transform, p: vec3) -> Any:
    """Makes p the translation of xform."""
@typing.overload
def transform_set_translation(xform: Any, p: Any) -> Any: ...
def sample_unit_sphere_surface(state: Any) -> Any:
    """A point uniform on the unit sphere."""
def tile_cholesky_solve_inplace(*args: Any, **named: Any) -> Any:
    """tile_cholesky_solve_inplace(L, y, fill_mode): the solution in place of y."""
def sample_unit_hemisphere_surface(state: Any) -> Any:
    """A point uniform on the half of the unit sphere with z ≥ 0."""
