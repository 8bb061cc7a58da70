"""Rays, closest points, build and refit of a triangle mesh, beside Warp and Embree (embreex) where they are installed.

    python benchmarks/geometry.py [--subdivisions 7] [--rays 1000000] [--rounds 5] [--threads 1 2] [--json FILE]

An icosphere of 20 · 4^subdivisions triangles. Incoherent rays start on a sphere around it and go to points inside;
coherent rays are the pixels of an orthographic image. Rows that begin with "fast" are for the builder "lbvh" (Warp
takes its other one on processors). Rounds of all engines alternate. Figures are medians of processor
time of the process (of the smallest wall time, with more than one thread): on a machine that others use as well, the
wall clock measures them. Warp and Embree run on one thread, which is what they do for a batch from Python.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import trimesh

import engine
from engine.config import config


def problem(subdivisions: int, n: int) -> dict[str, Any]:
    """The mesh, and rays and points by name."""
    sphere = trimesh.creation.icosphere(subdivisions)
    rng = np.random.default_rng(0)
    unit = lambda: (x := rng.normal(size=(n, 3))) / np.linalg.norm(x, axis=1, keepdims=True)
    origins = 1.5 * unit()
    toward = unit() * rng.uniform(0, 1.2, (n, 1)) - origins
    side = int(np.sqrt(n))
    x, y = np.meshgrid(np.linspace(-1.1, 1.1, side), np.linspace(-1.1, 1.1, side))
    image = np.stack([x.ravel(), y.ravel(), np.full(side * side, 3.0)], axis=1)
    down = np.tile([0.0, 0.0, -1.0], (side * side, 1))
    single = lambda *arrays: tuple(np.ascontiguousarray(a, np.float32) for a in arrays)
    return {
        "vertices": np.asarray(sphere.vertices, np.float32),
        "triangles": np.asarray(sphere.faces, np.int32),
        "incoherent": single(origins, toward / np.linalg.norm(toward, axis=1, keepdims=True)),
        "coherent": single(image, down),
        "near": single(unit() * rng.uniform(0.95, 1.05, (n, 1))),
        # far from a sphere's surface all of it is nearly equally near: few points take long
        "interior": single(unit()[: n // 100] * rng.uniform(0.2, 0.5, (n // 100, 1))),
    }


def of_kernels(package: Any, p: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """What to time, by row, for this engine or Warp, whose names are the same. Rows of rays return their hits."""
    vec3s: Any = package.array(dtype=package.vec3)
    floats: Any = package.array(dtype=float)

    @package.kernel
    def rays(mesh: package.uint64, o: vec3s, d: vec3s, t: floats):
        i = package.tid()
        hit = package.mesh_query_ray(mesh, o[i], d[i], 1.0e6)
        t[i] = hit.t
        if not hit.result:
            t[i] = -1.0

    @package.kernel
    def points(mesh: package.uint64, x: vec3s, face: floats):
        i = package.tid()
        face[i] = float(package.mesh_query_point_no_sign(mesh, x[i], 1.0e6).face)

    on = lambda a: package.array(a, dtype=package.vec3, device="cpu")
    vertices, indices = on(p["vertices"]), package.array(p["triangles"].ravel(), dtype=package.int32, device="cpu")
    build = lambda: package.Mesh(vertices, indices)
    fast = lambda: package.Mesh(vertices, indices, bvh_constructor="lbvh")
    mesh, fast_mesh = build(), fast()

    def row(kernel: Any, *given: Any, mesh: Any = mesh) -> Callable[[], Any]:
        arrays = [on(a) for a in given]
        out = package.zeros(len(given[0]), dtype=float, device="cpu")

        def run() -> int:
            package.launch(kernel, dim=len(given[0]), inputs=[mesh.id, *arrays, out], device="cpu")
            return int((out.numpy() >= 0).sum())

        return run

    return {
        "incoherent": row(rays, *p["incoherent"]), "coherent": row(rays, *p["coherent"]),
        "near": row(points, *p["near"]), "interior": row(points, *p["interior"]),
        "fast incoherent": row(rays, *p["incoherent"], mesh=fast_mesh),
        "fast coherent": row(rays, *p["coherent"], mesh=fast_mesh),
        "build": build, "fast build": fast, "refit": mesh.refit,
    }  # fmt: skip


def of_embree(p: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    from embreex import rtcore_scene
    from embreex.mesh_construction import TriangleMesh

    def build() -> Any:
        scene = rtcore_scene.EmbreeScene()
        TriangleMesh(scene, p["vertices"], p["triangles"])
        scene.run(np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32))
        return scene

    scene = build()
    run = lambda name: lambda: int((scene.run(*p[name]) >= 0).sum())
    rays = {"incoherent": run("incoherent"), "coherent": run("coherent")}
    return rays | {f"fast {name}": of for name, of in rays.items()} | {"build": build}


def engines(p: dict[str, Any], threads: list[int]) -> dict[str, dict[str, Callable[[], Any]]]:
    """Rows by engine; this one with each number of threads."""
    found = {}
    ours = of_kernels(engine, p)
    for n in threads:
        def with_threads(run: Callable[[], Any], n: int = n) -> Callable[[], Any]:
            def scoped() -> Any:
                with config.scope(threads=n):
                    return run()

            return scoped

        found[f"engine ({n})"] = {name: with_threads(run) for name, run in ours.items()}
    try:
        import warp

        warp.config.quiet = True
        warp.init()
        found["warp"] = of_kernels(warp, p)
    except ImportError:
        print("Warp is not installed")
    try:
        found["embree"] = of_embree(p)
    except ImportError:
        print("embreex is not installed")
    return found


def measure(found: dict[str, dict[str, Callable[[], Any]]], rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Seconds by row and engine: median of processor time, smallest wall time; the hits of rows that count them."""
    times: dict[str, dict[str, list[tuple[float, float]]]] = {}
    hits: dict[str, dict[str, Any]] = {}
    for r in range(rounds + 1):  # the first compiles
        for name, rows in found.items():
            for row, run in rows.items():
                wall, cpu = time.perf_counter(), time.process_time()
                result = run()
                spent = (time.process_time() - cpu, time.perf_counter() - wall)
                if r > 0:
                    times.setdefault(row, {}).setdefault(name, []).append(spent)
                if isinstance(result, int):
                    hits.setdefault(row, {})[name] = result
    return {
        row: {name: {"cpu": statistics.median(c for c, _ in t), "wall": min(w for _, w in t),
                     **({"hits": hits[row][name]} if row in hits else {})} for name, t in by.items()}
        for row, by in times.items()
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subdivisions", type=int, default=7)
    parser.add_argument("--rays", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    p = problem(options.subdivisions, options.rays)
    found = measure(engines(p, options.threads), options.rounds)
    print(f"{len(p['triangles'])} triangles, {options.rays} queries; processor time | smallest wall time")
    for row, by in found.items():
        for name, figures in by.items():
            unit = (lambda s, row=row: f"{1e3 * s:9.1f} ms") if row.endswith(("build", "refit")) else (
                lambda s, row=row: f"{len(p[row.split()[-1]][0]) / s / 1e6:9.3f} M/s")  # fmt: skip
            print(f"{row:15s} {name:12s} {unit(figures['cpu'])} | {unit(figures['wall'])}  {figures.get('hits', '')}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"triangles": len(p["triangles"]), "queries": options.rays, "rows": found}, file, indent=1)


if __name__ == "__main__":
    main()
