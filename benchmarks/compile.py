"""How long compiling takes and how long a user waits for it: imports, first kernels, warm caches, whole scenes.

    python benchmarks/compile.py [--repeat N] [--json] [--no-scenes]

Each figure is the median over N fresh processes with an empty cache folder of their own (the cached rows: a second
process on the same folder). The same programs are run with NVIDIA Warp where it is installed. Processor time of all
threads of a process: other work on the machine shows in it least. Where one thread compiles, it is the wall time of an
idle machine. Beside each row stands the project's target, where there is one.
"""

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "warp")  # the peer stays away where it is not installed

# name of the row: (seconds or ratio wanted, unit)
TARGETS = {
    "import": (0.3, "ms"),
    "first launch: saxpy, no cache": (0.2, "ms"),
    "first launch: svd3, no cache": (0.5, "ms"),
    "100 trivial kernels, no cache": (2.0, "ms"),
    "first launch: saxpy, cached": (None, "ms"),
    "first launch: second kernel, cached": (0.003, "ms"),
    "engine run, 2 frames, no cache": (None, "ms"),
    "engine run, 2 frames, cached": (None, "ms"),
    "slowest kernel of the engine": (1.5, "ms"),
    "lanes over thread, all kernels together": (2.0, "x"),
    "lanes over thread, median kernel": (2.0, "x"),
    "lanes over thread, worst kernel": (2.0, "x"),
}

# Programs print one JSON object of row: seconds. `wp` is the package; what is timed is what a user waits for.
START = """
import json, time
began = time.process_time()
import {package} as wp
rows = {{"import": time.process_time() - began}}
if "{package}" == "warp":
    wp.config.quiet = True
"""

SAXPY = START + """
@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]

@wp.kernel
def scale(x: wp.array(dtype=float), a: float):
    i = wp.tid()
    x[i] = a * x[i]

def first(kernel, *args):
    began = time.process_time()
    wp.launch(kernel, dim=1000, inputs=list(args), device="cpu")
    return time.process_time() - began

x, y = wp.ones(1000, dtype=float, device="cpu"), wp.zeros(1000, dtype=float, device="cpu")
rows["first launch: saxpy"] = first(saxpy, x, y, 2.0)
rows["first launch: second kernel"] = first(scale, x, 2.0)
print(json.dumps(rows))
"""

SVD3 = START + """
@wp.kernel
def decompose(a: wp.array(dtype=wp.mat33), u: wp.array(dtype=wp.mat33), s: wp.array(dtype=wp.vec3),
              v: wp.array(dtype=wp.mat33)):
    i = wp.tid()
    U = wp.mat33()
    sigma = wp.vec3()
    V = wp.mat33()
    wp.svd3(a[i], U, sigma, V)
    u[i] = U
    s[i] = sigma
    v[i] = V

mats = [wp.zeros(100, dtype=wp.mat33, device="cpu") for _ in range(3)]
values = wp.zeros(100, dtype=wp.vec3, device="cpu")
began = time.process_time()
wp.launch(decompose, dim=100, inputs=[mats[0], mats[1], values, mats[2]], device="cpu")
rows["first launch: svd3"] = time.process_time() - began
print(json.dumps(rows))
"""

# a hundred kernels of one file, with Warp's way of giving each a module of its own: otherwise it compiles one module
MANY = START + "\n".join(
    f"""
@wp.kernel(module="unique")
def trivial_{k}(x: wp.array(dtype=float), a: float):
    i = wp.tid()
    x[i] = x[i] * a + {k}.0
"""
    for k in range(100)
) + """
x = wp.zeros(16, dtype=float, device="cpu")
began = time.process_time()
for kernel in [value for name, value in list(globals().items()) if name.startswith("trivial_")]:
    wp.launch(kernel, dim=16, inputs=[x, 1.0], device="cpu")
rows["100 trivial kernels"] = time.process_time() - began
print(json.dumps(rows))
"""

# every kernel that a few scenes launch, compiled without the cache in the shape chosen for it and in both by force
KERNELS = """
import json, sys, time
import engine
from engine.compiler.modules import MODULES
from engine.compiler import pipeline
from engine.compiler.target_host import host_target

for scene in sys.argv[1:]:
    engine.load(scene, device="cpu").run(frames=2)
engine.config.kernel_cache = False
found = {}
for module in MODULES.values():
    for kernel in list(module.kernels.values()):
        for one in (kernel, *kernel.overloads.values()):
            for arg_types, _, _, dense, _ in one.instances:
                found[f"{module.name}.{one.key}", dense] = (one, arg_types)
rows = {}
for (name, dense), (kernel, arg_types) in found.items():
    times = {}
    for shape in ("lanes", "thread", kernel.shape):
        kernel.func.specialisations.clear()
        pipeline._compiled.clear()
        began = time.process_time()
        made = pipeline.compile_kernel(kernel.lower(arg_types), host_target(),
                                       pipeline.Options(dense=dense, shape=shape))
        times["chosen" if shape == kernel.shape else shape] = time.process_time() - began
        if shape == "lanes":
            times["possible"] = made.stages.decision.shape == "lanes"
    rows[name] = times
print(json.dumps(rows))
"""


