"""Kernels with tiles on the emulated GPU: the threads of a block share the work, and give the bits of the CPU."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import engine
from engine.compiler.assemble_ptx import assemble, find_ptxas
from engine.compiler.target_ptx import ARCHITECTURES, ptx_target
from engine.debug import trace
from engine.debug.stepper import Stepper
from engine.errors import BoundsError

BLOCKS = (1, 32, 64, 128, 256)
Floats, Ints = engine.array(dtype=float), engine.array(dtype=int)
Floats2, Floats3 = engine.array(dtype=float, ndim=2), engine.array(dtype=float, ndim=3)


@engine.struct
class Pair:
    weight: float
    count: int


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return rng().standard_normal(shape).astype(np.float32)


def poisoned(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, -77, dtype)


# --- programs: kernel, blocks, arguments ----------------------------------------------------------------------------


@engine.kernel
def maps(x: Floats2, y: Floats2, z: Floats2):
    """Loads that stand out of the array, chains of elementwise operations, views, transposes, parts."""
    i, j = engine.tid()
    t = engine.tile_load(x, shape=(8, 12), offset=(8 * i - 2, 12 * j))
    t = engine.tile_map(engine.sin, t) * 0.5 + t
    t[2:6, ::-2] = engine.tile_ones(shape=(4, 6)) * 3.0
    engine.tile_store(y, t, offset=(8 * i, 12 * j))
    u = engine.tile_transpose(t) + engine.tile_broadcast(engine.tile_load(x, shape=(1, 8), offset=(i, j)), (12, 8))
    u += engine.tile_zeros(shape=(12, 8))
    engine.tile_store(z, engine.tile_reshape(u, (8, 12)), offset=(8 * i, 12 * j))


@engine.kernel
def cubes(x: Floats3, y: Floats3):
    i, j, k = engine.tid()
    t = engine.tile_load(x, shape=(3, 4, 5), offset=(3 * i, 4 * j, 5 * k))
    part = engine.tile_squeeze(t[:, 1:3]) - engine.tile_ones(shape=(3, 2, 5))
    engine.tile_store(y, part, offset=(3 * i, 4 * j, 5 * k))


@engine.kernel
def reductions(x: Floats2, out: Floats2, rows: Floats2, where: Ints):
    i = engine.tid()
    t = engine.tile_load(x, shape=(9, 37), offset=(9 * i, 0))
    engine.tile_store(out[i], engine.tile_sum(t), offset=0)
    engine.tile_store(out[i], engine.tile_max(t), offset=1)
    engine.tile_store(out[i], engine.tile_reduce(engine.mul, t), offset=2)
    engine.tile_store(out[i], engine.tile_dot(t, t), offset=3)
    engine.tile_store(rows[2 * i], engine.tile_sum(t, axis=0))
    engine.tile_store(rows[2 * i + 1], engine.tile_reduce(engine.min, t, axis=1))
    engine.tile_store(where, engine.tile_argmax(t), offset=2 * i)
    engine.tile_store(where, engine.tile_argmin(t), offset=2 * i + 1)


@engine.kernel
def scans(x: Floats, out: Floats2):
    t = engine.tile_load(x, shape=100)
    engine.tile_store(out[0], engine.tile_scan_inclusive(t))
    engine.tile_store(out[1], engine.tile_scan_exclusive(t))
    engine.tile_store(out[2], engine.tile_scan_max_inclusive(t))


@engine.kernel
def sorts(x: Floats, places: Ints, y: Floats):
    keys = engine.tile_load(x, shape=75)
    order = engine.tile_arange(75)
    engine.tile_sort(keys, order)
    engine.tile_store(y, keys)
    engine.tile_store(places, order)


@engine.kernel
def products(a: Floats2, b: Floats2, out: Floats2):
    """Blocks of a product of matrices, 8 × 8 × 11 at a time."""
    i, j = engine.tid()
    s = engine.tile_zeros(shape=(8, 8))
    for k in range(3):
        s += engine.tile_load(a, (8, 11), (8 * i, 11 * k)) @ engine.tile_load(b, (11, 8), (11 * k, 8 * j))
    engine.tile_matmul(engine.tile_ones(shape=(8, 3)), engine.tile_ones(shape=(3, 8)), s, alpha=0.25, beta=2.0)
    engine.tile_store(out, s, offset=(8 * i, 8 * j))


@engine.kernel
def systems(a: Floats2, b: Floats2, out: Floats3):
    m = engine.tile_load(a, shape=(7, 7))
    y = engine.tile_load(b, shape=(7, 3))
    factor = engine.tile_cholesky(engine.tile_diag_add(m, engine.tile_ones(shape=7)))
    engine.tile_store(out[0], factor)
    engine.tile_store(out[1], engine.tile_cholesky_solve(factor, y))
    engine.tile_store(out[2], engine.tile_lower_solve(factor, engine.tile_load(b, shape=(7, 3), offset=(0, 0))))


@engine.kernel
def transforms(x: engine.array(dtype=engine.vec2, ndim=2)):
    t = engine.tile_load(x, shape=(3, 30))
    engine.tile_fft(t)
    engine.tile_store(x, t)


@engine.kernel
def gathers(x: Floats2, indices: Ints, y: Floats2, sums: Ints):
    i = engine.tid()
    at = engine.tile_load(indices, shape=6, offset=6 * i)
    t = engine.tile_load_indexed(x, at, shape=(6, 10), axis=0)
    t[:, 0:2] = t[:, 2:4] * 2.0
    engine.tile_store_indexed(y, at, t[::-1], axis=0)
    engine.tile_atomic_add_indexed(sums, at, engine.tile_full(6, 3), axis=0)


@engine.kernel
def control(x: Floats, limits: Floats, counter: Ints, y: Floats, z: Floats):
    """Branches and loops on values of tiles and memory; scalar stores, atomics, single elements; names that change."""
    i = engine.tid()
    t = engine.tile_load(x, shape=50, offset=50 * i)
    rounds = 0
    while engine.tile_sum(t)[0] > limits[i] and rounds < 6:
        t = t * 0.5
        rounds += 1
        t[rounds] = t[rounds - 1] + float(rounds)
    mine = engine.atomic_add(counter, i, 1)
    if mine > 0:
        z[i] = t[3]
        t = t + engine.tile_full(50, z[i])
    else:
        engine.tile_scatter_add(t, rounds, 2.0, t[0] < 1.0e9)
    z[i + 2] = float(mine)
    for k in range(rounds):
        y[50 * i + k] = t[k] + z[i + 2]
        t[k + 1] += y[50 * i + k]
    if rounds > 20:
        return
    engine.tile_store(y, t, offset=50 * i)
    engine.tile_store(y, engine.tile_load(y, shape=20, offset=50 * i) + t[0:20], offset=50 * i + 10)


@engine.kernel
def lists(x: Floats, out: Floats, picked: Ints):
    s = engine.tile_stack(capacity=8, dtype=float)
    t = engine.tile_load(x, shape=20)
    for k in range(20):
        place = engine.tile_stack_push(s, t[k], t[k] > 0.0)
        picked[k] = place
    t = t + engine.tile_full(20, float(engine.tile_stack_count(s)))
    value, place = engine.tile_stack_pop(s)
    out[20] = value + float(place)
    engine.tile_store(out, t)


@engine.func
def heavier(a: Pair, b: Pair):
    r = Pair()
    r.weight = a.weight + b.weight * 0.5
    r.count = a.count + b.count
    return r


@engine.func
def own_sum(a: float):
    """A tile of its own for each element."""
    t = engine.tile_full(5, a)
    t[1] = 1.0
    return engine.tile_sum(t)[0]


@engine.kernel
def structs(pairs: engine.array(dtype=Pair), out: engine.array(dtype=Pair), y: Floats, seed: int):
    t = engine.tile_load(pairs, shape=33)
    engine.tile_store(out, engine.tile_map(heavier, t, t))
    engine.tile_atomic_add(out, t, offset=3)
    u = engine.tile_randf(40, engine.rand_init(seed), 0.0, 2.0)
    engine.tile_store(y, engine.tile_map(own_sum, u))
    m = engine.mat33(y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7], y[8])
    k = int(y[9] * 1.4)
    engine.tile_store(y, engine.tile_map(engine.add, u, m[k, 2 - k] + float(m[0, 0] > 1.0)))


@engine.func
def filled(a: Floats, n: int):
    for i in range(n):
        a[i] = float(i) * 0.5
    return a[n - 1]


@engine.kernel
def arrays_of_threads(x: Floats, y: Floats, n: int, counted: Ints):
    """Local and shared arrays: the one thread that fills them is not the only one to read them."""
    t = engine.tile_load(x, shape=64)
    h = engine.zeros(shape=8, dtype=float)
    for i in range(n):
        h[i] = t[i] * 2.0
    t = t * h[n - 1]
    h[2] = h[1] + 1.0
    s = filled(h, n)
    u = t + engine.tile_full(64, h[3] + s)
    y[64] = h[2] + h[n - 2]
    h[0] += y[64]
    engine.tile_store(y, u + engine.tile_full(64, h[0]))
    found = engine.shared.array(shape=8, dtype=int)
    for i in range(8):
        found[i] = 0
    for i in range(64):
        engine.atomic_add(found, int(x[i] * 7.0), 1)
    engine.sync_threads()
    out = engine.tile_zeros(shape=8, dtype=int)
    for i in range(8):
        out[i] = found[i] + engine.lane_id() + engine.warp_reduce_add(found[i])
    engine.tile_store(counted, out)


@engine.kernel
def early_ends(x: Floats, y: Floats):
    i = engine.tid()
    t = engine.tile_load(x, shape=48, offset=48 * i)
    for k in range(10):
        if t[k] > 0.9:
            break
        if t[k] < 0.2:
            continue
        t = t * 0.9
        if engine.tile_sum(t)[0] < 10.0:
            return
    engine.tile_store(y, t, offset=48 * i)


@engine.kernel
def widths(x: Floats, y: engine.array(dtype=bool), z: engine.array(dtype=engine.float16),
           w: engine.array(dtype=engine.int8), d: engine.array(dtype=engine.float64)):  # fmt: skip
    """Elements of one, two and eight bytes; several elements of a view in one place."""
    t = engine.tile_load(x, shape=70)
    c = engine.tile_zeros(shape=70, dtype=bool)
    c[3] = t[4] < 0.5
    y[70] = t[5] < 0.5
    flag = y[70]
    h = engine.tile_astype(t, dtype=engine.float16)
    h[2] = h[1] * h[3]
    e = engine.tile_astype(t * 100.0, dtype=engine.int8)
    e[9] = e[8] + e[7]
    g = engine.tile_astype(t, dtype=engine.float64)
    d[70] = g[4]
    g[1] = d[70] * g[2]
    many = engine.tile_broadcast(t[0:10], (7, 10))
    many += engine.tile_ones(shape=(7, 10))
    engine.tile_store(y, c)
    engine.tile_store(z, h)
    engine.tile_store(w, engine.tile_zeros(shape=70, dtype=engine.int8) + e)
    engine.tile_store(d, g + engine.tile_astype(t, dtype=engine.float64))
    z[70] = engine.tile_sum(h)[0]
    if flag:
        d[71] = d[0]


def programs() -> dict[str, tuple[engine.Kernel, Any, list[Any]]]:
    a, square, ones = numbers(22, 30), numbers(7, 7), rng().random(192, dtype=np.float32)
    pairs = np.zeros(33, dtype=[("weight", np.float32), ("count", np.int32)])
    pairs["weight"], pairs["count"] = numbers(33), np.arange(33)
    with_nan = numbers(75)
    with_nan[[3, 50]] = np.nan
    with_nan[10:40] = np.round(with_nan[10:40])
    return {
        "maps": (maps, (3, 3), [a, poisoned(22, 30), poisoned(22, 30)]),
        "cubes": (cubes, (2, 2, 2), [numbers(5, 8, 9), poisoned(5, 8, 9)]),
        "reductions": (reductions, 2, [numbers(18, 37), poisoned(2, 4), poisoned(4, 37), poisoned(4, dtype=np.int32)]),
        "scans": (scans, 1, [numbers(100), poisoned(3, 100)]),
        "sorts": (sorts, 1, [with_nan, poisoned(75, dtype=np.int32), poisoned(75)]),
        "products": (products, (2, 2), [numbers(16, 33), numbers(33, 16), poisoned(16, 16)]),
        "systems": (systems, 1, [square @ square.T, numbers(7, 3), poisoned(3, 7, 7)]),
        "transforms": (transforms, 1, [numbers(3, 30, 2)]),
        "gathers": (gathers, 2, [numbers(12, 10), rng().permutation(12).astype(np.int32) % 12, poisoned(12, 10),
                                 poisoned(12, dtype=np.int32)]),
        "control": (control, 2, [np.abs(numbers(100)), np.float32([4.0, 1e9]), np.int32([0, 1]), poisoned(120),
                                 poisoned(4)]),
        "lists": (lists, 1, [numbers(20), poisoned(21), poisoned(20, dtype=np.int32)]),
        "arrays": (arrays_of_threads, 1, [ones[:64], poisoned(65), 7, poisoned(8, dtype=np.int32)]),
        "early ends": (early_ends, 4, [ones, poisoned(192)]),
        "widths": (widths, 1, [ones[:70], np.zeros(71, bool), poisoned(71, dtype=np.float16),
                               poisoned(71, dtype=np.int8), poisoned(72, dtype=np.float64)]),
        "structs": (structs, 1, [pairs, np.zeros_like(pairs), poisoned(40), 7]),
    }  # fmt: skip


PROGRAMS = programs()


def arrays(name: str, device: str) -> list[Any]:
    """The arguments of a program on a device."""
    kernel, _, args = PROGRAMS[name]
    wanted = [t for _, t in kernel.params]
    return [engine.array(a, dtype=t.dtype, device=device) if isinstance(a, np.ndarray) else a
            for a, t in zip(args, wanted, strict=True)]  # fmt: skip


def run(name: str, device: str, block_dim: int) -> list[bytes]:
    """The bytes of all arrays after a launch."""
    kernel, dim, _ = PROGRAMS[name]
    args = arrays(name, device)
    engine.launch_tiled(kernel, dim=dim, inputs=args, block_dim=block_dim, device=device)
    return [a.numpy().tobytes() for a in args if isinstance(a, engine.array)]


# --- what is asked of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_of_any_size_give_the_bits_of_the_cpu(name: str) -> None:
    wanted = run(name, "cpu", 64)
    for block_dim in BLOCKS:
        assert run(name, "emu", block_dim) == wanted, block_dim


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_wait_for_each_other_where_they_must(name: str) -> None:
    """No races in shared and global memory, no barriers that only some come to, no reads of what nobody wrote."""
    for block_dim in (64, 100):
        with trace(("mem", "race", "sync")) as report:
            run(name, "emu", block_dim)
        assert not report.findings, block_dim


@pytest.mark.parametrize("schedule", ["ipdom", "random"])
def test_no_schedule_of_the_warps_changes_anything(schedule: str) -> None:
    with engine.config.scope(emu_schedule=schedule):
        for name in ("reductions", "control", "systems"):
            assert run(name, "emu", 96) == run(name, "cpu", 96), name


@engine.kernel
def roots(x: Floats, y: Floats):
    i = engine.tid()
    t = engine.tile_load(x, shape=1024, offset=1024 * i)
    t = engine.tile_map(engine.sqrt, t)
    engine.tile_store(y, t, offset=1024 * i)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_programs_are_ptx_for_every_architecture(arch: str) -> None:
    for name in ("control", "products"):
        ptx = text(PROGRAMS[name][0], arch)
        assert f".target {arch}" in ptx and ".shared" in ptx and "bar.sync" in ptx and ".local" not in ptx, name
        if find_ptxas() is not None:
            assert assemble(ptx, arch).spilled == 0, name


def test_work_is_spread_over_the_threads() -> None:
    """Twice the threads, about half of the instructions for each; warps have the same number of them."""
    x, y = engine.ones(2048, device="emu"), engine.zeros(2048, device="emu")
    each = {}
    for block_dim in (32, 64, 128, 256):
        with trace(("mem",)) as report:
            engine.launch_tiled(roots, dim=2, inputs=[x, y], block_dim=block_dim, device="emu")
        (row,) = report.kernels
        assert row["efficiency"] == 1.0  # all lanes of a warp take part in all instructions
        each[block_dim] = row["thread_instructions"] / (2 * block_dim)
    assert all(each[2 * n] < 0.56 * each[n] for n in (32, 64, 128)), each

    steps: Counter[int] = Counter()
    stepper = Stepper(roots, (1, 1), [x, y], [], "emu", 128)
    while stepper.step():
        steps[stepper.warp] += int(stepper.active.sum())
    assert set(steps) == {0, 1, 2, 3} and max(steps.values()) - min(steps.values()) <= 32, steps


def test_elements_of_a_thread_need_no_barrier() -> None:
    """A chain of elementwise operations: every thread has its own elements. A turned tile needs one."""

    @engine.kernel
    def chain(x: Floats, y: Floats):
        t = engine.tile_ones(shape=64)
        t = engine.tile_map(engine.sqrt, t) * 0.5 + t
        t += t * t
        engine.tile_store(y, t, bounds_check=False)

    @engine.kernel
    def turned(x: Floats, y: Floats):
        t = engine.tile_ones(shape=64)
        t = t * t
        engine.tile_store(y, t[::-1], bounds_check=False)

    assert text(chain).count("bar.sync") == 0
    assert text(turned).count("bar.sync") == 1


@engine.kernel
def says(x: Floats):
    t = engine.tile_load(x, shape=64)
    if t[0] > 0.0:
        print(engine.tile_sum(t)[0])


def test_what_a_block_prints_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    engine.launch_tiled(says, dim=2, inputs=[engine.ones(64, device="emu")], block_dim=64, device="emu")
    assert capfd.readouterr().out == "64\n64\n"


def test_a_failed_check_names_the_line_and_counts_once() -> None:
    """One thread of the block looks at what is done once."""

    @engine.kernel
    def picks(x: Floats, n: int, y: Floats):
        t = engine.tile_load(x, shape=64)
        s = t[n]
        engine.tile_store(y, t * s)

    with engine.config.scope(checked=True):
        for device in ("cpu", "emu"):
            x, y = engine.ones(64, device=device), engine.zeros(64, device=device)
            with pytest.raises(BoundsError, match=r"index 70 is outside 'tile\[float32, 64\]'.*64 \(thread 0\)$"):
                engine.launch_tiled(picks, dim=1, inputs=[x, 70, y], block_dim=64, device=device)


def test_tiles_share_memory_that_others_need_no_more() -> None:
    """Six tiles of 16 KiB, of which at most three are needed at once: 48 KiB are enough."""

    @engine.kernel
    def long_chain(y: Floats):
        t = engine.tile_ones(shape=4096)
        for _ in range(3):
            t = engine.tile_map(engine.sqrt, t + t)
        engine.tile_store(y, t)

    assert ".shared .align 16 .b8" in text(long_chain)


def test_tiles_that_do_not_fit_are_the_work_of_one_thread() -> None:
    @engine.kernel
    def large(x: Floats, y: Floats):
        t = engine.tile_load(x, shape=20_000)
        engine.tile_store(y, t + t * 2.0)

    assert ".shared" not in text(large) and ".local" in text(large)
    x, y = engine.array(numbers(20_000), device="emu"), engine.zeros(20_000, device="emu")
    engine.launch_tiled(large, dim=1, inputs=[x, y], block_dim=64, device="emu")
    assert np.array_equal(y.numpy(), x.numpy() * np.float32(3.0))


def test_what_a_kernel_may_not_declare_is_given_with_the_launch() -> None:
    """52 000 bytes: more than the 48 KiB that PTX may declare, less than the 64 KiB that the oldest GPU has."""

    @engine.kernel
    def large(x: Floats, y: Floats):
        t = engine.tile_load(x, shape=6500)
        engine.tile_store(y, t + t[::-1])

    assert ".extern .shared" in text(large)
    x, y = engine.array(numbers(6500), device="emu"), engine.zeros(6500, device="emu")
    with trace(("mem", "race", "sync")) as report:
        engine.launch_tiled(large, dim=1, inputs=[x, y], block_dim=256, device="emu")
    assert not report.findings and np.array_equal(y.numpy(), x.numpy() + x.numpy()[::-1])
    with engine.ScopedCapture(device="emu") as capture:
        engine.launch_tiled(large, dim=1, inputs=[x, x], block_dim=96, device="emu")
    engine.capture_launch(capture.graph)
    assert np.array_equal(x.numpy(), y.numpy())


def test_threads_without_work_are_not_started() -> None:
    """Forty elements: two warps, whatever the block size."""

    @engine.kernel
    def doubled(x: Floats2, y: Floats2):
        t = engine.tile_load(x, shape=(4, 10))
        engine.tile_store(y, t + t)

    @engine.kernel
    def one_warp(x: Floats2, y: Floats2):
        t = engine.tile_load(x, shape=(4, 8))
        engine.tile_store(y, t + t)

    x, y = (engine.zeros((4, 10), device="emu") for _ in range(2))
    warps = {}
    for kernel in (doubled, one_warp):
        for block_dim in (64, 1024):
            with trace(("mem",)) as report:
                engine.launch_tiled(kernel, dim=1, inputs=[x, y], block_dim=block_dim, device="emu")
            warps[kernel.name, block_dim] = report.kernels[0]["warp_instructions"]
    assert warps["doubled", 64] == warps["doubled", 1024]
    assert warps["one_warp", 64] == warps["one_warp", 1024] < 0.6 * warps["doubled", 64]


def text(kernel: engine.Kernel, arch: str = "sm_75") -> str:
    """The PTX of a kernel."""
    return kernel.compile(tuple(t for _, t in kernel.params), ptx_target(arch)).image.decode()
