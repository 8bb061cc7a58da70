"""Runs a recipe in this engine: time for each step, and the quality of what came out."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.bench.recipes import DT, GRAVITY, SUBSTEPS, Recipe, Scene
from engine.config import config
from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation
from engine.timer import timer

WARM_UP_STEPS = 30  # enough for the small scene to come into contact, so that every kernel is compiled


@dataclass
class Result:
    """What one recipe took in one engine, and how well it came out. Lengths in m, speeds in m/s."""

    scene: str
    engine: str
    device: str
    threads: int
    bodies: int
    joints: int
    steps: int
    measured: int
    substeps: int
    iterations: int
    contacts: int = 0  # alive after the last step
    ms_median: float = 0.0
    ms_mean: float = 0.0
    ms_max: float = 0.0
    largest_penetration: float = 0.0  # over the measured steps
    lowest_corner: float = 0.0  # z after the last step
    mean_speed: float = 0.0  # after the last step
    height: float = 0.0  # of the highest body's centre at the start
    largest_drop: float = 0.0  # of a body, from start to end
    joint_gap: float = 0.0  # between the two anchors of a joint, after the last step
    build_s: float = 0.0  # from plain data to a simulation
    compile_s: float = 0.0  # building and first steps of the small scene: compiling or loading all kernels
    kernel_cache: str = "none"  # "cold": kernels were compiled, "warm": all came from the cache
    peak_memory_mb: float = 0.0  # of the process so far
    sleeping: str = "off"
    wrong: str = ""  # what the recipe's check found
    stages: dict[str, float] = field(default_factory=dict)  # ms for each step by timer path

    def set_times(self, seconds: list[float]) -> None:
        ms = np.array(seconds[-self.measured :]) * 1e3
        self.ms_median, self.ms_mean, self.ms_max = float(np.median(ms)), float(ms.mean()), float(ms.max())

    def set_quality(self, scene: Scene, pose: np.ndarray, velocity: np.ndarray) -> None:
        """Judges final poses (n, 7: xyz, quaternion xyzw) and linear velocities (n, 3)."""
        turn = rotation_matrices(pose[:, 3:])
        reach = np.abs(turn[:, 2]) @ np.array(scene.box) if scene.box else np.full(len(pose), scene.sphere)
        self.lowest_corner = float((pose[:, 2] - reach).min())
        self.mean_speed = float(np.linalg.norm(velocity, axis=1).mean())
        self.height = float(scene.position[:, 2].max())
        self.largest_drop = float((scene.position[:, 2] - pose[:, 2]).max())
        self.joint_gap = largest_gap(scene, pose[:, :3], turn)
        finite = np.isfinite(pose).all() and np.isfinite(velocity).all()
        self.wrong = "" if finite else "a pose or velocity is not finite"


def rotation_matrices(q: np.ndarray) -> np.ndarray:
    """(n, 3, 3) from quaternions (n, 4) xyzw."""
    x, y, z, w = q.T
    return np.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    ], axis=1).reshape(-1, 3, 3)  # fmt: skip


def largest_gap(scene: Scene, position: np.ndarray, turn: np.ndarray) -> float:
    """The largest distance between the two points that a ball joint holds together."""
    if not scene.joints:
        return 0.0
    position, turn = np.vstack([position, np.zeros(3)]), np.concatenate([turn, np.eye(3)[None]])  # [-1]: the world
    points = []
    for end, anchor in (("parent", "parent_anchor"), ("child", "child_anchor")):
        body = np.array([getattr(joint, end) for joint in scene.joints])
        local = np.array([getattr(joint, anchor) for joint in scene.joints])
        points.append(position[body] + np.einsum("nij,nj->ni", turn[body], local))
    return float(np.linalg.norm(points[0] - points[1], axis=1).max())


def simulation(scene: Scene, device: str) -> Simulation:
    """The scene in this engine."""
    builder = ModelBuilder(up_axis="z", gravity=-GRAVITY)
    options: dict[str, Any] = {
        "density": scene.density,
        "mu": scene.mu,
        "restitution": scene.restitution,
        "collide": scene.collide,
    }
    for position, rotation in zip(scene.position, scene.rotation):
        body = builder.add_body(xform=(*position, *rotation))
        if scene.box:
            builder.add_shape_box(body, None, *scene.box, **options)
        elif scene.sphere:
            builder.add_shape_sphere(body, radius=scene.sphere, **options)
    for joint in scene.joints:
        parent, child = ((*anchor, 0.0, 0.0, 0.0, 1.0) for anchor in (joint.parent_anchor, joint.child_anchor))
        builder.add_joint_ball(joint.parent, joint.child, parent_xform=parent, child_xform=child)
    if scene.ground:
        builder.add_ground_plane(mu=scene.mu, restitution=scene.restitution)
    model = builder.finalize(device=device)
    return Simulation(model, dt=DT, substeps=SUBSTEPS, sleeping=False)


def warm_up(recipe: Recipe, device: str) -> tuple[float, str]:
    """Compiles (or loads) every kernel by running the small scene; (seconds, "cold" or "warm")."""
    before = set(config.cache_dir.rglob("*"))
    started = time.perf_counter()
    small = simulation(recipe.scene(recipe.small), device)
    for _ in range(WARM_UP_STEPS):
        small.step()
    seconds = time.perf_counter() - started
    return seconds, "cold" if set(config.cache_dir.rglob("*")) - before else "warm"


def peak_memory() -> float:
    """Largest resident size of this process so far, MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def measure(recipe: Recipe, device: str) -> Result:
    """Builds, warms up, runs and judges one recipe, with the threads that `config` says."""
    compile_s, cache = warm_up(recipe, device)
    scene = recipe.scene(recipe.size)
    started = time.perf_counter()
    sim = simulation(scene, device)
    build_s = time.perf_counter() - started
    seconds, penetration, stages = timed_steps(recipe, sim)
    result = Result(
        recipe.name, "weft", device, config.threads, len(scene.position), len(scene.joints), recipe.steps,
        recipe.measured, sim.substeps, sim.iterations, contacts=int(sim.contacts.count), build_s=build_s,
        compile_s=compile_s, kernel_cache=cache, largest_penetration=penetration, stages=stages,
    )  # fmt: skip
    result.set_times(seconds)
    result.set_quality(scene, sim.state.body_q.numpy(), sim.state.body_qd.numpy()[:, :3])
    result.peak_memory_mb = peak_memory()
    result.wrong = result.wrong or recipe.check(result)
    return result


def timed_steps(recipe: Recipe, sim: Simulation) -> tuple[list[float], float, dict[str, float]]:
    """(seconds of each step, deepest contact of the measured ones, ms per step and stage of the measured ones)."""
    seconds, penetration, enabled = [], 0.0, timer.enabled
    try:
        for step in range(recipe.steps):
            if step == recipe.steps - recipe.measured:
                timer.reset()
                timer.enabled = True
            started = time.perf_counter()
            sim.step()
            sim.sync()
            seconds.append(time.perf_counter() - started)
            if timer.enabled and sim.contacts.count:
                penetration = max(penetration, float(np.max(sim.contacts.depth)))
        return seconds, penetration, {path: ms / recipe.measured for path, ms in timer.totals().items()}
    finally:
        timer.enabled = enabled
