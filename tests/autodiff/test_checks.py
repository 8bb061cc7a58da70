"""Checks of gradients that users call: a whole tape at once, and figures of Jacobians."""

import sys

import pytest

import engine
from engine import autograd


@engine.kernel
def square(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    y[i] = x[i] * x[i]


@engine.func
def tripled(x: float):
    return 3.0 * x


@engine.func_grad(tripled)
def adj_tripled(x: float, adj_ret: float):
    engine.adjoint[x] += 2.0 * adj_ret  # wrong on purpose


@engine.kernel
def triple(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    y[i] = tripled(x[i])


def recorded() -> engine.Tape:
    """square, right, then triple, whose own gradient is wrong."""
    x, y, z = (engine.array([1.0, 2.0, 3.0], dtype=float, device="cpu", requires_grad=True) for _ in range(3))
    tape = engine.Tape()
    with tape:
        engine.launch(square, 3, [x], [y], device="cpu")
        engine.launch(triple, 3, [y], [z], device="cpu")
    return tape


def test_a_tape_names_the_launch_that_is_wrong(capsys):
    with pytest.raises(ValueError, match="the gradient differs from finite differences: input x, output y"):
        autograd.gradcheck_tape(recorded())
    assert autograd.gradcheck_tape(recorded(), raise_exception=False) is False
    shown = capsys.readouterr().out
    assert "ok" in shown and "WRONG" in shown


def test_a_tape_without_the_wrong_launch_is_right():
    quiet = {"show_summary": False}
    assert autograd.gradcheck_tape(recorded(), blacklist_kernels=["triple"], **quiet)
    assert autograd.gradcheck_tape(recorded(), whitelist_kernels=["square"], **quiet)
    assert not autograd.gradcheck_tape(recorded(), skip_to_launch_index=1, raise_exception=False, **quiet)
    assert not autograd.gradcheck_tape(recorded(), reverse_launches=True, raise_exception=False, **quiet)


def jacobians():
    x = engine.array([1.0, 2.0], dtype=float, device="cpu", requires_grad=True)
    y = engine.zeros(2, dtype=float, device="cpu", requires_grad=True)
    return autograd.jacobian(square, 2, [x], [y]), [x], [y]


def test_a_figure_needs_inputs_and_jacobians():
    found, inputs, outputs = jacobians()
    with pytest.raises(ValueError, match="inputs must be provided"):
        autograd.jacobian_plot(found, square)
    assert autograd.jacobian_plot({}, square, inputs, outputs) is None


def test_a_figure_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"jacobian_plot needs Matplotlib: pip install 'weft-engine\[plot\]'"):
        autograd.jacobian_plot(*jacobians()[:1], square, *jacobians()[1:])


def test_a_figure_has_an_image_for_each_pair():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found, inputs, outputs = jacobians()
    figure = autograd.jacobian_plot(found, square, inputs, outputs, show_plot=False, show_colorbar=False, title="J")
    (axis,) = figure.axes
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("x", "y")
    assert axis.images[0].get_array().tolist() == [[2.0, 0.0], [0.0, 4.0]]
