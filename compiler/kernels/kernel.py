"""Building one kernel, from group to KernelSpec, in this process."""

from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from compiler.errors import FlowloomError, KernelError
from compiler.graph.attention import Attention
from compiler.kernels.cpu.codegen import compile_llvm, optimise
from compiler.kernels.cpu.generic import schedule_cpu
from compiler.kernels.cpu.scheduled import Scheduled
from compiler.kernels.cpu.templates import apply_template, match_template
from compiler.kernels.cpu.tunable import Tunable
from compiler.kernels.database.fields import Config
from compiler.kernels.gpu.emulated_kernel import build_emulated_kernel
from compiler.kernels.gpu.estimate import estimated, layout_key
from compiler.kernels.gpu.hip_kernel import build_hip_kernel
from compiler.kernels.gpu.kernel import build_cuda_kernel
from compiler.kernels.group import Group
from compiler.kernels.ops import (
    activation,
    contraction,
    cumulative,
    elementwise,
    injective,
    normalization,
    opaque,
    pooling,
    recurrence,
    reduction,
    resize,
    segments,
    shapes,
    top_k,
)
from compiler.kernels.requantise import requantised
from compiler.kernels.tir.footprint import cpu_footprint, task_buffers
from compiler.kernels.tir.launches import StackError, lower_function, split_launches
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.target.target import CpuTarget, GpuTarget, Target

LOWERING_MODULES = (
    activation,
    contraction,
    cumulative,
    elementwise,
    injective,
    normalization,
    opaque,
    pooling,
    recurrence,
    reduction,
    resize,
    segments,
    shapes,
    top_k,
)
"""The modules that register lowerings when they are imported."""


def estimate_kernel(group: Group, target: GpuTarget) -> KernelSpec:
    """The kernel that would be built for a group, without code, in about a millisecond."""
    return estimated(group, target)


def attention_layout(attention: Attention, target: GpuTarget) -> Hashable:
    """The part of an attention's layout that the estimate of its kernel depends on."""
    return layout_key(attention, target)


def build_kernel(group: Group, target: Target) -> KernelSpec:
    """Schedule and compile one group; raises KernelError that names it, its operators and nodes."""
    with naming(group):
        return BUILDERS[target.backend](group, target)


def cpu_tunable(group: Group, target: CpuTarget) -> Tunable | None:
    """The ways to compute a group on a CPU; None where there is nothing to choose."""
    if all(info.elements == 0 for info in group.writes):
        return None
    with naming(group):
        found = match_template(requantised(group), target)
    return found if isinstance(found, Tunable) else None


def build_candidate(group: Group, target: CpuTarget, config: Config) -> KernelSpec:
    """Build a group for a CPU as a template does with a config; raises KernelError as above."""
    with naming(group):
        scheduled = apply_template(requantised(group), target, config)
        assert scheduled is not None, "there are configs of templates alone"
        return compile_scheduled(group, scheduled, target)


@contextmanager
def naming(group: Group) -> Generator[None]:
    """Turn every error into a KernelError that names a group, its operators and nodes."""
    try:
        yield
    except FlowloomError as error:
        raise KernelError(f"{group.describe()}: {error}") from error
    except Exception as error:
        raise KernelError(f"{group.describe()}: {type(error).__name__}: {error}") from error


def build_cpu_kernel(group: Group, target: CpuTarget) -> KernelSpec:
    """Schedule a group by a template or the generic schedule, and compile it."""
    if all(info.elements == 0 for info in group.writes):
        return empty_kernel(group, target)
    group = requantised(group)
    scheduled = apply_template(group, target)
    if scheduled is not None:
        with suppress(StackError):  # no tile of the template is small enough
            return compile_scheduled(group, scheduled, target)
    return build_generic(group, target)


BUILDERS: Mapping[str, Callable[[Group, Any], KernelSpec]] = {
    "cpu": build_cpu_kernel,
    "cuda": build_cuda_kernel,
    "hip": build_hip_kernel,
    "emu": build_emulated_kernel,
}
"""The function that builds a kernel, by the target's backend."""


def build_generic(group: Group, target: CpuTarget) -> KernelSpec:
    """Build by the generic schedule: stages that outgrow the stack go through workspaces."""
    try:
        return compile_scheduled(group, schedule_cpu(group, target), target)
    except StackError:
        return compile_scheduled(group, schedule_cpu(group, target, attach=False), target)


def empty_kernel(group: Group, target: CpuTarget) -> KernelSpec:
    """The kernel of a group whose results have no elements: nothing to launch."""
    code = optimise("", target)
    return KernelSpec(group.name, "object", code, (), ("",) * group.inputs)


def compile_scheduled(group: Group, scheduled: Scheduled, target: CpuTarget) -> KernelSpec:
    """Compile a scheduled PrimFunc; raises KernelError if it would touch more than its tensors."""
    lowered = lower_function(scheduled.function, group.name)
    functions, scratch = split_launches(lowered, group.name)
    launches = tuple(
        Launch(f"{group.name}_{i}", f.args, (f.blocks, 1, 1)) for i, f in enumerate(functions)
    )
    packings = scheduled.packings or ("",) * group.inputs
    workspaces = scheduled.workspaces + scratch
    buffers = task_buffers(group, packings, workspaces)
    footprint = cpu_footprint([f.function for f in functions], launches, buffers)
    code = compile_llvm(group.name, functions, scheduled, target)
    return KernelSpec(
        name=group.name,
        language="object",
        code=code,
        launches=launches,
        packings=packings,
        workspaces=workspaces,
        flops=scheduled.flops or group.operations,
        traffic_bytes=group.traffic_bytes,
        footprint=footprint,
    )
