"""The benchmark scenes are what their recipes say, and each runs in a small size."""

import dataclasses
import json

import numpy as np
import pytest

from engine.bench import run
from engine.bench.measure import Result, largest_gap, measure, rotation_matrices
from engine.bench.recipes import RECIPES, flat_pyramid, joint_grid, large_pyramid, pile
from engine.errors import Error


@pytest.mark.parametrize(
    "name, bodies, joints",
    [
        ("pile1000", 1000, 0),
        ("large_pyramid", 5050, 0),
        ("many_pyramids", 10_780, 0),
        ("joint_grid", 9900, 19_701),
        ("free_fall_100k", 100_000, 0),
    ],
)
def test_sizes(name, bodies, joints):
    scene = RECIPES[name].scene(RECIPES[name].size)
    assert len(scene.position) == len(scene.rotation) == bodies and len(scene.joints) == joints
    np.testing.assert_allclose(np.linalg.norm(scene.rotation, axis=1), 1.0)


def test_pile_is_the_same_every_time_and_starts_apart():
    scene = pile(10)
    np.testing.assert_array_equal(scene.position, pile(10).position)
    lattice = np.round((scene.position - [0, 0, 1]) / 1.8)
    assert np.abs(scene.position - [0, 0, 1] - 1.8 * lattice).max() <= 0.05
    assert len(np.unique(lattice, axis=0)) == 1000
    assert scene.position[:, 2].min() > np.sqrt(0.75)  # half the diagonal of a cube: above the plane in any orientation


def test_pyramid_rows_touch_and_are_centred():
    centres = flat_pyramid(4)
    rows = {z: centres[centres[:, 2] == z, 0] for z in np.unique(centres[:, 2])}
    assert [len(row) for row in rows.values()] == [4, 3, 2, 1] and list(rows) == [0.5, 1.5, 2.5, 3.5]
    for row in rows.values():
        np.testing.assert_allclose(np.diff(row), 1.0)
        assert abs(row.mean()) < 1e-12


def test_joint_anchors_meet_at_the_start():
    scene = joint_grid(5)
    assert largest_gap(scene, scene.position, np.tile(np.eye(3), (len(scene.position), 1, 1))) == 0.0
    assert sum(joint.parent < 0 for joint in scene.joints) == 5


def test_rotation_matrices_turn_as_quaternions_do():
    half = np.sqrt(0.5)
    turn = rotation_matrices(np.array([[0, 0, half, half], [half, 0, 0, half]]))
    np.testing.assert_allclose(turn[0] @ [1, 0, 0], [0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(turn[1] @ [0, 1, 0], [0, 0, 1], atol=1e-15)


def test_quality_of_a_known_end():
    """Two cubes, one of them on its edge, moved down by 0.5 m."""
    scene = dataclasses.replace(large_pyramid(2), position=np.array([[0, 0, 1.0], [3, 0, 1.0]]))
    turn = [0, np.sin(np.pi / 8), 0, np.cos(np.pi / 8)]
    pose = np.array([[0, 0, 0.5, 0, 0, 0, 1], [3, 0, 0.5, *turn]])
    result = Result("", "", "", 1, 2, 0, 1, 1, 1, 1)
    result.set_quality(scene, pose, np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
    assert result.lowest_corner == pytest.approx(0.5 - np.sqrt(0.5))
    assert (result.mean_speed, result.largest_drop, result.wrong) == (3.0, 0.5, "")
    result.set_quality(scene, pose * np.nan, np.zeros((2, 3)))
    assert result.wrong == "a pose or velocity is not finite"


@pytest.mark.parametrize("name", RECIPES)
def test_small_size_runs_and_passes_its_check(name, device):
    recipe = RECIPES[name]
    steps = 500 if name == "pile1000" else 20  # a heap needs its time to settle
    result = measure(dataclasses.replace(recipe, size=recipe.small, steps=steps, measured=10), device)
    assert result.wrong == ""
    assert result.ms_median > 0 and result.ms_max >= result.ms_median
    assert (result.contacts > 0) == (name not in ("joint_grid", "free_fall_100k"))
    assert result.stages


def test_json_is_one_object(monkeypatch, capsys):
    small = {name: dataclasses.replace(recipe, size=1, steps=4, measured=2) for name, recipe in RECIPES.items()}
    monkeypatch.setattr(run, "RECIPES", small)
    run.run_bench(["large_pyramid", "pile1000"], threads=1, json=True)
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [(row["scene"], row["threads"]) for row in rows] == [("large_pyramid", 1), ("pile1000", 1)]


def test_unknown_name_lists_the_known():
    with pytest.raises(Error, match="no benchmark 'pile'; there are pile1000, large_pyramid"):
        run.run_bench(["pile"])
    assert list(run.recipe_list()) == list(RECIPES)
