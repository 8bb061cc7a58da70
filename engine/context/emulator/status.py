"""How the emulated driver's inner functions fail: with the status that the real driver would return, and why."""

from __future__ import annotations


class DriverFailure(Exception):
    """`status` is the name of a CUresult; `text` says more than the driver would."""

    def __init__(self, status: str, text: str = ""):
        self.status, self.text = status, text
        super().__init__(status, text)
