"""`compile` measures kernels that no database has, on a device that records, and learns."""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

import compiler
from compiler.artifact.choice_json import choice_from_json, choice_to_json
from compiler.autotune.kernels import device_bench, measure, while_compiling
from compiler.autotune.kernels.kernel_tuner import KernelTuner
from compiler.autotune.kernels.plan import TuningLimits
from compiler.autotune.kernels.prepare import fused_groups
from compiler.autotune.schedule import decision
from compiler.backends.gpu.memory import upload
from compiler.choice.timing import Timing
from compiler.errors import DeviceError
from compiler.frontend.importing import import_model
from compiler.kernels import database
from compiler.kernels.building import KernelCache
from compiler.kernels.building.select import Provenance, Selection, best
from compiler.kernels.gpu.compilers import nvrtc
from compiler.kernels.group import Group
from compiler.progress import CandidateMeasured, ProgressEvent, TuningBegan, listening
from compiler.schedule.choices import SCHEDULE, ScheduleChoice, TuningRecord
from compiler.target.target import CudaTarget, GpuTarget, parse_gpu
from compiler.tools.report import report
from tests.autotune.kernels.test_tune import network, nothing
from tests.autotune.schedule import fakes
from tests.backends.gpu.recording import RecordedCall, RecordingDriver
from tests.tools import needs_nvrtc

TARGET = parse_gpu("cuda:sm_90:tf32")
SLOW, FAST = 5000.0, 1000.0
ELF = b"\x7fELF"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new folder for the user's database."""
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "tuning"))


@pytest.fixture
def driver() -> RecordingDriver:
    """A device on which every kernel runs."""
    return fakes.recorder()


