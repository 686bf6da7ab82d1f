"""CUDA kernels built for the emulator: the same text, compiled for the host."""

from dataclasses import dataclass, replace

from compiler.emulator.compile import compile_kernels
from compiler.kernels.gpu.target import CudaTarget
from compiler.kernels.group import Group
from compiler.schedule import KernelSpec


@dataclass(frozen=True, slots=True)
class EmulatedTarget:
    """The emulator, with the GPU whose kernels it runs."""

    gpu: CudaTarget

    def __str__(self) -> str:
        return f"emu:{self.gpu.arch}:{self.gpu.precision}"


def build_emulated_kernel(group: Group, target: EmulatedTarget) -> KernelSpec:
    """Schedule a group for a GPU and compile its text for the host; raises DeviceError."""
    from compiler.kernels.gpu.kernel import generate_entries
    from compiler.kernels.gpu.source import complete_text

    kernel = generate_entries(group, target.gpu)
    source = complete_text(kernel.text)
    symbols = [symbol for launch in kernel.launches for symbol in launch.symbols]
    programmatic = target.gpu.programmatic
    return KernelSpec(
        group.name,
        "emu",
        compile_kernels(source, symbols),
        tuple(replace(launch, programmatic=programmatic) for launch in kernel.launches),
        kernel.packings or ("",) * group.inputs,
        kernel.scratch,
        kernel.flops,
        group.traffic_bytes,
        source,
    )
