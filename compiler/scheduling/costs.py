"""The time of each kernel, measured or estimated, and the demand of each task."""

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.scheduling.kernel_time import estimated_time, task_demand, task_time
from compiler.scheduling.simulator import TaskDemand
from compiler.target.devices import DeviceModel, typical_device


@dataclass(frozen=True)
class Costs:
    """Nanoseconds of every kernel by name; `measured` holds those that are not estimates."""

    of: Mapping[str, float]
    measured: Mapping[str, float]
    device: DeviceModel

    @classmethod
    def make(
        cls, kernels: Mapping[str, KernelSpec], measured: Mapping[str, float], architecture: str
    ) -> "Costs":
        """Costs where some kernels were measured; the others are estimated for an architecture."""
        typical = typical_device(architecture)
        times = {name: measured[name] for name in kernels if name in measured}
        all_times = {n: times.get(n, estimated_time(k, typical)) for n, k in kernels.items()}
        return cls(all_times, times, typical)

    def works(self, schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> list[TaskDemand]:
        """The demand of each task of a schedule."""
        used = {task.kernel for task in schedule.tasks if task.control is None}
        by_name = {n: task_demand(kernels[n], max(1.0, self.of[n]), self.device) for n in used}
        return [
            by_name[task.kernel]
            if task.control is None
            else TaskDemand(task_time(task, self.of.__getitem__))
            for task in schedule.tasks
        ]
