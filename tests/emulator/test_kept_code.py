"""What a PTX text became is kept in the cache folder: a later process gets the same code, and makes what is missing."""

from dataclasses import fields
from pathlib import Path

import pytest

from engine.compiler import target_warp32
from engine.compiler.cache import KernelCache
from engine.compiler.ptx_parser import PtxError, parse
from engine.compiler.target_warp32 import link_warp, translate
from tests.emulator.one_instruction import kernel_text

HEAD = ".global .align 4 .b8 table[8] = {1, 0, 0, 0, 2}; .global .align 8 .u64 place = table;"
BODY = """
ld.param.b64 %d0, [k_param_0];
mov.u64 %d1, table;
@%p1 ld.global.v2.b32 {%r1, %r2}, [%d1];
setp.eq.s32 %p1, %r0, 0;
shl.b32 %r3,%r0 , 2;
add.s32 \t%r4, %r3, -7;
mul.f32 %r5, %r4, 0f3F000000;
st.global.b32 [%d0+4], %r5;
"""


def code_of(text: str) -> dict:
    code = translate(text).kernels["k"]
    return {one.name: getattr(code, one.name) for one in fields(code)}


@pytest.fixture
def other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Forgets what this process has in memory; the cache folder is an empty one."""

    def forget() -> None:
        monkeypatch.setattr(target_warp32, "_handlers", {})

    forget()
    monkeypatch.setattr(KernelCache, "folder", tmp_path)
    return forget


def test_a_later_process_gets_the_same_code(other_process) -> None:
    text = kernel_text(BODY, 1, head=HEAD)
    first, made = code_of(text), translate(text)
    link_warp(made.kernels["k"])
    other_process()
    again = translate(text)
    assert "recall" in again.times and code_of(text) == first
    assert (again.target, again.variables, again.offsets, again.size) == (
        "sm_80", made.variables, made.offsets, made.size)  # fmt: skip
    assert again.module.functions["k"].body == made.module.functions["k"].body
    assert link_warp(again.kernels["k"]).words


def test_what_is_missing_in_the_folder_is_made_again(other_process) -> None:
    text = kernel_text(BODY, 1, head=HEAD)
    first = code_of(text)
    link_warp(translate(text).kernels["k"])
    folder = KernelCache().folder
    for path in folder.glob("??/*"):
        if path.stat().st_size > 3000:  # the handlers, and the code itself
            path.write_bytes(path.read_bytes()[:-9])
    other_process()
    made = translate(text)
    assert "recall" not in made.times and code_of(text) == first
    assert link_warp(made.kernels["k"]).words


def test_an_edited_text_is_another_text(other_process) -> None:
    text = kernel_text(BODY, 1)
    first = code_of(text.replace("table", "k_param_0"))
    assert code_of(text.replace("table", "k_param_0").replace("-7", "-8")) != first


LINES = [
    "", "add.s32 %r1, %r2 %r3;", "add.s32 %r1, %r2, ;", "add.s32 %r1,, %r2;", "mov.b32 %r1, [%d1;",
    "st.global.v2.b32 [%d0], {%r1, %r2;", "@%p1\nmov.b32 %r1, 2;", "mov.b32 %r1,\n%r2;", "mov.b32 %r1, 09;",
    "{ .reg .b32 %r4; mov.b32 %r4, 1;\nadd.s32 %r1, %r4, %r4;\n}", "mov.b32 %r1, 1; mov.b32 %r2, 1;",
    "L: mov.b32 %r1, 1;", ".loc 1 5 3\nadd.s32 %r1, %r2, 0x10U; // more",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_lines_are_read_as_their_tokens_are(line: str) -> None:
    """A line that is one instruction is read in one go, except in a text with such a comment."""
    results = []
    for before in ("", "/**/"):
        try:
            results.append(parse(before + kernel_text(BODY.replace("table", "k_param_0") + line, 1)))
        except PtxError:
            results.append("refused")  # the line may be the next one, where the end of this one is missing
    assert results[0] == results[1]
