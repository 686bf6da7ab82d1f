"""`Module(...)` made by hand runs only what was proved, and what was proved is not proved again."""

import copy
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.artifact.artifact import Artifact
from compiler.artifact.module import Module
from compiler.errors import (
    ArgumentError,
    ArtifactError,
    FlowloomError,
    KernelError,
    ScheduleError,
)
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, Schedule, Task
from compiler.verify import certificate
from compiler.verify.seals import sealed_kernel, unsealed_code
from tests.backends.objects import chain, kernels, reference, values

WEIGHTS = {"w": values(1)}


def made(schedule: Schedule | None = None, **changed: KernelSpec) -> Module:
    """Three tasks of the kernel `mix4_1`, or another schedule or other kernels."""
    return Module(
        Artifact("cpu", schedule or chain(), {**kernels(), **changed}, WEIGHTS), threads=2
    )


def apart(tasks: tuple[Task, ...]) -> list[Task]:
    """Each on a stream by itself, without waits."""
    return [replace(task, stream=stream) for stream, task in enumerate(tasks)]


SCHEDULES: dict[str, Callable[[tuple[Task, ...]], list[Task]]] = {
    "race: task 1": apart,
    "before any task writes them": lambda tasks: [*tasks[::-1]],
    "are never written": lambda tasks: [*tasks[:-1]],
    "reads bytes": lambda tasks: [*tasks[1:]],
    "reads 1 tensors": lambda tasks: [replace(tasks[0], reads=tasks[0].reads[:1]), *tasks[1:]],
    "kernel that does not exist": lambda tasks: [replace(tasks[0], kernel="none"), *tasks[1:]],
}


@pytest.mark.parametrize("message", SCHEDULES)
def test_a_wrong_schedule_is_refused(message: str):
    tasks = tuple(SCHEDULES[message](chain().tasks))
    with pytest.raises(ScheduleError, match=message):
        made(replace(chain(), tasks=tasks))


TABLES: dict[str, Callable[[KernelSpec], KernelSpec]] = {
    "has no seal": lambda kernel: replace(kernel, code=unsealed_code(kernel)),
    "is not as it was built": lambda kernel: replace(kernel, workspaces=(8,)),
    "its code, its source": lambda kernel: replace(kernel, code=b"!" + kernel.code[1:]),
    "or its table": lambda kernel: replace(kernel, source="text"),
    "launches, operands": lambda kernel: replace(kernel, launches=kernel.launches * 2),
    "use its own name": lambda kernel: replace(kernel, name="other"),
}


@pytest.mark.parametrize("message", TABLES)
def test_an_edited_kernel_is_refused(message: str):
    kernel = TABLES[message](kernels()["mix1_400"])
    with pytest.raises(KernelError, match=f"'(mix1_400|other)'.*{message}"):
        made(mix1_400=kernel)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"grid": (0, 1, 1)}, r"is launched in \[0, 1, 1\] blocks"),
        ({"block": (1, 0, 1)}, "is launched in"),
        ({"grid": (2**31, 1, 1)}, "is launched in"),
        ({"grid": (2**62, 1, 1)}, "is launched in"),
        ({"args": (0, 1, 3)}, r"takes \[0, 1, 3\]"),
        ({"args": (0, 1, 1)}, "writes tensor 2, which no launch of its kernel takes"),
        ({"args": ()}, "writes tensor 2, which no launch"),
    ],
)
def test_a_launch_that_cannot_be_right_is_refused_with_its_seal(
    fields: dict[str, tuple[int, ...]], message: str
):
    kernel = kernels()["mix4_1"]
    launch = replace(kernel.launches[0], **fields)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ScheduleError, match=f"task 0 'mix4_1'.*{message}"):
        made(mix4_1=sealed_kernel(replace(kernel, launches=(launch,))))


def test_a_kernel_without_launches_that_has_a_result_is_refused():
    with pytest.raises(ScheduleError, match="which no launch of its kernel takes"):
        made(mix4_1=sealed_kernel(replace(kernels()["mix4_1"], launches=())))


def test_what_is_replaced_after_the_check_is_checked_before_it_runs(tmp_path: Path):
    module = made()
    changed: Any = module.kernels
    changed["mix4_1"] = replace(changed["mix4_1"], workspaces=(8,))
    for act in (lambda: module.run({"x": values(2)}), lambda: module.save(tmp_path / "saved")):
        with pytest.raises(ScheduleError, match="its kernel was built for 2"):
            act()


