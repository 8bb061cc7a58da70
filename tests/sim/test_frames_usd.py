"""USD frames out: times, units, nesting, references, atomic files; checked with USD's own reader and validators."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pxr import Gf, Sdf, Usd, UsdGeom, UsdValidation

from engine.errors import Error
from engine.geom.pose import quat_from_matrix, quat_to_matrix
from engine.sim.builder import ModelBuilder
from engine.sim.frames_usd import FrameWriter, check_output
from engine.sim.scene_usd import read
from engine.sim.simulation import Simulation

HEADER = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = {unit}
    kilogramsPerUnit = 0.5
    upAxis = "{up}"
    {time}
)
"""
BODY = 'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]'
DROP = """def Xform "World"
{
    def PhysicsScene "Scene" {}
    def Scope "Looks" {}
    def Sphere "ball" (BODY)
    {
        double radius = 10
        float3 xformOp:translate = (1, 2, 3)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
""".replace("BODY", BODY)


def scene(folder: Path, body: str, unit: float = 0.01, up: str = "Y", time: str = "timeCodesPerSecond = 50") -> str:
    path = folder / "scene.usda"
    path.write_text(HEADER.format(unit=unit, up=up, time=time) + body)
    return str(path)


class Moving:
    """A stand-in for Model and State: bodies of a scene on a made-up path."""

    def __init__(self, source: str):
        records = read(source)
        self.body_label = [b.label for b in records.bodies]
        self.start = np.array([b.pose for b in records.bodies])
        self.time = 0.0

    @property
    def body_q(self) -> SimpleNamespace:
        return SimpleNamespace(numpy=lambda: self.poses())

    def poses(self) -> np.ndarray:
        """Each body turns about its own axis and drifts."""
        out = self.start.copy()
        for i in range(len(out)):
            axis = np.array([1.0, 2.0, -1.0 - i]) / np.linalg.norm([1, 2, -1 - i])
            half = 0.5 * self.time * (i + 1)
            turn = quat_to_matrix(np.append(np.sin(half) * axis, np.cos(half)))
            out[i, :3] += self.time * np.array([0.3, -0.2, 0.1 * i])
            out[i, 3:] = quat_from_matrix(turn @ quat_to_matrix(out[i, 3:]))
        return out.astype(np.float32)


def write(path: Path, source: str, frames: int = 5, fps: float = 50.0, **options: bool) -> Moving:
    moving = Moving(source)
    with FrameWriter(path, moving, fps, source, **options) as out:
        for i in range(frames):
            moving.time = i / fps
            out.write(moving)
    return moving


def world_poses(stage: Usd.Stage, label: str, code: float) -> tuple[np.ndarray, np.ndarray]:
    """(3×3 column matrix in stage units, origin in metres) as USD composes them."""
    matrix = np.array(UsdGeom.XformCache(code).GetLocalToWorldTransform(stage.GetPrimAtPath(label))).T
    return matrix[:3, :3], matrix[:3, 3] * UsdGeom.GetStageMetersPerUnit(stage)


def sample_times(stage: Usd.Stage, label: str) -> list[float]:
    ops = UsdGeom.Xformable(stage.GetPrimAtPath(label)).GetOrderedXformOps()
    return sorted({t for op in ops for t in op.GetTimeSamples()})


def problems(path: Path) -> list[str]:
    """What USD's validators find in a file, besides rules about file packages."""
    registry = UsdValidation.ValidationRegistry()
    names = [m.name for m in registry.GetAllValidatorMetadata() if "Usdz" not in m.name and "Package" not in m.name]
    context = UsdValidation.ValidationContext(registry.GetOrLoadValidatorsByName(names))
    errors = context.Validate(Usd.Stage.Open(str(path)))
    return [e.GetMessage() for e in errors if e.GetType() == UsdValidation.ValidationErrorType.Error]


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd"])
def test_n_frames_are_n_samples_and_the_first_is_the_start_pose(tmp_path: Path, suffix: str) -> None:
    source = scene(tmp_path, DROP)
    path = tmp_path / f"frames{suffix}"
    moving = write(path, source, frames=7)
    stage = Usd.Stage.Open(str(path))
    assert sample_times(stage, "/World/ball") == [0, 1, 2, 3, 4, 5, 6]
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0, 6)
    np.testing.assert_allclose(world_poses(stage, "/World/ball", 0)[1], moving.start[0, :3], atol=1e-6)


