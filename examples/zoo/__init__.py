"""Networks exported from timm, torchvision and transformers, without their weights.

Sixteen are the zoo; on ten others, for which nothing has been tuned, the compiler is judged.

A stripped weight keeps its shape, its type and a distribution in its `doc_string`; `load` draws
it again from its seed.
"""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

MODELS = Path(__file__).parent / "models"
OTHERS = Path(__file__).parent / "others"
_SUFFIX = ".light.onnx"
_VOCABULARY = {
    "bert128": 30_000,
    "bert512": 30_000,
    "deepfm": 10_000,
    "distilbert": 30_000,
    "gpt2large": 50_000,
    "t5small": 30_000,
}


def _names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))


def names() -> list[str]:
    """The names of the zoo's sixteen models, sorted."""
    return _names(MODELS)


def others() -> list[str]:
    """The names of the ten networks for which nothing has been tuned, sorted."""
    return _names(OTHERS)


def path(name: str) -> Path:
    """The file of a model without weights; raises KeyError for an unknown name."""
    for folder in (MODELS, OTHERS):
        if name in _names(folder):
            return folder / f"{name}{_SUFFIX}"
    known = ", ".join([*names(), *others()])
    raise KeyError(f"the zoo has no model {name!r}; it has {known}")


def _draw(tensor: onnx.TensorProto) -> np.ndarray:
    """The values of a stripped tensor: a constant, or a normal distribution from its seed."""
    spec = json.loads(tensor.doc_string)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    if spec["dist"] == "constant":
        return np.full(shape, spec["value"], dtype)
    values = np.random.default_rng(spec["seed"]).standard_normal(shape, np.float32)
    values *= spec["std"]
    values += spec["mean"]
    return values.astype(dtype, copy=False)


def refill(model: onnx.ModelProto) -> None:
    """Fill every stripped weight of a model, in place."""
    for tensor in model.graph.initializer:
        if tensor.doc_string.startswith("{"):
            filled = numpy_helper.from_array(_draw(tensor), tensor.name)
            tensor.CopyFrom(filled)


def load(name: str) -> onnx.ModelProto:
    """A model with its weights, its graph named after it; raises KeyError for an unknown name.

    `gpt2large` is 3 GB, more than one protobuf message can be written as: save it with external
    data.
    """
    return load_file(path(name))


def load_file(file: Path) -> onnx.ModelProto:
    """The same of a file of `examples.zoo.export`, such as a model's of another batch size."""
    model = onnx.load(file)
    model.graph.name = file.name.removesuffix(_SUFFIX)
    refill(model)
    return model


def _random(info: onnx.ValueInfoProto, vocabulary: int, generator: np.random.Generator):
    tensor = info.type.tensor_type
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "f":
        return generator.standard_normal(shape, np.float32).astype(dtype, copy=False)
    return generator.integers(0, vocabulary, shape, dtype)


def random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Inputs of a loaded model: normal floats, and tokens within its embeddings' vocabulary."""
    generator = np.random.default_rng(seed)
    given = {tensor.name for tensor in model.graph.initializer}
    vocabulary = _VOCABULARY.get(model.graph.name, 2)
    return {
        info.name: _random(info, vocabulary, generator)
        for info in model.graph.input
        if info.name not in given
    }
