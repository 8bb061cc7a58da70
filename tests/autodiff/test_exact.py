"""Gradients that other engines get silently wrong, each against its closed form."""

import numpy as np
import pytest

import engine
from engine.compiler import lang as k


def backward(kernel, dim, inputs, outputs, seeds=None):
    """Gradients of the float inputs, for outputs with gradient 1 (or `seeds`)."""
    with engine.Tape() as tape:
        engine.launch(kernel, dim, inputs=inputs, outputs=outputs, device="cpu")
    seeds = [np.ones(o.shape, o.dtype.numpy) for o in outputs] if seeds is None else seeds
    tape.backward(grads={o: engine.array(s, dtype=o.dtype, device="cpu") for o, s in zip(outputs, seeds, strict=True)})
    return [a.grad.numpy() for a in inputs if isinstance(a, engine.array) and a.requires_grad]


def floats(*values, **options):
    return engine.array(list(values), dtype=float, device="cpu", requires_grad=True, **options)


def result(n=1):
    return engine.zeros(n, dtype=float, device="cpu", requires_grad=True)


@engine.kernel
def used_after_the_loop(x: engine.array(dtype=float), y: engine.array(dtype=float), n: int):
    a = x[0]
    for _i in range(n):
        a = a + a
    y[0] = a * x[0] * x[0]  # n = 2: 4 x^3


def test_a_value_of_a_loop_used_after_it():
    x, y = floats(3.0), result()
    with engine.Tape() as tape:
        engine.launch(used_after_the_loop, 1, inputs=[x, y, 2], device="cpu")
    tape.backward(loss=y)
    assert x.grad.numpy().tolist() == [108.0]


@engine.kernel
def product(x: engine.array(dtype=float), n: int, y: engine.array(dtype=float)):
    p = 1.0
    for i in range(n):
        p = p * x[i]
    y[0] = p


def test_product_over_a_dynamic_range():
    (g,) = backward(product, 1, [floats(2.0, 3.0, 5.0), 3], [result()])
    assert g.tolist() == [15.0, 10.0, 6.0]


