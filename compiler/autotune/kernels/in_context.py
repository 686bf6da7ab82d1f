"""Chooses among the best few of a model's heavy kernels by measuring the whole model."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

from compiler.autotune.bindings import timed_run
from compiler.autotune.kernel_times import time_in_a_run
from compiler.autotune.kernels.descent import (
    Config,
    Configs,
    Descent,
    Improvement,
    KernelOptions,
    descend,
)
from compiler.autotune.kernels.measure import device_name
from compiler.autotune.kernels.merge import merge_into
from compiler.autotune.trials import ScheduleTrial, TrialError, trials_on
from compiler.backends.base import chosen_options
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.memory import Array
from compiler.choice.timing import MOST_SECONDS, Timing, time_all
from compiler.errors import KernelError
from compiler.kernels.building.cuda_kernel import compile_kernel
from compiler.kernels.building.select import Candidate, Provenance, measurable, provenance_of
from compiler.kernels.database import KEPT, Entry, InContext, user_file
from compiler.kernels.database.fields import config_fields
from compiler.kernels.gpu.entries.indirect import with_indirect_entries
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.schedule.choices import Choice
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule, Task
from compiler.target.target import GpuTarget

_LOG = logging.getLogger(__name__)

BEST = 3
HEAVIEST = 24
"""Options of a kernel, and kernels of a model, that are tried in it."""

_Spec = Future[KernelSpec | None]
"""A kernel that is being compiled."""

COMPARE_SECONDS = 0.5
COMPARE_SAMPLES = 100
"""How long, and how often at most, the choices that are compared run."""


class CompiledModel(Protocol):
    """The parts of a compiled model that loading it with other kernels takes."""

    schedule: Schedule
    kernels: dict[str, KernelSpec]
    weights: dict[str, Array]
    choice: Choice | None


@dataclass(frozen=True)
class KernelAlternatives:
    """The options of one key that fit a built module: for each, the kernels by name."""

    entry: Entry
    time: float
    kernels: Mapping[Config, Mapping[str, KernelSpec]]


def descend_in_context(
    driver: Driver,
    built: CompiledModel,
    groups: Mapping[str, Group],
    target: GpuTarget,
    seconds: float,
    clock: Callable[[], float] = perf_counter,
) -> tuple[Descent, list[Entry]] | None:
    """The descent of a module, and the entries it was made from; None where there is no choice.

    The module keeps its schedule and its mode. Only options with the workspaces and packings of
    the kernels that it was built with take part.
    """
    every = alternatives(built, groups, target, device_name(driver))
    tasks = {task.kernel: task for task in built.schedule.all_tasks}
    ended = [ending(options, tasks, driver) for options in every]
    tried = [options for options in ended if len(options.kernels) > 1]
    if not tried:
        return None
    options = chosen_options(built.choice)
    subject = ScheduleTrial(built.schedule, built.kernels, built.weights, {})
    trials_on(driver).schedule(subject, seconds)
    base = GpuExecutable.load(driver, built.schedule, built.kernels, built.weights, **options)
    by_key = {options.entry.key: options.kernels for options in tried}

    def compare(choices: Sequence[Configs]) -> list[Timing]:
        kernels = [dict(built.kernels) for _ in choices]
        for specs, choice in zip(kernels, choices, strict=True):
            for key, values in choice.items():
                specs.update(by_key[key][values])
        return _timed([base.with_kernels(specs) for specs in kernels])

    end = clock() + seconds
    subjects = [KernelOptions(o.entry.key, o.time, tuple(o.kernels)) for o in tried]
    return descend(subjects, compare, lambda: clock() >= end), [options.entry for options in tried]


def _timed(loaded: Sequence[GpuExecutable]) -> list[Timing]:
    """Wall times of modules that run in alternation."""
    executors = [executable.executor() for executable in loaded]
    try:
        runs = {str(i): timed_run(executor) for i, executor in enumerate(executors)}
        timings = time_all(
            runs, COMPARE_SECONDS, perf_counter, keep=tuple(runs), samples=COMPARE_SAMPLES
        )
    finally:
        for executor in executors:
            executor.close()
    return [timings[name] for name in runs]


def alternatives(
    built: CompiledModel, groups: Mapping[str, Group], target: GpuTarget, device: str
) -> list[KernelAlternatives]:
    """The heaviest kernels of a module that have several options measured on a device."""
    uses = Counter(task.kernel for task in built.schedule.tasks)
    users = dict[str, list[_User]]()
    for name, group in groups.items():
        for match in measurable(group, target) if name in uses else ():
            entry = match.entry
            if entry and provenance_of(entry, target, device) is Provenance.TUNED:
                users.setdefault(match.key, []).append(_User(group, match, entry, uses[name]))
    heavy = sorted(
        users.values(),
        key=lambda group_users: (-sum(user.time for user in group_users), group_users[0].entry.key),
    )
    # texts are written here, one by one; NVRTC, which takes most of the time, holds no lock
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [
            (group_users, _started(group_users, target, pool)) for group_users in heavy[:HEAVIEST]
        ]
    fitting = [_options(group_users, built, specs) for group_users, specs in running]
    return [options for options in fitting if len(options.kernels) > 1]


def ending(
    options: KernelAlternatives, tasks: Mapping[str, Task], driver: Driver
) -> KernelAlternatives:
    """The options whose kernels all end in a trial."""
    ended = dict[Config, Mapping[str, KernelSpec]]()
    for config, specs in options.kernels.items():
        try:
            for name, spec in specs.items():
                trials_on(driver).kernel(spec, tasks[name], MOST_SECONDS)
            ended[config] = specs
        except TrialError as error:
            _LOG.warning("an option of %s is left out: %s", options.entry.key, error)
    return replace(options, kernels=ended)


@dataclass(frozen=True)
class _User:
    """A group that a template can take, and how often a run launches it."""

    group: Group
    candidate: Candidate
    entry: Entry
    uses: int

    @property
    def time(self) -> float:
        first = self.entry.ranked[0]
        return self.uses * time_in_a_run(first.warm, first.cold)


def _started(
    users: Sequence[_User], target: GpuTarget, pool: ThreadPoolExecutor
) -> dict[Config, dict[str, _Spec]]:
    """The best options of one key, the present one first: of each, every group's kernel."""
    first = users[0].candidate
    ranked = (best.config for best in users[0].entry.ranked if best.cold is not None)
    near = [config for config in map(first.read, ranked) if config is not None][:BEST]
    near += [config for best in near[:1] for config in first.variants(best)]
    return {
        config_fields(config): {
            user.group.name: pool.submit(_spec, user.group, _kernel(user, config), target)
            for user in users
        }
        for config in near
    }


