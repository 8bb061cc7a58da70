"""Physics materials: which one a collider is bound to, and its friction, restitution and density in SI."""

from __future__ import annotations

from typing import Any

from engine.sim.scene_records import Material
from engine.sim.scene_usd.reading import Reading

BINDINGS = ("material:binding:physics", "material:binding")  # a binding for physics hides one for all purposes


def bound_material(reading: Reading, prim: Any, desc: Any) -> Material:
    """The physics material of a collider; the defaults of scene_records without one."""
    from pxr import UsdPhysics

    bound = [str(p) for p in desc.materials if not p.isEmpty] or _unapplied_binding(prim)
    if not bound:
        return Material()
    if len(bound) > 1:
        reading.report.add("materials of mesh subsets", prim.GetPath(), "the first one is used for the whole collider")
    if bound[0] not in reading.materials:
        material = reading.stage.GetPrimAtPath(bound[0])
        known = material and material.HasAPI(UsdPhysics.MaterialAPI)
        reading.materials[bound[0]] = _read(reading, material) if known else Material()
    return reading.materials[bound[0]]


def _unapplied_binding(prim: Any) -> list[str]:
    """The nearest binding on the prim or above it that USD skips because MaterialBindingAPI is not applied.

    Files from before USD 23 are full of them (OpenUSD's own physics examples among them) and mean it.
    """
    for name in BINDINGS:
        above = prim
        while above and not above.IsPseudoRoot():
            relation = above.GetRelationship(name)
            if relation and relation.GetForwardedTargets():
                return [str(relation.GetForwardedTargets()[0])]
            above = above.GetParent()
    return []


def _read(reading: Reading, prim: Any) -> Material:
    """One material prim. Raises SceneError for NaN and negative values."""
    from pxr import UsdPhysics

    api = UsdPhysics.MaterialAPI(prim)
    attributes = {
        "staticFriction": api.GetStaticFrictionAttr(),
        "dynamicFriction": api.GetDynamicFrictionAttr(),
        "restitution": api.GetRestitutionAttr(),
        "density": api.GetDensityAttr(),
    }
    values = {name: float(reading.value(attribute)) for name, attribute in attributes.items()}
    for name, number in values.items():
        if number < 0:
            raise reading.error(prim, f"physics:{name} is {number:g}, must not be negative")
    if abs(values["staticFriction"] - values["dynamicFriction"]) > 1e-6:
        reading.report.add(
            "physics:staticFriction", prim.GetPath(), "differs from dynamicFriction, which is used for both"
        )
    return Material(values["dynamicFriction"], values["restitution"], values["density"] * reading.units.density)
