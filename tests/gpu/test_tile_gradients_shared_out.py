"""Gradients of kernels with tiles on the emulated GPU: a block shares the way back, and gives the bits of the CPU."""

from typing import Any

import numpy as np
import pytest

import engine
from engine.debug import trace

Floats, Floats2 = engine.array(dtype=float), engine.array(dtype=float, ndim=2)


@engine.kernel
def product(a: Floats2, b: Floats2, out: Floats2):
    """Blocks of a product of matrices: each element of a and b goes into many sums."""
    i, j = engine.tid()
    s = engine.tile_zeros(shape=(16, 16))
    for n in range(2):
        s += engine.tile_load(a, (16, 10), (16 * i, 10 * n)) @ engine.tile_load(b, (10, 16), (10 * n, 16 * j))
    engine.tile_store(out, s, offset=(16 * i, 16 * j))


@engine.kernel
def softmax(x: Floats2, out: Floats2):
    """Reductions, which overwrite what they read, and numbers that all elements are divided by."""
    i = engine.tid()
    t = engine.tile_load(x[i], shape=256)
    e = engine.tile_map(engine.exp, t - engine.tile_broadcast(engine.tile_max(t), shape=256))
    engine.tile_store(out[i], e / engine.tile_broadcast(engine.tile_sum(e), shape=256))


@engine.kernel
def chain(x: Floats, y: Floats):
    """Every element by itself."""
    i = engine.tid()
    t = engine.tile_load(x, shape=512, offset=512 * i - 3)
    engine.tile_store(y, engine.tile_map(engine.sin, t) * t + 0.5 * t, offset=512 * i)


@engine.kernel
def layer(x: Floats2, bias: Floats, scale: Floats, y: Floats2):
    """A row that is added to all rows, a number of the launch, neighbours, and an element that is read by itself."""
    t = engine.tile_load(x, shape=(20, 33))
    s = scale[0] * t[3, 4]
    u = t * s + engine.tile_broadcast(engine.tile_load(bias, shape=33), (20, 33))
    for k in range(2):
        u *= u[::-1] * 0.5
        u[1:20] = u[0:19] + t[0:19] * float(k)
    engine.tile_store(y, u + engine.tile_transpose(engine.tile_reshape(u, (33, 20))))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1.0, 1.0, shape).astype(np.float32)


PROGRAMS: dict[str, tuple[engine.Kernel, Any, list[np.ndarray]]] = {
    "product": (product, (2, 2), [numbers(32, 19), numbers(19, 30), numbers(32, 30)]),
    "softmax": (softmax, 3, [numbers(3, 256), numbers(3, 256)]),
    "chain": (chain, 2, [numbers(1001), numbers(1000)]),
    "layer": (layer, 1, [numbers(20, 33), numbers(33), numbers(1), numbers(20, 33)]),
}


def gradients(name: str, device: str, block_dim: int) -> list[np.ndarray]:
    kernel, dim, args = PROGRAMS[name]
    given = [engine.array(a, device=device, requires_grad=True) for a in args]
    with engine.Tape() as tape:
        engine.launch_tiled(kernel, dim=dim, inputs=given, block_dim=block_dim, device=device)
    given[-1].grad.assign(np.cos(args[-1]))
    tape.backward()
    return [a.grad.numpy() for a in given]


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_have_the_bits_of_the_cpu_and_no_races(name: str) -> None:
    wanted = [g.tobytes() for g in gradients(name, "cpu", 64)]
    spent = {}
    for block_dim in (32, 64, 256):
        with trace(("mem", "init", "race", "sync")) as report:
            found = gradients(name, "emu", block_dim)
        assert not report.findings, block_dim
        assert [g.tobytes() for g in found] == wanted, block_dim
        for row in report.kernels:
            spent[row["kernel"], block_dim] = row["thread_instructions"] / block_dim
    for kernel in ("augmented", "adjoint"):  # the threads share the work, forth and back
        each = spent[f"{name}_{kernel}_kernel", 256] / spent[f"{name}_{kernel}_kernel", 32]
        assert each < 0.5, (kernel, each)


def test_gradients_are_those_of_numpy() -> None:
    a, b, out = PROGRAMS["product"][2]
    of_a, of_b, _ = gradients("product", "cpu", 64)
    assert np.allclose(of_a, np.cos(out) @ b.T, atol=1e-5) and np.allclose(of_b, a.T @ np.cos(out), atol=1e-5)
    x, out = PROGRAMS["softmax"][2]
    e = np.exp(x - x.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    wanted = p * (np.cos(out) - (np.cos(out) * p).sum(axis=1, keepdims=True))
    assert np.allclose(gradients("softmax", "cpu", 64)[0], wanted, atol=1e-6)


def test_tiles_that_do_not_fit_are_the_work_of_one_thread() -> None:
    """48 KiB forth, and as much again for the adjoints: more than an sm_75 has for a block."""

    @engine.kernel
    def large(x: Floats, y: Floats):
        t = engine.tile_load(x, shape=6000)
        engine.tile_store(y, t * engine.tile_map(engine.cos, t))

    found = []
    for device in ("cpu", "emu:sm_75"):
        x = engine.array(numbers(6000), device=device, requires_grad=True)
        y = engine.zeros(6000, device=device, requires_grad=True)
        with engine.Tape() as tape:
            engine.launch_tiled(large, dim=1, inputs=[x, y], block_dim=64, device=device)
        y.grad.fill_(1.0)
        tape.backward()
        found.append(x.grad.numpy())
    assert found[0].tobytes() == found[1].tobytes() and found[0].any()
