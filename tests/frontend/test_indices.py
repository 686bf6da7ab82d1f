"""Indices that are data: constants out of range are refused, others can be reported."""

from pathlib import Path

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
