"""How long a kernel takes alone on a GPU by its work and launches, where none was measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod

from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import ControlForm, Task
from compiler.scheduling.simulator import TaskDemand
from compiler.target.devices import H200, DeviceModel

STAGED_BYTES = 16 << 10
"""Kernels with at least this much shared memory a block count as contractions."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The speed of a kind of kernel: fixed ns of each wave of blocks, FLOPs and bytes in a ns of
    one block alone, and of all blocks of an SM together."""

    wave: float
    block_flops: float
    block_bytes: float
    flops: float
    bytes: float


DECISION_NS, ITERATION_NS = 4800.0, 4900.0
"""The time of an If or a Loop without its bodies, and of an iteration without its kernels, on an
H200 (driver 580.159.04, 2026-11-24)."""

CONTRACTION_RATES = Rates(2278.9, 438.0, 119.9, 459.6, 99.4)
OTHER_RATES = Rates(701.2, 49.5, 732.7, 30.9, 80.9)
"""Fitted to an H200 (driver API 13.0, 2026-11-21) with tf32 by `benchmarks/cost_model.py --fit`."""


def estimated_time(kernel: KernelSpec, device: DeviceModel) -> float:
    """Nanoseconds of a kernel alone, its launches and steps included.

    Its template's estimate, else that of its work, whose blocks run in waves. The SMs of another
    device are faster by the ratio of its peaks to an H200's.
    """
    if kernel.estimated_ns:
        return kernel.estimated_ns
    launching = len(kernel.launches) * device.latencies.dependency + kernel.serial_ns
    if not kernel.launches:
        return launching
    rates = rates_of(kernel)
    largest = max(kernel.launches, key=lambda launch: prod(launch.grid))
    return launching + waves_time(kernel, largest, rates, device)


def rates_of(kernel: KernelSpec) -> Rates:
    """Contractions stage operands in shared memory and multiply them on tensor cores."""
    staged = max(launch.shared_bytes + launch.static_shared_bytes for launch in kernel.launches)
    return CONTRACTION_RATES if staged >= STAGED_BYTES else OTHER_RATES


def waves_time(kernel: KernelSpec, launch: Launch, rates: Rates, device: DeviceModel) -> float:
    """Nanoseconds of a kernel whose work is divided among the blocks of one launch."""
    blocks = prod(launch.grid)
    fit = fitting(launch, device)
    resident = min(fit, ceil(blocks / device.sms))
    waves = ceil(blocks / (fit * device.sms))
    scale = H200.sms / device.sms
    # One block cannot use all of an SM; several share what it can do.
    flops = min(rates.block_flops, rates.flops / resident) * scale * device.flops / H200.flops
    nbytes = min(rates.block_bytes, rates.bytes / resident)
    nbytes *= scale * device.bandwidth / H200.bandwidth
    work = kernel.flops / blocks / flops + kernel.traffic_bytes / blocks / nbytes
    return waves * (rates.wave + work)


def task_time(task: Task, kernel_time: Callable[[str], float]) -> float:
    """Nanoseconds of a task on a GPU, from those of kernels."""
    if task.control is None:
        return kernel_time(task.kernel)
    bodies = [[task_time(t, kernel_time) for t in body.tasks] for body in task.control.bodies]
    return control_time(task.control.form, bodies)


def control_time(form: ControlForm, bodies: Sequence[Sequence[float]]) -> float:
    """Nanoseconds of an If or a Loop, from those of its bodies' tasks, which follow each other.

    Of two branches the longer counts; a loop whose length only a run knows counts once.
    """
    longest = max(map(sum, bodies))
    if form.kind == "if":
        return DECISION_NS + longest
    return DECISION_NS + (1 if form.length is None else form.length) * (ITERATION_NS + longest)


def task_demand(kernel: KernelSpec, time: float, device: DeviceModel) -> TaskDemand:
    """The demand of a kernel that takes `time` ns alone: that of its largest launch."""
    if not kernel.launches:
        return TaskDemand(time, 0, launches=0)
    largest = max(kernel.launches, key=lambda x: prod(x.grid) / fitting(x, device))
    return TaskDemand(
        time=time,
        blocks=prod(largest.grid),
        threads=prod(largest.block),
        registers=largest.registers,
        shared_bytes=largest.shared_bytes + largest.static_shared_bytes,
        nbytes=kernel.traffic_bytes,
        launches=len(kernel.launches),
        early=sum(launch.programmatic for launch in kernel.launches),
    )


def fitting(launch: Launch, device: DeviceModel) -> int:
    """The blocks of a launch that one SM holds."""
    shared = launch.shared_bytes + launch.static_shared_bytes
    return device.resident_blocks(prod(launch.block), launch.registers, shared)
