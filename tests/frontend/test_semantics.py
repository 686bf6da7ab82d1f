"""A model follows the ONNX text or onnxruntime, as chosen; without a choice a warning says so."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import compiler
from compiler.errors import ArgumentError, ArtifactError, SemanticsWarning, ShapeError
from compiler.frontend.semantics import PYTORCH, SEMANTICS_RULES, Semantics
from compiler.tools.cli import main
from tests.frontend.semantics_example import Array, Example
from tests.frontend.semantics_examples import EXAMPLES

TEXT = [example for example in EXAMPLES if example.by_the_text is not None]
FIRST = EXAMPLES[0]
"""Of a rule that every interface is tried with."""


def compiled(example: Example, **options: Any) -> Any:
    """The module of an example, which measures nothing."""
    return compiler.compile(example.model(), budget=0, **options)


def results(example: Example, **options: Any) -> list[Array]:
    """The outputs of an example without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return list(compiled(example, **options).run(example.feeds).values())


def assert_same(found: list[Array], expected: list[Array]) -> None:
    """Compare types and shapes exactly, floats but for rounding."""
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(one, other)


def test_every_rule_has_an_example():
    assert {example.rule for example in EXAMPLES} == {rule.name for rule in SEMANTICS_RULES}


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_model_follows_onnxruntime(example: Example):
    assert_same(results(example, semantics={example.rule: "onnxruntime"}), example.by_onnxruntime())


@pytest.mark.parametrize("example", TEXT, ids=str)
def test_a_model_follows_the_text(example: Example):
    (found, *_), (other, *_) = results(example, semantics="onnx"), example.by_onnxruntime()
    assert example.by_the_text is not None
    expected = example.by_the_text(example)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert found.shape != other.shape or np.abs(found - other.astype(np.float64)).max() > 1e-2


@pytest.mark.parametrize("example", TEXT, ids=str)
def test_without_a_choice_a_warning_says_so(example: Example):
    with pytest.warns(SemanticsWarning) as told:
        compiled(example)
    (warning,) = told
    message = str(warning.message)
    assert message.startswith(f"{example.operator} 'node' meets the rule {example.rule}: ")
    assert f"semantics={{{example.rule!r}: 'onnxruntime' or 'onnx'}}" in message
    assert f"--semantics {example.rule}=onnxruntime" in message
    assert warning.filename == __file__


@pytest.mark.parametrize("options", [{}, {"semantics": "onnx"}])
def test_what_the_text_refuses_says_how_to_choose(options: dict[str, Any]):
    (example,) = (example for example in EXAMPLES if example.by_the_text is None)
    with pytest.raises(ShapeError, match=f"semantics={{'{example.rule}': 'onnxruntime'}}"):
        compiled(example, **options)


@pytest.mark.parametrize(("height", "scales"), [(4, [1, 1, 2, 0.5]), (1, [1, 1, 1.5, 0.3])])
def test_where_results_agree_there_is_no_warning(height: int, scales: list[float]):
    """Whole sizes, an axis of one element, and a result of one."""
    x = np.arange(height * 4, dtype=np.float32).reshape(1, 1, height, 4)
    inputs = {"x": x, "roi": None, "scales": np.array(scales, np.float32)}
    example = Example("", "Resize", FIRST.attributes, inputs, None, ("scales",))
    assert_same(results(example), example.by_onnxruntime())


@pytest.mark.parametrize("scales", [[1, 1], [1, 1.1]])
def test_integers_that_keep_their_sizes_are_not_interpolated(scales: list[float]):
    """An axis of one element keeps it by any scale."""
    x = np.arange(3, dtype=np.uint8).reshape(3, 1)
    inputs = {"x": x, "roi": None, "scales": np.array(scales, np.float32)}
    example = Example("", "Resize", {"mode": "linear"}, inputs, None, ("scales",))
    assert_same(results(example), example.by_onnxruntime())


