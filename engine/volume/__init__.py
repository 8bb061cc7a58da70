"""Sparse volumes: NanoVDB grids in files and memory, their samples in kernels, distances to meshes."""

from engine.volume.mesh_distance import mesh_to_volume
from engine.volume.sparse_volume import Volume

__all__ = ["Volume", "mesh_to_volume"]
