"""Timing events around each task give times in which every dependency is respected."""

from typing import Any

import pytest

from compiler.backends.gpu.driver import Handle
from compiler.backends.gpu.timeline import measure_timeline
from tests.backends.gpu.cases import case
from tests.backends.gpu.recording import Event, Operation, RecordingDriver
from tests.backends.gpu.test_graph import load


class Counting(RecordingDriver):
    """Its clock goes on by a microsecond with every operation that is executed."""

    def __init__(self, seed: int) -> None:
        super().__init__({}, seed=seed)
        self.done: dict[int, float] = {}
        self.alive: list[Operation] = []

    def record(self, event: Handle, stream: Handle) -> None:
        super().record(event, stream)
        operation = event.operation
        self.alive.append(operation)

        def stamp() -> None:
            self.done[id(operation)] = 1000.0 * (len(self.done) + 1)

        operation.action = stamp

    def elapsed(self, start: Event, end: Event) -> float:
        return self.done[id(end.operation)] - self.done[id(start.operation)]


@pytest.mark.parametrize("seed", range(5))
def test_times_respect_dependencies(seed: int):
    found, driver = case(seed, tasks=12, streams=4), Counting(seed)
    executable: Any = load(found, driver)
    free = driver.free_memory()
    spans = executable.timeline()
    assert driver.free_memory() == free
    last: dict[int, int] = {}
    for index, task in enumerate(found.schedule.tasks):
        before = {*task.after, *([last[task.stream]] if task.stream in last else [])}
        assert 0 < spans[index].start < spans[index].end
        assert all(spans[other].end < spans[index].start for other in before)
        last[task.stream] = index


def test_the_run_of_median_length_is_kept(monkeypatch: pytest.MonkeyPatch):
    from compiler.backends.gpu import timeline

    lengths = iter([99.0] * timeline.WARM_UP_RUNS + [5.0, 1.0, 3.0])

    class Fixed(timeline.TimedExecutor):
        def spans(self) -> list[timeline.Span]:
            return [timeline.Span(0.0, next(lengths))]

    monkeypatch.setattr(timeline, "TimedExecutor", Fixed)
    executable: Any = load(case(1, tasks=3), RecordingDriver({}))
    spans = measure_timeline(executable._program, executable.plan, runs=3)
    assert spans == [timeline.Span(0.0, 3.0)]
