"""The emulated device under the checks for devices, and what a missing edge does there."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from compiler.backends.emu.device import device
from compiler.backends.gpu.executable import GpuExecutable
from compiler.emulator.compile import compile_kernels
from compiler.errors import ArgumentError, DeviceError, ScheduleError
from compiler.schedule.tasks import Schedule
from compiler.scheduling.subflows import predecessors
from compiler.verify.happens_before import check_schedule
from tests.backends.gpu import device_checks
from tests.backends.gpu.cases import Case, case

QUICK = {
    "check_replays": (4,),
    "check_two_threads": (2,),
    "check_asynchronous": (12,),
    "check_poison": (),
}
SLOW = {
    "check_early_launches": (1,),
    "check_modes": ("none", 1),
    "check_host_replays": (3,),
    "check_misaligned_and_overlapping": (),
    "check_crosswise": (6,),
    "check_shared_executor": (),
    "check_alternative": (),
}
"""Checks for devices by name, with how often they do things."""
RACES = {11: 5, 12: 4, 15: 3, 17: 6}
"""Random cases, and how many of their tokens change an output in some order without them."""
SAMPLES, SEEDS, INTACT = 60, range(400), range(60)
"""Orders in which numpy looks for a race, seeds of the emulator that may show it, and seeds in
which a schedule with all its tokens must be right."""


@cache
def code(seed: int, tasks: int, streams: int, words: int) -> bytes:
    """The kernels of a random case, as one program."""
    found = case(seed, tasks=tasks, streams=streams, words=words)
    return compiled(found)


def compiled(found: Case, waits: bool = True) -> bytes:
    """The kernels of a case, as one program; perhaps none waits for those that it follows."""
    functions = found.functions
    text = "#define WAIT\n" + "".join(mix.cuda() for mix in functions.values())
    text = text if waits else text.replace("emulator_begin();", "")
    return program(text, tuple(n for each in functions for n in (each, f"{each}_indirect")))


@cache
def program(text: str, symbols: tuple[str, ...]) -> bytes:
    """Compiled kernels, which several checks load and each of them several times."""
    return compile_kernels(text, symbols)


def load(found: Case, image: bytes, schedule: Schedule | None = None, **options: Any):
    """A case, or another schedule of its kernels, on the emulator."""
    specs = {n: replace(s, language="emu") for n, s in found.specs(lambda _: image).items()}
    chosen = schedule or found.schedule
    options = {"poison": True, **options}
    return GpuExecutable.load(device(), chosen, specs, found.weights, **options)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.deep) for name in SLOW)]
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


def random_order(before: Sequence[Sequence[int]], chance: random.Random) -> list[int]:
    """All tasks in a random order behind those that they follow."""
    left, order = list(range(len(before))), list[int]()
    while left:
        ready = [task for task in left if not any(other in left for other in before[task])]
        order.append(chance.choice(ready))
        left.remove(order[-1])
    return order


def shows(found: Case, schedule: Schedule, inputs: Any, expected: Any) -> bool:
    """Whether some order of its tasks that a schedule allows changes an output, by numpy.

    Not every race does: a case also computes values that nothing reads.
    """
    before, chance = predecessors(schedule), random.Random(1)
    for _ in range(SAMPLES):
        tasks = tuple(schedule.tasks[task] for task in random_order(before, chance))
        moved = replace(found, schedule=replace(schedule, tasks=tasks))
        results = moved.expected(inputs)
        if any(not np.array_equal(results[name], array) for name, array in expected.items()):
            return True
    return False


@pytest.mark.parametrize("number", RACES)
@pytest.mark.parametrize("mode", ["graph", "streams"])
def test_every_missing_token_that_matters_is_caught(mode: str, number: int):
    found = case(number, tasks=20, streams=4, words=40)
    image, inputs = code(number, 20, 4, 40), found.inputs(1)
    expected = found.expected(inputs)
    tokens = [(i, t) for i, task in enumerate(found.schedule.tasks) for t in task.after]
    broken = [(each, without(found.schedule, *each)) for each in tokens]
    needed = [
        (each, schedule)
        for each, schedule in broken
        if racy(schedule) and shows(found, schedule, inputs, expected)
    ]
    assert len(needed) == RACES[number]
    missed: list[tuple[int, int]] = []
    for each, schedule in needed:
        executable = load(found, image, schedule, mode=mode)
        if not any(differs(executable, inputs, expected, seed) for seed in SEEDS):
            missed.append(each)
        executable.close()
    assert not missed
    executable = load(found, image, mode=mode)
    assert not any(differs(executable, inputs, expected, seed) for seed in INTACT)


@pytest.mark.parametrize("delays", [None, 3])
def test_early_launches_change_no_bit(delays: int | None):
    found = case(901, tasks=12, streams=3, words=40)
    image, inputs = code(901, 12, 3, 40), found.inputs(1)
    expected = found.expected(inputs)
    for pdl in (True, False):
        executable = load(found, image, mode="graph", pdl=pdl, delays=delays)
        assert not any(differs(executable, inputs, expected, seed) for seed in range(20))
        executable.close()


def test_kernels_that_should_wait_but_do_not_are_errors():
    found = case(901, tasks=12, streams=3, words=40)
    executable = load(found, compiled(found, waits=False), mode="graph", pdl=True)
    inputs = found.inputs(1)
    with pytest.raises(DeviceError, match=r"before it waits for|ends without waiting for"):
        any(differs(executable, inputs, {}, seed) for seed in range(20))


def differs(executable: Any, inputs: Any, expected: Any, seed: int) -> bool:
    """Whether a run in one random order gives other bits."""
    device().configure(seed)
    found = executable.run(inputs)
    return any(not np.array_equal(found[name], array) for name, array in expected.items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": -1}, "threads is int -1: it must be a whole number, at least 0"),
        ({"threads": "2"}, "threads is str '2': it must be a whole number"),
        ({"seed": "zz"}, "seed is str 'zz': it must be a whole number"),
        ({"seed": 2**64}, f"seed is int {2**64}: it must be a whole number"),
        ({"warp": 32.0}, "warp is float 32.0: it must be 32 or 64"),
        ({"warp": 48}, "warp is int 48: it must be 32 or 64"),
        ({"warp": "64"}, "warp is str '64': it must be 32 or 64"),
    ],
)
def test_wrong_options_of_the_device_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        device().configure(**options)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [("WARP", "abc", "32 or 64"), ("WARP", "48", "32 or 64"), ("SEED", "zz", "a whole number")],
)
def test_wrong_variables_are_named(name: str, value: str, allowed: str):
    text = (
        "from compiler.backends.emu.device import device\n"
        "from compiler.errors import DeviceError\n"
        "try:\n    device().create_stream()\nexcept DeviceError as error:\n    print(error)\n"
    )
    variable = f"FLOWLOOM_EMU_{name}"
    environment = {**os.environ, variable: value}
    command = [sys.executable, "-c", text]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{variable} is '{value}': it must be {allowed}" in said.stdout


def test_another_machines_kernels_are_refused():
    image = compile_kernels('extern "C" __global__ void one() {}\n', ["one"])
    assert device().load_module(image)
    with pytest.raises(DeviceError, match="another machine"):
        device().load_module(image[:-16] + b"0" * 16)
