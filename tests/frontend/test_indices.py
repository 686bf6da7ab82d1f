"""Indices that are data: constants out of range are refused, others can be reported."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import InputDataError, ModelError, ShapeError
from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from compiler.ir.groups import graph_of
from compiler.schedule.tasks import IN_RANGE
from compiler.tools.cli import main
from tests.frontend.checks import parse, run
from tests.frontend.contrib.checks import fed, model_of, normal

CASES = {
    "Gather": ("float[4,5] x, int64[3] i", "Gather<axis=1>(x, i)", [-5, 0, 4], [0, 5, 1]),
    "Gather of one": ("float[4] x, int64 i", "Gather(x, i)", -4, -5),
    "GatherElements": (
        "float[2,3] x, int32[1,3] i",
        "GatherElements(x, i)",
        [[-2, 0, 1]],
        [[0, 0, 2]],
    ),
    "GatherND": ("float[2,3] x, int64[1,2] i", "GatherND(x, i)", [[-2, 2]], [[2, 0]]),
    "ScatterElements": (
        "float[3] x, int64[1] i",
        "ScatterElements(x, i, u)",
        [2],
        [3],
    ),
    "ScatterND": ("float[2,3] x, int64[1,2] i", "ScatterND(x, i, u)", [[1, -3]], [[1, -4]]),
    "ReverseSequence": ("float[4,2] x, int64[2] i", "ReverseSequence(x, i)", [0, 4], [1, 99]),
    "GRU": ("float[3,2,1] x, int32[2] i", "GRU<hidden_size=1>(x, w, w, , i)", [0, 3], [3, -1]),
}

ROWS, WIDE = normal(4, 3), normal(4, 8)
IMAGE, CACHES = normal(2, 1, 4, 4), normal(5, 4)

REWRITTEN: dict[str, tuple[str, int, list[Any], Any, Any, dict[str, Any]]] = {
    "ArrayFeatureExtractor": ("ai.onnx.ml", 1, [ROWS, None], [2, 0], [2, -1], {}),
    "TensorScatter": ("", 2, [IMAGE, IMAGE[:, :, :2], None], [0, 2], [0, 3], {"axis": 2}),
    "MaxUnpool": ("", 1, [IMAGE[:1, :, :1, :2], None], [[[[5, 0]]]], [[[[8, 0]]]], {
        "kernel_shape": [2, 2], "strides": [2, 2]}),
    "RoiAlign": ("", 2, [IMAGE, np.ones((2, 4), np.float32), None], [1, 0], [2, 0], {
        "sampling_ratio": 1}),
    "GatherND": ("com.microsoft", 1, [ROWS, None], [[-4, 2]], [[0, 3]], {}),
    "RotaryEmbedding": ("com.microsoft", 1, [normal(1, 2, 2, 8), None, CACHES, CACHES],
        [[0, 4]], [[0, 5]], {}),
    "RotaryEmbedding of one": ("com.microsoft", 1, [normal(1, 2, 2, 8), None, CACHES, CACHES],
        [3], [4], {}),
    "EmbedLayerNormalization": ("com.microsoft", 0,
        [None, None, WIDE, WIDE, None, WIDE[0], WIDE[0]], [[3, 0]], [[4, 0]], {}),
    "EmbedLayerNormalization of segments": ("com.microsoft", 1,
        [np.zeros((1, 2), np.int32), None, WIDE, WIDE, WIDE[:2], WIDE[0], WIDE[0]],
        [[1, 0]], [[2, 0]], {}),
    "EmbedLayerNormalization of positions": ("com.microsoft", 8,
        [np.zeros((1, 2), np.int32), None, WIDE, WIDE[:3], None, WIDE[0], WIDE[0], None, None],
        [[2, 0]], [[-1, 0]], {}),
    "GatherBlockQuantized": ("com.microsoft", 1,
        [np.ones((3, 16), np.uint8), None, np.ones((3, 2), np.float32)], [-3, 2], [0, 3],
        {"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 1}),
    "GroupQueryAttention": ("com.microsoft", 5,
        [normal(1, 1, 16), normal(1, 1, 16), normal(1, 1, 16), normal(1, 2, 6, 8),
         normal(1, 2, 6, 8), None, np.array(4, np.int32)], [5], [6],
        {"num_heads": 2, "kv_num_heads": 2}),
}  # fmt: skip
"""Operators that rules write as others: the input of indices, valid ones and others."""


def rewritten(name: str, indices: Any, constant: bool) -> tuple[onnx.ModelProto, Any]:
    """A model of a node of `REWRITTEN` with these indices, and its inputs."""
    domain, index, operands, _, _, attributes = REWRITTEN[name]
    op_type = name.split(" ")[0]
    wide = not domain or op_type in ("GatherND", "ArrayFeatureExtractor")
    operands = list(operands)
    operands[index] = np.array(indices, np.int64 if wide or "Rot" in name else np.int32)
    outputs = ["y", "m:int32"] if op_type.startswith("Embed") else ["y"]
    outputs = ["y", "k", "v"] if op_type.startswith("Group") else outputs
    constants = [6] if op_type.startswith("Group") else []
    constants += [index] if constant else []
    made = model_of(op_type, operands, outputs, constants, domain, **attributes)
    made.graph.node[0].name = "culprit"
    made.opset_import[0].version, made.ir_version = 24, 11
    made.opset_import.add(domain="ai.onnx.ml", version=3)
    return made, fed(made, operands)


def model(inputs: str, node: str) -> onnx.ModelProto:
    """A node named `culprit` with run-time indices."""
    weights = {"u": np.ones(1, np.float32)} if "u)" in node else {}
    weights |= {"w": np.ones((1, 3, 1), np.float32)} if "w" in node else {}
    return parse(f"g ({inputs}) => (float[a] y) {{ [culprit] y = {node} }}", **weights)


def without_ranks(made: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an output of any rank."""
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("name", CASES)
def test_a_further_output_says_whether_indices_are_in_range(name: str):
    inputs, node, valid, wrong = CASES[name]
    imported = import_model(without_ranks(model(inputs, node)), check_indices=True)
    exported = export_model(imported.module, imported.weights)
    (check,) = (o.name for o in exported.graph.output if o.name.startswith(IN_RANGE))
    assert f"{node.split('(')[0].split('<')[0]} culprit: input" in check
    only = onnx.utils.Extractor(exported).extract_model(["i"], [check])
    dtype = np.int32 if "int32" in inputs else np.int64
    for indices, expected in ((valid, 1), (wrong, 0)):
        assert run(only, {"i": np.array(indices, dtype)})[0] == expected


