"""Queries that a block makes together find what one thread finds, each once."""

import subprocess
import sys

import numpy as np
import pytest

import engine
from tests.geom.mesh_oracle import soup


@engine.kernel
def by_block(bvh: engine.uint64, a: engine.vec3, b: engine.vec3, by_ray: int, seen: engine.array(dtype=int)):
    query = engine.tile_bvh_query_aabb(bvh, a, b)
    if by_ray == 1:
        query = engine.tile_bvh_query_ray(bvh, a, b)
    while engine.tile_query_valid(query):
        index = engine.untile(engine.tile_bvh_query_next(query))
        if index >= 0:
            engine.atomic_add(seen, index, 1)


@engine.kernel
def by_thread(bvh: engine.uint64, a: engine.vec3, b: engine.vec3, by_ray: int, seen: engine.array(dtype=int)):
    query = engine.bvh_query_aabb(bvh, a, b)
    if by_ray == 1:
        query = engine.bvh_query_ray(bvh, a, b)
    for i in query:
        seen[i] += 1


@engine.kernel
def triangles_by_block(mesh: engine.uint64, low: engine.vec3, high: engine.vec3, seen: engine.array(dtype=int)):
    query = engine.tile_mesh_query_aabb(mesh, low, high)
    while engine.tile_query_valid(query):
        index = engine.untile(engine.tile_mesh_query_aabb_next(query))
        if index >= 0:
            engine.atomic_add(seen, index, 1)


@pytest.mark.parametrize("where", ["cpu", "emu"])
@pytest.mark.parametrize("count", [0, 60])
def test_boxes_and_rays(where, count, rng):
    low = rng.uniform(-2, 2, (count, 3)).astype(np.float32)
    high = low + rng.uniform(0, 1, (count, 3)).astype(np.float32)
    bvh = engine.Bvh(*(engine.array(x, dtype=engine.vec3, device=where) for x in (low, high)))
    for by_ray, (a, b) in enumerate([((-1, -1, -1), (0.5, 0.5, 0.5)), ((-3, -3, -3), (1, 1.1, 0.9))]):
        seen = [engine.zeros(max(count, 1), dtype=int, device=where) for _ in range(2)]
        inputs = [bvh.id, engine.vec3(*a), engine.vec3(*b), by_ray]
        engine.launch_tiled(by_block, dim=1, inputs=[*inputs, seen[0]], block_dim=64, device=where)
        engine.launch(by_thread, 1, inputs=[*inputs, seen[1]], device=where)
        assert seen[0].numpy().tolist() == seen[1].numpy().tolist()
        assert count < 60 or 0 < seen[0].numpy().sum() < count


@pytest.mark.parametrize("where", ["cpu", "emu"])
def test_triangles(where):
    v, f = soup(3, 80)
    mesh = engine.Mesh(v, f, device=where)
    low, high = np.float32([-0.5, -0.4, -0.9]), np.float32([0.3, 0.8, 0.2])
    seen = engine.zeros(80, dtype=int, device=where)
    inputs = [mesh.id, engine.vec3(*low), engine.vec3(*high), seen]
    engine.launch_tiled(triangles_by_block, dim=1, inputs=inputs, block_dim=32, device=where)
    lower, upper = v[f].min(axis=1), v[f].max(axis=1)
    assert seen.numpy().tolist() == ((lower <= high) & (low <= upper)).all(axis=1).astype(int).tolist()


FIRST = """
import numpy as np, engine

@engine.kernel
def count(bvh: engine.uint64, n: engine.array(dtype=int)):
    query = engine.bvh_query_aabb(bvh, engine.vec3(0.5), engine.vec3(2.5))
    index = int(0)
    while engine.bvh_query_next(query, index):
        n[0] += 1

corners = [engine.array(np.arange(5.0)[:, None] * np.ones(3) + x, dtype=engine.vec3) for x in (0.0, 0.4)]
bvh, n = engine.Bvh(*corners), engine.zeros(1, dtype=int)
engine.launch(count, 1, inputs=[bvh.id, n])
print(n.numpy()[0])
"""


def test_a_query_may_be_the_first_function_that_changes_its_argument(tmp_path):
    """`engine.bvh_query_next` is imported when it is first used: while the kernel is lowered."""
    (tmp_path / "first.py").write_text(FIRST)
    done = subprocess.run([sys.executable, str(tmp_path / "first.py")], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["2"], done.stderr
