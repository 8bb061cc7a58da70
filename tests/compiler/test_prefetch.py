"""`prefetch` changes no result, whatever it asks for, on any device and in gradients, and reaches the processor."""

import numpy as np
import pytest

import engine
from engine.config import config


@engine.table
class Rows:
    mass: float
    place: engine.vec3


@engine.kernel
def gather(x: engine.array2d(dtype=engine.vec3), i: engine.array(dtype=int), far: int, y: engine.array(dtype=float)):
    t = engine.tid()
    engine.prefetch(x, i[t] + far, far - t)
    y[t] = x[i[t], 0][1]


@engine.kernel
def gather_planes(rows: Rows, i: engine.array(dtype=int), y: engine.array(dtype=float)):
    t = engine.tid()
    engine.prefetch(rows.place, i[t])
    y[t] = rows.place[i[t]][1]


@pytest.mark.parametrize("far", [0, -(2**31), 2**31 - 1, 12345678])
@pytest.mark.parametrize("checked", [False, True])
def test_nothing_changes(device, far, checked):
    x = np.random.default_rng(1).normal(size=(40, 2, 3)).astype(np.float32)
    order = np.random.default_rng(2).permutation(40).astype(np.int32)
    there = engine.array(x, dtype=engine.vec3, device=device, requires_grad=not checked)
    i, y = engine.array(order, device=device), engine.full(40, np.nan, device=device, requires_grad=not checked)
    with config.scope(checked=checked and device == "cpu"):
        engine.launch(gather, 40, inputs=[there, i, far, y], device=device)
    np.testing.assert_array_equal(y.numpy(), x[order, 0, 1])


def test_gradients_pass_by():
    x = engine.ones((9, 2), dtype=engine.vec3, requires_grad=True)
    i = engine.array(np.arange(9)[::-1].copy(), dtype=int)
    y = engine.zeros(9, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(gather, 9, inputs=[x, i, 7, y])
    y.grad.assign(np.arange(9))
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy()[:, 0, 1], np.arange(9)[::-1])
    assert x.grad.numpy().sum() == 36


def test_planes_of_tables(device):
    rows = Rows(5, device=device)
    rows.place.assign(np.arange(15.0).reshape(5, 3))
    i, y = engine.array([4, 0, 2], dtype=int, device=device), engine.zeros(3, device=device)
    engine.launch(gather_planes, 3, inputs=[rows, i, y], device=device)
    assert y.numpy().tolist() == [13, 1, 7]


def test_the_machine_is_told():
    assert "llvm.prefetch" in gather.stages["llvm"] and "prefetch" in gather.stages["asm"]
