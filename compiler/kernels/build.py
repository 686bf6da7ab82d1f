"""Building a module's distinct kernels: from the cache, in threads, or in worker processes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from compiler.graph.boundary import boundary_kernels
from compiler.graph.cost import Work, work_of
from compiler.graph.packing import packed_shape
from compiler.ir.dataflow import GraphOp, GroupOp
from compiler.kernels.cache import KernelCache
from compiler.kernels.gpu.compilers.emulated import EmulatedTarget
from compiler.kernels.gpu.compilers.hip_toolchain import hip_generator
from compiler.kernels.gpu.hip_target import HipTarget
from compiler.kernels.gpu.target import CudaTarget
from compiler.kernels.group import Group, extract_group
from compiler.kernels.target import Target, parse_target
from compiler.kernels.workers import build_in_workers
from compiler.schedule import KernelSpec, Operand

WORKERS_PAY = 12
"""From this many missing kernels on, starting worker processes costs less than it saves."""


def build_kernels(
    module: ModuleOp, target: str, cache: KernelCache | None, jobs: int = 0
) -> dict[str, KernelSpec]:
    """Build each distinct kernel of a module's groups once; returns them by kernel name.

    `target` is what `parse_target` reads; `jobs` is the number of processes, or of threads for
    CUDA (0 for one a core). Raises KernelError, which names the kernel, its operators and nodes.
    """
    machine = parse_target(target)
    groups = distinct_groups(module)
    if isinstance(machine, CudaTarget | EmulatedTarget):
        groups = at_boundary(module, groups)
    specs: dict[str, KernelSpec] = {}
    key = f"{machine} {hip_generator()}" if isinstance(machine, HipTarget) else str(machine)
    if cache is not None:
        found = {name: cache.load(group, key) for name, group in groups.items()}
        specs = {name: spec for name, spec in found.items() if spec is not None}
    missing = [group for name, group in groups.items() if name not in specs]
    for group, spec in build_groups(missing, machine, jobs or os.cpu_count() or 1):
        specs[group.name] = spec
        if cache is not None:
            cache.store(group, key, spec)
    if cache is not None and missing:
        cache.trim()
    work = counted_work(module)
    return {
        name: replace(
            with_operands(specs[name], group),
            flops=work[name].flops,
            traffic_bytes=work[name].nbytes,
        )
        for name, group in groups.items()
    }


def with_operands(spec: KernelSpec, group: Group) -> KernelSpec:
    """The kernel of a group with the types of the tensors that it reads and writes."""
    packed = zip(group.reads, spec.packings, strict=True)
    reads = (Operand(info.dtype, packed_shape(info.shape, packing)) for info, packing in packed)
    writes = (Operand(info.dtype, info.shape) for info in group.writes)
    return replace(spec, reads=tuple(reads), writes=tuple(writes))


def counted_work(module: ModuleOp) -> dict[str, Work]:
    """FLOPs and bytes of each kernel name, counted from its operators."""
    work: dict[str, Work] = {}
    for op in module.walk():
        if isinstance(op, GroupOp) and op.kernel is not None and op.kernel.data not in work:
            work[op.kernel.data] = work_of(op)
    return work


def distinct_groups(module: ModuleOp) -> dict[str, Group]:
    """One group of each kernel name, in launch order."""
    groups: dict[str, GroupOp] = {}
    for op in module.walk():
        if isinstance(op, GroupOp) and op.kernel is not None:
            groups.setdefault(op.kernel.data, op)
    return {name: extract_group(op) for name, op in groups.items()}


def at_boundary(module: ModuleOp, groups: Mapping[str, Group]) -> dict[str, Group]:
    """The groups, with those marked that touch the inputs or outputs of their graph."""
    found = {n for op in module.ops if isinstance(op, GraphOp) for n in boundary_kernels(op)}
    return {name: replace(group, boundary=name in found) for name, group in groups.items()}


def build_groups(
    groups: Sequence[Group], target: Target, jobs: int
) -> Iterator[tuple[Group, KernelSpec]]:
    """Build groups, yielding each kernel as it is ready."""
    if groups and jobs > 1 and type(target) is CudaTarget:
        from compiler.kernels.gpu.parallel import build_in_threads

        yield from build_in_threads(groups, target, jobs)
    elif jobs > 1 and len(groups) >= WORKERS_PAY:
        yield from build_in_workers(groups, target, jobs)
    elif groups:
        from compiler.kernels.kernel import build_kernel

        for group in groups:
            yield group, build_kernel(group, target)
