"""engine.types: what is a type and what a value, and array annotations as objects."""

from __future__ import annotations

from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest

import engine
from engine import types
from engine.compiler import types as ir


@engine.struct
class Mass:
    value: float


KINDS = ("int", "float", "vector", "matrix", "quaternion", "transformation", "struct", "array")
TYPES = {
    "int": (int, engine.int16, engine.uint64, np.int8), "float": (float, engine.float16, np.float64),
    "vector": (engine.vec3, engine.vec2i, types.vector(8, engine.uint8)),
    "matrix": (engine.mat22, types.matrix((5, 5), engine.float64)), "quaternion": (engine.quat, engine.quatd),
    "transformation": (engine.transform, engine.transformd), "struct": (Mass,),
    "array": (engine.array, engine.indexedarray, engine.fixedarray, engine.array[float], engine.indexedarray[int, 2],
              engine.array[Any, Any]),
}  # fmt: skip
VALUES = {
    "int": (3, engine.int16(3), np.uint64(3)), "float": (1.5, engine.float16(1.5)),
    "vector": (engine.vec3(1, 2, 3), types.vector(8, engine.uint8)()), "matrix": (engine.mat22(), engine.mat33h()),
    "quaternion": (engine.quat(),), "transformation": (engine.transformd(),), "struct": (Mass(),),
    "array": (engine.zeros(2), engine.array(dtype=int), engine.fixedarray(dtype=int),
              engine.indexedarray(dtype=engine.float16)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_types_and_values_are_values(kind):
    composite = kind in ("vector", "matrix", "quaternion", "transformation")
    scalar = kind in ("int", "float")
    true = {kind} | ({"composite", "value"} if composite else set()) | ({"scalar", "value"} if scalar else set())
    for questions, asked, others in (("type_is_", TYPES, VALUES), ("is_", VALUES, TYPES)):
        for name in (*KINDS, "scalar", "composite", "value"):
            question = getattr(types, questions + name)
            assert [question(x) for x in asked[kind]] == [name in true] * len(asked[kind]), (question, kind)
            if questions == "type_is_":
                assert not any(question(x) for x in others[kind]), (question, kind)


def test_annotations_are_equal_where_they_mean_the_same():
    a = engine.array[float]
    assert a == engine.array[engine.float32] == engine.array[np.float32] == engine.array1d[float]
    assert hash(a) == hash(engine.array[engine.float32]) and len({a, engine.array[float], engine.array[int]}) == 2
    assert engine.array[float, 2] == engine.array[float, Literal[2]] == engine.array2d[float] != a
    assert engine.indexedarray[float] != a and engine.indexedarray2d[float] == engine.indexedarray[float, 2]
    assert a.dtype is engine.float32 and a.ndim == 1 and engine.array[Any].dtype is Any
    assert not isinstance(a, engine.array) and not hasattr(a, "__dict__")


@pytest.mark.parametrize("text", [
    "array[float32]", "array2d[vec3]", "array4d[Any]", "array[float32, Any]", "indexedarray[int32]",
    "indexedarray3d[mat44d]", "array[Mass]", "array[bool]",
])  # fmt: skip
def test_annotations_print_as_they_are_written(text):
    names = ("array", "array2d", "array4d", "indexedarray", "indexedarray3d", "float32", "int32", "vec3", "mat44d")
    scope = {name: getattr(engine, name) for name in names} | {"bool": engine.bool_, "Any": Any, "Mass": Mass}
    assert repr(eval(text, scope)) == text


def test_annotations_form_unions():
    a, b = engine.array[float], engine.indexedarray[float]
    none = type(None)
    for union, members in ((a | float, (a, float)), (float | a, (float, a)), (a | b, (a, b)), (a | None, (a, none))):
        assert get_origin(union) is Union and get_args(union) == members
    assert get_args(None | a | float) == (type(None), a, float)


def test_a_union_is_no_type_of_a_kernel():
    @engine.kernel
    def wrong(x: engine.array[float] | float):  # type: ignore[valid-type]
        pass

    with pytest.raises(engine.CompileError, match="parameter 'x' .*has one type"):
        engine.launch(wrong, 1, [1.0])


def test_annotations_that_are_refused():
    with pytest.raises(ValueError, match="ndim must be between 1 and 4, or Any, got 5"):
        engine.array[float, 5]
    with pytest.raises(TypeError, match="single Literal value"):
        engine.array[float, Literal[1, 2]]
    with pytest.raises(TypeError, match="single type parameter"):
        engine.array2d[float, 2]
    with pytest.raises(TypeError, match="two parameters, got 3"):
        engine.array[float, 2, 3]

    class Later:
        pass

    annotation = engine.array[Later]  # no error before a kernel is made with it
    assert annotation.dtype is Later
    with pytest.raises(TypeError, match="Later.* is not a type of the kernel language"):
        annotation.ir_type  # noqa: B018


def test_any_number_of_dimensions():
    @engine.kernel
    def count(a: engine.array[float, Any], out: engine.array[int]):
        out[0] = engine.static(a.ndim)

    out = engine.zeros(1, dtype=int)
    for ndim in (1, 2, 3):
        engine.launch(count, 1, [engine.zeros((2,) * ndim), out])
        assert out.numpy()[0] == ndim
    with pytest.raises(engine.LaunchError, match="argument 'a'"):
        engine.launch(count, 1, [engine.zeros(2, dtype=int), out])


def test_annotations_and_empty_arrays_mean_the_same_type():
    assert types.types_equal(engine.array[engine.vec3], engine.array(dtype=engine.vec3))
    assert not types.types_equal(engine.array[float], engine.array(dtype=float, ndim=2))
    assert engine.array2d[Mass].ir_type == ir.Array(Mass.ir_type, 2)
