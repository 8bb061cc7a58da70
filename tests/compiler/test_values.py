"""Python-scope values: construction, access, arithmetic, conversion, and the way to IR types and back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.compiler import types as t
from engine.compiler.values import flatten, matrix, quaternion, struct, transformation, type_of, value_class, vector
from engine.compiler.values import names as names_module

CLASSES = {name: cls for name, cls in vars(names_module).items() if hasattr(cls, "ir_type")}


@struct
class Hit:
    """A struct of a scalar, a vector and an integer that Python has no type for."""

    t: float
    n: k.vec3
    flags: k.uint32


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_maps_to_its_type_and_back(name: str) -> None:
    cls = CLASSES[name]
    assert value_class(cls.ir_type) is cls and type_of(cls()) == cls.ir_type
    assert t.components(cls.ir_type) == (cls.dtype, cls.size)
    assert np.asarray(cls()).dtype == cls.dtype.numpy and not np.asarray(cls()).any()


def test_classes_are_made_once_and_read_as_users_write_them() -> None:
    assert vector(3, float) is vector(length=3, dtype=k.float32) is k.vec3
    assert matrix((2, 2), np.float64) is k.mat22d and quaternion(float) is k.quat
    assert transformation(float) is k.transform
    for name in ("vec3", "vec4ui", "mat33d", "quat", "transform"):
        assert getattr(k, name).__name__ == repr(getattr(k, name).ir_type) == name
    assert k.spatial_vector is vector(6, float) and k.spatial_matrix is matrix((6, 6), float)


def test_vectors_are_built_as_in_kernels() -> None:
    v = k.vec3(1, 2, 3)
    assert k.vec3() == (0, 0, 0) and k.vec3(2) == (2, 2, 2)
    assert v == k.vec3((1, 2, 3)) == k.vec3([1, 2, 3]) == k.vec3(np.array([1.0, 2.0, 3.0])) == k.vec3(v) == k.vec3(*v)
    assert k.vec3d(v) == k.vec3d(1, 2, 3) and k.spatial_vector(v, v) == (1, 2, 3, 1, 2, 3)
    assert k.vec4(v, 4.0) == (1, 2, 3, 4)


def test_matrices_quaternions_and_transforms_are_built_as_in_kernels() -> None:
    m = k.mat22(1, 2, 3, 4)
    assert m == k.mat22([[1, 2], [3, 4]]) == k.mat22([1, 2], [3, 4]) == k.mat22(np.array([[1, 2], [3, 4]]))
    assert k.mat22(5) == [[5, 5], [5, 5]] and k.matrix_from_cols(k.vec2(1, 3), k.vec2(2, 4)) == m
    assert k.quat(k.vec3(1, 2, 3), 4) == (1, 2, 3, 4) and k.quat() == (0, 0, 0, 0)
    x = k.transform((0, 0, 1), k.quat_identity())
    assert (
        x
        == k.transform(0, 0, 1, 0, 0, 0, 1)
        == k.transform([0, 0, 1, 0, 0, 0, 1])
        == k.transform(((0, 0, 1), (0, 0, 0, 1)))
    )
    assert k.transform(p=(0, 0, 1)) == x == k.transform((0, 0, 1), q=(0, 0, 0, 1)) == k.transform(x)
    assert k.transform() == (0,) * 7


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: k.vec3(1, 2), ValueError, "vec3 takes 3 numbers, got 2"),
        (lambda: k.vec3("abc"), TypeError, "vec3 takes numbers, got 'abc'"),
        (lambda: k.vec3i(2**31, 0, 0), ValueError, "does not fit int32"),
        (lambda: k.vec3ui(-1, 0, 0), ValueError, "does not fit uint32"),
        (lambda: k.vec3i(float("nan"), 0, 0), ValueError, "not a whole number|does not fit"),
        (lambda: k.transform((0, 0), (0, 0, 0, 1)), ValueError, "takes 3 and 4 numbers, got 2 and 4"),
        (lambda: vector(-1, float), ValueError, "whole number from 0"),
        (lambda: vector(3, k.vec3), TypeError, "dtype must be a scalar type"),
        (lambda: vector(Any, float)(1, 2), TypeError, "pattern"),
        (lambda: k.vec3(1, 2, 3) + k.vec3d(1, 2, 3), TypeError, "unsupported operand"),
        (lambda: k.vec3(1, 2, 3) * k.vec3(1, 2, 3), TypeError, "unsupported operand"),
        (lambda: k.vec3i(1, 2, 3) * 0.5, TypeError, "unsupported operand|can't multiply"),
        (lambda: k.vec2().z, AttributeError, "no component 'z'"),
        (lambda: k.vec3()[3], IndexError, "out of bounds"),
        (lambda: k.vec3()[None], KeyError, "Invalid key None, expected int or slice"),
        (lambda: k.vec3().__setitem__("x", 1), KeyError, "Invalid key 'x', expected int or slice"),
        (lambda: k.mat22()[None], KeyError, "Invalid key None, expected int or pair of ints"),
        (lambda: k.mat22().__setitem__(None, 0), KeyError, "Invalid key None, expected int or pair of ints"),
        (lambda: k.mat22().__setitem__((0, 1, 2), 0), KeyError, "expected one or two indices, got 3"),
        (lambda: k.mat22()[..., 0], KeyError, "expected int or pair of ints"),
        (lambda: matrix((2,), float), ValueError, r"exactly two dimensions, got 1 dimension in shape \(2,\)"),
    ],
)
def test_misuse_is_refused(build: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()


def test_bytes_are_the_components_in_memory() -> None:
    assert bytes(k.quatd(1, 2, 3, 4)) == np.arange(1.0, 5.0).tobytes()
    assert bytes(k.vec3(1, 2, 3)) == np.array([1, 2, 3], np.float32).tobytes()


def test_components_are_read_and_written() -> None:
    v = k.vec4(1, 2, 3, 4)
    assert (v.x, v.y, v.z, v.w, v[0], v[-1]) == (1, 2, 3, 4, 1, 4) and v[1:3] == k.vec2(2, 3)
    v.x, v[1], v[2:4] = 10, 20, (30, 40)
    assert v == (10, 20, 30, 40) and len(v) == 4 and list(v) == [10, 20, 30, 40]
    m = k.mat33(*range(9))
    assert m[1] == k.vec3(3, 4, 5) and m[1, 2] == 5 and m[:, 0] == k.vec3(0, 3, 6) and len(m) == 3
    m[0, 0], m[2] = 9, k.vec3(1, 1, 1)
    assert m == [[9, 1, 2], [3, 4, 5], [1, 1, 1]]
    x = k.transform((1, 2, 3), (0, 0, 0, 1))
    x.p, x.q = (4, 5, 6), k.quat(1, 0, 0, 0)
    assert x.p == k.vec3(4, 5, 6) and x.q == k.quat(1, 0, 0, 0) and x[3] == 1


def test_stores_round_to_the_component_type() -> None:
    v = k.vec3(0.1, 0, 0)
    assert v.x == float(np.float32(0.1)) != 0.1 and type(v.x) is float and "0.1," in repr(v)
    assert type(k.vec3d(0.1, 0, 0).x) is np.float64 and type(k.vec3i(1, 2, 3).x) is int
    assert type(k.vec3ui(1, 2, 3).x) is np.uint32
    big = vector(2, k.uint64)(0, 2**64 - 1)
    assert int(big[1]) == 2**64 - 1


def test_arithmetic() -> None:
    a, b = k.vec3(1, 2, 3), k.vec3(4, 5, 6)
    assert a + b == (5, 7, 9) and b - a == (3, 3, 3) and -a == (-1, -2, -3) and +a == a
    assert a * 2 == 2 * a == np.float32(2) * a == (2, 4, 6) and b / 2 == (2, 2.5, 3) and 6 / a == (6, 3, 2)
    assert a + (1, 1, 1) == (2, 3, 4) == [1, 1, 1] + a
    assert k.vec3i(7, -7, 8) / 2 == (3, -3, 4) and k.vec3i(1, 2, 3) / 0 == (0, 0, 0)
    assert k.vec2i(2**31 - 1, 0) + k.vec2i(1, 0) == (-(2**31), 0)
    m = k.mat22(1, 2, 3, 4)
    assert m @ k.vec2(1, 1) == m * k.vec2(1, 1) == (3, 7) and k.vec2(1, 1) @ m == (4, 6)
    assert m @ m == m * m == [[7, 10], [15, 22]] and m * 2 == [[2, 4], [6, 8]]
    assert k.quat(1, 0, 0, 0) * k.quat(0, 1, 0, 0) == (0, 0, 1, 0)
    half = k.transform((1, 0, 0), (0, 0, 1, 0))
    assert half * half == k.transform((0, 0, 0), (0, 0, 0, -1))


def test_values_agree_with_the_library(rng: np.random.Generator) -> None:
    """The operators of values and the functions that kernels call for them compute the same."""
    a, b = (k.transform(*rng.normal(size=3), *q) for q in ((0.5, 0.5, 0.5, 0.5), (0.6, 0, 0, 0.8)))
    np.testing.assert_allclose(a * b, k.transform_multiply(a, b), atol=1e-6)
    np.testing.assert_allclose(a.q * b.q, k.mul_quat_quat(a.q, b.q), atol=1e-6)
    m, v = k.mat33(rng.normal(size=(3, 3))), k.vec3(rng.normal(size=3))
    np.testing.assert_allclose(m @ v, k.mul_mat_vec(m, v), atol=1e-6)
    np.testing.assert_allclose(v @ m, k.mul_vec_mat(v, m), atol=1e-6)


def test_comparison_and_hash() -> None:
    assert k.vec3(1, 2, 3) == k.vec3(1, 2, 3) != k.vec3(1, 2, 4) and k.vec3() != k.vec3d()
    assert len({k.vec3(1, 2, 3), k.vec3(1, 2, 3), k.vec3()}) == 2
    assert k.vec3(1, 2, 3) != "abc"


def test_numpy_and_copies() -> None:
    v = k.vec3(1, 2, 3)
    assert np.array([v, v]).shape == (2, 3) and np.asarray(k.mat22(1, 2, 3, 4)).shape == (2, 2)
    for twin in (copy.copy(v), copy.deepcopy(v), pickle.loads(pickle.dumps(v)), k.vec3(v)):
        assert twin == v and type(twin) is k.vec3
        twin.x = 9
        assert v.x == 1
    np.array(v)[0] = 9
    assert v.x == 1


def test_types_of_python_values() -> None:
    assert [type_of(x) for x in (1, 1.0, True)] == [t.int32, t.float32, t.bool_]
    assert [type_of(x) for x in (np.float64(1), np.uint8(1), np.float32(1))] == [t.float64, t.uint8, t.float32]
    assert type_of((1, k.vec3())) == t.Tuple((t.int32, k.vec3.ir_type)) and type_of(Hit()) == Hit.ir_type
    for odd in ("text", None, object(), k.vec3):
        with pytest.raises(TypeError, match="not a value of the kernel language"):
            type_of(odd)


def test_structs_hold_typed_copies() -> None:
    h = Hit()
    assert (h.t, h.n, h.flags) == (0.0, k.vec3(), 0) and h == Hit(0.0, (0, 0, 0), 0)
    n = k.vec3(1, 2, 3)
    h.t, h.n, h.flags = 0.1, n, 7
    n.x = 5
    assert h.t == float(np.float32(0.1)) and h.n == (1, 2, 3) and type(h.flags) is np.uint32
    h.n.y = 8
    assert h.n == (1, 8, 3) and flatten(Hit.ir_type, h) == [h.t, 1, 8, 3, 7]
    twin = copy.copy(h)
    twin.n.x = 0
    assert h.n.x == 1 and repr(Hit(1.0, flags=2)) == "Hit(t=1.0, n=vec3(0.0, 0.0, 0.0), flags=np.uint32(2))"


def test_structs_nest_and_refuse_what_does_not_fit() -> None:
    @struct
    class Pair:
        first: Hit
        second: Hit

    pair = Pair(first=Hit(2.0))
    assert pair.first.t == 2.0 and len(flatten(Pair.ir_type, pair)) == 10
    pair.second = pair.first
    pair.first.t = 3.0
    assert pair.second.t == 2.0
    for build, text in (
        (lambda: Hit(1, 2, 3, 4), "has 3 fields, got 4"),
        (lambda: Hit(colour=1), "no field 'colour'"),
        (lambda: setattr(Hit(), "n", k.vec2()), "Hit.n takes vec3, got vec2"),
        (lambda: setattr(Hit(), "t", "x"), "Hit.t takes float32, got 'x'"),
    ):
        with pytest.raises(TypeError, match=text):
            build()
    with pytest.raises(AttributeError, match="no field 'colour'"):
        Hit().colour = 1
    with pytest.raises(TypeError, match="struct Bad: 'text' is not a type"):
        struct(type("Bad", (), {"__annotations__": {"field": "'text'"}}))


def test_patterns_are_annotations_only() -> None:
    pattern = vector(length=Any, dtype=float).ir_type
    assert t.matches(pattern, k.vec3.ir_type) and not t.matches(pattern, k.vec3d.ir_type)
    square = matrix(shape=(3, 3), dtype=Any).ir_type
    assert t.matches(square, k.mat33d.ir_type) and not t.matches(square, k.mat22.ir_type)


def test_bfloat16_fields_keep_their_value():
    @struct
    class Halved:
        a: k.bfloat16
        b: k.float32

    one = Halved()
    assert one.a == 0.0
    one.a, one.b = 3.5, 7.25
    assert isinstance(one.a, k.bfloat16) and (one.a, one.b) == (3.5, 7.25)
    assert Halved(a=k.bfloat16(-0.5)).a == -0.5


def test_a_number_is_no_vector():
    @struct
    class Moved:
        v: k.vec3
        q: k.quat

    one = Moved()
    one.v = (1.0, 2.0, 3.0)
    for name in ("v", "q"):
        with pytest.raises(TypeError, match=f"Moved.{name} takes .*, got the number 2"):
            setattr(one, name, 2.0)
