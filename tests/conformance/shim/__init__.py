"""Stand-ins for names of Warp's internals that its tests import at module level, so that those files can be imported.

Each stand-in maps a name to what the engine has, or to something that fails when a test really uses it. Tests of Warp's
internals still fail; they are counted as failed.
"""

from __future__ import annotations

import importlib
import os
import sys
import types as python_types
import warnings
from typing import Any

import numpy as np

import engine
from engine.compiler import types
from engine.compiler.function import Func
from engine.compiler.values import type_of
from engine.context.annotation import ArrayAnnotation


class Missing:
    """A name of Warp's internals that has no counterpart: any use fails the test that makes it."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self._name} is internal to Warp")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self._name}.{name} is internal to Warp")


class InternalModule(python_types.ModuleType):
    """A module of internals: names that are not defined are `Missing`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}")


def _numpy_types() -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for dtype, scalar in types.BY_NUMPY.items():
        found[dtype] = found[dtype.type] = scalar
    return found


def _codes(t: Any) -> str:
    return {"int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
            "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "bool": "b"}[repr(t)]  # fmt: skip


def _fill_types(module: python_types.ModuleType) -> None:
    public = engine.types
    for name in public.__all__:
        setattr(module, name, getattr(public, name))
    module.np_dtype_to_warp_type = _numpy_types()
    names = engine.compiler.values.names
    module.vector_types = tuple(v for n, v in vars(names).items() if n.startswith("vec") and isinstance(v, type))
    module.non_atomic_types = (types.int8, types.uint8, types.int16, types.uint16)
    module.float_base, module.int_base, module.scalar_base = float, int, float
    module.strides_from_shape = lambda shape, dtype: tuple(
        np.empty(shape, np.uint8).strides[d] * types.memory_layout(types.of_annotation(dtype))[1]
        for d in range(len(shape)))  # fmt: skip
    module.type_scalar_type = lambda t: (types.components(types.of_annotation(t)) or (None,))[0]
    module.dtype_from_numpy = lambda t: types.BY_NUMPY[np.dtype(t)]
    module._ArrayAnnotation = module._ArrayAnnotationBase = module._IndexedArrayAnnotation = ArrayAnnotation
    module.ARRAY_TYPE_REGULAR, module.ARRAY_TYPE_INDEXED = "array", "indexedarray"
    module.ARRAY_TYPE_FABRIC, module.ARRAY_TYPE_FABRIC_INDEXED = "fabricarray", "indexedfabricarray"
    module.concrete_array_type = lambda a: a.array_class if isinstance(a, ArrayAnnotation) else type(a)
    module.array_type_id = lambda a: module.concrete_array_type(a).__name__
    module.matches_array_class = lambda a, array_class: module.concrete_array_type(a) is array_class
    module.get_type_code = lambda t: repr(types.of_annotation(t))


def _fill_context(module: python_types.ModuleType) -> None:
    from engine.compiler import modules

    module.Function, module.Kernel, module.Module = Func, engine.Kernel, engine.Module
    module.user_modules = modules.MODULES
    module.init = engine.init
    module._is_graph_capture_allocation_supported = lambda device: True
    core = Missing("runtime.core")
    core.wp_is_error_output_enabled = lambda: True
    core.wp_set_error_output_enabled = lambda on: None
    core.wp_is_mathdx_enabled = lambda: 0
    runtime = python_types.SimpleNamespace(
        core=core, driver_version=None, toolkit_version=None, default_device="cpu",
        get_error_string=lambda: "", cpu_device=engine.get_device("cpu"))  # fmt: skip
    module.runtime = runtime


def _fill_logger(module: python_types.ModuleType) -> None:
    module._warnings_seen = set()

    def log_warning(message: str, category: Any = None, stacklevel: int = 1, once: bool = False) -> None:
        if once and message in module._warnings_seen:
            return
        module._warnings_seen.add(message)
        warnings.warn(message, category or UserWarning, stacklevel=stacklevel + 1)

    module.log_warning = log_warning


def _fill_codegen(module: python_types.ModuleType) -> None:
    module.WarpCodegenError = module.WarpCodegenTypeError = module.WarpCodegenValueError = engine.CompileError


def _fill_autograd(module: python_types.ModuleType) -> None:
    module.FunctionMetadata = Missing("FunctionMetadata")


def _fem() -> python_types.ModuleType:
    module = InternalModule("warp.fem")

    @engine.struct
    class Sample:
        qp_coords: engine.vec3
        qp_index: int
        qp_weight: float

    module.Sample = Sample
    module.integrand = lambda function: function
    return module


def _examples(tests_dir: str) -> python_types.ModuleType:
    """The examples' assets, which lie beside the tests if the whole wheel was unpacked."""
    module = InternalModule("warp.examples")
    module.get_asset_directory = lambda: os.path.join(tests_dir, os.pardir, "examples", "assets")  # type: ignore[attr-defined]
    return module


def install(tests_dir: str, alias: str = "warp") -> None:
    """Puts the stand-ins into `sys.modules` under the name of Warp."""
    src = InternalModule(f"{alias}._src")
    src.__path__ = []
    sys.modules[src.__name__] = src
    fill = {"types": _fill_types, "context": _fill_context, "logger": _fill_logger, "codegen": _fill_codegen,
            "autograd": _fill_autograd,
            "builtins": None, "build": None, "utils": None}  # fmt: skip
    for name, function in fill.items():
        module = InternalModule(f"{alias}._src.{name}")
        sys.modules[module.__name__] = module
        setattr(src, name, module)
        if function is not None:
            function(module)
    src.utils.map_cache = {}
    src.types.Reference = types.Reference
    engine._src = src  # type: ignore[attr-defined]
    modules = {"fem": _fem(), "sparse": InternalModule(f"{alias}.sparse"), "examples": _examples(tests_dir),
               "geometry": engine.geometry}  # fmt: skip
    for name, made in modules.items():
        sys.modules[f"{alias}.{name}"] = made
        setattr(engine, name, made)
    for name in ("utils", "autograd", "optim"):
        try:
            importlib.import_module(f"engine.{name}")
        except ImportError:
            made = InternalModule(f"{alias}.{name}")
            sys.modules[f"{alias}.{name}"] = sys.modules[f"engine.{name}"] = made
            setattr(engine, name, made)
    for name in ("func_grad", "func_replay"):
        if not hasattr(engine, name):
            setattr(engine, name, lambda function: lambda adjoint: adjoint)
    for name in ("fabricarray", "indexedfabricarray", "fabricarrayarray", "indexedfabricarrayarray", "Texture1D",
                 "Texture2D", "Texture3D"):  # fmt: skip
        if not hasattr(engine, name):
            setattr(engine, name, type(name, (engine.array,), {"__slots__": ()}))  # what there is none of
    engine.is_cubql_available = lambda: False
    engine.MeshQuery = engine.MeshQueryAABB = engine.MeshQuerySphere = engine.BvhQuery  # one type for all queries here
    engine.Kernel.adj = property(lambda kernel: python_types.SimpleNamespace())  # tests ask it whether it has blocks
    engine.WarpCodegenError = engine.WarpCodegenTypeError = engine.WarpCodegenValueError = engine.CompileError
    engine.WarpCodegenAttributeError = engine.WarpCodegenKeyError = engine.CompileError


def value_type(value: Any) -> Any:
    """The kernel type of a value."""
    return type_of(value)
