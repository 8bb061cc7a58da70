"""Decompositions: reconstruction, orthogonality, order and signs on ten families of matrices."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.compiler.values import matrix, vector
from engine.context import array, launch, zeros

N = 300


@k.kernel
def decompose3(
    a: k.array(dtype=k.mat33), u: k.array(dtype=k.mat33), s: k.array(dtype=k.vec3), v: k.array(dtype=k.mat33),
    q: k.array(dtype=k.mat33), r: k.array(dtype=k.mat33)
):  # fmt: skip
    i = k.tid()
    u_, s_, v_ = k.svd3(a[i])
    q_, r_ = k.qr3(a[i])
    u[i], s[i], v[i] = u_, s_, v_
    q[i], r[i] = q_, r_


@k.kernel
def decompose2(
    a: k.array(dtype=k.mat22), u: k.array(dtype=k.mat22), s: k.array(dtype=k.vec2), v: k.array(dtype=k.mat22)
):
    i = k.tid()
    u_, s_, v_ = k.svd2(a[i])
    u[i], s[i], v[i] = u_, s_, v_


def families(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    a = rng.normal(size=(N, n, n))
    turned = np.linalg.qr(a)[0]
    rank_one = a[:, :, :1] * a[:, :1, :]
    deficient = a.copy()
    deficient[:, :, -1] = deficient[:, :, 0]
    repeated = turned * np.array([2.0, 2.0, 0.5])[:n] @ turned.transpose(0, 2, 1)
    graded = a * 10.0 ** rng.uniform(-12, 0, (N, 1, n))
    diagonal = np.eye(n) * rng.integers(-3, 4, (N, 1, n))
    return {"random": a, "rotation": turned, "rank one": rank_one, "deficient": deficient, "repeated": repeated,
            "graded": graded, "diagonal": diagonal, "zero": np.zeros((N, n, n)), "tiny": a * 1e-30,
            "huge": a * 1e30}  # fmt: skip


FAMILIES = list(families(2, np.random.default_rng(0)))


def check(a, u, s, v, tol):
    n = a.shape[1]
    scale = np.abs(a).max(axis=(1, 2), keepdims=True)
    scale[scale == 0] = 1
    eye = np.eye(n)
    assert (np.abs((u * s[:, None, :]) @ v.transpose(0, 2, 1) - a) / scale).max() <= tol
    for m in (u, v):
        assert np.abs(m @ m.transpose(0, 2, 1) - eye).max() <= tol
        assert np.abs(np.linalg.det(m) - 1).max() <= tol * n
    sizes = np.abs(s)
    assert (sizes[:, :-1] >= sizes[:, 1:] - tol * scale[:, 0]).all()
    assert (s[:, :-1] >= -tol * scale[:, 0]).all()  # only the last may be negative
    expected = np.linalg.svd(a, compute_uv=False)
    assert (np.abs(sizes - expected) / scale[:, 0]).max() <= tol


@pytest.mark.parametrize("name", FAMILIES)
def test_svd3_and_qr3(name, device, rng):
    a = families(3, rng)[name].astype(np.float32)
    outs = [zeros(N, dtype=t, device=device) for t in (k.mat33, k.vec3, k.mat33, k.mat33, k.mat33)]
    launch(decompose3, N, [array(a, dtype=k.mat33, device=device), *outs], device=device)
    u, s, v, q, r = (o.numpy().astype(np.float64) for o in outs)
    a = a.astype(np.float64)
    check(a, u, s, v, 1e-5)
    scale = np.maximum(np.abs(a).max(axis=(1, 2), keepdims=True), 1e-300)
    assert (np.abs(q @ r - a) / scale).max() <= 1e-5
    assert np.abs(q @ q.transpose(0, 2, 1) - np.eye(3)).max() <= 1e-5 and (np.tril(r, -1) == 0).all()
    assert (r[:, [0, 1], [0, 1]] >= 0).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_svd2(name, device, rng):
    a = families(2, rng)[name].astype(np.float32)
    outs = [zeros(N, dtype=t, device=device) for t in (k.mat22, k.vec2, k.mat22)]
    launch(decompose2, N, [array(a, dtype=k.mat22, device=device), *outs], device=device)
    check(a.astype(np.float64), *(o.numpy().astype(np.float64) for o in outs), 1e-5)


def test_arguments_are_written_as_in_warp(device):
    @k.kernel
    def write(a: k.array(dtype=k.mat33), out: k.array(dtype=k.mat33)):
        u = k.mat33()
        s = k.vec3()
        v = k.mat33()
        q = k.mat33()
        d = k.vec3()
        k.svd3(a[0], u, s, v)
        out[0] = u @ k.diag(s) @ k.transpose(v)
        k.eig3(a[0] + k.transpose(a[0]), q, d)
        out[1] = q @ k.diag(d) @ k.transpose(q)
        r = k.mat33()
        k.qr3(a[0], q, r)
        out[2] = q @ r

    a = np.random.default_rng(4).normal(size=(3, 3)).astype(np.float32)
    out = zeros(3, dtype=k.mat33, device=device)
    launch(write, 1, [array([a], dtype=k.mat33, device=device), out], device=device)
    np.testing.assert_allclose(out.numpy()[0], a, atol=2e-6)
    np.testing.assert_allclose(out.numpy()[1], a + a.T, atol=5e-6)
    np.testing.assert_allclose(out.numpy()[2], a, atol=2e-6)


def test_double_precision_in_python_scope():
    a = np.random.default_rng(1).normal(size=(3, 3))
    u, s, v = (np.asarray(x) for x in k.svd3(matrix((3, 3), k.float64)(a)))
    np.testing.assert_allclose(u * s @ v.T, a, atol=1e-13)
    u, s, v = (np.asarray(x) for x in k.svd2(matrix((2, 2), k.float64)(a[:2, :2])))
    np.testing.assert_allclose(u * s @ v.T, a[:2, :2], atol=1e-13)
    assert vector(3, k.float64) is k.vec3d
