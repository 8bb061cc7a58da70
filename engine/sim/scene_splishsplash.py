"""Scene files of SPlisHSPlasH (.json) → records: the family of its dam breaks.

Blocks of fluid with their materials, a tank (`isWall`, an upright box), static and moving rigid bodies, gravity, time
step, and what the DFSPH solver is told. Blocks are filled as SPlisHSPlasH fills them: one particle less along each axis
than there is room for, the first one diameter from the lower corner. Everything else is in the report.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom import inertia
from engine.geom.hull import NoHull, convex_hull
from engine.geom.mesh import TriMesh, load_mesh
from engine.geom.pose import Floats, as_quat, as_vector
from engine.geom.shapes import ShapeType
from engine.sim.scene_records import Material, SceneBody, SceneFluid, SceneRecords, SceneShape
from engine.state.schema import WORLD_BODY

MOST_PARTICLES = 1 << 27
ROUND = 1e-3  # a mesh whose vertices are this alike in distance (of the radius) is a ball
READ = ("Configuration", "Materials", "RigidBodies", "FluidBlocks", "Simulation")


def read(path: str) -> SceneRecords:
    """The records of a file. Raises SceneError naming the file and the element."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise SceneError(path, "", f"cannot be read: {error}") from None
    return _Reader(path, data).read()


