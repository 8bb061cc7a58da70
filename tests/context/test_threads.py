"""Several workers: the same bits whatever their number, forks, several Python threads, no OpenMP runtime."""

import os
import threading
import time

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import array, indirect, launch, threads, zeros
from engine.context.threads import CHUNK_MULTIPLE, WorkerPool, chunk_size

N = 200_000


@k.kernel
def work(x: k.array(dtype=float), y: k.array(dtype=float)):
    i = k.tid()
    s = x[i]
    for j in range(400):
        s = s * 0.99 + k.sqrt(s + float(j))
    y[i] = s


@k.kernel
def mark(out: k.array(dtype=int)):
    i = k.tid()
    out[i] = out[i] + 1


@pytest.fixture
def own_pool(monkeypatch):
    """A pool that has no OpenMP runtime, in the place of the process's own."""
    from engine.context import program_cpu

    pool = WorkerPool()
    pool._searched = True
    monkeypatch.setattr(program_cpu, "pool", pool)
    return pool


def run_region(kernel, args, n, workers):
    """All of the grid in a region, whatever it costs: the grid's cost decides otherwise."""
    launch(kernel, 1, args)
    launcher = kernel.launchers[None]
    launcher.program.run_region(launcher.pack(n, 0, n, 1, 1, 1, args), n, workers)


def test_chunks_depend_on_the_grid_alone():
    for n in (1, 15, 16, 17, 1000, 123_457, 2**31 - 1):
        assert chunk_size(n) % CHUNK_MULTIPLE == 0 and -(-n // chunk_size(n)) <= 256


def test_equal_bits_for_every_number_of_workers(rng):
    x = array(rng.random(N, np.float32))
    results, seen = [], set()
    for count in (1, 2, 4):
        with config.scope(threads=count):
            for _ in range(200):  # on a busy machine a worker may come too late for its share
                y = zeros(N)
                y.fill_(np.nan)
                threads.pool.last_workers = 1
                launch(work, N, [x, y])
                results.append(y.numpy().tobytes())
                seen.add((count, threads.pool.last_workers))
                if count == 1 or threads.pool.last_workers == count:
                    break
    assert len(set(results)) == 1
    # two processors that are busy elsewhere may never let the third and fourth worker have a share
    assert {(1, 1), (2, 2)} <= seen and max(ran for count, ran in seen if count == 4) >= 2


@pytest.mark.parametrize("n", [1, 15, 16, 17, 255, 4097, 100_003])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_thread_runs_once(n, workers):
    out = zeros(n + 64, dtype=int)
    run_region(mark, [out], n, workers)
    expected = np.zeros(n + 64)
    expected[:n] = 1
    expected[0] += 1  # the launch that compiled
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("n", [17, 100_003])
def test_without_an_openmp_runtime(n, own_pool):
    for workers in (2, 3, 2):
        out = zeros(n, dtype=int)
        run_region(mark, [out], n, workers)
        assert out.numpy()[1:].min() == out.numpy()[1:].max() == 1
    assert own_pool.last_workers >= 1 and "install the package libgomp1" in own_pool.describe()


def test_large_counted_grids():
    count, out = array([N - 3]), zeros(N, dtype=int)
    for _ in range(3):
        launch(mark, indirect(count, N), [out])
    assert out.numpy()[: N - 3].min() == 3 and not out.numpy()[N - 3 :].any()


def test_several_python_threads_launch():
    x = array(np.arange(N, dtype=np.float32))
    expected = zeros(N)
    launch(work, N, [x, expected])
    wrong = []

    def body():
        for _ in range(5):
            y = zeros(N)
            launch(work, N, [x, y])
            small = zeros(10)
            launch(work, 10, [x, small])
            if not np.array_equal(y.numpy(), expected.numpy()) or small[3] != expected[3]:
                wrong.append(1)

    with config.scope(threads=2):
        workers = [threading.Thread(target=body) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    assert not wrong and not any(worker.is_alive() for worker in workers)


def test_first_launches_from_several_python_threads():
    @k.kernel
    def fresh(out: k.array(dtype=int)):
        out[k.tid()] = 7

    outs = [zeros(3, dtype=int) for _ in range(4)]
    workers = [threading.Thread(target=launch, args=(fresh, 3, [out])) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [out.list() for out in outs] == [[7, 7, 7]] * 4


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_launches():
    """After one region, an OpenMP runtime's next region in a forked child would wait for threads that do not exist."""
    x = array(np.arange(N, dtype=np.float32))
    y = zeros(N)
    with config.scope(threads=2):
        run_region(work, [x, y], N, 2)
        expected = y.numpy().copy()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                z = zeros(N)
                for _ in range(3):
                    run_region(work, [x, z], N, 2)
                status = 0 if np.array_equal(z.numpy(), expected) and "forked child" in threads.pool.describe() else 2
            finally:
                os._exit(status)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.01)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hung")
    assert os.waitstatus_to_exitcode(status) == 0
    launch(work, N, [x, y])  # and the parent goes on
    np.testing.assert_array_equal(y.numpy(), expected)


def test_small_grids_stay_on_the_caller():
    out = zeros(1000, dtype=int)
    launch(mark, 1000, [out])
    launch(mark, 1000, [out])
    threads.pool.last_workers = -1
    for _ in range(50):
        launch(mark, 100, [out])
    assert threads.pool.last_workers == -1
