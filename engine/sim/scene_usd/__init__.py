"""USD scenes: UsdPhysics content and fluids of a file → scene records (SI units, the stage's up axis is kept).

USD's own parser (UsdPhysicsLoadStageFromPrimRange) finds the physics prims and resolves groups, materials, limits and
drives; one reader per kind of prim turns each into a record. Frames are computed here in double precision.
"""

from __future__ import annotations

import os
from typing import Any

from engine.sim.scene_records import SceneRecords
from engine.sim.scene_usd.bodies import read_body
from engine.sim.scene_usd.filters import read_filtered_pairs, read_groups, read_self_collision
from engine.sim.scene_usd.fluids import fluid_prims, read_domain, read_fluid
from engine.sim.scene_usd.gravity import read_gravity
from engine.sim.scene_usd.joints import read_joint
from engine.sim.scene_usd.masses import read_masses
from engine.sim.scene_usd.reading import Reading
from engine.sim.scene_usd.shapes import read_shape
from engine.sim.scene_usd.stage import (
    SUFFIXES,
    damaged,
    frame_rate,
    open_stage,
    report_composition,
    stage_units,
    start_time,
    up_axis,
    warnings_of_usd,
)
from engine.sim.scene_usd.unsupported import report_unsupported

__all__ = ["SUFFIXES", "read"]

DEFAULT_RATE = 60.0  # frames per second of a stage that names none


def read(path: str | os.PathLike[str]) -> SceneRecords:
    """The records of a USD file. Raises SceneError naming the file and the prim; what is left out is in `.report`."""
    from pxr import Tf, UsdGeom

    name = os.fspath(path)
    stage = open_stage(name)
    records = SceneRecords(name, up_axis=up_axis(stage), fps=frame_rate(stage) or DEFAULT_RATE)
    reading = Reading(stage, name, stage_units(stage, name), UsdGeom.XformCache(start_time(stage)), records)
    report_composition(stage, name, records.report)
    try:
        with warnings_of_usd(records.report, name):
            _read_prims(reading)
        report_unsupported(stage, records.report)
    except Tf.ErrorException as error:  # values of binary files are read, and found damaged, when they are asked for
        raise damaged(name, error) from None
    return records


def _read_prims(reading: Reading) -> None:
    """All readers in the order in which they need each other's records."""
    scenes, bodies, shapes, joints, articulations = _parsed(reading.stage).values()
    reading.records.gravity = read_gravity(reading, [reading.stage.GetPrimAtPath(path) for path in scenes])
    read_domain(reading, [reading.stage.GetPrimAtPath(path) for path in scenes])
    for prim in fluid_prims(reading.stage):
        read_fluid(reading, prim)
    for path in bodies:
        read_body(reading, reading.stage.GetPrimAtPath(path))
    for path, desc in shapes.items():
        read_shape(reading, reading.stage.GetPrimAtPath(path), desc)
    for path, desc in joints.items():
        read_joint(reading, reading.stage.GetPrimAtPath(path), desc)
    read_groups(reading, shapes)
    read_filtered_pairs(reading)
    for path, desc in articulations.items():
        read_self_collision(reading, reading.stage.GetPrimAtPath(path), desc)
    read_masses(reading)


FAMILIES = ("Scene", "RigidBody", "Shape", "Joint", "Articulation")


def _parsed(stage: Any) -> dict[str, dict[str, Any]]:
    """USD's descriptions by family and prim path, each family in the stage's order."""
    from pxr import UsdPhysics

    load = getattr(UsdPhysics, "UsdPhysicsLoadStageFromPrimRange", None) or UsdPhysics.LoadUsdPhysicsFromRange
    found: dict[str, dict[str, Any]] = {family: {} for family in FAMILIES}
    for kind, (paths, descs) in load(stage, ["/"]).items():
        name = str(kind).rsplit(".", 1)[-1]
        family = next((f for f in FAMILIES if name.endswith(f)), None)
        if family is not None:
            found[family].update((str(path), desc) for path, desc in zip(paths, descs, strict=True))
    order = _paths_outside_instancers(stage)
    return {family: {p: descs[p] for p in order if p in descs} for family, descs in found.items()}


def _paths_outside_instancers(stage: Any) -> list[str]:
    """Paths of all prims in the stage's order, without what is below point instancers: those are prototypes."""
    from pxr import Usd, UsdGeom

    prims = iter(Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies()))
    paths = []
    for prim in prims:
        paths.append(str(prim.GetPath()))
        if prim.IsA(UsdGeom.PointInstancer):
            prims.PruneChildren()
    return paths
