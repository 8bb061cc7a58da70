"""SPlisHSPlasH's scene files: a dam break with its tank, materials and bodies; what is not read; bad values by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from engine.errors import SceneError
from engine.sim.load import load

TANK = {
    "geometryFile": "box.obj", "translation": [0, 1.0, 0], "rotationAxis": [1, 0, 0], "rotationAngle": 0,
    "scale": [2, 2, 1], "isDynamic": False, "isWall": True,
}  # fmt: skip
BALL = {
    "geometryFile": "ball.obj", "translation": [0.5, 1.0, 0], "scale": [0.2, 0.2, 0.2], "isDynamic": 1, "density": 200,
    "velocity": [0, -1, 0],
}  # fmt: skip
SCENE: dict[str, Any] = {
    "Configuration": {
        "particleRadius": 0.05, "timeStepSize": 0.005, "cflFactor": 1, "cflMaxTimeStepSize": 0.004,
        "gravitation": [0, -9.81, 0], "DFSPH": {"maxError": 0.05, "maxIterations": 77, "enableDivergenceSolver": True},
    },
    "Materials": [{"id": "Tea", "density0": 900, "viscosityMethod": 1, "Standard viscosity": {"viscosity": 0.02}}],
    "RigidBodies": [TANK, BALL],
    "FluidBlocks": [
        {"id": "Tea", "start": [-0.25, 0, -0.25], "end": [0.25, 0.5, 0.25], "translation": [-0.5, 0.1, 0.0],
         "scale": [1, 1, 1], "initialVelocity": [1, 0, 0]}
    ],
}  # fmt: skip


def written(folder: Path, scene: Any) -> str:
    trimesh.creation.box((1, 1, 1)).export(folder / "box.obj")
    trimesh.creation.icosphere(2).export(folder / "ball.obj")
    path = folder / "scene.json"
    path.write_text(scene if isinstance(scene, str) else json.dumps(scene))
    return str(path)


def test_dam_break_with_a_ball(tmp_path):
    sim = load(written(tmp_path, SCENE), device="cpu")
    m = sim.model
    assert (m.nparticle, m.nbody, m.nfluid) == (64, 1, 1)  # 5 places along each axis less one
    q = m.particle_q.numpy()
    assert np.allclose(q.min(axis=0), (-0.65, 0.2, -0.15)) and np.allclose(q.max(axis=0), (-0.35, 0.5, 0.15))
    assert np.allclose(m.particle_qd.numpy(), (1, 0, 0))
    assert (m.fluid_density.numpy()[0], m.fluid_viscosity.numpy()[0]) == pytest.approx((900, 0.02))
    assert np.allclose(m.domain_lower.numpy()[0], (-1, 0, -0.5)) and np.allclose(m.domain_upper.numpy()[0], (1, 2, 0.5))
    mesh = trimesh.creation.icosphere(2)
    assert m.body_mass.numpy()[0] == pytest.approx(200 * mesh.volume * 0.2**3, rel=1e-5)
    assert m.body_qd.numpy()[0, :3].tolist() == [0, -1, 0] and m.up_axis == "y"
    settings = sim._fluid.settings
    assert (sim.dt, settings.density_error, settings.most_iterations) == pytest.approx((0.005, 5e-4, 77))
    assert list(sim.report) == []
    sim.step()
    assert sim.stats.fluid.steps == 2  # of at most 4 ms


def test_what_is_not_read_is_reported(tmp_path):
    scene = SCENE | {"Emitters": [{"width": 8}]}
    findings = [str(f) for f in load(written(tmp_path, scene), device="cpu").report]
    assert findings == ["Emitters: not supported yet, ignored (Emitters)"]


def changed(**parts: Any) -> dict[str, Any]:
    return {key: (value | parts[key] if isinstance(value, dict) and key in parts else parts.get(key, value))
            for key, value in SCENE.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ("{", "cannot be read"),
        ("[1]", "file: must be an object"),
        (changed(Configuration={"particleRadius": 0}), "Configuration: particleRadius must be positive, got 0"),
        (changed(Configuration={"particleRadius": "x"}), "particleRadius"),
        (changed(Configuration={"timeStepSize": -1}), "timeStepSize must be positive"),
        (changed(Configuration={"sim2D": True}), "two dimensions"),
        (changed(Configuration={"gravitation": [0, float("nan"), 0]}), "gravitation"),
        (changed(RigidBodies=[TANK | {"geometryFile": "none.obj"}]), r"RigidBodies\[0\].*none.obj"),
        (changed(RigidBodies=[BALL | {"scale": [0.2, 0.0, 0.2]}]), r"RigidBodies\[0\]"),
        (changed(RigidBodies={}), "RigidBodies: must be a list"),
        (changed(FluidBlocks=[{"start": [0, 0, 0]}]), r"FluidBlocks\[0\]: end is missing"),
        (changed(FluidBlocks=[{"start": [0, 0, 0], "end": [0.1, 1, 1]}]), "no room for a particle"),
        (changed(FluidBlocks=[{"start": [0, 0, 0], "end": [1e6, 1e6, 1e6]}]), "would hold"),
        (changed(FluidBlocks=[]) | {"RigidBodies": [TANK]}, "nothing to simulate"),
    ],
)
def test_bad_files_are_named(tmp_path, scene, message):
    with pytest.raises(SceneError, match=message):
        load(written(tmp_path, scene), device="cpu")
