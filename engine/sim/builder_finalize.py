"""From a builder's records to the Model's fields: one NumPy array per field, lists of hulls laid end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engine.geom.hull import Hull
from engine.geom.shapes import bounding_radius
from engine.sim.builder_mass import body_masses
from engine.sim.builder_particles import particle_fields
from engine.sim.joint_coordinates import joint_coordinates
from engine.state.schema import WORLD_BODY, BodyFlag, ShapeFlag

if TYPE_CHECKING:
    from engine.sim.builder import ModelBuilder

Fields = dict[str, Any]

# Numbers of a JointDof that become the field joint_<name> as they are.
DOF_NUMBERS = (
    "limit_lower", "limit_upper", "limit_ke", "limit_kd", "target_pos", "target_vel", "target_ke", "target_kd",
    "effort_limit", "friction", "armature",
)  # fmt: skip


def pack(builder: ModelBuilder) -> tuple[dict[str, int], Fields]:
    """(count of each dimension symbol, array of each Model field). Raises SceneError, see builder_mass."""
    fields: Fields = {"gravity": [builder.gravity]}
    fields |= _bodies(builder) | _shapes(builder) | _joints(builder)
    fields["joint_q"], fields["joint_qd"] = joint_coordinates(fields)
    fields["shape_filter_pair"] = _filter_pairs(builder)
    fields |= particle_fields(builder)
    counts = {
        "one": 1,
        "nbody": len(builder.bodies),
        "nshape": len(builder.shapes),
        "nhull": len(fields["hull_vertex_start"]),
        "nhullvertex": len(fields["hull_vertex"]),
        "nhullface": len(fields["hull_face_plane"]),
        "nhullindex": len(fields["hull_index"]),
        "nhulledge": len(fields["hull_edge_v0"]),
        "njoint": len(builder.joints),
        "ndof": len(fields["joint_qd"]),
        "ncoord": len(fields["joint_q"]),
        "nfilter": len(fields["shape_filter_pair"]),
        "nparticle": len(fields["particle_q"]),
        "noutflow": len(fields["outflow_lower"]),
        "nemitter": len(fields["emitter_fluid"]),
        "nemitterpoint": len(fields["emitter_point"]),
        "nfluid": len(fields["fluid_density"]),
        "nboundary": len(fields["boundary_q"]),
    }
    return counts, fields


def _bodies(builder: ModelBuilder) -> Fields:
    bodies, masses = builder.bodies, body_masses(builder)
    dynamic = np.array([not b.kinematic for b in bodies], bool)
    inv_mass, inv_inertia = np.zeros(len(bodies)), np.zeros((len(bodies), 3, 3))
    inv_mass[dynamic] = 1.0 / masses.mass[dynamic]
    inv_inertia[dynamic] = np.linalg.inv(masses.inertia[dynamic])
    return {
        "body_q": _stack([b.pose for b in bodies], 7),
        "body_qd": np.hstack(
            [_stack([b.linear_velocity for b in bodies], 3), _stack([b.angular_velocity for b in bodies], 3)]
        ),
        "body_mass": masses.mass,
        "body_inv_mass": inv_mass,
        "body_com": masses.com,
        "body_inertia": masses.inertia,
        "body_inv_inertia": inv_inertia,
        "body_gravity_scale": np.array([b.gravity_scale for b in bodies]),
        "body_flags": np.where(dynamic, 0, BodyFlag.KINEMATIC),
        "body_world": np.array([b.world for b in bodies], np.int64),
    }


def _shapes(builder: ModelBuilder) -> Fields:
    shapes = builder.shapes
    options = [s.options for s in shapes]
    hulls = {id(s.hull): s.hull for s in shapes if s.hull is not None}  # each hull once, in order of first use
    place = {key: i for i, key in enumerate(hulls)}
    flags = [
        ShapeFlag.COLLIDE * o.collide | ShapeFlag.VISIBLE * o.visible | ShapeFlag.SENSOR * o.sensor for o in options
    ]
    fields: Fields = {
        "shape_type": np.array([s.kind for s in shapes], np.int64),
        "shape_body": np.array([s.body for s in shapes], np.int64),
        "shape_xform": _stack([s.pose for s in shapes], 7),
        "shape_scale": _stack([s.scale for s in shapes], 3),
        "shape_radius": np.array([bounding_radius(s.kind, s.scale, s.hull) for s in shapes]),
        "shape_hull": np.array([-1 if s.hull is None else place[id(s.hull)] for s in shapes], np.int64),
        "shape_flags": np.array(flags, np.int64),
        "shape_world": np.array([s.world for s in shapes], np.int64),
    }
    for name in ("margin", "mu", "mu_torsional", "mu_rolling", "restitution", "group", "mask"):
        fields[f"shape_{name}"] = np.array([getattr(o, name) for o in options])
    return fields | _hulls(list(hulls.values()))


def _hulls(hulls: list[Hull]) -> Fields:
    """All hulls end to end; see the schema for what is relative to what."""
    faces = [loop for h in hulls for loop in h.faces]
    edges = np.vstack([np.zeros((0, 4), np.int64), *(h.edges for h in hulls)])
    corner_counts = np.array([len(loop) for loop in faces], np.int64)
    vertex_counts, face_counts, edge_counts = (
        np.array([len(part) for part in parts], np.int64)
        for parts in ([h.vertices for h in hulls], [h.faces for h in hulls], [h.edges for h in hulls])
    )
    return {
        "hull_vertex_start": _starts(vertex_counts),
        "hull_vertex_count": vertex_counts,
        "hull_face_start": _starts(face_counts),
        "hull_face_count": face_counts,
        "hull_edge_start": _starts(edge_counts),
        "hull_edge_count": edge_counts,
        "hull_center": _stack([h.mass_properties(1.0).com for h in hulls], 3),
        "hull_vertex": np.vstack([np.zeros((0, 3)), *(h.vertices for h in hulls)]),
        "hull_face_plane": np.vstack([np.zeros((0, 4)), *(h.planes for h in hulls)]),
        "hull_face_index_start": _starts(corner_counts),
        "hull_face_index_count": corner_counts,
        "hull_index": np.array([v for loop in faces for v in loop], np.int64),
        "hull_edge_v0": edges[:, 0],
        "hull_edge_v1": edges[:, 1],
        "hull_edge_f0": edges[:, 2],
        "hull_edge_f1": edges[:, 3],
    }


def _joints(builder: ModelBuilder) -> Fields:
    joints = builder.joints
    dofs = [d for j in joints for d in j.dofs]
    fields: Fields = {
        "joint_type": np.array([j.kind for j in joints], np.int64),
        "joint_parent": np.array([j.parent for j in joints], np.int64),
        "joint_child": np.array([j.child for j in joints], np.int64),
        "joint_xform_p": _stack([j.parent_pose for j in joints], 7),
        "joint_xform_c": _stack([j.child_pose for j in joints], 7),
        "joint_q_start": _starts(np.array([j.coordinate_count for j in joints], np.int64)),
        "joint_qd_start": _starts(np.array([len(j.dofs) for j in joints], np.int64)),
        "joint_lin_count": np.array([len(j.linear) for j in joints], np.int64),
        "joint_ang_count": np.array([len(j.angular) for j in joints], np.int64),
        "joint_cone_lower": np.array([j.cone_lower for j in joints]),
        "joint_cone_upper": np.array([j.cone_upper for j in joints]),
        "joint_enabled": np.array([int(j.enabled) for j in joints], np.int64),
        "joint_collide": np.array([int(j.collide_connected) for j in joints], np.int64),
        "joint_world": np.array([j.world for j in joints], np.int64),
        "joint_axis": _stack([d.axis for d in dofs], 3),
        "joint_drive_mode": np.array([int(d.drive_mode) for d in dofs], np.int64),
    }
    for name in DOF_NUMBERS:
        fields[f"joint_{name}"] = np.array([getattr(d, name) for d in dofs])
    return fields


def _filter_pairs(builder: ModelBuilder) -> np.ndarray:
    """Sorted unique keys lo << 32 | hi of shape pairs that never collide: the user's, and those of joined bodies."""
    shapes_of: dict[int, list[int]] = {}
    joined = [j for j in builder.joints if not j.collide_connected and j.parent != WORLD_BODY]
    if joined:
        for i, shape in enumerate(builder.shapes):
            shapes_of.setdefault(shape.body, []).append(i)
    pairs = set(builder.filter_pairs)
    for joint in joined:
        for a in shapes_of.get(joint.parent, ()):
            pairs |= {(min(a, b), max(a, b)) for b in shapes_of.get(joint.child, ())}
    return np.sort(np.array([lo << 32 | hi for lo, hi in pairs], np.uint64))


def _starts(counts: np.ndarray) -> np.ndarray:
    """Where each run begins when runs of these lengths lie end to end."""
    return np.cumsum(counts) - counts


def _stack(rows: list[Any], width: int) -> np.ndarray:
    """(n, width) float64, also for no rows."""
    return np.array(rows, np.float64).reshape(-1, width)
