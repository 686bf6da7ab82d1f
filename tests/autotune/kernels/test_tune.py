"""`flowloom tune` from a model to the user's database, on a device that records."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.kernels import bundle as bundles
from compiler.autotune.kernels import compiling, in_context, tune
from compiler.autotune.kernels.prepare import prepare_bundle
from compiler.autotune.kernels.results import Header, Result, ResultFile
from compiler.autotune.lock import locked
from compiler.backends.cuda import device as cuda_target
from compiler.choice.timing import Timing
from compiler.errors import DeviceError
from compiler.kernels import database
from compiler.kernels.database import Database, Entry, Measured
from compiler.kernels.database.fields import full_version, problem_fields
from compiler.progress import PartEnded, PartsBegan, ProgressEvent, listening
from compiler.target.nvrtc import nvrtc_version
from compiler.target.target import GpuTarget
from compiler.tools.cli import main, with_step
from tests.autotune.kernels.make import KEY, bottleneck, config
from tests.autotune.schedule.fakes import Anything
from tests.backends.gpu.recording import RecordingDriver
from tests.tools import needs_nvrtc


def network() -> onnx.ModelProto:
    """A GEMM, a normalisation, an attention of another shape: three kernels with a choice."""
    chance = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        values = chance.standard_normal(shape).astype(np.float32)
        return onnx.numpy_helper.from_array(values, name)

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "scale"], ["b"], axis=-1),
        helper.make_node("MatMul", ["b", "v"], ["c"]),
        helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [64, 256]) for n in "xy"]
    weights = [weight("w", 256, 256), weight("v", 256, 256), weight("scale", 256)]
    graph = helper.make_graph(nodes, "small", infos[:1], infos[1:], weights)
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's file; the databases are the package's and one in a new folder."""
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "tuning"))
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "small.onnx"
    path.write_bytes(network().SerializeToString())
    return path


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    """A present device that runs any kernel, and needs no compiler."""
    driver = RecordingDriver(Anything())
    monkeypatch.setattr(cuda_target, "device", lambda: driver)

    def compiled(texts: Sequence[str], **_: Any) -> Iterator[tuple[int, bytes | str]]:
        for number in range(len(texts)):
            yield number, b"\x7fELF"

    monkeypatch.setattr(tune, "compile_all", compiled)
    return driver


def nothing(*_: object) -> float:
    """Measures no kernel."""
    return 0.0


def without_device() -> None:
    raise DeviceError("no CUDA driver library (libcuda) was found")


def test_a_model_is_tuned_by_one_command(
    model: Path, device: RecordingDriver, capsys: pytest.CaptureFixture[str]
):
    command = ["tune", str(model), "--candidates", "3", "--in-context", "0"]
    assert main(["tune", "status", str(model), "--arch", "sm_90"]) == 0
    assert "0 of 2 kernels tuned" in capsys.readouterr().out
    heard: list[ProgressEvent] = []
    with listening(heard.append):
        assert main(command) == 0
    said = capsys.readouterr().out
    assert "2 kernels" in said
    assert "should take" in said
    (begun,) = (e for e in heard if isinstance(e, PartsBegan) and e.step == "measure")
    assert begun.total == sum(isinstance(e, PartEnded) and e.step == "measure" for e in heard) > 1
    assert "small.onnx tf32: 2 of 2 kernels tuned, 100 % of their time" in said
    found = database.load(database.user_file("sm_90"))
    assert found.device == "sm_90/132 recorder"
    assert {len(entry.configs) for entry in found.entries} == {3}
    launched = len(device.log)
    assert main(command) == 0
    assert database.load(database.user_file("sm_90")) == found
    assert len(device.log) == launched, "it measured again"
    assert main(["tune", "status", str(model), "--arch", "sm_90", "--device", "other"]) == 0
    assert "2 tuned on another device" in capsys.readouterr().out


def test_a_killed_run_keeps_what_it_measured(
    model: Path, device: RecordingDriver, monkeypatch: pytest.MonkeyPatch
):
    def killed(texts: Sequence[str], **_: Any) -> Iterator[tuple[int, bytes | str]]:
        yield 0, b"\x7fELF"
        yield 1, b"\x7fELF"
        raise KeyboardInterrupt

    command = ["tune", "models", str(model), "--candidates", "3", "--in-context", "0"]
    with monkeypatch.context() as inner:
        inner.setattr(tune, "compile_all", killed)
        assert main(command) == 130
    (entry,) = database.load(database.user_file("sm_90")).entries
    assert len(entry.configs) == 2
    counts: list[int] = []

    def prepared(*given: Any, **options: Any) -> bundles.Bundle:
        found = prepare_bundle(*given, **options)
        counts.append(found.count)
        return found

    monkeypatch.setattr(tune, "prepare_bundle", prepared)
    assert main(command) == 0
    assert len(database.load(database.user_file("sm_90")).entries) == 2
    assert counts == [0], "it prepared again what was prepared"


