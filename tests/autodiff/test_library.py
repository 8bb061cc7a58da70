"""Derivatives of primitives and library functions against central differences in float64, and at special points."""

import numpy as np
import pytest

import engine
from engine.compiler import lang as k

f64 = k.float64
H = 1e-6


def gradient_of(kernel, values, dtype=f64):
    """d y[0] / d x at `values`, for a kernel of (x, y)."""
    x = engine.array(np.asarray(values), dtype=dtype, device="cpu", requires_grad=True)
    y = engine.zeros(1, dtype=dtype, device="cpu", requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(kernel, 1, inputs=[x], outputs=[y], device="cpu")
    tape.backward(loss=y)
    return x.grad.numpy().copy()


def differences(kernel, values):
    """The same by central differences."""
    def f(v):
        y = engine.zeros(1, dtype=f64, device="cpu")
        engine.launch(kernel, 1, inputs=[engine.array(v, dtype=f64, device="cpu"), y], device="cpu")
        return y.numpy()[0]

    values = np.asarray(values, np.float64)
    return np.array([(f(values + H * e) - f(values - H * e)) / (2 * H) for e in np.eye(len(values))])


def unary(function):
    @k.kernel
    def kernel(x: k.array(dtype=f64), y: k.array(dtype=f64)):
        y[0] = function(x[0]) * x[1]

    return kernel


def binary(function):
    @k.kernel
    def kernel(x: k.array(dtype=f64), y: k.array(dtype=f64)):
        y[0] = function(x[0], x[1]) * x[2]

    return kernel


UNARY = {
    "sin": (0.7, -4.0, 1e4), "cos": (0.7, -4.0), "tan": (0.7, -1.2), "asin": (0.3, -0.9), "acos": (0.3, -0.9),
    "atan": (0.3, -5.0), "sinh": (0.3, -2.0), "cosh": (0.3, -2.0), "tanh": (0.3, -2.0), "exp": (0.3, -5.0, 3.0),
    "exp2": (0.3, -5.0), "expm1": (0.3, -1e-3), "log": (0.3, 12.0), "log1p": (0.3, -0.5), "log2": (0.3, 9.0),
    "log10": (0.3, 9.0), "cbrt": (0.3, -9.0), "sqrt": (0.3, 9.0), "abs": (0.3, -9.0), "floor": (0.3,),
    "degrees": (0.3,),
}  # fmt: skip
BINARY = {
    "pow": ((1.5, 2.5), (0.3, -2.0)), "atan2": ((0.3, 0.7), (-0.3, -0.7)), "hypot": ((0.3, -0.7),),
    "fmod": ((5.3, 2.0), (-5.3, 2.0)), "min": ((0.3, 0.4), (0.5, 0.4)), "max": ((0.3, 0.4), (0.5, 0.4)),
    "copysign": ((0.3, -0.4), (-0.3, -0.4)), "select_min": ((0.3, 0.4),), "select_max": ((0.3, 0.4),),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(name):
    kernel = unary(getattr(k, name))
    for x in UNARY[name]:
        assert gradient_of(kernel, [x, 1.25]) == pytest.approx(differences(kernel, [x, 1.25]), rel=2e-6, abs=1e-9)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments(name):
    kernel = binary(getattr(k, name))
    for x in BINARY[name]:
        assert gradient_of(kernel, [*x, 1.25]) == pytest.approx(differences(kernel, [*x, 1.25]), rel=2e-6, abs=1e-9)


@k.kernel
def vectors(x: k.array(dtype=f64), y: k.array(dtype=f64)):
    a, b = k.vec3d(x[0], x[1], x[2]), k.vec3d(x[3], x[4], x[5])
    c = k.cross(a, b) + k.normalize(a) * k.length(b)
    y[0] = k.dot(c, a - b) / k.length_sq(b) + k.distance(a, b)


@k.kernel
def rotations(x: k.array(dtype=f64), y: k.array(dtype=f64)):
    q = k.normalize(k.quatd(x[0], x[1], x[2], x[3]))
    v = k.quat_rotate(q, k.vec3d(x[4], x[5], x[6]))
    w = k.quat_rotate_inv(k.quat_inverse(q) * q * q, v)
    m = k.quat_to_matrix(q)
    y[0] = k.dot(m * v, w) + m[0, 1] * v[2]


@k.kernel
def matrices(x: k.array(dtype=f64), y: k.array(dtype=f64)):
    m = k.mat33d(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8])
    y[0] = k.determinant(m) + k.trace(k.inverse(m) * m * m) + k.ddot(m, k.transpose(k.inverse(m)))


@pytest.mark.parametrize(("kernel", "count"), [(vectors, 6), (rotations, 7), (matrices, 9)])
def test_linear_algebra(kernel, count):
    values = np.random.default_rng(7).uniform(0.2, 1.0, count)
    assert gradient_of(kernel, values) == pytest.approx(differences(kernel, values), rel=1e-6, abs=1e-8)


@k.kernel
def length_of(x: k.array(dtype=float), y: k.array(dtype=float)):
    v = k.vec3(x[0], x[1], x[2])
    y[0] = k.length(v) + k.length(k.normalize(v))


def test_length_and_direction_of_the_zero_vector_have_gradient_zero():
    assert gradient_of(length_of, [0.0, 0.0, 0.0], float).tolist() == [0.0, 0.0, 0.0]


@k.kernel
def guarded(x: k.array(dtype=float), y: k.array(dtype=float)):
    inverse = 1.0 / x[0]
    y[0] = k.select(x[0] > 0.0, x[1] * inverse + k.log(x[0]) + k.sqrt(x[0]), x[1])


def test_what_a_select_drops_leaves_no_nan():
    assert gradient_of(guarded, [0.0, 3.0], float).tolist() == [0.0, 1.0]
    assert gradient_of(guarded, [4.0, 8.0], float).tolist() == [-0.5 + 0.25 + 0.25, 0.25]


@k.kernel
def kinks(x: k.array(dtype=float), y: k.array(dtype=float)):
    y[0] = k.abs(x[0]) + k.max(x[1], x[2]) + k.floor(x[3]) + k.atan2(x[4], x[5]) + k.pow(x[6], 2.0) + k.pow(x[7], 0.0)


def test_kinks_take_one_side_and_nothing_becomes_nan():
    assert gradient_of(kinks, [0, 2, 2, 1.5, 0, 0, 0, 0], float).tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


@k.kernel
def squares(x: k.array(dtype=float), y: k.array(dtype=float)):
    y[0] = x[0] ** 2.0


def test_power_of_a_negative_number():
    assert gradient_of(squares, [-3.0], float).tolist() == [-6.0]


W3 = k.mat33d(*np.random.default_rng(5).normal(size=9))
W2 = k.mat22d(*np.random.default_rng(6).normal(size=4))


@k.func
def square_of(x: k.array(dtype=f64)):
    return k.mat33d(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8])


