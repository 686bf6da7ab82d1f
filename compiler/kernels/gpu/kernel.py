"""Building one CUDA kernel, from group to KernelSpec."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.kernels.gpu.compilers.nvrtc import check_compiler, compile_cubin
from compiler.kernels.gpu.cubin import Resources, check_resources
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.entries.early_numbers import with_early_numbers
from compiler.kernels.gpu.entries.indirect import with_indirect_entries
from compiler.kernels.gpu.generic import schedule_gpu
from compiler.kernels.gpu.lower import split_device
from compiler.kernels.gpu.ranges.groups import without_ranges
from compiler.kernels.gpu.ranges.kernels import with_ranges
from compiler.kernels.gpu.select import best
from compiler.kernels.gpu.source import complete_text, cuda_text
from compiler.kernels.gpu.wide_reductions import with_wide_reductions
from compiler.kernels.group import Group
from compiler.kernels.requantise import requantised
from compiler.kernels.tir.footprint import gpu_footprint, task_buffers
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.target.target import GpuTarget

_BOUNDS = re.compile(r"__launch_bounds__\((\d+)(?:, \d+)?\)")
"""A kernel's bounds: threads of a block and, optionally, blocks of an SM."""


@dataclass(frozen=True)
class Compiled:
    """Complete CUDA text, its cubin, and the resources of each of its entry points."""

    source: str
    cubin: bytes
    used: Mapping[str, Resources]

    @property
    def stack_bytes(self) -> int:
        """Bytes of stack of a thread, over all entry points."""
        return sum(used.stack_bytes for used in self.used.values())


def build_cuda_kernel(group: Group, target: GpuTarget) -> KernelSpec:
    """Schedule a group, generate its CUDA text and compile it; raises KernelError."""
    return compile_kernel(group, generate_entries(group, target), target)


def generate_entries(group: Group, target: GpuTarget) -> CudaKernel:
    """The CUDA text and the launches of a group, with indirect entry points where they are used."""
    kernel = generate(group, target)
    return with_indirect_entries(kernel) if group.boundary else kernel


def compile_kernel(group: Group, kernel: CudaKernel, target: GpuTarget) -> KernelSpec:
    """Compile the CUDA text of a group; raises KernelError when it exceeds the device's limits."""
    compiled = compile_text(complete_text(kernel.text), kernel.launches, target)
    launches = (with_resources(x, compiled.used[x.symbol]) for x in kernel.launches)
    programmatic = target.has_pdl
    return KernelSpec(
        name=group.name,
        language="cuda",
        code=compiled.cubin,
        launches=tuple(replace(launch, programmatic=programmatic) for launch in launches),
        packings=kernel.packings or ("",) * group.inputs,
        workspaces=kernel.scratch,
        flops=kernel.flops,
        traffic_bytes=group.traffic_bytes,
        serial_ns=kernel.serial_ns,
        estimated_ns=kernel.estimated_ns,
        source=compiled.source,
        footprint=kernel.footprint,
    )


def compile_text(source: str, launches: tuple[Launch, ...], target: GpuTarget) -> Compiled:
    """Compile complete CUDA text, with register spills only where they cannot be avoided.

    The compiler may spill a few so that one more block fits an SM, which shared memory often
    prevents anyhow. It is then compiled again for one resident block.
    """
    first = _compile(source, launches, target)
    if not first.stack_bytes:
        return first
    second = _compile(_BOUNDS.sub(r"__launch_bounds__(\1, 1)", source), launches, target)
    return min(first, second, key=lambda each: each.stack_bytes)


def _compile(source: str, launches: tuple[Launch, ...], target: GpuTarget) -> Compiled:
    check_compiler(target)
    cubin = compile_cubin(source, target)
    return Compiled(source, cubin, check_resources(cubin, launches, target))


def with_resources(launch: Launch, used: Resources) -> Launch:
    """A launch with the registers and shared memory that its code takes."""
    return replace(launch, registers=used.registers, static_shared_bytes=used.shared_bytes)


def generate(group: Group, target: GpuTarget) -> CudaKernel:
    """The CUDA text and the launches of a group: a template's, or of the generic schedule."""
    if all(info.elements == 0 for info in group.writes):
        return CudaKernel(f'extern "C" __global__ void {group.name}() {{}}\n', ())
    found = best(group, target)
    if found is not None:
        return found.emit()
    kernel = with_early_numbers(generic_kernel(without_ranges(group), target), group)
    return with_ranges(kernel, group, False, target.shared_bytes)


def generic_kernel(group: Group, target: GpuTarget) -> CudaKernel:
    """The CUDA text of a group by the generic schedule; raises KernelError if it would touch more
    than its tensors."""
    wide = with_wide_reductions(requantised(group))
    device = split_device(schedule_gpu(wide), group.name, target)
    functions = {str(f.attrs["global_symbol"]): f for f in device.module.functions.values()}
    buffers = task_buffers(group, ("",) * group.inputs, device.scratch)
    return CudaKernel(
        cuda_text(device.module, target),
        device.launches,
        device.scratch,
        footprint=gpu_footprint(functions, device.launches, buffers),
    )
