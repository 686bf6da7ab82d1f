"""The choice is by measured medians, within a budget, and never slower than the baseline."""

import random
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.autotune.bindings import choose, measured_choice
from compiler.autotune.timing import Timing, summarize, time_all
from compiler.errors import DeviceError
from tests.backends.gpu.cases import case
from tests.backends.gpu.recording import RecordingDriver
from tests.backends.gpu.test_graph import load

TIMES = st.tuples(st.floats(1, 1e6), st.floats(0, 1e5))


def timing(median: float, spread: float) -> Timing:
    return Timing(median, median - spread, median + spread, 100)


class Device:
    """A clock that candidates advance: each takes about its time, with noise."""

    def __init__(self) -> None:
        self.now, self.chance = 0.0, random.Random(1)
        self.runs: dict[str, int] = {}

    def candidate(self, name: str, nanoseconds: float) -> Callable[[], float]:
        def run() -> float:
            taken = nanoseconds * self.chance.uniform(0.98, 1.02)
            self.now += taken / 1e9
            self.runs[name] = self.runs.get(name, 0) + 1
            return taken

        return run


@given(st.dictionaries(st.sampled_from("abcdef"), TIMES), TIMES)
def test_the_choice_is_the_fastest_that_is_surely_no_slower(
    others: dict[str, tuple[float, float]], base: tuple[float, float]
):
    timings = {name: timing(*each) for name, each in others.items()} | {"base": timing(*base)}
    chosen = choose(timings, "base")
    assert timings[chosen].median <= timings["base"].median
    if chosen == "base":
        assert all(t.high > base[0] or t.median >= base[0] for t in timings.values())
    else:
        assert timings[chosen].high <= timings["base"].median


def test_a_faster_median_with_a_wide_interval_is_not_trusted():
    assert choose({"base": timing(100, 1), "lucky": timing(99, 20)}, "base") == "base"
    assert choose({"base": timing(100, 1), "sure": timing(90, 5)}, "base") == "sure"


def test_slow_candidates_are_given_up_early_but_not_the_baseline():
    device = Device()
    times = {"base": 100.0, "fast": 50.0, "slow": 500.0}
    runs = {name: device.candidate(name, time) for name, time in times.items()}
    timings = time_all(runs, 1e9, lambda: device.now, keep=("base",), samples=100)
    assert choose(timings, "base") == "fast"
    assert device.runs["slow"] < 20
    assert timings["base"].count >= 100
    assert timings["fast"].low <= 50 <= timings["fast"].high


def test_the_budget_ends_the_timing():
    device = Device()
    runs = {str(n): device.candidate(str(n), 1e9) for n in range(3)}
    timings = time_all(runs, 20.0, lambda: device.now, samples=10**6)
    assert device.now < 23
    assert all(each.count >= 3 for each in timings.values())


def test_a_candidate_that_takes_its_share_in_one_run_is_not_run_again():
    device = Device()
    times = {"base": 4e9, "quick": 1e6, "endless": 90e9}
    runs = {name: device.candidate(name, time) for name, time in times.items()}
    timings = time_all(runs, 10.0, lambda: device.now, keep=("base",))
    assert device.runs["base"] == device.runs["endless"] == 1
    assert device.runs["quick"] > 1
    assert choose(timings, "base") == "quick"
    assert timings["base"].count == timings["endless"].count == 1


def test_nothing_is_begun_once_time_is_over_but_the_baseline():
    device = Device()
    runs = {name: device.candidate(name, 60e9) for name in ("first", "base", "third")}
    timings = time_all(runs, 1.0, lambda: device.now, keep=("base",))
    assert timings.keys() == device.runs.keys() == {"base"}


def test_the_interval_of_a_median_holds_it():
    samples = [float(value) for value in range(101)]
    found = summarize(samples)
    assert (found.median, found.count) == (50.0, 101)
    assert 35 <= found.low < 50 < found.high <= 65


def test_every_figure_is_recorded_and_what_does_not_fit_is_skipped():
    found, driver = case(2, tasks=6), RecordingDriver({})
    executable = load(found, driver)

    def too_large() -> None:
        raise DeviceError("needs 9 TB")

    candidates = {m: partial(executable.executor, mode=m) for m in ("graph", "streams")}
    choice = measured_choice({**candidates, "big": too_large}, "graph", 0.05)  # type: ignore[dict-item]
    assert choice.skipped == {"big": "needs 9 TB"}
    assert set(choice.timings) == {"graph", "streams"}
    assert choice.name in choice.timings
    with pytest.raises(DeviceError):
        measured_choice({**candidates, "big": too_large}, "big", 0.05)  # type: ignore[dict-item]