def _kernel(user: _User, config: Any) -> KernelSource | None:
    """A group's kernel with a config; None where it cannot have that."""
    try:
        return user.candidate.emit(config)
    except KernelError:
        return None


def _options(
    users: Sequence[_User], built: CompiledModel, specs: Mapping[Config, Mapping[str, _Spec]]
) -> KernelAlternatives:
    """The configs that fit all groups of a key; none if another template built these."""
    entry = users[0].entry
    fit = dict[Config, dict[str, KernelSpec]]()
    ready = {v: {n: future.result() for n, future in named.items()} for v, named in specs.items()}
    first = next(iter(ready.values()), dict[str, KernelSpec | None]())
    ours = [n for n, spec in first.items() if spec and spec.source == built.kernels[n].source]
    for values, named in ready.items():
        usable = {n: spec for n in ours if (spec := named[n]) and _like(spec, built.kernels[n])}
        if usable and len(usable) == len(ours):
            fit[values] = usable
    return KernelAlternatives(
        entry, sum(user.time for user in users if user.group.name in ours), fit
    )


def _spec(group: Group, kernel: KernelSource | None, target: GpuTarget) -> KernelSpec | None:
    """A group's kernel, compiled; None where it cannot be built."""
    if kernel is None:
        return None
    kernel = with_indirect_entries(kernel) if group.boundary else kernel
    try:
        return compile_kernel(group, kernel, target)
    except KernelError:
        return None


def _like(spec: KernelSpec, original: KernelSpec) -> bool:
    return (spec.workspaces, spec.packings) == (original.workspaces, original.packings)


def record(
    descent: Descent, entries: Sequence[Entry], model: str, target: GpuTarget, device: str
) -> None:
    """Put what a model was fastest with into the user's database."""
    by_key = {entry.key: entry for entry in entries}
    chosen = [_entry(by_key[step.key], step, model) for step in descent.steps]
    merge_into(user_file(target.architecture), chosen, device)


def _entry(entry: Entry, step: Improvement, model: str) -> Entry:
    """An entry with a step's choice; a variant takes as long by itself as what it differs from."""
    context = InContext(step.values, model, round(step.gain, 4))
    configs = entry.configs
    if step.values not in [measured.config for measured in configs]:
        configs = (*configs[: KEPT - 1], replace(entry.ranked[0], config=step.values))
    return replace(entry, configs=configs, context=context)
