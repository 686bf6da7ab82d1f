"""Which candidates are measured, what times they get, and that the decision names the device."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
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
from compiler.errors import DeviceError, KernelError
from compiler.kernels import KernelCache
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
    assert contenders(simulated) == expected
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
    simulated: Sequence[float],
    timed: Mapping[str, Any],
    broken: str = "",
    endless: str = "",
) -> tuple[Sequence[float], list[str]]:
    """The times by a device of these timings, and the modules that were built for it."""
    built: list[str] = []

    def finish(module: Any) -> Any:
        if module == broken:
            raise KernelError("no registers")
        built.append(str(module))
        return SimpleNamespace(schedule=str(module), kernels={}, weights={}, pdl=False, limits={})

    def load(driver: Any, schedule: str, *_: Any, index_limits: Mapping[str, int]) -> Any:
        executor = SimpleNamespace(close=lambda: None, name=schedule)

        def give(**_: Any) -> Any:
            return executor

        return SimpleNamespace(executor=give)

    def named(executor: Any) -> str:
        return executor.name

    def time_all(runs: Mapping[str, Any], *_: Any, **__: Any) -> Any:
        return {name: timed[run] for name, run in runs.items()}

    def times(_: Any, modules: Sequence[Any]) -> Sequence[float]:
        assert all(str(module).startswith("copy of") for module in modules)
        return simulated

    monkeypatch.setattr(measured, "trials_on", trials_without(endless))
    monkeypatch.setattr(measured, "GpuExecutable", SimpleNamespace(load=load))
    monkeypatch.setattr(measured, "timed_run", named)
    monkeypatch.setattr(measured, "time_all", time_all)
    monkeypatch.setattr(SimulatedTimes, "times", times)
    driver: Any = SimpleNamespace(device=SimpleNamespace(ordinal=0))
    judge = MeasuredTimes(TARGET, driver=driver, finish=finish)
    assert judge.margin == 0.01
    return judge.times([Module(name) for name in "abc"[: len(simulated)]]), built  # pyright: ignore


def timing(low: float, median: float, high: float) -> Any:
    """A measured time."""
    return SimpleNamespace(low=low, median=median, high=high)


def test_candidates_get_the_upper_end_and_the_graph_its_median(monkeypatch: pytest.MonkeyPatch):
    timed = {"b": timing(88, 89, 90), "c": timing(95, 100, 105)}
    found, built = judged(monkeypatch, [150.0, 90.0, 100.0], timed)
    assert found == [150, 90, 100]
    assert built == ["b", "c"]


def test_a_candidate_that_does_not_end_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    timed = {"c": timing(95, 100, 105)}
    found, _ = judged(monkeypatch, [150.0, 90.0, 100.0], timed, endless="b")
    assert found == [150, inf, 100]
    assert "'kernel of b'" in caplog.text


def test_without_a_graph_that_ends_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    timed = {"b": timing(88, 89, 90)}
    found, _ = judged(monkeypatch, [150.0, 90.0, 100.0], timed, endless="c")
    assert found == [150, 100, 100], "an unmeasured candidate replaces the graph"
    assert "'kernel of c'" in caplog.text


def test_nothing_is_built_where_no_candidate_is_promising(monkeypatch: pytest.MonkeyPatch):
    found, built = judged(monkeypatch, [150.0, 103.0, 100.0], {})
    assert found == [150, 103, 100]
    assert not built


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
    timed = {"b": timing(88, 89, 90), "c": timing(95, 100, 105)}
    found, built = judged(monkeypatch, [90.0, 95.0, 100.0], timed, broken="a")
    assert found == [inf, 90, 100]
    assert built == ["b", "c"]
    assert "left out: no registers" in caplog.text
    with pytest.raises(KernelError, match="no registers"):
        judged(monkeypatch, [90.0, 95.0, 100.0], timed, broken="c")


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
