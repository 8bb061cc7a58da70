"""The field table: every field of Model, State, Control and Contacts, and the enums that their integers mean.

One row = one field. Allocation, copies, files, hashes, comparisons and docs/state.md are made from these rows; no
other place lists fields. Names follow Newton. SI units, radians, quaternions xyzw. Everything is stored as planes
(each scalar component apart); a vec3 field of n elements is shown to NumPy as (n, 3).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum, IntFlag

# Raised when the meaning of saved data changes in a way that names and dtypes do not show.
FORMAT = 1

# "No limit" of a joint coordinate (m, rad) or of an effort (N, N·m): finite, so that differences never make a NaN.
UNLIMITED = 1.0e10

WORLD_BODY = -1  # body index of the world itself: what static shapes and anchored joints are attached to


class JointType(IntEnum):
    """Values of joint_type. Coordinates / degrees of freedom (dof) of each in brackets."""

    PRISMATIC = 0  # (1/1) metres along joint_axis
    REVOLUTE = 1  # (1/1) radians about joint_axis
    BALL = 2  # (4/3) quaternion xyzw of the child in the parent joint frame / angular velocity there
    FIXED = 3  # (0/0)
    FREE = 4  # (0/0) states that the child moves freely; makes no constraint
    DISTANCE = 5  # (1/1) distance of the two joint frames' origins, limits = shortest and longest
    D6 = 6  # (n/n) any free linear axes, then any free angular axes; the others are locked


class DriveMode(IntEnum):
    """Values of joint_drive_mode: what the drive's stiffness and damping act on."""

    FORCE = 0  # effort = ke (target_pos − q) + kd (target_vel − qd), in N or N·m
    ACCELERATION = 1  # the same expression is an acceleration, in m/s² or rad/s²


class BodyFlag(IntFlag):
    """Bits of body_flags. A body without bits is dynamic; static things are shapes on body −1."""

    KINEMATIC = 1  # moves by body_qd alone, as if its mass were infinite


class ShapeFlag(IntFlag):
    """Bits of shape_flags."""

    COLLIDE = 1  # takes part in collision
    VISIBLE = 2  # is drawn
    SENSOR = 4  # reports contacts, never pushes


@dataclass(frozen=True)
class Field:
    """One field of the state.

    name: attribute name. table: "Model", "State", "Control" or "Contacts". dtype: name in the kernel vocabulary.
    dim: count symbol, the number of elements. unit, frame, doc: for people. init: value of a new element: a number
    (each component), "identity" (transform or mat33), "index" (its number) or "model" (copied from the Model field of
    the same name).
    writer: the stage that writes it after allocation.
    """

    name: str
    table: str
    dtype: str
    dim: str
    unit: str
    frame: str
    init: float | str
    writer: str
    doc: str


def _rows(table: str, dim: str, writer: str, *rows: tuple[str, str, str, str, float | str, str]) -> list[Field]:
    """Rows (name, dtype, unit, frame, init, doc) of one table, one dimension and one writer."""
    return [Field(n, table, dt, dim, unit, frame, init, writer, doc) for n, dt, unit, frame, init, doc in rows]


# -- Model: written by the builder, then constant --------------------------------------------------------------------

_MODEL_WORLD = _rows(
    "Model", "one", "builder",
    ("gravity", "vec3", "m/s²", "world", 0.0, "acceleration of free fall, element 0"),
)  # fmt: skip

_MODEL_BODY = _rows(
    "Model", "nbody", "builder",
    ("body_q", "transform", "m, 1", "world", "identity", "pose of the body frame at the start"),
    ("body_qd", "spatial_vector", "m/s, rad/s", "world", 0.0, "velocity of the centre of mass, then angular"),
    ("body_mass", "float32", "kg", "", 0.0, "mass; of a kinematic body only for reports"),
    ("body_inv_mass", "float32", "1/kg", "", 0.0, "1 / mass; 0 for kinematic bodies"),
    ("body_com", "vec3", "m", "body", 0.0, "centre of mass"),
    ("body_inertia", "mat33", "kg·m²", "body", 0.0, "inertia about the centre of mass, body axes"),
    ("body_inv_inertia", "mat33", "1/(kg·m²)", "body", 0.0, "its inverse; 0 for kinematic bodies"),
    ("body_gravity_scale", "float32", "1", "", 1.0, "factor on gravity"),
    ("body_flags", "int32", "", "", 0, "BodyFlag bits"),
    ("body_world", "int32", "", "", 0, "index of the replicated world that the body lives in"),
)  # fmt: skip

