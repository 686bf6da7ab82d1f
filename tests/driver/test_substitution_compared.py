"""With a device, modules are compiled with substitutions and without, and the faster is kept."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from compiler.autotune.schedule import Decision, Request, decide
from compiler.autotune.substitution import SimulatedTimes
from compiler.choice.budget import Budget
from compiler.choice.judges import MeasuredJudge
from compiler.driver.build import Build, build_module
from compiler.driver.settings import Settings
from compiler.errors import DeviceError
from compiler.frontend.importing import import_model
from compiler.kernels.building import KernelCache
from compiler.schedule.choices import Timing
from tests.driver.test_substitution import repvgg
from tests.tools import needs_nvrtc

pytestmark = needs_nvrtc


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> KernelCache:
    """Kernels and decisions of these tests."""
    return KernelCache(tmp_path_factory.mktemp("kernels"))


TIMINGS = (Timing(9.0, 8.0, 9.5, 5), Timing(7.0, 6.5, 8.0, 5))
"""Of a module that loses, and of one that wins."""


BUDGET = 2000.0
"""Seconds, of which a loaded machine uses up none that the tests would see."""


class Loaded(SimpleNamespace):
    """A device, and a module on it that nobody runs."""

    device = SimpleNamespace(ordinal=0)

    def alternative(self, *_: Any, **__: Any) -> "Loaded":
        """The module itself."""
        return self


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A device whose measurements follow the simulator; the budgets of decisions on schedules."""
    found: list[float] = []

    def decided(request: Request) -> Decision:
        if request.budget:
            found.append(request.budget)
        decision = decide(replace(request, budget=0.0))
        return replace(decision, loaded=Loaded()) if request.budget else decision

    def simulated(target: Any, cache: KernelCache, **_: Any) -> SimulatedTimes:
        return SimulatedTimes(target, cache)

    def present(settings: Settings) -> object:
        return Loaded() if settings.budget else None

    for room in ("build", "decide"):
        monkeypatch.setattr(f"compiler.driver.{room}.present_driver", present)
    monkeypatch.setattr("compiler.driver.decide.MeasuredTimes", simulated)
    monkeypatch.setattr("compiler.driver.decide.decide", decided)
    return found


def compiled(cache: KernelCache, **settings: Any) -> Build:
    """A block of RepVGG, compiled with a budget."""
    imported = import_model(repvgg()[0], None, False)
    full = Settings("cuda:sm_90:fp32", cache=cache, jobs=1, budget=BUDGET)
    return build_module(imported.module, imported.weights, replace(full, **settings))


def tasks(cache: KernelCache) -> int:
    """How many kernels run of the module with substitutions."""
    return len(compiled(cache, budget=0.0).schedule.tasks)


@pytest.mark.parametrize("winner", ["substituted", "original"])
def test_the_module_that_is_faster_on_the_device_is_kept(
    winner: str, cache: KernelCache, budgets: list[float], monkeypatch: pytest.MonkeyPatch
):
    asked: list[Budget] = []

    def times(judge: MeasuredJudge[Build], ways: Mapping[str, Build]) -> Mapping[str, Timing]:
        asked.append(judge.budget)
        assert [*ways] == ["original", "substituted"]
        return {name: TIMINGS[name == winner] for name in ways}

    monkeypatch.setattr(MeasuredJudge, "times", times)
    built = compiled(cache)
    fewer = len(built.schedule.tasks) == tasks(cache)
    assert fewer == (winner == "substituted")
    assert built.choice is not None
    choice, pipeline = built.choice, built.choice.schedule.pipeline
    assert (choice.question, choice.chosen, choice.source) == ("substitution", winner, "measured")
    assert choice.timings[winner] == TIMINGS[True]
    assert (budgets, asked) == ([BUDGET / 2] * 2, [Budget(0.1 * BUDGET)])
    assert ("take=" in pipeline) == (winner == "substituted")
    assert ("substitute" in pipeline) == (winner == "substituted")
    again = compiled(cache, budget=0.0, pipeline=pipeline)
    assert again.schedule == built.schedule


def test_what_cannot_be_compared_stays_substituted(
    cache: KernelCache, budgets: list[float], monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> Mapping[str, Timing]:
        raise DeviceError("out of memory")

    monkeypatch.setattr(MeasuredJudge, "times", full)
    assert len(compiled(cache).schedule.tasks) == tasks(cache)
    assert len(budgets) == 2


def test_a_pipeline_that_is_given_is_obeyed(cache: KernelCache, budgets: list[float]):
    built = compiled(cache, pipeline=Settings("cpu").passes)
    assert len(built.schedule.tasks) == tasks(cache)
    assert budgets == [BUDGET]


def test_a_graph_without_a_candidate_is_decided_once(cache: KernelCache, budgets: list[float]):
    compiled(cache, substitution=False)
    assert budgets == [BUDGET]
