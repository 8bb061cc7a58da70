"""Packs for a GPU on another machine: recorded on the cpu, run by the runner inside the pack on the emulated GPU."""

import ast
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import engine
from benchmarks import device
from benchmarks.device_pack import Sequence, Unpackable, Writer, record_launch, recorded_frame
from engine.context.emulator.driver import Driver
from engine.context.launch import checked_grid


@engine.kernel
def scale(x: engine.array(dtype=float), s: float):
    i = engine.tid()
    x[i] = x[i] * s + 1.0


@engine.kernel
def append(x: engine.array(dtype=float), rows: engine.array(dtype=float), count: engine.array(dtype=int)):
    i = engine.tid()
    if x[i] > 0.0:
        rows[engine.atomic_add(count, 0, 1)] = x[i]


@engine.kernel
def count_down(turns: engine.array(dtype=int)):
    turns[0] = turns[0] - 1


@engine.kernel
def total(x: engine.array(dtype=float), s: engine.array(dtype=float)):
    engine.atomic_add(s, 0, x[engine.tid()])


def runner_of(pack: Path) -> ModuleType:
    """The runner that lies in a pack, as the other machine would have it."""
    spec = importlib.util.spec_from_file_location("packed_runner", pack / "device_runner.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def three(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A pack of a kernel whose results are exact, one that hands out places, and one that adds floats."""
    writer = Writer("sm_80")
    x = rng.normal(size=300).astype(np.float32)
    record_launch(writer, "scale", scale, 200, [engine.array(x), 2.0], moved=8 * 300)
    record_launch(writer, "append", append, 300, [engine.array(x), engine.zeros(300), engine.zeros(1, dtype=int)])
    record_launch(writer, "total", total, 300, [engine.array(x), engine.zeros(1)])
    writer.write(tmp_path / "pack", {"note": "three kernels"})
    return tmp_path / "pack"


def change(pack: Path, run: int, field: str, value: object) -> None:
    """Change what the manifest says of every buffer of a run."""
    manifest = json.loads((pack / "manifest.json").read_text())
    for buffer in manifest["runs"][run]["buffers"]:
        buffer[field] = value
    (pack / "manifest.json").write_text(json.dumps(manifest))


def results(pack: Path, **options: object) -> dict:
    runner = runner_of(pack)
    return runner.run_pack(runner.Pack(pack), Driver(80), **options)


def test_the_runner_in_the_pack_needs_numpy_and_the_binding_alone(three: Path) -> None:
    tree = ast.parse((three / "device_runner.py").read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in nodes}
    assert {str(name).split(".")[0] for name in names} - sys.stdlib_module_names == {"numpy", "cuda"}
    command = [sys.executable, "device_runner.py", "--out", "r.json", "no such pack"]
    done = subprocess.run(command, cwd=three, capture_output=True, text=True, timeout=60, env={"PATH": ""})
    assert done.returncode == 2 and "Error" in done.stderr and not (three / "r.json").exists()


def test_the_bits_of_the_cpu_come_back_with_times(three: Path) -> None:
    found = results(three)
    assert found["wrong"] == found["not_run"] == [] and found["device"]["capability"] == "8.0"
    rows = {row["name"]: row for row in found["runs"]}
    assert [rows[name]["order"] for name in ("scale", "append", "total")] == ["exact", "permuted", "close"]
    assert all(row["bits"] == "same" and row["ms"] >= row["ms_least"] > 0 for row in rows.values())
    assert rows["scale"]["gb_per_s"] == pytest.approx(2400 / rows["scale"]["ms"] / 1e6)
    assert "3 runs, 0 wrong, 0 not run" in runner_of(three).table(found)
    assert [row["name"] for row in results(three, only="tot")["runs"]] == ["total"]
    assert results(three, seconds=-1.0)["not_run"] == ["scale", "append", "total"]
    json.dumps(found)


def test_another_order_is_right_only_where_the_order_is_free(three: Path) -> None:
    for run in range(3):
        change(three, run, "after", "another hash")
    rows = {row["name"]: row for row in results(three)["runs"]}
    assert rows["scale"]["bits"] == "different" and not rows["scale"]["ok"] and rows["scale"]["wrong_buffers"] == [0]
    assert not rows["append"]["ok"]  # the input, too, which does not change, has another hash: that is wrong
    manifest = json.loads((three / "manifest.json").read_text())
    for row, run in ((r, manifest["runs"][1 + i]) for i, r in enumerate((rows["append"], rows["total"]))):
        changed = {i for i, buffer in enumerate(run["buffers"]) if "sorted" in buffer}
        assert changed and not changed & set(row["wrong_buffers"])
    change(three, 2, "sorted", "another hash")
    total_row = results(three, only="total")["runs"][0]
    close = [i for i, buffer in enumerate(manifest["runs"][2]["buffers"]) if "expected" in buffer]
    assert close and not set(close) & set(total_row["wrong_buffers"])


def test_a_wrong_kernel_a_missing_file_and_damage_are_found(three: Path) -> None:
    (text,) = (three / "ptx").glob("scale*")
    original = text.read_text()
    assert "0f3F800000" in original
    text.write_text(original.replace("0f3F800000", "0f40000000"))  # adds 2 instead of 1
    found = results(three)
    assert found["wrong"] == ["scale"] and found["runs"][0]["bits"] == "different"
    text.write_text("this is no PTX")
    found = results(three)
    assert found["wrong"] == ["scale"] and [row["ok"] for row in found["runs"]] == [False, True, True]
    assert "cuModuleLoadData" in results(three, only="scale")["runs"][0]["error"]
    text.unlink()
    assert "the pack has no file" in results(three, only="scale")["runs"][0]["error"]
    for data in (three / "data").iterdir():
        data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    assert "damaged" in results(three, only="total")["runs"][0]["error"]
    assert runner_of(three).table(results(three))  # errors can be shown


def test_memory_that_holds_addresses_is_left_out() -> None:
    @engine.struct
    class Holder:
        x: engine.array(dtype=float)

    @engine.kernel
    def read(holders: engine.array(dtype=Holder), out: engine.array(dtype=float)):
        out[0] = holders[0].x[0]

    holder = Holder()
    holder.x = engine.ones(1)
    args = [engine.array([holder], dtype=Holder), engine.zeros(1)]
    writer = Writer("sm_80")
    with pytest.raises(Unpackable, match="arrays in structs"):
        Sequence(writer, "read", "kernel").add(read, checked_grid("read", 1, writer.device), args, 256)


def test_a_graph_is_recorded_as_a_frame_with_its_conditions(tmp_path: Path) -> None:
    x, turns, sums = engine.ones(8), engine.array([2], dtype=int), engine.zeros(1)
    with engine.ScopedCapture() as capture:
        engine.capture_while(turns, lambda: (engine.launch(scale, 8, [x, 3.0]), engine.launch(count_down, 1, [turns])))
        engine.launch(total, 8, [x, sums])
    writer = Writer("sm_80")
    with recorded_frame(writer, "scene"):
        engine.capture_launch(capture.graph)
    assert x.numpy().tolist() == [13.0] * 8 and turns[0] == 0  # it ran, too: 1 → 4 → 13
    assert [run["name"] for run in writer.runs[:-1]] == ["scene scale", "scene count_down", "scene total"]
    frame = writer.runs[-1]
    assert frame["order"] == [0, 1, 0, 1, 2] and frame["kind"] == "frame" and not writer.left_out
    writer.write(tmp_path, {})
    row = results(tmp_path, only="frame")["runs"][0]
    assert row["bits"] == "same" and {key: count for key, (_, count) in row["kernels"].items()} == {
        "scale.0": 2, "count_down.1": 2, "total.2": 1}  # fmt: skip
    with recorded_frame(writer, "again"):
        engine.capture_launch(capture.graph)
    assert [run["name"] for run in writer.runs[4:]] == ["again frame 1"]  # its kernels have runs of their own


def test_repeated_contents_are_stored_once() -> None:
    writer = Writer("sm_80")
    piece = np.random.default_rng(0).integers(0, 256, 1 << 18).astype(np.uint8)
    name = writer.before(piece)
    assert writer.before(np.tile(piece, 5)) == writer.before(np.resize(piece, 3 * piece.size + 9)) == name
    assert writer.before(np.zeros(1 << 20, np.uint8)) != writer.before(piece)
    assert sum(map(len, writer.files.values())) == piece.size + 4096


def test_the_benchmarks_in_small_are_packed_and_run(tmp_path: Path) -> None:
    path = tmp_path / "pack.zip"
    written = device.pack(path, small=True, names={"saxpy 2-d", "mat33 * mat33", "neighbours"})
    assert written["runs"] == written["kernels"] == 3 and written["bytes"] == path.stat().st_size
    runner = device.device_runner
    found = runner.run_pack(runner.Pack(path), Driver(90))
    assert found["wrong"] == [] and len(found["runs"]) == 3
    assert "device_runner.py" in zipfile.ZipFile(path).namelist()


@pytest.mark.soak
def test_all_kernels_of_the_scenes_give_the_bits_of_the_cpu(tmp_path: Path) -> None:
    path = tmp_path / "pack.zip"
    assert device.main(["pack", str(path), "--small"]) == 0
    found = device.device_runner.run_pack(device.device_runner.Pack(path), Driver(80))
    assert found["wrong"] == found["not_run"] == [] and len(found["runs"]) > 40
    frame = max(found["runs"], key=lambda row: row["launches"])
    assert frame["launches"] > 100 and sum(count for _, count in frame["kernels"].values()) == frame["launches"]
