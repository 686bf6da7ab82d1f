"""How well the simulator predicts measured runs: whole schedules, and kernels side by side.

    python benchmarks/simulator.py                                the figures that are checked in
    python benchmarks/simulator.py --policies                     every policy, measured in turns
    python benchmarks/simulator.py --set interference=0.3 gap=250 other constants of the device
    python benchmarks/simulator.py --data FILE                    other figures
    python benchmarks/simulator.py --prepare CASES [--models ...] kernels and schedules; needs TVM
    python benchmarks/simulator.py --measure CASES --data FILE    measures them; needs a GPU

The kernels' times are measured alone; what is judged is how they add up to a run. Errors are
predicted / measured - 1, measured on the device. Orders are those of a model's schedules as graphs:
`raw` is Spearman's correlation; in `rank` and `tau` (Kendall's tau-b) schedules within 2 % of each
other count as equally fast, as one differs by so much from process to process. A model all of
whose schedules are within 6 % has none. `loss` is how much slower than the best measured schedule
that of the least prediction was measured to be.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.calibration.data import CHECKED_IN, POLICIES, Measured, Replayed, read
from compiler.schedule.choices import Mode
from compiler.scheduling.kernel_time import task_demand
from compiler.scheduling.simulator import predict
from compiler.target.devices import DeviceModel, typical_device

NEAR, SPREAD = 0.02, 0.06
"""Times that differ by less than the first share a rank; a model needs the second to have ranks."""

HOST = 5_500.0
"""Nanoseconds by which the wall clock exceeds the device's for a graph, in the calibration."""


def predicted(
    model: Measured, run: Replayed, mode: Mode, device: DeviceModel, *, warm: bool = False
) -> float:
    """Simulated nanoseconds of a schedule; with `warm`, of kernels that run again and again."""
    works = {
        name: task_demand(kernel, model.warm[name] if warm else model.time(name), device)
        for name, kernel in model.kernels.items()
    }
    tasks = [works[task.kernel] for task in run.schedule.tasks]
    return predict(run.schedule, tasks, mode, device, early=True).makespan


def measured(run: Replayed, mode: Mode) -> float:
    """Measured nanoseconds on the device, or by the wall clock less what the host takes."""
    times = run.times[mode]
    return times["device"] if "device" in times else times["wall"] - HOST


def errors(model: Measured, mode: Mode, device: DeviceModel) -> dict[str, float]:
    """The relative error of each schedule that was run in a mode."""
    return {
        name: predicted(model, run, mode, device) / measured(run, mode) - 1
        for name, run in model.replays.items()
        if mode in run.times
    }


def side_by_side(model: Measured, device: DeviceModel) -> list[float]:
    """The relative error of each set of kernels that ran at once."""
    return [
        predicted(model, run, "graph", device, warm=True) / measured(run, "graph") - 1
        for run in model.side_by_side
    ]


@dataclass(frozen=True)
class Order:
    """How well predictions order a model's schedules as the measured times do; 1 is perfectly.

    `raw` and `rank` are Spearman's correlations, `tau` is Kendall's tau-b; the last two with ties
    within `NEAR`. `loss` is the part by which the schedule chosen is slower than the best.
    """

    raw: float
    rank: float
    tau: float
    loss: float


def order(model: Measured, device: DeviceModel) -> Order | None:
    """How a model's schedules are ordered; None where all are nearly as fast."""
    times = [measured(run, "graph") for run in model.replays.values()]
    if max(times) < (1 + SPREAD) * min(times):
        return None
    found = [predicted(model, run, "graph", device) for run in model.replays.values()]
    chosen = min(range(len(found)), key=lambda i: found[i])
    return Order(
        correlation(ranks(found, 0.0), ranks(times, 0.0)),
        correlation(ranks(found), ranks(times)),
        tau(found, times),
        times[chosen] / min(times) - 1,
    )


