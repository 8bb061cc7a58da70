"""Vectors of truth values: comparison by component, choice, and their bits, in kernels of both shapes and in Python."""

import numpy as np
import pytest

import engine
from engine.compiler.target_host import host_target
from engine.config import config

vec8 = engine.types.vector(8, float)
COMPARISONS = {
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip


@engine.kernel
def compare(a: engine.array(dtype=vec8), b: engine.array(dtype=vec8), out: engine.array2d(dtype=engine.uint32)):
    i = engine.tid()
    x = a[i]
    y = b[i]
    out[i, 0] = engine.bit_mask(engine.less(x, y))
    out[i, 1] = engine.bit_mask(engine.less_equal(x, y))
    out[i, 2] = engine.bit_mask(engine.greater(x, y))
    out[i, 3] = engine.bit_mask(engine.greater_equal(x, y))
    out[i, 4] = engine.bit_mask(engine.equal(x, y))
    out[i, 5] = engine.bit_mask(engine.not_equal(x, y))


@engine.kernel
def larger(a: engine.array(dtype=vec8), b: engine.array(dtype=vec8), out: engine.array(dtype=vec8)):
    i = engine.tid()
    out[i] = engine.where(engine.less(a[i], b[i]), b[i], a[i])


def bits(truths: np.ndarray) -> np.ndarray:
    return (truths.astype(np.uint32) << np.arange(truths.shape[-1], dtype=np.uint32)).sum(-1, dtype=np.uint32)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-45], np.float32)  # every pair occurs


@pytest.mark.parametrize("shape", ["auto", "thread", "lanes"])
def test_comparisons_agree_with_numpy(shape):
    rows = np.random.default_rng(1).choice(SPECIAL, (2, 19, 8))
    out = engine.full((19, 6), 0xCDCDCDCD, dtype=engine.uint32)
    with config.scope(shape=shape):
        engine.launch(compare, dim=19, inputs=[*(engine.array(r, dtype=vec8) for r in rows), out])
    for k, function in enumerate(COMPARISONS.values()):
        np.testing.assert_array_equal(out.numpy()[:, k], bits(function(*rows)))


@pytest.mark.parametrize("shape", ["auto", "lanes"])
def test_where_chooses_by_component(shape):
    rows = np.random.default_rng(0).normal(size=(2, 19, 8)).astype(np.float32)
    out = engine.full(19, np.nan, dtype=vec8)
    with config.scope(shape=shape):
        engine.launch(larger, dim=19, inputs=[*(engine.array(r, dtype=vec8) for r in rows), out])
    np.testing.assert_array_equal(out.numpy(), rows.max(0))


def test_python_scope():
    a, b = engine.vec3(1.0, 2.0, 3.0), engine.vec3(3.0, 2.0, 1.0)
    for name, function in COMPARISONS.items():
        mask = getattr(engine, name)(a, b)
        expected = function(np.array(a), np.array(b))
        assert list(mask) == expected.tolist()
        assert engine.bit_mask(mask) == bits(expected)
    assert engine.where(engine.less(a, b), a, b) == engine.vec3(1.0, 2.0, 1.0)


def test_constant_masks_fold():
    @engine.kernel
    def constant(out: engine.array(dtype=engine.uint32)):
        out[0] = engine.bit_mask(engine.less(engine.vec4(0.0, 1.0, 2.0, 3.0), engine.vec4(1.5)))

    out = engine.zeros(1, dtype=engine.uint32)
    engine.launch(constant, dim=1, inputs=[out])
    assert out.numpy()[0] == 0b0011
    assert "bits" not in constant.stages["mir"]


def test_eight_comparisons_become_one():
    """The reason for masks: of truth values that are joined by shifts LLVM makes no vector."""

    @engine.kernel
    def overlaps(lower: engine.array(dtype=vec8), upper: engine.array(dtype=vec8), at: float,
                 out: engine.array(dtype=engine.uint32)):  # fmt: skip
        i = engine.tid()
        out[i] = engine.bit_mask(engine.less(lower[i] * at, upper[i]))

    assert overlaps.stages.decision.vectors == "all"
    module, _ = host_target().optimized(overlaps.stages["llvm"], vectors="all")
    assert "fcmp olt <8 x float>" in str(module)
    assert "each thread works on several things at once" in engine.debug.explain(overlaps)


def test_wrong_arguments_are_refused():
    @engine.kernel
    def lengths(out: engine.array(dtype=engine.vec3)):
        out[0] = engine.where(engine.less(engine.vec2(), engine.vec2()), out[0], out[0])

    with pytest.raises(engine.CompileError, match=r"select\(\) does not take \(vec2b, vec3f, vec3f\)|select\(\)"):
        engine.launch(lengths, dim=1, inputs=[engine.zeros(1, dtype=engine.vec3)])

    @engine.kernel
    def numbers(out: engine.array(dtype=engine.uint32)):
        out[0] = engine.bit_mask(engine.vec3())

    with pytest.raises(engine.CompileError, match="bit_mask"):
        engine.launch(numbers, dim=1, inputs=[engine.zeros(1, dtype=engine.uint32)])

    many = engine.types.vector(33, float)

    @engine.kernel
    def too_many(a: engine.array(dtype=many), out: engine.array(dtype=engine.uint32)):
        out[0] = engine.bit_mask(engine.less(a[0], a[0]))

    with pytest.raises(engine.CompileError, match="1 to 32 truth values"):
        engine.launch(too_many, dim=1, inputs=[engine.zeros(1, dtype=many), engine.zeros(1, dtype=engine.uint32)])
