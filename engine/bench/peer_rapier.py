"""Runs a recipe in Rapier (its Python binding rapier3d), for a comparison on the same machine at the same time."""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import numpy as np

from engine.bench.measure import Result, peak_memory
from engine.bench.recipes import DT, GRAVITY, Recipe, Scene
from engine.config import config


def installed() -> bool:
    try:
        import rapier3d  # noqa: F401
    except ImportError:
        return False
    return True


def build(scene: Scene) -> tuple[Any, list[Any]]:
    """(world, handle of each body). Sleeping is off; contacts between jointed bodies are off, as in this engine."""
    import rapier3d as r

    world = r.PhysicsWorld(gravity=(0.0, 0.0, -GRAVITY))
    world.integration_parameters.dt = DT
    handles = []
    for position, (x, y, z, w) in zip(scene.position.tolist(), scene.rotation.tolist()):
        pose = r.Isometry3(position, r.Rotation3.from_quaternion(w, x, y, z))
        shape = r.Collider.cuboid(*scene.box) if scene.box else r.Collider.ball(scene.sphere)
        shape = shape.density(scene.density).friction(scene.mu).restitution(scene.restitution)
        if not scene.collide:
            shape = shape.collision_groups(r.InteractionGroups.none())
        handles.append(world.add_body(r.RigidBody.dynamic().position(pose).can_sleep(False), colliders=[shape]))
    fixed = world.add_body(r.RigidBody.fixed())
    if scene.ground:
        plane = r.Collider.halfspace((0.0, 0.0, 1.0)).friction(scene.mu).restitution(scene.restitution)
        world.add_collider(plane, parent=fixed)
    for joint in scene.joints:
        made = r.SphericalJointBuilder().local_anchor1(joint.parent_anchor).local_anchor2(joint.child_anchor)
        parent = fixed if joint.parent < 0 else handles[joint.parent]
        world.impulse_joints.insert(parent, handles[joint.child], made.contacts_enabled(False).build())
    return world, handles


def measure(recipe: Recipe) -> Result:
    """The same measurement as `measure.measure`, with the threads that `config` says."""
    scene = recipe.scene(recipe.size)
    started = time.perf_counter()
    world, handles = build(scene)
    world.set_num_threads(config.threads)
    build_s = time.perf_counter() - started
    seconds = []
    for _ in range(recipe.steps):
        started = time.perf_counter()
        world.step()
        seconds.append(time.perf_counter() - started)
    deepest, contacts = contact_points(world)
    result = Result(
        recipe.name, f"rapier3d {importlib.metadata.version('rapier3d')}", "cpu", config.threads, len(scene.position),
        len(scene.joints), recipe.steps, recipe.measured, world.integration_parameters.num_solver_iterations,
        world.integration_parameters.num_internal_pgs_iterations, contacts=contacts, largest_penetration=deepest,
        build_s=build_s,
    )  # fmt: skip
    result.set_times(seconds)
    bodies = [world.rigid_bodies[handle] for handle in handles]
    pose = np.array([(*body.translation, *_xyzw(body.rotation)) for body in bodies])
    result.set_quality(scene, pose, np.array([tuple(body.linvel) for body in bodies]))
    result.peak_memory_mb = peak_memory()
    result.wrong = result.wrong or recipe.check(result)
    return result


def contact_points(world: Any) -> tuple[float, int]:
    """(deepest overlap in m, number of touching points) after the last step."""
    points = [
        point.dist
        for pair in world.narrow_phase.contact_pairs()
        for manifold in pair.manifolds
        for point in manifold.points
        if point.dist < 0.0
    ]
    return max((-dist for dist in points), default=0.0), len(points)


def _xyzw(rotation: Any) -> tuple[float, float, float, float]:
    return rotation.i, rotation.j, rotation.k, rotation.w
