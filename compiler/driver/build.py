"""The compilation driver: frontend, graph passes, kernels, schedule passes, packed weights."""

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from compiler.artifact.artifact import Artifact
from compiler.autotune.bindings import running
from compiler.autotune.lock import DeviceTakenError, measuring
from compiler.autotune.schedule import (
    annotate,
    scheduled,
)
from compiler.autotune.substitution import CostContext
from compiler.autotune.substitution.kernels import predicted
from compiler.backends.base import chosen_options
from compiler.backends.cuda import device as cuda
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.hip import device as hip
from compiler.backends.memory import Array
from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.budget import Budget
from compiler.choice.judges import MeasuredJudge, PredictedJudge, Sampler
from compiler.driver.decide import decide_schedule, present_driver, substitution_context
from compiler.driver.hip_library import hip_library
from compiler.driver.packed_weights import WeightPacker
from compiler.driver.requirements import cpu_requirements
from compiler.driver.settings import SUBSTITUTE, Settings
from compiler.driver.variants import Variant, other_dump, until_lowered, variant, variants
from compiler.errors import DeviceError, KernelError
from compiler.frontend.importing.model import import_model
from compiler.frontend.load import folder_of
from compiler.graph.fusion.whole import whole_kernels
from compiler.ir import dataflow
from compiler.ir.flatten import schedule_of
from compiler.ir.index_limits import index_limits
from compiler.kernels.building import (
    KernelCache,
    build_control_kernels,
    build_kernels,
    counted_groups,
    exact_target,
)
from compiler.kernels.cpu.machine import named_target
from compiler.passes.pipeline import parse, split_phases, with_decisions
from compiler.passes.runner import PassTiming, Runner, name_kernels
from compiler.progress import StepClock, StepEnded, notify
from compiler.schedule.choices import CONTRACTIONS, SUBSTITUTION, Choice, TuningRecord
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.target.devices import DEFAULT_ARCHITECTURES, DEVICES
from compiler.target.nvrtc import nvrtc_architectures
from compiler.target.target import complete, parse_cpu, parse_target
from compiler.tensors.contraction import Contraction
from compiler.verify.certificate import Certificate, certified
from compiler.verify.seals import sealed_library

if TYPE_CHECKING:
    import onnx


COMPARISON_SHARE = 0.1
"""Further seconds for running whole modules in alternation, as a part of the budget."""

ORIGINAL, SUBSTITUTED = "original", "substituted"
"""The graph as it was, and with operators substituted."""

_LOG = logging.getLogger(__name__)

PRESENT: Mapping[str, Callable[[], str]] = {
    "cuda": cuda.present_architecture,
    "hip": hip.present_architecture,
    "emu": lambda: DEFAULT_ARCHITECTURES["cuda"],
}
"""The architecture that a backend's target means where it names none."""


@dataclass(frozen=True)
class Build:
    """The compiled model, from which backends make modules, and the seconds of each step."""

    target: str
    schedule: Schedule
    kernels: dict[str, KernelSpec]
    weights: dict[str, Array]
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    passes: tuple[PassTiming, ...] = ()
    choice: Choice | None = None
    """Why the schedule and its execution mode were chosen, on targets where there is a choice."""
    tuning: TuningRecord | None = None
    """The kernels that were measured before they were built, if any were."""
    executable: GpuExecutable | None = None
    """The module on the device, if it was measured there."""
    kernels_ns: float = 0.0
    library: bytes = b""
    """The shared library of the whole module, for targets that run one."""
    requirements: dict[str, Any] = field(default_factory=dict[str, Any])
    """The requirements of the code on its host, where the target alone does not say them."""
    certificate: Certificate | None = None
    """That the schedule and the kernels were checked, if they were."""
    semantics: Mapping[str, str] = field(default_factory=dict[str, str])
    """The choices between the ONNX text and onnxruntime, by rule."""

    @property
    def content(self) -> Artifact:
        """The content of a module: the part that is saved."""
        return Artifact(
            target=self.target,
            schedule=self.schedule,
            kernels=self.kernels,
            weights=self.weights,
            requirements=self.requirements,
            choice=self.choice,
            tuning=self.tuning,
            library=self.library,
            certificate=self.certificate,
            semantics=self.semantics,
        )


