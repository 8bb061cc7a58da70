"""Gradients that users write, and the errors that tell them what is wrong with one."""

import math

import pytest

import engine
from engine.compiler import lang as k


@k.func
def clipped(x: float, limit: float):
    return k.min(x * x, limit)


@k.func_grad(clipped)
def clipped_gradient(x: float, limit: float, g: float):
    k.adjoint[x] += 2.0 * x * g  # straight through the clip
    k.adjoint[limit] -= 100.0 * g


@k.func
def two(v: k.vec3, s: float):
    return v * s, k.dot(v, v)


@k.func_grad(two)
def two_gradient(v: k.vec3, s: float, g0: k.vec3, g1: float):
    k.adjoint[v] += g0 * s * 10.0
    k.adjoint[v][1] += g1
    k.adjoint[s] += k.dot(g0, v)


@k.func
def store(x: k.array(dtype=float), y: k.array(dtype=float), i: int):
    y[i] = x[i] * x[i]


@k.func_grad(store)
def store_gradient(x: k.array(dtype=float), y: k.array(dtype=float), i: int):
    k.adjoint[x][i] += 7.0 * k.adjoint[y][i]


@k.kernel
def clip(x: k.array(dtype=float), limit: k.array(dtype=float), y: k.array(dtype=float)):
    i = k.tid()
    y[i] = clipped(x[i], limit[i]) * 3.0


@k.kernel
def both(v: k.array(dtype=k.vec3), s: k.array(dtype=float), y: k.array(dtype=float)):
    a, b = two(v[0], s[0])
    y[0] = a[0] + a[2] + b


@k.kernel
def indirect(x: k.array(dtype=float), y: k.array(dtype=float)):
    store(x, y, k.tid())


def run(kernel, dim, *arrays):
    with engine.Tape() as tape:
        engine.launch(kernel, dim, inputs=list(arrays), device="cpu")
    tape.backward(grads={arrays[-1]: engine.ones_like(arrays[-1], requires_grad=False)})
    return [a.grad.numpy().tolist() for a in arrays[:-1]]


def floats(*values):
    return engine.array(values, dtype=float, device="cpu", requires_grad=True)


def test_a_function_of_scalars():
    x, limit, y = floats(3.0), floats(4.0), floats(0.0)
    assert run(clip, 1, x, limit, y) == [[18.0], [-300.0]]
    assert y.numpy().tolist() == [12.0]


def test_vectors_and_several_results():
    v = engine.array([[1.0, 2.0, 3.0]], dtype=k.vec3, device="cpu", requires_grad=True)
    assert run(both, 1, v, floats(5.0), floats(0.0)) == [[[50.0, 1.0, 50.0]], [4.0]]


def test_a_function_that_stores():
    assert run(indirect, 2, floats(3.0, 4.0), floats(0.0, 0.0)) == [[7.0, 7.0]]


@k.func
def square_root(x: k.array(dtype=float), y: k.array(dtype=float), i: int):
    y[i] = k.sqrt(x[i])


@k.func_grad(square_root)
def square_root_gradient(x: k.array(dtype=float), y: k.array(dtype=float), i: int):
    k.adjoint[x][i] -= 2.0 * k.adjoint[y][i]


@k.kernel
def roots(x: k.array(dtype=float), y: k.array(dtype=float)):
    square_root(x, y, k.tid())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_gradient_that_subtracts(threads):
    with engine.config.scope(threads=threads):
        assert run(roots, 2, floats(3.0, 4.0), floats(0.0, 0.0)) == [[-2.0, -2.0]]


@k.func
def scaled(calls: k.array(dtype=int), x: float, s: float):
    return x * s


@k.func
def counted(calls: k.array(dtype=int), g: float):
    k.atomic_add(calls, 0, 1)
    return g


@k.func_grad(scaled)
def scaled_gradient(calls: k.array(dtype=int), x: float, s: float, adj: float):
    k.adjoint[x] += counted(calls, adj * s)
    k.adjoint[s] += adj * x


