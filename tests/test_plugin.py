"""Registries, entry points, and a native plugin compiled from the declarations in the documentation."""

import re
import shutil
import subprocess
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.compiler import types
from engine.compiler.ir import Function, Op
from engine.errors import CompileError, Error, PluginError
from engine.plugin import NativePlugin, Registry, front_ends

WIND = """
#include <stdlib.h>
#include <string.h>

uint32_t weft_plugin_abi(void) { return ABI; }
const char *weft_plugin_name(void) { return "wind"; }
void *weft_plugin_create(const char *options, char *error, int64_t error_size) {
    if (strcmp(options, "{}") == 0) { strncpy(error, "speed is missing", error_size); return NULL; }
    double *speed = malloc(sizeof *speed);
    *speed = atof(strchr(options, ':') + 1);
    return speed;
}
int32_t weft_plugin_step(void *self, const weft_field *fields, int64_t count, double time, double dt,
                         char *error, int64_t error_size) {
    for (int64_t f = 0; f < count; f++) {
        if (strcmp(fields[f].name, "body_qd") || strcmp(fields[f].dtype, "<f4")) continue;
        if (!fields[f].writable) { strncpy(error, "body_qd is read-only", error_size); return 7; }
        for (int64_t r = 0; r < fields[f].rows; r++) {
            char *row = (char *)fields[f].data + r * fields[f].row_stride;
            *(float *)row += *(double *)self * dt;                               /* vx */
            *(float *)(row + 2 * fields[f].column_stride) = (float)(time + dt);  /* vz */
        }
    }
    return 0;
}
void weft_plugin_destroy(void *self) { free(self); }
"""


@pytest.fixture
def registry():
    return Registry("things", "things for the test")


def test_register_as_decorator_and_as_call(registry):
    @registry.register("one")
    def one(): ...

    registry.register("two", "object")
    assert registry.get("one") is one and registry.get("two") == "object"
    assert registry.names() == ["one", "two"] and "one" in registry and "three" not in registry


def test_a_second_object_under_a_name_is_refused(registry):
    registry.register("one", "first")
    registry.register("one", "first")
    with pytest.raises(PluginError, match="things 'one': is registered already"):
        registry.register("one", "second")
    assert registry.get("one") == "first"


def test_unknown_name_suggests_the_nearest(registry):
    registry.register("soft_step", object())
    with pytest.raises(PluginError, match="did you mean 'soft_step'"):
        registry.get("soft_stop")
    with pytest.raises(Error, match="there are soft_step"):
        registry.get("zzz")


def test_a_provided_place_is_imported_when_asked_for(registry):
    registry.provide("path", "posixpath:join")
    registry.provide("late", "there_is_no_such_module:thing")
    assert registry.names() == ["late", "path"]
    assert registry.get("path")("a", "b") == "a/b"
    with pytest.raises(ModuleNotFoundError):
        registry.get("late")
    with pytest.raises(PluginError, match="provided already"):
        registry.provide("path", "elsewhere:join")


def test_entry_points_are_loaded_and_their_failures_named(registry, monkeypatch):
    places = {"join": "posixpath:join", "bad": "no_such_module:x"}
    found = [EntryPoint(name, place, registry.group) for name, place in places.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found if group == "weft.things" else [])
    assert registry.names() == ["bad", "join"]
    assert registry.get("join")("a", "b") == "a/b"
    with pytest.raises(PluginError, match="things 'bad': no_such_module:x cannot be loaded"):
        registry.get("bad")


