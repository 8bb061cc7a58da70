"""Makes the example scenes beside this file: `python scenes/make_scenes.py`. Each is one small USD file.

All share the look: a ground, one material for each kind of thing, a dome and a sun, a camera.
"""

from __future__ import annotations

from math import cos, degrees, pi, sin
from pathlib import Path
from typing import Any

from pxr import Gf, Sdf, Usd, UsdGeom, UsdLux, UsdPhysics, UsdShade

FOLDER = Path(__file__).parent
RATE = 60.0
WARM, SAND, GREEN, BLUE, VIOLET = (
    (0.85, 0.33, 0.24),
    (0.95, 0.68, 0.25),
    (0.36, 0.62, 0.40),
    (0.25, 0.52, 0.78),
    (0.53, 0.40, 0.70),
)
COLOURS = (WARM, SAND, GREEN, BLUE, VIOLET)
GREY = (0.45, 0.46, 0.48)


class Scene:
    """A stage with the common things; lengths are given in metres whatever the stage's unit is."""

    def __init__(self, name: str, doc: str, up: str = "Z", unit: float = 1.0, frames: int = 240):
        self.stage = Usd.Stage.CreateNew(str(FOLDER / f"{name}.usda"))
        self.up, self.unit = up, unit
        UsdGeom.SetStageUpAxis(self.stage, up)
        UsdGeom.SetStageMetersPerUnit(self.stage, unit)
        UsdPhysics.SetStageKilogramsPerUnit(self.stage, 1.0)
        self.stage.SetTimeCodesPerSecond(RATE)
        self.stage.SetFramesPerSecond(RATE)
        self.stage.SetStartTimeCode(0)
        self.stage.SetEndTimeCode(frames - 1)
        self.stage.SetMetadata("documentation", doc)
        self.stage.SetDefaultPrim(UsdGeom.Xform.Define(self.stage, "/World").GetPrim())
        UsdPhysics.Scene.Define(self.stage, "/World/PhysicsScene")
        UsdGeom.Scope.Define(self.stage, "/World/Looks")
        self.ground = self.material("Ground", GREY, friction=0.6)
        plane = UsdGeom.Plane.Define(self.stage, "/World/Ground")
        plane.CreateAxisAttr(up)
        plane.CreateWidthAttr(60 / unit)
        plane.CreateLengthAttr(60 / unit)
        self.collider(plane, self.ground)
        self.light()

    def point(self, x: float, y: float, z: float) -> Gf.Vec3d:
        """x right, y away from the camera, z up, in metres → stage axes and units."""
        return Gf.Vec3d(x, y, z) / self.unit if self.up == "Z" else Gf.Vec3d(x, z, -y) / self.unit

    def material(
        self,
        name: str,
        colour: tuple[float, float, float],
        friction: float,
        restitution: float = 0.0,
        density: float = 0.0,
    ) -> UsdShade.Material:
        """One material for the eye and for physics. Density in kg/m³."""
        material = UsdShade.Material.Define(self.stage, f"/World/Looks/{name}")
        shader = UsdShade.Shader.Define(self.stage, f"/World/Looks/{name}/Surface")
        shader.CreateIdAttr("UsdPreviewSurface")
        shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(Gf.Vec3f(*colour))
        shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(0.6)
        material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
        physics = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
        physics.CreateStaticFrictionAttr(friction)
        physics.CreateDynamicFrictionAttr(friction)
        physics.CreateRestitutionAttr(restitution)
        if density:
            physics.CreateDensityAttr(density * self.unit**3)
        return material

    def collider(self, gprim: Any, material: UsdShade.Material) -> Any:
        """Makes a gprim collide and gives it its material and extent."""
        prim = gprim.GetPrim()
        UsdPhysics.CollisionAPI.Apply(prim)
        UsdShade.MaterialBindingAPI.Apply(prim).Bind(material)
        extent = UsdGeom.Boundable.ComputeExtentFromPlugins(gprim, Usd.TimeCode.Default())
        if extent:
            gprim.CreateExtentAttr(extent)
        return gprim

    def body(self, gprim: Any, material: UsdShade.Material) -> Any:
        """The same for a gprim that moves."""
        UsdPhysics.RigidBodyAPI.Apply(gprim.GetPrim())
        return self.collider(gprim, material)

    def box(self, path: str, size: tuple[float, float, float], at: Gf.Vec3d, turn: float = 0.0) -> UsdGeom.Cube:
        """A cuboid of full size (x, y, z of `point`) at a place, turned about the up axis by degrees."""
        cube = UsdGeom.Cube.Define(self.stage, path)
        cube.CreateSizeAttr(1.0)
        cube.AddTranslateOp().Set(at)
        if turn:
            (cube.AddRotateZOp() if self.up == "Z" else cube.AddRotateYOp()).Set(turn)
        scale = size if self.up == "Z" else (size[0], size[2], size[1])
        cube.AddScaleOp().Set(Gf.Vec3f(*(s / self.unit for s in scale)))
        return cube

    def ball(self, path: str, radius: float, at: Gf.Vec3d) -> UsdGeom.Sphere:
        sphere = UsdGeom.Sphere.Define(self.stage, path)
        sphere.CreateRadiusAttr(radius / self.unit)
        sphere.AddTranslateOp().Set(at)
        return sphere

    def join(self, kind: Any, path: str, a: Any, b: Any, at: Gf.Vec3d) -> Any:
        """A joint of class `kind` between two prims at a place of the world; frames parallel to the world."""
        joint = kind.Define(self.stage, path)
        cache = UsdGeom.XformCache()
        for relation, position, prim in (
            (joint.CreateBody0Rel(), joint.CreateLocalPos0Attr, a),
            (joint.CreateBody1Rel(), joint.CreateLocalPos1Attr, b),
        ):
            relation.SetTargets([prim.GetPath()])
            position(Gf.Vec3f(cache.GetLocalToWorldTransform(prim.GetPrim()).GetInverse().Transform(at)))
        return joint

    def light(self) -> None:
        dome = UsdLux.DomeLight.Define(self.stage, "/World/Sky")
        dome.CreateIntensityAttr(600)
        dome.CreateColorAttr(Gf.Vec3f(0.85, 0.92, 1.0))
        sun = UsdLux.DistantLight.Define(self.stage, "/World/Sun")
        sun.CreateIntensityAttr(2500)
        sun.CreateAngleAttr(1.0)
        sun.AddRotateXYZOp().Set(Gf.Vec3f(40, 25, 0) if self.up == "Z" else Gf.Vec3f(-50, 25, 0))

    def camera(self, eye: tuple[float, float, float], target: tuple[float, float, float]) -> None:
        """Looks from `eye` to `target`, both as in `point`."""
        camera = UsdGeom.Camera.Define(self.stage, "/World/Camera")
        up = Gf.Vec3d(0, 0, 1) if self.up == "Z" else Gf.Vec3d(0, 1, 0)
        view = Gf.Matrix4d().SetLookAt(self.point(*eye), self.point(*target), up)
        camera.AddTransformOp().Set(view.GetInverse())
        camera.CreateFocalLengthAttr(35.0)
        camera.CreateClippingRangeAttr(Gf.Vec2f(0.05 / self.unit, 1000 / self.unit))

    def save(self) -> None:
        self.stage.GetRootLayer().Save()


