"""CUDA kernels built for the emulator: the same text, compiled for the host."""

from dataclasses import replace

from compiler.emulator.compile import compile_kernels
from compiler.kernels.gpu.kernel import generate_entries
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import GpuTarget


def build_emulated_kernel(group: Group, target: GpuTarget) -> KernelSpec:
    """Schedule a group for a GPU and compile its text for the host; raises DeviceError."""
    kernel = generate_entries(group, target)
    source = complete_text(kernel.text)
    symbols = [symbol for launch in kernel.launches for symbol in launch.symbols]
    programmatic = target.has_pdl
    return KernelSpec(
        name=group.name,
        language="emu",
        code=compile_kernels(source, symbols),
        launches=tuple(replace(launch, programmatic=programmatic) for launch in kernel.launches),
        packings=kernel.packings or ("",) * group.inputs,
        workspaces=kernel.scratch,
        flops=kernel.flops,
        traffic_bytes=group.traffic_bytes,
        serial_ns=kernel.serial_ns,
        estimated_ns=kernel.estimated_ns,
        source=source,
        footprint=kernel.footprint,
    )
