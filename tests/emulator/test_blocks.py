"""Blocks of threads run on the emulated GPU: barriers, shared arrays, values of other lanes, votes, atomics on both."""

import numpy as np
import pytest

import engine
from engine.context import array, zeros
from engine.debug import trace
from engine.errors import LaunchError
from tests.gpu.test_blocks import block_sums, histogram, positions


@pytest.mark.parametrize("block_dim", [32, 64, 256])
def test_sums_by_halving(block_dim: int, rng: np.random.Generator) -> None:
    values = rng.integers(-99, 99, 1024).astype(np.float32)
    out = zeros(1024 // block_dim, device="emu")
    with trace() as report:
        engine.launch(block_sums, 1024, [array(values, device="emu"), out], block_dim=block_dim, device="emu")
    assert (out.numpy() == values.reshape(-1, block_dim).sum(axis=1)).all()
    assert not report.findings


def test_histogram_with_shared_atomics(rng: np.random.Generator) -> None:
    values = rng.integers(0, 4, 500).astype(np.int32)
    out = zeros(4, dtype=int, device="emu")
    engine.launch(histogram, 500, [array(values, device="emu"), out], block_dim=128, device="emu")
    assert out.numpy().tolist() == np.bincount(values, minlength=4).tolist()


@pytest.mark.parametrize("block_dim", [1, 48, 256])
def test_positions_are_those_of_the_cpu(block_dim: int) -> None:
    found = []
    for device in ("cpu", "emu"):
        out = zeros((300, 5), dtype=int, device=device)
        engine.launch(positions, 300, [out], block_dim=block_dim, device=device)
        found.append(out.numpy().copy())
    assert (found[0] == found[1]).all()


@engine.kernel
def warps(x: engine.array(dtype=float), sums: engine.array(dtype=float), votes: engine.array(dtype=engine.uint32)):
    i = engine.tid()
    sums[i] = engine.warp_reduce_add(x[i])
    votes[i] = engine.warp_ballot(x[i] > 0.0)


def test_lanes_of_warps_work_together(rng: np.random.Generator) -> None:
    values = rng.integers(-50, 50, 160).astype(np.float32)
    sums, votes = zeros(160, device="emu"), zeros(160, dtype=engine.uint32, device="emu")
    engine.launch(warps, 160, [array(values, device="emu"), sums, votes], block_dim=64, device="emu")
    rows = values.reshape(-1, 32)
    assert (sums.numpy() == rows.sum(axis=1).repeat(32)).all()
    ballots = ((rows > 0) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    assert (votes.numpy() == ballots.repeat(32)).all()


def test_a_block_that_the_kernel_was_not_compiled_for() -> None:
    limited = engine.Kernel(positions.fn, key="limited", options={"launch_bounds": 64})
    out = zeros((300, 5), dtype=int, device="emu")
    engine.launch(limited, 300, [out], block_dim=64, device="emu")
    with pytest.raises(LaunchError, match="at most 64 threads"):
        engine.launch(limited, 300, [out], block_dim=128, device="emu")
