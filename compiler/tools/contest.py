"""Ways to run one model, timed in turns in one process: `flowloom compare`.

They take turns of a few runs each, so that a clock or a neighbour that slows down hits all alike,
and each has the 95 % interval of its median by order statistics. A run is from numpy's arrays to
numpy's arrays, copies to a device and back included.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, perf_counter_ns
from typing import Any, Literal

import compiler
from compiler.backends.cpu.driver import usable_threads
from compiler.backends.memory import Array
from compiler.choice.timing import time_all
from compiler.errors import ArgumentError, FlowloomError
from compiler.passes.dry_run import check_pipeline
from compiler.passes.pipeline import DEFAULT_PIPELINE, LOWERING, parse
from compiler.passes.schedule.assign_streams import AssignStreams
from compiler.passes.user import known_passes, using
from compiler.progress import Paused, notify, step_progress
from compiler.schedule.choices import Timing
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from compiler.support.arguments import closest_name
from compiler.target.target import parse_target
from compiler.tools.comparison import compare
from compiler.tools.inputs import random_inputs
from compiler.tools.peers import PEERS, ModelRun, check_peer, prepare_peer
from compiler.tools.tolerance import TOLERANCES

DEFAULT = "flowloom"
"""The contender that is compiled as `flowloom compile` does it."""

PROVIDERS = {"cpu": "CPU", "emu": "CPU", "cuda": "CUDA", "hip": "ROCM"}
"""onnxruntime's execution provider for each of our backends."""

MOST_SAMPLES = 1000
"""The most runs of each contender that are timed: their interval is narrow enough."""


@dataclass(frozen=True)
class Contender:
    """A way to run a model: by a pipeline (None: the default one), an artifact or a peer."""

    name: str
    kind: Literal["pipeline", "artifact", "peer"]
    pipeline: str | None = None


@dataclass(frozen=True)
class Contest:
    """The contenders for one model; the first is what the others are compared with."""

    model: Any
    """A path or a ModelProto; None where all contenders are artifacts."""
    contenders: Sequence[Contender]
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of `compiler.compile`, but for the pipeline."""
    inputs: Mapping[str, Array] | None = None
    """The inputs of every run; None for random ones of the first module's shapes, from `seed`."""
    seed: int = 0


@dataclass(frozen=True)
class ContenderTime:
    """The nanoseconds of a contender's run, or the reason why it has none."""

    name: str
    timing: Timing | None
    problem: str
    """Why it did not run, or how its outputs differ from those of the first."""
    seconds: float
    """Seconds of compiling or loading it, whatever caches held."""


def read_contender(text: str, target: str = "cpu") -> Contender:
    """The contender that a text names; raises ArgumentError or PipelineError for none, and
    MissingExtraError for a peer that is not installed.

    It is `flowloom`, a peer, the directory of an artifact, a policy of `assign-streams` (also
    FILE.py:FUNCTION), a whole pipeline, or passes that replace those of the default pipeline.
    Pipelines are tried on the smallest model for the target, such as `cuda:sm_90:tf32`.
    """
    if text == DEFAULT:
        return Contender(text, "pipeline")
    if text in PEERS:
        check_peer(text)
        return Contender(text, "peer")
    if os.path.isdir(text):  # a Path raises OSError for a pipeline, which is too long a name
        return Contender(text, "artifact")
    pipeline = _pipeline(text)
    check_pipeline(pipeline, target)
    return Contender(text, "pipeline", pipeline)


def _pipeline(text: str) -> str:
    """The pipeline that a policy, some passes or a whole pipeline stands for."""
    default = parse(DEFAULT_PIPELINE)
    if text in set(STREAM_ASSIGNMENTS) or (".py:" in text and "{" not in text):
        assert callable(STREAM_ASSIGNMENTS[text])  # loads the file, so that its faults come now
        own = [AssignStreams(policy=text)]
    elif re.split("[{,]", text)[0].strip() in known_passes():
        own = list(parse(text))
    else:
        names = (DEFAULT, *PEERS, *STREAM_ASSIGNMENTS)
        raise ArgumentError(
            f"{text!r} is neither a policy, a pipeline nor the directory of an artifact:"
            f" {closest_name(text, names)}"
        )
    by_name = {step.name: step for step in own}
    if LOWERING in by_name:
        return text
    if unknown := by_name.keys() - {step.name for step in default}:
        raise ArgumentError(
            f"{text!r} replaces passes of the default pipeline, which has no {min(unknown)}: write"
            f" the whole pipeline, with {LOWERING}"
        )
    return ",".join(str(by_name.get(step.name, step).spec()) for step in default)


