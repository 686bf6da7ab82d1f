"""Building one kernel, from group to KernelSpec, in this process."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

from tvm.tirx import PrimFunc

from compiler.errors import FlowloomError, KernelError
from compiler.kernels.building.select import Candidate, best, candidates_of, templates_of
from compiler.kernels.building.spec import kernel_spec, packings_of_reads
from compiler.kernels.cpu.codegen import compile_llvm, optimise
from compiler.kernels.database.fields import Config
from compiler.kernels.group import Group
from compiler.kernels.ops import (
    activation,
    contraction,
    cumulative,
    elementwise,
    fourier,
    injective,
    normalization,
    opaque,
    pooling,
    recurrence,
    reduction,
    segments,
    shapes,
)
from compiler.kernels.ops.resizing import resize
from compiler.kernels.ops.selection import counting, suppression, top_k
from compiler.kernels.sizes import for_all_sizes, hinted, sized
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.footprint import cpu_footprint, task_buffers
from compiler.kernels.tir.launches import (
    LaunchFunction,
    StackError,
    lower_function,
    split_launches,
)
from compiler.kernels.tir.sized_launches import SizesOperand
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.target.target import CpuTarget, GpuTarget, Target
from compiler.tensors.assumptions import assuming_nothing
from compiler.tensors.extents import NotForAllSizes

LOWERING_MODULES = (
    activation,
    contraction,
    counting,
    cumulative,
    elementwise,
    fourier,
    injective,
    normalization,
    opaque,
    pooling,
    recurrence,
    reduction,
    resize,
    segments,
    shapes,
    suppression,
    top_k,
)
"""The modules that register lowerings when they are imported."""


def build_kernel(group: Group, target: Target) -> KernelSpec:
    """Schedule and compile one group; raises KernelError that names it, its operators and nodes."""
    with naming(group):
        if target.is_gpu:
            from compiler.kernels.building.cuda_kernel import BUILDERS

            return BUILDERS[target.backend](group, cast(GpuTarget, target))
        return build_cpu_kernel(group, cast(CpuTarget, target))


def chosen_configs(groups: Sequence[Group], target: Target) -> dict[str, str]:
    """The template and config of each group by the database, as text, by kernel name."""
    configs: dict[str, str] = {}
    for group in groups:
        with naming(group):
            chosen = best(sized(group), target)
        configs[group.name] = chosen.candidate.config_text(chosen.config)
    return configs


def build_candidate(group: Group, target: CpuTarget, config: Config) -> KernelSpec:
    """Build a group for a CPU as its template does with a config; raises KernelError as above."""
    with naming(group):
        candidate = best(sized(group), target).candidate
        source = candidate.emit(candidate.by_fields[config])
        return compile_scheduled(candidate.group, source, target)


@contextmanager
def naming(group: Group) -> Generator[None]:
    """Turn every error into one that names a group, its operators and nodes.

    It is a KernelError; NotForAllSizes stays one.
    """
    try:
        with assuming_nothing():  # a kernel is for all modules with groups of its form
            yield
    except NotForAllSizes as error:
        raise NotForAllSizes(f"{group.describe()}: {error}") from error
    except FlowloomError as error:
        raise KernelError(f"{group.describe()}: {error}") from error
    except Exception as error:
        raise KernelError(f"{group.describe()}: {type(error).__name__}: {error}") from error


def build_cpu_kernel(group: Group, target: CpuTarget) -> KernelSpec:
    """Schedule a group and compile it; raises KernelError.

    The kernel of a group with symbols is for all sizes of which no tensor has more elements than
    an int32 counts; a group that is none for all sizes has no kernel.
    """
    if not group.symbols:
        return _cpu_kernel(group, target)
    with for_all_sizes(group):
        return _cpu_kernel(sized(group), target)


def _cpu_kernel(group: Group, target: CpuTarget) -> KernelSpec:
    """The kernel of a group, whose extents over symbols are sizes."""
    if group.is_empty:
        code = optimise("", target)
        packings = packings_of_reads(group, KernelSource())
        return KernelSpec(group.name, "object", code, (), packings, symbols=group.symbols)
    for candidate, config in attempts(group, target):
        with suppress(StackError):
            return compile_scheduled(candidate.group, candidate.emit(config), target)
    raise KernelError("whatever its schedule is, its stages outgrow the stack")


def attempts(group: Group, target: CpuTarget) -> Iterator[tuple[Candidate, Any]]:
    """The kernels of a group in the order in which building tries them, each with its config.

    Where no tile of a template is small enough for the stack, the generic schedule takes the group.
    """
    choice = best(group, target)
    if not choice.is_generic:
        yield choice.candidate, choice.config
    (generic,) = candidates_of(templates_of(target).templates[-1], group, target)
    yield from ((generic, config) for config in generic.configs)


def scheduled_launches(
    group: Group, function: PrimFunc
) -> tuple[list[LaunchFunction], tuple[Any, ...]]:
    """The launches of a group's scheduled function, and the bytes of its workspaces."""
    lowered = lower_function(function, group.name, bool(group.symbols))
    sizes = SizesOperand(group.inputs, group.symbols) if group.symbols else None
    return split_launches(lowered, group.name, sizes)


def compile_scheduled(group: Group, source: KernelSource, target: CpuTarget) -> KernelSpec:
    """Compile a scheduled PrimFunc; raises KernelError if it would touch more than its tensors."""
    assert source.function is not None, "CUDA text is compiled for GPUs"
    functions, scratch = scheduled_launches(group, source.function)
    launches = tuple(
        Launch(f"{group.name}_{i}", f.args, (f.blocks, 1, 1)) for i, f in enumerate(functions)
    )
    packings = packings_of_reads(group, source)
    workspaces = source.workspaces + scratch
    kernel = replace(
        source,
        launches=launches,
        workspaces=workspaces,
        flops=source.flops or hinted(group).operations,
        footprint=cpu_footprint(functions, launches, task_buffers(group, packings, workspaces)),
    )
    code = compile_llvm(group.name, functions, source, target)
    return kernel_spec(group, kernel, "object", code)
