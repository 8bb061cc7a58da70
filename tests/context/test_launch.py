"""Launches: what reaches a kernel, what is refused and in which words, recorded launches, grids."""

import ctypes
import re
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import Launch, array, full, get_device, indirect, launch, launch_tiled, table, zeros
from engine.errors import DeviceError, LaunchError
from engine.stream import Event, Stream, get_event_elapsed_time, synchronize, synchronize_device


@k.struct
class Spring:
    rest: float
    axis: k.vec3
    key: k.uint64


@table
class Grains:
    position: k.vec3
    radius: float


@k.kernel
def saxpy(x: k.array(dtype=float), y: k.array(dtype=float), a: float):
    i = k.tid()
    y[i] = a * x[i] + y[i]


@k.kernel
def keep(whole: int, small: k.uint8, wide: k.int64, flag: bool, real: k.float64, out: k.array(dtype=k.float64)):
    out[0] = k.float64(whole)
    out[1] = k.float64(small)
    out[2] = k.float64(wide)
    if flag:
        out[3] = k.float64(1)
    out[4] = real


@k.kernel
def unpack(v: k.vec3, m: k.mat22, t: k.transform, s: Spring, out: k.array(dtype=float)):
    out[0] = v.y
    out[1] = m[1, 0]
    out[2] = t.q.w
    out[3] = s.rest
    out[4] = s.axis.z
    out[5] = float(s.key)


@k.kernel
def grid4(out: k.array(dtype=int, ndim=4)):
    i, j, l, m = k.tid()
    out[i, j, l, m] = out[i, j, l, m] + 1000 * i + 100 * j + 10 * l + m


@k.kernel
def count_threads(out: k.array(dtype=int)):
    out[k.tid()] = out[k.tid()] + 1


@k.kernel
def twice(x: k.array(dtype=Any), factor: Any):
    i = k.tid()
    x[i] = x[i] * factor


@k.kernel
def two_dimensional(x: k.array(dtype=k.vec3, ndim=2), planes: k.array(dtype=float, layout="planes"), grains: Grains):
    i, j = k.tid()
    x[i, j] = x[i, j] + k.vec3(planes[i] + grains.radius[j])


@k.kernel
def nothing():
    pass


def floats(n=4):
    return array(np.arange(n, dtype=np.float32))


def test_inputs_and_outputs_are_one_list():
    x, y = floats(), zeros(4)
    launch(saxpy, 4, inputs=[x], outputs=[y, 2.0])
    launch(saxpy, dim=4, inputs=(x, y, 1))
    assert y.numpy().tolist() == [0, 3, 6, 9]


def test_numbers_arrive_unchanged():
    out = zeros(5, dtype=k.float64)
    launch(keep, 1, [-(2**31), 255, 2**53, True, 1e-300, out])
    assert out.numpy().tolist() == [-(2**31), 255, 2**53, 1, 1e-300]

    class Colour(IntEnum):
        RED = 3

    launch(keep, 1, [Colour.RED, np.uint8(7), np.int64(-9), np.bool_(True), np.float32(0.5), out])
    assert out.numpy().tolist() == [3, 7, -9, 1, 0.5]


def test_aggregates_by_value():
    spring = Spring(rest=2.5, axis=k.vec3(0, 0, 4), key=7)
    for v, m, t in (
        (k.vec3(0, 5, 0), k.mat22(1, 2, 3, 4), k.transform(k.vec3(), k.quat(0, 0, 0, 6))),
        ((0, 5, 0), [[1, 2], [3, 4]], ((0, 0, 0), (0, 0, 0, 6))),
        (np.array([0, 5, 0]), np.array([[1, 2], [3, 4.0]]), np.array([0, 0, 0, 0, 0, 0, 6])),
        ((0, 5, 0), (1, 2, 3, 4), ((0, 0, 0), (0, 0, 0, 6))),
        ((0, 5, 0), np.array([1, 2, 3, 4], np.uint8), ((0, 0, 0), (0, 0, 0, 6))),
    ):
        out = zeros(6)
        launch(unpack, 1, [v, m, t, spring, out])
        assert out.numpy().tolist() == [5, 3, 6, 2.5, 4, 7]


def test_strided_arguments():
    x, y = floats(8), zeros(8)
    launch(saxpy, 4, [x[::-2], y[1::2], 1.0])
    assert y.numpy().tolist() == [0, 7, 0, 5, 0, 3, 0, 1]


