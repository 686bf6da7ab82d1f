"""Building one CUDA kernel, from group to KernelSpec."""

from dataclasses import replace

from compiler.kernels.cuda.attention import attention_kernel
from compiler.kernels.cuda.compile import compile_cubin
from compiler.kernels.cuda.contraction import contraction_kernel
from compiler.kernels.cuda.cubin import Resources, check_resources
from compiler.kernels.cuda.generic import schedule_generic
from compiler.kernels.cuda.grouped import grouped_kernel
from compiler.kernels.cuda.indirect import with_indirect_entries
from compiler.kernels.cuda.lower import split_device
from compiler.kernels.cuda.pointwise import pointwise_kernel
from compiler.kernels.cuda.rows import rows_kernel
from compiler.kernels.cuda.scheduled import CudaKernel
from compiler.kernels.cuda.separable import separable_kernel
from compiler.kernels.cuda.source import complete_text, cuda_text
from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.group import Group
from compiler.schedule import KernelSpec, Launch


def build_cuda_kernel(group: Group, target: CudaTarget) -> KernelSpec:
    """Schedule a group, generate its CUDA text and compile it; raises KernelError."""
    return compile_kernel(group, generate_entries(group, target), target)


def generate_entries(group: Group, target: CudaTarget) -> CudaKernel:
    """The CUDA text and the launches of a group, with second entry points where they are used."""
    kernel = generate(group, target)
    return with_indirect_entries(kernel) if group.boundary else kernel


def compile_kernel(group: Group, kernel: CudaKernel, target: CudaTarget) -> KernelSpec:
    """Compile the CUDA text of a group; raises KernelError when it exceeds the device's limits."""
    source = complete_text(kernel.text)
    cubin = compile_cubin(source, target)
    used = check_resources(cubin, kernel.launches, target)
    launches = (with_resources(x, used[x.symbol]) for x in kernel.launches)
    programmatic = target.programmatic
    return KernelSpec(
        group.name,
        "cuda",
        cubin,
        tuple(replace(launch, programmatic=programmatic) for launch in launches),
        kernel.packings or ("",) * group.inputs,
        kernel.scratch,
        kernel.flops,
        group.traffic_bytes,
        source,
    )


def with_resources(launch: Launch, used: Resources) -> Launch:
    """A launch that tells what its code takes of a multiprocessor."""
    return replace(launch, registers=used.registers, static_shared_bytes=used.shared_bytes)


TEMPLATES = (
    attention_kernel,
    separable_kernel,
    grouped_kernel,
    contraction_kernel,
    rows_kernel,
    pointwise_kernel,
)
"""What may write a group's kernel before the generic schedule does, in order."""


def generate(group: Group, target: CudaTarget) -> CudaKernel:
    """The CUDA text and the launches of a group.

    No template adds in an order that time decides (there are no atomic sums), so that a kernel
    gives the same bits every time.
    """
    if all(info.elements == 0 for info in group.writes):
        return CudaKernel(f'extern "C" __global__ void {group.name}() {{}}\n', ())
    for template in TEMPLATES:
        kernel = template(group, target)
        if kernel is not None:
            return kernel
    device = split_device(schedule_generic(group), group.name, target)
    return CudaKernel(cuda_text(device.module, target), device.launches, device.scratch)
