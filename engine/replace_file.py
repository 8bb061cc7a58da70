"""Output files appear whole or not at all: they are written beside their place and renamed into it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import Error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path`, with the same extension, to write to; it takes the place of `path` when the block ends.

    If the block raises, what it wrote is removed and `path` stays as it was. The name is this process's and thread's
    own, so that several may write one file: the last one stands, whole. `Error` naming `path` if it cannot be written.
    """
    target = Path(path).absolute()
    beside = target.with_name(f".{target.stem}.{os.getpid()}-{threading.get_ident()}{target.suffix}")
    try:
        try:
            yield beside
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise Error(f"{target}: cannot be written: {error.strerror or error}") from None