def test_metadata_of_the_source_is_said_again(tmp_path: Path) -> None:
    source = scene(tmp_path, DROP, time="timeCodesPerSecond = 50\n startTimeCode = 10\n endTimeCode = 20")
    write(tmp_path / "frames.usda", source, frames=3)
    layer = Sdf.Layer.FindOrOpen(str(tmp_path / "frames.usda"))
    root = layer.pseudoRoot
    assert (root.GetInfo("upAxis"), root.GetInfo("metersPerUnit"), root.GetInfo("kilogramsPerUnit")) == ("Y", 0.01, 0.5)
    assert layer.defaultPrim == "World" and layer.timeCodesPerSecond == 50
    assert (layer.startTimeCode, layer.endTimeCode) == (10, 12)
    assert list(layer.subLayerPaths) == ["./scene.usda"]


def test_another_rate_keeps_the_time_of_frames(tmp_path: Path) -> None:
    source = scene(tmp_path, DROP, time="timeCodesPerSecond = 50\n startTimeCode = 10\n endTimeCode = 20")
    moving = write(tmp_path / "frames.usdc", source, frames=4, fps=25)
    stage = Usd.Stage.Open(str(tmp_path / "frames.usdc"))
    assert stage.GetTimeCodesPerSecond() == 25 and stage.GetStartTimeCode() == 5
    moving.time = 2 / 25
    np.testing.assert_allclose(world_poses(stage, "/World/ball", 7)[1], moving.poses()[0, :3], atol=1e-6)


NESTED = """def Xform "World"
{
    float3 xformOp:rotateXYZ = (10, 20, 30)
    float3 xformOp:scale = %s
    double3 xformOp:translate = (5, 6, 7)
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateXYZ", "xformOp:scale"]
    def Xform "outer" (%s)
    {
        quatd xformOp:orient = (0.5, 0.5, 0.5, 0.5)
        float3 xformOp:scale = %s
        uniform token[] xformOpOrder = ["xformOp:orient", "xformOp:scale"]
        def Sphere "shape" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
        def Xform "between"
        {
            double3 xformOp:translate = (1, 0, 2)
            uniform token[] xformOpOrder = ["xformOp:translate"]
            def Cube "inner" (%s)
            {
                float xformOp:rotateY = 25
                uniform token[] xformOpOrder = ["xformOp:rotateY"]
            }
        }
    }
}
"""


@pytest.mark.parametrize("outer_scale", ["(2, 2, 2)", "(1, 3, 2)"])
@pytest.mark.parametrize("body_scale", ["(1, 1, 1)", "(0.5, 2, 1)", "(-1, 2, 1)"])
def test_world_matrices_of_nested_and_scaled_bodies(tmp_path: Path, outer_scale: str, body_scale: str) -> None:
    body = 'prepend apiSchemas = ["PhysicsRigidBodyAPI"]'
    source = scene(tmp_path, NESTED % (outer_scale, body, body_scale, BODY))
    path = tmp_path / "frames.usda"
    moving = write(path, source, frames=6)
    stage, start = Usd.Stage.Open(str(path)), Usd.Stage.Open(source)
    for i, label in enumerate(moving.body_label):
        authored, _ = world_poses(start, label, 0)
        stretch = quat_to_matrix(moving.start[i, 3:]).T @ authored
        for code in range(6):
            moving.time = code / 50
            pose = moving.poses()[i].astype(float)
            matrix, origin = world_poses(stage, label, code)
            np.testing.assert_allclose(origin, pose[:3], atol=2e-6)
            np.testing.assert_allclose(matrix, quat_to_matrix(pose[3:]) @ stretch, atol=2e-5)


RESET = """def Xform "World"
{
    double3 xformOp:translate = (0, 7, 0)
    double3 xformOp:translate:moving.timeSamples = { 0: (0, 0, 0), 10: (100, 0, 0) }
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:translate:moving"]
    def Sphere "below" (BODY) {}
    def Sphere "apart" (BODY)
    {
        double3 xformOp:translate = (1, 2, 3)
        uniform token[] xformOpOrder = ["!resetXformStack!", "xformOp:translate"]
    }
}
""".replace("BODY", BODY)


def test_parents_that_move_by_themselves_do_not_move_bodies(tmp_path: Path) -> None:
    source = scene(tmp_path, RESET)
    moving = write(tmp_path / "frames.usda", source, frames=6)
    np.testing.assert_allclose(moving.start[:, :3], [[0, 0.07, 0], [0.01, 0.02, 0.03]], atol=1e-9)
    stage = Usd.Stage.Open(str(tmp_path / "frames.usda"))
    moving.time = 5 / 50
    for i, label in enumerate(moving.body_label):
        np.testing.assert_allclose(world_poses(stage, label, 5)[1], moving.poses()[i, :3], atol=1e-6)


