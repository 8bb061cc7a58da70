"""Fixtures that all tests share: device, third-party inputs, seeded random numbers, a kernel cache for the session."""

import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# the suite tries the same examples in every run, so that it fails for what was changed; `make soak` tries new ones
settings.register_profile("suite", derandomize=True)
settings.register_profile("search", derandomize=False, print_blob=True)
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """One new kernel cache for the session: tests compile cold; the workers of xdist inherit it and share it."""
    if "ENGINE_CACHE_DIR" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="engine-test-cache-", ignore_cleanup_errors=True)
        os.environ["ENGINE_CACHE_DIR"] = folder.name
        config.add_cleanup(folder.cleanup)


# the tests that run on the emulated GPU, too; the others compile so many kernels that it would take minutes
EMULATED = ("tests/context/", "tests/kernels/", "tests/test_utils.py", "tests/compiler/test_language.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shapes", action="store_true", help="repeat launches on the cpu in every form of their code")


@pytest.fixture(scope="session", autouse=True)
def every_shape(request: pytest.FixtureRequest) -> Iterator[None]:
    """With --shapes: a launch fails when another shape, width or cut of the grid gives other bits."""
    if not request.config.getoption("--shapes"):
        yield
        return
    from tests.shape_oracle import Oracle, all_forms, summary

    with Oracle(all_forms).installed() as oracle:
        yield
    print(*summary(oracle), sep="\n")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `device` runs on each of them. ENGINE_TEST_DEVICES=cpu,emu chooses others for all tests."""
    if "device" in metafunc.fixturenames:
        path = metafunc.definition.path.relative_to(Path(__file__).parent.parent).as_posix()
        devices = ["cpu", "emu"] if path.startswith(EMULATED) else ["cpu"]
        chosen = os.environ.get("ENGINE_TEST_DEVICES")
        metafunc.parametrize("device", chosen.split(",") if chosen else devices)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers, the same in every run of a test. ENGINE_TEST_SEED=n tries others; a failure shows its n."""
    seed = int(os.environ.get("ENGINE_TEST_SEED") or zlib.crc32(request.node.nodeid.encode()))
    print(f"ENGINE_TEST_SEED={seed}")
    return np.random.default_rng(seed)


def _folder(variable: str, what: str) -> Path:
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"{variable} is not set: it names the folder of {what}")
    if not Path(named).is_dir():
        pytest.fail(f"{variable}={named} is not a folder; it should hold {what}")
    return Path(named)


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of third-party scene files; skips where it is not named, fails where it is named and missing."""
    return _folder("ENGINE_ASSETS", "third-party scene files")


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of acceptance cases; skips where it is not named, fails where it is named and missing."""
    return _folder("ENGINE_CASES", "acceptance cases")
