"""Gradients of programs with tiles agree with finite differences in float64."""

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.context import array, launch_tiled, zeros

RNG = np.random.default_rng(3)


def loss_of(kernel, values):
    given = [array(v, dtype=k.float64) for v in values]
    loss = zeros(1, dtype=k.float64)
    launch_tiled(kernel, dim=1, inputs=[*given, loss], block_dim=16)
    return loss.numpy()[0]


def check(kernel, *values, step=1e-6):
    """The tape's gradient of every input against central differences."""
    given = [array(v, dtype=k.float64, requires_grad=True) for v in values]
    loss = zeros(1, dtype=k.float64, requires_grad=True)
    with engine.Tape() as tape:
        launch_tiled(kernel, dim=1, inputs=[*given, loss], block_dim=16)
    tape.backward(loss)
    for n, v in enumerate(values):
        wanted = np.zeros_like(v)
        for at in np.ndindex(v.shape):
            ends = []
            for sign in (1, -1):
                moved = [w.copy() for w in values]
                moved[n][at] += sign * step
                ends.append(loss_of(kernel, moved))
            wanted[at] = (ends[0] - ends[1]) / (2 * step)
        assert np.allclose(given[n].grad.numpy(), wanted, rtol=1e-6, atol=1e-8), n


@k.kernel
def elementwise(a: k.array(dtype=k.float64, ndim=2), b: k.array(dtype=k.float64), loss: k.array(dtype=k.float64)):
    x = k.tile_load(a, shape=(2, 3), offset=(1, -1))
    y = k.tile_broadcast(k.tile_load(b, shape=3), shape=(2, 3))
    z = k.tile_map(k.sin, x * y) + k.tile_transpose(k.tile_reshape(x, shape=(3, 2)))
    z *= y
    z[1] = z[0] * z[1]
    k.tile_store(loss, k.tile_sum(z))


def test_elementwise():
    check(elementwise, RNG.random((4, 3)), RNG.random(3))


@k.kernel
def reduced(a: k.array(dtype=k.float64, ndim=2), loss: k.array(dtype=k.float64)):
    t = k.tile_load(a, shape=(3, 5))
    rows = k.tile_reduce(k.mul, t, axis=1)
    scanned = k.tile_scan_inclusive(t)
    k.tile_atomic_add(loss, k.tile_sum(rows) + k.tile_max(t) * k.tile_min(t))
    k.tile_atomic_add(loss, k.tile_sum(scanned * t))


def test_reductions_and_scans():
    check(reduced, RNG.random((3, 5)) + 0.5)


@k.kernel
def in_a_loop(a: k.array(dtype=k.float64), loss: k.array(dtype=k.float64)):
    total = k.tile_ones(2, dtype=k.float64)
    for i in range(len(a) // 2):
        x = k.tile_load(a, shape=2, offset=2 * i)
        total = total * x
        total += x
        if i == 1:
            total = k.tile_map(k.exp, total)
    k.tile_store(loss, k.tile_sum(total))


def test_names_that_are_assigned_in_loops():
    check(in_a_loop, RNG.random(6))


@pytest.mark.parametrize("count", [1, 3])
def test_blocks_add_to_the_gradient_of_what_they_share(count):
    @k.kernel
    def shared_weight(w: k.array(dtype=float), x: k.array(dtype=float), y: k.array(dtype=float)):
        i = k.tid()
        k.tile_store(y, k.tile_load(w, shape=2) * k.tile_load(x, shape=2, offset=2 * i), offset=2 * i)

    w, x, y = array([2.0, 3.0], requires_grad=True), array(np.arange(2 * count, dtype=np.float32)), zeros(2 * count)
    y.requires_grad = True
    with engine.Tape() as tape:
        launch_tiled(shared_weight, dim=count, inputs=[w, x, y], block_dim=8)
    y.grad.fill_(1.0)
    tape.backward()
    assert w.grad.numpy().tolist() == x.numpy().reshape(-1, 2).sum(axis=0).tolist()


@k.kernel
def algebra(m: k.array(dtype=k.float64, ndim=2), b: k.array(dtype=k.float64), loss: k.array(dtype=k.float64)):
    t = k.tile_load(m, shape=(3, 3))
    a = k.tile_diag_add(k.tile_matmul(t, k.tile_transpose(t)), k.tile_ones(3, dtype=k.float64))
    x = k.tile_cholesky_solve(k.tile_cholesky(a), k.tile_load(b, shape=3))
    k.tile_store(loss, k.tile_dot(x, x))


def test_products_factors_and_solutions():
    check(algebra, RNG.random((3, 3)), RNG.random(3))


@k.kernel
def sorted_spectrum(a: k.array(dtype=k.float64), w: k.array(dtype=k.float64), loss: k.array(dtype=k.float64)):
    t = k.tile_load(a, shape=6)
    k.tile_sort(t)
    z = k.tile_map(k.vec2d, t, k.tile_load(w, shape=6))
    k.tile_fft(z)
    k.tile_store(loss, k.tile_dot(z[1:4], z[0:3]))


def test_sorts_and_transforms():
    check(sorted_spectrum, RNG.random(6), RNG.random(6))
