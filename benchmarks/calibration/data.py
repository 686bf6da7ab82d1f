"""Figures of runs on a device as plain data for the simulator: written and read."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.autotune.kernel_times import time_in_a_run
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Schedule, Task

CHECKED_IN = Path(__file__).parent / "h200.json.gz"
"""Times that `measure` took of six schedules a model, one after another."""

POLICIES = Path(__file__).parent / "h200-policies.json.gz"
"""Wall times that `benchmarks/schedulers.py --record` took of all policies in turns.

Each kernel has one time, that which it takes in a run.
"""


@dataclass(frozen=True)
class Replayed:
    """A schedule and its measured runs: nanoseconds by mode, on the `device` and by `wall` clock.

    The tasks of the schedule have no views.
    """

    schedule: Schedule
    times: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Measured:
    """A model's kernels without their code, nanoseconds of each alone, and its runs by name.

    `fitting` says how many blocks of each launch one SM holds, by the driver.
    """

    name: str
    kernels: dict[str, KernelSpec]
    warm: dict[str, float]
    cold: dict[str, float]
    fitting: dict[str, list[int]]
    replays: dict[str, Replayed]
    side_by_side: list[Replayed]

    def time(self, kernel: str) -> float:
        """Nanoseconds of a kernel in a run, where the cache has a part of its operands."""
        return time_in_a_run(self.warm[kernel], self.cold[kernel])


def compact(schedule: Schedule, names: Sequence[str]) -> list[Any]:
    """A schedule's tasks as lists: kernel number, stream, sub-flow, tokens."""
    number = {name: i for i, name in enumerate(names)}
    return [
        [number[t.kernel], t.stream, -1 if t.subflow is None else t.subflow, list(t.after)]
        for t in schedule.tasks
    ]


def write(path: Path, head: Mapping[str, Any], models: Mapping[str, Any]) -> None:
    """Write what is known of the device and the date, and every model, as compressed JSON."""
    text = json.dumps({**head, "models": models}, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(path: Path = CHECKED_IN) -> tuple[dict[str, Any], list[Measured]]:
    """The device and the date, and every model."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    return document, [_model(*item) for item in document.pop("models").items()]


def _model(name: str, figures: dict[str, Any]) -> Measured:
    kernels = [_kernel(row) for row in figures["kernels"]]
    names = [kernel.name for kernel in kernels]
    return Measured(
        name,
        {kernel.name: kernel for kernel in kernels},
        {row["name"]: row["warm"] for row in figures["kernels"]},
        {row["name"]: row["cold"] for row in figures["kernels"]},
        {row["name"]: [x.get("fit", 0) for x in row["launches"]] for row in figures["kernels"]},
        {
            key: Replayed(_schedule(key, runs["tasks"], names), runs["replays"])
            for key, runs in figures["schedules"].items()
        },
        [_chains(row, names) for row in figures.get("side by side", ())],
    )


def _kernel(row: dict[str, Any]) -> KernelSpec:
    launches = [
        Launch(
            "",
            (),
            (x["blocks"], 1, 1),
            (x["threads"], 1, 1),
            x["shared"],
            x["registers"],
            programmatic=x.get("programmatic", False),
        )
        for x in row["launches"]
    ]
    name, flops, nbytes = row["name"], row["flops"], row["bytes"]
    return KernelSpec(name, "cuda", b"", tuple(launches), (), flops=flops, traffic_bytes=nbytes)


def _schedule(name: str, tasks: list[list[Any]], names: list[str]) -> Schedule:
    rows = (
        Task(names[k], s, tuple(after), (), (), None if flow < 0 else flow)
        for k, s, flow, after in tasks
    )
    return Schedule(name, (), tuple(rows))


def _chains(row: dict[str, Any], names: list[str]) -> Replayed:
    chosen = [names[kernel] for kernel in row["kernels"]]
    tasks = [
        Task(name, stream, (), (), ())
        for stream, (name, count) in enumerate(zip(chosen, row["counts"], strict=True))
        for _ in range(count)
    ]
    times = {"graph": {"device": row["device"], "wall": row["wall"]}}
    return Replayed(Schedule("side by side", (), tuple(tasks)), times)
