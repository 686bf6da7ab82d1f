"""Models of usual exporters (`examples/exports`) against onnxruntime."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest

import compiler
from tests.program.checks import assert_equal, reference

EXPORTS = Path(__file__).parents[2] / "examples" / "exports"
Inputs = dict[str, np.ndarray]
Draw = Callable[..., np.ndarray]


def loaded(name: str) -> onnx.ModelProto:
    """An export."""
    return onnx.load_model_from_string((EXPORTS / name).read_bytes())


def tokens(generator: np.random.Generator, batch: int, length: int) -> Inputs:
    """Tokens, of which the last row has padding."""
    mask = np.ones((batch, length), np.int64)
    mask[-1, length // 2 + 1 :] = 0
    ids = generator.integers(0, 100, (batch, length))
    return {"input_ids": ids, "attention_mask": mask}


def rows(generator: np.random.Generator, count: int) -> Inputs:
    """Rows of a table, some of a kind that training did not see."""
    numbers = {name: generator.random((count, 1)).astype("f4") for name in ("age", "size")}
    kinds = generator.choice(["red", "green", "blue", "odd"], (count, 1))
    return {**numbers, "kind": kinds.astype(object)}


def cases(name: str) -> list[Inputs]:
    """Inputs of several shapes for an export."""
    generator = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype("f4")

    every: Mapping[str, list[Inputs]] = {
        "bert": [tokens(generator, *s) for s in ((1, 7), (2, 9), (1, 1), (3, 30))],
        "bert_dynamo": [tokens(generator, *s) for s in ((1, 7), (3, 30))],
        "bert_dynamic": [tokens(generator, *s) for s in ((1, 7), (2, 9))],
        "speech": [{"features": draw(1, 20, frames)} for frames in (40, 41, 7)],
        "lstm_if": [
            {"x": draw(n, 32), "state": draw(2, 1, 16), "rate": np.array(rate)}
            for n, rate in ((7, 16), (7, 8))
        ],
        "detector": [{"image": draw(1, 3, 64, 64)}, {"image": draw(2, 3, 48, 80)}],
        "cnn_qdq": [{"x": draw(1, 3, 32, 32)}],
        "cnn_qoperator": [{"x": draw(1, 3, 32, 32)}],
        "pipeline": [rows(generator, count) for count in (1, 40)],
    }
    return every[name]


@pytest.mark.parametrize(
    "name",
    [
        "bert",
        "bert_dynamo",
        "bert_dynamic",
        "speech",
        "lstm_if",
        "detector",
        "cnn_qdq",
        "cnn_qoperator",
        "pipeline",
    ],
)
def test_an_export_is_right_at_every_shape(name: str):
    model = loaded(f"{name}.onnx")
    module = compiler.compile(EXPORTS / f"{name}.onnx")
    for inputs in cases(name):
        found, expected = module.run(inputs), reference(model, inputs)
        for output, wanted in expected.items():
            assert_equal(found[output], wanted)


def test_a_dynamically_quantised_lstm_is_close_to_onnxruntime():
    module = compiler.compile(EXPORTS / "lstm_dynamic.onnx")
    for steps in (5, 9):
        x = np.random.default_rng(steps).standard_normal((steps, 1, 16)).astype("f4")
        wanted = reference(loaded("lstm_dynamic.onnx"), {"x": x})["y"]
        np.testing.assert_allclose(module.run({"x": x})["y"], wanted, atol=0.02)


def test_a_model_that_onnxruntime_optimised_is_the_same(tmp_path: Path):
    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    runtime.InferenceSession(str(EXPORTS / "bert.onnx"), options)
    model = onnx.load_model_from_string((tmp_path / "optimised.onnx").read_bytes())
    fused = {node.op_type for node in model.graph.node if node.domain == "com.microsoft"}
    assert {"BiasGelu", "FusedMatMul"} <= fused
    module = compiler.compile(model)
    inputs = tokens(np.random.default_rng(0), 2, 9)
    for name, wanted in reference(loaded("bert.onnx"), inputs).items():
        np.testing.assert_allclose(module.run(inputs)[name], wanted, rtol=1e-4, atol=1e-4)