def test_numpy_arguments_are_shared():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    for _ in range(2):
        launch(saxpy, 4, [x, y, 1.0])
    assert y.tolist() == [0, 2, 4, 6]


def good_arguments(kernel):
    return {
        saxpy: [floats(), zeros(4), 1.0],
        keep: [1, 1, 1, True, 1.0, zeros(5, dtype=k.float64)],
        unpack: [k.vec3(), k.mat22(), k.transform(), Spring(), zeros(6)],
        two_dimensional: [zeros((2, 2), dtype=k.vec3), zeros(2, layout="planes"), Grains(2)],
        twice: [floats(), 1.0],
    }[kernel]


class Described:
    """Not an array of NumPy's, but one that says where its memory is."""

    def __init__(self, memory: np.ndarray):
        self.memory = memory

    @property
    def __array_interface__(self):
        return self.memory.__array_interface__


class Tensor(Described):
    """The same by DLPack alone."""

    __array_interface__ = property()

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


@k.kernel
def count_up(x: Any):
    x[k.tid()] += k.float32(1.0)


@pytest.mark.parametrize("kind", [Described, Tensor, np.asarray])
def test_arguments_that_describe_their_memory(kind):
    """They are launched on in place, where a type is given and where it is open, as first and as later launches."""
    x, y = kind(np.arange(3, dtype=np.float32)), zeros(3)
    for _ in range(2):
        launch(saxpy, 3, [x, y, 2.0])
        launch(count_up, 3, [x])
    assert np.array(getattr(x, "memory", x)).tolist() == [2, 3, 4]


REFUSED = [
    (saxpy, "x", None, "array(dtype=float32), got None"),
    (saxpy, "x", 3.0, "array(dtype=float32), got 3.0"),
    (saxpy, "x", [1.0], "array(dtype=float32), got a list; make one with engine.array(data, dtype=float32)"),
    (saxpy, "x", zeros(4, dtype=int), "array(dtype=float32), got array(dtype=int32)"),
    (saxpy, "x", zeros((2, 2)), "array(dtype=float32), got array(dtype=float32, ndim=2)"),
    (saxpy, "x", zeros(4, layout="planes"), 'got array(dtype=float32, layout="planes"); convert it with engine.clone'),
    (saxpy, "x", zeros(4, dtype=k.vec3), "got array(dtype=vec3)"),
    (saxpy, "x", np.zeros(4), "got a NumPy array of float64, shape (4,); sharing memory as float32 needs float32"),
    (saxpy, "x", Described(np.zeros(4)), "array(dtype=float32), got a Described; sharing memory as float32 needs"),
    (saxpy, "x", Grains(1), "array(dtype=float32), got Grains"),
    (saxpy, "a", None, "float32, got None"),
    (saxpy, "a", "1", "float32, got a str"),
    (saxpy, "a", 1e39, "float32 (-3.40282347e+38 … 3.40282347e+38), got 1e+39"),
    (saxpy, "a", 10**400, "float32 (-3.40282347e+38"),
    (saxpy, "a", k.vec3(), "float32, got a vec3"),
    (saxpy, "a", 1j, "float32, got a complex"),
    (keep, "whole", 2**31, "int32 (-2147483648 … 2147483647), got 2147483648"),
    (keep, "whole", -(2**31) - 1, "int32 (-2147483648 … 2147483647), got -2147483649"),
    (keep, "whole", 1.0, "int32, got 1.0; round or int() it first"),
    (keep, "whole", None, "int32, got None"),
    (keep, "small", 256, "uint8 (0 … 255), got 256"),
    (keep, "small", -1, "uint8 (0 … 255), got -1"),
    (keep, "wide", 2**63, "int64 (-9223372036854775808 … 9223372036854775807), got 9223372036854775808"),
    (keep, "flag", 2, "bool, got 2"),
    (keep, "flag", None, "bool, got None"),
    (keep, "real", [1.0], "float64, got a list"),
    (unpack, "v", (1, 2), "vec3, got a tuple"),
    (unpack, "v", k.vec4(), "vec3, got a vec4"),
    (unpack, "v", ("a", 1, 2), "vec3, got a tuple"),
    (unpack, "v", None, "vec3, got None"),
    (unpack, "m", [1, 2, 3], "mat22, got a list"),
    (unpack, "m", [[1, 2, 3, 4]], "mat22, got a list"),
    (unpack, "m", np.zeros((4, 1)), "mat22, got a NumPy array of float64, shape (4, 1)"),
    (unpack, "t", k.spatial_vector(), "transform, got a vec6"),
    (unpack, "s", 1.0, "Spring, got 1.0"),
    (unpack, "s", k.vec3(), "Spring, got a vec3"),
    (two_dimensional, "planes", zeros(2), 'array(dtype=float32, layout="planes"), got array(dtype=float32)'),
    (two_dimensional, "grains", zeros(2), "a table Grains, got array(dtype=float32)"),
    (two_dimensional, "grains", Grains, "a table Grains, got a type"),
    (two_dimensional, "grains", None, "a table Grains, got None"),
    (twice, "factor", None, "Any, got None"),
    (twice, "x", None, "got None"),
]