_MODEL_SHAPE = _rows(
    "Model", "nshape", "builder",
    ("shape_type", "int32", "", "", 0, "geom.shapes.ShapeType"),
    ("shape_body", "int32", "", "", WORLD_BODY, "body that carries the shape, −1 = world (static)"),
    ("shape_xform", "transform", "m, 1", "body", "identity", "pose of the shape frame in the body frame"),
    ("shape_scale", "vec3", "m", "shape", 0.0, "size parameters, see geom.shapes"),
    ("shape_radius", "float32", "m", "shape", 0.0, "bounding sphere about the shape origin; planes: UNLIMITED"),
    ("shape_hull", "int32", "", "", -1, "index into hull_*, −1 = none"),
    ("shape_margin", "float32", "m", "", 0.0, "extra distance at which contacts of this shape are made"),
    ("shape_mu", "float32", "1", "", 0.5, "Coulomb friction; of a pair: the average"),
    ("shape_mu_torsional", "float32", "m", "", 0.0, "friction torque about the normal per unit of normal force"),
    ("shape_mu_rolling", "float32", "m", "", 0.0, "rolling resistance torque per unit of normal force"),
    ("shape_restitution", "float32", "1", "", 0.0, "coefficient of restitution; of a pair: the average"),
    ("shape_group", "uint32", "", "", 1, "category bits: a and b collide iff group_a & mask_b and group_b & mask_a"),
    ("shape_mask", "uint32", "", "", 0xFFFFFFFF, "category bits that the shape collides with"),
    ("shape_flags", "int32", "", "", int(ShapeFlag.COLLIDE | ShapeFlag.VISIBLE), "ShapeFlag bits"),
    ("shape_world", "int32", "", "", -1, "world of the shape; −1 meets all worlds, others themselves and −1"),
)  # fmt: skip

_MODEL_HULL = [
    *_rows(
        "Model", "nhull", "builder",
        ("hull_vertex_start", "int32", "", "", 0, "first element in hull_vertex"),
        ("hull_vertex_count", "int32", "", "", 0, "number of vertices, 4 … hull.MAX_VERTICES"),
        ("hull_face_start", "int32", "", "", 0, "first element in hull_face_*"),
        ("hull_face_count", "int32", "", "", 0, "number of polygon faces"),
        ("hull_edge_start", "int32", "", "", 0, "first element in hull_edge_*"),
        ("hull_edge_count", "int32", "", "", 0, "number of undirected edges"),
        ("hull_center", "vec3", "m", "shape", 0.0, "an interior point: the centroid of the volume"),
    ),
    *_rows(
        "Model", "nhullvertex", "builder",
        ("hull_vertex", "vec3", "m", "shape", 0.0, "vertex, scale already applied"),
    ),
    *_rows(
        "Model", "nhullface", "builder",
        ("hull_face_plane", "vec4", "1, m", "shape", 0.0, "outward unit normal n and offset d: n·x = d on the face"),
        ("hull_face_index_start", "int32", "", "", 0, "first element in hull_index (absolute)"),
        ("hull_face_index_count", "int32", "", "", 0, "number of corners of the face"),
    ),
    *_rows(
        "Model", "nhullindex", "builder",
        ("hull_index", "int32", "", "", 0, "corner loops, counter-clockwise from outside; relative"),
    ),
    *_rows(
        "Model", "nhulledge", "builder",
        ("hull_edge_v0", "int32", "", "", 0, "start vertex, relative to hull_vertex_start"),
        ("hull_edge_v1", "int32", "", "", 0, "end vertex; face 0's loop runs v0 → v1"),
        ("hull_edge_f0", "int32", "", "", 0, "face left of v0 → v1, relative to hull_face_start"),
        ("hull_edge_f1", "int32", "", "", 0, "the other face"),
    ),
]  # fmt: skip

