"""The order and the end of measuring while a model compiles, by times alone."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.autotune.kernels.plan import (
    LIKELIEST,
    MOST_TUNING_SECONDS,
    SECONDS_EACH,
    CandidateTimes,
    TuningLimits,
    TuningSubject,
    best_config,
    differing_fields,
    improved,
    next_candidate,
)
from tests.autotune.kernels.simulated import config, subject, subjects

HEAVY, LIGHT = subject("heavy", 2, 5000.0, 5500.0, 6000.0), subject("light", 1, 1000.0, 900.0)


def times_of(own: TuningSubject, *times: float | None) -> CandidateTimes:
    """The times of the first candidates."""
    return dict(zip(own.configs, times, strict=False))


def test_the_heaviest_kernel_comes_first():
    assert next_candidate([LIGHT, HEAVY], {}) == ("heavy", HEAVY.configs[0])
    often = subject("often", 20, 1000.0, 1000.0)
    assert next_candidate([LIGHT, HEAVY, often], {}) == ("often", often.configs[0])


def test_every_kernel_is_measured_as_it_is_before_an_alternative_is():
    times = {"heavy": times_of(HEAVY, 5000.0)}
    assert next_candidate([LIGHT, HEAVY], times) == ("light", LIGHT.configs[0])


def test_measured_times_count_more_than_estimates():
    times = {"heavy": times_of(HEAVY, 400.0), "light": times_of(LIGHT, 9000.0)}
    assert next_candidate([LIGHT, HEAVY], times) == ("light", LIGHT.configs[1])


def test_a_kernel_without_gains_has_to_wait():
    big, small = subject("big", 1, *[2000.0] * 9), subject("small", 1, *[1500.0] * 9)
    times = {"big": times_of(big, 2000.0, 2100.0, 2200.0), "small": times_of(small, 1500.0)}
    assert next_candidate([big, small], times) == ("small", small.configs[1])
    times = {"big": times_of(big, 2000.0, 2100.0, 1900.0), "small": times_of(small, 1500.0)}
    assert next_candidate([big, small], times) == ("big", big.configs[3])


def test_a_candidate_under_way_is_not_started_again():
    times = {"light": times_of(LIGHT, None, None)}
    assert next_candidate([LIGHT], times) is None


def test_little_gain_is_not_worth_measuring():
    assert next_candidate([LIGHT], {}, other_time=1e9) is None
    assert next_candidate([], {}) is None


def test_after_the_likeliest_come_those_nearest_to_the_best():
    configs = tuple(config(*fields) for fields in [(0, 0), (1, 1), (2, 2), (3, 3), (9, 9), (2, 9)])
    own = TuningSubject("k", 1, configs, (100.0,) * 6)
    assert own.next_config(times_of(own, 10.0, 9.0, 5.0)) == configs[LIKELIEST - 1]
    assert own.next_config(times_of(own, 10.0, 9.0, 5.0, 7.0)) == configs[5]
    assert own.next_config(times_of(own, 10.0, 9.0, 11.0, 12.0)) == configs[4]


def test_fields_that_one_config_lacks_differ():
    assert differing_fields(config(1, 2), config(1, 2)) == 0
    assert differing_fields(config(1, 2), config(1, 3)) == 1
    assert differing_fields(config(1, 2), config(1, 2, 3)) == 1


def test_a_failed_candidate_is_never_the_best():
    assert best_config(LIGHT, times_of(LIGHT, 10.0, inf)) == LIGHT.configs[0]
    assert best_config(LIGHT, times_of(LIGHT, inf, None)) == LIGHT.configs[0]
    times = {"light": times_of(LIGHT, 10.0, inf), "heavy": times_of(HEAVY, 10.0, 9.0, 8.0)}
    assert improved([LIGHT, HEAVY], times) == [(HEAVY, HEAVY.configs[2])]


def test_the_largest_gain_is_confirmed_first():
    times = {"light": times_of(LIGHT, 1000.0, 100.0), "heavy": times_of(HEAVY, 5000.0, 4900.0)}
    assert [own.key for own, _ in improved([HEAVY, LIGHT], times)] == ["light", "heavy"]


@given(subjects(), st.randoms())
def test_the_order_of_kernels_does_not_matter(given: list[TuningSubject], chance: st.DataObject):
    times = {given[0].key: times_of(given[0], 500.0)}
    shuffled = sorted(given, key=lambda own: own.key, reverse=True)
    assert next_candidate(given, times) == next_candidate(shuffled, times)


def test_seconds_grow_with_kernels_up_to_a_limit():
    limits = TuningLimits.of(None)
    assert limits.seconds(0) == 0
    assert limits.seconds(3) == pytest.approx(3 * SECONDS_EACH)
    assert limits.seconds(10_000) == MOST_TUNING_SECONDS
    assert limits.left(5.0, 3.0) == 5.0


def test_a_given_budget_is_shared_with_schedules():
    limits = TuningLimits.of(8.0)
    assert limits.seconds(1) == 4.0
    assert limits.left(8.0, 3.0) == 5.0
    assert limits.left(8.0, 4.5) == 4.0
    assert TuningLimits.of(0.0).seconds(5) == 0.0
    assert limits.after(1.0).seconds(1) == 3.0
    assert limits.after(9.0).seconds(1) == 0.0
    assert limits.after(0.0, 2).seconds(1) == 2.0