@k.kernel
def scale(calls: k.array(dtype=int), x: k.array(dtype=float), s: k.array(dtype=float), y: k.array(dtype=float)):
    i = k.tid()
    y[i] = scaled(calls, x[i], s[i])


def test_arrays_without_a_gradient_are_arguments_too():
    calls, x, s = engine.zeros(1, dtype=int, device="cpu"), floats(3.0, 4.0), floats(2.0, 5.0)
    y = floats(0.0, 0.0)
    with engine.Tape() as tape:
        engine.launch(scale, 2, inputs=[calls, x, s, y], device="cpu")
    tape.backward(grads={y: engine.ones_like(y, requires_grad=False)})
    assert (x.grad.list(), s.grad.list(), calls.list()) == ([2, 5], [3, 4], [2])


def test_a_wrong_number_of_parameters():
    @k.func
    def f(x: float):
        return x * x

    @k.func_grad(f)
    def g(x: float):
        k.adjoint[x] += 1.0

    @k.kernel
    def kernel(x: k.array(dtype=float), y: k.array(dtype=float)):
        y[0] = f(x[0])

    with pytest.raises(engine.CompileError, match="takes 1 parameters, but needs 1 arguments and 1 adjoints"):
        run(kernel, 1, floats(1.0), floats(0.0))


def test_adjoint_elsewhere_is_an_error():
    @k.kernel
    def kernel(x: k.array(dtype=float)):
        k.adjoint[x][0] += 1.0

    with pytest.raises(engine.CompileError, match="in the gradient of a function only"):
        engine.launch(kernel, 1, inputs=[floats(1.0)], device="cpu")


def test_func_grad_of_something_else():
    with pytest.raises(TypeError, match="func_grad takes a function made by @func"):
        k.func_grad(len)


@k.func
def branchy(v: k.vec3, s: float, n: int):
    if s > 1.0:
        return k.dot(v, v) * s
    return v[n] * s


@k.func
def looped(x: float, n: int):
    p = 1.0
    for _i in range(n):
        p = p * x
    return p


@k.func
def summed(x: float, n: int):
    p = 0.0
    for i in range(n):
        p += k.sin(x * float(i))
    return p


def test_grad_in_a_kernel():
    @k.kernel
    def kernel(x: k.array(dtype=float), y: k.array(dtype=float), z: k.array(dtype=k.vec3)):
        v, s = k.grad(branchy)(k.vec3(1.0, 2.0, 3.0), x[0], 1)
        z[0] = v
        a, b = k.grad(k.atan2)(x[0], 2.0)
        y[0], y[1], y[2], y[3] = s, a, b, k.grad(summed)(x[0], 3)
        c = k.grad(clipped)  # a function with its own gradient
        d, e = c(x[0], 4.0)
        y[4], y[5] = d, e

    y, z = engine.zeros(6, dtype=float, device="cpu"), engine.zeros(1, dtype=k.vec3, device="cpu")
    engine.launch(kernel, 1, inputs=[floats(3.0), y, z], device="cpu")
    assert z.numpy().tolist() == [[6.0, 12.0, 18.0]]


    want = [14.0, 2 / 13, -3 / 13, math.cos(3.0) + 2 * math.cos(6.0), 6.0, -100.0]
    assert y.numpy() == pytest.approx(want, rel=1e-5)


def test_grad_that_would_need_a_tape_is_refused():
    @k.kernel
    def kernel(x: k.array(dtype=float)):
        x[0] = k.grad(looped)(x[0], 3)

    with pytest.raises(engine.CompileError, match="record a launch on a tape instead"):
        engine.launch(kernel, 1, inputs=[floats(3.0)], device="cpu")


def test_a_tape_through_grad():
    """The derivative of a derivative that is spelled out in the kernel is exact, too."""

    @k.func
    def cube(x: float):
        return x * x * x

    @k.kernel
    def kernel(x: k.array(dtype=float), y: k.array(dtype=float)):
        y[0] = k.grad(cube)(x[0])

    assert run(kernel, 1, floats(2.0), floats(0.0)) == [[12.0]]
