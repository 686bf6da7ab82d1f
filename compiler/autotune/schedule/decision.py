"""Decides which schedule a GPU module has and in which mode it runs, and records why."""

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.bindings import measure_bindings, running
from compiler.autotune.kernel_times import KernelTimeDatabase
from compiler.autotune.lock import DeviceTakenError, measuring
from compiler.autotune.schedule.candidates import (
    ONE_STREAM,
    ScheduleCandidate,
    ScheduleSpec,
    competing_pipelines,
    controls,
    mode_candidates,
    outlined_specs,
    scheduled,
    scheduled_specs,
    set_costs,
    starts_early,
)
from compiler.autotune.schedule.costs import (
    measure_missing,
    open_database,
    recorded_costs,
    save_database,
    try_missing,
)
from compiler.autotune.schedule.search import SearchOptions, search_module
from compiler.autotune.trials import ScheduleTrial, TrialError, TrialUnavailableError, trials_on
from compiler.backends.base import backend
from compiler.backends.cuda.device import device
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.memory import Array
from compiler.backends.policy import GraphPolicy
from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.budget import Budget
from compiler.choice.judges import MeasuredJudge, PredictedJudge, Sampler
from compiler.errors import DeviceError
from compiler.ir.flatten import schedule_of
from compiler.ir.taskflow import GraphOp
from compiler.passes.pipeline import default_pipeline
from compiler.progress import Announcement, notify
from compiler.schedule.choices import SCHEDULE, Choice, ScheduleChoice, SearchRecord
from compiler.schedule.kernels import KernelSpec
from compiler.scheduling.costs import Costs
from compiler.scheduling.simulator import predict
from compiler.target.target import parse_target

_LOG = logging.getLogger(__name__)

DEFAULT_BUDGET = 5.0
"""Seconds of measuring on the device while a model is compiled."""

BINDINGS_SHARE = 0.1
"""The part of the budget for how buffers that move are bound."""

KERNELS_SHARE = 0.5
"""The part of the budget after which no further kernel is timed."""


@dataclass(frozen=True)
class Request:
    """The input of a decision: a module whose kernels are built, and the user's options.

    `pack` gives the weights of a taskflow graph as its kernels want them, by allocation; `limits`
    are those of the inputs that are indices.
    """

    module: ModuleOp
    kernels: Mapping[str, KernelSpec]
    target: str
    pack: Callable[[GraphOp], dict[str, Array]]
    pipeline: str | None = None
    budget: float = DEFAULT_BUDGET
    profile: str | os.PathLike[str] | None = None
    searching: SearchOptions = field(default_factory=SearchOptions)
    graphs: GraphPolicy = field(default_factory=GraphPolicy)
    limits: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Decision:
    """The pipeline that was chosen, and on targets where there is a choice its mode and figures.

    `loaded` holds kernels and weights on the device where the choice was measured there.
    """

    pipeline: str
    choice: ScheduleChoice | None = None
    weights: dict[str, Array] | None = None
    loaded: GpuExecutable | None = None


def decide(request: Request) -> Decision:
    """Choose by measurement where a device and a budget are there, else by the model.

    The groups of the module get their kernels' costs. Without a budget the result depends on the
    model, the settings and the database alone. Raises ArtifactError for a bad database.
    """
    database = open_database(request.profile, required=not request.budget)
    if not request.budget:
        return _predicted(request, database, "measuring was turned off by a budget of 0 seconds")
    try:
        driver = present_device(request.target)
    except DeviceError as error:
        return _predicted(request, database, str(error))
    with ExitStack() as stack:
        try:
            waited = stack.enter_context(measuring(driver.device, request.budget))
            request = replace(request, budget=request.budget - waited)
            return _measured(request, database, driver)
        except (TrialError, TrialUnavailableError, DeviceTakenError) as error:
            _LOG.warning("schedules are not measured: %s", error)
            return _predicted(request, database, str(error))


def present_device(target: str) -> Driver:
    """The device that runs a target's kernels; DeviceError, naming what is missing, without one."""
    target_backend = backend(target)
    target_backend.check(target_backend.requirements(target))
    return device()


def _predicted(
    request: Request, database: KernelTimeDatabase, reason: str, costs: Costs | None = None
) -> Decision:
    """Choose by the model, with kernels' times from the database unless `costs` are given."""
    if costs is None:
        recorded = recorded_costs(database, request.kernels, None)
        costs = Costs.make(request.kernels, recorded, parse_target(request.target).architecture)
    _warn_of_estimates(request, costs)
    specs, searched = _competing(request, costs, measured=False)
    pdl = starts_early(request.kernels)
    selective = request.graphs.selective
    modes = [mode for spec in specs for mode in mode_candidates(spec, selective=selective)]
    candidates = _baseline_first(
        request, [replace(mode, pdl=pdl and mode.mode != "streams") for mode in modes]
    )
    judge = PredictedJudge(partial(_estimate, request, costs))
    choice = choose(Alternatives(SCHEDULE, candidates), judge)
    chosen = candidates[choice.chosen]
    explained = replace(choice, reason=f"not measured: {reason}")
    record = _record(request, costs, chosen, explained, searched)
    return Decision(chosen.spec.pipeline, record)


def _warn_of_estimates(request: Request, costs: Costs) -> None:
    """Warn where the given database has not all kernels: those of older code are not taken."""
    measured = len(costs.measured)
    total = len(request.kernels)
    if request.profile is not None and measured < total:
        warnings.warn(
            f"{os.fspath(request.profile)} has times of {measured} of this model's {total} kernels"
            " as they are now; the others are estimated: measure them by compiling with --profile"
            " and a budget where the device is",
            stacklevel=2,
        )


