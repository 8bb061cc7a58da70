"""Plain records of a scene, one class per kind of thing, and the one function that feeds them into a ModelBuilder.

Importers (USD, MJCF, URDF) read files and make these records; the builder never parses a file. SI units, radians. A
pose is (7,): position in metres, unit quaternion xyzw (see geom.pose).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.hull import Hull
from engine.geom.pose import Floats
from engine.geom.shapes import ShapeType
from engine.sim.builder import ModelBuilder
from engine.sim.builder_records import JointDof
from engine.state.schema import DriveMode, JointType

DEFAULT_DENSITY = 1000.0  # kg/m³
DEFAULT_FRICTION = 0.5
EARTH_GRAVITY = 9.81  # m/s²


@dataclass(frozen=True)
class Material:
    """Surface and bulk properties. density 0 means: not given."""

    friction: float = DEFAULT_FRICTION
    restitution: float = 0.0
    density: float = 0.0  # kg/m³


@dataclass
class SceneBody:
    """A moving body. `mass` and what follows it are complete: no importer leaves them to the builder's guess."""

    label: str
    pose: Floats  # (7,) world
    mass: float = 0.0  # kg
    com: Floats = field(default_factory=lambda: np.zeros(3))  # (3,) m, body frame
    inertia: Floats = field(default_factory=lambda: np.zeros((3, 3)))  # (3, 3) kg·m², about com, body axes
    velocity: Floats = field(default_factory=lambda: np.zeros(3))  # (3,) m/s of the centre of mass, world frame
    angular_velocity: Floats = field(default_factory=lambda: np.zeros(3))  # (3,) rad/s, world frame
    kinematic: bool = False


@dataclass
class SceneShape:
    """A collision shape. What `scale` means for each type is in geom.shapes; HULL has its `hull` as well."""

    label: str
    type: ShapeType
    body: int  # WORLD_BODY: static
    pose: Floats  # (7,) in the body frame
    scale: Floats = field(default_factory=lambda: np.ones(3))  # (3,) m
    hull: Hull | None = None
    material: Material = Material()
    category: int = 1  # bits; a and b collide iff category_a & mask_b and category_b & mask_a
    mask: int = 0xFFFFFFFF
    collides: bool = True


@dataclass
class Drive:
    """effort = stiffness (target_pos − q) + damping (target_vel − qd), at most max_effort in size."""

    stiffness: float = 0.0  # N/m or N·m/rad
    damping: float = 0.0  # N·s/m or N·m·s/rad
    target_pos: float = 0.0  # m or rad
    target_vel: float = 0.0  # m/s or rad/s
    max_effort: float = np.inf  # N or N·m
    acceleration: bool = False  # the expression is an acceleration, not a force


@dataclass
class Freedom:
    """One free axis of a D6 joint: a unit vector in the joint frame, limits in m or rad, a drive."""

    axis: Floats  # (3,)
    limits: tuple[float, float] = (-np.inf, np.inf)
    drive: Drive | None = None


@dataclass
class SceneJoint:
    """A joint between two bodies, one of which may be the world. Its coordinate is the child seen from the parent.

    limits: (lower, upper) in rad or m, of a distance joint the shortest and longest distance; a ball has its cone
    (smallest, largest swing of the frames' z axes). Infinite means free. A D6 joint has `linear` and `angular` freedoms
    in place of axis, limits and drive.
    """

    label: str
    type: JointType
    parent: int
    child: int
    parent_pose: Floats  # (7,) joint frame in the parent body (the world's: world frame)
    child_pose: Floats  # (7,) joint frame in the child body
    axis: Floats = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))  # (3,) unit, joint frame
    limits: tuple[float, float] = (-np.inf, np.inf)
    drive: Drive | None = None
    linear: list[Freedom] = field(default_factory=list)
    angular: list[Freedom] = field(default_factory=list)
    enabled: bool = True
    collides: bool = False  # do parent and child collide with each other


