"""Which candidates are measured, what times they get, and that the decision names the device."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.autotune.substitution import MeasuredTimes, measured
from compiler.autotune.substitution.measured import MOST_MEASURED, contenders
from compiler.autotune.substitution.model import SimulatedTimes
from compiler.autotune.trials import ScheduleTrial, TrialError
from compiler.backends.cuda.device import device
from compiler.choice.judges import estimated_timing
from compiler.errors import DeviceError, KernelError
from compiler.kernels.building import KernelCache
from compiler.schedule.choices import Timing
from compiler.target.target import parse_gpu
from tests.frontend.checks import parse, run

TARGET = parse_gpu("cuda:sm_90:fp16")


@pytest.mark.parametrize(
    ("simulated", "expected"),
    [
        ([100.0], []),
        ([90.0, 100.0], [0]),
        ([101.9, 100.0], [0]),
        ([102.1, 100.0], []),
        ([95.0, 90.0, 100.0], [1, 0]),
        ([90.0, 90.05, 91.0, 100.0], [0, 2]),
        ([94.0, 93.0, 92.0, 91.0, 90.0, 100.0], [4, 3, 2]),
    ],
)
def test_the_fastest_distinct_candidates_are_measured(
    simulated: Sequence[float], expected: Sequence[int]
):
    *others, before = simulated
    times = {"before": before} | {str(number): time for number, time in enumerate(others)}
    assert contenders(times) == [*map(str, expected)]
    assert len(expected) <= MOST_MEASURED


class Module(str):
    """A module by its name."""

    def clone(self) -> "Module":
        """A copy, as simulating changes it."""
        return Module(f"copy of {self}")


def trials_without(endless: str) -> Callable[[Any], Any]:
    """In place of `trials_on`: all schedules end but one."""

    def schedule(subject: ScheduleTrial, seconds: float) -> None:
        if str(subject.schedule) == endless:
            raise TrialError(f"'kernel of {endless}' failed in a trial: a run takes too long")

    return lambda _: SimpleNamespace(schedule=schedule)


def judged(
    monkeypatch: pytest.MonkeyPatch,
    simulated: Mapping[str, float],
    timed: Mapping[str, Timing],
    broken: str = "",
    endless: str = "",
) -> tuple[Mapping[str, Timing | str], list[str]]:
    """The times by a device of these timings, and the modules that were built for it."""
    built: list[str] = []

    def finish(module: Any) -> Any:
        if module == broken:
            raise KernelError("no registers")
        built.append(str(module))
        return SimpleNamespace(schedule=str(module), kernels={}, weights={}, pdl=False, limits={})

    def load(driver: Any, schedule: str, *_: Any, index_limits: Mapping[str, int]) -> Any:
        def executor(**_: Any) -> str:
            return schedule

        return SimpleNamespace(executor=executor)

    def time_all(runs: Mapping[str, Any], *_: Any, **__: Any) -> Any:
        return {name: timed[run] for name, run in runs.items()}

    def times(_: Any, modules: Mapping[str, Any]) -> dict[str, float]:
        assert all(str(module).startswith("copy of") for module in modules.values())
        return dict(simulated)

    monkeypatch.setattr(measured, "trials_on", trials_without(endless))
    monkeypatch.setattr(measured, "GpuExecutable", SimpleNamespace(load=load))
    monkeypatch.setattr(measured, "running", nullcontext)
    monkeypatch.setattr("compiler.choice.judges.time_all", time_all)
    monkeypatch.setattr(SimulatedTimes, "simulated", times)
    driver: Any = SimpleNamespace(device=SimpleNamespace(ordinal=0))
    judge = MeasuredTimes(TARGET, driver=driver, finish=finish)
    ways: Any = {name: Module(name) for name in simulated}
    return judge.times(ways), built


BEFORE, FASTER = Timing(100.0, 95.0, 105.0, 9), Timing(89.0, 88.0, 90.0, 9)


def test_what_is_not_measured_is_never_faster_than_the_graph(monkeypatch: pytest.MonkeyPatch):
    simulated = {"base": 100.0, "slow": 150.0, "near": 99.99, "best": 99.9}
    times, built = judged(monkeypatch, simulated, {"base": BEFORE, "best": FASTER})
    assert built == ["base", "best"]
    assert (times["base"], times["best"]) == (BEFORE, FASTER)
    assert (times["slow"], times["near"]) == (estimated_timing(150.0), estimated_timing(100.0))


def test_a_candidate_that_does_not_end_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    simulated, timed = {"base": 100.0, "a": 90.0, "b": 95.0}, {"base": BEFORE, "b": FASTER}
    times, built = judged(monkeypatch, simulated, timed, endless="a")
    assert built == ["base", "a", "b"]
    assert (times["base"], times["b"]) == (BEFORE, FASTER)
    assert "'kernel of a'" in str(times["a"])
    assert "'kernel of a'" in caplog.text


def test_without_a_graph_that_ends_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    simulated = {"base": 100.0, "a": 90.0, "b": 150.0}
    times, _ = judged(monkeypatch, simulated, {"a": FASTER}, endless="base")
    expected = {"base": 100.0, "a": 100.0, "b": 150.0}
    assert times == {name: estimated_timing(time) for name, time in expected.items()}
    assert "'kernel of base'" in caplog.text


def test_nothing_is_built_where_no_candidate_is_promising(monkeypatch: pytest.MonkeyPatch):
    times, built = judged(monkeypatch, {"base": 100.0, "a": 150.0, "b": 103.0}, {})
    assert not built
    expected = {"base": 100.0, "a": 150.0, "b": 103.0}
    assert times == {name: estimated_timing(time) for name, time in expected.items()}


def test_a_decision_is_kept_for_the_device_and_the_pipeline(tmp_path: Any):
    def judge(device: str, pipeline: str = "one") -> MeasuredTimes:
        driver: Any = SimpleNamespace(device=device)
        return MeasuredTimes(TARGET, KernelCache(tmp_path), driver=driver, pipeline=pipeline)

    judge("one").remember("question", "text")
    assert judge("one").recall("question") == "text"
    assert judge("two").recall("question") is None
    assert judge("one", "two").recall("question") is None
    assert SimulatedTimes(TARGET, KernelCache(tmp_path)).recall("question") is None


def test_a_candidate_that_cannot_be_compiled_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    simulated, timed = {"base": 100.0, "a": 90.0, "b": 95.0}, {"base": BEFORE, "b": FASTER}
    times, built = judged(monkeypatch, simulated, timed, broken="a")
    assert times == {"base": BEFORE, "b": FASTER, "a": "no registers"}
    assert built == ["base", "b"]
    assert "left out: no registers" in caplog.text
    with pytest.raises(KernelError, match="no registers"):
        judged(monkeypatch, simulated, timed, broken="base")


@pytest.mark.gpu
def test_a_model_of_two_branches_is_right_on_a_device():
    try:
        device()
    except DeviceError as error:
        pytest.skip(str(error))
    random = np.random.default_rng(0)
    weights = {
        name: 0.1 * random.standard_normal((32, 32, k, k), np.float32)
        for name, k in (("a", 3), ("b", 1))
    }
    text = """g (float[1,32,16,16] x) => (float[1,32,16,16] y) {
        p = Conv<pads=[1,1,1,1]>(x, a) q = Conv(x, b) s = Add(p, q) t = Add(s, x) y = Relu(t) }"""
    model = parse(text, 21, **weights)
    inputs = {"x": random.standard_normal((1, 32, 16, 16), np.float32)}
    (expected,) = run(model, inputs)
    module = compiler.compile(model, target="cuda", precision="fp32", budget=2.0, cache=False)
    np.testing.assert_allclose(module.run(inputs)["y"], expected, rtol=1e-3, atol=1e-4)