def build(folder: Path, source: str, name: str) -> Path:
    """Compiles `source`, after the declarations of docs/plugins.md, to a shared library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    document = (Path(__file__).parents[1] / "docs/plugins.md").read_text()
    (declarations,) = re.findall(r"```c\n(.*?)```", document, re.DOTALL)
    (folder / f"{name}.c").write_text(declarations + source)
    library = folder / f"{name}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / f"{name}.c"], check=True, timeout=60)
    return library


def test_native_plugin_changes_the_state_in_place(tmp_path):
    plugin = NativePlugin(build(tmp_path, WIND.replace("ABI", "1"), "wind"))
    assert plugin.name == "wind"
    planes = np.full((6, 3), 1.0, dtype=np.float32)
    with plugin.create({"speed": 4.0}) as wind:
        wind.step({"body_qd": planes.T, "body_mass": np.ones(3)}, time=0.5, dt=0.25)
    np.testing.assert_array_equal(planes, [[2] * 3, [1] * 3, [0.75] * 3, [1] * 3, [1] * 3, [1] * 3])
    with pytest.raises(PluginError, match="is closed"):
        wind.step({}, 0.0, 0.0)


def test_native_plugin_reports_its_own_errors(tmp_path):
    plugin = NativePlugin(build(tmp_path, WIND.replace("ABI", "1"), "wind"))
    with pytest.raises(PluginError, match="speed is missing"):
        plugin.create()
    frozen = np.zeros((2, 6), dtype=np.float32)
    frozen.flags.writeable = False
    with plugin.create({"speed": 1.0}) as wind:
        with pytest.raises(PluginError, match=r"body_qd is read-only \(status 7\)"):
            wind.step({"body_qd": frozen}, 0.0, 0.1)
        with pytest.raises(PluginError, match="one or two dimensions"):
            wind.step({"body_qd": np.zeros((2, 3, 4))}, 0.0, 0.1)


def test_libraries_that_are_no_plugins_are_refused(tmp_path):
    with pytest.raises(PluginError, match="absent.so"):
        NativePlugin(tmp_path / "absent.so")
    with pytest.raises(PluginError, match="has no function weft_plugin_abi"):
        NativePlugin(build(tmp_path, "int unrelated;", "unrelated"))
    with pytest.raises(PluginError, match="is made for ABI 99"):
        NativePlugin(build(tmp_path, WIND.replace("ABI", "99"), "future"))


def page_example(mark):
    text = (Path(__file__).parents[1] / "docs/plugins.md").read_text()
    (example,) = [block for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
                  if mark in block]  # fmt: skip
    return example


def test_the_pass_of_the_page_runs(tmp_path):
    example = page_example("register_ir_pass")
    path = tmp_path / "page.py"
    path.write_text(example)
    exec(compile(example, str(path), "exec"), {"__name__": "page"})


def test_the_front_end_of_the_page_runs(tmp_path):
    """Its kernel has the bits of Python's on both devices, and a gradient."""
    example = page_example("front_ends.register")
    path = tmp_path / "page.py"
    path.write_text(example)
    names = {"__name__": "page"}
    exec(compile(example, str(path), "exec"), names)
    saxpy = names["saxpy"]
    for device in ("cpu", "emu"):
        x, y = (engine.array([1.5, 2.5], device=device, requires_grad=True) for _ in range(2))
        with engine.Tape() as tape:
            engine.launch(saxpy, dim=2, inputs=[x, y, 0.5], device=device)
        assert y.numpy().tolist() == [2.25, 3.75]
        tape.backward(grads={y: engine.ones(2, device=device)})
        assert x.grad.numpy().tolist() == [0.5, 0.5]
    assert not engine.debug.audit(saxpy).unproved and engine.debug.audit(saxpy).refuted, "it has no guard"


def test_front_ends_are_looked_at_by_the_verifier():
    assert "python" in front_ends

    def kernel_of(maker, name):
        front_ends.register(name, maker)

        @engine.kernel(front_end=name)
        def made(x: engine.array(dtype=float)):
            pass

        return made

    def wrong(func, kinds, is_kernel):
        fn = Function(func.name, [], is_kernel=is_kernel)
        fn.body.append(Op("store", types.void, (fn.body.append(Op("const", types.int32, (), {"value": 1})),)))
        return fn

    with pytest.raises(CompileError, match="the front end 'nothing' gave NoneType, not a Function"):
        kernel_of(lambda func, kinds, is_kernel: None, "nothing").preload()
    with pytest.raises(CompileError, match="the front end 'wrong' made wrong code"):
        kernel_of(wrong, "wrong").preload()

    @engine.kernel(front_end="absent")
    def nobody(x: engine.array(dtype=float)):
        pass

    with pytest.raises(PluginError, match="'absent': is not known"):
        nobody.preload()
