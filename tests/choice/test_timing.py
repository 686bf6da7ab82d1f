"""Candidates are timed in turns within a budget, and slow ones are given up early."""

import random
from collections.abc import Callable

from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.judges import RecordedJudge
from compiler.choice.timing import summarize, time_all


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


def test_slow_candidates_are_given_up_early_but_not_the_baseline():
    device = Device()
    times = {"base": 100.0, "fast": 50.0, "slow": 500.0}
    runs = {name: device.candidate(name, time) for name, time in times.items()}
    timings = time_all(runs, 1e9, lambda: device.now, keep=("base",), samples=100)
    assert choose(Alternatives("speed", times), RecordedJudge(timings)).chosen == "fast"
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
    assert choose(Alternatives("speed", times), RecordedJudge(timings)).chosen == "quick"
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
