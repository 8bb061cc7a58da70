"""llvmlite's binding, loaded at first use: LLVM takes 70 ms that `import engine` need not wait for."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what the import system asks of any module
        raise AttributeError(name)
    found = getattr(importlib.import_module("llvmlite.binding"), name)
    globals()[name] = found
    return found
