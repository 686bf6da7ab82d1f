"""The decisions of the benchmark against the peers that need no device."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import gpu_peers
from benchmarks.peers import results
from benchmarks.peers.floor import Demand, demand_of
from benchmarks.peers.opara import allocate_streams, crossings
from benchmarks.peers.timing import ROUNDS, WARM_UP, take_turns
from compiler.errors import DeviceError
from compiler.frontend.importing import import_model
from examples import zoo
from examples.zoo.export import BUILDERS


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Operands of each operator of a random graph in topological order."""
    size = draw(st.integers(1, 20))
    pick = [st.lists(st.integers(0, max(0, v - 1)), max_size=4 if v else 0) for v in range(size)]
    return [draw(operands) for operands in pick]


def test_a_chain_stays_on_one_stream():
    assert allocate_streams([[], [0], [1], [2]]) == [0, 0, 0, 0]


def test_branches_get_separate_streams_and_their_sum_takes_the_first():
    operands = [[], [0], [0], [0], [2, 1, 3]]
    streams = allocate_streams(operands)
    assert streams == [0, 0, 1, 2, 1]
    assert crossings(operands, streams) == [(), (), (0,), (0,), (1, 3)]


@given(graphs())
@settings(max_examples=100)
def test_every_stream_is_a_path_and_every_other_operand_is_awaited(operands: list[list[int]]):
    streams = allocate_streams(operands)
    last: dict[int, int] = {}
    for operator, stream in enumerate(streams):
        assert stream not in last or last[stream] in operands[operator]
        last[stream] = operator
    for reads, waits, stream in zip(operands, crossings(operands, streams), streams, strict=True):
        assert set(waits) == {read for read in reads if streams[read] != stream}


def test_contenders_take_turns_and_one_that_fails_does_not_stop_the_rest():
    ran: list[str] = []
    failures: dict[str, str] = {}

    def clock(name: str, limit: int) -> float:
        ran.append(name)
        if ran.count(name) > limit:
            raise ValueError("lost")
        return float(ran.count(name))

    def failed(name: str, error: Exception) -> None:
        failures[name] = str(error)

    clocks = {
        "steady": {"device": lambda: clock("steady", 1000)},
        "broken": {"device": lambda: clock("broken", 30)},
    }
    found = take_turns(clocks, 50, failed)
    assert failures == {"broken": "lost"}
    assert list(found) == ["steady"]
    assert found["steady"]["device"].count == 50
    assert ran.count("steady") == 50 + WARM_UP + ROUNDS - 1
    assert "broken" in ran[ran.index("steady") : len(ran) - ran[::-1].index("steady")]


def row(model: str, **contenders: dict[str, Any]) -> results.Row:
    """A row of a model at batch 1 in TF32."""
    key = {"model": model, "batch": 1, "precision": "tf32", "weights": "zoo"}
    return {**key, "references_differ": 1e-6, "floor_us": 10.0, "contenders": contenders}


def timed(device: float, wall: float, **more: Any) -> dict[str, Any]:
    """A contender's figures."""
    return {"times": {"device": {"median": device}, "wall": {"median": wall}}, **more}


def test_rows_are_kept_replaced_and_skipped(tmp_path: Path):
    file = tmp_path / "rows.json"
    first = row("unet", eager=timed(2.0, 3.0))
    results.write(file, first, {"gpu": "some"})
    results.write(file, row("bert128", eager=timed(5.0, 6.0), ours=timed(1.0, 2.0)), {})
    again = row("unet", eager={"error": "KernelError: lost"}, ours=timed(1.0, 2.0))
    results.write(file, again, {"driver": "1.2"})
    content = results.read(file)
    assert content["machine"] == {"gpu": "some", "driver": "1.2"}
    assert [found["model"] for found in content["rows"]] == ["bert128", "unet"]
    assert content["rows"][1] == again
    assert list(tmp_path.iterdir()) == [file]
    key = results.key_of(first)
    assert results.finished(content["rows"], key, ["ours", "eager"])
    assert not results.finished(content["rows"], key, ["ours", "compile"])
    assert not results.finished(content["rows"], ("unet", 16, "tf32", "zoo"), ["ours"])


def asked(file: Path, **more: Any) -> argparse.Namespace:
    """Options that ask for UNet and BERT in both precisions."""
    fixed = {"batch": [1], "precision": ["tf32", "fp16"], "weights": "zoo", "contenders": ["ours"]}
    models = {"models": ["unet", "bert128"], "contender_seconds": 1.0}
    return argparse.Namespace(json=file, **{**fixed, **models, **more})


