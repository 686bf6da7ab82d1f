"""The simulator and the estimate of kernels against the measured runs that are checked in."""

from statistics import median

import pytest

from benchmarks import cost_model, simulator
from benchmarks.calibration.data import CHECKED_IN, POLICIES, Measured, read
from compiler.scheduling.kernel_time import fitting
from compiler.target.devices import H200


@pytest.fixture(scope="module")
def zoo() -> list[Measured]:
    return [model for model in read()[1] if model.name != "synthetic"]


@pytest.mark.parametrize("mode", ["graph", "subgraphs", "streams"])
def test_predicted_runs_are_near_the_measured_ones(zoo: list[Measured], mode: simulator.Mode):
    errors = [abs(e) for model in zoo for e in simulator.errors(model, mode, H200).values()]
    assert len(errors) >= 30
    assert median(errors) <= 0.10
    assert max(errors) <= 0.25


def test_schedules_are_ranked_as_they_were_measured(zoo: list[Measured]):
    found = [each for model in zoo if (each := simulator.order(model, H200)) is not None]
    assert median(score.rank for score in found) >= 0.8
    assert median(score.tau for score in found) >= 0.8
    assert max(score.loss for score in found) <= 0.07


def test_the_policies_are_ranked_as_they_were_measured_in_turns():
    found = [simulator.order(model, H200) for model in read(POLICIES)[1]]
    known = [score for score in found if score is not None]
    assert len(known) == 7
    assert median(score.rank for score in known) >= 0.85
    assert min(score.rank for score in known) >= 0.7
    assert median(score.loss for score in known) <= 0.02


def test_policies_are_predicted_near_what_was_measured_of_programmatic_graphs():
    models = read(POLICIES)[1]
    errors = [abs(e) for model in models for e in simulator.errors(model, "graph", H200).values()]
    assert len(errors) >= 150
    assert median(errors) <= 0.10
    assert max(errors) <= 0.25


def test_kernels_side_by_side_are_predicted(zoo: list[Measured]):
    errors = [abs(error) for model in zoo for error in simulator.side_by_side(model, H200)]
    assert median(errors) <= 0.15


def test_estimated_kernels_are_near_the_measured_ones():
    _, device, found = cost_model.samples(CHECKED_IN)
    errors = [abs(cost_model.estimated_time(k, device) / time - 1) for k, time in found]
    assert median(errors) <= 0.25


def test_as_many_blocks_fit_as_the_driver_said():
    for model in read()[1]:
        for kernel in model.kernels.values():
            for launch, fit in zip(kernel.launches, model.fitting[kernel.name], strict=True):
                assert fitting(launch, H200) == fit


def test_ranks_share_places_where_times_are_near():
    assert simulator.ranks([10.0, 30.0, 10.1, 20.0]) == [0.5, 3, 0.5, 2]
    assert simulator.ranks([10.0, 30.0, 10.1, 20.0], 0.0) == [0, 3, 1, 2]


def test_pairs_within_the_noise_tie():
    """Kendall's tau-b: of the third case's pairs, one is in order and two tie on one side."""
    assert simulator.tau([1.0, 2.0, 3.0], [5.0, 6.0, 7.0]) == 1
    assert simulator.tau([1.0, 2.0, 3.0], [7.0, 6.0, 5.0]) == -1
    assert simulator.tau([1.0, 1.01, 3.0], [5.0, 6.0, 6.1]) == pytest.approx(1 / 2)
    assert simulator.tau([1.0, 1.01, 3.0], [5.0, 6.0, 6.1], near=0) == 1
    assert simulator.tau([1.0, 1.0], [1.0, 2.0]) == 0
