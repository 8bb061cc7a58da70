"""How long a user waits: importing, the first kernel without and with a cache, a second `engine run`.

    python benchmarks/start_up.py [--repeat N]

Each figure is the median over N fresh processes. The cache is a temporary folder.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

KERNEL = """
import time
began = time.perf_counter()
import engine
imported = time.perf_counter()

@engine.kernel
def saxpy(x: engine.array(dtype=float), y: engine.array(dtype=float), a: float):
    i = engine.tid()
    y[i] = a * x[i] + y[i]

x, y = engine.ones(1000, dtype=float, device="cpu"), engine.zeros(1000, dtype=float, device="cpu")
ready = time.perf_counter()
engine.launch(saxpy, dim=1000, inputs=[x, y, 2.0], device="cpu")
print(imported - began, time.perf_counter() - ready)
"""


def run(command: list[str], cache: Path) -> tuple[float, str]:
    """(seconds, output) of a process with its kernels in `cache`."""
    environment = {**os.environ, "ENGINE_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    result = subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - started, result.stdout


def kernel_times(repeat: int, scratch: Path) -> dict[str, float]:
    program = scratch / "saxpy.py"
    program.write_text(KERNEL)
    rows: dict[str, list[float]] = {"import engine": [], "first kernel, no cache": [], "first kernel, cached": []}
    for number in range(repeat):
        cache = scratch / f"cache{number}"
        cache.mkdir()
        for row in ("first kernel, no cache", "first kernel, cached"):
            imported, launched = map(float, run([sys.executable, str(program)], cache)[1].split())
            rows["import engine"].append(imported)
            rows[row].append(launched)
    return {name: statistics.median(values) for name, values in rows.items()}


def scene_times(repeat: int, scratch: Path) -> dict[str, float]:
    scene = str(ROOT / "scenes/pyramid.usda")
    command = [sys.executable, "-m", "engine", "run", scene, "--frames", "2", "--device", "cpu", "--quiet"]
    rows: dict[str, list[float]] = {"engine run, 2 frames, no cache": [], "engine run, 2 frames, cached": []}
    for number in range(repeat):
        cache = scratch / f"scene{number}"
        cache.mkdir()
        for values in rows.values():
            values.append(run(command, cache)[0])
    return {name: statistics.median(values) for name, values in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as scratch:
        for name, seconds in (kernel_times(repeat, Path(scratch)) | scene_times(repeat, Path(scratch))).items():
            print(f"{name:32} {seconds * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
