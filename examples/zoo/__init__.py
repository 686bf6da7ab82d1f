"""Networks exported from timm, torchvision and transformers, without their weights.

Sixteen are the zoo; on ten others, for which nothing has been tuned, the compiler is judged, as on
those of `examples.field`.
"""

from pathlib import Path

import onnx

from examples import light
from examples.light import load_file as load_file
from examples.light import refill as refill

MODELS = Path(__file__).parent / "models"
OTHERS = Path(__file__).parent / "others"
_VOCABULARY = {
    "bert128": 30_000,
    "bert512": 30_000,
    "deepfm": 10_000,
    "distilbert": 30_000,
    "gpt2large": 50_000,
    "t5small": 30_000,
}


def names() -> list[str]:
    """The names of the zoo's sixteen models, sorted."""
    return [*light.files(MODELS)]


def others() -> list[str]:
    """The names of the ten networks for which nothing has been tuned, sorted."""
    return [*light.files(OTHERS)]


def path(name: str) -> Path:
    """The file of a model without weights; raises KeyError for an unknown name."""
    known = light.files(MODELS) | light.files(OTHERS)
    if name not in known:
        raise KeyError(f"the zoo has no model {name!r}; it has {', '.join(known)}")
    return known[name]


def load(name: str) -> onnx.ModelProto:
    """A model with its weights, its graph named after it; raises KeyError for an unknown name.

    `gpt2large` is 3 GB, more than one protobuf message can be written as: save it with external
    data.
    """
    return load_file(path(name))


def random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, light.Array]:
    """Inputs of a loaded model: normal floats, and tokens within its embeddings' vocabulary."""
    return light.random_inputs(model, seed, _VOCABULARY.get(model.graph.name, 2))