@dataclass
class SceneFluid:
    """A fluid and its particles; SI units, world frame."""

    label: str
    radius: float  # m
    positions: Floats  # (n, 3) m
    velocities: Floats  # (n, 3) m/s
    density: float = 1000.0  # kg/m³
    viscosity: float = 1e-6  # m²/s
    wall_viscosity: float = 0.0  # m²/s
    surface_tension: float = 0.0  # N/m
    given: int = 0  # positions from here on fill boxes: where solids are, there are none


@dataclass
class SceneEmitter:
    """A round nozzle; SI units, world frame."""

    fluid: int  # index into the scene's fluids
    center: Floats  # (3,) m
    velocity: Floats  # (3,) m/s
    radius: float  # m
    start: float = 0.0  # s
    stop: float = np.inf


@dataclass(frozen=True)
class Finding:
    """Something that the scene uses and that is not simulated as written."""

    kind: str  # what, e.g. "PhysxArticulationAPI"
    effect: str  # what is done instead
    path: str  # the first prim or element with it
    count: int = 1

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return f"{self.kind}: {self.effect} ({self.path}{more})"


class SceneReport:
    """What could not be taken over as written: one finding per kind, with the first path and a count."""

    def __init__(self) -> None:
        self._findings: dict[tuple[str, str], Finding] = {}

    def add(self, kind: str, path: Any, effect: str = "not supported yet, ignored") -> None:
        """Notes one occurrence; further ones of the same kind and effect only raise the count."""
        old = self._findings.get((kind, effect))
        first, count = (old.path, old.count + 1) if old else (str(path), 1)
        self._findings[kind, effect] = Finding(kind, effect, first, count)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings.values())

    def __len__(self) -> int:
        return len(self._findings)

    def kinds(self) -> set[str]:
        """The kinds that occurred."""
        return {kind for kind, _ in self._findings}


@dataclass
class SceneRecords:
    """A whole scene. Bodies are referred to by index; `filters` are pairs of shape indices that never collide."""

    path: str
    up_axis: str = "z"
    gravity: Floats = field(default_factory=lambda: np.array([0.0, 0.0, -EARTH_GRAVITY]))  # (3,) m/s², world
    fps: float = 60.0
    bodies: list[SceneBody] = field(default_factory=list)
    shapes: list[SceneShape] = field(default_factory=list)
    joints: list[SceneJoint] = field(default_factory=list)
    filters: set[tuple[int, int]] = field(default_factory=set)
    report: SceneReport = field(default_factory=SceneReport)
    fluids: list[SceneFluid] = field(default_factory=list)
    emitters: list[SceneEmitter] = field(default_factory=list)
    outflows: list[tuple[Floats, Floats]] = field(default_factory=list)  # lower, upper corner, m
    domain: tuple[Floats, Floats] | None = None  # around the fluids: lower, upper corner, m
    domain_options: dict[str, Any] = field(default_factory=dict)  # further arguments of set_domain
    fluid_options: dict[str, Any] = field(default_factory=dict)  # of the fluid solver's Settings
    substeps: int | None = None  # of a step, where the file says it


# -- records → builder -------------------------------------------------------------------------------------------------


def make_builder(records: SceneRecords) -> ModelBuilder:
    """A builder with everything in the records, indices unchanged. Raises SceneError naming the file and the label."""
    builder = ModelBuilder(up_axis=records.up_axis, gravity=records.gravity, source=records.path)
    for body in records.bodies:
        builder.add_body(
            body.pose,
            body.mass,
            body.com,
            body.inertia,
            linear_velocity=body.velocity,
            angular_velocity=body.angular_velocity,
            kinematic=body.kinematic,
            label=body.label,
        )
    for shape in records.shapes:
        _add_shape(builder, shape)
    for joint in records.joints:
        _add_joint(builder, joint)
    _add_fluids(builder, records)
    for a, b in sorted(records.filters):
        builder.add_shape_collision_filter_pair(a, b)
    return builder