def build(
    model: "str | os.PathLike[str] | bytes | onnx.ModelProto",
    input_shapes: Mapping[str, Sequence[int]] | None,
    settings: Settings,
) -> Build:
    """Compile a model; settings are checked before the model is read."""
    parse(settings.passes)
    target = parse_target(settings.target)
    start = perf_counter()
    folder = folder_of(model)
    imported = import_model(
        model,
        input_shapes,
        settings.check_indices,
        target.runs_control_flow,
        has_kernel=whole_kernels(target),
        semantics=settings.semantics,
        folder=folder,
    )
    built = build_variants(variants(imported, settings), settings, start)
    if folder is not None:
        # large weights are mapped files: packing may have read what was written since
        folder.check_unwritten()
    return built


def build_variants(compared: Sequence[Variant], settings: Settings, start: float) -> Build:
    """Compile the variants of a graph whose import began at `start`, and keep the faster."""
    notify(StepEnded("import", perf_counter() - start))
    if len(compared) == 1:
        (only,) = compared
        single_way = replace(settings, contractions=settings.compared_contractions[:1])
        built = _build_variant(only, single_way)
        built = replace(built, choice=_only_contraction(only.contraction, built.choice))
    else:
        tuner = settings.tuner and settings.tuner.shared_by(len(compared))
        budget = Budget(settings.budget).among(len(compared))
        ways = settings.compared_contractions
        inner = replace(settings, contractions=ways, budget=budget.seconds, tuner=tuner)
        builds: dict[str, Build] = {}
        for lowered in compared:
            name = str(lowered.contraction or Contraction.FLOATS)
            builds[name] = _build_variant(lowered, replace(inner, dump_ir=lowered.runner.dump))
        built = _best_contraction(builds, settings)
    importing = perf_counter() - start - sum(built.seconds.values())
    return replace(built, seconds={"import": importing, **built.seconds})


def _only_contraction(way: Contraction | None, choice: Choice | None) -> Choice | None:
    """The choice of a module whose quantised operators, if it has any, have one way alone."""
    if choice is None or way is None:
        return choice
    schedule = choice.schedule
    timing = schedule.timings.get(schedule.chosen)
    return Choice(
        question=CONTRACTIONS,
        chosen=str(way),
        baseline=str(way),
        source=schedule.source,
        reason="the only way that was compiled",
        estimates={str(way): min(schedule.estimates.values())} if timing is None else {},
        timings={} if timing is None else {str(way): timing},
        within=(choice,),
    )


def _best_contraction(builds: Mapping[str, Build], settings: Settings) -> Build:
    """The best build among several ways to contract bytes, with the record of the choice.

    On a device the last way, the least of bytes, is the baseline. Without one the first is: there
    the estimates of the kernels alone decide, and no interval says how wrong they may be.
    """
    driver = present_driver(settings)
    choice = None
    if driver is not None and all(built.executable is not None for built in builds.values()):
        floats_first = dict(reversed([*builds.items()]))
        try:
            choice = _compared(driver, Alternatives(CONTRACTIONS, floats_first), settings)
        except DeviceTakenError as error:
            _LOG.warning("the ways to contract bytes are not measured: %s", error)
    if choice is None:
        judge = PredictedJudge[Build](lambda built: built.kernels_ns, uncertainty=0.0)
        choice = choose(Alternatives(CONTRACTIONS, builds), judge)
    faster = builds[choice.chosen]
    nested = faster.choice and replace(choice, within=(faster.choice,))
    _LOG.info("%s", nested or choice)
    slower = {way: built for way, built in builds.items() if built is not faster}
    spent = {f"contracting {way}": sum(b.seconds.values()) for way, b in slower.items()}
    return replace(faster, choice=nested, seconds=faster.seconds | spent)


def _compared(driver: Driver, modules: Alternatives[Build], settings: Settings) -> Choice:
    """The choice among measured modules, by running them in alternation."""

    def opened(built: Build) -> AbstractContextManager[Sampler]:
        assert built.executable is not None, "a module was not measured"
        return running(built.executable.executor())

    budget = Budget(settings.budget).share(COMPARISON_SHARE)
    with measuring(driver.device, budget.seconds) as waited:
        return choose(modules, MeasuredJudge(opened, budget.after(waited)))


def build_module(module: ModuleOp, weights: Mapping[str, Array], settings: Settings) -> Build:
    """Compile a module's `dataflow.graph` in the first way to compare; the module is used up."""
    way = settings.compared_contractions[0]
    return _build_variant(variant(module, dict(weights), settings, way), settings)


