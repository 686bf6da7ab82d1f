"""Predicts the run of a module by the simulator of its device."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.graph.cost import Work as Counted
from compiler.graph.cost import estimate
from compiler.schedule.choices import Mode
from compiler.schedule.tasks import Task
from compiler.scheduling.bounds import lower_bound, needs
from compiler.scheduling.costs import Costs
from compiler.scheduling.simulator import TaskDemand, Timeline, predict
from compiler.target.devices import DeviceModel
from compiler.target.target import parse_target

if TYPE_CHECKING:
    from compiler.artifact.module import Module


@dataclass(frozen=True)
class Prediction:
    """The simulated timeline of a run, the demand of each task, and the measured kernels."""

    mode: Mode
    timeline: Timeline
    works: list[TaskDemand]
    measured: frozenset[str]
    device: DeviceModel

    @property
    def spans(self) -> list[tuple[float, float]]:
        """Start and end of each task in microseconds."""
        line = self.timeline
        return [(s / 1e3, e / 1e3) for s, e in zip(line.start, line.end, strict=True)]


def gap(module: "Module", predicted: Prediction) -> str:
    """How long a run takes, measured if it was, and what no schedule of its kernels can beat."""
    choice = None if module.choice is None else module.choice.schedule
    timing = None if choice is None else choice.timings.get(choice.chosen)
    time = predicted.timeline.makespan if timing is None else timing.median
    how = "predicted" if timing is None else "measured"
    early = choice is not None and choice.pdl
    bound = lower_bound(predicted.works, needs(module.schedule), predicted.device, early=early)
    return f"schedule {time / 1e6:.3f} ms ({how}), bound {bound.time / 1e6:.3f} ms"


def _estimated(task: Task, counted: Mapping[str, Counted]) -> float:
    """The estimated ns of a task; a loop whose length only a run knows counts once."""
    if task.control is None:
        return float(estimate(counted[task.kernel]))
    bodies = [sum(_estimated(t, counted) for t in body.tasks) for body in task.control.bodies]
    return max(bodies) * (task.control.form.length or 1)


def prediction(module: "Module") -> Prediction:
    """Predict a run in the module's mode; kernels without a recorded time are estimated."""
    schedule = module.schedule
    choice = None if module.choice is None else module.choice.schedule
    target = parse_target(module.target)
    if not target.is_gpu:
        counted = {n: Counted(k.flops, k.traffic_bytes) for n, k in module.kernels.items()}
        works = [TaskDemand(_estimated(task, counted)) for task in schedule.tasks]
        line = predict(schedule, works, "graph", target.device)
        return Prediction("streams", line, works, frozenset(), target.device)
    mode: Mode = "graph" if choice is None else choice.mode
    costs: Mapping[str, float] = {} if choice is None else choice.costs
    model = Costs.make(module.kernels, costs, target.architecture)
    works = model.works(schedule, module.kernels)
    early = choice is not None and choice.pdl
    timeline = predict(schedule, works, mode, model.device, early=early)
    return Prediction(mode, timeline, works, frozenset(model.measured), model.device)
