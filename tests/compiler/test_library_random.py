"""Random numbers: the stream, the state that calls leave behind, the distributions."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.context import array, empty, launch
from engine.errors import CompileError


def hash_pcg(state: int) -> int:
    """The generator in Python's integers, from the formula of the paper."""
    b = (state * 747796405 + 2891336453) & 0xFFFFFFFF
    c = (((b >> ((b >> 28) + 4)) ^ b) * 277803737) & 0xFFFFFFFF
    return (c >> 22) ^ c


@k.kernel
def draw(seed: int, u: k.array(dtype=k.uint32, ndim=2), f: k.array(dtype=float, ndim=2)):
    i = k.tid()
    state = k.rand_init(seed, i)
    for j in range(u.shape[1]):
        u[i, j] = k.randu(state)
        if j % 2 == 0:
            f[i, j] = k.randf(state)
        else:
            f[i, j] = k.randn(state)


def test_calls_advance_the_state(device: str) -> None:
    n, m = 8, 5
    u = empty((n, m), dtype=k.uint32, device=device)
    f = empty((n, m), dtype=float, device=device)
    launch(draw, dim=n, inputs=[7, u, f], device=device)
    for i in range(n):
        state = hash_pcg(7 + hash_pcg(i))
        for j in range(m):
            state = hash_pcg(state)
            assert u.numpy()[i, j] == state
            state = hash_pcg(state)
            if j % 2 == 0:
                assert f.numpy()[i, j] == (state >> 8) / 2**24
            else:
                first, state = state, hash_pcg(state)
                radius = np.sqrt(-2 * np.log(max(first >> 8, 1e-9) / 2**24))
                expected = radius * np.cos(2 * np.pi * (state >> 8) / 2**24)
                np.testing.assert_allclose(f.numpy()[i, j], expected, rtol=1e-5, atol=1e-6)


@k.kernel
def advance(states: k.array(dtype=k.uint32), out: k.array(dtype=int)):
    i = k.tid()
    out[i] = k.randi(states[i], -3, 4)
    out[i] = out[i] + 10 * k.randi(k.rand_init(i), 0, 2)


def test_the_state_may_be_an_array_element_or_a_temporary(device: str) -> None:
    start = np.arange(100, dtype=np.uint32)
    states, out = array(start, dtype=k.uint32, device=device), empty(100, dtype=int, device=device)
    launch(advance, dim=100, inputs=[states, out], device=device)
    assert list(states.numpy()) == [hash_pcg(int(s)) for s in start]
    expected = [hash_pcg(int(s)) % 7 - 3 + 10 * (hash_pcg(hash_pcg(int(s))) % 2) for s in start]
    assert list(out.numpy()) == expected


@k.kernel
def sample(f: k.array(dtype=float), g: k.array(dtype=float), h: k.array(dtype=float)):
    i = k.tid()
    state = k.rand_init(3, i)
    f[i] = k.randf(state)
    g[i] = k.randf(state, -2.0, 6.0)
    h[i] = k.randn(state)


def test_distributions(device: str) -> None:
    """Moments of 200 000 samples within five standard errors; no number repeats from stream to stream."""
    n = 200_000
    f, g, h = (empty(n, dtype=float, device=device) for _ in range(3))
    launch(sample, dim=n, inputs=[f, g, h], device=device)
    f, g, h = (x.numpy().astype(np.float64) for x in (f, g, h))
    bound = 5 / np.sqrt(n)
    assert f.min() >= 0 and f.max() < 1 and abs(f.mean() - 0.5) < bound * 0.29 and abs(f.var() - 1 / 12) < bound * 0.075
    assert g.min() >= -2 and g.max() <= 6 and abs(g.mean() - 2) < bound * 2.31
    assert np.isfinite(h).all() and abs(h.mean()) < bound and abs(h.var() - 1) < bound * 1.42
    assert abs((h**4).mean() - 3) < bound * 9.8 and abs(np.corrcoef(f, g)[0, 1]) < bound
    assert abs(np.corrcoef(f[1:], f[:-1])[0, 1]) < bound and np.unique(f).size > 0.98 * n


@k.kernel
def draw_by_keyword(out: k.array(dtype=float)):
    state = k.rand_init(7)
    out[0] = k.randf(state=state)
    out[1] = k.randf(low=2.0, high=3.0, state=state)


renamed = k.randf


@k.kernel
def draw_under_another_name(out: k.array(dtype=float)):
    state = k.rand_init(7)
    out[0] = renamed(state)
    out[1] = 2.0 + renamed(state)


def test_the_state_by_keyword_and_a_call_under_another_name(device: str) -> None:
    first = hash_pcg(7)
    numbers = [np.float32((hash_pcg(s) >> 8) / 2**24) for s in (first, hash_pcg(first))]
    for kernel in (draw_by_keyword, draw_under_another_name):
        out = empty(2, dtype=float, device=device)
        launch(kernel, dim=1, inputs=[out], device=device)
        np.testing.assert_allclose(out.numpy(), [numbers[0], 2 + numbers[1]], rtol=1e-7)


@k.func
def halve(x: k.ref[float]):
    x = 0.5 * x


@pytest.mark.parametrize("changes", [k.randf, halve])
def test_a_call_whose_function_is_known_too_late_is_refused(changes) -> None:
    """What a function changes must be known before its caller is read: one that is passed in can change nothing."""
    @k.func
    def apply(function, state: float):
        s = k.uint32(3) if k.static(changes is k.randf) else state
        function(s)
        return float(s)

    @k.kernel
    def hidden(out: k.array(dtype=float)):
        out[0] = apply(changes, 1.0)

    with pytest.raises(CompileError, match=rf"{changes.__name__}\(\) changes .*: call it by that name"):
        launch(hidden, dim=1, inputs=[empty(1, dtype=float)])


def test_python_scope_gives_the_number_only() -> None:
    state = k.rand_init(7, 2)
    assert state == hash_pcg(7 + hash_pcg(2)) and type(state) is np.uint32
    assert k.randu(state) == hash_pcg(int(state)) and k.randf(state) == np.float32((hash_pcg(int(state)) >> 8) / 2**24)
    assert 0 <= k.randi(state, 0, 5) < 5
