"""How well the simulator predicts measured runs: whole schedules, and kernels side by side.

    python benchmarks/simulator.py                                the figures that are checked in
    python benchmarks/simulator.py --data FILE                    other figures
    python benchmarks/simulator.py --prepare CASES [--models ...] kernels and schedules; needs TVM
    python benchmarks/simulator.py --measure CASES --data FILE    measures them; needs a GPU

The kernels' times are measured alone; what is judged is how they add up to a run. Errors are
predicted / measured - 1, measured on the device. A rank is that of a model's schedules as graphs
(Spearman); schedules within 2 % of each other count as equally fast, and a model all of whose
schedules are within 6 % has none.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.calibration.data import CHECKED_IN, Measured, Replayed, read
from compiler.analysis.devices import Device, device_of
from compiler.analysis.kernel_time import work_of
from compiler.analysis.simulator import Mode, predict

NEAR, SPREAD = 0.02, 0.06
"""Times that differ by less than the first share a rank; a model needs the second to have ranks."""


def predicted(
    model: Measured, run: Replayed, mode: Mode, device: Device, *, warm: bool = False
) -> float:
    """Simulated nanoseconds of a schedule; with `warm`, of kernels that run again and again."""
    works = {
        name: work_of(kernel, model.warm[name] if warm else model.time(name), device)
        for name, kernel in model.kernels.items()
    }
    tasks = [works[task.kernel] for task in run.schedule.tasks]
    return predict(run.schedule, tasks, mode, device).makespan


def errors(model: Measured, mode: Mode, device: Device) -> dict[str, float]:
    """The relative error of each schedule that was run in a mode."""
    return {
        name: predicted(model, run, mode, device) / run.times[mode]["device"] - 1
        for name, run in model.replays.items()
        if mode in run.times
    }


def side_by_side(model: Measured, device: Device) -> list[float]:
    """The relative error of each set of kernels that ran at once."""
    return [
        predicted(model, run, "graph", device, warm=True) / run.times["graph"]["device"] - 1
        for run in model.side_by_side
    ]


def rank(model: Measured, device: Device) -> float | None:
    """The rank correlation of predicted and measured times; None where all are nearly as fast."""
    times = [run.times["graph"]["device"] for run in model.replays.values()]
    if max(times) < (1 + SPREAD) * min(times):
        return None
    found = [predicted(model, run, "graph", device) for run in model.replays.values()]
    return correlation(ranks(found), ranks(times))


def ranks(times: Sequence[float]) -> list[float]:
    """The place of each time; those within `NEAR` of the next smaller one share a mean place."""
    order = sorted(range(len(times)), key=lambda i: times[i])
    places, group = [0.0] * len(times), list[int]()
    for place, i in enumerate(order):
        if group and times[i] > (1 + NEAR) * times[group[0]]:
            group = []
        group.append(i)
        for each in group:
            places[each] = place - (len(group) - 1) / 2
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


def report(models: Sequence[Measured], device: Device) -> Iterator[str]:
    """The table: a line a model, then what all of them come to."""
    zoo = [model for model in models if model.name != "synthetic"]
    ranked = {model.name: rank(model, device) for model in zoo}
    for model in zoo:
        line = " ".join(f"{n} {e:+.0%}" for n, e in errors(model, "graph", device).items())
        place = ranked[model.name]
        yield f"{model.name:14} rank {'  - ' if place is None else f'{place:.2f}'}  {line}"
    for mode in ("graph", "subgraphs", "streams"):
        every = [error for model in zoo for error in errors(model, mode, device).values()]
        yield f"{mode:10} {summary(every)}"
    together = [error for model in zoo for error in side_by_side(model, device)]
    yield f"{'together':10} {summary(together)}: kernels side by side"
    places = [place for place in ranked.values() if place is not None]
    yield f"rank       median {median(places):.2f}, worst {min(places):.2f} of {len(places)} models"


def main() -> None:
    """Prepare, measure or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=CHECKED_IN)
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
    print("\n".join(report(models, device_of(known["architecture"]))))


if __name__ == "__main__":
    main()