@pytest.mark.parametrize(("kernel", "name", "value", "message"), REFUSED, ids=lambda v: str(v)[:24])
@pytest.mark.parametrize("warm", [False, True], ids=["first", "again"])
def test_refused_arguments(kernel, name, value, message, warm):
    args = good_arguments(kernel)
    dim = (2, 2) if kernel is two_dimensional else 1
    if warm:
        launch(kernel, dim, args)
    args[[n for n, _ in kernel.params].index(name)] = value
    before = [a.numpy().copy() for a in args if isinstance(a, array)]
    with pytest.raises(LaunchError, match=re.escape(message)) as caught:
        launch(kernel, dim, args)
    error = caught.value
    assert (error.kernel, error.argument) == (kernel.name, name)
    assert isinstance(error, (RuntimeError, TypeError, ValueError)) and "\n" not in str(error)
    for a, kept in zip((a for a in args if isinstance(a, array)), before, strict=True):
        np.testing.assert_array_equal(a.numpy(), kept)


def test_wrong_number_of_arguments():
    with pytest.raises(LaunchError, match="argument 'a' expects float32, got nothing; 2 of 3 arguments given"):
        launch(saxpy, 4, [floats(), floats()])
    with pytest.raises(LaunchError, match=r"argument 'inputs' expects 3 arguments \(x, y, a\), got 4"):
        launch(saxpy, 4, [floats(), floats(), 1.0], [2.0])
    with pytest.raises(LaunchError, match="expects 0 arguments"):
        launch(nothing, 1, [1])
    launch(nothing, 1)


class Elsewhere:
    """Stands for memory of a device that is not the one of the launch."""

    name = "cuda:0"
    is_cpu = False


def test_memory_of_another_device():
    x = floats()
    x.device = Elsewhere()
    with pytest.raises(LaunchError, match="argument 'x' expects memory of device 'cpu', got memory of 'cuda:0'"):
        launch(saxpy, 4, [x, zeros(4), 1.0])
    with pytest.raises(DeviceError, match="device 'cuda:0' is not available"):
        launch(saxpy, 4, [floats(), zeros(4), 1.0], device="cuda:0")


def test_unused_arguments_are_checked_too():
    @k.kernel
    def ignores(x: k.array(dtype=float), n: k.uint8, flag: bool, out: k.array(dtype=int)):
        out[0] = 1

    launch(ignores, 1, [zeros(1), 1, True, zeros(1, dtype=int)])
    for i, value in ((0, zeros(1, dtype=int)), (1, 256), (1, None), (2, None)):
        args = [zeros(1), 1, True, zeros(1, dtype=int)]
        args[i] = value
        with pytest.raises(LaunchError):
            launch(ignores, 1, args)


def test_generic_kernels_are_made_for_each_type():
    for x, factor, expected in (
        (array([1, 2]), 3, [3, 6]),
        (array([1.0, 2.0]), 1.5, [1.5, 3.0]),
        (array([1.0, 2.0]), np.float32(1.5), [1.5, 3.0]),
        (array(np.array([1.0, 2.0])), np.float64(1.5), [1.5, 3.0]),
        (array([k.vec3(1, 2, 3)]), 2.0, [k.vec3(2, 4, 6)]),
        (array([1, 2]), 3, [3, 6]),
    ):
        launch(twice, len(x), [x, factor])
        assert x.list() == expected


