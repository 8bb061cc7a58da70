"""Geometry without time and forces: shapes, mass properties, hulls, broad and narrow phase, queries of meshes."""

from typing import Any


def __getattr__(name: str) -> Any:
    """`TrimeshRays`, when first used: importing a part of this package loads no other."""
    if name != "TrimeshRays":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from engine.geom.trimesh_rays import TrimeshRays

    return TrimeshRays
