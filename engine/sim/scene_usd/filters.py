"""Collision groups → category and mask bits; filtered pairs → pairs of shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.sim.scene_usd.reading import Reading
from engine.state.schema import WORLD_BODY

CATEGORIES = 32  # bits of SceneShape.category


def read_groups(reading: Reading, shape_descs: dict[str, Any]) -> None:
    """Sets category and mask of all shapes.

    A collider may be in several groups, and two colliders are filtered if any two of their groups are. One category
    bit therefore stands for one *set* of groups that occurs; bit 0 for colliders in no group.
    """
    if not any(desc.collisionGroups for desc in shape_descs.values()):
        return
    groups = _groups(reading)
    of_shape = [_names(shape_descs[s.label].collisionGroups, groups) for s in reading.records.shapes]
    sets = list(dict.fromkeys([frozenset(), *of_shape]))
    if len(sets) > CATEGORIES:
        reading.report.add("collision groups", reading.path, f"more than {CATEGORIES - 1} combinations, all collide")
        return
    masks = [sum(1 << j for j, b in enumerate(sets) if _collide(a, b, groups)) for a in sets]
    for shape, names in zip(reading.records.shapes, of_shape, strict=True):
        shape.category = 1 << sets.index(names)
        shape.mask = masks[sets.index(names)] | ~((1 << len(sets)) - 1) & 0xFFFFFFFF


@dataclass
class _Group:
    """A collision group, or all those with one mergeGroup name. `filtered` and the keys of the table: group names."""

    filtered: set[str] = field(default_factory=set)
    inverted: bool = False  # `filtered` are the only ones that it collides with

    def filters(self, name: str) -> bool:
        return (name in self.filtered) != self.inverted


def _groups(reading: Reading) -> dict[str, _Group]:
    """The group of every PhysicsCollisionGroup prim path; merged groups share one.

    (UsdPhysics.CollisionGroup.ComputeCollisionGroupTable takes a filtered group that does not exist for the group
    itself, so it is not used.)
    """
    from pxr import Usd, UsdPhysics

    merged: dict[str, _Group] = {}
    groups: dict[str, _Group] = {}
    targets: list[tuple[_Group, str, Any]] = []
    for prim in Usd.PrimRange.Stage(reading.stage, Usd.TraverseInstanceProxies()):
        if not prim.IsA(UsdPhysics.CollisionGroup):
            continue
        api, path = UsdPhysics.CollisionGroup(prim), str(prim.GetPath())
        name = api.GetMergeGroupNameAttr().Get() or ""
        group = groups[path] = merged.setdefault(name, _Group()) if name else _Group()
        group.inverted |= bool(api.GetInvertFilteredGroupsAttr().Get())
        targets += [(group, path, target) for target in api.GetFilteredGroupsRel().GetForwardedTargets()]
    for group, path, target in targets:
        if str(target) in groups:
            group.filtered |= {p for p, other in groups.items() if other is groups[str(target)]}
        else:
            reading.report.add("filtered group that does not exist", path, f"{target} is ignored")
    return groups


def _names(paths: Any, groups: dict[str, _Group]) -> frozenset[str]:
    """The groups of a collider."""
    return frozenset(str(p) for p in paths if str(p) in groups)


def _collide(a: frozenset[str], b: frozenset[str], groups: dict[str, _Group]) -> bool:
    """False if some group of a is filtered against some group of b."""
    return not any(groups[x].filters(y) or groups[y].filters(x) for x in a for y in b)


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


def read_self_collision(reading: Reading, prim: Any, desc: Any) -> None:
    """Keeps all parts of an articulation apart whose root says so.

    UsdPhysics has no such switch; files say it in the vocabulary of PhysX, and are not meant to work without it.
    """
    switch = prim.GetAttribute("physxArticulation:enabledSelfCollisions")
    if not switch or switch.Get(reading.time) is not False:
        return
    bodies = {reading.body_index.get(str(path), WORLD_BODY) for path in desc.articulatedBodies} - {WORLD_BODY}
    parts = [i for i, s in enumerate(reading.records.shapes) if s.body in bodies]
    shapes = reading.records.shapes
    reading.records.filters.update((a, b) for a in parts for b in parts if a < b and shapes[a].body != shapes[b].body)


def _shapes_of(reading: Reading, path: str) -> list[int]:
    """The colliders that a filter on this prim means: itself, else those of the body, else all below it."""
    if path in reading.shape_index and path not in reading.body_index:
        return reading.shape_index[path]
    if path in reading.body_index:
        body = reading.body_index[path]
        return [i for i, s in enumerate(reading.records.shapes) if s.body == body]
    return [i for p, ids in reading.shape_index.items() if p.startswith(path + "/") for i in ids]
