"""Every kernel of the engine gives the same bits in both shapes of its code, at all widths, however its grid is cut."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.compiler.modules import MODULES
from engine.config import config
from engine.context import array, empty, full, zeros
from engine.geom.bvh import Bvh
from engine.geom.query_mesh import Mesh
from engine.kernels.hash_grid import HashGrid
from engine.kernels.histogram import histogram
from engine.kernels.reduce import Bounds
from engine.kernels.scan import LINE, MANY, scan
from engine.kernels.segments import encode_runs, order_of_segments, reduce_segments
from engine.kernels.sort import radix_sort_pairs, reorder
from engine.optim import SGD, Adam
from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation
from tests.geom import mesh_oracle
from tests.shape_oracle import Oracle, all_forms, some

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def algorithms() -> None:
    """Sums, scans, sorts, segments, histograms, hash grid, optimisers; vectors and numbers, several levels."""
    rng = np.random.default_rng(1)
    n = 9001
    floats = array(rng.normal(size=n).astype(np.float32))
    vectors = array(rng.normal(size=(n, 3)).astype(np.float32), dtype=k.vec3)
    keys = rng.integers(-9, 9, n).astype(np.int32)
    for a in (floats, vectors, array(rng.normal(size=(70, 50)))):
        engine.utils.array_sum(a, axis=0)
        engine.utils.array_sum(a)
        engine.utils.array_inner(a, a)
    engine.utils.array_inner(floats[:9], floats[:9])
    for values in (floats, array(keys), array(np.resize(keys, (MANY + 1) * LINE))):
        scan(values, empty(len(values), dtype=values.dtype))
    for values in (floats, array(keys)):
        sums = zeros(3, dtype=values.dtype)
        starts, ends = array([0, 17, 5000], dtype=int), array([17, 5000, n], dtype=int)
        reduce_segments(values, starts, ends, sums, "sum")
        order = order_of_segments(values, n, starts, ends)
        reorder(values, order, n)
    Bounds(n).run(vectors, vectors, n)
    runs = [zeros(n, dtype=int) for _ in range(2)]
    encode_runs(array(np.sort(keys)), *runs, zeros(1, dtype=int), n)
    for dtype in (k.int32, k.uint64, k.float32):
        radix_sort_pairs(array(keys.astype(dtype.name), dtype=dtype), zeros(n, dtype=int))
    engine.utils.radix_sort_keys(array(np.append(keys, keys)), n)
    histogram(floats, zeros(40, dtype=int), array(np.linspace(-3.0, 3.0, 41)), n)
    HashGrid(8, 8, 8).build(vectors, 0.5)
    for optimiser in (Adam([floats]), SGD([floats], momentum=0.5, nesterov=True)):
        optimiser.step([full(n, 0.5)])


def meshes() -> None:
    """Hierarchies built and refitted, rays, closest points, signs."""
    rng = np.random.default_rng(2)
    points, faces = mesh_oracle.CLOSED["torus"]
    mesh = Mesh(points, faces, support_winding_number=True)
    at, along = (rng.normal(size=(60, 3)).astype(np.float32) for _ in range(2))
    mesh.intersect(at, along)
    mesh.occluded(at, along)
    mesh.closest(np.tile(at, (18, 1)))  # so many are sorted first
    mesh.contains(at)
    mesh.refit()
    Mesh(points, faces, bvh_constructor="lbvh")
    lower = array(at, dtype=k.vec3)
    boxes = Bvh(lower, array(at + 0.5, dtype=k.vec3))
    boxes.refit()


def add_solids(b: ModelBuilder, rng: np.random.Generator) -> None:
    """One of each shape above the ground, some touching, with restitution."""
    corners = mesh_oracle.CLOSED["box"][0]
    kinds: list[tuple[Callable[..., int], dict[str, object]]] = [
        (b.add_shape_sphere, {"radius": 0.5}),
        (b.add_shape_box, {"hx": 0.5, "hy": 0.5, "hz": 0.5}),
        (b.add_shape_capsule, {"radius": 0.3, "half_height": 0.4}),
        (b.add_shape_cylinder, {"radius": 0.4, "half_height": 0.4}),
        (b.add_shape_convex_hull, {"points": corners * 0.5}),
    ]
    for number in range(5 * len(kinds)):
        turn = rng.normal(size=4)
        place = (0.85 * (number % 5), 0.8 * (number // 5 % 5), 0.45 + 0.02 * number)
        add, size = kinds[number * 3 // 5 % len(kinds)]
        add(b.add_body((place, tuple(turn / np.linalg.norm(turn)))), restitution=0.6, **size)


def solids() -> None:
    """Contacts of all kinds of shapes, coloured and solved, bouncing."""
    b = ModelBuilder()
    add_solids(b, np.random.default_rng(3))
    b.add_ground_plane()
    sim = Simulation(b.finalize())
    for _ in range(12):
        sim.step()


def joints() -> None:
    """A chain of all kinds, and a body with more joints than there are colours."""
    b = ModelBuilder()
    last = -1
    adders = (b.add_joint_revolute, b.add_joint_prismatic, b.add_joint_ball, b.add_joint_fixed, b.add_joint_d6)
    for number in range(60):
        body = b.add_body(((float(number % 20), 0.0, 5.0 + number // 20), UPRIGHT))
        b.add_shape_sphere(body, radius=0.3)
        ends = {"parent_xform": ((0.5, 0.0, 0.0), UPRIGHT), "child_xform": ((-0.5, 0.0, 0.0), UPRIGHT)}
        adders[number % len(adders)](last, body, **ends)
        last = body if number < 20 else 0
    sim = Simulation(b.finalize())
    for _ in range(2):
        sim.step()


def fluid() -> None:
    """Particles in a tank, with a solid in it."""
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (0.6, 0.5, 1.2))
    b.add_fluid_block((0, 0, 0), (0.6, 0.5, 0.4), viscosity=0.01, wall_viscosity=0.01)
    b.add_shape_box(b.add_body(((0.3, 0.25, 0.7), UPRIGHT)), hx=0.1, hy=0.1, hz=0.1)
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(2):
        sim.step()


def periodic_fluid() -> None:
    """A viscous fluid that fills a box without walls."""
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (0.4, 0.4, 0.6), periodic="xyz")
    b.add_fluid_block((0, 0, 0), (0.4, 0.4, 0.6), viscosity=1.0, wall_viscosity=1.0)
    b.add_shape_sphere(b.add_body(((0.3, 0.25, 0.7), UPRIGHT)), radius=0.15)
    b.add_emitter(0, (0.2, 0.2, 0.2), (0.1, 0, 0), 0.02)
    b.add_outflow((0, 0, 0), (0.1, 0.1, 0.1))
    Simulation(b.finalize(), dt=1 / 200, fluid_options={"filled": True}).step()


def other_fluids() -> None:
    """The cheaper methods, surface tension, vorticity confinement."""
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (0.6, 0.5, 1.2))
    b.add_particles([(0.3, 0.2, 1.0)], fluid=b.add_fluid(surface_tension=1.0))
    b.add_fluid_block((0, 0, 0), (0.6, 0.5, 0.4), 0, velocity=(0.1, 0.2, 0.3))
    b.add_fluid_block((0, 0, 0.4), (0.6, 0.5, 0.5), viscosity=0.01, wall_viscosity=0.01)
    b.add_shape_box(b.add_body(((0.3, 0.25, 0.7), UPRIGHT)), hx=0.1, hy=0.1, hz=0.1)
    for method in ("wcsph", "pbf"):
        Simulation(b.finalize(), dt=1 / 100, fluid_options={"method": method, "vorticity": 0.1}).step()


# program → modules of which it must run every kernel (of `coloring`, those of an overflow are run by `joints`)
PROGRAMS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "algorithms": (algorithms, ("kernels", "optim")),
    "meshes": (meshes, ("geom.bvh", "geom.query_mesh", "geom.mesh_moments", "geom.mesh_slabs",
                        "geom.point_order")),
    "solids": (solids, ("geom.coll", "geom.broad_phase", "geom.placed", "sim.solver_soft_step_bodies",
                        "sim.solver_soft_step_contact")),
    "joints": (joints, ("sim.solver_soft_step_joints", "sim.coloring")),
    "fluid": (fluid, ("sim.boundary_samples", "sim.fluid_bodies", "sim.solver_dfsph.sum", "sim.solver_dfsph.fall",
                      "sim.solver_dfsph.find", "sim.solver_dfsph.take")),
    "other_fluids": (other_fluids, ("sim.solver_wcsph", "sim.solver_pbf", "sim.fluid_tension", "sim.fluid_vorticity",
                                     "sim.fluid_solver.a")),
    "periodic_fluid": (periodic_fluid, ("sim.solver_dfsph.measure", "sim.solver_dfsph.begin", "sim.solver_dfsph.store",
                                         "sim.solver_dfsph.correct", "sim.solver_dfsph.sp", "sim.solver_dfsph.sub",
                                         "sim.particle_", "sim.fluid_viscosity", "sim.fluid_solver.fall",
                                         "sim.fluid_solver.move", "sim.fluid_emitters")),
}  # fmt: skip


def compare(name: str, forms: Callable[..., object], opt_level: int) -> None:
    program, modules = PROGRAMS[name]
    with config.scope(opt_level=opt_level), Oracle(forms).installed() as oracle:
        program()
    kernels = {f"{m}.{kernel}" for m in MODULES for kernel in MODULES[m].kernels if m.startswith("engine.")}
    wanted = {kernel for kernel in kernels if kernel.startswith(tuple(f"engine.{module}" for module in modules))}
    assert wanted and not wanted - set(oracle.compared), wanted - set(oracle.compared)
    assert not oracle.left_out  # the engine has no float atomics


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_the_engine(name):
    """Each kernel in some forms; over all of them every form comes up."""
    compare(name, some, opt_level=1)


@pytest.mark.soak
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_the_engine_in_all_forms(name):
    compare(name, all_forms, opt_level=2)


OF_THE_SUITE = (
    "kernels", "geom", "autodiff", "compiler/test_language.py", "compiler/test_language_values.py",
    "compiler/test_library_error.py", "context/test_array.py", "context/test_atomics.py", "context/test_graph.py",
    "context/test_launch.py", "context/test_map.py",
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("path", OF_THE_SUITE)
def test_launches_of_the_suite_in_all_forms(path):
    """The tests' own kernels, those that hypothesis makes among them."""
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--shapes", "--timeout", "1800"]
    run = subprocess.run([*command, str(here / path)], cwd=here.parent, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:]


@engine.kernel
def races(x: engine.array(dtype=float)):
    i = engine.tid()
    x[0] = float(i)


@engine.kernel
def added(x: engine.array(dtype=float), total: engine.array(dtype=float)):
    engine.atomic_add(total, 0, x[engine.tid()])


def test_the_comparison_finds_what_depends_on_the_order():
    with Oracle(all_forms).installed() as oracle:
        x = zeros(100)
        with pytest.raises(AssertionError, match="races, 100 threads: Form.width=1, cut='pieces'. differs .* in 2 of"):
            engine.launch(races, 100, [x])
        engine.launch(added, 100, [x, zeros(1)])
    assert list(oracle.left_out.values()) == ["atomic sum of floats"]
