"""Building one HIP kernel, from group to KernelSpec."""

from compiler.kernels.building.cuda_kernel import generate, kernel_spec
from compiler.kernels.gpu.compilers.hipcc import compile_hip
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import GpuTarget


def build_hip_kernel(group: Group, target: GpuTarget) -> KernelSpec:
    """Schedule a group, generate its text and compile it; raises KernelError."""
    kernel = generate(group, target)
    source = complete_text(kernel.text)
    symbols = [launch.symbol for launch in kernel.launches]
    return kernel_spec(group, kernel, "hip", compile_hip(source, symbols, target), source)
