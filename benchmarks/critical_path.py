"""The longest path's kernels of each model, with what each takes and its floor, from a profile.

    python benchmarks/critical_path.py [--models resnet50 bert128] [--most 8] [--data FILE]

What was measured of every policy on an H200 is checked in; `benchmarks/simulator.py --measure`
writes such a file, too (`--data`). It has no data dependencies, so the path is that of the recorded
schedule with the most streams: a task waits for its tokens and for the task before it on its
stream. `flowloom report` prints the same of one saved model by its data dependencies.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.calibration.data import POLICIES, Measured, read
from compiler.schedule.tasks import Schedule
from compiler.scheduling.critical_path import PathStep, path_steps, table
from compiler.target.devices import DeviceModel, typical_device


def waits(schedule: Schedule) -> Iterator[tuple[int, int]]:
    """Pairs of a task and a later one that waits for it: by a token, or on one stream."""
    last: dict[int, int] = {}
    for number, task in enumerate(schedule.tasks):
        yield from ((before, number) for before in task.after)
        if task.stream in last:
            yield last[task.stream], number
        last[task.stream] = number


def widest(model: Measured) -> Schedule:
    """The recorded schedule with the most streams."""
    schedules = [run.schedule for run in model.replays.values()]
    return max(schedules, key=lambda schedule: len({task.stream for task in schedule.tasks}))


def steps_of(model: Measured, device: DeviceModel) -> list[PathStep]:
    """The kernels on the longest path of a model's widest schedule."""
    schedule = widest(model)
    names = [task.kernel for task in schedule.tasks]
    times = [model.time(name) for name in names]
    return path_steps(names, times, waits(schedule), model.kernels, device)


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=POLICIES)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--most", type=int, default=8, help="kernels listed of each model")
    options = parser.parse_args()
    head, models = read(options.data)
    known = head["device"]
    print(f"{known['name']}, driver {known['driver_version']}, {head['date']}")
    names = {model.name for model in models} - {"synthetic"}
    missing = sorted(set(options.models or ()) - names)
    if missing:
        parser.error(f"no figures of {', '.join(missing)}; there are {', '.join(sorted(names))}")
    for model in models:
        if model.name in (options.models or names):
            lines = table(steps_of(model, typical_device(known["architecture"])), options.most)
            print(f"\n{model.name}: " + "\n".join(lines))


if __name__ == "__main__":
    main()
