"""The kernels of the critical path, each against the least time of its FLOPs and its bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler.schedule.kernels import KernelSpec
from compiler.scheduling.kernel_time import CONTRACTION_RATES, rates_of
from compiler.support.dag import adjacency, critical_path
from compiler.support.words import counted
from compiler.target.devices import DeviceModel

TENSOR_FACTOR = 6.0
"""FLOP/s of tensor cores over those of other arithmetic: on an H200 400 TFLOP/s, which GEMMs in
half precision reach, against 67."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """A kernel on the path: the number of its tasks there, nanoseconds of each, and its floor."""

    kernel: str
    count: int
    time: float
    floor: float

    @property
    def lost(self) -> float:
        """Nanoseconds that all its tasks on the path take beyond the floor."""
        return self.count * (self.time - self.floor)


def floor_time(kernel: KernelSpec, device: DeviceModel) -> float:
    """Nanoseconds to start a kernel, and to compute or to move each byte once, the slower.

    Bytes come from memory: a kernel that finds them in the cache may be faster.
    """
    if not kernel.launches:
        return 0.0
    factor = TENSOR_FACTOR if rates_of(kernel) is CONTRACTION_RATES else 1.0
    work = max(
        kernel.flops / (factor * device.flops),
        kernel.traffic_bytes / device.bandwidth,
    )
    return len(kernel.launches) * device.latencies.dependency + work


def path_steps(
    names: Sequence[str],
    times: Sequence[float],
    edges: Iterable[tuple[int, int]],
    kernels: Mapping[str, KernelSpec],
    device: DeviceModel,
) -> list[PathStep]:
    """The kernels on the longest path of tasks, of which the names and times are given.

    An If or a Loop, which has no kernel, could not be faster than its time.

    Those that lose most come first.
    """
    path = critical_path(times, adjacency(len(times), edges))
    count = Counter[str]()
    total = dict[str, float]()
    for task in path:
        count[names[task]] += 1
        total[names[task]] = total.get(names[task], 0.0) + times[task]
    steps = [
        PathStep(name, tasks, mean, floor_time(kernels[name], device) if name in kernels else mean)
        for name, tasks in count.items()
        for mean in [total[name] / tasks]
    ]
    return sorted(steps, key=lambda step: (-step.lost, step.kernel))


def table(steps: Sequence[PathStep], limit: int) -> list[str]:
    """Lines of text in microseconds: the sum of all steps, and those that lose most."""
    time = sum(step.count * step.time for step in steps)
    floor = sum(step.count * step.floor for step in steps)
    tasks = sum(step.count for step in steps)
    lines = [
        f"{counted(tasks, 'task')} of {counted(len(steps), 'kernel')} on the longest path:"
        f" {time / 1e3:.1f} us,"
        f" at least {floor / 1e3:.1f}",
        f"{'lost us':>9} {'tasks':>5} {'us each':>9} {'floor':>7}  kernel",
    ]
    for step in steps[:limit]:
        figures = f"{step.lost / 1e3:9.1f} {step.count:5} {step.time / 1e3:9.2f}"
        lines.append(f"{figures} {step.floor / 1e3:7.2f}  {step.kernel}")
    if len(steps) > limit:
        remaining = sum(step.lost for step in steps[limit:])
        lines.append(f"{remaining / 1e3:9.1f}  by {len(steps) - limit} others")
    return lines
