"""The schedules and execution modes that compete: they differ in nothing but schedule passes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from compiler.ir import dataflow, taskflow
from compiler.ir.edit import graphs_of
from compiler.ir.flatten import schedule_of
from compiler.ir.types import int64
from compiler.pipeline import Runner, default_pipeline, parse, split, taskflow_graph
from compiler.schedule import KernelSpec, Schedule
from compiler.scheduling.adapter import write_placement
from compiler.scheduling.placement import Placement
from compiler.scheduling.simulator import Mode
from compiler.verify.happens_before import check_schedule

MODES: tuple[Mode, ...] = ("graph", "subgraphs", "streams")
ONE_STREAM = "/1/none"
"""The name of the baseline: one stream, no partitions."""
MEASURED = {
    **{f"/{streams}/none": ("policy=none", streams) for streams in (2, 4, 8, 16)},
    "/4/ppd8": ("policy=ppd max-nodes=8", 4),
}
"""Options of `partition` and streams of what competes by measurement with the search's best."""
AUTO = "/auto"
"""The name of what the search found."""
PLACING = ("partition-graph", "assign-streams", "order-launches")
"""The passes whose decisions a placement takes the place of."""


@dataclass(frozen=True)
class Plan:
    """A schedule that competes in every mode, and the pipeline that gave it.

    Where there is a `placement`, its decisions are in place of the pipeline's. A schedule that is
    only simulated may lack memory.
    """

    name: str
    pipeline: str
    schedule: Schedule
    placement: Placement | None = None


@dataclass(frozen=True)
class Recipe:
    """How to make a schedule: a pipeline, and a placement in place of its decisions, if any."""

    pipeline: str
    placement: Placement | None = None


@dataclass(frozen=True)
class Candidate:
    """One schedule in one mode; the name is `MODE/STREAMS/PARTITION`, `MODE/auto` for what the
    search found, or `MODE` for one plan.

    With `pdl`, kernels in its graphs may start before those they follow have ended; the whole
    graph competes with and without, as `graph+pdl` and `graph`.
    """

    name: str
    mode: Mode
    plan: Plan
    pdl: bool = False


def recipes(found: Recipe) -> dict[str, Recipe]:
    """The schedules that compete, by name.

    The first is the baseline; the last is what the search found. Between them come those that
    only a measurement can tell from it.
    """
    fixed = {name: Recipe(default_pipeline(*options)) for name, options in MEASURED.items()}
    return {ONE_STREAM: Recipe(default_pipeline(streams=1)), **fixed, AUTO: found}


def outlined(found: Recipe, outlines: Mapping[str, Schedule]) -> Iterator[Plan]:
    """The distinct plans of some recipes by the outlines of their schedules: none is made."""
    competing, seen = recipes(found), set[Schedule]()
    for name, schedule in outlines.items():
        if schedule not in seen:
            seen.add(schedule)
            yield Plan(name, competing[name].pipeline, schedule, competing[name].placement)


def plans(module: ModuleOp, competing: Mapping[str, Recipe]) -> Iterator[Plan]:
    """The distinct schedules that recipes give a module whose kernels are built, all race-free.

    The module stays as it is. Raises a FlowloomError for a pipeline that fails or gives no
    schedule.
    """
    seen = set[Schedule]()
    for name, recipe in competing.items():
        copy = module.clone()
        schedule = schedule_of(scheduled(copy, recipe))
        check_schedule(schedule)
        if schedule not in seen:
            seen.add(schedule)
            yield Plan(name, recipe.pipeline, schedule, recipe.placement)


def scheduled(module: ModuleOp, recipe: Recipe, runner: Runner | None = None) -> taskflow.GraphOp:
    """The taskflow graph that a recipe makes of the module, in place."""
    passes = split(parse(recipe.pipeline))[1]
    if recipe.placement is not None:
        put_placement(module, recipe.placement)
        passes = [each for each in passes if each.name not in PLACING]
    (runner or Runner(verified=False)).run(module, passes)
    return taskflow_graph(module, recipe.pipeline)


def put_placement(module: ModuleOp, found: Placement) -> None:
    """Give the groups of a module's only graph their streams, partitions, stages and order."""
    (graph,) = graphs_of(module)
    write_placement(graph, found)


def candidates(plan: Plan, *, pdl: bool = False) -> list[Candidate]:
    """A plan in every mode; with `pdl`, its whole graph in both ways."""
    found = [Candidate(f"{m}{plan.name}", m, plan, pdl and m == "subgraphs") for m in MODES]
    if pdl:
        found.append(Candidate(f"graph+pdl{plan.name}", "graph", plan, True))
    return found


def starts_early(kernels: Mapping[str, KernelSpec]) -> bool:
    """Whether any kernel can be launched before those it follows have ended.

    The graph of such a module has been faster so, or as fast, wherever it was measured.
    """
    return any(launch.programmatic for kernel in kernels.values() for launch in kernel.launches)


def put_costs(module: ModuleOp, costs: Mapping[str, float]) -> None:
    """Put the kernels' nanoseconds on the groups that launch them."""
    for op in module.walk():
        if isinstance(op, dataflow.GroupOp) and op.kernel is not None:
            op.cost = int64(max(1, round(costs[op.kernel.data])))
