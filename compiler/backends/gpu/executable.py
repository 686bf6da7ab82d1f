"""A schedule loaded on a GPU: kernels and weights once, executors that share them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from compiler.backends.base import MemoryReport, check_options
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executor import (
    GPU_EXECUTOR_OPTIONS,
    ExecutorSettings,
    GpuExecutor,
    Programs,
)
from compiler.backends.gpu.functions import SharedFunctions
from compiler.backends.gpu.memory import logger, memory_need
from compiler.backends.gpu.run import Run
from compiler.backends.gpu.sharing import DeviceShare, Weights
from compiler.backends.gpu.timeline import Span, measure_timeline
from compiler.backends.memory import Array
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, Schedule
from compiler.scheduling.graph_plan import GraphPlan, plan_graph
from compiler.support.arguments import MAPPING, ArgumentKind, instance, optional
from compiler.target.devices import typical_device
from compiler.verify.structure import check_structure

GPU_LOAD_OPTIONS: Mapping[str, ArgumentKind] = {
    **GPU_EXECUTOR_OPTIONS,
    "costs": optional(MAPPING),
    "share": optional(instance(DeviceShare, "the memory that other executables share")),
    "code": optional(instance(SharedFunctions, "the code of other executables")),
}
"""The options of `GpuExecutable.load`."""


class GpuExecutable:
    """Implements `compiler.backends.base.Executable` over any driver.

    `run` and `submit` use a default executor, made when first needed; callers that want runs to
    overlap make further executors.
    """

    def __init__(
        self,
        programs: Programs,
        schedule: Schedule,
        costs: Mapping[str, float],
        settings: ExecutorSettings,
    ) -> None:
        driver = programs.driver
        typical = typical_device(driver.device.architecture)
        self._programs = programs
        self._schedule = schedule
        self._settings = settings
        self._costs = costs
        self._plan = plan_graph(schedule, programs.kernels, costs, typical, driver.priorities)
        self._program = programs.of(self._plan)
        self._own: GpuExecutor | None = None
        self._lock = Lock()

    @classmethod
    def load(
        cls,
        driver: Driver,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        *,
        costs: Mapping[str, float] | None = None,
        share: DeviceShare | None = None,
        code: SharedFunctions | None = None,
        **options: Any,
    ) -> "GpuExecutable":
        """Load kernels and weights; `costs` are measured nanoseconds by kernel name.

        Executables with the same `share` have one arena, and weights that are the same arrays once;
        those with the same `code` have its kernels loaded once.
        Other options are fields of `ExecutorSettings`.
        """
        settings = settings_from(ExecutorSettings(), options)
        check_structure(schedule)
        logger.info("%s needs %s of device memory", schedule.name, memory_need(schedule))
        driver.make_current()
        placed = Weights(driver, schedule, weights, share)
        programs = Programs(driver, kernels, placed, share, code)
        return cls(programs, schedule, costs or {}, settings)

    def alternative(self, schedule: Schedule, **options: Any) -> "GpuExecutable":
        """Another schedule of the same kernels and weights, which are shared."""
        check_structure(schedule)
        settings = settings_from(self._settings, options)
        return GpuExecutable(self._programs, schedule, self._costs, settings)

    def with_kernels(self, kernels: Mapping[str, KernelSpec]) -> "GpuExecutable":
        """The same schedule and weights with other kernels for the same operands."""
        present = self._programs
        programs = Programs(present.driver, kernels, present.weights, present.share)
        return GpuExecutable(programs, self._schedule, self._costs, self._settings)

    @property
    def schedule(self) -> Schedule:
        """The schedule that it runs."""
        return self._schedule

    @property
    def plan(self) -> GraphPlan:
        """The edges, order and priorities of its graphs."""
        return self._plan

    @property
    def streams(self) -> int:
        return self._schedule.streams

    @property
    def threads(self) -> int:
        """The host threads that work on a run: the caller's alone."""
        return 1

    @property
    def memory(self) -> MemoryReport:
        """Device memory in bytes; an executor's inputs and outputs count as arena."""
        need = memory_need(self._schedule)
        code = sum(len(self._programs.kernels[name].code) for name in self._program.functions.of)
        return MemoryReport(need.weights, need.arena + need.buffers, code, need.buffers)

    @property
    def outputs(self) -> Sequence[Allocation]:
        """The outputs in the model's order."""
        return self._schedule.of_kind("output")

    @property
    def weight_addresses(self) -> Mapping[str, int]:
        """Where each weight is on the device, by name."""
        return self._programs.weights.addresses

    def executor(self, **options: Any) -> GpuExecutor:
        """A further executor; `options` are fields of `ExecutorSettings`."""
        return GpuExecutor(self._program, self._plan, settings_from(self._settings, options))

    def timeline(self) -> list[Span]:
        """The start and end of each task, from timing events around plain launches."""
        return measure_timeline(self._program, self._plan)

    @property
    def default(self) -> GpuExecutor:
        """The executor of `run` and `submit`."""
        with self._lock:
            if self._own is None:
                self._own = GpuExecutor(self._program, self._plan, self._settings)
            return self._own

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Run and wait; `options` are those of `Executor.submit`."""
        return self.default.run(inputs, **options)

    def submit(self, inputs: Mapping[str, Any], **options: Any) -> Run:
        """Queue one run and return at once; see `Executor.submit`."""
        return self.default.submit(inputs, **options)

    def close(self) -> None:
        """Release the default executor, until the next run; the rest goes with its last user."""
        with self._lock:
            if self._own is not None:
                self._own.close()
                self._own = None


def settings_from(base: ExecutorSettings, options: Mapping[str, Any]) -> ExecutorSettings:
    """Settings with some fields replaced; an error of `check_options` for a wrong option."""
    check_options(options, GPU_EXECUTOR_OPTIONS, "a GPU executor")
    return replace(base, **options)
