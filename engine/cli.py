"""The `engine` command: run a scene, measure, say what is installed.

Exit codes: 0 done, 1 findings, 2 misuse or bad input, 130 interrupted.
"""

from __future__ import annotations

import json as json_format
import os
import statistics
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import Error

if TYPE_CHECKING:
    from engine.sim.scene_records import SceneReport
    from engine.sim.simulation import Simulation

DONE, FINDINGS, MISUSE, INTERRUPTED = 0, 1, 2, 130
DEFAULT_FRAMES = 240

app = typer.Typer(
    name="engine",
    help="Weft: a GPU physics engine in Python.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Device = Annotated[str, typer.Option(help="cpu, cuda:0 … ; default: the first GPU that works, else cpu")]
Threads = Annotated[int | None, typer.Option(help="Worker threads of the cpu; the results do not depend on it.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def run(
    scene: Annotated[str, typer.Argument(help="Scene file: .usd, .usda, .usdc, .usdz or SPlisHSPlasH's .json")],
    frames: Annotated[int, typer.Option(help="Frames; the first is the start pose.")] = DEFAULT_FRAMES,
    fps: Annotated[float | None, typer.Option(help="Frames per second; default: the scene's, else 60.")] = None,
    device: Device = "",
    out: Annotated[str | None, typer.Option(help="Write frames to this .usd, .usda or .usdc file.")] = None,
    flatten: Annotated[bool, typer.Option("--flatten", help="Write one file that does not need the scene.")] = False,
    surface: Annotated[bool, typer.Option("--surface", help="Write fluids as meshes, too.")] = False,
    points: Annotated[str | None, typer.Option(help="Write particles as PATH_0000.vtk …, .vtu or .ply.")] = None,
    fluid: Annotated[str | None, typer.Option(help="Fluid solver: dfsph, wcsph or pbf; default: the scene's.")] = None,
    threads: Threads = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    debug: Debug = False,
    json: Json = False,
) -> int:
    """Simulate a scene and write its frames."""
    from engine.config import config

    _check_at_least("--frames", frames, 1)
    if fps is not None and not 0.0 < fps < float("inf"):
        raise Error(f"--fps must be a positive number, got {fps:g}")
    if flatten and out is None:
        raise Error("--flatten needs --out")
    if surface and out is None:
        raise Error("--surface needs --out")
    with config.scope(threads=config.threads if threads is None else threads):
        ways = {"flatten": flatten, "surface": surface, "points": points}
        fluid_options = {} if fluid is None else {"method": fluid}
        summary = _run_scene(scene, frames, fps, device, out, ways, fluid_options, show=not (quiet or json))
    if json:
        print(json_format.dumps(summary.as_dict(), indent=1))
    elif not quiet:
        _print_summary(summary)
    return INTERRUPTED if summary.interrupted else DONE


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks; default: all.")] = None,
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
    peers: Annotated[bool, typer.Option("--peers", help="Also run the other engines that are installed.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    debug: Debug = False,
) -> int:
    """Measure the speed of this machine on scenes with known results."""
    from engine.bench.run import recipe_list, run_bench

    if list_:
        for name, text in recipe_list().items():
            print(f"{name:18} {text}")
        return DONE
    results = run_bench(names or (), device, threads, json, peers)
    return FINDINGS if any(result.wrong for result in results) else DONE


@app.command()
def trace(
    script: Annotated[str, typer.Argument(help="Python script")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the script, after --.")] = None,
    check: Annotated[str, typer.Option(help="Some of mem,init,race,sync.")] = "mem,init,race,sync",
    metrics: Annotated[bool, typer.Option("--metrics", help="Show what each line's accesses cost.")] = False,
    schedules: Annotated[
        bool, typer.Option("--schedules", help="Run launches in other orders, too: cost, whether memory differs.")
    ] = False,
    json: Json = False,
    out: Annotated[str | None, typer.Option(help="Write the report as JSON to this file.")] = None,
    debug: Debug = False,
) -> int:
    """Run a script with its launches on the emulated GPU, and report what is wrong in its kernels."""
    from engine.context.emulator.trace import table
    from engine.debug import trace_script
    from engine.replace_file import replacing

    if not os.path.isfile(script):
        raise Error(f"there is no script '{script}'")
    try:
        checks = [part for part in check.split(",") if part]
        report = trace_script(script, checks, arguments or (), quiet=json, schedules=schedules).as_dict()
    except (Error, KeyboardInterrupt):
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        raise Error(f"{script} ended with {type(error).__name__}: {error}") from None
    text = json_format.dumps(report, indent=1)
    if out is not None:
        with replacing(out) as file:
            file.write_text(text + "\n")
    print(text if json else table(report, metrics))
    return FINDINGS if report["findings"] else DONE


@app.command()
def audit(
    module: Annotated[str, typer.Argument(help="Python file or module whose kernels are audited")],
    wide: Annotated[bool, typer.Option("--wide", help="Extents and launch dimensions up to 2³¹, not 2³⁰.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Prove that a module's kernels stay in bounds and do not race, or show launches where they do."""
    from engine.debug.audit_module import audit_module, audit_table

    report = audit_module(module, wide, quiet=json)
    print(json_format.dumps(report, indent=1) if json else audit_table(report))
    return FINDINGS if any(kernel["refuted"] for kernel in report["kernels"]) else DONE


@app.command()
def info(json: Json = False, debug: Debug = False) -> int:
    """Print versions, devices and settings."""
    rows = _installation()
    if json:
        print(json_format.dumps(rows, indent=1))
    else:
        for name, value in rows.items():
            print(f"{name:12} {value}")
    return DONE


@app.command()
def doctor(json: Json = False, debug: Debug = False) -> int:
    """Check that this machine can run the engine, and say what to install where it cannot."""
    checks = _checks()
    if json:
        print(json_format.dumps([check.__dict__ for check in checks], indent=1))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'} {check.name:12} {check.text}")
    return DONE if all(check.ok for check in checks) else FINDINGS


def main(arguments: list[str] | None = None) -> None:
    """Runs the command and exits the process. Errors are one line on stderr, with --debug a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(given, prog_name="engine", standalone_mode=False)
        sys.stdout.flush()
    except Error as error:
        if "--debug" in given:
            traceback.print_exc()
        else:
            _complain(str(error))
        code = MISUSE
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = DONE
    except Exception as error:
        # Typer's own errors: an unknown option, a missing argument. It vendors click, or imports it, by version.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        _complain(message())
        code = MISUSE
    sys.exit(code if isinstance(code, int) else DONE)


def _complain(message: str) -> None:
    print("engine: " + " ".join(message.split()), file=sys.stderr)


def _check_at_least(option: str, value: int, least: int) -> None:
    if value < least:
        raise Error(f"{option} must be at least {least}, got {value}")


# -- run -------------------------------------------------------------------------------------------------------------


@dataclass
class Summary:
    """What a run did. Lengths in m, times in s unless the name says ms."""

    scene: str
    device: str
    threads: int
    bodies: int
    shapes: int
    joints: int
    frames: int
    simulated: float
    contacts: int = 0
    ms_per_step: float = 0.0  # median, the first step left out
    compile_time: float = 0.0  # until the first step was done, less the time of a step
    largest_penetration: float = 0.0
    particles: int = 0
    fluid: dict[str, Any] | None = None  # of the last frame, see FluidStats
    largest_density_error: float = 0.0
    output: str | None = None
    output_bytes: int = 0
    interrupted: bool = False
    findings: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


def _run_scene(
    scene: str, frames: int, fps: float | None, device: str, out: str | None, ways: dict[str, Any],
    fluid_options: dict[str, Any], show: bool,
) -> Summary:  # fmt: skip
    """Loads and runs a scene. Bad input raises Error before anything is written."""
    from engine.config import config
    from engine.context import get_device
    from engine.sim.load import load

    chosen = get_device(device or None)
    if out is not None:
        from engine.sim.frames_usd import check_output

        check_output(out, scene)
    started = time.perf_counter()
    sim = load(scene, chosen, fps=fps, fluid_options=fluid_options)
    loaded = time.perf_counter()
    if show:
        _print_report(sim.report)
    watch = _Watch(sim)
    interrupted = False
    try:
        sim.run(frames, out=out, progress=show, on_frame=watch.see, fps=fps, **ways)
    except KeyboardInterrupt:
        interrupted = True
    return Summary(
        scene=scene,
        device=str(chosen.name),
        threads=config.threads,
        bodies=sim.model.nbody,
        shapes=sim.model.nshape,
        joints=sim.model.njoint,
        frames=watch.frames,
        simulated=sim.time,
        contacts=watch.contacts,
        ms_per_step=watch.step_ms(),
        compile_time=watch.first_step(loaded) - started if watch.steps else loaded - started,
        largest_penetration=watch.penetration,
        particles=sim.model.nparticle,
        fluid=None if watch.fluid is None else dict(watch.fluid.__dict__),
        largest_density_error=watch.density_error,
        output=out,
        output_bytes=os.path.getsize(out) if out is not None and os.path.exists(out) else 0,
        interrupted=interrupted,
        findings=[str(finding) for finding in sim.report],
    )


class _Watch:
    """Collects what the summary needs, frame by frame."""

    def __init__(self, sim: Simulation):
        self.frames, self.contacts, self.penetration = 0, 0, 0.0
        self.fluid: Any = None
        self.density_error = 0.0
        self.steps: list[float] = []  # ms
        self._first_done = 0.0
        self._sim = sim

    def see(self, sim: Simulation) -> None:
        """After each frame."""
        self.frames += 1
        if self.frames == 1:  # the start pose: no step yet
            return
        stats = sim.stats
        if not self.steps:
            self._first_done = time.perf_counter()
        self.steps.append(stats.timings["step"])
        self.contacts = stats.contacts
        self.penetration = max(self.penetration, stats.largest_penetration)
        self.fluid = stats.fluid
        if stats.fluid is not None:
            self.density_error = max(self.density_error, stats.fluid.density_error)

    def step_ms(self) -> float:
        """Median of all steps but the first, which compiles."""
        return statistics.median(self.steps[1:] or self.steps or [0.0])

    def first_step(self, fallback: float) -> float:
        """Clock time at which the first step would have been done had it been like the others."""
        return self._first_done - 1e-3 * self.step_ms() if self.steps else fallback


def _print_report(report: SceneReport) -> None:
    for finding in report:
        print(f"note: {finding}", file=sys.stderr)


def _print_summary(summary: Summary) -> None:
    """The table after a run."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = [
        ("scene", summary.scene),
        ("bodies", f"{summary.bodies} ({summary.shapes} shapes, {summary.joints} joints)"),
        ("frames", f"{summary.frames} ({summary.simulated:.2f} s)" + (", interrupted" if summary.interrupted else "")),
        ("contacts", f"{summary.contacts} at the end"),
        ("step", f"{summary.ms_per_step:.2f} ms (median; {summary.device}, {_counted(summary.threads, 'thread')})"),
        ("compile", f"{summary.compile_time:.2f} s to load the scene and compile"),
        ("penetration", f"{1e3 * summary.largest_penetration:.2f} mm at most"),
    ]
    if summary.fluid is not None:
        fluid = summary.fluid
        rows.insert(2, ("particles", f"{summary.particles} ({fluid['clamped']} stopped at the domain)"))
        iterations = f"{fluid['iterations']} + {fluid['divergence_iterations']} iterations"
        steps = f"{_counted(fluid['steps'], 'step')} of {1e3 * fluid['time_step']:.2f} ms"
        rows.append(("fluid", f"{steps}, {iterations} in the last frame"))
        rows.append(("density", f"{1e2 * summary.largest_density_error:.3f} % wrong at most"))
    if summary.output is not None:
        rows.append(("output", f"{summary.output} ({_bytes(summary.output_bytes)})"))
    for name, value in rows:
        table.add_row(name, value)
    Console(highlight=False, soft_wrap=True).print(table)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _bytes(size: int) -> str:
    """1.5 MB."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


# -- info and doctor -------------------------------------------------------------------------------------------------


@dataclass
class Check:
    """One line of `engine doctor`."""

    name: str
    ok: bool
    text: str


def _installation() -> dict[str, str]:
    """What is installed, as text by name."""
    import platform
    from importlib import metadata

    from engine import __version__
    from engine.config import config
    from engine.context import get_devices

    def version(package: str) -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "not installed"

    return {
        "weft-engine": __version__,
        "python": f"{platform.python_version()} ({platform.machine()}, {platform.system()})",
        **{package: version(package) for package in ("numpy", "llvmlite", "usd-core", "scipy", "trimesh")},
        "devices": ", ".join(device.name for device in get_devices()),
        "threads": str(config.threads),
        "cache": str(config.cache_dir),
    }


def _checks() -> list[Check]:
    """The checks of `engine doctor`, each of which can fail on its own."""
    return [*(_check(name, test) for name, test in _CHECKS.items()), *_gpu_checks()]


def _gpu_checks() -> list[Check]:
    """What the GPUs of this machine need; one line where there is none."""
    from engine.compiler.target_ptx import newest_for, ptx_target
    from engine.context.device_cuda import load_driver
    from engine.context.gpu_doctor import diagnose

    try:
        import resource

        locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    except ImportError:  # Windows, which has no such limit
        locked = -1
    try:
        found = diagnose(load_driver, lambda arch: ptx_target(newest_for(arch)).driver, locked)
    except Exception as error:
        return [Check("gpu", False, f"{type(error).__name__}: {' '.join(str(error).split())}")]
    return [Check(one.name, one.ok, one.text) for one in found]


def _check(name: str, test: Any) -> Check:
    try:
        ok, text = test()
    except Exception as error:  # whatever a broken installation raises is what the user needs to see
        ok, text = False, f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Check(name, ok, text)


def _check_python() -> tuple[bool, str]:
    ok = (3, 11) <= sys.version_info[:2] <= (3, 14)
    return ok, sys.version.split()[0] + ("" if ok else "; Python 3.11 to 3.14 is needed")


def _check_packages() -> tuple[bool, str]:
    import importlib.util

    wanted = {"numpy": "numpy", "llvmlite": "llvmlite", "pxr": "usd-core", "scipy": "scipy", "trimesh": "trimesh"}
    missing = [package for module, package in wanted.items() if importlib.util.find_spec(module) is None]
    return not missing, f"missing: pip install {' '.join(missing)}" if missing else "all there"


def _check_cpu() -> tuple[bool, str]:
    from engine.compiler.target_host import host_target

    target = host_target()
    simd = [
        name
        for name in ("sse4.2", "avx", "fma", "avx2", "avx512f", "neon", "sve")
        if f"+{name}," in f"{target.features},"
    ]
    return True, f"{target.cpu} ({target.triple}); SIMD: {', '.join(simd) or 'baseline'}"


def _check_openmp() -> tuple[bool, str]:
    from engine.context.threads import pool

    text = pool.describe()
    return "no OpenMP runtime" not in text, text


def _check_cache() -> tuple[bool, str]:
    import tempfile

    from engine.config import config

    folder = config.cache_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return False, f"{folder} cannot be written ({error.strerror}); set ENGINE_CACHE_DIR"
    return True, f"{folder} is writable"


def _check_devices() -> tuple[bool, str]:
    from engine.context import get_devices

    names = [device.name for device in get_devices()]
    return bool(names), ", ".join(names)


_CHECKS = {
    "python": _check_python,
    "packages": _check_packages,
    "cpu": _check_cpu,
    "openmp": _check_openmp,
    "cache": _check_cache,
    "devices": _check_devices,
}
