"""Fluids in USD: Points with weft:fluid attributes in, points with velocities and ids out, bad values by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from pxr import Usd, UsdGeom

from engine.errors import SceneError, SimulationError
from engine.sim.builder import ModelBuilder
from engine.sim.fluid_surface import fluid_surface
from engine.sim.load import load
from engine.sim.simulation import Simulation

HEADER = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    kilogramsPerUnit = 0.5
    upAxis = "Z"
)
"""


def scene(folder: Path, body: str) -> str:
    path = folder / "scene.usda"
    path.write_text(HEADER + body)
    return str(path)


FLUID = """def Xform "World"
{
    def PhysicsScene "Scene"
    {
        custom float3 weft:domain:lower = (0, 0, 0)
        custom float3 weft:domain:upper = (100, 100, 100)
    }
    def Points "tea"
    {
        point3f[] points = [(1, 2, 3), (4, 2, 3)]
        vector3f[] velocities = [(10, 0, 0), (0, 10, 0)]
        float[] widths = [2]
        custom float weft:fluid:density = 0.0009
        custom float3[] weft:fluid:blocks = [(5, 0, 0), (9, 4, 2)]
        double3 xformOp:translate = (10, 20, 30)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
"""


def test_fluids_are_read_in_si_units_and_written_in_those_of_their_prim(tmp_path):
    source = scene(tmp_path, FLUID)
    sim = load(source)
    m = sim.model
    assert (m.fluid_label, m.nparticle) == (("/World/tea",), 2 + 2 * 2 * 1)
    assert m.particle_radius.numpy()[0] == pytest.approx(0.01)
    assert m.fluid_density.numpy()[0] == pytest.approx(0.0009 * 0.5 / 0.01**3)
    assert np.allclose(m.particle_q.numpy()[:2], [(0.11, 0.22, 0.33), (0.14, 0.22, 0.33)])
    assert np.allclose(m.particle_qd.numpy()[:2], [(0.1, 0, 0), (0, 0.1, 0)])
    assert np.allclose(m.particle_q.numpy()[2:].min(axis=0), (0.16, 0.21, 0.31))
    assert np.allclose(m.domain_upper.numpy()[0], 1.0)
    out = tmp_path / "out.usda"
    sim.run(3, out=out)
    stage = Usd.Stage.Open(str(out))
    points = UsdGeom.Points(stage.GetPrimAtPath("/World/tea"))
    assert np.allclose(points.GetPointsAttr().Get(0)[:2], [(1, 2, 3), (4, 2, 3)], atol=1e-4)
    ids = sim.state.particle_id.numpy()
    last = np.array(points.GetPointsAttr().Get(2))[ids]
    assert np.allclose((last + (10, 20, 30)) * 0.01, sim.state.particle_q.numpy(), atol=1e-6)
    speed = np.array(points.GetVelocitiesAttr().Get(2))[ids] * 0.01
    assert np.allclose(speed, sim.state.particle_qd.numpy(), atol=1e-5)
    assert list(points.GetIdsAttr().Get(1)) == list(range(6)) and points.GetWidthsAttr().Get()[0] == pytest.approx(2.0)
    low, high = points.GetExtentAttr().Get(1)
    x = np.array(points.GetPointsAttr().Get(1))
    assert np.allclose(low, x.min(axis=0) - 1, atol=1e-4) and np.allclose(high, x.max(axis=0) + 1, atol=1e-4)


def test_domains_may_be_periodic_or_without_walls(tmp_path):
    options = 'custom string weft:domain:periodic = "xy"\n        custom bool weft:domain:walls = false'
    lower = "custom float3 weft:domain:lower"
    m = load(scene(tmp_path, FLUID.replace(lower, f"{options}\n        {lower}"))).model
    assert np.allclose(m.domain_period.numpy()[0], (1, 1, 0)) and m.domain_open.numpy()[0] == 1
    assert m.nboundary == 0


