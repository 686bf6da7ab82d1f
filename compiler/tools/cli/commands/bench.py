"""`flowloom bench MODEL|DIR`: percentiles of many runs in milliseconds, and runs a second."""

from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

import compiler
from compiler.backends.memory import Array
from compiler.progress import Announcement, Paused, notify, step_progress
from compiler.tools.cli.opening import load_or_compile, run_inputs, stored_inputs
from compiler.tools.progress.display import QUIET_SECONDS
from compiler.tools.progress.options import conclude

PERCENTILES = (1, 10, 50, 90, 99)
"""The percentiles of the time of a run that are printed."""


def run(options: Namespace) -> int:
    """Time runs after some that warm up, without the display, which would disturb them."""
    stored = stored_inputs(options)
    module = load_or_compile(options)
    inputs = run_inputs(stored, options, module)
    with step_progress("warm-up"):
        warm = min(_timed_run(module, inputs) for _ in range(options.warmup))
    expected = options.duration or warm * options.runs
    if expected >= QUIET_SECONDS:
        notify(Announcement(f"runs for about {expected:.0f} s"))
    notify(Paused())
    with step_progress("runs"):
        start = perf_counter()
        times = _runs(module, inputs, options)
        seconds = perf_counter() - start
    milliseconds = 1e3 * np.array(times)
    percentiles = dict(zip(PERCENTILES, np.percentile(milliseconds, PERCENTILES), strict=True))
    figures = {
        "model": str(options.model),
        "target": module.target,
        **_size(module),
        "runs": len(times),
        "concurrency": options.concurrency,
        "runs_per_second": round(len(times) / seconds, 2),
        "median_ms": round(percentiles.pop(50), 4),
        **{f"p{rank}_ms": round(value, 4) for rank, value in percentiles.items()},
    }
    conclude(options, "\n".join(f"{name:15} {value}" for name, value in figures.items()), figures)
    return 0


def _runs(module: compiler.Module, inputs: dict[str, Array], options: Namespace) -> list[float]:
    """The seconds of each run, by as many threads as run at once.

    Each thread starts a run when its last one has ended, as clients that wait for answers do.
    """
    end = perf_counter() + options.duration if options.duration else None
    remaining = iter(range(options.runs))

    def has_another(times: list[float]) -> bool:
        if end is None:
            return next(remaining, None) is not None  # atomic: one thread takes each run
        return not times or perf_counter() < end

    def client() -> list[float]:
        times: list[float] = []
        while has_another(times):
            times.append(_timed_run(module, inputs))
        return times

    if options.concurrency == 1:
        return client()
    with ThreadPoolExecutor(options.concurrency) as pool:
        clients = [pool.submit(client) for _ in range(options.concurrency)]
        return [time for done in clients for time in done.result()]


def _timed_run(module: compiler.Module, inputs: dict[str, Array]) -> float:
    """The seconds of a run."""
    start = perf_counter()
    module.run(inputs)
    return perf_counter() - start


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
