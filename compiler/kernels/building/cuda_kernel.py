"""Building one kernel of a GPU, from group to KernelSpec."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from compiler.emulator.compile import compile_kernels
from compiler.kernels.building.select import best
from compiler.kernels.building.spec import kernel_spec
from compiler.kernels.gpu.compilers.hipcc import compile_hip
from compiler.kernels.gpu.compilers.nvrtc import check_compiler, compile_cubin
from compiler.kernels.gpu.cubin import Resources, check_resources
from compiler.kernels.gpu.entries.indirect import KERNEL_HEAD, with_indirect_entries
from compiler.kernels.gpu.entries.sizes import with_grid_guards
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group
from compiler.kernels.sizes import at_hint, for_all_sizes, sized
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.target.target import GpuTarget

_BOUNDS = re.compile(r"__launch_bounds__\((\d+)(?:, \d+)?\)")
"""A kernel's bounds: threads of a block and, optionally, blocks of an SM."""


LITTLE_SHARED = 16 << 10
"""Bytes of shared memory of a block that leave room for blocks of other kernels."""

SMALL_PART = 8
"""Kernels with blocks for at most this part of the SMs leave room, however large the blocks are."""


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


def generate_entries(group: Group, target: GpuTarget) -> KernelSource:
    """The CUDA text and the launches of a group, with indirect entry points where they are used."""
    kernel = generate(group, target)
    return with_indirect_entries(kernel) if group.boundary else kernel


def compile_kernel(group: Group, kernel: KernelSource, target: GpuTarget) -> KernelSpec:
    """Compile the CUDA text of a group; raises KernelError when it exceeds the device's limits."""
    launches = programmatic(kernel.launches, target)
    source = with_releases(complete_text(kernel.text), launches, target)
    compiled = compile_text(source, launches, target)
    launches = tuple(
        replace(
            x,
            registers=compiled.used[x.symbol].registers,
            static_shared_bytes=compiled.used[x.symbol].shared_bytes,
        )
        for x in launches
    )
    kernel = replace(kernel, launches=launches)
    return kernel_spec(group, kernel, "cuda", compiled.cubin, compiled.source)


def with_releases(text: str, launches: Iterable[Launch], target: GpuTarget) -> str:
    """Complete text whose kernels of few blocks let their successors be placed as they begin.

    These have room next to them, and start at once when they have waited. Next to many blocks, or
    large ones, they would get what SMs those leave; so would the next launch of the same kernel,
    whose blocks are known, where both have more than SMs.
    """
    launches = [*launches]
    few = {
        symbol
        for own, following in zip(launches, [*launches[1:], None], strict=False)
        if _leaves_room(own, following, target)
        for symbol in own.symbols
    }

    def head(match: re.Match[str]) -> str:
        return f"{match[0]}\n  launch_dependents();" if match[2] in few else match[0]

    return KERNEL_HEAD.sub(head, text)


def _leaves_room(launch: Launch, following: Launch | None, target: GpuTarget) -> bool:
    """Whether blocks of other kernels, or the launch's after it, fit next to those of a launch."""
    sms = target.device.sms
    blocks = _blocks(launch)
    together = blocks + (_blocks(following) if following else 0)
    small = at_hint(launch.shared_bytes) <= LITTLE_SHARED
    return launch.programmatic and (blocks <= sms // SMALL_PART or (small and together <= sms))


def _blocks(launch: Launch) -> int:
    """The blocks of a launch, for costs."""
    return prod(map(at_hint, launch.grid))


def programmatic(launches: Iterable[Launch], target: GpuTarget) -> tuple[Launch, ...]:
    """Launches that may begin before their predecessors end, where the target can."""
    return tuple(replace(launch, programmatic=target.has_pdl) for launch in launches)


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


def generate(group: Group, target: GpuTarget) -> KernelSource:
    """The CUDA text and the launches of a group.

    Those of a group with symbols are for all sizes; raises KernelError where there are none.
    """
    if not group.symbols:
        return _generated(group, target)
    with for_all_sizes(group, gpu=True):
        return with_grid_guards(_generated(sized(group), target), group)


def _generated(group: Group, target: GpuTarget) -> KernelSource:
    """The text of a group, whose extents over symbols are sizes."""
    if group.is_empty:
        return KernelSource(f'extern "C" __global__ void {group.name}() {{}}\n')
    return best(group, target).emit()


def build_emulated_kernel(group: Group, target: GpuTarget) -> KernelSpec:
    """Schedule a group for a GPU and compile its text for the host; raises DeviceError."""
    kernel = generate_entries(group, target)
    kernel = replace(kernel, launches=programmatic(kernel.launches, target))
    source = with_releases(complete_text(kernel.text), kernel.launches, target)
    symbols = [symbol for launch in kernel.launches for symbol in launch.symbols]
    return kernel_spec(group, kernel, "emu", compile_kernels(source, symbols), source)


def build_hip_kernel(group: Group, target: GpuTarget) -> KernelSpec:
    """Schedule a group, generate its text and compile it; raises KernelError."""
    kernel = generate(group, target)
    source = complete_text(kernel.text)
    symbols = [launch.symbol for launch in kernel.launches]
    return kernel_spec(group, kernel, "hip", compile_hip(source, symbols, target), source)


BUILDERS: Mapping[str, Callable[[Group, GpuTarget], KernelSpec]] = {
    "cuda": build_cuda_kernel,
    "hip": build_hip_kernel,
    "emu": build_emulated_kernel,
}
"""The function that builds a kernel, by the target's backend."""
