"""Measures when each task of a schedule runs, by timing events around its launches."""

from dataclasses import dataclass
from functools import partial

from compiler.backends.gpu.delays import Delays
from compiler.backends.gpu.driver import Handle
from compiler.backends.gpu.executor import ExecutorSettings, GpuExecutor, GpuProgram, ScheduleRunner
from compiler.backends.gpu.graph import GraphSpec
from compiler.backends.gpu.random_inputs import fill_inputs
from compiler.backends.gpu.runners import Command, StreamRunner
from compiler.scheduling.graph_plan import GraphPlan
from compiler.scheduling.subflows import Subflow

WARM_UP_RUNS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """Nanoseconds from the start of the run."""

    start: float
    end: float


class TimedRunner(StreamRunner):
    """Mode `streams` with a timing event before the first task, and before and after each."""

    def __init__(self, spec: GraphSpec, stream: Handle) -> None:
        super().__init__(spec, stream)
        timing_event = partial(spec.driver.create_event, timing=True)
        self._origin = timing_event()
        self._around = [(timing_event(), timing_event()) for _ in self._units]

    def _compile(self, caller: Handle) -> list[Command]:
        return [(self._driver.record, (self._origin, caller)), *super()._compile(caller)]

    def _launches(self, index: int, unit: Subflow, stream: Handle) -> list[Command]:
        record_start, record_end = ((self._driver.record, (e, stream)) for e in self._around[index])
        return [record_start, *super()._launches(index, unit, stream), record_end]

    def spans(self) -> list[Span]:
        """The tasks' times in the last run, which must have ended."""
        elapsed = self._driver.elapsed
        origin = self._origin
        return [Span(elapsed(origin, start), elapsed(origin, end)) for start, end in self._around]

    def close(self) -> None:
        """Destroy what the runner made."""
        super().close()
        for event in (self._origin, *(event for pair in self._around for event in pair)):
            self._driver.destroy_event(event)


class TimedExecutor(GpuExecutor):
    """An executor in mode `streams` whose runs are timed task by task."""

    def __init__(self, program: GpuProgram, plan: GraphPlan) -> None:
        super().__init__(program, plan, ExecutorSettings(mode="streams"))
        self._timed: TimedRunner | None = None

    def _make(self, staged: frozenset[int], stream: Handle) -> ScheduleRunner:
        assert not staged, "a timed run works on the executor's own buffers"
        delays = Delays(self._driver, None)
        self._timed = TimedRunner(GraphSpec(self._driver, self._plan, self._calls, delays), stream)
        return self._timed

    def spans(self) -> list[Span]:
        """Run once on its own buffers; the tasks' times."""
        self.run(self.in_place("input"), outputs=self.in_place("output"))
        assert self._timed is not None
        return self._timed.spans()


def measure_timeline(program: GpuProgram, plan: GraphPlan, runs: int = 15) -> list[Span]:
    """The spans of all tasks in the run of median length; they include the cost of the events."""
    executor = TimedExecutor(program, plan)
    try:
        fill_inputs(executor)
        timed = [executor.spans() for _ in range(WARM_UP_RUNS + runs)][WARM_UP_RUNS:]
    finally:
        executor.close()
    timed.sort(key=lambda spans: max((span.end for span in spans), default=0.0))
    return timed[len(timed) // 2]
