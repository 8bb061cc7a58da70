"""Simulation: a model, its state, and the step that takes it from one frame to the next; runs, saves and restores."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import numpy as np

from engine.context import recording
from engine.errors import SceneError, SimulationError
from engine.geom.collision import Collision
from engine.plugin import solvers
from engine.sim.contact_view import ContactView
from engine.sim.frame_graph import FramePart, Stage
from engine.sim.stats import StageClock, Stats
from engine.state import store
from engine.state.model import Model

solvers.provide("soft_step", "engine.sim.solver_soft_step:SoftStep")
DEFAULT_SOLVER = "soft_step"
FLUID_SOLVERS = {
    "dfsph": "engine.sim.solver_dfsph:Dfsph",
    "wcsph": "engine.sim.solver_wcsph:Wcsph",
    "pbf": "engine.sim.solver_pbf:Pbf",
}


class Simulation:
    """A scene in time.

        sim = Simulation(model, dt=1 / 60)
        sim.step()
        sim.state.body_q.numpy()  # (nbody, 7)

    dt: seconds that `step` advances. substeps: solver steps of dt / substeps each. iterations: visits of every
    constraint per substep. sleeping: not there yet, accepted and without effect. solver: name in `plugin.solvers`;
    None: chosen from the model. source: the scene file that the model came from. fluid_options: see
    fluid_settings.Settings. Raises ValueError for bad numbers.

    Attributes: `model`; `state`, `control` (arrays that keep their identity); `time` (s) and `frame` since the start;
    `contacts` (see ContactView) and `stats` of the last step; `contact_table`, the manifolds and warm-start impulses.
    """

    def __init__(
        self,
        model: Model,
        dt: float = 1.0 / 60.0,
        substeps: int = 4,
        iterations: int = 1,
        sleeping: bool = True,
        solver: str | None = None,
        *,
        source: str | os.PathLike[str] | None = None,
        fluid_options: dict[str, Any] | None = None,
    ):
        if not (np.isfinite(dt) and dt > 0.0):
            raise ValueError(f"dt must be a positive number of seconds, got {dt!r}")
        for name, value in (("substeps", substeps), ("iterations", iterations)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        self.model = model
        self.dt, self.substeps, self.iterations = float(dt), int(substeps), int(iterations)
        self.sleeping, self.source = sleeping, None if source is None else os.fspath(source)
        self.state, self.control, self.contact_table = model.state(), model.control(), model.contacts()
        self.report: Any = ()  # findings of the importer: what the scene holds and is not simulated as written
        self.frame = 0
        self.collision = Collision(model)
        self.solver_name = solver or DEFAULT_SOLVER
        self._solver = solvers.get(self.solver_name)(
            model, self.state, self.control, self.contact_table, self.dt, self.substeps, self.iterations
        )
        self._clock = StageClock()
        self._opening = FramePart(self._open_frame, model.device)
        self._rest = FramePart(self._finish_frame, model.device)
        self._view: ContactView | None = None
        self._fluid: Any = None
        self._fluid_options = dict(fluid_options or {})
        if model.count["nparticle"] or model.count["nemitter"]:
            from engine.sim.fluid_settings import Settings

            try:
                settings = Settings(**self._fluid_options)
            except (TypeError, ValueError) as error:
                reason = str(error).replace("Settings.__init__() ", "")
                raise SceneError(self.source or "", "fluid_options", reason) from None
            home, name = FLUID_SOLVERS[settings.method].split(":")
            self._fluid = getattr(import_module(home), name)(model, self.state, self._solver.rows, settings)
            # with bodies in a fluid, the rest in parts: the fluid acts before each substep
            self._contacts = FramePart(self._find_contacts, model.device)
            self._substep = FramePart(self._solver.substep, model.device)
            self._closing = FramePart(self._solver.close_substeps, model.device)

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Advances the scene by dt seconds. Raises SimulationError naming body, field and frame where not finite."""
        recording.refuse("Simulation.step", "a step captures itself, and reads on the host whether pairs have changed")
        clock, collision, solver = self._clock, self.collision, self._solver
        clock.start()
        self._view = None
        with clock("step"):
            if self._fluid is not None:
                self._fluid.begin(self.frame, self.time)
            collision.fit(self.state, self.contact_table, self.dt)
            self._opening.run(clock, collision.version)
            self._refuse(solver.first_bad())
            with clock("collide"):
                collision.update_pairs(self.contact_table)
            solver.fit()
            self._advance((collision.version, solver.version))
            self.frame += 1
            self._refuse(solver.first_bad())

    def _advance(self, version: Any) -> None:
        """Contacts and substeps; a fluid moves on before each of them."""
        if self._fluid is None or not self.model.count["nbody"]:
            if self._fluid is not None:
                self._fluid.advance(self._clock, self.dt)
            self._rest.run(self._clock, version)
            return
        self._contacts.run(self._clock, version)
        for _ in range(self.substeps):
            self._fluid.advance(self._clock, self.dt / self.substeps)
            self._substep.run(self._clock, version)
        self._closing.run(self._clock, version)

    def _open_frame(self, stage: Stage) -> None:
        with stage("begin"):
            self._solver.begin()
        with stage("collide"):
            self.collision.place()

    def _finish_frame(self, stage: Stage) -> None:
        with stage("collide"):
            self.collision.narrow_phase()
        self._solver.solve(stage)

    def _find_contacts(self, stage: Stage) -> None:
        with stage("collide"):
            self.collision.narrow_phase()
        self._solver.open_substeps(stage)

    def run(
        self,
        frames: int,
        out: str | os.PathLike[str] | None = None,
        progress: bool = False,
        on_frame: Callable[[Simulation], Any] | None = None,
        *,
        flatten: bool = False,
        fps: float | None = None,
        surface: bool = False,
        points: str | os.PathLike[str] | None = None,
    ) -> None:
        """Shows `frames` frames, the first being the scene as it is now: frames − 1 steps.

        out: USD file for the frames (`flatten`: self-contained, not on top of the source scene; fps: its time codes per
        second, default 1 / dt; surface: fluids as meshes, too). points: .vtk, .vtu or .ply file; each frame's particles
        go to one with its number (needs the extra `points`). progress: a bar on stderr. on_frame: called with the
        simulation at every frame. Raises ValueError for a negative or fractional number of frames, Error if `out`
        cannot be written.
        """
        if not isinstance(frames, int | np.integer) or isinstance(frames, bool) or frames < 0:
            raise ValueError(f"frames must be an integer of at least 0, got {frames!r}")
        with ExitStack() as open_things:
            writer = None
            if out is not None:
                from engine.sim.frames_usd import FrameWriter  # imports pxr

                frames_out = FrameWriter(
                    out, self.model, fps or 1.0 / self.dt, source=self._usd_source(), flatten=flatten, surface=surface
                )
                writer = open_things.enter_context(frames_out)
            point_files = None
            if points is not None:
                from engine.sim.frames_points import PointFiles  # imports meshio

                point_files = PointFiles(points, self.model)
            advance = open_things.enter_context(_progress_bar(int(frames))) if progress else None
            for i in range(int(frames)):
                if i:
                    self.step()
                if writer is not None:
                    writer.write(self.state)
                if point_files is not None:
                    point_files.write(self.state, i)
                if on_frame is not None:
                    on_frame(self)
                if advance is not None:
                    advance(self._progress_text())

    def _usd_source(self) -> str | None:
        """The scene file, where frames can refer to it."""
        usd = self.source is not None and os.path.splitext(self.source)[1].lower().startswith(".usd")
        return self.source if usd else None

    def _progress_text(self) -> str:
        """What the fluid did, beside the bar."""
        if self._fluid is None:
            return "frames"
        s = self._fluid.stats
        steps = f"{s.steps} × {1e3 * s.time_step:.2f} ms, {s.iterations}+{s.divergence_iterations} iterations"
        return f"{s.particles} particles, {steps}, error {1e2 * s.density_error:.3f} %"

    def sync(self) -> None:
        """Waits until the device has finished what it was given."""
        synchronize = getattr(self.model.device, "synchronize", None)
        if synchronize is not None:
            synchronize()

    @property
    def time(self) -> float:
        """Seconds since the start."""
        return self.frame * self.dt

    @property
    def contacts(self) -> ContactView:
        """The contacts of the last step."""
        if self._view is None:
            self._view = ContactView(self.contact_table, self._solver.manifold_pairs())
        return self._view

    @property
    def stats(self) -> Stats:
        """What the last step did."""
        contacts = self.contacts
        deepest = float(np.max(contacts.depth)) if contacts.count else 0.0
        return Stats(
            frame=self.frame,
            bodies=self.model.count["nbody"],
            joints=self.model.count["njoint"],
            pairs=int(self.contact_table.pair_count.numpy()[0]),
            manifolds=self._solver.manifold_count,
            contacts=contacts.count,
            colors=self._solver.color_count,
            color_rounds=self._solver.color_rounds,
            substeps=self.substeps,
            iterations=self.iterations,
            largest_penetration=max(deepest, 0.0),
            fluid=None if self._fluid is None else self._fluid.stats,
            timings=dict(self._clock.milliseconds),
        )

    def _refuse(self, body: int | None) -> None:
        """Raises the error about a body whose state is not finite."""
        if body is None:
            return
        label = self.model.body_label[body] if body < len(self.model.body_label) else body
        for name in ("body_q", "body_qd", "body_f"):
            if not np.isfinite(getattr(self.state, name).numpy()[body]).all():
                raise SimulationError(label, name, self.frame)
        raise SimulationError(label, "body_q", self.frame)

    # -- start again, save, restore ------------------------------------------------------------------------------------

    def reset(self, mask: Any = None) -> None:
        """Puts bodies, joints and drive targets back to the start.

        mask (nworld,): only the worlds where it is true; None: all of them, and `time` is 0 again.
        """
        fresh_state, fresh_control = self.model.state(), self.model.control()
        self._view = None
        self.state.resize(fresh_state.count)  # what emitters added, or what was removed
        chosen = np.ones(self.model.nworld, bool) if mask is None else np.asarray(mask, bool).reshape(self.model.nworld)
        if mask is None:
            self.frame = 0
        world = _worlds_of(self.model)
        for table, fresh in ((self.state, fresh_state), (self.control, fresh_control)):
            for field, dim in ((row[0], row[2]) for row in table.ir_type.fields):
                target = getattr(table, field)
                rows = chosen[world[dim]] if dim in world else np.ones(len(target), bool)
                target.store(getattr(fresh, field).numpy()[rows], rows)
        self._forget_impulses(chosen)

    def _forget_impulses(self, chosen: np.ndarray) -> None:
        """No warm start for the contacts of the chosen worlds, and no colours to keep."""
        c = self.contact_table
        pairs = np.arange(int(c.pair_count.numpy()[0]))
        ends = np.stack([c.pair_shape0.numpy()[pairs], c.pair_shape1.numpy()[pairs]])
        bodies = self.model.shape_body.numpy()[ends]
        worlds = np.append(self.model.body_world.numpy(), -1)[bodies]  # body −1 is in no world
        pairs = pairs[((worlds >= 0) & chosen[worlds]).any(axis=0)]
        for name, value in (("manifold_friction", 0.0), ("manifold_twist", 0.0), ("manifold_color", -1)):
            getattr(c, name).store(value, pairs)
        c.point_impulse.store(0.0, (4 * pairs[:, None] + np.arange(4)).ravel())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything that the next step depends on to a .npz file; `restore` continues to the same bits."""
        info = {
            "dt": self.dt,
            "substeps": self.substeps,
            "iterations": self.iterations,
            "frame": self.frame,
            "solver": self.solver_name,
            "source": self.source,
            "fluid_options": self._fluid_options,
        }
        store.save(path, self.model, self._tables(), info)

    def _tables(self) -> dict[str, Any]:
        """All tables with persistent fields, by the name they are saved under."""
        own = {"State": self.state, "Control": self.control, "Contacts": self.contact_table}
        return own | getattr(self.collision, "tables", dict)()

    def hash(self) -> str:
        """32 hex digits over the state's bits."""
        return self.state.hash()


