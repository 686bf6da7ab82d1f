"""Runs of a whole schedule in different orders, and the wait that is missing where they differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.artifact.module import without_checks
from compiler.backends.base import backend, chosen_options
from compiler.backends.memory import Array
from compiler.schedule.tasks import Schedule
from compiler.target.target import parse_target
from compiler.tools.checking.module import CheckedModule
from compiler.tools.checking.tasks import library_options

OutputArrays = Mapping[str, Array]


@dataclass(frozen=True)
class ScheduleRuns:
    """Runs of a module's kernels in a schedule, with random delays of tasks where there are any."""

    module: CheckedModule
    inputs: Mapping[str, Array]
    seeds: int

    def differs(self, schedule: Schedule, expected: OutputArrays) -> bool:
        """Whether any run of a schedule gives other bits than expected."""
        module = self.module
        library = library_options(module.target, schedule, module.kernels, module.weights)
        runs = (self._run(schedule, seed, library) for seed in range(self.seeds))
        return any(not same_bits(outputs, expected) for outputs in runs)

    def _run(self, schedule: Schedule, seed: int, library: Mapping[str, Any]) -> dict[str, Array]:
        module = self.module
        options = {**chosen_options(module.choice), **library, **delays_of(module.target, seed)}
        if parse_target(module.target).backend == "cpu":
            options = {"threads": module.threads}
        loader = backend(module.target)
        loaded = loader.load(schedule, module.kernels, module.weights, **options)
        try:
            return without_checks(loaded.run(self.inputs))
        finally:
            loaded.close()


def delays_of(target: str, seed: int) -> dict[str, Any]:
    """The options of a backend by which a run gets another order; nothing on the CPU.

    Poison hides the previous run's results from tasks that read too early.
    """
    name = parse_target(target).backend
    if name == "emu":
        return {"seed": seed, "delays": seed}
    return {"delays": seed, "poison": True} if name == "cuda" else {}


def same_bits(outputs: OutputArrays, expected: OutputArrays) -> bool:
    """Whether outputs are equal bit for bit."""
    return all(
        np.ascontiguousarray(outputs[name]).tobytes() == np.ascontiguousarray(array).tobytes()
        for name, array in expected.items()
    )


def in_line(schedule: Schedule, tasks: int, *, free: int | None = None) -> Schedule:
    """A schedule whose first tasks wait for all earlier ones, but for one that is left `free`."""
    changed = [
        replace(task, subflow=None, after=tuple(range(index)))
        if index < tasks and index != free
        else replace(task, subflow=None)
        for index, task in enumerate(schedule.tasks)
    ]
    return replace(schedule, tasks=tuple(changed))


def missing_wait(
    schedule: Schedule, is_wrong: Callable[[Schedule], bool]
) -> tuple[int, int] | None:
    """The first pair of tasks where results are right only if the second waits for the first.

    `is_wrong` runs a schedule. None if it is wrong with all tasks in a line, too.
    """
    low = 1
    high = len(schedule.tasks)
    if is_wrong(in_line(schedule, high)):
        return None
    while low < high:
        middle = (low + high) // 2
        if is_wrong(in_line(schedule, middle)):
            low = middle + 1
        else:
            high = middle
    later = high - 1
    for earlier in reversed(range(later)):
        lined = in_line(schedule, len(schedule.tasks), free=later)
        tasks = list(lined.tasks)
        tasks[later] = replace(tasks[later], after=(*tasks[later].after, earlier))
        if not is_wrong(replace(lined, tasks=tuple(tasks))):
            return earlier, later
    return None
