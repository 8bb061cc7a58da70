"""The `engine` command: what it prints, its exit codes, one line for every bad input, no half-written files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.cli import main

ROOT = Path(__file__).parents[1]
HEAD = '#usda 1.0\n(\n defaultPrim = "W"\n metersPerUnit = 1\n upAxis = "Z"\n timeCodesPerSecond = 50\n)\n'
RIGID = 'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]'
BALL = f'def Sphere "ball" ({RIGID}) {{\n}}\n'


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scene with one falling ball; the current folder is its folder."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "scene.usda", BALL)


def write(path: Path, body: str) -> Path:
    path.write_text(f'{HEAD}def Xform "W"\n{{\n{body}\n}}\n')
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the command."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_run_prints_a_summary_and_writes_the_frames(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pxr import Usd

    code, out, _ = call(capsys, "run", "scene.usda", "--frames", "5", "--out", "out/frames.usdc")
    assert code == 0
    for word in ("bodies", "contacts", "step", "compile", "penetration", "out/frames.usdc"):
        assert word in out
    stage = Usd.Stage.Open("out/frames.usdc")
    assert (stage.GetTimeCodesPerSecond(), stage.GetEndTimeCode()) == (50, 4)
    assert [p.name for p in Path("out").iterdir()] == ["frames.usdc"]


def test_run_as_json(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "run", "scene.usda", "--frames", "3", "--json")
    summary = json.loads(out)
    assert code == 0 and err == ""
    assert (summary["bodies"], summary["frames"], summary["output"]) == (1, 3, None)
    assert summary["simulated"] == pytest.approx(2 / 50)


def test_quiet_prints_nothing(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "run", "scene.usda", "--frames", "2", "--quiet") == (0, "", "")


def test_fps_overrides_the_rate_of_the_scene(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "run", "scene.usda", "--frames", "3", "--fps", "10", "--json")
    assert json.loads(out)["simulated"] == pytest.approx(0.2)


def test_what_is_not_simulated_as_written_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api = RIGID.replace("]", ', "FooAPI"]')
    path = write(tmp_path / "foo.usda", "".join(f'def Sphere "s{i}" ({api}) {{\n}}\n' for i in range(3)))
    _, _, err = call(capsys, "run", str(path), "--frames", "1")
    assert err.count("note: FooAPI: not supported yet, ignored (/W/s0 and 2 more)") == 1


CUBE_MESH = 'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]'
BAD_SCENES = {
    "empty": ("", "nothing to simulate: no rigid bodies and no particles"),
    "soft": (
        'def TetMesh "t" {\n}',
        "nothing to simulate: no rigid bodies and no particles; not supported yet: TetMesh",
    ),
    "nan": (BALL.replace("{", "{ float physics:mass = nan"), "/W/ball: physics:mass is nan, not a finite number"),
    "negative": (BALL.replace("{", "{ float physics:mass = -1"), "/W/ball: physics:mass is -1, must not be negative"),
    "mesh": (f'def Mesh "m" ({CUBE_MESH}) {{\n}}', "/W/m: mesh has no faces"),
    "joint": (
        f'{BALL}def PhysicsFixedJoint "j" {{ rel physics:body1 = </W/none>\n}}',
        "/W/j: body1 refers to /W/none, which does not exist",
    ),
}


@pytest.mark.parametrize("name", BAD_SCENES)
def test_bad_scene_is_one_line_and_leaves_no_file(scene: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    body, reason = BAD_SCENES[name]
    write(Path("bad.usda"), body)
    code, out, err = call(capsys, "run", "bad.usda", "--frames", "3", "--out", "frames.usda")
    assert (code, out, err) == (2, "", f"engine: bad.usda: {reason}\n")
    assert sorted(p.name for p in Path().iterdir()) == ["bad.usda", "scene.usda"]


BAD_CALLS = {
    "missing file": (["run", "none.usda"], "none.usda: no such file"),
    "folder": (["run", "folder.usda"], "folder.usda: is a folder, not a USD file"),
    "unknown kind": (
        ["run", "notes.txt"],
        "notes.txt: unknown kind of scene file; there are .json, .usd, .usda, .usdc, .usdz",
    ),
    "frames": (["run", "scene.usda", "--frames", "-1"], "--frames must be at least 1, got -1"),
    "fps": (["run", "scene.usda", "--fps", "0"], "--fps must be a positive number, got 0"),
    "threads": (
        ["run", "scene.usda", "--threads", "0"],
        "threads: expected an integer from 1 to 1024, got 0",
    ),
    "device": (
        ["run", "scene.usda", "--device", "gpu7"],
        "unknown device 'gpu7'; known devices: cpu, cuda, emu",
    ),
    "output kind": (
        ["run", "scene.usda", "--out", "frames.txt"],
        "frames.txt: frames are written as .usd, .usda or .usdc",
    ),
    "output place": (
        ["run", "scene.usda", "--out", "notes.txt/frames.usda"],
        "notes.txt/frames.usda: cannot be written: a part of the path is no folder",
    ),
    "output is input": (
        ["run", "scene.usda", "--out", "scene.usda"],
        "scene.usda: cannot be written: it is the scene that is being simulated",
    ),
    "flatten": (["run", "scene.usda", "--flatten"], "--flatten needs --out"),
    "no scene": (["run"], "Missing argument 'scene'."),
    "option": (["run", "scene.usda", "--color"], "No such option: --color"),
    "command": (["walk"], "No such command 'walk'."),
    "number": (["run", "scene.usda", "--frames", "x"], None),
    "benchmark": (["bench", "nothing_like_it"], None),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_call_is_one_line_with_exit_code_2(scene: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    arguments, reason = BAD_CALLS[name]
    Path("notes.txt").write_text("")
    Path("folder.usda").mkdir()
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("engine: ") and err.count("\n") == 1
    if reason is not None:
        assert err == f"engine: {reason}\n"
    assert sorted(p.name for p in Path().iterdir()) == ["folder.usda", "notes.txt", "scene.usda"]


def test_damaged_files(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pxr import Sdf

    Sdf.Layer.FindOrOpen("scene.usda").Export("whole.usdc")
    Path("cut.usdc").write_bytes(Path("whole.usdc").read_bytes()[:300])
    Path("cut.usda").write_text(scene.read_text()[:150])
    Path("poem.usda").write_text("A rose is a rose\n")
    for name in ("cut.usdc", "cut.usda", "poem.usda"):
        code, out, err = call(capsys, "run", name)
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert err.startswith(f"engine: {name}: not a USD file, or damaged (")


def test_debug_shows_the_traceback(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "run", "none.usda", "--debug")
    assert (code, out) == (2, "") and err.startswith("Traceback") and "none.usda: no such file" in err


def test_interrupt_keeps_the_frames_so_far(
    scene: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pxr import Usd

    from engine.sim.simulation import Simulation

    step = Simulation.step

    def interrupted(self: Simulation) -> None:
        if self.frame == 3:
            raise KeyboardInterrupt
        step(self)

    monkeypatch.setattr(Simulation, "step", interrupted)
    code, out, _ = call(capsys, "run", "scene.usda", "--frames", "100", "--out", "frames.usda")
    assert code == 130 and "interrupted" in out
    assert Usd.Stage.Open("frames.usda").GetEndTimeCode() == 3


def test_a_run_that_goes_wrong_leaves_no_file(
    scene: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.errors import SimulationError
    from engine.sim.simulation import Simulation

    def broken(self: Simulation) -> None:
        raise SimulationError("/W/ball", "body_q", 7)

    monkeypatch.setattr(Simulation, "step", broken)
    code, out, err = call(capsys, "run", "scene.usda", "--frames", "9", "--out", "frames.usda", "--quiet")
    assert (code, out, err) == (2, "", "engine: frame 7: body_q of body '/W/ball' is not finite\n")
    assert [p.name for p in Path().iterdir()] == ["scene.usda"]


def test_ctrl_c_from_outside(scene: Path) -> None:
    from pxr import Usd

    command = [sys.executable, "-m", "engine", "run", "scene.usda", "--frames", "100000000", "--out", "frames.usda"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(Path().glob(".frames.*.usda")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err, err
    assert "interrupted" in out
    assert Usd.Stage.Open("frames.usda") and not list(Path().glob(".frames.*"))


def test_info_and_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "info")
    assert code == 0 and "usd-core" in out and "devices" in out
    code, out, _ = call(capsys, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)}
    assert {"python", "packages", "cpu", "openmp", "cache", "devices"} < set(checks)
    assert any(name.startswith("gpu") for name in checks)
    assert code == (0 if all(check["ok"] for check in checks.values()) else 1)


def test_doctor_finds_a_cache_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import engine.cli

    monkeypatch.setitem(engine.cli._CHECKS, "cache", lambda: (False, "/x cannot be written"))
    code, out, _ = call(capsys, "doctor")
    assert code == 1 and "FAIL cache" in out


def test_bench_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "bench", "--list")
    assert code == 0 and "pile1000" in out


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from engine.cli import main\n"
        "try:\n    main(['run', '--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'pxr', 'scipy', 'trimesh', 'cuda', 'pyglet'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert "--frames" in result.stdout
