"""A group that a template can compute in several ways, and the way that is taken.

A way is a config, a dataclass of plain fields. The user's database has the configs that were
measured on this CPU; without an entry the one of the least estimate is built. A way that reads the
weight as other modules of a program have it in memory saves memory, and may cost a little.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from compiler.kernels import database
from compiler.kernels.cpu.host import database_name
from compiler.kernels.cpu.scheduled import Scheduled
from compiler.kernels.cpu.tiling import SLOTS_PER_NANOSECOND
from compiler.kernels.database import Entry
from compiler.kernels.database.fields import Config, Value, config_fields, full_version, problem_key
from compiler.target.target import CpuTarget


@cache
def templates_version() -> str:
    """A hash of the code that makes CPUs' kernels."""
    digest, room = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted(path for part in ("cpu", "tir") for path in room.glob(f"{part}/**/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def llvm_version() -> str:
    """The package that compiles CPUs' kernels."""
    return f"llvmlite {metadata.version('llvmlite')}"


SAVING_COST = 1.01
"""The most estimated time of a config that saves memory, as a part of the least: the tiles that a
BERT's buckets share are within 1.005. Four rows instead of eight, at 1.015, took 1.16 on a Xeon."""


def saving_memory(
    configs: Sequence[Any], times: Sequence[float], is_packed: Callable[[Any], bool]
) -> list[Any]:
    """The configs to choose from, the likeliest first: those whose weight is packed already, if
    some take about the least time, or else all."""
    about = [c for c, time in zip(configs, times, strict=True) if time <= SAVING_COST * times[0]]
    return [*filter(is_packed, about)] or [*configs]


@dataclass(frozen=True)
class Tunable:
    """The ways to compute a group's problem, the likeliest first, with their estimated slots.

    `problem` are the fields that decide how fast a config is; `schedule` makes a config's kernel,
    and `is_packed` says whether memory has the weight already as a config's kernel reads it.
    """

    template: str
    problem: Mapping[str, Value]
    configs: Sequence[Any]
    slots: Sequence[float]
    schedule: Callable[[Any], Scheduled]
    is_packed: Callable[[Any], bool]

    @cached_property
    def key(self) -> str:
        """The text of the problem's fields."""
        return problem_key(self.template, self.problem)

    @cached_property
    def by_fields(self) -> Mapping[Config, Any]:
        """The configs by the fields that databases hold."""
        return {config_fields(config): config for config in self.configs}

    @property
    def nanoseconds(self) -> tuple[float, ...]:
        """The estimated time of each config on one thread."""
        return tuple(slots / SLOTS_PER_NANOSECOND for slots in self.slots)

    def entry(self, target: CpuTarget) -> Entry | None:
        """The entry of this CPU's database for the problem."""
        name, version = database_name(target), full_version(templates_version(), llvm_version())
        return database.known(name, frozenset({version})).get(self.key) if name else None

    def chosen(self, target: CpuTarget) -> Any:
        """The best measured config that can be built, or else the likeliest; it saves memory where
        that costs little."""
        entry, allowed = self.entry(target), saving_memory(self.configs, self.slots, self.is_packed)
        measured = (found.config for found in (entry.ranked if entry else ()))
        known = (self.by_fields[config] for config in measured if config in self.by_fields)
        return next((config for config in known if config in allowed), allowed[0])
