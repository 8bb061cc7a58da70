"""Input that asks for the impossible: each has an exception or a defined result, and the process lives on."""

import gc
import threading
import weakref

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.context import array, indirect, launch, zeros


@k.kernel
def copy_up(x: k.array(dtype=float), out: k.array(dtype=float)):
    i = k.tid()
    out[i] = x[i] + 1.0


@engine.table
class Grown:
    at: k.vec3


@pytest.mark.parametrize("shape", [(2**31 - 1, 2**20), (2**31 - 1,) * 3, (2**31 - 1,) * 4])
@pytest.mark.parametrize("make", [engine.zeros, engine.empty, engine.ones])
def test_huge_allocations_are_memory_errors(make, shape):
    """Also where the number of bytes fits no register."""
    with pytest.raises(MemoryError, match=r"B for an array"):
        make(shape, dtype=k.vec3)


def test_a_table_that_cannot_grow_stays_as_it_was():
    rows = Grown(4)
    rows.at.fill_(2.0)
    large = engine.types.matrix((32, 32), k.float64)
    with pytest.raises(MemoryError):
        engine.make_table("Many", [(f"f{i}", large, "n") for i in range(64)])(2**31 - 1)
    with pytest.raises(ValueError, match="shape"):
        rows.resize(2**31)
    assert len(rows) == 4 and rows.at.numpy().tolist() == [[2.0] * 3] * 4


@pytest.mark.parametrize("shape", ["lanes", "thread"])
def test_grids_without_threads_run_nothing(shape):
    x, out = zeros(4), engine.full(4, -1.0, dtype=float)
    with engine.config.scope(shape=shape):
        for dim in (0, (0,), (0, 5), (5, 0), (3, 0, 2, 1)):
            launch(copy_up, dim, [x, out])
            launch(copy_up, dim, [x, out], record_cmd=True).launch()
        launch(copy_up, indirect(array([0]), 4), [x, out])
        launch(copy_up, 0, [zeros(0), zeros(0)])
        with pytest.raises(engine.errors.LaunchError, match="argument 'x'"):
            launch(copy_up, 0, [1.0, out])  # its arguments are looked at all the same
    assert out.numpy().tolist() == [-1.0] * 4


@k.kernel
def whole_numbers(a: k.array(dtype=k.Any), b: k.array(dtype=k.Any), out: k.array(dtype=k.Any, ndim=2)):
    i = k.tid()
    out[0, i] = a[i] / b[i]
    out[1, i] = a[i] // b[i]
    out[2, i] = a[i] % b[i]
    out[3, i] = a[i] << b[i]
    out[4, i] = a[i] * a[i]