_MODEL_JOINT = [
    *_rows(
        "Model", "njoint", "builder",
        ("joint_type", "int32", "", "", int(JointType.FIXED), "JointType"),
        ("joint_parent", "int32", "", "", WORLD_BODY, "parent body, −1 = world"),
        ("joint_child", "int32", "", "", 0, "child body"),
        ("joint_xform_p", "transform", "m, 1", "parent body", "identity", "joint frame in the parent"),
        ("joint_xform_c", "transform", "m, 1", "child body", "identity", "joint frame in the child"),
        ("joint_q_start", "int32", "", "", 0, "first coordinate in joint_q"),
        ("joint_qd_start", "int32", "", "", 0, "first dof in joint_qd and in the per-dof fields"),
        ("joint_lin_count", "int32", "", "", 0, "number of linear dofs (they come first)"),
        ("joint_ang_count", "int32", "", "", 0, "number of angular dofs"),
        ("joint_cone_lower", "float32", "rad", "", -UNLIMITED, "BALL: least swing; ≤ 0 = none"),
        ("joint_cone_upper", "float32", "rad", "", UNLIMITED, "BALL: largest swing of the frames' z axes"),
        ("joint_enabled", "int32", "", "", 1, "0 = ignored by the solver"),
        ("joint_collide", "int32", "", "", 0, "1 = parent and child still collide"),
        ("joint_world", "int32", "", "", 0, "world of the joint"),
    ),
    *_rows(
        "Model", "ndof", "builder",
        ("joint_axis", "vec3", "1", "parent joint", 0.0, "unit axis of the dof in the joint frame; DISTANCE: unused"),
        ("joint_limit_lower", "float32", "m or rad", "", -UNLIMITED, "smallest coordinate"),
        ("joint_limit_upper", "float32", "m or rad", "", UNLIMITED, "largest coordinate"),
        ("joint_limit_ke", "float32", "N/m or N·m/rad", "", 0.0, "stiffness of the limit, 0 = hard"),
        ("joint_limit_kd", "float32", "N·s/m or N·m·s/rad", "", 0.0, "damping of a soft limit"),
        ("joint_target_pos", "float32", "m or rad", "", 0.0, "drive target at the start (BALL: rotation vector)"),
        ("joint_target_vel", "float32", "m/s or rad/s", "", 0.0, "drive velocity at the start"),
        ("joint_target_ke", "float32", "N/m or N·m/rad", "", 0.0, "drive stiffness"),
        ("joint_target_kd", "float32", "N·s/m or N·m·s/rad", "", 0.0, "drive damping"),
        ("joint_drive_mode", "int32", "", "", int(DriveMode.FORCE), "DriveMode"),
        ("joint_effort_limit", "float32", "N or N·m", "", UNLIMITED, "largest effort of the drive"),
        ("joint_friction", "float32", "N or N·m", "", 0.0, "Coulomb friction effort"),
        ("joint_armature", "float32", "kg or kg·m²", "", 0.0, "inertia added to the dof"),
        ("joint_qd", "float32", "m/s or rad/s", "", 0.0, "joint velocities at the start"),
    ),
    *_rows(
        "Model", "ncoord", "builder",
        ("joint_q", "float32", "m, rad or 1", "", 0.0, "joint coordinates at the start"),
    ),
]  # fmt: skip

_MODEL_FILTER = _rows(
    "Model", "nfilter", "builder",
    ("shape_filter_pair", "uint64", "", "", 0, "pair lo << 32 | hi that never collides; sorted, unique"),
)  # fmt: skip