def _build_variant(lowered: Variant, settings: Settings) -> Build:
    """Compile a variant of a module, which is used up.

    Where its operators were substituted and a device measures, it is compiled without that, too,
    and the faster one is kept; not where other modules' weights are in memory.
    """
    compares = settings.pipeline is None and settings.substitution
    driver = present_driver(settings) if compares else None
    original = lowered.module.clone() if driver is not None else None
    packer = WeightPacker(lowered.weights, settings.jobs)
    ready = prepared(lowered, packer, settings)
    budget = ready.budget
    if driver is None or original is None or settings.packed or not ready.substituted:
        return _finished(ready, packer, budget)
    substituted = _finished(ready, packer, budget.among(2))
    without = replace(
        settings,
        substitution=False,
        dump_ir=other_dump(settings.dump_ir, ORIGINAL),
        tuner=settings.tuner and settings.tuner.after(ready.tuning.seconds),
    )
    try:
        runner = Runner(other_dump(settings.dump_ir, ORIGINAL), weights=lowered.weights)
        unsubstituted = Variant(original, lowered.weights, runner)
        plain = _finished(prepared(unsubstituted, packer, without), packer, budget.among(2))
        if substituted.executable is None or plain.executable is None:
            _LOG.warning("substitutions are kept without comparing schedules: a run is too long")
            return substituted
        return _better_graph(driver, {ORIGINAL: plain, SUBSTITUTED: substituted}, settings)
    except DeviceError as error:
        _LOG.warning("substitutions are kept without comparing whole schedules: %s", error)
        return substituted


def _better_graph(driver: Driver, builds: Mapping[str, Build], settings: Settings) -> Build:
    """The better build of the original and the substituted graph, with the record of the choice."""
    start = perf_counter()
    choice = _compared(driver, Alternatives(SUBSTITUTION, builds), settings)
    faster = builds[choice.chosen]
    schedules = {name: built.choice.schedule for name, built in builds.items() if built.choice}
    # kernels were measured for both graphs, whichever is kept
    tuning = sum((s.tuning for s in schedules.values() if s.tuning), TuningRecord())
    schedule = replace(schedules[choice.chosen], tuning=tuning if tuning.kernels else None)
    spent = {f"{n} graph": sum(b.seconds.values()) for n, b in builds.items() if b is not faster}
    return replace(
        faster,
        choice=replace(choice, within=(schedule,)),
        seconds=faster.seconds | spent | {"comparison": perf_counter() - start},
    )


@dataclass(frozen=True)
class Prepared:
    """A module whose kernels are built, and what schedules it."""

    module: ModuleOp
    settings: Settings
    kernels: dict[str, KernelSpec]
    runner: Runner
    clock: StepClock
    tuning: TuningRecord
    limits: Mapping[str, int]
    """The limits of the inputs that are indices."""

    @property
    def budget(self) -> Budget:
        """The seconds for measuring schedules."""
        tuner = self.settings.tuner
        budget = self.settings.budget
        return Budget(budget if tuner is None else tuner.left(budget, self.tuning))

    @property
    def decided(self) -> Mapping[str, str | None]:
        """The decisions of graph passes by the times of kernels; None for those left out."""
        context = self.runner.context
        left_out = {} if self.settings.substitution else {SUBSTITUTE: None}
        return left_out | (context.decided if isinstance(context, CostContext) else {})

    @property
    def substituted(self) -> bool:
        """Whether any changed the graph."""
        return any(spec is not None for spec in self.decided.values())


def prepared(lowered: Variant, packer: WeightPacker, settings: Settings) -> Prepared:
    """Run the other graph passes and build the kernels."""
    target = parse_target(settings.target)
    module = lowered.module
    steps = parse(settings.passes)
    graph_passes, _ = split_phases(steps)
    graphs = [op for op in module.ops if isinstance(op, dataflow.GraphOp)]
    limits = index_limits(graphs[0]) if graphs else {}
    context = substitution_context(packer, settings, limits)
    runner = replace(lowered.runner, context=context)
    dump = runner.dump
    clock = StepClock()
    runner.run(module, graph_passes[len(until_lowered(steps)) :])
    name_kernels(module, graph_passes)
    clock.lap("graph passes")
    tuning = _tuned(module, settings)
    if tuning.kernels:
        clock.lap("tuning")
    cache = settings.cache
    jobs = settings.jobs
    packed = settings.packed
    kernels = build_kernels(module, settings.target, cache, jobs, packed)
    kernels |= build_control_kernels(module, settings.target)
    annotate(module, kernels, target.device if target.is_gpu else None)
    if dump is not None and target.is_gpu:
        from compiler.kernels.building.texts import dump_kernels

        dump_kernels(module, settings.target, dump / "kernels")
    clock.lap("kernels")
    return Prepared(
        module=module,
        settings=settings,
        kernels=kernels,
        runner=runner,
        clock=clock,
        tuning=tuning,
        limits=limits,
    )