def _competing(
    request: Request, costs: Costs, *, measured: bool
) -> tuple[list[ScheduleSpec], SearchRecord | None]:
    """The schedules that compete, and what a search for the last of them records.

    A user's pipeline competes alone. Without measuring, only the winner is made, and that later,
    unless there is an If or a Loop: outlines have no bodies.
    """
    set_costs(request.module, costs.of)
    if request.pipeline is not None:
        return list(scheduled_specs(request.module, {"": request.pipeline})), None
    searched = search_module(request.module, request.kernels, costs, request.searching)
    pipelines = competing_pipelines(searched.pipeline)
    if measured:
        competing = scheduled_specs(request.module, pipelines)
    elif controls(request.module):
        few = {name: pipelines[name] for name in searched.outlines}
        competing = scheduled_specs(request.module, few)
    else:
        competing = outlined_specs(searched.pipeline, searched.outlines)
    return list(competing), searched.record


def _baseline_first(
    request: Request, candidates: Sequence[ScheduleCandidate]
) -> dict[str, ScheduleCandidate]:
    """The candidates by name; the first schedule as one graph is what the choice must beat."""
    baseline = "graph" + (ONE_STREAM if request.pipeline is None else "")
    ordered = sorted(candidates, key=lambda candidate: candidate.name != baseline)
    return {candidate.name: candidate for candidate in ordered}


def _estimate(request: Request, costs: Costs, candidate: ScheduleCandidate) -> float:
    """The simulated nanoseconds of a candidate's run."""
    schedule = candidate.spec.schedule
    works = costs.works(schedule, request.kernels)
    return predict(schedule, works, candidate.mode, costs.device, early=candidate.pdl).makespan


def _measured(request: Request, database: KernelTimeDatabase, driver: Driver) -> Decision:
    notify(Announcement(f"measuring schedules for {request.budget:g} s"))
    weights, spent = _profile(request, database, driver)
    recorded = recorded_costs(database, request.kernels, driver.device)
    costs = Costs.make(request.kernels, recorded, driver.device.architecture)
    specs, searched = _competing(request, costs, measured=True)
    pdl = starts_early(request.kernels)
    selective = request.graphs.selective
    every = (c for spec in specs for c in mode_candidates(spec, pdl=pdl, selective=selective))
    candidates = _baseline_first(request, [*every])
    estimates = {name: _estimate(request, costs, c) for name, c in candidates.items()}
    if (expected := next(iter(estimates.values()))) > 1e9 * request.budget:
        reason = f"a run takes about {expected / 1e9:.1f} s, more than the budget"
        return _predicted(request, database, reason, costs)
    base = GpuExecutable.load(
        driver,
        specs[0].schedule,
        request.kernels,
        weights,
        costs=costs.measured,
        index_limits=request.limits,
        **request.graphs.executor_options,
    )
    planned = {spec.name: base.alternative(spec.schedule) for spec in specs}

    def opened(candidate: ScheduleCandidate) -> AbstractContextManager[Sampler]:
        options = {"mode": candidate.mode, "pdl": candidate.pdl}
        return running(planned[candidate.spec.name].executor(**options))

    budget = Budget(request.budget)
    judge = MeasuredJudge(opened, budget.after(spent).share(1 - BINDINGS_SHARE))
    choice = choose(Alternatives(SCHEDULE, candidates), judge)
    chosen = candidates[choice.chosen]
    executor = base.alternative(chosen.spec.schedule, mode=chosen.mode, pdl=chosen.pdl).executor()
    try:
        bindings = tuple(measure_bindings(executor, budget.share(BINDINGS_SHARE)))
    finally:
        executor.close()
    complete = replace(choice, estimates=estimates, within=bindings)
    record = _record(request, costs, chosen, complete, searched)
    record = replace(record, device=asdict(driver.device))
    return Decision(chosen.spec.pipeline, record, weights, base)


def _profile(
    request: Request, database: KernelTimeDatabase, driver: Driver
) -> tuple[dict[str, Array], float]:
    """Try and time kernels that are not in the database; the weights of every schedule, and the
    seconds taken of the budget.

    That the kernels end, each in its trial, bounds the runs of every schedule: see `trials`.
    """
    recorded = recorded_costs(database, request.kernels, driver.device)
    first = request.pipeline or default_pipeline(streams=1)
    costs = Costs.make(request.kernels, recorded, driver.device.architecture)
    set_costs(request.module, costs.of)
    graph = scheduled(request.module.clone(), first)
    schedule = schedule_of(graph)
    tried = try_missing(driver, schedule, request.kernels, database, request.budget)
    start = perf_counter() - tried

    def expired() -> bool:
        return perf_counter() - start >= KERNELS_SHARE * request.budget

    measure_missing(driver, schedule, request.kernels, database, expired)
    spent = perf_counter() - start
    if request.profile is not None:
        save_database(database, request.profile)
    weights = request.pack(graph)
    subject = ScheduleTrial(schedule, request.kernels, weights, request.limits)
    spent += trials_on(driver).whole(subject, request.budget - spent) / 1e9
    return weights, spent


def _record(
    request: Request,
    costs: Costs,
    chosen: ScheduleCandidate,
    choice: Choice,
    searched: SearchRecord | None,
) -> ScheduleChoice:
    """The record of a choice among schedules, with what it says of the module."""
    return ScheduleChoice(
        question=choice.question,
        chosen=choice.chosen,
        baseline=choice.baseline,
        source=choice.source,
        reason=choice.reason,
        estimates=choice.estimates,
        timings=choice.timings,
        skipped=choice.skipped,
        within=choice.within,
        mode=chosen.mode,
        pdl=chosen.pdl,
        pipeline=" ".join(chosen.spec.pipeline.split()),
        budget_seconds=request.budget,
        costs=dict(sorted(costs.measured.items())),
        search=searched,
    )
