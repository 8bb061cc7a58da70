"""Emits MIR as LLVM text for an AMD GPU (MIR to LLVM): the code for NVIDIA's, with what the two call differently.

A warp is 32 lanes here, too: one or both halves of a wavefront, so that shuffles and votes mean the same everywhere.
The one argument is the launch block, or the address of one that is larger than 4096 bytes.
"""

from __future__ import annotations

import re

from engine.compiler.diagnostics import error_at
from engine.compiler.emit_ptx import Gpu, GpuOptions, check_memory, padded
from engine.compiler.emit_thread import WARP, check_features
from engine.compiler.ir import Function, Op
from engine.compiler.target_amd import MISSING, PRIVATE_BYTES, AmdArchitecture

_ALLOCA = re.compile(r"  (%\S+) = (alloca .*)")
_PACKET = {"ntid": (4, "i16"), "grid": (12, "i32")}  # offset and type of the sizes in a dispatch packet


def emit_amd(fn: Function, symbol: str, options: GpuOptions, arch: AmdArchitecture) -> str:
    """The LLVM module, as text, with the entry named `symbol`.

    Raises `CompileError` for what these GPUs lack: LLVM itself would end the process.
    """
    check_features(fn)
    check_memory(fn)
    private = 0
    for op in fn.body.walk():
        if op.kind in MISSING:
            raise error_at(fn, op.loc, f"AMD GPUs have no {MISSING[op.kind]}")
        if op.kind == "local" and not op.attrs.get("shared"):
            private += padded(op)
            if private > PRIVATE_BYTES:
                raise error_at(fn, op.loc, f"the local arrays of '{fn.name}' take more than the {PRIVATE_BYTES} bytes "
                                           "that a thread of an AMD GPU has")  # fmt: skip
    return Amd(fn, options, arch).module(symbol)


class Amd(Gpu):
    """The emitter."""

    order = 'syncscope("agent") monotonic'

    def __init__(self, fn: Function, options: GpuOptions, arch: AmdArchitecture):
        super().__init__(fn, options)
        self.wave = arch.wave

    def function(self, symbol: str, linkage: str = "") -> list[str]:
        """As for NVIDIA's; what lies on the stack is in an address space of its own."""
        lines = []
        for line in super().function(symbol, linkage):
            found = _ALLOCA.fullmatch(line)
            if found is None:
                lines.append(line)
            else:
                lines += [f"  {found[1]}.own = {found[2]}, addrspace(5)",
                          f"  {found[1]} = addrspacecast ptr addrspace(5) {found[1]}.own to ptr"]  # fmt: skip
        return lines

    def signature(self, symbol: str, size: int, by_value: bool) -> str:
        given = f"ptr addrspace(4) byref([{size} x i8]) align 16 %given"
        cast = "%params = addrspacecast ptr addrspace(4) %given to ptr"
        if not by_value:
            given, cast = "ptr addrspace(1) align 16 %given", "%params = addrspacecast ptr addrspace(1) %given to ptr"
        self.entry.insert(0, f"  {cast}")
        return f"amdgpu_kernel void @{symbol}({given})"

    def attributes(self) -> str:
        threads = self.options.max_threads or 1024
        return f'nounwind "amdgpu-flat-work-group-size"="1,{threads}" "uniform-work-group-size"="false"'

    def launch_registers(self) -> None:
        for name, register in (("tid", "workitem.id.x"), ("ctaid", "workgroup.id.x")):
            self.declarations[register] = f"declare i32 @llvm.amdgcn.{register}()"
            self.entry.append(f"  %{name}.32 = call range(i32 0, -2147483648) i32 @llvm.amdgcn.{register}()")
        self.declarations["dispatch"] = "declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()"
        self.entry.append("  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()")
        for name, (at, t) in _PACKET.items():
            self.entry.append(f"  %{name}.at = getelementptr i8, ptr addrspace(4) %packet, i64 {at}")
            align = 2 if t == "i16" else 4
            self.entry.append(f"  %{name}.raw = load {t}, ptr addrspace(4) %{name}.at, align {align}")
        self.entry += ["  %ntid.32 = zext i16 %ntid.raw to i32", "  %nctaid.32 = udiv i32 %grid.raw, %ntid.32"]
        for name in ("tid", "ctaid", "ntid", "nctaid"):
            self.entry.append(f"  %{name} = zext nneg i32 %{name}.32 to i64")

    def members(self) -> list[str]:
        self.declarations["mbcnt.lo"] = "declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)"
        self.declarations["mbcnt.hi"] = "declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)"
        lines = ["  %lane.low = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)",
                 "  %lane.wave = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %lane.low)",
                 f"  %half = and i32 %lane.wave, {self.wave - WARP}",
                 "  %inside = icmp slt i64 %start, %size"]  # fmt: skip
        before, self.lines = self.lines, lines
        name = self.ballot("%inside")
        self.lines = before
        return [*lines, f"  %members = add i32 {name}, 0"]

    def ballot(self, truth: str) -> str:
        """A bit for each lane of this half of the wavefront."""
        wide = self.intrinsic(f"llvm.amdgcn.ballot.i{self.wave}", f"i{self.wave}", f"i1 {truth}")
        if self.wave == WARP:
            return wide
        shifted = self.value(f"lshr i64 {wide}, {self.value('zext i32 %half to i64')}")
        return self.value(f"trunc i64 {shifted} to i32")

    def barrier(self, op: Op) -> None:
        block = op.attrs["scope"] == "block"
        scope = "workgroup" if block else "wavefront"
        self.lines.append(f'  fence syncscope("{scope}") release')
        self.call("llvm.amdgcn.s.barrier" if block else "llvm.amdgcn.wave.barrier")
        self.lines.append(f'  fence syncscope("{scope}") acquire')

    def vote(self, op: Op) -> None:
        mode, said = op.attrs["mode"], self.names[op.operands[0]]
        if mode == "all":
            said = self.value(f"xor i1 {said}, true")
        word = self.ballot(said)
        test = {"any": "ne", "all": "eq"}.get(mode)
        self.names[op] = word if test is None else self.value(f"icmp {test} i32 {word}, 0")

    def moved(self, mode: str, word: str, by: str, source: str) -> str:
        """32 bits of the lane asked for; the instruction counts bytes of the wavefront's register."""
        lane = self.value(f"add i32 {self.value(f'and i32 {source}, {WARP - 1}')}, %half")
        at = self.value(f"shl i32 {lane}, 2")
        return self.intrinsic("llvm.amdgcn.ds.bpermute", "i32", f"i32 {at}", f"i32 {word}")


Amd.structure = {**Gpu.structure, "barrier": Amd.barrier, "vote": Amd.vote}
