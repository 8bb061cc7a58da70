"""What a ModelBuilder collects before it packs a Model: checked records of bodies, shapes and joints."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf, isfinite, isnan
from typing import Any

from engine.geom.hull import Hull
from engine.geom.inertia import MassProperties
from engine.geom.pose import Floats, as_axis
from engine.geom.shapes import ShapeType
from engine.state.schema import UNLIMITED, DriveMode, JointType


@dataclass(slots=True)
class BodyRecord:
    """A rigid body. mass, com, inertia None: from the shapes."""

    label: str
    pose: Floats  # (7,) world
    mass: float | None
    com: Floats | None  # (3,) m, body frame
    inertia: Floats | None  # (3, 3) kg·m² about com, body axes
    linear_velocity: Floats  # (3,) m/s of the centre of mass, world
    angular_velocity: Floats  # (3,) rad/s, world
    kinematic: bool
    gravity_scale: float
    world: int


@dataclass(frozen=True, slots=True)
class ShapeOptions:
    """The keywords that every `add_shape_*` takes besides the shape's size, pose and label."""

    density: float = 1000.0  # kg/m³; 0 = adds no mass
    mass: float | None = None  # kg, in place of density
    mu: float = 0.5  # Coulomb friction
    mu_torsional: float = 0.0  # m
    mu_rolling: float = 0.0  # m
    restitution: float = 0.0  # 0 … 1
    margin: float = 0.0  # m
    group: int = 1  # category bits
    mask: int = 0xFFFFFFFF  # category bits that it collides with
    collide: bool = True
    visible: bool = True
    sensor: bool = False  # reports contacts, never pushes

    def __post_init__(self) -> None:
        for name in ("density", "mu", "mu_torsional", "mu_rolling", "margin"):
            _check_range(name, getattr(self, name), 0.0)
        _check_range("restitution", self.restitution, 0.0, 1.0)
        if self.mass is not None:
            _check_range("mass", self.mass, 0.0)
        for name in ("group", "mask"):
            if not 0 <= int(getattr(self, name)) <= 0xFFFFFFFF:
                raise ValueError(f"{name} must be 32 bits, got {getattr(self, name)}")


@dataclass(slots=True)
class ShapeRecord:
    """A collision shape. solid: mass properties at 1 kg/m³ where they are not those of (kind, scale, hull)."""

    label: str
    body: int
    kind: ShapeType
    pose: Floats  # (7,) body frame
    scale: Floats  # (3,) see geom.shapes
    options: ShapeOptions
    hull: Hull | None
    solid: MassProperties | None
    world: int


@dataclass(frozen=True, slots=True)
class JointDof:
    """One degree of freedom of a joint: axis in the joint frame, limits, drive, friction.

    Linear dofs are in m, N, N/m …, angular ones in rad, N·m, N·m/rad … A limit that is None or infinite is none.
    The drive's effort is target_ke (target_pos − q) + target_kd (target_vel − qd), at most effort_limit in size;
    with drive_mode ACCELERATION that expression is an acceleration. limit_ke 0 makes hard limits.
    """

    axis: Any = "z"  # "x", "y", "z" or 3 numbers
    limit_lower: float | None = None
    limit_upper: float | None = None
    limit_ke: float = 0.0
    limit_kd: float = 0.0
    target_pos: float = 0.0
    target_vel: float = 0.0
    target_ke: float = 0.0
    target_kd: float = 0.0
    drive_mode: DriveMode = DriveMode.FORCE
    effort_limit: float | None = None
    friction: float = 0.0
    armature: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_axis(self.axis))
        object.__setattr__(self, "drive_mode", DriveMode(self.drive_mode))
        for name, empty in (("limit_lower", -UNLIMITED), ("limit_upper", UNLIMITED), ("effort_limit", UNLIMITED)):
            object.__setattr__(self, name, clamp_unlimited(name, getattr(self, name), empty))
        if self.limit_lower > self.limit_upper:  # type: ignore[operator]
            raise ValueError(f"limit_lower {self.limit_lower:g} is above limit_upper {self.limit_upper:g}")
        for name in ("limit_ke", "limit_kd", "target_ke", "target_kd", "effort_limit", "friction", "armature"):
            _check_range(name, getattr(self, name), 0.0)
        for name in ("target_pos", "target_vel"):
            _check_range(name, getattr(self, name), -inf)


DOF_OPTIONS = tuple(f.name for f in fields(JointDof))


@dataclass(slots=True)
class JointRecord:
    """A joint. dofs: linear ones first; of a BALL three about x, y, z; of a DISTANCE one (its length)."""

    label: str
    kind: JointType
    parent: int  # −1 = world
    child: int
    parent_pose: Floats  # (7,) joint frame in the parent
    child_pose: Floats  # (7,) joint frame in the child
    linear: tuple[JointDof, ...]
    angular: tuple[JointDof, ...]
    cone_lower: float
    cone_upper: float
    enabled: bool
    collide_connected: bool
    world: int

    @property
    def dofs(self) -> tuple[JointDof, ...]:
        return self.linear + self.angular

    @property
    def coordinate_count(self) -> int:
        """A ball has 3 dofs, but its coordinate is a quaternion."""
        return 4 if self.kind == JointType.BALL else len(self.dofs)


def clamp_unlimited(name: str, value: float | None, empty: float) -> float:
    """A limit as it is stored: None is `empty`, infinities are ±UNLIMITED. Raises ValueError for NaN."""
    if value is None:
        return empty
    if isnan(value):
        raise ValueError(f"{name} is not a number")
    return min(max(float(value), -UNLIMITED), UNLIMITED)


def _check_range(name: str, value: Any, low: float, high: float = inf) -> None:
    """Raises ValueError unless `value` is a finite number in low … high."""
    if not isfinite(value):
        raise ValueError(f"{name} is not finite: {value}")
    if not low <= value <= high:
        wanted = f"at least {low:g}" if high == inf else f"in {low:g} … {high:g}"
        raise ValueError(f"{name} must be {wanted}, got {value:g}")