def test_packages_are_scenes_too(tmp_path: Path) -> None:
    from pxr import UsdUtils

    source = str(tmp_path / "scene.usdz")
    assert UsdUtils.CreateNewUsdzPackage(scene(tmp_path, DROP), source)
    moving = write(tmp_path / "frames.usda", source)
    stage = Usd.Stage.Open(str(tmp_path / "frames.usda"))
    assert stage.GetPrimAtPath("/World/Looks") and stage.GetTimeCodesPerSecond() == 50
    np.testing.assert_allclose(world_poses(stage, "/World/ball", 0)[1], moving.start[0, :3], atol=1e-6)


def test_rotations_take_the_short_way_between_samples(tmp_path: Path) -> None:
    source = scene(tmp_path, DROP)
    moving = Moving(source)
    with FrameWriter(tmp_path / "frames.usda", moving, 50, source) as out:
        for i in range(200):
            moving.time = 0.1 * i
            out.write(moving)
    stage = Usd.Stage.Open(str(tmp_path / "frames.usda"))
    attribute = stage.GetAttributeAtPath("/World/ball.xformOp:orient:sim")
    quats = [attribute.Get(t) for t in attribute.GetTimeSamples()]
    dots = [a.GetReal() * b.GetReal() + Gf.Dot(a.GetImaginary(), b.GetImaginary()) for a, b in zip(quats, quats[1:])]
    assert min(dots) > 0.99


def test_source_is_referenced_by_a_relative_path_so_that_both_can_move(tmp_path: Path) -> None:
    (tmp_path / "a" / "scenes").mkdir(parents=True)
    source = scene(tmp_path / "a" / "scenes", DROP)
    write(tmp_path / "a" / "out" / "frames.usda", source)
    os.rename(tmp_path / "a", tmp_path / "b")
    stage = Usd.Stage.Open(str(tmp_path / "b" / "out" / "frames.usda"))
    assert stage.GetPrimAtPath("/World/Looks") and stage.GetPrimAtPath("/World/ball").GetTypeName() == "Sphere"
    assert not stage.GetCompositionErrors()
    assert str(tmp_path) not in (tmp_path / "b" / "out" / "frames.usda").read_text()


def test_flatten_makes_one_file_that_needs_no_other(tmp_path: Path) -> None:
    source = scene(tmp_path, DROP)
    path = tmp_path / "frames.usdc"
    moving = write(path, source, flatten=True)
    os.remove(source)
    stage = Usd.Stage.Open(str(path))
    assert not list(stage.GetRootLayer().subLayerPaths)
    assert stage.GetPrimAtPath("/World/ball").GetAttribute("radius").Get() == 10
    moving.time = 4 / 50
    np.testing.assert_allclose(world_poses(stage, "/World/ball", 4)[1], moving.poses()[0, :3], atol=1e-6)
    assert (stage.GetTimeCodesPerSecond(), stage.GetEndTimeCode()) == (50, 4)


INSTANCES = """def Xform "World"
{
    def Xform "one" (
        instanceable = true
        prepend references = </proto>
    ) {}
    def Xform "two" (
        instanceable = true
        prepend references = </proto>
    )
    {
        double3 xformOp:translate = (9, 0, 0)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
class Xform "proto"
{
    def Sphere "ball" (BODY) {}
}
""".replace("BODY", BODY)


def test_bodies_inside_instances_move_one_by_one(tmp_path: Path) -> None:
    source = scene(tmp_path, INSTANCES)
    moving = write(tmp_path / "frames.usda", source, frames=3)
    assert moving.body_label == ["/World/one/ball", "/World/two/ball"]
    stage = Usd.Stage.Open(str(tmp_path / "frames.usda"))
    moving.time = 2 / 50
    for i, label in enumerate(moving.body_label):
        np.testing.assert_allclose(world_poses(stage, label, 2)[1], moving.poses()[i, :3], atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"flatten": True}])
def test_usd_validators_find_nothing(tmp_path: Path, options: dict[str, bool]) -> None:
    write(tmp_path / "frames.usda", scene(tmp_path, DROP), **options)
    assert problems(tmp_path / "frames.usda") == []


