"""Candidates of models' distinct kernels; needs TVM but no GPU (AutoTVM's split, 2018)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.kernels.bundle import (
    FEWEST,
    Bundle,
    KernelCandidate,
    OperandBuffer,
    TunableKernel,
    merge_bundles,
)
from compiler.autotune.substitution import CostContext, SimulatedTimes
from compiler.autotune.substitution.compared import compared_graphs
from compiler.frontend.importing import import_model
from compiler.graph.fusion.whole import whole_kernels
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GroupOp
from compiler.kernels.building.cuda_kernel import programmatic
from compiler.kernels.building.kernel import LOWERING_MODULES as LOWERING_MODULES  # registers them
from compiler.kernels.building.module import at_boundary, distinct_groups
from compiler.kernels.building.select import Candidate, Provenance, measurable
from compiler.kernels.database.fields import config_fields
from compiler.kernels.gpu.headers import headers
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.passes.base import PassContext
from compiler.passes.pipeline import DEFAULT_PIPELINE, LOWER_QUANTISED, parse, split_phases
from compiler.passes.runner import Runner
from compiler.progress import in_parts, step_progress
from compiler.target.target import GpuTarget, parse_gpu

CANDIDATES = 24

MOST_THREADS = 1024
"""Threads of a block on any device."""

Accepts = Callable[[Candidate], bool]
"""Which of what templates can compute is prepared."""


def any_candidate(match: Candidate) -> bool:
    """Accept every candidate."""
    return True


def prepare_bundle(
    models: Iterable[tuple[str, Any]],
    precisions: Iterable[str],
    arch: str,
    count: int = CANDIDATES,
    report: Callable[[str], None] = lambda line: None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    accepts: Accepts = any_candidate,
) -> Bundle:
    """The candidates of every distinct kernel with a choice of some models in some precisions.

    Models come by name, as `import_model` reads them; `report` gets a line for each one done.
    Of what templates can compute, only what it `accepts`.
    """
    bundles: list[Bundle] = []
    targets = [f"cuda:{arch}:{precision}" for precision in precisions]
    with step_progress("prepare"):
        for name, model in in_parts("prepare", [*models], lambda model: model[0]):
            for target in targets:
                has_kernel = whole_kernels(parse_gpu(target))
                module = import_model(model, input_shapes, has_kernel=has_kernel).module
                bundles.append(prepare_part(module, target, count, accepts))
            merged = merge_bundles(bundles)
            report(f"{name}: {len(merged.kernels)} kernels with {merged.count} candidates so far")
    return merge_bundles(bundles)


def prepare_part(
    module: ModuleOp, target: str, count: int, accepts: Accepts = any_candidate
) -> Bundle:
    """The candidates of an imported graph's distinct kernels with a choice on a target.

    Merged in the order of models and precisions, such parts are what `prepare_bundle` gives.
    """
    machine = parse_gpu(target)
    kernels = dict[str, TunableKernel]()
    for group, uses in _used_groups(module, machine):
        for match in filter(accepts, measurable(group, machine)):
            configs = match.shortlist(count)
            weight = match.estimate_ns(configs[0]) / 1e3 * uses
            if old := kernels.get(match.key):
                kernels[match.key] = replace(old, weight=old.weight + weight)
            elif kernel := tunable_kernel(match, configs, weight):
                kernels[match.key] = kernel
    return Bundle(
        machine.architecture, machine.compiler_architecture, headers(), tuple(kernels.values())
    )


def untuned_on(device: str) -> Accepts:
    """Whether the database has no times of a kernel on a device."""
    return lambda match: match.provenance(device) is not Provenance.TUNED


def groups_of(
    model: Any, target: GpuTarget, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> Iterator[tuple[Group, int]]:
    """The distinct groups of the graphs that a compilation compares, and how often they occur.

    Those are a model's graph after the default graph passes, and what it may be substituted by.
    """
    return _used_groups(lowered_module(model, target, input_shapes), target)


def lowered_module(
    model: Any, target: GpuTarget, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> ModuleOp:
    """A model's graph, its quantised operands contracted in the first way of the target."""
    imported = import_model(model, input_shapes, has_kernel=whole_kernels(target))
    set_target(imported.module, str(target))
    Runner(context=PassContext(imported.weights)).run(imported.module, parse(LOWER_QUANTISED))
    return imported.module


def _used_groups(module: ModuleOp, target: GpuTarget) -> Iterator[tuple[Group, int]]:
    groups = dict[str, Group]()
    uses = Counter[str]()
    for graph in compared_graphs(module, target):
        groups = {**distinct_groups(graph), **groups}
        uses.update(
            op.kernel.data
            for op in graph.walk()
            if isinstance(op, GroupOp) and op.kernel is not None
        )
    for name, group in groups.items():
        yield group, uses[name]


def fused_groups(module: ModuleOp, target: GpuTarget) -> dict[str, Group]:
    """The distinct groups of a module, by kernel name, after the default graph passes in place.

    Nothing is substituted.
    """
    set_target(module, str(target))
    Runner(None).run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    return distinct_groups(module)


def built_groups(module: ModuleOp, target: GpuTarget, pipeline: str) -> dict[str, Group]:
    """The distinct groups of a module, by kernel name, after a build's pipeline in place.

    Substitutions that the pipeline leaves open are decided as without a device.
    """
    set_target(module, str(target))
    context = CostContext(SimulatedTimes(target))
    Runner(context=context).run(module, split_phases(parse(pipeline))[0])
    return at_boundary(module, distinct_groups(module))


def tunable_kernel(match: Candidate, configs: Sequence[Any], weight: float) -> TunableKernel | None:
    """A group's kernel in every config; None where there is nothing to choose."""
    built = [(config, match.emit(config)) for config in configs]
    usable = [(config, kernel) for config, kernel in built if fits(kernel, match.target)]
    if len(usable) < FEWEST:
        return None
    candidates = tuple(kernel_candidate(match, config, kernel) for config, kernel in usable)
    return kernel_of(match, usable[0][1], weight, candidates)


def kernel_of(
    match: Candidate, built: KernelSource, weight: float, candidates: tuple[KernelCandidate, ...]
) -> TunableKernel:
    """A group's kernel with some candidates; `built` is any of them."""
    group = match.group
    packings = built.packings or ("",) * group.inputs
    return TunableKernel(
        key=match.key,
        name=group.name,
        version=match.version,
        weight=weight,
        reads=tuple(operand_buffer(t, p) for t, p in zip(group.reads, packings, strict=True)),
        writes=tuple(operand_buffer(t) for t in group.writes),
        candidates=candidates,
    )


def kernel_candidate(match: Candidate, config: Any, kernel: KernelSource) -> KernelCandidate:
    """A group's kernel with a config, as it is measured."""
    return KernelCandidate(
        config_fields(config),
        complete_text(kernel.text),
        programmatic(kernel.launches, match.target),
        kernel.workspaces,
        round(match.estimate_ns(config) / 1e3, 2),
    )


def fits(kernel: KernelSource, target: GpuTarget) -> bool:
    """Whether a device of the target has the shared memory and the threads that blocks take."""
    return all(
        launch.shared_bytes <= target.shared_bytes
        and launch.block[0] * launch.block[1] * launch.block[2] <= MOST_THREADS
        for launch in kernel.launches
    )


def operand_buffer(info: TensorInfo, packing: str = "") -> OperandBuffer:
    """A tensor of a kernel as it is measured."""
    return OperandBuffer(info.dtype, info.shape if packing else info.stored_shape, packing)