@pytest.mark.parametrize("name", REWRITTEN)
def test_indices_of_what_rules_rewrite_are_checked(name: str):
    _, index, _, valid, wrong, _ = REWRITTEN[name]
    made, feeds = rewritten(name, valid, constant=False)
    module = compiler.compile(made, budget=0, threads=1, check_indices=True)
    assert "y" in module.run(feeds)
    _, feeds = rewritten(name, wrong, constant=False)
    with pytest.raises(InputDataError, match=f"culprit: input {index} must be in"):
        module.run(feeds)
    made, _ = rewritten(name, wrong, constant=True)
    with pytest.raises(ShapeError, match=f"culprit.*input {index} has the index"):
        import_model(made)


def test_a_graph_is_not_changed_unless_asked():
    imported = import_model(without_ranks(model(*CASES["Gather"][:2])))
    assert len(graph_of(imported.module).output_names) == 1


def test_constant_indices_have_no_check():
    made = parse("g (float[4] x) => (float[1] y) { y = Gather(x, i) }", i=np.array([-4], np.int64))
    graph = graph_of(import_model(made, check_indices=True).module)
    assert [name.data for name in graph.output_names] == ["y"]


def test_the_names_of_checks_are_reserved():
    made = parse("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    made.graph.node[0].output[0] = made.graph.output[0].name = f"{IN_RANGE}mine"
    with pytest.raises(ModelError, match=r"'flowloom\.in-range/mine'.*rename it"):
        import_model(made)


def test_modules_report_and_hide_their_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made = parse("g (float[5,2] x, int64[3] i) => (float[3,2] y) { [embed] y = Gather(x, i) }")
    module = compiler.compile(made, check_indices=True)
    module.save(tmp_path / "saved")
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    for loaded in (module, compiler.load(tmp_path / "saved")):
        assert [output.name for output in loaded.outputs] == ["y"]
        outputs = loaded.run({"x": x, "i": np.array([-5, 4, 0])})
        assert list(outputs) == ["y"]
        np.testing.assert_array_equal(outputs["y"], x[[-5, 4, 0]])
        with pytest.raises(InputDataError, match=r"Gather embed: input 1 must be in \[-5, 4\]"):
            loaded.run({"x": x, "i": np.array([0, 5, 0])})
    onnx.save(made, tmp_path / "model.onnx")
    np.savez(tmp_path / "wrong.npz", x=x, i=np.array([0, 5, 0]))
    given = ["run", str(tmp_path / "model.onnx"), "--inputs", str(tmp_path / "wrong.npz")]
    assert main(given) == 0
    assert main([*given, "--check-indices"]) == 1
    assert main([*given, "--check"]) == 1
    assert capsys.readouterr().err.count("InputDataError: an index is out of range") == 2


@pytest.mark.parametrize("index", [9, [9], [[0, 9]]])
def test_a_constant_is_refused_by_name(index: object):
    made = parse("g (float[5] x) => (float y) { [embed] y = Gather(x, i) }", i=np.array(index))
    with pytest.raises(ShapeError, match=r"Gather 'embed'.*the index 9.*\[-5, 4\]"):
        import_model(made)
