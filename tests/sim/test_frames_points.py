"""Particles as VTK and PLY files: what is in them, whole or not at all, bad calls by name."""

from __future__ import annotations

import sys
from pathlib import Path

import meshio
import numpy as np
import pytest

from engine.errors import Error
from engine.sim.builder import ModelBuilder
from engine.sim.frames_points import PointFiles
from engine.sim.simulation import Simulation


def falling() -> Simulation:
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.add_fluid_block((0, 0, 0), (0.3, 0.2, 0.1), velocity=(1, 2, 3))
    b.add_fluid_block((2, 0, 0), (2.1, 0.1, 0.1), density=800.0)
    return Simulation(b.finalize(), dt=0.005)


@pytest.mark.parametrize("suffix", ["vtk", "vtu", "ply"])
def test_frames_hold_all_particles_in_the_order_of_their_ids(tmp_path, suffix):
    sim = falling()
    sim.run(3, points=tmp_path / "new" / f"water.{suffix}")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [f"water_000{i}.{suffix}" for i in range(3)]
    got, order = meshio.read(tmp_path / "new" / f"water_0002.{suffix}"), np.argsort(sim.state.particle_id.numpy())
    data, s = got.point_data, sim.state
    assert np.array_equal(got.points, s.particle_q.numpy()[order])
    assert data["id"].tolist() == list(range(7)) and data["fluid"].tolist() == [0] * 6 + [1]
    v = np.stack([data[f"v{a}"] for a in "xyz"], axis=1) if suffix == "ply" else data["velocity"]
    assert np.array_equal(v, s.particle_qd.numpy()[order])
    assert data["density"][6] == pytest.approx(800.0 * s.particle_density.numpy()[order][6])
    rest = np.r_[[1000.0] * 6, 800.0]
    assert np.array_equal(data["pressure"], (rest * s.particle_pressure.numpy()[order]).astype(np.float32))


def test_bad_calls_are_named(tmp_path, monkeypatch):
    sim = falling()
    with pytest.raises(Error, match=r"w.bgeo: particles are written as .vtk, .vtu or .ply"):
        sim.run(1, points=tmp_path / "w.bgeo")
    (tmp_path / "file").write_text("x")
    with pytest.raises(Error, match="cannot be written"):
        sim.run(1, points=tmp_path / "file" / "w.vtk")
    b = ModelBuilder()
    b.add_shape_sphere(b.add_body(), None, 0.1)
    with pytest.raises(Error, match="no particles"):
        Simulation(b.finalize()).run(1, points=tmp_path / "w.vtk")
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(Error, match=r"needs meshio: pip install weft-engine\[points\]"):
        sim.run(1, points=tmp_path / "w.vtk")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_file_that_fails_is_not_there(tmp_path, monkeypatch):
    files = PointFiles(tmp_path / "w.vtk", falling().model)

    def half(path: Path, mesh: object) -> None:
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(meshio, "write", half)
    with pytest.raises(Error, match="w_0000.vtk: cannot be written: No space left"):
        files.write(falling().state, 0)
    assert not list(tmp_path.iterdir())
