"""Tables: planes in memory, identity of fields across resizes, what moves and what stays."""

import gc
import weakref

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.compiler import types
from engine.context import array, launch, make_table, table

Model = make_table(
    "Model",
    [
        ("position", k.vec3, "nbody"),
        ("mass", float, "nbody"),
        ("frame", k.mat33, "nbody"),
        ("kind", int, "nshape"),
        ("key", k.uint64, "nshape"),
    ],
)


@table
class Bodies:
    """Positions and inverse masses."""

    position: k.vec3
    inv_mass: float


def test_planes_in_memory():
    m = Model({"nbody": 5, "nshape": 17})
    assert m.position.layout == "planes" and m.position.plane_stride == 64 and m.kind.plane_stride == 128
    assert [address % 64 for address in m.pointers] == [0] * 15
    assert m.counts == (5, 17) and m.count == {"nbody": 5, "nshape": 17}
    assert m.pointers[1] - m.pointers[0] == 64 and m.pointers[0] == m.position.ptr
    assert m.position.numpy().strides == (4, 64) and m.frame.numpy().strides == (4, 192, 64)
    assert m.nbytes == 64 * (3 + 1 + 9) + 128 + 192
    assert not m.position.numpy().any() and m.key.dtype == types.uint64
    assert [name for name, _ in m.fields()] == ["position", "mass", "frame", "kind", "key"]


def test_one_dimension():
    b = Bodies(3)
    assert len(b) == 3 and Bodies.__doc__ == "Positions and inverse masses." and Bodies.__name__ == "Bodies"
    assert b.ir_type is Bodies.ir_type and b.position.shape == (3,)
    b.position[1] = k.vec3(1, 2, 3)
    assert b.position[1] == k.vec3(1, 2, 3)
    assert bool(Bodies(0))


def test_resize_keeps_identity_and_elements():
    m = Model({"nbody": 2, "nshape": 1})
    field, shapes = m.position, m.kind.ptr
    field.assign([[1, 2, 3], [4, 5, 6]])
    old = field.numpy()
    m.resize({"nbody": 1000})
    assert m.position is field and len(field) == 1000 and m.generation == 1
    assert field.numpy()[:2].tolist() == [[1, 2, 3], [4, 5, 6]] and not field.numpy()[2:].any()
    assert m.kind.ptr == shapes  # another dimension does not move
    assert old.tolist() == [[1, 2, 3], [4, 5, 6]]  # an old view still shows the old memory
    assert m.pointers[0] == field.ptr and m.counts == (1000, 1)
    m.resize({"nbody": 1})
    assert field.numpy().tolist() == [[1, 2, 3]]
    m.resize({"nbody": 2})
    assert field.numpy().tolist() == [[1, 2, 3], [0, 0, 0]]
    m.resize({"nbody": 3}, keep=False)
    assert not field.numpy().any()


def test_resize_to_the_same_size_moves_nothing():
    m = Model({"nbody": 2})
    before = m.pointers
    m.resize({"nbody": 2, "nshape": 0}, keep=False)
    assert m.pointers == before and m.generation == 0


def test_copy_clone_and_hash():
    m = Model({"nbody": 3, "nshape": 2})
    m.mass.assign([1, 2, 3])
    other = m.clone()
    assert other.hash() == m.hash() and other.mass.ptr != m.mass.ptr
    other.mass[2] = 4
    assert other.hash() != m.hash()
    grown = Model({"nbody": 9})
    grown.copy_from(m)
    assert grown.count == m.count and grown.hash() == m.hash()
    m.mass[0] = -0.0
    zero = m.hash()
    m.mass[0] = 0.0
    assert m.hash() != zero  # bits, not values
    with pytest.raises(TypeError, match="cannot be copied from Bodies"):
        m.copy_from(Bodies(1))


def test_types_with_equal_fields_are_one():
    again = make_table("Bodies", [("position", k.vec3, "n"), ("inv_mass", float, "n")])
    assert again.ir_type is Bodies.ir_type
    assert make_table("Bodies", [("position", k.vec3, "m"), ("inv_mass", float, "m")]).ir_type != Bodies.ir_type


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Model(3), TypeError, "several dimensions; give a dict of nbody, nshape"),
        (lambda: Model({"njoint": 3}), KeyError, "no dimension 'njoint'; it has nbody, nshape"),
        (lambda: Bodies(-1), ValueError, "shape"),
        (lambda: Bodies(2**31), ValueError, "shape"),
        (lambda: len(Model()), TypeError, "several dimensions"),
        (lambda: make_table("T", []), TypeError, "no fields"),
        (lambda: make_table("T", [("count", int, "n")]), ValueError, "'count' is taken"),
        (lambda: make_table("T", [("a", int, "n"), ("a", int, "n")]), ValueError, "'a' is taken"),
        (lambda: make_table("T", [("a", array(dtype=int), "n")]), TypeError, "cannot be an array element"),
        (lambda: setattr(Bodies(1), "position", 3), AttributeError, "use t.position.assign"),
    ],
)
def test_misuse(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_table_is_freed_without_the_cycle_collector():
    b = Bodies(1000)
    memory = weakref.ref(b)
    gc.disable()
    try:
        del b
        assert memory() is None
    finally:
        gc.enable()


@k.kernel
def fall(b: Bodies, dt: float):
    i = k.tid()
    b.position[i] = b.position[i] + k.vec3(0.0, 0.0, -1.0) * b.inv_mass[i] * dt


@k.kernel
def number_of_bodies(m: Model, out: k.array(dtype=int)):
    out[k.tid()] = m.nbody


def test_kernel_reads_and_writes_fields():
    b = Bodies(3)
    b.inv_mass.assign([1, 2, 3])
    launch(fall, 3, [b, 0.5])
    assert b.position.numpy().tolist() == [[0, 0, -0.5], [0, 0, -1], [0, 0, -1.5]]


def test_recorded_launch_packs_again_after_a_resize():
    b = Bodies(2)
    b.inv_mass.fill_(1.0)
    recorded = launch(fall, 2, [b, 1.0], record_cmd=True)
    recorded.launch()
    for n in (100, 10_000):
        b.resize(n)
        b.inv_mass.fill_(1.0)
        recorded.set_dim(n)
        recorded.launch()
    assert b.position.numpy()[:, 2].tolist() == [-3.0] * 2 + [-2.0] * 98 + [-1.0] * 9_900


def test_recorded_launch_sees_new_counts():
    m, out = Model({"nbody": 5}), array([0])
    recorded = launch(number_of_bodies, 1, [m, out], record_cmd=True)
    recorded.launch()
    assert out.list() == [5]
    m.resize({"nbody": 7})
    recorded.launch()
    assert out.list() == [7]


@k.kernel
def increment(x: k.array(dtype=float, layout="planes")):
    i = k.tid()
    x[i] = x[i] + 1.0


def test_recorded_launch_follows_a_field_given_as_an_array():
    b = Bodies(2)
    recorded = launch(increment, 2, [b.inv_mass], record_cmd=True)
    b.resize(50_000)
    recorded.launch()
    assert b.inv_mass.numpy()[:3].tolist() == [1, 1, 0]


def test_numpy_copies_into_a_field():
    b = Bodies(4)
    b.position.numpy()[:, 1] = np.arange(4)
    assert b.position.list()[3] == k.vec3(0, 3, 0)
