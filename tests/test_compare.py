"""`flowloom compare` times pipelines, policies, artifacts and other runtimes in turns."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

import compiler
from compiler.display.intervals import intervals_svg
from compiler.errors import ArgumentError, MissingExtraError, PipelineError
from compiler.passes.pipeline import DEFAULT_PIPELINE
from compiler.schedule.choices import Timing
from compiler.tools import contest, peers
from compiler.tools.cli import main
from compiler.tools.contest import ContenderTime, Contest, as_table, hold, read_contender

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
agraph (float[16,32] x) => (float[16,32] y) {
    a = Exp(x)
    b = Neg(x)
    c = Tanh(b)
    d = ReduceSum(a)
    e = Mul(c, d)
    y = Add(a, e)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small model with two branches."""
    path = tmp_path / "small.onnx"
    path.write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    return path


def compared(capsys: pytest.CaptureFixture[str], *line: Any) -> dict[str, Any]:
    """The object that the command prints for programs."""
    assert main(["compare", *map(str, line), "--duration", "0.05", "--json", "-q"]) == 0
    return json.loads(capsys.readouterr().out)


def test_pipelines_policies_artifacts_and_runtimes(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    artifact, plot = tmp_path / "built", tmp_path / "plot.svg"
    compiler.compile(model).save(artifact)
    schedule = "assign-streams{policy=ios streams=2},order-launches{policy=source}"
    line = ["flowloom", "sequential", schedule, artifact, "onnxruntime"]
    printed = compared(capsys, model, *line, "--plot", plot, "--threads", 1)
    rows = printed["contenders"]
    assert [row["name"] for row in rows] == [*map(str, line)]
    assert all(0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"] for row in rows)
    assert set(printed["versions"]) == {"flowloom", "onnxruntime"}
    assert len(ElementTree.parse(plot).findall("{*}rect")) == len(line)


def test_two_artifacts_need_no_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        compiler.compile(model).save(folder)
    assert compared(capsys, *folders)["model"] is None


def test_a_model_alone_is_compared_with_the_runtimes_that_are_here(
    model: Path, capsys: pytest.CaptureFixture[str]
):
    names = [row["name"] for row in compared(capsys, model)["contenders"]]
    assert names == ["flowloom", *peers.present()]


def test_a_policy_is_the_default_pipeline_with_it(tmp_path: Path):
    read = read_contender("nimble").pipeline
    assert read is not None
    assert 'assign-streams{policy="nimble"}' in read
    assert read.count(",") == DEFAULT_PIPELINE.count(",")
    file = tmp_path / "own.py"
    file.write_text("def one_stream(dag, placement, streams):\n    return None\n")
    assert f"{file}:one_stream" in str(read_contender(f"{file}:one_stream").pipeline)
    assert read_contender(DEFAULT_PIPELINE).pipeline == DEFAULT_PIPELINE


@pytest.mark.parametrize(
    ("text", "kind", "advice"),
    [
        ("sequental", ArgumentError, "did you mean 'sequential'"),
        ("absent.py:policy", PipelineError, "there is no file"),
        ("assign-streams{policy=ioss}", PipelineError, "ioss"),
        ("verify-nothing{x=1}", ArgumentError, "neither a policy"),
        ('import-schedule{file="a.json"}', ArgumentError, "write the whole pipeline"),
    ],
)
def test_an_unknown_contender_is_refused_before_anything_is_compiled(
    text: str, kind: type[Exception], advice: str
):
    with pytest.raises(kind, match=advice):
        read_contender(text)


def test_a_runtime_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)  # pyright: ignore
    with pytest.raises(MissingExtraError, match="pip install openvino"):
        read_contender("openvino")


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (["MODEL", "flowloom", "flowloom"], "named twice"),
        (["MODEL", "onnxruntime"], "add flowloom"),
        (["DIR", "onnxruntime"], "name its ONNX file first"),
    ],
)
def test_contenders_that_cannot_be_compared_are_refused(
    model: Path, line: list[str], advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    paths = {"MODEL": str(model), "DIR": str(tmp_path)}
    assert main(["compare", *(paths.get(word, word) for word in line)]) == 1
    assert advice in capsys.readouterr().err


def test_other_outputs_are_a_problem_and_no_time(model: Path, monkeypatch: pytest.MonkeyPatch):
    real = contest.prepare_peer

    def shifted(*given: Any, **named: Any) -> peers.ModelRun:
        run = real(*given, **named)
        return lambda: {name: array + np.float32(0.5) for name, array in run().items()}

    monkeypatch.setattr(contest, "prepare_peer", shifted)
    contenders = [read_contender(name) for name in ("flowloom", "onnxruntime")]
    ours, peer = hold(Contest(model, contenders), 0.02)
    assert ours.timing is not None
    assert not ours.problem
    assert peer.timing is None
    assert "its outputs are not those of flowloom: FAIL y" in peer.problem


def test_the_coarser_of_two_precisions_bounds_the_difference(tmp_path: Path):
    products = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[16,64] x) => (float[16,64] y)'
        " { a = MatMul (x, w) y = MatMul (a, w) }"  # `a` is stored in 16 bits
    )
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    products.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    for precision in ("fp32", "bf16"):
        compiler.compile(products, precision=precision).save(tmp_path / precision)
    for order in (("fp32", "bf16"), ("bf16", "fp32")):
        contenders = [read_contender(str(tmp_path / precision)) for precision in order]
        assert all(entry.timing for entry in hold(Contest(None, contenders), 0.02)), order


