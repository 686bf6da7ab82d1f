"""From a model to a module: frontend, graph passes, kernels, schedule passes, packed weights."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, i64

from compiler.autotune.schedule import Decision, Request, Searching, decide, scheduled
from compiler.backends.base import Executable, chosen_options
from compiler.backends.cuda.target import DEFAULT_ARCHITECTURE, architecture
from compiler.backends.gpu.target import main_architecture
from compiler.backends.hip.build import requirements_of
from compiler.backends.hip.target import present_architecture
from compiler.errors import DeviceError, PipelineError
from compiler.export.artifact import Artifact
from compiler.export.library import build_library
from compiler.frontend import import_model
from compiler.graph.packing import apply_packing
from compiler.graph.weights import weight_array
from compiler.ir import dataflow, taskflow
from compiler.ir.edit import graphs_of
from compiler.ir.flatten import schedule_of
from compiler.ir.values import stored_as
from compiler.kernels import KernelCache, build_kernels
from compiler.kernels.gpu.compilers.hip_toolchain import (
    hip_generator,
    hip_version,
    run_hip_compiler,
)
from compiler.kernels.gpu.hip_target import MATRIX_CORES, parse_hip_target
from compiler.kernels.texts import kernel_texts
from compiler.pipeline import (
    DEFAULT_PIPELINE,
    PassTiming,
    Runner,
    name_kernels,
    parse,
    split,
)
from compiler.schedule import KernelSpec, Schedule, ScheduleChoice
from compiler.scheduling.kernel_time import work_of
from compiler.scheduling.simulator import demand
from compiler.target.devices import Device, device_of
from compiler.verify.kernel_operands import check_operands

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]

PRECISIONS = {
    "cpu": ("fp32",),
    "cuda": ("tf32", "fp32", "fp16", "bf16"),
    "hip": ("fp32", "fp16", "bf16"),
    "emu": ("tf32", "fp32", "fp16", "bf16"),
}
"""The precisions of each target that kernels can be built for, its default first.

On AMD's architectures, those of emu are hip's.
"""


@dataclass(frozen=True)
class Build:
    """Everything a backend needs, and how long each step took in seconds."""

    target: str
    schedule: Schedule
    kernels: dict[str, KernelSpec]
    weights: dict[str, Array]
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    passes: tuple[PassTiming, ...] = ()
    choice: ScheduleChoice | None = None
    """Why the schedule and its execution mode were chosen, on targets where there is a choice."""
    executable: Executable | None = None
    """The module as it was measured on the device, if it was."""
    library: bytes = b""
    """The shared library of the whole module, for targets that run through one."""
    requirements: dict[str, Any] | None = None
    """What a host needs for the library."""


class _Clock:
    """Seconds of each step, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, step: str) -> None:
        now = perf_counter()
        self.seconds[step] = now - self._last
        self._last = now


@dataclass(frozen=True)
class Settings:
    """What decides a build besides the model; see `compiler.compile`."""

    target: str
    """With everything that decides the kernels: see `full_target`."""
    pipeline: str | None = None
    """None for the default one, and on a GPU for the best of several like it."""
    dump_ir: str | os.PathLike[str] | None = None
    cache: KernelCache | None = None
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    budget: float = 0.0
    """Seconds of measuring on a GPU."""
    profile: str | os.PathLike[str] | None = None
    """A database of kernel times, which measurements are added to."""
    searching: Searching = field(default_factory=Searching)
    """How a GPU's schedule is searched for."""
    check_indices: bool = False
    """Whether runs report indices out of range."""

    @property
    def passes(self) -> str:
        """The pipeline as given, or the default one."""
        return DEFAULT_PIPELINE if self.pipeline is None else self.pipeline


def build(
    model: "str | os.PathLike[str] | bytes | onnx.ModelProto",
    input_shapes: Mapping[str, Sequence[int]] | None,
    settings: Settings,
) -> Build:
    """Compile a model; bad settings are found before the model is read."""
    parse(settings.passes)
    start = perf_counter()
    imported = import_model(model, input_shapes, settings.check_indices)
    built = build_module(imported.module, imported.weights, settings)
    importing = perf_counter() - start - sum(built.seconds.values())
    return replace(built, seconds={"import": importing, **built.seconds})


def build_module(module: ModuleOp, weights: Mapping[str, Array], settings: Settings) -> Build:
    """Compile a module with one `dataflow.graph`, which becomes a `taskflow.graph` in place."""
    graph_passes, _ = split(parse(settings.passes))
    runner = Runner(Path(settings.dump_ir) if settings.dump_ir is not None else None)
    set_target(module, settings.target)
    runner.write(module, "import", f"imported, for target {settings.target}")
    clock = _Clock()
    runner.run(module, graph_passes)
    name_kernels(module, graph_passes)
    clock.lap("graph passes")
    kernels = build_kernels(module, settings.target, settings.cache, settings.jobs)
    annotate(module, kernels, target_device(settings.target))
    if settings.dump_ir is not None:
        dump_kernels(module, settings.target, Path(settings.dump_ir) / "kernels")
    clock.lap("kernels")
    decision = _decide(module, kernels, weights, settings)
    clock.lap("choice")
    runner.write(module, "kernels", "after the kernels were built")
    graph = scheduled(module, decision.pipeline, runner)
    schedule = schedule_of(graph)
    check_operands(schedule, kernels)
    clock.lap("schedule passes")
    packed = decision.weights if decision.weights is not None else packed_weights(graph, weights)
    clock.lap("pack weights")
    built = Build(
        settings.target,
        schedule,
        kernels,
        packed,
        clock.seconds,
        tuple(runner.timings),
        decision.choice,
        decision.loaded
        and decision.loaded.alternative(schedule, **chosen_options(decision.choice)),
    )
    if not settings.target.startswith("hip:"):
        return built
    linked = _with_library(built, settings.cache)
    clock.lap("library")
    return linked