def test_grids():
    out = zeros((2, 3, 4, 5), dtype=int)
    launch(grid4, (2, 3, 4, 5), [out])
    i, j, l, m = np.indices((2, 3, 4, 5))
    np.testing.assert_array_equal(out.numpy(), 1000 * i + 100 * j + 10 * l + m)
    for dim in (0, (0,), (3, 0)):
        launch(count_threads, dim, [zeros(1, dtype=int)])
    out = zeros(6, dtype=int)
    for dim in (np.int32(6), [6], (6,), np.array([6])):
        launch(count_threads, dim, [out])
    assert out.list() == [4] * 6


@pytest.mark.parametrize(
    ("dim", "message"),
    [
        (-1, "extents that are not negative, got -1"),
        ((), "1 to 4 extents"),
        ((1, 1, 1, 1, 1), "1 to 4 extents"),
        (2**31, "fewer than 2**31 threads"),
        ((2**20, 2**11), "fewer than 2**31 threads, got (1048576, 2048) = 2147483648"),
        ((0, 2**40), "fewer than 2**31 threads"),
        (1.5, "an integer, 1 to 4 integers, or indirect(count, capacity), got 1.5"),
        (None, "an integer"),
        ("3", "an integer"),
    ],
)
def test_bad_grids(dim, message):
    with pytest.raises(LaunchError, match=re.escape(message)) as caught:
        launch(count_threads, dim, [zeros(1, dtype=int)])
    assert caught.value.argument == "dim"


def test_bad_blocks():
    launch(count_threads, 1, [zeros(1, dtype=int)], block_dim=64)
    for block in (0, 2048, 1.5):
        with pytest.raises(LaunchError, match="argument 'block_dim' expects an integer from 1 to 1024"):
            launch(count_threads, 1, [zeros(1, dtype=int)], block_dim=block)


def test_the_count_is_read_when_the_launch_runs():
    count, out = array([3]), zeros(10, dtype=int)
    launch(count_threads, indirect(count, 10), [out])
    recorded = launch(count_threads, indirect(count, 10), [out], record_cmd=True)
    for n, expected in ((5, 5), (0, 5), (-7, 5), (99, 10)):
        out.zero_() if n in (5, 99) else None
        count[0] = n
        recorded.launch()
        assert out.numpy().sum() == expected
    with pytest.raises(TypeError, match="non-empty int32 array"):
        indirect(zeros(1), 10)
    with pytest.raises(TypeError, match="non-empty int32 array"):
        indirect(5, 10)


@pytest.mark.parametrize("n", [5, 100_000])
def test_recorded_launches(n):
    x, y = floats(n), zeros(n)
    recorded = launch(saxpy, n, [x, y, 1.0], record_cmd=True)
    assert not y.numpy().any()
    for _ in range(100):
        recorded.launch()
    np.testing.assert_array_equal(y.numpy(), 100 * x.numpy())
    recorded.set_param("a", 0.5)
    recorded.set_param(1, z := zeros(n))
    recorded.set_dim(3)
    recorded.launch()
    assert z.numpy()[:4].tolist() == [0, 0.5, 1, 0]
    with pytest.raises(LaunchError, match="argument 'a' expects float32, got None"):
        recorded.set_param("a", None)
    with pytest.raises(LaunchError, match=r"a parameter \(x, y, a\)"):
        recorded.set_param("b", 1)
    recorded.launch()
    assert z.numpy()[:4].tolist() == [0, 1, 2, 0]
    recorded.set_params([x, y, 0.0])
    recorded.launch()


def test_a_recorded_launch_keeps_its_arguments_alive():
    y = zeros(4)
    recorded = launch(saxpy, 4, [floats(), y, 1.0], record_cmd=True)
    recorded.launch()
    assert y.numpy().tolist() == [0, 1, 2, 3]


def test_a_keyed_knob_makes_new_code():
    x, y = full(4, 1.0), zeros(4)
    launch(saxpy, 4, [x, y, 1.0])
    before = saxpy.launchers[None]
    with config.scope(fma=not config.fma):
        launch(saxpy, 4, [x, y, 1.0])
        assert saxpy.launchers[None].compiled.key != before.compiled.key
    launch(saxpy, 4, [x, y, 1.0])
    assert y.numpy().tolist() == [3.0] * 4


