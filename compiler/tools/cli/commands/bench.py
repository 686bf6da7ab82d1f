"""`flowloom bench MODEL|DIR`: median and spread of many runs, in milliseconds."""

from argparse import Namespace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import compiler
from compiler.backends.memory import Array
from compiler.progress import Announcement, Paused, notify, step_progress
from compiler.tools.cli.opening import load_or_compile, run_inputs, stored_inputs
from compiler.tools.progress.display import QUIET_SECONDS
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Time runs after three that warm up, without the display, which would disturb them."""
    stored = stored_inputs(options)
    module = load_or_compile(options)
    inputs = run_inputs(stored, options, module)
    with step_progress("warm-up"):
        warm = min(_milliseconds(module, inputs) for _ in range(3))
    expected_seconds = warm / 1e3 * options.runs
    if expected_seconds >= QUIET_SECONDS:
        notify(Announcement(f"{options.runs} runs, about {expected_seconds:.0f} s"))
    notify(Paused())
    with step_progress("runs"):
        times = [_milliseconds(module, inputs) for _ in range(options.runs)]
    low, high = np.percentile(times, [10, 90])
    figures = {
        "model": str(options.model),
        "target": module.target,
        **_size(module),
        "runs": len(times),
        "median_ms": round(median(times), 4),
        "p10_ms": round(float(low), 4),
        "p90_ms": round(float(high), 4),
    }
    conclude(options, "\n".join(f"{name:10} {value}" for name, value in figures.items()), figures)
    return 0


def _milliseconds(module: compiler.Module, inputs: dict[str, Array]) -> float:
    """The time of a run."""
    start = perf_counter()
    module.run(inputs)
    return 1e3 * (perf_counter() - start)


def _size(module: Any) -> dict[str, int]:
    """The threads, streams and tasks of a run, or the segments of a program."""
    if not isinstance(module, compiler.Module):
        return {"segments": len(module.compiler.modules)}
    schedule = module.schedule
    return {
        "threads": module.threads,
        "streams": schedule.streams,
        "tasks": len(schedule.tasks),
    }