def test_only_missing_rows_are_pending_and_a_failure_can_be_tried_again(tmp_path: Path):
    file = tmp_path / "rows.json"
    results.write(file, {**row("unet", ours={"error": "killed"}), "error": "killed"}, {})
    results.write(file, row("bert128", ours={"error": "no file"}, eager=timed(1.0, 2.0)), {})
    results.write(file, row("deepfm", ours=timed(1.0, 2.0), eager={"error": "no"}), {})
    options = asked(file)
    assert gpu_peers.pending("unet", options) == [("unet", 1, "fp16", "zoo")]
    assert [results.lacks_ours(r) for r in results.read(file)["rows"]] == [["ours"], ["ours"], []]
    results.forget_failed(file)
    assert gpu_peers.pending("unet", options) == gpu_peers.keys_of("unet", options)
    assert [r["model"] for r in results.read(file)["rows"]] == ["deepfm"]


class Children:
    """In place of processes: each measures pending rows until one of which it is said to die."""

    def __init__(self, options: argparse.Namespace, dying: dict[results.Key, str]) -> None:
        self.options, self.dying = options, dying
        self.limits: list[float] = []

    def __call__(self, model: str, options: argparse.Namespace, task: str, seconds: float) -> str:
        assert task == "measure"
        self.limits.append(seconds)
        for key in gpu_peers.pending(model, options):
            if key in self.dying:
                return self.dying[key]
            found = {**results.fields(key), "contenders": {"ours": timed(1.0, 2.0)}}
            results.write(options.json, found, {})
        return ""


def test_a_row_that_dies_or_hangs_is_given_up_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = asked(tmp_path / "rows.json")
    dying = {
        ("unet", 1, "tf32", "zoo"): "the process ended with status -11",
        ("bert128", 1, "tf32", "zoo"): gpu_peers.OUT_OF_TIME,
    }
    children = Children(options, dying)
    monkeypatch.setattr(gpu_peers, "child", children)
    gpu_peers.run_all(options, float("inf"))
    found = {results.key_of(r): r.get("error") for r in results.read(options.json)["rows"]}
    assert found == {
        key: dying.get(key) for model in options.models for key in gpu_peers.keys_of(model, options)
    }
    assert children.limits == [gpu_peers.longest(n, options) for n in (2, 1, 2, 1)]


def test_when_time_is_over_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    options = asked(tmp_path / "rows.json")
    children = Children(options, {("unet", 1, "fp16", "zoo"): gpu_peers.OUT_OF_TIME})
    monkeypatch.setattr(gpu_peers, "child", children)
    gpu_peers.run_all(options, gpu_peers.monotonic() + 60)
    assert "out of time at unet" in capsys.readouterr().out
    assert [results.key_of(r) for r in results.read(options.json)["rows"]] == [
        ("unet", 1, "tf32", "zoo")
    ]
    gpu_peers.run_all(options, gpu_peers.monotonic() + 5)
    assert len(children.limits) == 1


def test_what_lacks_is_said_before_any_row_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def no_device() -> None:
        raise DeviceError("no driver")

    def nothing(name: str) -> None:
        return None

    file = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["gpu_peers.py", "--models", "unet", "--json", str(file)])
    monkeypatch.setattr("compiler.backends.cuda.device.device", no_device)
    monkeypatch.setattr(gpu_peers, "find_spec", nothing)
    with pytest.raises(SystemExit, match=r"needs torch, timm, .*: install them with pip"):
        gpu_peers.main()
    monkeypatch.setattr(gpu_peers, "find_spec", str)
    with pytest.raises(SystemExit, match="needs a CUDA device: no driver"):
        gpu_peers.main()
    assert not file.exists()


