"""Reports what a stage holds that no reader looks at: prim types, applied schemas and attributes of other engines."""

from __future__ import annotations

from typing import Any

from engine.sim.scene_records import SceneReport

# UsdPhysics schemas that the readers handle, or that ask for nothing in maximal coordinates (articulation roots).
HANDLED = {
    "PhysicsArticulationRootAPI",
    "PhysicsCollisionAPI",
    "PhysicsDriveAPI",
    "PhysicsFilteredPairsAPI",
    "PhysicsLimitAPI",
    "PhysicsMassAPI",
    "PhysicsMaterialAPI",
    "PhysicsMeshCollisionAPI",
    "PhysicsRigidBodyAPI",
}
# Schemas of other vendors that do not touch the motion: labels, render settings.
HARMLESS_PREFIXES = ("Semantics", "OmniRtx", "OmniGraph", "OmniLight", "OmniSensor", "TensorPhysics")
# Attribute namespaces of other engines: their values are not read.
FOREIGN_NAMESPACES = ("physx", "newton", "mjc", "warp", "state", "isaac")
# Registered prim types that carry matter which is not simulated yet.
SOFT_TYPES = {"TetMesh": "soft bodies are not supported yet"}


def report_unsupported(stage: Any, report: SceneReport) -> None:
    """Walks all prims, instance proxies included."""
    from pxr import Usd, UsdGeom

    registry = Usd.SchemaRegistry()
    prims = iter(Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies()))
    for prim in prims:
        if prim.IsA(UsdGeom.PointInstancer):
            _report_instancer(prim, report)
            prims.PruneChildren()
        _report_type(prim, registry, report)
        _report_schemas(prim, registry, report)
        _report_attributes(prim, report)


def _report_instancer(prim: Any, report: SceneReport) -> None:
    """Point instancers whose prototypes have physics."""
    from pxr import Usd, UsdGeom, UsdPhysics

    stage = prim.GetStage()
    roots = [
        stage.GetPrimAtPath(path) for path in UsdGeom.PointInstancer(prim).GetPrototypesRel().GetForwardedTargets()
    ]
    below = (p for root in roots if root for p in Usd.PrimRange(root, Usd.TraverseInstanceProxies()))
    if any(p.HasAPI(UsdPhysics.RigidBodyAPI) or p.HasAPI(UsdPhysics.CollisionAPI) for p in below):
        report.add("PointInstancer with physics", prim.GetPath())


def _report_type(prim: Any, registry: Any, report: SceneReport) -> None:
    """Prim types that USD does not know, and soft matter."""
    kind = str(prim.GetTypeName())
    if not kind:
        return
    if kind in SOFT_TYPES:
        report.add(kind, prim.GetPath(), SOFT_TYPES[kind])
    elif not registry.FindConcretePrimDefinition(kind):
        report.add(f"prim type {kind}", prim.GetPath(), "unknown, ignored")


def _report_schemas(prim: Any, registry: Any, report: SceneReport) -> None:
    """Applied schemas that neither a reader handles nor USD knows as something visual."""
    for applied in applied_schemas(prim):
        name = applied.split(":", 1)[0]
        known = registry.FindAppliedAPIPrimDefinition(name) is not None
        if name in HANDLED or name.startswith(HARMLESS_PREFIXES) or (known and not name.startswith("Physics")):
            continue
        report.add(name, prim.GetPath())
    carriers = ("PhysicsRigidBodyAPI", "PhysicsCollisionAPI")
    if "PhysicsMassAPI" in applied_schemas(prim) and not any(name in applied_schemas(prim) for name in carriers):
        report.add("PhysicsMassAPI on a prim that is neither body nor collider", prim.GetPath(), "ignored")


def applied_schemas(prim: Any) -> list[str]:
    """Names of all applied schemas, those that USD has no definition of included."""
    listed = prim.GetMetadata("apiSchemas")
    return [str(name) for name in listed.GetAddedOrExplicitItems()] if listed else []


def _report_attributes(prim: Any, report: SceneReport) -> None:
    """One finding per foreign namespace, e.g. "physxJoint:*", unless its schema or prim type is one already."""
    told = tuple(name.lower() for name in (*applied_schemas(prim), str(prim.GetTypeName())))
    for space in sorted({name.split(":", 1)[0] for name in prim.GetAuthoredPropertyNames() if ":" in name}):
        if space.startswith(FOREIGN_NAMESPACES) and not any(name.startswith(space.lower()) for name in told):
            report.add(f"{space}:*", prim.GetPath(), "attributes of another engine, ignored")
