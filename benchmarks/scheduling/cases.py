"""Models whose kernels are built: made where TVM is, measured where the device is."""

import lzma
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.scheduling.policies import AUTO, Policy
from compiler.autotune.schedule.candidates import set_costs
from compiler.autotune.schedule.search import SearchedPipeline, SearchOptions, search_module
from compiler.errors import FlowloomError
from compiler.ir.context import parse_module
from compiler.ir.flatten import schedule_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner, taskflow_graph
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.scheduling.costs import Costs
from compiler.target.target import parse_target


@dataclass(frozen=True)
class Case:
    """A model as text IR, fused and annotated by its kernels, without the values of its weights."""

    model: str
    target: str
    text: str
    kernels: dict[str, KernelSpec]


@dataclass(frozen=True)
class Planned:
    """A policy's schedule of a case, and the figures that need no run."""

    schedule: Schedule
    figures: dict[str, Any]


def prepare(model: str, target: str, jobs: int = 2) -> Case:
    """Import, fuse and build a model of the zoo or of a file."""
    from compiler.driver.build import annotate
    from compiler.frontend.importing import import_model
    from compiler.graph.targets import set_target
    from compiler.kernels.building import KernelCache, build_kernels
    from compiler.passes.pipeline import DEFAULT_PIPELINE, split_phases
    from examples import zoo

    module = import_model(zoo.load(model) if model in zoo.names() else model).module
    set_target(module, target)
    Runner().run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    kernels = build_kernels(module, target, KernelCache(), jobs)
    parsed = parse_target(target)
    annotate(module, kernels, parsed.device if parsed.is_gpu else None)
    return Case(model, target, str(module), kernels)


def save(cases: Iterable[Case], path: Path) -> None:
    """Write cases as one compressed file; read only files that you wrote."""
    path.write_bytes(lzma.compress(pickle.dumps(list(cases))))


def load(path: Path) -> list[Case]:
    """Read the cases of a file."""
    found: list[Case] = pickle.loads(lzma.decompress(path.read_bytes()))
    return found


def plan(
    case: Case, costs: Mapping[str, float], competing: Mapping[str, Policy]
) -> dict[str, Planned | str]:
    """The schedule of each policy, verified, or why it refused; costs are ns by kernel.

    On a GPU the last is what the search of the default finds.
    """
    module = parse_module(case.text)
    set_costs(module, costs)
    found: dict[str, Planned | str] = {}
    for name, policy in competing.items():
        try:
            found[name] = _plan(module, policy)
        except FlowloomError as error:
            found[name] = str(error)
    if parse_target(case.target).backend == "cuda":
        found[AUTO] = _search(case, module, costs)
    return found


def _plan(module: Any, policy: Policy) -> Planned:
    copy, runner = module.clone(), Runner()
    passes = parse(policy.pipeline())
    start = process_time()
    for step in passes[:3]:
        step.apply(runner.context, copy)
    return _lower(copy, process_time() - start, {})


def _search(case: Case, module: Any, costs: Mapping[str, float]) -> Planned:
    """The schedule of `auto`, in its default number of steps."""
    known = Costs.make(case.kernels, costs, parse_target(case.target).architecture)

    def search(how: SearchOptions) -> tuple[SearchedPipeline, float]:
        start = process_time()
        return search_module(module, case.kernels, known, how), process_time() - start

    search(SearchOptions(steps=1))
    (_, policies), (found, seconds) = search(SearchOptions(steps=0)), search(SearchOptions())
    (placing,) = (step for step in parse(found.pipeline) if step.name == "import-placement")
    Runner().run(copy := module.clone(), [placing])
    return _lower(copy, seconds, {"search": asdict(found.record), "policies' seconds": policies})


def _lower(placed: Any, seconds: float, more: dict[str, Any]) -> Planned:
    """The schedule and the figures of a module whose groups are placed, which is used up."""
    runner = Runner()
    runner.run(placed, parse("lower-to-taskflow,insert-sync"))
    waits = _waits(_schedule(placed))
    runner.run(placed, parse("elide-sync,plan-memory{reuse=concurrent}"))
    schedule = _schedule(placed)
    figures = {
        "streams": len({task.stream for task in schedule.tasks}),
        "tasks": len(schedule.tasks),
        "waits before elision": waits,
        "waits": _waits(schedule),
        "waits between streams": sum(
            schedule.tasks[u].stream != t.stream for t in schedule.tasks for u in t.after
        ),
        "arena bytes": sum(allocation.nbytes for allocation in schedule.of_kind("arena")),
        "search seconds": seconds,
    }
    return Planned(schedule, figures | more)


def _schedule(module: Any) -> Schedule:
    return schedule_of(taskflow_graph(module, "the benchmark's"))


def _waits(schedule: Schedule) -> int:
    return sum(len(task.after) for task in schedule.tasks)
