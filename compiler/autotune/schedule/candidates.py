"""The schedules and execution modes that compete: they differ in nothing but schedule passes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, i64

from compiler.errors import ScheduleError
from compiler.ir import dataflow, taskflow
from compiler.ir.flatten import schedule_of
from compiler.ir.groups import kernel_symbols, symbols_of_group
from compiler.ir.types import int64
from compiler.passes.pipeline import default_pipeline, parse, split_phases
from compiler.passes.runner import Runner, taskflow_graph
from compiler.schedule.choices import MODES, Mode
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.scheduling.kernel_time import control_time, task_demand
from compiler.scheduling.simulator import resource_demand
from compiler.target.devices import DeviceModel
from compiler.tensors.extents import extent_of
from compiler.tensors.substitution import substituted_shape
from compiler.verify.happens_before import check_schedule

ONE_STREAM = "/1/none"
"""The name of the baseline: one stream, no partitions."""
MEASURED = {
    **{f"/{streams}/none": ("policy=none", streams) for streams in (2, 4, 8, 16)},
    "/4/ppd8": ("policy=ppd max-nodes=8", 4),
}
"""Options of `partition` and streams of what competes by measurement with the search's best."""
AUTO = "/auto"
"""The name of what the search found."""


@dataclass(frozen=True)
class ScheduleSpec:
    """A schedule that competes in every mode, and the pipeline that gives it.

    A schedule that is only simulated has no memory.
    """

    name: str
    pipeline: str
    schedule: Schedule


@dataclass(frozen=True)
class ScheduleCandidate:
    """One schedule in one mode; the name is `MODE/STREAMS/PARTITION`, `MODE/auto` for what the
    search found, or `MODE` for a pipeline of the user's.

    With `pdl`, kernels in its graphs may start before those they follow have ended; the whole
    graph competes with and without, as `graph+pdl` and `graph`.
    """

    name: str
    mode: Mode
    spec: ScheduleSpec
    pdl: bool = False


def competing_pipelines(searched: str) -> dict[str, str]:
    """The pipelines of the schedules that compete, by name.

    The first is the baseline; the last is the search's. Between them come those that only a
    measurement distinguishes from it.
    """
    fixed = {name: default_pipeline(*options) for name, options in MEASURED.items()}
    return {ONE_STREAM: default_pipeline(streams=1), **fixed, AUTO: searched}


def outlined_specs(searched: str, outlines: Mapping[str, Schedule]) -> Iterator[ScheduleSpec]:
    """The distinct schedules among some that are only outlined: none is made."""
    pipelines = competing_pipelines(searched)
    return _distinct((name, pipelines[name], outline) for name, outline in outlines.items())


def scheduled_specs(module: ModuleOp, pipelines: Mapping[str, str]) -> Iterator[ScheduleSpec]:
    """The distinct schedules that pipelines give a module whose kernels are built, all race-free.

    The module stays as it is. Raises a FlowloomError for a pipeline that fails or gives no
    schedule; a race is one of the first pass after which there is one.
    """
    return _distinct((name, text, _verified(module, text)) for name, text in pipelines.items())


def _verified(module: ModuleOp, pipeline: str) -> Schedule:
    schedule = schedule_of(scheduled(module.clone(), pipeline))
    try:
        check_schedule(schedule)
    except ScheduleError:
        scheduled(module.clone(), pipeline, Runner(each=True))  # the error names one
        raise
    return schedule


def _distinct(named_schedules: Iterable[tuple[str, str, Schedule]]) -> Iterator[ScheduleSpec]:
    seen = set[Schedule]()
    for name, pipeline, schedule in named_schedules:
        if schedule not in seen:
            seen.add(schedule)
            yield ScheduleSpec(name, pipeline, schedule)


def scheduled(module: ModuleOp, pipeline: str, runner: Runner | None = None) -> taskflow.GraphOp:
    """The taskflow graph that the schedule passes of a pipeline make of the module, in place."""
    (runner or Runner(verified=False)).run(module, split_phases(parse(pipeline))[1])
    return taskflow_graph(module, pipeline)


def mode_candidates(
    spec: ScheduleSpec, *, pdl: bool = False, selective: bool = True
) -> list[ScheduleCandidate]:
    """A schedule in every mode, or only as a graph unless `selective`.

    With `pdl`, its whole graph competes in both ways. One with an If or a Loop is a graph alone.
    """
    controlled = any(task.control is not None for task in spec.schedule.tasks)
    modes = MODES if selective and not controlled else MODES[:1]
    every = [ScheduleCandidate(f"{m}{spec.name}", m, spec, pdl and m == "subgraphs") for m in modes]
    if pdl:
        every.append(ScheduleCandidate(f"graph+pdl{spec.name}", "graph", spec, True))
    return every


def controls(module: ModuleOp) -> bool:
    """Whether a module has an If or a Loop."""
    return any(isinstance(op, dataflow.ControlOp) for op in module.walk())


def starts_early(kernels: Mapping[str, KernelSpec]) -> bool:
    """Whether any kernel can be launched before those it follows have ended.

    The graph of such a module has been faster so, or as fast, wherever it was measured.
    """
    return any(launch.programmatic for kernel in kernels.values() for launch in kernel.launches)


def set_costs(module: ModuleOp, costs: Mapping[str, float]) -> None:
    """Put the kernels' nanoseconds on the groups that launch them, and on those with bodies."""
    for op in module.walk():
        if isinstance(op, dataflow.GroupOp) and (op.kernel is not None or op.control is not None):
            op.cost = int64(max(1, round(_group_time(op, costs))))


def _group_time(group: dataflow.GroupOp, costs: Mapping[str, float]) -> float:
    if group.control is None:
        assert group.kernel is not None
        return costs[group.kernel.data]
    bodies = [[_group_time(g, costs) for g in body.groups] for body in group.control.graphs]
    return control_time(group.control.form, bodies)


def annotate(
    module: ModuleOp, kernels: Mapping[str, KernelSpec], device: DeviceModel | None = None
) -> None:
    """Set workspaces and packings, on which schedule passes depend, on each kernel's groups.

    With a device also the share of its block slots that the kernel fills.
    """
    for op in module.walk():
        if isinstance(op, dataflow.GroupOp) and op.kernel is not None:
            kernel = kernels[op.kernel.data]
            arguments = symbols_of_group(op)
            assert kernel.symbols == tuple(kernel_symbols(arguments).values()), (
                "the order of the kernel's sizes"
            )
            values = {
                symbol: extent_of(argument)
                for symbol, argument in zip(kernel.symbols, arguments, strict=True)
            }
            op.workspaces = ArrayAttr(map(int64, [*substituted_shape(kernel.workspaces, values)]))
            op.packings = ArrayAttr([StringAttr(packing) for packing in kernel.packings])
            if device is not None:
                slots = resource_demand(task_demand(kernel.example, 1.0, device), device)[0]
                op.share = IntegerAttr(round(1000 * slots), i64)
