"""The directories of caches; without a usable one, a warning, and compilation without a cache."""

import os
import tempfile
import warnings
from pathlib import Path

REMEDY = "set FLOWLOOM_CACHE to a directory that can be written"
"""The remedy for a cache that cannot be used."""


def user_folder(variable: str, *fallback: str) -> Path | None:
    """The folder that a variable names, or one below the home directory; None without a home."""
    chosen = os.environ.get(variable)
    if chosen:
        return Path(chosen)
    try:
        return Path.home().joinpath(*fallback)
    except RuntimeError:
        return None


def cache_directory(part: str) -> Path | None:
    """A subdirectory of `$FLOWLOOM_CACHE`, or else of `flowloom` in the user's cache directory.

    None if there is no home directory.
    """
    if os.environ.get("FLOWLOOM_CACHE"):
        return Path(os.environ["FLOWLOOM_CACHE"], part)
    base = user_folder("XDG_CACHE_HOME", ".cache")
    return None if base is None else base / "flowloom" / (part or "kernels")


def writable(directory: Path | None) -> bool:
    """Create a directory; whether files can be written to it, with one warning if not."""
    if directory is None:
        warn_without_cache("there is no home directory")
        return False
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        warn_without_cache(f"cannot write {directory}: {error.strerror or error}")
        return False
    return True


WARNED = set[Path | None]()
"""The caches with a warning so far; their subdirectories fail for the same reason."""


def warn_without_cache(why: str) -> None:
    """Warn that a cache cannot be used, once for each value of FLOWLOOM_CACHE or HOME."""
    root = cache_directory("")
    if root not in WARNED:
        WARNED.add(root)
        warnings.warn(f"{why}; working without a cache: {REMEDY}", stacklevel=3)
