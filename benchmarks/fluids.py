"""The dam break of a cubic metre of water in a tank of 4 × 3 × 1.5 m, kernel by kernel, beside SPlisHSPlasH.

    python benchmarks/fluids.py [--particles 91000] [--warm 200] [--steps 50] [--threads 1] [--json FILE]

Both start from the same lattice (the peer's a radius off the walls, whose particles would push it out), take steps of
2 ms, viscosity 0.01 m²/s, and solve to 0.1 % of density and divergence, at least two iterations. `--warm` steps go
first: the water then runs along the tank. Figures are processor time per step of the fluid, in ms: on a machine that
others use as well, the wall clock measures them. SPlisHSPlasH (package pysplishsplash) runs in a child process, as its
import can end one; without it there is no row. Bytes per particle are what the arrays of solver, state and model hold.
"""

from __future__ import annotations

import argparse
import ctypes.util
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZE, TANK, STEP, VISCOSITY, ERROR = 1.0, (4.0, 1.5, 3.0), 0.002, 0.01, 1e-3


def radius_for(particles: int) -> float:
    return 0.5 * SIZE / round(particles ** (1.0 / 3.0))


class KernelTimes:
    """Processor time of each kernel, by wrapping `launch` in the solver's modules."""

    def __init__(self) -> None:
        from engine.kernels import reduce, sort
        from engine.sim import fluid_bodies, fluid_solver, particle_neighbours

        self.seconds: dict[str, float] = {}
        for module in (fluid_solver, fluid_bodies, particle_neighbours, sort, reduce):
            module.launch = self._timed(module.launch)  # type: ignore[attr-defined]

    def _timed(self, launch: Any) -> Any:
        def timed(kernel: Any, *args: Any, **options: Any) -> Any:
            began = time.process_time()
            out = launch(kernel, *args, **options)
            name = kernel.__name__
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - began
            return out

        return timed


def ours(particles: int, warm: int, steps: int, threads: int) -> dict[str, Any]:
    from engine.config import config
    from engine.sim import ModelBuilder, Simulation

    config.threads = threads
    times = KernelTimes()
    b = ModelBuilder()
    b.set_particle_radius(radius_for(particles))
    b.set_domain((0, 0, 0), TANK)
    b.add_fluid_block((0, 0, 0), (SIZE,) * 3, viscosity=VISCOSITY)
    options = {"density_error": ERROR, "divergence_error": ERROR, "longest_step": STEP}
    sim = Simulation(b.finalize(device="cpu"), dt=STEP, fluid_options=options)
    taken = 0
    while taken < warm:
        sim.step()
        taken += sim.stats.fluid.steps
    times.seconds.clear()
    began, count, iterations, unsolved = time.process_time(), 0, 0, 0
    while count < steps:
        sim.step()
        fluid = sim.stats.fluid
        count, iterations, unsolved = count + fluid.steps, iterations + fluid.iterations, unsolved + fluid.unsolved
    total = time.process_time() - began
    return {
        "particles": sim.model.nparticle,
        "ms_per_step": 1e3 * total / count,
        "iterations_per_step": iterations / count,
        "density_error": fluid.density_error,
        "unsolved": unsolved,
        "time_step": fluid.time_step,
        "bytes_per_particle": bytes_held(sim) / sim.model.nparticle,
        "kernels": {name: 1e3 * value / count for name, value in sorted(times.seconds.items(), key=lambda x: -x[1])},
    }


def bytes_held(sim: Any) -> int:
    """Of the arrays of the simulation, each once."""
    from engine.context import array

    seen: set[int] = set()
    held = 0
    stack: list[Any] = [sim.model, sim.state, sim._fluid]
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, array):
            held += item.numpy().nbytes
        elif type(item).__module__.startswith("engine."):
            stack.extend(value for value in gc.get_referents(item) if not isinstance(value, type))
        elif isinstance(item, dict | list | tuple):
            stack.extend(item.values() if isinstance(item, dict) else item)
    return held


