"""The tape's own behaviour: copies, host functions, accumulation, structs, views, adjoint launches, threads."""

import numpy as np
import pytest

import engine
from engine.compiler import lang as k


@k.kernel
def scale(x: k.array(dtype=float), y: k.array(dtype=float), s: float):
    i = k.tid()
    y[i] = x[i] * s


@k.kernel
def total(x: k.array(dtype=float), y: k.array(dtype=float)):
    k.atomic_add(y, 0, x[k.tid()])


def floats(values, **options):
    return engine.array(values, dtype=float, device="cpu", **options)


def test_gradients_accumulate_until_zero():
    x, y = floats([1.0, 2.0], requires_grad=True), floats([0.0, 0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(scale, 2, inputs=[x, y, 3.0], device="cpu")
    for n in (1, 2):
        tape.backward(grads={y: engine.ones(2, device="cpu")})
        assert x.grad.numpy().tolist() == [3.0 * n, 3.0 * n]
    tape.zero()
    assert x.grad.numpy().tolist() == [0.0, 0.0]
    assert tape.gradients[x].numpy().tolist() == [0.0, 0.0] and x in tape.gradients
    tape.reset()
    assert not tape.launches


def test_copies_pass_gradients_on_and_use_them_up():
    x, y = floats([1.0, 2.0, 3.0], requires_grad=True), floats([0.0] * 3, requires_grad=True)
    loss = floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.copy(y, engine.clone(x))
        y[0:2].assign(floats([7.0, 7.0]))  # nothing of x is left in these
        engine.launch(total, 3, inputs=[y], outputs=[loss], device="cpu")
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [0.0, 0.0, 1.0]
    assert y.grad.numpy().tolist() == [0.0, 0.0, 0.0]


def test_an_overlapping_copy():
    y, loss = floats([1.0, 2.0, 3.0, 4.0], requires_grad=True), floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.copy(y, y, dest_offset=1, src_offset=0, count=3)
        engine.launch(total, 4, inputs=[y], outputs=[loss], device="cpu")
    tape.backward(loss)
    assert y.grad.numpy().tolist() == [2.0, 1.0, 1.0, 0.0]


def test_record_func_runs_in_its_turn():
    x, y = floats([2.0], requires_grad=True), floats([0.0], requires_grad=True)
    loss = floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        y.assign([float(x.numpy()[0]) ** 3])
        tape.record_func(lambda: x.grad.assign([3 * 4.0 * float(y.grad.numpy()[0])]), arrays=[x, y])
        engine.launch(scale, 1, inputs=[y, loss, 2.0], device="cpu")
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [24.0]


@engine.struct
class Pair:
    a: k.array(dtype=float)
    b: k.array(dtype=float)


@k.kernel
def multiply(p: Pair, y: k.array(dtype=float)):
    i = k.tid()
    y[i] = p.a[i] * p.b[i]


def test_arrays_in_a_struct():
    p = Pair()
    p.a, p.b = floats([2.0], requires_grad=True), floats([5.0], requires_grad=True)
    y = floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(multiply, 1, inputs=[p, y], device="cpu")
    tape.backward(y)
    assert p.a.grad.numpy().tolist() == [5.0]
    assert tape.gradients[p].b.numpy().tolist() == [2.0]


def test_views_share_the_gradient():
    base = floats([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = floats([0.0, 0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(scale, 2, inputs=[base[:, 1], y, 3.0], device="cpu")
    tape.backward(grads={y: engine.ones(2, device="cpu")})
    assert base.grad.numpy().tolist() == [[0.0, 3.0], [0.0, 3.0]]
    assert base[1].grad.numpy().tolist() == [0.0, 3.0]


@pytest.mark.parametrize("layout", ["aos", "planes"])
def test_layouts_of_vectors(layout):
    @k.kernel
    def lengths(x: k.array(dtype=k.vec3, layout=layout), y: k.array(dtype=float)):
        i = k.tid()
        y[i] = k.length(x[i])

    x = engine.array([[3.0, 0.0, 4.0]], dtype=k.vec3, device="cpu", layout=layout, requires_grad=True)
    y = floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(lengths, 1, inputs=[x, y], device="cpu")
    tape.backward(y)
    assert x.grad.numpy() == pytest.approx(np.array([[0.6, 0.0, 0.8]]), rel=1e-6)


def test_the_backward_pass_alone():
    x, y = floats([1.0, 2.0]), floats([0.0, 0.0])
    gx, gy = floats([0.0, 0.0]), floats([1.0, 10.0])
    engine.launch(scale, 2, inputs=[x, y, 3.0], adj_inputs=[gx, gy, None], adjoint=True, device="cpu")
    assert gx.numpy().tolist() == [3.0, 30.0]
    assert y.numpy().tolist() == [0.0, 0.0]


def test_retained_gradients_of_intermediate_results():
    x, y = floats([1.0], requires_grad=True), floats([0.0], requires_grad=True, retain_grad=True)
    loss = floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(scale, 1, inputs=[x, y, 3.0], device="cpu")
        engine.launch(scale, 1, inputs=[y, loss, 2.0], device="cpu")
    tape.backward(loss)
    assert (x.grad.numpy()[0], y.grad.numpy()[0]) == (6.0, 2.0)


@k.kernel
def neighbours(x: k.array(dtype=k.float64), y: k.array(dtype=k.float64)):
    i = k.tid()
    n = x.shape[0]
    s = k.float64(0.0)
    for j in range(i, i + 8):
        s += x[j % n] * x[i]
    y[i] = s


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_that_share_elements(threads):
    n = 5000
    values = np.random.default_rng(5).normal(size=n)
    x = engine.array(values, dtype=k.float64, device="cpu", requires_grad=True)
    y = engine.zeros(n, dtype=k.float64, device="cpu", requires_grad=True)
    with engine.config.scope(threads=threads):
        with engine.Tape() as tape:
            engine.launch(neighbours, n, inputs=[x], outputs=[y], device="cpu")
        tape.backward(grads={y: engine.ones(n, dtype=k.float64, device="cpu")})
    ahead = sum(np.roll(values, -d) for d in range(8))
    behind = sum(np.roll(values, d) for d in range(8))
    assert x.grad.numpy() == pytest.approx(ahead + behind, rel=1e-12)


def test_a_loss_that_nothing_depends_on():
    with engine.Tape() as tape:
        pass
    with pytest.raises(engine.errors.TapeError, match="requires_grad=True"):
        tape.backward(floats([0.0]))
    with pytest.raises(engine.errors.TapeError, match="scalar loss"):
        tape.backward(floats([0.0, 0.0], requires_grad=True))


def test_scopes_and_diagram():
    x, y = floats([1.0], requires_grad=True), floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        tape.record_scope_begin("steps")
        for _ in range(3):
            engine.launch(scale, 1, inputs=[x, y, 3.0], device="cpu")
        tape.record_scope_end()
    text = tape.visualize()
    assert "scale (repeated 3x)" in text and 'label="steps"' in text
    with pytest.raises(engine.errors.TapeError, match="scope not present"):
        tape.record_scope_end()


def test_nested_tapes_are_refused():
    with engine.Tape(), pytest.raises(engine.errors.TapeError, match="recording already"), engine.Tape():
        pass


@k.kernel
def read_indexed(x: engine.indexedarray(dtype=float), y: k.array(dtype=float)):
    i = k.tid()
    y[i] = x[i] * x[i]


def test_indexed_arrays():
    data = floats([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    chosen = engine.indexedarray(data, [engine.array([3, 1], dtype=int, device="cpu")])
    y = floats([0.0, 0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(read_indexed, 2, inputs=[chosen, y], device="cpu")
    tape.backward(grads={y: engine.ones(2, device="cpu")})
    assert data.grad.numpy().tolist() == [0.0, 4.0, 0.0, 8.0]


@k.kernel
def slices(x: k.array(dtype=float), y: k.array(dtype=float)):
    part = x[1:4]
    every = x[0:4:2]
    y[0] = part[0] * part[2] + every[1] * every[1]


def test_slices():
    x, y = floats([1.0, 2.0, 3.0, 4.0], requires_grad=True), floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(slices, 1, inputs=[x, y], device="cpu")
    tape.backward(y)
    assert x.grad.numpy().tolist() == [0.0, 4.0, 6.0, 2.0]


@k.func
def squares_of(part: k.array(dtype=float), x: float):
    for i in range(part.shape[0]):
        part[i] = part[i] + x * x * float(i + 1)


@k.kernel
def local_views(x: k.array(dtype=float), y: k.array(dtype=float)):
    buffer = k.zeros(shape=4, dtype=float)
    squares_of(buffer[1:3], x[0])
    squares_of(buffer[2:4], x[1])
    y[0] = buffer[1] * buffer[2] + buffer[3]


def test_views_of_local_arrays():
    a, b = 2.0, 3.0
    x, y = floats([a, b], requires_grad=True), floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(local_views, 1, inputs=[x, y], device="cpu")
    tape.backward(y)
    # buffer = [0, a², 2a² + b², 2b²]; y = 2a⁴ + a²b² + 2b²
    assert y.numpy()[0] == 2 * a**4 + a * a * b * b + 2 * b * b
    assert x.grad.numpy().tolist() == [8 * a**3 + 2 * a * b * b, 2 * a * a * b + 4 * b]


def test_assignments_to_indexed_arrays():
    x, data = floats([1.0, 2.0], requires_grad=True), floats([5.0, 6.0, 7.0, 8.0], requires_grad=True)
    loss = floats([0.0], requires_grad=True)
    chosen = engine.indexedarray(data, [engine.array([3, 1], dtype=int, device="cpu")])
    with engine.Tape() as tape:
        chosen.assign(x)
        engine.launch(total, 4, inputs=[data], outputs=[loss], device="cpu")
    tape.backward(loss)
    assert data.numpy().tolist() == [5.0, 2.0, 7.0, 1.0]
    assert x.grad.numpy().tolist() == [1.0, 1.0]
    assert data.grad.numpy().tolist() == [1.0, 0.0, 1.0, 0.0]


def test_memory_taken_over_twice_is_refused():
    memory = np.ones(3, np.float32)
    a, b = (engine.from_numpy(memory, dtype=float, device="cpu", copy=False) for _ in range(2))
    a.requires_grad = b.requires_grad = True
    with engine.Tape(), pytest.raises(engine.LaunchError, match="taken over a second time"):
        engine.launch(scale, 3, inputs=[a, b, 2.0], device="cpu")


def test_one_element_set_by_the_host():
    x, y = floats([1.0, 2.0], requires_grad=True), floats([0.0, 0.0], requires_grad=True)
    loss = floats([0.0], requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(scale, 2, inputs=[x, y, 3.0], device="cpu")
        y[0] = 7.0
        engine.launch(total, 2, inputs=[y], outputs=[loss], device="cpu")
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [0.0, 3.0]
