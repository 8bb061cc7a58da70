"""A scene with contacts and friction, for a longer time also with joints, gives the same bits on both devices."""

import numpy as np
import pytest

import engine


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
    sim = engine.sim.Simulation(b.finalize(device=device), dt=1 / 60)
    for _ in range(frames):
        sim.step()
    return {name: getattr(sim.state, name).numpy().copy() for name in ("body_q", "body_qd", "joint_q")}


def same_bits(frames: int, with_door: bool) -> None:
    cpu, emu = (simulated(device, frames, with_door) for device in ("cpu", "emu"))
    for name, values in cpu.items():
        assert (values.view(np.int32) == emu[name].view(np.int32)).all(), name
    assert np.isfinite(cpu["body_q"]).all() and abs(cpu["body_qd"]).max() > 0.1  # something moved


def test_the_bits_of_a_simulation() -> None:
    same_bits(5, with_door=False)


@pytest.mark.soak
def test_the_bits_of_a_second_with_joints() -> None:
    same_bits(60, with_door=True)
