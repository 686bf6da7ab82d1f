"""The emulated device under the checks for devices, and what a missing edge does there."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from compiler.analysis.happens_before import check_schedule
from compiler.backends.emu.target import device
from compiler.backends.gpu.dependencies import predecessors
from compiler.backends.gpu.executable import GpuExecutable
from compiler.emulator.compile import compile_kernels
from compiler.errors import DeviceError, ScheduleError
from compiler.schedule import Schedule
from tests.backends.gpu import device_checks
from tests.backends.gpu.cases import Case, case

QUICK = {
    "check_replays": (4,),
    "check_two_threads": (2,),
    "check_asynchronous": (),
    "check_poison": (),
}
SLOW = {
    "check_early_launches": (1,),
    "check_modes": ("none", 1),
    "check_host_replays": (3,),
    "check_misaligned_and_overlapping": (),
    "check_shared_executor": (),
    "check_alternative": (),
}
"""Checks for devices by name, with how often they do things."""
CASE, SEEDS = 11, range(100)


@cache
def code(seed: int, tasks: int, streams: int, words: int) -> bytes:
    """The kernels of a random case, as one program."""
    found = case(seed, tasks=tasks, streams=streams, words=words)
    return compiled(found)


def compiled(found: Case) -> bytes:
    """The kernels of a case, as one program."""
    functions = found.functions
    text = "#define WAIT\n" + "".join(mix.cuda() for mix in functions.values())
    symbols = [name for symbol in functions for name in (symbol, f"{symbol}_indirect")]
    return compile_kernels(text, symbols)


def load(found: Case, image: bytes, schedule: Schedule | None = None, **options: Any):
    """A case, or another schedule of its kernels, on the emulator."""
    specs = {n: replace(s, language="emu") for n, s in found.specs(lambda _: image).items()}
    chosen = schedule or found.schedule
    options = {"poison": True, **options}
    return GpuExecutable.load(device(), chosen, specs, found.weights, **options)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.large) for name in SLOW)]
)
def test_checks_of_devices(name: str, monkeypatch: pytest.MonkeyPatch):
    def load_compiled(found: Case, wait: str = "none", **options: Any) -> GpuExecutable:
        del wait
        return load(found, compiled(found), **options)

    monkeypatch.setattr(device_checks, "device", device)
    monkeypatch.setattr(device_checks, "load", load_compiled)
    getattr(device_checks, name)(*(QUICK | SLOW)[name])


def without(schedule: Schedule, task: int, token: int) -> Schedule:
    """A schedule in which a task does not wait for another."""
    tasks = list(schedule.tasks)
    left = tuple(other for other in tasks[task].after if other != token)
    tasks[task] = replace(tasks[task], after=left)
    return replace(schedule, tasks=tuple(tasks))


def racy(schedule: Schedule) -> bool:
    """Whether the verifier finds a race."""
    try:
        check_schedule(schedule)
    except ScheduleError:
        return True
    return False


def shows(found: Case, schedule: Schedule, task: int, inputs: Any, expected: Any) -> bool:
    """Whether running a task as early as a schedule allows changes an output.

    Not every race does: a case also computes values that nothing reads.
    """
    before = predecessors(schedule)
    wanted, early = [task], set[int]()
    while wanted:
        early.add(wanted.pop())
        wanted += [other for each in early for other in before[each] if other not in early]
    rest = [other for other in range(len(before)) if other not in early]
    tasks = tuple(schedule.tasks[other] for other in [*sorted(early), *rest])
    moved = replace(found, schedule=replace(schedule, tasks=tasks))
    results = moved.expected(inputs)
    return any(not np.array_equal(results[name], array) for name, array in expected.items())


@pytest.mark.parametrize("mode", ["graph", "streams"])
def test_every_missing_token_that_matters_is_caught(mode: str):
    found = case(CASE, tasks=20, streams=4, words=40)
    image, inputs = code(CASE, 20, 4, 40), found.inputs(1)
    expected = found.expected(inputs)
    tokens = [(i, t) for i, task in enumerate(found.schedule.tasks) for t in task.after]
    needed = [
        each
        for each in tokens
        if racy(without(found.schedule, *each))
        and shows(found, without(found.schedule, *each), each[0], inputs, expected)
    ]
    assert len(needed) >= 4
    missed: list[tuple[int, int]] = []
    for each in needed:
        executable = load(found, image, without(found.schedule, *each), mode=mode)
        if not any(differs(executable, inputs, expected, seed) for seed in SEEDS):
            missed.append(each)
        executable.close()
    assert not missed, f"{len(missed)} of {len(needed)}"
    executable = load(found, image, mode=mode)
    assert not any(differs(executable, inputs, expected, seed) for seed in SEEDS)


def differs(executable: Any, inputs: Any, expected: Any, seed: int) -> bool:
    """Whether a run in one random order gives other bits."""
    device().configure(seed)
    found = executable.run(inputs)
    return any(not np.array_equal(found[name], array) for name, array in expected.items())


def test_another_machines_kernels_are_refused():
    image = compile_kernels('extern "C" __global__ void one() {}\n', ["one"])
    assert device().load_module(image)
    with pytest.raises(DeviceError, match="another machine"):
        device().load_module(image[:-16] + b"0" * 16)
