"""Threads of a block at work together on the CPU: the bits of the emulated GPU, and of NumPy where it can say."""

from typing import Any

import numpy as np
import pytest

import engine
from engine.errors import BoundsError, CompileError
from tests.gpu.test_blocks import block_sums, histogram, shuffles
from tests.gpu.test_warps import of_warps

SIZES = [(1, 1), (31, 32), (32, 32), (64, 32), (100, 48), (1000, 64), (2500, 256), (700, 1024)]


def on_both(kernel: engine.Kernel, size: int, block_dim: int, *given: np.ndarray) -> list[np.ndarray]:
    """What a launch makes of its arrays, which are filled before; it is the same on both devices."""
    seen = []
    for device in ("cpu", "emu"):
        kinds = [None if kernel.is_generic else t.dtype for _, t in kernel.params]
        args = [engine.array(a, dtype=t, device=device) for a, t in zip(given, kinds, strict=True)]
        engine.launch(kernel, size, inputs=args, block_dim=block_dim, device=device)
        seen.append([a.numpy() for a in args])
    for one, other in zip(*seen, strict=True):
        assert np.array_equal(one.view(np.uint8), other.view(np.uint8))
    return seen[0]


@pytest.mark.parametrize(("size", "block_dim"), [(256, 256), (1024, 256), (512, 64), (8, 8)])
def test_sums_of_blocks(size: int, block_dim: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=size).astype(np.float32)
    _, sums = on_both(block_sums, size, block_dim, x, np.full(size // block_dim, np.nan, np.float32))
    for k, total in enumerate(sums):
        part = x[k * block_dim : (k + 1) * block_dim].copy()
        while len(part) > 1:
            part = part[: len(part) // 2] + part[len(part) // 2 :]
        assert total == part[0]


@pytest.mark.parametrize(("size", "block_dim"), SIZES)
def test_shuffles_and_votes(size: int, block_dim: int, rng: np.random.Generator) -> None:
    on_both(shuffles, size, block_dim, rng.normal(size=(size, 3)).astype(np.float32), rng.normal(size=size),
            rng.random(size) < 0.5, rng.normal(size=size).astype(np.float16), np.full(size, np.nan))  # fmt: skip


@pytest.mark.parametrize(("size", "block_dim"), SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_reductions_of_warps(size: int, block_dim: int, dtype: Any, rng: np.random.Generator) -> None:
    x = (100.0 * rng.normal(size=size)).astype(dtype)
    out = [np.full(size, 77, dtype) for _ in range(3)]
    found = on_both(of_warps, size, block_dim, x, *out, np.full(size, 77, np.uint32))
    ends = [(s, min(s + 32, b + block_dim, size)) for b in range(0, size, block_dim)
            for s in range(b, min(b + block_dim, size), 32)]  # fmt: skip
    for start, end in ends:
        assert (found[2][start:end] == x[start:end].min()).all() and (found[3][start:end] == x[start:end].max()).all()
        if dtype is np.int32:
            assert (found[1][start:end] == x[start:end].sum()).all()


def test_atomics_in_shared_memory(rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 512).astype(np.int32)
    _, counts = on_both(histogram, 512, 64, x, np.zeros(4, np.int32))
    assert np.array_equal(counts, np.bincount(x % 4, minlength=4))


@engine.kernel
def product(a: engine.array2d(dtype=float), b: engine.array2d(dtype=float), c: engine.array2d(dtype=float)):
    """Tiles of 8 × 8 in shared memory; a block is one tile of the result."""
    left = engine.shared.array(shape=(8, 8), dtype=float)
    right = engine.shared.array(shape=(8, 8), dtype=float)
    row, column = engine.thread_id() // 8, engine.thread_id() % 8
    tiles = c.shape[1] // 8
    i, j = engine.block_id() // tiles * 8 + row, engine.block_id() % tiles * 8 + column
    total = 0.0
    for k in range(0, a.shape[1], 8):
        left[row, column] = a[i, k + column]
        right[row, column] = b[k + row, j]
        engine.sync_threads()
        for inner in range(8):
            total += left[row, inner] * right[inner, column]
        engine.sync_threads()
    c[i, j] = total


def test_product_of_matrices_by_tiles_in_shared_memory(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(24, 40)).astype(np.float32), rng.normal(size=(40, 16)).astype(np.float32)
    _, _, c = on_both(product, 24 * 16, 64, a, b, np.full((24, 16), np.nan, np.float32))
    assert np.allclose(c, a @ b, atol=1e-4)


@engine.kernel
def many_ways(x: engine.array(dtype=int), out: engine.array(dtype=int), log: engine.array(dtype=int)):
    """Cuts in branches, in loops in loops, behind a break and a return; arrays of a thread that live across them."""
    i = engine.tid()
    t = engine.thread_id()
    shared = engine.shared.array(shape=64, dtype=int)
    own = engine.zeros(shape=5, dtype=int)
    shared[t] = x[i]
    engine.sync_threads()
    n = engine.block_dim()
    if n > 16:
        for k in range(3):
            own[k] = shared[(t + k) % n]
            engine.sync_threads()
            shared[t] = shared[t] + own[k]
            engine.sync_threads()
            step = 0
            while True:
                step += 1
                most = engine.warp_reduce_max(shared[t] % 7 + step)
                if most > 9 + k:
                    break
            own[3] += step
            if k == 1 and engine.warp_all(n > 40):
                continue
            own[4] += engine.warp_shuffle_xor(own[k], 1)
    else:
        own[0] = engine.warp_shuffle_idx(x[i], 0)
    for s in range(t % 4, 6, 2):
        own[1] += s
    if t % 2 == 1:
        return
    out[i] = own[0] + 10 * own[1] + 100 * own[2] + 1000 * own[3] + 10000 * own[4]
    engine.atomic_add(log, 0, shared[(t + 5) % n])


@pytest.mark.parametrize(("size", "block_dim"), [(64, 64), (320, 32), (192, 48), (48, 16), (8, 8)])
def test_cuts_anywhere(size: int, block_dim: int, rng: np.random.Generator) -> None:
    x = rng.integers(0, 50, size).astype(np.int32)
    _, out, log = on_both(many_ways, size, block_dim, x, np.full(size, -1, np.int32), np.zeros(1, np.int32))
    assert (out[1::2] == -1).all() and (out[::2] >= 0).all() and log[0] > 0


def test_workers_share_blocks(rng: np.random.Generator) -> None:
    """Chunks of a grid begin in the middle of blocks: each block is run once, by the one who has its first thread."""
    x = rng.normal(size=48 * 4000).astype(np.float32)
    results = []
    for threads in (1, 3):
        with engine.config.scope(threads=threads):
            given, out = engine.array(x, device="cpu"), engine.zeros(4000, device="cpu")
            for _ in range(3):
                engine.launch(block_sums, len(x), inputs=[given, out], block_dim=48, device="cpu")
            results.append(out.numpy())
    assert np.array_equal(*results) and np.isfinite(results[0]).all()


def test_launches_whose_size_is_counted() -> None:
    @engine.kernel
    def last(out: engine.array(dtype=int)):
        most = engine.warp_reduce_max(engine.tid())
        out[engine.tid()] = most

    for device in ("cpu", "emu"):
        out, count = engine.full(64, -1, dtype=int, device=device), engine.array([37], dtype=int, device=device)
        engine.launch(last, engine.indirect(count, 64), inputs=[out], device=device, block_dim=32)
        assert out.numpy().tolist() == [31] * 32 + [36] * 5 + [-1] * 27


def test_graphs_replay_them() -> None:
    x, out = engine.ones(512, device="cpu"), engine.zeros(8, device="cpu")
    with engine.ScopedCapture(device="cpu") as capture:
        engine.launch(block_sums, 512, inputs=[x, out], block_dim=64, device="cpu")
    out.zero_()
    engine.capture_launch(capture.graph)
    assert out.numpy().tolist() == [64.0] * 8


def test_checked_mode_finds_what_a_thread_did() -> None:
    @engine.kernel
    def strays(x: engine.array(dtype=float)):
        part = engine.shared.array(shape=8, dtype=float)
        part[engine.thread_id()] = 1.0
        engine.sync_threads()
        x[engine.tid() + 3] = part[0]

    with engine.config.scope(checked=True), pytest.raises(BoundsError) as caught:
        engine.launch(strays, 8, inputs=[engine.zeros(8, device="cpu")], block_dim=8, device="cpu")
    assert caught.value.thread == (5,) and caught.value.index == 8


def test_what_no_gpu_has_room_for_is_refused() -> None:
    @engine.kernel
    def large(x: engine.array(dtype=float)):
        part = engine.shared.array(shape=20_000, dtype=float)
        part[0] = x[0]
        engine.sync_threads()
        x[1] = part[0]

    with pytest.raises(CompileError, match="more than the 49152 bytes"):
        engine.launch(large, 8, inputs=[engine.zeros(8, device="cpu")], device="cpu")
