"""Coordinate descent over the kernels of a model, with a model of their times."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.autotune.kernels.descent import Configs, KernelOptions, descend
from compiler.choice.alternatives import surely_faster
from compiler.schedule.choices import Timing
from tests.autotune.kernels.make import config

NOISE = 0.01


class Fake:
    """Times choices by a function, within some noise; counts what it is asked."""

    def __init__(self, time: Callable[[Configs], float], noise: float = NOISE) -> None:
        self.time, self.noise, self.asked = time, noise, list[Sequence[Configs]]()

    def __call__(self, choices: Sequence[Configs]) -> list[Timing]:
        self.asked.append([dict(choice) for choice in choices])
        found = [self.time(choice) for choice in choices]
        return [Timing(t, t * (1 - self.noise), t * (1 + self.noise), 50) for t in found]


def subjects(**times: float) -> list[KernelOptions]:
    """Kernels of three options each, the first of which was fastest alone."""
    return [
        KernelOptions(key, time, (config(0), config(1), config(2))) for key, time in times.items()
    ]


def never() -> bool:
    return False


def additive(gains: Mapping[str, Mapping[int, float]]) -> Callable[[Configs], float]:
    """A time of 1000 less what each kernel's option gains."""
    by_config = {k: {config(n): gain for n, gain in own.items()} for k, own in gains.items()}
    return lambda choice: 1000.0 - sum(by_config.get(k, {}).get(v, 0.0) for k, v in choice.items())


def test_an_alternative_that_is_surely_faster_is_taken():
    fake = Fake(additive({"a": {1: 50.0, 2: 100.0}, "b": {1: -50.0}}))
    found = descend(subjects(a=10.0, b=20.0), fake, never)
    assert found.choice == {"a": config(2), "b": config(0)}
    (step,) = found.steps
    assert (step.key, step.values) == ("a", config(2))
    assert step.gain == pytest.approx(0.1)
    assert (found.start.median, found.end.median) == (1000.0, 900.0)


def test_a_gain_within_noise_is_not_taken():
    fake = Fake(additive({"a": {1: 5.0, 2: 9.0}}))
    found = descend(subjects(a=1.0), fake, never)
    assert found.choice == {"a": config(0)}
    assert not found.steps


def test_heavy_kernels_come_first_and_all_options_are_compared_together():
    fake = Fake(additive({}))
    descend(subjects(small=1.0, large=9.0, middle=5.0), fake, never)
    changed = [
        {key for key in "small large middle".split() if len({choice[key] for choice in asked}) == 3}
        for asked in fake.asked[:-1]
    ]
    assert changed == [{"large"}, {"middle"}, {"small"}]


def test_time_that_is_over_ends_it_with_what_was_found():
    fake = Fake(additive({"a": {1: 100.0}, "b": {1: 100.0}}))
    found = descend(subjects(a=2.0, b=1.0), fake, lambda: len(fake.asked) >= 1)
    assert found.choice == {"a": config(1), "b": config(0)}
    assert found.compared == 1
    assert descend(subjects(a=2.0), fake, lambda: True).steps == ()


def test_neighbours_may_change_what_is_best():
    """A kernel's option pays only once another has made room: a second round finds it."""

    def time(choice: Configs) -> float:
        room = choice["b"] == config(1)
        return 1000.0 - 100.0 * room - 100.0 * (room and choice["a"] == config(2))

    found = descend(subjects(a=9.0, b=1.0), Fake(time), never)
    assert found.choice == {"a": config(2), "b": config(1)}
    assert [step.key for step in found.steps] == ["b", "a"]


def test_an_end_that_is_not_faster_than_the_start_is_given_up():
    """Where the device drifts, steps look like gains that are none."""
    fake = Fake(lambda choice: 1000.0)
    drifting = iter(range(100))

    def drift(choices: Sequence[Configs]) -> list[Timing]:
        timings = fake(choices)
        if len(choices) == 2:
            return timings
        low = 900.0 - next(drifting)
        return [timings[0], Timing(low, low, low, 50), *timings[2:]]

    found = descend(subjects(a=1.0, b=1.0), drift, never)
    assert found.choice == {"a": config(0), "b": config(0)}
    assert not found.steps


gains = st.dictionaries(
    st.sampled_from("abcd"), st.dictionaries(st.integers(1, 2), st.integers(-90, 90)), max_size=4
)


@settings(max_examples=50, deadline=None)
@given(gains)
def test_the_end_is_never_slower_and_nothing_surely_faster_is_left(
    found: dict[str, dict[int, float]],
):
    fake = Fake(additive(found))
    every = subjects(a=4.0, b=3.0, c=2.0, d=1.0)
    result = descend(every, fake, never, rounds=9)
    assert result.end.median <= result.start.median
    assert result.start.median == 1000.0
    if result.steps:
        (end,) = fake([result.choice])
        for subject in every:
            for values in subject.options:
                (other,) = fake([{**result.choice, subject.key: values}])
                assert not surely_faster(other, end)
