"""Jacobians, gradcheck, and the optimisers against the formulas of their papers."""

import numpy as np
import pytest

import engine
from engine import autograd, optim
from engine.compiler import lang as k


@k.kernel
def mixed(a: k.array(dtype=float), v: k.array(dtype=k.vec3), y: k.array(dtype=k.vec2)):
    i = k.tid()
    y[i] = k.vec2(a[i] * k.length(v[i]), a[i] * a[i] + v[i][1])


@k.func
def wrong(x: float):
    return x * x


@k.func_grad(wrong)
def wrong_gradient(x: float, g: float):
    k.adjoint[x] += 3.0 * x * g


@k.kernel
def uses_wrong(x: k.array(dtype=float), y: k.array(dtype=float)):
    i = k.tid()
    y[i] = wrong(x[i])


def inputs():
    a = engine.array([2.0, -1.0], dtype=float, device="cpu", requires_grad=True)
    v = engine.array([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0]], dtype=k.vec3, device="cpu", requires_grad=True)
    return [a, v], [engine.zeros(2, dtype=k.vec2, device="cpu", requires_grad=True)]


def test_jacobians():
    ins, outs = inputs()
    found = autograd.jacobian(mixed, dim=2, inputs=ins, outputs=outs)
    assert found[0, 0].numpy() == pytest.approx(np.array([[5, 0], [4, 0], [0, 2], [0, -2]]), abs=1e-5)
    assert found[1, 0].numpy()[0] == pytest.approx([1.2, 0, 1.6, 0, 0, 0], abs=1e-5)
    near = autograd.jacobian_fd(mixed, dim=2, inputs=ins, outputs=outs, eps=1e-2)
    for pair, values in found.items():
        assert values.numpy() == pytest.approx(near[pair].numpy(), abs=2e-3)


def test_masks_and_limits():
    ins, outs = inputs()
    mask = [("v", "y")]
    found = autograd.jacobian(mixed, dim=2, inputs=ins, outputs=outs, input_output_mask=mask, max_outputs_per_var=1)
    assert list(found) == [(1, 0)]
    assert np.isnan(found[1, 0].numpy()[1:]).all() and not np.isnan(found[1, 0].numpy()[0]).any()
    with pytest.raises(ValueError, match="there is no input 'w'"):
        autograd.jacobian(mixed, dim=2, inputs=ins, outputs=outs, input_output_mask=[("w", "y")])


def test_gradcheck(capsys):
    ins, outs = inputs()
    assert autograd.gradcheck(mixed, dim=2, inputs=ins, outputs=outs, eps=1e-2)
    assert "input v" in capsys.readouterr().out
    x = engine.array([1.0, 2.0], dtype=float, device="cpu", requires_grad=True)
    y = engine.zeros_like(x)
    with pytest.raises(ValueError, match="differs from finite differences: input x, output y"):
        autograd.gradcheck(uses_wrong, dim=2, inputs=[x], outputs=[y], show_summary=False)


def test_functions_of_the_host():
    def function(x):
        y = engine.zeros_like(x)
        engine.launch(uses_wrong, len(x), inputs=[x], outputs=[y], device="cpu")
        return y

    x = engine.array([1.0, 2.0], dtype=float, device="cpu", requires_grad=True)
    assert autograd.jacobian(function, inputs=[x])[0, 0].numpy().tolist() == [[3.0, 0.0], [0.0, 6.0]]


def test_adam_is_the_formula():
    values, slopes = np.array([1.0, -2.0]), np.array([0.5, 0.1])
    p = engine.array(values, dtype=float, device="cpu")
    opt = optim.Adam([p], lr=0.1, betas=(0.8, 0.99), eps=1e-6)
    m = v = np.zeros(2)
    for t in range(1, 6):
        g = slopes * t
        opt.step([engine.array(g, dtype=float, device="cpu")])
        m, v = 0.8 * m + 0.2 * g, 0.99 * v + 0.01 * g * g
        values = values - 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-6)
        assert p.numpy() == pytest.approx(values, rel=1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_is_the_formula(nesterov):
    values = np.array([[1.0, -2.0, 3.0]])
    p = engine.array(values, dtype=k.vec3, device="cpu")
    opt = optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.01, nesterov=nesterov)
    b = None
    for t in range(1, 5):
        g = np.array([[0.3, 0.2, 0.1]]) * t
        opt.step([engine.array(g, dtype=k.vec3, device="cpu")])
        d = g + 0.01 * values
        b = d if b is None else 0.9 * b + 0.8 * d
        values = values - 0.1 * (d + 0.9 * b if nesterov else b)
        assert p.numpy() == pytest.approx(values, rel=1e-5)


def test_wrong_gradients_are_refused():
    p = engine.zeros(2, dtype=float, device="cpu")
    with pytest.raises(RuntimeError, match="must be set before calling step"):
        optim.Adam().step([])
    with pytest.raises(TypeError, match="dtype must match"):
        optim.Adam([p]).step([engine.zeros(2, dtype=int, device="cpu")])
    with pytest.raises(ValueError, match="shape must match"):
        optim.SGD([p]).step([engine.zeros(3, dtype=float, device="cpu")])
