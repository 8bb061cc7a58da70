"""Scenes and simulation: ModelBuilder, Simulation, importers, solvers, frames out. Names load when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "JointDof": "engine.sim.builder_records",
    "ModelBuilder": "engine.sim.builder",
    "ShapeOptions": "engine.sim.builder_records",
    "Simulation": "engine.sim.simulation",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