def test_interrupt_leaves_a_valid_file_with_the_frames_so_far(tmp_path: Path) -> None:
    source = scene(tmp_path, DROP)
    path = tmp_path / "frames.usdc"
    with pytest.raises(KeyboardInterrupt), FrameWriter(path, Moving(source), 50, source) as out:
        for _ in range(4):
            out.write(Moving(source))
        raise KeyboardInterrupt
    stage = Usd.Stage.Open(str(path))
    assert len(sample_times(stage, "/World/ball")) == 4 and stage.GetEndTimeCode() == 3


def test_an_error_leaves_no_file_and_the_old_one_untouched(tmp_path: Path) -> None:
    source = scene(tmp_path, DROP)
    path = tmp_path / "frames.usda"
    path.write_text("old")
    with pytest.raises(RuntimeError), FrameWriter(path, Moving(source), 50, source) as out:
        out.write(Moving(source))
        raise RuntimeError
    assert path.read_text() == "old" and sorted(p.name for p in tmp_path.iterdir()) == ["frames.usda", "scene.usda"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("frames.txt", "frames are written as .usd, .usda or .usdc"),
        ("folder.usda", "cannot be written: is a folder"),
        ("file/frames.usda", "cannot be written: a part of the path is no folder"),
        ("scene.usda", "cannot be written: it is the scene that is being simulated"),
    ],
)
def test_unwritable_output_is_an_error_before_the_first_frame(tmp_path: Path, name: str, reason: str) -> None:
    source = scene(tmp_path, DROP)
    (tmp_path / "folder.usda").mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(p.name for p in tmp_path.iterdir())
    for attempt in (
        lambda: FrameWriter(tmp_path / name, Moving(source), 50, source),
        lambda: check_output(tmp_path / name, source),
    ):
        with pytest.raises(Error, match=re.escape(f"{tmp_path / name}: {reason}")):
            attempt()
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_model_built_in_python_becomes_gprims(tmp_path: Path) -> None:
    builder = ModelBuilder(up_axis="y")
    for i, label in enumerate(("ball", "my box!", "ball")):
        body = builder.add_body(xform=((2.0 * i, 5.0, 0.0), (0, 0, 0, 1)), label=label)
        builder.add_shape_sphere(body, radius=0.5, label="round")
        builder.add_shape_box(body, ((0, 1, 0), (0, 0, 0, 1)), 0.1, 0.2, 0.3)
    pill = builder.add_body(xform=((0, 9, 0), (0, 0, 0, 1)), label="/World/pill")
    builder.add_shape_capsule(pill, radius=0.2, half_height=0.4)
    builder.add_shape_cylinder(pill, radius=0.2, half_height=0.4)
    wedge = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1)]
    builder.add_shape_convex_hull(builder.add_body(label="wedge"), points=wedge)
    builder.add_ground_plane(-5.0)
    builder.add_shape_box(-1, hx=1, hy=0.1, hz=1, visible=False, label="hidden")
    sim = Simulation(builder.finalize("cpu"), dt=1 / 30)
    sim.run(3, out=tmp_path / "frames.usda")

    stage = Usd.Stage.Open(str(tmp_path / "frames.usda"))
    assert problems(tmp_path / "frames.usda") == []
    assert (UsdGeom.GetStageUpAxis(stage), UsdGeom.GetStageMetersPerUnit(stage)) == ("Y", 1.0)
    assert (stage.GetTimeCodesPerSecond(), stage.GetEndTimeCode()) == (30, 2)
    kinds = {str(p.GetPath()): str(p.GetTypeName()) for p in stage.Traverse()}
    assert kinds["/World/ball"] == kinds["/World/ball_2"] == kinds["/World/my_box_"] == "Xform"
    assert kinds["/World/ball_2/round"] == "Sphere" and kinds["/World/ground"] == "Plane"
    assert sorted(k for p, k in kinds.items() if p.startswith("/World/World_pill/")) == ["Capsule", "Cylinder"]
    assert "Mesh" in kinds.values() and not any("hidden" in path for path in kinds)
    for path, i in (("/World/ball_2", 2), ("/World/wedge", 4)):
        _, origin = world_poses(stage, path, 2)
        np.testing.assert_allclose(origin, sim.state.body_q.numpy()[i, :3], atol=1e-6)
    (mesh,) = (UsdGeom.Mesh(stage.GetPrimAtPath(p)) for p, kind in kinds.items() if kind == "Mesh")
    assert len(mesh.GetPointsAttr().Get()) == 6 and sorted(mesh.GetFaceVertexCountsAttr().Get()) == [3, 3, 4, 4, 4]
