"""The loop that measures candidates, on a bench whose times are known."""

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.autotune.kernels.plan import LEAST_GAIN, TuningSubject
from compiler.autotune.kernels.while_compiling import TuningFound, search_configs, settle
from tests.autotune.kernels.simulated import (
    COMPARE_S,
    MEASURE_S,
    SimulatedBench,
    benches,
    subject,
    subjects,
)

NOISE = 0.04


def searched(own: list[TuningSubject], bench: SimulatedBench, seconds: float) -> TuningFound:
    """The search within a time."""
    found = TuningFound()
    search_configs(own, bench, seconds, bench.clock, outcome=found)
    settle(own, found)
    return found


def test_a_badly_estimated_kernel_gets_its_best_config():
    own = subject("k", 1, 100.0, 200.0, 300.0, 400.0)
    truth = dict(zip(own.configs, (1000.0, 900.0, 300.0, 800.0), strict=True))
    found = searched([own], SimulatedBench({"k": truth}), 10.0)
    assert found.winners == {"k": own.configs[2]}
    assert found.pairs == {"k": (1000.0, 300.0)}
    assert found.tried == 4


def test_what_is_not_clearly_faster_does_not_win():
    own = subject("k", 1, 100.0, 200.0)
    truth = dict(zip(own.configs, (1000.0, 999.5), strict=True))
    found = searched([own], SimulatedBench({"k": truth}), 10.0)
    assert found.winners == {}
    assert found.compared == {"k"}


def test_an_interrupt_keeps_what_was_measured():
    own = subject("k", 1, 100.0, 200.0, 300.0)
    truth = dict(zip(own.configs, (1000.0, 500.0, 400.0), strict=True))
    bench, found = SimulatedBench({"k": truth}, width=1), TuningFound()
    calls: list[int] = []

    def report(done: int, started: int) -> None:
        calls.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_configs([own], bench, 10.0, bench.clock, outcome=found, report=report)
    settle([own], found)
    assert calls == [1, 2]
    assert found.winners == {"k": own.configs[1]}


def test_cores_are_kept_busy():
    own = [subject(f"k{number}", 1, *[100.0] * 5) for number in range(3)]
    truth = {kernel.key: dict.fromkeys(kernel.configs, 100.0) for kernel in own}
    bench, most = SimulatedBench(truth, width=4), list[int]()

    def report(done: int, started: int) -> None:
        most.append(started - done)

    search_configs(own, bench, 5.0, bench.clock, outcome=TuningFound(), report=report)
    assert max(most) == 3, "one of four was just measured"


@given(st.data(), subjects(), st.floats(0.0, 4.0))
def test_it_is_never_worse_than_the_estimates_choice(
    data: Any, own: list[TuningSubject], seconds: float
):
    bench = data.draw(benches(own, NOISE))
    found = searched(own, bench, seconds)
    for kernel in own:
        chosen = found.winners.get(kernel.key, kernel.configs[0])
        assert bench.truth[kernel.key][chosen] <= bench.truth[kernel.key][kernel.configs[0]]


@given(st.data(), subjects(), st.floats(0.0, 4.0))
def test_the_budget_is_kept(data: Any, own: list[TuningSubject], seconds: float):
    bench = data.draw(benches(own))
    searched(own, bench, seconds)
    assert bench.now <= seconds + max(MEASURE_S, COMPARE_S) + 1e-9


def test_a_search_that_ran_out_of_time_is_not_complete():
    own = subject("k", 1, 100.0, 200.0, 300.0)
    truth = dict(zip(own.configs, (1000.0, 900.0, 800.0), strict=True))
    assert not searched([own], SimulatedBench({"k": truth}), 0.12).complete
    assert searched([own], SimulatedBench({"k": truth}), 2.0).complete
    assert not searched([own], SimulatedBench({"k": truth}), 0.0).complete


@given(st.data(), subjects(), st.floats(0.1, 4.0))
def test_kernels_come_in_the_order_of_their_weight(
    data: Any, own: list[TuningSubject], seconds: float
):
    bench = data.draw(benches(own))
    searched(own, bench, seconds)
    firsts = {(kernel.key, kernel.configs[0]): kernel.uses * kernel.estimates[0] for kernel in own}
    weights = [firsts[started] for started in bench.started if started in firsts]
    assert weights[0] == max(firsts.values())
    assert weights == sorted(weights, reverse=True)


@given(st.data(), subjects(), st.floats(0.0, 4.0))
def test_equal_times_give_equal_searches(data: Any, own: list[TuningSubject], seconds: float):
    bench = data.draw(benches(own))
    again = SimulatedBench(bench.truth, bench.width, bench.compile_s)
    assert searched(own, bench, seconds) == searched(own, again, seconds)
    assert bench.started == again.started


@given(st.data(), subjects())
def test_with_time_every_kernel_that_weighs_is_searched(data: Any, own: list[TuningSubject]):
    bench = data.draw(benches(own))
    found = searched(own, bench, 1e4)
    assert found.complete
    total = sum(kernel.time(found.times.get(kernel.key, {})) for kernel in own)
    for kernel in own:
        times = found.times.get(kernel.key, {})
        assert kernel.expected_gain(times) <= LEAST_GAIN * total
        assert all(time is not None for time in times.values())
        winner = found.winners.get(kernel.key)
        assert winner is None or (times[winner] or inf) < inf


def test_a_first_candidate_that_fails_is_replaced():
    own = subject("k", 1, 100.0, 200.0, 300.0)
    truth = dict(zip(own.configs, (inf, 900.0, 800.0), strict=True))
    found = searched([own], SimulatedBench({"k": truth}), 10.0)
    assert found.winners == {"k": own.configs[2]}
    assert found.pairs == {}


def test_comparing_winners_ends_with_the_time():
    own = [subject(f"k{number}", 1, 100.0, 100.0) for number in range(20)]
    truth = {k.key: dict(zip(k.configs, (1000.0, 950.0), strict=True)) for k in own}
    bench = SimulatedBench(truth, compile_s=0.0)
    found = searched(own, bench, 0.5)
    assert bench.now <= 0.5 + COMPARE_S
    assert 0 < len(found.compared) == len(found.winners) < 10