def test_streams_of_the_cpu():
    stream, x, y = Stream("cpu"), floats(), zeros(4)
    start = stream.record_event()
    launch(saxpy, 4, [x, y, 1.0], stream=stream)
    end = stream.record_event()
    stream.wait_stream(Stream())
    stream.synchronize()
    synchronize()
    synchronize_device("cpu")
    assert y.numpy()[3] == 3 and end.is_complete and get_event_elapsed_time(start, end) > 0
    with pytest.raises(DeviceError, match="two recorded events"):
        end.elapsed_since(Event())


def test_devices():
    assert get_device("cpu") is get_device(get_device("cpu")) and repr(get_device("cpu")) == "cpu"
    with config.scope(device="cpu"):
        assert get_device() is get_device("cpu")
    with config.scope(device="gpu"), pytest.raises(DeviceError, match="unknown device 'gpu'"):
        get_device()


def test_gapless_arrays_get_code_of_their_own():
    """The last stride of a gapless array is a constant of the code; a strided one later gets other code."""

    @k.kernel
    def scale(x: k.array(dtype=k.vec3), y: k.array(dtype=k.vec3), rows: k.array(dtype=float, ndim=2)):
        i = k.tid()
        y[i] = x[i] * 2.0
        rows[i, 0] = x[i].z

    wide = array(np.arange(24, dtype=np.float32).reshape(8, 3), dtype=k.vec3)
    for source in (wide[:4], wide[::2], wide[3::-1], wide[4:]):
        y, rows = zeros(4, dtype=k.vec3), zeros((1, 4))
        launch(scale, 4, [source, y, rows.transpose()])
        assert y.numpy().tolist() == (source.numpy() * 2).tolist()
        assert rows.numpy()[0].tolist() == source.numpy()[:, 2].tolist()
    made = {launcher.compiled for launcher in scale.launchers.values()}
    strides = {tuple((s.param, s.path[1]) for s in code.abi.slots if s.path[0] == "stride") for code in made}
    assert strides == {((2, 0), (2, 1)), ((0, 0), (2, 0), (2, 1))}
    recorded = launch(scale, 4, [wide[:4], y, rows.transpose()], record_cmd=True)
    recorded.set_param("x", wide[::2])
    recorded.launch()
    assert y.numpy().tolist() == (wide.numpy()[::2] * 2).tolist()


def test_a_launch_object_is_filled_step_by_step():
    """Warp's names for the same; values begin as zero, arrays have to be set before it runs."""
    x, y = floats(), zeros(4)
    cmd = Launch(saxpy, "cpu")
    cmd.set_dim(4)
    with pytest.raises(LaunchError, match="argument 'x' expects"):
        cmd.launch()
    cmd.set_param_by_name("x", x)
    cmd.set_param_at_index(1, y)
    cmd.launch()
    assert y.list() == [0] * 4
    cmd.set_param_by_name_from_ctype("a", ctypes.c_float(2.0))
    cmd.launch()
    assert y.list() == (x.numpy() * 2).tolist()
    cmd.set_param_at_index_from_ctype(2, 1.0)
    cmd.launch()
    assert y.list() == (x.numpy() * 3).tolist()
    with pytest.raises(LaunchError, match="argument 'a' expects float32, got"):
        cmd.set_param("a", "text")
    cmd.launch()
    assert y.list() == (x.numpy() * 4).tolist()


@k.kernel
def number_blocks(out: k.array(dtype=int, ndim=2)):
    i, j, thread = k.tid()
    out[i, j] = 10 * i + j + 100 * thread + 1000 * k.block_dim()


def test_launch_tiled_runs_a_block_for_each_point():
    out = zeros((3, 4), dtype=int)
    launch_tiled(number_blocks, dim=(3, 4), inputs=[out], block_dim=64)
    assert (out.numpy() == 1000 + 10 * np.arange(3)[:, None] + np.arange(4)).all()
    cmd = launch_tiled(number_blocks, dim=[3, 4], inputs=[zeros((3, 4), dtype=int)], block_dim=64, record_cmd=True)
    assert isinstance(cmd, Launch)


@pytest.mark.parametrize("dim", [None, (), (1, 2, 3, 4), "8"])
def test_launch_tiled_takes_up_to_three_extents(dim):
    with pytest.raises(LaunchError, match="the number of blocks, or 1 to 3 extents"):
        launch_tiled(number_blocks, dim=dim, inputs=[zeros((3, 4), dtype=int)], block_dim=64)
