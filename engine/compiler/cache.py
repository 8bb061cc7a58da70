"""Keeps compiled kernels on disk, safe for many processes at once.

One file for each key: magic, digest of the key and of the rest, length of the header, header (JSON), object code. A
file is written beside its place and renamed into it, so that a reader sees all of it or none; one that was cut short,
damaged or exchanged fails its digest and counts as absent. A folder that cannot be written costs one warning, never
the run.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

from engine.config import config

_MAGIC = b"WEFTOBJ2"
_DIGEST_BYTES = 32
_LENGTH_BYTES = 8
_warned: set[str] = set()


def digest(*parts: str | bytes) -> str:
    """SHA-256 over the parts, each with its length, as 64 hexadecimal digits."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def _seal(key: str, payload: bytes) -> bytes:
    """The digest of an entry: an entry under the name of another is as good as damaged."""
    return bytes.fromhex(digest(key, payload))


class KernelCache:
    """The cache folder; `config.cache_dir` where none is given. `config.kernel_cache = False` switches it off."""

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        self._folder = folder

    @property
    def folder(self) -> Path:
        return Path(self._folder if self._folder is not None else config.cache_dir) / "kernels"

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def get(self, key: str) -> tuple[dict[str, Any], bytes] | None:
        """(header, object code) stored under `key`, or None."""
        if not config.kernel_cache:
            return None
        try:
            data = self.path(key).read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST_BYTES
        payload = data[start:]
        if data[: len(_MAGIC)] != _MAGIC or _seal(key, payload) != data[len(_MAGIC) : start]:
            return None
        length = int.from_bytes(payload[:_LENGTH_BYTES], "little")
        header = payload[_LENGTH_BYTES : _LENGTH_BYTES + length]
        return json.loads(header), payload[_LENGTH_BYTES + length :]

    def put(self, key: str, header: dict[str, Any], image: bytes) -> None:
        """Stores an entry, replacing what is there."""
        if not config.kernel_cache:
            return
        import tempfile  # here, as a run whose kernels are all known stores none: the module takes 9 ms to import

        head = json.dumps(header).encode()
        payload = len(head).to_bytes(_LENGTH_BYTES, "little") + head + image
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _seal(key, payload) + payload)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        folder = str(self.folder)
        if folder not in _warned:
            _warned.add(folder)
            warnings.warn(
                f"compiled kernels cannot be kept in {folder} ({error.strerror}): every run compiles again. "
                "Set ENGINE_CACHE_DIR to a folder that can be written.",
                RuntimeWarning,
                stacklevel=3,
            )

    def clear(self) -> int:
        """Deletes all entries; returns how many there were."""
        found = [p for p in self.folder.glob("??/*") if p.is_file()]
        for p in found:
            p.unlink(missing_ok=True)
        return len(found)
