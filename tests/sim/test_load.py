"""engine.load: time step and rate, importers by extension, and the same physics in any units and up axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from engine.errors import SceneError
from engine.plugin import importers
from engine.sim.load import load
from engine.sim.scene_records import SceneBody, SceneRecords

HEAD = """#usda 1.0
(
    metersPerUnit = {unit}
    kilogramsPerUnit = {kilograms}
    upAxis = "{up}"
    {rate}
)
"""
# Lengths, masses and drives are written in stage units that mean the same in SI. Turns about x carry z up to y up.
SCENE = """def Xform "W"
{{
    def Xform "frame"
    {{
        {turn}
        def Cube "box" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"])
        {{
            double size = {size}
            float physics:density = {density}
            vector3f physics:velocity = ({speed}, 0, 0)
            vector3f physics:angularVelocity = (0, 0, 90)
            double3 xformOp:translate = (0, 0, {height})
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }}
        def Cube "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"])
        {{
            double size = {size}
            float physics:mass = {mass}
            double3 xformOp:translate = ({side}, 0, {height})
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }}
        def Plane "ground" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{
        }}
    }}
    def PhysicsRevoluteJoint "hinge" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
    {{
        rel physics:body0 = </W/frame>
        rel physics:body1 = </W/frame/arm>
        uniform token physics:axis = "Y"
        point3f physics:localPos0 = ({side}, 0, {pivot})
        point3f physics:localPos1 = (0, 0, {back})
        float drive:angular:physics:stiffness = {stiffness}
        float drive:angular:physics:damping = {damping}
        float drive:angular:physics:targetPosition = 40
    }}
}}
"""


def write(path: Path, unit: float = 1.0, kilograms: float = 1.0, up: str = "Z", rate: str = "") -> Path:
    turn = "" if up == "Z" else 'float xformOp:rotateX = -90\n uniform token[] xformOpOrder = ["xformOp:rotateX"]'
    torque = kilograms * unit**2
    text = SCENE.format(
        turn=turn,
        size=0.4 / unit,
        density=800 * unit**3 / kilograms,
        mass=3.0 / kilograms,
        speed=1.5 / unit,
        height=0.5 / unit,
        side=2.0 / unit,
        pivot=1.5 / unit,
        back=1.0 / unit,
        stiffness=0.4 / torque,
        damping=0.02 / torque,
    )
    path.write_text(HEAD.format(unit=unit, kilograms=kilograms, up=up, rate=rate) + text)
    return path


def end(path: Path) -> tuple[Any, Any]:
    """(positions, velocities with z up) after one second."""
    sim = load(path, device="cpu", dt=1 / 120)
    for _ in range(120):
        sim.step()
    turn = np.eye(3) if sim.model.up_axis == "z" else np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    q, qd = sim.state.body_q.numpy().astype(float), sim.state.body_qd.numpy().astype(float)
    return q[:, :3] @ turn.T, np.concatenate([qd[:, :3] @ turn.T, qd[:, 3:] @ turn.T], axis=1)


@pytest.mark.parametrize(
    ("unit", "kilograms", "up"), [(0.01, 1.0, "Z"), (1.0, 0.001, "Z"), (1.0, 1.0, "Y"), (0.0254, 0.4536, "Y")]
)
def test_units_and_up_axis_do_not_change_the_physics(tmp_path: Path, unit: float, kilograms: float, up: str) -> None:
    plain = end(write(tmp_path / "plain.usda"))
    other = end(write(tmp_path / "other.usda", unit, kilograms, up))
    assert np.abs(plain[1]).max() > 0.1  # something happens
    for a, b in zip(plain, other, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_one_step_is_one_frame_of_the_file(tmp_path: Path) -> None:
    assert engine.load(write(tmp_path / "a.usda"), device="cpu").dt == pytest.approx(1 / 60)
    rated = write(tmp_path / "b.usda", rate="timeCodesPerSecond = 50")
    assert load(rated, device="cpu").dt == pytest.approx(1 / 50)
    assert load(rated, device="cpu", fps=25).dt == pytest.approx(1 / 25)
    sim = load(rated, device="cpu", dt=0.002, substeps=2)
    assert (sim.dt, sim.substeps, sim.source) == (0.002, 2, str(rated))


def test_other_packages_can_bring_importers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str) -> SceneRecords:
        return SceneRecords(path, bodies=[SceneBody("it", np.array([0, 0, 1, 0, 0, 0, 1.0]), 1.0, inertia=np.eye(3))])

    monkeypatch.setattr(importers, "_found", dict(importers._found))
    importers.register(".toy", read)
    (tmp_path / "scene.toy").write_text("")
    sim = load(tmp_path / "scene.toy", device="cpu")
    assert sim.model.body_label == ("it",)


def test_unknown_kinds_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "scene.obj").write_text("")
    with pytest.raises(SceneError, match=r"scene\.obj: unknown kind of scene file; there are .*\.usd"):
        load(tmp_path / "scene.obj")
    with pytest.raises(SceneError, match=r"nothing\.xml: no such file"):
        load(tmp_path / "nothing.xml")
