"""Runs PTX instructions over arrays on the emulated GPU: what the tests of opcodes share."""

import numpy as np

from engine.context import array, load_ptx

_REGISTERS = {1: "%h", 2: "%s", 4: "%r", 8: "%d"}  # by bytes; bytes travel in 16-bit registers
_DECLARATIONS = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b16 %s<9>; .reg .b32 %r<40>; .reg .b64 %d<40>;"


def kernel_text(body: str, params: int, target: str = "sm_80", head: str = "") -> str:
    """A PTX module with one kernel `k` whose parameters are 64-bit; %r0 is the thread's number in its block."""
    listed = ", ".join(f".param .u64 k_param_{i}" for i in range(params))
    return f""".version 7.8
.target {target}
.address_size 64
{head}
.visible .entry k({listed}) {{
{_DECLARATIONS}
mov.u32 %r0, %tid.x;
{body}
ret;
}}
"""


def evaluate(code: str, inputs: list[np.ndarray], result: np.dtype | type, device: str = "emu") -> np.ndarray:
    """The result of instructions for each element of the inputs.

    In `code`, {a} {b} {c} {e} are registers with the inputs, {d} is the one for the result; all are as wide as their
    NumPy types. Predicates %p1 … are free.
    """
    return evaluate_all([(code, inputs, result)], device)[0]


def evaluate_all(rows: list[tuple[str, list[np.ndarray], np.dtype | type]], device: str = "emu") -> list[np.ndarray]:
    """`evaluate` for several, in one kernel."""
    n = len(rows[0][1][0])
    lines: list[str] = []
    params: list = []
    known: dict[int, int] = {}  # arrays that several rows read
    outs = []
    for code, inputs, result in rows:
        names = {}
        for place, (letter, values) in enumerate(zip("abce", inputs, strict=False)):
            if id(values) not in known:
                known[id(values)] = len(params)
                params.append(array(values, device=device))
            size = values.itemsize
            names[letter] = f"{_REGISTERS[size]}{place + 2}"
            lines += _address(known[id(values)], size)
            lines.append(f"ld.global.{'u8' if size == 1 else f'b{8 * size}'} {names[letter]}, [%d1];")
        size = np.dtype(result).itemsize
        out = array(np.full(n * size, 0xCD, np.uint8).view(result), device=device)
        names["d"] = f"{_REGISTERS[size]}8"
        lines.append(code.format(**names))
        lines += _address(len(params), size)
        lines.append(f"st.global.{'u8' if size == 1 else f'b{8 * size}'} [%d1], {names['d']};")
        params.append(out)
        outs.append(out)
    kernel = load_ptx(kernel_text("\n".join(lines), len(params)), device=device)["k"]
    kernel.launch(1, n, params)
    return [out.numpy() for out in outs]


def _address(place: int, size: int) -> list[str]:
    return [f"ld.param.b64 %d0, [k_param_{place}];", f"mul.wide.u32 %d1, %r0, {size};", "add.s64 %d1, %d0, %d1;"]
