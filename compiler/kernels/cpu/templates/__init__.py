"""Schedules for particular groups: a template returns a kernel, or several ways, or declines.

A template module registers itself with `@template("Conv", ...)` and is named in `MODULES`. It
gets the group and its anchor (the first operator of one of those types) and uses an `Emitter`:
`lower_before(anchor)`, then sets `emitter.values[anchor.outputs[0]]`, then `lower_all()`.
"""

from collections.abc import Callable
from importlib import import_module

from compiler.kernels.cpu.scheduled import Scheduled
from compiler.kernels.cpu.tunable import Tunable
from compiler.kernels.database.fields import Config
from compiler.kernels.group import Group, Operator
from compiler.target.target import CpuTarget

CpuTemplate = Callable[[Group, Operator, CpuTarget], Scheduled | Tunable | None]

MODULES: tuple[str, ...] = (
    "conv2d",
    "conv_transpose",
    "matmul",
    "byte_conv2d",
    "byte_matmul",
    "four_bit_matmul",
    "attention",
)
"""The modules of this package that register templates."""

TEMPLATES: dict[str, list[CpuTemplate]] = {}
"""The templates of each anchor operator type, most special first."""


def template(*types: str) -> Callable[[CpuTemplate], CpuTemplate]:
    """Register a function as a template for groups anchored by some operator types."""

    def register(function: CpuTemplate) -> CpuTemplate:
        for name in types:
            TEMPLATES.setdefault(name, []).append(function)
        return function

    return register


def apply_template(
    group: Group, target: CpuTarget, config: Config | None = None
) -> Scheduled | None:
    """The first template's schedule for a group, or None when all decline.

    Of several ways it is that of a config, or else the one that is known to be fast or likely so.
    None is for tensors with their channels in blocks, which the generic schedule takes.
    """
    found = match_template(group, target)
    if not isinstance(found, Tunable):
        return found
    return found.schedule(found.chosen(target) if config is None else found.by_fields[config])


def match_template(group: Group, target: CpuTarget) -> Scheduled | Tunable | None:
    """The kernel or the ways of the first template that does not decline a group."""
    if any(info.block for info in (*group.reads, *group.writes)):
        return None
    for name in MODULES:
        import_module(f"{__name__}.{name}")
    for operator in group.operators:
        for candidate in TEMPLATES.get(operator.type, ()):
            found = candidate(group, operator, target)
            if found is not None:
                return found
    return None