@k.kernel
def all_of_svd3(x: k.array(dtype=f64), y: k.array(dtype=f64)):
    u, s, v = k.svd3(square_of(x))
    y[0] = k.ddot(W3, u) + k.dot(W3[0], s) + k.ddot(k.transpose(W3), v)


@k.kernel
def all_of_svd2(x: k.array(dtype=f64), y: k.array(dtype=f64)):
    u, s, v = k.svd2(k.mat22d(x[0], x[1], x[2], x[3]))
    y[0] = k.ddot(W2, u) + k.dot(W2[0], s) + k.ddot(k.transpose(W2), v)


@k.kernel
def all_of_eig3(x: k.array(dtype=f64), y: k.array(dtype=f64)):
    m = square_of(x)
    q = k.mat33d()
    d = k.vec3d()
    k.eig3(m + k.transpose(m), q, d)
    y[0] = k.ddot(W3, q) + k.dot(W3[0], d)


@k.kernel
def invariants_of_eig3(x: k.array(dtype=f64), y: k.array(dtype=f64)):
    _, d = k.eig3(square_of(x))
    y[0] = d[0] + d[1] + d[2] + k.dot(d, d)


DIAGONAL = np.diag([3.0, 2.0, 0.5]).ravel()  # there Jacobi's method has nothing to do, and its steps no derivative


@pytest.mark.parametrize("kernel, values", [
    (all_of_svd3, DIAGONAL), (all_of_svd3, np.random.default_rng(1).normal(size=9)),
    (all_of_svd2, [3.0, 0.0, 0.0, 2.0]), (all_of_svd2, [0.3, -0.4, 1.2, 2.0]),
    (all_of_eig3, DIAGONAL), (all_of_eig3, np.random.default_rng(2).normal(size=9)),
])  # fmt: skip
def test_decompositions_also_where_they_have_nothing_to_do(kernel, values):
    np.testing.assert_allclose(gradient_of(kernel, values), differences(kernel, values), rtol=2e-6, atol=2e-6)


def test_eigenvalues_that_are_equal_have_the_gradient_of_the_trace():
    turn = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [-2.0, 2.0, -1.0]]) / 3
    for m in (np.eye(3), np.zeros((3, 3)), turn @ np.diag([2.0, 2.0, 3.0]) @ turn.T):
        np.testing.assert_allclose(gradient_of(invariants_of_eig3, m.ravel()).reshape(3, 3), np.eye(3) + 2 * m,
                                   atol=1e-12)  # fmt: skip