def test_kernels_of_graphs_that_measured_times_favour_are_tuned(
    model: Path, device: RecordingDriver, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    from compiler.autotune.substitution.compared import compared_graphs

    model.write_bytes(bottleneck().SerializeToString())

    def compared(module: ModuleOp, target: GpuTarget) -> list[ModuleOp]:
        """A substituted graph only once something was measured."""
        graphs = compared_graphs(module, target)
        return graphs if database.user_file("sm_90").exists() else graphs[:1]

    monkeypatch.setattr("compiler.autotune.kernels.prepare.compared_graphs", compared)
    command = ["tune", str(model), "--candidates", "2", "--in-context", "0"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "3 kernels" in said
    assert "2 candidates of 1 kernels" in said
    assert "4 of 4 kernels tuned" in said


def test_two_runs_at_once_are_refused(
    model: Path, device: RecordingDriver, capsys: pytest.CaptureFixture[str]
):
    folder = database.user_file("sm_90").parent / tune.LEFT_OVER
    with locked(folder / "tune", 60.0):
        assert main(["tune", str(model)]) == 1
    assert "another `flowloom tune` is at work" in capsys.readouterr().err
    assert not database.user_file("sm_90").exists()


def test_without_nvrtc_nothing_is_recorded_as_wrong(
    model: Path, device: RecordingDriver, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.setattr(tune, "compile_all", compiling.compile_all)
    monkeypatch.setattr(compiling, "load_nvrtc", lambda: None)
    assert main(["tune", str(model), "--candidates", "2"]) == 1
    assert "pip install flowloom[cuda]" in capsys.readouterr().err
    assert database.load(database.user_file("sm_90")).entries == []


def test_without_a_gpu_the_error_names_prepare(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(cuda_target, "device", without_device)
    assert main(["tune", str(model)]) == 1
    said = capsys.readouterr().err
    assert "libcuda" in said
    assert "flowloom tune prepare MODEL -o BUNDLE" in said


def test_prepare_takes_folders_and_says_size_and_time(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    bundle = tmp_path / "b"
    (model.parent / "copy.onnx").write_bytes(model.read_bytes())
    command = ["tune", "prepare", str(model.parent), "-o", str(bundle), "--candidates", "4"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert re.search(r"8 candidates of 2 kernels, \d+\.\d MB", said)
    assert "measuring should take" in said
    assert bundles.load_bundle(bundle).count == 8
    assert main([*command, "--limit", "0.001"]) == 1
    assert "fewer models" in capsys.readouterr().err
    (model.parent / "manifest.json").write_text("{}")
    assert main(command) == 1
    assert "artifact" in capsys.readouterr().err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["tune", "prepare", str(empty), "-o", str(bundle)]) == 1
    assert "no .onnx file" in capsys.readouterr().err


def test_results_of_two_devices_need_a_first_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):

    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        file = ResultFile(path, Header("sm_90", path.name, "c"))
        file.add(Result(KEY, config(1), "v", 1.0, 1.0))
        file.close()
    output = tmp_path / "d"
    command = ["tune", "merge", *map(str, paths), "-o", str(output)]
    assert main(command) == 1
    assert "--device" in capsys.readouterr().err
    assert main([*command, "--device", "b"]) == 0
    first = output.read_bytes()
    output.unlink()
    assert main(["tune", "merge", *map(str, paths[::-1]), "-o", str(output), "--device", "b"]) == 0
    assert output.read_bytes() == first
    assert database.load(output).device == "b"


def test_the_step_may_be_left_out():
    assert with_step(["tune", "a.onnx", "-x"]) == ["tune", "models", "a.onnx", "-x"]
    assert with_step(["--debug", "tune", "a"]) == ["--debug", "tune", "models", "a"]
    assert with_step(["tune"]) == ["tune", "models"]
    for given in (["tune", "-h"], ["tune", "merge", "r"], ["run", "tune"], []):
        assert with_step(given) == given


@needs_nvrtc
def test_the_best_few_are_chosen_in_the_whole_model(
    model: Path, device: RecordingDriver, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    """The device likes the third best GEMM config; the database then has it first, and says why."""
    (kernel,) = [
        kernel
        for kernel in prepare_bundle([("", model)], ["tf32"], "sm_90", 8).kernels
        if problem_fields(kernel.key)["template"] == "gemm"
    ]
    tiles = [candidate.config for candidate in kernel.candidates if len(candidate.launches) == 1][
        :4
    ]
    assert len(tiles) == 4
    version = full_version(kernel.version, nvrtc_version())
    measured = tuple(Measured(tile, 1e3 + i, 1e3 + i) for i, tile in enumerate(tiles))
    entry = Entry(kernel.key, "sm_90/132 recorder", version, measured)
    database.save(database.user_file("sm_90"), Database([entry], entry.device))
    liked = tiles[2]

    def timed(loaded: Sequence[Any]) -> list[Timing]:
        times = [
            900.0 if liked in tiles_of(executable, kernel, tiles) else 1000.0
            for executable in loaded
        ]
        return [Timing(time, time - 1, time + 1, 50) for time in times]

    monkeypatch.setattr(in_context, "_timed", timed)
    monkeypatch.setattr(tune, "_measure", nothing)
    monkeypatch.setattr("compiler.autotune.schedule.DEFAULT_BUDGET", 0.0)
    assert main(["tune", str(model), "--in-context", "5", "--candidates", "2"]) == 0
    said = capsys.readouterr().out
    assert "0.0010 ms to 0.0009 ms in the whole model, 1 kernels changed in" in said
    (found,) = database.load(database.user_file("sm_90")).entries
    assert found.context is not None
    assert (found.context.config, found.context.model) == (liked, "small.onnx")
    assert found.context.gain == pytest.approx(0.1)
    assert found.configs == measured


def tiles_of(loaded: Any, kernel: Any, tiles: Sequence[Any]) -> set[Any]:
    """The configs of the GEMMs that a module launches, by their grids and blocks."""
    shapes = {
        (
            candidate.launches[0].grid,
            candidate.launches[0].block,
            candidate.launches[0].shared_bytes,
        ): candidate.config
        for candidate in kernel.candidates
        if candidate.config in tiles
    }
    launches = [launch for spec in loaded._programs.kernels.values() for launch in spec.launches]
    found = {shapes.get((x.grid, x.block, x.shared_bytes)) for x in launches}
    return found - {None}
