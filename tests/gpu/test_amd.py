"""Code objects for AMD GPUs: what a child process builds is read as ELF; what these GPUs lack is refused."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import engine
from engine.compiler.target_amd import AMD_ARCHITECTURES, DEFAULT_AMD
from engine.errors import CompileError, ConfigError

EM_AMDGPU, FUNC, OBJECT = 224, 2, 1
# the low byte of e_flags, from LLVM's "User Guide for AMDGPU Backend", table of EF_AMDGPU_MACH
MACHINES = {"gfx906": 0x2F, "gfx908": 0x30, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx1030": 0x36, "gfx1100": 0x41,
            "gfx1201": 0x4E}  # fmt: skip

BUILD = """
import importlib, sys
import engine
from tests.gpu import test_blocks, test_warps
folder, arch, *names = sys.argv[1:]
kernels = [*test_blocks.ALL, engine.overload(test_warps.of_warps, [engine.array(dtype=t) for t in (
    float, float, float, float, engine.uint32)])]
if names == ["all"]:
    from tests.gpu.project_kernels import project_kernels
    kernels += [k if not k.is_generic else engine.overload(k, types) for _, k, types in project_kernels()]
else:
    kernels += [getattr(importlib.import_module(f"engine.{module}"), name) for module, name in
                (place.split(":") for place in names)]
engine.build(list(dict.fromkeys(kernels)), target=arch, folder=folder)
"""
SAMPLE = ("geom.bvh_build:place_children", "geom.collision:find_families", "geom.placed:place_shapes",
          "sim.solver_soft_step_bodies:begin_bodies", "kernels.segments:count_marked")  # fmt: skip


def symbols(elf: bytes) -> dict[str, tuple[int, int]]:
    """Type and size of the symbols of an ELF file of 64 bits."""
    assert elf[:6] == b"\x7fELF\x02\x01"
    (at,) = struct.unpack_from("<Q", elf, 40)
    _, count, _ = struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + 64 * k) for k in range(count)]
    found = {}
    for _, kind, _, _, offset, size, link, _, _, each in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for k in range(size // each):
            name, info, _, _, _, length = struct.unpack_from("<IBBHQQ", elf, offset + k * each)
            end = elf.index(b"\0", names + name)
            found[elf[names + name : end].decode()] = (info & 15, length)
    return found


def built_in_a_child(folder: Path, arch: str, *names: str) -> int:
    """Builds kernels, and looks at each file; how many there are."""
    run = subprocess.run([sys.executable, "-c", BUILD, str(folder), arch, *names], capture_output=True, text=True,
                         cwd=Path(__file__).parents[2], timeout=900, check=False)  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    rows = json.loads((folder / "manifest.json").read_text())["kernels"]
    for row in rows:
        elf = (folder / row["file"]).read_bytes()
        machine, flags = struct.unpack_from("<H", elf, 18)[0], struct.unpack_from("<I", elf, 48)[0]
        assert machine == EM_AMDGPU and flags & 0xFF == MACHINES[arch], row
        known = symbols(elf)
        assert known[row["entry"]][0] == FUNC and known[row["entry"]][1] > 0
        assert known[f"{row['entry']}.kd"] == (OBJECT, 64), "the descriptor of a kernel has 64 bytes"
        assert row["target"] == arch and not row["ptx"] and not row["driver"]
    return len(rows)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
def test_kernels_become_code_objects(arch: str, tmp_path: Path) -> None:
    assert built_in_a_child(tmp_path, arch, *SAMPLE) == 5 + len(SAMPLE)


@pytest.mark.soak
@pytest.mark.parametrize("arch", list(AMD_ARCHITECTURES))
def test_all_kernels_of_the_engine_become_code_objects(arch: str, tmp_path: Path) -> None:
    assert built_in_a_child(tmp_path, arch, "all") > 90


def test_each_architecture_is_told_apart(tmp_path: Path) -> None:
    @engine.kernel
    def shift(x: engine.array(dtype=float), by: float):
        x[engine.tid()] += by

    rows = engine.build(shift, target=[*AMD_ARCHITECTURES, "amdgcn"], folder=tmp_path)
    assert [row.target for row in rows] == [*AMD_ARCHITECTURES, DEFAULT_AMD]
    for row in rows:
        assert struct.unpack_from("<I", (tmp_path / row.file).read_bytes(), 48)[0] & 0xFF == MACHINES[row.target]


def test_what_these_gpus_lack_is_refused(tmp_path: Path) -> None:
    @engine.kernel
    def says(x: engine.array(dtype=float)):
        print(x[0])

    @engine.kernel
    def large(x: engine.array(dtype=float)):
        own = engine.zeros(shape=40_000, dtype=float)
        own[int(x[0])] = 1.0
        x[0] = own[3]

    @engine.kernel
    def plain(x: engine.array(dtype=float)):
        x[engine.tid()] = 1.0

    with pytest.raises(CompileError, match=r"AMD GPUs have no print\(\)"):
        engine.build(says, target="gfx90a", folder=tmp_path)
    with pytest.raises(CompileError, match="more than the 131056 bytes"):
        engine.build(large, target="gfx90a", folder=tmp_path)
    with engine.config.scope(checked=True), pytest.raises(CompileError, match="a check of checked mode"):
        engine.build(plain, target="gfx1100", folder=tmp_path)
    with pytest.raises(ConfigError, match="gfx906"):
        engine.build(plain, target="gfx1", folder=tmp_path)
    assert not list(tmp_path.iterdir())
