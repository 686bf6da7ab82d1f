"""Figures of every policy as plain data, which `benchmarks/simulator.py --data` reads."""

from collections.abc import Mapping
from math import prod
from typing import Any

from benchmarks.calibration.data import compact
from benchmarks.scheduling.cases import Case, Planned
from compiler.schedule.kernels import KernelSpec


def record(
    case: Case,
    costs: Mapping[str, float],
    planned: Mapping[str, Planned | str],
    row: Mapping[str, Any],
) -> dict[str, Any]:
    """A model's kernels, with ns of each in a run, and its schedules with their measured ns."""
    names = sorted(case.kernels)
    schedules = {name: plan.schedule for name, plan in planned.items() if isinstance(plan, Planned)}
    runs = {name: row["policies"][name]["measured us"] for name in schedules}
    return {
        "kernels": [_kernel(case.kernels[name], costs[name]) for name in names],
        "schedules": {
            name: {
                "tasks": compact(schedule, names),
                "replays": {mode: {"wall": round(1e3 * us)} for mode, us in runs[name].items()},
            }
            for name, schedule in schedules.items()
        },
    }


def _kernel(kernel: KernelSpec, time: float) -> dict[str, Any]:
    launches = [
        {
            "blocks": prod(launch.grid),
            "threads": prod(launch.block),
            "registers": launch.registers,
            "shared": launch.shared_bytes,
            "programmatic": launch.programmatic,
        }
        for launch in kernel.launches
    ]
    head = {"name": kernel.name, "flops": kernel.flops, "bytes": kernel.traffic_bytes}
    return {**head, "warm": round(time, 1), "cold": round(time, 1), "launches": launches}
