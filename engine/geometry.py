"""Surfaces of fields under Warp's names."""

from engine.geom.iso_surface import IsoSurfaceBase
from engine.geom.marching_cubes import IsoSurfaceMarchingCubes
from engine.geom.surface_nets import IsoSurfaceNets

__all__ = ["IsoSurfaceBase", "IsoSurfaceMarchingCubes", "IsoSurfaceNets"]
