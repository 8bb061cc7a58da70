"""Collision groups → category and mask bits; filtered pairs → pairs of shapes."""

from __future__ import annotations

from typing import Any

from engine.sim.scene_usd.reading import Reading

CATEGORIES = 32  # bits of SceneShape.category


def read_groups(reading: Reading, shape_descs: dict[str, Any]) -> None:
    """Sets category and mask of all shapes.

    A collider may be in several groups, and two colliders are filtered if any two of their groups are. One category
    bit therefore stands for one *set* of groups that occurs; bit 0 for colliders in no group.
    """
    from pxr import UsdPhysics

    if not any(desc.collisionGroups for desc in shape_descs.values()):
        return
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(reading.stage)
    of_shape = [
        tuple(sorted(shape_descs[s.label].collisionGroups, key=str)) if s.label in shape_descs else ()
        for s in reading.records.shapes
    ]
    sets = list(dict.fromkeys([(), *of_shape]))
    if len(sets) > CATEGORIES:
        reading.report.add("collision groups", reading.path, f"more than {CATEGORIES - 1} combinations, all collide")
        return
    masks = [sum(1 << j for j, b in enumerate(sets) if _collide(table, a, b)) for a in sets]
    for shape, groups in zip(reading.records.shapes, of_shape, strict=True):
        shape.category = 1 << sets.index(groups)
        shape.mask = masks[sets.index(groups)] | ~((1 << len(sets)) - 1) & 0xFFFFFFFF


def _collide(table: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """False if some group of a is filtered against some group of b."""
    return all(table.IsCollisionEnabled(x, y) for x in a for y in b)


def read_filtered_pairs(reading: Reading) -> None:
    """Adds a pair of shapes for each two colliders that FilteredPairsAPI keeps apart, on colliders, bodies or above."""
    from pxr import Usd, UsdPhysics

    for prim in Usd.PrimRange.Stage(reading.stage, Usd.TraverseInstanceProxies()):
        if not prim.HasAPI(UsdPhysics.FilteredPairsAPI):
            continue
        mine = _shapes_of(reading, str(prim.GetPath()))
        for target in UsdPhysics.FilteredPairsAPI(prim).GetFilteredPairsRel().GetForwardedTargets():
            if not reading.stage.GetPrimAtPath(target):
                raise reading.error(prim, f"filteredPairs refers to {target}, which does not exist")
            theirs = _shapes_of(reading, str(target))
            reading.records.filters.update((min(a, b), max(a, b)) for a in mine for b in theirs if a != b)


def _shapes_of(reading: Reading, path: str) -> list[int]:
    """The colliders that a filter on this prim means: itself, else those of the body, else all below it."""
    if path in reading.shape_index and path not in reading.body_index:
        return reading.shape_index[path]
    if path in reading.body_index:
        body = reading.body_index[path]
        return [i for i, s in enumerate(reading.records.shapes) if s.body == body]
    return [i for p, ids in reading.shape_index.items() if p.startswith(path + "/") for i in ids]
