"""The directories of caches; without a usable one, a warning, and compilation without a cache.

What is in a cache may be damaged, or not a file at all: it then counts as absent.
`compiled_once` keeps what compilers make by their input, for runs of the tests.
"""

import errno
import hashlib
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from inspect import getsource
from pathlib import Path
from secrets import token_hex

REMEDY = "set FLOWLOOM_CACHE to a directory that can be written"
"""The remedy for a cache that cannot be used."""

COMPILED_VARIABLE = "FLOWLOOM_COMPILED"
"""The environment variable that names the folder of `compiled_once`; nothing is kept without it."""

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](.+)[>"]', re.MULTILINE)

CHECKSUM = 32
"""The bytes of the checksum before the content of a file that `write_sealed` writes."""


def user_folder(variable: str, *fallback: str) -> Path | None:
    """The folder that a variable names, or one below the home directory; None without a home."""
    chosen = os.environ.get(variable)
    if chosen:
        return Path(chosen)
    try:
        return Path.home().joinpath(*fallback)
    except RuntimeError:
        return None


def cache_directory(subfolder: str) -> Path | None:
    """A subdirectory of `$FLOWLOOM_CACHE`, or else of `flowloom` in the user's cache directory.

    None if there is no home directory.
    """
    if os.environ.get("FLOWLOOM_CACHE"):
        return Path(os.environ["FLOWLOOM_CACHE"], subfolder)
    base = user_folder("XDG_CACHE_HOME", ".cache")
    return None if base is None else base / "flowloom" / (subfolder or "kernels")


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


_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def check_regular(path: str | os.PathLike[str] | int) -> None:
    """Raise OSError unless a path or a descriptor is of a regular file: others may never end."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'no regular file')}")


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file; OSError for other kinds."""
    check_regular(path)
    return Path(path).read_bytes()


def read_sealed(path: Path) -> bytes | None:
    """The content that `write_sealed` wrote; None for an absent, damaged or unreadable file."""
    with suppress(OSError):
        stored = read_regular(path)
        if stored[:CHECKSUM] == hashlib.sha256(stored[CHECKSUM:]).digest():
            return stored[CHECKSUM:]
    return None


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file of a cache with its checksum; nothing where it cannot be written."""
    with suppress(OSError):
        write_whole(path, hashlib.sha256(content).digest() + content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file next to its path, then move it there; OSError, and no trace, where that fails.

    Folders above it are made. A reader, or another process that writes the same file, sees all of
    it or nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"tmp{token_hex(8)}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def compiled_once(
    make: Callable[[], bytes], callers: Iterable[Callable[..., object]], *inputs: str | bytes
) -> bytes:
    """The code that a compiler makes from `inputs`, kept in the folder of FLOWLOOM_COMPILED.

    `inputs` is all that decides the code: the compiler with its version, the text and every header
    that it includes (`with_headers`); `callers` are the functions that choose the compiler's
    options, whose source counts too. Unlike an entry of the kernel cache, one here outlives changes
    of this package that generate the same text. Without the variable, `make` is called; a damaged
    entry counts as absent.
    """
    folder = os.environ.get(COMPILED_VARIABLE)
    if not folder:
        return make()
    digest = hashlib.sha256()
    for piece in (*map(_source, callers), *inputs):
        content = piece.encode() if isinstance(piece, str) else piece
        digest.update(len(content).to_bytes(8, "little") + content)
    name = digest.hexdigest()
    path = Path(folder, name[:2], name)
    stored = read_sealed(path)
    if stored is not None:
        with suppress(OSError):
            # `remove_oldest` goes by the time of the last use.
            os.utime(path)
        return stored
    code = make()
    write_sealed(path, code)
    return code


def included_headers(text: str, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of some, by name, that a text of C++ includes itself or by others."""
    included = dict[str, str]()
    pending = [text]
    while pending:
        for name in _INCLUDE.findall(pending.pop()):
            if name in headers and name not in included:
                included[name] = headers[name]
                pending.append(headers[name])
    return included


def with_headers(text: str, headers: Mapping[str, str]) -> str:
    """A text of C++ and those of the headers that it includes: all that a compiler reads."""
    return repr((text, sorted(included_headers(text, headers).items())))


@cache
def package_version(package: str) -> str:
    """The version of an installed package, or `none`."""
    from importlib import metadata  # a fifth of the start of whatever looks only for kept code

    try:
        described = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return "none"
    # what parses all of it takes 10 ms a package
    text = described.read_text("METADATA") or ""
    version = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
    return version[1] if version else described.version


@cache
def _source(function: Callable[..., object]) -> str:
    return getsource(function)


def remove_oldest(paths: Iterable[Path], limit: int) -> None:
    """Remove the files used least recently until those that are left take `limit` bytes.

    Raises OSError for a file that cannot be removed; one that is gone already is passed over.
    """
    files = list[tuple[float, int, Path]]()
    for path in paths:
        with suppress(OSError):
            stat = path.stat()
            files.append((stat.st_mtime, stat.st_size, path))
    excess = sum(size for _, size, _ in files) - limit
    for _, size, path in sorted(files):
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= size
