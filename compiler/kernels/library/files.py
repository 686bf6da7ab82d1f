"""The files of libraries: a magic line, a checksum of origin and index, these, then the kernels."""

import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from compiler.support.caches import CHECKSUM

LIBRARY_MAGIC = b"flowloom-library-1\n"
LIBRARY_SUFFIX = ".kernels"
VARIABLE = "FLOWLOOM_LIBRARY"
"""The variable that names a folder of libraries to read instead of the package's."""


def library_files() -> list[Path]:
    """The files of the package's libraries, or of those in the folder that the user names."""
    chosen = os.environ.get(VARIABLE)
    folder = Path(chosen) if chosen else Path(__file__).parent
    if chosen and not folder.is_dir():
        _warn_without_folder(chosen)
    return sorted(folder.glob(f"*{LIBRARY_SUFFIX}"))


@cache
def _warn_without_folder(chosen: str) -> None:
    """Warn once of a folder that is not there."""
    warnings.warn(
        f"{VARIABLE}={chosen} is not a folder, so no library is read: correct or unset it",
        stacklevel=3,
    )


def checksums() -> Iterator[str]:
    """The checksum of each library, by which modules that were compiled with others differ."""
    for path in library_files():
        with suppress(OSError), path.open("rb") as file:
            yield file.read(len(LIBRARY_MAGIC) + CHECKSUM)[len(LIBRARY_MAGIC) :].hex()
