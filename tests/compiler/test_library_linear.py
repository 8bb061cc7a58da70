"""Vectors, matrices, quaternions, transforms and spatial vectors against NumPy, in float32 and float64."""

import itertools
from typing import Any

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.compiler.values import matrix, quaternion, transformation, vector
from engine.context import array, empty, launch
from tests.compiler.library_runner import binary, ternary, unary

N = 64
DTYPES = [k.float32, k.float64]


def tolerance(t: Any) -> dict[str, float]:
    return {"rtol": 0.0, "atol": 3e-5 if t == k.float32 else 1e-13}


def close(got: np.ndarray, expected: np.ndarray, t: Any, scale: float = 1.0) -> None:
    limits = tolerance(t)
    np.testing.assert_allclose(got, expected, rtol=0, atol=limits["atol"] * scale)


def normal(rng: np.random.Generator, t: Any, *shape: int) -> np.ndarray:
    return rng.normal(size=(N, *shape)).astype(t.numpy)


def quats(rng: np.random.Generator, t: Any) -> np.ndarray:
    q = rng.normal(size=(N, 4))
    return (q / np.linalg.norm(q, axis=1, keepdims=True)).astype(t.numpy)


def poses(rng: np.random.Generator, t: Any) -> np.ndarray:
    return np.concatenate([normal(rng, t, 3), quats(rng, t)], axis=1)


def rotation(q: np.ndarray) -> np.ndarray:
    """Rotation matrices of unit quaternions by the definition q v q⁻¹, independent of the library's formula."""
    out = np.empty((len(q), 3, 3))
    for axis in range(3):
        v = np.zeros((len(q), 4))
        v[:, axis] = 1
        out[:, :, axis] = hamilton(hamilton(q.astype(float), v), q * [-1, -1, -1, 1])[:, :3]
    return out


def hamilton(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    av, aw, bv, bw = a[:, :3], a[:, 3:], b[:, :3], b[:, 3:]
    w = aw * bw - (av * bv).sum(1, keepdims=True)
    return np.concatenate([aw * bv + bw * av + np.cross(av, bv), w], axis=1)


def homogeneous(pose: np.ndarray) -> np.ndarray:
    m = np.tile(np.eye(4), (len(pose), 1, 1))
    m[:, :3, :3], m[:, :3, 3] = rotation(pose[:, 3:]), pose[:, :3]
    return m


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 6])
def test_vector_products_and_lengths(n: int, t: Any, rng: np.random.Generator, device: str) -> None:
    vec, mat = vector(n, t), matrix((n, n), t)
    a, b = normal(rng, t, n), normal(rng, t, n)
    close(binary(k.dot, (vec, vec), t, device)(a, b), (a * b).sum(1), t)
    close(unary(k.length, vec, t, device)(a), np.linalg.norm(a, axis=1), t)
    close(unary(k.length_sq, vec, t, device)(a), (a * a).sum(1), t)
    close(unary(k.normalize, vec, vec, device)(a), a / np.linalg.norm(a, axis=1, keepdims=True), t)
    close(binary(k.distance, (vec, vec), t, device)(a, b), np.linalg.norm(a - b, axis=1), t)
    close(binary(k.cw_mul, (vec, vec), vec, device)(a, b), a * b, t)
    close(binary(k.cw_div, (vec, vec), vec, device)(a, b + 10), a / (b + 10), t)
    close(binary(k.outer, (vec, vec), mat, device)(a, b), a[:, :, None] * b[:, None, :], t)
    close(unary(k.diag, vec, mat, device)(a), np.stack([np.diag(v) for v in a]), t)


@pytest.mark.parametrize("t", [*DTYPES, k.int32])
def test_smallest_and_largest(t: Any, rng: np.random.Generator, device: str) -> None:
    vec = vector(4, t)
    a, b = ((10 * normal(rng, k.float64, 4)).astype(t.numpy) for _ in range(2))
    assert np.array_equal(unary(k.min, vec, t, device)(a), a.min(1))
    assert np.array_equal(unary(k.max, vec, t, device)(a), a.max(1))
    assert np.array_equal(unary(k.argmin, vec, k.int32, device)(a), a.argmin(1))
    assert np.array_equal(unary(k.argmax, vec, k.int32, device)(a), a.argmax(1))
    assert np.array_equal(binary(k.min, (vec, vec), vec, device)(a, b), np.minimum(a, b))
    assert np.array_equal(binary(k.max, (vec, vec), vec, device)(a, b), np.maximum(a, b))
    assert np.array_equal(ternary(k.min, (t, t, t), t, device)(a[:, 0], a[:, 1], a[:, 2]), a[:, :3].min(1))


