"""Compiling for a GPU picks the best schedule and mode, says why, and keeps it when saved."""

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import compiler
from compiler.artifact.choice_json import choice_to_json
from compiler.autotune.kernel_times import KernelTimeDatabase
from compiler.autotune.lock import measuring
from compiler.autotune.schedule import decision
from compiler.backends.gpu.executable import GpuExecutable
from compiler.errors import ArtifactError, DeviceError, PipelineError
from compiler.schedule.choices import MODES
from compiler.scheduling.costs import Costs
from compiler.scheduling.simulator import predict
from compiler.target.target import CudaTarget
from compiler.tools.report import report
from examples import zoo
from tests.autotune.schedule import fakes
from tests.backends.gpu.recording import RecordingDriver


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(target: str) -> None:
        raise DeviceError("no CUDA device is present")

    without_substitutions(monkeypatch)
    monkeypatch.setattr("compiler.driver.build.build_kernels", fakes.kernels)
    monkeypatch.setattr(decision, "present_device", missing)


def without_substitutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare schedules of the model as it is: a substitution would merge its branches."""
    monkeypatch.setattr(CudaTarget, "gains_by_substitution", False)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    """A device, as if it were the CUDA device of this machine."""
    found = fakes.recorder()

    def present(target: str = "", ordinal: int = 0) -> RecordingDriver:
        return found

    monkeypatch.setattr(decision, "present_device", present)
    monkeypatch.setattr("compiler.backends.cuda.build.device", present)
    return found


def takes(monkeypatch: pytest.MonkeyPatch, time: Callable[[str, int], float]) -> None:
    monkeypatch.setattr("compiler.autotune.bindings.timed_run", fakes.timed(time))


def compiled(**options: Any) -> compiler.Module:
    return compiler.compile(fakes.model(), target="cuda", arch="sm_90", **options)


def chosen(module: compiler.Module) -> dict[str, Any]:
    assert module.choice is not None
    return choice_to_json(module.choice.schedule)


@pytest.mark.parametrize(("mode", "streams"), [("graph", 2), ("subgraphs", 4), ("streams", 1)])
def test_the_fastest_candidate_becomes_the_module(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch, mode: str, streams: int
):
    takes(monkeypatch, lambda m, s: 1000.0 if (m, s) == (mode, streams) else 2000.0)
    module = compiled(budget=0.3)
    found = chosen(module)
    assert (found["source"], found["mode"]) == ("measured", mode)
    assert module.schedule.streams == streams
    executor: Any = module.executor()
    assert executor.settings.mode == mode
    assert found["timings"][found["chosen"]]["median"] == 1000
    assert found["timings"]["graph/1/none"]["median"] >= 1000
    assert {"graph/1/none", "graph/4/none", "streams/2/none"} <= found["timings"].keys()
    assert found["timings"].keys() == found["estimates"].keys()


@pytest.mark.parametrize("early", [True, False])
def test_early_launches_compete(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch, early: bool, tmp_path: Path
):
    monkeypatch.setattr("compiler.driver.build.build_kernels", fakes.programmatic_kernels)
    takes(monkeypatch, lambda m, s: 1000.0 if (m == "graph+pdl") == early else 2000.0)
    module = compiled(budget=0.3)
    found = chosen(module)
    assert {"graph/1/none", "graph+pdl/1/none", "graph+pdl/4/none"} <= found["timings"].keys()
    assert found["chosen"].startswith("graph+pdl") == early
    module.save(tmp_path / "built")
    for own in (module, compiler.load(tmp_path / "built")):
        executor: Any = own.executor()
        assert executor.settings.pdl == found["pdl"]


def test_how_buffers_are_bound_is_measured_and_kept(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def slow(executor: Any, inputs: Any, outputs: Any) -> float:
        executor.run(inputs, outputs=outputs)
        return {"copy": 10.0, "update": 20.0}[executor.bindings["x"]]

    takes(monkeypatch, lambda mode, streams: 1000.0)
    monkeypatch.setattr("compiler.autotune.bindings._wall_time", slow)
    module = compiled(budget=1.0)
    assert module.choice is not None
    binding = module.choice.of("binding of x")
    assert binding is not None
    assert (binding.chosen, binding.baseline) == ("copy", "update")
    assert binding.timings["update"].median == 20
    assert module.choice.schedule.bindings["x"] == "copy"
    module.save(tmp_path / "built")
    for own in (module, compiler.load(tmp_path / "built")):
        executor: Any = own.executor()
        assert executor.bindings["x"] == "copy"


def test_early_launches_are_taken_where_nothing_is_measured(monkeypatch: pytest.MonkeyPatch):
    plain = chosen(compiled(budget=0))
    monkeypatch.setattr("compiler.driver.build.build_kernels", fakes.programmatic_kernels)
    early = chosen(compiled(budget=0))
    assert not plain["pdl"]
    assert early["pdl"]
    for name in ("graph/1/none", "graph/auto", "subgraphs/1/none", "streams/1/none"):
        changed = early["estimates"][name] != plain["estimates"][name]
        assert changed == name.startswith("graph"), name


def test_the_one_stream_graph_is_kept_where_nothing_is_surely_faster(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
):
    takes(monkeypatch, lambda mode, streams: 1000.0)
    found = chosen(compiled(budget=0.1))
    assert found["chosen"] == found["baseline"] == "graph/1/none"
    assert "no candidate was surely faster" in found["reason"]


@pytest.mark.parametrize("mode", ["graph", "subgraphs", "streams"])
def test_the_one_stream_graph_is_kept_where_streams_lose(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch, mode: str
):
    """Whatever the simulator hopes for, and even where one other mode is nearly as fast."""
    takes(monkeypatch, lambda m, s: 1000.0 * s + (0.0 if m == "graph" else 500.0 * (m != mode)))
    found = chosen(module := compiled(budget=0.3))
    hoped, timed = found["estimates"], found["timings"]
    best = min(hoped, key=lambda name: hoped[name])
    assert hoped[best] < hoped["graph/1/none"]
    assert timed[best]["median"] > timed["graph/1/none"]["median"]
    assert found["chosen"] == "graph/1/none"
    assert module.schedule.streams == 1


def test_only_the_winner_of_the_simulator_is_made(monkeypatch: pytest.MonkeyPatch):
    """Its streams are those that were simulated, and its estimate that of the real schedule."""

    def unwanted(*_: object) -> None:
        raise AssertionError("a schedule that nobody measures was made")

    monkeypatch.setattr(decision, "scheduled_specs", unwanted)
    module = compiled(budget=0)
    found = chosen(module)
    assert found["chosen"] == "graph/auto"
    assert module.schedule.streams > 1
    costs = Costs.make(module.kernels, {}, "sm_90")
    works = costs.works(module.schedule, module.kernels)
    made = {mode: predict(module.schedule, works, mode, costs.device).makespan for mode in MODES}
    assert {f"{mode}/auto": time for mode, time in made.items()}.items() <= found[
        "estimates"
    ].items()


def test_every_kernel_is_timed_and_its_time_is_its_cost(driver: RecordingDriver, tmp_path: Path):
    profile = tmp_path / "times.json"
    module = compiled(budget=2.0, profile=profile)
    found = chosen(module)
    assert found["costs"] == dict.fromkeys(module.kernels, 1000.0)
    records = KernelTimeDatabase.load(profile).records
    assert {key.device for key in records} == {"recorder"}
    before = profile.read_bytes()
    compiled(budget=0.1, profile=profile)
    assert profile.read_bytes() == before


def test_an_explicit_pipeline_is_obeyed_and_only_modes_compete(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
):
    takes(monkeypatch, lambda mode, streams: 500.0 if mode == "streams" else 1000.0)
    pipeline = compiler.DEFAULT_PIPELINE.replace("streams=4", "streams=3")
    module = compiled(budget=0.1, pipeline=pipeline)
    assert chosen(module)["timings"].keys() == {"graph", "subgraphs", "streams"}
    assert chosen(module)["chosen"] == "streams"
    assert module.schedule.streams == 3


def test_the_choice_survives_saving(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    takes(monkeypatch, lambda mode, streams: 900.0 if mode == "streams" else 1000.0)
    module = compiled(budget=0.1)
    module.save(tmp_path / "built")
    loaded = compiler.load(tmp_path / "built")
    assert loaded.choice == module.choice
    assert loaded.schedule == module.schedule
    executor: Any = loaded.executor()
    assert executor.settings.mode == "streams"
    assert isinstance(loaded.executable, GpuExecutable)
    assert isinstance(module.executable, GpuExecutable)
    assert loaded.executable.plan.priorities == module.executable.plan.priorities
    other: Any = compiler.load(tmp_path / "built", mode="graph").executor()
    assert other.settings.mode == "graph"


@pytest.mark.parametrize("budget", [0, 0.3])
def test_every_schedule_is_a_graph_unless_the_policy_selects(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch, budget: float
):
    takes(monkeypatch, lambda mode, streams: 10.0 if mode == "streams" else 1000.0)
    found = {graphs: compiled(graphs=graphs, budget=budget) for graphs in ("all", "none")}
    modes = {
        graphs: {name.split("/")[0] for name in chosen(m)["estimates"]}
        for graphs, m in found.items()
    }
    assert modes == {"all": {*MODES}, "none": {"graph"}}
    assert chosen(found["none"])["mode"] == "graph"
    if budget:
        assert chosen(found["all"])["mode"] == "streams"


def test_what_does_not_fit_is_skipped(driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch):
    takes(monkeypatch, lambda mode, streams: 1000.0 / streams)
    full = GpuExecutable.executor

    def tight(self: GpuExecutable, **options: Any) -> Any:
        if self.streams == 4:
            raise DeviceError("needs 9 TB")
        return full(self, **options)

    monkeypatch.setattr(GpuExecutable, "executor", tight)
    found = chosen(module := compiled(budget=0.1))
    assert module.schedule.streams not in (1, 4)
    assert found["skipped"]["graph/4/none"] == "needs 9 TB"


def test_a_run_longer_than_the_budget_is_not_measured(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
):
    def endless(*_: Any) -> float:
        raise AssertionError("it ran")

    def slow(*_: Any, **__: Any) -> float:
        return 90e9

    takes(monkeypatch, endless)
    monkeypatch.setattr(decision, "_estimate", slow)
    choice = compiled(budget=2.0).choice
    assert choice is not None
    assert (choice.source, choice.timings) == ("model", {})
    assert choice.schedule.reason.startswith("not measured: a run takes about 90.0 s, ")


def test_a_device_that_is_taken_for_longer_than_the_budget_is_not_measured(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
):
    takes(monkeypatch, lambda mode, streams: 5.0)
    start = monotonic()
    with measuring(driver.device, 60.0):
        choice = compiled(budget=0.3).choice
    assert choice is not None
    assert (choice.source, choice.timings) == ("model", {})
    assert choice.schedule.reason.startswith("not measured: the device is taken: process ")
    assert monotonic() - start < 30.0


def test_without_a_device_the_model_chooses_and_says_so():
    found = chosen(module := compiled())
    assert found["source"] == "model"
    assert "no CUDA device is present" in found["reason"]
    assert module.schedule.streams >= 4
    assert found["estimates"][found["chosen"]] < found["estimates"]["graph/1/none"]
    assert json.loads(json.dumps(found)) == found


def test_a_frozen_build_depends_on_the_database_alone(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    profile = tmp_path / "times.json"
    compiled(budget=0.5, profile=profile)
    data = json.loads(profile.read_text())
    for place, entry in enumerate(data["kernels"]):
        entry["warm"] = 1000.0 * (place + 1)
    profile.write_text(json.dumps(data))
    compiled(budget=0, profile=profile).save(tmp_path / "with")
    monkeypatch.undo()
    without_substitutions(monkeypatch)
    monkeypatch.setattr("compiler.driver.build.build_kernels", fakes.kernels)
    compiled(budget=0, profile=profile).save(tmp_path / "without")
    for name in ("schedule.json", "manifest.json", "weights.safetensors"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    manifest = json.loads((tmp_path / "with" / "manifest.json").read_bytes())
    assert manifest["choice"]["costs"].keys() == compiled(budget=0).kernels.keys()
    assert "budget of 0" in manifest["choice"]["reason"]


def test_a_frozen_build_needs_its_database(tmp_path: Path):
    with pytest.raises(ArtifactError, match=r"none\.json"):
        compiled(budget=0, profile=tmp_path / "none.json")


def test_the_search_is_recorded_and_reported(tmp_path: Path):
    module = compiled(budget=0)
    found = chosen(module)["search"]
    assert found["makespan"] <= found["started_at"] == min(found["policies"].values())
    assert found["makespan"] >= max(found["bound"].values())
    name = chosen(module)["chosen"]
    assert name == "graph/auto"
    assert chosen(module)["estimates"][name] == pytest.approx(found["makespan"])
    text = report(module)
    assert f"of {found['steps']} moves (seed 0)" in text
    assert "bound" in text


def test_steps_and_seed_are_the_users():
    first, same = (compiled(schedule="auto{steps=40 seed=3}") for _ in range(2))
    assert first.schedule == same.schedule
    assert (chosen(first)["search"]["steps"], chosen(first)["search"]["seed"]) == (40, 3)
    assert compiled(schedule="auto").schedule == compiled().schedule


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "auto{turns=3}"},
        {"schedule": "auto{steps=-3}"},
        {"schedule": "auto", "pipeline": compiler.DEFAULT_PIPELINE},
        {"schedule": "auto", "target": "cpu", "arch": None},
    ],
)
def test_a_search_that_cannot_be_is_refused(options: dict[str, Any]):
    given: Any = {"target": "cuda", "arch": "sm_90", **options}
    with pytest.raises(PipelineError, match="auto"):
        compiler.compile(fakes.model(), **given)


@pytest.mark.parametrize("name", ["chains", "unet", "googlenet", "deepfm"])
def test_the_recorded_pipeline_gives_the_searched_schedule_again(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    model = fakes.model() if name == "chains" else zoo.load(name)
    options: dict[str, Any] = {"target": "cuda", "arch": "sm_90", "budget": 0}
    module = compiler.compile(model, schedule="auto{steps=60 seed=1}", **options)
    assert module.pipeline is not None
    assert ("import-placement" in module.pipeline) == chosen(module)["chosen"].endswith("/auto")

    def unwanted(*_: object) -> None:
        raise AssertionError("there was a search")

    monkeypatch.setattr(decision, "search_module", unwanted)
    again = compiler.compile(model, pipeline=module.pipeline, **options)
    assert again.schedule == module.schedule
    assert again.pipeline == module.pipeline