@pytest.fixture
def cubins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of candidates that were compiled, to nothing."""
    texts: list[str] = []

    def compiled(text: str, target: GpuTarget) -> bytes:
        texts.append(text)
        return ELF

    monkeypatch.setattr(device_bench, "compile_cubin", compiled)
    return texts


def takes(monkeypatch: pytest.MonkeyPatch, time: Callable[[RecordedCall], float]) -> None:
    """Let a candidate take as long as its first launch says."""

    def chain_time(_: object, calls: Sequence[Any], *__: object, lengths: object) -> Timing:
        found = time(calls[0]) if calls else 0.0
        return Timing(found, found, found, 5)

    @contextmanager
    def sampler(_: object, calls: Sequence[Any], *__: object) -> Generator[Callable[[], float]]:
        yield lambda: time(calls[0])

    monkeypatch.setattr(measure, "chain_time", chain_time)
    monkeypatch.setattr(measure, "chain_sampler", sampler)


def groups(model: onnx.ModelProto | None = None) -> list[tuple[Group, int]]:
    """The groups of a small network: two GEMMs of one problem and a normalisation."""
    found = fused_groups(import_model(model or network()).module, TARGET)
    return [(group, 1) for group in found.values()]


def gemm(given: Sequence[tuple[Group, int]]) -> Selection:
    """The kernel of the first GEMM."""
    selected = (best(group, TARGET) for group, _ in given)
    return next(s for s in selected if s.template.name == "gemm")


def geometry(found: Selection, config: Any) -> tuple[Any, ...]:
    """The first launch of a kernel with a config."""
    first = found.candidate.emit(config).launches[0]
    return first.grid, first.block, first.shared_bytes


def planted(found: Selection, number: int) -> tuple[Any, Callable[[RecordedCall], float]]:
    """A later candidate of a GEMM that no other is launched like; it is fast, the others are not.

    Those of other templates take equally long.
    """
    configs = while_compiling.candidates_to_try(found, device_bench.GpuDevice.likely)
    shapes = [geometry(found, config) for config in configs]
    alone = [c for c, shape in zip(configs, shapes, strict=True) if shapes.count(shape) == 1]
    liked = [config for config in alone if config != found.config][number]
    shape = geometry(found, liked)

    def time(call: RecordedCall) -> float:
        return FAST if (call.grid, call.block, call.shared_bytes) == shape else SLOW

    return liked, time


def tuned(
    driver: RecordingDriver, given: Sequence[tuple[Group, int]], cache: KernelCache | None = None
) -> TuningRecord:
    """The record of a tuner that has twenty seconds."""
    return KernelTuner(TuningLimits.of(40.0)).tune(driver, given, TARGET, cache)


def test_a_planted_bad_estimate_is_found_and_kept(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    given, cache = groups(), KernelCache(tmp_path)
    found = gemm(given)
    liked, time = planted(found, 2)
    takes(monkeypatch, time)
    record = tuned(driver, given, cache)
    assert (record.kernels, record.improved) == (2, 1)
    assert (record.before, record.after) == (SLOW, FAST)
    assert record.tried == len(cubins) > 4
    now = gemm(given)
    assert (now.config, now.provenance) == (liked, Provenance.TUNED)
    saved = database.load(database.user_file("sm_90"))
    assert saved.device == "sm_90/132 recorder"
    assert {entry.device for entry in saved.entries} == {saved.device}
    for kept in (None, cache, cache):
        again = tuned(driver, given, kept)
        assert again.kernels == again.tried == 0
    assert record.tried == len(cubins), "it measured again"


def test_kernels_for_which_there_was_no_time_are_measured_the_next_time(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    given, cache = groups(), KernelCache(tmp_path)
    takes(monkeypatch, lambda call: SLOW)
    short = KernelTuner(TuningLimits.of(1e-6)).tune(driver, given, TARGET, cache)
    assert (short.kernels, short.tried) == (2, 0)
    assert tuned(driver, given, cache).tried > 2
    assert tuned(driver, given, cache).kernels == 0


def test_operands_stay_on_the_device_while_there_is_room(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    placed: list[int] = []

    def place(on: RecordingDriver, operands: list[Any]) -> None:
        placed.append(len(operands))
        upload(on, operands)

    monkeypatch.setattr(measure, "upload", place)
    takes(monkeypatch, lambda call: SLOW)
    given = groups()
    tuned(driver, given)
    assert len(placed) == 2
    placed.clear()
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "other"))
    monkeypatch.setattr(measure, "PLACED_BYTES", 0)
    free = driver.free_memory()
    tuned(driver, given)
    assert len(placed) > 2
    assert driver.free_memory() == free


def test_where_all_take_equally_long_nothing_changes(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch
):
    given = groups()
    before = gemm(given).config
    takes(monkeypatch, lambda call: SLOW)
    record = tuned(driver, given)
    assert record.improved == 0
    assert gemm(given).config == before
    assert gemm(given).provenance is Provenance.TUNED


def test_wrong_and_broken_candidates_are_left_out(
    driver: RecordingDriver,
    cubins: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    given = groups()
    found = gemm(given)
    liked, time = planted(found, 0)
    takes(monkeypatch, time)
    text = device_bench.kernel_candidate(found.candidate, liked, found.candidate.emit(liked)).text

    def broken(asked: str, target: GpuTarget) -> bytes:
        if asked == text:
            raise compiler.KernelError("ptxas crashed")
        return ELF

    monkeypatch.setattr(device_bench, "compile_cubin", broken)
    caplog.set_level("INFO", "compiler.autotune.kernels.device_bench")
    assert tuned(driver, given).improved == 0
    assert "ptxas crashed" in caplog.text
    assert gemm(given).config == found.config


def test_a_candidate_with_other_results_never_wins(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch
):
    given = groups()
    found = gemm(given)
    liked, time = planted(found, 0)
    takes(monkeypatch, time)
    shape, real = geometry(found, liked), RecordingDriver.call

    def call(self: RecordingDriver, *given: Any, **named: Any) -> RecordedCall:
        made = real(self, *given, **named)
        if (made.grid, made.block, made.shared_bytes) == shape:
            made.action = lambda *arrays: arrays[-1].__setitem__(slice(0, 64), 1)
        return made

    monkeypatch.setattr(RecordingDriver, "call", call)
    assert tuned(driver, given).improved == 0
    assert gemm(given).config == found.config


def test_an_interrupt_keeps_what_was_learnt(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch
):
    given = groups()
    liked, time = planted(gemm(given), 0)
    takes(monkeypatch, time)

    def interrupt(event: ProgressEvent) -> None:
        if isinstance(event, CandidateMeasured) and event.done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        tuned(driver, given)
    assert gemm(given).config == liked


def test_a_kernel_without_an_alternative_stays_unknown(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch
):
    given = groups()
    found = gemm(given)
    text = device_bench.kernel_candidate(found.candidate, found.config, found.emit()).text

    def broken(asked: str, target: GpuTarget) -> bytes:
        if asked != text:
            raise compiler.KernelError("no")
        return ELF

    monkeypatch.setattr(device_bench, "compile_cubin", broken)
    takes(monkeypatch, lambda call: SLOW)
    assert tuned(driver, given).tried > 2
    assert not database.user_file("sm_90").exists()


def test_a_database_that_cannot_be_written_is_warned_of(
    driver: RecordingDriver,
    cubins: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "file" / "folder"))
    takes(monkeypatch, lambda call: SLOW)
    assert tuned(driver, groups()).tried > 0
    assert "is not kept" in caplog.text


def test_what_was_compiled_is_not_compiled_again(
    driver: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch
):
    given = groups()
    liked, time = planted(gemm(given), 0)
    takes(monkeypatch, time)
    tuned(driver, given)
    found = gemm(given)
    text = device_bench.kernel_candidate(found.candidate, liked, found.emit()).text
    assert nvrtc.compile_cubin(text, TARGET) == ELF
    nvrtc.keep_cubins(TARGET, {})


@pytest.fixture
def present(driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    """The device, as if it were the CUDA device of this machine."""

    def found(target: str = "", ordinal: int = 0) -> RecordingDriver:
        return driver

    for place in (f"{decision.__name__}.present_device", "compiler.driver.decide.present_device"):
        monkeypatch.setattr(place, found)
    monkeypatch.setattr("compiler.backends.cuda.build.device", found)
    monkeypatch.setattr(CudaTarget, "gains_by_substitution", False)
    return driver


@needs_nvrtc
def test_compile_says_what_it_did_and_the_second_time_measures_nothing(
    present: RecordingDriver, cubins: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Kernels are built for real: the module has the config that the device likes."""
    given = groups()
    found = gemm(given)
    liked, time = planted(found, 0)
    takes(monkeypatch, time)
    monkeypatch.setattr(device_bench, "keep_cubins", nothing)
    heard: list[ProgressEvent] = []

    def compiled(**options: Any) -> compiler.Module:
        model = network().SerializeToString()
        return compiler.compile(model, target="cuda", arch="sm_90", cache=False, **options)

    module = compiled(budget=4, progress=heard.append)
    assert module.choice is not None
    tuning = module.choice.schedule.tuning
    assert tuning is not None
    assert tuning.improved == 1
    assert any(isinstance(event, TuningBegan) and event.kernels == 2 for event in heard)
    assert sum(isinstance(event, CandidateMeasured) for event in heard) == tuning.tried
    assert "1 faster ones, 15.0 to 3.0 us" in report(module)
    launches = [launch for kernel in module.kernels.values() for launch in kernel.launches]
    shapes = {(launch.grid, launch.block, launch.shared_bytes) for launch in launches}
    assert geometry(found, liked) in shapes
    heard.clear()
    again = compiled(budget=0.5, progress=heard.append)
    assert not any(isinstance(event, TuningBegan) for event in heard)
    assert again.choice is not None
    assert again.choice.schedule.tuning is None