def test_copies_and_loaded_modules_are_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    module = made()
    module.save(tmp_path / "saved")
    checked: list[str] = []
    check = certificate.check_schedule

    def counted_check(schedule: Schedule) -> None:
        checked.append(schedule.name)
        check(schedule)

    monkeypatch.setattr(certificate, "check_schedule", counted_check)
    copies = [module.with_options(threads=1), copy.copy(module)]
    assert not checked
    copies += [pickle.loads(pickle.dumps(module)), copy.deepcopy(module)]
    assert checked == ["chain"] * 2  # whose bytes may be others
    checked.clear()
    loaded = compiler.load(tmp_path / "saved", threads=1)
    assert checked == ["chain"]
    expected = reference(chain(), {"x": values(2), **WEIGHTS})["y"]
    for each in (module, *copies, loaded, loaded.with_options(threads=2)):
        np.testing.assert_array_equal(each.run({"x": values(2)})["y"], expected)
        each.save(tmp_path / "again")
    assert checked == ["chain"]


def test_a_certificate_that_nobody_issued_proves_nothing():
    forged = {
        name: replace(k, launches=tuple(replace(x, grid=(0, 1, 1)) for x in k.launches))
        for name, k in kernels().items()
    }
    by_hand = certificate.Certificate(chain(), forged, "")
    with pytest.raises((KernelError, ScheduleError)):
        Module(Artifact("cpu", by_hand.schedule, forged, WEIGHTS, certificate=by_hand))


@pytest.mark.parametrize("wrong", ["target", "schedule", "kernels", "weights"])
def test_what_is_no_module_is_refused_by_name(wrong: str):
    given: dict[str, Any] = {"target": "cpu", "schedule": chain(), "kernels": kernels()}
    given |= {"weights": WEIGHTS, wrong: None}
    with pytest.raises(ArgumentError, match=f"^{wrong} is NoneType"):
        Module(Artifact(**given))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_pipe_in_place_of_the_manifest_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(ArtifactError, match="it is a FIFO"):
        compiler.load(tmp_path)


@pytest.mark.parametrize("wrong", ["kernels", "weights"])
def test_what_a_module_cannot_have_among_its_parts_is_refused_by_name(wrong: str):
    given: dict[str, Any] = {"target": "cpu", "schedule": chain(), "kernels": kernels()}
    given |= {"weights": WEIGHTS}
    parts: dict[str, Any] = {**given[wrong]}
    given[wrong] = {**parts, next(iter(parts)): [1.0]}
    with pytest.raises(ArgumentError, match=f"^{wrong} is dict .* a mapping from names to"):
        Module(Artifact(**given))


ODD: list[Any] = [None, 0, "x", [], {}, (1,), object()]
"""Values that hardly any field of a record takes."""


def odd_records() -> Iterator[tuple[Schedule, dict[str, KernelSpec]]]:
    """Schedules and kernels of which one field of one record holds something odd."""
    schedule, built = chain(), kernels()
    first = next(iter(built))
    for odd in ODD:
        for field in fields(Schedule):
            yield replace(schedule, **{field.name: odd}), built
        for field in fields(Task):
            task = replace(schedule.tasks[0], **{field.name: odd})
            yield replace(schedule, tasks=(task, *schedule.tasks[1:])), built
        for field in fields(Allocation):
            one = replace(schedule.allocations[0], **{field.name: odd})
            yield replace(schedule, allocations=(one, *schedule.allocations[1:])), built
        for field in fields(KernelSpec):
            yield schedule, {**built, first: replace(built[first], **{field.name: odd})}


def test_odd_fields_of_records_end_in_errors_of_our_own():
    refused = 0
    for schedule, built in odd_records():
        try:
            Module(Artifact("cpu", schedule, built, WEIGHTS))
        except FlowloomError:
            refused += 1
    assert refused > 150


@pytest.mark.parametrize("target", ["emu", "cuda:sm_90:tf32", "hip:gfx90a"])
@pytest.mark.parametrize("requirements", [{}, {"architecture": "x"}, {"machine": 5}])
def test_a_module_of_another_target_is_refused(target: str, requirements: dict[str, Any]):
    content = replace(made().content, target=target, requirements=requirements)
    with pytest.raises(FlowloomError):
        Module(content).run({"x": values(2)})