def restore(path: str | os.PathLike[str], device: str = "cpu") -> Simulation:
    """The simulation that `Simulation.save` wrote. Raises Error for a file that cannot be read or is none of these."""
    saved = store.load(path)
    info = saved.info
    try:
        sim = Simulation(
            saved.model(device), info["dt"], info["substeps"], info["iterations"], solver=info["solver"],
            source=info["source"], fluid_options=info.get("fluid_options"),
        )  # fmt: skip
        sim.frame = int(info["frame"])
    except KeyError as missing:
        raise SceneError(path, "", f"holds no simulation: {missing} is missing") from None
    for name, table in sim._tables().items():
        saved.restore(name, table)
    return sim


def _worlds_of(model: Model) -> dict[str, np.ndarray]:
    """World of every element, by dimension symbol."""
    joint_world = model.joint_world.numpy()
    dofs = model.joint_lin_count.numpy() + model.joint_ang_count.numpy()
    ends = np.append(model.joint_q_start.numpy(), model.count["ncoord"])
    return {
        "nbody": model.body_world.numpy(),
        "njoint": joint_world,
        "ndof": np.repeat(joint_world, dofs),
        "ncoord": np.repeat(joint_world, np.diff(ends)),
    }


class _progress_bar:
    """A context manager whose value, called with a description, advances a bar on stderr by one frame."""

    def __init__(self, frames: int):
        self._frames = frames

    def __enter__(self) -> Callable[[str], None]:
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(console=Console(stderr=True))
        self._bar.start()
        task = self._bar.add_task("frames", total=self._frames)
        return lambda text: self._bar.update(task, advance=1, description=text)

    def __exit__(self, *error: Any) -> None:
        self._bar.stop()
