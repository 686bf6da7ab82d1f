"""Files of networks without their weights, `NAME.light.onnx`, which `examples.zoo.export` writes.

A stripped tensor keeps its shape, its type and a distribution in its `doc_string`; `load_file`
draws it again from its seed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

SUFFIX = ".light.onnx"
"""How the name of every such file ends."""

Array = np.ndarray[Any, np.dtype[Any]]


def files(folder: Path) -> dict[str, Path]:
    """The files of a folder and of those in it, by the networks' names, sorted."""
    found = {path.name.removesuffix(SUFFIX): path for path in folder.rglob(f"*{SUFFIX}")}
    return dict(sorted(found.items()))


def load_file(file: Path) -> onnx.ModelProto:
    """The model of a file with its weights, its graph named after it."""
    model = onnx.load(file)
    model.graph.name = file.name.removesuffix(SUFFIX)
    refill(model)
    return model


def refill(model: onnx.ModelProto) -> None:
    """Fill every stripped tensor of a model, in place."""
    for tensor in model.graph.initializer:
        if tensor.doc_string.startswith("{"):
            filled = numpy_helper.from_array(_draw(tensor), tensor.name)
            tensor.CopyFrom(filled)


def _draw(tensor: onnx.TensorProto) -> Array:
    """The values of a stripped tensor: a constant, normal floats or uniform integers."""
    spec = json.loads(tensor.doc_string)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    if spec["dist"] == "constant":
        return np.full(shape, spec["value"], dtype)
    generator = np.random.default_rng(spec["seed"])
    if spec["dist"] == "integers":
        return generator.integers(spec["low"], spec["high"], shape, dtype, endpoint=True)
    values = generator.standard_normal(shape, np.float32)
    values *= spec["std"]
    values += spec["mean"]
    return values.astype(dtype, copy=False)


def random_inputs(
    model: onnx.ModelProto, seed: int, vocabulary: int = 2, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Inputs of a loaded model: normal floats, and integers from zero to below `vocabulary`.

    `sizes` are those of open dimensions by name; raises KeyError for one that has none.
    """
    generator = np.random.default_rng(seed)
    given = {tensor.name for tensor in model.graph.initializer}
    return {
        info.name: _random(info, vocabulary, sizes or {}, generator)
        for info in model.graph.input
        if info.name not in given
    }


def _random(
    info: onnx.ValueInfoProto,
    vocabulary: int,
    sizes: Mapping[str, int],
    generator: np.random.Generator,
) -> Array:
    tensor = info.type.tensor_type
    shape = tuple(sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "f":
        return generator.standard_normal(shape, np.float32).astype(dtype, copy=False)
    return generator.integers(0, vocabulary, shape, dtype)
