"""Describes a saved module: target, kernels, streams, memory, and the recorded choice."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from textwrap import wrap
from typing import cast

from compiler.artifact.module import Module
from compiler.frontend.semantics.choice import OTHER_RULES
from compiler.schedule.choices import (
    CONTRACTIONS,
    SUBSTITUTION,
    ScheduleChoice,
    SearchRecord,
    Timing,
)
from compiler.scheduling.bounds import needs
from compiler.scheduling.critical_path import path_steps, table
from compiler.scheduling.prediction import gap, prediction
from compiler.support.words import counted
from compiler.target.devices import DeviceModel
from compiler.tools.roof import (
    KernelTime,
    best_run,
    far_from_roof,
    kernel_times,
    roof_of,
    task_times,
)
from compiler.verify.footprints import containment_lines

MOST_COSTLY = 10
"""Kernels that a report lists."""

MOST_POLICIES = 8
"""Policies that a report lists, in addition to the slowest."""


def report(module: Module) -> str:
    """The report as text."""
    predicted = prediction(module)
    run = best_run(module)
    times = task_times(predicted, run)
    first, *details = containment_lines(module.kernels.values())
    tasks, busy = Counter[int](), Counter[int]()
    for task, time in zip(module.schedule.tasks, times, strict=True):
        tasks[task.stream] += 1
        busy[task.stream] += round(time)
    waits = sum(len(task.after) for task in module.schedule.tasks)
    ran = predicted.timeline.makespan if run.times is None else max(t.end for t in run.times)
    source = "predicted" if run.times is None else "measured"
    lines = [
        f"streams  {len(tasks)} with {counted(waits, 'wait')}, {source} run {ran / 1e3:.1f} us"
    ]
    if run.times is None:
        lines.append(f"         {gap(module, predicted)}")
    for stream in sorted(tasks):
        launched = counted(tasks[stream], "task")
        lines.append(f"         stream {stream}: {launched}, {busy[stream] / 1e3:.1f} us")
    sizes = {
        kind: sum(a.nbytes for a in module.schedule.of_kind(kind))
        for kind in ("weight", "arena", "input", "output")
    }
    code = sum(len(kernel.code) for kernel in module.kernels.values())
    memory = [f"{name} {size:,} B" for name, size in sizes.items()]
    sections = [
        _head(module),
        _kernels(kernel_times(module, predicted, run), run.note),
        [f"access   {first}", *(f"         {line}" for line in details)],
        _path(module, times, roof_of(module, predicted, run)),
        lines,
        [f"memory   {', '.join(memory)}, code {code:,} B"],
        _choice(module),
        _semantics(module),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _head(module: Module) -> list[str]:
    lines = [f"module   {module.schedule.name}", f"target   {module.target}"]
    for name, value in module.requirements.items():
        indent = f"         needs {name} "
        lines += wrap(_text(value), 100, initial_indent=indent, subsequent_indent=" " * 15)
    return lines


def _text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, cast(list[object], value)))
    return str(value)


def _kernels(rows: Sequence[KernelTime], note: str) -> list[str]:
    """The most costly kernels against the least time of their work, and those far above it."""
    tasks, measured = sum(row.tasks for row in rows), sum(row.measured for row in rows)
    lines = [
        f"kernels  {counted(len(rows), 'kernel')} in {counted(tasks, 'task')}, times of"
        f" {measured} measured ({note})",
        f"         {'all us':>9} {'tasks':>5} {'us each':>9} {'least':>9}  most costly kernels",
    ]
    for row in rows[:MOST_COSTLY]:
        mark = "" if row.measured else " (estimated)"
        figures = f"{row.time / 1e3:9.1f} {row.tasks:5} {row.time / row.tasks / 1e3:9.2f}"
        floor = row.least / row.tasks / 1e3
        lines.append(f"         {figures} {floor:9.2f}  {row.name}{mark}")
    first, *slow_kernels = far_from_roof(rows, MOST_COSTLY)
    return [*lines, f"roof     {first}", *(f"         {line}" for line in slow_kernels)]


def _path(module: Module, times: Sequence[float], roof: DeviceModel) -> list[str]:
    names = [task.kernel for task in module.schedule.tasks]
    steps = path_steps(names, times, needs(module.schedule), module.kernels, roof)
    first, *rows = table(steps, MOST_COSTLY)
    return [f"path     {first}", *(f"         {line}" for line in rows)]


def _choice(module: Module) -> list[str]:
    if module.choice is None:
        tuned = [] if module.tuning is None else [f"tuning   {module.tuning}"]
        return ["choice   none: only CUDA schedules are chosen; the pipeline was as given", *tuned]
    choice = module.choice.schedule
    mode = choice.mode + (" with early launches (PDL)" if choice.pdl else "")
    lines = [
        f"choice   {choice.chosen}: {choice.source}; {choice.reason}",
        f"         mode {mode} on {counted(module.schedule.streams, 'stream')}; times of "
        f"{len(choice.costs)} of {len(module.kernels)} kernels measured; budget "
        f"{choice.budget_seconds} s",
    ]
    if (device := choice.device) is not None:
        lines.append(
            f"         on {device['name']}, driver {device['driver_version']}, "
            f"{device['clock_khz'] / 1e3:.0f} MHz"
        )
    lines.append(f"         pipeline {choice.pipeline}")
    for outer in module.choice.nested():
        if outer.question == SUBSTITUTION:
            lines += [f"         {_timing(t)}  {name} graph" for name, t in outer.timings.items()]
        elif outer.question == CONTRACTIONS:
            lines.append(f"         {outer.sentence}")
    lines += [] if choice.tuning is None else [f"tuning   {choice.tuning}"]
    return [*lines, *_search(choice.search), *_figures(choice)]


def _semantics(module: Module) -> list[str]:
    """Whose results nodes have where onnxruntime differs from the ONNX text, and who chose."""
    if module.semantics is None:
        return ["results  whose they are where onnxruntime differs was not recorded"]
    ways = dict(module.semantics)
    default = ways.pop(OTHER_RULES, None)
    lines = [f"         {rule}: {way}, chosen" for rule, way in sorted(ways.items())]
    scope = "all rules" if not ways else "the other rules"
    if default is None:
        lines.append(f"         {scope}: onnx, by default, as nobody chose")
    else:
        lines.append(f"         {scope}: {default}, chosen")
    return ["results  where onnxruntime differs from the ONNX text (docs/differences.md)", *lines]


def _search(search: SearchRecord | None) -> Iterator[str]:
    """The schedule that the search found, and the policies that it tried, the best first."""
    if search is None:
        return
    start = search.started_at
    moved = search.moved
    bound = max(search.bound.values())
    gain = "no gain" if moved >= start else "not taken, as it gains too little"
    outcome = "taken" if search.makespan < start else gain
    yield (
        f"search   {search.start} {start / 1e3:.1f} us; {search.kept} of {search.steps} moves"
        f" (seed {search.seed}): {moved / 1e3:.1f} us, {outcome}; bound {bound / 1e3:.1f} us,"
        " all simulated"
    )
    tried = sorted(search.policies.items(), key=lambda entry: entry[1])
    for name, time in [*tried[:MOST_POLICIES], *tried[MOST_POLICIES:][-1:]]:
        yield f"         {time / 1e3:9.1f} us  {name}"


def _figures(choice: ScheduleChoice) -> Iterator[str]:
    """One line a candidate, the fastest first, then the error of the model's estimates."""
    timings = choice.timings
    estimates = choice.estimates
    times = {n: timings[n].median if n in timings else time for n, time in estimates.items()}
    yield f"         {'measured us [95 %]':>28} {'runs':>5} {'model us':>9}  candidate"
    for name in sorted(estimates, key=lambda name: (name not in timings, times[name], name)):
        mark = " <- chosen" if name == choice.chosen else ""
        mark += " (baseline)" if name == choice.baseline else ""
        if name in choice.skipped:
            mark += f" skipped: {choice.skipped[name]}"
        yield f"         {_timing(timings.get(name))} {estimates[name] / 1e3:9.1f}  {name}{mark}"
    for name, binding in zip(choice.bindings, choice.within, strict=True):
        ways = ", ".join(f"{way} {time / 1e3:.1f}" for way, time in binding.times.items())
        yield f"         {name} in memory that moves: by {binding.chosen} (us: {ways})"
    errors = [abs(estimates[name] / timing.median - 1) for name, timing in timings.items()]
    if errors:
        yield f"         the model's error: median {median(errors):.0%}, largest {max(errors):.0%}"


def _timing(timing: Timing | None) -> str:
    if timing is None:
        return f"{'-':>28} {'-':>5}"
    low, middle, high = (
        nanoseconds / 1e3 for nanoseconds in (timing.low, timing.median, timing.high)
    )
    return f"{middle:10.1f} [{low:6.1f}, {high:6.1f}] {timing.count:5}"
