"""Geometry without time and forces: shapes, mass properties, hulls, broad and narrow phase, queries of meshes."""

import importlib
from typing import Any

_HOMES = dict.fromkeys(("Repair", "TriMesh", "load_mesh", "make_mesh", "repair_mesh", "save_mesh"), "engine.geom.mesh")
_HOMES |= dict.fromkeys(("MeshReport", "inspect_mesh"), "engine.geom.mesh_report")
_HOMES["TrimeshRays"] = "engine.geom.trimesh_rays"


def __getattr__(name: str) -> Any:
    """Public names, when first used: importing a part of this package loads no other."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
