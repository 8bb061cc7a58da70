"""How the emulated driver's inner functions fail: with the status that the real driver would return, and why."""

from __future__ import annotations

from typing import Any


class DriverFailure(Exception):
    """`status` is the name of a CUresult; `text` says more than the driver would; `results` come with the status."""

    def __init__(self, status: str, text: str = "", results: tuple[Any, ...] = ()):
        self.status, self.text, self.results = status, text, results
        super().__init__(status, text)
