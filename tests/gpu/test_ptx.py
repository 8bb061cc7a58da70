"""PTX: what it contains, which options reach it, and that nothing that can be asked for ends the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.compiler.assemble_ptx import assemble, find_ptxas
from engine.compiler.pipeline import compile_kernel
from engine.compiler.target_ptx import ARCHITECTURES, PtxTarget, parse_version, ptx_target
from engine.context.packer import block_format
from engine.errors import CompileError, ConfigError, DeviceError

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).name
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas: pip install weft-engine[ptxas]")


@engine.kernel
def saxpy(x: engine.array(dtype=float), y: engine.array(dtype=float), a: float):
    i = engine.tid()
    y[i] = a * x[i] + y[i]


@engine.kernel(launch_bounds=(128, 4), max_registers=40, grid_stride=True)
def bounded(x: engine.array(dtype=float)):
    i = engine.tid()
    x[i] = x[i] + 1.0


@engine.kernel
def shared_names(x: engine.array(dtype=float), n: engine.array(dtype=int)):
    i = engine.tid()
    print(x[i])
    if n[i] == 3:
        engine.printf("%d %g\n", n[i], x[i])


@engine.table
class Bodies:
    mass: float
    speed: engine.vec3
    force: engine.vec3


@engine.kernel
def accelerate(b: Bodies):
    i = engine.tid()
    b.speed[i] = b.speed[i] + b.force[i] / b.mass[i]


@engine.kernel
def accelerate_from(b: Bodies, masses: engine.array(dtype=float)):
    i = engine.tid()
    b.speed[i] = b.speed[i] + b.force[i] / masses[i]


def ptx(kernel: engine.Kernel, arch: str = "sm_75", dense: tuple[int, ...] = ()) -> str:
    return kernel.compile(tuple(t for _, t in kernel.params), ptx_target(arch), dense).image.decode()


def run_matrix(arch: str, *flags: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.gpu.ptx_matrix", arch, *flags], cwd=ROOT, capture_output=True,
                          text=True, timeout=900, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-200:]}\n{done.stderr[-2000:]}"
    assert "156 compiled, 21 refused" in done.stdout


def test_every_primitive_on_every_type() -> None:
    run_matrix("sm_75")


@pytest.mark.soak
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_primitive_on_every_type_and_architecture(arch: str) -> None:
    run_matrix(arch, *["--assemble"] if find_ptxas() else [])


def test_lowest_version_is_the_default() -> None:
    for arch, row in ARCHITECTURES.items():
        text = ptx(saxpy, arch)
        assert f".version {row.ptx // 10}.{row.ptx % 10}\n.target {arch}\n.address_size 64" in text


def test_version_can_be_raised_but_not_lowered() -> None:
    kinds, fresh = tuple(t for _, t in saxpy.params), engine.Kernel(saxpy.fn)
    assert ".version 8.3" in saxpy.compile(kinds, ptx_target("sm_80", "8.3")).image.decode()
    with pytest.raises(ConfigError, match="sm_90 needs PTX 7.8"):
        ptx_target("sm_90", "7.0")
    with engine.config.scope(ptx_version="7.0"):  # holds where it can
        assert ptx_target("sm_80").version == 70 and ptx_target("sm_90").version == 78
    with engine.config.scope(ptx_version="78", ptx_arch="sm_86"):
        assert ".version 7.8\n.target sm_86" in fresh.code
    assert ".version 6.3\n.target sm_75" in fresh.code


@pytest.mark.parametrize("text", ["7.9", "8", "nine", "9.1", "-1"])
def test_unknown_version(text: str) -> None:
    """LLVM would silently take another one."""
    with pytest.raises(ConfigError, match="expected one of"):
        parse_version(text)


@pytest.mark.parametrize("arch", ["sm_70", "sm_999", "gfx90a", ""])
def test_unknown_architecture(arch: str) -> None:
    with pytest.raises(ConfigError, match="expected one of sm_75"):
        PtxTarget(arch)


def test_parameters_are_the_launch_block() -> None:
    made = compile_kernel(saxpy.lower(tuple(t for _, t in saxpy.params)), ptx_target("sm_75"))
    size = block_format(made.abi.slots).size
    assert made.symbol == "saxpy_kernel" and made.address == 0
    assert f".param .align 8 .b8 saxpy_kernel_param_0[{size}]" in made.image.decode()


def test_a_large_block_is_passed_by_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a{k}" for k in range(510)]
    parameters = ", ".join(f"{n}: float" for n in names)
    lines = ["import engine", "@engine.kernel", f"def wide(x: engine.array(dtype=float), {parameters}):",
             "    i = engine.tid()", "    s = x[i]", *[f"    s += {n}" for n in names], "    x[i] = s"]  # fmt: skip
    (tmp_path / "wide_kernel.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    from wide_kernel import wide  # type: ignore[import-not-found]

    text = ptx(wide)
    assert ".param .u64 .ptr .align 8 wide_kernel_param_0" in text and "ld.global.nc.b32" in text
    assert ".param .align 8 .b8" not in text


def test_lines_are_those_of_python() -> None:
    text, line = ptx(saxpy), saxpy.func.source.first_line
    number = text.split(f'/{HERE}"')[0].rsplit(".file", 1)[1].split()[0]
    assert f".loc\t{number} {line + 3} " in text


def test_lines_of_inlined_functions_are_in_their_own_file() -> None:
    @engine.kernel
    def lengths(v: engine.array(dtype=engine.vec3), x: engine.array(dtype=float)):
        i = engine.tid()
        x[i] = engine.length(v[i])

    files = {line.split('"')[1].rsplit("/", 1)[1] for line in ptx(lengths).splitlines() if line.startswith("\t.file")}
    assert HERE in files and "linear.py" in files


def test_moving_a_kernel_changes_its_lines(tmp_path: Path) -> None:
    """The cache must not hand out the lines of an older text of the file."""
    source = "import engine\n@engine.kernel\ndef moved(x: engine.array(dtype=float)):\n    x[engine.tid()] = 1.0\n"
    lines = []
    for before in ("", "\n\n\n"):
        path = tmp_path / f"moved{len(before)}.py"
        path.write_text(before + source)
        scope: dict = {}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        text = ptx(scope["moved"])
        assert f'"{path}"' in text
        lines.append(f".loc\t1 {4 + len(before)} " in text)
    assert lines == [True, True]


@pytest.mark.parametrize("name", ["1abc", "my kernel!", "größe", "ld.global", "add"])
def test_any_name_of_a_kernel_gives_a_valid_entry(name: str) -> None:
    text = ptx(engine.Kernel(saxpy.fn, key=name))
    assert re.search(r"\.visible \.entry [A-Za-z_]\w*_kernel\(", text, re.ASCII)
    if find_ptxas() is not None:
        assemble(text, "sm_75")


def test_any_place_in_any_file(tmp_path: Path) -> None:
    """Columns beyond LLVM's limit, quotes, backslashes, and bytes that are no text in a path."""
    path = f"{tmp_path}/we\"ird \\ \udcff näme.py"
    source = f"import engine\n@engine.kernel\ndef far(x: engine.array(dtype=float)):\n    x[0] = {' ' * 70_000}x[1]\n"
    Path(path).write_text(source)
    scope: dict = {}
    exec(compile(source, path, "exec"), scope)
    assert 'we\\"ird \\\\ \\377 n\\303\\244me.py"' in ptx(scope["far"])


