"""Which files of a project are whose: files.sha256 lists those that export wrote, as they were.

All others are the user's, such as a build folder; a new export takes them over.
"""

import hashlib
import os
import shutil
from pathlib import Path

from compiler.errors import ArtifactError
from compiler.export.replacing import contents

LIST = "files.sha256"
"""As `sha256sum --check` reads it."""


def write_list(project: Path) -> None:
    """List all files of a project that has just been written."""
    lines = [f"{_digest(project / name)}  {name}\n" for name in contents(project)]
    (project / LIST).write_text("".join(lines), encoding="utf-8")


def own_files(project: Path) -> list[str]:
    """What a project holds besides files that export wrote, which must be as they were written.

    Raises ArtifactError naming one that is not.
    """
    written = _listed(project / LIST)
    own = [name for name in contents(project) if name not in written and name != LIST]
    for name, digest in written.items():
        if os.path.lexists(project / name) and _digest(project / name) != digest:
            raise ArtifactError(
                f"{project / name} was edited after its export: move it away, or choose another "
                "directory"
            )
    return own


def keep(names: list[str], project: Path, new: Path) -> None:
    """Bring a project's own files into a new one; raises ArtifactError where one is in the way."""
    for name in names:
        folder = _is_folder(project / name)
        if os.path.lexists(new / name) and not (folder and _is_folder(new / name)):
            raise ArtifactError(
                f"{project / name} would be replaced, and {LIST} does not list it as exported: "
                "move it away, or choose another directory"
            )
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        if folder:
            (new / name).mkdir(exist_ok=True)
        else:
            _link(project / name, new / name)
    folders = {folder for name in names for folder in (Path(name), *Path(name).parents)}
    for folder in sorted(folders, reverse=True):
        if _is_folder(project / folder):
            shutil.copymode(project / folder, new / folder)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _link(old: Path, new: Path) -> None:
    """One more name for a file, or a copy of it where that cannot be."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(old, new, follow_symlinks=False)


def _listed(path: Path) -> dict[str, str]:
    """Digests by the names of files; none without a list."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _digest(path: Path) -> str:
    """The SHA-256 of a file; none of a directory."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
