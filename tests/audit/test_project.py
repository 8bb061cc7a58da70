"""The audit of the engine's own kernels: many are proved; contracts that are proposed settle what they are about."""

from __future__ import annotations

import pytest

import engine
from engine.compiler.audit.report import audit_kernel
from engine.compiler.audit.solver import z3_or_none
from engine.debug import audit
from engine.errors import AssertError
from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation
from tests.gpu.project_kernels import project_kernels

# all of their checks are proved, and that they do not race; each in less than a second
PROVED = (
    "context.graph_copies.copy_line", "context.graph_copies.copy_plane", "context.graph_copies.copy_volume",
    "context.graph_copies.copy_hypervolume", "context.graph_copies.fill_line", "geom.broad_phase.make_codes",
    "geom.broad_phase.make_leaves", "geom.bvh_split.make_codes", "geom.bvh.record_boxes",
    "kernels.histogram.add_rows", "kernels.reduce.bound_blocks",
    "kernels.segments.count_marked", "kernels.segments.count_pieces", "kernels.segments.each_alone",
    "kernels.segments.mark_first", "kernels.segments.write_runs", "kernels.sort.begin_order", "kernels.sort.gather",
    "geom.collision.name_families", "geom.placed.place_shapes", "sim.coloring.clear_bodies",
    "sim.particle_neighbours.place_boundary", "sim.solver_soft_step_bodies.begin_bodies",
    "sim.solver_soft_step_bodies.finish_bodies", "sim.solver_soft_step_bodies.move_bodies",
    "optim.adam_step", "optim.sgd_step", "sim.coloring.overflow_rest", "sim.particle_neighbours.find_particle_cells",
    "sim.particle_neighbours.move_particles", "sim.particle_neighbours.read_positions",
    "sim.particle_neighbours.store_particles", "sim.fluid_solver.accelerate", "sim.fluid_solver.begin_velocities",
    "sim.fluid_solver.fall", "sim.fluid_solver.mark_bad", "sim.fluid_solver.move", "sim.solver_dfsph.begin_pressure",
    "sim.solver_dfsph.find_excess", "sim.solver_dfsph.store_pressure",
    "sim.solver_soft_step_contacts.count_pairs", "kernels.hash_grid._fill_header", "kernels.hash_grid._find_cells",
    "kernels.reduce.sum_few", "kernels.reduce.sum_few_products", "sim.fluid_bodies.accelerate_by_fluid",
    "sim.fluid_viscosity.turn_direction", "geom.placed.make_bounds", "kernels.scan.sum_lines",
    "sim.fluid_emitters.emit_layer", "sim.solver_pbf.displace", "sim.solver_pbf.drift", "sim.solver_pbf.follow_places",
    "sim.solver_pbf.take_places", "sim.solver_soft_step_contacts.list_bodies",
    "sim.solver_soft_step_contacts.mark_pairs",
)  # fmt: skip


@pytest.mark.skipif(z3_or_none() is None, reason="needs z3: pip install weft-engine[audit]")
def test_kernels_of_the_engine_are_proved():
    known = {name: (kernel, types) for name, kernel, types in project_kernels()}
    for name in PROVED:
        kernel, types = known[name]
        found = audit_kernel(kernel, types, costs=False)
        assert not found.refuted and not found.unproved, (name, found.as_dict())
        assert found.proved >= 2


def test_contracts_are_about_their_own_kernel():
    """A kernel written between a contract and the one it was meant for gets it, and fails in checked mode only."""
    for name, kernel, _ in project_kernels():
        known = {"tid", *(param for param, _ in kernel.params)}
        for contract in kernel.func.requirements:
            assert set(contract.parameter_names) <= known, name


