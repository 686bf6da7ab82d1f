"""The proof that a schedule and its kernels fit together, made once and handed on with them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import ScheduleError
from compiler.schedule.kernels import KernelSpec, Operand
from compiler.schedule.tasks import Schedule, Task, View
from compiler.tensors.substitution import is_symbolic
from compiler.verify.happens_before import check_schedule
from compiler.verify.schedule_json import to_json
from compiler.verify.seals import check_seals, kernel_seal
from compiler.verify.structure import describe_task

LARGEST_GRID = 2**31 - 1
"""The most blocks or threads along one axis of a launch: CUDA's limit of x, and HIP's."""


def check_operands(schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> None:
    """Raise ScheduleError, naming the task, its kernel and both types, unless all kernels fit.

    A kernel fits if it exists and was built for the number, dtypes and shapes of the task's reads,
    results and workspaces, and if its launches have valid sizes, no arguments beyond these, and
    together every result that has elements.
    """
    checked = dict[tuple[object, ...], str]()
    for index, task in enumerate(schedule.tasks):
        if task.control is not None:
            for body in task.control.bodies:
                check_operands(body, kernels)
            continue
        key = (task.kernel, _types(task.reads), _types(task.writes))
        if key not in checked:
            checked[key] = _misfit(task, kernels.get(task.kernel))
        if checked[key]:
            where = f"task {index} {describe_task(schedule, index)}"
            raise ScheduleError(f"{where} {checked[key]}: compile the model again")


def _types(views: Sequence[View]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((view.dtype, view.shape) for view in views)


def _misfit(task: Task, kernel: KernelSpec | None) -> str:
    """Why a kernel cannot be launched on a task's views; empty if it can."""
    if kernel is None:
        return "launches a kernel that does not exist"
    workspaces = [Operand("uint8", (size,)) for size in kernel.workspaces]
    return (
        _mismatch("reads", task.reads, kernel.reads)
        or _mismatch("writes", task.writes, [*kernel.writes, *workspaces])
        or _bad_launch(kernel, task)
    )


def _mismatch(verb: str, views: Sequence[View], operands: Sequence[Operand]) -> str:
    if len(views) != len(operands):
        return f"{verb} {len(views)} tensors, its kernel was built for {len(operands)}"
    for position, (view, operand) in enumerate(zip(views, operands, strict=True)):
        passed = Operand(view.dtype, view.shape)
        if passed != operand:
            return f"{verb} {passed} as number {position}, its kernel was built for {operand}"
    return ""


def _bad_launch(kernel: KernelSpec, task: Task) -> str:
    """Why launches cannot be right: by their sizes, by their arguments, or as one is missing."""
    buffers = len(task.reads) + len(task.writes)
    for launch in kernel.launches:
        if any(not 0 <= number < buffers for number in launch.args):
            numbers = list(launch.args)
            return f"has {buffers} tensors, its kernel's '{launch.symbol}' takes {numbers}"
        # extents get these limits from the certificate for all sizes
        sizes = [size for size in (*launch.grid, *launch.block) if not is_symbolic(size)]
        if not all(1 <= size <= LARGEST_GRID for size in sizes):
            sizes = f"{list(launch.grid)} blocks of {list(launch.block)} threads"
            return f"is launched in {sizes}, by its kernel's '{launch.symbol}'"
    passed = {number for launch in kernel.launches for number in launch.args}
    for number, result in enumerate(task.writes[: len(kernel.writes)], len(task.reads)):
        if number not in passed and result.nbytes:
            return f"writes tensor {number}, which no launch of its kernel takes"
    return ""


@dataclass(frozen=True, slots=True)
class Certificate:
    """That a schedule and kernels have passed every check; only one that `certified` issued counts.

    `digest` is a SHA-256 of the schedule and of the kernels' seals, in their order.
    """

    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    digest: str
    issued: bool = field(default=False, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, by `pickle` too, is checked anew: the bytes of a pickle may have been changed."""
        return certified, (self.schedule, {**self.kernels})

    def covers(self, schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> bool:
        """Whether these are the very objects that were checked."""
        return (
            self.issued
            and schedule is self.schedule
            and kernels.keys() == self.kernels.keys()
            and all(kernels[name] is kernel for name, kernel in self.kernels.items())
        )


def certified(
    schedule: Schedule, kernels: Mapping[str, KernelSpec], before: Certificate | None = None
) -> Certificate:
    """The certificate of a schedule and its kernels: the one of `before`, if it covers them.

    Raises ScheduleError unless the schedule is valid and every task passes to its kernel what that
    was built for, and KernelError unless every kernel is as it was built.
    """
    if before is not None and before.covers(schedule, kernels):
        return before
    check_schedule(schedule)
    check_operands(schedule, kernels)
    check_seals(kernels)
    digest = hashlib.sha256(to_json(schedule).encode())
    for kernel in kernels.values():
        digest.update(kernel_seal(kernel))
    certificate = Certificate(schedule, {**kernels}, digest.hexdigest())
    object.__setattr__(certificate, "issued", True)  # a frozen field that no constructor sets
    return certificate
