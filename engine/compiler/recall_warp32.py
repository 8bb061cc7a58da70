"""Keeps what a PTX text became as words in the cache folder, so that a later process need not read the text again."""

from __future__ import annotations

import functools
from array import array
from dataclasses import fields
from pathlib import Path
from typing import Any

from engine.compiler.cache import KernelCache, digest
from engine.compiler.emit_warp32 import Site, WarpCode
from engine.compiler.ptx_parser import Variable

_ARRAYS = ("words", "handlers", "targets")  # kept as bytes; the rest as JSON
_WORD_BYTES = 8


@functools.cache
def translator_version() -> str:
    """Hash of the sources that decide what a text becomes."""
    folder = Path(__file__).parent
    names = ("ptx_parser", "ptx_flow", "warp_layout", "emit_ops", "emit_warp32", "emit_warp32_handler",
             "emit_warp32_ops", "emit_warp32_memory", "emit_warp32_flow", "types", "recall_warp32",
             "target_warp32")  # fmt: skip
    return digest(*[(folder / f"{name}.py").read_bytes() for name in names])


def keep(key: str, kernels: dict[str, WarpCode], **others: Any) -> None:
    """Stores kernels, and what else there is to know of their module."""
    rows = {name: {one.name: getattr(code, one.name) for one in fields(code)} for name, code in kernels.items()}
    image = b""
    for row in rows.values():
        for name in _ARRAYS:
            held = row[name]
            row[name] = len(held)
            image += held.tobytes()
        row["sites"] = [values_of(site) for site in row["sites"]]
        row["params"] = [(values_of(variable), offset) for variable, offset in row["params"]]
    KernelCache().put(key, {"kernels": rows, **others}, image)


def recalled(key: str) -> tuple[dict[str, WarpCode], dict[str, Any]] | None:
    """The kernels stored under a key, and the rest."""
    entry = KernelCache().get(key)
    if entry is None:
        return None
    header, image = entry
    start = 0
    kernels: dict[str, WarpCode] = {}
    for name, row in header.pop("kernels").items():
        for part in _ARRAYS:
            end = start + _WORD_BYTES * row[part]
            row[part] = array("q", image[start:end])
            start = end
        row["sites"] = [Site(line, tuple(loc), *rest) for line, loc, *rest in row["sites"]]
        row["params"] = [(variable_of(values), offset) for values, offset in row["params"]]
        row["limits"] = {limit: tuple(values) for limit, values in row["limits"].items()}
        for part in ("lines", "stops"):
            row[part] = [tuple(place) for place in row[part]]
        kernels[name] = WarpCode(**row)
    return kernels, header


def values_of(one: Site | Variable) -> list[Any]:
    """A site, or a variable, as JSON has it."""
    return [value.hex() if isinstance(value, bytes) else value for value in vars(one).values()]


def variable_of(values: list[Any]) -> Variable:
    """A variable from its `values_of`."""
    name, space, align, size, initial, symbols = values
    return Variable(name, space, align, size, bytes.fromhex(initial), tuple((at, of) for at, of in symbols))