def test_files_of_other_batch_sizes_are_looked_for_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A model may have no batch dimension; that none has a file is a wrong folder."""
    given = argparse.Namespace(
        contenders=["compile", "ours"], batch=[1, 16], models=["unet", "rnntc_sru"],
        weights="zoo", exported=tmp_path,
    )  # fmt: skip
    for change in ({"contenders": ["opara"]}, {"batch": [1]}, {"weights": "torch"}):
        gpu_peers.check_files(argparse.Namespace(**vars(given) | change))
    with pytest.raises(
        SystemExit, match=r"has no file 16/NAME.light.onnx: .*zoo.export --batch 16"
    ):
        gpu_peers.check_files(given)
    (tmp_path / "16").mkdir()
    (tmp_path / "16" / "unet.light.onnx").touch()
    gpu_peers.check_files(given)
    assert capsys.readouterr().out == "no file at batch 16, so no figure of ours: rnntc_sru\n"


def test_a_child_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / "hangs.py"
    script.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(gpu_peers, "__file__", str(script))
    monkeypatch.setattr(sys, "argv", ["gpu_peers.py"])
    assert gpu_peers.child("unet", asked(tmp_path), "measure", 0.5) == gpu_peers.OUT_OF_TIME
    script.write_text("import os\nos.kill(os.getpid(), 11)\n")
    assert gpu_peers.child("unet", asked(tmp_path), "measure", 60) == (
        "the process ended with status -11"
    )


def test_the_table_shows_times_failures_wrong_outputs_and_the_best_peer():
    rows = [
        row(
            "unet",
            eager=timed(200.0, 210.0, correct=True),
            compile=timed(80.0, 90.0, correct=False, facts={"kernels": 12, "busy_us": 70.0}),
            ours=timed(40.0, 50.0, facts={"kernels": 9, "critical_path_us": 33.0}),
        ),
        row("bert128", eager={"error": "RuntimeError: no"}),
    ]
    head, first, second = results.table(rows, "device").splitlines()
    assert head.split()[:6] == ["model", "b", "prec", "eager", "compile", "ours"]
    assert first.split()[3:7] == ["200.0", "80.0", "40.0", "2.00x"]
    assert first.endswith("WRONG: compile, same weights")
    assert second.split()[3:6] == ["failed", "-", "-"]
    assert second.endswith("nothing")
    assert "1.80x" in results.table(rows, "wall")
    assert "bert128 batch 1 tf32 eager: RuntimeError: no" in results.notes(rows)
    assert results.wrong(rows[0]) == ["compile"]


def test_the_floor_counts_gemms_in_a_row_arithmetic_and_weights():
    graph = onnx.parser.parse_graph(
        "agraph (float[4, 8] x) => (float[4, 8] y) "
        "{ a = MatMul(x, w) b = Relu(a) c = MatMul(x, w) d = MatMul(b, w) y = Add(c, d) }"
    )
    weight = np.ones((8, 8), np.float32)
    graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    found = demand_of(import_model(model))
    assert found == Demand(flops=3 * 2 * 4 * 8 * 8, weights=64, depth=2)
    assert found.floor_us(4) == 4.0
    assert Demand(flops=int(8e9), weights=1, depth=1).floor_us(4) == pytest.approx(20.0)
    assert Demand(flops=1, weights=int(43e6), depth=1).floor_us(2) == pytest.approx(20.0)


def test_the_command_line_needs_no_torch_to_print_a_table(tmp_path: Path):
    file = tmp_path / "rows.json"
    results.write(file, row("unet", eager=timed(200.0, 210.0, correct=True)), {"gpu": "some"})
    command = [sys.executable, gpu_peers.__file__, "--table", "--json", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "200.0" in ran.stdout
    assert "210.0" in ran.stdout


def test_peers_are_built_of_all_networks_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Without PyTorch: what stands for it accepts every call."""
    names = ("torch", "torch._dynamo", "torch._dynamo.config", "torch.profiler")
    batch_norm = ("torch.nn", "torch.nn.modules", "torch.nn.modules.batchnorm")
    fakes = {name: MagicMock(Tensor=np.ndarray) for name in (*names, *batch_norm)}
    built: Any = MagicMock(return_value=(MagicMock(), (MagicMock(),)))
    networks = [*zoo.names(), *zoo.others()]
    with patch.dict(sys.modules, fakes), patch.dict(BUILDERS, dict.fromkeys(BUILDERS, built)):
        from benchmarks.peers.case import build

        assert [build(name, 1, "own", None).name for name in networks] == networks
    for name in reversed(networks):
        results.write(tmp_path / "rows.json", row(name, ours=timed(1.0, 2.0)), {"gpu": "some"})
    gpu_peers.show(argparse.Namespace(json=tmp_path / "rows.json"))
    table = capsys.readouterr().out.split("microseconds, wall")[0].splitlines()[4:]
    assert [line.split()[0] for line in table if line] == networks