def _add_fluids(builder: ModelBuilder, records: SceneRecords) -> None:
    """All fluids; their particles have one radius."""
    if records.domain is not None:
        builder.set_domain(*records.domain, **records.domain_options)
    for i, fluid in enumerate(records.fluids):
        if i == 0:
            builder.set_particle_radius(fluid.radius)
        elif abs(fluid.radius - builder.particle_radius) > 1e-6 * fluid.radius:
            reason = f"particles of radius {fluid.radius:g} m beside others of {builder.particle_radius:g} m"
            raise SceneError(records.path, fluid.label, reason)
        builder.add_fluid(
            fluid.density, fluid.viscosity, fluid.wall_viscosity, surface_tension=fluid.surface_tension,
            label=fluid.label,
        )  # fmt: skip
        for part, fill in ((slice(fluid.given), False), (slice(fluid.given, None), True)):
            builder.add_particles(fluid.positions[part], fluid.velocities[part], i, fill=fill)
    for e in records.emitters:
        builder.add_emitter(e.fluid, e.center, e.velocity, e.radius, start=e.start, stop=e.stop)
    for lower, upper in records.outflows:
        builder.add_outflow(lower, upper)


def _add_shape(builder: ModelBuilder, shape: SceneShape) -> None:
    """One shape. It adds no mass: the bodies' records have it all."""
    a, b, c = (float(x) for x in shape.scale)
    options: dict[str, Any] = {
        "label": shape.label,
        "density": 0.0,
        "mu": shape.material.friction,
        "restitution": shape.material.restitution,
        "group": shape.category,
        "mask": shape.mask,
        "collide": shape.collides,
    }
    match shape.type:
        case ShapeType.SPHERE:
            builder.add_shape_sphere(shape.body, shape.pose, a, **options)
        case ShapeType.BOX:
            builder.add_shape_box(shape.body, shape.pose, a, b, c, **options)
        case ShapeType.CAPSULE:
            builder.add_shape_capsule(shape.body, shape.pose, a, b, **options)
        case ShapeType.CYLINDER:
            builder.add_shape_cylinder(shape.body, shape.pose, a, b, **options)
        case ShapeType.PLANE:
            builder.add_shape_plane(shape.body, shape.pose, 2 * a, 2 * b, **options)
        case ShapeType.HULL:
            builder.add_shape_convex_hull(shape.body, shape.pose, hull=shape.hull, **options)
        case _:
            raise AssertionError(f"{shape.label}: {shape.type!r}")


def _add_joint(builder: ModelBuilder, joint: SceneJoint) -> None:
    """One joint."""
    ends = (joint.parent, joint.child, joint.parent_pose, joint.child_pose)
    common: dict[str, Any] = {
        "label": joint.label,
        "enabled": joint.enabled,
        "collide_connected": joint.collides or not joint.enabled,
    }
    lower, upper = joint.limits
    match joint.type:
        case JointType.FIXED:
            builder.add_joint_fixed(*ends, **common)
        case JointType.BALL:
            builder.add_joint_ball(*ends, cone_lower=lower, cone_upper=upper, **common)
        case JointType.DISTANCE:
            builder.add_joint_distance(*ends, min_distance=lower, max_distance=upper, **common)
        case JointType.REVOLUTE | JointType.PRISMATIC:
            revolute = joint.type == JointType.REVOLUTE
            add: Any = builder.add_joint_revolute if revolute else builder.add_joint_prismatic
            add(*ends, joint.axis, limit_lower=lower, limit_upper=upper, **_drive_options(joint.drive), **common)
        case JointType.D6:
            linear, angular = ([_dof(f) for f in group] for group in (joint.linear, joint.angular))
            builder.add_joint_d6(*ends, linear_axes=linear, angular_axes=angular, **common)
        case _:
            raise AssertionError(f"{joint.label}: {joint.type!r}")


def _dof(freedom: Freedom) -> JointDof:
    """A free axis in the builder's terms."""
    lower, upper = freedom.limits
    return JointDof(freedom.axis, limit_lower=lower, limit_upper=upper, **_drive_options(freedom.drive))


def _drive_options(drive: Drive | None) -> dict[str, Any]:
    """A drive in the builder's keywords."""
    if drive is None:
        return {}
    return {
        "target_ke": drive.stiffness,
        "target_kd": drive.damping,
        "target_pos": drive.target_pos,
        "target_vel": drive.target_vel,
        "effort_limit": drive.max_effort,
        "drive_mode": DriveMode.ACCELERATION if drive.acceleration else DriveMode.FORCE,
    }