def test_the_scene_and_the_caller_choose_the_method(tmp_path):
    options = 'custom token weft:fluid:method = "pbf"'
    text = FLUID.replace("custom float3 weft:domain:lower", f"{options}\n        custom float3 weft:domain:lower")
    tension = "custom float weft:fluid:surfaceTension = 0.1"
    path = scene(tmp_path, text.replace("density = 0.0009", f"density = 0.0009\n        {tension}"))
    sim = load(path)
    assert type(sim._fluid).__name__ == "Pbf" and sim.substeps == 4
    assert sim.model.fluid_surface_tension.numpy()[0] == pytest.approx(0.05)  # half a kilogram is the unit
    assert type(load(path, fluid_options={"method": "wcsph"})._fluid).__name__ == "Wcsph"
    with pytest.raises(SceneError, match="method must be one of"):
        load(scene(tmp_path, text.replace('"pbf"', '"x"')))


def test_fluids_of_a_model_become_points(tmp_path):
    b = ModelBuilder()
    b.add_fluid_block((0, 0, 0), (0.1, 0.1, 0.1), label="water")
    sim = Simulation(b.finalize())
    sim.run(2, out=tmp_path / "out.usdc")
    stage = Usd.Stage.Open(str(tmp_path / "out.usdc"))
    points = UsdGeom.Points(stage.GetPrimAtPath("/World/water"))
    assert len(points.GetPointsAttr().Get(1)) == 8


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("widths = [2]", "widths = []", "needs weft:fluid:radius or widths"),
        ("(9, 4, 2)]", "(9, 4, 2), (1, 1, 1)]", "pairs of corners"),
        ("(9, 4, 2)]", "(9, 4, 1)]", "no room for a particle"),
        ("(0, 10, 0)]", "(0, 10, 0), (1, 1, 1)]", "3 velocities for 2 points"),
        ("(4, 2, 3)]", "(4, inf, 3)]", "points\\[1\\] is not finite"),
        ("custom float3 weft:domain:upper = (100, 100, 100)", "", "takes both weft:domain:lower and"),
        ("(100, 100, 100)", "(100, 0, 100)", "domain: has no volume"),
        ("(100, 100, 100)", '(100, 9, 9)\n custom string weft:domain:periodic = "w"', "takes some of the axes"),
        ("density = 0.0009", "density = 0", "density must be positive"),
    ],
)
def test_bad_fluids_are_named(tmp_path, old, new, message):
    assert old in FLUID
    with pytest.raises(SceneError, match=message):
        load(scene(tmp_path, FLUID.replace(old, new)))


def test_surfaces_are_closed_meshes_around_the_fluid(tmp_path):
    source = scene(tmp_path, FLUID.replace("(9, 4, 2)", "(17, 12, 12)"))
    sim = load(source)
    sim.run(2, out=tmp_path / "out.usda", surface=True)
    stage = Usd.Stage.Open(str(tmp_path / "out.usda"))
    assert UsdGeom.Imageable(stage.GetPrimAtPath("/World/tea")).ComputeVisibility(0) == "invisible"
    prim = UsdGeom.Mesh(stage.GetPrimAtPath("/World/tea_surface"))
    for time in (0, 1):
        x, corners = np.array(prim.GetPointsAttr().Get(time)), np.array(prim.GetFaceVertexIndicesAttr().Get(time))
        assert list(prim.GetFaceVertexCountsAttr().Get(time)) == [3] * (len(corners) // 3)
        mesh = trimesh.Trimesh(x, corners.reshape(-1, 3), process=False)
        assert mesh.is_watertight and mesh.volume == pytest.approx(12**3, rel=0.15)
    # the block's corner in the world and in the units of the stage
    low = np.array(prim.GetPointsAttr().Get(0)).min(axis=0)
    assert 13 < low[0] < 15 and np.allclose(low[1:], (20, 30), atol=0.5)  # the point at x = 4 touches the block
    assert np.allclose(prim.ComputeLocalToWorldTransform(0), np.eye(4))


def test_no_particles_no_surface():
    vertices, triangles = fluid_surface(np.zeros((0, 3)), 0.1)
    assert vertices.shape == (0, 3) and triangles.shape == (0, 3)
    with pytest.raises(SimulationError, match="spread over"):
        fluid_surface(np.array([[0, 0, 0], [1e6, 1e6, 1e6]]), 0.1)
