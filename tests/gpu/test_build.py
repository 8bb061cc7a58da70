"""Kernels compiled ahead of time: the files, the manifest, and that the object code runs."""

import ctypes
import json
from typing import Any

import numpy as np
import pytest

import engine
from engine.compiler.build import Built
from engine.compiler.target_host import host_target
from engine.compiler.target_ptx import ptx_target
from engine.errors import CompileError, ConfigError


@engine.kernel
def saxpy(x: engine.array(dtype=float), y: engine.array(dtype=float), a: float):
    i = engine.tid()
    y[i] = a * x[i] + y[i]


@engine.kernel
def scale(x: engine.array(dtype=Any), s: Any):
    i = engine.tid()
    x[i] = x[i] * s


@engine.kernel
def broken(x: engine.array(dtype=float)):
    x[0] = undefined_name  # noqa: F821


def test_ptx_is_that_of_the_kernel(tmp_path):
    (row,) = engine.build(saxpy, target="sm_90", folder=tmp_path)
    assert (row.file, row.entry, row.ptx, row.driver) == ("saxpy.sm_90.ptx", "saxpy_kernel", "7.8", "11.8")
    made = saxpy.compile(tuple(t for _, t in saxpy.params), ptx_target("sm_90"))
    assert (tmp_path / row.file).read_bytes() == made.image


def test_object_code_runs_from_the_manifest_alone(tmp_path):
    engine.build(saxpy, target="cpu", folder=tmp_path)
    (row,) = json.loads((tmp_path / "manifest.json").read_text())["kernels"]
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    block = np.zeros(row["block"], np.uint8)
    block[32:64].view(np.int64)[:] = (100, 1, 1, 1)
    values = {"x.data": x.ctypes.data, "y.data": y.ctypes.data, "x.stride.0": 4, "y.stride.0": 4, "a.": 3.0}
    for offset, kind, parameter, path in row["slots"]:
        value = values[f"{parameter}.{path}"]
        dtype = {"pointer": np.int64, "int64": np.int64, "float32": np.float32}[kind]
        block[offset : offset + np.dtype(dtype).itemsize].view(dtype)[0] = value
    (address,) = host_target().link((tmp_path / row["file"]).read_bytes(), row["entry"])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    call(host_target().call_address)(address, block.ctypes.data + 32, 0, 100)
    assert np.array_equal(y, 3 * x + 1)


def test_several_targets_and_options(tmp_path):
    rows = engine.build([saxpy], target=["sm_75", "sm_120", "ptx"], folder=tmp_path / "new/folder", ptx_version="8.7",
                        launch_bounds=(64, 2), lineinfo=False, dense=True)  # fmt: skip
    assert [r.file for r in rows] == ["saxpy.sm_75.ptx", "saxpy.sm_120.ptx", "saxpy.sm_75.ptx"]
    text = (tmp_path / "new/folder/saxpy.sm_120.ptx").read_text()
    assert ".maxntid 64" in text and ".version 8.7" in text and ".loc" not in text and "mad.lo.s64" not in text
    assert all(slot[3] != "stride.0" for slot in rows[0].slots)


def test_generic_kernels_are_built_by_their_overloads(tmp_path):
    kernel = engine.Kernel(scale.fn)
    with pytest.raises(CompileError, match="is generic: engine.overload"):
        engine.build(kernel, folder=tmp_path)
    engine.overload(kernel, [engine.array(dtype=float), float])
    engine.overload(kernel, [engine.array(dtype=engine.vec3), float])
    rows = engine.build(kernel, folder=tmp_path)
    assert len({r.file for r in rows}) == 2 and all((tmp_path / r.file).exists() for r in rows)


def test_modules(tmp_path):
    from engine.sim import coloring

    built = engine.build(coloring, target="sm_80", folder=tmp_path)
    assert {r.kernel for r in built} >= {"take_colors", "keep_colors"} and isinstance(built[0], Built)
    by_name = engine.build("engine.sim.coloring", target="sm_80", folder=tmp_path)
    assert by_name == built
    with pytest.raises(CompileError, match="no module of kernels called 'nowhere'"):
        engine.build("nowhere", folder=tmp_path)


def test_nothing_is_written_when_a_kernel_is_broken(tmp_path):
    with pytest.raises(CompileError):
        engine.build([saxpy, broken], target="sm_80", folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_other_file_is_left(tmp_path):
    engine.build(saxpy, folder=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["manifest.json", "saxpy.sm_75.ptx"]


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"target": "sm_1"}, ConfigError, "expected one of sm_75"),
    ({"ptx_version": "1.0"}, ConfigError, "expected one of 6.3"),
    ({"speed": 3}, TypeError, r"build\(\) has no option 'speed'"),
    ({"launch_bounds": 4096}, ValueError, "whole numbers from 1 to 1024"),
])  # fmt: skip
def test_wrong_arguments(arguments, error, message, tmp_path):
    with pytest.raises(error, match=message):
        engine.build(saxpy, folder=tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_times_of_every_stage_are_recorded():
    @engine.kernel
    def profiled(x: engine.array(dtype=float)):
        x[engine.tid()] = 1.0

    with engine.config.scope(kernel_cache=False), engine.debug.profile_compile() as profile:
        profiled.preload()
        profiled.compile(tuple(t for _, t in profiled.params), ptx_target("sm_80"))
    assert [row[:2] for row in profile.rows] == [("profiled", "cpu"), ("profiled", "sm_80")]
    assert not any(row[3] for row in profile.rows)
    stages = {"front end", "key", "normalize", "inline", "scalarize", "simplify", "verify", "emit", "llvm"}
    assert stages <= set(profile.rows[1][2]) and profile.totals["llvm"] > 0.0
    table = str(profile).splitlines()
    assert table[0].split()[:3] == ["kernel", "target", "front"] and len(table) == 4
    profiled.forget()
    profiled.preload()
    assert len(profile.rows) == 2  # nothing is noted after the block
