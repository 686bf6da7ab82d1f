"""Passes of users: classes, or `FILE.py:CLASS`, which pipelines can name within a block."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.passes import ModulePass

from compiler.errors import PipelineError
from compiler.passes import PASSES
from compiler.passes.base import GraphPass, SchedulePass
from compiler.support.user_files import load_object

Pass = type[ModulePass]

_OWN: ContextVar[dict[str, Pass] | None] = ContextVar("own passes", default=None)


def known_passes() -> dict[str, Pass]:
    """Every pass by its name in a pipeline: the project's, and the user's passes in use."""
    return {**PASSES, **(_OWN.get() or {})}


def is_own(step: ModulePass) -> bool:
    """Whether a pass is a user's."""
    return type(step) is not PASSES.get(step.name)


@contextmanager
def using(passes: Sequence[Pass | str]) -> Generator[tuple[str, ...]]:
    """Let pipelines name these passes until the end of the block; yields their names.

    Raises PipelineError if a file fails, an object is not a pass, or a name is in use already.
    """
    added: dict[str, Pass] = {}
    for entry in passes:
        kind = _checked(entry)
        if kind.name in PASSES or kind.name in added:
            label = _label(entry)
            raise PipelineError(f"{label}: there is a pass '{kind.name}' already: rename it")
        added[kind.name] = kind
    token = _OWN.set({**(_OWN.get() or {}), **added})
    try:
        yield tuple(added)
    finally:
        _OWN.reset(token)


def _label(entry: object) -> str:
    return entry if isinstance(entry, str) else getattr(entry, "__qualname__", repr(entry))


def _checked(entry: object) -> Pass:
    """The class of a pass; raises PipelineError if it is not a pass."""
    kind: object = load_object(entry, "pass", "CLASS") if isinstance(entry, str) else entry
    if not isinstance(kind, type) or not issubclass(kind, GraphPass | SchedulePass):
        raise PipelineError(
            f"{_label(entry)} is not a pass: it must be a class that derives from GraphPass or"
            " SchedulePass (compiler.passes.base)"
        )
    name: object = getattr(kind, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise PipelineError(
            f"{_label(entry)} has the name {name!r}: `name` must be such as 'my-pass', lower-case"
            " letters, digits and hyphens"
        )
    return kind
