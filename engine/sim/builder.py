"""ModelBuilder: bodies, worlds, and the way from the collected records to a Model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.inertia import inertia_problem, symmetric
from engine.geom.pose import Floats, as_pose, as_vector, pose_multiply, quat_to_matrix
from engine.sim.builder_finalize import pack
from engine.sim.builder_joints import JointMethods
from engine.sim.builder_particles import ParticleMethods
from engine.sim.builder_records import BodyRecord
from engine.sim.builder_shapes import ShapeMethods
from engine.state.model import Model
from engine.state.schema import WORLD_BODY

ZERO = np.zeros(3)


class ModelBuilder(ShapeMethods, JointMethods, ParticleMethods):
    """Collects bodies, shapes, joints and particles; `finalize` makes the Model.

        b = ModelBuilder(up_axis="z", gravity=-9.81)
        body = b.add_body(xform=((0, 0, 1), (0, 0, 0, 1)))
        b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5)
        b.add_ground_plane()
        model = b.finalize()

    up_axis: "x", "y", "z" or 0, 1, 2. gravity (m/s²): along the up axis, or 3 numbers. source: a file name for errors.
    `default_shape` holds the ShapeOptions of shapes that do not say otherwise. Poses are transforms, pairs
    (position, quaternion xyzw) or 7 numbers. Bad values raise SceneError naming the body, shape or joint.
    """

    def add_body(
        self,
        xform: Any = None,
        mass: float | None = None,
        com: Any = None,
        inertia: Any = None,
        *,
        linear_velocity: Any = None,
        angular_velocity: Any = None,
        kinematic: bool = False,
        gravity_scale: float = 1.0,
        label: str | None = None,
    ) -> int:
        """A rigid body at `xform` (world); returns its index.

        mass (kg), com (m, body frame), inertia (3,) or (3, 3) (kg·m², about com, body axes): what is None comes from
        the shapes; a given mass alone scales their inertia. linear_velocity (m/s) is that of the centre of mass,
        angular_velocity in rad/s; both in the world frame. A kinematic body moves by its velocity alone.
        """
        name = label or f"body_{len(self.bodies)}"
        with self._errors_of(name, "xform"):
            pose = as_pose(xform)
        with self._errors_of(name, "mass"):
            weight = None if mass is None else float(as_vector([mass], 1)[0])
            if weight is not None and (weight < 0.0 or (weight == 0.0 and not kinematic)):
                raise ValueError(f"must be positive, got {weight:g}")
        with self._errors_of(name, "com"):
            centre = None if com is None else as_vector(com)
        with self._errors_of(name):
            tensor = None if inertia is None else _as_inertia(inertia, checked=not kinematic)
        with self._errors_of(name, "velocity"):
            linear = ZERO if linear_velocity is None else as_vector(linear_velocity)
            angular = ZERO if angular_velocity is None else as_vector(angular_velocity)
        with self._errors_of(name, "gravity_scale"):
            scale = float(as_vector([gravity_scale], 1)[0])
        if self.own_world < 0:
            self.own_world = self._new_world()
        self.bodies.append(
            BodyRecord(name, pose, weight, centre, tensor, linear, angular, bool(kinematic), scale, self.own_world)
        )
        return len(self.bodies) - 1

    def add_builder(self, other: ModelBuilder, xform: Any = None, *, label_prefix: str = "") -> int:
        """Everything of another builder, moved by `xform`, as one new world; returns the world's index.

        Things of different worlds never collide. Shapes of body −1 in `other` belong to that world only. Gravity and
        up axis of `other` are ignored. Raises SceneError if `other` has particles: fluids belong to no world.
        """
        if other.particles or other.emitters:
            raise SceneError(self.source, "model", "particles cannot be copied into a world; add them to this builder")
        with self._errors_of("model", "xform"):
            pose = as_pose(xform)
        world = self._new_world()
        turn = quat_to_matrix(pose[3:])
        body0, shape0 = len(self.bodies), len(self.shapes)

        def body_index(body: int) -> int:
            return body if body == WORLD_BODY else body + body0

        for b in other.bodies:
            self.bodies.append(
                replace(b, label=label_prefix + b.label, pose=pose_multiply(pose, b.pose), world=world,
                        linear_velocity=turn @ b.linear_velocity, angular_velocity=turn @ b.angular_velocity)
            )  # fmt: skip
        for s in other.shapes:
            moved = pose_multiply(pose, s.pose) if s.body == WORLD_BODY else s.pose
            self.shapes.append(
                replace(s, label=label_prefix + s.label, body=body_index(s.body), pose=moved, world=world)
            )
        for j in other.joints:
            moved = pose_multiply(pose, j.parent_pose) if j.parent == WORLD_BODY else j.parent_pose
            self.joints.append(
                replace(j, label=label_prefix + j.label, parent=body_index(j.parent), child=j.child + body0,
                        parent_pose=moved, world=world)
            )  # fmt: skip
        self.filter_pairs |= {(a + shape0, b + shape0) for a, b in other.filter_pairs}
        return world

    def replicate(
        self, other: ModelBuilder, count: int, spacing: Any = (0.0, 0.0, 0.0), xforms: Iterable[Any] = ()
    ) -> None:
        """`count` worlds, each a copy of another builder, the i-th moved by i·spacing (m), or by xforms[i] if given.

        Worlds are stored one after the other (flat); labels get the prefix "world_i/". They may overlap in space.
        """
        with self._errors_of("model", "replicate"):
            step, poses = as_vector(spacing), list(xforms)
            if not isinstance(count, (int, np.integer)) or count < 1:
                raise ValueError(f"count must be at least 1, got {count!r}")
            if poses and len(poses) != count:
                raise ValueError(f"{count} worlds, but {len(poses)} xforms")
        for i in range(count):
            pose = poses[i] if poses else (step * i, (0.0, 0.0, 0.0, 1.0))
            self.add_builder(other, pose, label_prefix=f"world_{self.world_count}/")

    def finalize(self, device: Any = "cpu") -> Model:
        """The Model with everything added so far. Raises SceneError for a body without a possible mass or inertia."""
        counts, values = pack(self)
        return Model(
            counts,
            values,
            device,
            body_label=[b.label for b in self.bodies],
            shape_label=[s.label for s in self.shapes],
            joint_label=[j.label for j in self.joints],
            fluid_label=[f.label for f in self.fluids],
            up_axis=self.up_axis,
            nworld=max(self.world_count, 1),
        )

    def _new_world(self) -> int:
        self.world_count += 1
        return self.world_count - 1


def _as_inertia(value: Any, checked: bool) -> Floats:
    """Inertia (3, 3) from 3 moments about the body axes or a 3×3 matrix. Raises ValueError if no body can have it."""
    given = np.asarray(value if isinstance(value, np.ndarray) else [np.asarray(row, float) for row in value], float)
    tensor = np.diag(given.reshape(3)) if given.size == 3 else given.reshape(3, 3) if given.size == 9 else given
    problem = inertia_problem(tensor) if checked or tensor.shape != (3, 3) else None
    if problem:
        raise ValueError(problem)
    return symmetric(tensor)