def test_rules_are_chosen_one_by_one():
    chosen = Semantics.parse({"lstm-clip-cell": "onnx", "*": "onnxruntime"})
    ways = {rule.name: chosen.way(rule) for rule in SEMANTICS_RULES}
    assert ways.pop("lstm-clip-cell") == "onnx"
    assert {*ways.values()} == {"onnxruntime"}
    assert Semantics.parse(str(chosen)) == chosen
    assert Semantics.parse("onnxruntime, lstm-clip-cell=onnx") == chosen
    assert {Semantics.parse(None).way(rule) for rule in SEMANTICS_RULES} == {None}
    assert {*PYTORCH} < {rule.name for rule in SEMANTICS_RULES}


@pytest.mark.parametrize(
    ("semantics", "message"),
    [
        ({"lstm-clip": "onnx"}, "unknown rule 'lstm-clip': did you mean 'lstm-clip-cell'"),
        ("cell=onnx", "unknown rule 'cell'"),
        ({"lstm-clip-cell": "torch"}, "lstm-clip-cell is 'torch': it is 'onnx' or 'onnxruntime'"),
        ("ort", "of all rules is 'ort'"),
        ("lstm-clip-cell", "'lstm-clip-cell' without a way: write lstm-clip-cell=onnx"),
        ("onnx,onnxruntime", "a way for all rules twice"),
        ("onnx,lstm-clip-cell=onnx, lstm-clip-cell=onnxruntime", "for lstm-clip-cell twice"),
        (3, "semantics is int 3"),
        ({3: "onnx"}, "semantics is dict"),
    ],
)
def test_wrong_choices_are_refused(semantics: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        compiled(FIRST, semantics=semantics)


OPEN = [example for example in EXAMPLES if example.free]


@pytest.mark.parametrize("example", OPEN, ids=str)
def test_open_sizes_have_their_warning_before_a_run(example: Example):
    with pytest.warns(SemanticsWarning, match=example.rule) as told:
        module = compiler.compile(example.model(is_open=True), budget=0)
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # each node has one warning
        module.run(example.feeds)


def test_open_sizes_that_meet_no_rule_have_no_warning():
    scales = np.array([1, 1, 2, 3], np.float32)
    inputs = {**FIRST.inputs, "scales": scales}
    args = FIRST.attributes, inputs, None, ("scales",)
    example = Example("", "Resize", *args, free={"x": ("batch", 1, "height", "width")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiler.compile(example.model(is_open=True), budget=0)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("way", ["onnx", "onnxruntime"])
def test_a_saved_module_keeps_what_was_chosen(tmp_path: Path, is_open: bool, way: str):
    model = FIRST.model(is_open)
    module = compiler.compile(model, budget=0, semantics={FIRST.rule: way})
    other = {**FIRST.feeds, "x": np.concatenate([FIRST.feeds["x"]] * 2)}
    expected = module.run(FIRST.feeds)["y0"]
    module.save(tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = compiler.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.run(FIRST.feeds)["y0"], expected)
    if is_open:  # sizes that were not compiled before it was saved
        np.testing.assert_allclose(again.run(other)["y0"][1:], expected, rtol=1e-5, atol=1e-6)


def test_scales_that_runs_give_follow_onnxruntime():
    inputs = {**FIRST.inputs, "scales": np.array([1, 1, 1, 1], np.float32)}
    example = Example("", "Resize", FIRST.attributes, inputs, None)
    module = compiler.compile(example.model(), budget=0, semantics="onnxruntime")
    silent = compiler.compile(example.model(), budget=0)
    for scale in (0.6, 0.8, 1.3, 2.7, 0.7, 0.9, 1.1, 1.7, 2.1, 2.3):
        feeds = {**example.feeds, "scales": np.array([1, 1, scale, scale], np.float32)}
        other = Example("", "Resize", FIRST.attributes, {**inputs, **feeds}, None)
        assert_same([*module.run(feeds).values()], other.by_onnxruntime())
        if scale == 0.6:
            with pytest.warns(SemanticsWarning, match=FIRST.rule):
                silent.run(feeds)


def test_a_program_without_a_choice_has_had_its_warning(tmp_path: Path):
    with pytest.warns(SemanticsWarning):
        module = compiler.compile(FIRST.model(is_open=True), budget=0)
    module.save(tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compiler.load(tmp_path / "saved").run(FIRST.feeds)
    assert_same([*found.values()], results(FIRST, semantics="onnx"))


def test_a_program_whose_choice_was_edited_is_damaged(tmp_path: Path):
    module = compiler.compile(FIRST.model(is_open=True), budget=0, semantics="onnx")
    module.save(tmp_path / "saved")
    manifest = tmp_path / "saved" / "program.json"
    manifest.write_text(manifest.read_text().replace('"*": "onnx"', '"no-rule": "onnx"'))
    with pytest.raises(ArtifactError, match=r"program\.json is damaged"):
        compiler.load(tmp_path / "saved")


def test_bodies_and_functions_are_named_and_follow():
    text = """<ir_version: 8, opset_import: ["": 21, "local": 1]>
        g (float[1, 1, 3] x, float[1, 1, 2] w, bool c) => (float[a, b, d] y) {
            y = If (c) <
                then_branch = g1 () => (float[a, b, d] t) {
                    [inside] t = local.up (x, w)
                },
                else_branch = g2 () => (float[a, b, d] e) { e = Neg (x) }
            >
        }
        <domain: "local", opset_import: ["": 21]>
        up (x, w) => (y) {
            [called] y = ConvTranspose <auto_pad = "SAME_UPPER", strides = [4]> (x, w)
        }
    """
    model = parser.parse_model(text)
    x, w = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32)
    feeds = {"x": x, "w": w, "c": np.array(True)}
    with pytest.warns(SemanticsWarning, match=r"called.*conv-transpose-same-short-kernel"):
        module = compiler.compile(model, budget=0)
    assert module.run(feeds)["y"].shape == (1, 1, 12)
    module = compiler.compile(model, budget=0, semantics="onnxruntime")
    assert module.run(feeds)["y"].shape == (1, 1, 10)


def test_a_session_is_onnxruntimes_without_a_choice():
    session = compiler.InferenceSession(FIRST.model().SerializeToString())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(session.run(None, FIRST.feeds), FIRST.by_onnxruntime())
    options = {"flowloom_semantics": f"{FIRST.rule}=onnx"}
    session = compiler.InferenceSession(
        FIRST.model().SerializeToString(), providers=[("CPUExecutionProvider", options)]
    )
    assert_same(session.run(None, FIRST.feeds), results(FIRST, semantics="onnx"))


def test_onnxs_backend_interface_has_the_text():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = compiler.backend.run_model(FIRST.model(), [*FIRST.feeds.values()])
    assert_same([found], results(FIRST, semantics="onnx"))


def test_the_command_line_warns_and_chooses(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, given, out = (str(tmp_path / name) for name in ("m.onnx", "in.npz", "out.npz"))
    Path(path).write_bytes(FIRST.model().SerializeToString())
    np.savez(given, allow_pickle=False, **FIRST.feeds)
    run = ["run", path, "--inputs", given, "--outputs", out, "--budget", "0"]
    assert main(run) == 0
    assert (
        f"flowloom: warning: Resize 'node' meets the rule {FIRST.rule}" in capsys.readouterr().err
    )
    assert main([*run, "--semantics", "onnx", "--semantics", f"{FIRST.rule}=onnxruntime"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert_same([np.load(out)["y0"]], FIRST.by_onnxruntime())
    assert main([*run, "--semantics", "resize-align-corners=onnx"]) == 1
    assert "did you mean 'resize-align-corners-scale'" in capsys.readouterr().err


def test_indices_of_a_cropped_pool_are_those_of_the_whole_image():
    attributes = {"auto_pad": "SAME_LOWER", "kernel_shape": [1, 2], "strides": [5, 3]}
    x = np.arange(2 * 9 * 7, dtype=np.float32).reshape(1, 2, 9, 7)
    example = Example("pool-same-pads", "MaxPool", attributes, {"x": x}, None, outputs=2)
    found = results(example, semantics="onnxruntime")
    assert_same(found, example.by_onnxruntime())
    np.testing.assert_array_equal(x.reshape(-1)[found[1]], found[0])