@pytest.mark.soak
def test_contracts_hold_while_a_scene_runs():
    """A hull on the ground, an emitter and loose particles: checked mode looks at every contract on the way."""
    b = ModelBuilder(gravity=-9.8)
    b.set_particle_radius(0.05)
    b.add_emitter(b.add_fluid(), (0, 0.5, 0.5), (2, 0, 0), 0.16)
    b.add_particles([(5, 5, 5), (5.1, 5, 5)], fluid=0)
    body = b.add_body(mass=1.0)
    b.add_shape_convex_hull(body, points=[(x, y, z) for x in (-0.2, 0.2) for y in (-0.2, 0.2) for z in (-0.2, 0.2)])
    b.add_ground_plane()
    with engine.config.scope(checked=True):
        sim = Simulation(b.finalize(), dt=0.02, fluid_options={"method": "pbf"})
        for _ in range(3):
            sim.step()
        counts, sums = engine.ones(1000, dtype=int), engine.zeros(1000, dtype=int)
        engine.utils.array_scan(counts, sums)
    assert len(sim.state.particle_q) > 2 and sums.numpy()[-1] == 1000


@pytest.mark.soak
def test_every_kernel_is_proved_or_says_what_it_needs():
    for name, kernel, types in project_kernels():
        found = audit_kernel(kernel, types, costs=False)
        for finding in (*found.refuted, *found.unproved):
            assert finding.needs or finding.check in ("race", "division"), (name, finding)
        assert not [f for f in found.refuted if f.check == "assert"], f"{name}: contracts that nothing satisfies"


def test_contracts_name_parameters_of_their_kernels():
    """Else checked mode cannot compile the kernel."""
    parameters = lambda fn: set(fn.__code__.co_varnames[: fn.__code__.co_argcount])
    for name, kernel, _types in project_kernels():
        for contract in kernel.func.requirements:
            assert parameters(contract.fn) <= parameters(kernel.fn) | {"tid"}, name


def scatter(order: engine.array(dtype=int), x: engine.array(dtype=float), s: float, out: engine.array(dtype=float)):
    i = engine.tid()
    j = order[i]
    out[i] = s * x[j] + x[0]


def test_what_is_proposed_settles_it():
    kernel = engine.kernel(scatter)
    text = audit(kernel, confirm=False).requires
    assert text == (
        "@engine.requires(lambda tid, order, x, out: tid < order.shape[0] and 0 <= order[tid] and "
        "order[tid] < x.shape[0] and tid < out.shape[0])"
    )
    proved = engine.kernel(
        engine.requires(lambda tid, order, x, out: tid < order.shape[0] and 0 <= order[tid]
                        and order[tid] < x.shape[0] and tid < out.shape[0])(scatter)
    )  # fmt: skip
    found = audit(proved, confirm=False)
    assert not found.refuted and not found.unproved and not found.requires


def test_what_is_proposed_holds_for_every_thread():
    @engine.kernel
    def guarded(x: engine.array(dtype=float), n: int):
        i = engine.tid()
        if i >= n:
            return
        x[i] = 1.0

    @engine.kernel
    def plane(x: engine.array2d(dtype=float), first: engine.array(dtype=float)):
        i, j = engine.tid()
        x[i, j] = first[0]

    assert audit(guarded, confirm=False).requires == ""
    found = audit(plane, confirm=False)
    assert found.requires == (
        "@engine.requires(lambda tid, x, first: 1 <= first.shape[0] and tid[1] < x.shape[1] and tid[0] < x.shape[0])"
    )
    contract = engine.requires(
        lambda tid, x, first: 1 <= first.shape[0] and tid[0] < x.shape[0] and tid[1] < x.shape[1])
    assert {f.needs for f in found.refuted if f.check == "bounds"} == {
        "thread[0] + 1 <= x.shape[0]", "thread[1] + 1 <= x.shape[1]", "1 <= first.shape[0]"}  # fmt: skip
    proved = engine.kernel(contract(plane.fn))
    again = audit(proved, confirm=False)
    assert not again.refuted and not again.unproved
    with engine.config.scope(checked=True):
        engine.launch(proved, (2, 3), inputs=[engine.zeros((2, 3)), engine.ones(1)])
        with pytest.raises(AssertError, match=r"requires .*tid\[1\] < x.shape\[1\]"):
            engine.launch(proved, (2, 4), inputs=[engine.zeros((2, 3)), engine.ones(1)])
