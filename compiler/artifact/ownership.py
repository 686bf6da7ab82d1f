"""Who owns which files of a project: files.sha256 lists those that export wrote, with their hashes.

All others are the user's, such as a build folder; a new export keeps them.
"""

import hashlib
import os
import shutil
from pathlib import Path

from compiler.artifact.replacing import contents
from compiler.errors import ArtifactError
from compiler.support.caches import read_regular

LIST = "files.sha256"
"""As `sha256sum --check` reads it."""


def write_list(project: Path) -> None:
    """List all files of a project that has just been written."""
    lines = [f"{_digest(project / name)}  {name}\n" for name in contents(project)]
    (project / LIST).write_text("".join(lines), encoding="utf-8")


def own_files(project: Path) -> list[str]:
    """The user's files in a project, after checking that those of export are unchanged.

    Raises ArtifactError naming a changed one.
    """
    written = _listed(project / LIST)
    user_files = [name for name in contents(project) if name not in written and name != LIST]
    for name, digest in written.items():
        if os.path.lexists(project / name) and _digest(project / name) != digest:
            raise ArtifactError(
                f"{project / name} was edited after its export: move it away, or choose another "
                "directory"
            )
    return user_files


def keep(names: list[str], project: Path, new: Path) -> None:
    """Bring the user's files into a new project; raises ArtifactError where one is in the way."""
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
    """Hard-link a file, or copy it where that is not possible."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(old, new, follow_symlinks=False)


def _listed(path: Path) -> dict[str, str]:
    """Digests by the names of files; none without a list."""
    try:
        lines = read_regular(path).decode().splitlines()
    except (OSError, ValueError):
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _digest(path: Path) -> str:
    """The SHA-256 of a file; none of a directory."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