_MODEL_PARTICLE = [
    *_rows(
        "Model", "one", "builder",
        ("particle_radius", "float32", "m", "", 0.0, "half the distance of particles at rest, element 0"),
        ("domain_lower", "vec3", "m", "world", -UNLIMITED, "walls that particles never pass, or periodic faces"),
        ("domain_upper", "vec3", "m", "world", UNLIMITED, "the opposite corner"),
        ("domain_period", "vec3", "m", "world", 0.0, "length after which an axis repeats itself; 0 = never"),
        ("domain_open", "int32", "", "", 0, "1: no walls, particles that leave are removed"),
    ),
    *_rows(
        "Model", "noutflow", "builder",
        ("outflow_lower", "vec3", "m", "world", 0.0, "lower corner of a box in which particles are removed"),
        ("outflow_upper", "vec3", "m", "world", 0.0, "upper corner"),
    ),
    *_rows(
        "Model", "nemitter", "builder",
        ("emitter_fluid", "int32", "", "", 0, "index into fluid_*"),
        ("emitter_velocity", "vec3", "m/s", "world", 0.0, "of the particles that it emits"),
        ("emitter_start", "float32", "s", "", 0.0, "time of the first layer"),
        ("emitter_stop", "float32", "s", "", UNLIMITED, "time after which it emits no more"),
        ("emitter_most", "int32", "", "", 0x7FFFFFFF, "particles that it emits at most"),
        ("emitter_point_start", "int32", "", "", 0, "first element in emitter_point"),
        ("emitter_point_count", "int32", "", "", 0, "particles of a layer"),
    ),
    *_rows(
        "Model", "nemitterpoint", "builder",
        ("emitter_point", "vec3", "m", "world", 0.0, "where the particles of a layer start"),
    ),
    *_rows(
        "Model", "nparticle", "builder",
        ("particle_q", "vec3", "m", "world", 0.0, "position at the start"),
        ("particle_qd", "vec3", "m/s", "world", 0.0, "velocity at the start"),
        ("particle_fluid", "int32", "", "", 0, "index into fluid_*"),
    ),
    *_rows(
        "Model", "nfluid", "builder",
        ("fluid_density", "float32", "kg/m³", "", 1000.0, "density at rest"),
        ("fluid_viscosity", "float32", "m²/s", "", 0.0, "kinematic viscosity"),
        ("fluid_wall_viscosity", "float32", "m²/s", "", 0.0, "kinematic viscosity against solids, 0 = free slip"),
        ("fluid_surface_tension", "float32", "N/m", "", 0.0, "tension of the surface"),
    ),
    *_rows(
        "Model", "nboundary", "builder",  # points on the surfaces of solids, Akinci et al. 2012
        ("boundary_q", "vec3", "m", "body", 0.0, "position in the body's frame"),
        ("boundary_body", "int32", "", "", WORLD_BODY, "body that carries it, −1 = world"),
        ("boundary_volume", "float32", "m³", "", 0.0, "volume that it stands for"),
    ),
]  # fmt: skip

# -- State: what a step changes --------------------------------------------------------------------------------------

_STATE_BODY = _rows(
    "State", "nbody", "integrate",
    ("body_q", "transform", "m, 1", "world", "model", "pose of the body frame"),
    ("body_qd", "spatial_vector", "m/s, rad/s", "world", "model", "velocity of the centre of mass, then angular"),
    ("body_f", "spatial_vector", "N, N·m", "world", 0.0, "force, then torque about the centre of mass; 0 after a step"),
)  # fmt: skip

_STATE_JOINT = [
    *_rows(
        "State", "ncoord", "joints",
        ("joint_q", "float32", "m, rad or 1", "", "model", "joint coordinates, derived from body_q"),
    ),
    *_rows(
        "State", "ndof", "joints",
        ("joint_qd", "float32", "m/s or rad/s", "", "model", "joint velocities, derived from body_qd"),
    ),
]  # fmt: skip

# impulses of the last substep, kept as the start values of the next one (warm start)
_STATE_JOINT_IMPULSE = [
    *_rows(
        "State", "njoint", "solve joints",
        ("joint_impulse_linear", "vec3", "N·s", "world", 0.0, "on the child at its anchor"),
        ("joint_impulse_angular", "vec3", "N·m·s", "world", 0.0, "on the child, from the locked angular axes"),
        ("joint_impulse_cone", "float32", "N·m·s", "", 0.0, "of the cone limit"),
    ),
    *_rows(
        "State", "ndof", "solve joints",
        ("joint_impulse_drive", "float32", "N·s or N·m·s", "", 0.0, "of the drive"),
        ("joint_impulse_lower", "float32", "N·s or N·m·s", "", 0.0, "of the lower limit, ≥ 0"),
        ("joint_impulse_upper", "float32", "N·s or N·m·s", "", 0.0, "of the upper limit, ≤ 0"),
        ("joint_impulse_friction", "float32", "N·s or N·m·s", "", 0.0, "of the joint's Coulomb friction"),
    ),
]  # fmt: skip

# every step sorts the particles by place, with all that belongs to them: particle_id says which is which
_STATE_PARTICLE = _rows(
    "State", "nparticle", "solve fluid",
    ("particle_q", "vec3", "m", "world", "model", "position"),
    ("particle_qd", "vec3", "m/s", "world", "model", "velocity"),
    ("particle_fluid", "int32", "", "", "model", "index into fluid_*"),
    ("particle_id", "int32", "", "", "index", "number in Model.particle_*, then in the order of emission"),
    ("particle_pressure", "float32", "m²/s²", "", 0.0, "pressure / density at rest, that keeps the density"),
    ("particle_pressure_rate", "float32", "m²/s", "", 0.0, "the same that keeps divergence away, times seconds"),
    ("particle_density", "float32", "1", "", 1.0, "density / density at rest, before the last motion"),
)  # fmt: skip

