"""Knobs: where a value comes from, what is refused, scopes, freezing, and the cache key."""

import os
from pathlib import Path

import pytest

from engine.config import Config, available_threads
from engine.errors import ConfigError


def test_defaults():
    config = Config({})
    assert config.threads == available_threads() == len(os.sched_getaffinity(0))
    assert config.fma is True and config.fast_math is False and config.max_unroll == 16
    assert config.cache_dir.is_absolute() and config.cache_dir.name == "weft-engine"


@pytest.mark.parametrize(
    "variable, text, value",
    [
        ("ENGINE_THREADS", "3", 3),
        ("ENGINE_CHECKED", "on", True),
        ("ENGINE_FMA", "0", False),
        ("ENGINE_LANES", "8", 8),
        ("ENGINE_DEVICE", "cuda:1", "cuda:1"),
        ("ENGINE_CACHE_DIR", "~/kernels", Path.home() / "kernels"),
    ],
)
def test_environment_overrides_the_default_and_assignment_the_environment(variable, text, value):
    config = Config({variable: text})
    name = variable.removeprefix("ENGINE_").lower()
    assert getattr(config, name) == value
    default = getattr(Config({}), name)
    setattr(config, name, default)
    assert getattr(config, name) == default


@pytest.mark.parametrize(
    "variable, text, expected",
    [
        ("ENGINE_THREADS", "two", "an integer from 1 to 1024, got 'two'"),
        ("ENGINE_THREADS", "0", "an integer from 1 to 1024"),
        ("ENGINE_LANES", "12", "a power of two"),
        ("ENGINE_FMA", "maybe", "0 or 1"),
        ("ENGINE_CACHE_DIR", "", "a folder"),
        ("ENGINE_OPT_LEVEL", "4", "an integer from 0 to 3"),
    ],
)
def test_a_bad_variable_is_named(variable, text, expected):
    config = Config({variable: text})
    with pytest.raises(ConfigError, match=f"{variable}: expected .*{expected}"):
        getattr(config, variable.removeprefix("ENGINE_").lower())


@pytest.mark.parametrize("value", [True, 1.0, "1.5", None, 0])
def test_a_bad_assignment_changes_nothing(value):
    config = Config({"ENGINE_THREADS": "5"})
    with pytest.raises(ConfigError, match="threads: expected an integer"):
        config.threads = value
    assert config.threads == 5


def test_an_unknown_knob_suggests_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'threads'"):
        Config({}).thread = 2
    with pytest.raises(ConfigError, match="did you mean 'lanes'"), Config({}).scope(lane=8):
        pass


def test_scopes_nest_and_end_with_an_exception():
    config = Config({})
    config.threads = 7
    with config.scope(threads=2, checked=True), pytest.raises(KeyError):
        with config.scope(threads=1):
            assert (config.threads, config.checked) == (1, True)
            raise KeyError
    assert (config.threads, config.checked) == (7, False)


def test_a_scope_with_one_bad_value_changes_nothing():
    config = Config({"ENGINE_THREADS": "5"})
    with pytest.raises(ConfigError), config.scope(threads=2, lanes=3):
        pass
    assert config.threads == 5


def test_startup_knobs_freeze_and_runtime_knobs_do_not(tmp_path):
    config = Config({})
    config.cache_dir = tmp_path
    config.freeze("the first use of device 'cpu'")
    config.threads = 2
    config.cache_dir = tmp_path
    with pytest.raises(ConfigError, match="is fixed since the first use of device 'cpu'.*ENGINE_CACHE_DIR"):
        config.cache_dir = tmp_path / "other"
    with pytest.raises(ConfigError), config.scope(threads=3, cache_dir=tmp_path / "other"):
        pass
    assert (config.threads, config.cache_dir) == (2, tmp_path)


def test_the_cache_key_has_what_changes_code_and_nothing_else():
    config, base = Config({}), Config({}).cache_key()
    with config.scope(threads=3, verbose=True, tape_limit=1):
        assert config.cache_key() == base
    other = {"checked": True, "fma": False, "fast_math": True, "lanes": 4, "opt_level": 1, "max_unroll": 3,
             "mode": "debug", "shape": "lanes", "verify_fp": True}  # fmt: skip
    assert set(other) == {name for name, _ in base}
    for name, value in other.items():
        with config.scope(**{name: value}):
            assert config.cache_key() != base


def test_the_revision_counts_changes_of_keyed_knobs_only():
    config = Config({})
    with config.scope(checked=False, threads=1):
        start = config.revision
        config.threads = 2
        config.checked = False
        assert config.revision == start
        config.checked = True
        assert config.revision == start + 1
    assert config.revision == start + 2


def test_mistyped_variables_are_found():
    config = Config({"ENGINE_THREDS": "2", "ENGINE_THREADS": "2", "ENGINE_ASSETS": "x", "HOME": "y"})
    assert config.unknown_variables() == [("ENGINE_THREDS", "ENGINE_THREADS")]


def test_every_knob_says_what_it_is():
    rows = Config({}).describe()
    assert all(doc and variable == f"ENGINE_{name.upper()}" for name, variable, _, _, doc in rows)