def pyramid() -> None:
    """55 crates, ten at the base."""
    scene = Scene("pyramid", "A flat pyramid of 55 crates. It stands.", frames=120)
    base, size = 10, 0.5
    crates = [scene.material(f"Crate{i}", colour, friction=0.6, density=500) for i, colour in enumerate(COLOURS)]
    UsdGeom.Xform.Define(scene.stage, "/World/Pyramid")
    for row in range(base):
        for column in range(base - row):
            x = (column - (base - row - 1) / 2) * 1.04 * size
            at = scene.point(x, 0, size * (row + 0.5))
            scene.body(scene.box(f"/World/Pyramid/crate_{row}_{column}", (size,) * 3, at), crates[row % len(crates)])
    scene.camera((4.0, -9.0, 3.2), (0, 0, 2.0))
    scene.save()


def dominoes() -> None:
    """A spiral of dominoes in a stage in centimetres; a ball rolls into the first."""
    scene = Scene("dominoes", "A spiral of dominoes, in centimetres. A ball starts them.", unit=0.01, frames=480)
    tiles = [scene.material(f"Tile{i}", colour, friction=0.4, density=700) for i, colour in enumerate(COLOURS)]
    steel = scene.material("Steel", (0.7, 0.71, 0.73), friction=0.3, restitution=0.2, density=7800)
    size, gap = (0.02, 0.09, 0.18), 0.09
    UsdGeom.Xform.Define(scene.stage, "/World/Dominoes")
    angle, count = 0.0, 60
    places = []
    for _ in range(count):
        radius = 1.3 - 0.07 * angle
        places.append((radius * cos(angle), radius * sin(angle), degrees(angle) + 90))
        angle += gap / radius
    for i, (x, y, turn) in enumerate(places):
        at = scene.point(x, y, size[2] / 2)
        scene.body(scene.box(f"/World/Dominoes/domino_{i:02}", size, at, turn), tiles[i * len(tiles) // count])
    x, y, _ = places[0]
    ball = scene.body(scene.ball("/World/Ball", 0.06, scene.point(x, y - 0.35, 0.06)), steel)
    UsdPhysics.RigidBodyAPI(ball.GetPrim()).CreateVelocityAttr(Gf.Vec3f(0, 1.5 / scene.unit, 0))
    scene.camera((0.6, -3.4, 1.9), (0, -0.1, 0.1))
    scene.save()


def bridge() -> None:
    """Planks on ball joints between two towers, y up; crates and balls fall on it."""
    scene = Scene("bridge", "A bridge of planks on ball joints, y up. Things fall on it.", up="Y", frames=360)
    wood = scene.material("Wood", (0.62, 0.45, 0.28), friction=0.7, density=500)
    stone = scene.material("Stone", (0.6, 0.58, 0.55), friction=0.7)
    load = [scene.material(f"Load{i}", c, friction=0.5, restitution=0.1, density=300) for i, c in enumerate(COLOURS)]
    count, length, width, height = 14, 0.5, 1.6, 2.5
    pitch = length + 0.04
    span = count * pitch
    towers = []
    for name, side in (("Left", -1), ("Right", 1)):
        at = scene.point(side * (span / 2 + 0.5), 0, height / 2)
        towers.append(scene.collider(scene.box(f"/World/{name}Tower", (1.0, 2.0, height), at), stone))
    for group in ("Bridge", "Joints", "Load"):
        UsdGeom.Xform.Define(scene.stage, f"/World/{group}")
    deck = height - 0.05
    planks = [
        scene.body(
            scene.box(
                f"/World/Bridge/plank_{i:02}", (length, width, 0.1), scene.point((i + 0.5) * pitch - span / 2, 0, deck)
            ),
            wood,
        )
        for i in range(count)
    ]
    chain = [towers[0], *planks, towers[1]]
    for i, (a, b) in enumerate(zip(chain, chain[1:], strict=False)):
        for name, y in (("front", -0.45 * width), ("back", 0.45 * width)):
            at = scene.point(i * pitch - span / 2, y, deck)
            scene.join(UsdPhysics.SphericalJoint, f"/World/Joints/{name}_{i:02}", a, b, at)
    for i in range(6):
        at = scene.point(-1.5 + 0.6 * i, 0.25 * (-1) ** i, height + 1.0 + 0.4 * i)
        path = f"/World/Load/thing_{i}"
        thing = scene.ball(path, 0.22, at) if i % 2 else scene.box(path, (0.4, 0.4, 0.4), at, turn=15.0 * i)
        scene.body(thing, load[i % len(load)])
    scene.camera((5.0, -9.0, 5.0), (0, 0, 1.8))
    scene.save()


# Limbs of the ragdoll: name, end points (x, z in metres; y = 0), radius. Left limbs are mirrored to the right.
TRUNK = {
    "pelvis": ((0.0, 0.95), (0.0, 1.05), 0.14),
    "chest": ((0.0, 1.22), (0.0, 1.40), 0.15),
    "head": ((0.0, 1.66), (0.0, 1.72), 0.11),
}
LIMBS = {
    "upper_arm": ((0.24, 1.42), (0.48, 1.42), 0.05),
    "lower_arm": ((0.58, 1.42), (0.80, 1.42), 0.045),
    "thigh": ((0.10, 0.82), (0.10, 0.55), 0.07),
    "shin": ((0.10, 0.42), (0.10, 0.14), 0.055),
}
# Joints: name, parts, place, cone half angle (ball) or limits (hinge about the y axis or the x axis), degrees.
BALLS = {"waist": ("pelvis", "chest", (0.0, 1.14), 30), "neck": ("chest", "head", (0.0, 1.55), 40)}
LIMB_BALLS = {
    "shoulder": ("chest", "upper_arm", (0.19, 1.42), 80),
    "hip": ("pelvis", "thigh", (0.10, 0.92), 50),
}
LIMB_HINGES = {
    "elbow": ("upper_arm", "lower_arm", (0.53, 1.42), "Z", (0.0, 130.0)),
    "knee": ("thigh", "shin", (0.10, 0.485), "X", (-130.0, 0.0)),
}


def ragdoll() -> None:
    """A figure of capsules that falls on steps."""
    scene = Scene("ragdoll", "A ragdoll with ball joints and hinges falls on steps.", frames=300)
    skin = scene.material("Skin", (0.86, 0.60, 0.45), friction=0.6, density=1000)
    cloth = scene.material("Cloth", BLUE, friction=0.6, density=1000)
    stone = scene.material("Stone", (0.6, 0.58, 0.55), friction=0.6)
    for i in range(4):
        size = (3.0, 0.6, 0.25 * (4 - i))
        scene.collider(scene.box(f"/World/Step_{i}", size, scene.point(0, -0.9 + 0.6 * i, size[2] / 2)), stone)
    figure, lift = "/World/Ragdoll", 1.6
    UsdGeom.Xform.Define(scene.stage, figure)
    UsdGeom.Scope.Define(scene.stage, f"{figure}/Joints")
    parts: dict[str, Any] = {}
    for name, limb in TRUNK.items():
        parts[name] = _limb(scene, f"{figure}/{name}", limb, 1, lift, skin if name == "head" else cloth)
    for name, limb in LIMBS.items():
        for side, sign in (("left", 1), ("right", -1)):
            material = cloth if name == "thigh" else skin
            parts[f"{side}_{name}"] = _limb(scene, f"{figure}/{side}_{name}", limb, sign, lift, material)
    for name, (a, b, place, cone) in BALLS.items():
        _ball_joint(scene, f"{figure}/Joints/{name}", parts[a], parts[b], place, 1, lift, cone)
    for side, sign in (("left", 1), ("right", -1)):
        for name, (a, b, place, cone) in LIMB_BALLS.items():
            _ball_joint(
                scene, f"{figure}/Joints/{side}_{name}", parts[a], parts[f"{side}_{b}"], place, sign, lift, cone
            )
        for name, (a, b, place, axis, limits) in LIMB_HINGES.items():
            at = scene.point(sign * place[0], -0.6, place[1] + lift)
            path = f"{figure}/Joints/{side}_{name}"
            joint = scene.join(UsdPhysics.RevoluteJoint, path, parts[f"{side}_{a}"], parts[f"{side}_{b}"], at)
            joint.CreateAxisAttr(axis)
            low, high = limits if axis == "X" or sign > 0 else (-limits[1], -limits[0])
            joint.CreateLowerLimitAttr(low)
            joint.CreateUpperLimitAttr(high)
    chest = UsdPhysics.RigidBodyAPI(parts["chest"].GetPrim())
    chest.CreateVelocityAttr(Gf.Vec3f(0.0, 1.0, 0.0))
    chest.CreateAngularVelocityAttr(Gf.Vec3f(degrees(-pi / 4), 0.0, 0.0))
    scene.camera((4.5, -4.5, 2.8), (0, 0.3, 1.2))
    scene.save()


def dam_break() -> None:
    """A column of 4608 particles of water falls against the other end of its tank; a ball of stone is in its way."""
    scene = Scene("dam_break", "A column of water collapses in a tank.")
    _water(scene, 0.0125, tank=(1.6, 0.4, 1.2), fill=(0.4, 0.4, 0.45), viscosity=1e-4)
    stone = scene.material("Stone", (0.6, 0.58, 0.55), friction=0.7)
    scene.collider(scene.ball("/World/Stone", 0.12, scene.point(1.0, 0.2, 0.0)), stone)
    scene.camera((0.8, -2.6, 1.2), (0.8, 0.2, 0.4))
    scene.save()


def floating() -> None:
    """A cube half as dense as the water that it falls into: it swims on one edge, half of it under water."""
    scene = Scene("floating", "A wooden cube falls into a tank of water and swims.", frames=300)
    _water(scene, 0.02, tank=(0.8, 0.8, 0.9), fill=(0.8, 0.8, 0.4), viscosity=1e-4)
    wood = scene.material("Wood", WARM, friction=0.4, density=500.0)
    scene.body(scene.box("/World/Cube", (0.2, 0.2, 0.2), scene.point(0.4, 0.4, 0.55), turn=8.0), wood)
    scene.camera((0.4, -2.0, 1.1), (0.4, 0.4, 0.35))
    scene.save()


def fluid_rigid() -> None:
    """100 000 particles of water run into 500 boxes, some lighter than it."""
    scene = Scene("fluid_rigid", "A wave takes 500 boxes with it.", frames=1000)
    _water(scene, 0.02, tank=(4.0, 1.6, 2.4), fill=(2.0, 1.6, 2.0), viscosity=1e-4)
    for side, x, y in (("Left", -0.2, 0.8), ("Right", 4.2, 0.8), ("Front", 2.0, -0.2), ("Back", 2.0, 1.8)):
        size = (0.4, 2.4, 2.4) if y == 0.8 else (4.8, 0.4, 2.4)
        wall = scene.collider(scene.box(f"/World/{side}", size, scene.point(x, y, 1.2)), scene.ground)
        wall.CreatePurposeAttr(UsdGeom.Tokens.guide)  # the tank is of glass
    woods = [scene.material(f"Box{i}", COLOURS[i], 0.5, density=200.0 + 300.0 * i) for i in range(5)]
    for i in range(500):
        at = scene.point(2.3 + 0.18 * (i % 9), 0.15 + 0.185 * (i // 9 % 8), 0.12 + 0.18 * (i // 72))
        scene.body(scene.box(f"/World/Box{i}", (0.12, 0.12, 0.12), at, turn=7.0 * (i % 5)), woods[i % 5])
    scene.camera((2.0, -5.5, 2.6), (2.0, 0.8, 0.8))
    scene.save()


def _water(scene: Scene, radius: float, tank: Any, fill: Any, viscosity: float) -> None:
    """A tank from the origin to `tank`, and a fluid in it up to `fill`."""
    physics = scene.stage.GetPrimAtPath("/World/PhysicsScene")
    for side, corner in (("lower", (0, 0, 0)), ("upper", tank)):
        physics.CreateAttribute(f"weft:domain:{side}", Sdf.ValueTypeNames.Float3, custom=True).Set(Gf.Vec3f(*corner))
    water = UsdGeom.Points.Define(scene.stage, "/World/Water")
    lower, upper = Gf.Vec3f(0.0), Gf.Vec3f(*fill)
    prim, kinds = water.GetPrim(), Sdf.ValueTypeNames
    for name, kind, value in (
        ("radius", kinds.Float, radius),
        ("density", kinds.Float, 1000.0),
        ("viscosity", kinds.Float, viscosity),
        ("blocks", kinds.Float3Array, [lower, upper]),
    ):
        prim.CreateAttribute(f"weft:fluid:{name}", kind, custom=True).Set(value)
    water.CreatePointsAttr([])
    water.CreateWidthsAttr([2 * radius])
    water.SetWidthsInterpolation("constant")
    water.CreateExtentAttr([lower, upper])
    water.CreateDisplayColorAttr([Gf.Vec3f(*BLUE)])


def _limb(scene: Scene, path: str, limb: Any, sign: int, lift: float, material: UsdShade.Material) -> UsdGeom.Capsule:
    """A capsule between two points of the figure's plane, along x or z."""
    (x0, z0), (x1, z1), radius = limb
    capsule = UsdGeom.Capsule.Define(scene.stage, path)
    capsule.CreateAxisAttr("X" if z0 == z1 else "Z")
    capsule.CreateHeightAttr(abs(x1 - x0) + abs(z1 - z0))
    capsule.CreateRadiusAttr(radius)
    capsule.AddTranslateOp().Set(scene.point(sign * (x0 + x1) / 2, -0.6, (z0 + z1) / 2 + lift))
    return scene.body(capsule, material)


def _ball_joint(scene: Scene, path: str, a: Any, b: Any, place: Any, sign: int, lift: float, cone: float) -> None:
    """A ball joint with a round cone about the direction from a to b."""
    joint = scene.join(UsdPhysics.SphericalJoint, path, a, b, scene.point(sign * place[0], -0.6, place[1] + lift))
    joint.CreateAxisAttr("X" if "shoulder" in path else "Z")
    joint.CreateConeAngle0LimitAttr(cone)
    joint.CreateConeAngle1LimitAttr(cone)


if __name__ == "__main__":
    for make in (pyramid, dominoes, bridge, ragdoll, dam_break, floating, fluid_rigid):
        make()
        print(f"made {make.__name__}.usda")
