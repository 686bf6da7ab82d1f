"""The proof that a schedule and its kernels fit together, made once and handed on with them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.verify.happens_before import check_schedule
from compiler.verify.kernel_operands import check_operands
from compiler.verify.schedule_json import to_json
from compiler.verify.seals import check_seals, kernel_seal


@dataclass(frozen=True, slots=True)
class Certificate:
    """That a schedule and kernels have passed every check; only one that `certified` issued counts.

    `digest` is a SHA-256 of the schedule and of the kernels' seals, in their order.
    """

    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    digest: str
    issued: bool = field(default=False, init=False)

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