@engine.kernel
def argmax(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    best = -1.0e30
    for i in range(x.shape[0]):
        if x[i] <= best:
            continue
        best = x[i]
    y[0] = best


def test_argmax_with_continue():
    (g,) = backward(argmax, 1, [floats(1.0, 4.0, 2.0)], [result()])
    assert g.tolist() == [0.0, 1.0, 0.0]


@engine.kernel
def component_stores(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    v = engine.vec3()
    v[0] = v[0] + x[0]
    v[0] = v[0] + x[0]
    v[0] = v[0] + x[0]
    y[0] = v[0]


def test_component_stores_accumulate():
    (g,) = backward(component_stores, 1, [floats(7.0)], [result()])
    assert g.tolist() == [3.0]


@engine.kernel
def square_in_place(x: engine.array(dtype=float)):
    i = engine.tid()
    x[i] = x[i] * x[i]


def test_square_in_place():
    x = floats(3.0)
    with engine.Tape() as tape:
        engine.launch(square_in_place, 1, inputs=[x], device="cpu")
    assert x.numpy().tolist() == [9.0]
    tape.backward(grads={x: engine.array([1.0], dtype=float, device="cpu")})
    assert x.grad.numpy().tolist() == [6.0]


@engine.kernel
def square(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    y[i] = x[i] * x[i]


def test_an_array_overwritten_after_recording_is_an_error():
    x, y, z = floats(1.0, 2.0), result(2), floats(5.0, 6.0)
    with engine.Tape() as tape:
        engine.launch(square, 2, inputs=[x], outputs=[y], device="cpu")
    engine.launch(square, 2, inputs=[z], outputs=[x], device="cpu")
    with pytest.raises(engine.LaunchError, match="'x' expects the values that it had when it was recorded"):
        tape.backward(grads={y: engine.ones(2, device="cpu")})


@pytest.mark.parametrize("write", [lambda x: x.fill_(1.0), lambda x: x.assign([1.0, 2.0]), lambda x: x.zero_(),
                                   lambda x: x.__setitem__(0, 3.0)])  # fmt: skip
def test_host_writes_after_recording_are_errors(write):
    x, y = floats(1.0, 2.0), result(2)
    with engine.Tape() as tape:
        engine.launch(square, 2, inputs=[x], outputs=[y], device="cpu")
    write(x)
    with pytest.raises(engine.LaunchError, match="overwritten"):
        tape.backward(grads={y: engine.ones(2, device="cpu")})


def test_numpy_views_are_read_only_while_a_tape_needs_the_array():
    x, y = floats(1.0, 2.0), result(2)
    with engine.Tape() as tape:
        engine.launch(square, 2, inputs=[x], outputs=[y], device="cpu")
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 4.0
    tape.reset()
    x.numpy()[0] = 4.0


def test_writing_another_part_of_the_memory_is_no_error():
    states = engine.zeros((3, 2), dtype=float, device="cpu", requires_grad=True)
    states[0].assign([2.0, 3.0])
    with engine.Tape() as tape:
        for t in range(2):
            engine.launch(square, 2, inputs=[states[t]], outputs=[states[t + 1]], device="cpu")
    tape.backward(grads={states[2]: engine.ones(2, device="cpu")})
    assert states.grad.numpy()[0].tolist() == [4 * 2.0**3, 4 * 3.0**3]


@engine.kernel
def newton(x: k.array(dtype=k.float64), y: k.array(dtype=k.float64), steps: k.array(dtype=int)):
    a = x[0]
    r = a
    count = 0
    while True:
        better = (r + a / r) / engine.float64(2.0)
        count = count + 1
        if abs(better - r) < engine.float64(1.0e-14):
            break
        r = better
    y[0] = r
    steps[0] = count


def test_a_while_loop_with_break():
    x = engine.array([2.0], dtype=engine.float64, device="cpu", requires_grad=True)
    y = engine.zeros(1, dtype=engine.float64, device="cpu", requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(newton, 1, inputs=[x, y, engine.zeros(1, dtype=int, device="cpu")], device="cpu")
    tape.backward(loss=y)
    assert x.grad.numpy()[0] == pytest.approx(0.5 / np.sqrt(2.0), rel=1e-9)


@engine.kernel
def nested(x: engine.array(dtype=float), n: int, y: engine.array(dtype=float)):
    s = 0.0
    for i in range(n):
        p = 1.0
        for j in range(i, n):
            if j == i + 2:
                break
            p = p * x[j]
        s = s + p * p
    y[0] = s


def test_nested_loops_with_break():
    values = [1.5, -0.5, 2.0, 0.75]
    (g,) = backward(nested, 1, [floats(*values), 4], [result()])
    x = values
    want = [2 * x[0] * x[1] ** 2, 2 * x[1] * (x[0] ** 2 + x[2] ** 2), 2 * x[2] * (x[1] ** 2 + x[3] ** 2),
            2 * x[3] * (x[2] ** 2 + 1)]  # fmt: skip
    assert g == pytest.approx(want, rel=1e-6)


@engine.kernel
def overwritten_twice(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    y[0] = x[0] * x[0]
    y[0] = x[1] * y[0]
    y[0] = y[0] * y[0]


def test_an_element_overwritten_in_the_kernel():
    (g,) = backward(overwritten_twice, 1, [floats(3.0, 2.0)], [result()])
    assert g.tolist() == [4 * 27.0 * 4, 2 * 2.0 * 81]


@engine.kernel
def keep_constant(y: engine.array(dtype=float)):
    y[0] = 1.0


def test_a_constant_written_later_cuts_the_gradient():
    x, y = floats(3.0), result()
    with engine.Tape() as tape:
        engine.launch(square, 1, inputs=[x], outputs=[y], device="cpu")
        engine.launch(keep_constant, 1, outputs=[y], device="cpu")
    tape.backward(loss=y)
    assert x.grad.numpy().tolist() == [0.0]


def test_gradients_pass_through_arrays_without_requires_grad():
    x, between, y = floats(3.0), engine.zeros(1, device="cpu"), result()
    with engine.Tape() as tape:
        engine.launch(square, 1, inputs=[x], outputs=[between], device="cpu")
        engine.launch(square, 1, inputs=[between], outputs=[y], device="cpu")
    tape.backward(loss=y)
    assert x.grad.numpy().tolist() == [108.0]
    assert between.grad is None


@engine.kernel
def smallest(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    engine.atomic_min(y, 0, x[engine.tid()] * 2.0)


def test_atomic_min_gives_the_gradient_to_the_winner():
    x, y = floats(3.0, -1.0, 2.0, -1.0), engine.full(1, 10.0, dtype=float, device="cpu")
    with engine.Tape() as tape:
        engine.launch(smallest, 4, inputs=[x], outputs=[y], device="cpu")
    tape.backward(grads={y: engine.ones(1, device="cpu")})
    assert x.grad.numpy().tolist() == [0.0, 2.0, 0.0, 0.0]


@engine.kernel
def local_array(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    buffer = k.zeros(shape=6, dtype=float)
    for i in range(6):
        buffer[i] = x[i]
    for _round in range(3):
        for i in range(5):
            buffer[i] = buffer[i] * buffer[i + 1]
    y[0] = buffer[0]


def test_a_local_array_overwritten_in_loops():
    values = np.array([1.1, 0.9, 1.2, 0.8, 1.3, 0.7])
    (g,) = backward(local_array, 1, [floats(*values)], [result()])

    def f(v):
        b = v.copy()
        for _ in range(3):
            for i in range(5):
                b[i] = b[i] * b[i + 1]
        return b[0]

    h = 1e-6
    want = [(f(values + h * e) - f(values - h * e)) / (2 * h) for e in np.eye(6)]
    assert g == pytest.approx(want, rel=1e-5)


@engine.kernel
def aliased(a: engine.array(dtype=float), b: engine.array(dtype=float)):
    i = engine.tid()
    b[i] = a[i] * a[i] * a[i]


def test_one_array_under_two_names():
    x = floats(2.0)
    with engine.Tape() as tape:
        engine.launch(aliased, 1, inputs=[x, x], device="cpu")
    tape.backward(grads={x: engine.ones(1, device="cpu")})
    assert x.grad.numpy().tolist() == [12.0]


def test_second_derivatives_are_refused():
    x, y = floats(2.0), result()
    with engine.Tape() as tape:
        engine.launch(square, 1, inputs=[x], outputs=[y], device="cpu")
    with engine.Tape(), pytest.raises(engine.Error, match="second derivatives"):
        tape.backward(loss=y)


def test_the_tape_limit_names_the_loop():
    x, y = floats(2.0, 3.0, 5.0), result()
    with engine.config.scope(tape_limit=8), engine.Tape(), pytest.raises(engine.LaunchError, match="the loop at line"):
        engine.launch(product, 1, inputs=[x, 3], outputs=[y], device="cpu")


@engine.kernel
def bits(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.bitcast(x[0], engine.int32)
    y[0] = engine.bitcast(i + 1, engine.float32)


def test_a_float_taken_apart_is_refused_with_its_line():
    with engine.Tape(), pytest.raises(engine.CompileError, match="cannot follow a float through its bits") as caught:
        engine.launch(bits, 1, inputs=[floats(2.0)], outputs=[result()], device="cpu")
    assert caught.value.lineno == bits.func.source.first_line + 3


def test_sums_save_nothing():
    from engine.compiler.adjoint import Demand
    from engine.compiler.adjoint_program import footprint, gradient

    kinds = tuple(t for _, t in weighted_sum.params)
    active = frozenset({(0, ()), (1, ()), (3, ())})
    made = gradient(weighted_sum, kinds, Demand(active, footprint(weighted_sum, kinds).writes))
    assert made.forward is None and made.frame == 0


@engine.kernel
def weighted_sum(x: engine.array(dtype=float), w: engine.array(dtype=float), n: int, y: engine.array(dtype=float)):
    s = 0.0
    for j in range(n):
        if x[j] > 0.0:
            s += x[j] * w[j]
    y[0] = s


def test_gradient_of_a_sum():
    x, w = floats(1.0, -2.0, 3.0), floats(4.0, 5.0, 6.0)
    gx, gw = backward(weighted_sum, 1, [x, w, 3], [result()])
    assert gx.tolist() == [4.0, 0.0, 6.0] and gw.tolist() == [1.0, 0.0, 3.0]


@k.kernel
def slots(counter: k.array(dtype=int), x: k.array(dtype=float), y: k.array(dtype=float)):
    n = k.atomic_add(counter, 0, 1)
    a = x[n]
    for _round in range(n % 5):
        a = a * a * 0.5 + 0.5
    k.atomic_add(y, 0, a)


def test_trips_that_depend_on_an_atomic():
    n = 3000
    values = np.random.default_rng(2).uniform(0.2, 1.2, n)
    x, y = engine.array(values, dtype=float, device="cpu", requires_grad=True), result()
    with engine.config.scope(threads=4), engine.Tape() as tape:
        engine.launch(slots, n, inputs=[engine.zeros(1, dtype=int, device="cpu"), x, y], device="cpu")
    tape.backward(loss=y)
    want = []
    for i, a in enumerate(values):
        slope = 1.0
        for _ in range(i % 5):
            slope, a = slope * a, a * a * 0.5 + 0.5
        want.append(slope)
    assert x.grad.numpy() == pytest.approx(np.array(want), rel=1e-5)


@k.kernel
def countdown(x: k.array(dtype=float), left: k.array(dtype=int)):
    i = k.tid()
    while left[i] > 0:
        left[i] = left[i] - 1
        x[i] = x[i] * x[i]


def test_trips_that_depend_on_what_the_kernel_writes():
    x, left = floats(1.5, 1.2, 0.5), engine.array([2, 0, 1], dtype=int, device="cpu")
    with engine.Tape() as tape:
        engine.launch(countdown, 3, inputs=[x, left], device="cpu")
    assert left.numpy().tolist() == [0, 0, 0]
    tape.backward(grads={x: engine.ones(3, device="cpu")})
    assert x.grad.numpy() == pytest.approx([4 * 1.5**3, 1.0, 1.0], rel=1e-6)


def test_the_same_code_every_time():
    from engine.compiler.adjoint import Demand
    from engine.compiler.adjoint_program import footprint, gradient
    from engine.compiler.printer import print_function

    kinds = tuple(t for _, t in nested.params)
    texts = set()
    for _ in range(3):
        kernel = k.kernel(nested.fn)
        demand = Demand(frozenset({(0, ()), (2, ())}), footprint(kernel, kinds).writes)
        made = gradient(kernel, kinds, demand)
        texts.add("".join(print_function(m.mir) for m in (made.backward, made.forward, made.count)))
    assert len(texts) == 1
