"""What kernels printed: records of a format's address and its arguments, formatted as the C library would."""

from __future__ import annotations

import ctypes
import re
import struct
import sys

from engine.compiler.emit_warp32_runtime import PRINT_RECORD
from engine.context.emulator.memory import Memory

_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)((?:\.\d+)?)(hh|h|ll|l|z)?([diouxXeEfFgGaAcsp%])")
_STRING_LIMIT = 4096


def show(records: bytes, used: int, memory: Memory) -> None:
    """Print the records to stdout, in the order of the threads that made them."""
    for start in range(0, len(records) - PRINT_RECORD + 1, PRINT_RECORD):
        (address,) = struct.unpack_from("<Q", records, start)
        sys.stdout.write(formatted(_string(address, memory), records[start + 8 : start + PRINT_RECORD], memory))
    if used > len(records):
        sys.stdout.write(f"… {(used - len(records)) // PRINT_RECORD} more lines: the buffer was full\n")
    sys.stdout.flush()


def _string(address: int, memory: Memory) -> str:
    """The zero-terminated text at a device address."""
    found = memory.find(address)
    if found is None:
        return f"<no string at {address:#x}>"
    data = ctypes.string_at(address, min(found.end - address, _STRING_LIMIT))
    return data.partition(b"\0")[0].decode(errors="replace")


def formatted(text: str, arguments: bytes, memory: Memory) -> str:
    """`printf`, with the arguments packed as C passes them to a variadic function: each at its own alignment."""
    offset = 0

    def take(code: str) -> int | float:
        nonlocal offset
        size = struct.calcsize(code)
        offset = -(-offset // size) * size
        (value,) = struct.unpack_from(f"<{code}", arguments.ljust(offset + size, b"\0"), offset)
        offset += size
        return value

    def one(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        form = f"%{flags}{width}{precision}"
        if kind in "eEfFgGaA":
            value = take("d")
            return float(value).hex() if kind in "aA" else (form + kind) % value
        if kind == "s":
            return (form + "s") % _string(int(take("Q")), memory)
        if kind == "p":
            return (form + "s") % hex(int(take("Q")))
        if kind == "c":
            return chr(int(take("i")) & 0xFF)
        wide = length in ("ll", "l", "z")
        code = "q" if wide else "i"
        number = int(take(code if kind in "di" else code.upper()))
        return (form + ("d" if kind in "diu" else kind)) % number

    return _CONVERSION.sub(one, text)
