"""Models with weights of four bits: they stay packed in matmuls of few rows, dumps included."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.frontend.export import export_model
from compiler.frontend.importing import Imported
from compiler.frontend.interpreter import run as interpreter
from compiler.ir.dataflow import OperatorOp
from compiler.rewrite.quantised.four_bits import MOST_PACKED_ROWS
from tests.frontend.checks import run
from tests.lowered import import_lowered
from tests.strategies import FourBitMatmul, four_bit_operands

Array = np.ndarray


def n_bits(matmul: FourBitMatmul, bias: bool = False) -> onnx.ModelProto:
    """A model of one MatMulNBits and a Relu."""
    x, *weights = matmul.operands
    names = ["b", "scales", "zeros"][: len(weights)]
    inputs, given = ["x", *names], dict(zip(names, weights, strict=True))
    if bias:
        inputs = [*["x", *names, *[""] * (5 - 1 - len(names))], "bias"]
        given["bias"] = np.linspace(-1, 1, matmul.attributes["N"]).astype(np.float32)
    attributes: dict[str, Any] = {**matmul.attributes}
    node = helper.make_node("MatMulNBits", inputs, ["t"], domain="com.microsoft", **attributes)
    return _model([node, helper.make_node("Relu", ["t"], ["y"])], x.shape, given)


def _model(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], given: Mapping[str, Array]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "four_bits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in given.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def operators(imported: Imported) -> list[str]:
    """The operators of a graph."""
    return [op.type_name for op in imported.module.walk() if isinstance(op, OperatorOp)]


def near(result: Array, wanted: Array) -> None:
    """Fail where results differ by more than rounding."""
    scale = float(np.abs(wanted).max())
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=2e-5 * scale)


@pytest.mark.parametrize("zeros", ["", "uint8", "float32"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_dump_runs_under_onnxruntime(zeros: str, bias: bool):
    matmul = four_bit_operands([2, 3], 72, 10, 16, zeros)
    model, (x, packed, *_) = n_bits(matmul, bias), matmul.operands
    imported = import_lowered(model)
    assert "MatMulNBits" in operators(imported)
    assert any(np.array_equal(w, packed) for w in imported.weights.values())
    wanted = run(model, {"x": x})[0]
    near(run(export_model(imported.module, imported.weights), {"x": x})[0], wanted)
    feeds = interpreter.interpret(imported.module, imported.weights, {"x": x})
    near(next(iter(feeds.values())), wanted)


@pytest.mark.parametrize("target", ["cpu", "emu"])
@pytest.mark.parametrize("zeros", ["", "uint8"])
def test_compiled_models_agree_with_onnxruntime(target: str, zeros: str):
    matmul = four_bit_operands([1, 3], 288, 36, 32, zeros)
    model, x = n_bits(matmul), matmul.operands[0]
    module = compiler.compile(model, target=target)
    near(module.run({"x": x})["y"], run(model, {"x": x})[0])


def test_many_rows_multiply_floats():
    for rows, kind in ((MOST_PACKED_ROWS, "MatMulNBits"), (MOST_PACKED_ROWS + 1, "MatMul")):
        matmul = four_bit_operands([rows], 32, 8, 16, "uint8")
        imported = import_lowered(n_bits(matmul))
        assert operators(imported) == [kind, "Relu"]
        outputs = interpreter.interpret(
            imported.module, imported.weights, {"x": matmul.operands[0]}
        )
        near(next(iter(outputs.values())), np.maximum(matmul.expected, 0))


def test_an_artifact_holds_packed_weights(tmp_path: Path):
    matmul = four_bit_operands([1], 1024, 512, 128)
    module = compiler.compile(n_bits(matmul), target="cpu")
    module.save(tmp_path)
    stored = sum(file.stat().st_size for file in tmp_path.rglob("*") if "weights" in file.name)
    assert 1024 * 512 // 2 <= stored < 1024 * 512 * 0.6
    x = matmul.operands[0]
    near(compiler.load(tmp_path).run({"x": x})["y"], np.maximum(matmul.expected, 0))


def dequantised_model(
    dtype: str, scales: Array, zeros: bool, operator: str, rows: int = 3, **attributes: Any
) -> tuple[onnx.ModelProto, Array]:
    """A matmul by a dequantised constant of 64 x 24, or transposed for a Gemm, and its input."""
    random, gemm = np.random.default_rng(5), operator == "Gemm"
    low, high = (-8, 8) if dtype == "int4" else (0, 16)
    element = np.dtype(getattr(ml_dtypes, dtype))
    weight = random.integers(low, high, (24, 64) if gemm else (64, 24)).astype(element)
    given = {"w": weight, "s": scales}
    if zeros:
        given["z"] = random.integers(low, high, scales.shape).astype(element)
    nodes = [helper.make_node("DequantizeLinear", [*given], ["f"], **attributes)]
    x = random.standard_normal((rows, 64)).astype(np.float32)
    if gemm:
        given["c"] = random.standard_normal(24).astype(np.float32)
        nodes.append(helper.make_node("Gemm", ["x", "f", "c"], ["y"], transB=1, beta=0.5))
    else:
        nodes.append(helper.make_node("MatMul", ["x", "f"], ["y"]))
    return _model(nodes, x.shape, given), x


def positive(*shape: int) -> Array:
    """Random scales."""
    return np.random.default_rng(2).uniform(0.01, 0.1, shape).astype(np.float32)


CASES: dict[str, tuple[Array, str, dict[str, int]]] = {
    "whole": (positive(), "MatMul", {}),
    "by column": (positive(24), "MatMul", {"axis": 1}),
    "in blocks": (positive(4, 24), "MatMul", {"axis": 0, "block_size": 16}),
    "in blocks that are two": (positive(1, 24), "MatMul", {"axis": 0, "block_size": 64}),
    "by row of a Gemm": (positive(24), "Gemm", {"axis": 0}),
    "in blocks of a Gemm": (positive(24, 2), "Gemm", {"axis": 1, "block_size": 32}),
}


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_dequantised_constants_stay_packed(case: str, dtype: str, zeros: bool):
    scales, operator, attributes = CASES[case]
    model, x = dequantised_model(dtype, scales, zeros, operator, **attributes)
    imported = import_lowered(model)
    assert "MatMulNBits" in operators(imported)
    assert max(w.nbytes for w in imported.weights.values()) == 64 * 24 // 2
    wanted = run(model, {"x": x})[0]
    near(run(export_model(imported.module, imported.weights), {"x": x})[0], wanted)
    near(compiler.compile(model, target="cpu").run({"x": x})["y"], wanted)


@pytest.mark.parametrize(
    ("scales", "attributes"),
    [
        (positive(64), {"axis": 0}),
        (positive(64, 3), {"axis": 1, "block_size": 8}),
        (positive(8, 24), {"axis": 0, "block_size": 8}),
    ],
)
def test_other_blocks_are_floats(scales: Array, attributes: dict[str, int]):
    model, x = dequantised_model("int4", scales, False, "MatMul", **attributes)
    imported = import_lowered(model)
    assert operators(imported) == ["MatMul"]
    wanted = run(model, {"x": x})[0]
    near(run(export_model(imported.module, imported.weights), {"x": x})[0], wanted)


def test_constants_of_many_rows_are_floats():
    model, _ = dequantised_model(
        "int4", positive(24), False, "MatMul", MOST_PACKED_ROWS + 1, axis=1
    )
    assert operators(import_lowered(model)) == ["MatMul"]
