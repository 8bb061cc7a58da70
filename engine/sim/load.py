"""Scene file → simulation: the importer of the file's extension, the model, the file's frame rate."""

from __future__ import annotations

import os
from typing import Any

from engine.errors import SceneError
from engine.plugin import importers
from engine.sim.scene_assembly import assemble
from engine.sim.scene_records import SceneRecords, make_builder
from engine.sim.simulation import Simulation

for _suffix in (".usd", ".usda", ".usdc", ".usdz"):
    importers.provide(_suffix, "engine.sim.scene_usd:read")
importers.provide(".json", "engine.sim.scene_splishsplash:read")


def read_scene(path: str | os.PathLike[str]) -> SceneRecords:
    """The records of a scene file. Raises SceneError for one that is missing, damaged or of an unknown kind."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in importers:
        if not os.path.exists(name):
            raise SceneError(name, "", "no such file")
        raise SceneError(name, "", f"unknown kind of scene file; there are {', '.join(importers.names())}")
    records: SceneRecords = importers.get(suffix)(name)
    return records


def load(
    path: str | os.PathLike[str],
    device: Any = None,
    dt: float | None = None,
    substeps: int | None = None,
    *,
    fps: float | None = None,
    **options: Any,
) -> Simulation:
    """The simulation of a scene file (.usd .usda .usdc .usdz, SPlisHSPlasH's .json).

    device: where it runs, None: the default device. dt: seconds of one `step`, default 1 / fps. fps: frames per second,
    default the file's. substeps and further options go to Simulation. What the file holds and the engine does not
    simulate as written is in `sim.report`. Options of the fluid solver go before those of the file.
    Raises SceneError naming the file and the prim, also for a scene in which nothing can move.
    """
    records = read_scene(path)
    if not records.bodies and not records.fluids:
        missing = sorted(records.report.kinds())
        hint = f"; not supported yet: {', '.join(missing)}" if missing else ""
        raise SceneError(records.path, "", f"nothing to simulate: no rigid bodies and no particles{hint}")
    assemble(records)
    model = make_builder(records).finalize(device=_device(device))
    if substeps is not None:
        options["substeps"] = substeps
    if records.substeps is not None:
        options.setdefault("substeps", records.substeps)
    options["fluid_options"] = records.fluid_options | (options.get("fluid_options") or {})
    sim = Simulation(model, dt=dt if dt is not None else 1.0 / (fps or records.fps), source=records.path, **options)
    sim.report = records.report
    return sim


def _device(device: Any) -> Any:
    """A device by name, object, or the default one."""
    from engine.context import get_device

    return get_device(device)