def test_without_a_module_nothing_says_the_shapes(model: Path, tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text("def broken(*arguments):\n    raise KeyError('dag')\n")
    contenders = [read_contender(name) for name in ("onnxruntime", f"{file}:broken")]
    with pytest.raises(ArgumentError, match="name some with --inputs"):
        hold(Contest(model, contenders), 0.02)


def test_a_contender_that_fails_has_a_line_and_the_others_a_time(model: Path, tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text("def broken(*arguments):\n    raise KeyError('dag')\n")
    contenders = [read_contender(name) for name in ("flowloom", f"{file}:broken")]
    ours, own = hold(Contest(model, contenders), 0.02)
    assert ours.timing is not None
    assert own.timing is None
    assert "dag" in own.problem
    with pytest.raises(PipelineError, match="dag"):
        hold(Contest(model, contenders[::-1]), 0.02)


def test_a_users_pass_is_for_the_pipelines_that_name_it(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "own.py"
    file.write_text(
        "from compiler.passes.base import SchedulePass\n\n\n"
        "class Nothing(SchedulePass):\n"
        "    name = 'nothing'\n\n"
        "    def apply(self, ctx, op):\n"
        "        print('applied')\n"
    )
    own = f"nothing,{DEFAULT_PIPELINE}"
    line = ["compare", str(model), "flowloom", own, "--pass", f"{file}:Nothing", "-q"]
    assert main([*line, "--duration", "0.05"]) == 0
    assert "applied" in capsys.readouterr().out


def test_the_table_has_the_ratios_intervals():
    timings = [Timing(4e6, 3e6, 5e6, 9), Timing(2e6, 1e6, 2.5e6, 9)]
    entries = [ContenderTime(name, t, "", 0.5) for name, t in zip("ab", timings, strict=True)]
    table = as_table([*entries, ContenderTime("c", None, "it fails", 0.0)]).splitlines()
    assert "2.00 (1.20 to 5.00)" in table[2]
    assert table[3] == "c  it fails"


def test_the_plot_is_valid_and_in_proportion():
    timings = {"a <b>": Timing(4e6, 3e6, 5e6, 9), "c": Timing(2e6, 1e6, 2.5e6, 9)}
    drawn = ElementTree.fromstring(intervals_svg(timings))
    wide, narrow = (float(bar.attrib["width"]) for bar in drawn.findall("{*}rect"))
    assert wide == pytest.approx(2 * narrow, rel=0.01)
    assert ElementTree.fromstring(intervals_svg({})) is not None
