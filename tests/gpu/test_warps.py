"""Warps at work on the emulated GPU: reductions, votes and shuffles, of whole warps and of one that is not full."""

from typing import Any

import numpy as np
import pytest

import engine

DEVICE = "emu"


def tree(values: np.ndarray) -> np.float32:
    """The sum of up to 32 values as `warp_reduce_add` adds them."""
    lanes = values.astype(np.float32)
    for delta in (16, 8, 4, 2, 1):
        for lane in range(len(lanes) - delta):  # upward: lane + delta still has its old value
            lanes[lane] += lanes[lane + delta]
    return lanes[0]


@engine.kernel
def of_warps(x: engine.array(dtype=Any), total: engine.array(dtype=Any), least: engine.array(dtype=Any),
             most: engine.array(dtype=Any), ballots: engine.array(dtype=engine.uint32)):  # fmt: skip
    i = engine.tid()
    total[i] = engine.warp_reduce_add(x[i])
    least[i] = engine.warp_reduce_min(x[i])
    most[i] = engine.warp_reduce_max(x[i])
    ballots[i] = engine.warp_ballot(x[i] > x.dtype(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32], ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [64, 100, 1])  # whole warps; a last one that is not full
def test_reductions(dtype: type, n: int, rng: np.random.Generator) -> None:
    x = (rng.integers(0, 100, n) if dtype is np.uint32 else rng.integers(-100, 100, n)).astype(dtype)
    out = [engine.array(np.full(n, 77, dtype), device=DEVICE) for _ in range(3)]
    ballots = engine.zeros(n, dtype=engine.uint32, device=DEVICE)
    engine.launch(of_warps, n, inputs=[engine.array(x, device=DEVICE), *out, ballots], device=DEVICE)
    for start in range(0, n, 32):
        warp = x[start : start + 32]
        for got, want in zip(out, (warp.sum(dtype=dtype), warp.min(), warp.max())):
            assert (got.numpy()[start : start + 32] == want).all()
        bits = sum(1 << lane for lane, value in enumerate(warp) if value > 0)
        assert (ballots.numpy()[start : start + 32] == bits).all()


def test_sums_of_floats_are_the_documented_tree(rng: np.random.Generator) -> None:
    x = rng.random(90).astype(np.float32)
    out = [engine.zeros(90, dtype=float, device=DEVICE) for _ in range(3)]
    ballots = engine.zeros(90, dtype=engine.uint32, device=DEVICE)
    engine.launch(of_warps, 90, inputs=[engine.array(x, device=DEVICE), *out, ballots], device=DEVICE)
    assert [out[0].numpy()[k] for k in (0, 32, 64)] == [tree(x[k : k + 32]) for k in (0, 32, 64)]


@engine.kernel
def moved(v: engine.array(dtype=engine.vec3d), by: int, down: engine.array(dtype=engine.vec3d),
          up: engine.array(dtype=engine.vec3d), across: engine.array(dtype=engine.vec3d),
          taken: engine.array(dtype=engine.vec3d)):  # fmt: skip
    i = engine.tid()
    down[i] = engine.warp_shuffle_down(v[i], by)
    up[i] = engine.warp_shuffle_up(v[i], by)
    across[i] = engine.warp_shuffle_xor(v[i], by)
    taken[i] = engine.warp_shuffle_idx(v[i], by)


@pytest.mark.parametrize("by", [0, 1, 5, 31, 32, -1])
@pytest.mark.parametrize("n", [64, 50])
def test_shuffles_give_the_own_value_where_there_is_no_other(by: int, n: int, rng: np.random.Generator) -> None:
    v = rng.random((n, 3))
    out = [engine.array(np.full((n, 3), np.nan), dtype=engine.vec3d, device=DEVICE) for _ in range(4)]
    engine.launch(moved, n, inputs=[engine.array(v, dtype=engine.vec3d, device=DEVICE), by, *out], device=DEVICE)
    i = np.arange(n)
    lane = i % 32
    for got, source in zip(out, (lane + by, lane - by, lane ^ by, np.full(n, by))):
        there = (source >= 0) & (source < 32) & (i - lane + source < n)
        assert np.array_equal(got.numpy(), v[np.where(there, i - lane + source, i)])
