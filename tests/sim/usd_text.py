"""USD scenes as text, for tests of the importer: a header with units, transforms, API lists."""

from __future__ import annotations

import re
from pathlib import Path

from engine.sim.scene_records import SceneRecords
from engine.sim.scene_usd import read

RIGID = 'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]'
MASSIVE = 'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]'
COLLIDER = 'prepend apiSchemas = ["PhysicsCollisionAPI"]'

MESH = 'prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]'


def ops(**values: object) -> str:
    """xformOps in the given order: translate=, rotateXYZ=, orient=, scale=."""
    types = {"translate": "double3", "rotateXYZ": "float3", "orient": "quatf", "scale": "float3"}
    order = ", ".join(f'"xformOp:{name}"' for name in values)
    lines = [f"{types[name]} xformOp:{name} = {value}" for name, value in values.items()]
    return "\n".join([*lines, f"uniform token[] xformOpOrder = [{order}]"])


def parse(tmp_path: Path, body: str, unit: float = 1.0, kilograms: float = 1.0, up: str = "Z") -> SceneRecords:
    path = tmp_path / "scene.usda"
    head = f'(\n metersPerUnit = {unit}\n kilogramsPerUnit = {kilograms}\n upAxis = "{up}"\n defaultPrim = "W"\n)'
    lines = re.sub(r"[ \t]*}", "\n}", body)  # USD wants the end of a line after every value
    path.write_text(f'#usda 1.0\n{head}\ndef Xform "W"\n{{\n{lines}\n}}\n')
    return read(path)


# Two cubes, 4 m apart along x, and a joint's relationships to them.
TWO = f"""def Cube "a" ({RIGID}) {{}}
def Cube "b" ({RIGID}) {{ {ops(translate="(4, 0, 0)")} }}
"""
ENDS = "rel physics:body0 = </W/a>\n rel physics:body1 = </W/b>\n"

# The mesh data of a unit cube.
CUBE = """point3f[] points = [(0,0,0), (1,0,0), (1,1,0), (0,1,0), (0,0,1), (1,0,1), (1,1,1), (0,1,1)]
int[] faceVertexCounts = [4, 4, 4, 4, 4, 4]
int[] faceVertexIndices = [0,3,2,1, 4,5,6,7, 0,1,5,4, 1,2,6,5, 2,3,7,6, 3,0,4,7]
"""