@pytest.mark.parametrize("shape", ["lanes", "thread"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_whole_numbers_have_a_result_for_all_operands(shape, bits):
    """x / 0 = 0, the least number / -1 wraps, shift counts are masked; 19 threads, so that some lanes are left over."""
    dtype, low = np.dtype(f"int{bits}"), -(2 ** (bits - 1))
    a = np.resize(np.array([low, low, 7, -7, low], dtype), 19)
    b = np.resize(np.array([-1, 0, 0, 0, 3], dtype), 19)
    out = engine.full((5, 19), 99, dtype=getattr(k, dtype.name))
    with engine.config.scope(shape=shape):
        launch(whole_numbers, 19, [array(a), array(b), out])
    found = out.numpy()[:, :5].tolist()
    assert found[0] == [low, 0, 0, 0, -(-low // 3)]
    assert found[1] == [low, 0, 0, 0, low // 3]
    assert found[2] == [0, 0, 0, 0, low % 3]
    assert found[3] == [0, low, 7, -7, 0]
    assert found[4] == [0, 0, 49, 49, 0]


@k.kernel
def to_int(x: k.array(dtype=float), out: k.array(dtype=int)):
    i = k.tid()
    out[i] = int(x[i])


@pytest.mark.parametrize("shape", ["lanes", "thread"])
def test_floats_beyond_the_whole_numbers_saturate(shape):
    x = array(np.resize(np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 2.9, -2.9], np.float32), 21))
    out = zeros(21, dtype=int)
    with engine.config.scope(shape=shape):
        launch(to_int, 21, [x, out])
    assert out.numpy()[:7].tolist() == [2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, 2, -2]


# memory that somebody still uses


@k.struct
class Holder:
    data: k.array(dtype=float)
    scale: float


@k.kernel
def through_holders(holders: k.array(dtype=Holder), out: k.array(dtype=float)):
    i = k.tid()
    out[i] = holders[0].data[i] * holders[0].scale


@k.kernel
def through_own_holder(holders: k.array(dtype=Holder), out: k.array(dtype=float)):
    i = k.tid()
    mine = holders[i % 2]
    if out[i] < 0.0:
        out[i] = mine.data[i] * mine.scale


@pytest.mark.parametrize("shape", ["auto", "lanes", "thread"])
def test_threads_with_arrays_of_their_own(shape):
    """Arrays that lanes take from different places in memory."""
    parts = [Holder(data=array(np.arange(40.0) + n, dtype=float), scale=1.0 + n) for n in range(2)]
    out = engine.full(40, -1.0, dtype=float)
    with engine.config.scope(shape=shape):
        launch(through_own_holder, 40, [array(parts, dtype=Holder), out])
    assert out.numpy().tolist() == [(i + i % 2) * (1.0 + i % 2) for i in range(40)]


def crowd_memory():
    """Takes what was freed, and writes into it."""
    gc.collect()
    return [engine.full(4096, -5.0, dtype=float) for _ in range(64)]


def test_recorded_launches_keep_their_arrays():
    out = zeros(4096)
    recorded = launch(copy_up, 4096, [engine.ones(4096), out], record_cmd=True)
    crowd = crowd_memory()
    recorded.launch()
    assert out.numpy().tolist() == [2.0] * 4096 and len(crowd) == 64


def test_views_keep_the_memory_that_they_show():
    whole = engine.ones(4096, dtype=float)
    part, flat, seen = whole[16:32], whole.reshape((64, 64))[3], whole.numpy()
    gone = weakref.ref(whole)
    del whole
    crowd = crowd_memory()
    out = zeros(16)
    launch(copy_up, 16, [part, out])
    assert out.numpy().tolist() == [2.0] * 16 and flat.numpy().tolist() == [1.0] * 64 and seen.tolist() == [1.0] * 4096
    assert gone() is None and len(crowd) == 64


def test_arrays_in_structs_in_arrays_stay():
    def make():
        one = Holder(data=engine.ones(4096, dtype=float), scale=3.0)
        return array([one], dtype=Holder)

    holders, crowd = make(), crowd_memory()
    copied, out = engine.clone(holders), zeros(4096)
    del holders
    crowd += crowd_memory()
    launch(through_holders, 4096, [copied, out])
    assert out.numpy().tolist() == [3.0] * 4096 and len(crowd) == 128


def test_tables_that_moved_and_their_fields():
    rows = Grown(8)
    rows.at.fill_(1.0)
    field = rows.at

    @k.kernel
    def step(r: Grown):
        i = k.tid()
        r.at[i] = r.at[i] + k.vec3(1.0, 1.0, 1.0)

    recorded = launch(step, 8, [rows], record_cmd=True)
    recorded.launch()
    rows.resize(100_000)
    crowd = crowd_memory()
    recorded.launch()
    assert rows.at.numpy()[:8].tolist() == [[3.0] * 3] * 8 and len(crowd) == 64
    assert field.numpy().shape in ((8, 3), (100_000, 3)) and float(field.numpy()[0, 0]) in (2.0, 3.0)


def test_arrays_freed_while_another_thread_runs():
    """Each launch holds what it works on until it is done."""
    failures = []

    def work():
        for _ in range(40):
            x, out = engine.ones(20_000, dtype=float), zeros(20_000)
            launch(copy_up, 20_000, [x, out])
            if not (out.numpy() == 2.0).all():
                failures.append(out.numpy())
            del x, out

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not failures and not any(worker.is_alive() for worker in workers)
