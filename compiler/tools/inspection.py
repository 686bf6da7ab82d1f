"""What the predicted times of a module are, and a module read without the device it is for."""

import os
from dataclasses import dataclass
from typing import Any

from compiler.analysis.cost import Work, estimate
from compiler.analysis.makespan import Latencies, Load, Mode, Timeline, predict
from compiler.backends.cuda.target import architecture
from compiler.choice.costs import Costs
from compiler.export import artifact
from compiler.module import Module


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
    )


@dataclass(frozen=True)
class Prediction:
    """The modelled timeline of a run, what each task asks, and which kernels were measured."""

    mode: Mode
    timeline: Timeline
    loads: list[Load]
    measured: frozenset[str]


def prediction(module: Module) -> Prediction:
    """Predict a run in the module's mode; kernels without a recorded time are estimated."""
    choice: dict[str, Any] = module.choice or {"mode": "graph", "costs": {}}
    schedule, costs = module.schedule, choice["costs"]
    if module.target.partition(":")[0] == "cpu":
        works = {n: Work(k.flops, k.traffic_bytes) for n, k in module.kernels.items()}
        loads = [Load(float(estimate(works[task.kernel]))) for task in schedule.tasks]
        timeline = predict(schedule, loads, "graph", Latencies(0, 0, 0, 0))
        return Prediction("streams", timeline, loads, frozenset())
    known = Costs.make(module.kernels, costs, architecture(module.target))
    loads = known.loads(schedule, module.kernels)
    mode: Mode = choice["mode"]
    return Prediction(mode, predict(schedule, loads, mode), loads, frozenset(known.measured))