def test_options() -> None:
    text = ptx(bounded)
    assert ".maxntid 128\n.minnctapersm 4\n.maxnreg 40" in text and "%nctaid.x" in text
    assert ".maxntid" not in ptx(saxpy) and "%nctaid.x" not in ptx(saxpy)


@pytest.mark.parametrize("options", [{"launch_bounds": 2048}, {"launch_bounds": (0, 1)}, {"launch_bounds": (1, 2, 3)},
                                     {"max_registers": 256}, {"max_registers": "many"}])  # fmt: skip
def test_options_that_no_gpu_has(options: dict) -> None:
    kernel = engine.Kernel(saxpy.fn, options=options)
    with pytest.raises(ValueError, match="whole numbers from 1 to|launch_bounds is"):
        ptx(kernel)


def test_other_planes_of_a_table_do_not_change() -> None:
    """Two arrays of a launch may share memory; two planes of one table never do."""
    assert ptx(accelerate).count("ld.global.nc.b32") == 4
    assert ptx(accelerate_from).count("ld.global.nc.b32") == 3  # not the masses
    assert ".nc." not in ptx(saxpy)


def test_prints_call_vprintf() -> None:
    text = ptx(shared_names)
    assert text.count("call.uni (retval0), vprintf") == 2
    assert "st.local.b64" in text or "st.b64" in text  # floats are doubles there, as C promotes them


def test_too_much_local_memory_is_refused_with_its_line() -> None:
    @engine.kernel
    def hungry(x: engine.array(dtype=float)):
        a = engine.zeros(shape=200000, dtype=float)
        a[3] = x[0]
        x[0] = a[int(x[1])]

    with pytest.raises(CompileError, match="local arrays of 'hungry' take more than the 524288 bytes") as caught:
        ptx(hungry)
    assert caught.value.lineno == hungry.func.source.first_line + 2


def test_checks_are_noted_in_the_record_of_the_launch() -> None:
    """Its address is in the header of the launch block; without a record nothing is noted."""

    @engine.kernel
    def unsure(x: engine.array(dtype=float), n: engine.array(dtype=int)):
        i = engine.tid()
        x[n[i]] = 1.0

    assert "atom" not in ptx(unsure)
    with engine.config.scope(checked=True):
        text = ptx(unsure)
    assert "_param_0+24]" in text and "atom.acquire" in text and ".func" not in text
    if find_ptxas() is not None:
        assemble(text, "sm_75")


def test_the_host_and_the_gpu_keep_apart() -> None:
    """Compiling for one does not disturb the other, nor what the launch runs."""
    text = ptx(bounded)
    x = engine.array(np.arange(8, dtype=np.float32), device="cpu")
    engine.launch(bounded, 8, inputs=[x], device="cpu")
    assert np.array_equal(x.numpy(), np.arange(8) + 1.0)
    assert "_kernel" not in bounded.stages["asm"] and bounded.code.split()[-1]
    assert ptx(bounded) == text


def test_both_texts_of_a_compiled_kernel() -> None:
    made = saxpy.compile(tuple(t for _, t in saxpy.params), ptx_target("sm_80"))
    assert made.stages["ptx"] == made.image.decode() and "define ptx_kernel" in made.stages["llvm"]
    assert ".entry" not in made.stages["asm"]


@needs_ptxas
def test_ptxas_reports_what_is_wrong() -> None:
    with pytest.raises(DeviceError, match="ptxas"):
        assemble(ptx(saxpy).replace("fma.rn.f32", "fma.up.f31"), "sm_75")


@needs_ptxas
def test_bounds_hold_in_the_machine_code() -> None:
    assert assemble(ptx(bounded, "sm_90"), "sm_90").registers <= 40
