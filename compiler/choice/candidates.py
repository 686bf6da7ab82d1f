"""The schedules and execution modes that compete: they differ in nothing but schedule passes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from compiler.analysis.happens_before import check_schedule
from compiler.analysis.simulator import Mode
from compiler.ir import dataflow, taskflow
from compiler.ir.flatten import schedule_of
from compiler.pipeline import Runner, default_pipeline, parse, split, taskflow_graph
from compiler.schedule import Schedule

MODES: tuple[Mode, ...] = ("graph", "subgraphs", "streams")
STREAMS = (1, 2, 4, 8)
PARTITIONS = {
    "none": "policy=none",
    "ppd2": "policy=ppd max-nodes=2",
    "ppd8": "policy=ppd max-nodes=8",
}
"""Options of `partition` by the name that a candidate has from them."""
UNMEASURED = ("none", "ppd8")
"""The partitions that compete where nothing is measured: building a schedule takes its time too."""


@dataclass(frozen=True)
class Plan:
    """A schedule that competes in every mode, and the pipeline that gave it."""

    name: str
    pipeline: str
    schedule: Schedule


@dataclass(frozen=True)
class Candidate:
    """One schedule in one mode; the name is `MODE/STREAMS/PARTITION`, or `MODE` for one plan.

    With `pdl`, kernels in its graphs may start before those they follow have ended; the whole
    graph competes with and without, as `graph+pdl` and `graph`.
    """

    name: str
    mode: Mode
    plan: Plan
    pdl: bool = False


def pipelines(given: str | None, partitions: Sequence[str] = tuple(PARTITIONS)) -> dict[str, str]:
    """The pipelines that compete, by name: the user's alone where there is one.

    The first is the baseline, one stream and no partitions.
    """
    if given is not None:
        return {"": given}
    return {
        f"/{streams}/{name}": default_pipeline(PARTITIONS[name], streams)
        for name in partitions
        for streams in STREAMS
    }


def plans(
    module: ModuleOp, costs: Mapping[str, float], competing: Mapping[str, str]
) -> Iterator[Plan]:
    """The distinct schedules that pipelines give a module whose kernels are built, all race-free.

    The module stays as it is, but for its groups' costs. Raises a FlowloomError for a pipeline
    that fails or gives no schedule.
    """
    put_costs(module, costs)
    seen = set[Schedule]()
    for name, pipeline in competing.items():
        schedule = schedule_of(scheduled(module, pipeline))
        check_schedule(schedule)
        if schedule not in seen:
            seen.add(schedule)
            yield Plan(name, pipeline, schedule)


def scheduled(module: ModuleOp, pipeline: str) -> taskflow.GraphOp:
    """The taskflow graph of a copy of the module after the schedule passes."""
    copy = module.clone()
    Runner(verified=False).run(copy, split(parse(pipeline))[1])
    return taskflow_graph(copy, pipeline)


def candidates(plan: Plan, *, pdl: bool = False) -> list[Candidate]:
    """A plan in every mode; with `pdl`, its whole graph in both ways."""
    found = [Candidate(f"{m}{plan.name}", m, plan, pdl and m == "subgraphs") for m in MODES]
    if pdl:
        found.append(Candidate(f"graph+pdl{plan.name}", "graph", plan, True))
    return found


def put_costs(module: ModuleOp, costs: Mapping[str, float]) -> None:
    """Put the kernels' nanoseconds on the groups that launch them."""
    for op in module.walk():
        if isinstance(op, dataflow.GroupOp) and op.kernel is not None:
            op.cost = IntegerAttr(max(1, round(costs[op.kernel.data])), i64)
