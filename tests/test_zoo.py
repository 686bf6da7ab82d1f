"""Every zoo model, and every light model of the onnx wheel, matches onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.tools.reference import compare, run_onnxruntime
from examples import zoo

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))
ZOO = [
    pytest.param(name, marks=pytest.mark.large if name == "gpt2large" else ())
    for name in zoo.names()
]


def check(model: Any, inputs: dict[str, np.ndarray[Any, Any]]) -> None:
    """Compare with onnxruntime on one stream and on four, from one set of kernels."""
    expected = run_onnxruntime(model, inputs)
    for streams in (1, 4):
        pipeline = compiler.DEFAULT_PIPELINE.replace("streams=4", f"streams={streams}")
        module = compiler.compile(model, pipeline=pipeline)
        assert module.schedule.streams <= streams
        report = compare(module.run(inputs), expected)
        assert report.passed, str(report)


@pytest.mark.parametrize("name", ZOO)
def test_zoo_model_matches_onnxruntime(name: str):
    model = zoo.load(name)
    check(model, zoo.random_inputs(model, seed=1))


def test_there_are_light_models():
    assert len(LIGHT) >= 9


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_light_model_matches_onnxruntime(path: Path):
    model = onnx.load_model_from_string(path.read_bytes())
    generator = np.random.default_rng(2)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {
        value.name: generator.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
        if value.name not in weights
    }
    check(model, inputs)