def test_zero_vector_normalizes_to_zero(device: str) -> None:
    assert np.array_equal(unary(k.normalize, k.vec3, k.vec3, device)(np.zeros((4, 3), np.float32)), np.zeros((4, 3)))
    assert np.array_equal(unary(k.normalize, k.quat, k.quat, device)(np.zeros((4, 4), np.float32)), np.zeros((4, 4)))


@pytest.mark.parametrize("t", DTYPES)
def test_cross_and_skew(t: Any, rng: np.random.Generator, device: str) -> None:
    vec, mat = vector(3, t), matrix((3, 3), t)
    a, b = normal(rng, t, 3), normal(rng, t, 3)
    close(binary(k.cross, (vec, vec), vec, device)(a, b), np.cross(a, b), t)
    close(unary(k.skew, vec, mat, device)(a) @ b[:, :, None], np.cross(a, b)[:, :, None], t)


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_square_matrices(n: int, t: Any, rng: np.random.Generator, device: str) -> None:
    vec, mat = vector(n, t), matrix((n, n), t)
    a, b, v = normal(rng, t, n, n), normal(rng, t, n, n), normal(rng, t, n)
    well = (a + 4 * np.eye(n)).astype(t.numpy)
    close(binary(k.mul_mat_mat, (mat, mat), mat, device)(a, b), a.astype(float) @ b, t)
    close(binary(k.mul_mat_vec, (mat, vec), vec, device)(a, v), np.einsum("nij,nj->ni", a, v), t)
    close(binary(k.mul_vec_mat, (vec, mat), vec, device)(v, a), np.einsum("nj,nji->ni", v, a), t)
    close(unary(k.transpose, mat, mat, device)(a), a.swapaxes(1, 2), t)
    close(unary(k.trace, mat, t, device)(a), np.trace(a, axis1=1, axis2=2), t)
    close(unary(k.get_diag, mat, vec, device)(a), np.diagonal(a, axis1=1, axis2=2), t)
    close(unary(k.determinant, mat, t, device)(a), np.linalg.det(a.astype(float)), t, 10)
    close(unary(k.inverse, mat, mat, device)(well), np.linalg.inv(well.astype(float)), t, 10)
    close(binary(k.ddot, (mat, mat), t, device)(a, b), (a * b).sum((1, 2)), t)
    close(binary(k.cw_mul, (mat, mat), mat, device)(a, b), a * b, t)


def test_rectangular_matrices(rng: np.random.Generator, device: str) -> None:
    t = k.float32
    mat23, mat34, mat24 = matrix((2, 3), t), matrix((3, 4), t), matrix((2, 4), t)
    a, b, v = normal(rng, t, 2, 3), normal(rng, t, 3, 4), normal(rng, t, 3)
    close(binary(times, (mat23, mat34), mat24, device)(a, b), a @ b, t)
    close(binary(k.mul_mat_vec, (mat23, k.vec3), k.vec2, device)(a, v), np.einsum("nij,nj->ni", a, v), t)
    close(unary(k.transpose, mat23, matrix((3, 2), t), device)(a), a.swapaxes(1, 2), t)


@k.func
def times(a, b):
    return a @ b


def test_a_singular_matrix_has_the_zero_inverse(device: str) -> None:
    for n in (2, 3, 4):
        mat = matrix((n, n), k.float32)
        assert np.array_equal(unary(k.inverse, mat, mat, device)(np.ones((3, n, n), np.float32)), np.zeros((3, n, n)))