PEER = """
import json, os, sys, time
import pysplishsplash as sph
scene, warm, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
base = sph.Exec.SimulatorBase()
base.init(sceneFile=scene, useGui=False, initialPause=False, outputDir=sys.argv[4], stopAt=1e9)
marks = []
def mark():
    marks.append(time.process_time())
    if len(marks) == warm + steps + 1:
        particles = sph.Simulation.getCurrent().getFluidModel(0).numActiveParticles()
        print(json.dumps({"particles": particles, "ms_per_step": 1e3 * (marks[-1] - marks[warm]) / steps}), flush=True)
        os._exit(0)
base.setTimeStepCB(mark)
base.initSimulation()
base.runSimulation()
"""


def peer(particles: int, warm: int, steps: int, threads: int) -> dict[str, Any] | str:
    """SPlisHSPlasH's row, or why there is none."""
    import trimesh

    radius = radius_for(particles)
    with tempfile.TemporaryDirectory() as folder:
        trimesh.creation.box((1, 1, 1)).export(Path(folder, "box.obj"))
        half = [x / 2 for x in TANK]
        scene = {
            "Configuration": {
                "particleRadius": radius, "simulationMethod": 4, "gravitation": [0, 0, -9.81], "timeStepSize": STEP,
                "cflMethod": 0, "boundaryHandlingMethod": 0,
                "DFSPH": {"minIterations": 2, "maxIterations": 100, "maxError": 100 * ERROR, "maxIterationsV": 100,
                          "maxErrorV": 100 * ERROR, "enableDivergenceSolver": True},
            },
            "Materials": [{"id": "Fluid", "density0": 1000, "viscosityMethod": 1,
                           "Standard viscosity": {"viscosity": VISCOSITY}}],
            "RigidBodies": [{"geometryFile": "box.obj", "translation": half, "scale": list(TANK), "isDynamic": False,
                             "isWall": True}],
            "FluidBlocks": [{"denseMode": 0, "start": [0.0] * 3, "end": [SIZE + 2 * radius] * 3}],
        }  # fmt: skip
        path = Path(folder, "scene.json")
        path.write_text(json.dumps(scene))
        command = [sys.executable, "-c", PEER, str(path), str(warm), str(steps), folder]
        environment = {"OMP_NUM_THREADS": str(threads), "PATH": "/usr/bin:/bin"}
        if glx := ctypes.util.find_library("GLX"):
            environment["LD_PRELOAD"] = glx  # else its own libGLdispatch meets the system's libGLX, and the import dies
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=3600, env=environment)
        except subprocess.TimeoutExpired:
            return "took more than an hour"
        if done.returncode:
            said = done.stderr.strip().splitlines()
            return said[-1] if said else f"the process ended with code {done.returncode}"
        row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("particles", 91_000), ("warm", 200), ("steps", 50), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    sizes = (args.particles, args.warm, args.steps, args.threads)
    mine, other = ours(*sizes), peer(*sizes)
    print(f"{mine['particles']} particles, {args.threads} thread(s)")
    quality = f"{mine['iterations_per_step']:.1f} iterations, density error {mine['density_error']:.1e}"
    memory = f"{mine['bytes_per_particle']:.0f} bytes per particle"
    print(f"this engine   {mine['ms_per_step']:8.1f} ms/step, {quality}, {memory}")
    for name, ms in mine["kernels"].items():
        print(f"    {name:24} {ms:8.2f} ms {100 * ms / mine['ms_per_step']:5.1f} %")
    if isinstance(other, str):
        print(f"SPlisHSPlasH  no row: {other}")
    else:
        ratio = other["ms_per_step"] / mine["ms_per_step"]
        size = f"{other['particles']} particles"
        print(f"SPlisHSPlasH  {other['ms_per_step']:8.1f} ms/step with {size}: {ratio:.2f} times")
    if args.json:
        Path(args.json).write_text(json.dumps({"engine": mine, "splishsplash": other}, indent=1))


if __name__ == "__main__":
    main()
