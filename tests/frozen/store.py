"""Texts by their hash, compressed in a folder, and what LLVM made of some."""

import hashlib
import os
import tempfile
import zlib
from pathlib import Path

FOLDER_VARIABLE = "FLOWLOOM_FROZEN"

DIGITS = 10
"""The hexadecimal digits of a recorded hash: two of 100,000 texts are alike once in 200 times."""


def short_hash(content: bytes) -> str:
    """The hash by which content is recorded and kept."""
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def default_folder() -> Path:
    """The folder that the environment names, or one of the user's cache."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "flowloom-frozen"


class TextStore:
    """Texts in a folder; several processes may add to it."""

    def __init__(self, folder: Path):
        self.folder = folder

    def add(self, text: str) -> str:
        """Keep a text; returns its hash."""
        content = text.encode()
        name = short_hash(content)
        path = self._path("texts", name)
        if not path.exists():
            _write(path, zlib.compress(content))
        return name

    def text(self, name: str) -> str | None:
        """The text of a hash, or None if it was not made on this machine."""
        path = self._path("texts", name)
        return zlib.decompress(path.read_bytes()).decode() if path.exists() else None

    def made(self, key: str) -> str | None:
        """The hash of what was made from a key, or None if it was not made before."""
        path = self._path("made", key)
        return path.read_text() if path.exists() else None

    def keep_made(self, key: str, value: str) -> None:
        """Keep the hash of what was made from a key."""
        _write(self._path("made", key), value.encode())

    def _path(self, kind: str, name: str) -> Path:
        return self.folder / kind / name[:2] / name


def _write(path: Path, content: bytes) -> None:
    """Write a file in one step, as another process may write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)