def tau(found: Sequence[float], times: Sequence[float], near: float = NEAR) -> float:
    """Kendall's tau-b (Kendall, 1945) where times within `near` of each other tie.

    0 where one side has nothing but ties.
    """

    def sign(a: float, b: float) -> int:
        return 0 if max(a, b) <= (1 + near) * min(a, b) else 1 if a > b else -1

    pairs = list(combinations(range(len(times)), 2))
    signs = [(sign(found[i], found[j]), sign(times[i], times[j])) for i, j in pairs]
    norm = (sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs)) ** 0.5
    return sum(a * b for a, b in signs) / norm if norm else 0.0


def ranks(times: Sequence[float], near: float = NEAR) -> list[float]:
    """The place of each time; those within `near` of the first of a group share a mean place."""
    order = sorted(range(len(times)), key=lambda i: times[i])
    places, group = [0.0] * len(times), list[int]()
    for place, i in enumerate(order):
        if group and times[i] > (1 + near) * times[group[0]]:
            group = []
        group.append(i)
        for index in group:
            places[index] = place - (len(group) - 1) / 2
    return places


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's correlation; 0 where one side does not vary."""
    pairs = [(x - fmean(a), y - fmean(b)) for x, y in zip(a, b, strict=True)]
    norm = (sum(x * x for x, _ in pairs) * sum(y * y for _, y in pairs)) ** 0.5
    return sum(x * y for x, y in pairs) / norm if norm else 0.0


def summary(found: Sequence[float]) -> str:
    """Median and worst of absolute errors."""
    sizes = [abs(error) for error in found]
    return f"median {median(sizes):.1%}, worst {max(sizes):.1%} of {len(sizes)}"


def report(models: Sequence[Measured], device: DeviceModel) -> Iterator[str]:
    """The table: a line a model, then what all of them come to."""
    zoo = [model for model in models if model.name != "synthetic"]
    ordered = {model.name: order(model, device) for model in zoo}
    yield f"{'':14}  raw rank  tau loss  errors as graphs"
    for model in zoo:
        line = " ".join(f"{n} {e:+.0%}" for n, e in errors(model, "graph", device).items())
        at = ordered[model.name]
        shown = f"{at.raw:4.2f} {at.rank:4.2f} {at.tau:4.2f} {at.loss:4.0%}" if at else "all alike"
        yield f"{model.name:14} {shown:19}  {line}"
    for mode in ("graph", "subgraphs", "streams"):
        if every := [error for model in zoo for error in errors(model, mode, device).values()]:
            yield f"{mode:10} {summary(every)}"
    if together := [error for model in zoo for error in side_by_side(model, device)]:
        yield f"{'together':10} {summary(together)}: kernels side by side"
    known = [found for found in ordered.values() if found is not None]
    for name in ("raw", "rank", "tau"):
        places = [getattr(score, name) for score in known]
        worst = f"worst {min(places):.2f} of {len(places)} models"
        yield f"{name:10} median {median(places):.2f}, {worst}"
    losses = [score.loss for score in known]
    yield f"{'loss':10} median {median(losses):.1%}, worst {max(losses):.1%}"


def changed(device: DeviceModel, settings: Sequence[str]) -> DeviceModel:
    """The device with other constants, its own or its latencies', given as NAME=VALUE."""
    for setting in settings:
        name, _, value = setting.partition("=")
        if hasattr(device.latencies, name):
            device = replace(device, latencies=replace(device.latencies, **{name: float(value)}))
        else:
            device = replace(device, **{name: float(value)})
    return device


def main() -> None:
    """Prepare, measure or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=CHECKED_IN)
    parser.add_argument("--policies", dest="data", action="store_const", const=POLICIES)
    parser.add_argument("--set", nargs="+", default=(), metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--prepare", type=Path, metavar="CASES")
    parser.add_argument("--measure", type=Path, metavar="CASES")
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--target", default="cuda:sm_90:tf32")
    options = parser.parse_args()
    if options.prepare:
        from benchmarks.calibration import cases

        cases.save(cases.every(options.models, options.target), options.prepare)
        return
    if options.measure:
        from benchmarks.calibration.measure import measure_all

        measure_all(options.measure, options.data)
    head, models = read(options.data)
    known = head["device"]
    print(f"{known['name']}, driver {known['driver_version']}, {head['date']}")
    print(
        "\n".join(report(models, changed(typical_device(known["architecture"]), options.settings)))
    )


if __name__ == "__main__":
    main()
