"""The search for a module's schedule by the simulator: its options and its record."""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.schedule.candidates import AUTO, ONE_STREAM, starts_early
from compiler.errors import PipelineError
from compiler.graph.cost import cost_of
from compiler.ir.dataflow import GroupOp
from compiler.ir.edit import graphs_of
from compiler.passes.base.adapter import read_groups
from compiler.passes.pipeline import LOWERING, default_pipeline, parse
from compiler.schedule.choices import SearchRecord
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.scheduling.bounds import lower_bound
from compiler.scheduling.costs import Costs
from compiler.scheduling.kernel_time import task_demand
from compiler.scheduling.outline import outline
from compiler.scheduling.placement import PlacementPolicy, place
from compiler.scheduling.placement_text import placement_to_text
from compiler.scheduling.search import search
from compiler.scheduling.simulator import Simulator, TaskDemand
from compiler.target.target import parse_target


@dataclass(frozen=True)
class SearchOptions:
    """How a schedule is searched for: `steps` moves, by default about a second's, from a seed."""

    steps: int | None = None
    seed: int = 0

    @classmethod
    def asked(
        cls, schedule: str | os.PathLike[str] | None, target: str, pipeline: str | None
    ) -> Self | None:
        """The search that `auto`, or `auto{steps=N seed=N}`, asks for; None for a file, or nothing.

        Raises PipelineError for another option, a target without a simulator and a pipeline.
        """
        match = re.fullmatch(r"auto(\{(.*)\})?", "" if schedule is None else os.fspath(schedule))
        if match is None:
            return None
        options = [option.partition("=") for option in (match[2] or "").split()]
        if any(name not in ("steps", "seed") or not text.isdecimal() for name, _, text in options):
            raise PipelineError(f"'{schedule}' is not a search: write auto{{steps=1000 seed=0}}")
        if not parse_target(target).searches_schedules or pipeline is not None:
            raise PipelineError(
                "a schedule is searched for in place of the default pipeline of the target cuda:"
                " leave out schedule=auto, or pipeline and other targets"
            )
        return cls(**{name: int(text) for name, _, text in options})


@dataclass(frozen=True)
class SearchedPipeline:
    """The pipeline that makes the best schedule found, and every figure of the search.

    `outlines` are this and the baseline as schedules without memory, by name.
    """

    pipeline: str
    record: SearchRecord
    outlines: Mapping[str, Schedule]


def search_module(
    module: ModuleOp, kernels: Mapping[str, KernelSpec], costs: Costs, options: SearchOptions
) -> SearchedPipeline:
    """Search for a module whose groups have their costs; all on plain data."""
    graph = graphs_of(module)[-1]
    groups = read_groups(graph)
    names = [name_of(group) for group in graph.groups]
    demands = [_demand(group, kernels, costs) for group in graph.groups]
    early = starts_early(kernels)
    simulator = Simulator(demands, costs.device, early=early)
    best = search(groups, simulator, options.steps, options.seed)
    bound = lower_bound(demands, groups.dag.edges, costs.device, early=early)
    outlines = {
        ONE_STREAM: outline(groups.dag, place(groups, PlacementPolicy("opara", 1)), names),
        AUTO: outline(groups.dag, best.placement, names),
    }
    record = SearchRecord(
        start=best.start.name,
        started_at=best.started_at,
        moved=best.moved,
        makespan=best.makespan,
        steps=best.steps,
        kept=best.kept,
        seed=options.seed,
        policies=dict(best.policies),
        bound=asdict(bound),
    )
    passes = parse(default_pipeline())
    text = placement_to_text(groups.dag, best.placement)
    specs = [str(step.spec()) for step in passes if step.name not in PLACING]
    specs.insert(specs.index(LOWERING), f'import-placement{{placement="{text}"}}')
    return SearchedPipeline(",".join(specs), record, outlines)


def name_of(group: GroupOp) -> str:
    """The kernel of a group, or its kind of control."""
    if group.control is not None:
        return group.control.form.kind
    assert group.kernel is not None
    return group.kernel.data


def _demand(group: GroupOp, kernels: Mapping[str, KernelSpec], costs: Costs) -> TaskDemand:
    if group.control is not None:
        return TaskDemand(float(cost_of(group)))
    name = name_of(group)
    return task_demand(kernels[name], max(1.0, costs.of[name]), costs.device)


PLACING = ("partition-graph", "assign-streams", "order-launches", "keep-weights")
"""The passes whose decisions a placement holds."""