def test_a_budget_of_nothing_measures_nothing(
    present: RecordingDriver, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("compiler.driver.build.build_kernels", fakes.kernels)
    module = compiler.compile(network().SerializeToString(), target="cuda", arch="sm_90", budget=0)
    assert module.choice is not None
    assert module.choice.schedule.tuning is None
    assert present.log == []
    assert not database.user_file("sm_90").exists()


def test_the_record_is_kept_in_a_manifest():
    record = TuningRecord(kernels=3, tried=12, improved=1, before=5000.0, after=1000.0, seconds=2.5)
    choice = ScheduleChoice(question=SCHEDULE, mode="graph", chosen="graph", tuning=record)
    text = json.loads(json.dumps(choice_to_json(choice)))
    assert choice_from_json(text, "choice") == choice
    assert str(record).startswith("12 candidates of 3 kernels that no database had, in 2.5 s: 1")
    assert record + record == replace(
        record, kernels=6, tried=24, improved=2, before=1e4, after=2e3, seconds=5.0
    )


@needs_nvrtc
def test_a_device_on_which_nothing_can_be_measured_leaves_the_estimates(
    present: RecordingDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(*_: object, **__: object) -> None:
        raise DeviceError("the device is lost")

    monkeypatch.setattr(KernelTuner, "tune", fail)
    model = network().SerializeToString()
    module = compiler.compile(model, target="cuda", arch="sm_90", cache=False, budget=0.5)
    assert module.kernels
    assert module.choice is not None
    assert module.choice.schedule.tuning is None
    assert "kernels stay as estimated, as measuring them failed: the device is lost" in caplog.text
