"""Passes of a user's own: classes, or `FILE.py:CLASS`, which pipelines may name for a while."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.passes import ModulePass

from compiler.errors import PipelineError
from compiler.passes import PASSES
from compiler.passes.base import GraphPass, SchedulePass
from compiler.user_files import load_object

Pass = type[ModulePass]

_OWN: ContextVar[dict[str, Pass] | None] = ContextVar("own passes", default=None)


def known_passes() -> dict[str, Pass]:
    """Every pass by its name in a pipeline: the project's, and the user's that are in use."""
    return {**PASSES, **(_OWN.get() or {})}


def is_own(each: ModulePass) -> bool:
    """Whether a pass is a user's own."""
    return type(each) is not PASSES.get(each.name)


@contextmanager
def using(passes: Sequence[Pass | str]) -> Generator[tuple[str, ...]]:
    """Let pipelines name these passes until the end of the block; gives their names.

    Raises PipelineError for a file that fails, and for what is no pass or has a name that is taken.
    """
    added: dict[str, Pass] = {}
    for each in passes:
        kind = _checked(each)
        if kind.name in PASSES or kind.name in added:
            raise PipelineError(f"{_label(each)}: there is a pass '{kind.name}' already: rename it")
        added[kind.name] = kind
    token = _OWN.set({**(_OWN.get() or {}), **added})
    try:
        yield tuple(added)
    finally:
        _OWN.reset(token)


def _label(each: object) -> str:
    return each if isinstance(each, str) else getattr(each, "__qualname__", repr(each))


def _checked(each: object) -> Pass:
    """The class of a pass; PipelineError if it is none."""
    found: object = load_object(each, "pass", "CLASS") if isinstance(each, str) else each
    if not isinstance(found, type) or not issubclass(found, GraphPass | SchedulePass):
        raise PipelineError(
            f"{_label(each)} is no pass: it must be a class that derives from GraphPass or"
            " SchedulePass (compiler.passes.base)"
        )
    name: object = getattr(found, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise PipelineError(
            f"{_label(each)} has the name {name!r}: `name` must be such as 'my-pass', lower-case"
            " letters, digits and hyphens"
        )
    return found
