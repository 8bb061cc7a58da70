"""Samples of volumes, volumes of meshes, surfaces of fields, files: beside Warp where it has the same.

    python benchmarks/volumes.py [--points 1000000] [--side 128] [--rounds 5] [--threads 1] [--json FILE]

The volume is the distance to an icosphere of 81 920 triangles in a narrow band; places are random within the band, in
random order or along lines; surfaces are of a dense field of side³ nodes. Rounds of all engines alternate, figures are
medians of processor time in milliseconds (wall time with several threads); Warp runs on one thread.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

import engine
from engine.config import config

Rows = dict[str, Callable[[], Any]]
VOXEL, BAND = 0.01, 3.0


def problem(points: int, side: int, folder: Path) -> dict[str, Any]:
    """The mesh, places by row, the field, and the file that both engines read."""
    sphere = trimesh.creation.icosphere(6)
    rng = np.random.default_rng(0)
    unit = rng.normal(size=(points, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    depth = rng.uniform(1.0 - BAND * VOXEL, 1.0 + BAND * VOXEL, (points, 1))
    turn = np.linspace(0.0, 40.0 * np.pi, points)
    line = np.stack([np.cos(turn), np.sin(turn), np.linspace(-0.9, 0.9, points)], axis=1)
    line *= 1.0 / np.linalg.norm(line, axis=1, keepdims=True)
    x, y, z = np.meshgrid(*[np.linspace(-1.2, 1.2, side)] * 3, indexing="ij")
    p = {
        "vertices": np.asarray(sphere.vertices, np.float32), "triangles": np.asarray(sphere.faces, np.int32),
        "random": (unit * depth / VOXEL).astype(np.float32), "lines": (line / VOXEL).astype(np.float32),
        "field": (np.sqrt(x * x + y * y + z * z) - 1.0 + 0.05 * np.sin(9 * x) * np.sin(9 * y)).astype(np.float32),
        "file": folder / "sphere.nvdb",
    }  # fmt: skip
    engine.volume.mesh_to_volume(engine.Mesh(p["vertices"], p["triangles"]), VOXEL, BAND).save_to_nvdb(p["file"])
    return p


def of_kernels(package: Any, p: dict[str, Any], marching_cubes: Any, surface_nets: Any) -> Rows:
    """Rows that this engine and Warp have in common, under the same names."""
    vec3s: Any = package.array(dtype=package.vec3)
    floats: Any = package.array(dtype=float)

    @package.kernel
    def sample(volume: package.uint64, x: vec3s, out: floats):
        i = package.tid()
        out[i] = package.volume_sample_f(volume, x[i], package.Volume.LINEAR)

    @package.kernel
    def sample_slope(volume: package.uint64, x: vec3s, out: floats):
        i = package.tid()
        slope = package.vec3()
        value = package.volume_sample_grad_f(volume, x[i], package.Volume.LINEAR, slope)
        out[i] = value + slope[0]

    @package.kernel
    def look_up(volume: package.uint64, x: vec3s, out: floats):
        i = package.tid()
        out[i] = package.volume_lookup_f(volume, int(x[i][0]), int(x[i][1]), int(x[i][2]))

    data = p["file"].read_bytes()
    with p["file"].open("rb") as file:
        volume = package.Volume.load_from_nvdb(file, device="cpu")
    field = package.array(p["field"], dtype=float, device="cpu")

    def row(kernel: Any, places: str) -> Callable[[], Any]:
        x = package.array(p[places], dtype=package.vec3, device="cpu")
        out = package.zeros(len(p[places]), dtype=float, device="cpu")

        def run() -> float:
            package.launch(kernel, dim=len(p[places]), inputs=[volume.id, x, out], device="cpu")
            return float(out.numpy().sum(dtype=np.float64))

        return run

    return {
        "sample, random": row(sample, "random"), "sample, lines": row(sample, "lines"),
        "sample and slope, random": row(sample_slope, "random"), "lookup, random": row(look_up, "random"),
        "marching cubes": lambda: len(marching_cubes(field)[1]) // 3,
        "surface nets": lambda: len(surface_nets(field)[1]) // 3,
        "read a file": lambda: package.Volume.load_from_nvdb(data, device="cpu").get_voxel_count(),
    }  # fmt: skip


def of_this_engine(p: dict[str, Any]) -> Rows:
    """The rest: what Warp has no function for."""
    mesh = engine.Mesh(p["vertices"], p["triangles"])
    volume = engine.Volume.load_from_nvdb(p["file"])
    quantised = volume.quantised(8)
    x = engine.array(p["random"], dtype=engine.vec3)
    out = engine.zeros(len(p["random"]))

    @engine.kernel
    def sample(volume: engine.uint64, x: engine.array(dtype=engine.vec3), out: engine.array(dtype=float)):
        i = engine.tid()
        out[i] = engine.volume_sample_f(volume, x[i], engine.Volume.LINEAR)

    def sample_codes() -> float:
        engine.launch(sample, len(x), inputs=[quantised.id, x, out])
        return float(out.numpy().sum(dtype=np.float64))

    return {
        "mesh to volume": lambda: engine.volume.mesh_to_volume(mesh, VOXEL, BAND).get_tile_count(),
        "sample of 8-bit codes, random": sample_codes,
        "volume of an array": lambda: engine.Volume.load_from_numpy(p["field"], bg_value=1.0).get_tile_count(),
    }


def engines(p: dict[str, Any]) -> dict[str, Rows]:
    ours = of_kernels(engine, p, engine.MarchingCubes.extract, engine.SurfaceNets.extract)
    found = {"engine": ours | of_this_engine(p)}
    try:
        import warp
        from warp.geometry import IsoSurfaceMarchingCubes, IsoSurfaceNets

        warp.config.quiet = True
        warp.init()
        found["warp"] = of_kernels(warp, p, IsoSurfaceMarchingCubes.extract, IsoSurfaceNets.extract)
    except ImportError:
        print("Warp is not installed")
    return found


def measure(found: dict[str, Rows], rounds: int, clock: Callable[[], float]) -> dict[str, dict[str, float]]:
    """Milliseconds by row and engine. Raises SystemExit where the engines' answers differ."""
    times: dict[str, dict[str, list[float]]] = {}
    for name in found["engine"]:
        answers = {who: rows[name]() for who, rows in found.items() if name in rows}
        if len(answers) == 2 and not np.isclose(*answers.values(), rtol=1e-3):
            raise SystemExit(f"{name}: the engines differ: {answers}")
        for _ in range(rounds):
            for who in answers:
                start = clock()
                found[who][name]()
                times.setdefault(name, {}).setdefault(who, []).append(1e3 * (clock() - start))
    return {name: {who: statistics.median(ms) for who, ms in row.items()} for name, row in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--side", type=int, default=128, help="nodes of the dense field along an axis")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, config.scope(threads=given.threads):
        clock = time.process_time if given.threads == 1 else time.perf_counter
        p = problem(given.points, given.side, Path(folder))
        found = measure(engines(p), given.rounds, clock)
    print(f"{'':32}{'engine':>10}{'warp':>10}   ms, {given.threads} thread(s)")
    for name, row in found.items():
        other = row.get("warp")
        ratio = f"{other / row['engine']:8.2f}x" if other else ""
        print(f"{name:32}{row['engine']:10.1f}{other if other is None else round(other, 1)!s:>10}{ratio}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
