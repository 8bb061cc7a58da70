"""The soft-step solver: rigid bodies, contacts and joints in maximal coordinates, several substeps per collision pass.

Soft step is Catto's name for it (Solver2D, 2024); Box2D 3 and Rapier use the same scheme. One frame:

    begin ─ order contacts by colour ─ prepare rows
          ─ substeps × { accelerate ─ warm start ─ solve (soft) ─ move ─ relax (rigid) }
          ─ bounce ─ store impulses ─ finish

Constraints of one colour share no moving body; each pass runs colour by colour, so the order of the updates, and with
it every bit of the result, depends on the scene alone. `begin` and `solve` only launch, and sizes that change from
frame to frame are read by the device: a frame is captured once and replayed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import array, indirect, launch, zeros
from engine.geom.pose import IDENTITY, pose_inverse, pose_multiply
from engine.sim import solver_soft_step_bodies as bodies
from engine.sim import solver_soft_step_contact_rows as contact_rows
from engine.sim import solver_soft_step_contacts as contacts_
from engine.sim import solver_soft_step_joints as joints
from engine.sim.coloring import COLORS, OVERFLOW, BucketOrder, Coloring
from engine.sim.frame_graph import Stage
from engine.state.model import Model
from engine.state.schema import JointType
from engine.state.tables import Contacts, Control, State


@dataclass(frozen=True)
class Settings:
    """What the solver can be told.

    A contact or joint is a damped spring on its effective mass. The stiffer, the less it gives, but Gauss-Seidel must
    converge: the frequencies are at most `contact_rate` and `joint_rate` times the substep rate. (Contacts of a 100:1
    mass ratio start to dance at .15.)
    """

    contact_hertz: float = math.inf
    contact_rate: float = 0.125
    contact_damping_ratio: float = 10.0
    joint_hertz: float = math.inf
    joint_rate: float = 0.25
    joint_damping_ratio: float = 2.0
    push_velocity: float = 3.0  # m/s, the fastest that overlapping bodies are pushed apart
    bounce_threshold: float = 1.0  # m/s, slower impacts do not bounce


def softness(hertz: float, damping_ratio: float, h: float) -> tuple[float, float, float]:
    """(bias rate 1/s, mass scale, impulse scale) of a damped spring integrated implicitly over h seconds.

    Catto, "Soft Constraints" (GDC 2011), in the mass-independent form of Solver2D.
    """
    omega = 2.0 * math.pi * hertz
    a1 = 2.0 * damping_ratio + h * omega
    a2 = h * omega * a1
    return omega / a1, a2 / (1.0 + a2), 1.0 / (1.0 + a2)


def welded_bodies(model: Model) -> np.ndarray:
    """(nbody,) bool: bodies that enabled fixed joints hold to the world, directly or through each other.

    They are taken as static, which is exact and spares the solver chains like "world – light base – heavy arm", on
    which Gauss-Seidel converges badly. A joint whose frames are apart at the start pulls its bodies together instead.
    """
    welded = np.zeros(model.count["nbody"] + 1, bool)
    welded[-1] = True  # body −1 is the world
    fixed = np.flatnonzero((model.joint_type.numpy() == JointType.FIXED) & (model.joint_enabled.numpy() != 0))
    parent, child = model.joint_parent.numpy()[fixed], model.joint_child.numpy()[fixed]
    pose = np.vstack([model.body_q.numpy().astype(float).reshape(-1, 7), IDENTITY])
    first = pose_multiply(pose[parent], model.joint_xform_p.numpy()[fixed].astype(float).reshape(-1, 7))
    second = pose_multiply(pose[child], model.joint_xform_c.numpy()[fixed].astype(float).reshape(-1, 7))
    apart = np.abs(pose_multiply(pose_inverse(first), second)[:, :6]).max(axis=1, initial=0.0)
    rigid = np.stack([parent, child], axis=1)[apart < 1e-4]
    grown = True
    while grown:
        half = welded[rigid[:, 0]] != welded[rigid[:, 1]]
        grown = bool(half.any())
        welded[rigid[half]] = True
    return welded[:-1] & (model.body_inv_mass.numpy() > 0.0)


def acting_rows(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """(ndof,) bool: dofs with a drive, a limit or friction; (njoint,) bool: joints with rows about angular axes."""
    m = model
    drive = (m.joint_target_ke.numpy() > 0.0) | (m.joint_target_kd.numpy() > 0.0)
    low, high = m.joint_limit_lower.numpy(), m.joint_limit_upper.numpy()
    acts = drive | (low > -joints.LIMITED) | (high < joints.LIMITED) | (m.joint_friction.numpy() > 0.0)
    linear, angular = m.joint_lin_count.numpy(), m.joint_ang_count.numpy()
    locked = (angular < 3) & (m.joint_type.numpy() != JointType.DISTANCE)
    turns = locked | (m.joint_cone_upper.numpy() < joints.LIMITED)
    joint = np.repeat(np.arange(len(linear)), linear + angular)
    place = np.arange(len(joint)) - m.joint_qd_start.numpy()[joint]
    turns[joint[acts & (place >= linear[joint])]] = True
    return acts, turns


class SoftStep:
    """Advances `state` by frames of `dt` seconds. Owns the rows; all that persists is in the tables."""

    name = "soft_step"

    def __init__(
        self,
        model: Model,
        state: State,
        control: Control,
        contacts: Contacts,
        dt: float,
        substeps: int,
        iterations: int,
        settings: Settings | None = None,
    ):
        self.model, self.state, self.control, self.contacts = model, state, control, contacts
        self.substeps, self.iterations = substeps, iterations
        self.settings = settings or Settings()
        self.h = dt / substeps
        self._device = model.device
        nbody = model.count["nbody"]
        self._velocity = self._body_rows(bodies.BodyVelocity)
        self._motion = self._body_rows(bodies.BodyMotion)
        self._frame = self._body_rows(bodies.BodyFrame)
        self._inertia = self._body_rows(bodies.BodyInertia)
        frames = self._frame.numpy().copy()
        frames["q"][nbody] = (0.0, 0.0, 0.0, 1.0)  # the world
        self._frame.store(frames)
        welded = welded_bodies(model)
        self._welded = array(welded.astype(np.int32), dtype=k.int32, device=self._device)
        inv_mass = np.where(welded, 0.0, model.body_inv_mass.numpy())
        self._inv_mass = array(inv_mass.astype(np.float32), dtype=k.float32, device=self._device)
        self._bad = zeros(1, dtype=k.int32, device=self._device)
        self._bad.store(nbody)
        self._bounces = bool(np.any(model.shape_restitution.numpy() > 0.0)) if model.count["nshape"] else False
        self._record_bodies()
        self._record_joints()
        self.version = 0  # counts changes of what `begin` and `solve` launch
        self._allocate_contacts(contacts.count["npair"])

    # -- the stages of a frame, in order -------------------------------------------------------------------------------

    def fit(self) -> None:
        """Readies the buffers for the contacts: on the host, after the collision pass."""
        capacity = self.contacts.count["npair"]
        if capacity != self._capacity:
            self._allocate_contacts(capacity)

    def begin(self) -> None:
        """State → body rows. Launches only."""
        self._begin.launch()

    def solve(self, stage: Stage) -> None:
        """The rest of the frame, after `begin` and the collision pass. Launches only."""
        self.open_substeps(stage)
        for _ in range(self.substeps):
            self.substep(stage)
        self.close_substeps(stage)

    def open_substeps(self, stage: Stage) -> None:
        """Rows of the contacts. Launches only, as all three parts of `solve`: a fluid does its own between them."""
        with stage("color"):
            self._order_contacts()
        with stage("prepare"):
            self._prepare.launch()

    def substep(self, stage: Stage) -> None:
        """Bodies h seconds later."""
        with stage("integrate"):
            self._accelerate.launch()
        with stage("solve"):
            self._warm_start()
            self._solve_constraints()
        with stage("integrate"):
            self._move.launch()
        with stage("relax"):
            self._relax_constraints()

    def close_substeps(self, stage: Stage) -> None:
        """Bounces, and everything back to the tables."""
        with stage("bounce"):
            self._bounce_contacts()
        with stage("store"):
            self._store.launch()
        with stage("finish"):
            self._finish.launch()
            self._measure_joints()

    @property
    def rows(self) -> bodies.BodyRows:
        """The bodies between `begin` and the end of the frame: what a fluid pushes in each substep."""
        return bodies.BodyRows(self._velocity, self._motion, self._frame, self._inertia)

    def first_bad(self) -> int | None:
        """The first body whose state was not finite in `begin` or at the end of `solve`, or None."""
        nbody = self.model.count["nbody"]
        first = int(self._bad.numpy()[0])
        if first >= nbody:
            return None
        self._bad.store(nbody)
        return first

    # -- what the last frame did ---------------------------------------------------------------------------------------

    @property
    def manifold_count(self) -> int:
        """Contact manifolds that were solved."""
        return self._active_pairs.total

    @property
    def color_count(self) -> int:
        """Colours of the contacts."""
        return len(self._by_color.used)

    @property
    def color_rounds(self) -> int:
        """Rounds that colouring the contacts took."""
        return self._coloring.rounds

    def manifold_pairs(self) -> np.ndarray:
        """(manifolds,) int32: the pair in Contacts of each solved manifold, in the order of pairs."""
        return np.array(self._active_pairs.order.numpy()[: self.manifold_count])

    # -- bodies --------------------------------------------------------------------------------------------------------

    def _body_rows(self, dtype: Any) -> array:
        return zeros(self.model.count["nbody"] + 1, dtype=dtype, device=self._device, layout="rows")

    def _record(self, kernel: Any, dim: Any, inputs: list[Any]) -> Any:
        return launch(kernel, dim=dim, inputs=inputs, device=self._device, record_cmd=True)

    def _record_bodies(self) -> None:
        m, s, nbody = self.model, self.state, self.model.count["nbody"]
        velocity, motion, frame, inertia = self._velocity, self._motion, self._frame, self._inertia
        turn_inertia = int(m.count["njoint"] > 0)
        fixed = [self._inv_mass, self._welded, self._bad]
        self._begin = self._record(bodies.begin_bodies, nbody, [m, s, velocity, motion, frame, inertia, *fixed])
        self._accelerate = self._record(bodies.accelerate_bodies, nbody, [m, s, velocity, frame, inertia, self.h])
        self._move = self._record(
            bodies.move_bodies, nbody, [m, velocity, motion, frame, inertia, self.h, turn_inertia]
        )
        self._finish = self._record(bodies.finish_bodies, nbody, [m, s, velocity, motion, frame, self._bad])

    # -- contacts ------------------------------------------------------------------------------------------------------

    def _order_contacts(self) -> None:
        """Lists the manifolds that push, colours them and sorts them by colour."""
        self._count_pairs.launch()
        self._mark.launch()
        self._active_pairs.run()
        self._list_bodies.launch()
        self._coloring.run()
        self._by_color.run()

    def _allocate_contacts(self, capacity: int) -> None:
        """Buffers for up to `capacity` manifolds, and the launches that use them."""
        m, c, device = self.model, self.contacts, self._device
        self._capacity = capacity
        self.version += 1
        key = zeros(max(capacity, 1), dtype=k.int32, device=device)
        npair = zeros(1, dtype=k.int32, device=device)
        self._count_pairs = self._record(contacts_.count_pairs, 1, [c, npair])
        self._mark = self._record(contacts_.mark_pairs, indirect(npair, capacity), [m, c, self._inv_mass, key])
        self._active_pairs = BucketOrder(key, npair, capacity, 1, device)
        pairs, count = self._active_pairs.order, self._active_pairs.size
        self._coloring = Coloring(m.count["nbody"], max(capacity, 1), count, device)
        self._by_color = BucketOrder(self._coloring.color, count, capacity, COLORS, device)
        listed = [self._coloring.body0, self._coloring.body1, self._coloring.color]
        self._list_bodies = self._record(
            contacts_.list_bodies, indirect(count, capacity), [m, c, self._inv_mass, pairs, *listed]
        )
        rows = contact_rows.ContactRows({"nrow": capacity, "npoint": contact_rows.MAX_POINTS * capacity}, device=device)
        self._record_contacts(rows, pairs, count, capacity)

    def _record_contacts(self, rows: Any, pairs: array, count: array, capacity: int) -> None:
        """The launches of each pass over the rows, colour by colour."""
        m, c = self.model, self.contacts
        velocity, motion, frame, inertia = self._velocity, self._motion, self._frame, self._inertia
        slots = [self._by_color.start, self._by_color.size]
        settings, h = self.settings, self.h
        hertz = min(settings.contact_hertz, settings.contact_rate / h)
        soft = k.vec4(*softness(hertz, settings.contact_damping_ratio, h), settings.push_velocity)
        soft_static = k.vec4(*softness(2.0 * hertz, settings.contact_damping_ratio, h), settings.push_velocity)
        everything = indirect(count, capacity)
        found = [pairs, self._by_color.order, self._coloring.color]
        self._prepare = self._record(
            contact_rows.prepare_contacts, everything, [m, c, *found, rows, velocity, frame, inertia]
        )
        self._store = self._record(contacts_.store_contacts, everything, [rows, c])

        def passes(kernel: Any, before: list[Any], after: list[Any]) -> list[Any]:
            sizes = self._by_color.size
            dims: list[Any] = [indirect(sizes[color : color + 1], capacity) for color in range(COLORS)]
            dims[OVERFLOW] = 1  # one thread visits them all
            return [self._record(kernel, dims[color], [*before, *slots, color, *after]) for color in range(COLORS)]

        constants = [soft, soft_static, 1.0 / h]
        self._warm_contacts = passes(contacts_.warm_start_contacts, [rows, velocity, inertia], [])
        self._solve_contacts = passes(contacts_.solve_contacts, [rows, velocity, motion, inertia], constants)
        self._relax_contacts = passes(contacts_.relax_contacts, [rows, velocity, motion, inertia], constants)
        self._bounce = passes(contacts_.bounce_contacts, [rows, velocity, inertia], [settings.bounce_threshold])

    # -- joints --------------------------------------------------------------------------------------------------------

    def _record_joints(self) -> None:
        """Colours the joints, once for all, and records their passes."""
        m, s, c = self.model, self.state, self.control
        njoint = m.count["njoint"]
        self._warm_joints: list[Any] = []
        self._solve_joints: list[Any] = []
        self._relax_joints: list[Any] = []
        self._measure: Any = None
        if not njoint:
            return
        velocity, motion, frame, inertia = self._velocity, self._motion, self._frame, self._inertia
        count = array([njoint], dtype=k.int32, device=self._device)
        coloring = Coloring(m.count["nbody"], njoint, count, self._device)
        dynamic = np.append(self._inv_mass.numpy() > 0.0, False)  # the last element answers for −1, the world
        for side, ends in ((coloring.body0, m.joint_parent.numpy()), (coloring.body1, m.joint_child.numpy())):
            side.assign(np.where(dynamic[ends], ends, -1).astype(np.int32))
        coloring.color.fill_(-1)
        coloring.run()
        by_color = BucketOrder(coloring.color, count, njoint, COLORS, self._device)
        by_color.run()
        sizes = by_color.size.numpy()
        hertz = min(self.settings.joint_hertz, self.settings.joint_rate / self.h)
        rate, mass_scale, impulse_scale = softness(hertz, self.settings.joint_damping_ratio, self.h)
        soft = k.vec4(rate, mass_scale, impulse_scale, impulse_scale / mass_scale)
        rows = joints.JointRows({"ndof": m.count["ndof"], "njoint": njoint}, device=self._device)
        acts, turns = acting_rows(m)
        rows.acts.assign(acts.astype(np.int32))
        rows.turns.assign(turns.astype(np.int32))
        for color in range(COLORS):
            if sizes[color]:
                dim = 1 if color == OVERFLOW else int(sizes[color])
                slots = [by_color.order, by_color.start, by_color.size, color]
                row = [velocity, motion, frame, inertia, *slots, self.h]
                self._warm_joints.append(self._record(joints.warm_start_joints, dim, [m, s, c, *row]))
                self._solve_joints.append(self._record(joints.solve_joints, dim, [m, s, c, rows, *row, soft]))
                self._relax_joints.append(self._record(joints.relax_joints, dim, [m, s, c, rows, *row, soft]))
        self._measure = self._record(joints.measure_joints, njoint, [m, s, velocity, motion, frame, inertia])

    def _measure_joints(self) -> None:
        if self._measure:
            self._measure.launch()

    # -- passes over all constraints -----------------------------------------------------------------------------------

    def _contact_passes(self, launches: list[Any]) -> None:
        for one in launches:  # a colour without constraints runs no thread
            one.launch()

    def _warm_start(self) -> None:
        for one in self._warm_joints:
            one.launch()
        self._contact_passes(self._warm_contacts)

    def _solve_constraints(self) -> None:
        for _ in range(self.iterations):
            for one in self._solve_joints:
                one.launch()
            self._contact_passes(self._solve_contacts)

    def _relax_constraints(self) -> None:
        for one in self._relax_joints:
            one.launch()
        self._contact_passes(self._relax_contacts)

    def _bounce_contacts(self) -> None:
        if self._bounces:
            self._contact_passes(self._bounce)