_STATE_EMITTER = _rows(
    "State", "nemitter", "solve fluid",
    ("emitter_emitted", "int32", "", "", 0, "particles that it has emitted"),
)  # fmt: skip

# -- Control: what a user or a policy writes between steps ------------------------------------------------------------

_CONTROL = _rows(
    "Control", "ndof", "user",
    ("joint_target_pos", "float32", "m or rad", "", "model", "drive target"),
    ("joint_target_vel", "float32", "m/s or rad/s", "", "model", "drive target velocity"),
    ("joint_f", "float32", "N or N·m", "", 0.0, "effort applied in addition to the drive"),
)  # fmt: skip

# -- Contacts: written by collide, impulses by the solver; everything persists (warm start) ---------------------------

_CONTACTS = [
    *_rows(
        "Contacts", "one", "collide",
        ("pair_count", "int32", "", "", 0, "number of valid pairs, element 0; npair is the capacity"),
    ),
    *_rows(
        "Contacts", "npair", "collide",
        ("pair_shape0", "int32", "", "", 0, "shape 0 < shape 1; pairs sorted by (shape 0, shape 1)"),
        ("pair_shape1", "int32", "", "", 0, "shape 1"),
        ("pair_axis", "int32", "", "", -1, "boxes: axis of the last step, kept while nearly the best"),
        ("manifold_count", "int32", "", "", 0, "number of points, 0 … 4"),
        ("manifold_normal", "vec3", "1", "world", 0.0, "unit normal from shape 0 to shape 1"),
        ("manifold_friction", "vec3", "N·s", "world", 0.0, "friction impulse on shape 1 at the manifold centre"),
        ("manifold_color", "int32", "", "", -1, "colour in the solver's last frame, −1 = was not solved"),
        ("manifold_twist", "float32", "N·m·s", "world", 0.0, "friction impulse about the normal"),
        ("manifold_total_friction", "vec3", "N·s", "world", 0.0, "manifold_friction added up over the frame"),
    ),
    *_rows(
        "Contacts", "npoint", "collide",  # npoint = 4 npair; point k of pair p is element 4 p + k
        ("point_position", "vec3", "m", "world", 0.0, "midway between the two surfaces"),
        ("point_separation", "float32", "m", "", 0.0, "distance along the normal, < 0 overlapping"),
        ("point_feature", "uint32", "", "", 0, "feature id, stable from step to step"),
        ("point_impulse", "float32", "N·s", "", 0.0, "normal impulse of the last substep"),
        ("point_total_impulse", "float32", "N·s", "", 0.0, "normal impulse added up over the frame"),
    ),
    *_rows(
        "Contacts", "nshape", "collide",
        ("fat_lower", "vec3", "m", "world", UNLIMITED, "lower corner of the fat box; leaving one remakes the pairs"),
        ("fat_upper", "vec3", "m", "world", -UNLIMITED, "upper corner; below the lower one until pairs were made"),
    ),
]  # fmt: skip

FIELDS: tuple[Field, ...] = (
    *_MODEL_WORLD, *_MODEL_BODY, *_MODEL_SHAPE, *_MODEL_HULL, *_MODEL_JOINT, *_MODEL_FILTER, *_MODEL_PARTICLE,
    *_STATE_BODY, *_STATE_JOINT, *_STATE_JOINT_IMPULSE, *_STATE_PARTICLE, *_STATE_EMITTER, *_CONTROL, *_CONTACTS,
)  # fmt: skip

TABLES = ("Model", "State", "Control", "Contacts")


def fields_of(table: str) -> tuple[Field, ...]:
    """The rows of one table, in schema order."""
    return tuple(f for f in FIELDS if f.table == table)


def dims_of(table: str) -> tuple[str, ...]:
    """The count symbols that a table uses, in order of first use."""
    return tuple(dict.fromkeys(f.dim for f in fields_of(table)))


def schema_hash() -> str:
    """16 hex digits over everything that decides whether saved data means the same: names, dtypes, dims, format."""
    text = f"format {FORMAT}\n" + "\n".join(f"{f.table}.{f.name}:{f.dtype}[{f.dim}]" for f in FIELDS)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