def _with_library(built: Build, cache: KernelCache | None) -> Build:
    """The build with the shared library that its backend runs."""
    saved = Artifact(built.target, {}, built.schedule, built.kernels, built.weights, built.choice)
    offload = [f"--offload-arch={each}" for each in parse_hip_target(built.target).architectures]
    compiler = partial(run_hip_compiler, *offload)
    folder = None if cache is None or cache.directory is None else cache.directory / "hip"
    library = build_library(saved, compiler, hip_generator(), folder)
    needed = requirements_of(built.target, library, hip_version())
    return replace(built, library=library, requirements=needed)


def _decide(
    module: ModuleOp,
    kernels: Mapping[str, KernelSpec],
    weights: Mapping[str, Array],
    settings: Settings,
) -> Decision:
    """The choice of pipeline and mode; where a target has one mode, there is none."""
    if settings.target.partition(":")[0] != "cuda":
        return Decision(settings.passes)
    request = Request(
        module,
        kernels,
        settings.target,
        lambda graph: packed_weights(graph, weights),
        settings.pipeline,
        settings.budget,
        settings.profile,
        settings.searching,
    )
    return decide(request)


def full_target(target: str, arch: str | None = None, precision: str | None = None) -> str:
    """A target with everything that decides its kernels, such as `cuda:sm_90:tf32`.

    An architecture is the device's where none is given, or sm_90 or gfx90a without a device. Raises
    DeviceError for an unknown target or precision, or an architecture where there is none.
    """
    name, _, rest = target.partition(":")
    if name not in PRECISIONS:
        raise DeviceError(f"unknown target {target!r}; the targets are {', '.join(PRECISIONS)}")
    if name == "cpu":
        _check_precision(name, name, precision or PRECISIONS[name][0])
        return ":".join(part for part in (name, arch or rest) if part)
    named, _, exact = rest.partition(":")
    chosen = arch or named or _default_architecture(name)
    kind = "hip" if name == "emu" and chosen.startswith("gfx") else name
    wanted = precision or exact or PRECISIONS[kind][0]
    _check_precision(f"{name}:{chosen}", kind, wanted)
    full = f"{name}:{chosen}:{wanted}"
    if name == "hip":
        _check_hip(full)
    return full


def _check_precision(target: str, kind: str, precision: str) -> None:
    if precision not in PRECISIONS[kind]:
        known = ", ".join(PRECISIONS[kind])
        raise DeviceError(f"target {target!r} has no precision {precision!r}; it has {known}")


def _default_architecture(name: str) -> str:
    """The device's, or one without a device; the emulator's is always the same."""
    if name == "hip":
        return present_architecture()
    return DEFAULT_ARCHITECTURE if name == "emu" else architecture(name)


def _check_hip(target: str) -> None:
    """Raise KernelError for what is no HIP target; warn of one that leaves matrix cores idle."""
    machine = parse_hip_target(target)
    idle = [each for each in machine.architectures if each in MATRIX_CORES]
    if idle and not machine.matrix_cores:
        warnings.warn(
            f"one text is compiled for {machine.arch}, so it does not use the matrix cores of"
            f" {', '.join(idle)}: compile for those apart",
            stacklevel=3,
        )


def dump_kernels(module: ModuleOp, target: str, directory: Path) -> None:
    """Write the CUDA text of each kernel to `NAME.cu`; raises PipelineError if that fails."""
    try:
        for name, text in kernel_texts(module, target):
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{name}.cu").write_text(text)
    except OSError as error:
        raise PipelineError(f"cannot dump kernels to {directory}: {error.strerror}") from error


def set_target(module: ModuleOp, target: str) -> None:
    """Record on each graph what it is compiled for: one pipeline's passes act by it."""
    for graph in graphs_of(module):
        graph.target = StringAttr(target)


def annotate(
    module: ModuleOp, kernels: Mapping[str, KernelSpec], device: Device | None = None
) -> None:
    """Put what the schedule passes need to know of each kernel on the groups that launch it.

    Where the device is known, that includes the share of its block slots that the kernel fills.
    """
    for op in module.walk():
        if isinstance(op, dataflow.GroupOp) and op.kernel is not None:
            kernel = kernels[op.kernel.data]
            op.workspaces = ArrayAttr([IntegerAttr(size, i64) for size in kernel.workspaces])
            op.packings = ArrayAttr([StringAttr(packing) for packing in kernel.packings])
            if device is not None:
                slots = demand(work_of(kernel, 1.0, device), device)[0]
                op.share = IntegerAttr(round(1000 * slots), i64)


def target_device(target: str) -> Device | None:
    """A typical device of a target; None for a CPU, whose cores all work on every kernel."""
    return None if target.partition(":")[0] == "cpu" else device_of(main_architecture(target))


def packed_weights(graph: taskflow.GraphOp, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights that the schedule reads, laid out as its kernels want them, by allocation."""
    return {
        op.allocation_name: np.asarray(_packed(op, weight_array(weights, op.key.data)), order="C")
        for op in graph.walk()
        if isinstance(op, taskflow.WeightOp)
    }


def _packed(weight: taskflow.WeightOp, array: Array) -> Array:
    stored = stored_as(array, weight.result.type, weight.key.data)
    return apply_packing(stored, weight.packing.data) if weight.packing is not None else stored