@pytest.mark.parametrize("t", DTYPES)
def test_eigenvectors_of_symmetric_matrices(t: Any, rng: np.random.Generator, device: str) -> None:
    mat, vec = matrix((3, 3), t), vector(3, t)
    a = normal(rng, t, 3, 3)
    a = (a + a.swapaxes(1, 2)) / 2
    a[:3] = [np.diag([3, 1, 2]), np.zeros((3, 3)), np.ones((3, 3))]

    @k.func
    def rebuilt(m):
        v, d = k.eig3(m)
        return v @ k.diag(d) @ k.transpose(v)

    @k.func
    def square(m):
        v, _ = k.eig3(m)
        return k.transpose(v) @ v

    @k.func
    def values(m):
        _, d = k.eig3(m)
        return d

    close(unary(rebuilt, mat, mat, device)(a), a, t)
    close(unary(square, mat, mat, device)(a), np.tile(np.eye(3), (N, 1, 1)), t)
    close(np.sort(unary(values, mat, vec, device)(a), axis=1), np.linalg.eigvalsh(a.astype(float)), t)


@pytest.mark.parametrize("t", DTYPES)
def test_quaternion_algebra(t: Any, rng: np.random.Generator, device: str) -> None:
    quat, vec, mat = quaternion(t), vector(3, t), matrix((3, 3), t)
    a, b, v = quats(rng, t), quats(rng, t), normal(rng, t, 3)
    r = rotation(a)
    close(binary(k.mul_quat_quat, (quat, quat), quat, device)(a, b), hamilton(a, b), t)
    close(binary(k.quat_rotate, (quat, vec), vec, device)(a, v), np.einsum("nij,nj->ni", r, v), t)
    close(binary(k.quat_rotate_inv, (quat, vec), vec, device)(a, v), np.einsum("nji,nj->ni", r, v), t)
    close(unary(k.quat_to_matrix, quat, mat, device)(a), r, t)
    close(unary(k.quat_inverse, quat, quat, device)(a), a * [-1, -1, -1, 1], t)
    back = unary(k.quat_from_matrix, mat, quat, device)(r.astype(t.numpy))
    close(back * np.sign((back * a).sum(1, keepdims=True)), a, t)


@pytest.mark.parametrize("t", DTYPES)
def test_half_turns_become_quaternions(t: Any, device: str) -> None:
    """Matrices whose trace is −1: each branch of the conversion."""
    axes = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], float)
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    m = (2 * axes[:, :, None] * axes[:, None, :] - np.eye(3)).astype(t.numpy)
    q = unary(k.quat_from_matrix, matrix((3, 3), t), quaternion(t), device)(m)
    close(np.abs(q), np.concatenate([axes, np.zeros((7, 1))], axis=1), t)


@pytest.mark.parametrize("t", DTYPES)
def test_axis_and_angle(t: Any, rng: np.random.Generator, device: str) -> None:
    quat, vec = quaternion(t), vector(3, t)
    axis = normal(rng, t, 3)
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    angle = rng.uniform(0.01, 6.2, N).astype(t.numpy)
    q = binary(k.quat_from_axis_angle, (vec, t), quat, device)(axis, angle)
    close(q, np.concatenate([axis * np.sin(angle / 2)[:, None], np.cos(angle / 2)[:, None]], axis=1), t)

    @k.func
    def vector_of(q):
        axis, angle = k.quat_to_axis_angle(q)
        return axis * angle

    shorter = np.where(angle > np.pi, angle - 2 * np.pi, angle)  # about the opposite axis beyond a half turn
    close(unary(vector_of, quat, vec, device)(q), axis * shorter[:, None], t, 30)

    @k.func
    def vector_from_arguments(q: quat):
        axis, angle = vec(), t(0.0)
        k.quat_to_axis_angle(q, axis, angle)
        return axis * angle

    close(unary(vector_from_arguments, quat, vec, device)(q), axis * shorter[:, None], t, 30)


