"""CUDA kernels built for the emulator: the same text, compiled for the host."""

from dataclasses import replace

from compiler.emulator.compile import compile_kernels
from compiler.kernels.building.cuda_kernel import generate_entries, kernel_spec, programmatic
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import GpuTarget


def build_emulated_kernel(group: Group, target: GpuTarget) -> KernelSpec:
    """Schedule a group for a GPU and compile its text for the host; raises DeviceError."""
    kernel = generate_entries(group, target)
    source = complete_text(kernel.text)
    symbols = [symbol for launch in kernel.launches for symbol in launch.symbols]
    kernel = replace(kernel, launches=programmatic(kernel.launches, target))
    return kernel_spec(group, kernel, "emu", compile_kernels(source, symbols), source)
