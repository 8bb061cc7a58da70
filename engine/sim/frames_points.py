"""Particles of each frame as a file of their own, for tools that read VTK or PLY: written by meshio, an optional extra.

A frame becomes `<name>_<frame, four digits>.<suffix>`, whole or not at all, in the order of the particles' ids. VTK
files hold velocity, density and pressure, fluid and id of each; PLY has no vectors: there the velocity is vx, vy, vz.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import Error
from engine.replace_file import replacing

SUFFIXES = (".vtk", ".vtu", ".ply")


class PointFiles:
    """Raises Error, before anything is written, for another suffix, a model without particles, or without meshio."""

    def __init__(self, path: str | os.PathLike[str], model: Any):
        self._path = Path(path)
        if self._path.suffix not in SUFFIXES:
            raise Error(f"{self._path}: particles are written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
        if not model.count["nparticle"] and not model.count["nemitter"]:
            raise Error(f"{self._path}: the scene has no particles to write")
        try:
            import meshio
        except ImportError:
            raise Error(f"{self._path}: writing particles needs meshio: pip install weft-engine[points]") from None
        self._meshio, self._density = meshio, model.fluid_density.numpy()
        try:
            self._path.absolute().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(f"{self._path}: cannot be written: {error.strerror}") from None

    def write(self, state: Any, frame: int) -> Path:
        """The file of one frame; Error naming it if it cannot be written."""
        order = np.argsort(state.particle_id.numpy())
        fluid, velocity = state.particle_fluid.numpy()[order], state.particle_qd.numpy()[order]
        rest = self._density[fluid]
        data = {
            "id": state.particle_id.numpy()[order],
            "fluid": fluid,
            "density": (rest * state.particle_density.numpy()[order]).astype(np.float32),  # kg/m³
            "pressure": (rest * state.particle_pressure.numpy()[order]).astype(np.float32),  # Pa
        }
        if self._path.suffix == ".ply":
            data |= {f"v{axis}": np.ascontiguousarray(velocity[:, a]) for a, axis in enumerate("xyz")}
        else:
            data["velocity"] = np.ascontiguousarray(velocity)
        cells = [("vertex", np.arange(len(order), dtype=np.int32).reshape(-1, 1))]
        places = np.ascontiguousarray(state.particle_q.numpy()[order])
        mesh = self._meshio.Mesh(places, [] if self._path.suffix == ".ply" else cells, point_data=data)
        target = self._path.with_name(f"{self._path.stem}_{frame:04d}{self._path.suffix}")
        with replacing(target) as file:
            self._meshio.write(file, mesh)
        return target