def about(axis: int, angle: np.ndarray) -> np.ndarray:
    """The quaternions of turns about a coordinate axis."""
    out = np.zeros((len(angle), 4))
    out[:, axis], out[:, 3] = np.sin(angle / 2), np.cos(angle / 2)
    return out


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_euler_angles(order: tuple[int, int, int], t: Any, rng: np.random.Generator, device: str) -> None:
    """Turns about three fixed axes in any order; half of the middle angles are at or close to a quarter turn."""
    first, second, third = order
    e = rng.uniform(-3.1, 3.1, (N, 3))
    e[:, second] /= 2
    e[: N // 2, second] = np.pi / 2 * rng.choice([-1, 1], N // 2) * (1 - 10.0 ** rng.uniform(-9, -2, N // 2))
    e[0, second] = np.pi / 2
    e = e.astype(t.numpy)
    turns = [about(axis, e[:, axis].astype(float)) for axis in order]
    expected = hamilton(turns[2], hamilton(turns[1], turns[0]))
    vec, quat = vector(3, t), quaternion(t)

    @k.func
    def from_euler(e: vec):
        return k.quat_from_euler(e, first, second, third)

    @k.func
    def to_euler(q: quat):
        return k.quat_to_euler(q, first, second, third)

    q = unary(from_euler, vec, quat, device)(e)
    close(q, expected, t)
    back = unary(to_euler, quat, vec, device)(q)
    assert (np.abs(back) <= np.float32(np.pi)).all() and (np.abs(back[:, second]) < 1.5708).all()
    close(back[N // 2 :], e[N // 2 :], t, 100)
    again = unary(from_euler, vec, quat, device)(back)
    close(again * np.sign((again * q).sum(1, keepdims=True)), q, t)
    assert k.quat_from_euler(k.vec3(0.3, 0.0, 0.0), 0, 1, 2) == k.quat_from_axis_angle(k.vec3(1, 0, 0), 0.3)


@pytest.mark.parametrize("t", DTYPES)
def test_swing_and_twist(t: Any, rng: np.random.Generator, device: str) -> None:
    vec, quat = vector(3, t), quaternion(t)
    axis = normal(rng, t, 3)
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    side = np.cross(axis, normal(rng, t, 3))
    side = (side / np.linalg.norm(side, axis=1, keepdims=True)).astype(t.numpy)
    turn = binary(k.quat_from_axis_angle, (vec, t), quat, device)
    angle = rng.uniform(-6.2, 6.2, N).astype(t.numpy)
    twist, swing = turn(axis, angle), turn(side, rng.uniform(-2, 2, N).astype(t.numpy))
    q = hamilton(swing, twist).astype(t.numpy)
    close(binary(k.quat_twist, (vec, quat), quat, device)(axis, q), twist, t)
    close(binary(k.quat_twist_angle, (vec, quat), t, device)(axis, q), np.abs(angle), t)
    close(binary(k.quat_twist_angle_signed, (vec, quat), t, device)(axis, q), angle, t)


@pytest.mark.parametrize("t", DTYPES)
def test_norms(t: Any, rng: np.random.Generator, device: str) -> None:
    vec = vector(3, t)
    v = normal(rng, t, 3)
    v[0] = 0
    n = np.linalg.norm(v.astype(float), axis=1)
    delta = rng.uniform(0.5, 2, N).astype(t.numpy)
    close(unary(k.norm_l1, vec, t, device)(v), np.abs(v).sum(1), t)
    close(unary(k.norm_l2, vec, t, device)(v), n, t)
    huber = np.where(n <= delta, n**2 / 2, delta * (n - delta / 2))
    close(binary(k.norm_huber, (vec, t), t, device)(v, delta), huber, t)
    close(unary(k.norm_huber, vec, t, device)(v), np.where(n <= 1, n**2 / 2, n - 0.5), t)
    smooth = np.hypot(delta, n)
    close(binary(k.norm_pseudo_huber, (vec, t), t, device)(v, delta), smooth, t)
    close(binary(k.smooth_normalize, (vec, t), vec, device)(v, delta), v / smooth[:, None], t)
    close(unary(k.smooth_normalize, vec, vec, device)(v), v / np.hypot(1, n)[:, None], t)


@pytest.mark.parametrize("t", DTYPES)
def test_matrices_of_scaled_poses(t: Any, rng: np.random.Generator, device: str) -> None:
    vec, quat, mat = vector(3, t), quaternion(t), matrix((4, 4), t)
    p, q, s = normal(rng, t, 3), quats(rng, t), rng.uniform(0.5, 2, (N, 3)).astype(t.numpy)
    s[::2, 2] *= -1
    expected = homogeneous(np.concatenate([p, q], axis=1)) @ np.stack([np.diag([*v, 1.0]) for v in s])
    m = ternary(k.transform_compose, (vec, quat, vec), mat, device)(p, q, s)
    close(m, expected, t)

    @k.kernel
    def decompose(
        m: k.array(dtype=mat),
        p: k.array(dtype=vec),
        q: k.array(dtype=quat),
        r: k.array(dtype=quat),
        s: k.array(dtype=vec),
    ):
        i = k.tid()
        p[i], q[i], s[i] = k.transform_decompose(m[i])
        r[i] = k.quat_from_matrix(m[i])

    out = [empty(N, dtype=d, device=device) for d in (vec, quat, quat, vec)]
    launch(decompose, dim=N, inputs=[array(m, dtype=mat, device=device), *out], device=device)
    got_p, got_q, _, got_s = (a.numpy() for a in out)
    close(got_p, p, t)
    close(got_s, s, t)
    close(got_q * np.sign((got_q * q).sum(1, keepdims=True)), q, t)
    rigid = homogeneous(np.concatenate([p, q], axis=1)).astype(t.numpy)
    launch(decompose, dim=N, inputs=[array(rigid, dtype=mat, device=device), *out], device=device)
    got = out[2].numpy()
    close(got * np.sign((got * q).sum(1, keepdims=True)), q, t)


@pytest.mark.parametrize("t", DTYPES)
def test_parts_of_transforms_are_set(t: Any, rng: np.random.Generator, device: str) -> None:
    vec, quat, pose = vector(3, t), quaternion(t), transformation(t)
    p, q = normal(rng, t, 3), quats(rng, t)

    @k.func
    def assembled(p: vec, q: quat):
        out = pose()
        k.transform_set_translation(out, p)
        k.transform_set_rotation(out, q)
        return out

    got = binary(assembled, (vec, quat), pose, device)(p, q)
    assert np.array_equal(got, np.concatenate([p, q], axis=1))
    one = k.transform_identity()
    k.transform_set_translation(one, k.vec3(1, 2, 3))
    assert list(one) == [1, 2, 3, 0, 0, 0, 1]


@pytest.mark.parametrize("t", DTYPES)
def test_spatial_adjoints_and_velocities(t: Any, rng: np.random.Generator, device: str) -> None:
    spatial, vec, mat = vector(6, t), vector(3, t), matrix((3, 3), t)
    pose, s = poses(rng, t), normal(rng, t, 6)
    r = rotation(pose[:, 3:]).astype(t.numpy)
    skew = np.cross(pose[:, None, :3], np.eye(3)).transpose(0, 2, 1) @ r
    adjoint = binary(k.spatial_adjoint, (mat, mat), matrix((6, 6), t), device)(r, skew.astype(t.numpy))
    wrench = binary(k.transform_wrench, (transformation(t), spatial), spatial, device)(pose, s)
    close((adjoint @ s[:, :, None])[:, :, 0], wrench, t)
    assert not adjoint[:, :3, 3:].any()
    offset = normal(rng, t, 3)
    velocity = binary(k.velocity_at_point, (spatial, vec), vec, device)(s, offset)
    close(velocity, s[:, :3] + np.cross(s[:, 3:], offset), t)


@pytest.mark.parametrize("t", DTYPES)
def test_roll_pitch_yaw(t: Any, rng: np.random.Generator, device: str) -> None:
    roll, pitch, yaw = (rng.uniform(-1.5, 1.5, N).astype(t.numpy) for _ in range(3))
    q = ternary(k.quat_rpy, (t, t, t), quaternion(t), device)(roll, pitch, yaw)

    close(q, hamilton(about(2, yaw), hamilton(about(1, pitch), about(0, roll))), t)
    close(unary(k.quat_to_rpy, quaternion(t), vector(3, t), device)(q), np.stack([roll, pitch, yaw], axis=1), t, 30)


@pytest.mark.parametrize("t", DTYPES)
def test_rotation_vectors(t: Any, rng: np.random.Generator, device: str) -> None:
    """exp and log are inverse to each other, from 1e-12 to nearly pi."""
    quat, vec = quaternion(t), vector(3, t)
    v = normal(rng, t, 3)
    v *= (np.geomspace(1e-12, 3.14, N) / np.linalg.norm(v, axis=1))[:, None].astype(t.numpy)
    angle = np.linalg.norm(v.astype(float), axis=1, keepdims=True)
    q = unary(k.quat_exp, vec, quat, device)(v)
    close(q, np.concatenate([v / angle * np.sin(angle / 2), np.cos(angle / 2)], axis=1), t)
    np.testing.assert_allclose(unary(k.quat_log, quat, vec, device)(q), v, rtol=1e-4 if t == k.float32 else 1e-12)
    np.testing.assert_allclose(unary(k.quat_log, quat, vec, device)(-q), v, rtol=1e-4 if t == k.float32 else 1e-12)


@pytest.mark.parametrize("t", DTYPES)
def test_integration_is_the_exponential_map(t: Any, rng: np.random.Generator, device: str) -> None:
    """A constant angular velocity turns by exactly |w| dt about w, in the world frame, whatever the step."""
    quat, vec = quaternion(t), vector(3, t)
    q, w = quats(rng, t), normal(rng, t, 3) * 5
    dt = np.geomspace(1e-6, 1, N).astype(t.numpy)
    angle = np.linalg.norm(w.astype(float), axis=1) * dt
    axis = w / np.linalg.norm(w.astype(float), axis=1, keepdims=True)
    turn = np.concatenate([axis * np.sin(angle / 2)[:, None], np.cos(angle / 2)[:, None]], axis=1)
    close(ternary(k.quat_integrate, (quat, vec, t), quat, device)(q, w, dt), hamilton(turn, q), t)


@pytest.mark.parametrize("t", DTYPES)
def test_slerp(t: Any, rng: np.random.Generator, device: str) -> None:
    """The rotation from a has the fraction s of the angle between a and b."""
    quat = quaternion(t)
    a, b, s = quats(rng, t), quats(rng, t), rng.uniform(0, 1, N).astype(t.numpy)
    b[:8] = a[:8] + 1e-4 * b[:8]
    b[:8] /= np.linalg.norm(b[:8], axis=1, keepdims=True)
    c = ternary(k.quat_slerp, (quat, quat, t), quat, device)(a, b, s).astype(float)
    close(np.linalg.norm(c, axis=1), np.ones(N), t)

    def angle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        d = hamilton(x.astype(float) * [-1, -1, -1, 1], y.astype(float))
        return 2 * np.arctan2(np.linalg.norm(d[:, :3], axis=1), np.abs(d[:, 3]))

    close(angle(a, c), s * angle(a, b), t, 3)
    close(angle(c, b), (1 - s) * angle(a, b), t, 3)


@pytest.mark.parametrize("t", DTYPES)
def test_rotation_between_vectors(t: Any, rng: np.random.Generator, device: str) -> None:
    vec, quat = vector(3, t), quaternion(t)
    a, b = normal(rng, t, 3), normal(rng, t, 3)
    b[:6] = -a[:6]
    b[6:12] = a[6:12] * 2
    q = binary(k.quat_between_vectors, (vec, vec), quat, device)(a, b)
    turned = np.einsum("nij,nj->ni", rotation(q), a / np.linalg.norm(a, axis=1, keepdims=True))
    close(turned, b / np.linalg.norm(b, axis=1, keepdims=True), t, 20)
    close(np.linalg.norm(q, axis=1), np.ones(N), t)


@pytest.mark.parametrize("t", DTYPES)
def test_transforms(t: Any, rng: np.random.Generator, device: str) -> None:
    pose, vec, mat = transformation(t), vector(3, t), matrix((4, 4), t)
    a, b, p = poses(rng, t), poses(rng, t), normal(rng, t, 3)
    ha, hb, one = homogeneous(a), homogeneous(b), np.ones((N, 1))
    product = binary(k.transform_multiply, (pose, pose), pose, device)(a, b)
    close(homogeneous(product), ha @ hb, t)
    close(homogeneous(unary(k.transform_inverse, pose, pose, device)(a)), np.linalg.inv(ha), t)
    expected = np.einsum("nij,nj->ni", ha, np.concatenate([p, one], axis=1))[:, :3]
    close(binary(k.transform_point, (pose, vec), vec, device)(a, p), expected, t)
    close(binary(k.transform_point, (mat, vec), vec, device)(ha, p), expected, t)
    turned = np.einsum("nij,nj->ni", ha[:, :3, :3], p)
    close(binary(k.transform_vector, (pose, vec), vec, device)(a, p), turned, t)
    close(binary(k.transform_vector, (mat, vec), vec, device)(ha, p), turned, t)
    close(unary(k.transform_to_matrix, pose, mat, device)(a), ha, t)
    close(homogeneous(unary(k.transform_from_matrix, mat, pose, device)(ha)), ha, t)
    assert np.array_equal(unary(k.transform_get_translation, pose, vec, device)(a), a[:, :3])
    assert np.array_equal(unary(k.transform_get_rotation, pose, quaternion(t), device)(a), a[:, 3:])


@pytest.mark.parametrize("t", DTYPES)
def test_spatial_vectors(t: Any, rng: np.random.Generator, device: str) -> None:
    """Twists and wrenches are dual: their power does not depend on the frame, nor on a common motion."""
    six, pose, vec = vector(6, t), transformation(t), vector(3, t)
    s, f, m, x = normal(rng, t, 6), normal(rng, t, 6), normal(rng, t, 6), poses(rng, t)
    assert np.array_equal(unary(k.spatial_top, six, vec, device)(s), s[:, :3])
    assert np.array_equal(unary(k.spatial_bottom, six, vec, device)(s), s[:, 3:])
    close(binary(k.spatial_dot, (six, six), t, device)(s, f), (s * f).sum(1), t)
    twist = binary(k.transform_twist, (pose, six), six, device)(x, s)
    wrench = binary(k.transform_wrench, (pose, six), six, device)(x, f)
    close((twist * wrench).sum(1), (s * f).sum(1), t, 10)
    r = rotation(x[:, 3:])
    w = np.einsum("nij,nj->ni", r, s[:, 3:])
    close(twist, np.concatenate([np.einsum("nij,nj->ni", r, s[:, :3]) + np.cross(x[:, :3], w), w], axis=1), t, 3)
    change = binary(k.spatial_cross, (six, six), six, device)(m, s)
    dual = binary(k.spatial_cross_dual, (six, six), six, device)(m, f)
    close((change * f).sum(1) + (s * dual).sum(1), np.zeros(N), t, 10)


@pytest.mark.parametrize("t", DTYPES)
def test_identities(t: Any) -> None:
    assert k.quat_identity(t) == quaternion(t)(0, 0, 0, 1)
    assert k.transform_identity(dtype=t) == transformation(t)((0, 0, 0), (0, 0, 0, 1))
    assert k.identity(n=3, dtype=t) == matrix((3, 3), t)(np.eye(3))


def test_python_scope_agrees_with_kernels(rng: np.random.Generator, device: str) -> None:
    t = k.float32
    q, v, m = quats(rng, t), normal(rng, t, 3), normal(rng, t, 3, 3)
    here = np.array([k.quat_rotate(k.quat(*a), k.vec3(*b)) for a, b in zip(q, v, strict=True)])
    close(here, binary(k.quat_rotate, (k.quat, k.vec3), k.vec3, device)(q, v), t)
    here = np.array([k.inverse(k.mat33(a)) @ k.vec3(*b) for a, b in zip(m, v, strict=True)])
    np.testing.assert_allclose(here, np.linalg.solve(m.astype(float), v[:, :, None])[:, :, 0], rtol=1e-2, atol=1e-3)
    symmetric = k.mat33(2, 1, 0, 1, 2, 0, 0, 0, 3)
    vectors, values = k.eig3(symmetric)
    assert sorted(round(x, 5) for x in values) == [1, 3, 3] and symmetric == k.mat33(2, 1, 0, 1, 2, 0, 0, 0, 3)
    assert k.normalize(k.vec3d(3, 0, 4)) == k.vec3d(0.6, 0, 0.8)


def test_types_must_agree(device: str) -> None:
    with pytest.raises(TypeError, match="dot"):
        k.dot(k.vec3(), k.vec2())
    with pytest.raises(TypeError, match="dot"):
        k.dot(k.vec3(), k.vec3d())
    with pytest.raises(TypeError, match=r"dot\(\) does not take \(vec3, vec2\)"):
        binary(k.dot, (k.vec3, k.vec2), k.float32, device)(np.zeros((1, 3), np.float32), np.zeros((1, 2), np.float32))
