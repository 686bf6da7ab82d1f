"""Every zoo model, every other network and every light model of the wheel matches onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.tools.comparison import compare
from compiler.tools.reference import run_onnxruntime
from examples import zoo

ALL = [*zoo.names(), *zoo.others()]
LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))
KINDS = {
    "deepfm": "tables of embeddings",
    "rnntc_sru": "recurrences",
    "t5small": "attention across an encoder and a decoder, on one stream and on four",
    "distilbert": "attention as exporters write it",
    "unet": "skips over many layers, transposed convolutions",
    "resnet50": "residuals and normalisations that fold",
    "light_squeezenet": "branches of convolutions, on one stream and on four",
    "light_shufflenet": "groups of convolutions and channels that change places",
}
"""The networks of every run of the tests, for what each has and no smaller one; others are deep."""


def marked(name: str, value: object) -> Any:
    return pytest.param(value, id=name, marks=() if name in KINDS else pytest.mark.deep)


def check(model: Any, inputs: dict[str, np.ndarray[Any, Any]], *streams: int) -> None:
    """Compare with onnxruntime on so many streams, from one set of kernels."""
    expected = run_onnxruntime(model, inputs)
    for count in streams:
        pipeline = compiler.DEFAULT_PIPELINE.replace("streams=4", f"streams={count}")
        module = compiler.compile(model, pipeline=pipeline)
        assert module.schedule.streams <= count
        report = compare(module.run(inputs), expected)
        assert report.passed, str(report)


@pytest.mark.parametrize("name", [marked(name, name) for name in ALL])
def test_zoo_model_matches_onnxruntime(name: str):
    model = zoo.load(name)
    streams = (4, 1) if name == "t5small" else (4,)
    check(model, zoo.random_inputs(model, seed=1), *streams)


def test_the_networks_of_every_run_are_there():
    assert len(LIGHT) >= 9
    assert {*KINDS} <= {*ALL, *(path.stem for path in LIGHT)}


@pytest.mark.parametrize("path", [marked(path.stem, path) for path in LIGHT])
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
    streams = (4, 1) if path.stem == "light_squeezenet" else (4,)
    check(model, inputs, *streams)