class _Reader:
    def __init__(self, path: str, data: Any):
        self.path, self.records = path, SceneRecords(path)
        self.data = self._table(data, "file")
        self.config = self._table(self.data.get("Configuration", {}), "Configuration")
        self.radius = self._number(self.config, "particleRadius", 0.025, "Configuration")

    def read(self) -> SceneRecords:
        self._configuration()
        materials = {}
        for i, value in enumerate(self._list("Materials")):
            material = self._table(value, f"Materials[{i}]")
            materials[str(material.get("id", "Fluid"))] = material
        for i, value in enumerate(self._list("RigidBodies")):
            self._rigid_body(self._table(value, f"RigidBodies[{i}]"), f"RigidBodies[{i}]")
        for i, value in enumerate(self._list("FluidBlocks")):
            self._block(self._table(value, f"FluidBlocks[{i}]"), f"FluidBlocks[{i}]", materials)
        for key, value in self.data.items():
            if key not in READ and value:
                self.records.report.add(key, key)
        return self.records

    # -- parts of the file ---------------------------------------------------------------------------------------------

    def _configuration(self) -> None:
        config, records, where = self.config, self.records, "Configuration"
        if self.radius <= 0.0:
            raise self._error(where, f"particleRadius must be positive, got {self.radius:g}")
        records.gravity = self._vector(config, "gravitation", (0.0, -9.81, 0.0), where)
        records.up_axis = "xyz"[int(np.argmax(np.abs(records.gravity)))] if records.gravity.any() else "y"
        step = self._number(config, "timeStepSize", 0.001, where)
        if step <= 0.0:
            raise self._error(where, f"timeStepSize must be positive, got {step:g}")
        records.fps = 1.0 / step
        if config.get("sim2D"):
            raise self._error(where, "sim2D: scenes in two dimensions are not supported")
        known = {0: "wcsph", 2: "pbf", 4: "dfsph"}
        if config.get("simulationMethod", 4) not in known:
            records.report.add("simulationMethod", where, "solved by DFSPH")
        method = self._table(config.get("DFSPH", {}), "DFSPH")
        options: dict[str, Any] = {
            "method": known.get(config.get("simulationMethod", 4), "dfsph"),
            "density_error": 0.01 * self._number(method, "maxError", 0.01, "DFSPH"),
            "divergence_error": 0.01 * self._number(method, "maxErrorV", 0.1, "DFSPH"),
            "least_iterations": int(self._number(method, "minIterations", 2, "DFSPH")),
            "most_iterations": int(self._number(method, "maxIterations", 100, "DFSPH")),
            "solve_divergence": bool(method.get("enableDivergenceSolver", True)),
            "longest_step": self._number(config, "cflMaxTimeStepSize", 0.005, where),
        }
        if config.get("cflMethod", 1) == 0:  # the step is fixed
            options["longest_step"], options["cfl"] = step, 1e6
        else:
            options["cfl"] = 0.4 * self._number(config, "cflFactor", 0.5, where)
        records.fluid_options, records.substeps = options, 1  # such a file's step is that of its fluid

    def _block(self, block: dict[str, Any], where: str, materials: dict[str, Any]) -> None:
        scale, offset = (self._vector(block, key, otherwise, where)
                         for key, otherwise in (("scale", (1.0,) * 3), ("translation", (0.0,) * 3)))  # fmt: skip
        low, high = (self._vector(block, key, None, where) * scale + offset for key in ("start", "end"))
        if block.get("denseMode", 0) != 0:
            self.records.report.add("denseMode", where, "filled by a cubic lattice")
        count = np.round((high - low) / (2.0 * self.radius)) - 1.0
        if not (high > low).all() or count.min() < 1.0:
            raise self._error(where, f"has no room for a particle of radius {self.radius:g}: {low} to {high}")
        if count.prod() > MOST_PARTICLES:
            raise self._error(where, f"would hold {count.prod():.3g} particles")
        axes = [low[a] + 2.0 * self.radius * (1.0 + np.arange(int(count[a]))) for a in range(3)]
        q = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        velocity = self._vector(block, "initialVelocity", (0.0,) * 3, where)
        name = str(block.get("id", "Fluid"))
        material = materials.get(name, {})
        bulk, wall = self._viscosity(material, name)
        self.records.fluids.append(
            SceneFluid(
                f"{name}_{len(self.records.fluids)}", self.radius, q, np.broadcast_to(velocity, q.shape),
                density=self._number(material, "density0", 1000.0, name), viscosity=bulk, wall_viscosity=wall,
            )
        )  # fmt: skip

    def _viscosity(self, material: dict[str, Any], name: str) -> tuple[float, float]:
        """(inside, against solids), m²/s: of the material itself, or of the one method that it lists."""
        tables = [(key, value) for key, value in material.items() if isinstance(value, dict) and "viscosity" in value]
        if "viscosity" in material:
            tables.insert(0, (name, material))
        for key in material:
            if isinstance(material[key], dict) and "viscosity" not in material[key]:
                self.records.report.add(key, name)
        if not tables:
            return 0.0, 0.0
        key, table = tables[0]
        return (self._number(table, "viscosity", 0.0, key), self._number(table, "viscosityBoundary", 0.0, key))

    def _rigid_body(self, body: dict[str, Any], where: str) -> None:
        scale = self._vector(body, "scale", (1.0,) * 3, where)
        place = self._vector(body, "translation", (0.0,) * 3, where)
        axis = self._vector(body, "rotationAxis", (1.0, 0.0, 0.0), where)
        angle = self._number(body, "rotationAngle", 0.0, where)
        length = float(np.linalg.norm(axis))
        if length == 0.0:
            raise self._error(where, "rotationAxis has no length")
        turn = as_quat(np.append(np.sin(angle / 2.0) * axis / length, np.cos(angle / 2.0)))
        mesh = self._mesh(body, where)
        vertices = mesh.vertices * scale
        if body.get("isWall"):
            if abs(angle) > 1e-6 or self.records.domain is not None:
                self.records.report.add("isWall", where, "ignored: the tank is one upright box")
                return
            self.records.domain = (vertices.min(axis=0) + place, vertices.max(axis=0) + place)
            return
        owner, pose, still = WORLD_BODY, np.append(place, turn), np.append(np.zeros(3), [0.0, 0.0, 0.0, 1.0])
        if body.get("isDynamic"):
            owner = len(self.records.bodies)
            density = self._number(body, "density", 1000.0, where)
            solid = inertia.mesh(density, vertices, mesh.triangles)
            if not solid.mass > 0.0:
                raise self._error(where, "a moving body needs a closed mesh and a positive density")
            velocity = self._vector(body, "velocity", (0.0,) * 3, where)
            body_ = SceneBody(where, pose, solid.mass, solid.com, solid.inertia, velocity=velocity)
            self.records.bodies.append(body_)
            pose = still
        friction, bounce = (self._number(body, key, otherwise, where)
                            for key, otherwise in (("friction", 0.2), ("restitution", 0.6)))  # fmt: skip
        kind, size, hull = self._shape(vertices, where)
        self.records.shapes.append(SceneShape(where, kind, owner, pose, size, hull, Material(friction, bounce)))

    def _shape(self, vertices: Floats, where: str) -> tuple[ShapeType, Floats, Any]:
        """A box, a ball, or the convex hull of the vertices."""
        half = np.abs(vertices).max(axis=0)
        if np.allclose(np.abs(vertices), half):
            return ShapeType.BOX, half, None
        far = np.linalg.norm(vertices, axis=1)
        if np.ptp(far) < ROUND * far.max():
            return ShapeType.SPHERE, np.array([far.max(), 0.0, 0.0]), None
        hull = convex_hull(vertices)
        if isinstance(hull, NoHull):
            raise self._error(where, f"no convex hull: {hull.reason}")
        self.records.report.add("geometryFile", where, "collides as its convex hull")
        return ShapeType.HULL, np.ones(3), hull

    def _mesh(self, body: dict[str, Any], where: str) -> TriMesh:
        name = body.get("geometryFile")
        if not isinstance(name, str):
            raise self._error(where, "geometryFile is missing")
        try:
            return load_mesh(os.path.join(os.path.dirname(self.path), name))
        except ValueError as error:
            raise self._error(where, str(error)) from None

    # -- values --------------------------------------------------------------------------------------------------------

    def _error(self, where: str, what: str) -> SceneError:
        return SceneError(self.path, where, what)

    def _table(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(where, "must be an object")
        return value

    def _list(self, key: str) -> list[Any]:
        value = self.data.get(key, [])
        if not isinstance(value, list):
            raise self._error(key, "must be a list")
        return value

    def _number(self, table: dict[str, Any], key: str, otherwise: float, where: str) -> float:
        return float(self._vector(table, key, [otherwise], where, 1)[0])

    def _vector(self, table: dict[str, Any], key: str, otherwise: Any, where: str, size: int = 3) -> Floats:
        value = table.get(key, otherwise)
        if value is None:
            raise self._error(where, f"{key} is missing")
        try:
            return as_vector([value] if size == 1 and not isinstance(value, list) else value, size)
        except (TypeError, ValueError) as error:
            raise self._error(where, f"{key}: {error}") from None
