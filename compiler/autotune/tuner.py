"""The interface by which a compilation has its kernels measured."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from compiler.backends.gpu.driver import Driver
from compiler.schedule.choices import TuningRecord

if TYPE_CHECKING:
    from compiler.kernels.building import KernelCache
    from compiler.kernels.group import Group
    from compiler.target.target import Target


class Tuner(Protocol):
    """Measures kernels before they are built, so that the database has them."""

    def tune(
        self,
        driver: Driver | None,
        groups: "Iterable[tuple[Group, int]]",
        target: "Target",
        cache: "KernelCache | None",
    ) -> TuningRecord:
        """Measure the kernels of groups, which come with how often a run launches them.

        A GPU's are measured on a device, a CPU's on this machine.
        """
        ...

    def after(self, seconds: float) -> "Tuner":
        """The tuner for another graph when some seconds were spent."""
        ...

    def shared_by(self, count: int) -> "Tuner":
        """The tuner of each of some compilations."""
        ...

    def left(self, budget: float, record: TuningRecord) -> float:
        """The seconds of a budget that are left for schedules."""
        ...
