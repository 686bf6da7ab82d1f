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
ALIKE = {"bert512", "googlenet", "nasnetalarge", "pnasnet5large", "resnext50"} | {
    f"light_{name}"
    for name in ("densenet121", "inception_v1", "inception_v2", "resnet50", "vgg19", "zfnet512")
}
"""Large models whose kinds of layers other models here have too."""
OTHERS = set(zoo.others()) - {"distilbert"}
"""Of the other networks the one that compiles fastest is part of every run of the tests."""


def marked(name: str, value: object) -> Any:
    large = name in {"gpt2large", *ALIKE, *OTHERS}
    return pytest.param(value, id=name, marks=pytest.mark.deep if large else ())


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


def test_there_are_light_models():
    assert len(LIGHT) >= 9


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
