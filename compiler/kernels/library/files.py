"""The files of libraries: a magic line, a checksum of origin and index, these, then the kernels."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from compiler.support.caches import CHECKSUM

LIBRARY_MAGIC = b"flowloom-library-1\n"
LIBRARY_SUFFIX = ".kernels"
VARIABLE = "FLOWLOOM_LIBRARY"
"""The variable that names a folder of libraries to read instead of the package's."""


def library_files() -> list[Path]:
    """The files of the package's libraries, or of those in the folder that the user names."""
    folder = Path(os.environ.get(VARIABLE) or Path(__file__).parent)
    return sorted(folder.glob(f"*{LIBRARY_SUFFIX}"))


def checksums() -> Iterator[str]:
    """The checksum of each library, by which modules that were compiled with others differ."""
    for path in library_files():
        with suppress(OSError), path.open("rb") as file:
            yield file.read(len(LIBRARY_MAGIC) + CHECKSUM)[len(LIBRARY_MAGIC) :].hex()
