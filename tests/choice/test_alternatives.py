"""The baseline is kept unless another alternative is surely faster, whoever judges."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.autotune.bindings import running
from compiler.backends.gpu.executor import GpuExecutor
from compiler.choice.alternatives import Alternatives, choose, surely_faster
from compiler.choice.budget import Budget
from compiler.choice.judges import UNCERTAINTY, MeasuredJudge, PredictedJudge, RecordedJudge
from compiler.errors import DeviceError
from compiler.schedule.choices import Timing
from tests.backends.gpu.cases import case
from tests.backends.gpu.recording import RecordingDriver
from tests.backends.gpu.test_graph import load

TIMES = st.tuples(st.floats(1, 1e6), st.floats(0, 1e5))


def timing(median: float, spread: float) -> Timing:
    """A measured time whose interval reaches as far to both sides."""
    return Timing(median, median - spread, median + spread, 100)


def chosen_of(timings: Mapping[str, Timing]) -> str:
    """The choice by some recorded times, of which the first is the baseline's."""
    return choose(Alternatives("question", timings), RecordedJudge(timings)).chosen


@given(st.dictionaries(st.sampled_from("abcdef"), TIMES), TIMES)
def test_the_fastest_is_the_best_of_the_surely_faster(
    others: dict[str, tuple[float, float]], base: tuple[float, float]
):
    timings = {"base": timing(*base)} | {name: timing(*each) for name, each in others.items()}
    limit = base[0]
    faster = {n: t.median for n, t in timings.items() if t.high <= limit and t.median < limit}
    chosen = chosen_of(timings)
    assert chosen == (min(faster, key=lambda name: faster[name]) if faster else "base")


def test_a_faster_median_with_a_wide_interval_is_not_trusted():
    assert chosen_of({"base": timing(100, 1), "lucky": timing(99, 20)}) == "base"
    assert chosen_of({"base": timing(100, 1), "sure": timing(90, 5)}) == "sure"


def test_what_has_no_recorded_time_is_skipped():
    ways = {"base": 1, "other": 2}
    choice = choose(Alternatives("question", ways), RecordedJudge({"base": timing(100, 1)}))
    assert (choice.chosen, choice.skipped) == ("base", {"other": "no time was recorded"})
    with pytest.raises(KeyError):
        choose(Alternatives("question", ways), RecordedJudge({"other": timing(100, 1)}))


def test_the_intervals_may_meet_but_not_at_the_same_time():
    assert surely_faster(timing(90, 10), timing(100, 30))
    assert not surely_faster(timing(100, 0), timing(100, 0))


def test_estimates_must_save_more_than_they_may_be_wrong_by():
    def chosen(estimates: Mapping[str, float], uncertainty: float = UNCERTAINTY) -> str:
        judge = PredictedJudge[float](lambda time: time, uncertainty)
        return choose(Alternatives("question", estimates), judge).chosen

    assert chosen({"base": 100.0, "near": 95.5}) == "base"
    assert chosen({"base": 100.0, "far": 94.5, "best": 80.0, "same": 80.0}) == "best"
    assert chosen({"base": 100.0, "near": 99.9}, uncertainty=0.0) == "near"
    assert chosen({"base": 100.0, "same": 100.0}, uncertainty=0.0) == "base"


def test_a_prediction_records_estimates_and_no_intervals():
    judge = PredictedJudge[float](lambda time: time)
    choice = choose(Alternatives("question", {"base": 100.0, "fast": 50.0}), judge)
    assert (choice.source, choice.baseline, choice.chosen) == ("model", "base", "fast")
    assert (choice.estimates, choice.timings) == ({"base": 100.0, "fast": 50.0}, {})
    assert choice.reason == "the fastest of those that are surely faster than base"
    assert [*choice.times] == ["fast", "base"]


@contextmanager
def failing(sampler: Callable[[], float] | str) -> Generator[Callable[[], float]]:
    """A sampler, or an error with this text."""
    if isinstance(sampler, str):
        raise DeviceError(sampler)
    yield sampler


def test_what_does_not_run_is_skipped_unless_it_is_the_baseline():
    judge = MeasuredJudge[Callable[[], float] | str](failing, Budget(0.05))
    slow, fast = (lambda: 2e6), (lambda: 1e6)
    ways = {"base": slow, "big": "needs 9 TB", "fast": fast}
    choice = choose(Alternatives("question", ways), judge)
    assert (choice.source, choice.chosen) == ("measured", "fast")
    assert choice.skipped == {"big": "needs 9 TB"}
    assert {n: t.median for n, t in choice.timings.items()} == {"base": 2e6, "fast": 1e6}
    with pytest.raises(DeviceError, match="9 TB"):
        choose(Alternatives("question", {"big": "needs 9 TB", "base": slow}), judge)


def test_what_there_was_no_time_for_is_skipped():
    now = [0.0]

    def minute() -> float:
        now[0] += 60.0
        return 60e9

    judge = MeasuredJudge[Callable[[], float] | str](failing, Budget(0.0))
    choice = choose(Alternatives("question", {"base": minute, "other": minute}), judge)
    assert (choice.chosen, choice.skipped) == ("base", {"other": "time was over"})


def test_executors_are_closed_whatever_happens():
    executable = load(case(2, tasks=6), RecordingDriver({}))
    opened = list[GpuExecutor]()

    def made(mode: str) -> GpuExecutor:
        if mode == "big":
            raise RuntimeError("a fault of ours")
        opened.append(executable.executor(mode=mode))
        return opened[-1]

    judge = MeasuredJudge[str](lambda mode: running(made(mode)), Budget(0.02))
    ways = {mode: mode for mode in ("graph", "streams")}
    assert choose(Alternatives("mode", ways), judge).timings.keys() == {"graph", "streams"}
    with pytest.raises(RuntimeError, match="a fault of ours"):
        choose(Alternatives("mode", {"graph": "graph", "big": "big"}), judge)
    assert len(opened) == 3
    assert not any(executor.stream.alive for executor in opened)


def test_a_budget_divides_as_a_tree():
    budget = Budget(10.0)
    parts = [budget.share(0.1), *[budget.share(0.9).among(3)] * 3]
    assert sum(part.seconds for part in parts) == pytest.approx(10.0)
    assert budget.after(4.0).share(0.5) == Budget(3.0)
