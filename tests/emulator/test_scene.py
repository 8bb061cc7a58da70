"""Simulations, which capture and replay their frames, give the same bits on the cpu and on the emulated GPU."""

from pathlib import Path

import numpy as np
import pytest

import engine

SCENES = Path(__file__).parents[2] / "scenes"
NAMES = ("pyramid", "dominoes", "bridge", "ragdoll", "dam_break")


def simulated(device: str, frames: int, with_door: bool) -> dict[str, np.ndarray]:
    """Bodies after some frames: boxes on boxes on the ground, a sphere that falls onto them, perhaps a hinged door."""
    b = engine.sim.ModelBuilder(up_axis="z", gravity=-9.81)
    b.add_ground_plane()
    for x, z in ((0.0, 0.5), (1.1, 0.5), (0.55, 1.51)):
        body = b.add_body(xform=engine.transform((x, 0, z), engine.quat_identity()))
        b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=1000.0, mu=0.5)
    ball = b.add_body(xform=engine.transform((0.8, 0.1, 2.5), engine.quat_identity()))
    b.add_shape_sphere(ball, radius=0.4, density=500.0)
    if with_door:
        door = b.add_body(xform=engine.transform((3.5, 0, 2), engine.quat_identity()))
        b.add_shape_box(door, hx=0.5, hy=0.1, hz=0.5, density=100.0)
        frame, own = (engine.transform(p, engine.quat_identity()) for p in ((3, 0, 2), (-0.5, 0, 0)))
        b.add_joint_revolute(-1, door, parent_xform=frame, child_xform=own, axis=(0, 1, 0))
    return after(engine.sim.Simulation(b.finalize(device=device), dt=1 / 60), frames)


def after(sim: engine.sim.Simulation, frames: int) -> dict[str, np.ndarray]:
    """The state some frames later. The parts of a frame are graphs on either device."""
    for _ in range(frames):
        sim.step()
    for part in (sim._opening, sim._rest):
        assert part._graph is not None and part._graph.device is sim.model.device and part._graph.replays
    assert sim.stats.timings["collide"] > 0
    names = ("body_q", "body_qd", "joint_q", "particle_q", "particle_qd")
    return {name: getattr(sim.state, name).numpy().copy() for name in names}


def same_bits(cpu: dict[str, np.ndarray], emu: dict[str, np.ndarray]) -> None:
    for name, values in cpu.items():
        assert (values.view(np.int32) == emu[name].view(np.int32)).all(), name
        assert np.isfinite(values).all()
    assert max(abs(cpu[name]).max(initial=0) for name in ("body_qd", "particle_qd")) > 1e-5  # something moved


def test_the_bits_of_a_simulation() -> None:
    same_bits(*(simulated(device, 5, with_door=False) for device in ("cpu", "emu")))


def scene_bits(name: str, frames: int) -> None:
    same_bits(*(after(engine.load(SCENES / f"{name}.usda", device=device), frames) for device in ("cpu", "emu")))


@pytest.mark.parametrize("name,frames", [("ragdoll", 3), ("dam_break", 2)])
def test_the_bits_of_a_scene(name: str, frames: int) -> None:
    scene_bits(name, frames)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_the_bits_of_a_second(name: str) -> None:
    scene_bits(name, 60)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_a_trace_of_correct_kernels_finds_nothing(name: str) -> None:
    with engine.debug.trace() as report:
        sim = engine.load(SCENES / f"{name}.usda", device="emu")
        for _ in range(2):
            sim.step()
    assert not report.findings and len(report.kernels) > 20


@pytest.mark.soak
def test_the_bits_of_a_second_with_a_door() -> None:
    same_bits(*(simulated(device, 60, with_door=True) for device in ("cpu", "emu")))