def child(program: str, cache: Path, *arguments: str) -> dict[str, float]:
    """The rows that a program prints, run by a fresh process whose kernels lie in `cache`."""
    file = cache / "program.py"
    file.write_text(program)
    return json.loads(run([sys.executable, str(file), *arguments], cache)[1].splitlines()[-1])


def run(command: list[str], cache: Path) -> tuple[float, str]:
    """(seconds of the processor, output) of a process with its kernels in `cache`."""
    environment = {**os.environ, "ENGINE_CACHE_DIR": str(cache), "WARP_CACHE_PATH": str(cache), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result.stdout


def language(package: str, cache: Path) -> Iterable[tuple[str, float]]:
    """What the kernels of one package take, from an empty cache folder and from what that left."""
    for state in ("no cache", "cached"):
        rows = child(SAXPY.format(package=package), cache)
        yield "import", rows.pop("import")
        yield from ((f"{name}, {state}", seconds) for name, seconds in rows.items())
    for program in (SVD3, MANY):
        for name, seconds in child(program.format(package=package), cache).items():
            yield ("import" if name == "import" else f"{name}, no cache"), seconds


def scenes(cache: Path) -> Iterable[tuple[str, float]]:
    """What a user of the command waits for, from an empty cache folder and from what that left."""
    command = [sys.executable, "-m", "engine", "run", str(ROOT / "scenes/pyramid.usda"), "--frames", "2", "--device",
               "cpu", "--quiet"]  # fmt: skip
    for state in ("no cache", "cached"):
        yield f"engine run, 2 frames, {state}", run(command, cache)[0]


def own_kernels(cache: Path) -> Iterable[tuple[str, float]]:
    """What the kernels of this engine take that some scenes launch, alone and in one shape against the other."""
    names = ("pyramid", "bridge", "ragdoll", "dominoes")
    paths = [str(path) for name in names if (path := ROOT / f"scenes/{name}.usda").exists()]
    rows = child(KERNELS, cache, *paths)
    yield "slowest kernel of the engine", max(times["chosen"] for times in rows.values())
    both = [(times["lanes"], times["thread"]) for times in rows.values() if times["possible"]]
    yield "lanes over thread, all kernels together", sum(a for a, _ in both) / sum(b for _, b in both)
    yield "lanes over thread, median kernel", statistics.median(a / b for a, b in both)
    yield "lanes over thread, worst kernel", max(a / b for a, b in both)


def measure(repeat: int, with_scenes: bool) -> dict[str, dict[str, float]]:
    """Medians: row → package → seconds or ratio."""
    samples: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(repeat):
            for package in PACKAGES:
                if importlib.util.find_spec(package) is None:
                    continue
                parts = [language]
                if package == "engine" and with_scenes:
                    parts += [lambda _, cache: scenes(cache), lambda _, cache: own_kernels(cache)]
                for k, part in enumerate(parts):
                    cache = Path(scratch, f"{package}{number}.{k}")
                    cache.mkdir()
                    for name, value in part(package, cache):
                        samples.setdefault(name, {}).setdefault(package, []).append(value)
    return {
        name: {package: statistics.median(values) for package, values in row.items()} for name, row in samples.items()
    }


def table(rows: dict[str, dict[str, float]]) -> Iterable[str]:
    yield f"{'':44} {'engine':>10} {'target':>10} {'warp':>10}"
    for name, row in rows.items():
        target, unit = TARGETS.get(name, (None, "ms"))
        shown = [row.get("engine"), target, row.get("warp")]
        scale = 1e3 if unit == "ms" else 1.0
        cells = " ".join(f"{value * scale:8.1f}{unit:>2}" if value is not None else f"{'':10}" for value in shown)
        missed = target is not None and row["engine"] > target
        yield f"{name:44} {cells}" + ("  missed" if missed else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="medians in seconds, by row and package")
    parser.add_argument("--no-scenes", action="store_true", help="leave out what runs the engine's own kernels")
    args = parser.parse_args()
    rows = measure(args.repeat, not args.no_scenes)
    print(json.dumps(rows, indent=2) if args.json else "\n".join(table(rows)))


if __name__ == "__main__":
    main()
