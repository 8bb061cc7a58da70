"""The same bits with any number of threads, as graphs or launch by launch, and that several workers really ran."""

from pathlib import Path

import numpy as np
import pytest

from engine.bench.measure import simulation
from engine.bench.recipes import RECIPES
from engine.config import config
from engine.context import graph, graph_native

SCENES = Path(__file__).parents[2] / "scenes"


def hash_after(make, frames, threads, monkeypatch, graphs=True):
    """(hash of the state, how often another worker than the caller ran a part of a graph)."""
    helped, replay = 0, graph.Graph.launch

    def watched(self):
        nonlocal helped
        replay(self)
        helped += self.helpers

    with config.scope(threads=threads, graphs=graphs), monkeypatch.context() as patched:
        patched.setattr(graph.Graph, "launch", watched)
        patched.setattr(graph_native, "ENTER_NS", 5_000.0)  # more chances for a busy second worker
        patched.setattr(graph_native.Choice, "with_team", lambda self: True)
        sim = make()
        for _ in range(frames):
            sim.step()
    assert np.isfinite(sim.state.body_q.numpy()).all()
    return sim.hash(), helped


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scene, frames", [("pyramid", 300), ("pile1000", 120)])
def test_threads_do_not_change_a_bit(scene, frames, monkeypatch):
    def make():
        if scene == "pile1000":
            recipe = RECIPES["pile1000"]
            return simulation(recipe.scene(recipe.size), "cpu")
        from engine.sim.load import load

        return load(SCENES / "pyramid.usda", device="cpu")

    results = [hash_after(make, frames, threads, monkeypatch) for threads in (1, 2, 4)]
    results.append(hash_after(make, frames, 2, monkeypatch, graphs=False))
    assert len({h for h, _ in results}) == 1, results
    assert results[0][1] == results[-1][1] == 0
    if scene == "pile1000":
        assert results[1][1] > 0, "the second worker never ran a part"