def _tuned(module: ModuleOp, settings: Settings) -> TuningRecord:
    """Measure kernels that no database has, where there are a device and a budget."""
    tuner = settings.tuner
    target = exact_target(settings.target)
    driver = present_driver(settings)
    if tuner is None or (driver is None and (target.is_gpu or not settings.budget)):
        return TuningRecord()
    try:
        return tuner.tune(driver, counted_groups(module), target, settings.cache)
    except DeviceError as error:
        _LOG.warning("kernels stay as estimated, as measuring them failed: %s", error)
        return TuningRecord()


def _finished(ready: Prepared, packer: WeightPacker, budget: Budget) -> Build:
    """Decide on a schedule by measuring for some seconds, make it, and pack the weights."""
    module = ready.module
    kernels = ready.kernels
    clock = ready.clock
    settings = replace(ready.settings, budget=budget.seconds)
    runner = ready.runner
    kernels_ns = predicted(module, settings.target) if len(settings.contractions) > 1 else 0.0
    decision = decide_schedule(module, kernels, packer, settings, ready.limits)
    clock.lap("choice")
    runner.write(module, "kernels", "after the kernels were built")
    graph = scheduled(module, decision.pipeline, runner)
    schedule = schedule_of(graph)
    certificate = certified(schedule, kernels)
    clock.lap("schedule passes")
    packed = decision.weights if decision.weights is not None else packer.pack(graph)
    clock.lap("pack weights")
    choice = decision.choice and replace(
        decision.choice,
        pipeline=with_decisions(decision.choice.pipeline, ready.decided),
        tuning=ready.tuning if ready.tuning.kernels else None,
    )
    built = Build(
        target=settings.target,
        schedule=schedule,
        kernels=kernels,
        weights=packed,
        certificate=certificate,
        semantics=settings.semantics.ways,
        seconds=clock.seconds,
        passes=tuple(runner.timings),
        choice=choice,
        tuning=ready.tuning if ready.tuning.kernels else None,
        kernels_ns=kernels_ns,
        executable=decision.loaded
        and decision.loaded.alternative(schedule, **chosen_options(decision.choice)),
    )
    backend = parse_target(settings.target).backend
    if backend == "cpu":
        return replace(built, requirements=cpu_requirements(settings.target))
    if backend != "hip":
        return built
    linked = with_library(built, settings.cache)
    clock.lap("library")
    return linked


def with_library(built: Build, cache: KernelCache | None) -> Build:
    """The build with the shared library of its kernels, which the backend runs."""
    library, needed = hip_library(built.content, cache and cache.directory)
    if built.certificate is not None:
        library = sealed_library(library, built.certificate.digest)
    return replace(built, library=library, requirements=needed)


def full_target(target: str, arch: str | None = None, precision: str | None = None) -> str:
    """A target with everything that decides its kernels, such as `cuda:sm_90:tf32`.

    An architecture is the device's where none is given, or sm_90 or gfx90a without a device. Raises
    DeviceError for an unknown target or precision, KernelError for an unknown architecture or CPU.
    """
    completed = complete(target, arch, precision, lambda backend: PRESENT[backend]())
    if completed.backend == "cpu":
        named_target(parse_cpu(str(completed)))
    elif completed.backend == "cuda" and completed.architecture not in DEVICES:
        compiled_for = nvrtc_architectures()
        if compiled_for and completed.architecture not in compiled_for:
            raise KernelError(
                f"the CUDA compiler here does not know the architecture"
                f" {completed.architecture}: use one of {', '.join(compiled_for)}"
            )
    if completed.idle_matrix_cores:
        warnings.warn(
            f"one text is compiled for {completed}, so it does not use the matrix cores of"
            f" {', '.join(completed.idle_matrix_cores)}: compile for those apart",
            stacklevel=2,
        )
    return str(completed)
