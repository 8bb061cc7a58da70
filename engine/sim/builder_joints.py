"""ModelBuilder's add_joint_*: frames, degrees of freedom, joints whose child is the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.geom.pose import Floats, as_axis, as_pose, as_vector, pose_multiply, quat_between
from engine.sim.builder_core import BuilderCore
from engine.sim.builder_records import DOF_OPTIONS, JointDof, JointRecord, clamp_unlimited
from engine.state.schema import UNLIMITED, WORLD_BODY, JointType


class JointMethods(BuilderCore):
    """Every method takes parent and child bodies (−1 = world, at most one of them), the joint frame in each
    (`parent_xform`, `child_xform`), `label`, `enabled`, `collide_connected` (do the two bodies collide; shapes of the
    world always do), and returns the joint's index. `**dof`: the keywords of JointDof (limit_lower, target_ke …).

    Raises SceneError naming the joint. A body may have several joints, and joints may form loops.
    """

    def add_joint_revolute(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        axis: Any = "z",
        *,
        label: str | None = None,
        enabled: bool = True,
        collide_connected: bool = False,
        **dof: Any,
    ) -> int:
        """A hinge: rotation by q rad about `axis` of the joint frame."""
        return self._add_joint(
            JointType.REVOLUTE,
            parent,
            child,
            parent_xform,
            child_xform,
            label,
            enabled,
            collide_connected,
            angular=[dof | {"axis": axis}],
        )

    def add_joint_prismatic(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        axis: Any = "z",
        *,
        label: str | None = None,
        enabled: bool = True,
        collide_connected: bool = False,
        **dof: Any,
    ) -> int:
        """A slider: translation by q m along `axis` of the joint frame."""
        return self._add_joint(
            JointType.PRISMATIC,
            parent,
            child,
            parent_xform,
            child_xform,
            label,
            enabled,
            collide_connected,
            linear=[dof | {"axis": axis}],
        )

    def add_joint_ball(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        axis: Any = "z",
        *,
        cone_lower: float | None = None,
        cone_upper: float | None = None,
        target_pos: Any = (0, 0, 0),
        target_vel: Any = (0, 0, 0),
        label: str | None = None,
        enabled: bool = True,
        collide_connected: bool = False,
        **dof: Any,
    ) -> int:
        """A ball and socket. The angle between the frames' `axis` stays within cone_lower … cone_upper (rad).

        `target_pos` is a rotation vector (rad), `target_vel` an angular velocity, both in the parent joint frame. An
        `axis` other than z turns both joint frames, so that their z is that axis.
        """
        with self._errors_of(*self._joint_owner(label)):
            in_parent, in_child = (_with_z_along(axis, as_pose(xform)) for xform in (parent_xform, child_xform))
            if "limit_lower" in dof or "limit_upper" in dof:
                raise ValueError("a ball joint has cone_lower and cone_upper, no limit_lower and limit_upper")
            targets = zip("xyz", as_vector(target_pos), as_vector(target_vel), strict=True)
            axes = [dof | {"axis": a, "target_pos": p, "target_vel": v} for a, p, v in targets]
        return self._add_joint(
            JointType.BALL,
            parent,
            child,
            in_parent,
            in_child,
            label,
            enabled,
            collide_connected,
            angular=axes,
            cone=(cone_lower, cone_upper),
        )

    def add_joint_fixed(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        *,
        label: str | None = None,
        enabled: bool = True,
        collide_connected: bool = False,
    ) -> int:
        """Holds the two joint frames together."""
        return self._add_joint(
            JointType.FIXED, parent, child, parent_xform, child_xform, label, enabled, collide_connected
        )

    def add_joint_free(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        *,
        label: str | None = None,
        enabled: bool = True,
        collide_connected: bool = True,
    ) -> int:
        """States that the child moves freely; has no coordinates (see body_q) and no effect."""
        return self._add_joint(
            JointType.FREE, parent, child, parent_xform, child_xform, label, enabled, collide_connected
        )

    def add_joint_distance(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        *,
        min_distance: float | None = None,
        max_distance: float | None = None,
        label: str | None = None,
        enabled: bool = True,
        collide_connected: bool = False,
        **dof: Any,
    ) -> int:
        """Keeps the distance of the frames' origins within min_distance … max_distance (m, None = no limit).

        Equal limits make a rod, only the upper one a rope, target_ke with target_pos (length at rest) a spring.
        """
        dof |= {"axis": "z", "limit_lower": min_distance, "limit_upper": max_distance}
        return self._add_joint(
            JointType.DISTANCE,
            parent,
            child,
            parent_xform,
            child_xform,
            label,
            enabled,
            collide_connected,
            linear=[dof],
        )

    def add_joint_d6(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        *,
        linear_axes: Sequence[JointDof] = (),
        angular_axes: Sequence[JointDof] = (),
        label: str | None = None,
        enabled: bool = True,
        collide_connected: bool = False,
    ) -> int:
        """Free along `linear_axes` and about `angular_axes` (JointDof, at most 3 each, perpendicular), else locked."""
        return self._add_joint(
            JointType.D6,
            parent,
            child,
            parent_xform,
            child_xform,
            label,
            enabled,
            collide_connected,
            linear=linear_axes,
            angular=angular_axes,
        )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _add_joint(
        self,
        kind: JointType,
        parent: int,
        child: int,
        parent_xform: Any,
        child_xform: Any,
        label: str | None,
        enabled: bool,
        collide_connected: bool,
        linear: Sequence[Any] = (),
        angular: Sequence[Any] = (),
        cone: tuple[float | None, float | None] = (None, None),
    ) -> int:
        with self._errors_of(*self._joint_owner(label)):
            parent, child = self._check_body(parent, "parent"), self._check_body(child, "child")
            if parent == child:
                raise ValueError(f"parent and child are the same: {self.body_name(parent)}")
            lower, upper = _checked_cone(*cone)
            dofs = [[_as_dof(d) for d in group] for group in (linear, angular)]
            for group in dofs:
                _check_perpendicular(group)
            if kind == JointType.DISTANCE and dofs[0][0].limit_upper < 0.0:  # type: ignore[operator]
                raise ValueError(f"max_distance must be at least 0, got {dofs[0][0].limit_upper:g}")
            record = JointRecord(
                label or f"joint_{len(self.joints)}",
                kind,
                parent,
                child,
                as_pose(parent_xform),
                as_pose(child_xform),
                tuple(dofs[0]),
                tuple(dofs[1]),
                lower,
                upper,
                bool(enabled),
                bool(collide_connected),
                self._world_of(max(parent, child)),
            )
            self.joints.append(_with_child_body(record))
        return len(self.joints) - 1

    def _joint_owner(self, label: str | None) -> tuple[str, str]:
        return label or f"joint_{len(self.joints)}", ""


def _with_z_along(axis: Any, frame: Floats) -> Floats:
    """The frame turned so that its z is what was its `axis`."""
    if isinstance(axis, str) and axis == "z":
        return frame
    return pose_multiply(frame, np.append(np.zeros(3), quat_between((0, 0, 1), as_axis(axis))))


def _as_dof(given: Any) -> JointDof:
    if isinstance(given, JointDof):
        return given
    unknown = [name for name in given if name not in DOF_OPTIONS]
    if unknown:
        raise TypeError(f"unknown option '{unknown[0]}'; a joint axis has {', '.join(DOF_OPTIONS[1:])}")
    return JointDof(**given)


def _checked_cone(lower: float | None, upper: float | None) -> tuple[float, float]:
    low, high = clamp_unlimited("cone_lower", lower, -UNLIMITED), clamp_unlimited("cone_upper", upper, UNLIMITED)
    if low > high or high < 0.0:
        raise ValueError(f"cone limits {low:g} … {high:g} are empty")
    return low, high


def _check_perpendicular(group: list[JointDof]) -> None:
    """Raises ValueError unless the axes are at most 3 and pairwise perpendicular."""
    if len(group) > 3:
        raise ValueError(f"a joint has at most 3 axes of a kind, got {len(group)}")
    axes: Floats = np.array([d.axis for d in group]).reshape(-1, 3)
    if np.abs(axes @ axes.T - np.eye(len(group))).max(initial=0.0) > 1e-5:
        raise ValueError("the axes of a joint must be perpendicular to each other")


def _with_child_body(joint: JointRecord) -> JointRecord:
    """The same joint with a body as its child: where the world was, parent and child change places.

    The relative pose is inverted by that, so axes (or a ball's targets) change sign and coordinates keep theirs.
    """
    if joint.child != WORLD_BODY:
        return joint
    if joint.kind == JointType.D6:
        raise ValueError("the child of a d6 joint must be a body; make the world its parent")
    if joint.kind == JointType.BALL:
        angular = tuple(replace(d, target_pos=-d.target_pos, target_vel=-d.target_vel) for d in joint.angular)
    else:
        angular = tuple(replace(d, axis=-d.axis) for d in joint.angular)
    return replace(
        joint,
        parent=WORLD_BODY,
        child=joint.parent,
        parent_pose=joint.child_pose,
        child_pose=joint.parent_pose,
        linear=tuple(replace(d, axis=-d.axis) for d in joint.linear),
        angular=angular,
    )
