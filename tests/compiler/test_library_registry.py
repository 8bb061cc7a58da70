"""The register of library functions: which overload is taken, and that the documentation names every function."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.compiler import types
from engine.compiler.library.intrinsics import TILES as TILE_NAMES
from engine.compiler.library.primitives import Primitive, bitcast, cast, clz, fma, popcount, select
from engine.compiler.library.registry import BUILTINS, LibraryFunction
from engine.compiler.ops import ELEMENTWISE

DOCS = Path(__file__).parents[2] / "docs"
TILES = DOCS / "tiles.md"
PAGES = [DOCS / "maths.md", DOCS / "language.md"]


def test_every_function_is_documented() -> None:
    named = set(re.findall(r"\btile_\w+", TILES.read_text()))
    named |= set(re.findall(r"`(\w+)[`(]", "".join(page.read_text() for page in PAGES)))
    assert not sorted(BUILTINS.keys() - named)
    assert not sorted(n for n in TILE_NAMES if n not in TILES.read_text())
    assert all(builtin.__doc__ for builtin in BUILTINS.values())


def test_every_function_has_implementations() -> None:
    for builtin in BUILTINS.values():
        assert builtin.overloads, builtin
        for overload in builtin.overloads:
            assert isinstance(overload, LibraryFunction) and isinstance(overload.patterns, tuple)


def test_the_first_matching_overload_is_taken() -> None:
    sin = BUILTINS["sin"]
    assert sin.resolve((types.float32,)).__name__ == "sin_f32" and sin.resolve((types.float64,)).__name__ == "sin_f64"
    assert sin.resolve((types.int32,)) is None and sin.resolve((types.float32, types.float32)) is None
    dot = BUILTINS["dot"]
    assert dot.resolve((k.vec3.ir_type, k.vec3.ir_type)).__name__ == "dot3"
    assert dot.resolve((k.vec2.ir_type, k.vec2.ir_type)).__name__ == "dot"
    assert dot.resolve((k.vec3.ir_type, k.vec3d.ir_type)) is None
    rotate = BUILTINS["quat_rotate"]
    assert rotate.resolve((k.quatd.ir_type, k.vec3d.ir_type)) and not rotate.resolve((k.quat.ir_type, k.vec3d.ir_type))


def test_calls_in_python_scope() -> None:
    assert k.clamp(x=5.0, low=0.0, high=3.0) == 3.0 and k.quat_identity(dtype=k.float64) == k.quatd(0, 0, 0, 1)
    assert k.lerp(k.vec3(), k.vec3(2, 2, 2), 0.5) == k.vec3(1, 1, 1)
    with pytest.raises(TypeError, match=r"sin takes no \(vec3\)"):
        k.sin(k.vec3())
    with pytest.raises(TypeError, match=r"clamp takes no arguments \(top\)"):
        k.clamp(1.0, 0.0, top=3.0)


def test_calls_by_name_in_python_scope() -> None:
    p = k.vec3(1, 2, 3)
    move = k.transform((1, 0, 0), (0, 0, 0, 1))
    matrix = k.mat44(1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)
    assert k.transform_point(point=p, xform=move) == k.transform_point(mat=matrix, point=p) == k.vec3(2, 2, 3)
    assert k.transform_point(xform=matrix, point=p) == k.vec3(2, 2, 3)  # the types say which is meant
    state = k.rand_init(42)
    assert k.curlnoise(xyz=p, state=state) == k.curlnoise(state, p) == k.curlnoise(state, p, np.uint32(1), 2.0, 0.5)
    assert k.curlnoise(state, p, gain=0.25) == k.curlnoise(state, p, np.uint32(1), 2.0, 0.25)
    with pytest.raises(TypeError, match=r"curlnoise takes no arguments \(state, nothing\)"):
        k.curlnoise(state=state, nothing=p)


def test_calls_by_name_in_kernels(device: str) -> None:
    @k.kernel
    def call(out: k.array(dtype=k.vec3)):
        move = k.transform(k.vec3(1.0, 0.0, 0.0), k.quat_identity())
        out[0] = k.transform_point(point=k.vec3(1.0, 2.0, 3.0), xform=move)
        out[1] = k.transform_point(mat=k.identity(n=4, dtype=float), point=out[0])
        out[2] = k.quat_rotate(vec=k.vec3(1.0, 2.0, 3.0), quat=k.quat_identity())

    out = engine.zeros(3, dtype=k.vec3, device=device)
    engine.launch(call, 1, [out], device=device)
    assert out.numpy().tolist() == [[2, 2, 3], [2, 2, 3], [1, 2, 3]]

    @k.kernel
    def wrong(out: k.array(dtype=k.vec3)):
        out[0] = k.quat_rotate(k.quat(), v=out[0])

    with pytest.raises(engine.CompileError, match=r"quat_rotate\(\) does not take \(quat, v=vec3\)"):
        engine.launch(wrong, 1, [out], device=device)


def test_primitives_stand_for_rows_of_the_op_table() -> None:
    found = [p for p in vars(k.primitives).values() if isinstance(p, Primitive)]
    assert {p.primitive for p in found} <= ELEMENTWISE.keys() | {"select", "bits", "cast", "bitcast"}
    assert all(p.__doc__ for p in found)


def test_primitives_compute_as_in_kernels() -> None:
    one = np.float32(1)
    assert fma(one + one * 2.0**-12, one - one * 2.0**-12, -one) == np.float32(-(2.0**-24))
    assert bitcast(one, k.uint32) == 0x3F800000 and bitcast(np.uint32(0x3F800000), k.float32) == 1
    assert cast(np.int32(0x3FA00000), k.float32) == 1.25 and cast(k.vec2(1.25, 0), k.uint64) == 0x3FA00000
    assert cast(np.uint64(0x3FA00000), k.vec2) == k.vec2(1.25, 0)
    with pytest.raises(TypeError, match="the bits of int32 are not those of uint8: the sizes differ"):
        cast(np.int32(-1), k.uint8)
    assert clz(np.uint32(1)) == 31 and popcount(np.uint64(2**64 - 1)) == 64
    assert select(True, 1, 2) == 1 and k.min(float("nan"), 2.0) == 2.0
    assert k.abs(k.vec3(-1, 2, -3)) == k.vec3(1, 2, 3) and k.floor(k.vec2(1.5, -1.5)) == (1, -2)