def hold(contest: Contest, seconds: float) -> list[ContenderTime]:
    """Time the contenders in turns for some seconds, after each has run once and was compared.

    A contender that cannot run, or whose outputs differ from the first one's by more than its
    precision explains, gets a problem in place of a time; the first one's error is raised.
    """
    inputs = contest.inputs
    runs: dict[str, ModelRun] = {}
    outputs: dict[str, Mapping[str, Array]] = {}
    problems: dict[str, str] = {}
    prepared: dict[str, float] = {}
    precisions: dict[str, str] = {}
    first = contest.contenders[0].name
    # modules before peers, as random inputs have the shapes that a module takes
    for contender in sorted(contest.contenders, key=lambda contender: contender.kind == "peer"):
        name = contender.name
        start = perf_counter()
        try:
            with step_progress(name):
                if contender.kind == "peer":
                    if inputs is None:
                        raise ArgumentError(
                            "no module of ours runs that says the shapes of random inputs: name"
                            " some with --inputs"
                        )
                    runs[name] = _peer(name, contest, inputs)
                else:
                    module = _module(contender, contest)
                    inputs = random_inputs(module, contest.seed) if inputs is None else inputs
                    precisions[name] = parse_target(module.target).precision
                    runs[name] = _run_of(module, inputs)
                prepared[name] = perf_counter() - start
                outputs[name] = runs[name]()
        except FlowloomError as error:
            if name == first:
                raise
            problems[name] = f"{type(error).__name__}: {error}"
    for name in outputs.keys() - {first}:
        # of two precisions the coarser one explains more; other runtimes compute in float32
        precision = max(
            (precisions.get(n, "fp32") for n in (first, name)), key=TOLERANCES.__getitem__
        )
        differences = compare(outputs[name], outputs[first], precision).differences
        if wrong := [str(difference) for difference in differences if not difference.passed]:
            problems[name] = f"its outputs are not those of {first}: {wrong[0]}"
    timed = {name: _sampler(run) for name, run in runs.items() if name not in problems}
    notify(Paused())
    with step_progress("runs"):
        timings = time_all(timed, seconds, perf_counter, keep=[*timed], samples=MOST_SAMPLES)
    names = [contender.name for contender in contest.contenders]
    return [
        ContenderTime(name, timings.get(name), problems.get(name, ""), prepared.get(name, 0.0))
        for name in names
    ]


def _module(contender: Contender, contest: Contest) -> Any:
    threads = contest.arguments.get("threads")
    if contender.kind == "artifact":
        return compiler.load(contender.name, threads=threads)
    arguments: dict[str, Any] = {**contest.arguments, "pipeline": contender.pipeline}
    passes = arguments.pop("passes", ())
    with using(passes) as names:
        # `compile` refuses a pass that its pipeline does not name
        named = {step.name for step in parse(contender.pipeline or DEFAULT_PIPELINE)}
        arguments["passes"] = [p for p, name in zip(passes, names, strict=True) if name in named]
    return compiler.compile(contest.model, **arguments)


def _run_of(module: Any, inputs: Mapping[str, Array]) -> ModelRun:
    return lambda: module.run(inputs)


def _peer(name: str, contest: Contest, inputs: Mapping[str, Array]) -> ModelRun:
    threads = contest.arguments.get("threads") or usable_threads()
    backend = parse_target(contest.arguments.get("target", "cpu")).backend
    return prepare_peer(name, contest.model, inputs, threads, provider=PROVIDERS[backend])


def _sampler(run: ModelRun) -> Callable[[], float]:
    def sample() -> float:
        start = perf_counter_ns()
        run()
        return perf_counter_ns() - start

    return sample


def as_table(entries: Sequence[ContenderTime]) -> str:
    """The medians with their intervals in milliseconds, and how many times as fast as the first."""
    reference = entries[0].timing
    assert reference is not None, "the first contender has run"
    width = max(len(entry.name) for entry in entries)
    lines = [f"{'':{width}}  median ms  95 % interval        times as fast  prepared s"]
    for entry in entries:
        if entry.timing is None:
            lines.append(f"{entry.name:{width}}  {entry.problem}")
            continue
        t = entry.timing
        interval = f"{t.low / 1e6:.4f} to {t.high / 1e6:.4f}"
        times = f"{reference.median / t.median:.2f}"
        if entry is not entries[0]:
            times += f" ({reference.low / t.high:.2f} to {reference.high / t.low:.2f})"
        row = f"{t.median / 1e6:9.4f}  {interval:19}  {times:22}  {entry.seconds:.2f}"
        lines.append(f"{entry.name:{width}}  {row}")
    return "\n".join(lines)


def as_json(entries: Sequence[ContenderTime]) -> list[dict[str, Any]]:
    """One object for each contender, in milliseconds and seconds."""
    rows: list[dict[str, Any]] = []
    for entry in entries:
        row: dict[str, Any] = {"name": entry.name, "prepared_seconds": round(entry.seconds, 3)}
        if entry.timing is None:
            row["problem"] = entry.problem
        else:
            t = entry.timing
            row |= {"median_ms": t.median / 1e6, "low_ms": t.low / 1e6, "high_ms": t.high / 1e6}
            row["runs"] = t.count
        rows.append(row)
    return rows
