"""Python files of users, and the locations of errors in them."""

import os
import sys
import sysconfig
from pathlib import Path
from runpy import run_path
from traceback import extract_tb
from typing import Any

from compiler.errors import PipelineError

_OURS = Path(__file__).parent.parent
_LIBRARIES = tuple({*sysconfig.get_paths().values(), sys.base_prefix, sys.prefix, "<"})


def load_object(name: str, what: str, kind: str) -> Any:
    """The object that `FILE.py:NAME` names, from executing the file; raises PipelineError.

    `what` and `kind` describe it in messages, such as a "policy" and a "FUNCTION".
    """
    file, colon, member = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise PipelineError(f"the {what} {name!r} is not of the form FILE.py:{kind}")
    if not os.path.isfile(file):  # a Path raises OSError for a name too long
        raise PipelineError(f"there is no file {file!r} to take the {what} {member!r} from")
    try:
        names = run_path(file)
    except (Exception, SystemExit) as error:
        raise PipelineError(f"{file} fails: {type(error).__name__}: {located(error)}") from error
    if member not in names:
        raise PipelineError(f"{file} has no {kind.lower()} {member!r}")
    return names[member]


def located(error: BaseException, message: str | None = None) -> str:
    """An error's message, and the last line of a user's file in its traceback, if any."""
    text = str(error) if message is None else message
    for frame in reversed(extract_tb(error.__traceback__)):
        if _is_users(frame.filename):
            return f"{text} ({frame.filename}, line {frame.lineno}, in {frame.name})"
    return text


def _is_users(file: str) -> bool:
    return not file.startswith(_LIBRARIES) and _OURS not in Path(file).parents
