"""Decisions by the times of kernels and modules: the schedule, and substitutions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.schedule import (
    Decision,
    Request,
    annotate,
    decide,
    present_device,
    scheduled,
)
from compiler.autotune.substitution import CostContext, MeasuredTimes, Runnable, SimulatedTimes
from compiler.backends.gpu.driver import Driver
from compiler.choice.budget import Budget
from compiler.driver.packed_weights import WeightPacker
from compiler.driver.settings import SUBSTITUTE, Settings
from compiler.errors import DeviceError
from compiler.ir.context import make_context
from compiler.ir.flatten import schedule_of
from compiler.kernels.building import build_control_kernels, build_kernels, build_missing
from compiler.passes.pipeline import parse, split_phases
from compiler.passes.runner import Runner, name_kernels
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import parse_gpu, parse_target

SUBSTITUTION_SHARE = 0.2
"""Further seconds for measuring candidates of substitutions, as a part of the budget."""


def substitution_context(
    packer: WeightPacker, settings: Settings, limits: Mapping[str, int]
) -> Context:
    """The context of the graph passes: on a GPU it knows the times of kernels.

    They are measured where there is a device and a budget.
    """
    if not parse_target(settings.target).gains_by_substitution:
        return make_context()
    parsed = parse_gpu(settings.target)
    driver = present_driver(settings)
    if driver is None:
        return CostContext(SimulatedTimes(parsed, settings.cache))
    times = MeasuredTimes(
        parsed,
        settings.cache,
        driver=driver,
        prepare=partial(_build_together, settings),
        finish=partial(_runnable, packer, settings, limits),
        pipeline=settings.passes,
        budget=Budget(settings.budget).share(SUBSTITUTION_SHARE),
    )
    return CostContext(times)


def present_driver(settings: Settings) -> Driver | None:
    """The device that the target's kernels are measured on, or None."""
    if not settings.budget or not parse_target(settings.target).searches_schedules:
        return None
    try:
        return present_device(settings.target)
    except DeviceError:
        return None


def _build_together(settings: Settings, modules: Sequence[ModuleOp]) -> None:
    """Run the graph passes of candidates for substitution, and build the kernels of all at once."""
    graph_passes, _ = split_phases(parse(settings.passes))
    names = [step.name for step in graph_passes]
    for module in modules:
        Runner(verified=False).run(module, graph_passes[names.index(SUBSTITUTE) + 1 :])
        name_kernels(module, graph_passes)
    build_missing(modules, settings.target, settings.cache, settings.jobs)


def _runnable(
    packer: WeightPacker, settings: Settings, limits: Mapping[str, int], module: ModuleOp
) -> Runnable:
    """A candidate for substitution, compiled with the schedule that the model predicts is best."""
    kernels = build_kernels(module, settings.target, settings.cache, settings.jobs)
    kernels |= build_control_kernels(module, settings.target)
    annotate(module, kernels, parse_target(settings.target).device)
    unmeasured = replace(settings, budget=0.0, pipeline=None)
    decision = decide_schedule(module, kernels, packer, unmeasured, limits)
    graph = scheduled(module, decision.pipeline)
    pdl = decision.choice is not None and decision.choice.schedule.pdl
    return Runnable(schedule_of(graph), kernels, packer.pack(graph), pdl, limits)


def decide_schedule(
    module: ModuleOp,
    kernels: Mapping[str, KernelSpec],
    packer: WeightPacker,
    settings: Settings,
    limits: Mapping[str, int],
) -> Decision:
    """The decision on pipeline and mode; targets with one mode leave nothing to decide."""
    if not parse_target(settings.target).searches_schedules:
        return Decision(settings.passes)
    request = Request(
        module=module,
        kernels=kernels,
        target=settings.target,
        pack=packer.pack,
        pipeline=settings.pipeline,
        budget=settings.budget,
        profile=settings.profile,
        searching=settings.searching,
        graphs=settings.graphs,
        limits=limits,
    )
    return decide(request)
