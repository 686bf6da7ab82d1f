"""How long a kernel takes alone on a GPU by its work and launches, where none was measured."""

from math import prod

from compiler.analysis.devices import Device
from compiler.analysis.simulator import Work
from compiler.schedule import KernelSpec, Launch

LAUNCH_NS = 2000.0


def estimated_time(kernel: KernelSpec, device: Device) -> float:
    """Nanoseconds of a kernel by the roofline model, its launches included."""
    work = max(kernel.flops / device.flops, kernel.traffic_bytes / device.bandwidth)
    return LAUNCH_NS * len(kernel.launches) + work


def work_of(kernel: KernelSpec, time: float, device: Device) -> Work:
    """What a kernel that takes `time` ns alone asks of a device: of its largest launch."""
    if not kernel.launches:
        return Work(time, 0, launches=0)
    largest = max(kernel.launches, key=lambda launch: slots(launch, device))
    return Work(
        time,
        prod(largest.grid),
        prod(largest.block),
        largest.registers,
        largest.shared_bytes + largest.static_shared_bytes,
        kernel.traffic_bytes,
        len(kernel.launches),
    )


def slots(launch: Launch, device: Device) -> float:
    """How often a launch fills all multiprocessors with blocks."""
    shared = launch.shared_bytes + launch.static_shared_bytes
    fit = device.resident_blocks(prod(launch.block), launch.registers, shared)
    return prod(launch.grid) / (fit * device.multiprocessors)
