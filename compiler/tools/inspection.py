"""What the predicted times of a module are, and a module read without the device it is for."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.autotune.schedule.costs import Costs
from compiler.backends.gpu.target import main_architecture
from compiler.export import artifact
from compiler.graph.cost import Work as Counted
from compiler.graph.cost import estimate
from compiler.module import Module
from compiler.schedule import Mode
from compiler.scheduling.bounds import lower_bound, needs
from compiler.scheduling.simulator import Timeline, Work, predict
from compiler.target.devices import CORES, Device


def open_module(directory: str | os.PathLike[str]) -> Module:
    """A saved module after verifying its files; it is loaded on its device when that is needed."""
    found = artifact.load(directory, lambda target, requirements: None)
    return Module(
        found.target,
        found.schedule,
        found.kernels,
        found.weights,
        requirements=found.requirements,
        choice=found.choice,
        library=found.library,
    )


@dataclass(frozen=True)
class Prediction:
    """The modelled timeline of a run, what each task asks, and which kernels were measured."""

    mode: Mode
    timeline: Timeline
    works: list[Work]
    measured: frozenset[str]
    device: Device


def gap(module: Module, found: Prediction) -> str:
    """How long a run takes, measured if it was, and what no schedule of its kernels can beat."""
    choice = module.choice
    timing = None if choice is None else choice.timings.get(choice.chosen)
    time = found.timeline.makespan if timing is None else timing.median
    how = "predicted" if timing is None else "measured"
    early = choice is not None and choice.pdl
    bound = lower_bound(found.works, needs(module.schedule), found.device, early=early)
    return f"schedule {time / 1e6:.3f} ms ({how}), bound {bound.time / 1e6:.3f} ms"


def prediction(module: Module) -> Prediction:
    """Predict a run in the module's mode; kernels without a recorded time are estimated."""
    choice, schedule = module.choice, module.schedule
    if module.target.partition(":")[0] == "cpu":
        counted = {n: Counted(k.flops, k.traffic_bytes) for n, k in module.kernels.items()}
        works = [Work(float(estimate(counted[task.kernel]))) for task in schedule.tasks]
        line = predict(schedule, works, "graph", CORES)
        return Prediction("streams", line, works, frozenset(), CORES)
    mode: Mode = "graph" if choice is None else choice.mode
    costs: Mapping[str, float] = {} if choice is None else choice.costs
    known = Costs.make(module.kernels, costs, main_architecture(module.target))
    works = known.works(schedule, module.kernels)
    early = choice is not None and choice.pdl
    timeline = predict(schedule, works, mode, known.device, early=early)
    return Prediction(mode, timeline, works, frozenset(known.measured), known.device)
